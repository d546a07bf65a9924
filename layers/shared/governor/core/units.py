"""Units, and their texts for people: money, durations, and times in a time zone, rounded as a
person would.

Values that cross a module boundary have one of these types: a bare number must not. Exact figures
stay in the facts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

NEVER: UtcDatetime = datetime.max.replace(tzinfo=UTC)
"""Sorts what has no time after everything that has one."""

HOURS_PER_MONTH = Decimal(730)
"""Hours in a month as AWS's own price pages count them (365 x 24 / 12)."""

END_BIN = timedelta(minutes=5)
"""The newest part of an evidence window is checked in bins of this length, even if its period is
shorter."""

_FAR = timedelta(days=6)
"""From here on a weekday alone no longer names a day."""
_NEEDS_NO_YEAR = timedelta(days=180)
"""Up to here a day and a month name one day."""
_RECORDED_TIME = re.compile(
    r"\b(?P<iso>\d{4}-\d\d-\d\d)[T ](?P<minute>\d\d:\d\d)(?::\d\d)?(?:Z| UTC)"
    r"|\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d{1,2}, \d\d:\d\d UTC"
)
"""A time in UTC as recorded texts hold it: as `iso` or `in_utc` writes it, or `2026-11-27 09:00
UTC`."""
_IDENTIFIER = re.compile(r"[0-9_:./@=]|[a-z][A-Z]")
"""A sign or a change of letter case within a word that no plain word has."""
_IDENTITIES = (
    (re.compile(r"link:broadcast"), "somebody with the link sent to a list"),
    (re.compile(r"link:(\S+@[\w.-]*\w)"), r"\1 (mail link)"),
    (re.compile(r"oidc:(\S.*)"), r"\1 (signed in)"),
    (re.compile(r"slack:(\w+)"), r"\1 (Slack)"),
    (re.compile(r"aws:(?:arn:\S*[/:])?([^\s/:]+)"), r"\1 (AWS identity)"),
)
"""Recorded identities, and how people read them. ARNs and tag keys, such as
`aws:cloudformation:stack-name`, are none."""
_DONE_BY = re.compile(
    r"(?P<before>(?:everything is )?(?:kept|exempted|held|approved|paused) by )"
    r"(?P<by>oidc:.+?|\S+?)(?: and (?P<second>[a-z]+:\S+?))?(?P<after>(?:: | \().*)?",
    re.DOTALL,
)
"""A recorded sentence that a person's words may follow: `kept by link:alice@example.com: training
until Friday`."""
_EXEMPTED = re.compile(
    r"(?P<before>exempted by decision: .* \()(?P<by>[^()]+)(?P<after>\))", re.DOTALL
)
"""A recorded sentence with a person's words before the person: `exempted by decision: needed for a
demo (link:alice@example.com)`."""
_NAMES_A_PERSON = (
    re.compile(r"(?P<before>it was stopped, and )(?P<by>\S+)(?P<after> started it again)"),
    re.compile(r"(?P<before>the answer of )(?P<by>\S+)(?P<after> has no seal of this release: .*)"),
)
"""Recorded sentences of GPU Governor alone, with a person in them."""


def as_utc(moment: datetime) -> UtcDatetime:
    """Return the same moment in UTC.

    Raises: ValueError for a naive moment, or one outside of the years 1 to 9999 in UTC.
    """
    if moment.tzinfo is None:
        raise ValueError(f"naive datetime {moment.isoformat()}: say which time zone it is in")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{moment.isoformat()} is out of range in UTC") from error


def iso(moment: datetime) -> str:
    """Return the moment as ISO 8601 in UTC to the second, `2026-11-27T14:00:00Z`: the form in tags,
    keys and messages. Raises: ValueError for a naive moment."""
    return as_utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_iso(text: str) -> UtcDatetime:
    """Return the moment that a text in ISO 8601 with an offset names. Raises: ValueError for any
    other text, and for one without an offset."""
    return as_utc(datetime.fromisoformat(text))


def minutes(length: timedelta) -> int:
    """Return a length in whole minutes, rounded down."""
    return length // timedelta(minutes=1)


def money(amount: Decimal, places: int = 2) -> str:
    """Return an amount as text without a currency, rounded half up to `places` decimals:
    `1,320.96`."""
    quantum = Decimal(1).scaleb(-places)
    # Adding zero turns -0.00, which a small negative amount rounds to, into 0.00.
    return f"{amount.quantize(quantum, rounding=ROUND_HALF_UP) + 0:,}"


def printable(text: str) -> str:
    """Return the text as one line: whitespace, control characters and marks of direction become
    single spaces."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


@lru_cache(10_000)
def letters_and_digits(text: str) -> str:
    """Return a name in lower case, without spaces and punctuation, to compare spellings:
    `gpugovernor` for `GPU-Governor`."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(character for character in folded if character.isalnum())


