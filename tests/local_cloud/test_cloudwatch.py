"""The simulated CloudWatch counts, bins and pages as CloudWatch does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from local.engine.cloud import LocalCloud
from local.engine.simulation import Points, Simulation

pytestmark = pytest.mark.integration

Refusal = Callable[[Callable[[], object]], str]
# Aligned to an hour and recent: CloudWatch keeps old points at long periods only.
NOON = datetime.now(tz=UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
EXACT = [{"Name": "InstanceId", "Value": "i-1"}]


def put(cloudwatch: Any, *points: tuple[float, float], dimensions: Any = EXACT) -> None:
    """Publishes points at minutes after noon."""
    for minute, value in points:
        datum = {
            "MetricName": "m",
            "Dimensions": dimensions,
            "Timestamp": NOON + timedelta(minutes=minute),
            "Value": value,
        }
        cloudwatch.put_metric_data(Namespace="N", MetricData=[datum])


def query(
    name: str = "a", stat: str = "Maximum", period: int = 300, dimensions: Any = EXACT
) -> Any:
    """One query of the metric."""
    metric = {"Namespace": "N", "MetricName": "m", "Dimensions": dimensions}
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}}


def read(cloudwatch: Any, *queries: Any, minutes: float = 5, **more: Any) -> Any:
    """One call over minutes after noon."""
    call = {"StartTime": NOON, "EndTime": NOON + timedelta(minutes=minutes), **more}
    return cloudwatch.get_metric_data(MetricDataQueries=list(queries), **call)


def values(answer: Any) -> list[list[float]]:
    """Values by query."""
    return [result["Values"] for result in answer["MetricDataResults"]]


def test_every_statistic_of_a_period(cloudwatch: Any) -> None:
    """A start is included, an end is not; a period is named by its start."""
    put(cloudwatch, (0, 1.0), (1, 3.0), (4.9, 2.0), (5, 7.0))
    names = ("Maximum", "Minimum", "Sum", "Average", "SampleCount")
    answer = read(cloudwatch, *(query(name.lower(), name) for name in names))

    assert [[3.0], [1.0], [6.0], [2.0], [3.0]] == values(answer)
    assert [NOON] == answer["MetricDataResults"][0]["Timestamps"]
    assert "Complete" == answer["MetricDataResults"][0]["StatusCode"]


def test_a_series_is_found_by_its_exact_dimensions(cloudwatch: Any) -> None:
    """Neither a subset nor a superset is the same metric; nothing is filled in."""
    put(cloudwatch, (0, 1.0))
    more = [*EXACT, {"Name": "index", "Value": "0"}]
    answer = read(cloudwatch, query("a", dimensions=more), query("b", dimensions=[]))

    assert [[], []] == values(answer)
    assert ["Complete", "Complete"] == [
        result["StatusCode"] for result in answer["MetricDataResults"]
    ]


def test_the_newest_comes_first_unless_told(cloudwatch: Any) -> None:
    """Empty periods are no points."""
    put(cloudwatch, (0, 1.0), (10, 2.0))

    assert [[2.0, 1.0]] == values(read(cloudwatch, query(), minutes=15))
    assert [[1.0, 2.0]] == values(
        read(cloudwatch, query(), minutes=15, ScanBy="TimestampAscending")
    )


def test_answers_come_in_pages_of_points(cloudwatch: Any) -> None:
    """A series cut by the page is PartialData until the page that ends it."""
    put(cloudwatch, *((minute, float(minute)) for minute in range(5)))
    queries = [query("a", period=60), query("b", period=60)]
    asked: dict[str, Any] = {"ScanBy": "TimestampAscending", "MaxDatapoints": 3}

    pages = []
    token: dict[str, Any] = {}
    while True:
        page = read(cloudwatch, *queries, **asked, **token)
        pages.append([(r["Id"], r["Values"], r["StatusCode"]) for r in page["MetricDataResults"]])
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}

    assert [
        [("a", [0.0, 1.0, 2.0], "PartialData")],
        [("a", [3.0, 4.0], "Complete"), ("b", [0.0], "PartialData")],
        [("b", [1.0, 2.0, 3.0], "PartialData")],
        [("b", [4.0], "Complete")],
    ] == pages


def test_what_cloudwatch_refuses_is_refused(cloudwatch: Any, refusal: Refusal) -> None:
    """Too many queries, ids twice or malformed, periods and times that make no sense."""
    many = [query(f"q{number}") for number in range(501)]

    for call in (
        lambda: read(cloudwatch, *many),
        lambda: read(cloudwatch, query("a"), query("a")),
        lambda: read(cloudwatch, query("Upper")),
        lambda: read(cloudwatch, query(period=90)),
        lambda: read(cloudwatch, query(), minutes=-5),
        lambda: read(cloudwatch, query(), MaxDatapoints=100_801),
    ):
        assert "ValidationError" == refusal(call)
    datum = [{"MetricName": "m", "Value": 1.0}]
    reserved = {"Namespace": "AWS/EC2", "MetricData": datum}
    assert "InvalidParameterValue" == refusal(lambda: cloudwatch.put_metric_data(**reserved))


def test_old_points_are_kept_at_long_periods_only(simulation: Simulation, cloudwatch: Any) -> None:
    """After 15 days at 5 minutes, after 63 days at an hour."""
    then = NOON - timedelta(days=30)
    simulation.put_metrics([Points("N", "m", {"InstanceId": "i-1"}, ((then, 4.0),))])
    window = {"StartTime": then, "EndTime": then + timedelta(hours=1)}
    queries = [query("a", period=60), query("b", period=300)]

    assert [[], [4.0]] == values(cloudwatch.get_metric_data(MetricDataQueries=queries, **window))


def test_partial_data_and_throttles_can_be_planned(
    simulation: Simulation, cloudwatch: Any, refusal: Refusal
) -> None:
    """Then everything is as before."""
    put(cloudwatch, (0, 1.0))
    simulation.partial_data("m")
    assert "PartialData" == read(cloudwatch, query())["MetricDataResults"][0]["StatusCode"]
    simulation.set_fault("cloudwatch:GetMetricData", "AccessDenied")

    assert "AccessDenied" == refusal(lambda: read(cloudwatch, query()))
    assert [[1.0]] == values(read(cloudwatch, query()))


def test_metrics_are_listed_by_some_of_their_dimensions(
    simulation: Simulation, cloudwatch: Any
) -> None:
    """With or without a value; 500 a page; the recently active only, if so asked."""
    now = datetime.now(tz=UTC)
    recent = (((now - timedelta(minutes=5)), 1.0),)
    old = (((now - timedelta(hours=5)), 1.0),)
    fleet = [Points("N", "m", {"InstanceId": f"i-{n}", "index": "0"}, recent) for n in range(600)]
    simulation.put_metrics([*fleet, Points("N", "m", {"InstanceId": "i-7", "index": "1"}, old)])

    def listed(dimensions: Any, **more: Any) -> int:
        pages = cloudwatch.get_paginator("list_metrics").paginate(
            Namespace="N", MetricName="m", Dimensions=dimensions, **more
        )
        return sum(len(page["Metrics"]) for page in pages)

    assert 2 == listed([{"Name": "InstanceId", "Value": "i-7"}])
    assert 1 == listed([{"Name": "InstanceId", "Value": "i-7"}], RecentlyActive="PT3H")
    assert 601 == listed([{"Name": "index"}])
    first = cloudwatch.list_metrics(Namespace="N")
    assert 500 == len(first["Metrics"])


def work_seconds(cloud: LocalCloud) -> float:
    """Processor time of this process and, where it can be read, of the engine."""
    assert cloud._process is not None
    path = Path(f"/proc/{cloud._process.pid}/stat")
    engine = path.read_text().rpartition(")")[2].split()[11:13] if path.exists() else ()
    return time.process_time() + sum(map(int, engine)) / os.sysconf("SC_CLK_TCK")


def test_a_hundred_thousand_points_load_in_seconds(
    bare_cloud: LocalCloud, simulation: Simulation, cloudwatch: Any
) -> None:
    """The demo and the tests publish hours of a fleet at once."""
    now = datetime.now(tz=UTC)
    times = [now - timedelta(minutes=minute) for minute in range(100)]
    series = [
        Points("N", "bulk", {"InstanceId": f"i-{n}"}, tuple((at, 1.0) for at in times))
        for n in range(1000)
    ]
    before = work_seconds(bare_cloud)
    simulation.put_metrics(series)

    assert 10 > work_seconds(bare_cloud) - before
    assert 1 == len(
        cloudwatch.list_metrics(Dimensions=[{"Name": "InstanceId", "Value": "i-999"}])["Metrics"]
    )


def test_a_series_with_a_past_is_listed_as_far_as_it_was_published(
    cloudwatch: Any, simulation: Simulation
) -> None:
    """Its values are computed when they are read, and yet count as readings."""
    hour = timedelta(hours=1)
    spans = {"goes-on": (NOON - hour, NOON + 9 * hour), "ended": (NOON - 9 * hour, NOON - 4 * hour)}
    for metric, (start, end) in spans.items():
        hours = [1.0] * int((end - start) / hour)
        past: dict[str, object] = {
            "start": start.timestamp(),
            "end": end.timestamp(),
            "hours": hours,
            "per_minute": 1.0,
        }
        simulation.put_metrics([Points("P", metric, {"InstanceId": "i-1"}, (), past)])

    def listed(**more: Any) -> list[str]:
        """Return the names of the metrics."""
        answer = cloudwatch.list_metrics(Namespace="P", **more)["Metrics"]
        return [metric["MetricName"] for metric in answer]

    assert ["ended", "goes-on"] == listed()
    assert ["goes-on"] == listed(RecentlyActive="PT3H")
