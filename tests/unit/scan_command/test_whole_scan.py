"""A whole scan with all kinds of resource: every call is a read, on the printed policy, and quick.

Time is counted, never measured: each call waits 50 ms on a simulated clock.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from benchmarks.timeline import SimulatedThreads, Timeline
from cli.scan.tags import INSTANCES
from governor.scan.registry import KINDS
from governor.scan.rights import policy_to_attach
from governor.scan.unread import SHIPPED_PRICES
from tests.unit.scan.cloud_twin import Asked, CloudTwin, Refused
from tests.unit.scan_command.conftest import Run

REGIONS = tuple(
    f"{area}-{number}" for area in ("us-east", "us-west", "eu-west") for number in (1, 2)
)
REGIONS += ("eu-central-1", "eu-north-1", "ap-southeast-1", "ap-northeast-1")
TWO_REGIONS = REGIONS[:2]
"""All Regions are alike: two show what a scan of several does."""
PER_REGION = 50
SECONDS_A_CALL = 0.05
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


def _gpus(number: int) -> int:
    """Return how many GPUs an instance has."""
    return 8 if number % 10 == 0 else 1


def series(asked: Asked) -> Any:
    """Return the CloudWatch agent's series of each GPU of every second instance."""
    if asked.parameters.get("MetricName") != "nvidia_smi_utilization_gpu":
        return {"Metrics": []}
    listed: list[Any] = []
    for number in range(0, PER_REGION, 2):
        own = {"Name": "InstanceId", "Value": _instance(asked, number)["InstanceId"]}
        for gpu in range(_gpus(number)):
            dimensions = [own, {"Name": "index", "Value": str(gpu)}]
            series = {"Namespace": "CWAgent", "MetricName": "nvidia_smi_utilization_gpu"}
            listed.append({**series, "Dimensions": dimensions})
    return {"Metrics": listed}


def readings(asked: Asked) -> Any:
    """Return a low value in each period of EC2's series, and of those of each GPU."""
    queries = asked.parameters["MetricDataQueries"]
    period = timedelta(seconds=queries[0]["MetricStat"]["Period"])
    moments: list[datetime] = []
    moment = asked.parameters["StartTime"]
    while moment < asked.parameters["EndTime"]:
        moments.append(moment)
        moment += period
    points = {"Timestamps": moments, "Values": [1.0] * len(moments)}
    results: list[Any] = []
    for query in queries:
        metric = query["MetricStat"]["Metric"]
        is_of_gpu = metric["MetricName"] in _OF_A_GPU and len(metric["Dimensions"]) > 1
        is_published = is_of_gpu or metric["Namespace"] == "AWS/EC2"
        result = {"Id": query["Id"], "StatusCode": "Complete"}
        results.append({**result, **points} if is_published else result)
    return {"MetricDataResults": results}


_OF_A_GPU = ("nvidia_smi_utilization_gpu", "nvidia_smi_power_draw")


@pytest.fixture
def large(cloud: CloudTwin) -> CloudTwin:
    """Return an account with ten Regions and 500 instances."""
    return _account_in(REGIONS, cloud)


@pytest.fixture
def medium(cloud: CloudTwin) -> CloudTwin:
    """Return an account with two of these Regions, and their 100 instances."""
    return _account_in(TWO_REGIONS, cloud)


def _account_in(regions: Sequence[str], cloud: CloudTwin) -> CloudTwin:
    """Let the cloud answer as an account in these Regions does. Return the cloud."""
    cloud.answers["ec2:DescribeRegions"] = {
        "Regions": [{"RegionName": region} for region in regions]
    }
    cloud.answers["ec2:DescribeInstances"] = instances
    cloud.answers["cloudwatch:ListMetrics"] = series
    cloud.answers["cloudwatch:GetMetricData"] = readings
    return cloud


def test_every_call_of_a_whole_scan_is_a_read_of_the_printed_policy(
    medium: CloudTwin, run: Run
) -> None:
    """No call writes, and none lacks a permission."""
    ended = run(KINDS, "--json", "--commitments")
    assert 0 == ended.status, ended.out[-3000:]
    statements = json.loads(policy_to_attach(KINDS))["Statement"]
    allowed = {action for statement in statements for action in statement["Action"]}
    called = set(medium.operations())
    assert len(called) > 5
    assert set() == called - allowed
    assert [] == [name for name in called if not name.partition(":")[2].startswith(_READS)]
    assert dict(Counter(medium.operations())) == json.loads(ended.out)["calls"]


