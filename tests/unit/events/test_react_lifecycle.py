"""An Auto Scaling group lets an instance go: told, asked to save, its question closed, others'
hooks left."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.approvals.model.approval import ApprovalStatus
from governor.core.errors import AccessDenied, CloudError, Throttled, Unavailable
from governor.core.parsing import parse
from governor.events.contract import LifecycleEvent
from governor.events.notify_warning import Notified
from governor.policy.model.notices import Events
from governor.policy.model.policy import Mode
from tests.builders import NOW
from tests.unit.worlds.warned_world import GROUP, HOOK, SAMPLES, WarnedWorld
from tests.unit.worlds.world import APPROVAL_ID

OWN = Events(completed_lifecycle_hooks=(HOOK,))
OFF = {"GpuGovernorCheckpoint": "off"}
IN_GROUP = {"aws:autoscaling:groupName": GROUP}


def voided(world: WarnedWorld) -> bool:
    """Return whether the open question was taken back."""
    approval = world.world.state.approval(APPROVAL_ID)
    return approval is not None and approval.status is ApprovalStatus.VOID


def test_an_instance_that_is_let_go_is_told_hooked_and_its_question_closed() -> None:
    """With the time that the group's hook leaves; EC2's ledger of others' deeds takes it as
    interrupted."""
    world = WarnedWorld()
    world.world.workflow.waiting.add("token")

    reaction = world.lifecycle(world.let_go())

    (alert,) = world.sent
    assert (AlertKind.AUTO_SCALING_TERMINATION, Severity.WARNING, "ada") == (
        alert.kind,
        alert.severity,
        alert.owner,
    )
    assert "The Auto Scaling group trainers will terminate trainer" in alert.lines[0]
    assert "until Fri 12:12 UTC at the latest" in alert.lines[1]
    assert [(world.instance.instance_id, "auto-scaling-termination", 580, False)] == world.hook.sent
    assert (Notified.SINGLY, True, True) == (
        reaction.notified,
        reaction.checkpoint_sent,
        reaction.voided,
    )
    assert voided(world)
    assert "interrupted" == world.world.workflow.answers["token"]["outcome"]


@pytest.mark.parametrize(
    "failure", [AccessDenied("no", operation="autoscaling:DescribeLifecycleHooks"), None]
)
def test_a_wait_that_is_not_known_is_two_minutes_and_keeps_nothing_back(
    failure: CloudError | None,
) -> None:
    """The call may be refused, or the hook be gone by now."""
    world = WarnedWorld()
    world.hooks.waits.clear()
    world.hooks.failure = failure

    reaction = world.lifecycle(world.let_go())

    assert 100 == world.hook.sent[0][2]
    assert "could not be read" in world.sent[0].lines[1]
    assert (failure is not None) == any("not known" in note for note in reaction.notes)
    assert voided(world)


@pytest.mark.parametrize(
    ("tag", "policy", "sent"),
    [
        (None, Events(checkpoint_on_auto_scaling=False), False),
        (None, Events(checkpoint_on_spot_interruption=False), True),
        ("hook", Events(checkpoint_on_auto_scaling=False), True),
        ("off", Events(), False),
    ],
)
def test_the_tag_goes_before_the_policy(tag: str | None, policy: Events, sent: bool) -> None:
    """As for an interruption; the policy has a word of its own for it."""
    world = WarnedWorld(policy, tags={"GpuGovernorCheckpoint": tag} if tag else {})

    assert sent is world.lifecycle(world.let_go()).checkpoint_sent


def test_a_hook_of_somebody_else_is_never_completed() -> None:
    """Whoever set it up saves something of their own, which the governor knows nothing of."""
    world = WarnedWorld(Events(completed_lifecycle_hooks=("another",)), tags=OFF)

    assert not world.lifecycle(world.let_go()).completed
    assert [] == world.hooks.completed


@pytest.mark.parametrize(
    "given",
    [{"tags": OFF}, {"has_document": False}, {"changes": {"platform": "Windows"}}],
)
def test_a_hook_of_its_own_is_completed_where_nothing_is_saved(given: dict[str, Any]) -> None:
    """Once: nobody pays an hour of a GPU for a group that waits for nothing."""
    world = WarnedWorld(OWN, **given)

    assert world.lifecycle(world.let_go()).completed
    assert not world.lifecycle(world.let_go()).completed
    assert [(world.instance.instance_id, world.let_go().lifecycle_action)] == world.hooks.completed


def test_a_checkpoint_that_runs_is_not_cut_short() -> None:
    """The group's own time-out ends the wait, or the hook on the instance does."""
    world = WarnedWorld(OWN)

    assert world.lifecycle(world.let_go()).checkpoint_sent
    assert not world.lifecycle(world.let_go()).completed
    world = WarnedWorld(OWN)
    world.hook.failure = Unavailable("down", operation="ssm:SendCommand")
    with pytest.raises(Unavailable):
        world.lifecycle(world.let_go())

    assert [] == world.hooks.completed


