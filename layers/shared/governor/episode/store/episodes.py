"""Stores episodes, each of which locks its instance when it opens, and frees the lock when it
closes.

The question of an episode is in `governor.approvals.store.approvals`, the notes before calls to
EC2 in `governor.remediation.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from governor.core.episode_ref import EpisodeRef
from governor.core.errors import ConflictError
from governor.core.instance import UserData
from governor.core.units import as_utc
from governor.episode.model.episode import Episode, LastNo, Outcome, Phase
from governor.episode.model.plan import Step
from governor.episode.model.start_try import StartTry
from governor.table import keys
from governor.table.table import (
    Condition,
    Document,
    Key,
    Store,
    Write,
    absent,
    check,
    present,
    unset,
    update,
    where,
)

_JOURNAL_KEPT = timedelta(days=400)
_ATTEMPTS = 6
"""Attempts of a close that read an older state."""
_REFUSAL_CHARACTERS = 1_000
"""The longest reason for a refusal that an episode keeps."""
_CLOSED = where("phase", "=", Phase.CLOSED)
IS_OPEN = present() & where("phase", "<>", Phase.CLOSED)
"""The condition that an episode exists and is not closed."""
_NO_SNAPSHOTS = absent("snapshots") | where("snapshots", "=", {})


class Episodes(Store):
    """Episodes, their locks and journals. Every method may raise CloudError."""

    def take_lock(self, ref: EpisodeRef) -> bool:
        """Take the lock of the instance for this episode, and return true; also if this episode
        holds the lock already.

        Return false, with nothing changed, if another episode is open, or the number of this
        episode has been used. Raises: CloudError.
        """
        is_free = absent("open_episode") & (absent("episodes") | where("episodes", "<", ref.number))
        locked = {"open_episode": ref.execution_name, "episodes": ref.number}
        is_free_or_own = is_free | is_held_by(ref)
        locking = [update(key, locked, is_free_or_own) for key in locks(ref)]
        return self._table.try_transaction(*locking)

    def free_lock(self, ref: EpisodeRef) -> None:
        """Free the locks that this episode still holds. Call it only for a closed episode: the
        software release before this one freed only the lock on the record. Without such a lock
        nothing happens. Raises: CloudError."""
        for key in locks(ref):
            self._table.try_write(update(key, {}, is_held_by(ref), remove=["open_episode"]))

    def episode(self, ref: EpisodeRef) -> Episode | None:
        """Return the episode; `None` if it was never stored. Raises: CloudError, also if it is
        damaged."""
        return self._table.read(Episode, keys.episode(ref))

    def clear_step(
        self, ref: EpisodeRef, step: str, at: datetime, *, seen: Episode | None = None
    ) -> bool:
        """Note that a recheck lets this step through once, and return true. The episode is then in
        phase `ACTING`. `first_cleared` keeps when each step was first let through.

        `seen` is the episode as the recheck read it; `None` lets the step through whatever others
        noted. Return false, with nothing changed, if another recheck has let a step through since.
        Raises: ConflictError if the episode is closed, or does not exist; CloudError.
        """
        cleared_before = {} if seen is None else seen.progress.first_cleared
        cleared: Document = {
            "phase": Phase.ACTING,
            "phase_since": at,
            "cleared_step": step,
            "cleared_at": at,
            "is_clearance_used": False,
            "first_cleared": {step: at, **cleared_before},
        }
        condition = IS_OPEN
        if seen is not None:
            condition &= _is_cleared_as(seen)
        try:
            self._table.write(update(keys.episode(ref), cleared, condition))
        except ConflictError:
            stored = self.episode(ref)
            if stored is None or stored.phase is Phase.CLOSED:
                raise
            return False
        return True

    def note_refusal(self, ref: EpisodeRef, name: str, why: str) -> None:
        """Note why the episode goes no further, in place of an earlier note: `name`, which is the
        outcome or the name of the error, and `why`, cut to 1,000 characters together. Nothing is
        noted in a closed episode. Raises: CloudError."""
        self._table.try_write(
            update(
                keys.episode(ref),
                {"last_no": LastNo(name, why).text[:_REFUSAL_CHARACTERS]},
                IS_OPEN,
            )
        )

    def reserve_snapshots(self, ref: EpisodeRef, step: str, at: datetime, stale: datetime) -> bool:
        """Reserve the making of the snapshots for this one attempt, note that EC2 is asked for the
        step, and return true. A step that is noted already keeps its first time.

        Return false, with nothing changed, if the episode has snapshots, is closed, or was reserved
        at `stale` or later. Raises: CloudError.
        """
        is_free = unset("snapshots_reserved_at") | where("snapshots_reserved_at", "<", stale)
        reserved = {"snapshots_reserved_at": at}
        reserving = update(
            keys.episode(ref),
            reserved,
            IS_OPEN & _NO_SNAPSHOTS & is_free,
            first=("steps_done", step, at),
        )
        return self._table.try_write(reserving)

    def release_snapshots(self, ref: EpisodeRef, at: datetime) -> None:
        """Give up the reservation made at this time, so that another attempt may make the
        snapshots. Call it only if none were made. If the reservation is another one, nothing
        happens. Raises: CloudError."""
        is_ours = where("snapshots_reserved_at", "=", at)
        self._table.try_write(update(keys.episode(ref), {"snapshots_reserved_at": None}, is_ours))

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> Mapping[str, str]:
        """Note the volume ids by snapshot id, unless snapshots are noted already. Return those that
        are noted now, which may be those of another attempt. Raises: ConflictError if there is no
        such episode; CloudError."""
        change = update(
            keys.episode(ref), {"snapshots": dict(snapshots)}, present() & _NO_SNAPSHOTS
        )
        if self._table.try_write(change):
            return snapshots
        stored = self.episode(ref)
        if stored is None:
            raise ConflictError(f"there is no episode {ref.execution_name}")
        return stored.progress.snapshots

    def note_user_data(self, ref: EpisodeRef, kept: UserData) -> None:
        """Note where the copy of the user data is. Raises: ConflictError if the episode is closed,
        or does not exist; CloudError."""
        self._table.write(update(keys.episode(ref), {"user_data": kept}, IS_OPEN))

    def forget_step(self, episode: Episode, step: str, noted_at: datetime) -> bool:
        """Take back the note of a call made at `noted_at`, and return true. Call it only for a call
        that had no effect.

        Return false, with nothing changed, if the episode was rechecked or closed, or the step was
        noted again, since `episode` was read. Raises: CloudError.
        """
        remaining_steps = dict(episode.progress.steps_done)
        remaining_steps.pop(step, None)
        is_same_note = where(f"steps_done.{step}", "=", noted_at)
        is_unchanged = IS_OPEN & _is_cleared_as(episode) & is_same_note
        return self._table.try_write(
            update(keys.episode(episode.ref), {"steps_done": remaining_steps}, is_unchanged)
        )

    def journal(self, ref: EpisodeRef, what: str, at: datetime, **facts: object) -> None:
        """Store facts that the episode itself does not hold, for the audit alone: a refusal, or
        EC2's answer. `what` names the event. A failure is only logged."""
        key = keys.episode(ref)[0], f"JOURNAL#{as_utc(at).isoformat()}#{what}"
        self._keep_for_audit(update(key, {"what": what, **facts}, until=at + _JOURNAL_KEPT))

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """Note in the record and in the episode that people were notified of the outcome. Raises:
        ConflictError if there is no such episode; CloudError."""
        # The record first: if only this write succeeds, nobody is notified a second time.
        is_untold = where("untold", "=", ref.execution_name)
        self._table.try_write(update(_record(ref), {}, is_untold, remove=("untold",)))
        self._table.write(update(keys.episode(ref), {"outcome_told_at": at}, present()))

    def note_start_try(self, ref: EpisodeRef, new: StartTry, earlier: StartTry | None) -> bool:
        """Note a try to start the instance again, and that it must be followed; return true.

        `earlier` is the try that was read before; `None` for the first one. Return false, with
        nothing changed, if the episode has not stopped it or was undone, or another try was noted
        or changed since. Raises: CloudError.
        """
        is_unchanged = unset("start_try") if earlier is None else _is_as_seen(earlier)
        was_stopped = _CLOSED | present(f"steps_done.{Step.STOP.value}")
        is_startable = was_stopped & unset("undone_at") & is_unchanged
        return self._table.try_transaction(
            update(keys.episode(ref), {"start_try": new}, is_startable),
            update(_record(ref), {"starting": ref.execution_name}),
        )

    def change_start_try(self, ref: EpisodeRef, seen: StartTry, changed: StartTry) -> bool:
        """Replace the try that was read as `seen`, and return true; return false if it was changed
        since. Once it is not followed any more, the note of that is removed. Raises: CloudError."""
        is_changed = self._table.try_write(
            update(keys.episode(ref), {"start_try": changed}, _is_as_seen(seen))
        )
        if is_changed and not changed.is_followed:
            self.end_following(ref)
        return is_changed

    def take_back_undo(self, ref: EpisodeRef, seen: StartTry, fallen: StartTry) -> bool:
        """Replace the try that was read as `seen`, and remove the note of who undid the episode:
        the instance stopped again. The note that it is followed stays for the sweep, which goes on
        with the saving. Return true; return false if the try was changed since. Raises:
        CloudError."""
        change = update(
            keys.episode(ref),
            {"start_try": fallen},
            _is_as_seen(seen),
            remove=("undone_at", "undone_by"),
        )
        return self._table.try_write(change)

    def end_following(self, ref: EpisodeRef) -> None:
        """Remove the note that a start of this episode is followed; do nothing if there is none.
        Raises: CloudError."""
        is_followed = where("starting", "=", ref.execution_name)
        self._table.try_write(update(_record(ref), {}, is_followed, remove=("starting",)))

    def end_following_try(self, ref: EpisodeRef, seen: StartTry) -> None:
        """Remove the note that a start of this episode is followed. Do nothing if there is none, or
        if the try that was read as `seen` was changed, or another one noted, since. Raises:
        CloudError."""
        is_followed = where("starting", "=", ref.execution_name)
        self._table.try_transaction(
            check(keys.episode(ref), _is_as_seen(seen)),
            update(_record(ref), {}, is_followed, remove=("starting",)),
        )

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """Note who undid the episode, and return true; return false if somebody was noted before.

        Raises: ConflictError if the episode does not exist, or is open and its stop was not noted;
        CloudError.
        """
        key = keys.episode(ref)
        undone = {"undone_at": at, "undone_by": by}
        was_stopped = _CLOSED | present(f"steps_done.{Step.STOP.value}")
        try:
            self._table.write(update(key, undone, was_stopped & unset("undone_at")))
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
        became: Outcome | None = None,
        booking: Sequence[Write] = (),
        restarts_quiet_until: datetime | None = None,
        logged_in: str = "",
    ) -> bool:
        """Close the episode, even if it was never stored, free its lock and carry out the writes
        that book its saving (`booking`), all or nothing.

        `quiet_until` is when people may be notified of the same idleness again; `None` if the
        outcome decides that. `restarts_quiet_until` is until when nobody is asked about any run of
        the instance; `None` leaves what is stored. `became` is `STOPPED` or `TERMINATED` if GPU
        Governor did that to the instance. `logged_in` is the person whose open session ended the
        episode; empty if none did. Return true if this call closed the episode; false if it
        was closed before.
        Raises: ConflictError if the episode keeps changing; CloudError.
        """
        closed = {
            "phase": Phase.CLOSED,
            "phase_since": at,
            "closed_at": at,
            "outcome": outcome,
            "outcome_reason": reason,
            "became": became,
            "asked_again_at": quiet_until,
        }
        for _ in range(_ATTEMPTS):
            stored = self._table.get(keys.episode(ref))
            held_locks = self._held_locks(ref)
            is_over = stored["phase"] == Phase.CLOSED if stored else not held_locks
            if is_over:
                return False
            # Without an episode, freeing the lock is the whole close. It fails, and is tried again,
            # if the episode is stored meanwhile.
            writes = [check(keys.episode(ref), absent())]
            if stored:
                writes = [update(keys.episode(ref), closed, IS_OPEN)]
            if held_locks:
                writes += _freeing_writes(
                    ref,
                    held_locks,
                    outcome,
                    quiet_until,
                    restarts_quiet_until,
                    opened=stored is not None,
                    logged_in=logged_in,
                )
            writes += booking
            if self._table.try_transaction(*writes):
                return True
        raise ConflictError(f"episode {ref.execution_name} kept changing while it was closed")

    def _held_locks(self, ref: EpisodeRef) -> list[Key]:
        """Return the keys of the locks that this episode holds; empty if it holds none. Raises:
        CloudError."""
        held_locks: list[Key] = []
        for key in locks(ref):
            item = self._table.get(key) or {}
            if item.get("open_episode") == ref.execution_name:
                held_locks.append(key)
        return held_locks