def in_parts(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """Yield all items in their order, in parts of at most `most` items; nothing if there are no
    items."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


def not_none(values: Iterable[Item | None]) -> list[Item]:
    """Return the values that are not `None`, in their order; empty if all are."""
    return [value for value in values if value is not None]


def without(values: Mapping[str, Item], names: Collection[str]) -> dict[str, Item]:
    """Return the values by name, without those of these `names`; empty if no other is left."""
    return {name: value for name, value in values.items() if name not in names}


def without_none(values: Mapping[str, Item | None]) -> dict[str, Item]:
    """Return the values by name, without those that are `None`; empty if all are."""
    return {name: value for name, value in values.items() if value is not None}


def usd(amount: Usd) -> str:
    """Return an amount as text, `$136`, `$5.67` or `-$12`: rounded, with cents only below ten
    dollars."""
    places = 0 if abs(amount) >= 10 else 2
    text = money(abs(amount), places)
    is_rounded_to_zero = not text.strip("0.,")
    if amount < 0 and not is_rounded_to_zero:
        return f"-${text}"
    return f"${text}"


def daily_cost(usd_per_hour: UsdPerHour) -> Usd:
    """Return what 24 hours cost at this price, not rounded."""
    return usd_per_hour * 24


def span(length: timedelta) -> str:
    """Return a length as text, rounded down: to minutes below 24 hours (`35 min`, `6 h 40 min`),
    to hours below 48 (`30 h`), else to days (`3 days`). A length below a minute, or below zero, is
    `less than a minute`."""
    minutes = max(0, int(length.total_seconds() // 60))
    hours, minutes_of_hour = divmod(minutes, 60)
    if minutes < 1:
        return "less than a minute"
    if hours < 1:
        return f"{minutes} min"
    if hours < 24:
        if minutes_of_hour:
            return f"{hours} h {minutes_of_hour:02d} min"
        return f"{hours} h"
    if hours < 48:
        return f"{hours} h"
    return f"{hours // 24} days"


def left(length: timedelta) -> str:
    """Return the time that is left as `span` does, but without minutes from one hour on: `35 min`,
    `23 h`, `30 h` or `3 days`; `less than a minute` if none is left."""
    hour = timedelta(hours=1)
    if length < hour:
        return span(length)
    return span(length // hour * hour)


def clock(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """Return a moment as text in a time zone, and in UTC if that differs: `Sat 04:02 Berlin (03:02
    UTC)`. From six days away from `now` on, the date is in it."""
    local = moment.astimezone(ZoneInfo(zone))
    utc = moment.astimezone(UTC)
    text = time_with_zone(moment, zone, now)
    if local.utcoffset() == utc.utcoffset():
        return text
    if local.date() == utc.date():
        return f"{text} ({utc:%H:%M} UTC)"
    return f"{text} ({utc:%a %H:%M} UTC)"


def time_with_zone(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """Return a moment as text in a time zone, with the zone's city: `Sat 04:02 Berlin`. From six
    days away from `now` on, the date is in it. It is for subjects of messages."""
    return f"{day_and_time(moment, zone, now)} {city_of(zone)}"


def city_of(zone: str) -> str:
    """Return the name of a time zone as people read it, its city: `Los Angeles`."""
    return zone.rpartition("/")[2].replace("_", " ")


def in_utc(moment: UtcDatetime) -> str:
    """Return a moment as text in UTC, `Sat Dec 5, 04:02 UTC`, for readers whose zone is not
    known."""
    return f"{moment:%a %b} {moment.day}, {moment:%H:%M} UTC"


def times_in_zone(text: str, zone: str, now: UtcDatetime) -> str:
    """Return a recorded text with its times as `clock` gives them in a time zone: `worked until Sat
    04:02 Berlin (03:02 UTC)`. A time without a year is the one nearest to `now`. A text that is no
    time of the calendar stays as it is, and so does a time that is half a year away or more, as
    people type in reasons: `clock` names no year."""

    def in_words(match: re.Match[str]) -> str:
        """Return the time that was found in the zone, or its text if it stays as it is."""
        moment = _recorded_moment(match, now)
        if moment is None or abs(moment - now) > _NEEDS_NO_YEAR:
            return match[0]
        return clock(moment, zone, now)

    return _RECORDED_TIME.sub(in_words, text)


def _recorded_moment(match: re.Match[str], now: UtcDatetime) -> UtcDatetime | None:
    """Return the moment that a recorded time names; `None` if the calendar has no such time."""
    if match["iso"]:
        return _moment_of(f"{match['iso']} {match['minute']}", "%Y-%m-%d %H:%M")
    moments: list[UtcDatetime] = []
    for year in (now.year - 1, now.year, now.year + 1):
        moment = _moment_of(f"{year} {match[0]}", "%Y %a %b %d, %H:%M UTC")
        # The weekday tells the years apart.
        if moment is not None and in_utc(moment) == match[0]:
            moments.append(moment)
    return min(moments, key=lambda moment: abs(moment - now), default=None)


def _moment_of(text: str, form: str) -> UtcDatetime | None:
    """Return the moment in UTC that a text of this form names; `None` if there is none."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None


def whole_minute(moment: UtcDatetime) -> UtcDatetime:
    """Return a moment rounded down to the minute, as texts for people give it: no deadline is said
    to be later than it is."""
    return moment.replace(second=0, microsecond=0)


def day_and_time(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """Return a moment as text in a time zone, without the zone's name: `Sat 04:02`, or from six
    days away on `Sat Dec 5, 04:02`. It is for the first time of a range whose end names the
    zone."""
    local = whole_minute(moment).astimezone(ZoneInfo(zone))
    if abs(moment - now) >= _FAR:
        return f"{local:%a %b} {local.day}, {local:%H:%M}"
    return f"{local:%a %H:%M}"


def deadline(moment: UtcDatetime, zone: str, now: UtcDatetime) -> str:
    """Return a deadline as text in a time zone: `Sat 04:02 Berlin (03:02 UTC, in 23 h)`. One that
    has passed ends with `already over)`."""
    when = f"in {left(moment - now)}" if moment > now else "already over"
    text = clock(moment, zone, now)
    if text.endswith(")"):
        return f"{text[:-1]}, {when})"
    return f"{text} ({when})"


def sentence(text: str) -> str:
    """Return the text as a sentence: with a capital letter, unless it begins with an identifier,
    and a full stop. Return an empty text for a blank one."""
    text = text.strip()
    if not text:
        return ""
    return full_stop(capitalized(text))


def capitalized(text: str) -> str:
    """Return the text with its first letter as a capital, unless its first word is an identifier,
    such as `i-0abc`, `ec2:CreateSnapshots`, `nvidia_smi_utilization_gpu` or `idle.second_figure`,
    which would be another one then. An empty text stays empty."""
    first_word = text.partition(" ")[0].rstrip(".,:;!?")
    if text.startswith("i-") or _IDENTIFIER.search(first_word):
        return text
    return f"{text[:1].upper()}{text[1:]}"


def full_stop(text: str) -> str:
    """Return the text with a full stop at its end, unless it ends with `.`, `!` or `?` already."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def people(identity: str) -> str:
    """Return a recorded identity in readable form: `alice@example.com (mail link)` for
    `link:alice@example.com`. Return any other text as it is, such as a sentence with an identity
    in it: it may hold words that people typed."""
    for pattern, readable in _IDENTITIES:
        match = pattern.fullmatch(identity)
        if match is not None:
            return match.expand(readable)
    return identity


def people_in_record(text: str) -> str:
    """Return a recorded sentence with the people whom GPU Governor names in it in readable form:
    `kept by alice@example.com (mail link): long job` for `kept by link:alice@example.com: long
    job`. The words of people stay as they are, and so does any other sentence."""
    for pattern in (_EXEMPTED, _DONE_BY, *_NAMES_A_PERSON):
        match = pattern.fullmatch(text)
        if match is not None:
            parts = match.groupdict(default="")
            second = parts.get("second")
            also = f" and {people(second)}" if second else ""
            return f"{parts['before']}{people(parts['by'])}{also}{parts['after']}"
    return text


def holds_words_of_people(text: str) -> bool:
    """Return whether a recorded sentence says who kept, exempted, held, approved or paused
    something: what follows may be words that a person typed."""
    return any(pattern.fullmatch(text) for pattern in (_EXEMPTED, _DONE_BY))


def clip(text: str, limit: int) -> str:
    """Return at most `limit` characters of the text. If it is longer, the last one is an
    ellipsis."""
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def clip_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters of the text. If it is longer, an ellipsis stands for its
    middle: names often differ at their ends."""
    if len(text) <= limit:
        return text
    end = (limit - 1) // 2
    start = limit - 1 - end
    return f"{text[:start]}…{text[-end:]}"


def all_listed(names: Sequence[str]) -> str:
    """Return all names, of which there is at least one, as a list in a sentence: `a, b and c`."""
    *all_but_last, last = names
    if not all_but_last:
        return last
    return f"{', '.join(all_but_last)} and {last}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first `most` names in one text, with the number of the others: `a, b and 3 more`.
    Return an empty text if there are no names."""
    text = ", ".join(names[:most])
    if len(names) > most:
        return f"{text} and {len(names) - most} more"
    return text


def some_of(lines: Sequence[str], most: int) -> list[str]:
    """Return the first `most` lines, and if there are others, a last line `and 3 more`. Return an
    empty list if there are no lines."""
    shown = list(lines[:most])
    if len(lines) > most:
        shown.append(f"and {len(lines) - most} more")
    return shown


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return the number with its noun: `1 instance`, `3 instances`. `one` is the singular; `many`
    is the plural if it is not the singular with an `s`."""
    if number == 1:
        return f"{number} {one}"
    return f"{number} {many or one + 's'}"
