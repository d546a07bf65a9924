"""Caps on actions per hour: how many stops and terminations began in the last 60 minutes, in all,
in an account or of an owner. This module must not know what an action is.

A step reserves room under each of its caps before EC2 is called: it is counted, or a cap is
reached.

Each cap has one item, which counts actions by the minute, so its size does not grow with the cap.
Each step of an episode has one item, its reservation: the minute in which it counts, its caps, and
the attempts that rest on it. Everything that counts an action is one transaction on the versions
that were read, so no two writers can take the same room.

For one release the previous release's counters, one a clock hour, count too. Each counts in full
until 60 minutes after its hour. The first reservation that meets such a counter closes it: it keeps
the number aside and sets the counter above every cap, so a function of the previous release that
still runs takes nothing more. A reservation of that release stays in its hour's counter, and its
step is counted again. So after an update a step may count twice, but none is missed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from governor.core.errors import CloudError, Throttled
from governor.table.table import (
    DAMAGED,
    Condition,
    Document,
    Key,
    Store,
    Write,
    absent,
    update,
    where,
)

_log = logging.getLogger(__name__)

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
_ATTEMPTS = 200
"""An attempt fails if another one has succeeded meanwhile, so this is far more than ever
happens."""

_PK = "CAPS#rolling"
_BY_MINUTE = "taken_"
_MINUTE_FORMAT = "%Y%m%d%H%M"
_HOUR_FORMAT = "%Y%m%d%H"
_CLOSED = 1_000_000
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
class _Count:
    """The count of one cap, as it was read. `version` is `None` if the cap has no item yet."""

    cap: str
    version: int | None
    by_minute: Mapping[datetime, int]
    hours: tuple[_OldReleaseHour, ...]

    def counted(self, now: datetime) -> list[_Counted]:
        """Return the actions that count now, by their minute or hour; those that leave the window
        first come first. Return an empty list if there are none."""
        known: list[_Counted] = []
        for minute, number in self.by_minute.items():
            known.append(_Counted(number, minute + _COUNTED_FOR))
        for hour in self.hours:
            known.append(_Counted(hour.number, hour.begins + _HOUR + WINDOW))
        still_counted = [counted for counted in known if counted.until > now]
        return sorted(still_counted, key=lambda counted: counted.until)

    def taken(self, now: datetime) -> int:
        """Return how many actions count now."""
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
        """Return the condition that nobody has counted since this count was read."""
        if self.version is None:
            return absent("version")
        return where("version", "=", self.version)


@dataclass(frozen=True, slots=True)
class _Reservation:
    """The count of one step, and the attempts that rest on it."""

    minute: datetime
    """The minute in which the step counts."""
    attempts: tuple[str, ...]
    """The ids of the attempts to carry out the step that have reserved it."""
    caps: tuple[str, ...]
    """The names of the caps that count it."""

    def stands(self, caps: Mapping[str, int], now: datetime) -> bool:
        """Return whether the step is counted under exactly these caps, so that it needs no more
        room. A cap of 0 also holds back a counted step."""
        is_recent = self.minute + _COUNTED_FOR > now
        is_counted = is_recent and set(self.caps) == set(caps)
        return is_counted and 0 not in caps.values()


class ActionCaps(Store):
    """Counts steps against their caps.

    In each method, `name` is the execution name of the episode, `step` the name of its step, and
    `attempt` the id of one try to carry it out. `caps` holds how many actions each cap allows, by
    the name of the cap. Every method may raise CloudError unless it says otherwise.
    """

    def reserve(
        self, name: str, step: str, caps: Mapping[str, int], now: datetime, attempt: str
    ) -> str | None:
        """Count a step against its caps, and return `None`; or return the cap that is reached.

        A step counts once while its reservation stands, however often it is attempted: a further
        attempt moves the count to this minute and rests on it, too.

        Raises:
            Throttled: too many others reserved at the same time. Nothing is counted.
        """
        for _ in range(_ATTEMPTS):
            reservation = self._reservation(name, step)
            counts = [self._count(cap, now) for cap in caps]
            stands = reservation is not None and reservation.stands(caps, now)
            if not stands:
                full_cap = _full(counts, caps, now)
                if full_cap is not None:
                    return full_cap
            writes = _reserving(
                _reservation_key(name, step), reservation, counts, now, attempt, stands=stands
            )
            if self._table.try_transaction(*writes):
                return None
        raise Throttled(f"{name}: too many actions are counted at the same time")

    def give_back(self, name: str, step: str, attempt: str) -> None:
        """Undo what this attempt reserved: the count ends with the last attempt that rests on it.

        While other attempts rest on the count, it stays in the minute of the newest attempt, which
        may be this one. A failure is only logged: the count then stays until it leaves the window.
        In both cases the count can only hold actions back.
        """
        self._give_back(name, step, attempt=attempt)

    def give_back_all(self, name: str, step: str) -> None:
        """Undo the count of a step whose call certainly had no effect, whatever attempts rest on
        the count. A failure is only logged.

        Only the attempt whose note stands may call this: no other attempt may call EC2 before that
        note is taken back, and earlier ones had no effect, or the step would not have been noted
        again.
        """
        self._give_back(name, step, attempt=None)

    def _give_back(self, name: str, step: str, *, attempt: str | None) -> None:
        """Give back what one attempt reserved, or all attempts (`None`). A failure is only
        logged."""
        is_given_back = False
        try:
            for _ in range(_ATTEMPTS):
                is_given_back = self._is_given_back(name, step, attempt)
                if is_given_back:
                    break
        except CloudError:
            _log.warning("%s: %s stays counted against its caps", name, step, exc_info=True)
            return
        if not is_given_back:
            _log.warning("%s: %s stays counted against its caps", name, step)

    def capped(self, name: str, step: str, caps: Mapping[str, int], now: datetime) -> str | None:
        """Return the cap that is reached; `None` if each has room, or the step is counted already.
        Nothing is counted."""
        reservation = self._reservation(name, step)
        if reservation is not None and reservation.stands(caps, now):
            return None
        return _full([self._count(cap, now) for cap in caps], caps, now)

    def room_at(self, cap: str, most: int, now: datetime) -> datetime | None:
        """Return when the cap has room for another action: now if it has room already.

        Return `None` if the cap allows no action (`most` is 0), since then waiting does not help.
        """
        return self._count(cap, now).room_at(most, now)

    def used(self, now: datetime) -> dict[str, int]:
        """Return how many actions count now, by the name of the cap, without caps that count
        none."""
        hours = _old_release_hours(now)
        pks = [_PK, *(_hour_pk(begins) for begins in hours)]
        items: dict[Key, Document] = {}
        for pk in pks:
            for item in self._table.query(pk):
                items[pk, str(item["sk"])] = item
        caps = {cap for _, cap in items}
        taken_by_cap: dict[str, int] = {}
        for cap in sorted(caps):
            number = _count_of(cap, hours, items).taken(now)
            if number > 0:
                taken_by_cap[cap] = number
        return taken_by_cap

    def _is_given_back(self, name: str, step: str, attempt: str | None) -> bool:
        """Try once to give back one attempt, or all attempts (`None`).

        Return true if nothing of it is reserved now; false if others changed the reservation or a
        count meanwhile.
        """
        reservation = self._reservation(name, step)
        if reservation is None:
            return True
        if attempt is not None and attempt not in reservation.attempts:
            return True
        key = _reservation_key(name, step)
        remaining_attempts: list[str] = []
        if attempt is not None:
            remaining_attempts = [known for known in reservation.attempts if known != attempt]
        if remaining_attempts:
            without_attempt = update(key, {"attempts": remaining_attempts}, _unchanged(reservation))
            return self._table.try_write(without_attempt)
        free = update(key, {}, _unchanged(reservation), remove=["at", "attempts", "caps"])
        # No version is checked: counting less takes nobody's room.
        counting = [
            update(_key(cap), {}, add={_name(reservation.minute): -1}) for cap in reservation.caps
        ]
        return self._table.try_transaction(free, *counting)

    def _count(self, cap: str, now: datetime) -> _Count:
        """Return the count of a cap, also of one that has counted nothing yet."""
        hours = _old_release_hours(now)
        keys = [_key(cap), *((_hour_pk(begins), cap) for begins in hours)]
        items = {key: self._table.get(key) or {} for key in keys}
        return _count_of(cap, hours, items)

    def _reservation(self, name: str, step: str) -> _Reservation | None:
        """Return the reservation of a step; `None` if there is none, or it was given back."""
        key = _reservation_key(name, step)
        item = self._table.get(key) or {}
        if "at" not in item:
            return None
        try:
            return _Reservation(_moment(item["at"]), tuple(item["attempts"]), tuple(item["caps"]))
        except DAMAGED as error:
            raise CloudError(f"{' / '.join(key)} cannot be read: {error}") from None


def _count_of(cap: str, hours: list[datetime], items: Mapping[Key, Document]) -> _Count:
    """Return the count of a cap from these items.

    Raises: CloudError where an item cannot be read, so nothing may begin.
    """
    key = _key(cap)
    item = items.get(key, {})
    try:
        version = int(item["version"]) if "version" in item else None
        by_minute = dict(_minutes(item))
    except DAMAGED as error:
        raise CloudError(f"{' / '.join(key)} cannot be read: {error}") from None
    old_hours = tuple(_old_release_hour((_hour_pk(begins), cap), begins, items) for begins in hours)
    return _Count(cap, version, by_minute, old_hours)


def _old_release_hour(key: Key, begins: datetime, items: Mapping[Key, Document]) -> _OldReleaseHour:
    """Return the counter of the previous release at this key, which counts nothing if there is no
    item. Raises: CloudError if it cannot be read."""
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


def _full(counts: list[_Count], caps: Mapping[str, int], now: datetime) -> str | None:
    """Return the first cap without room; `None` if each has room."""
    for count in counts:
        if count.taken(now) >= caps[count.cap]:
            return count.cap
    return None


def _reserving(
    key: Key,
    reservation: _Reservation | None,
    counts: list[_Count],
    now: datetime,
    attempt: str,
    *,
    stands: bool,
) -> Iterator[Write]:
    """Yield the writes of one transaction: the reservation at `key`, and the count of each cap.

    `reservation` is the one as it was read; `None` if there is none. `stands` says that it counts
    the step already, so that its count is only moved.
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
    is_unchanged = absent("at") if reservation is None else _unchanged(reservation)
    # `hour` is an attribute of the previous release, which would give the reservation back by it.
    yield update(key, kept, is_unchanged, until=now + _RESERVATION_KEPT_FOR, remove=["hour"])
    for count in counts:
        yield _counting(count, minute, moved_from, now)
        yield from _closing(count, now)