@pytest.mark.parametrize(
    ("failure", "completed"),
    [
        (AccessDenied("no", operation="ssm:SendCommand"), True),
        (CloudError("not managed", operation="ssm:SendCommand", code="InvalidInstanceId"), True),
        (Throttled("busy", operation="ssm:SendCommand"), False),
        (AccessDenied("no", operation="kms:Decrypt"), False),
    ],
)
def test_a_checkpoint_that_is_refused_for_good_is_not_waited_for(
    failure: CloudError, completed: bool
) -> None:
    """Nothing is being saved, and nothing will be; what may succeed when the event is repeated is
    tried."""
    world = WarnedWorld(OWN)
    world.hook.failure = failure
    with pytest.raises(type(failure)):
        world.lifecycle(world.let_go())

    assert completed == bool(world.hooks.completed)


def test_a_checkpoint_that_was_sent_but_not_noted_is_not_cut_short() -> None:
    """It runs, though the table is away."""
    world = WarnedWorld(OWN)
    world.log.memory.failure = AccessDenied("no", operation="dynamodb:TransactWriteItems")
    with pytest.raises(AccessDenied):
        world.lifecycle(world.let_go())

    assert (1, []) == (len(world.hook.sent), world.hooks.completed)


def test_mode_observe_completes_nothing() -> None:
    """It changes nothing, anywhere."""
    world = WarnedWorld(OWN, mode=Mode.OBSERVE)

    assert not world.lifecycle(world.let_go()).completed


def test_what_could_not_be_completed_is_done_by_the_repetition() -> None:
    """All else is done, and done once."""
    world = WarnedWorld(OWN, tags=OFF)
    world.hooks.failure = Throttled("busy", operation="autoscaling:CompleteLifecycleAction")
    with pytest.raises(Throttled):
        world.lifecycle(world.let_go())
    assert (1, True) == (len(world.sent), voided(world))
    world.hooks.failure = None
    world.world.clock.moment += timedelta(minutes=1)

    assert world.lifecycle(world.let_go()).completed
    assert 1 == len(world.sent)


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_an_event_that_comes_after_the_end_is_no_news(state: str) -> None:
    """The question is closed if the change of state has not done so already."""
    world = WarnedWorld(OWN, tags=OFF)
    world.world.change_instance(state=state)

    world.lifecycle(world.let_go())

    assert ([], [], []) == (world.sent, world.hook.sent, world.hooks.completed)
    assert voided(world)


@pytest.mark.parametrize(
    ("changes", "age_minutes"),
    [
        pytest.param({}, 59, id="the wait ended long ago, and it runs on"),
        pytest.param({}, 16, id="the wait and the time Auto Scaling may take after it are over"),
        pytest.param({"launch_time": NOW - timedelta(minutes=5)}, 8, id="of an earlier run"),
    ],
)
def test_a_wait_that_is_over_is_a_line_in_the_log(
    changes: dict[str, Any], age_minutes: int
) -> None:
    """Nothing gets SIGTERM that nobody waits for: no hook, no alert, no question taken back."""
    world = WarnedWorld(Events(completed_lifecycle_hooks=(HOOK,), signal_gpu_processes=True))
    if changes:
        world.world.change_instance(**changes)

    reaction = world.lifecycle(world.let_go(at=NOW - timedelta(minutes=age_minutes)))

    assert ([], [], []) == (world.sent, world.hook.sent, world.hooks.completed)
    assert (None, False, False) == (reaction.notified, reaction.checkpoint_sent, voided(world))
    assert "too late" in reaction.notes[0]


def test_an_event_is_in_time_while_its_group_waits() -> None:
    """Ten minutes here: an event that is eight old tells of the two that are left."""
    world = WarnedWorld()

    assert world.lifecycle(world.let_go(at=NOW - timedelta(minutes=8))).checkpoint_sent
    assert 120 == world.hook.sent[0][2]


def test_a_late_event_about_a_wait_that_is_not_known_does_no_harm() -> None:
    """The hook is gone by now, or may not be read: two minutes are assumed, and they are over."""
    world = WarnedWorld()
    world.hooks.waits.clear()
    world.lifecycle(world.let_go(at=NOW - timedelta(minutes=8)))

    assert ([], [], False) == (world.sent, world.hook.sent, voided(world))


@pytest.mark.parametrize("changes", [{"tags": {}}, {"state": "terminated"}])
def test_a_question_of_a_later_run_is_not_taken_back(changes: dict[str, Any]) -> None:
    """Whatever has become of the instance since."""
    world = WarnedWorld()
    world.world.change_instance(**changes)
    before = world.instance.launch_time - timedelta(minutes=1)

    assert not world.lifecycle(world.let_go(at=before)).voided
    assert not voided(world)
    assert world.lifecycle(world.let_go()).voided


def test_an_instance_for_the_warm_pool_keeps_its_question() -> None:
    """It may run on; should it be stopped, the change of state closes the question."""
    world = WarnedWorld()

    reaction = world.lifecycle(world.let_go(to_warm_pool=True))

    assert "into its warm pool" in world.sent[0].lines[0]
    assert (True, False) == (reaction.checkpoint_sent, voided(world))


