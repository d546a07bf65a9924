"""Facts that `governor advice` reads beside metrics, with the caller's credentials: Capacity
Reservations, minimum sizes and Spot offers. What may not be read is said, and counts as unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from governor.adapters.clients import Adapter, Clients
from governor.adapters.managing import AwsBatch
from governor.domain.alerts.alert import owner_of
from governor.domain.catalogue import alike
from governor.domain.evidence import Window
from governor.domain.fleet.rows import MOST_UNGOVERNED
from governor.domain.instance import AUTO_SCALING_TAG, Instance, Reservation, Target, managed_by
from governor.domain.money.cost import marginal
from governor.domain.policy.policy import Policy
from governor.domain.sweep.managed import BatchEnvironment, Home, Kind, home_of
from governor.errors import CloudError, GovernorError
from governor.ports import SpotMarket
from simulation.capacity_advice import Group, Reserved
from simulation.fetch import Fetch, query_of
from simulation.past import HOURS_A_WEEK, Past
from simulation.patterns import Advice, SpotOffer, asks_for_spot, ungoverned, vcpus_of

_CREATORS = 20
"""CloudTrail answers two questions a second."""
_LEAST_TYPES = 3
"""With fewer, EC2's placement score is falsely low. Source: EC2 user guide, Spot placement
score."""


class Capacity(Adapter):
    """Auto Scaling groups and events, as AWS describes them. Raises: CloudError."""

    def minimum(self, target: Target, group: str) -> int | None:
        """`None`: there is no such group."""
        asked: Any = {"AutoScalingGroupNames": [group]}
        found = self._call("autoscaling:DescribeAutoScalingGroups", target, **asked)[
            "AutoScalingGroups"
        ]
        return int(found[0]["MinSize"]) if found else None


@dataclass(slots=True)
class Reader:
    """Reads one account. `unread` gets a line for each kind of thing that could not be."""

    clients: Clients
    fetch: Fetch
    market: SpotMarket
    unread: dict[str, None] = field(default_factory=dict)

    def reservations(self, target: Target, hours: Window, policy: Policy) -> list[Reserved]:
        """Those of accelerated types that the account pays for.

        Raises:
            FetchError: their readings could not all be had.
        """
        try:
            paid = self.fetch.instances.reservations(target)
        except CloudError as error:
            self.unread[f"Capacity Reservations in {target}: {error}"] = None
            return []
        queries = [
            query_of(
                "AWS/EC2CapacityReservations",
                "UsedInstanceCount",
                (("CapacityReservationId", one.reservation_id),),
                "Maximum",
            )
            for one in paid
        ]
        read = self.fetch.series(target, queries, hours)
        return [
            self._used(one, hours, read[query], policy)
            for one, query in zip(paid, queries, strict=True)
        ]

    def _used(
        self, one: Reservation, hours: Window, used: Sequence[float], policy: Policy
    ) -> Reserved:
        measured = [hour for hour, count in enumerate(used) if count >= 0]
        since = max(0, (one.began_at - hours.start) // hours.period)
        return Reserved(
            one,
            self.fetch.prices.price(one.like, policy).usd_per_hour,
            used_at_most=int(max(used[hour] for hour in measured)) if measured else None,
            weeks=(measured[-1] + 1 - measured[0]) // HOURS_A_WEEK if measured else 0,
            percent_measured=min(100, 100 * len(measured) // max(1, hours.bins - since)),
        )

    def ungoverned(self, target: Target, policy: Policy) -> Iterator[Advice]:
        """Accelerated instances without the selector; creators of the most expensive ones."""
        priced = [
            (one, marginal(one, self.fetch.prices.price(one, policy)))
            for one in self.fetch.instances.list_ungoverned(target, policy.selector)
        ]
        priced.sort(key=lambda pair: pair[1].usd_per_hour or 0, reverse=True)
        for number, (one, price) in enumerate(priced):
            creator = self._creator(target, one) if number < _CREATORS else None
            yield ungoverned(one, owner_of(one, policy.ownership), policy.selector, price, creator)
        if len(priced) >= MOST_UNGOVERNED:
            self.unread[
                f"instances in {target} that are not governed: the first {MOST_UNGOVERNED} alone"
            ] = None
        if len(priced) > _CREATORS:
            self.unread[f"creators in {target}: of the {_CREATORS} most expensive alone"] = None

    def _creator(self, target: Target, instance: Instance) -> str | None:
        problem = f"creators of instances in {target}"
        if any(one.startswith(f"{problem}:") for one in self.unread):
            return None
        try:
            return self.fetch.instances.creator(target, instance.instance_id)
        except CloudError as error:
            self.unread[f"{problem}: {error}"] = None
            return None

    def groups(self, pasts: Sequence[Past]) -> Iterator[Group]:
        """The environments of other services, with their minimum sizes where those may be read."""
        found: dict[tuple[Target, Home], list[Past]] = {}
        for one in pasts:
            manager = managed_by(one.instance, one.policy.managed.tag_keys)
            if manager is not None:
                found.setdefault((one.instance.target, home_of(one.instance, manager)), []).append(
                    one
                )
        for (target, home), members in found.items():
            if not home.name:
                continue
            batch = self._batch(target, home) if home.kind is Kind.BATCH else None
            minimum = (
                self._minimum(target, members[0].instance)
                if batch is None
                else _instances(batch, members)
            )
            yield Group(home, tuple(members), minimum, batch)

    def _batch(self, target: Target, home: Home) -> BatchEnvironment | None:
        try:
            return AwsBatch(self.clients).environment(target, home.name)
        except CloudError as error:
            self.unread[f"Batch compute environments in {target}: {error}"] = None
            return None

    def _minimum(self, target: Target, member: Instance) -> int | None:
        name = member.tags.get(AUTO_SCALING_TAG)
        if name is None:
            return None
        try:
            return Capacity(self.clients).minimum(target, name)
        except CloudError as error:
            self.unread[f"Auto Scaling groups in {target}: {error}"] = None
            return None

    def offer(self, past: Past) -> SpotOffer | None:
        """The cheapest zone of its Region now, for an instance that Spot could be proposed for."""
        if not asks_for_spot(past):
            return None
        instance = past.instance
        target, name = instance.target, instance.instance_type
        found = self.market.prices(target, [target.region], name, instance.platform)
        for problem in found.problems.values():
            self.unread[f"Spot prices in {target}: {problem}"] = None
        if not found.prices:
            return None
        types = alike(name)
        return SpotOffer(
            found.prices[0].usd_per_hour,
            found.prices[0].zone,
            types,
            scores(self.market, target, [target.region], types, self.unread).get(target.region),
        )


def scores(
    market: SpotMarket,
    target: Target,
    regions: Sequence[str],
    types: Sequence[str],
    unread: dict[str, None],
) -> Mapping[str, int]:
    """Placement scores by Region; none of fewer types than make sense, nor where they may not be
    read."""
    if len(types) < _LEAST_TYPES:
        return {}
    try:
        return market.scores(target, regions, types)
    except GovernorError as error:
        unread[f"Spot placement scores: {error}"] = None
        return {}


def _instances(batch: BatchEnvironment, members: Sequence[Past]) -> int | None:
    each = vcpus_of(members[0].instance.instance_type)
    return None if each is None else batch.minimum_vcpus // each
