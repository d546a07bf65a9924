"""Price lists and commitments as AWS answers them; the shapes were made by hand from its
documentation."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.aws.price_lists import AwsPriceLists
from governor.aws.prices_now import AwsPricesNow
from governor.core.errors import AccessDenied
from governor.core.instance import Lifecycle, Target
from governor.core.regions import known_regions, partition_of
from governor.money.rules.prices import Commitment, CommitmentKind, key_of
from local.engine.simulators.pricing import instance_product, product
from tests.builders import NOW, POLICY, make_instance
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error

HERE = "eu-central-1"
PLAN = {
    "savingsPlanId": "sp-1",
    "savingsPlanArn": "arn:aws:savingsplans::111122223333:savingsplan/sp-1",
    "savingsPlanType": "Compute",
    "start": "2026-01-01T00:00:00.000Z",
    "end": "2026-12-31T23:59:59.000Z",
    "state": "active",
    "currency": "USD",
    "commitment": "12.50000000",
}


def reader(
    hub: str = "us-west-2", **answers: Any
) -> tuple[AwsPriceLists, FakeClients, ScriptedClient]:
    """A hub in some Region, whose AWS answers so."""
    client = ScriptedClient(**answers)
    clients = FakeClients(client)
    return AwsPriceLists(clients, Target("111122223333", hub)), clients, client


@pytest.mark.parametrize(
    ("hub", "endpoint"),
    [
        ("us-west-2", "us-east-1"),
        ("eu-west-1", "eu-central-1"),
        ("ap-northeast-1", "ap-south-1"),
        ("sa-east-1", "us-east-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eusc-de-east-1", "eusc-de-east-1"),
        ("eu-isoe-west-1", "eu-isoe-west-1"),
    ],
)
def test_prices_are_asked_for_where_the_price_list_has_an_endpoint(hub: str, endpoint: str) -> None:
    """For any Region, in all pages, and as the hub itself."""
    pages = [
        {"PriceList": [instance_product("g5.xlarge", "1.2580000000", HERE)], "NextToken": "more"},
        {"PriceList": [instance_product("g5.xlarge", "1.4", HERE, operation="RunInstances:0002")]},
    ]
    lists, clients, client = reader(hub, get_products=pages)

    found = lists.on_demand(HERE, "g5.xlarge")

    assert {"RunInstances", "RunInstances:0002"} == {key.split("|")[1] for key in found}
    assert [("pricing", Target("111122223333", endpoint), True)] == clients.asked
    assert "more" == client.calls[1][1]["NextToken"]
    wanted = {one["Field"]: one["Value"] for one in client.calls[0][1]["Filters"]}
    assert (HERE, "g5.xlarge", "Used") == (
        wanted["regionCode"],
        wanted["instanceType"],
        wanted["capacitystatus"],
    )


@pytest.mark.parametrize("hub", known_regions())
def test_prices_are_asked_for_in_the_hub_s_partition(hub: str) -> None:
    """Credentials are good in one partition only. GovCloud has no price list."""
    lists, _, _ = reader(hub)

    partition = partition_of(lists._endpoint.region)
    assert partition == ("aws" if hub.startswith("us-gov-") else partition_of(hub))


def test_prices_that_may_not_be_read_are_an_error() -> None:
    """Nobody takes them for none."""
    lists, *_ = reader(get_products=client_error("AccessDeniedException"))
    with pytest.raises(AccessDenied, match="pricing:GetProducts"):
        lists.on_demand(HERE, "g5.xlarge")


STORAGE = [
    ("EUC1-EBS:VolumeUsage.gp3", "GB-Mo", "0.0952"),
    ("EUC1-EBS:VolumeUsage.piops", "GB-Mo", "0.149"),
    ("EUC1-EBS:VolumeUsage", "GB-Mo", "0.059"),
    ("EUC1-EBS:VolumeP-IOPS.gp3", "IOPS-Mo", "0.006"),
    ("EUC1-EBS:VolumeP-IOPS.piops", "IOPS-Mo", "0.078"),
    ("EUC1-EBS:VolumeP-IOPS.io2.tier2", "IOPS-Mo", "0.0546"),
    ("EUC1-EBS:VolumeP-Throughput.gp3", "GiBps-mo", "48.7424"),
    ("EUC1-EBS:SnapshotUsage", "GB-Mo", "0.054"),
    ("EUC1-EBS:SnapshotArchiveStorage", "GB-Mo", "0.0135"),
    ("EUC1-PublicIPv4:InUseAddress", "Hrs", "0.005"),
    ("EUC1-PublicIPv4:IdleAddress", "Hrs", "0.005"),
]


def test_storage_is_priced_by_volume_type() -> None:
    """Throughput is listed per GiB/s. Archives, and what io2 costs from 32,000 IOPS on, are other
    things."""
    rows = [product(usd, unit, usagetype=usage, regionCode=HERE) for usage, unit, usd in STORAGE]
    other = product("9", "GB-Mo", usagetype="EBS:VolumeUsage.gp2", regionCode="us-east-1")
    lists, _, client = reader(get_products=lambda **_: {"PriceList": [*rows, other]})

    found = lists.storage(HERE)

    assert {"gp3": "0.0952", "io1": "0.149", "standard": "0.059"} == as_text(
        found.usd_per_gib_month
    )
    assert {"gp3": "0.006", "io1": "0.078"} == as_text(found.usd_per_iops_month)
    assert {"gp3": Decimal("0.0476")} == found.usd_per_mibps_month
    assert (Decimal("0.054"), Decimal("0.005")) == (
        found.snapshot_usd_per_gib_month,
        found.address_usd_per_hour,
    )
    services = [(call["ServiceCode"], call["Filters"][-1]["Value"]) for _, call in client.calls]
    assert ("AmazonVPC", "VPCPublicIPv4Address") in services
    assert 5 == len(services)


def as_text(found: Any) -> dict[str, str]:
    """Amounts to the digit."""
    return {name: str(usd) for name, usd in found.items()}


def test_savings_plans_are_read_as_text_says() -> None:
    """Those for SageMaker and databases pay for no instance; another currency is not converted."""
    family = {
        **PLAN,
        "savingsPlanId": "sp-2",
        "savingsPlanType": "EC2Instance",
        "ec2InstanceFamily": "p5",
    }
    plans = [
        PLAN,
        {**family, "region": HERE, "currency": "CNY"},
        {**PLAN, "savingsPlanType": "SageMaker"},
        {**PLAN, "savingsPlanType": "Database"},
    ]
    pages = [
        {"savingsPlans": plans[:1], "nextToken": "more"},
        {"savingsPlans": plans[1:], "nextToken": ""},
    ]
    lists, _, client = reader(describe_savings_plans=pages)

    compute, instance = lists.savings_plans()

    assert ("12.50000000", "", "") == (str(compute.usd_per_hour), compute.region, compute.family)
    assert CommitmentKind.INSTANCE_PLAN is instance.kind
    assert (None, HERE, "p5") == (instance.usd_per_hour, instance.region, instance.family)
    assert timedelta(days=365) > compute.end - compute.start > timedelta(days=364)
    assert (["active"], "more") == (client.calls[0][1]["states"], client.calls[1][1]["nextToken"])


def test_reserved_instances_are_read_where_they_are() -> None:
    """The price of one an hour: its share of what was paid at once, and what recurs; times their
    number."""
    found = {
        "ReservedInstancesId": "r-1",
        "InstanceType": "g5.xlarge",
        "InstanceCount": 2,
        "ProductDescription": "Linux/UNIX (Amazon VPC)",
        "State": "active",
        "Start": NOW,
        "End": NOW + timedelta(days=365),
        "Duration": 31_536_000,
        "FixedPrice": 876.0,
        "UsagePrice": 0.0,
        "RecurringCharges": [{"Amount": 0.1, "Frequency": "Hourly"}],
        "CurrencyCode": "USD",
    }
    lists, clients, _ = reader(describe_reserved_instances={"ReservedInstances": [found]})

    assert [
        Commitment(
            CommitmentKind.RESERVED,
            "r-1",
            HERE,
            "g5",
            Decimal("0.4"),
            NOW,
            NOW + timedelta(days=365),
            "Linux/UNIX",
        )
    ] == list(lists.reserved(HERE))
    assert [("ec2", Target("111122223333", HERE), True)] == clients.asked


def test_a_document_is_text_in_a_list() -> None:
    """The model says JSON, and botocore leaves the members of a list as they are."""
    lists, *_ = reader(get_products={"PriceList": [instance_product("g5.xlarge", "1.258", HERE)]})

    assert {key_of("g5.xlarge", "RunInstances", "Shared"): Decimal("1.258")} == lists.on_demand(
        HERE, "g5.xlarge"
    )
    assert "product" in json.loads(instance_product("g5.xlarge", "1.258", HERE))


# Prices that nobody has stored, as a scan reads them.


def prices_now(**answers: Any) -> tuple[AwsPricesNow, ScriptedClient]:
    """A scan's prices, whose AWS answers so."""
    client = ScriptedClient(**answers)
    return AwsPricesNow(FakeClients(client), Target("111122223333", HERE)), client


