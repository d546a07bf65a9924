"""The items of the caps in the state table: their contents, and the writes that change them.

This module reads and writes nothing itself. `limits/store/caps.py` says how the items work
together, and carries the writes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from governor.core.errors import CloudError
from governor.table.table import DAMAGED, Condition, Document, Key, Write, absent, update, where

WINDOW = timedelta(minutes=60)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_CALL_WITHIN = timedelta(minutes=2)
"""EC2 is called at most this long after the reservation: the function may run for 90 seconds."""
_COUNTED_FOR = _MINUTE + WINDOW + _CALL_WITHIN
"""A minute counts for this long from its beginning."""
_CLOCKS_DIFFER = timedelta(minutes=10)
"""A minute is kept this much longer than it counts, so that no host drops what counts for another
one."""
_KEPT_FOR = timedelta(days=2)
_RESERVATION_KEPT_FOR = timedelta(days=90)
"""As long as the name of an execution cannot be used again."""
COUNTS_PK = "CAPS#rolling"
"""The partition of the counts, one item for each cap."""
_BY_MINUTE = "taken_"
_MINUTE_FORMAT = "%Y%m%d%H%M"
_HOUR_FORMAT = "%Y%m%d%H"
_COUNT_OF_CLOSED_HOUR = 1_000_000
"""Above every cap that a policy may set."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Actions that began in one minute, or in one hour of the previous release, and the time until
    which they count."""

    number: int
    until: datetime


@dataclass(frozen=True, slots=True)
class _OldReleaseHour:
    """A counter of the previous release, for one clock hour."""

    begins: datetime
    number: int
    """How many actions it counts."""
    stored: int | None
    """The value of its attribute `taken`; `None` if it has none."""
    is_closed: bool
    """True once this release has closed it, so that the previous release counts no more in it."""


@dataclass(frozen=True, slots=True)
class CapCount:
    """The count of one cap, as it was read. `version` is `None` if the cap has no item yet."""

    cap: str
    version: int | None
    by_minute: Mapping[datetime, int]
    hours: tuple[_OldReleaseHour, ...]

    def counted(self, now: datetime) -> list[_Counted]:
        """Return the actions that count at `now`, by their minute or hour; those that leave the
        window first come first. Return an empty list if there are none."""
        known: list[_Counted] = []
        for minute, number in self.by_minute.items():
            known.append(_Counted(number, minute + _COUNTED_FOR))
        for hour in self.hours:
            known.append(_Counted(hour.number, hour.begins + _HOUR + WINDOW))
        still_counted = [counted for counted in known if counted.until > now]
        return sorted(still_counted, key=lambda counted: counted.until)

    def taken(self, now: datetime) -> int:
        """Return how many actions count at `now`; 0 if none does."""
        return sum(counted.number for counted in self.counted(now))

    def room_at(self, most: int, now: datetime) -> datetime | None:
        """Return when fewer than `most` actions count: now if that is so already.

        Return `None` if `most` is 0, since then waiting does not help.
        """
        if most <= 0:
            return None
        left = self.taken(now)
        free_at = now
        for counted in self.counted(now):
            if left < most:
                break
            left -= counted.number
            free_at = counted.until
        return free_at

    def outdated(self, now: datetime) -> list[datetime]:
        """Return the minutes that no longer count, by any host's clock; empty if all count."""
        oldest = now - _COUNTED_FOR - _CLOCKS_DIFFER
        return [minute for minute in self.by_minute if minute <= oldest]

    def unchanged(self) -> Condition:
        """Return the condition that nobody has counted an action under this cap since this count
        was read."""
        if self.version is None:
            return absent("version")
        return where("version", "=", self.version)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The count of one step, and the attempts that rest on it."""

    minute: datetime
    """The minute in which the step counts."""
    attempts: tuple[str, ...]
    """The ids of the attempts to carry out the step that have reserved it."""
    caps: tuple[str, ...]
    """The names of the caps that count it."""

    def stands(self, caps: Mapping[str, int], now: datetime) -> bool:
        """Return whether the step is counted now under exactly these caps, so that it needs no more
        room. It is false if one of the caps allows 0 actions, so that such a cap also holds back a
        counted step."""
        is_recent = self.minute + _COUNTED_FOR > now
        is_counted = is_recent and set(self.caps) == set(caps)
        return is_counted and 0 not in caps.values()


def count_of(cap: str, hours: list[datetime], items: Mapping[Key, Document]) -> CapCount:
    """Return the count of a cap from these items by key, which may lack any item: it then counts
    nothing, and has no version. `hours` are those of `old_release_hours`.

    Raises: CloudError if an item is damaged, so nothing may begin.
    """
    key = count_key(cap)
    item = items.get(key, {})
    try:
        version = int(item["version"]) if "version" in item else None
        by_minute = dict(_minutes(item))
    except DAMAGED as error:
        raise CloudError(f"{' / '.join(key)} cannot be read: {error}") from None
    old_hours = []
    for begins in hours:
        old_hours.append(_old_release_hour((old_release_pk(begins), cap), begins, items))
    return CapCount(cap, version, by_minute, tuple(old_hours))


def _old_release_hour(key: Key, begins: datetime, items: Mapping[Key, Document]) -> _OldReleaseHour:
    """Return the counter of the previous release at this key, which counts nothing if there is no
    item. The number of a closed counter is the one that was kept aside when it was closed. Raises:
    CloudError if it is damaged."""
    item = items.get(key, {})
    try:
        stored = int(item["taken"]) if "taken" in item else None
        is_closed = "before" in item
        number = stored or 0
        if is_closed:
            number = int(item["before"])
    except DAMAGED as error:
        raise CloudError(f"{' / '.join(key)} cannot be read: {error}") from None
    return _OldReleaseHour(begins, number, stored, is_closed)


def first_full_cap(counts: list[CapCount], caps: Mapping[str, int], now: datetime) -> str | None:
    """Return the name of the first of these counts' caps that has no room for another action at
    `now`; `None` if each has room. `caps` holds how many actions each cap allows, by its name."""
    for count in counts:
        if count.taken(now) >= caps[count.cap]:
            return count.cap
    return None


def reserving_writes(
    key: Key,
    reservation: Reservation | None,
    counts: list[CapCount],
    now: datetime,
    attempt: str,
    *,
    stands: bool,
) -> Iterator[Write]:
    """Yield the writes of one transaction: the reservation at `key`, and the count of each cap. The
    transaction fails if the reservation or a count has changed since it was read.

    `reservation` is the one as it was read; `None` if there is none. `stands` says that it counts
    the step already, so that its count is only moved to this minute.
    """
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    attempts = {attempt}
    moved_from = None
    if reservation is not None and stands:
        attempts |= set(reservation.attempts)
        moved_from = reservation.minute
    kept = {
        "at": f"{minute:{_MINUTE_FORMAT}}",
        "attempts": sorted(attempts),
        "caps": [count.cap for count in counts],
    }
    is_as_read = absent("at") if reservation is None else is_unchanged(reservation)
    # `hour` is an attribute of the previous release, which would give the reservation back by it.
    yield update(key, kept, is_as_read, until=now + _RESERVATION_KEPT_FOR, remove=["hour"])
    for count in counts:
        yield _counting(count, minute, moved_from, now)
        yield from _closing(count, now)


def _counting(
    count: CapCount, minute: datetime, moved_from: datetime | None, now: datetime
) -> Write:
    """Return the write that counts a step in `minute`, and no longer in `moved_from`: the minute in
    which the step was counted before, `None` if it was not counted."""
    add = {"version": 1}
    if moved_from != minute:
        add[minute_attribute(minute)] = 1
        if moved_from is not None:
            add[minute_attribute(moved_from)] = -1
    outdated = [minute_attribute(old_minute) for old_minute in count.outdated(now)]
    return update(
        count_key(count.cap), {}, count.unchanged(), add=add, remove=outdated, until=now + _KEPT_FOR
    )


def _closing(count: CapCount, now: datetime) -> Iterator[Write]:
    """Yield the writes that close the previous release's counters, so that it counts no more in
    these hours; none if all are closed. Each fails if its counter changed since it was read."""
    for hour in count.hours:
        if hour.is_closed:
            continue
        unchanged = absent("taken") if hour.stored is None else where("taken", "=", hour.stored)
        closed = {"before": hour.number, "taken": _COUNT_OF_CLOSED_HOUR}
        yield update(
            (old_release_pk(hour.begins), count.cap), closed, unchanged, until=now + _KEPT_FOR
        )


def is_unchanged(reservation: Reservation) -> Condition:
    """Return the condition that the reservation is stored with the minute and the attempts that
    were read."""
    at = where("at", "=", f"{reservation.minute:{_MINUTE_FORMAT}}")
    return at & where("attempts", "=", list(reservation.attempts))


def old_release_hours(now: datetime) -> list[datetime]:
    """Return the starts of the two clock hours (UTC) whose counters of the previous software
    release may still count: this hour first, then the one before."""
    this_hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [this_hour, this_hour - _HOUR]


def _minutes(item: Document) -> Iterator[tuple[datetime, int]]:
    """Yield each minute that the item counts, with its number of actions. Raises: one of the errors
    in `DAMAGED` (ValueError, TypeError and others) if one cannot be read."""
    for name, number in item.items():
        if name.startswith(_BY_MINUTE):
            yield minute_of(name.removeprefix(_BY_MINUTE)), int(number)


def minute_of(text: Any) -> datetime:
    """Return the minute of this name, such as `202611270930`. Raises: ValueError or TypeError if it
    is no such text."""
    return datetime.strptime(text, _MINUTE_FORMAT).replace(tzinfo=UTC)


def minute_attribute(minute: datetime) -> str:
    """Return the attribute that counts the actions of a minute, such as `taken_202611270930`."""
    return f"{_BY_MINUTE}{minute:{_MINUTE_FORMAT}}"


def count_key(cap: str) -> Key:
    """Return the key of the count of a cap: `CAPS#rolling`, and the name of the cap, such as
    `OWNER#alice`."""
    return COUNTS_PK, cap


def old_release_pk(begins: datetime) -> str:
    """Return the partition of the previous release's counters of the hour that begins then, as in
    `CAPS#2026112709`."""
    return f"CAPS#{begins:{_HOUR_FORMAT}}"


def reservation_key(execution_name: str, step: str) -> Key:
    """Return the key of the reservation of a step of an episode: `CAPS#<execution name>`, and the
    name of the step, such as `stop`."""
    return f"CAPS#{execution_name}", step
