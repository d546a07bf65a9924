"""Finds a price of an instance or of storage in AWS's price list of a Region, and decides whether a
Savings Plan or a Reserved Instance may cover an instance.

Only prices above 0 USD an hour, of capacity in use, count: the list has zeros for capacity that is
paid in another way. A product with two prices counts as unpriced. Source: AWS Price List Query API.
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

from governor.core.instance import LINUX, PLAIN_OPERATION, Instance
from governor.core.units import UsdPerHour, UtcDatetime
from governor.episode.model.plan import StoragePrices

_log = logging.getLogger(__name__)

SERVICE = "AmazonEC2"
STORAGE = "storage"
SAVINGS_PLANS = "savings-plans"
WANTED = {"capacitystatus": "Used", "marketoption": "OnDemand"}
"""Attributes of products billed by the hour. Reservations and Capacity Blocks have the same type,
but other values."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a Region that have been read."""

    region: str
    read_at: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """Time of the last read by type, also for a type without a price, and for `STORAGE`."""
    usd_per_hour: Mapping[str, UsdPerHour] = field(default_factory=dict)
    """By the key that `key_of` makes."""
    storage: StoragePrices | None = None
    """`None` until they are read."""

    def price(self, instance: Instance) -> UsdPerHour | None:
        """Return the On-Demand price of an instance per hour, by its type, software and tenancy;
        `None` if the list has none, or a record of an earlier release does not say how AWS charges
        its platform. A metal instance without a price has that of a dedicated one."""
        if instance.operation == PLAIN_OPERATION and instance.platform != LINUX:
            # A record of an earlier release, which did not store how AWS charges the platform.
            return None
        tenancies = [instance.tenancy]
        if instance.instance_type.endswith(".metal"):
            tenancies.append("Dedicated")
        for tenancy in tenancies:
            key = key_of(instance.instance_type, instance.operation, tenancy)
            if key in self.usd_per_hour:
                return self.usd_per_hour[key]
        return None

    def with_type(
        self, instance_type: str, found: Mapping[str, UsdPerHour], at: UtcDatetime
    ) -> PriceList:
        """Return the list with the prices in `found`, by `key_of`, in place of all earlier prices
        of the type, read at `at`. If `found` is empty, the type has no price."""
        prefix = f"{instance_type}|"
        kept = {key: usd for key, usd in self.usd_per_hour.items() if not key.startswith(prefix)}
        read_at = {**self.read_at, instance_type: at}
        return replace(self, read_at=read_at, usd_per_hour={**kept, **found})

    def with_storage(self, storage: StoragePrices, at: UtcDatetime) -> PriceList:
        """Return the list with these prices of storage in place of earlier ones, read at `at`."""
        return replace(self, read_at={**self.read_at, STORAGE: at}, storage=storage)


def key_of(instance_type: str, operation: str, tenancy: str) -> str:
    """Return the key of an hourly price in a price list: `g5.xlarge|RunInstances|Shared`."""
    return f"{instance_type}|{operation}|{tenancy}"


def filters_of(region: str, **attributes: str) -> list[dict[str, str]]:
    """Return the filters for AWS's call GetProducts by which it returns the products of a Region
    with these attributes, such as `instanceType="g5.xlarge"`."""
    wanted = {"regionCode": region, **attributes}
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]


def on_demand(documents: Iterable[str], region: str) -> dict[str, UsdPerHour]:
    """Return the hourly On-Demand prices of instances in these documents (JSON texts of
    GetProducts), by `key_of`. Products of other Regions, and those that cannot be read, are left
    out; empty if there are none."""
    wanted = {**WANTED, "regionCode": region}

    def key_of_product(product: Mapping[str, str]) -> str:
        """Return the key of the product's price; empty if the product is not wanted."""
        for name, value in wanted.items():
            if product.get(name) != value:
                return ""
        parts = [product.get(name, "") for name in ("instanceType", "operation", "tenancy")]
        return key_of(*parts) if all(parts) else ""

    return price_by_name(documents, key_of_product, ("Hrs",))


_PRICE_KEY_BY_USAGE = {
    "EBS:VolumeUsage": "gib|standard",
    "EBS:VolumeUsage.piops": "gib|io1",
    "EBS:VolumeUsage.gp2": "gib|gp2",
    "EBS:VolumeUsage.gp3": "gib|gp3",
    "EBS:VolumeUsage.io2": "gib|io2",
    "EBS:VolumeUsage.st1": "gib|st1",
    "EBS:VolumeUsage.sc1": "gib|sc1",
    "EBS:VolumeP-IOPS.gp3": "iops|gp3",
    "EBS:VolumeP-IOPS.piops": "iops|io1",
    "EBS:VolumeP-IOPS.io2": "iops|io2",
    "EBS:VolumeP-Throughput.gp3": "throughput|gp3",
    "EBS:SnapshotUsage": "snapshot|",
    "PublicIPv4:InUseAddress": "address|",
}
"""The key of a price by usage type, without the code of its Region. An io2 volume costs less from
32,000 IOPS on; that is left out."""
STORAGE_PRODUCTS = (
    (SERVICE, "productFamily", "Storage"),
    (SERVICE, "productFamily", "System Operation"),
    (SERVICE, "productFamily", "Provisioned Throughput"),
    (SERVICE, "productFamily", "Storage Snapshot"),
    ("AmazonVPC", "group", "VPCPublicIPv4Address"),
)
"""Service, attribute and value by which the products with these prices are found."""
_UNITS = ("GB-Mo", "GB-month", "IOPS-Mo", "MiBps-Mo", "MiBps-mo", "Hrs")
_UNITS_OF_GIBPS = ("GiBps-mo", "GiBps-Mo")
_MIBPS_PER_GIBPS = 1024


