"""Claims on work that several callers may begin, so that only one of them does it.

Claims are sent once, with a short timeout: a warning leaves two minutes, and the caller can do
without an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from governor.core.errors import CloudError, ConflictError
from governor.core.units import in_parts
from governor.table.table import TRANSACTION, Condition, HastyStore, Write, is_over, update

_CANCELLED = "TransactionCanceledException"


class Claims(HastyStore):
    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """Claim the work that `key` names; return false if another caller has claimed it. The claim
        lapses after `lease` unless the work is `done`."""
        return self._hasty.holds(_taking(key, now + lease, is_over(now)))

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """Claim the work that different `keys` name; return those that this caller shall do."""
        claimed: set[str] = set()
        for part in in_parts(keys, TRANSACTION):
            try:
                self._hasty.transact(*(_taking(key, now + lease, is_over(now)) for key in part))
            except (ConflictError, CloudError) as error:
                # A refusal says that no claim was made; a lost answer says nothing about them.
                if isinstance(error, CloudError) and error.code != _CANCELLED:
                    raise
                claimed.update(key for key in part if self.claim(key, now, lease))
            else:
                claimed.update(part)
        return frozenset(claimed)

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        self._hasty.write(_taking(key, now + keep))

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        self._hasty.write_all([_taking(key, now + keep) for key in keys])


def _taking(key: str, until: datetime, condition: Condition | None = None) -> Write:
    return update((f"EVENT#{key}", "SEEN"), {}, condition, until=until)
