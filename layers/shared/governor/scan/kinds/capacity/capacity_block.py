"""Capacity Blocks with unused instances: paid in advance, so nothing is saved by giving them
back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from governor.core.units import UsdPerHour, plural
from governor.scan.kind import Kind, Place
from governor.scan.kinds.capacity.reservations import (
    BLOCK,
    DESCRIBE,
    ReservedCapacity,
    read_free,
    records_here,
)
from governor.scan.kinds.commands import aws_command
from governor.scan.model import Finding, Judgment, Strength

_TOPIC = "Capacity Blocks"


class CapacityBlocks(Kind[ReservedCapacity, None]):
    """Capacity Blocks of accelerated types that have begun and have free instances.

    Their use is not measured: AWS does not say whether CloudWatch has it.
    """

    name = "capacity-block"
    words = _TOPIC
    operations = (DESCRIBE,)

    def list(self, place: Place) -> Sequence[ReservedCapacity]:
        """Return the blocks with free instances; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> ReservedCapacity | None:
            """Return a block with free instances; `None` for any other record."""
            return read_free(place, record, BLOCK)

        return list(place.read_each(_TOPIC, DESCRIBE, records_here(place), read))

    def price(self, place: Place, resource: ReservedCapacity) -> UsdPerHour | None:
        """Return `None`: EC2 does not show what was paid for a block, and no hour costs anything
        more."""
        return None

    def own_judgment(self, place: Place, resource: ReservedCapacity, measured: None) -> Judgment:
        """Return the judgment that the block is unused: EC2's count of free instances is a fact.
        Call it only for a block that is not exempt, of which instances are free."""
        until = "its end" if resource.ends_at is None else f"{resource.ends_at:%Y-%m-%d %H:%M UTC}"
        evidence = (
            f"{resource.free_now} of {plural(resource.total, 'instance')} unused now, as EC2 "
            f"reports; paid in advance and cannot be given back: use it or share it until {until}"
        )
        return Judgment(Finding.UNUSED, Strength.STRONG, evidence)

    def own_command(self, resource: ReservedCapacity, judgment: Judgment) -> str:
        """Return the command that shows the block."""
        return aws_command(
            resource.target,
            "ec2",
            "describe-capacity-reservations",
            capacity_reservation_ids=resource.resource_id,
        )
