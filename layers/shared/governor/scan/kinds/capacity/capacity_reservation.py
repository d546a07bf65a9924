"""On-Demand Capacity Reservations with unused instances: each costs what the instance would
cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from governor.core.units import UsdPerHour, plural, span
from governor.scan.kind import Kind, Place
from governor.scan.kinds.calls import GET_METRIC_DATA
from governor.scan.kinds.capacity.reservations import (
    DESCRIBE,
    ReservedCapacity,
    read_free,
    records_here,
    with_use,
)
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import price_of_type
from governor.scan.model import Finding, Judgment, Strength

_TOPIC = "Capacity Reservations"


class CapacityReservations(Kind[ReservedCapacity, None]):
    """Capacity Reservations of accelerated types with free instances, which this account pays.

    The row of a reservation stands for its free instances alone: instances that run in it have rows
    of their own. The use is read with the list, because the price depends on it.
    """

    name = "capacity-reservation"
    words = _TOPIC
    operations = (DESCRIBE, GET_METRIC_DATA)

    def list(self, place: Place) -> Sequence[ReservedCapacity]:
        """Return the reservations with free instances, and how many of these were free for hours;
        empty if there are none. Raises: CloudError."""

        def read(record: Any) -> ReservedCapacity | None:
            """Return a reservation with free instances; `None` for any other record."""
            return read_free(place, record, "default")

        reservations = list(place.read_each(_TOPIC, DESCRIBE, records_here(place), read))
        return with_use(place, _TOPIC, reservations)

    def price(self, place: Place, resource: ReservedCapacity) -> UsdPerHour | None:
        """Return the On-Demand price of the unused instances, or of those that are free now if all
        were used within hours; `None` if it is not known."""
        usd = price_of_type(
            place, resource.instance_type, platform=resource.platform, tenancy=resource.tenancy
        )
        return None if usd is None else usd * _free_instances(resource)

    def own_judgment(self, place: Place, resource: ReservedCapacity, measured: None) -> Judgment:
        """Return the judgment that the reservation is unused, if instances of it are free, and were
        for the hours after which the policy reports an empty reservation. EC2's count of free
        instances is a fact about this moment: without figures of those hours the evidence is weak.
        A reservation that began within those hours is too young, and one of which every instance
        was used in them is busy."""
        unused = resource.unused
        after = timedelta(hours=place.policy.advice.empty_reservation_after_hours)
        free = f"{resource.free_now} of {plural(resource.total, 'instance')} unused"
        if unused is None or resource.since is None:
            return Judgment(Finding.NOT_MEASURED, Strength.NONE, f"{free}; since when is not known")
        age = place.now - resource.since
        if age < after:
            evidence = f"{free}; it began {span(age)} ago"
            return Judgment(Finding.TOO_YOUNG, Strength.NONE, evidence)
        if not unused.count:
            evidence = f"{free} now, but all were used within {span(after)}"
            return Judgment(Finding.BUSY, Strength.STRONG, evidence)
        evidence = f"{free} now, as EC2 reports{_more(resource, place)}"
        strength = Strength.STRONG if unused.is_measured else Strength.WEAK
        return Judgment(Finding.UNUSED, strength, evidence, unused.since)

    def own_command(self, resource: ReservedCapacity, judgment: Judgment) -> str:
        """Return the command that gives the unused instances back, as far as AWS allows that: to
        the reservation that lent them, by a cancellation if none is kept, or else by a smaller
        count. Return the one that shows the reservation if nothing can be given back, or the
        evidence is weak; an empty text if it is exempt."""
        reservation_id = resource.resource_id
        kept = resource.total - _free_instances(resource)
        is_proved = judgment.finding is Finding.UNUSED and judgment.strength is Strength.STRONG
        if not is_proved or kept < resource.committed:
            return aws_command(
                resource.target,
                "ec2",
                "describe-capacity-reservations",
                capacity_reservation_ids=reservation_id,
            )
        if resource.lent_by is not None:
            return aws_command(
                resource.target,
                "ec2",
                "update-interruptible-capacity-reservation-allocation",
                capacity_reservation_id=resource.lent_by,
                target_instance_count=str(kept),
            )
        if not kept:
            return aws_command(
                resource.target,
                "ec2",
                "cancel-capacity-reservation",
                capacity_reservation_id=reservation_id,
            )
        return aws_command(
            resource.target,
            "ec2",
            "modify-capacity-reservation",
            capacity_reservation_id=reservation_id,
            instance_count=str(kept),
        )


def _free_instances(resource: ReservedCapacity) -> int:
    """Return for how many free instances the row stands: those that were free for hours. Return how
    many are free now if that was not read, or if every one was used within those hours."""
    unused = resource.unused
    if unused is None or unused.count == 0:
        return resource.free_now
    return unused.count


def _more(resource: ReservedCapacity, place: Place) -> str:
    """Return the rest of the evidence: for how long it was measured, and what forbids to give the
    instances back; empty if there is nothing to add."""
    parts: list[str] = []
    unused = resource.unused
    if unused is not None and unused.is_measured and unused.since is not None:
        count = "" if unused.count == resource.free_now else f"{unused.count} of them "
        parts.append(f"{count}empty for at least {span(place.now - unused.since)}")
    else:
        parts.append("for how long is not measured")
    if resource.total - _free_instances(resource) < resource.committed and resource.committed_until:
        until = f"{resource.committed_until:%Y-%m-%d}"
        parts.append(f"{resource.committed} are committed until {until}")
    if resource.lent_by is not None:
        parts.append(f"lent from {resource.lent_by}, to which they go back")
    return "".join(f"; {part}" for part in parts)
