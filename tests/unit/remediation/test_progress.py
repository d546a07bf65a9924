"""Waiting for EC2: what is done, what is not yet, and what has failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.delivery import NOWHERE, Delivery
from governor.approvals.model.approval import Stage
from governor.approvals.rules.stages import asked_at
from governor.core.errors import (
    MustWait,
    NobodyListens,
    SafetyError,
    SnapshotFailed,
    StepTimedOut,
    WrongState,
)
from governor.episode.model.episode import Phase
from governor.episode.model.plan import Step, Until
from governor.limits.model.pause import Pause
from governor.policy.model.acting import Action, ApprovalRule
from governor.policy.model.policy import Mode
from governor.policy.rules.schedule import schedule
from governor.remediation.check_progress import CheckProgress
from tests.builders import NOW
from tests.unit.worlds.builders import asker
from tests.unit.worlds.fleet_world import ACCOUNTS
from tests.unit.worlds.world import APPROVAL_ID, World


def check(world: World) -> CheckProgress:
    """The use case over the world."""
    return CheckProgress(
        world.clock,
        world.policies,
        ACCOUNTS,
        episode_store=world.state,
        approval_store=world.state,
        delivery_store=world.state,
        instances=world.ec2,
        snapshots=world.ec2,
    )


def snapshot_world() -> World:
    """Stopped, with snapshots under way."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    return world


def test_a_stop_takes_its_time() -> None:
    """Looked at again after a pause that grows."""
    world = World()
    world.ec2.instant = False
    world.put_away(world.ref, Step.STOP)

    first = check(world)(world.ref, Until.STOPPED)
    world.clock.moment = NOW + timedelta(minutes=10)
    later = check(world)(world.ref, Until.STOPPED)
    world.change_instance(state="stopped")

    assert 0 < first < later
    assert 0 == check(world)(world.ref, Until.STOPPED)


def test_a_stop_that_never_ends_times_out() -> None:
    """After the policy's limit."""
    world = World()
    world.ec2.instant = False
    world.put_away(world.ref, Step.STOP)
    world.clock.moment = NOW + timedelta(minutes=31)

    with pytest.raises(StepTimedOut):
        check(world)(world.ref, Until.STOPPED)


def test_an_instance_that_goes_elsewhere_is_an_error() -> None:
    """Terminated instead of stopped: nothing further is done."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.change_instance(state="terminated")

    with pytest.raises(WrongState):
        check(world)(world.ref, Until.STOPPED)


def test_snapshots_are_done_when_all_are_completed() -> None:
    """Pending is waited for."""
    world = snapshot_world()
    assert check(world)(world.ref, Until.SNAPSHOTS_COMPLETED) > 0

    world.ec2.finish_snapshots()
    assert 0 == check(world)(world.ref, Until.SNAPSHOTS_COMPLETED)


def test_a_failed_snapshot_is_an_error_at_once() -> None:
    """And says that nothing is destroyed."""
    world = snapshot_world()
    world.ec2.finish_snapshots("error")

    with pytest.raises(SnapshotFailed, match="nothing is destroyed"):
        check(world)(world.ref, Until.SNAPSHOTS_COMPLETED)


def test_a_new_snapshot_may_be_missing_for_a_moment_and_not_for_ever() -> None:
    """EC2's lists lag behind; a snapshot that somebody deleted does not come back."""
    world = snapshot_world()
    world.ec2.snapshots.clear()
    assert check(world)(world.ref, Until.SNAPSHOTS_COMPLETED) > 0

    world.clock.moment = NOW + timedelta(minutes=6)
    with pytest.raises(SnapshotFailed, match="missing"):
        check(world)(world.ref, Until.SNAPSHOTS_COMPLETED)


def test_a_step_that_was_never_asked_for_is_not_waited_for() -> None:
    """An execution started by hand learns nothing and does nothing."""
    world = World()

    with pytest.raises(SafetyError, match="never asked"):
        check(world)(world.ref, Until.TERMINATED)


def test_a_snapshot_set_is_made_once() -> None:
    """A repeated invocation finds the first one's."""
    world = snapshot_world()
    first = world.take_snapshot(world.ref)
    again = world.take_snapshot(world.ref)

    assert first == again
    assert 1 == [name for name, _, _ in world.ec2.calls].count("create_snapshots")


# whether somebody has heard