def test_a_replaced_root_volume_is_no_termination() -> None:
    """The instance goes on to run: its work is saved, and its question stays open."""
    world = WarnedWorld()

    reaction = world.lifecycle(world.root_volume_replaced())

    (alert,) = world.sent
    assert "Auto Scaling will replace the root volume of trainer (g5.xlarge)" == alert.subject
    assert alert.lines[0] == (
        "The Auto Scaling group trainers will replace the root volume of trainer. The "
        "instance keeps running, but everything on that volume and in memory is lost."
    )
    assert "terminat" not in " ".join((alert.subject, *alert.lines))
    assert (True, False) == (reaction.checkpoint_sent, voided(world))


@pytest.mark.parametrize("keeps", ["root volume", "warm pool"])
def test_a_failed_hook_does_not_say_that_an_instance_that_stays_ends(keeps: str) -> None:
    """Nor does any other line of the message."""
    world = WarnedWorld()
    world.hook.failure = AccessDenied("no", operation="ssm:SendCommand")
    warned = world.root_volume_replaced()
    if keeps == "warm pool":
        warned = world.let_go(to_warm_pool=True)

    with pytest.raises(AccessDenied):
        world.lifecycle(warned)

    failed = world.sent[-1]
    assert AlertKind.CHECKPOINT_FAILED is failed.kind
    text = " ".join((failed.subject, *failed.lines))
    assert "The instance will be shut down" not in text
    assert "Its Auto Scaling group waits until about" in text


def test_an_instance_refresh_of_root_volumes_is_one_message_about_those() -> None:
    """It is counted apart from terminations in the same group."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    tags = {**world.instance.tags, **IN_GROUP}
    ids = [world.add(number, tags=tags) for number in range(1, 4)]
    for number, instance_id in enumerate(ids):
        replaced = world.root_volume_replaced(event_id=f"event-{number}", instance_id=instance_id)
        world.lifecycle(replaced)
    world.lifecycle(world.let_go(event_id="end", instance_id=ids[0]))

    kinds = [AlertKind.AUTO_SCALING_TERMINATION, AlertKind.MASS_INTERRUPTION]
    assert [*kinds, AlertKind.AUTO_SCALING_TERMINATION] == world.kinds
    assert "more than 1 replacements of root volumes by Auto Scaling" in world.sent[1].subject
    assert "terminat" not in " ".join((world.sent[1].subject, *world.sent[1].lines))


@pytest.mark.parametrize(
    ("detail", "plan"),
    [
        ({}, "terminate"),
        ({"Action": "ReplaceRootVolume"}, "replace the root volume of"),
        (
            {"Action": "ReplaceRootVolume", "Destination": "EC2"},
            "replace the root volume of",
        ),
        ({"Action": ""}, "terminate"),
        ({"Action": 7}, "terminate"),
        ({"Action": None}, "terminate"),
        ({"Action": "Melt"}, "terminate (or Melt, which is not known here)"),
        ({"Destination": "WarmPool"}, "put into the warm pool"),
        ({"Destination": "AutoScalingGroup"}, "terminate"),
    ],
)
def test_what_the_group_will_do_is_read_from_its_event(detail: dict[str, Any], plan: str) -> None:
    """An action that is not known here may be a termination."""
    event = json.loads((SAMPLES / "scale-in.json").read_text())
    event["detail"] |= detail

    warned = parse(LifecycleEvent, event).to_domain()

    assert plan == warned.action_text
    assert ("terminate" in plan) == (warned.void_reason is not None)


def test_instances_that_are_not_governed_are_nobodys_news() -> None:
    """Nor is their group's hook anybody's business here."""
    world = WarnedWorld(OWN)
    world.world.change_instance(tags={})

    assert not world.lifecycle(world.let_go()).ours
    assert ([], [], []) == (world.sent, world.hook.sent, world.hooks.completed)


def test_a_group_that_is_replaced_is_one_message_and_every_hook() -> None:
    """Counted by group, whatever the zone; apart from interruptions of the same zone."""
    world = WarnedWorld(Events(mass_interruption_told_singly=2))
    tags = {**world.instance.tags, **IN_GROUP}
    zones = ["us-east-1a", "us-east-1b"] * 4
    ids = [world.add(n, tags=tags, availability_zone=zone) for n, zone in enumerate(zones, 1)]
    for number, instance_id in enumerate(ids):
        world.lifecycle(world.let_go(event_id=f"event-{number}", instance_id=instance_id))
    world.interruption(world.warned(event_id="spot"))

    kinds = [AlertKind.AUTO_SCALING_TERMINATION] * 2
    assert [*kinds, AlertKind.MASS_INTERRUPTION, AlertKind.SPOT_INTERRUPTION] == world.kinds
    summary = world.sent[2]
    assert summary.subject.endswith(
        "in the group trainers: more than 2 terminations by Auto Scaling"
    )
    assert (Severity.WARNING, set(ids)) == (summary.severity, set(summary.facts["instance_ids"]))  # type: ignore[call-overload]
    assert 9 == len(world.hook.sent)
