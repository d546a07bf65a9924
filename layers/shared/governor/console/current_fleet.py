"""The instances that run, are stopped and are terminated now: by the last sweeps, and by the ledger
since.

A sweep is minutes old. The ledger knows at once what was stopped, started and terminated since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from governor.approvals.model.terms import Scope
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.episode.model.start_try import StartStatus
from governor.fleet.model import FleetPage, FleetRow
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.rules.closed import (
    InstanceKey,
    closed_row,
    is_still_stopped,
    is_terminated,
    newest_by_instance,
)
from governor.money.rules.cost import months
from governor.money.store.ledger import Ledger
from governor.verdict.model import AFTER_RESTART

Row = tuple[FleetRow, FleetPage]
"""An instance, and the page of its target."""


@dataclass(frozen=True)
class CurrentFleet:
    """The fleet as the caller may see it now. Each month of the ledger is read once."""

    ledger_store: Ledger
    approval_store: Approvals
    scope: Scope
    pages: Sequence[FleetPage]
    governed: Sequence[Row]
    """Instances that ran at the last sweep."""
    stopped_at_sweep: Sequence[Row]
    """Instances that were stopped by then."""
    now: UtcDatetime

    @cached_property
    def running(self) -> list[Row]:
        """Return the governed instances that run: without those that were stopped or terminated
        since the sweep, and with those that were started again since. Raises: CloudError."""
        rows: list[Row] = []
        for row, page in self.governed:
            entry = self._newest_entries.get(_key_of(row))
            if entry is None or not _ended_this_run(entry, row):
                rows.append((row, page))
        for row, page in self.stopped_at_sweep:
            entry = self._newest_entries.get(_key_of(row))
            if entry is not None and _was_started(entry) and not self._fell_back(entry):
                rows.append((_started_row(row, entry), page))
        return rows

    @cached_property
    def stopped(self) -> list[Row]:
        """Return the instances that GPU Governor stopped and nobody has started since; empty if
        there are none. Raises: CloudError."""
        rows: dict[InstanceKey, Row] = {}
        for row, page in self.stopped_at_sweep:
            entry = self._newest_entries.get(_key_of(row))
            if entry is None or is_still_stopped(entry) or self._fell_back(entry):
                rows[_key_of(row)] = (row, page)
        launched_at = {_key_of(row): row.launched_at for row, _ in self.governed}
        for key, entry in self._newest_entries.items():
            was_started = key in launched_at and launched_at[key] > _last_launch_over(entry)
            if is_still_stopped(entry) and not was_started:
                rows.setdefault(key, self.row_of(entry))
        return list(rows.values())

    @cached_property
    def terminated_lately(self) -> list[Row]:
        """Return the instances that are terminated by the ledger of the months since the oldest
        sweep; empty if there are none. Raises: CloudError."""
        rows = []
        for entry in self._newest_entries.values():
            if is_terminated(entry):
                rows.append(self.row_of(entry))
        return rows

    def terminated_since(self, first: datetime) -> list[Row]:
        """Return the instances that are terminated by the ledger of all months since `first`, the
        newest first; empty if there are none. Raises: CloudError."""
        rows: dict[InstanceKey, Row] = {}
        for month in reversed(months(first, self.now)):
            for entry in reversed(self.ledger_store.terminated(month)):
                key = (entry.episode.target, entry.episode.instance_id)
                if key not in rows and self._sees(entry):
                    rows[key] = self.row_of(entry)
        return list(rows.values())

    def entries(self, month: str) -> list[LedgerEntry]:
        """Return the entries booked in a month (`yyyy-mm`) that the caller may see, in the order of
        booking; empty if there are none. Raises: CloudError."""
        if month not in self._entries_by_month:
            stored = self.ledger_store.entries(month)
            self._entries_by_month[month] = [entry for entry in stored if self._sees(entry)]
        return self._entries_by_month[month]

    @cached_property
    def _entries_by_month(self) -> dict[str, list[LedgerEntry]]:
        """Return the entries that were read so far, by month; empty at first."""
        return {}

    @cached_property
    def _newest_entries(self) -> dict[InstanceKey, LedgerEntry]:
        """Return the newest entry of each instance in the months since the oldest sweep. Of an
        instance that was stopped before these months, or in whose place another one was started,
        return the end of its stop, if it was started or terminated since. Raises: CloudError."""
        newest = self._entries_since_sweep
        stops: dict[EpisodeRef, UtcDatetime] = {}
        for row, _ in self.stopped_at_sweep:
            entry = newest.get(_key_of(row))
            may_have_ended = entry is None or entry.ended is Ending.REPLACED
            if may_have_ended and row.episode is not None and row.stopped_at is not None:
                stops[episode_from_execution_name(row.episode)] = row.stopped_at
        if not stops:
            return newest
        ends = self.ledger_store.ends_of(stops)
        return {**newest, **newest_by_instance(ends.values())}

    def _fell_back(self, entry: LedgerEntry) -> bool:
        """Return whether the last start of the instance of this entry is known to have fallen back,
        so that the instance is stopped. Raises: CloudError."""
        return entry.episode in self._episodes_whose_start_fell_back

    @cached_property
    def _episodes_whose_start_fell_back(self) -> set[EpisodeRef]:
        """Return those episodes whose instance was stopped at the last sweep and started since, and
        whose last start fell back; empty if there are none. Raises: CloudError."""
        started: list[EpisodeRef] = []
        for row, _ in self.stopped_at_sweep:
            entry = self._newest_entries.get(_key_of(row))
            if entry is not None and _was_started(entry):
                started.append(entry.episode)
        if not started:
            return set()
        fell_back: set[EpisodeRef] = set()
        for episode, _ in self.approval_store.open_questions(started).values():
            start_try = episode.start_try
            if start_try is not None and start_try.status is StartStatus.FELL_BACK:
                fell_back.add(episode.ref)
        return fell_back

    @cached_property
    def _entries_since_sweep(self) -> dict[InstanceKey, LedgerEntry]:
        """Return the newest entry of each instance in the months since the oldest sweep. Raises:
        CloudError."""
        oldest = min((page.swept_at for page in self.pages), default=self.now)
        entries: list[LedgerEntry] = []
        for month in months(oldest, self.now):
            entries += self.entries(month)
        return newest_by_instance(entries)

    def _sees(self, entry: LedgerEntry) -> bool:
        """Return whether the caller may see this entry."""
        return self.scope.sees(entry.episode.account, entry.project, entry.owner)

    def row_of(self, entry: LedgerEntry) -> Row:
        """Return the row of a stopped or terminated instance, with the page of its target: an empty
        one of now if no sweep has stored one."""
        target = entry.episode.target
        for page in self.pages:
            if page.target == target:
                return closed_row(entry), page
        return closed_row(entry), FleetPage(target.account, target.region, self.now, mode="")


def _key_of(row: FleetRow) -> InstanceKey:
    """Return the target and the id of the row's instance."""
    return Target(row.account, row.region), row.instance_id


def _ended_this_run(entry: LedgerEntry, row: FleetRow) -> bool:
    """Return whether the entry says that the run of the instance that the row shows is over: it was
    stopped or terminated, and not started since."""
    is_over = is_still_stopped(entry) or is_terminated(entry)
    return is_over and row.launched_at <= _last_launch_over(entry)


def _last_launch_over(entry: LedgerEntry) -> UtcDatetime:
    """Return the latest launch of the instance whose run this entry says is over: that of the run
    that was stopped or, after a start that fell back, any launch until then."""
    return entry.booked_at if entry.is_continuation else entry.episode.launch_time


def _was_started(entry: LedgerEntry) -> bool:
    """Return whether the entry says that the instance was started again after its stop."""
    return not is_still_stopped(entry) and not is_terminated(entry)


def _started_row(row: FleetRow, entry: LedgerEntry) -> FleetRow:
    """Return the row of an instance that was stopped at the last sweep and was started again since:
    it is too young to be judged."""
    return replace(
        row,
        verdict=AFTER_RESTART.value,
        reason="Started again since the last sweep.",
        launched_at=entry.ended_at or row.launched_at,
        episode=None,
        stopped_at=None,
    )
