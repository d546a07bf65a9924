"""Stores the findings about GPUs that owners were already notified of.

It keeps people from getting a finding twice, and decides nothing about the finding.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from governor.core.instance import Target
from governor.table.keys import target_pk
from governor.table.table import Store, put

_TOLD = "TOLD#"


class Findings(Store):
    """Keys that are kept for a while, as of findings that people were notified of. Every method
    may raise CloudError."""

    def known_keys(self, target: Target, now: datetime) -> frozenset[str]:
        """Return the keys of the target that `note_known` has stored and whose time is not over;
        empty if there are none. Raises: CloudError."""
        items = self._table.query(target_pk(target), _TOLD)
        keys: set[str] = set()
        for item in items:
            if item["expires_at_epoch"] > now.timestamp():
                keys.add(item["sk"].removeprefix(_TOLD))
        return frozenset(keys)

    def note_known(self, target: Target, keys: Collection[str], until: datetime) -> None:
        """Store that these keys are known until then. A key that is known already gets the new end,
        an earlier one, too; without keys nothing is written. Raises: CloudError."""
        pk = target_pk(target)
        self._table.write_all(
            [put((pk, f"{_TOLD}{key}"), {}, until=until) for key in sorted(set(keys))]
        )
