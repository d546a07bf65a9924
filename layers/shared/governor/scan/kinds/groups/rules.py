"""The least that a group keeps running, in words and in USD an hour. Nothing here reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from governor.core.units import UsdPerHour, plural
from governor.scan.kinds.ec2_types import hardware, is_accelerated


@dataclass(frozen=True, slots=True)
class Choice:
    """A type that a group may launch. One such instance counts as `weight` of its capacity."""

    instance_type: str
    weight: Decimal = Decimal(1)

    def number_for(self, capacity: int) -> int:
        """Return how many such instances have a capacity."""
        return ceil(capacity / self.weight)


def has_accelerators(choices: Iterable[Choice]) -> bool:
    """Return whether any of the types has accelerators."""
    return any(is_accelerated(choice.instance_type) for choice in choices)


def least_usd_per_hour(
    choices: Sequence[Choice],
    capacity: int,
    price_by_type: Mapping[str, UsdPerHour | None],
) -> UsdPerHour | None:
    """Return the price of a capacity if it is made up of the cheapest of the types; `None` without
    types, or if the price of any is not known."""
    prices: list[UsdPerHour] = []
    for choice in choices:
        price = price_by_type.get(choice.instance_type)
        if price is None:
            return None
        prices.append(price * choice.number_for(capacity))
    return min(prices, default=None)


def in_words(choices: Sequence[Choice], capacity: int) -> str:
    """Return a capacity in words: `2 x g5.xlarge, 1 x NVIDIA A10G each`. Of several types the first
    that has accelerators stands for all; without types they are chosen by attributes."""
    if not choices:
        return f"{capacity} x accelerated instances by attributes"
    shown = choices[0]
    for choice in choices:
        if is_accelerated(choice.instance_type):
            shown = choice
            break
    text = hardware(shown.instance_type, shown.number_for(capacity))
    if len(choices) > 1:
        return f"{text}, or {plural(len(choices) - 1, 'other type')}"
    return text
