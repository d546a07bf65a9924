"""The sweep over the whole fleet, through its state machine, on the local cloud."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from governor.episode.model.standing import StateKind
from governor.fleet.model import UNGOVERNED, FleetPage
from governor.fleet.rules.kept import KeepReason
from governor.table.keys import place
from governor.table.table import delete
from local.demo.fleet import demo_fleet
from local.demo.scene import KEEPER
from local.engine.simulation import Points
from tests.integration.stage import TARGET, Stage


def test_every_member_of_the_fleet_gets_its_verdict(stage: Stage) -> None:
    """Sixteen instances, each there for one behavior; the one without the tag is not judged, and
    shown once an hour has begun since the sweep before. Idle ones alone get the two tags."""
    stage.policy("mode: ask\nplan: {action: notify-only}")
    ids = stage.scene.launch(demo_fleet())
    earlier = datetime.now(tz=UTC) - timedelta(hours=1)
    # Sweeps of other tests have left a later page, which an earlier one does not replace.
    stage.state._table.write(delete(("FLEET", f"{place(TARGET)}#000")))
    assert stage.state.keep_page(FleetPage(TARGET.account, TARGET.region, earlier, "ask"))

    summary = stage.scene.sweep()["results"][0]["summary"]

    seen = stage.state.observations(TARGET)
    verdicts = {name: seen[i].verdict if i in seen else "(not seen)" for name, i in ids.items()}
    assert {member.name: member.expected for member in demo_fleet()} == verdicts
    assert 15 == summary["instances"]
    assert 0 == summary["problems"]
    page = stage.state.page(TARGET)
    assert page is not None
    assert ["not-selected"] == [row.name for row in page.rows if row.verdict == UNGOVERNED]
    assert {"snoozed": KEEPER} == {
        row.name: row.kept_by for row in page.rows if row.kept_because == KeepReason.UNDO
    }
    marks = {"LowUtilization", "ReviewForTermination"}
    marked = {name for name, one in ids.items() if marks <= stage.tags(one).keys()}
    assert {member.name for member in demo_fleet() if member.expected == "idle"} == marked


def test_a_throttled_read_is_no_data_and_is_made_up_for(stage: Stage) -> None:
    """CloudWatch refuses: no-data for this sweep, idle at the next."""
    stage.policy("mode: ask\nplan: {action: notify-only}")
    stage.launch()
    # More than its tries: a workflow of the test before may read, too, and take some of them.
    stage.scene.simulation.set_fault("cloudwatch:GetMetricData", "Throttling", times=100)

    first = stage.scene.sweep()["results"][0]["summary"]["verdicts"]
    stage.scene.simulation.set_fault("cloudwatch:GetMetricData", "Throttling", times=0)
    second = stage.scene.sweep()["results"][0]["summary"]["verdicts"]

    assert {"no-data": 1} == first
    assert {"idle": 1} == second


def test_a_partial_answer_is_no_data(stage: Stage) -> None:
    """CloudWatch answers in part: never idle."""
    stage.policy("mode: ask\nplan: {action: notify-only}")
    stage.launch()
    stage.scene.simulation.partial_data("nvidia_smi_utilization_gpu")

    assert {"no-data": 1} == stage.scene.sweep()["results"][0]["summary"]["verdicts"]


def test_a_busy_instance_is_not_read_again_within_its_window(stage: Stage) -> None:
    """Seen busy a minute ago, it cannot be idle yet: the second sweep reads nothing."""
    instance_id = stage.launch()
    stage.wake(instance_id)
    stage.scene.sweep()
    before = stage.scene.simulation.calls()["cloudwatch:GetMetricData"]

    verdicts = stage.scene.sweep()["results"][0]["summary"]["verdicts"]

    assert {"busy": 1} == verdicts
    assert before == stage.scene.simulation.calls()["cloudwatch:GetMetricData"]


def test_a_sweep_that_left_a_target_out_fails_and_the_others_were_swept(stage: Stage) -> None:
    """One Region of two refuses: the execution fails by name, and the other Region has its
    sweep."""
    regions = ("ap-southeast-2", "eu-north-1")  # no other test sweeps them
    stage.policy(f"mode: ask\ntargets: {{regions: [{', '.join(regions)}]}}")
    _refuse_one_listing(stage)

    done = stage.scene.cloud.run(stage.scene.outputs["SweepStateMachineArn"], {})

    assert ("FAILED", "TargetsNotSwept") == (done["status"], done["error"])
    assert "1 of 2 targets were not swept" in done["cause"]
    assert [0, 1] == sorted(_sweeps_of(stage, region) for region in regions)


def _refuse_one_listing(stage: Stage) -> None:
    """The next list of the fleet; workflows that still look at single instances are not meant."""
    stage.scene.simulation.set_fault(
        "ec2:DescribeInstances", "UnauthorizedOperation", match={"Filters": "GPU-Workload"}
    )


def _sweeps_of(stage: Stage, region: str) -> int:
    found: int = stage.scene.cloud.client("dynamodb").query(
        TableName=stage.scene.outputs["StateTableName"],
        KeyConditionExpression="pk = :pk AND begins_with(sk, :sweep)",
        ExpressionAttributeValues={
            ":pk": {"S": f"TARGET#{TARGET.account}#{region}"},
            ":sweep": {"S": "OBSERVATIONS#"},
        },
    )["Count"]
    return found


def test_a_sweep_that_swept_nothing_fails(stage: Stage) -> None:
    """The only target refuses."""
    _refuse_one_listing(stage)

    done = stage.scene.cloud.run(stage.scene.outputs["SweepStateMachineArn"], {})

    assert ("FAILED", "TargetsNotSwept") == (done["status"], done["error"])
    [denied] = stage.state.standing_states(TARGET)
    assert StateKind.DENIED is denied.kind
    assert "UnauthorizedOperation" in denied.reason
    stage.scene.sweep()
    assert [] == stage.state.standing_states(TARGET)


def test_the_schedule_starts_the_sweep(stage: Stage) -> None:
    """EventBridge Scheduler holds the rate of the parameter and points at the sweep machine."""
    schedule = stage.scene.cloud.client("scheduler").get_schedule(
        Name=stage.scene.outputs["ScheduleName"]
    )

    assert "rate(5 minutes)" == schedule["ScheduleExpression"]
    assert stage.scene.outputs["SweepStateMachineArn"] == schedule["Target"]["Arn"]
    assert schedule["Target"]["DeadLetterConfig"]["Arn"]


def test_a_job_that_publishes_keeps_its_instance(stage: Stage) -> None:
    """Quiet in every figure of the machine: what the job itself says makes it busy, and nobody is
    asked."""
    instance_id = stage.launch()
    now = datetime.now(tz=UTC)
    points = tuple((now - timedelta(minutes=m), 512.0) for m in range(5, 15))
    dimensions = {"InstanceId": instance_id, "JobName": "nightly"}
    stage.scene.simulation.put_metrics([Points("MLTraining", "Throughput", dimensions, points)])

    summary = stage.scene.sweep()["results"][0]["summary"]

    assert ({"busy": 1}, 0) == (summary["verdicts"], summary["episodes_started"])
    reason = stage.state.observations(TARGET)[instance_id].reason
    assert reason.startswith("a job reports work: MLTraining Throughput")
