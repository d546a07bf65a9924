"""What AWS lists: On-Demand prices of a Region by type, operation and tenancy, read from GetProducts.

Only USD an hour over 0, of capacity that is used, counts: the list has zeros for capacity that is paid
otherwise. Two prices for one thing are no price. Source: AWS Price List Query API.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from governor.domain.instance import LINUX, PLAIN_OPERATION, Instance
from governor.domain.units import UsdPerHour, UtcDatetime

_log = logging.getLogger(__name__)

SERVICE = "AmazonEC2"
WANTED = {"capacitystatus": "Used", "marketoption": "OnDemand"}
"""Attributes of a product that is billed by the hour; reservations and Capacity Blocks share its type."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """What was read of a Region. `usd_per_hour` by `key_of`; `read_at` by type, also of one without price."""

    region: str
    read_at: Mapping[str, UtcDatetime] = field(default_factory=dict)
    usd_per_hour: Mapping[str, UsdPerHour] = field(default_factory=dict)

    def price(self, instance: Instance) -> UsdPerHour | None:
        if instance.operation == PLAIN_OPERATION and instance.platform != LINUX:
            return None  # A record of an earlier release, which did not know what AWS charges it as.
        alone = ["Dedicated"] if instance.instance_type.endswith(".metal") else []
        keys = (
            key_of(instance.instance_type, instance.operation, tenancy)
            for tenancy in (instance.tenancy, *alone)
        )
        return next((self.usd_per_hour[key] for key in keys if key in self.usd_per_hour), None)

    def with_type(self, instance_type: str, found: Mapping[str, UsdPerHour], at: UtcDatetime) -> PriceList:
        """The list with all prices of the type as they were found; those before are gone."""
        others = {
            key: usd for key, usd in self.usd_per_hour.items() if not key.startswith(f"{instance_type}|")
        }
        return replace(self, read_at={**self.read_at, instance_type: at}, usd_per_hour={**others, **found})


def key_of(instance_type: str, operation: str, tenancy: str) -> str:
    return f"{instance_type}|{operation}|{tenancy}"


def filters_of(region: str, **attributes: str) -> list[dict[str, str]]:
    """What GetProducts is asked for products of a Region with these attributes."""
    wanted = {"regionCode": region, **attributes}
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]


def on_demand(documents: Iterable[str], region: str) -> dict[str, UsdPerHour]:
    """Return the hourly prices in these documents, by `key_of`."""

    def key(product: Mapping[str, str]) -> str:
        if any(product.get(name) != value for name, value in {**WANTED, "regionCode": region}.items()):
            return ""
        named = [product.get(name, "") for name in ("instanceType", "operation", "tenancy")]
        return key_of(*named) if all(named) else ""

    return listed(documents, key, ("Hrs",))


def listed(
    documents: Iterable[str], name_of: Callable[[Mapping[str, str]], str], units: tuple[str, ...]
) -> dict[str, Decimal]:
    """Return the one price in USD of everything that has a name by its product's attributes. What is not
    readable, in other units or currencies, or has two prices, is left out."""
    found: dict[str, set[Decimal]] = defaultdict(set)
    for text in documents:
        try:
            document = json.loads(text)
            if name := name_of(document["product"]["attributes"]):
                found[name] |= {usd for usd in _amounts(document, units) if usd.is_finite() and usd > 0}
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
