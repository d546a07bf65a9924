"""Reads AWS's price lists, Savings Plans and Reserved Instances, to be stored for the sweeps.

No price of an instance is found here: `pricing.py` finds it from what was stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Any

import botocore.session

from governor.aws.clients import Adapter, Clients
from governor.core.instance import Target
from governor.core.regions import partition_of
from governor.core.units import UsdPerHour, as_utc, parse_iso
from governor.episode.model.plan import StoragePrices
from governor.money.rules.prices import (
    SERVICE,
    STORAGE_PRODUCTS,
    WANTED,
    Commitment,
    CommitmentKind,
    filters_of,
    on_demand,
    storage_prices,
)

_DEFAULT_ENDPOINT_REGION = "us-east-1"


def _price_list_region(hub_region: str) -> str:
    """Return the Region where this hub asks for prices, `us-east-1` unless another one is nearer.

    In the partition `aws` the Price List has three endpoints, each of which knows all Regions.
    Another partition has its own, or none: then AWS refuses the hub's credentials.
    """
    partition = partition_of(hub_region)
    if partition == "aws":
        continent = hub_region.partition("-")[0]
        return {"eu": "eu-central-1", "ap": "ap-south-1"}.get(continent, _DEFAULT_ENDPOINT_REGION)
    endpoints = botocore.session.get_session().get_available_regions("pricing", partition)
    return endpoints[0] if endpoints else _DEFAULT_ENDPOINT_REGION


class AwsPriceLists(Adapter):
    """The port `PriceReader`, in the hub's account."""

    def __init__(self, clients: Clients, hub: Target) -> None:
        """Read from the account of `hub`, and prices from the Region that offers them to it."""
        super().__init__(clients)
        self._hub = hub
        self._endpoint = Target(hub.account, _price_list_region(hub.region))

    def on_demand(self, region: str, instance_type: str) -> Mapping[str, UsdPerHour]:
        """Return the On-Demand prices of a type in a Region, by operating system and tenancy
        (`money.rules.prices.key_of`); empty if there are none. Raises: CloudError."""
        products = self._products(SERVICE, region, instanceType=instance_type, **WANTED)
        return on_demand(products, region)

    def storage(self, region: str) -> StoragePrices:
        """Return what volumes, snapshots and public addresses cost in a Region. A price that is not
        listed there is missing, or `None`. Raises: CloudError."""
        products: list[Iterator[str]] = []
        for service, name, value in STORAGE_PRODUCTS:
            products.append(self._products(service, region, **{name: value}))
        return storage_prices(chain.from_iterable(products), region)

    def savings_plans(self) -> Sequence[Commitment]:
        """Return the active Savings Plans of the hub's account, but for the kinds that pay for no
        instance; empty if there are none. Raises: CloudError."""
        parameters: Any = {"states": ["active"], "following": "nextToken"}
        commitments: list[Commitment] = []
        operation = "savingsplans:DescribeSavingsPlans"
        for page in self._pages(operation, self._endpoint, **parameters):
            for plan in page["savingsPlans"]:
                if plan.get("savingsPlanType") in ("SageMaker", "Database"):
                    continue
                commitments.append(_plan(plan))
        return commitments

    def reserved(self, region: str) -> Sequence[Commitment]:
        """Return the active Reserved Instances of the hub's account in a Region; empty if there are
        none. Raises: CloudError."""
        active = [{"Name": "state", "Values": ["active"]}]
        regional = replace(self._hub, region=region)
        answer = self._call("ec2:DescribeReservedInstances", regional, Filters=active)
        return [_reserved(record, region) for record in answer["ReservedInstances"]]

    def _products(self, service: str, region: str, **attributes: str) -> Iterator[str]:
        """Yield the products of a service with these attributes, each as the JSON text that the
        Price List gives. Raises: CloudError."""
        parameters: Any = {
            "ServiceCode": service,
            "Filters": filters_of(region, **attributes),
            "MaxResults": 100,
        }
        for page in self._pages("pricing:GetProducts", self._endpoint, **parameters):
            yield from page["PriceList"]


def _plan(record: Mapping[str, Any]) -> Commitment:
    """Return the Savings Plan in a record of DescribeSavingsPlans, which gives amounts and times as
    text. Its amount is `None` if it is not in USD. Only a plan for one family of instances has a
    family and a Region; any other has empty texts there."""
    kind = CommitmentKind.COMPUTE_PLAN
    region = ""
    family = ""
    if record.get("savingsPlanType") == "EC2Instance":
        kind = CommitmentKind.INSTANCE_PLAN
        region = record.get("region", "")
        family = record.get("ec2InstanceFamily", "")
    usd_per_hour: Decimal | None = None
    if record.get("currency") == "USD":
        usd_per_hour = Decimal(record["commitment"])
    return Commitment(
        kind=kind,
        id=record["savingsPlanId"],
        region=region,
        family=family,
        usd_per_hour=usd_per_hour,
        start=parse_iso(record["start"]),
        end=parse_iso(record["end"]),
    )


def _reserved(record: Mapping[str, Any], region: str) -> Commitment:
    """Return the Reserved Instances in a record of DescribeReservedInstances, with what all of them
    cost an hour: the fixed price over the term, the usage price, and hourly charges. A record
    without a currency is in USD; the amount is `None` for any other one."""
    hours = Decimal(record["Duration"]) / 3600
    price_of_one = _exact(record.get("FixedPrice", 0)) / hours
    price_of_one += _exact(record.get("UsagePrice", 0))
    for charge in record.get("RecurringCharges", ()):
        if charge["Frequency"] == "Hourly":
            price_of_one += _exact(charge["Amount"])
    usd_per_hour: Decimal | None = None
    if record.get("CurrencyCode", "USD") == "USD":
        usd_per_hour = price_of_one * record["InstanceCount"]
    return Commitment(
        kind=CommitmentKind.RESERVED,
        id=record["ReservedInstancesId"],
        region=region,
        family=record["InstanceType"].partition(".")[0],
        usd_per_hour=usd_per_hour,
        start=as_utc(record["Start"]),
        end=as_utc(record["End"]),
        platform=record["ProductDescription"].removesuffix(" (Amazon VPC)"),
    )


def _exact(amount: float) -> Decimal:
    """Return a float as decimal by its shortest digits, which are those of AWS's answer: 0.1 and
    not 0.1000000000000000055."""
    return Decimal(str(amount))
