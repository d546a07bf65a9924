"""Several stores in one object, for tests: it fits each store that a use case asks for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from governor.alerts.store import Deliveries
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.episode.model.episode import Outcome
from governor.episode.store.episodes import Episodes
from governor.episode.store.expiries import Expiries
from governor.episode.store.holds import Holds
from governor.episode.store.instances import Failures, Instances
from governor.events.store.bursts import Bursts
from governor.events.store.notices import Notices
from governor.fleet.store import Fleet
from governor.health.store import Findings
from governor.limits.store.breaker import Breakers
from governor.limits.store.caps import ActionCaps
from governor.limits.store.pauses import Pauses
from governor.money.model.ledger import LedgerEntry
from governor.money.store.ledger import Ledger, booking
from governor.money.store.prices import Prices
from governor.policy.store import PolicyVersions
from governor.remediation.store import Calls
from governor.sweep.store import Sweeps
from governor.table.claims import Claims
from governor.table.table import Write

_STORE_PARTS = (
    "episode_store",
    "approval_store",
    "hold_store",
    "call_store",
    "instance_store",
    "failure_store",
    "breaker_store",
    "pause_store",
    "cap_store",
    "ledger_store",
    "delivery_store",
    "policy_store",
    "sweep_store",
    "fleet_store",
    "price_store",
    "expiry_store",
)
_EVENT_PARTS = ("claim_store", "burst_store", "notice_store", "finding_store")


class EveryStore(
    Episodes,
    Approvals,
    Holds,
    Calls,
    Instances,
    Failures,
    Breakers,
    Pauses,
    ActionCaps,
    Ledger,
    Deliveries,
    PolicyVersions,
    Sweeps,
    Fleet,
    Prices,
    Expiries,
):
    """The stores of one table, but for those of events and sign-ins."""

    def close_episode(
        self,
        ref: EpisodeRef,
        outcome: Outcome,
        reason: str,
        at: datetime,
        *,
        quiet_until: datetime | None,
        became: Outcome | None = None,
        booking: Sequence[Write] = (),
        restarts_quiet_until: datetime | None = None,
        logged_in: str = "",
        ledger: LedgerEntry | None = None,
    ) -> bool:
        """Close the episode; `ledger` is the entry that its end books."""
        if ledger is not None:
            booking = _booking_of(ledger)
            became = ledger.outcome if ledger.ours else None
        return super().close_episode(
            ref,
            outcome,
            reason,
            at,
            quiet_until=quiet_until,
            logged_in=logged_in,
            became=became,
            booking=booking,
            restarts_quiet_until=restarts_quiet_until,
        )


class EveryEventStore(Claims, Bursts, Notices, Findings):
    """Claims, counts of warnings, announced dates, and findings that people know."""


def store_parts(stores: object) -> dict[str, object]:
    """Return the parts of a function (`governor.wiring.parts`) that this object replaces."""
    return dict.fromkeys(_STORE_PARTS, stores)


def event_parts(stores: object) -> dict[str, object]:
    """Return the parts of a function that keep events, all replaced by this object."""
    return dict.fromkeys(_EVENT_PARTS, stores)


def _booking_of(entry: LedgerEntry) -> list[Write]:
    return booking(entry)
