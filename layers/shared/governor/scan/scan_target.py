"""Runs the daily scan of one account and Region: reads every kind of resource, and stores what was
found.

It changes nothing but its own snapshot. A scan that cannot be made leaves the last one as it was. A
place that AWS refuses fails the scan once, which an alarm reports, and not again while it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from governor.core.errors import AccessDenied
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import Usd, UtcDatetime
from governor.policy.model.policy import Policy
from governor.policy.ports import Policies
from governor.scan.kind import Kind, Place
from governor.scan.model import RefusedScan, Snapshot, Unread
from governor.scan.scan_place import PlaceReport, scan_place
from governor.scan.snapshot import snapshot
from governor.scan.store import Scans
from governor.scan.unread import is_unreachable, refused_scan

_LIGHTEST = "ec2:DescribeRegions"
"""A call that any account answers, by which it shows whether the place can be reached at all."""


class OpenPlace(Protocol):
    """An account and Region that is being scanned."""

    @property
    def place(self) -> Place:
        """Return the place, with the means to read it."""

    @property
    def calls(self) -> int:
        """Return how many calls were made so far."""

    @property
    def usd_spent(self) -> Usd:
        """Return AWS's charge for the calls so far."""

    def unread_prices(self) -> Sequence[Unread]:
        """Return a line for each price that could not be read; empty if all could."""


class Places(Protocol):
    """Opens accounts and Regions for a scan."""

    def open(self, target: Target, policy: Policy, now: UtcDatetime) -> OpenPlace:
        """Return the place with new means to read it. Nothing is called yet."""

    def close(self) -> None:
        """Give back the memory of the places that were opened."""


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """The scan of one target, of kinds of resource whose calls AWS does not bill one by one."""

    clock: Clock
    policies: Policies
    places: Places
    scan_store: Scans
    kinds: Sequence[Kind[Any, Any]]

    def __call__(self, target: Target) -> Snapshot | RefusedScan:
        """Scan the target, keep the snapshot, and return it. Return the refusal, and keep the last
        snapshot, if AWS refuses the whole place for a reason that failed an earlier scan already.

        A part that AWS refuses is a line of the snapshot. Raises: AccessDenied if AWS refuses the
        whole place for a new reason; CloudError if the place does not answer at all, as in an
        outage, or the result cannot be kept. The last snapshot stays then, too.
        """
        now = self.clock.now()
        policy = self.policies.base().policy
        opened = self.places.open(target, policy, now)
        try:
            found = self._read(opened.place)
            unread = [*found.unread, *opened.unread_prices()]
            kept = snapshot(target, found.rows, unread, policy.ownership, now)
            kept = replace(kept, calls=opened.calls, usd_spent=opened.usd_spent)
        except AccessDenied as error:
            return self._keep_refusal(target, error, now)
        finally:
            self.places.close()
        self.scan_store.keep(kept)
        return kept

    def _read(self, place: Place) -> PlaceReport:
        """Return the rows of all kinds, and what could not be read. Raises: AccessDenied if AWS
        refuses the whole place; another CloudError if the place does not answer."""
        try:
            place.call(_LIGHTEST)
        except AccessDenied as error:
            if is_unreachable(place.target, error):
                raise
        report = scan_place(place, self.kinds)
        if report.refused_by is not None:
            raise report.refused_by
        return report

    def _keep_refusal(self, target: Target, error: AccessDenied, now: UtcDatetime) -> RefusedScan:
        """Keep that the place was refused, beside its last snapshot, and return that. Raises:
        AccessDenied, the error itself, if no scan since the last good one failed for the same
        cause: the alarm on failed scans reports it. CloudError if it cannot be kept."""
        refused = refused_scan(target, error, now)
        is_known = self.scan_store.is_known(refused)
        self.scan_store.keep_refusal(refused)
        if not is_known:
            raise error
        return refused
