"""Places of the daily scan by botocore's own clients: reads alone, and no memory that grows."""

from __future__ import annotations

import gc
import weakref
from decimal import Decimal

import pytest

from governor.aws.read_only import ReadOnlyClients
from governor.aws.scan_places import AwsPlaces
from governor.core.instance import Target
from governor.policy.model.policy import Policy
from governor.scan.registry import KINDS
from governor.scan.rights import (
    kinds_of_the_stack,
    operations_of_the_stack,
    policy_of_the_stack,
)
from governor.scan.scan_place import scan_place
from tests.builders import make_instance
from tests.unit.scan.cloud_twin import CloudTwin, Refused
from tests.unit.scan.kinds import NOW

HUB = Target("123456789012", "us-east-1")
ROLE = "arn:aws:iam::{}:role/gpu-governor-member-scanner"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that open nothing."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", HUB.account)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def places() -> AwsPlaces:
    """Return the places as the function makes them."""
    operations = (*operations_of_the_stack(KINDS), "sts:AssumeRole")
    clients = ReadOnlyClients(operations, policy_of_the_stack(KINDS), HUB.region)
    return AwsPlaces(clients, HUB)


def member(number: int) -> Target:
    """Return a place in a member account."""
    account = f"{number:012d}"
    return Target(account, "eu-west-1", ROLE.format(account))


def test_each_place_is_read_by_calls_of_the_list_in_its_own_account() -> None:
    """With a session that only reads, and counted apart from the place before."""
    opener = places()
    counts = []
    with CloudTwin().answering() as cloud:
        for number in (1, 2):
            opened = opener.open(member(number), Policy(), NOW)
            report = scan_place(opened.place, kinds_of_the_stack(KINDS))
            assert () == report.unread
            counts.append(opened.calls)
            opener.close()
    assert counts[0] == counts[1] > 10
    assert {*operations_of_the_stack(KINDS), "sts:AssumeRole"} >= set(cloud.operations())
    assert not [name for name in cloud.operations() if name.startswith("ce:")]
    assumed = [one for one in cloud.calls if one.operation == "sts:AssumeRole"]
    assert 2 == len(assumed)
    assert {policy_of_the_stack(KINDS)} == {one.parameters["Policy"] for one in assumed}


def test_the_clients_of_a_place_are_gone_when_it_is_closed() -> None:
    """An organization has thousands of places, and Lambda keeps its process between them."""
    opener = places()
    with CloudTwin().answering():
        opened = opener.open(member(1), Policy(), NOW)
        opened.place.call("ec2:DescribeRegions")
        client = weakref.ref(opened.clients.client("ec2", member(1)))
        assert client() is not None
        del opened
        opener.close()
    gc.collect()
    assert client() is None


def test_prices_that_are_refused_are_said_and_calls_are_priced() -> None:
    """The line names the hub, as which AWS's list is read."""

    def refused(_: object) -> object:
        """Refuse the price list."""
        raise Refused("AccessDeniedException")

    opener = places()
    with CloudTwin({"pricing:GetProducts": refused}).answering():
        opened = opener.open(HUB, Policy(), NOW)
        opened.place.call("cloudwatch:ListMetrics", Namespace="x")

        opened.place.prices.price(make_instance(), Policy())
        (line,) = opened.unread_prices()
    assert (HUB.account, "pricing:GetProducts", True) == (
        line.place,
        line.operation,
        line.is_missing_right,
    )
    assert Decimal("0.00001") == opened.usd_spent
