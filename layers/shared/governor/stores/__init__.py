"""What is kept: one class per aggregate, over one table (`governor.stores.table`).

A use case asks only for those it uses. Every change that matters is a conditional write and raises
`ConflictError` when another one was first. These modules must not know how the table is reached.
"""

from __future__ import annotations

from datetime import datetime

from governor.stores.brakes import Brakes
from governor.stores.deliveries import Deliveries
from governor.stores.episodes import Episodes
from governor.stores.events import Burst, EventLog
from governor.stores.instances import Instances
from governor.stores.ledger import Ledger
from governor.stores.sweeps import Sweeps
from governor.stores.table import put

_POLICY = ("POLICY", "ACCEPTED")


class StateTable(Brakes, Sweeps, Instances, Episodes, Ledger, Deliveries):
    """All but the event log in one object, for use cases that need several; and the accepted policy."""

    def keep_policy(self, text: str, at: datetime) -> None:
        """Keep the text of an accepted policy document, to fall back on where the next cannot be used."""
        self._table.write(put(_POLICY, {"text": text, "at": at}))

    def kept_policy(self) -> str | None:
        item = self._table.get(_POLICY)
        return str(item["text"]) if item else None


__all__ = [
    "Brakes",
    "Burst",
    "Deliveries",
    "Episodes",
    "EventLog",
    "Instances",
    "Ledger",
    "StateTable",
    "Sweeps",
]
