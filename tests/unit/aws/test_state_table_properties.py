"""The state table and its twin side by side: whatever is done in whatever order, they answer the
same.

And among all who try at once, one wins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from governor.approvals.model.approval import Answer, ApprovalStatus
from governor.approvals.rules.approval import STATUS_AFTER
from governor.aws.clients import Clients
from governor.core.errors import ConflictError, GovernorError
from governor.core.instance import Target
from governor.episode.model.episode import Outcome
from governor.limits.model.breaker import BreakerState
from governor.money.model.ledger import Ending
from tests.episodes import ending_of
from tests.properties import examples
from tests.twins import MemoryStateTable
from tests.twins.stores import EveryStore
from tests.unit.aws.state_samples import (
    NOW,
    TABLE,
    TARGET,
    decision,
    dynamo_table,
    entry,
    episode,
    ref,
)

INSTANCES = ("i-0000000a", "i-0000000b")
NUMBERS = (1, 2, 3)
instances = st.sampled_from(INSTANCES)
numbers = st.sampled_from(NUMBERS)
minutes = st.integers(0, 3).map(lambda count: NOW + timedelta(minutes=count))


def approval_id(instance_id: str, number: int) -> str:
    """The approval of an episode."""
    return f"approval-{instance_id}-{number}"


class BothTables(RuleBasedStateMachine):
    """Runs each step on both and compares the answers, errors included."""

    asked = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self._clients = Clients()
        self.dynamo: EveryStore = dynamo_table(self._clients)
        self.memory: EveryStore = MemoryStateTable()
        self.settled: dict[str, ApprovalStatus] = {}
        self.locks_won: set[tuple[str, int]] = set()
        self.closes_won: set[tuple[str, int]] = set()
        self.steps = count()

    def teardown(self) -> None:
        """Compares once more, and leaves no table to the next example."""
        self._compare()
        self._clients.client("dynamodb").delete_table(TableName=TABLE)

    def both(self, step: Callable[[EveryStore], Any]) -> Any:
        """The common answer of both tables."""
        expected, found = _outcome(step, self.memory), _outcome(step, self.dynamo)
        assert expected == found
        return expected

    @rule(instance=instances, number=numbers)
    def take_lock(self, instance: str, number: int) -> None:
        """Opens an episode."""
        before = self.memory.record(TARGET, instance).open_episode
        if (
            self.both(lambda table: table.take_lock(ref(number, instance))) is True
            and before is None
        ):
            assert (instance, number) not in self.locks_won, "a number was used twice"
            self.locks_won.add((instance, number))

    @rule(target=asked, instance=instances, number=numbers)
    def save_opened(self, instance: str, number: int) -> tuple[str, int]:
        """Saves it, with its question."""
        opened = episode(number, approval_id(instance, number), instance)
        self.both(lambda table: table.save_opened(opened))
        return instance, number

    @rule(
        instance=instances, number=numbers, at=minutes, step=st.sampled_from(["stop", "terminate"])
    )
    def clear_step(self, instance: str, number: int, at: Any, step: str) -> None:
        """Lets a step through."""
        self.both(lambda table: table.clear_step(ref(number, instance), step, at))

    @rule(
        instance=instances,
        number=numbers,
        at=minutes,
        step=st.sampled_from(["stop", "cancel-spot-request"]),
    )
    def note_step(self, instance: str, number: int, at: Any, step: str) -> None:
        """Notes a step."""
        self.both(lambda table: table.note_step(ref(number, instance), step, at))

    @rule(
        instance=instances,
        number=numbers,
        outcome=st.sampled_from([Outcome.STOPPED, Outcome.KEPT, Outcome.FAILED]),
        quiet=st.booleans(),
        books=st.booleans(),
    )
    def close(self, instance: str, number: int, outcome: Outcome, quiet: bool, books: bool) -> None:
        """Closes it."""
        closed = self.both(
            lambda table: table.close_episode(
                ref(number, instance),
                outcome,
                "why",
                NOW,
                quiet_until=NOW if quiet else None,
                ledger=entry(number, NOW, instance) if books else None,
            )
        )
        if closed is True:
            assert (instance, number) in self.locks_won
            assert (instance, number) not in self.closes_won, "an episode was closed twice"
            self.closes_won.add((instance, number))

    @rule(which=asked, token=st.sampled_from(["t-1", "t-2"]), at=minutes)
    def await_answer(self, which: tuple[str, int], token: str, at: Any) -> None:
        """Binds a token."""
        self.both(lambda table: table.await_answer(approval_id(*which), token, "ask", at))

    @rule(
        which=asked,
        answer=st.sampled_from([one for one in Answer if one is not Answer.HOLD]),
        by=st.sampled_from(["ada", "bob"]),
    )
    def settle(self, which: tuple[str, int], answer: Answer, by: str) -> None:
        """Answers."""
        answered = self.both(lambda table: table.settle(approval_id(*which), decision(answer, by)))
        self._won(which, answered)

    @rule(which=asked, expired=st.booleans())
    def void(self, which: tuple[str, int], expired: bool) -> None:
        """Takes the question back."""
        self._won(
            which, self.both(lambda table: table.void(approval_id(*which), "why", expired=expired))
        )

    def _won(self, which: tuple[str, int], answered: Any) -> None:
        if not isinstance(answered, type):
            assert approval_id(*which) not in self.settled, "a question was decided twice"
            self.settled[approval_id(*which)] = answered.status

    @rule(instance=instances, number=numbers, false_stop=st.booleans())
    def settle_entry(self, instance: str, number: int, false_stop: bool) -> None:
        """Ends a saving."""
        booked = entry(number, NOW, instance)
        why = Ending.UNDONE if false_stop else Ending.STARTED
        self.both(lambda table: table.settle_entry(booked, NOW, why, NOW))

    @rule(instance=instances, at=st.none() | minutes)
    def set_marked(self, instance: str, at: Any) -> None:
        """Notes a mark."""
        self.both(lambda table: table.set_marked(TARGET, at, instance))

    @rule(instance=instances, at=minutes)
    def note_warned(self, instance: str, at: Any) -> None:
        """EC2 takes it back."""
        self.both(lambda table: table.note_warned(TARGET, {instance: at}))

    @rule(instance=instances, at=minutes)
    def drop_warning(self, instance: str, at: Any) -> None:
        """It is over."""
        self.both(lambda table: table.drop_warning(TARGET, instance, at))

    @rule(instance=instances)
    def clear_quiet(self, instance: str) -> None:
        """Work resumes."""
        self.both(lambda table: table.clear_quiet(TARGET, instance))

    @rule(tripped=st.booleans(), at=minutes)
    def set_breaker(self, tripped: bool, at: Any) -> None:
        """Trips or releases."""
        state = BreakerState(at, "why")
        self.both(
            lambda table: (
                table.set_breaker(TARGET, state) if tripped else table.reset_breaker(TARGET, state)
            )
        )

    @invariant()
    def same_contents(self) -> None:
        """Everything that can be read is the same in both; looked at now and then, for it is
        much."""
        if next(self.steps) % 5 == 0:
            self._compare()

    def _compare(self) -> None:
        self.both(lambda table: dict(table.records(TARGET)))
        self.both(lambda table: table.breaker(TARGET))
        self.both(lambda table: list(table.entries("2026-11")))
        for instance in INSTANCES:
            self._same_instance(instance)

    def _same_instance(self, instance: str) -> None:
        self.both(lambda table: list(table.open_entries(TARGET, instance)))
        for number in NUMBERS:
            known, question = ref(number, instance), approval_id(instance, number)
            self.both(lambda table, known=known: table.episode(known))  # type: ignore[misc]
            self.both(lambda table, question=question: table.approval(question))  # type: ignore[misc]

    @invariant()
    def decisions_stand(self) -> None:
        """A decision stays as it was made first."""
        for known, status in self.settled.items():
            approval = self.dynamo.approval(known)
            assert approval is not None
            assert status is approval.status


def _outcome(step: Callable[[EveryStore], Any], table: EveryStore) -> Any:
    try:
        return step(table)
    except GovernorError as error:
        return type(error)


@pytest.mark.repeats
@pytest.mark.usefixtures("aws")
def test_both_tables_answer_the_same() -> None:
    """Random steps in random order: equal answers, equal contents, and each decision taken once."""
    run_state_machine_as_test(
        BothTables,
        settings=settings(
            max_examples=examples(3, 100),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.fixture(params=["memory", "dynamodb"])
def table(request: pytest.FixtureRequest) -> EveryStore:
    """Each implementation, empty."""
    if request.param == "memory":
        return MemoryStateTable()
    request.getfixturevalue("aws")
    return dynamo_table(AtomicClients())


class AtomicClients(Clients):
    """DynamoDB carries out each request as a whole; moto in several threads does so only in
    turns."""

    def client(
        self,
        service: str,
        target: Target | None = None,
        *,
        repeat: bool = True,
        long_timeout: bool = True,
    ) -> Any:
        """The client, one call at a time; threads still take turns between calls."""
        return _OneAtATime(
            super().client(service, target, repeat=repeat, long_timeout=long_timeout)
        )


_turn = threading.Lock()


class _OneAtATime:
    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(**parameters: Any) -> Any:
            with _turn:
                return method(**parameters)

        return call


def at_once(steps: list[Callable[[], bool]]) -> list[bool]:
    """Runs the steps in threads that start together; what each returned."""
    results: list[bool] = [False] * len(steps)
    start = threading.Barrier(len(steps))

    def run(number: int) -> None:
        start.wait(timeout=300)
        results[number] = steps[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    return results


def wins(change: Callable[[], object]) -> bool:
    """Return whether a conditional change went through."""
    try:
        change()
    except ConflictError:
        return False
    return True


def test_of_many_locks_at_once_one_is_taken(table: EveryStore) -> None:
    """Ten sweeps see ten next numbers; one episode opens."""
    taken = at_once([lambda n=n: table.take_lock(ref(n)) for n in range(1, 11)])  # type: ignore[misc]

    assert 1 == sum(taken)
    assert ref(taken.index(True) + 1) == table.record(TARGET, ref().instance_id).open_episode


def test_of_many_answers_at_once_one_counts(table: EveryStore) -> None:
    """Ten people and the expiry answer at the same moment; one status stands, with its own hold."""
    table.take_lock(ref())
    table.save_opened(episode())
    answers = [*(decision(answer, f"p{n}") for n, answer in enumerate([*STATUS_AFTER] * 3))]
    steps: list[Callable[[], bool]] = [
        lambda answer=answer: wins(lambda: table.settle("approval-1", answer))  # type: ignore[misc]
        for answer in answers
    ]
    steps.append(lambda: wins(lambda: table.void("approval-1", "expired", expired=True)))

    won = at_once(steps)

    assert 1 == sum(won)
    approval = table.approval("approval-1")
    assert approval is not None
    winner = won.index(True)
    assert (answers[winner] if winner < len(answers) else None) == approval.decision


def test_of_many_closes_at_once_one_books(table: EveryStore) -> None:
    """Ten closers of one episode; one outcome, one ledger entry."""
    table.take_lock(ref())
    table.save_opened(episode())

    def close(number: int) -> bool:
        booked = replace(entry(), booked_at=NOW + timedelta(seconds=number))
        return table.close_episode(
            ref(), Outcome.STOPPED, f"closer {number}", NOW, quiet_until=None, ledger=booked
        )

    closed = at_once([lambda n=n: close(n) for n in range(10)])  # type: ignore[misc]

    assert 1 == sum(closed)
    stored = table.episode(ref())
    assert stored is not None
    assert f"closer {closed.index(True)}" == ending_of(stored).reason
    assert 1 == len(table.entries("2026-11"))
