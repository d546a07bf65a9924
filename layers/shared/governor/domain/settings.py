"""Settings that check themselves, and say of each mistake which setting it is.

A range is declared once, where the setting is (`window_minutes: int = between(60, 5, 20_160)`): `check`
refuses what lies outside of it, and the metadata's names (`ge`, `le`) are those by which validators and
writers of schemas know a range, so that documents and editors go by the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, fields
from functools import cache
from math import inf
from typing import Any, TypeVar

_Value = TypeVar("_Value")

Mistake = tuple[tuple[str, ...], str]
"""The path of a setting, from the settings that it stands in, and what is wrong with it."""


class SettingError(ValueError):
    """Settings out of range, or that contradict each other. `mistakes` names each."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(reason for _, reason in mistakes))


def between(default: _Value, low: float, high: float) -> _Value:
    """A setting of a dataclass with its default and its range, both ends included."""
    setting: _Value = field(default=default, metadata={"ge": low, "le": high})
    return setting


def not_negative(default: _Value) -> _Value:
    """A setting of a dataclass that is 0 or more."""
    setting: _Value = field(default=default, metadata={"ge": 0})
    return setting


def one_of(default: _Value, values: tuple[_Value, ...]) -> _Value:
    """A setting of a dataclass that is one of these figures."""
    setting: _Value = field(
        default=default, metadata={"one_of": values, "json_schema_extra": {"enum": list(values)}}
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
    ranges, choices = _declared(kind)
    for name, low, high in ranges:
        value = getattr(settings, name)
        if value is not None and not low <= value <= high:  # NaN is in no range
            said = f"must lie between {low} and {high}" if high < inf else f"must be at least {low}"
            yield (name,), f"{name} is {value}; it {said}"
    for name, values in choices:
        value = getattr(settings, name)
        if value not in values:
            yield (name,), f"{name} is {value}; it must be one of {', '.join(map(str, values))}"


@cache
def _declared(
    kind: Any,
) -> tuple[tuple[tuple[str, float, float], ...], tuple[tuple[str, tuple[object, ...]], ...]]:
    """Policies are made by the thousand: the fields of a class are looked through once."""
    known = [(one.name, one.metadata) for one in fields(kind)]
    return (
        tuple((name, data["ge"], data.get("le", inf)) for name, data in known if "ge" in data),
        tuple((name, data["one_of"]) for name, data in known if "one_of" in data),
    )