def _counting(count: _Count, minute: datetime, moved_from: datetime | None, now: datetime) -> Write:
    """Return the write that counts a step in `minute`, and no longer in `moved_from`: the minute in
    which the step was counted before, `None` if it was not counted."""
    add = {"version": 1}
    if moved_from != minute:
        add[_name(minute)] = 1
        if moved_from is not None:
            add[_name(moved_from)] = -1
    outdated = [_name(old_minute) for old_minute in count.outdated(now)]
    return update(
        _key(count.cap), {}, count.unchanged(), add=add, remove=outdated, until=now + _KEPT_FOR
    )


def _closing(count: _Count, now: datetime) -> Iterator[Write]:
    """Yield the writes that keep the previous release from counting more in these hours."""
    for hour in count.hours:
        if hour.is_closed:
            continue
        unchanged = absent("taken") if hour.stored is None else where("taken", "=", hour.stored)
        closed = {"before": hour.number, "taken": _CLOSED}
        yield update((_hour_pk(hour.begins), count.cap), closed, unchanged, until=now + _KEPT_FOR)


def _unchanged(reservation: _Reservation) -> Condition:
    """Return the condition that the reservation is as it was read."""
    at = where("at", "=", f"{reservation.minute:{_MINUTE_FORMAT}}")
    return at & where("attempts", "=", list(reservation.attempts))


