"""Stores which owners were notified of expiring snapshots, and the end of each snapshot.

It records only; `remediation.expire_snapshots` deletes snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable

from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.episode.rules.expiry import Expiry
from governor.limits.store.pauses import not_paused
from governor.table import keys
from governor.table.table import Key, Store, absent, present, put, update, where

_GOES_ON = present() & (absent("ended_at") | where("ended_at", "=", None))


class Expiries(Store):
    """Notices to owners about expiring snapshots, and each snapshot's end. Each target has its own
    partition. Every method may raise CloudError."""

    def expiries(self, target: Target) -> list[Expiry]:
        """Return all notices about snapshots of a target; empty if there are none. Raises:
        CloudError, also if one is damaged."""
        return self._table.read_all(Expiry, f"EXPIRY#{keys.place(target)}")

    def note_expiring(self, target: Target, expiries: Iterable[Expiry]) -> None:
        """Note that the owner was notified of these snapshots. Earlier notices about them are
        replaced. Raises: CloudError; some may be noted then."""
        self._table.write_all([put(_expiry_key(target, expiry), expiry) for expiry in expiries])

    def begin_deletion(self, target: Target, expiry: Expiry, at: UtcDatetime) -> bool:
        """Note that EC2 is asked now to delete the snapshot, and return true. It deletes nothing
        itself.

        Return false, with nothing noted, while everything is paused, and if the owner was notified
        again, or the snapshot was deleted, since `expiry` was read. Raises: CloudError.
        """
        is_unchanged = _GOES_ON & where("noticed_at", "=", expiry.noticed_at)
        begun = {"begun_at": at, "what": "snapshot deletion begun"}
        beginning = update(_expiry_key(target, expiry), begun, is_unchanged)
        return self._table.try_transaction(beginning, not_paused())

    def end_deletion(
        self, target: Target, expiry: Expiry, at: UtcDatetime, what: str, request_id: str | None
    ) -> None:
        """Note the end of the snapshot, once; later ends are not noted. `what` says how it ended;
        `request_id` is that of EC2's answer, `None` without one. Raises: CloudError."""
        ended = {"ended_at": at, "what": what, "request_id": request_id}
        self._table.try_write(update(_expiry_key(target, expiry), ended, _GOES_ON))


def _expiry_key(target: Target, expiry: Expiry) -> Key:
    """Return the key of the notice about one snapshot."""
    return f"EXPIRY#{keys.place(target)}", f"{expiry.episode}#{expiry.snapshot_id}"
