"""`governor advice`: from an account to advice, and what was dismissed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from moto import mock_aws
from moto.cloudwatch.models import CloudWatchBackend

from cli import advice, capacity
from cli.governor import main
from governor.aws.ec2 import Ec2Instances
from governor.core.errors import AccessDenied
from governor.core.instance import Target
from governor.core.units import parse_iso
from simulation.capacity_advice import Group, of_group
from simulation.fetch import last_days
from simulation.patterns import Advice
from tests.builders import make_reservation
from tests.unit.aws.fakes import FakeClients

REGION = "us-east-1"
GPUS = 4
RESERVATION = make_reservation(total=2, available=2)
LOOSE: list[str] = []


def _by_metric(original: Any) -> Any:
    """Let moto look for the points of a metric among its own, not among all: in a fiftieth of the
    time."""

    def get_metric_data(self: CloudWatchBackend, queries: Any, *rest: Any, **more: Any) -> Any:
        found: dict[tuple[str, ...], list[Any]] = defaultdict(list)
        for one in self.get_all_metrics():
            found[one.name, *sorted(f"{it.name}={it.value}" for it in one.dimensions)].append(one)
        answers = []
        for query in queries:
            metric = query["MetricStat"]["Metric"]
            key = (
                metric["MetricName"],
                *sorted(f"{it['Name']}={it['Value']}" for it in metric["Dimensions"]),
            )
            own = SimpleNamespace(get_all_metrics=lambda key=key: found[key])
            answers += original(own, [query], *rest, **more)
        return answers

    return get_metric_data


def _listed_once(original: Any) -> Any:
    """Let moto list each metric once, as CloudWatch does, not once for most of its points."""

    def get_filtered_metrics(self: CloudWatchBackend, *asked: Any) -> Any:
        one_each = {
            (
                one.namespace,
                one.name,
                *sorted(f"{it.name}={it.value}" for it in one.dimensions),
            ): one
            for one in self.get_all_metrics()
        }
        return original(SimpleNamespace(get_all_metrics=one_each.values), *asked)

    return get_filtered_metrics


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """moto's AWS with a g5.12xlarge of which one GPU worked for a week, and an empty
    reservation."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "policy.yaml").write_text("advice: {weeks: 1, minimum_weeks: 1}\n")
    monkeypatch.setattr(advice, "described", lambda *_: ({"StateTableName": "state"}, {}))
    monkeypatch.setattr(advice, "deployed", lambda *_: "advice: {dismissed_for_days: 90}")
    quick = _by_metric(CloudWatchBackend.get_metric_data)
    monkeypatch.setattr(CloudWatchBackend, "get_metric_data", quick)
    once = _listed_once(CloudWatchBackend.get_filtered_metrics)
    monkeypatch.setattr(CloudWatchBackend, "get_filtered_metrics", once)
    with mock_aws():
        ec2 = boto3.client("ec2")
        tags: Any = [{"Key": "Purpose", "Value": "GPU-Workload"}, {"Key": "Owner", "Value": "ann"}]
        made = ec2.run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            InstanceType="g5.12xlarge",
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )["Instances"][0]["InstanceId"]
        keys: Any = [("pk", "HASH"), ("sk", "RANGE")]
        boto3.client("dynamodb").create_table(
            TableName="state",
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name, _ in keys
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        loose = ec2.run_instances(
            ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="g5.xlarge"
        )
        LOOSE.append(loose["Instances"][0]["InstanceId"])
        # moto knows no wildcards in its filters.
        monkeypatch.setattr(
            Ec2Instances,
            "list_ungoverned",
            lambda its, target, _: list(its.describe_all(target, [LOOSE[-1]]).values()),
        )
        monkeypatch.setattr(
            Ec2Instances, "creator", lambda *_: "arn:aws:iam::123456789012:user/bob"
        )
        monkeypatch.setattr(Ec2Instances, "reservations", lambda *_: [RESERVATION])
        _publish(made, last_days(datetime.now(tz=UTC), 7).start)
        yield made


def _publish(instance_id: str, start: datetime) -> None:
    client = boto3.client("cloudwatch")
    ec2 = [{"Name": "InstanceId", "Value": instance_id}]
    for gpu in range(GPUS):
        dimensions: Any = [*ec2, {"Name": "index", "Value": str(gpu)}]
        of_gpu = {
            "nvidia_smi_utilization_gpu": 0.0 if gpu else 90.0,
            "nvidia_smi_memory_used": 2_048.0,
            "nvidia_smi_utilization_memory": 10.0,
        }
        for name, value in of_gpu.items():
            client.put_metric_data(
                Namespace="GPU/EC2",
                MetricData=[
                    {
                        "MetricName": name,
                        "Value": value,
                        "Dimensions": dimensions,
                        "Timestamp": start + at,
                    }
                    for at in (timedelta(hours=hour) for hour in range(168))
                ],
            )
    data: Any = [
        {"MetricName": "CPUUtilization", "Value": 3.0, "Dimensions": ec2, "Timestamp": start + at}
        for at in (timedelta(hours=hour) for hour in range(168))
    ]
    client.put_metric_data(Namespace="AWS/EC2", MetricData=data)


def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str
) -> tuple[int, str, str]:
    """Exit status, and what was said where."""
    code = main(["advice", "--file", str(tmp_path / "policy.yaml"), *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_weeks_of_an_account_become_advice(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Through the real adapters; the most expensive first, with what it rests on."""
    code, out, err = run(capsys, tmp_path)

    assert 0 == code, err
    first = out.splitlines()[0]
    assert first.startswith("$80,358 a month   empty-reservation:cr-0123456789abcdef0  p5.48xlarge")
    assert "It belongs to account 123456789012 (until 2026-12-31 18:00 UTC)" in out
    assert f"$3,406 a month    smaller-type:{account}  g5.12xlarge; 1 week, 100% measured" in out
    assert f"$734 a month      ungoverned:{LOOSE[-1]}  g5.xlarge; not measured" in out
    assert "Created by arn:aws:iam::123456789012:user/bob." in out
    assert f"--resources {LOOSE[-1]} --tags Key=Purpose,Value=GPU-Workload" in out
    assert "Only 1 of 4 GPUs was ever in use" in out
    assert "does not add up" in err
    document = json.loads(run(capsys, tmp_path, "--json")[1])
    amounts = [float(one["usd_per_month"]) for one in document["advice"] if one["usd_per_month"]]
    assert amounts == sorted(amounts, reverse=True)
    assert 0 == document["left_out"]


def test_a_group_is_read_by_ten_minutes(
    account: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It publishes in the first ten minutes of each hour alone, one GPU at 90% and three at 0%."""
    groups: list[Group] = []

    def noted(group: Group) -> list[Advice]:
        groups.append(group)
        return of_group(group)

    monkeypatch.setattr(advice, "of_group", noted)
    tags: Any = [{"Key": f"eks:{name}-name", "Value": "gpu"} for name in ("cluster", "nodegroup")]
    boto3.client("ec2").create_tags(Resources=[account], Tags=tags)

    code, _, err = run(capsys, tmp_path)

    assert 0 == code, err
    [member] = groups[0].members
    assert set(range(0, 168 * 6, 6)) == member.measured_tens
    assert 22.5 == member.mean_at(6)


def test_dismissed_advice_stays_away_for_the_policy_s_days(
    account: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And comes back after them; with --all it is shown in any case."""
    name = f"smaller-type:{account}"
    code, out, _ = run(capsys, tmp_path, "--dismiss", name, "--json")
    until = parse_iso(json.loads(out)["until"])

    assert 0 == code
    assert timedelta(days=89) < until - datetime.now(tz=UTC) <= timedelta(days=90)
    _, out, err = run(capsys, tmp_path)
    assert name not in out
    assert "1 dismissed; --all prints them" in err
    assert f"dismissed until {until:%Y-%m-%d}" in run(capsys, tmp_path, "--all")[1]

    later = datetime.now(tz=UTC) + timedelta(days=90, seconds=1)
    monkeypatch.setattr(advice, "last_days", lambda _, days: last_days(datetime.now(tz=UTC), days))
    monkeypatch.setattr(advice, "now", lambda: later)
    assert name in run(capsys, tmp_path)[1]


def test_an_id_that_is_none_is_refused(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert account
    for name in ("nonsense", "smaller-type:", "Smaller:i-1", "a:\x1b[31m"):
        code, _, err = run(capsys, tmp_path, "--dismiss", name)

        assert 1 == code, name
        assert "is no ID of advice" in err, name


def test_nothing_is_read_that_may_cost_more_than_was_allowed(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, tmp_path, "--limit-usd", "0.00001")

    assert (1, "") == (code, out)
    assert "agree with --yes" in err
    assert account
    assert 0 == run(capsys, tmp_path, "--limit-usd", "0.00001", "--yes")[0]


def test_what_may_not_be_read_is_said(
    account: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that cannot be read leaves nothing out."""
    monkeypatch.setattr(advice, "described", lambda *_: ({"StateTableName": "gone"}, {}))
    code, out, err = run(capsys, tmp_path)

    assert 0 == code
    assert account in out
    assert "not known: which advice was dismissed" in err


def test_a_creator_is_who_ran_the_instance_by_cloudtrail() -> None:
    """Other calls name the instance, too. What CloudTrail has forgotten is not known."""
    started = {
        "EventName": "StartInstances",
        "CloudTrailEvent": json.dumps({"userIdentity": {"arn": "x"}}),
    }
    ran = {
        "EventName": "RunInstances",
        "CloudTrailEvent": json.dumps({"userIdentity": {"arn": "arn:bob"}}),
    }
    service = {"EventName": "RunInstances", "CloudTrailEvent": "{}", "Username": "autoscaling"}

    def creator(*pages: dict[str, Any]) -> str | None:
        client = Mock()
        client.lookup_events.side_effect = pages
        return Ec2Instances(FakeClients(client)).creator(Target("123456789012", REGION), "i-1")

    assert "arn:bob" == creator({"Events": [started], "NextToken": "more"}, {"Events": [ran]})
    assert "autoscaling" == creator({"Events": [service]})
    assert creator({"Events": [started]}) is None


def test_a_list_that_ends_early_says_so(
    account: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first so many that are not governed are read."""
    monkeypatch.setattr(capacity, "MOST_UNGOVERNED", 2)
    _, _, err = run(capsys, tmp_path)
    assert account
    assert "the first" not in err

    monkeypatch.setattr(capacity, "MOST_UNGOVERNED", 1)
    _, _, err = run(capsys, tmp_path)
    assert (
        "not known: instances in 123456789012/us-east-1 that are not governed: the first 1 alone"
        in err
    )


def test_what_may_not_be_looked_up_is_asked_for_once(
    account: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The instance is listed all the same, and the missing permission is named."""

    def denied(*_: Any) -> str:
        raise AccessDenied("not authorized", operation="cloudtrail:LookupEvents")

    monkeypatch.setattr(Ec2Instances, "creator", denied)
    _, out, err = run(capsys, tmp_path)

    assert account
    assert f"ungoverned:{LOOSE[-1]}" in out
    assert "Creator unknown." in out
    assert "not known: creators of instances in 123456789012/us-east-1: " in err
