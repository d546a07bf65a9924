"""The price of an instance: the policy's price, the Spot price, AWS's list as it was read, the
shipped one, or `None`; never zero. For advice: what a type costs now as Spot in several Regions,
and how likely it is to be had."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any

from governor.adapters.clients import Adapter, Clients, at_once
from governor.domain.catalogue import PRICES_AS_OF, list_price
from governor.domain.episode.plan import Price, StoragePrices
from governor.domain.events.interruption import SpotPrice
from governor.domain.instance import LINUX, Instance, Lifecycle, Target
from governor.domain.money.prices import (
    SERVICE,
    STORAGE_PRODUCTS,
    WANTED,
    Commitment,
    CommitmentKind,
    Commitments,
    PriceList,
    filters_of,
    may_apply,
    on_demand,
    storage_prices,
)
from governor.domain.policy.policy import Policy
from governor.domain.units import UsdPerHour, as_utc, iso, parse_iso
from governor.errors import CloudError, GovernorError
from governor.ports import SpotPrices

_log = logging.getLogger(__name__)

_LIST_REGION = "us-east-1"
_KEPT = timedelta(hours=1)
_FAILURE_KEPT = timedelta(minutes=1)
"""Prices that could not be read: not every instance of the kind asks again."""
_MOST_REGIONS = 10
"""Most Regions of one request for scores. Source: EC2 API reference, GetSpotPlacementScores."""


class AwsPrices(Adapter):
    """The ports `PriceBook`, which reads Spot prices once an hour per type, zone, platform and
    target, and a Region's list, by `lists`, once an hour; and `SpotMarket`: one call a Region for
    prices, one in all for scores."""

    def __init__(
        self,
        clients: Clients,
        lists: Callable[[str], PriceList | None] = lambda _: None,
        commitments: Callable[[], Commitments | None] = lambda: None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(clients)
        self._now = now
        self._read_list, self._read_commitments = lists, commitments
        self._lists: dict[str, tuple[datetime, PriceList | None]] = {}
        self._spot: dict[tuple[str, ...], tuple[datetime, Price]] = {}
        self._committed: tuple[datetime, Commitments | None] | None = None

    def price(self, instance: Instance, policy: Policy) -> Price:
        own = policy.prices.usd_per_hour.get(instance.instance_type)
        listed = self._list_of(instance.target.region) or PriceList(instance.target.region)
        if own is not None:
            price = Price(own, "price from the policy")
        elif instance.lifecycle is Lifecycle.SPOT:
            price = self._spot_price(instance)
        else:
            is_read = instance.instance_type in listed.read_at
            price = _listed_price(instance, listed) if is_read else _shipped_price(instance)
            price = _discounted(price, policy.prices.discount(instance.family))
        may_be_committed = policy.prices.commitments_elsewhere or self._may_be_committed(instance)
        return replace(price, storage=listed.storage, may_be_committed=may_be_committed)

    def _may_be_committed(self, instance: Instance) -> bool:
        """Return whether one of the hub's account may pay: also where that is not known."""
        now = self._now()
        if self._committed is None or self._committed[0] <= now:
            try:
                self._committed = now + _KEPT, self._read_commitments()
            except CloudError as error:
                _log.warning("the commitments were not read: %s", error)
                self._committed = now + _FAILURE_KEPT, None
        where = instance.target.region
        return may_apply(self._committed[1], instance.instance_type, where, instance.platform)

    def _list_of(self, region: str) -> PriceList | None:
        now = self._now()
        until, kept = self._lists.get(region, (now, None))
        if now < until:
            return kept
        try:
            found, keep = self._read_list(region), _KEPT
        except CloudError as error:
            _log.warning("the prices of %s were not read: %s", region, error)
            found, keep = kept, _FAILURE_KEPT
        self._lists[region] = now + keep, found
        return found

    def _spot_price(self, instance: Instance) -> Price:
        target = instance.target
        # Zone names mean different zones in different accounts.
        zone = (target.account, target.region, instance.availability_zone)
        key = (*zone, instance.instance_type, instance.platform)
        now = self._now()
        kept = self._spot.get(key)
        if kept is not None and now < kept[0]:
            return kept[1]
        try:
            price, keep = self._read_spot_price(instance, now), _KEPT
        except CloudError as error:
            # The list price would overstate the saving.
            _log.warning("no Spot price for %s: %s", instance.instance_type, error)
            price, keep = Price(None, "the Spot price could not be read"), _FAILURE_KEPT
        self._spot[key] = now + keep, price
        return price

    def _read_spot_price(self, instance: Instance, now: datetime) -> Price:
        zone = (
            {"AvailabilityZone": instance.availability_zone} if instance.availability_zone else {}
        )
        history = self._history(
            instance.target, instance.instance_type, instance.platform, now, **zone
        )
        if not history:
            return Price(None, f"EC2 knows no Spot price for {instance.instance_type} here")
        where = instance.availability_zone or instance.target.region
        return Price(history[-1].usd_per_hour, f"Spot price in {where} at {iso(now)}", as_of=now)

    def prices(
        self, target: Target, regions: Sequence[str], instance_type: str, platform: str
    ) -> SpotPrices:
        found: list[SpotPrice] = []
        problems: dict[str, str] = {}

        def read(region: str) -> None:
            try:
                # Sent once: an advice that is late is none.
                here = replace(target, region=region)
                history = self._history(here, instance_type, platform, self._now(), repeat=False)
            except GovernorError as error:
                problems[region] = str(error)
                return
            found.extend({one.zone: one for one in history}.values())

        at_once(read, [*dict.fromkeys(regions)])
        return SpotPrices(
            tuple(sorted(found, key=lambda one: (one.usd_per_hour, one.zone))), problems
        )

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        scores: Iterator[tuple[str, int]] = self._records(
            "ec2:GetSpotPlacementScores",
            target,
            ("SpotPlacementScores",),
            itemgetter("Region", "Score"),
            repeat=False,
            InstanceTypes=list(instance_types),
            TargetCapacity=1,
            SingleAvailabilityZone=False,
            RegionNames=list(dict.fromkeys(regions))[:_MOST_REGIONS],
        )
        return dict(scores)

    def _history(
        self, target: Target, instance_type: str, platform: str, now: datetime, **only: Any
    ) -> list[SpotPrice]:
        """Return the Spot prices in force, the latest change last."""
        # A start time of now gives the prices in force, each of which began some time ago.
        only |= {"InstanceTypes": [instance_type], "ProductDescriptions": [platform]}
        operation, path = "ec2:DescribeSpotPriceHistory", ("SpotPriceHistory",)

        def read(one: Mapping[str, Any]) -> tuple[datetime, SpotPrice]:
            price = SpotPrice(
                target.region, one.get("AvailabilityZone", target.region), Decimal(one["SpotPrice"])
            )
            return one["Timestamp"], price

        entries = self._records(operation, target, path, read, StartTime=now, EndTime=now, **only)
        return [price for _, price in sorted(entries, key=itemgetter(0))]


