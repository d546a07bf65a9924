"""Notifies people once a cause for which workflows failed is gone in every account and Region.

It runs once a sweep, after all targets were swept. This module must not change an instance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from governor.alerts.ports import Announcer
from governor.approvals.messages.ends import recovered_alert
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Failing
from governor.episode.store.instances import Failures, Instances
from governor.fleet.model import FleetPage
from governor.fleet.store import Fleet
from governor.table.once import Once

_FAILED_BEFORE = timedelta(minutes=10)
"""A failure younger than this is not over yet, though the record of its instance shows none: people
are notified before the episode is closed, which writes the record."""


@dataclass(frozen=True, slots=True)
class EndFailures:
    """Ends failures of workflows whose instances fail no more, and notifies people."""

    clock: Clock
    failure_store: Failures
    instance_store: Instances
    fleet_store: Fleet
    once: Once
    announcer: Announcer
    hub: Target

    def __call__(self) -> None:
        """Notify people, once, of each cause of failures that fails no instance of any target any
        more. Then delete its failures, so that the next one is reported at once.

        Raises: CloudError if the table fails, or a message cannot be sent; the next sweep tries
        again.
        """
        failures = self.failure_store.failing()
        if not failures:
            return
        now = self.clock.now()
        by_cause: dict[str, list[Failing]] = defaultdict(list)
        for failure in self._with_ends(failures, now):
            by_cause[failure.cause].append(failure)
        for cause, members in sorted(by_cause.items()):
            if all(failure.over_at for failure in members):
                alert = recovered_alert(members, self.hub, now)
                self.once(alert.dedup_id, partial(self.announcer.announce, alert))
                self.once.claim_store.done(f"failure#{cause}", now, timedelta())
                self.failure_store.drop_failing(members)

    def _with_ends(self, failures: Sequence[Failing], now: UtcDatetime) -> list[Failing]:
        """Return the failures; those that are over have `over_at`. First note in the table which
        ones have ended since the last sweep. Raises: CloudError."""
        open_by_target: dict[Target, list[Failing]] = defaultdict(list)
        for failure in failures:
            if failure.over_at is None:
                open_by_target[failure.target].append(failure)
        still_open: set[Failing] = set()
        for target, members in open_by_target.items():
            still_open.update(self._still_open(target, members, failures))

        updated = []
        for failure in failures:
            if failure.over_at is not None or failure in still_open:
                updated.append(failure)
            else:
                self.failure_store.note_over(failure, now)
                updated.append(replace(failure, over_at=now))
        return updated

    def _still_open(
        self, target: Target, members: Sequence[Failing], failures: Sequence[Failing]
    ) -> list[Failing]:
        """Return those of the `members`, failures of one target, that are not over yet: all of them
        if the last sweep of the target is not known, or was not complete.

        Else a failure is over once it is older than that sweep by `_FAILED_BEFORE`, and the sweep
        did not list the instance, or the record of the instance counts no failure, or `failures`
        has a newer one of the same instance. Raises: CloudError.
        """
        page = self.fleet_store.page(target)
        if page is None or not _is_complete(page):
            return list(members)
        listed_ids = set()
        for row in page.rows:
            if row.is_swept:
                listed_ids.add(row.instance_id)
        named_ids = {failure.instance_id for failure in members} & listed_ids
        failing_ids = self.instance_store.failing_among(target, sorted(named_ids))
        newest_at = _newest_at(failures)
        still_open = []
        for failure in members:
            is_newest = newest_at[failure.target, failure.instance_id] == failure.at
            still_fails = is_newest and failure.instance_id in failing_ids
            is_recent = page.swept_at - failure.at < _FAILED_BEFORE
            if still_fails or is_recent:
                still_open.append(failure)
        return still_open


def _is_complete(page: FleetPage) -> bool:
    """Return whether the page has a row for each instance of the last sweep. A page whose rows
    cannot be read has none, and a problem."""
    return bool(page.rows) or page.problem is None


def _newest_at(failures: Sequence[Failing]) -> dict[tuple[Target, str], UtcDatetime]:
    """Return the time of the newest failure of each instance, by its target and id."""
    newest_at: dict[tuple[Target, str], UtcDatetime] = {}
    for failure in failures:
        instance = (failure.target, failure.instance_id)
        newest_at[instance] = max(failure.at, newest_at.get(instance, failure.at))
    return newest_at
