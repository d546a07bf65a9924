"""Reads what `governor advice` needs beside metrics: Capacity Reservations, minimum sizes, Spot.

They are read with the caller's credentials. A fact that may not be read counts as unknown, and the
advice names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from governor.aws.clients import Adapter, Clients
from governor.aws.managing import AwsBatch
from governor.core.catalog import types_with_same_gpus
from governor.core.errors import CloudError, GovernorError
from governor.core.instance import AUTO_SCALING_TAG, Instance, Reservation, Target
from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment, environment_of
from governor.core.managers import managed_by
from governor.events.notify_warning import SpotMarket
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery
from governor.fleet.model import MOST_UNGOVERNED
from governor.money.rules.cost import marginal_price
from governor.policy.model.policy import Policy
from governor.policy.rules.owners import owner_of
from governor.sweep.model import BatchEnvironment
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
    """Auto Scaling groups, as AWS describes them."""

    def minimum(self, target: Target, group: str) -> int | None:
        """Return the minimum size of a group, or `None` if there is no such group.

        Raises:
            CloudError: the group could not be read.
        """
        asked: Any = {"AutoScalingGroupNames": [group]}
        answer = self._call("autoscaling:DescribeAutoScalingGroups", target, **asked)
        groups = answer["AutoScalingGroups"]
        if not groups:
            return None
        return int(groups[0]["MinSize"])


@dataclass(slots=True)
class Reader:
    """Reads one account. `unread` gets a line for each kind of thing that could not be read."""

    clients: Clients
    fetch: Fetch
    market: SpotMarket
    unread: dict[str, None] = field(default_factory=dict)

    def reservations(self, target: Target, hours: Window, policy: Policy) -> list[Reserved]:
        """Return the Capacity Reservations of accelerated types that the account pays for.

        Raises:
            FetchError: their readings could not all be had.
        """
        try:
            paid = self.fetch.instances.reservations(target)
        except CloudError as error:
            self._note(f"Capacity Reservations in {target}: {error}")
            return []
        queries = [_usage_query(reservation) for reservation in paid]
        series_by_query = self.fetch.series(target, queries, hours)
        reserved = []
        for reservation, query in zip(paid, queries, strict=True):
            reserved.append(self._used(reservation, hours, series_by_query[query], policy))
        return reserved

    def _used(
        self, reservation: Reservation, hours: Window, counts: Sequence[float], policy: Policy
    ) -> Reserved:
        """Return the reservation with its use.

        `counts` are the instances that used it in each hour, negative where it was not measured.
        """
        measured = [hour for hour, count in enumerate(counts) if count >= 0]
        used_at_most = None
        weeks = 0
        if measured:
            used_at_most = int(max(counts[hour] for hour in measured))
            weeks = (measured[-1] + 1 - measured[0]) // HOURS_A_WEEK
        hours_before = max(0, (reservation.began_at - hours.start) // hours.period)
        hours_in_force = max(1, hours.bins - hours_before)
        return Reserved(
            reservation,
            self.fetch.prices.price(reservation.as_instance, policy).usd_per_hour,
            used_at_most=used_at_most,
            weeks=weeks,
            percent_measured=min(100, 100 * len(measured) // hours_in_force),
        )

    def ungoverned(self, target: Target, policy: Policy) -> Iterator[Advice]:
        """Yield advice on accelerated instances without the selector, the most expensive first.

        The creator is looked up for the most expensive ones alone.
        """
        priced = []
        for instance in self.fetch.instances.list_ungoverned(target, policy.selector):
            price = marginal_price(instance, self.fetch.prices.price(instance, policy))
            priced.append((instance, price))
        priced.sort(key=lambda pair: pair[1].usd_per_hour or 0, reverse=True)
        for number, (instance, price) in enumerate(priced):
            creator = self._creator(target, instance) if number < _CREATORS else None
            owner = owner_of(instance, policy.ownership)
            yield ungoverned(instance, owner, policy.selector, price, creator)
        if len(priced) >= MOST_UNGOVERNED:
            self._note(
                f"instances in {target} that are not governed: the first {MOST_UNGOVERNED} alone"
            )
        if len(priced) > _CREATORS:
            self._note(f"creators in {target}: of the {_CREATORS} most expensive alone")

    def _note(self, problem: str) -> None:
        """Add a line to what could not be read, once."""
        self.unread[problem] = None

    def _creator(self, target: Target, instance: Instance) -> str | None:
        """Return who created an instance, or `None` if that is unknown or cannot be read."""
        problem = f"creators of instances in {target}"
        # After one failure of a target, the others would fail alike.
        if any(line.startswith(f"{problem}:") for line in self.unread):
            return None
        try:
            return self.fetch.instances.creator(target, instance.instance_id)
        except CloudError as error:
            self._note(f"{problem}: {error}")
            return None

    def groups(self, pasts: Sequence[Past]) -> Iterator[Group]:
        """Yield the environments of other services, with their minimum sizes if those are known."""
        for (target, environment), members in _members_by_environment(pasts).items():
            if not environment.name:
                continue
            is_batch = environment.kind is EnvironmentKind.BATCH
            batch = self._batch(target, environment) if is_batch else None
            if batch is None:
                minimum = self._minimum(target, members[0].instance)
            else:
                minimum = _minimum_of_batch(batch, members)
            yield Group(environment, tuple(members), minimum, batch)

    def _batch(self, target: Target, environment: ManagedEnvironment) -> BatchEnvironment | None:
        """Return the compute environment, or `None` if it cannot be read."""
        try:
            return AwsBatch(self.clients).environment(target, environment.name, datetime.now(UTC))
        except CloudError as error:
            self._note(f"Batch compute environments in {target}: {error}")
            return None

    def _minimum(self, target: Target, member: Instance) -> int | None:
        """Return the minimum size of a member's group, or `None` if that is not known."""
        name = member.tags.get(AUTO_SCALING_TAG)
        if name is None:
            return None
        try:
            return Capacity(self.clients).minimum(target, name)
        except CloudError as error:
            self._note(f"Auto Scaling groups in {target}: {error}")
            return None

    def offer(self, past: Past) -> SpotOffer | None:
        """Return the cheapest zone of its Region now.

        Return `None` for an instance that Spot could not be proposed for, or that has no price.
        """
        if not asks_for_spot(past):
            return None
        instance = past.instance
        target = instance.target
        regions = [target.region]
        market = self.market.prices(target, regions, instance.instance_type, instance.platform)
        for problem in market.problems.values():
            self._note(f"Spot prices in {target}: {problem}")
        if not market.prices:
            return None
        cheapest = market.prices[0]
        types = types_with_same_gpus(instance.instance_type)
        score_by_region = scores(self.market, target, regions, types, self.unread)
        return SpotOffer(
            cheapest.usd_per_hour, cheapest.zone, types, score_by_region.get(target.region)
        )