class AwsPriceLists(Adapter):
    """The port `PriceReader`, in the hub's account."""

    def __init__(self, clients: Clients, hub: Target) -> None:
        super().__init__(clients)
        self._hub = hub
        # Of the three endpoints of the Price List, which each know all Regions.
        here = {"eu": "eu-central-1", "ap": "ap-south-1"}.get(
            hub.region.partition("-")[0], _LIST_REGION
        )
        self._place = Target(hub.account, here)

    def on_demand(self, region: str, instance_type: str) -> Mapping[str, UsdPerHour]:
        return on_demand(
            self._products(SERVICE, region, instanceType=instance_type, **WANTED), region
        )

    def storage(self, region: str) -> StoragePrices:
        found = (
            self._products(service, region, **{name: value})
            for service, name, value in STORAGE_PRODUCTS
        )
        return storage_prices(chain.from_iterable(found), region)

    def savings_plans(self) -> Sequence[Commitment]:
        """Those that are active, but for the kinds that pay for no instance."""
        asked: Any = {"states": ["active"], "following": "nextToken"}
        pages = self._pages("savingsplans:DescribeSavingsPlans", self._place, **asked)
        plans = (one for page in pages for one in page["savingsPlans"])
        return [
            _plan(one)
            for one in plans
            if one.get("savingsPlanType") not in ("SageMaker", "Database")
        ]

    def reserved(self, region: str) -> Sequence[Commitment]:
        active = [{"Name": "state", "Values": ["active"]}]
        here = replace(self._hub, region=region)
        answer = self._call("ec2:DescribeReservedInstances", here, Filters=active)
        return [_reserved(one, region) for one in answer["ReservedInstances"]]

    def _products(self, service: str, region: str, **attributes: str) -> Iterator[str]:
        asked: Any = {
            "ServiceCode": service,
            "Filters": filters_of(region, **attributes),
            "MaxResults": 100,
        }
        for page in self._pages("pricing:GetProducts", self._place, **asked):
            yield from page["PriceList"]


