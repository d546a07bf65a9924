"""Episodes, from the lock on the instance record to the close that frees it and books the saving."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from governor.adapters.table import keys
from governor.adapters.table.client import (
    Condition,
    Document,
    Store,
    Write,
    absent,
    check,
    epoch,
    insert,
    present,
    update,
    where,
)
from governor.adapters.table.codec import moment, read_item, written
from governor.adapters.table.ledger import booking
from governor.domain.approvals.approval import first_approval
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase
from governor.domain.money.ledger import LedgerEntry
from governor.errors import ConflictError

_APPROVALS_KEPT = timedelta(days=400)
_ATTEMPTS = 6
"""Of a close that read an older state."""
_CLOSED = where("phase", "=", Phase.CLOSED.value)
_OPEN = present() & where("phase", "<>", Phase.CLOSED.value)


class EpisodeStore(Store):
    """The port `Episodes`."""

    def take_lock(self, ref: EpisodeRef) -> bool:
        key = keys.instance(ref.target, ref.instance_id)
        is_free = absent("open_episode") & (absent("episodes") | where("episodes", "<", ref.number))
        locked = {"open_episode": ref.execution_name, "episodes": ref.number}
        return self._table.holds(update(key, locked, is_free)) or self._holder(ref) == ref.execution_name

    def save_opened(self, episode: Episode) -> Episode:
        ref, question = episode.ref, first_approval(episode)
        expiry = {"expires_at_epoch": epoch(question.created_at + _APPROVALS_KEPT)}
        try:
            self._table.transact(
                insert(keys.episode(ref), written(episode)),
                insert(keys.approval(question.approval_id), {**written(question), **expiry}),
                check(keys.instance(ref.target, ref.instance_id), _is_held_by(ref)),
            )
        except ConflictError:
            stored = self.episode(ref)
            if stored is None:
                raise
            return stored
        return episode

    def episode(self, ref: EpisodeRef) -> Episode | None:
        item = self._table.get(keys.episode(ref))
        return read_item(Episode, item) if item else None

    def clear_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        cleared = {
            "phase": Phase.ACTING.value,
            "phase_since": moment(at),
            "cleared_step": step,
            "cleared_at": moment(at),
        }
        self._table.write(update(keys.episode(ref), cleared, _OPEN))

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> None:
        self._table.write(update(keys.episode(ref), {"snapshots": dict(snapshots)}, present()))

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        # Last barrier before EC2 is called: a late invocation finds its episode closed.
        self._table.write(update(keys.episode(ref), {}, _OPEN, first=("steps_done", step, moment(at))))

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        self._table.write(update(keys.episode(ref), {"outcome_told_at": moment(at)}, present()))

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        key = keys.episode(ref)
        is_first = absent("undone_at") | where("undone_at", "=", None)
        try:
            self._table.write(update(key, {"undone_at": moment(at), "undone_by": by}, _CLOSED & is_first))
        except ConflictError:
            if (self._table.get(key) or {}).get("undone_at") is None:
                raise
            return False
        return True

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
        became = ledger.outcome.value if ledger is not None and ledger.ours else None
        closed = {
            "phase": Phase.CLOSED.value,
            "phase_since": moment(at),
            "closed_at": moment(at),
            "outcome": outcome.value,
            "outcome_reason": reason,
            "became": became,
        }
        for _ in range(_ATTEMPTS):
            stored = self._table.get(keys.episode(ref))
            is_held = self._holder(ref) == ref.execution_name
            if stored is None and not is_held:
                return False
            if stored is not None and stored["phase"] == Phase.CLOSED.value:
                return False
            # Without an episode freeing the lock is the whole close, unless one is saved this moment.
            gone = check(keys.episode(ref), absent())
            writes = [update(keys.episode(ref), closed, _OPEN) if stored else gone]
            if is_held:
                writes.append(_freeing(ref, outcome, quiet_until))
            if ledger is not None:
                writes += booking(ledger)
            if self._table.wins(*writes):
                return True
        raise ConflictError(f"episode {ref.execution_name} kept changing while it was closed")

    def _holder(self, ref: EpisodeRef) -> str | None:
        holder: str | None = (self._table.get(keys.instance(ref.target, ref.instance_id)) or {}).get(
            "open_episode"
        )
        return holder


def _is_held_by(ref: EpisodeRef) -> Condition:
    return where("open_episode", "=", ref.execution_name)


def _freeing(ref: EpisodeRef, outcome: Outcome, quiet_until: datetime | None) -> Write:
    values: Document = {"last_outcome": outcome.value}
    remove = ["open_episode"]
    if quiet_until is None:
        remove += ["quiet_until", "quiet_launch_time"]
    else:
        values |= {"quiet_until": moment(quiet_until), "quiet_launch_time": moment(ref.launch_time)}
    return update(keys.instance(ref.target, ref.instance_id), values, _is_held_by(ref), remove=remove)
