"""A whole scan with all kinds of resource: every call is a read, on the printed policy, and quick.

Time is counted, never measured: each call waits 50 ms on a simulated clock.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from benchmarks.timeline import SimulatedThreads, Timeline
from governor.scan.registry import KINDS
from governor.scan.rights import policy_to_attach
from tests.unit.scan.cloud_twin import Asked, CloudTwin
from tests.unit.scan_command.conftest import Run

REGIONS = tuple(
    f"{area}-{number}" for area in ("us-east", "us-west", "eu-west") for number in (1, 2)
)
REGIONS += ("eu-central-1", "eu-north-1", "ap-southeast-1", "ap-northeast-1")
PER_REGION = 50
SECONDS_A_CALL = 0.05
UTILIZATION = "nvidia_smi_utilization_gpu"
_READS = ("Describe", "Get", "List", "Lookup", "Search", "AssumeRole")
_INFINITE_SHARE = 1e9
"""A processor so quick that only waiting counts."""


def instances(asked: Asked) -> Any:
    """Return fifty instances of each Region."""
    return {"Reservations": [{"Instances": [_instance(asked, n) for n in range(PER_REGION)]}]}


def _instance(asked: Asked, number: int) -> dict[str, Any]:
    """Return the record of an instance, of which every tenth has many GPUs."""
    many = number % 10 == 0
    launched = datetime.now(UTC) - timedelta(days=30)
    return {
        "InstanceId": f"i-{REGIONS.index(asked.region):08x}{number:09x}",
        "InstanceType": "p5.48xlarge" if many else "g5.xlarge",
        "LaunchTime": launched,
        "State": {"Code": 16, "Name": "running"},
        "Placement": {"AvailabilityZone": f"{asked.region}a", "Tenancy": "default"},
        "RootDeviceType": "ebs",
        "RootDeviceName": "/dev/xvda",
        "BlockDeviceMappings": [],
        "PlatformDetails": "Linux/UNIX",
        "Tags": [{"Key": "Name", "Value": f"train-{number}"}],
    }


def metrics(asked: Asked) -> Any:
    """Return the series of the CloudWatch agent, one for each GPU, if they are asked for."""
    if asked.parameters.get("MetricName") != UTILIZATION:
        return {"Metrics": []}
    series = []
    for number in range(PER_REGION):
        instance = _instance(asked, number)
        for gpu in range(8 if instance["InstanceType"] == "p5.48xlarge" else 1):
            dimensions = {"InstanceId": instance["InstanceId"], "index": str(gpu), "name": "GPU"}
            series.append(
                {
                    "Namespace": "CWAgent",
                    "MetricName": UTILIZATION,
                    "Dimensions": [
                        {"Name": name, "Value": value} for name, value in dimensions.items()
                    ],
                }
            )
    return {"Metrics": series}


def readings(asked: Asked) -> Any:
    """Return a reading of zero in each period of each query."""
    return {"MetricDataResults": [_result(asked, query) for query in _queries(asked)]}


def _queries(asked: Asked) -> Any:
    """Return the queries of a call."""
    return asked.parameters["MetricDataQueries"]


def _result(asked: Asked, query: Any) -> dict[str, Any]:
    """Return the result of one query."""
    begin, end = asked.parameters["StartTime"], asked.parameters["EndTime"]
    period = timedelta(seconds=query["MetricStat"]["Period"])
    times = [begin + number * period for number in range((end - begin) // period)]
    return {
        "Id": query["Id"],
        "Timestamps": times,
        "Values": [0.0] * len(times),
        "StatusCode": "Complete",
    }


@pytest.fixture
def large(cloud: CloudTwin) -> CloudTwin:
    """Return an account with ten Regions and 500 instances."""
    cloud.answers["ec2:DescribeRegions"] = {
        "Regions": [{"RegionName": region} for region in REGIONS]
    }
    cloud.answers["ec2:DescribeInstances"] = instances
    cloud.answers["cloudwatch:ListMetrics"] = metrics
    cloud.answers["cloudwatch:GetMetricData"] = readings
    return cloud


def test_every_call_of_a_whole_scan_is_a_read_of_the_printed_policy(
    large: CloudTwin, run: Run
) -> None:
    """No call writes, and none lacks a right."""
    ended = run(KINDS, "--json", "--commitments")
    assert 0 == ended.status, ended.out[-3000:]
    statements = json.loads(policy_to_attach(KINDS))["Statement"]
    allowed = {action for statement in statements for action in statement["Action"]}
    called = set(large.operations())
    assert len(called) > 5
    assert set() == called - allowed
    assert [] == [name for name in called if not name.partition(":")[2].startswith(_READS)]
    assert dict(Counter(large.operations())) == json.loads(ended.out)["calls"]


def test_ten_regions_and_500_instances_take_less_than_a_minute(
    large: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 50 ms a call. The simulated clock makes calls wait at once where threads would."""
    seconds = _seconds(large, monkeypatch, lambda: run(KINDS, "--json"))
    calls = len(large.calls)
    assert seconds < 60, f"{calls} calls took {seconds:.0f} s"
    assert calls < 100 * len(REGIONS)


def test_an_empty_region_costs_a_few_calls_for_each_kind(cloud: CloudTwin, run: Run) -> None:
    """Most Regions of most accounts are empty."""
    ended = run(KINDS, "--json")
    assert 0 == ended.status, ended.out[-3000:]
    regions = len(json.loads(ended.out)["places"])
    assert len(cloud.calls) <= 2 + regions * 3 * len(KINDS)


def _seconds(cloud: CloudTwin, monkeypatch: pytest.MonkeyPatch, scan: Callable[[], Any]) -> float:
    """Return the seconds that a scan waits for AWS, by a simulated clock."""
    timeline = SimulatedThreads.timeline = Timeline()
    monkeypatch.setattr("governor.aws.clients.ThreadPoolExecutor", SimulatedThreads)
    monkeypatch.setattr("cli.scan.reading.ThreadPoolExecutor", SimulatedThreads)
    cloud.wait = lambda answer: timeline.wait(SECONDS_A_CALL, answer)
    ended = scan()
    assert 0 == ended.status, ended.out[-3000:]
    return timeline.close().wall_seconds(_INFINITE_SHARE)
