"""Adds ungoverned resources, which the daily scans found, to the reports of costs and savings."""

from __future__ import annotations

from collections.abc import Sequence

from governor.core.instance import Target
from governor.core.units import UtcDatetime, plural, usd
from governor.fleet.model import FleetPage
from governor.fleet.store import Fleet
from governor.money.model.found import FoundWaste
from governor.scan.documents import COLUMNS, rows_of
from governor.scan.model import Row, Snapshot
from governor.scan.rules import refusals_of
from governor.scan.snapshot import Sees, Ungoverned, ungoverned
from governor.scan.store import Scans
from governor.scan.words import (
    PREPAID,
    price_word,
    refusal_text,
    remarks,
    ungoverned_headline,
)

_MOST_NAMED = 5
"""Resources named in the text of a report, the most expensive waste first."""


class FoundByScans:
    """Reads the last scans and sweeps of these targets, once, for several readers of reports."""

    def __init__(self, scan_store: Scans, fleet_store: Fleet, targets: Sequence[Target]) -> None:
        """Keep what to read, and read nothing yet: the first report reads it."""
        self._scan_store = scan_store
        self._fleet_store = fleet_store
        self._targets = targets
        self._snapshots: Sequence[Snapshot] = ()
        self._fleet: Sequence[FleetPage] = ()
        self._is_read = False

    def __call__(self, now: UtcDatetime, sees: Sees) -> FoundWaste:
        """Return what the last scans found, of what a reader sees. Raises: CloudError."""
        if not self._is_read:
            self._snapshots = self._scan_store.snapshots()
            self._fleet = self._fleet_store.pages()
            self._is_read = True
        return found_waste(ungoverned(self._snapshots, self._fleet, self._targets, now, sees))


def found_waste(found: Ungoverned) -> FoundWaste:
    """Return what the scans found as a report shows it: the same rows, sums and sentences as on the
    page. If nothing was found, the sums are 0, and the headline says so."""
    report = found.report
    limits = remarks(report)
    if found.left_out:
        left_out = plural(found.left_out, "more resource")
        limits.append(f"{left_out} are in no list and no sum.")
    if found.late:
        limits.append(f"{plural(len(found.late), 'place was', 'places were')} scanned days ago.")
    # The rows are sorted, so the first ones are the most expensive.
    wasted_rows = [row for row in report.rows if row.judgment.finding.is_waste]
    return FoundWaste(
        headline=ungoverned_headline(report, is_scanned=found.is_scanned),
        is_scanned=found.is_scanned,
        remarks=tuple(limits),
        lines=tuple(_line(row) for row in wasted_rows[:_MOST_NAMED]),
        not_read=tuple(refusal_text(refusal) for refusal in refusals_of(report.unread)),
        columns=COLUMNS,
        rows=rows_of(report),
        waste_usd_per_month=report.waste_usd_per_month,
        weak_waste_usd_per_month=report.weak_waste_usd_per_month,
        unpriced_waste=report.unpriced_waste,
        resources=len(report.rows),
        wasted=len(wasted_rows),
        left_out=found.left_out,
        is_complete=report.is_complete,
        scanned_at=report.scanned_at if report.places else None,
        wasteful=found.wasteful,
    )


def _amount(row: Row) -> str:
    """Return the price of a month; `prepaid`, or `price unknown`, in its stead."""
    if price_word(row) == PREPAID:
        return PREPAID
    if row.usd_per_month is None:
        return "price unknown"
    return f"{usd(row.usd_per_month)} a month"


def _line(row: Row) -> str:
    """Return the sentence about a wasted resource: its name, place, price and evidence."""
    resource = row.resource
    name = resource.name or resource.resource_id
    amount = _amount(row)
    judgment = row.judgment
    why = f"{judgment.finding.value}, {judgment.strength.value} evidence: {judgment.evidence}"
    return f"{name} ({resource.what}) in {resource.target}: {amount}, {why}"
