"""A pause of everything: it holds back what destroys, and lets copies and answers go on."""

from __future__ import annotations

from contextvars import Context
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.model.approval import Stage
from governor.approvals.model.terms import Grant, Rank, Scope
from governor.approvals.pause import PauseAll, PauseRequester, SendPauseMessages
from governor.core.errors import (
    CloudError,
    ConflictError,
    DecisionRefused,
    MustWait,
    NotAllowed,
    Unavailable,
)
from governor.core.units import clock
from governor.episode.model.episode import Phase
from governor.episode.model.plan import Step
from governor.limits.model.pause import Pause
from governor.limits.store.pauses import PAUSE
from governor.policy.document import parse_people_alone
from governor.policy.model.acting import Action
from governor.table.once import Once
from tests.builders import NOW, TARGET
from tests.twins import MemoryEventLog, MemoryStateTable
from tests.unit.remediation.test_audit import Stream
from tests.unit.remediation.test_audit import stream as stream
from tests.unit.worlds.builders import asker
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import World

ADA = "oidc:ada@example.com"
DRILL = Pause(NOW, ADA, "a drill")
SAID = "everything is paused by ada@example.com \\(signed in\\): a drill"


def paused(world: World) -> World:
    assert world.state.begin_pause(DRILL)
    return world


@pytest.mark.parametrize("step", [Step.STOP, Step.TERMINATE])
def test_no_destructive_step_is_let_through(step: Step) -> None:
    """Neither by the recheck nor by the function that acts; it waits, and uses up no cap."""
    world = World(action=Action.TERMINATE)
    if step is Step.TERMINATE:
        world.stop_and_snapshot()
    paused(world)
    done = world.writes()
    used = world.state.used(world.clock.now())
    rechecked = world.recheck(world.ref, step)
    with pytest.raises(MustWait, match=SAID):
        world.put_away(world.ref, step)

    assert (False, timedelta(minutes=15)) == (rechecked.proceed, rechecked.wait)
    assert (done, used) == (world.writes(), world.state.used(world.clock.now()))
    world.state.end_pause(DRILL, ADA, world.clock.now())
    assert world.recheck(world.ref, step).proceed
    world.put_away(world.ref, step)
    assert [*done, step.value] == world.writes()


def test_a_pause_after_the_guards_and_before_the_call_holds_it_back() -> None:
    """The note of the call and the pause exclude each other; what was counted is given back."""
    world = World()
    reserve = world.state.reserve

    def pause_then_reserve(*given: Any) -> str | None:
        Context().run(paused, world)  # by somebody else, with permissions of their own
        return reserve(*given)

    world.state.reserve = pause_then_reserve  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait, match=SAID):
        world.put_away(world.ref, Step.STOP)
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert ([], {}) == (world.writes(), episode.progress.steps_done)
    assert not any(world.state.used(world.clock.now()).values())


def test_a_pause_that_cannot_be_read_lets_nothing_through() -> None:
    world = World()
    world.state.items[PAUSE] = {"pk": PAUSE[0], "sk": PAUSE[1], "pause": {"at": "yesterday"}}
    with pytest.raises(CloudError):
        world.put_away(world.ref, Step.STOP)

    assert [] == world.writes()


