"""Interruption warnings: the hooks of all first, then each is told, whatever else is busy."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.approvals.model.approval import ApprovalStatus
from governor.core.errors import AccessDenied, CloudError, Interrupted, Throttled, Unavailable
from governor.core.instance import Instance, Lifecycle, Target
from governor.episode.model.episode import InstanceRecord, Outcome
from governor.episode.model.plan import Step
from governor.events import respond_to_warnings, send_checkpoint
from governor.events.model.interruption import Cause, Warned
from governor.events.notify_warning import Notified, Reaction
from governor.policy.model.judging import Targets
from governor.policy.model.notices import Events
from governor.policy.model.policy import Mode
from tests.builders import NOW, TARGET
from tests.unit.worlds.warned_world import DATA, WarnedWorld
from tests.unit.worlds.world import APPROVAL_ID

SIGNAL = {"GpuGovernorCheckpoint": "signal"}


def voided(world: WarnedWorld) -> bool:
    """Return whether the open question was taken back."""
    approval = world.world.state.approval(APPROVAL_ID)
    return approval is not None and approval.status is ApprovalStatus.VOID


def test_a_warning_is_told_hooked_and_closes_the_question() -> None:
    """The seconds left are those that are left now, not two minutes."""
    world = WarnedWorld()
    world.world.workflow.waiting.add("token")

    reaction = world.interruption(world.warned())

    (alert,) = world.sent
    assert (AlertKind.SPOT_INTERRUPTION, Severity.CRITICAL, "ada") == (
        alert.kind,
        alert.severity,
        alert.owner,
    )
    assert "around Fri 12:04 UTC: Spot interruption" in alert.subject
    assert [(world.instance.instance_id, "spot-interruption", 100, False)] == world.hook.sent
    assert (Notified.SINGLY, True, True) == (
        reaction.notified,
        reaction.checkpoint_sent,
        reaction.voided,
    )
    assert voided(world)
    assert "interrupted" == world.world.workflow.answers["token"]["outcome"]


def test_a_reservation_that_is_taken_back_says_when() -> None:
    """EC2 states the time there; it goes before our two minutes."""
    world = WarnedWorld()
    ends = NOW + timedelta(seconds=45)

    world.interruption(world.warned(cause=Cause.RESERVATION, stated_end=ends))

    assert "around Fri 12:03 UTC: Capacity Reservation interruption" in world.sent[0].subject
    assert ("capacity-reservation-interruption", 45) == world.hook.sent[0][1:3]


def test_the_hooks_of_all_go_before_the_first_message() -> None:
    """Two hundred messages take longer than two hundred hooks, which are a handful of calls."""
    world = WarnedWorld()
    order: list[str] = []

    def tell(_: object) -> None:
        order.append("told")

    def send(_: object, instance_ids: Sequence[str], *__: object, **___: object) -> str:
        order.append(f"{len(instance_ids)} hooks")
        return "command-1"

    world.world.announcer.announce = tell  # type: ignore[method-assign, assignment]
    world.hook.send = send  # type: ignore[method-assign, assignment]
    world.react(batch(world, 60))

    assert ({"50 hooks", "10 hooks"}, "told") == (set(order[:2]), order[2])


@pytest.mark.parametrize(
    ("tag", "policy", "sent", "signal"),
    [
        (None, Events(), True, False),
        (None, Events(checkpoint_on_spot_interruption=False), False, False),
        (None, Events(signal_gpu_processes=True), True, True),
        ("off", Events(), False, False),
        (
            "hook",
            Events(checkpoint_on_spot_interruption=False, signal_gpu_processes=True),
            True,
            False,
        ),
        ("Signal", Events(checkpoint_on_spot_interruption=False), True, True),
        ("perhaps", Events(), True, False),
    ],
)
def test_the_tag_goes_before_the_policy(
    tag: str | None, policy: Events, sent: bool, signal: bool
) -> None:
    """A tag that says nothing known leaves it to the policy."""
    world = WarnedWorld(policy, tags={"GpuGovernorCheckpoint": tag} if tag else {})

    world.interruption(world.warned())

    assert [signal] * sent == [command[3] for command in world.hook.sent]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"mode": Mode.OBSERVE}, "observe changes nothing"),
        ({"changes": {"platform": "Windows"}}, "Linux program"),
        ({"changes": {"state": "shutting-down"}}, "the instance is shutting-down"),
        ({"has_document": False}, "No checkpoint hook is set up"),
    ],
)
def test_no_hook_where_it_has_no_place(given: dict[str, object], why: str) -> None:
    """And the message says why."""
    world = WarnedWorld(tags=SIGNAL, **given)  # type: ignore[arg-type]

    assert not world.interruption(world.warned()).checkpoint_sent
    assert [] == world.hook.sent
    assert why in " ".join(world.sent[0].lines)


def test_a_hibernation_keeps_the_memory_and_is_not_hooked() -> None:
    """It begins at once; a hook would save what is saved already."""
    world = WarnedWorld(tags=SIGNAL)

    assert not world.interruption(world.warned(action="hibernate")).checkpoint_sent


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("stop", "EC2 will stop trainer"),
        ("relocate", "EC2 will terminate (or relocate, which is not known here) trainer"),
        (None, "EC2 will terminate trainer"),
    ],
)
def test_an_action_that_is_not_known_is_taken_for_the_worst(action: str | None, said: str) -> None:
    """Told with its name, hooked, and the question taken back."""
    world = WarnedWorld()

    reaction = world.interruption(world.warned(action=action))

    assert said in world.sent[0].lines[0]
    assert (True, True) == (reaction.checkpoint_sent, voided(world))


def test_neither_a_busy_table_nor_a_dead_channel_keeps_the_hook_back() -> None:
    """Every step is tried; what failed is raised, so that the event is repeated."""
    world = WarnedWorld()
    world.log.memory.failure = Throttled("busy", operation="dynamodb:UpdateItem")
    with pytest.raises(Throttled):
        world.interruption(world.warned())
    assert (1, 1) == (len(world.sent), len(world.hook.sent))

    world = WarnedWorld()
    world.world.announcer.failure = Unavailable("SNS is down", operation="sns:Publish")
    with pytest.raises(Unavailable):
        world.interruption(world.warned())
    assert 1 == len(world.hook.sent)
    assert voided(world)


def test_a_question_that_cannot_be_read_is_closed_by_the_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told and hooked once, closed when the table answers again."""
    world = WarnedWorld()
    state = world.world.state
    read = state.record

    def busy(target: Target, instance_id: str) -> InstanceRecord:
        raise Throttled("busy", operation="dynamodb:GetItem")

    monkeypatch.setattr(state, "record", busy)
    with pytest.raises(Throttled):
        world.interruption(world.warned())
    monkeypatch.setattr(state, "record", read)
    world.world.clock.moment += timedelta(minutes=1)
    world.interruption(world.warned())

    assert (1, 1, True) == (len(world.sent), len(world.hook.sent), voided(world))


