"""Settings that check themselves and name each mistake by the setting it is in. A range is declared
once, beside its setting (`window_minutes: int = between(60, 5, 20_160)`), as JSON Schemas name it
(`ge`, `le`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar

_Value = TypeVar("_Value")

Mistake = tuple[tuple[str, ...], str]
"""The path of a setting within its section, and what is wrong with it."""


Risk = Literal["any", "none", "raised", "lowered", "added", "removed", "widened"]
"""The change of a setting with which more may be done, sooner, on less evidence, or by other
people. `none`: nothing is ever done because of it. `widened`: more is in a list, or nothing, which
means the default."""
_Risk = Risk | None


class SettingError(ValueError):
    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(f"{'.'.join(path)}: {reason}" for path, reason in mistakes))


class Section:
    """A dataclass of settings: it refuses unknown settings, values out of range, and
    contradictions."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    risk: ClassVar[Risk] = "any"
    """Risk of each setting that declares no other."""

    def __post_init__(self) -> None:
        """Raises: SettingError with every value out of range or, where there is none, every
        contradiction."""
        wrong = tuple(self._out_of_range()) or (*self._out_of_order(), *self.contradictions())
        if wrong:
            raise SettingError(wrong)

    def contradictions(self) -> Iterable[Mistake]:
        """Settings that are fine alone and not together. Asked only when all are in their
        ranges."""
        return ()

    def _out_of_range(self) -> Iterator[Mistake]:
        for name, data in self._declared():
            for path, value in _each(name, getattr(self, name)):
                if value is not None and not data["holds"](value):
                    shown = repr(value) if isinstance(value, str) else value
                    yield path, f"is {shown}; {data['said']}"

    def _out_of_order(self) -> Iterator[Mistake]:
        for name, data in self._declared():
            other = data.get("at_most")
            if other and getattr(self, name) > getattr(self, other):
                values = getattr(self, name), getattr(self, other)
                yield (name,), f"{name} ({values[0]}) must be at most {other} ({values[1]})"

    def _declared(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        kind: Any = type(self)
        return _declared(kind)


@cache
def _declared(kind: Any) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Policies are made by the thousand: the fields of a class are looked through once."""
    return tuple((one.name, one.metadata) for one in fields(kind) if "holds" in one.metadata)


def _each(name: str, value: Any) -> Iterable[tuple[tuple[str, ...], Any]]:
    """The values that a range is for: a list's items, a mapping's values, or the value itself."""
    if isinstance(value, Mapping):
        return [((name, key), one) for key, one in value.items()]
    if isinstance(value, tuple):
        return [((name, str(index)), one) for index, one in enumerate(value)]
    return [((name,), value)]


def setting(default: _Value, risk: _Risk, **metadata: Any) -> _Value:
    """A setting with its risk; `None`: that of its section."""
    data = {"risk": risk, **metadata}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=data)  # type: ignore[return-value]
    return field(default=default, metadata=data)


def checked(
    default: _Value, said: str, holds: Callable[[Any], object], risk: _Risk = None, **metadata: Any
) -> _Value:
    """A setting, a list or a mapping, of values that hold; `said` is what to write instead of
    others."""
    return setting(default, risk, said=said, holds=holds, **metadata)


def between(
    default: _Value,
    low: float,
    high: float,
    risk: _Risk = None,
    *,
    at_most: str = "",
    once_from: float = 0,
) -> _Value:
    """Declare a number, or a list of them, in a range that includes both ends, and up to the
    setting `at_most` of its section. Earlier releases took it `once_from`: so it can still be
    read."""
    said = f"it must lie between {low} and {high}"
    if once_from:
        extra = {"minimum": low, "maximum": high}
        return checked(
            default, said, lambda value: once_from <= value <= high, risk, json_schema_extra=extra
        )
    data: dict[str, Any] = {"ge": low, "le": high}
    if isinstance(default, tuple):
        items = {"type": "number", "minimum": low, "maximum": high}
        data = {"json_schema_extra": {"items": items}}
    return checked(default, said, lambda value: low <= value <= high, risk, at_most=at_most, **data)


def one_of(default: _Value, values: tuple[_Value, ...]) -> _Value:
    said = f"it must be one of {', '.join(map(str, values))}"
    return checked(default, said, values.__contains__, json_schema_extra={"enum": list(values)})


def named(
    pattern: str, said: str, risk: _Risk = None, *, default: tuple[str, ...] = ()
) -> tuple[str, ...]:
    items = {"items": {"type": "string", "pattern": f"^{pattern}$"}}
    return checked(
        default, said, lambda one: re.fullmatch(pattern, one), risk, json_schema_extra=items
    )


@dataclass(frozen=True, slots=True)
class Amount:
    """The range of USD as an annotation: a finite number, and never text that looks like one. It
    fulfils the protocol by which validators ask an annotation for its schema."""

    high: int
    low: str = "ge"
    """`ge`: 0 is an amount. `gt`: it must be more than 0."""

    def setting(self, default: _Value, risk: _Risk = None) -> _Value:
        said = f"it must be {'above' if self.low == 'gt' else 'at least'} 0 and at most {self.high}"
        return checked(default, said, self._holds, risk)

    def _holds(self, value: Decimal) -> bool:
        return value.is_finite() and 0 <= value <= self.high and (self.low == "ge" or value > 0)

    def __get_pydantic_core_schema__(self, _: object, __: object) -> dict[str, Any]:
        number = {
            "type": "float",
            "strict": True,
            "allow_inf_nan": False,
            self.low: 0,
            "le": self.high,
        }
        function = {"type": "no-info", "function": _as_written}
        return {"type": "function-after", "function": function, "schema": number}


def _as_written(value: float) -> Decimal:
    """By the shortest digits that mean this float, which are those of the document."""
    return Decimal(int(value)) if value.is_integer() else Decimal(str(value))


PER_UNIT = Amount(1_000_000)
"""USD per hour or GiB-month. Nothing costs as much; more is a mistake, and would overflow sums."""
PERCENT = Amount(100)
A_MONTH = Amount(1_000_000_000, "gt")
UsdPerUnit = Annotated[Decimal, PER_UNIT]
Discount = Annotated[Decimal, PERCENT]
UsdAMonth = Annotated[Decimal, A_MONTH]
