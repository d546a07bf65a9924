"""How long EC2 is waited for, and what ends the waiting."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.core.errors import SafetyError, SnapshotFailed, StepTimedOut, Throttled, WrongState
from governor.core.instance import Volume
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step, Until
from governor.policy.model.acting import Action
from governor.remediation.check_progress import CheckProgress
from tests.builders import NOW
from tests.unit.worlds.fleet_world import ACCOUNTS
from tests.unit.worlds.world import World


def check(world: World, until: Until, minutes: float = 0) -> int:
    """One look, that many minutes after now."""
    world.clock.moment = NOW + timedelta(minutes=minutes)
    look = CheckProgress(
        world.clock,
        world.policies,
        ACCOUNTS,
        episode_store=world.state,
        approval_store=world.state,
        delivery_store=world.state,
        instances=world.ec2,
        snapshots=world.ec2,
    )
    return look(world.ref, until)


def terminating_world() -> World:
    """Everything done up to the termination, which takes its time."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.ec2.instant = False
    world.put_away(world.ref, Step.TERMINATE)
    return world


def test_a_termination_is_done_when_ec2_says_so_or_knows_it_no_more() -> None:
    """Terminated instances vanish from EC2's answers after a while."""
    world = terminating_world()
    assert check(world, Until.TERMINATED) > 0

    world.change_instance(state="terminated")
    assert 0 == check(world, Until.TERMINATED)
    world.ec2.instances.clear()
    assert 0 == check(world, Until.TERMINATED)


def test_a_termination_that_never_ends_times_out() -> None:
    """After the policy's limit; the episode then fails, and people are told."""
    world = terminating_world()
    assert check(world, Until.TERMINATED, minutes=30) > 0

    with pytest.raises(StepTimedOut, match="not terminated after 31 min"):
        check(world, Until.TERMINATED, minutes=31)


def test_snapshots_have_a_day() -> None:
    """Terabytes take their time; a stop's limit is not theirs."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    assert check(world, Until.SNAPSHOTS_COMPLETED, minutes=1_440) > 0

    with pytest.raises(StepTimedOut, match="1441 min"):
        check(world, Until.SNAPSHOTS_COMPLETED, minutes=1_441)


def test_what_is_done_late_is_done_all_the_same() -> None:
    """The limit ends the waiting, not the result."""
    world = World()
    world.put_away(world.ref, Step.STOP)

    assert 0 == check(world, Until.STOPPED, minutes=600)


@pytest.mark.parametrize(
    ("until", "minutes", "seconds"),
    [
        (Until.STOPPED, 0, 5),
        (Until.STOPPED, 1, 15),
        (Until.STOPPED, 29, 300),
        (Until.SNAPSHOTS_COMPLETED, 0, 5),
        (Until.SNAPSHOTS_COMPLETED, 10, 150),
        (Until.SNAPSHOTS_COMPLETED, 600, 900),
    ],
)
def test_the_pauses_grow_to_a_limit(until: Until, minutes: float, seconds: int) -> None:
    """Soon at first; never so often that a day of waiting fills the execution's history."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    if until is Until.STOPPED:
        world.change_instance(state="stopping")
    else:
        world.take_snapshot(world.ref)

    assert seconds == check(world, until, minutes)


def test_a_stop_that_ec2_does_not_show_yet_is_waited_for() -> None:
    """A description may lag behind the call."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.change_instance(state="running")

    assert check(world, Until.STOPPED) > 0


def test_an_instance_that_vanished_is_not_stopped() -> None:
    """Somebody terminated it: nothing further is done."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.ec2.instances.clear()

    with pytest.raises(WrongState, match="gone instead of stopped"):
        check(world, Until.STOPPED)


def test_what_only_carries_the_tag_neither_counts_nor_holds_up() -> None:
    """Somebody tagged older copies as this episode's: completed, pending or failed, they are not
    its own."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot("pending")
    [(key, (own, tags))] = world.ec2.snapshots.items()
    for state in ("completed", "pending", "error"):
        copy = replace(own, snapshot_id=f"snap-{state}", state=state)
        world.ec2.snapshots[copy.snapshot_id] = (copy, tags)
    assert check(world, Until.SNAPSHOTS_COMPLETED) > 0

    world.ec2.snapshots[key] = (replace(own, state="completed"), tags)
    assert 0 == check(world, Until.SNAPSHOTS_COMPLETED)


def test_recorded_snapshots_that_began_before_the_stop_end_the_waiting() -> None:
    """A release that went by tags had recorded them."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    [(key, (own, tags))] = world.ec2.snapshots.items()
    world.ec2.snapshots[key] = (replace(own, start_time=NOW - timedelta(days=1)), tags)

    with pytest.raises(SnapshotFailed, match="begun before the stop"):
        check(world, Until.SNAPSHOTS_COMPLETED, minutes=6)


def test_one_pending_snapshot_holds_all() -> None:
    """The set is completed when its last one is."""
    volumes = (Volume("vol-1", "/dev/xvda", True, 10), Volume("vol-2", "/dev/sdb", True, 10))
    world = World(action=Action.TERMINATE, changes={"volumes": volumes})
    world.stop_and_snapshot()
    first = sorted(world.ec2.snapshots)[0]
    snapshot, tags = world.ec2.snapshots[first]
    world.ec2.snapshots[first] = (replace(snapshot, state="pending"), tags)

    assert check(world, Until.SNAPSHOTS_COMPLETED) > 0


@pytest.mark.parametrize("state", ["error", "recoverable", "a state of later years"])
def test_a_snapshot_in_any_other_state_has_failed(state: str) -> None:
    """Only what is completed can be restored from."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot(state)

    with pytest.raises(SnapshotFailed, match="nothing is destroyed"):
        check(world, Until.SNAPSHOTS_COMPLETED)


def test_an_episode_that_is_over_is_not_waited_for() -> None:
    """An execution that lives on learns nothing."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.state.close_episode(world.ref, Outcome.FAILED, "died", NOW, quiet_until=None)

    with pytest.raises(SafetyError, match="is over"):
        check(world, Until.STOPPED)


def test_a_look_that_failed_is_no_answer() -> None:
    """The state machine retries it."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.ec2.failures["describe"] = [Throttled("later")]

    with pytest.raises(Throttled):
        check(world, Until.STOPPED)
