"""The last policy document that was accepted."""

from __future__ import annotations

from datetime import datetime

from governor.adapters.table.client import Key, Store, put
from governor.domain.units import as_utc

_KEY: Key = ("POLICY", "ACCEPTED")


class PolicyStore(Store):
    """The text to fall back on where the document in force cannot be used."""

    def keep_policy(self, text: str, at: datetime) -> None:
        """Keep the text of an accepted policy document."""
        self._table.write(put(_KEY, {"text": text, "at": as_utc(at).isoformat()}))

    def kept_policy(self) -> str | None:
        """Return the last text that was kept."""
        item = self._table.get(_KEY)
        return str(item["text"]) if item else None