def _is_as_seen(seen: StartTry) -> Condition:
    """Return the condition that the try to start the instance is the one that was read."""
    is_same = where("start_try.asked_at", "=", seen.asked_at)
    return is_same & where("start_try.status", "=", seen.status)


def _record(ref: EpisodeRef) -> Key:
    """Return the key of the record of the episode's instance."""
    return keys.instance(ref.target, ref.instance_id)


def _is_cleared_as(episode: Episode) -> Condition:
    """Return the condition that no recheck has let a step through since the episode was read."""
    if episode.clearance is None:
        return unset("cleared_at")
    return where("cleared_at", "=", episode.clearance.at)


def locks(ref: EpisodeRef) -> tuple[Key, Key]:
    """Return the key of the lock, and the key where the previous software release reads the lock.

    Both are written and read for one release, because a rollback brings the previous one back. An
    instance is locked if either place says so.
    """
    return keys.lock(ref.target, ref.instance_id), _record(ref)


def is_held_by(ref: EpisodeRef) -> Condition:
    """Return the condition that this episode holds the lock of the item."""
    return where("open_episode", "=", ref.execution_name)


def _freeing_writes(
    ref: EpisodeRef,
    held_locks: Sequence[Key],
    outcome: Outcome,
    quiet_until: datetime | None,
    restarts_quiet_until: datetime | None,
    *,
    opened: bool,
    logged_in: str,
) -> list[Write]:
    """Return the writes that free the locks in `held_locks` and note the episode's end on the
    record of the instance.

    `quiet_until` is when people may be notified of the same idleness again; `None` if that is at
    once. `restarts_quiet_until` is until when nobody is asked about any run of the instance; `None`
    leaves what is stored. `opened` says that the episode was stored, so people may not know its
    outcome yet. `logged_in` is the person whose open session ended it; empty if none did.
    """
    values: Document = {"last_outcome": outcome}
    removed: list[str] = []
    added: dict[str, int] = {}
    if opened:
        values["untold"] = ref.execution_name
    # `failures` counts failed ends in a row.
    if outcome is not Outcome.FAILED:
        removed.append("failures")
    elif quiet_until is not None:
        added["failures"] = 1
    # Until `quiet_until`, people are not notified of the same idle stretch again.
    if quiet_until is None:
        removed += ["quiet_until", "quiet_launch_time"]
    else:
        values["quiet_until"] = quiet_until
        values["quiet_launch_time"] = ref.launch_time
    if restarts_quiet_until is not None:
        values["restarts_quiet_until"] = restarts_quiet_until
    if logged_in:
        values["logged_in"] = logged_in
    else:
        removed.append("logged_in")

    lock, record = locks(ref)
    writes: list[Write] = []
    if lock in held_locks:
        writes.append(update(lock, {}, is_held_by(ref), remove=["open_episode"]))
    is_own = None
    if record in held_locks:
        is_own = is_held_by(ref)
        removed.append("open_episode")
    writes.append(update(record, values, is_own, remove=removed, add=added))
    return writes
