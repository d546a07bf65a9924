"""Validates the policy's settings: ranges, units and required values, with each mistake named by
its setting.

A range is declared once, beside its setting (`window_minutes: int = between(60, 5, 20_160)`), in
the words of JSON Schema (`ge`, `le`).
"""

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
"""The change of a setting after which more may be done, or sooner, on less evidence, or by other
people. `none`: nothing is ever done because of it. `widened`: a list gets longer, or empty, which
means the default."""
_Risk = Risk | None


class SettingError(ValueError):
    """Settings that are out of range or contradict each other. `mistakes` holds each with its
    path."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        """Keep the mistakes, and name each with its path in the text of the error."""
        self.mistakes = mistakes
        super().__init__("; ".join(f"{'.'.join(path)}: {reason}" for path, reason in mistakes))


class ContradictionError(SettingError):
    """Settings that are allowed alone, and not together."""


class Section:
    """A dataclass of settings: it refuses unknown settings, values out of range, and
    contradictions."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    risk: ClassVar[Risk] = "any"
    """Risk of each setting that declares no other."""

    def __post_init__(self) -> None:
        """Do nothing if all settings are allowed. Raises: SettingError with every value out of its
        range or, if there is none, ContradictionError with every contradiction."""
        out_of_range = tuple(self._out_of_range())
        if out_of_range:
            raise SettingError(out_of_range)
        contradictions = (*self._out_of_order(), *self.contradictions())
        if contradictions:
            raise ContradictionError(contradictions)

    def contradictions(self) -> Iterable[Mistake]:
        """Return a mistake, with its path and reason, for settings that are allowed alone and not
        together. A section with such rules overrides this method; here there are none.

        It is called only if all settings are in their ranges.
        """
        return ()

    def _out_of_range(self) -> Iterator[Mistake]:
        """Yield a mistake for each value of a setting that is outside of its range: `is 500; it
        must lie between 1 and 100`. `None` is in every range."""
        for name, metadata in self._declared():
            is_allowed = metadata["is_allowed"]
            for path, value in _checked_values(name, getattr(self, name)):
                if value is not None and not is_allowed(value):
                    shown = repr(value) if isinstance(value, str) else value
                    yield path, f"is {shown}; {metadata['advice']}"

    def _out_of_order(self) -> Iterator[Mistake]:
        """Yield a mistake for each setting that is greater than the setting of this section that
        limits it (`at_most`)."""
        for name, metadata in self._declared():
            limit_name = metadata.get("at_most")
            if not limit_name:
                continue
            value = getattr(self, name)
            limit = getattr(self, limit_name)
            if value > limit:
                yield (name,), f"{name} ({value}) must be at most {limit_name} ({limit})"

    def _declared(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the name of each setting that has a range, with the metadata that its field
        declares."""
        section: Any = type(self)
        return _declared(section)


@cache
def _declared(section: Any) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the name of each setting of a section class that has a range, with what is declared of
    it (its metadata)."""
    # Cached, because policies are made by the thousand.
    with_range = [declared for declared in fields(section) if "is_allowed" in declared.metadata]
    return tuple((declared.name, declared.metadata) for declared in with_range)


def _checked_values(name: str, value: Any) -> Iterable[tuple[tuple[str, ...], Any]]:
    """Return the values of a setting to which its range applies, each with its path: the items of a
    list, the values of a mapping, or else the value itself."""
    if isinstance(value, Mapping):
        return [((name, key), member) for key, member in value.items()]
    if isinstance(value, tuple):
        return [((name, str(index)), member) for index, member in enumerate(value)]
    return [((name,), value)]


def setting(default: _Value, risk: _Risk, **metadata: Any) -> _Value:
    """Declare a setting of a section, as the default of a dataclass field.

    `risk` says which change of it is risky; with `None`, that of its section counts. `metadata` is
    kept with the field.
    """
    data = {"risk": risk, **metadata}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=data)  # type: ignore[return-value]
    return field(default=default, metadata=data)


def checked(
    default: _Value,
    advice: str,
    is_allowed: Callable[[Any], object],
    risk: _Risk = None,
    **metadata: Any,
) -> _Value:
    """Declare a setting whose value, or each value of whose list or mapping, must be one for which
    `is_allowed` returns something true. `None` is always allowed.

    `advice` is the end of the message about any other value: `write HH:MM`. `risk` says which
    change of it is risky; with `None`, that of its section counts. `metadata` is kept with the
    field.
    """
    return setting(default, risk, advice=advice, is_allowed=is_allowed, **metadata)