def _plan(found: Mapping[str, Any]) -> Commitment:
    """DescribeSavingsPlans gives amounts and times as text."""
    is_of_family = found.get("savingsPlanType") == "EC2Instance"
    return Commitment(
        kind=CommitmentKind.INSTANCE_PLAN if is_of_family else CommitmentKind.COMPUTE_PLAN,
        id=found["savingsPlanId"],
        region=found.get("region", "") if is_of_family else "",
        family=found.get("ec2InstanceFamily", "") if is_of_family else "",
        usd_per_hour=Decimal(found["commitment"]) if found.get("currency") == "USD" else None,
        start=parse_iso(found["start"]),
        end=parse_iso(found["end"]),
    )


def _reserved(found: Mapping[str, Any], region: str) -> Commitment:
    """Return what it costs an hour: its fixed price over its term, and what recurs."""
    hours = Decimal(found["Duration"]) / 3600
    recurring = (
        one["Amount"] for one in found.get("RecurringCharges", ()) if one["Frequency"] == "Hourly"
    )
    each = sum(
        map(_exact, recurring),
        _exact(found.get("FixedPrice", 0)) / hours + _exact(found.get("UsagePrice", 0)),
    )
    return Commitment(
        kind=CommitmentKind.RESERVED,
        id=found["ReservedInstancesId"],
        region=region,
        family=found["InstanceType"].partition(".")[0],
        usd_per_hour=each * found["InstanceCount"]
        if found.get("CurrencyCode", "USD") == "USD"
        else None,
        start=as_utc(found["Start"]),
        end=as_utc(found["End"]),
        platform=found["ProductDescription"].removesuffix(" (Amazon VPC)"),
    )


def _exact(amount: float) -> Decimal:
    """By the shortest digits that mean this float, which are those of the answer."""
    return Decimal(str(amount))


def _listed_price(instance: Instance, listed: PriceList) -> Price:
    """The price of a type that was read, which may have found none."""
    amount, as_of = listed.price(instance), listed.read_at[instance.instance_type]
    system = "Linux" if instance.platform == LINUX else instance.platform
    where = ", ".join(
        [listed.region, system, *([] if instance.tenancy == "Shared" else [instance.tenancy])]
    )
    read = f"read {as_of:%a %b} {as_of.day}"
    if amount is None:
        kind = instance.instance_type
        why = (
            f"AWS's price list ({where}, {read}) has no one price of {kind}; set "
            "prices.usd_per_hour"
        )
        return Price(None, why, as_of=as_of)
    return Price(amount, f"AWS price list, {where}, {read}", as_of=as_of)


def _discounted(price: Price, percent: Decimal) -> Price:
    if not percent or price.usd_per_hour is None:
        return price
    usd = price.usd_per_hour * (100 - percent) / 100
    source = f"{price.source}; less {percent}%"
    return replace(price, usd_per_hour=usd, source=source, list_usd_per_hour=price.usd_per_hour)


def _shipped_price(instance: Instance) -> Price:
    amount = list_price(instance.instance_type)
    if amount is None:
        return Price(
            None, f"no list price is known for {instance.instance_type}; set prices.usd_per_hour"
        )
    notes = [f"list price {_LIST_REGION}, Linux, {PRICES_AS_OF}"]
    if instance.target.region != _LIST_REGION:
        notes.append(f"{instance.target.region} may differ")
    if instance.platform != LINUX:
        notes.append(f"the instance runs {instance.platform}, which costs more")
    as_of = datetime.fromisoformat(PRICES_AS_OF).replace(tzinfo=UTC)
    return Price(amount, "; ".join(notes), as_of=as_of)