def delivery(world: World, stage: Stage, channel: str, **changes: Any) -> None:
    """A record of the stage's message."""
    name = world.ref.execution_name
    plain = Delivery(name, f"{stage.value}-{name}", channel, "target", NOW, delivery_id="1")
    world.state.note_delivery(replace(plain, **changes))


@pytest.mark.parametrize(("mode", "stage"), [(Mode.ASK, Stage.ASK), (Mode.AUTO, Stage.TELL)])
def test_a_message_is_heard_when_a_channel_of_people_has_it(mode: Mode, stage: Stage) -> None:
    """Not by a refusal, not by a machine, not by another stage, and not by what is left."""
    world = World(mode=mode, decide=False, phase=Phase.ASKING, noticed_at=None)
    other = Stage.TELL if stage is Stage.ASK else Stage.ASK
    delivery(world, stage, "teams", delivery_id=None, refused="410")
    delivery(world, stage, "webhook")
    delivery(world, stage, "pagerduty", delivery_id=None, not_before=NOW + timedelta(hours=1))
    delivery(world, other, "email")
    delivery(world, stage, "slack", target="C0ALL", shared=True)
    assert check(world)(world.ref, Until.HEARD) > 0

    delivery(world, stage, "slack")
    world.clock.moment += timedelta(hours=1 if mode is Mode.AUTO else 0)
    assert 0 == check(world)(world.ref, Until.HEARD)


@pytest.mark.parametrize(("mode", "stage"), [(Mode.ASK, Stage.ASK), (Mode.AUTO, Stage.TELL)])
def test_when_nobody_can_get_it_that_is_said_at_once(mode: Mode, stage: Stage) -> None:
    """With the reasons of the channels."""
    world = World(mode=mode, decide=False, phase=Phase.ASKING, noticed_at=None)
    delivery(world, stage, "teams", delivery_id=None, refused="410: make a new one")
    delivery(world, stage, NOWHERE, delivery_id=None, refused="all 1 channels have refused it")

    with pytest.raises(NobodyListens, match="make a new one"):
        check(world)(world.ref, Until.HEARD)


def test_a_message_that_nobody_takes_is_given_up_after_the_policys_limit() -> None:
    """The episode then fails, and says so."""
    world = World(decide=False, phase=Phase.ASKING)
    world.clock.moment = NOW + timedelta(minutes=60)
    assert check(world)(world.ref, Until.HEARD) > 0

    world.clock.moment = NOW + timedelta(minutes=61)
    with pytest.raises(NobodyListens, match="for 61 min"):
        check(world)(world.ref, Until.HEARD)


def test_a_question_that_a_pause_delayed_gets_its_full_delivery_time() -> None:
    """It counts from when the question was asked, not from when that was planned."""
    world = World(decide=False, phase=Phase.ASKING)
    ask = asker(world)
    pause = Pause(NOW, "oidc:ada@example.com")
    assert world.state.begin_pause(pause)
    with pytest.raises(MustWait):
        ask(world.ref, Stage.ASK, None)
    asked_at = NOW + timedelta(hours=3)
    world.clock.moment = asked_at
    world.state.end_pause(pause, "oidc:ada@example.com", asked_at)
    ask(world.ref, Stage.ASK, None)

    assert 5 == check(world)(world.ref, Until.HEARD)
    world.clock.moment = asked_at + timedelta(minutes=60)
    assert check(world)(world.ref, Until.HEARD) > 5
    world.clock.moment = asked_at + timedelta(minutes=61)
    with pytest.raises(NobodyListens, match="for 61 min"):
        check(world)(world.ref, Until.HEARD)


@pytest.mark.parametrize("stage", [None, Stage.AWAIT, Stage.REMIND])
def test_only_the_first_message_is_late_by_the_expiry_of_its_question(stage: Stage | None) -> None:
    """Before it, nothing has delayed the question; after it, the expiry says when people had the
    message. Without a question nothing is known but the plan."""
    approval = World(decide=False, phase=Phase.ASKING).state.approval(APPROVAL_ID)
    assert approval is not None
    planned = schedule(NOW, ApprovalRule(), (), ())
    expires_at = planned.expire_at + timedelta(days=3)
    later = replace(approval, stage=stage, expires_at=expires_at)

    assert planned.ask_at == asked_at(planned, None, timedelta(hours=1))
    assert planned.ask_at == asked_at(planned, later, timedelta(hours=1))


def test_a_question_that_is_answered_needs_no_more_hearing() -> None:
    """Somebody was faster than the record of the channel."""
    assert 0 == check(world := World(phase=Phase.ASKING))(world.ref, Until.HEARD)