def test_half_of_the_fleet_is_idle_by_its_gpus_and_half_is_likely_idle(
    medium: CloudTwin, run: Run
) -> None:
    """Every second instance publishes what its GPUs do; the others have EC2's figures alone."""
    rows = json.loads(run(KINDS, "--json").out)["rows"]
    found = Counter((row["finding"], row["evidence_strength"]) for row in rows)
    assert {("idle", "strong"): 50, ("likely idle", "weak"): 50} == found
    commands = Counter(row["command"].partition(" --")[0] for row in rows)
    assert {"aws ec2 stop-instances": 50, "aws cloudwatch list-metrics": 50} == commands


def test_without_the_right_to_read_prices_the_report_says_which_ones_it_uses(
    medium: CloudTwin, run: Run
) -> None:
    """The shipped list prices. The missing permission is named, and is asked for once."""

    def refuse(_: Asked) -> Any:
        raise Refused("AccessDeniedException")

    medium.answers["pricing:GetProducts"] = refuse
    document = json.loads(run(KINDS, "--json").out)
    lines = [line for line in document["not_read"] if "pricing:GetProducts" == line["operation"]]
    assert [SHIPPED_PRICES] == [line["topic"] for line in lines]
    assert all(row["usd_per_month"] for row in document["rows"])
    assert 1 == medium.operations().count("pricing:GetProducts")


def test_a_volume_asks_for_the_price_of_no_instance_type(cloud: CloudTwin, run: Run) -> None:
    """It has no type: AWS refuses an empty one, and each scan with a volume was incomplete."""
    cloud.answers["ec2:DescribeRegions"] = {"Regions": [{"RegionName": REGIONS[0]}]}
    made = datetime.now(UTC) - timedelta(days=90)
    volume = {"VolumeId": "vol-1", "Size": 8000, "VolumeType": "gp3", "CreateTime": made}
    cloud.answers["ec2:DescribeVolumes"] = {"Volumes": [volume]}
    ended = run(KINDS, "--json")
    document = json.loads(ended.out)
    assert ([], 0) == (document["not_read"], ended.status)
    assert ["640.00"] == [row["usd_per_month"] for row in document["rows"]]


def test_a_spot_price_that_cannot_be_read_makes_the_report_incomplete(
    cloud: CloudTwin, run: Run
) -> None:
    """The sum lacks the instance, so that the status is never 0."""

    def spot(asked: Asked) -> Any:
        record = {**_instance(asked, 1), "InstanceLifecycle": "spot"}
        return {"Reservations": [{"Instances": [record]}]}

    def refuse(_: Asked) -> Any:
        raise Refused("UnauthorizedOperation")

    cloud.answers["ec2:DescribeRegions"] = {"Regions": [{"RegionName": REGIONS[0]}]}
    cloud.answers["ec2:DescribeInstances"] = spot
    cloud.answers["ec2:DescribeSpotPriceHistory"] = refuse
    ended = run(KINDS, "--json")
    assert 4 == ended.status
    (line,) = json.loads(ended.out)["not_read"]
    operation = "ec2:DescribeSpotPriceHistory"
    assert ("Spot prices", operation, True) == (
        line["topic"],
        line["operation"],
        line["is_missing_right"],
    )


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


def test_the_kind_of_instances_that_can_be_tagged_exists() -> None:
    """`--tag` names it; under another name it would find nothing to tag."""
    assert INSTANCES in [kind.name for kind in KINDS]


def test_progress_says_how_many_places_were_scanned(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person sees that it goes on."""
    lines: list[str] = []
    monkeypatch.setattr("cli.scan.Progress.show", lambda _, text: lines.append(text))
    run((), "--json")
    assert {f"scanned {number} of 2 accounts and Regions" for number in (1, 2)} == set(lines)


def test_the_tag_commands_name_every_instance_that_is_not_governed(
    medium: CloudTwin, run: Run
) -> None:
    """Through the whole command, and nothing else is printed."""
    ended = run(KINDS, "--tag")
    assert 0 == ended.status, ended.err
    lines = ended.out.splitlines()
    assert {"# in account 123456789012:"} == {line for line in lines if line.startswith("#")}
    commands = [line for line in lines if not line.startswith("#")]
    assert len(TWO_REGIONS) == len(commands)
    assert len(TWO_REGIONS) * PER_REGION == sum(line.count(" i-") for line in commands)
