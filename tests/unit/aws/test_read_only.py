"""Clients for reading alone refuse what is not on their list, whoever calls."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.errors import AccessDenied, SafetyError, Unavailable
from governor.core.instance import Target
from governor.scan.registry import KINDS
from governor.scan.rights import operations_of_a_scan, policy_to_attach, session_policy

TARGET = Target("123456789012", "us-east-1")
LIST = ("ec2:DescribeRegions",)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> ReadOnlyClients:
    """Clients that may list Regions and nothing else."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    return ReadOnlyClients(LIST, "{}", "us-east-1")


def test_an_operation_on_the_list_is_sent_and_counted(clients: ReadOnlyClients) -> None:
    """The report says how often each was called."""
    with Stubber(clients.client("ec2", TARGET)) as stubber:
        stubber.add_response("describe_regions", {"Regions": []})
        assert [] == AwsReadApi(clients).call(TARGET, "ec2:DescribeRegions")["Regions"]
    assert {"ec2:DescribeRegions": 1} == clients.calls


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("ec2:TerminateInstances", {"InstanceIds": ["i-1"]}),
        ("ec2:CreateTags", {"Resources": ["i-1"], "Tags": []}),
        ("ec2:DescribeInstances", {}),
        ("sagemaker:DeleteEndpoint", {"EndpointName": "x"}),
    ],
)
def test_every_other_operation_is_refused_before_it_is_sent(
    clients: ReadOnlyClients, operation: str, parameters: dict[str, Any]
) -> None:
    """Reading one thing more needs a line on the list of a kind, which the printed policy has."""
    with pytest.raises(SafetyError, match=operation):
        AwsReadApi(clients).call(TARGET, operation, **parameters)
    assert {} == clients.calls


def test_the_session_policy_is_short_enough_for_sts() -> None:
    """STS takes 2,048 characters."""
    assert len(session_policy(KINDS)) <= 2048


def test_the_policy_to_attach_allows_what_a_scan_calls_and_no_more() -> None:
    """It is made from the same lists as the clients."""
    document = json.loads(policy_to_attach(KINDS, "Audit"))
    actions = {action for statement in document["Statement"] for action in statement["Action"]}
    assert operations_of_a_scan(KINDS) == actions
    verbs = ("Describe", "Get", "List", "Lookup", "AssumeRole")
    assert [] == [name for name in actions if not name.partition(":")[2].startswith(verbs)]


def test_one_call_that_fails_stops_no_other(clients: ReadOnlyClients) -> None:
    """Each has its answer or its error, in the order of the parameters."""
    with Stubber(clients.client("ec2", TARGET)) as stubber:
        stubber.add_client_error("describe_regions", "UnauthorizedOperation", "no right")
        (answer,) = AwsReadApi(clients).call_each(TARGET, "ec2:DescribeRegions", [{}])
    assert isinstance(answer, AccessDenied)


def test_a_call_of_many_that_is_not_on_the_list_is_refused(clients: ReadOnlyClients) -> None:
    """A refusal of the client is no answer of AWS."""
    with pytest.raises(SafetyError):
        AwsReadApi(clients).call_each(TARGET, "ec2:DescribeInstances", [{}, {}])


@pytest.mark.parametrize(
    ("region", "service", "is_offered"),
    [
        ("us-east-1", "bedrock", True),
        ("ap-east-1", "bedrock", False),
        ("eu-west-1", "no-such-service", False),
        ("eu-west-9", "bedrock", True),
    ],
)
def test_only_a_region_that_is_known_lacks_a_service(
    clients: ReadOnlyClients, region: str, service: str, is_offered: bool
) -> None:
    """botocore's list may be older than a Region: then AWS is asked."""
    target = Target("123456789012", region)
    assert is_offered == AwsReadApi(clients).is_offered(target, service)


def test_metrics_are_counted_as_aws_bills_them(clients: ReadOnlyClients) -> None:
    """Each query of GetMetricData, and not the call."""
    clients = ReadOnlyClients(("cloudwatch:GetMetricData",), "{}", "us-east-1")
    queries = [{"Id": f"m{number}", "Expression": "1"} for number in range(3)]
    now = datetime(2026, 11, 28, tzinfo=UTC)
    with Stubber(clients.client("cloudwatch", TARGET)) as stubber:
        stubber.add_response("get_metric_data", {"MetricDataResults": []})
        AwsReadApi(clients).call(
            TARGET,
            "cloudwatch:GetMetricData",
            MetricDataQueries=queries,
            StartTime=now,
            EndTime=now,
        )
    assert 3 == clients.metrics_requested


def test_after_an_interruption_nothing_is_sent(clients: ReadOnlyClients) -> None:
    """The parts of a report that are missing then are incomplete, and no defect."""
    clients.interrupt()
    with pytest.raises(Unavailable, match="the scan was interrupted"):
        AwsReadApi(clients).call(TARGET, "ec2:DescribeRegions")
    assert {} == clients.calls


def test_the_clients_of_a_place_are_dropped_and_no_others(clients: ReadOnlyClients) -> None:
    """An organization has thousands of places, and each client takes about a megabyte."""
    other = Target(TARGET.account, "eu-west-1")
    member = Target("210987654321", "us-east-1", "arn:aws:iam::210987654321:role/Audit")
    before = [clients.client("ec2", target) for target in (TARGET, other, member)]
    clients.forget(TARGET)
    after = [clients.client("ec2", target) for target in (TARGET, other, member)]
    assert [False, True, True] == [one is two for one, two in zip(before, after, strict=True)]


def test_all_roles_share_what_was_read_of_the_services(clients: ReadOnlyClients) -> None:
    """Each session would else parse megabytes of JSON for each service."""
    targets = [
        Target(str(number), "us-east-1", f"arn:aws:iam::{number}:role/Audit") for number in (1, 2)
    ]
    for target in targets:
        clients.client("ec2", target)
    loaders = {id(one.get_component("data_loader")) for one in clients._sessions.values()}
    assert (3, 1) == (len(clients._sessions), len(loaders))
