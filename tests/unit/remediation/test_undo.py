"""An undo starts what this episode has stopped, and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import AccessDenied, MustWait, SafetyError, Unavailable
from governor.episode.model.episode import Outcome, Undo
from governor.episode.model.plan import Step
from governor.episode.ports import UndoAnswer
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.remediation.open_episode import OpenEpisode
from tests.builders import NOW, TARGET
from tests.unit.remediation.starts import start_error
from tests.unit.worlds.builders import recorder, see, undoer
from tests.unit.worlds.world import World


def stopped(outcome: Outcome = Outcome.STOPPED) -> World:
    """Stopped by its episode, which is over."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.state.note_refusal(world.ref, outcome.value, "done")
    recorder(world)(world.ref, outcome)
    world.announcer.sent.clear()
    return world


def undo(world: World, by: str = "ada", ref: EpisodeRef | None = None) -> UndoAnswer:
    """Somebody presses the button."""
    return undoer(world)(ref or world.ref, by, "page")


def starts(world: World) -> int:
    """How often EC2 was asked."""
    return sum(name == "start" for name, _, _ in world.ec2.calls)


def test_what_was_stopped_runs_again_and_others_are_told() -> None:
    """The record names the person."""
    world = stopped()

    answer = undo(world)
    see(world)

    episode = world.state.episode(world.ref)
    assert answer.done
    assert "running" == world.ec2.instances[world.instance.instance_id].state
    assert episode is not None
    assert Undo("ada", NOW) == episode.undo
    assert [AlertKind.UNDONE] == [alert.kind for alert in world.announcer.sent]


def test_what_never_was_is_refused_and_in_an_account_that_is_no_target_leaves_nothing() -> None:
    """An invocation by hand, as with a sample of `events/`."""
    world = stopped()
    assert "there is no such episode" == undo(world, ref=replace(world.ref, number=9)).text
    known = len(world.state.items)

    with pytest.raises(
        SafetyError, match="the policy's targets do not name 000000000000/us-east-1"
    ):
        undo(world, ref=replace(world.ref, account="000000000000"))
    assert known == len(world.state.items)


def test_what_was_started_again_is_left_alone_for_a_while() -> None:
    """Whoever undid a stop is not asked again, nor overruled by mode auto, the same day."""
    world = stopped()
    undo(world)

    hold = world.state.record(world.ref.target, world.ref.instance_id).hold
    assert NOW + timedelta(hours=24) == hold.snoozed_until
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert (episode.project, "ada") == (hold.kept_in, hold.keeper)


def test_pressed_twice_it_starts_once() -> None:
    """The second reads who was first, while EC2 starts it and once it was seen running."""
    world = stopped()
    world.ec2.instant = False
    undo(world)

    second = undo(world, "bob")
    world.change_instance(state="running")
    third = undo(world, "bob")

    assert (False, True) == (second.done, "ada has already asked for it" in second.text)
    assert (False, True) == (third.done, "ada has already started it" in third.text)
    assert 1 == starts(world)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED, Outcome.VOID])
def test_a_stop_is_undone_however_its_episode_ended(outcome: Outcome) -> None:
    """A flow that failed after its stop has stopped the instance all the same."""
    assert undo(stopped(outcome)).done


def test_a_stop_that_ec2_refused_is_nothing_to_undo() -> None:
    """It is noted before it is asked for; whoever stops the instance later has done it oneself."""
    world = World()
    world.ec2.failures["stop"] = [AccessDenied("an SCP says no")]
    with pytest.raises(AccessDenied):
        world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")
    world.change_instance(state="stopped")

    assert not undo(world).done


def test_a_busy_table_never_makes_a_start_look_like_none() -> None:
    """Before the start nothing happens; after it the person reads that it starts."""
    before, after = stopped(), stopped()

    def busy(*_: object) -> bool:
        raise Unavailable("the table is busy")

    before.state.store_hold = busy  # type: ignore[method-assign, assignment]
    with pytest.raises(Unavailable):
        undo(before)
    assert 0 == starts(before)

    after.state.change_start_try = busy  # type: ignore[method-assign, assignment]
    assert undo(after).done
    assert 1 == starts(after)
    assert after.ref == after.state.record(TARGET, after.ref.instance_id).starting


