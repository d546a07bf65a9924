"""The result of the daily scan of an account and Region, as it is kept for pages and reports.

The rows, their sums and their words are those of `governor scan`. This module reads and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from governor.core.instance import Target
from governor.core.units import Usd, UtcDatetime
from governor.policy.model.contacts import Ownership
from governor.policy.rules.owners import owner_of
from governor.scan.model import Report, Resource, Row, ScannedRow, Snapshot, Unread
from governor.scan.rules import by_waste
from governor.scan.unread import EVERYTHING

MOST_ROWS = 5_000
"""The most rows that are kept of one account and Region, the most expensive waste first."""
LATE = timedelta(hours=49)
"""A place is scanned once a day: an older scan means that two were missed."""
NOT_SCANNED = "it was not scanned yet; it is scanned once a day"
_OF_THE_LOOP = ("ec2-instance", "stopped-instance")
"""The kinds of resource that the governor itself asks about, stops and counts."""


def is_governed(row: Row) -> bool:
    """Return whether the governor itself asks about a resource and counts its cost, so that no
    list of what is not governed may count it again. Its tag governs instances alone."""
    return row.resource.is_governed and row.kind in _OF_THE_LOOP


def snapshot(
    target: Target,
    rows: Iterable[Row],
    unread: Sequence[Unread],
    ownership: Ownership,
    scanned_at: UtcDatetime,
) -> Snapshot:
    """Return the snapshot of a scan: the rows that are not governed, without their tags, and at
    most `MOST_ROWS` of them."""
    ungoverned = by_waste(row for row in rows if not is_governed(row))
    left_out = ungoverned[MOST_ROWS:]
    return Snapshot(
        account=target.account,
        region=target.region,
        scanned_at=scanned_at,
        rows=tuple(_scanned(row, ownership) for row in ungoverned[:MOST_ROWS]),
        unread=tuple(sorted(unread)),
        left_out=len(left_out),
        left_out_waste_usd_per_month=sum((row.waste_usd_per_month for row in left_out), Decimal()),
    )


def _scanned(row: Row, ownership: Ownership) -> ScannedRow:
    """Return the row without its tags and without what only its kind knows."""
    found = row.resource
    owner = owner_of(found, ownership)
    resource = Resource(
        target=Target(found.target.account, found.target.region),
        resource_id=found.resource_id,
        what=found.what,
        name=found.name,
        creator=found.creator,
        since=found.since,
        manager=found.manager,
        is_governed=found.is_governed,
    )
    return ScannedRow(replace(row, resource=resource), owner.name, owner.project)


Sees = Callable[[str, str, str], bool]
"""Returns whether somebody may see what belongs to an account, project and owner, in this order."""


@dataclass(frozen=True, slots=True)
class Ungoverned:
    """The findings of the last scans, as one person may see them."""

    report: Report
    """Its time is that of the oldest scan."""
    late: tuple[Target, ...]
    """Places whose last scan is older than `LATE`."""
    left_out: int
    """How many rows are in no list and in no sum."""
    left_out_waste_usd_per_month: Usd
    is_scanned: bool
    """True if any place was ever scanned, also if this person sees nothing that it has."""


def ungoverned(
    snapshots: Sequence[Snapshot], targets: Sequence[Target], now: UtcDatetime, sees: Sees
) -> Ungoverned:
    """Return what the last scans of these targets found, of what somebody may see.

    What could not be read, and what is left out, is only shown to those who see the whole account.
    A target that was never scanned is a line of what could not be read.
    """
    snapshot_by_target = {kept.target: kept for kept in snapshots}
    rows: list[Row] = []
    unread: list[Unread] = []
    places: list[Target] = []
    whole: list[Snapshot] = []
    for target in targets:
        kept = snapshot_by_target.get(target)
        sees_all = sees(target.account, "", "")
        if kept is None:
            if sees_all:
                unread.append(Unread(str(target), EVERYTHING, "", NOT_SCANNED))
            continue
        found = [one.row for one in kept.rows if sees(target.account, one.project, one.owner)]
        rows += found
        if sees_all or found:
            places.append(target)
        if sees_all:
            unread += kept.unread
            whole.append(kept)
    report = Report(
        scanned_at=min((snapshot_by_target[place].scanned_at for place in places), default=now),
        rows=by_waste(rows),
        unread=tuple(sorted(unread)),
        places=tuple(places),
        calls={"all": sum(kept.calls for kept in whole)},
        usd_spent=sum((kept.usd_spent for kept in whole), Decimal()),
    )
    return Ungoverned(
        report=report,
        late=tuple(place for place in places if now - snapshot_by_target[place].scanned_at > LATE),
        left_out=sum(kept.left_out for kept in whole),
        left_out_waste_usd_per_month=sum(
            (kept.left_out_waste_usd_per_month for kept in whole), Decimal()
        ),
        is_scanned=any(target in snapshot_by_target for target in targets),
    )