def test_a_hook_that_could_not_be_sent_is_told_once_and_tried_again() -> None:
    """Somebody may still save by hand; the repetition comes within the two minutes."""
    world = WarnedWorld()
    world.hook.failure = CloudError(
        "not managed", operation="ssm:SendCommand", code="InvalidInstanceId"
    )
    with pytest.raises(CloudError, match="not managed"):
        world.interruption(world.warned())
    world.world.clock.moment += timedelta(minutes=1)
    with pytest.raises(CloudError, match="not managed"):
        world.interruption(world.warned())
    assert [AlertKind.SPOT_INTERRUPTION, AlertKind.CHECKPOINT_FAILED] == world.kinds
    assert voided(world)

    world.hook.failure = None
    world.world.clock.moment += timedelta(minutes=1)
    assert world.interruption(world.warned()).checkpoint_sent
    assert 2 == len(world.sent)


def test_data_volumes_are_snapshot_where_the_policy_says_so() -> None:
    """Once, without the boot volume, with the date after which they may go."""
    world = WarnedWorld(Events(snapshot_data_volumes=True))

    first = world.interruption(world.warned())
    again = world.interruption(world.warned())

    ((snapshot, tags),) = world.world.ec2.snapshots.values()
    assert (DATA.volume_id, (snapshot.snapshot_id,)) == (snapshot.volume_id, first.snapshots)
    assert ("event-1", "2026-12-20T12:02:30Z") == (tags["GpuGovernor:Event"], tags["DeleteAfter"])
    assert () == again.snapshots