def test_what_was_terminated_cannot_be_started() -> None:
    """EC2 is not asked."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.TERMINATED)

    assert (False, 0) == (undo(world).done, starts(world))


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.STOPPED])
def test_an_episode_that_stopped_nothing_has_nothing_to_undo(outcome: Outcome) -> None:
    """Whatever it came to, EC2 is not asked."""
    world = World()
    world.change_instance(state="stopped")
    world.state.close_episode(world.ref, outcome, "done", NOW, quiet_until=None)

    assert (False, 0) == (undo(world).done, starts(world))


def test_an_open_episode_that_terminates_is_not_undone() -> None:
    """Its workflow still acts; a plan that ends in a stop has a test in `test_hold.py`."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)

    assert not undo(world).done
    assert 0 == starts(world)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": "running"}, "runs already"),
        ({"state": "stopping"}, "still stopping"),
        ({"state": "terminated"}, "no longer exists"),
        ({"launch_time": NOW + timedelta(hours=1)}, "by others since"),
    ],
)
def test_an_instance_that_others_have_changed_is_left_alone(
    changes: dict[str, object], why: str
) -> None:
    """And it is said why."""
    world = stopped()
    world.change_instance(**changes)

    answer = undo(world)

    assert (False, True, 0) == (answer.done, why in answer.text, starts(world))


def test_an_instance_that_is_gone_is_told() -> None:
    """EC2 forgets terminated ones after an hour."""
    world = stopped()
    world.ec2.instances.clear()

    assert "no longer exists" in undo(world).text


def test_no_capacity_says_what_to_do_instead() -> None:
    """And the button opens again."""
    world = stopped()
    world.ec2.failures["start"] = [start_error("InsufficientInstanceCapacity", status=500)]

    answer = undo(world)

    assert not answer.done
    assert all(part in answer.text for part in ("no free", "try again later", "snapshots"))
    assert undo(world).done


def test_an_undo_stands_when_nobody_can_be_notified() -> None:
    """The instance starts either way. The next sweep sees it run again, and tries again."""
    world = stopped()
    world.announcer.failure = Unavailable("SNS is down")
    assert undo(world).done
    with pytest.raises(Unavailable):
        see(world)
    world.announcer.failure = None

    see(world)

    assert [AlertKind.UNDONE] == [alert.kind for alert in world.announcer.sent]


def test_the_world_of_these_tests_stops_for_real() -> None:
    """A dry run would make every test above pass for nothing."""
    assert ["stop"] == stopped().writes()
    assert (Action.STOP, Mode.ASK) == (World().action, World().mode)


def _about_to_terminate() -> tuple[World, EpisodeRef]:
    """A stopped instance whose termination a later question asks about: approved, and ready for the
    call."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.STOPPED)
    rule = replace(
        world.policies.policy.approval, ask_about_stopped_after_days=1, people_to_terminate=1
    )
    world.policies.policy = replace(world.policies.policy, approval=rule)
    world.clock.moment += timedelta(days=2)
    later = replace(world.ref, number=2)
    accounts, seals = world.guards.accounts, world.seals.openings
    OpenEpisode(
        world.clock,
        world.policies,
        accounts,
        world.inspect,
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        breaker_store=world.state,
        pause_store=world.state,
        ledger_store=world.state,
        keys=world.keys,
        opening_seal=seals,
        approval_id=lambda: "later",
    )(later)
    world.state.await_answer("later", "token", "ask", world.clock.now() + timedelta(hours=1))
    world.state.settle("later", replace(world.approval, at=world.clock.now()))
    assert world.recheck(later, Step.STOP).proceed
    world.put_away(later, Step.STOP)
    world.take_snapshot(later)
    world.ec2.finish_snapshots("completed")
    assert world.recheck(later, Step.TERMINATE).proceed
    return world, later


@pytest.mark.parametrize("before_the_note", [True, False])
def test_nothing_is_terminated_after_somebody_was_told_that_it_starts(
    before_the_note: bool,
) -> None:
    """The start of the first question, pressed while the second one terminates: one of them
    wins."""
    world, later = _about_to_terminate()
    note = world.state.note_call
    answers: list[UndoAnswer] = []

    def press() -> None:
        with ThreadPoolExecutor(1) as person:
            answers.append(person.submit(undo, world).result())

    def meanwhile(*arguments: object) -> None:
        if before_the_note:
            press()
        note(*arguments)  # type: ignore[arg-type]
        if not before_the_note:
            press()

    world.state.note_call = meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait):
        world.put_away(later, Step.TERMINATE)

    assert ["stop"] == world.writes()
    told = "EC2 has been asked to start it" if before_the_note else "too late to start it"
    assert told in str(answers[0])
