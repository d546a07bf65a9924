"""Notices to owners about expiring snapshots, and each snapshot's end: a partition a target."""

from __future__ import annotations

from collections.abc import Iterable

from governor.domain.episode.expiry import Expiry
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime
from governor.stores.keys import place
from governor.stores.table import Key, Store, absent, present, put, update, where

_GOES_ON = present() & (absent("ended_at") | where("ended_at", "=", None))


class Expiries(Store):
    def expiries(self, target: Target) -> list[Expiry]:
        return self._table.read_all(Expiry, _pk(target))

    def note_expiring(self, target: Target, found: Iterable[Expiry]) -> None:
        """Note that their owner was told, in place of what is known of them."""
        self._table.write_all([put(_key(target, one), one) for one in found])

    def begin_deletion(self, target: Target, one: Expiry, at: UtcDatetime) -> bool:
        """Note that EC2 is asked now; false where it was told of anew, or has ended, since `one` was read."""
        same = _GOES_ON & where("noticed_at", "=", one.noticed_at)
        begun = {"begun_at": at, "what": "snapshot deletion begun"}
        return self._table.holds(update(_key(target, one), begun, same))

    def end_deletion(
        self, target: Target, one: Expiry, at: UtcDatetime, what: str, request_id: str | None
    ) -> None:
        """Note its end, once."""
        ended = {"ended_at": at, "what": what, "request_id": request_id}
        self._table.holds(update(_key(target, one), ended, _GOES_ON))


def _pk(target: Target) -> str:
    return f"EXPIRY#{place(target)}"


def _key(target: Target, one: Expiry) -> Key:
    return _pk(target), f"{one.episode}#{one.snapshot_id}"