def _usage_query(reservation: Reservation) -> MetricQuery:
    """Return the query for the most instances that used a reservation in each hour."""
    dimensions = (("CapacityReservationId", reservation.reservation_id),)
    return query_of("AWS/EC2CapacityReservations", "UsedInstanceCount", dimensions, "Maximum")


def _members_by_environment(
    pasts: Sequence[Past],
) -> dict[tuple[Target, ManagedEnvironment], list[Past]]:
    """Return the instances that other services run, by where and by what runs them."""
    members_by_environment: dict[tuple[Target, ManagedEnvironment], list[Past]] = {}
    for past in pasts:
        instance = past.instance
        manager = managed_by(instance, past.policy.managed.tag_keys)
        if manager is not None:
            environment = environment_of(instance, manager)
            members_by_environment.setdefault((instance.target, environment), []).append(past)
    return members_by_environment


def scores(
    market: SpotMarket,
    target: Target,
    regions: Sequence[str],
    types: Sequence[str],
    unread: dict[str, None],
) -> Mapping[str, int]:
    """Return EC2's placement scores by Region.

    Return an empty mapping for so few types that a score would mislead, or if the scores cannot be
    read; `unread` then gets a line.
    """
    if len(types) < _LEAST_TYPES:
        return {}
    try:
        return market.scores(target, regions, types)
    except GovernorError as error:
        unread[f"Spot placement scores: {error}"] = None
        return {}


def _minimum_of_batch(batch: BatchEnvironment, members: Sequence[Past]) -> int | None:
    """Return how many instances its minimum of vCPUs is; `None` for an unknown type."""
    vcpus = vcpus_of(members[0].instance.instance_type)
    if vcpus is None:
        return None
    return batch.minimum_vcpus // vcpus
