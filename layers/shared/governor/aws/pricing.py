"""Finds the price of an instance, from stored price lists and commitments and from Spot prices.

The price of an instance is the policy's, the Spot price, AWS's list price as it was read, the
shipped list price, or `None`; it is never zero. For advice it tells what a type costs now as Spot
in several Regions, and how likely it is to be had.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from governor.aws.clients import Adapter, Clients, at_once
from governor.core.catalog import PRICES_AS_OF, list_price
from governor.core.errors import CloudError, GovernorError
from governor.core.instance import LINUX, Instance, Lifecycle, Target
from governor.core.units import iso
from governor.episode.model.plan import Price
from governor.events.model.interruption import SpotPrice
from governor.events.notify_warning import SpotPrices
from governor.money.rules.prices import (
    Commitments,
    PriceList,
    may_commitment_pay,
)
from governor.policy.model.policy import Policy

_log = logging.getLogger(__name__)

_LIST_REGION = "us-east-1"
"""The Region of the shipped list prices."""
_KEPT = timedelta(hours=1)
_FAILURE_KEPT = timedelta(minutes=1)
"""So that not every instance of a kind asks again for a price that could not be read."""
Value = TypeVar("Value")


class _Kept(NamedTuple, Generic[Value]):
    """An answer of AWS, used again `until` this time."""

    until: datetime
    value: Value


class _RegionPrices(NamedTuple):
    """The Spot prices in force in a Region; `problem` says why they could not be read."""

    region: str
    prices: Sequence[SpotPrice] = ()
    problem: str | None = None


_MOST_REGIONS = 10
"""The most Regions of one request for scores. Source: EC2 API, GetSpotPlacementScores."""


class AwsPrices(Adapter):
    """The ports `PriceBook` and `SpotMarket`.

    `PriceBook` reads a Spot price once an hour for each type, zone, platform and target, and the
    list of a Region, by `lists`, once an hour. `SpotMarket` makes one call a Region for prices, and
    a single one for scores.
    """

    def __init__(
        self,
        clients: Clients,
        lists: Callable[[str], PriceList | None] = lambda _: None,
        commitments: Callable[[], Commitments | None] = lambda: None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read nothing yet. `lists` reads the stored price list of a Region, `commitments` the
        stored commitments; either returns `None` if nothing is stored, as it does by default.
        `now` is a clock."""
        super().__init__(clients)
        self._now = now
        self._read_list = lists
        self._read_commitments = commitments
        self._lists: dict[str, _Kept[PriceList | None]] = {}
        self._spot: dict[tuple[str, ...], _Kept[Price]] = {}
        self._commitments: _Kept[Commitments | None] | None = None

    def price(self, instance: Instance, policy: Policy) -> Price:
        """Return what an hour of the instance costs (`None` if that is not known), where the price
        comes from, and what its storage costs. A price that cannot be read raises nothing.

        The policy's own price comes first. Otherwise a Spot instance has its Spot price, and any
        other the list price, AWS's or the shipped one, less the policy's discount.
        """
        prices = self._prices_for(instance)
        usd_of_policy = policy.prices.usd_per_hour.get(instance.instance_type)
        if usd_of_policy is not None:
            price = Price(usd_of_policy, "price from the policy")
        elif instance.lifecycle is Lifecycle.SPOT:
            price = self._spot_price(instance)
        else:
            if instance.instance_type in prices.read_at:
                price = _listed_price(instance, prices)
            else:
                price = _shipped_price(instance)
            price = _discounted(price, policy.prices.discount(instance.family))
        may_be_committed = policy.prices.commitments_elsewhere or self._may_be_committed(instance)
        return replace(price, storage=prices.storage, may_be_committed=may_be_committed)

    def _prices_for(self, instance: Instance) -> PriceList:
        """Return the price list of an instance's Region; an empty one if none could be read."""
        region = instance.target.region
        return self._list_of(region) or PriceList(region)

    def _may_be_committed(self, instance: Instance) -> bool:
        """Return whether a commitment of the hub's account may pay for the instance; true also if
        the commitments are not known."""
        now = self._now()
        if self._commitments is None or self._commitments.until <= now:
            self._commitments = self._commitments_at(now)
        commitments = self._commitments.value
        region = instance.target.region
        return may_commitment_pay(commitments, instance.instance_type, region, instance.platform)

    def _commitments_at(self, now: datetime) -> _Kept[Commitments | None]:
        """Read the commitments (`None` if none are stored), to be kept for an hour. If they cannot
        be read, return `None`, to be kept for a minute."""
        try:
            return _Kept(now + _KEPT, self._read_commitments())
        except CloudError as error:
            _log.warning("the commitments were not read: %s", error)
            return _Kept(now + _FAILURE_KEPT, None)

    def _list_of(self, region: str) -> PriceList | None:
        """Return the price list of a Region, at most an hour old; the one before if it cannot be
        read now, and then it is not read again for a minute. Return `None` if none is stored, or
        none could be read so far."""
        now = self._now()
        kept = self._lists.get(region, _Kept(now, None))
        if now < kept.until:
            return kept.value
        try:
            kept = _Kept(now + _KEPT, self._read_list(region))
        except CloudError as error:
            _log.warning("the prices of %s were not read: %s", region, error)
            kept = _Kept(now + _FAILURE_KEPT, kept.value)
        self._lists[region] = kept
        return kept.value

    def _spot_price(self, instance: Instance) -> Price:
        """Return the Spot price of the instance, at most an hour old; one without an amount if EC2
        knows none, or if it cannot be read, and then it is not read again for a minute."""
        target = instance.target
        # Zone names mean different zones in different accounts.
        zone = (target.account, target.region, instance.availability_zone)
        key = (*zone, instance.instance_type, instance.platform)
        now = self._now()
        kept = self._spot.get(key)
        if kept is not None and now < kept.until:
            return kept.value
        try:
            kept = _Kept(now + _KEPT, self._read_spot_price(instance, now))
        except CloudError as error:
            # The list price would overstate the saving.
            _log.warning("no Spot price for %s: %s", instance.instance_type, error)
            unknown = Price(None, "the Spot price could not be read")
            kept = _Kept(now + _FAILURE_KEPT, unknown)
        self._spot[key] = kept
        return kept.value

    def _read_spot_price(self, instance: Instance, now: datetime) -> Price:
        """Return the Spot price that the latest change set in the zone of the instance; its amount
        is `None` if EC2 knows none. Raises: CloudError."""
        zone = instance.availability_zone
        only_zone = {"AvailabilityZone": zone} if zone else {}
        history = self._history(
            instance.target, instance.instance_type, instance.platform, now, **only_zone
        )
        if not history:
            return Price(None, f"EC2 knows no Spot price for {instance.instance_type} here")
        place = zone or instance.target.region
        return Price(history[-1].usd_per_hour, f"Spot price in {place} at {iso(now)}", as_of=now)

    def prices(
        self, target: Target, regions: Sequence[str], instance_type: str, platform: str
    ) -> SpotPrices:
        """Return the Spot prices of these Regions by zone, the lowest first, and by Region the
        reason for each one that could not be read, which raises nothing."""

        def read_region(region: str) -> _RegionPrices:
            """Return the prices of one Region, or the problem."""
            regional = replace(target, region=region)
            now = self._now()
            try:
                # Sent once: advice that comes late is of no use.
                history = self._history(regional, instance_type, platform, now, repeat=False)
            except GovernorError as error:
                return _RegionPrices(region, problem=str(error))
            latest_by_zone = {price.zone: price for price in history}
            return _RegionPrices(region, prices=tuple(latest_by_zone.values()))

        prices: list[SpotPrice] = []
        problems: dict[str, str] = {}
        for answer in at_once(read_region, list(dict.fromkeys(regions))):
            prices += answer.prices
            if answer.problem is not None:
                problems[answer.region] = answer.problem
        prices.sort(key=attrgetter("usd_per_hour", "zone"))
        return SpotPrices(tuple(prices), problems)

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        """Return the Spot placement score (1 to 10) of each of the first ten Regions that EC2
        scores; empty if it scores none. Raises: CloudError."""
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
        self, target: Target, instance_type: str, platform: str, now: datetime, **parameters: Any
    ) -> list[SpotPrice]:
        """Return the Spot prices in force, one or more a zone, the latest change last; empty if EC2
        knows none. Raises: CloudError."""

        def read(record: Mapping[str, Any]) -> tuple[datetime, SpotPrice]:
            """Return when a price changed, and the price."""
            zone = record.get("AvailabilityZone", target.region)
            price = SpotPrice(target.region, zone, Decimal(record["SpotPrice"]))
            return record["Timestamp"], price

        changes = self._records(
            "ec2:DescribeSpotPriceHistory",
            target,
            ("SpotPriceHistory",),
            read,
            # A start time of now gives the prices in force, each of which began some time ago.
            StartTime=now,
            EndTime=now,
            InstanceTypes=[instance_type],
            ProductDescriptions=[platform],
            **parameters,
        )
        return [price for _, price in sorted(changes, key=itemgetter(0))]


