"""The state table, one Protocol per aggregate: a use case asks only for those it uses.

Every change that matters is a conditional write and raises `ConflictError` when another one was first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # Named only: a function loads the parts of the domain that it uses.
    from governor.domain.alerts.delivery import Delivery
    from governor.domain.approvals.approval import Approval, Decision
    from governor.domain.episode.episode import Episode, EpisodeRef, InstanceRecord, Observation, Outcome
    from governor.domain.events.notice import Notice
    from governor.domain.instance import Target
    from governor.domain.money.cost import Meter
    from governor.domain.money.ledger import LedgerEntry
    from governor.domain.sweep.breaker import BreakerState, SweepDay
    from governor.domain.units import UtcDatetime


class Sweeps(Protocol):
    """The memory of the sweeps of a target."""

    def observations(self, target: Target) -> Mapping[str, Observation]:
        """Return what the last sweep saw, by instance id; empty at the first sweep."""

    def remember(self, target: Target, observations: Mapping[str, Observation], at: datetime) -> None:
        """Replace the observations. Last writer wins; it is a cache."""

    def sweep_days(self, target: Target) -> Sequence[SweepDay]:
        """Return the largest changes in a sweep of the last days, oldest day first."""

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        """Replace them. Of two sweeps at once one may be lost; the next one makes up for it."""

    def breaker(self, target: Target) -> BreakerState | None:
        """Return the tripped breaker, if it is."""

    def set_breaker(self, target: Target, state: BreakerState | None) -> bool:
        """Trip or release the breaker; true when this call changed it.

        One that is tripped already takes the new time and reason, which is no change.
        """

    def save_sweep(self, target: Target, at: datetime, counts: Mapping[str, int]) -> None:
        """Keep one line of sweep history."""


class Instances(Protocol):
    """Instance records: holds, marks, warnings, and who holds the lock."""

    def records(self, target: Target) -> Mapping[str, InstanceRecord]:
        """Return all records of a target by instance id; an unreadable one says so in `problem`."""

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        """Return one record; an empty one when there is none yet."""

    def set_marked(self, target: Target, instance_id: str, at: datetime | None) -> None:
        """Note when the instance was tagged, or that it no longer is."""

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        """Note until when warnings stand, by instance id. The last one counts."""

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        """Delete a record that holds an old warning and nothing else; any other stays."""

    def snooze(self, target: Target, instance_id: str, until: datetime) -> None:
        """Leave the instance alone until then, as a decision to keep it would."""

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        """Note that work has resumed: the next idle stretch is reported again."""


class Episodes(Protocol):
    """Episodes, with the lock on the instance that lets one be open at a time."""

    def take_lock(self, ref: EpisodeRef) -> bool:
        """Open the episode on the instance record: set `open_episode` and count it.

        True when this call took it, or the same episode already holds it (a repeated invocation).
        False when another episode is open or this number has been used.
        """

    def save_opened(self, episode: Episode) -> Episode:
        """Write the episode and its pending approval once; return the stored one (first wins).

        Raises: ConflictError when the episode does not hold the lock (any more). Nobody can answer the
        approval before `await_answer` has set its expiry.
        """

    def episode(self, ref: EpisodeRef) -> Episode | None:
        """Return the episode, or `None` when it was never opened."""

    def clear_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """Let this step through after a recheck. Raises ConflictError when the episode is closed."""

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> None:
        """Note the snapshots of the episode: volume id by snapshot id."""

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """Note when a step was first asked of EC2; later notes of the same step change nothing.

        Raises ConflictError when the episode is closed: the last barrier before EC2 is called.
        """

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """Note that people know the outcome. Raises ConflictError when there is no such episode."""

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """Note who had the instance started again; true when nobody was noted before.

        Raises ConflictError when the episode is not closed.
        """

    def close_episode(
        self,
        ref: EpisodeRef,
        outcome: Outcome,
        reason: str,
        at: datetime,
        *,
        quiet_until: datetime | None,
        ledger: LedgerEntry | None,
    ) -> bool:
        """Close the episode, free the lock and book the ledger entry, all or nothing.

        True when this call closed it; false when it was closed already. Works for an episode that was
        locked but never saved.
        """


class Approvals(Protocol):
    """The questions."""

    def approval(self, approval_id: str) -> Approval | None:
        """Return the approval, or `None` for an unknown id."""

    def await_answer(
        self, approval_id: str, task_token: str | None, stage: str, expires_at: datetime
    ) -> Approval:
        """Open the approval for answers until `expires_at`, and bind the task token that waits for one.

        Without a token nothing waits yet. Returns it as stored (it may already be decided).

        Raises: NotFound.
        """

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        """Note the first of two approvals, while it is pending; return the approval as stored.

        Raises: NotFound.
        """

    def settle(self, approval_id: str, decision: Decision, hold_until: datetime | None) -> Approval:
        """Change PENDING to the decision's status, once; write a keep or an exemption to the instance
        record in the same transaction. Raises: ConflictError when it is no longer pending, NotFound.
        """

    def void(self, approval_id: str, reason: str, *, expired: bool, outcome: str = "void") -> Approval:
        """Change PENDING to VOID (or EXPIRED), once, and keep `outcome` as `void_outcome`.

        Raises: ConflictError, NotFound.
        """


class Questions(Episodes, Approvals, Protocol):
    """Episodes with their questions."""


class Cases(Instances, Questions, Protocol):
    """Instances with their episodes and questions."""


class Ledger(Protocol):
    """Booked savings, and what projects cost."""

    def open_entries(self, target: Target, instance_id: str) -> Sequence[LedgerEntry]:
        """Return the entries that are booked and not settled, oldest episode first."""

    def settle_entry(self, entry: LedgerEntry, ended_at: datetime, *, false_stop: bool) -> bool:
        """End a ledger entry once; true when this call did."""

    def entries(self, month: str) -> Sequence[LedgerEntry]:
        """Return all entries booked in a month (`yyyy-mm`), in that order."""

    def meter(self, target: Target, month: str) -> Meter | None:
        """Return what a target has cost in a month (`yyyy-mm`); `None` when nothing was counted."""

    def bring_forward(self, meter: Meter, seen: Meter | None) -> bool:
        """Put the meter in the place of the one that was seen; `None`: there was none.

        True when this call did; false when another one has brought it forward since.
        """

    def meters(self, month: str) -> Sequence[Meter]:
        """Return those of all targets, by account and Region."""


class Deliveries(Protocol):
    """Messages on their way to people."""

    def deliveries(self, subject: str) -> Sequence[Delivery]:
        """Return what became of the messages about a subject."""

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """Keep the claim, good until its `not_before`; true when this caller shall send the message.

        False when it is settled (unless it was given up), or must not be tried yet: as the channel has
        said, or because another caller's claim holds.
        """

    def note_delivery(self, delivery: Delivery) -> None:
        """Keep it, in place of an earlier record of the same message, channel and target."""

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """Keep a message until it is sent with others of its group; once, however often it is put."""

    def outbox(self, group: str) -> Sequence[tuple[str, str]]:
        """Return ids and documents of the waiting messages, in the order of their ids."""

    def drop_outbox(self, group: str, message: str) -> None:
        """Delete one that was sent."""

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """Return whether nobody else holds the lease; it ends by itself after so many seconds."""

    def end_lease(self, name: str) -> None:
        """Let others take it."""

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """Keep which questions a digest is about (90 days)."""

    def digest(self, digest_id: str) -> Sequence[str]:
        """Return the questions of a digest; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The place of a warning among those of its zone: `number` counts from 1 since `started_at`."""

    number: int
    started_at: UtcDatetime


class EventLog(Protocol):
    """What was done about which event. Claims and counts are sent once: a warning leaves two minutes."""

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """Return whether this caller shall do what `key` names: nobody has, and nobody is at it.

        A claim without a later `done` lapses after `lease`, so that a repeated event makes up for a
        caller that failed.
        """

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """As `claim`, of many different keys in few calls: those that this caller shall do."""

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        """Note that it is done, and not to be done again within `keep`."""

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        """As `done`, of many different keys in few calls."""

    def count(self, target: Target, name: str, now: datetime, window: timedelta) -> Burst:
        """Count one more of `name` (a kind and a zone); a count begins anew `window` after its first.

        Raises: CloudError, or ConflictError when too many counted at the same moment.
        """

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """Keep an announced date; false, and nothing changes, when something newer is known about it.

        A new date of the same thing replaces the old one. The same date again, or none, leaves the one
        that is kept, and whether to remind of it. Only a newer word opens what was dropped.
        """

    def drop_notice(self, notice: Notice) -> None:
        """Keep for a while that it is over; unless something newer is known."""

    def notices(self, target: Target) -> Sequence[Notice]:
        """Return the announced dates to remind of."""

    def told(self, target: Target, now: datetime) -> Collection[str]:
        """Return everything of the target that `keep_told` has kept and whose time is not over."""

    def keep_told(self, target: Target, keys: Collection[str], until: datetime) -> None:
        """Keep that people know what the keys name; a later call sets another end."""
