"""Two sweeps of one target at once, interleaved at every call: they leave what one sweep leaves."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import wraps
from itertools import islice
from typing import Any

import pytest

from governor.approvals.model.approval import ApprovalStatus
from governor.episode.model.episode import Outcome
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.table.table import Document
from tests.builders import NOW, TARGET
from tests.properties import examples, step
from tests.twins import MemoryEc2, MemoryMetrics, MemoryWorkflow, RecordingAnnouncer
from tests.twins.table import MemoryStateTable, MemoryTable
from tests.unit.aws.state_samples import observation
from tests.unit.worlds.builders import approval_id_of, decision, open_question, stored_approval
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld
from tests.unit.worlds.world import PEOPLE

BUSY, QUIET = [90.0] * 12, [1.0] * 12
CALLS: dict[type, tuple[str, ...]] = {
    MemoryTable: ("get", "get_all", "query", "write", "transact"),
    MemoryEc2: ("list_selected", "list_ungoverned", "set_tags"),
    MemoryMetrics: ("read", "list_series"),
    MemoryWorkflow: ("start", "is_running", "answer"),
    RecordingAnnouncer: ("announce",),
}
"""Every way out of a sweep."""


def paged(query: Callable[..., Iterator[Document]]) -> Callable[..., Iterator[Document]]:
    """Read a memory two chunks at a time: a query of DynamoDB ends its page at 1 MB."""

    def read(*given: Any, after: str | None = None) -> Iterator[Document]:
        if "OBSERVATIONS#" not in given:
            yield from query(*given, after=after)
            return
        while page := [*islice(query(*given, after=after), 2)]:
            yield from page
            after = page[-1]["sk"]

    return read


@contextmanager
def switched(switch: Callable[[], None]) -> Iterator[None]:
    """Before every call something else may run. What a twin calls of itself is part of the call."""
    inside = threading.local()

    def at(real: Any) -> Any:
        @wraps(real)
        def call(*given: Any, **more: Any) -> Any:
            if getattr(inside, "call", False):
                return real(*given, **more)
            switch()
            inside.call = True
            try:
                return real(*given, **more)
            finally:
                inside.call = False

        return call

    with pytest.MonkeyPatch.context() as patched:
        for kind, names in CALLS.items():
            for name in names:
                patched.setattr(kind, name, at(getattr(kind, name)))
        patched.setattr(MemoryTable, "query", paged(MemoryTable.query))
        yield


def eventful() -> FleetWorld:
    """A fleet in which a sweep has something to do of every kind, an hour after the last one."""
    world = FleetWorld(hub=True)
    woken, dead, undelivered, quiet, gone, restarted = (world.add(number) for number in range(6))
    marked, silent = world.add(6), world.add(7, BUSY)
    world.add(8, BUSY)
    world.add(9, tags={"aws:autoscaling:groupName": "workers"})
    world.add(10, tags={"GpuGovernorExempt ": "true"})
    world.sweep()
    refs = {
        one: open_question(world, one) for one in (woken, dead, undelivered, quiet, gone, restarted)
    }
    later = NOW.replace(hour=NOW.hour + 1, minute=NOW.minute + 2)
    for one in (quiet, restarted):
        world.state.close_episode(
            refs[one],
            Outcome.EXPIRED,
            "nobody",
            NOW,
            quiet_until=later.replace(day=25),
        )
    world.workflow.executions[refs[dead].execution_name] = False
    world.state.settle(approval_id_of(undelivered), decision())
    for one in (woken, quiet, marked):
        world.publish(one, BUSY)
    world.silence(silent)
    world.change(gone, state="stopped")
    world.change(restarted, launch_time=later.replace(hour=NOW.hour - 1))
    world.add(11)
    world.clock.moment = later
    return world


def outage() -> FleetWorld:
    """Everything turns idle at once."""
    rule = Breaker(minimum_instances=2, hub_minimum_instances=2)
    world = FleetWorld(Policy(mode=Mode.ASK, ownership=PEOPLE, breaker=rule), hub=True)
    ids = [world.add(number, BUSY) for number in range(5)]
    world.sweep()
    for one in ids:
        world.publish(one, [1.0] * 48)
    world.clock.moment = NOW.replace(hour=NOW.hour + 3)
    return world


@pytest.fixture(params=[350_000, 120])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A memory of one chunk, as that of most fleets, and one of several, as that of 10,000
    instances."""
    most: int = request.param
    monkeypatch.setattr("governor.table.table._CHUNK_BYTES", most)
    return most