def required(advice: str, is_allowed: Callable[[str], object], pattern: str) -> str:
    """Declare a setting that has no default: a text for which `is_allowed` returns something true.

    `advice` is the end of the message about any other text; `pattern` is the form for JSON Schema.
    """
    metadata = {
        "risk": None,
        "advice": advice,
        "is_allowed": is_allowed,
        "json_schema_extra": {"pattern": pattern},
    }
    declared: str = field(metadata=metadata)
    return declared


def between(
    default: _Value,
    low: float,
    high: float,
    risk: _Risk = None,
    *,
    at_most: str = "",
    once_from: float = 0,
) -> _Value:
    """Declare a setting that is a number, or a list of numbers, from `low` to `high`, both
    included. `risk` is the change of it that is risky; with `None`, that of its section counts.

    `at_most` names another setting of the section that it must not exceed; empty for none.
    `once_from` is a lower end than `low`, which earlier releases allowed: such values are read, and
    not advised. It is 0 if there is none, and goes neither with `at_most` nor with a list.
    """
    allowed = f"it must lie between {low} and {high}"
    if once_from:
        schema = {"minimum": low, "maximum": high}
        return checked(
            default,
            allowed,
            lambda value: once_from <= value <= high,
            risk,
            json_schema_extra=schema,
        )
    data: dict[str, Any] = {"ge": low, "le": high}
    if isinstance(default, tuple):
        items = {"type": "number", "minimum": low, "maximum": high}
        data = {"json_schema_extra": {"items": items}}
    return checked(
        default, allowed, lambda value: low <= value <= high, risk, at_most=at_most, **data
    )


def one_of(default: _Value, values: tuple[_Value, ...]) -> _Value:
    """Declare a setting that must have one of these values."""
    allowed = f"it must be one of {', '.join(map(str, values))}"
    return checked(default, allowed, values.__contains__, json_schema_extra={"enum": list(values)})


def named(
    pattern: str, advice: str, risk: _Risk = None, *, default: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Declare a setting that is a list of texts, each of which matches the whole pattern. It is
    `default` (empty) if the policy does not set it.

    `advice` is the end of the message about any other text. `risk` is the change of it that is
    risky; with `None`, that of its section counts.
    """
    items = {"items": {"type": "string", "pattern": f"^{pattern}$"}}
    return checked(
        default, advice, lambda text: re.fullmatch(pattern, text), risk, json_schema_extra=items
    )


@dataclass(frozen=True, slots=True)
class Amount:
    """The range of USD as an annotation: a finite number, and never text that looks like one.

    It implements the protocol by which validators ask an annotation for its schema.
    """

    high: int
    low: str = "ge"
    """`ge`: 0 is allowed. `gt`: it must be more than 0."""

    def setting(self, default: _Value, risk: _Risk = None) -> _Value:
        """Declare a setting that is an amount in this range, or a mapping of such amounts. `risk`
        is the change of it that is risky; with `None`, that of its section counts."""
        lowest = "above" if self.low == "gt" else "at least"
        allowed = f"it must be {lowest} 0 and at most {self.high}"
        return checked(default, allowed, self._holds, risk)

    def _holds(self, value: Decimal) -> bool:
        """Return whether an amount is finite and in the range: from 0 (or above it, for `gt`) to
        `high`, included."""
        if not value.is_finite() or not 0 <= value <= self.high:
            return False
        return self.low == "ge" or value > 0

    def __get_pydantic_core_schema__(self, _: object, __: object) -> dict[str, Any]:
        """Return the schema by which pydantic reads the amount: a finite number in the range, made
        a Decimal, and no text."""
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
    """Return the amount as it is written in the document: the shortest decimal that means this
    float, as `0.1`."""
    if value.is_integer():
        return Decimal(int(value))
    return Decimal(str(value))


PER_UNIT = Amount(1_000_000)
"""USD per hour or GiB-month. Nothing costs this much; a higher price is a mistake, and would
overflow sums."""
PERCENT = Amount(100)
A_MONTH = Amount(1_000_000_000, "gt")
UsdPerUnit = Annotated[Decimal, PER_UNIT]
Discount = Annotated[Decimal, PERCENT]
UsdAMonth = Annotated[Decimal, A_MONTH]
