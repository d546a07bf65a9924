"""`governor scan` on the local cloud, by somebody who may only read: the fleet of `make cloud`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_socket

from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.aws.pricing import AwsPrices
from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.instance import Target
from governor.policy.model.policy import Policy
from governor.scan.kind import Kind, Place
from governor.scan.model import Row
from governor.scan.registry import KINDS
from governor.scan.rights import operations_of_a_scan, policy_to_attach, session_policy
from governor.scan.scan_place import PlaceReport, scan_place
from local.demo.waste import EXPECTED, REGION, put_waste
from local.engine.cloud import ACCOUNT, ROOT, LocalCloud

READER = "auditor"
TARGET = Target(ACCOUNT, REGION)


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    """A cloud that enforces IAM, with the fleet of `make cloud` and nothing deployed."""
    pytest_socket.enable_socket()
    with LocalCloud(enforce_iam=True) as cloud:
        put_waste(cloud, datetime.now(UTC))
        yield cloud


def key_of(cloud: LocalCloud, name: str, policy: str) -> dict[str, str]:
    """Return an access key, as environment, of a user who has this policy alone."""
    iam = cloud.client("iam")
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="scan", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


@pytest.fixture(scope="module")
def reader(cloud: LocalCloud) -> dict[str, str]:
    """The key of somebody with the printed policy."""
    return key_of(cloud, READER, policy_to_attach(KINDS))


def scan(cloud: LocalCloud, key: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> PlaceReport:
    """Return the report on the Region of the fleet, by this key."""
    for name, value in {**cloud.environment(), **key}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    clients = ReadOnlyClients(operations_of_a_scan(KINDS), session_policy(KINDS), REGION)
    place = Place(
        target=TARGET,
        api=AwsReadApi(clients),
        instances=Ec2Instances(clients),
        metrics=CloudWatchMetrics(clients),
        prices=AwsPrices(clients),
        policy=Policy(),
        now=datetime.now(UTC),
        reads_commitments=True,
    )
    return scan_place(place, KINDS)


@pytest.fixture(scope="module")
def report(cloud: LocalCloud, reader: dict[str, str]) -> PlaceReport:
    """The report by somebody with the printed policy, made once: nothing changes the fleet before
    the last test."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return scan(cloud, reader, monkeypatch)


def row_of(report: PlaceReport, name: str) -> Row:
    """Return the row of a resource, which must be there once."""
    (row,) = (row for row in report.rows if name == row.resource.name)
    return row


def test_the_printed_policy_is_enough(report: PlaceReport) -> None:
    """Nothing is missing, with IAM enforced."""
    assert () == report.unread


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_is_found_and_judged(report: PlaceReport, kind: Kind[Any, Any]) -> None:
    """As the fleet says. A kind that it does not name has no member in it."""
    expected = EXPECTED.get(kind.name, {})
    found: dict[str, str] = {}
    for row in report.rows:
        if kind.name == row.kind:
            found[row.resource.name or row.resource.resource_id] = str(row.judgment.finding)
    assert expected == found


def test_an_unused_endpoint_costs_what_sagemaker_asks(report: PlaceReport) -> None:
    """Not what EC2 asks for the same hardware."""
    row = row_of(report, "chat-poc")
    assert "7.9186" == str(row.usd_per_hour)
    assert "research" == row.owner
    words = "0 invocations in 7 days; utilization per GPU up to 0%"
    assert words == row.judgment.evidence


def test_what_is_not_measured_says_its_idle_shutdown(report: PlaceReport) -> None:
    """A person must look."""
    notebook = row_of(report, "ada-notebook")
    words = "running for 9 days, idle shutdown off; activity not measured"
    assert words == notebook.judgment.evidence
    app = row_of(report, "bob-space")
    words = "JupyterLab running for 16 days, idle shutdown off; activity not measured"
    assert words == app.judgment.evidence
    assert "bob" == app.resource.creator


def test_a_scan_writes_nothing(
    cloud: LocalCloud, reader: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls that it makes read."""
    before = cloud.simulation(region=REGION).calls()
    scan(cloud, reader, monkeypatch)
    after = cloud.simulation(region=REGION).calls()
    made = {name.partition(":")[2] for name, count in after.items() if count != before.get(name, 0)}
    assert made
    assert all(name.startswith(("Describe", "List", "Get")) for name in made)


def test_a_missing_right_costs_only_its_own_kind(
    cloud: LocalCloud, report: PlaceReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report names it, and the other rows stand."""
    document = json.loads(policy_to_attach(KINDS))
    for statement in document["Statement"]:
        statement["Action"].remove("sagemaker:ListEndpoints")
    key = key_of(cloud, "half-blind", json.dumps(document))
    partial = scan(cloud, key, monkeypatch)
    (line,) = partial.unread
    assert ("sagemaker:ListEndpoints", True) == (line.operation, line.is_missing_right)
    others = [row.resource.name for row in report.rows if "sagemaker-endpoint" != row.kind]
    assert sorted(others) == sorted(row.resource.name for row in partial.rows)


def test_the_command_shows_the_fleet(cloud: LocalCloud, reader: dict[str, str]) -> None:
    """From any terminal, with nothing but the key."""
    environment = {**os.environ, **cloud.environment(), **reader}
    environment.pop("AWS_SESSION_TOKEN", None)
    line = ["bin/governor", "scan", "--json", "--region", REGION, "--fail-over", "5000"]
    done = subprocess.run(
        line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert 3 == done.returncode, done.stderr
    document = json.loads(done.stdout)
    names = [row["name"] for row in document["rows"]]
    assert {"launch-week", "chat-poc", "paper-2025", "datasets", "titan-poc", "inference"} <= {
        *names
    }
    assert {"search", "ada-notebook", "bob-space"} <= {*names}
    assert names.index("launch-week") < names.index("chat-poc") < names.index("inference")
    assert names.index("chat-poc") < names.index("search")


def test_the_command_of_an_unused_endpoint_ends_the_waste(
    cloud: LocalCloud, reader: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the Region, too, so that it works in any shell. This test is the last."""
    words = shlex.split(row_of(scan(cloud, reader, monkeypatch), "chat-poc").command)
    assert ["aws", "sagemaker", "delete-endpoint", "--region", REGION] == words[:5]
    assert ["--endpoint-name", "chat-poc"] == words[5:]
    cloud.client("sagemaker", region=REGION).delete_endpoint(EndpointName=words[6])
    names = [row.resource.name for row in scan(cloud, reader, monkeypatch).rows]
    assert "chat-poc" not in names
    assert "search" in names
