"""Names for the units that cross module boundaries, so that a bare number never does; lists cut in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, TypeVar

Item = TypeVar("Item")
Usd = Annotated[Decimal, "US dollars"]
UsdPerHour = Annotated[Decimal, "US dollars per hour"]
Percent = Annotated[float, "0 to 100"]
BytesPerSecond = Annotated[float, "bytes per second"]
UtcDatetime = Annotated[datetime, "aware, UTC"]

HOURS_PER_MONTH = Decimal(730)
"""Hours in a month as AWS's own price pages count them (365 x 24 / 12)."""


def as_utc(moment: datetime) -> UtcDatetime:
    """The same moment in UTC. Raises: ValueError for a naive one, and out of the years 1 to 9999 there."""
    if moment.tzinfo is None:
        raise ValueError(f"naive datetime {moment.isoformat()}: say which time zone it is in")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{moment.isoformat()} is out of range in UTC") from error


def iso(moment: datetime) -> str:
    """UTC ISO 8601 to the second with a `Z`, as written into tags, keys and messages."""
    return as_utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_iso(text: str) -> UtcDatetime:
    """The moment a string of `iso`, or any ISO 8601 with an offset, names. Raises: ValueError."""
    return as_utc(datetime.fromisoformat(text))


def minutes(length: timedelta) -> int:
    return length // timedelta(minutes=1)


def money(amount: Decimal, places: int = 2) -> str:
    """An amount as text, rounded half up to `places`: `1,320.96`."""
    quantum = Decimal(1).scaleb(-places)
    # Adding zero turns -0.00, which a small negative amount rounds to, into 0.00.
    return f"{amount.quantize(quantum, rounding=ROUND_HALF_UP) + 0:,}"


def printable(text: str) -> str:
    """One line: whitespace, control characters and marks of direction become single spaces."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.split())


def in_parts(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """All items in their order, in parts of `most` and a last one of what is left; none of no items."""
    for start in range(0, len(items), most):
        yield items[start : start + most]