def test_a_snapshot_that_fails_delays_neither_alert_nor_hook() -> None:
    """Its turn comes after both; the question is closed all the same."""
    world = WarnedWorld(Events(snapshot_data_volumes=True))
    world.world.ec2.failures["create_snapshots"] = [
        AccessDenied("no", operation="ec2:CreateSnapshots")
    ]

    with pytest.raises(AccessDenied):
        world.interruption(world.warned())

    assert (1, 1, True) == (len(world.sent), len(world.hook.sent), voided(world))


@pytest.mark.parametrize(
    ("mode", "volumes", "calls"),
    [(Mode.OBSERVE, 2, [True]), (Mode.ASK, 1, []), (Mode.AUTO, 2, [False])],
)
def test_snapshots_obey_the_mode_and_need_data(mode: Mode, volumes: int, calls: list[bool]) -> None:
    """A dry run in mode observe; nothing where there is a boot volume only."""
    world = WarnedWorld(Events(snapshot_data_volumes=True), mode=mode)
    world.world.change_instance(volumes=world.instance.volumes[:volumes])

    world.interruption(world.warned())

    assert calls == [dry for name, _, dry in world.world.ec2.calls if name == "create_snapshots"]


def test_instances_that_are_not_governed_are_nobodys_news() -> None:
    """A question that is still open about one is taken back all the same."""
    world = WarnedWorld(Events(snapshot_data_volumes=True))
    world.world.change_instance(tags={})

    reaction = world.interruption(world.warned())

    assert (False, [], [], {}) == (
        reaction.ours,
        world.sent,
        world.hook.sent,
        world.world.ec2.snapshots,
    )
    assert voided(world)


# many at once


def batch(world: WarnedWorld, count: int, **changes: Any) -> list[Warned]:
    """A warning for each of that many instances of the zone."""
    return [
        world.warned(event_id=f"event-{number}", instance_id=world.add(number, **changes))
        for number in range(1, count + 1)
    ]


def test_an_instance_out_of_reach_keeps_no_other_hook_back() -> None:
    """One that Systems Manager does not manage fails a whole command: it is found, told and tried
    again."""
    world = WarnedWorld()
    warnings = batch(world, 50)
    lost = warnings[17]
    world.hook.unmanaged.add(lost.instance_id)

    results = world.react(warnings)

    assert {w.instance_id for w in warnings} - {lost.instance_id} == {
        sent[0] for sent in world.hook.sent
    }
    assert 49 == len(world.hook.sent)
    failed = [
        w.event_id
        for w, result in zip(warnings, results, strict=True)
        if isinstance(result, CloudError)
    ]
    assert [lost.event_id] == failed
    world.hook.unmanaged.clear()
    world.world.clock.moment += timedelta(seconds=40)
    assert world.interruption(lost).checkpoint_sent
    assert 50 == len(world.hook.sent)


@pytest.mark.parametrize("unmanaged", [1, 100, 200])
def test_two_hundred_warnings_are_a_dozen_calls_whoever_is_out_of_reach(unmanaged: int) -> None:
    """Systems Manager is asked once for each command that it refused, and never by halves."""
    world = WarnedWorld()
    warnings = batch(world, 200)
    lost = {warned.instance_id for warned in warnings[::-1][:unmanaged]}
    world.hook.unmanaged |= lost
    calls = counted(world)

    results = world.react(warnings)

    assert len(calls) <= 12
    assert {w.instance_id for w in warnings} - lost == {sent[0] for sent in world.hook.sent}
    refused = {
        w.instance_id: str(result)
        for w, result in zip(warnings, results, strict=True)
        if isinstance(result, CloudError)
    }
    assert lost == set(refused)
    assert all(f"{one} is not managed by Systems Manager" in text for one, text in refused.items())


