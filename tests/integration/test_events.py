"""Events of EC2 and AWS Health, driven through the template's rules on the local cloud."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from local.demo.fleet import T4
from local.demo.samples import of_this_account
from local.engine.cloud import ROOT
from tests.integration.people import decide
from tests.integration.stage import TARGET, Stage
from tests.twins.stores import EveryEventStore

SPOT: dict[str, Any] = {
    "instance_type": "g4dn.xlarge",
    "gpu": T4,
    "lifecycle": "spot",
    "spot_request_type": "one-time",
}


def test_a_spot_warning_is_told_and_hooked(stage: Stage) -> None:
    """The alert, the command to the instance with its parameters, and the snapshot of the data
    volume."""
    settings = "{snapshot_data_volumes: true, signal_gpu_processes: true, placement_scores: true}"
    stage.policy(f"mode: ask\nevents: {settings}")
    stage.scene.simulation.set_placement_scores({"us-west-2": 9, "us-east-1": 2})
    instance_id = stage.launch(data_gib=50, **SPOT)

    stage.scene.simulation.spot_warning(instance_id)

    assert "critical" == stage.await_mail(instance_id, "spot-interruption")["severity"]
    (command,) = stage.eventually(
        lambda: stage.scene.simulation.commands() or None, "no command is sent"
    )
    assert ([instance_id], "sigterm") == (
        command["InstanceIds"],
        command["Parameters"]["WhenNoHook"][0],
    )
    assert 1 == len(stage.eventually(lambda: stage.snapshots() or None, "no snapshot is begun"))
    advice = stage.await_mail(instance_id, "interruption-advice")["facts"]
    assert {"us-west-2", "eu-west-1"} == {price["region"] for price in advice["elsewhere"]}
    assert {"us-west-2": 9, "us-east-1": 2, "eu-west-1": 1} == advice["placement_scores"]


def test_a_rebalance_recommendation_is_told(stage: Stage) -> None:
    """Through its own rule; the hook waits for the policy."""
    instance_id = stage.launch(**SPOT)

    stage.scene.simulation.rebalance_recommendation(instance_id)

    assert "warning" == stage.await_mail(instance_id, "rebalance-recommended")["severity"]
    assert [] == stage.scene.simulation.commands()


def test_a_reservation_that_is_taken_back_is_told(stage: Stage) -> None:
    """The sibling of the Spot warning goes through the same rule."""
    instance_id = stage.launch(**SPOT)

    stage.scene.simulation.put_event(
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
        {
            "instance-id": instance_id,
            "instance-action": "terminate",
            "instance-termination-time": "2030-01-01T00:00:00Z",
        },
    )

    assert "Capacity Reservation" in stage.await_mail(instance_id, "spot-interruption")["subject"]


def test_an_instance_that_auto_scaling_lets_go_is_told_and_hooked(stage: Stage) -> None:
    """With the time of the group's hook; its question ends, booked as not ours; the group is left
    waiting."""
    stage.scene.cloud.client("autoscaling").put_lifecycle_hook(
        AutoScalingGroupName="trainers",
        LifecycleHookName="save-work",
        LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING",
        HeartbeatTimeout=900,
    )
    stage.policy("mode: ask\nevents: {completed_lifecycle_hooks: [save-work]}")
    instance_id, _ = stage.ask()

    event = _let_go(instance_id)
    stage.scene.simulation.put_event("aws.autoscaling", event["detail-type"], event["detail"])

    told = stage.await_mail(instance_id, "auto-scaling-termination")
    assert ("warning", "trainers") == (told["severity"], told["facts"]["auto_scaling_group"])
    (command,) = stage.eventually(
        lambda: stage.scene.simulation.commands() or None, "no command is sent"
    )
    assert ["auto-scaling-termination"] == command["Parameters"]["Reason"]
    assert 840 < int(command["Parameters"]["SecondsLeft"][0]) <= 900
    assert "interrupted" == stage.outcome(instance_id)
    months = {f"{datetime.now(tz=UTC) - timedelta(days=days):%Y-%m}" for days in (0, 1)}
    entries = [entry for month in months for entry in stage.state.entries(month)]
    assert [False] == [entry.ours for entry in entries if entry.episode.instance_id == instance_id]
    assert 0 == stage.scene.simulation.calls().get("autoscaling:CompleteLifecycleAction", 0)


def test_a_lifecycle_hook_of_its_own_is_completed_once_where_nothing_is_saved(stage: Stage) -> None:
    """The event comes twice, then malformed, then after the instance has gone."""
    stage.policy(
        "mode: ask\nevents: {completed_lifecycle_hooks: [save-work], "
        "checkpoint_on_auto_scaling: false}"
    )
    instance_id = stage.launch()
    event = _let_go(instance_id)
    stage.make_group(event["detail"]["AutoScalingGroupName"])

    first, _ = stage.invoke("HandleLifecycleAction", event)
    again, _ = stage.invoke("HandleLifecycleAction", event)
    nameless = {
        **event,
        "detail": {k: v for k, v in event["detail"].items() if k != "LifecycleHookName"},
    }
    refused, raised = stage.invoke("HandleLifecycleAction", nameless)
    stage.scene.simulation.set_state(instance_id, "terminated")
    stage.eventually(lambda: stage.ec2_state(instance_id) == "terminated" or None, "it does not go")
    late, _ = stage.invoke("HandleLifecycleAction", {**event, "id": f"late-{instance_id}"})

    assert [(True, "singly"), (False, None), (False, None)] == [
        (answer["completed"], answer["told"]) for answer in (first, again, late)
    ]
    assert (True, "InputError") == (raised, refused["errorType"])
    assert "LifecycleHookName" in refused["errorMessage"]
    assert 1 == stage.scene.simulation.calls()["autoscaling:CompleteLifecycleAction"]
    assert [] == stage.scene.simulation.commands()


def test_every_sample_meets_its_rules_and_its_replay_meets_none(stage: Stage) -> None:
    """EventBridge marks what it replays from an archive: last week's warnings must not be told and
    hooked."""
    events = stage.scene.cloud.client("events")
    patterns = [
        rule["EventPattern"] for rule in events.list_rules()["Rules"] if "EventPattern" in rule
    ]
    samples = [
        path
        for path in (ROOT / "events").glob("handle_*/*.json")
        if "source" in (event := of_this_account(json.loads(path.read_text())))
        and event["source"] != "aws.states"
    ]

    def met(event: dict[str, Any]) -> int:
        text = json.dumps(event)
        return sum(
            events.test_event_pattern(EventPattern=p, Event=text)["Result"] for p in patterns
        )

    assert len(samples) > 15
    for sample in samples:
        event = of_this_account(json.loads(sample.read_text()))
        if sample.stem != "malformed-other-service":
            # That an instance stopped is looked at twice: it may be a start that EC2 took back.
            rules = 2 if event["detail"].get("state") == "stopped" else 1
            assert (sample, rules) == (sample, met(event))
        assert (sample, 0) == (sample, met({**event, "replay-name": "last-week"}))


def test_a_doubled_warning_is_answered_once(stage: Stage) -> None:
    """The same event id again: neither told nor hooked."""
    instance_id = stage.launch(**SPOT)
    event = of_this_account(
        json.loads((ROOT / "events/handle_spot_interruption/terminate.json").read_text())
    )
    event |= {
        "id": f"doubled-{instance_id}",
        "detail": {**event["detail"], "instance-id": instance_id},
    }
    event["time"] = f"{datetime.now(tz=UTC):%Y-%m-%dT%H:%M:%SZ}"

    first, _ = stage.invoke("HandleSpotInterruption", event)
    again, _ = stage.invoke("HandleSpotInterruption", event)

    assert (True, True) == (first["told"] is not None, first["checkpoint_sent"])
    assert (None, False) == (again["told"], again["checkpoint_sent"])
    assert 1 == len(stage.scene.simulation.commands())


def test_a_warning_that_cannot_be_read_is_kept_with_its_reason(stage: Stage) -> None:
    """And keeps none back that came with it."""
    instance_id = stage.launch(**SPOT)
    name = "EC2 Spot Instance Interruption Warning"

    stage.scene.simulation.put_event("aws.ec2", name, {"instance-action": "terminate"})
    stage.scene.simulation.spot_warning(instance_id)

    stage.eventually(lambda: stage.scene.simulation.commands() or None, "no command is sent")
    sqs = stage.scene.cloud.client("sqs")
    url = stage.scene.physical_id("EventFailures")
    received = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=5)
    (kept,) = received["Messages"]
    assert name == json.loads(kept["Body"])["detail-type"]
    assert "instance-id" in kept["MessageAttributes"]["ErrorMessage"]["StringValue"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=kept["ReceiptHandle"])


def test_an_action_that_is_not_known_yet_is_told_and_hooked(stage: Stage) -> None:
    """With a time in a form that nobody knows either: through the rule, the queue and the
    function."""
    instance_id = stage.launch(**SPOT)
    detail = {
        "instance-id": instance_id,
        "instance-action": "relocate",
        "instance-termination-time": 5,
    }

    stage.scene.simulation.put_event("aws.ec2", "EC2 Spot Instance Interruption Warning", detail)

    told = stage.await_mail(instance_id, "spot-interruption")
    assert "relocate" == told["facts"]["action"]
    stage.eventually(lambda: instance_id in _hooked(stage) or None, "no command is sent")


def test_nothing_of_ours_ends_an_instance_under_its_checkpoint(stage: Stage) -> None:
    """Its termination was approved and its snapshot begun when EC2 warns: the workflow stops
    there."""
    stage.policy("mode: ask\nplan: {action: terminate, when_stop_is_unsupported: terminate}")
    stage.scene.simulation.set_delays(state_change=0, snapshot=8)
    instance_id, link = stage.ask(data_gib=50, **SPOT)
    assert 303 == decide(stage.personal(link), "approve", typed_instance_id=instance_id)[0]
    stage.eventually(lambda: stage.snapshots() or None, "no snapshot is begun")

    stage.scene.simulation.spot_warning(instance_id)

    assert "interrupted" == stage.outcome(instance_id)
    stage.scene.simulation.set_delays(state_change=0, snapshot=0)
    assert "running" == stage.ec2_state(instance_id)
    assert "SUCCEEDED" == stage.ended(instance_id)["status"]
    assert instance_id in _hooked(stage)


def test_nothing_is_asked_about_an_instance_that_is_taken_back(stage: Stage) -> None:
    """A sweep in the minutes of the warning finds it idle, as it has found it before."""
    stage.policy("mode: ask")
    instance_id = stage.launch(**SPOT)
    stage.scene.simulation.spot_warning(instance_id)
    stage.eventually(lambda: instance_id in _hooked(stage) or None, "no command is sent")
    stage.eventually(
        lambda: stage.state.record(TARGET, instance_id).warned_until, "nothing is noted"
    )

    assert 0 == stage.scene.sweep()["results"][0]["summary"]["problems"]

    assert instance_id not in stage.scene.executions()


def test_a_mass_interruption_is_one_message_and_every_hook(stage: Stage) -> None:
    """Twelve warnings at once: three told singly, one summary, a hook on each."""
    stage.policy("mode: ask\nevents: {mass_interruption_told_singly: 3}")
    ids = [stage.launch(name=f"node-{number}", **SPOT) for number in range(12)]

    stage.scene.simulation.spot_warning(*ids)

    stage.eventually(lambda: len(_hooked(stage)) >= len(ids) or None, "not every hook is sent")
    stage.eventually(
        lambda: [m for m in stage.scene.read_mail() if m["kind"] == "mass-interruption"] or None,
        "no summary",
    )
    mails = [
        m
        for m in stage.scene.read_mail()
        if m["instance_id"] in ids or m["kind"] == "mass-interruption"
    ]
    kinds = sorted(mail["kind"] for mail in mails)
    if "interruption-advice" in kinds:  # one, that comes before or after the summary
        kinds.remove("interruption-advice")
    assert ["mass-interruption"] + ["spot-interruption"] * 3 == kinds
    assert sorted(ids) == sorted(_hooked(stage))


def test_instances_that_systems_manager_does_not_know_keep_nobody_unhooked_or_untold(
    stage: Stage,
) -> None:
    """Refused for all, asked once which it knows, sent to those; the others are told of by name."""
    stage.policy("mode: ask\nevents: {mass_interruption_told_singly: 20}")
    ids = [stage.launch(name=f"node-{number}", **SPOT) for number in range(6)]
    stage.scene.simulation.set_unmanaged(*ids[:3])
    before = stage.scene.simulation.calls().get("ssm:DescribeInstanceInformation", 0)

    stage.scene.simulation.spot_warning(*ids)

    stage.eventually(lambda: set(ids[3:]) <= set(_hooked(stage)) or None, "not every hook is sent")
    failed = stage.await_mail(ids[0], "checkpoint-failed")
    assert "is not managed by Systems Manager" in failed["facts"]["error"]
    assert stage.await_mail(ids[3], "spot-interruption")
    assert not set(ids[:3]) & set(_hooked(stage))
    asked = stage.scene.simulation.calls()["ssm:DescribeInstanceInformation"] - before
    assert 1 <= asked <= 3
    stage.scene.simulation.set_unmanaged()


def test_a_retirement_is_told_with_its_date(stage: Stage) -> None:
    """Through the rule for AWS Health; the same event again, under another id, is not told
    again."""
    instance_id = stage.launch()
    detail = of_this_account(
        json.loads((ROOT / "events/handle_notice/retirement.json").read_text())
    )["detail"]
    detail |= {
        "affectedEntities": [{"entityValue": instance_id}],
        "eventArn": f"arn:aws:health:::{instance_id}",
    }
    when = datetime.now(tz=UTC) + timedelta(days=14)
    detail["startTime"] = format_datetime(when, usegmt=True)

    stage.scene.simulation.put_event("aws.health", "AWS Health Event", detail)
    told = stage.await_mail(instance_id, "scheduled-change")
    assert f"{when:%Y-%m-%dT%H:%M:%S}Z" == told["facts"]["happens_at"]

    event = {
        "id": f"again-{instance_id}",
        "source": "aws.health",
        "account": TARGET.account,
        "region": TARGET.region,
        "time": "2026-11-20T12:00:00Z",
        "detail": detail,
    }
    assert ({"told": []}, False) == stage.invoke("HandleNotice", event)


def test_a_kind_of_block_event_that_nothing_follows_from_is_no_failure(stage: Stage) -> None:
    """The rule lets every kind through, so that none vanishes; this one is a line in the log."""
    event = json.loads((ROOT / "events/handle_notice/block-scheduled.json").read_text())

    assert ({"told": []}, False) == stage.invoke("HandleNotice", event)


def test_an_older_date_that_comes_late_changes_nothing(stage: Stage) -> None:
    """Neither does one that comes after the event was closed; the table keeps their order."""
    instance_id = stage.launch()
    sample = of_this_account(
        json.loads((ROOT / "events/handle_notice/retirement.json").read_text())
    )
    log = EveryEventStore(DynamoTable(Clients(), stage.scene.outputs["StateTableName"]))

    def say(hours_ago: int, days: int, status: str = "upcoming") -> tuple[list[str], list[str]]:
        now = datetime.now(tz=UTC).replace(microsecond=0)
        detail = sample["detail"] | {
            "affectedEntities": [{"entityValue": instance_id}],
            "eventArn": f"arn:aws:health:::late-{instance_id}",
            "startTime": format_datetime(today + timedelta(days=days), usegmt=True),
            "lastUpdatedTime": format_datetime(now - timedelta(hours=hours_ago), usegmt=True),
            "statusCode": status,
        }
        answer, _ = stage.invoke("HandleNotice", {**sample, "detail": detail})
        kept = [one for one in log.notices(TARGET) if one.instance_id == instance_id]
        return answer["told"], [str((one.at - today).days) for one in kept if one.at]

    today = datetime.now(tz=UTC).replace(microsecond=0)
    assert ([instance_id], ["10"]) == say(2, 10)
    assert ([], ["10"]) == say(5, 3)
    assert ([], []) == say(1, 10, "closed")
    assert ([], []) == say(2, 10)
    assert ([instance_id], ["20"]) == say(0, 20)


def test_what_is_due_within_a_day_is_told_again_by_the_sweep(stage: Stage) -> None:
    """A Capacity Block begins: told; and a sweep within the day before its end tells it again,
    once."""
    stage.policy("mode: ask\nplan: {action: notify-only}\nevents: {remind_before_hours: 24}")
    reservation = "cr-0123456789abcdef0"
    instance_id = stage.launch(lifecycle="capacity-block", capacity_reservation_id=reservation)
    ends = (datetime.now(tz=UTC) + timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    stage.scene.simulation.put_event(
        "aws.ec2",
        "Capacity Block Reservation Delivered",
        {"capacity-reservation-id": reservation, "end-date": ends},
    )
    stage.eventually(lambda: _about(stage, reservation) or None, "the block is not told")

    stage.scene.sweep()
    assert 1 == len(_about(stage, reservation))
    stage.policy("mode: ask\nplan: {action: notify-only}\nevents: {remind_before_hours: 36}")
    stage.scene.sweep()
    stage.scene.sweep()

    stage.eventually(lambda: len(_about(stage, reservation)) > 1 or None, "nobody is reminded")
    reminder = _about(stage, reservation)[1:]
    assert [(True, [instance_id])] == [
        (m["facts"]["reminder"], m["facts"]["instance_ids"]) for m in reminder
    ]


def _let_go(instance_id: str) -> dict[str, Any]:
    """The event about an instance that its Auto Scaling group terminates."""
    event = of_this_account(
        json.loads((ROOT / "events/handle_lifecycle_action/scale-in.json").read_text())
    )
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    of_it = {**event["detail"], "EC2InstanceId": instance_id}
    return {**event, "id": f"event-{instance_id}", "time": now, "detail": of_it}


def _about(stage: Stage, reservation: str) -> list[dict[str, Any]]:
    return [
        m
        for m in stage.scene.read_mail()
        if m["facts"].get("capacity_reservation_id") == reservation
    ]


def _hooked(stage: Stage) -> list[str]:
    """The instances that were asked to save their work, whichever commands they share."""
    return [one for command in stage.scene.simulation.commands() for one in command["InstanceIds"]]