def test_what_is_stopped_gets_its_copy_and_what_runs_on_waits() -> None:
    """A copy destroys nothing; of an instance that runs on it would be too old after the pause."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    paused(world)
    snapshots, _ = world.take_snapshot(world.ref)
    assert snapshots

    running = World(action=Action.TERMINATE, changes={"root_device_type": "instance-store"})
    assert (Step.SNAPSHOT, Step.TERMINATE) == running._stored().plan.steps
    paused(running)
    with pytest.raises(MustWait, match=SAID):
        running.take_snapshot(running.ref)


def test_nobody_is_asked_meanwhile() -> None:
    world = paused(World(decide=False, phase=Phase.ASKING))
    ask = asker(world)
    with pytest.raises(MustWait, match=SAID):
        ask(world.ref, Stage.ASK, None)

    assert [] == world.announcer.sent


def test_no_sweep_opens_a_question_meanwhile() -> None:
    world = FleetWorld()
    world.add(1)
    world.sweep()
    world.state.begin_pause(DRILL)
    summary = world.sweep(65)
    assert (True, 0) == (summary.frozen, summary.episodes_started)

    world.state.end_pause(DRILL, ADA, world.clock.now())
    assert 1 == world.sweep(5).episodes_started


def test_the_audit_names_who_paused_and_who_ended_it(stream: Stream) -> None:
    state = MemoryStateTable()
    assert state.begin_pause(DRILL)
    state.end_pause(DRILL, "oidc:bob@example.com", NOW + timedelta(hours=1))

    told = [(one["what"], one["who"], one["after"]) for one in stream.audit()]
    assert [("paused", ADA), ("pause ended", "oidc:bob@example.com")] == [one[:2] for one in told]
    assert ("a drill", ADA) == (told[0][2]["reason"], told[1][2]["paused_by"])


def test_one_pause_stands_at_a_time_and_only_it_is_ended() -> None:
    state = MemoryStateTable()
    later = Pause(NOW + timedelta(minutes=1), "oidc:bob@example.com")
    assert (True, False) == (state.begin_pause(DRILL), state.begin_pause(later))
    with pytest.raises(ConflictError):
        state.end_pause(later, ADA, NOW)
    state.end_pause(DRILL, ADA, NOW)
    assert state.pause() is None
    with pytest.raises(ConflictError):
        state.end_pause(DRILL, ADA, NOW + timedelta(minutes=2))
    assert state.begin_pause(later)
    assert later == state.pause()


@pytest.mark.parametrize("ends", [1, 99])
def test_nobody_is_told_of_a_pause_that_does_not_stand(ends: int) -> None:
    """Another pause stands at the attempt, and its end comes right after: once, or every time."""
    world = World()
    pause_all = PauseAll(world.state, world.clock, world.announcer, TARGET)
    admin = PauseRequester(ADA, "ada@example.com", (Grant(Rank.ADMIN, Scope(everything=True)),))
    begin = world.state.begin_pause
    left = [ends]

    def late(pause: Pause) -> bool:
        if left[0] == 0:
            return begin(pause)
        left[0] -= 1
        return False

    world.state.begin_pause = late  # type: ignore[method-assign]
    if ends == 1:
        told = pause_all.begin(admin, "stop it", world.policies.policy)
        assert told == world.state.pause()
        return
    with pytest.raises(DecisionRefused, match="nothing is paused"):
        pause_all.begin(admin, "stop it", world.policies.policy)


def test_nobody_ends_a_pause_while_the_policy_in_force_cannot_be_read() -> None:
    """It may name an admin of everything: that nobody sees one is no proof that there is none."""
    world = paused(World())
    book = parse_people_alone(
        "ownership: {contacts: {ml: {emails: [ada@example.com]}}}\nunknown: 1\n"
    )
    pause_all = PauseAll(world.state, world.clock, world.announcer, TARGET)
    named = PauseRequester(ADA, "ada@example.com", ())
    policy = book.base().policy

    with pytest.raises(NotAllowed, match=r"does not know who.*governor policy check"):
        pause_all.end(named, DRILL.at, policy, policy_is_whole=book.whole)
    assert DRILL == world.state.pause()

    pause_all.end(named, DRILL.at, policy, policy_is_whole=True)
    assert world.state.pause() is None


ADMIN = PauseRequester(ADA, "ada@example.com", (Grant(Rank.ADMIN, Scope(everything=True)),))


class Messages:
    """A pause whose messages fail as long as `is_away`, and the sweeps that follow."""

    def __init__(self) -> None:
        self.world = World()
        self.is_away = False
        self.announce = self.world.announcer.announce
        self.world.announcer.announce = self._announce  # type: ignore[method-assign]
        given = self.world.state, self.world.clock, self.world.announcer, TARGET
        self.pause_all = PauseAll(*given)
        self.sends = SendPauseMessages(*given, Once(self.world.clock, MemoryEventLog()))

    def _announce(self, alert: Any) -> None:
        if self.is_away:
            raise Unavailable("the topic does not answer", operation="sns:Publish")
        self.announce(alert)

    def begin(self) -> None:
        self.pause_all.begin(ADMIN, "a drill", self.world.policies.policy)

    def end(self) -> None:
        standing = self.world.state.pause()
        assert standing is not None
        self.pause_all.end(ADMIN, standing.at, self.world.policies.policy, policy_is_whole=True)

    def sweep(self, minutes: float = 5) -> None:
        self.world.clock.moment += timedelta(minutes=minutes)
        self.sends()

    @property
    def sent(self) -> list[AlertKind]:
        return [one.kind for one in self.world.announcer.sent]


def test_a_message_of_a_pause_that_could_not_be_sent_is_sent_by_a_sweep_once() -> None:
    """It says when the pause began, not when the message was sent. One that was sent is not sent
    again."""
    messages = Messages()
    messages.is_away = True
    messages.begin()
    with pytest.raises(Unavailable):
        messages.sweep()
    assert [] == messages.sent

    messages.is_away = False
    for _ in range(3):
        messages.sweep()
    assert [AlertKind.PAUSED] == messages.sent
    [alert] = messages.world.announcer.sent
    standing = messages.world.state.pause()
    assert standing is not None
    assert any(
        f"paused everything {clock(standing.at, 'UTC', alert.at)}" in line for line in alert.lines
    )

    messages.end()
    messages.sweep()
    assert [AlertKind.PAUSED, AlertKind.PAUSE_ENDED] == messages.sent


def test_the_end_of_a_pause_is_sent_later_too_and_alone() -> None:
    """That everything is paused would be wrong by then; the message of the end says when it
    began."""
    messages = Messages()
    messages.is_away = True
    messages.begin()
    messages.end()
    messages.is_away = False
    for _ in range(3):
        messages.sweep()

    assert [AlertKind.PAUSE_ENDED] == messages.sent


def test_the_late_end_of_a_pause_never_says_that_nothing_is_paused_while_something_is() -> None:
    """People would believe that GPU Governor acts again."""
    messages = Messages()
    messages.begin()
    messages.is_away = True
    messages.world.clock.moment += timedelta(minutes=30)
    messages.end()
    messages.world.clock.moment += timedelta(minutes=1)
    messages.begin()
    messages.is_away = False
    messages.sweep()

    _, ended, paused_again = messages.world.announcer.sent
    assert "GPU Governor was paused from Fri 12:02 to Fri 12:32 UTC" == ended.subject
    assert (
        "It has been paused again since Fri 12:33 UTC. You get a separate message about that pause."
        in (ended.lines)
    )
    assert not any("Approved steps continue" in line for line in ended.lines)
    assert AlertKind.PAUSED == paused_again.kind


@pytest.mark.parametrize(
    ("late", "subject"),
    [
        (timedelta(minutes=59), "GPU Governor is no longer paused"),
        (timedelta(hours=1), "GPU Governor was paused from Fri 12:02 to Fri 12:02 UTC"),
        (
            timedelta(days=7),
            "GPU Governor was paused from Fri Nov 20, 12:02 to Fri Nov 20, 12:02 UTC",
        ),
        (timedelta(days=7, minutes=1), None),
    ],
)
def test_after_a_long_outage_the_end_of_a_pause_is_history_and_then_nothing(
    late: timedelta, subject: str | None
) -> None:
    messages = Messages()
    messages.is_away = True
    messages.begin()
    messages.end()
    messages.is_away = False
    messages.sweep(late.total_seconds() / 60)

    subjects = [alert.subject for alert in messages.world.announcer.sent]
    assert ([subject] if subject else []) == subjects


def test_a_pause_that_stands_is_news_however_late() -> None:
    messages = Messages()
    messages.is_away = True
    messages.begin()
    messages.is_away = False
    messages.sweep(20 * 24 * 60)

    [alert] = messages.world.announcer.sent
    assert "GPU Governor is paused in all accounts" == alert.subject


def test_a_sweep_leaves_a_message_to_the_press_that_is_under_way() -> None:
    messages = Messages()
    messages.world.state.begin_pause(Pause(messages.world.clock.now(), ADA))
    messages.sweep(1)
    assert [] == messages.sent

    messages.sweep(1)
    assert [AlertKind.PAUSED] == messages.sent
