"""A rebalance recommendation is told, and runs the hook only where the policy says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.approvals.model.approval import ApprovalStatus
from governor.core.errors import AccessDenied, ConfigurationError, Unavailable
from governor.events.notify_warning import Notified
from governor.policy.model.notices import Events
from tests.builders import NOW
from tests.unit.worlds.warned_world import WarnedWorld
from tests.unit.worlds.world import APPROVAL_ID


def test_a_recommendation_is_told_to_the_owner_and_changes_nothing() -> None:
    """An interruption may never come: the question stays open, the hook is not run, nothing is
    snapshot."""
    world = WarnedWorld(Events(snapshot_data_volumes=True))

    reaction = world.rebalance(world.recommended())

    (alert,) = world.sent
    assert (AlertKind.REBALANCE_RECOMMENDED, Severity.WARNING) == (alert.kind, alert.severity)
    assert ("ada", world.instance.instance_id) == (alert.owner, alert.instance_id)
    assert (Notified.SINGLY, False) == (reaction.notified, reaction.checkpoint_sent)
    assert ([], {}) == (world.hook.sent, world.world.ec2.snapshots)
    approval = world.world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.PENDING is approval.status


def test_the_hook_is_run_where_the_policy_says_so() -> None:
    """With two minutes, since the warning itself may come at once."""
    world = WarnedWorld(Events(checkpoint_on_rebalance=True, signal_gpu_processes=True))

    assert world.rebalance(world.recommended()).checkpoint_sent
    assert [(world.instance.instance_id, "rebalance-recommendation", 120, True)] == world.hook.sent


@pytest.mark.parametrize("value", ["off", "FALSE", " never "])
def test_the_tag_can_forbid_it(value: str) -> None:
    """Whatever the policy says."""
    world = WarnedWorld(Events(checkpoint_on_rebalance=True), tags={"GpuGovernorCheckpoint": value})

    assert not world.rebalance(world.recommended()).checkpoint_sent
    assert [] == world.hook.sent
    assert "its tag GpuGovernorCheckpoint says" in " ".join(world.sent[0].lines)


def test_a_repeated_event_is_told_once() -> None:
    """EventBridge delivers at least once."""
    world = WarnedWorld(Events(checkpoint_on_rebalance=True))

    world.rebalance(world.recommended())
    again = world.rebalance(world.recommended())

    assert (None, False) == (again.notified, again.checkpoint_sent)
    assert (1, 1) == (len(world.sent), len(world.hook.sent))


def test_what_could_not_be_told_is_told_by_the_repetition() -> None:
    """Lambda repeats a failed event after a minute; the claim has lapsed by then."""
    world = WarnedWorld()
    world.world.announcer.failure = Unavailable("SNS is down", operation="sns:Publish")
    with pytest.raises(Unavailable):
        world.rebalance(world.recommended())
    world.world.announcer.failure = None
    world.world.clock.moment += timedelta(minutes=1)

    assert Notified.SINGLY is world.rebalance(world.recommended()).notified


def test_instances_that_are_not_governed_are_nobodys_news() -> None:
    """Without the selector tag, or gone."""
    world = WarnedWorld()
    world.world.change_instance(tags={})
    assert not world.rebalance(world.recommended()).ours
    world.world.ec2.instances.clear()
    assert not world.rebalance(world.recommended()).ours

    assert [] == world.sent


def test_a_recommendation_of_an_earlier_run_is_a_line_in_the_log() -> None:
    """It came late, and the instance was started again since."""
    world = WarnedWorld(Events(checkpoint_on_rebalance=True))
    world.world.change_instance(launch_time=NOW - timedelta(seconds=5))

    reaction = world.rebalance(world.recommended())

    assert ([], [], None) == (world.sent, world.hook.sent, reaction.notified)
    assert "too late" in reaction.notes[0]


@pytest.mark.parametrize("tag", ["hook", "signal"])
def test_the_tag_forces_no_hook_on_a_recommendation(tag: str) -> None:
    """An interruption may never come: the policy alone says whether work is disturbed for it."""
    world = WarnedWorld(tags={"GpuGovernorCheckpoint": tag})

    assert not world.rebalance(world.recommended()).checkpoint_sent
    assert [] == world.hook.sent


def test_a_recommendation_says_what_became_of_the_hook() -> None:
    """It is sent before people are told."""
    world = WarnedWorld(Events(checkpoint_on_rebalance=True))
    world.hook.failure = AccessDenied("no right", operation="ssm:SendCommand")

    with pytest.raises(AccessDenied):
        world.rebalance(world.recommended())

    told, failed = world.sent
    assert (False, False) == (told.facts["checkpoint_sent"], failed.facts["checkpoint_sent"])
    assert "was not started, so save your work by hand. The reason: no right" in told.lines[-1]


def test_what_is_told_before_the_hook_promises_nothing() -> None:
    """An Auto Scaling group waits, so that people come first there."""
    world = WarnedWorld()

    world.lifecycle(world.let_go())

    assert world.sent[0].facts["checkpoint_sent"] is None
    assert "will now ask the instance's checkpoint hook to save the work" in world.sent[0].lines[-1]


def test_a_function_that_hears_of_recommendations_alone_needs_no_more_parts() -> None:
    """Its role may do no more. A cause it was not made for fails, and is never half answered in
    silence."""
    world = WarnedWorld(Events(checkpoint_on_rebalance=True))
    world.react = replace(world.react, void=None, snapshots=None, advise=None, hooks=None)

    assert world.rebalance(world.recommended()).checkpoint_sent
    with pytest.raises(ConfigurationError, match="not made for warnings of this cause"):
        world.interruption(world.warned(event_id="event-2"))
    with pytest.raises(ConfigurationError, match="not made for warnings of this cause"):
        world.lifecycle(world.let_go(event_id="event-3"))
