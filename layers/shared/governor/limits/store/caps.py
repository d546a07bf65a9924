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
from collections.abc import Iterable, Mapping
from datetime import datetime

from governor.core.errors import CloudError, Throttled
from governor.limits.store.cap_items import (
    COUNTS_PK,
    CapCount,
    Reservation,
    count_key,
    count_of,
    first_full_cap,
    is_unchanged,
    minute_attribute,
    minute_of,
    old_release_hours,
    old_release_pk,
    reservation_key,
    reserving_writes,
)
from governor.table.table import DAMAGED, Document, Key, Store, update

_log = logging.getLogger(__name__)
_ATTEMPTS = 200
"""An attempt fails if another one has succeeded meanwhile, so this is far more than ever
happens."""


class ActionCaps(Store):
    """Counts steps against their caps.

    In each method, `execution_name` is that of the episode, `step` the name of its step, and
    `attempt` the id of one try to carry it out. `caps` holds how many actions each cap allows, by
    the name of the cap. Every method may raise CloudError unless it says otherwise.
    """

    def reserve(
        self, execution_name: str, step: str, caps: Mapping[str, int], now: datetime, attempt: str
    ) -> str | None:
        """Count a step against its caps, and return `None`. If a cap has no room, count nothing,
        and return the name of that cap.

        A step counts once while its reservation stands, however often it is attempted: a further
        attempt needs no room, moves the count to this minute and rests on it, too.

        Raises: Throttled if too many others reserved at the same time, and nothing is counted;
        CloudError.
        """
        for _ in range(_ATTEMPTS):
            reservation = self._reservation(execution_name, step)
            counts = self._counts(caps, now)
            # A step that is counted already needs no room.
            stands = reservation is not None and reservation.stands(caps, now)
            if not stands:
                full_cap = first_full_cap(counts, caps, now)
                if full_cap is not None:
                    return full_cap
            writes = reserving_writes(
                reservation_key(execution_name, step),
                reservation,
                counts,
                now,
                attempt,
                stands=stands,
            )
            if self._table.try_transaction(*writes):
                return None
        raise Throttled(f"{execution_name}: too many actions are counted at the same time")

    def give_back(self, execution_name: str, step: str, attempt: str) -> None:
        """Undo what this attempt reserved: the count ends with the last attempt that rests on it.

        While other attempts rest on the count, it stays in the minute of the newest attempt, which
        may be this one. It raises no CloudError: a failure is only logged, and the count then stays
        until it leaves the window. In both cases the count can only hold actions back.
        """
        self._give_back(execution_name, step, attempt=attempt)

    def give_back_all(self, execution_name: str, step: str) -> None:
        """Undo the count of a step whose call certainly had no effect, whatever attempts rest on
        the count. It raises no CloudError: a failure is only logged.

        Call it only for the attempt whose note stands: no other attempt may call EC2 before that
        note is taken back, and earlier ones had no effect, or the step would not have been noted
        again.
        """
        self._give_back(execution_name, step, attempt=None)

    def _give_back(self, execution_name: str, step: str, *, attempt: str | None) -> None:
        """Undo what one attempt reserved, or all attempts (`None`), trying again while others
        change the same counts. It raises no CloudError: a failure is only logged, and the step then
        stays counted until it leaves the window."""
        try:
            for _ in range(_ATTEMPTS):
                if self._try_give_back(execution_name, step, attempt):
                    return
        except CloudError:
            _log.warning(
                "%s: %s stays counted against its caps", execution_name, step, exc_info=True
            )
            return
        _log.warning("%s: %s stays counted against its caps", execution_name, step)

    def full_cap(
        self, execution_name: str, step: str, caps: Mapping[str, int], now: datetime
    ) -> str | None:
        """Return the name of a cap that has no room for the step; `None` if each has room, or the
        step is counted already. It only reads, and counts nothing. Raises: CloudError."""
        reservation = self._reservation(execution_name, step)
        if reservation is not None and reservation.stands(caps, now):
            return None
        return first_full_cap(self._counts(caps, now), caps, now)

    def room_at(self, cap: str, most: int, now: datetime) -> datetime | None:
        """Return when the cap has room for another action: now if it has room already. `most` is
        how many actions it allows.

        Return `None` if `most` is 0, since then waiting does not help. Raises: CloudError.
        """
        [count] = self._counts([cap], now)
        return count.room_at(most, now)

    def used(self, now: datetime) -> dict[str, int]:
        """Return how many actions count now, by the name of the cap; caps that count none are left
        out. Raises: CloudError."""
        hours = old_release_hours(now)
        pks = [COUNTS_PK, *(old_release_pk(begins) for begins in hours)]
        items: dict[Key, Document] = {}
        for pk in pks:
            for item in self._table.query(pk):
                items[pk, str(item["sk"])] = item
        caps = {cap for _, cap in items}
        taken_by_cap: dict[str, int] = {}
        for cap in sorted(caps):
            number = count_of(cap, hours, items).taken(now)
            if number > 0:
                taken_by_cap[cap] = number
        return taken_by_cap

    def _try_give_back(self, execution_name: str, step: str, attempt: str | None) -> bool:
        """Try once to undo what one attempt reserved, or all attempts (`None`). While other
        attempts rest on the reservation, only the attempt is removed, and the count stays.

        Return true if nothing of it is reserved any more, or was before; false, with nothing
        changed, if others changed the reservation meanwhile. Raises: CloudError.
        """
        reservation = self._reservation(execution_name, step)
        if reservation is None:
            return True
        if attempt is not None and attempt not in reservation.attempts:
            return True
        key = reservation_key(execution_name, step)
        remaining_attempts: list[str] = []
        if attempt is not None:
            remaining_attempts = [known for known in reservation.attempts if known != attempt]
        if remaining_attempts:
            without_attempt = update(
                key, {"attempts": remaining_attempts}, is_unchanged(reservation)
            )
            return self._table.try_write(without_attempt)
        free = update(key, {}, is_unchanged(reservation), remove=["at", "attempts", "caps"])
        # No version is checked: counting less takes nobody's room.
        one_less = {minute_attribute(reservation.minute): -1}
        counting = [update(count_key(cap), {}, add=one_less) for cap in reservation.caps]
        return self._table.try_transaction(free, *counting)

    def _counts(self, caps: Iterable[str], now: datetime) -> list[CapCount]:
        """Return the count of each cap, which is empty for one that has counted nothing yet.
        Raises: CloudError, also if one is damaged."""
        hours = old_release_hours(now)
        keys: list[Key] = []
        for cap in caps:
            keys.append(count_key(cap))
            keys.extend((old_release_pk(begins), cap) for begins in hours)
        item_by_key = dict(zip(keys, self._table.get_each(keys), strict=True))
        return [count_of(cap, hours, item_by_key) for cap in caps]

    def _reservation(self, execution_name: str, step: str) -> Reservation | None:
        """Return the reservation of a step; `None` if there is none, or it was given back. Raises:
        CloudError, also if it is damaged."""
        key = reservation_key(execution_name, step)
        item = self._table.get(key) or {}
        if "at" not in item:
            return None
        try:
            return Reservation(minute_of(item["at"]), tuple(item["attempts"]), tuple(item["caps"]))
        except DAMAGED as error:
            raise CloudError(f"{' / '.join(key)} cannot be read: {error}") from None
