"""Settings that check themselves, and say of each mistake which setting it is.

A range is declared once, where the setting is (`window_minutes: int = between(60, 5, 20_160)`): `check`
refuses what lies outside of it, and the metadata's names (`ge`, `le`) are those by which validators and
writers of schemas know a range, so that documents and editors go by the same figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar

_Value = TypeVar("_Value")

Mistake = tuple[tuple[str, ...], str]
"""The path of a setting, from the settings that it stands in, and what is wrong with it."""


class SettingError(ValueError):
    """Settings out of range, or that contradict each other. `mistakes` names each."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(reason for _, reason in mistakes))


@dataclass(frozen=True, slots=True)
class Amount:
    """Marks a `Decimal` of a document: a finite number in a range, and never a text that looks like one.

    Speaks the protocol by which validators ask an annotation for its schema, and needs none of them for it.
    """

    low: int
    high: int

    def holds(self, value: Decimal) -> bool:
        """Whether it is in the range, both ends included."""
        return value.is_finite() and self.low <= value <= self.high

    def __get_pydantic_core_schema__(self, _: object, __: object) -> dict[str, Any]:
        number = {
            "type": "float",
            "strict": True,
            "allow_inf_nan": False,
            "ge": self.low,
            "le": self.high,
        }
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": _as_written},
            "schema": number,
        }


def _as_written(value: float) -> Decimal:
    """By the shortest digits that mean this float, which are those of the document."""
    return Decimal(int(value)) if value.is_integer() else Decimal(str(value))


MOST_USD_PER_UNIT = 1_000_000
"""Per hour or GiB-month. Nothing costs as much; whatever is more would end sums, and is a mistake."""
MOST_USD_A_MONTH = 1_000_000_000
UsdPerUnit = Annotated[Decimal, Amount(0, MOST_USD_PER_UNIT)]
UsdAMonth = Annotated[Decimal, Amount(0, MOST_USD_A_MONTH)]


def between(default: _Value, low: float, high: float) -> _Value:
    """A setting of a dataclass with its default and its range, both ends included."""
    setting: _Value = field(default=default, metadata={"ge": low, "le": high})
    return setting


def usd_per_unit(default: _Value) -> _Value:
    """A setting of type `UsdPerUnit`, or that or `None`; the type tells validators the range."""
    setting: _Value = field(default=default, metadata={"amount": (0, MOST_USD_PER_UNIT)})
    return setting


def one_of(default: _Value, values: tuple[_Value, ...]) -> _Value:
    """A setting of a dataclass that is one of these figures."""
    setting: _Value = field(
        default=default, metadata={"one_of": values, "json_schema_extra": {"enum": list(values)}}
    )
    return setting


@dataclass(frozen=True, slots=True)
class Naming:
    """How all names of a kind are made, as a regular expression, and what is said of one that is not."""

    pattern: str
    said: str


def named(naming: Naming) -> tuple[str, ...]:
    """A setting of a dataclass that lists names of a kind; none by default."""
    items = {"type": "string", "pattern": f"^{naming.pattern}$"}
    setting: tuple[str, ...] = field(
        default=(), metadata={"named": naming, "json_schema_extra": {"items": items}}
    )
    return setting


def check(settings: Any, contradictions: Iterable[Mistake] = ()) -> None:
    """Refuses what is out of range; where all is in it, what contradicts.

    Raises:
        SettingError: with every mistake of the kind that came first.
    """
    wrong = tuple(_out_of_range(settings)) or tuple(contradictions)
    if wrong:
        raise SettingError(wrong)


def _out_of_range(settings: Any) -> Iterator[Mistake]:
    kind: Any = type(settings)
    ranges, choices, namings = _declared(kind)
    for name, low, high in ranges:
        value = getattr(settings, name)
        if value is not None and not _is_between(value, low, high):
            yield (name,), f"{name} is {value}; it must lie between {low} and {high}"
    for name, values in choices:
        value = getattr(settings, name)
        if value not in values:
            yield (name,), f"{name} is {value}; it must be one of {', '.join(map(str, values))}"
    for name, naming in namings:
        for index, value in enumerate(getattr(settings, name)):
            if not re.fullmatch(naming.pattern, value):
                yield (name, str(index)), f"is {value!r}; {naming.said}"


def _is_between(value: Any, low: float, high: float) -> bool:
    """NaN is in no range; of decimals, it cannot even be compared."""
    return not (isinstance(value, Decimal) and value.is_nan()) and low <= value <= high


@cache
def _declared(
    kind: Any,
) -> tuple[
    tuple[tuple[str, float, float], ...],
    tuple[tuple[str, tuple[object, ...]], ...],
    tuple[tuple[str, Naming], ...],
]:
    """Policies are made by the thousand: the fields of a class are looked through once."""
    known = [(one.name, one.metadata) for one in fields(kind)]
    ranges = [(name, data["ge"], data["le"]) for name, data in known if "ge" in data]
    ranges += [(name, *data["amount"]) for name, data in known if "amount" in data]
    return (
        tuple(ranges),
        tuple((name, data["one_of"]) for name, data in known if "one_of" in data),
        tuple((name, data["named"]) for name, data in known if "named" in data),
    )
