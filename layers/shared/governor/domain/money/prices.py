"""AWS's price list of a Region: On-Demand prices by type, operation and tenancy, and of storage;
and what the hub's account is committed to.

Only USD an hour over 0, of capacity that is used, counts: the list has zeros for capacity that is
paid otherwise. Two prices for one thing are no price. Source: AWS Price List Query API.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from governor.domain.episode.plan import StoragePrices
from governor.domain.instance import LINUX, PLAIN_OPERATION, Instance
from governor.domain.units import UsdPerHour, UtcDatetime

_log = logging.getLogger(__name__)

SERVICE = "AmazonEC2"
STORAGE = "storage"
SAVINGS_PLANS = "savings-plans"
WANTED = {"capacitystatus": "Used", "marketoption": "OnDemand"}
"""Attributes of a product that is billed by the hour; reservations and Capacity Blocks share its
type."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices read of a Region. `usd_per_hour` by `key_of`; `read_at` by type, also of one without
    price, and of `STORAGE`."""

    region: str
    read_at: Mapping[str, UtcDatetime] = field(default_factory=dict)
    usd_per_hour: Mapping[str, UsdPerHour] = field(default_factory=dict)
    storage: StoragePrices | None = None

    def price(self, instance: Instance) -> UsdPerHour | None:
        if instance.operation == PLAIN_OPERATION and instance.platform != LINUX:
            return (
                None  # A record of an earlier release, which did not know what AWS charges it as.
            )
        alone = ["Dedicated"] if instance.instance_type.endswith(".metal") else []
        keys = (
            key_of(instance.instance_type, instance.operation, tenancy)
            for tenancy in (instance.tenancy, *alone)
        )
        return next((self.usd_per_hour[key] for key in keys if key in self.usd_per_hour), None)

    def with_type(
        self, instance_type: str, found: Mapping[str, UsdPerHour], at: UtcDatetime
    ) -> PriceList:
        """The list with all prices of the type as they were found; those before are gone."""
        others = {
            key: usd
            for key, usd in self.usd_per_hour.items()
            if not key.startswith(f"{instance_type}|")
        }
        return replace(
            self, read_at={**self.read_at, instance_type: at}, usd_per_hour={**others, **found}
        )

    def with_storage(self, storage: StoragePrices, at: UtcDatetime) -> PriceList:
        return replace(self, read_at={**self.read_at, STORAGE: at}, storage=storage)


def key_of(instance_type: str, operation: str, tenancy: str) -> str:
    return f"{instance_type}|{operation}|{tenancy}"


def filters_of(region: str, **attributes: str) -> list[dict[str, str]]:
    """Return what GetProducts is asked for products of a Region with these attributes."""
    wanted = {"regionCode": region, **attributes}
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]


def on_demand(documents: Iterable[str], region: str) -> dict[str, UsdPerHour]:
    """Return the hourly prices in these documents, by `key_of`."""

    def key(product: Mapping[str, str]) -> str:
        if any(
            product.get(name) != value for name, value in {**WANTED, "regionCode": region}.items()
        ):
            return ""
        named = [product.get(name, "") for name in ("instanceType", "operation", "tenancy")]
        return key_of(*named) if all(named) else ""

    return listed(documents, key, ("Hrs",))


_USAGE = {
    "EBS:VolumeUsage": "gib|standard",
    "EBS:VolumeUsage.piops": "gib|io1",
    **{f"EBS:VolumeUsage.{kind}": f"gib|{kind}" for kind in ("gp2", "gp3", "io2", "st1", "sc1")},
    "EBS:VolumeP-IOPS.gp3": "iops|gp3",
    "EBS:VolumeP-IOPS.piops": "iops|io1",
    "EBS:VolumeP-IOPS.io2": "iops|io2",
    "EBS:VolumeP-Throughput.gp3": "throughput|gp3",
    "EBS:SnapshotUsage": "snapshot|",
    "PublicIPv4:InUseAddress": "address|",
}
"""Meaning of a usage type without the code of its Region. io2 costs less from 32,000 IOPS on."""
STORAGE_PRODUCTS = (
    *((SERVICE, "productFamily", family) for family in ("Storage", "System Operation")),
    *(
        (SERVICE, "productFamily", family)
        for family in ("Provisioned Throughput", "Storage Snapshot")
    ),
    ("AmazonVPC", "group", "VPCPublicIPv4Address"),
)
"""Service, attribute and value by which the list has them."""
_MIBPS_PER_GIBPS = 1024


def storage_prices(documents: Iterable[str], region: str) -> StoragePrices:
    def name(product: Mapping[str, str]) -> str:
        usage = re.sub("^[A-Z]+[0-9]*-", "", product.get("usagetype", ""))
        return _USAGE.get(usage, "") if product.get("regionCode") == region else ""

    documents = tuple(documents)
    found = listed(documents, name, ("GB-Mo", "GB-month", "IOPS-Mo", "MiBps-Mo", "MiBps-mo", "Hrs"))
    by_gib = listed(documents, name, ("GiBps-mo", "GiBps-Mo"))
    found = {**{key: usd / _MIBPS_PER_GIBPS for key, usd in by_gib.items()}, **found}

    def of(what: str) -> dict[str, Decimal]:
        return {
            key.partition("|")[2]: usd for key, usd in found.items() if key.startswith(f"{what}|")
        }

    snapshot, address = found.get("snapshot|"), found.get("address|")
    return StoragePrices(of("gib"), of("iops"), of("throughput"), snapshot, address)


class CommitmentKind(StrEnum):
    COMPUTE_PLAN = "compute-savings-plan"
    INSTANCE_PLAN = "ec2-instance-savings-plan"
    RESERVED = "reserved-instance"


@dataclass(frozen=True, slots=True)
class Commitment:
    """Charge of an hour, used or not (`None`: not in USD). An empty `region`, `family` or
    `platform` means any. A Reserved Instance counts for its whole family: many are flexible in
    size."""

    kind: CommitmentKind
    id: str
    region: str
    family: str
    usd_per_hour: UsdPerHour | None
    start: UtcDatetime
    end: UtcDatetime
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Commitments:
    """Those of the hub's account. `read` names what could be read: Regions, and `SAVINGS_PLANS`;
    `unread` the rest, with the reason."""

    read_at: UtcDatetime
    found: tuple[Commitment, ...] = ()
    read: frozenset[str] = frozenset()
    unread: Mapping[str, str] = field(default_factory=dict)


def may_apply(
    commitments: Commitments | None, instance_type: str, region: str, platform: str
) -> bool:
    """Return whether a Savings Plan or Reserved Instance of the hub's account may pay for such an
    instance: also where that could not be read. Those of other accounts are not known here."""
    if commitments is None or not commitments.read.issuperset((SAVINGS_PLANS, region)):
        return True
    wanted = (region, instance_type.partition(".")[0], platform)
    return any(
        all(
            own in ("", its)
            for own, its in zip((one.region, one.family, one.platform), wanted, strict=True)
        )
        for one in commitments.found
    )


def listed(
    documents: Iterable[str], name_of: Callable[[Mapping[str, str]], str], units: tuple[str, ...]
) -> dict[str, Decimal]:
    """Return the one price in USD of everything that has a name by its product's attributes. What
    is not readable, in other units or currencies, or has two prices, is left out."""
    found: dict[str, set[Decimal]] = defaultdict(set)
    for text in documents:
        try:
            document = json.loads(text)
            if name := name_of(document["product"]["attributes"]):
                found[name] |= {
                    usd for usd in _amounts(document, units) if usd.is_finite() and usd > 0
                }
        except (KeyError, TypeError, AttributeError, ValueError, InvalidOperation):
            _log.warning("a product of the price list cannot be read: %.200s", text, exc_info=True)
    for name, prices in found.items():
        if len(prices) > 1:
            _log.warning("%s has %d prices, so it is unpriced", name, len(prices))
    return {name: min(prices) for name, prices in found.items() if len(prices) == 1}


def _amounts(document: Mapping[str, Any], units: tuple[str, ...]) -> Iterator[Decimal]:
    for term in document["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"] in units and "USD" in dimension["pricePerUnit"]:
                yield Decimal(dimension["pricePerUnit"]["USD"])