def test_a_scan_reads_the_list_once_for_each_type_and_region() -> None:
    """And uses it for every instance of the type."""
    page = {"PriceList": [instance_product("g5.xlarge", "1.2580000000", HERE)]}
    prices, client = prices_now(get_products=[page])
    here = make_instance(target=Target("111122223333", HERE))
    for _ in range(3):
        price = prices.price(here, POLICY)
        assert Decimal("1.258") == price.usd_per_hour
        assert price.source.startswith("AWS price list, eu-central-1")
    assert 1 == len(client.calls)
    assert prices.problem is None


def test_a_scan_without_the_right_uses_the_shipped_prices_and_asks_no_more() -> None:
    """The source of each price says so."""
    denied = client_error("AccessDeniedException", "no right")
    prices, client = prices_now(get_products=[denied])
    for instance_type in ("g5.xlarge", "g5.2xlarge"):
        here = make_instance(target=Target("1", HERE), instance_type=instance_type)
        price = prices.price(here, POLICY)
        assert price.usd_per_hour is not None
        assert "list price us-east-1" in price.source
        assert "eu-central-1 may differ" in price.source
    assert 1 == len(client.calls)
    assert isinstance(prices.problem, AccessDenied)


def test_a_type_that_the_list_does_not_have_keeps_its_shipped_price() -> None:
    """A list without the type is no problem, and no price of zero."""
    prices, _ = prices_now(get_products=[{"PriceList": []}, {"PriceList": []}])
    assert Decimal("1.006") == prices.price(make_instance(), POLICY).usd_per_hour
    unknown = make_instance(instance_type="made.up")
    assert prices.price(unknown, POLICY).usd_per_hour is None
    assert prices.problem is None


def test_a_spot_instance_needs_no_list() -> None:
    """It has its Spot price."""
    prices, client = prices_now(describe_spot_price_history=[{"SpotPriceHistory": []}])
    assert prices.price(make_instance(lifecycle=Lifecycle.SPOT), POLICY).usd_per_hour is None
    assert ["describe_spot_price_history"] == [name for name, _ in client.calls]