def _old_release_hours(now: datetime) -> list[datetime]:
    """Return the starts of the clock hours whose counters may still count: this one and the
    last."""
    this_hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [this_hour, this_hour - _HOUR]


def _minutes(item: Document) -> Iterator[tuple[datetime, int]]:
    """Yield each minute that the item counts, with its number of actions."""
    for name, number in item.items():
        if name.startswith(_BY_MINUTE):
            yield _moment(name.removeprefix(_BY_MINUTE)), int(number)


def _moment(text: Any) -> datetime:
    """Return the minute of this name. Raises: as `DAMAGED`."""
    return datetime.strptime(text, _MINUTE_FORMAT).replace(tzinfo=UTC)


def _name(minute: datetime) -> str:
    """Return the attribute that counts the actions of a minute."""
    return f"{_BY_MINUTE}{minute:{_MINUTE_FORMAT}}"


def _key(cap: str) -> Key:
    """Return the key of the count of a cap."""
    return _PK, cap


def _hour_pk(begins: datetime) -> str:
    """Return the partition of the previous release's counters of an hour."""
    return f"CAPS#{begins:{_HOUR_FORMAT}}"


def _reservation_key(name: str, step: str) -> Key:
    """Return the key of the reservation of a step."""
    return f"CAPS#{name}", step