WORLDS = [eventful, outage]


def left_behind(world: FleetWorld) -> dict[str, Any]:
    """All that a sweep leaves. A message that is sent twice under one key is delivered once; of the
    caches, what they say of each instance, but for the words of one that the second sweep need not
    read."""
    page = world.state.page(TARGET)
    assert page is not None
    items = {
        # Of a failure the step is a guess where the other sweep has closed the episode meanwhile.
        key: {name: value for name, value in item.items() if name != "step"}
        for memory in (world.state.memory, world.log.memory)
        for key, item in memory.items.items()
        if not key[1].startswith("OBSERVATIONS#") and key[0] != "FLEET"
    }
    return {
        "items": items,
        "observations": {
            key: (
                one.verdict,
                one.launch_time,
                one.told_silent,
                one.idle_told_at,
                one.project,
                one.usd_per_hour,
            )
            for key, one in world.state.observations(TARGET).items()
        },
        "page": [(row.instance_id, row.verdict) for row in page.rows],
        "tags": {key: one.tags for key, one in world.ec2.instances.items()},
        "executions": world.workflow.executions,
        "answers": world.workflow.answers,
        "messages": {one.dedup_id: one.kind for one in world.announcer.sent},
    }


@dataclass
class Turns:
    """Lets one of two threads run, and changes between them where `chance` says so."""

    chance: random.Random
    share: float
    current: int = 0
    over: set[int] = field(default_factory=set)
    condition: threading.Condition = field(default_factory=threading.Condition)
    own: threading.local = field(default_factory=threading.local)

    def switch(self) -> None:
        """At a call: the other one may go on."""
        with self.condition:
            if self.chance.random() < self.share and not self.over:
                self.current = 1 - self.own.number
                self.condition.notify_all()
            self._wait()

    def run(self, number: int, what: Callable[[], object]) -> None:
        """One of the two, to its end."""
        self.own.number = number
        with self.condition:
            self._wait()
        try:
            what()
        finally:
            with self.condition:
                self.over.add(number)
                self.current = 1 - number
                self.condition.notify_all()

    def _wait(self) -> None:
        assert self.condition.wait_for(
            lambda: self.current == self.own.number or self.over, timeout=3600
        )


@pytest.mark.repeats
@pytest.mark.usefixtures("chunk_bytes")
@pytest.mark.parametrize("make", WORLDS)
def test_a_sweep_between_any_two_calls_of_another_changes_nothing(
    make: Callable[[], FleetWorld],
) -> None:
    """The second one runs whole before the first call of the first, the twelfth call, and so on.

    `make soak` tries every call.
    """
    alone, calls = make(), []
    with switched(lambda: calls.append(1)):
        alone.sweep()
    wanted = left_behind(alone)
    assert len(calls) > 15

    for number in range(0, len(calls), step(11)):
        world, left = make(), iter(range(number))
        done: list[bool] = []

        def switch(
            world: FleetWorld = world, left: Iterator[int] = left, done: list[bool] = done
        ) -> None:
            if not done and next(left, None) is None:
                done.append(True)
                world.sweep()

        with switched(switch):
            world.sweep()
        assert wanted == left_behind(world), number


