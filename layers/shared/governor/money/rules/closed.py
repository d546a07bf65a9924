"""Rows of stopped and terminated instances for the Fleet, from the ledger's entries.

They stand beside the running instances in the console, so that a stop is found and undone, and a
record is found as long as it is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from governor.core.instance import Target
from governor.core.units import UsdPerHour, UtcDatetime
from governor.episode.model.episode import Outcome
from governor.fleet.model import STOPPED, TERMINATED, FleetRow
from governor.money.model.ledger import Ending, LedgerEntry

InstanceKey = tuple[Target, str]
"""The target and the id of an instance."""


def is_still_stopped(entry: LedgerEntry) -> bool:
    """Return whether GPU Governor stopped the instance of this entry, and as far as the entry says
    nobody has started or terminated it since. Another instance may have taken its place."""
    if entry.outcome is not Outcome.STOPPED:
        return False
    if entry.ended is Ending.REPLACED:
        return True
    return entry.ours and entry.ended_at is None


def is_terminated(entry: LedgerEntry) -> bool:
    """Return whether the instance of this entry is terminated, by GPU Governor or by others."""
    return entry.outcome is Outcome.TERMINATED or entry.ended is Ending.TERMINATED


def stopped_rows(entries: Iterable[LedgerEntry], running_ids: Collection[str]) -> list[FleetRow]:
    """Return a row for each instance that is still stopped by these entries of one target, the one
    stopped first first; empty if there is none. Instances that run (`running_ids`) are left out, as
    is one of which a later entry says that it is terminated."""
    rows = []
    for (_, instance_id), entry in newest_by_instance(entries).items():
        if instance_id not in running_ids and is_still_stopped(entry):
            rows.append(closed_row(entry))
    return rows


def newest_by_instance(entries: Iterable[LedgerEntry]) -> dict[InstanceKey, LedgerEntry]:
    """Return the newest entry about each instance that was stopped or terminated, by its target and
    id; empty if there is none. Entries of questions that ended otherwise are left out."""
    newest: dict[InstanceKey, LedgerEntry] = {}
    for entry in sorted(entries, key=_booked_at):
        if entry.outcome in (Outcome.STOPPED, Outcome.TERMINATED):
            newest[entry.episode.target, entry.episode.instance_id] = entry
    return newest


def _booked_at(entry: LedgerEntry) -> UtcDatetime:
    """Return the key by which entries are sorted: the oldest first."""
    return entry.booked_at


def closed_row(entry: LedgerEntry) -> FleetRow:
    """Return the row of the stopped or terminated instance of an entry. Its price is that of the
    instance while it ran, without storage; `None` if it is not known."""
    ref = entry.episode
    verdict = TERMINATED if is_terminated(entry) else STOPPED
    by_whom = "by GPU Governor" if entry.acted else "by others"
    was_stopped_first = verdict == TERMINATED and entry.outcome is Outcome.STOPPED
    reason = f"{verdict.capitalize()} {by_whom}."
    if was_stopped_first:
        reason = "Stopped by GPU Governor, then terminated by others."
    closed_at = entry.booked_at
    if was_stopped_first and entry.ended_at is not None:
        closed_at = entry.ended_at
    return FleetRow(
        instance_id=ref.instance_id,
        name=entry.resource_name or ref.instance_id,
        account=ref.account,
        region=ref.region,
        instance_type=entry.instance_type,
        owner=entry.owner,
        project=entry.project,
        verdict=verdict,
        reason=reason,
        usd_per_hour=price_while_running(entry),
        launched_at=ref.launch_time,
        episode=ref.execution_name,
        stopped_at=closed_at,
    )


def price_while_running(entry: LedgerEntry) -> UsdPerHour | None:
    """Return the price of an hour of the instance while it ran: what an hour less of it saves, with
    the storage that stays taken out again; `None` if it is not known."""
    # Entries of other people's actions save zero. The stored end of an entry is not ours, either.
    was_our_action = entry.ours or entry.ended is not None
    if was_our_action and entry.saved_usd_per_hour is not None:
        return entry.saved_usd_per_hour + (entry.storage_usd_per_hour or 0)
    return entry.cost_before_usd_per_hour
