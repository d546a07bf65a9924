"""Claims (leases) on work that several callers may begin, so that only one of them does it.

The client sends each claim once, with a short timeout: a warning leaves two minutes, and the caller
can act without the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from governor.core.errors import CloudError, ConflictError
from governor.core.units import in_parts
from governor.table.table import TRANSACTION, Condition, ShortTimeoutStore, Write, is_over, update

_CANCELED = "TransactionCanceledException"


class Claims(ShortTimeoutStore):
    """Claims by key. Every method may raise CloudError."""

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """Claim the work that `key` names, and return true. Return false if another caller has
        claimed or done it. The claim lapses after `lease` unless `done` is called before. Raises:
        CloudError."""
        return self._short_timeout.try_write(_taking(key, now + lease, is_over(now)))

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """Claim the work that different `keys` name. Return the keys that this caller has claimed,
        and whose work it must do; empty if others have claimed all. Claims lapse after `lease`.

        Raises: CloudError; some of the claims may stand then.
        """
        claimed: set[str] = set()
        for part in in_parts(keys, TRANSACTION):
            try:
                taking = [_taking(key, now + lease, is_over(now)) for key in part]
                self._short_timeout.transact(*taking)
            except (ConflictError, CloudError) as error:
                # If the transaction was refused, no claim was made, so each key is claimed by
                # itself. After any other error the claims may stand, so the error is raised.
                if isinstance(error, CloudError) and error.code != _CANCELED:
                    raise
                claimed.update(key for key in part if self.claim(key, now, lease))
            else:
                claimed.update(part)
        return frozenset(claimed)

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        """Note that the work is done. Until the time `keep` is over, nobody can claim the key.
        Raises: CloudError."""
        self._short_timeout.write(_taking(key, now + keep))

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        """Note that the work of each key is done. Until the time `keep` is over, nobody can claim
        these keys. Without keys nothing is written. Raises: CloudError; some of the notes may be
        missing then."""
        self._short_timeout.write_all([_taking(key, now + keep) for key in keys])


def _taking(key: str, until: datetime, condition: Condition | None = None) -> Write:
    """Return the write that takes a key until a time, under `EVENT#<key>`, `SEEN`. It writes
    nothing by itself. Without a condition, the write replaces any claim."""
    return update((f"EVENT#{key}", "SEEN"), {}, condition, until=until)
