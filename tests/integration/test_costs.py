"""Costs of projects, from the sweep to the metric and the message, on the local cloud."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from governor.money.rules.cost import Meter, cost_between, month_of
from tests.integration.stage import TARGET, Stage

G5_XLARGE = Decimal("1.006")


def meter(stage: Stage) -> Meter:
    """Return this month's meter, as the last sweep has left it."""
    found = stage.state.meter(TARGET, month_of(datetime.now(tz=UTC)))
    assert found is not None
    return found


def usd_of_all_targets(stage: Stage) -> Decimal:
    """Return this month's cost of all targets: other tests may have swept other accounts."""
    meters = stage.state.meters(month_of(datetime.now(tz=UTC)))
    return sum((sum(one.usd.values(), Decimal(0)) for one in meters), Decimal(0))


def published(stage: Stage, name: str, project: str | None) -> list[dict[str, Any]]:
    """Return what the function has written for CloudWatch to make a metric of."""
    logs = stage.scene.cloud.client("logs")
    events = logs.filter_log_events(logGroupName="/aws/lambda/gpu-governor/sum_up_month")["events"]
    lines = [json.loads(e["message"]) for e in events if '"CloudWatchMetrics"' in e["message"]]
    return [line for line in lines if name in line and line.get("Project") == project]


def test_two_sweeps_count_the_hours_of_a_project_once(stage: Stage) -> None:
    """From where the sweep before had left the meter to the last one, to the last digit."""
    stage.policy("mode: observe\nbudget: {publish_at_most_projects: 50}")
    stage.scene.sweep()
    since = meter(stage).counted_until
    stage.launch(name="counted", tags={"Project": "counted"}, launched_minutes_ago=75)

    stage.scene.sweep()
    first = meter(stage)
    done = stage.scene.sweep()
    second = meter(stage)

    whole = cost_between(G5_XLARGE, since, second.counted_until)
    assert abs(whole - second.usd["counted"]) < Decimal("1e-20")
    assert Decimal(0) < first.usd["counted"] < second.usd["counted"]
    assert "summed-up" == done["month"]["outcome"]
    assert (
        float(second.usd["counted"])
        == published(stage, "EstimatedCost", "counted")[-1]["EstimatedCost"][0]
    )
    everything = published(stage, "EstimatedCost", None)[-1]
    assert (float(usd_of_all_targets(stage)), "sum_up_month") == (
        everything["EstimatedCost"][0],
        everything["service"],
    )


def test_a_budget_that_is_exceeded_is_told_once(stage: Stage) -> None:
    """By the owner's project, with what it has cost; the second sweep sends nothing."""
    # Used up within milliseconds, or the first sweep might find no more than 80 % of it.
    stage.policy("mode: observe\nbudget: {monthly_usd: null, projects: {dear: 0.0001}}")
    stage.scene.sweep()
    stage.launch(name="dear", tags={"Project": "dear"}, launched_minutes_ago=75)

    told = [stage.scene.sweep()["month"]["summary"]["told"] for _ in range(3)]
    (mail,) = [m for m in stage.scene.await_mail("budget-reached") if m["project"] == "dear"]

    assert [1, 0, 0] == told
    assert "0.0001" == mail["facts"]["budget_usd"]
    assert Decimal(mail["facts"]["usd"]) > 0


def test_a_month_that_cannot_be_summed_up_is_a_sweep_that_failed(stage: Stage) -> None:
    """All targets are swept, and the execution says what is missing; alarms count executions."""
    table, month = stage.scene.outputs["StateTableName"], month_of(datetime.now(tz=UTC))
    key = {"pk": {"S": f"COST#{month}"}, "sk": {"S": "999999999999#damaged"}}
    items = stage.scene.cloud.client("dynamodb")
    items.put_item(TableName=table, Item=key)
    try:
        done = stage.scene.cloud.run(stage.scene.outputs["SweepStateMachineArn"], {})
    finally:
        items.delete_item(TableName=table, Key=key)

    assert ("FAILED", "CloudError") == (done["status"], done["error"])
    assert "damaged" in done["cause"]
