"""Resources that the daily scan found and that are not governed, as a report shows them.

The room `scan` makes it. Its amounts are never added to those of what GPU Governor does.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from governor.core.units import Usd, UtcDatetime
from governor.fleet.model import Payer


@dataclass(frozen=True, slots=True)
class FoundWaste:
    """Resources that cost money for accelerators and that nobody is asked about."""

    headline: str = "Nothing has been scanned yet."
    is_scanned: bool = False
    """False before the first scan: the headline then says all that people need."""
    remarks: tuple[str, ...] = ()
    """Sentences that limit the headline."""
    lines: tuple[str, ...] = ()
    """The most expensive waste, a sentence each."""
    not_read: tuple[str, ...] = ()
    """Sentences about what could not be read."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    """All resources, the most expensive waste first, with the values of `columns`."""
    waste_usd_per_month: Usd = Decimal()
    """The sum of the first column of all rows."""
    weak_waste_usd_per_month: Usd = Decimal()
    unpriced_waste: int = 0
    """How many wasted resources the sums leave out, because their price is not known."""
    resources: int = 0
    wasted: int = 0
    left_out: int = 0
    """Resources that are in no row and no sum."""
    is_complete: bool = True
    scanned_at: UtcDatetime | None = None
    """The time of the oldest scan; `None` if nothing was scanned."""
    wasteful: frozenset[Payer] = frozenset()
    """The owners and projects of the waste."""

    @property
    def summary(self) -> dict[str, object]:
        """Return the sums as a document, without the rows."""
        return {
            "scanned_at": self.scanned_at,
            "is_complete": self.is_complete,
            "waste_usd_per_month": self.waste_usd_per_month,
            "weak_waste_usd_per_month": self.weak_waste_usd_per_month,
            "unpriced_waste": self.unpriced_waste,
            "resources": self.resources,
            "wasted": self.wasted,
            "left_out": self.left_out,
        }

    @property
    def document(self) -> dict[str, object]:
        """Return the sums, the rows by column, and what could not be read, as a document."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {**self.summary, "rows": rows, "not_read": list(self.not_read)}


NOTHING_FOUND = FoundWaste()