def counted(world: WarnedWorld) -> list[int]:
    """To how many instances each call for a hook goes, refused or not."""
    calls: list[int] = []
    send = world.hook.send

    def count(target: Target, instance_ids: Sequence[str], *rest: Any, **named: Any) -> str:
        calls.append(len(instance_ids))
        return send(target, instance_ids, *rest, **named)

    world.hook.send = count  # type: ignore[method-assign]
    return calls


@pytest.mark.parametrize("answers", [True, False])
def test_where_systems_manager_cannot_say_which_each_is_asked_alone(answers: bool) -> None:
    """It knows one that does not run any more, or does not answer at all: at the same time, not in
    turns."""
    world = WarnedWorld()
    warnings = batch(world, 20)
    world.hook.unmanaged.add(warnings[3].instance_id)

    def managed(_: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        if not answers:
            raise Throttled("busy", operation="ssm:DescribeInstanceInformation")
        return frozenset(instance_ids)

    world.hook.managed = managed  # type: ignore[method-assign, assignment]
    calls = counted(world)

    results = world.react(warnings)

    assert [20] + [1] * 20 == calls
    assert 19 == len(world.hook.sent)
    assert [3] == [
        number for number, result in enumerate(results) if isinstance(result, CloudError)
    ]


def test_two_warnings_about_one_instance_name_it_once() -> None:
    """Systems Manager refuses a command that names an instance twice."""
    world = WarnedWorld()
    (warning,) = batch(world, 1)

    world.react([warning, replace(warning, event_id="another")])

    assert [(warning.instance_id,)] == world.hook.commands


@pytest.mark.parametrize("count", [1, 60])
def test_a_systems_manager_that_hangs_keeps_nobody_untold(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One account and Region: hooks have their time, then people are told, who may still save by
    hand."""
    monkeypatch.setattr(send_checkpoint, "_PATIENCE_SECONDS", 0.3)
    world = WarnedWorld()
    answered, over = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> str:
        answered.wait(300)
        over.set()
        return "command-1"

    world.hook.send = hang  # type: ignore[method-assign]
    results = world.react(batch(world, count))
    waited_for = over.is_set()
    answered.set()

    assert not waited_for
    assert AlertKind.SPOT_INTERRUPTION is world.kinds[0]
    assert all(isinstance(result, Unavailable) for result in results)


def test_a_refusal_that_comes_too_late_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its warnings come again, and another call may be sending their hooks by then."""
    monkeypatch.setattr(send_checkpoint, "_PATIENCE_SECONDS", 0.2)
    world = WarnedWorld()
    warnings, told, over = batch(world, 3), threading.Event(), threading.Event()
    world.hook.unmanaged.add(warnings[0].instance_id)
    send, to_all = world.hook.send, send_checkpoint._Sending.to_all

    def refuse_late(*arguments: Any, **named: Any) -> str:
        told.wait(300)
        return send(*arguments, **named)

    def watched(*arguments: Any) -> None:
        to_all(*arguments)
        over.set()

    world.hook.send = refuse_late  # type: ignore[method-assign]
    monkeypatch.setattr(send_checkpoint._Sending, "to_all", watched)
    world.react(warnings)
    told.set()

    assert over.wait(300)
    assert ([], []) == (world.hook.asked, world.hook.sent)


def test_one_warning_that_fails_leaves_the_others_done() -> None:
    """Each has its own result; a Region that cannot be read is not the other one's matter."""
    world = WarnedWorld()
    policies = world.world.policies
    policies.policy = replace(policies.policy, targets=Targets(regions=("us-east-1", "eu-west-1")))
    here, there = batch(world, 2)
    elsewhere = replace(there, region="eu-west-1")
    describe = world.world.ec2.describe_all

    def refuse(target: Target, instance_ids: Sequence[str]) -> dict[str, Instance | CloudError]:
        if target.region == "eu-west-1":
            raise Throttled("busy", operation="ec2:DescribeInstances")
        return describe(target, instance_ids)

    world.world.ec2.describe_all = refuse  # type: ignore[method-assign]
    done, failed = world.react([here, elsewhere])

    assert isinstance(done, Reaction)
    assert done.checkpoint_sent
    assert isinstance(failed, Throttled)


def test_one_record_that_cannot_be_read_silences_no_other_warning() -> None:
    """Its own warning fails with the reason, and comes again."""
    world = WarnedWorld()
    whole, odd = batch(world, 2)
    world.world.ec2.odd[odd.instance_id] = "EC2's record of it lacks InstanceType"

    done, failed = world.react([whole, odd])

    assert isinstance(done, Reaction)
    assert done.checkpoint_sent
    assert isinstance(failed, CloudError)
    assert "EC2's record of it lacks InstanceType" == str(failed)


def test_a_time_that_nothing_can_be_reckoned_with_keeps_no_hook_back() -> None:
    """It lies at the end of the calendar: the warning fails, and it alone."""
    world = WarnedWorld()
    good, bad = batch(world, 2)

    done, failed = world.react([good, replace(bad, at=datetime.max.replace(tzinfo=UTC))])

    assert isinstance(done, Reaction)
    assert isinstance(failed, OverflowError)
    assert [good.instance_id] == [sent[0] for sent in world.hook.sent]


def test_a_warning_that_came_twice_in_a_batch_is_answered_once() -> None:
    """EventBridge and queues deliver at least once."""
    world = WarnedWorld()
    (warning,) = batch(world, 1)

    world.react([warning, warning])

    assert (1, 1) == (len(world.hook.sent), len(world.sent))


def test_claims_that_cannot_be_made_keep_no_hook_back() -> None:
    """Twice is better than never; and the warnings come again."""
    world = WarnedWorld()
    world.log.memory.failure = Throttled("busy", operation="dynamodb:TransactWriteItems")

    results = world.react(batch(world, 3))

    assert 3 == len(world.hook.sent)
    assert all(isinstance(result, Throttled) for result in results)


def warn_all(world: WarnedWorld, count: int) -> list[Notified | None]:
    """That many instances of the zone, each warned once."""
    ids = [world.add(number) for number in range(1, count + 1)]
    return [
        world.interruption(
            world.warned(event_id=f"event-{number}", instance_id=instance_id)
        ).notified
        for number, instance_id in enumerate(ids)
    ]


def test_a_mass_interruption_is_one_message_and_every_hook() -> None:
    """Five singly, one summary that names owners and instances, and nothing more; every hook is
    sent."""
    world = WarnedWorld()

    told = warn_all(world, 200)

    assert [Notified.SINGLY] * 5 + [Notified.AS_A_MASS] + [Notified.COUNTED] * 194 == told
    assert [AlertKind.SPOT_INTERRUPTION] * 5 + [AlertKind.MASS_INTERRUPTION] == world.kinds
    assert 200 == len(world.hook.sent)
    summary = world.sent[-1]
    assert "more than 5 interruption warnings" in summary.subject
    assert {"ada": 201} == summary.facts["owners"]
    assert "and 181 more" in " ".join(summary.lines)


def test_every_owner_of_a_mass_hears_of_it() -> None:
    """By a message of their own: nobody else's channel may reach them."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    for number, owner in ((11, "ada"), (12, "bob"), (13, "bob")):
        world.add(number, tags={"Purpose": "GPU-Workload", "Owner": owner, "Name": f"n{number}"})
    warn_all(world, 2)

    told = {alert.owner: len(alert.facts["instance_ids"]) for alert in world.sent[1:]}  # type: ignore[arg-type]
    assert 2 == told["bob"]
    assert {"ada", "bob"} == set(told)


def test_zones_and_windows_are_counted_apart() -> None:
    """Another zone, or a warning after the window, is told singly again."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    warn_all(world, 2)
    elsewhere = world.add(77, availability_zone="us-east-1b")
    other = world.interruption(world.warned(event_id="other", instance_id=elsewhere))
    world.world.clock.moment += timedelta(minutes=10)
    later = world.interruption(world.warned(event_id="later", at=world.world.clock.moment))

    assert (Notified.SINGLY, Notified.SINGLY) == (other.notified, later.notified)


def test_a_summary_that_could_not_be_sent_is_sent_by_the_next_warning_or_the_repetition() -> None:
    """It must not be lost with the one call that was to send it."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    warn_all(world, 1)
    world.world.announcer.failure = Unavailable("SNS is down", operation="sns:Publish")
    with pytest.raises(Unavailable):
        world.interruption(world.warned(event_id="second"))
    world.world.announcer.failure = None
    world.world.clock.moment += timedelta(minutes=1)

    assert Notified.AS_A_MASS is world.interruption(world.warned(event_id="second")).notified
    assert Notified.COUNTED is world.interruption(world.warned(event_id="third")).notified


def test_a_summary_is_told_although_the_zone_cannot_be_listed() -> None:
    """EC2 throttles when many ask at once."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    warn_all(world, 1)
    world.world.ec2.failures["list_selected"] = [
        Throttled("busy", operation="ec2:DescribeInstances")
    ]

    reaction = world.interruption(world.warned(event_id="second"))

    assert (Notified.AS_A_MASS, 1) == (reaction.notified, len(reaction.notes))
    assert "could not be listed" in " ".join(world.sent[-1].lines)


def test_a_count_that_cannot_be_written_keeps_no_warning_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One message too many is the safe side."""
    world = WarnedWorld()

    def busy(*_: object) -> None:
        raise Throttled("busy", operation="dynamodb:UpdateItem")

    monkeypatch.setattr(world.log, "count_one_more", busy)

    reaction = world.interruption(world.warned())

    assert (Notified.SINGLY, 1) == (reaction.notified, len(reaction.notes))


def test_failed_hooks_of_a_mass_are_not_told_one_by_one() -> None:
    """A missing document would be two hundred messages otherwise."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    world.hook.failure = CloudError(
        "no document", operation="ssm:SendCommand", code="InvalidDocument"
    )
    for number in range(4):
        warned = replace(world.warned(), event_id=f"event-{number}")
        with pytest.raises(CloudError, match="no document"):
            world.interruption(warned)

    expected = [
        AlertKind.SPOT_INTERRUPTION,
        AlertKind.CHECKPOINT_FAILED,
        AlertKind.MASS_INTERRUPTION,
    ]
    assert expected == world.kinds


# late, slow and many


@pytest.mark.parametrize(
    ("changes", "age_minutes"),
    [({"launch_time": NOW - timedelta(minutes=4)}, 5), ({}, 8)],
    ids=["it was started again", "it was spared"],
)
def test_a_warning_that_is_over_is_a_line_in_the_log(
    changes: dict[str, Any], age_minutes: int
) -> None:
    """Events may come an hour late: no hook, no alert, and the question of the present run stays
    open."""
    world = WarnedWorld(Events(snapshot_data_volumes=True), tags=SIGNAL)
    if changes:
        world.world.change_instance(**changes)
        record = world.world.state.record(TARGET, world.instance.instance_id)
        assert record.open_episode is not None

    reaction = world.interruption(world.warned(at=NOW - timedelta(minutes=age_minutes)))

    assert ([], [], {}) == (world.sent, world.hook.sent, world.world.ec2.snapshots)
    assert (None, False, False) == (reaction.notified, reaction.checkpoint_sent, voided(world))
    assert "too late" in reaction.notes[0]


def test_what_ec2_still_does_after_its_time_is_answered() -> None:
    """It may be late itself, by minutes."""
    world = WarnedWorld()

    assert world.interruption(world.warned(at=NOW - timedelta(minutes=6))).checkpoint_sent


def test_a_region_that_hangs_holds_up_no_hook_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own warnings come again."""
    # Long enough for what answers, on any machine.
    monkeypatch.setattr(respond_to_warnings, "_PATIENCE_SECONDS", 3.0)
    world = WarnedWorld()
    policies = world.world.policies
    policies.policy = replace(policies.policy, targets=Targets(regions=("us-east-1", "eu-west-1")))
    here, there = batch(world, 2)
    answered, describe = threading.Event(), world.world.ec2.describe_all

    def hang(target: Target, instance_ids: Sequence[str]) -> dict[str, Instance | CloudError]:
        if target.region == "eu-west-1":
            answered.wait(300)
        return describe(target, instance_ids)

    world.world.ec2.describe_all = hang  # type: ignore[method-assign]
    done, failed = world.react([replace(there, region="eu-west-1"), here])[::-1]
    answered.set()

    assert isinstance(done, Reaction)
    assert [here.instance_id] == [sent[0] for sent in world.hook.sent]
    assert isinstance(failed, Unavailable)


def test_snapshots_wait_for_no_telling_and_for_no_other_snapshot() -> None:
    """All are told and their questions void before the first; then they are made at the same
    time."""
    world = WarnedWorld(Events(snapshot_data_volumes=True))
    warnings = batch(world, 8)
    create, together, told = world.world.ec2.create, threading.Barrier(8, timeout=300), []

    def meet(*arguments: Any, **named: Any) -> Any:
        told.append(len(world.sent))
        together.wait()
        return create(*arguments, **named)

    world.world.ec2.create = meet  # type: ignore[method-assign]
    results = world.react(warnings)

    assert all(isinstance(result, Reaction) and result.snapshots for result in results)
    assert {6} == set(told)  # five singly, and one for all others


# nothing of ours under a checkpoint


def test_until_when_it_is_warned_is_noted_of_every_governed_instance() -> None:
    """The notice and five minutes: EC2 may be late, and what runs then was spared."""
    world = WarnedWorld()
    warnings = [
        *batch(world, 3),
        world.warned(event_id="not ours", instance_id=world.add(9, tags={})),
    ]

    world.react(warnings)

    records = world.world.state.records(TARGET)
    expected = NOW - timedelta(seconds=20) + timedelta(minutes=7)
    assert [expected] * 3 == [records[one.instance_id].warned_until for one in warnings[:3]]
    assert warnings[3].instance_id not in records


def test_an_end_in_years_keeps_nobody_from_anything_for_long() -> None:
    """A reservation states its end itself."""
    world = WarnedWorld()

    world.interruption(
        world.warned(cause=Cause.RESERVATION, stated_end=datetime.max.replace(tzinfo=UTC))
    )

    record = world.world.state.record(TARGET, world.instance.instance_id)
    assert NOW + timedelta(minutes=35) == record.warned_until


def test_a_question_that_was_just_approved_is_not_acted_on_under_the_checkpoint() -> None:
    """The yes was faster than the warning: recheck and stop refuse, and the episode is
    interrupted."""
    world = WarnedWorld(changes={"spot_request_id": "sir-1"})
    world.world.state.settle(APPROVAL_ID, world.world.approval)

    assert not world.interruption(world.warned()).voided

    rechecked = world.world.recheck(world.world.ref, Step.STOP)
    assert (False, Outcome.INTERRUPTED) == (rechecked.proceed, rechecked.outcome)
    with pytest.raises(Interrupted):
        world.world.put_away(world.world.ref, Step.STOP)


def test_a_table_that_hangs_delays_neither_hook_nor_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """The note is made beside the hook, and its warning comes again."""
    monkeypatch.setattr(respond_to_warnings, "_NOTE_SECONDS", 0.2)
    world = WarnedWorld()
    answered, over = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        answered.wait(300)
        over.set()

    monkeypatch.setattr(world.world.state, "note_warned", hang)

    with pytest.raises(Unavailable):
        world.interruption(world.warned())
    waited_for = over.is_set()
    answered.set()

    assert not waited_for
    assert (1, 1, True) == (len(world.sent), len(world.hook.sent), voided(world))


# what people are told of the hook


@pytest.mark.parametrize(
    ("failure", "said", "sent"),
    [
        (None, "Its checkpoint hook was asked to save the work, because the policy says so.", True),
        (
            AccessDenied("no right", operation="ssm:SendCommand"),
            "so save your work by hand. The reason: no right",
            False,
        ),
        (
            Unavailable("no answer", operation="ssm:SendCommand"),
            "so save your work by hand. The reason: no answer",
            None,
        ),
    ],
    ids=["sent", "refused", "no answer"],
)
def test_the_alert_says_what_became_of_the_hook(
    failure: CloudError | None, said: str, sent: bool | None
) -> None:
    """Not what was decided: whoever is told that it was asked saves nothing by hand."""
    world = WarnedWorld()
    world.hook.failure = failure

    (result,) = world.react([world.warned()])

    assert failure is None or failure is result
    assert said in world.sent[0].lines[-1]
    assert sent is world.sent[0].facts["checkpoint_sent"]
    if failure is not None:
        failed = world.sent[1]
        assert (AlertKind.CHECKPOINT_FAILED, sent) == (failed.kind, failed.facts["checkpoint_sent"])
        assert ("may not have started" if sent is None else "did not start") in failed.subject


def test_a_hook_that_was_sent_is_told_as_sent_whatever_came_after() -> None:
    """The note of it failed, or the telling did and comes again."""
    world = WarnedWorld()
    world.log.memory.failure = Throttled("busy", operation="dynamodb:UpdateItem")
    world.react([world.warned()])
    assert [True] == [alert.facts["checkpoint_sent"] for alert in world.sent]

    world = WarnedWorld()
    world.world.announcer.failure = Unavailable("SNS is down", operation="sns:Publish")
    world.react([world.warned()])
    world.world.announcer.failure = None
    world.world.clock.moment += timedelta(seconds=40)
    world.react([world.warned()])
    (alert,) = world.sent
    assert True is alert.facts["checkpoint_sent"]
    assert "when this warning first arrived" in alert.lines[-1]
    assert 1 == len(world.hook.sent)


def test_the_message_of_a_mass_names_those_that_could_not_be_asked() -> None:
    """Nobody is told of them one by one."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    warnings = batch(world, 30)
    lost = sorted(warned.instance_id for warned in warnings[4:7])
    world.hook.unmanaged |= set(lost)

    world.react(warnings)

    summary = world.sent[-1]
    assert AlertKind.MASS_INTERRUPTION is summary.kind
    assert lost == sorted(summary.facts["checkpoint_not_sent"])  # type: ignore[call-overload]
    assert summary.lines[3].startswith("3 hooks did not start, or may not have started: ")
    assert all(one in summary.lines[3] for one in lost)


def test_the_message_of_a_mass_names_the_instances_of_its_zone_alone() -> None:
    """Instances in another zone are not in danger, nor are those that EC2 cannot take back."""
    world = WarnedWorld(Events(mass_interruption_told_singly=1))
    elsewhere = world.add(77, availability_zone="us-east-1b")
    owned = world.add(78, lifecycle=Lifecycle.ON_DEMAND)
    warn_all(world, 2)

    named = world.sent[-1].facts["instance_ids"]
    assert isinstance(named, list)
    assert {world.instance.instance_id, "i-00000000000000001", "i-00000000000000002"} == set(named)
    assert not {elsewhere, owned} & set(named)


@pytest.mark.parametrize("state", ["shutting-down", "stopping", "stopped"])
def test_a_late_warning_of_what_ec2_has_taken_is_told(state: str) -> None:
    """It was not spared: its owner learns why it went, and its question is taken back."""
    world = WarnedWorld()
    world.world.change_instance(state=state)

    reaction = world.interruption(world.warned(at=NOW - timedelta(minutes=8)))

    assert (Notified.SINGLY, True) == (reaction.notified, voided(world))
