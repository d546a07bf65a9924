"""Accelerated instance types with their GPUs, memory, power limits, vCPUs and list prices, from the
table that ships with the layer.

Source and date of the table: core/README.md.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path

from governor.core.instance import Shape

PRICES_AS_OF = "2026-07-20"
"""Day of the list prices in the table (us-east-1, Linux, shared tenancy; metal: dedicated)."""

_TABLE = Path(__file__).parent / "accelerated_instance_types.csv"


def shape_of(instance_type: str) -> Shape | None:
    """Return the hardware of a type such as `g5.xlarge`, with `None` for each figure that the table
    leaves empty. Return `None` if the table does not have the type."""
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
        vcpus=_whole(row["vcpus"]),
    )


def types_with_same_gpus(instance_type: str) -> tuple[str, ...]:
    """Return all types with as many of the same accelerator as this type, itself included, in
    alphabetical order. Return an empty tuple if the table does not have the type."""
    row = _rows().get(instance_type)
    if row is None:
        return ()
    types = [name for name, other_row in _rows().items() if _has_same_gpus(row, other_row)]
    return tuple(sorted(types))


def _has_same_gpus(row: Mapping[str, str], other_row: Mapping[str, str]) -> bool:
    """Return whether the types in two rows have the same number of GPUs of the same kind and
    memory."""
    compared = ("accelerator", "accelerator_count", "memory_mib_each")
    return all(row[column] == other_row[column] for column in compared)


@cache
def families() -> tuple[str, ...]:
    """Return the families of all types in the table, each once and in order, such as `p5`."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in _rows()))


def family_patterns() -> list[str]:
    """Return a pattern for each family, such as `p5.*`, by which EC2 filters instance types."""
    return [f"{family}.*" for family in families()]


def accelerated_types() -> tuple[str, ...]:
    """Return the names of all types in the table, in its order, such as `p5.48xlarge`."""
    return tuple(_rows())


def list_price(instance_type: str) -> Decimal | None:
    """Return the On-Demand list price of a type in us-east-1, in USD per hour. Return `None` if the
    table does not have the type, or AWS publishes no price of it."""
    row = _rows().get(instance_type)
    if row is None or not row["usd_per_hour"]:
        return None
    return Decimal(row["usd_per_hour"])


def _whole(text: str) -> int | None:
    """Return the whole number; `None` for an empty text."""
    return int(text) if text else None


@cache
def _rows() -> dict[str, dict[str, str]]:
    """Return the rows of the table by instance type, each as its texts by column. The file is read
    once."""
    with _TABLE.open(newline="", encoding="utf-8") as table:
        return {row["instance_type"]: row for row in csv.DictReader(table)}
