"""Units that cross module boundaries, so that a bare number never does, and how people read them:
money, times and spans, rounded as a person would. Exact figures stay in the facts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Annotated, TypeVar
from zoneinfo import ZoneInfo

Item = TypeVar("Item")
Usd = Annotated[Decimal, "US dollars"]
UsdPerHour = Annotated[Decimal, "US dollars per hour"]
Percent = Annotated[float, "0 to 100"]
BytesPerSecond = Annotated[float, "bytes per second"]
UtcDatetime = Annotated[datetime, "aware, UTC"]

HOURS_PER_MONTH = Decimal(730)
"""Hours in a month as AWS's own price pages count them (365 x 24 / 12)."""

_FAR = timedelta(days=6)
"""From here on a weekday alone no longer names a day."""
_IDENTITIES = (
    (re.compile(r"\blink:broadcast\b"), "somebody with the link sent to a list"),
    (re.compile(r"\blink:(\S+@[\w.-]*\w)"), r"\1 (mail link)"),
    (re.compile(r"\boidc:(\S+)"), r"\1 (signed in)"),
    (re.compile(r"\bslack:(\w+)"), r"\1 (Slack)"),
    (re.compile(r"\baws:(arn:\S*[/:])?([^\s/:]+)"), r"\2 (AWS identity)"),
)


def as_utc(moment: datetime) -> UtcDatetime:
    """The same moment in UTC. Raises: ValueError for a naive one, and out of the years 1 to 9999
    there."""
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


@lru_cache(10_000)
def letters_and_digits(text: str) -> str:
    """Return what is left of a name however it is spelled: no letter case, spaces or
    punctuation."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(character for character in folded if character.isalnum())


def in_parts(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """All items in their order, in parts of `most` and a last one of what is left; none of no
    items."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


def usd(amount: Usd) -> str:
    """`$136`, `$5.67`, `-$12`: cents only below ten dollars."""
    text = money(abs(amount), 0 if abs(amount) >= 10 else 2)
    return f"-${text}" if amount < 0 and text.strip("0.,") else f"${text}"


def span(length: timedelta) -> str:
    """`35 min`, `6 h 40 min`, `30 h`, `3 days`; rounded down."""
    minutes = max(0, int(length.total_seconds() // 60))
    hours, rest = divmod(minutes, 60)
    if minutes < 1:
        return "less than a minute"
    if hours < 1:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {rest:02d} min" if rest else f"{hours} h"
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def left(length: timedelta) -> str:
    """As `span`, but to the hour where that is near enough: `23 h`."""
    return span(
        length if length < timedelta(hours=1) else timedelta(hours=length // timedelta(hours=1))
    )


def clock(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """`Sat 04:02 Berlin (03:02 UTC)`; with its date where that is more than six days off."""
    local, utc = moment.astimezone(ZoneInfo(zone)), moment.astimezone(UTC)
    text = f"{day_and_time(moment, zone, now)} {zone.rpartition('/')[2].replace('_', ' ')}"
    if local.utcoffset() == utc.utcoffset():
        return text
    return (
        f"{text} ({utc:%H:%M} UTC)"
        if local.date() == utc.date()
        else f"{text} ({utc:%a %H:%M} UTC)"
    )


def in_utc(moment: UtcDatetime) -> str:
    """`Sat Dec 5, 04:02 UTC`: for what is written before it is known who reads it."""
    return f"{moment:%a %b} {moment.day}, {moment:%H:%M} UTC"


def day_and_time(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """`Sat 04:02`, or `Sat Dec 5, 04:02`; for subjects, whose body names the zone."""
    local = moment.astimezone(ZoneInfo(zone))
    far = abs(moment - now) >= _FAR
    return f"{local:%a %b} {local.day}, {local:%H:%M}" if far else f"{local:%a %H:%M}"


def deadline(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """`Sat 04:02 Berlin (03:02 UTC), in 23 h`."""
    return (
        f"{clock(moment, zone, now)}, "
        f"{'in ' + left(moment - now) if moment > now else 'which is over'}"
    )


def sentence(text: str) -> str:
    """With a capital letter and a full stop, whatever wrote it. An instance id keeps its first
    letter."""
    text = text.strip()
    if not text:
        return ""
    first = text[0] if text.startswith("i-") else text[0].upper()
    return full_stop(f"{first}{text[1:]}")


def full_stop(text: str) -> str:
    """Ended by a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def people(text: str) -> str:
    """Identities as they are recorded (`link:alice@example.com`), as a reader knows them."""
    for pattern, readable in _IDENTITIES:
        text = pattern.sub(readable, text)
    return text


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def bullets(lines: Sequence[str], most: int) -> list[str]:
    """`- a`, `- b`, `- and 3 more`."""
    more = [f"- and {len(lines) - most} more"] if len(lines) > most else []
    return [*(f"- {line}" for line in lines[:most]), *more]


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 instance`, `3 instances`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