def storage_prices(documents: Iterable[str], region: str) -> StoragePrices:
    """Return the prices of storage and addresses in these documents (JSON texts of GetProducts). A
    price that is not there, or cannot be read, is missing in its mapping, or `None`."""

    def key_of_product(product: Mapping[str, str]) -> str:
        """Return the key of the product's price; empty if the product is not wanted."""
        if product.get("regionCode") != region:
            return ""
        usage_type = re.sub("^[A-Z]+[0-9]*-", "", product.get("usagetype", ""))
        return _PRICE_KEY_BY_USAGE.get(usage_type, "")

    documents = tuple(documents)
    prices = price_by_name(documents, key_of_product, _UNITS)
    for key, usd_per_gibps in price_by_name(documents, key_of_product, _UNITS_OF_GIBPS).items():
        prices.setdefault(key, usd_per_gibps / _MIBPS_PER_GIBPS)
    return StoragePrices(
        usd_per_gib_month=_by_volume_type(prices, "gib"),
        usd_per_iops_month=_by_volume_type(prices, "iops"),
        usd_per_mibps_month=_by_volume_type(prices, "throughput"),
        snapshot_usd_per_gib_month=prices.get("snapshot|"),
        address_usd_per_hour=prices.get("address|"),
    )


def _by_volume_type(prices: Mapping[str, Decimal], measure: str) -> dict[str, Decimal]:
    """Return the prices of one measure (`gib`, `iops` or `throughput`) by volume type, such as
    `gp3`; empty if there are none. `prices` are by `measure|type`, as in `gib|gp3`."""
    price_by_type: dict[str, Decimal] = {}
    for key, usd in prices.items():
        key_measure, _, volume_type = key.partition("|")
        if key_measure == measure:
            price_by_type[volume_type] = usd
    return price_by_type


class CommitmentKind(StrEnum):
    """The kinds of commitments that AWS sells."""

    COMPUTE_PLAN = "compute-savings-plan"
    INSTANCE_PLAN = "ec2-instance-savings-plan"
    RESERVED = "reserved-instance"


@dataclass(frozen=True, slots=True)
class Commitment:
    """A Savings Plan or a Reserved Instance. An empty `region`, `family` or `platform` means any.

    A Reserved Instance counts for its whole family, because many are flexible in size.
    """

    kind: CommitmentKind
    id: str
    region: str
    family: str
    usd_per_hour: UsdPerHour | None
    """The charge for an hour, used or not; `None` if it is not in USD."""
    start: UtcDatetime
    end: UtcDatetime
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Commitments:
    """The commitments of the hub's account."""

    read_at: UtcDatetime
    found: tuple[Commitment, ...] = ()
    read: frozenset[str] = frozenset()
    """Regions whose Reserved Instances were read, and `SAVINGS_PLANS` if those were read."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The reason for each Region, or `SAVINGS_PLANS`, that could not be read."""


def may_commitment_pay(
    commitments: Commitments | None, instance_type: str, region: str, platform: str
) -> bool:
    """Return whether a Savings Plan or Reserved Instance of the hub's account may pay for an
    instance of this type, Region and platform, such as `Linux/UNIX`.

    Return true also if that is not known, as the commitments of the Region were not all read.
    Commitments of other accounts are not considered.
    """
    if commitments is None or not commitments.read.issuperset((SAVINGS_PLANS, region)):
        return True
    family = instance_type.partition(".")[0]
    for commitment in commitments.found:
        is_for_region = commitment.region in ("", region)
        is_for_family = commitment.family in ("", family)
        is_for_platform = commitment.platform in ("", platform)
        if is_for_region and is_for_family and is_for_platform:
            return True
    return False


def price_by_name(
    documents: Iterable[str], name_of: Callable[[Mapping[str, str]], str], units: tuple[str, ...]
) -> dict[str, Decimal]:
    """Return the price in USD of the product in each document (a JSON text of GetProducts), by the
    name that `name_of` makes of its attributes; empty if there is none.

    Left out are products with an empty name, prices that are zero or in other `units` or
    currencies, products with two prices, and documents that cannot be read; the last two are
    logged.
    """
    prices_by_name: dict[str, set[Decimal]] = defaultdict(set)
    for text in documents:
        try:
            document = json.loads(text)
            name = name_of(document["product"]["attributes"])
            if name:
                prices_by_name[name].update(_prices_in(document, units))
        except (KeyError, TypeError, AttributeError, ValueError, InvalidOperation):
            _log.warning("a product of the price list cannot be read: %.200s", text, exc_info=True)
    only_prices: dict[str, Decimal] = {}
    for name, prices in prices_by_name.items():
        if len(prices) == 1:
            (only_prices[name],) = prices
        elif prices:
            _log.warning("%s has %d prices, so it is unpriced", name, len(prices))
    return only_prices


def _prices_in(document: Mapping[str, Any], units: tuple[str, ...]) -> set[Decimal]:
    """Return the different On-Demand prices in USD above zero that the document of a product gives
    in one of these units; empty if there is none.

    Raises: KeyError, TypeError, AttributeError or InvalidOperation for a document of another form.
    """
    return {usd for usd in _amounts(document, units) if usd.is_finite() and usd > 0}


def _amounts(document: Mapping[str, Any], units: tuple[str, ...]) -> Iterator[Decimal]:
    """Yield every On-Demand amount in USD, zeros included, that the document of a product gives in
    one of these units.

    Raises: KeyError, TypeError, AttributeError or InvalidOperation for a document of another form.
    """
    for term in document["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"] in units and "USD" in dimension["pricePerUnit"]:
                yield Decimal(dimension["pricePerUnit"]["USD"])
