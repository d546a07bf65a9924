"""The result of the daily scan of an account and Region, as it is kept for pages and reports.

The rows, their sums and their words are those of `governor scan`. This module reads and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from governor.core.instance import Target
from governor.core.units import Usd, UtcDatetime
from governor.fleet.model import UNGOVERNED, FleetPage, Payer
from governor.policy.model.contacts import Ownership
from governor.policy.rules.owners import project_of
from governor.scan.model import EVERYTHING, Report, Resource, Row, ScannedRow, Snapshot, Unread
from governor.scan.rules import most_expensive_waste_first

MOST_ROWS = 5_000
"""The most rows that are kept of one account and Region, the most expensive waste first."""
LATE = timedelta(hours=49)
"""A place is scanned once a day: an older scan means that two were missed."""
NOT_SCANNED = "it has not been scanned yet; every place is scanned once a day"
_RUNNING = "ec2-instance"
_INSTANCES = (_RUNNING, "stopped-instance")
"""The kinds of resource that are instances. The selector's tag governs no other kind."""
_InstanceKey = tuple[Target, str]
"""The target and the id of an instance."""


def is_judged_by_sweep(row: Row) -> bool:
    """Return whether the sweep judges a resource and counts its cost: an instance that runs and has
    the selector's tag. A stopped one is not judged: the fleet lists it if GPU Governor stopped it,
    and `ungoverned` lists it if somebody else did."""
    return row.resource.is_governed and row.kind == _RUNNING


def snapshot(
    target: Target,
    rows: Iterable[Row],
    unread: Sequence[Unread],
    ownership: Ownership,
    scanned_at: UtcDatetime,
) -> Snapshot:
    """Return the snapshot of a scan: the rows that no sweep judges, without their tags, and at most
    `MOST_ROWS` of them."""
    ungoverned = most_expensive_waste_first(row for row in rows if not is_judged_by_sweep(row))
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
    """Return the row without its tags and without what only its kind knows. The owner that it shows
    is the one by whom people may see it."""
    found = row.resource
    owner = row.owner or ownership.default_owner
    project = project_of(found, ownership)
    resource = Resource(
        target=Target(found.target.account, found.target.region),
        resource_id=found.resource_id,
        what=found.what,
        name=found.name,
        creator=found.creator,
        since=found.since,
        manager=found.manager,
        is_governed=found.is_governed,
        is_prepaid=found.is_prepaid,
    )
    return ScannedRow(replace(row, resource=resource, owner=owner), owner, project)


Sees = Callable[[str, str, str], bool]
"""Returns whether somebody may see what belongs to an account, project and owner, in this order."""


@dataclass(frozen=True, slots=True)
class Ungoverned:
    """The findings of the last scans, as one person may see them."""

    report: Report
    """Its time is that of the oldest scan."""
    late: tuple[Target, ...]
    """Places whose last scan is older than `LATE`, but for those of which `report` says why."""
    left_out: int
    """How many rows are in no list and in no sum."""
    left_out_waste_usd_per_month: Usd
    is_scanned: bool
    """True if any place was ever scanned, also if this person sees nothing that it has."""
    wasteful: frozenset[Payer] = frozenset()
    """The owners and projects of the waste."""


def ungoverned(
    snapshots: Sequence[Snapshot],
    fleet: Iterable[FleetPage],
    targets: Sequence[Target],
    now: UtcDatetime,
    sees: Sees,
) -> Ungoverned:
    """Return what the last scans of these targets found, of what somebody may see.

    Instances in the pages of the `fleet` that are governed are left out, so that each is in one
    list alone: sweeps are newer than the scan, and know which instances GPU Governor stopped.
    What could not be read, and what is left out, is only shown to those who see the whole account.
    A target that was never scanned is a line of what could not be read.
    """
    snapshot_by_target = {kept.target: kept for kept in snapshots}
    fleet_instances = _governed_instances(fleet)
    found: list[ScannedRow] = []
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
        found_here = _rows_seen(kept, sees, fleet_instances, now)
        found += found_here
        if sees_all or found_here:
            places.append(target)
        if sees_all:
            unread += kept.unread
            whole.append(kept)
    report = Report(
        scanned_at=min((snapshot_by_target[place].scanned_at for place in places), default=now),
        rows=most_expensive_waste_first(scanned.row for scanned in found),
        unread=tuple(sorted(unread)),
        places=tuple(places),
        calls={"all": sum(kept.calls for kept in whole)},
        usd_spent=sum((kept.usd_spent for kept in whole), Decimal()),
    )
    wasteful = []
    for scanned in found:
        if scanned.row.judgment.finding.is_waste:
            wasteful.append((scanned.owner, scanned.project))
    return Ungoverned(
        report=report,
        late=tuple(place for place in places if _is_late(snapshot_by_target[place], whole, now)),
        left_out=sum(kept.left_out for kept in whole),
        left_out_waste_usd_per_month=sum(
            (kept.left_out_waste_usd_per_month for kept in whole), Decimal()
        ),
        is_scanned=any(target in snapshot_by_target for target in targets),
        wasteful=frozenset(wasteful),
    )


def _governed_instances(fleet: Iterable[FleetPage]) -> set[_InstanceKey]:
    """Return the governed instances of these pages, running and stopped ones; empty if there are
    none."""
    keys: set[_InstanceKey] = set()
    for page in fleet:
        for row in page.rows:
            if row.verdict != UNGOVERNED:
                keys.add((page.target, row.instance_id))
    return keys


def _rows_seen(
    kept: Snapshot, sees: Sees, fleet_instances: Collection[_InstanceKey], now: UtcDatetime
) -> list[ScannedRow]:
    """Return the rows of a snapshot that somebody may see, without the instances of the fleet;
    empty if there are none. Those of an old snapshot have no command: what was idle then may work
    now."""
    is_old = now - kept.scanned_at > LATE
    rows: list[ScannedRow] = []
    for scanned in kept.rows:
        key = (kept.target, scanned.row.resource.resource_id)
        is_in_fleet = scanned.row.kind in _INSTANCES and key in fleet_instances
        if is_in_fleet or not sees(kept.account, scanned.project, scanned.owner):
            continue
        shown = scanned
        if is_old:
            shown = replace(scanned, row=replace(scanned.row, command=""))
        rows.append(shown)
    return rows


def _is_late(kept: Snapshot, explained: Sequence[Snapshot], now: UtcDatetime) -> bool:
    """Return whether a scan is older than `LATE`, and no line about a refusal says why. Only the
    lines of the snapshots in `explained` are shown."""
    is_refused = any(line.last_read_at is not None for line in kept.unread)
    return now - kept.scanned_at > LATE and not (is_refused and kept in explained)