def _listed_price(instance: Instance, prices: PriceList) -> Price:
    """Return the price that AWS's list had for the instance when it was read; without an amount if
    the list had no single one. Call it only for a type that `prices.read_at` names."""
    amount = prices.price(instance)
    as_of = prices.read_at[instance.instance_type]
    conditions = [prices.region, "Linux" if instance.platform == LINUX else instance.platform]
    if instance.tenancy != "Shared":
        conditions.append(instance.tenancy)
    basis = ", ".join(conditions)
    read = f"read {as_of:%a %b} {as_of.day}"
    if amount is None:
        why = (
            f"AWS's price list ({basis}, {read}) has no one price of {instance.instance_type}; "
            "set prices.usd_per_hour"
        )
        return Price(None, why, as_of=as_of)
    return Price(amount, f"AWS price list, {basis}, {read}", as_of=as_of)


def _discounted(price: Price, percent: Decimal) -> Price:
    """Return the price less the policy's discount in percent; the same price if there is none, or
    the price is not known."""
    if not percent or price.usd_per_hour is None:
        return price
    usd = price.usd_per_hour * (100 - percent) / 100
    source = f"{price.source}; less {percent}%"
    return replace(price, usd_per_hour=usd, source=source, list_usd_per_hour=price.usd_per_hour)


def _shipped_price(instance: Instance) -> Price:
    """Return the list price that ships with the release, whose source says in what it may differ;
    without an amount if the type is not among them."""
    amount = list_price(instance.instance_type)
    if amount is None:
        why = f"no list price is known for {instance.instance_type}; set prices.usd_per_hour"
        return Price(None, why)
    notes = [f"list price {_LIST_REGION}, Linux, {PRICES_AS_OF}"]
    if instance.target.region != _LIST_REGION:
        notes.append(f"{instance.target.region} may differ")
    if instance.platform != LINUX:
        notes.append(f"the instance runs {instance.platform}, which costs more")
    as_of = datetime.fromisoformat(PRICES_AS_OF).replace(tzinfo=UTC)
    return Price(amount, "; ".join(notes), as_of=as_of)