@pytest.mark.repeats
@pytest.mark.usefixtures("chunk_bytes")
@pytest.mark.parametrize("make", WORLDS)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_two_sweeps_that_take_turns_leave_what_one_leaves(
    make: Callable[[], FleetWorld], share: float
) -> None:
    """At every call, at every second one, and for longer each."""
    alone = make()
    alone.sweep()
    wanted = left_behind(alone)

    for seed in range(1 if share == 1.0 else examples(2, 10)):
        world, turns = make(), Turns(random.Random(seed), share)
        with switched(turns.switch):
            threads = [
                threading.Thread(target=turns.run, args=(number, world.sweep))
                for number in range(2)
            ]
            for one in threads:
                one.start()
            for one in threads:
                one.join(60)
        assert wanted == left_behind(world), seed


def test_the_memory_has_as_many_chunks_as_it_should(chunk_bytes: int) -> None:
    world = eventful()
    chunks = [key for _, key in world.state.memory.items if key.startswith("OBSERVATIONS#")]
    assert (len(chunks) > 2) == (chunk_bytes < 350_000)


@pytest.mark.parametrize("minutes", [-1, 1])
@pytest.mark.parametrize("sizes", [(3, 12), (12, 3), (12, 11)])
def test_memories_that_are_written_and_read_at_once_never_blind_the_breaker(
    sizes: tuple[int, int], minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two calls of one, another writes its own, later or older, of a fleet that grew or
    shrank: at every moment one of them can be read. What a later sweep that goes on has saved
    stays."""
    monkeypatch.setattr("governor.table.table._CHUNK_BYTES", 120)
    seen = {f"i-{number:017x}": observation() for number in range(12)}
    first, second = (dict([*seen.items()][:size]) for size in sizes)
    later = NOW + timedelta(minutes=9)
    for number in range(12):
        state, left = MemoryStateTable(), iter(range(number))
        state.remember(TARGET, seen, NOW - timedelta(minutes=5))
        state.remember_part(TARGET, {"i-1": observation(at=later)}, later)

        done: list[str] = []

        def switch(
            state: MemoryStateTable = state, left: Any = left, done: list[str] = done
        ) -> None:
            if done and done[-1] == "reads":
                return
            done.append("reads")
            assert {"i-1"} < state.observations(TARGET).keys()
            done.pop()
            if "writes" not in done and next(left, None) is None:
                done.append("writes")
                state.remember(TARGET, second, NOW + timedelta(minutes=minutes))

        with switched(switch):
            state.remember(TARGET, first, NOW)
        assert {"i-1"} < state.observations(TARGET).keys()


@pytest.mark.parametrize("minutes", [-1, 1])
def test_a_memory_that_is_replaced_while_it_is_read_is_read_again(
    minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of its pages."""
    monkeypatch.setattr("governor.table.table._CHUNK_BYTES", 120)
    seen = {f"i-{number:017x}": observation() for number in range(12)}
    for number in range(6):
        state, left, done = MemoryStateTable(), iter(range(number)), list[int]()
        state.remember(TARGET, seen, NOW)

        def switch(
            state: MemoryStateTable = state, left: Any = left, done: list[int] = done
        ) -> None:
            if not done and next(left, None) is None:
                done.append(1)
                state.remember(TARGET, seen, NOW + timedelta(minutes=minutes))

        with switched(switch):
            assert seen == state.observations(TARGET), number


def test_the_fleet_gives_a_sweep_something_to_do_of_every_kind() -> None:
    """Or it would show nothing that nothing is doubled."""
    world = eventful()
    summary = world.sweep()
    sent = {one.kind.value for one in world.announcer.sent}

    assert [] == summary.problems
    assert summary.episodes_started > 0
    assert {"failure", "instance-idle", "outcome", "telemetry-silent"} <= sent
    assert ApprovalStatus.VOID is stored_approval(world, "i-00000000000000000").status
    assert UTILIZATION in {one.metric for one in world.metrics.reads}
