"""Accelerated instance types, from the table that ships with the layer. Source and date:
data/README.md."""

from __future__ import annotations

import csv
from decimal import Decimal
from functools import cache
from pathlib import Path

from governor.domain.instance import Shape

PRICES_AS_OF = "2026-07-20"
"""Day of the list prices in the table (us-east-1, Linux, shared tenancy; metal: dedicated)."""

_TABLE = Path(__file__).parent.parent / "data" / "accelerated_instance_types.csv"


def shape_of(instance_type: str) -> Shape | None:
    row = _rows().get(instance_type)
    if row is None:
        return None
    return Shape(
        instance_type=instance_type,
        accelerator=row["accelerator"],
        accelerator_count=_whole(row["accelerator_count"]),
        memory_mib_each=_whole(row["memory_mib_each"]),
        board_power_watts=_whole(row["board_power_watts"]),
        local_nvme=row["local_nvme_gb"] or None,
    )


def alike(instance_type: str) -> tuple[str, ...]:
    """All types with as many of the same accelerator, itself included; none for an unknown one."""
    same = ("accelerator", "accelerator_count", "memory_mib_each")
    row = _rows().get(instance_type, {})
    return tuple(
        sorted(
            name
            for name, other in _rows().items()
            if all(other[key] == row.get(key) for key in same)
        )
    )


@cache
def families() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.partition(".")[0] for name in _rows()))


def accelerated_types() -> tuple[str, ...]:
    return tuple(_rows())


def list_price(instance_type: str) -> Decimal | None:
    """USD per hour on demand in us-east-1, or `None` where no list price is published."""
    row = _rows().get(instance_type)
    return Decimal(row["usd_per_hour"]) if row and row["usd_per_hour"] else None


def _whole(text: str) -> int | None:
    return int(text) if text else None


@cache
def _rows() -> dict[str, dict[str, str]]:
    with _TABLE.open(newline="", encoding="utf-8") as table:
        return {row["instance_type"]: row for row in csv.DictReader(table)}
