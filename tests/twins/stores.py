"""Several stores in one object, for tests: it fits each store that a use case asks for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from governor.domain.episode.episode import EpisodeRef, Outcome
from governor.domain.money.ledger import LedgerEntry
from governor.stores.approvals import Approvals
from governor.stores.brakes import Brakes
from governor.stores.bursts import Bursts
from governor.stores.calls import Calls
from governor.stores.caps import ActionCaps
from governor.stores.claims import Claims
from governor.stores.deliveries import Deliveries
from governor.stores.episodes import Episodes
from governor.stores.expiries import Expiries
from governor.stores.findings import Findings
from governor.stores.fleet import Fleet
from governor.stores.holds import Holds
from governor.stores.instances import Failures, Instances
from governor.stores.ledger import Ledger, booking
from governor.stores.notices import Notices
from governor.stores.pauses import Pauses
from governor.stores.policy import PolicyVersions
from governor.stores.prices import Prices
from governor.stores.sweeps import Sweeps
from governor.stores.table import Write

_STORE_PARTS = (
    "episode_store",
    "approval_store",
    "hold_store",
    "call_store",
    "instance_store",
    "failure_store",
    "brake_store",
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
    Brakes,
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
        ledger: LedgerEntry | None = None,
    ) -> bool:
        """Close the episode; `ledger` is the entry that its end books."""
        if ledger is not None:
            booking = _booking_of(ledger)
            became = ledger.outcome if ledger.ours else None
        return super().close_episode(
            ref, outcome, reason, at, quiet_until=quiet_until, became=became, booking=booking
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
