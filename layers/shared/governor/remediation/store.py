"""Notes each call to EC2 before it is sent, and fails if a hold or a pause has come in between.

A note is one transaction: it fails if somebody holds the episode, or, before a call that destroys
something, if everything is paused.
"""

from __future__ import annotations

from datetime import datetime

from governor.approvals.model.approval import Approval
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import ConflictError, Held, MustWait
from governor.episode.model.episode import Episode, Phase
from governor.episode.model.plan import Step
from governor.episode.store.episodes import IS_OPEN
from governor.limits.store.pauses import not_paused, standing_pause
from governor.table import keys
from governor.table.table import Key, Store, Write, absent, check, unset, update, where


class Calls(Store):
    """Notes of calls to EC2. Every method may raise CloudError."""

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """Note that EC2 is asked for a step; a later note of the same step keeps the first time.

        Raises: Held if somebody holds the episode; MustWait if everything is paused and the step
        destroys something; ConflictError if the episode is closed; CloudError.
        """
        noted = update(keys.episode(ref), {}, IS_OPEN, first=("steps_done", step, at))
        self._note_before_call(ref, noted, destroys=step != Step.SNAPSHOT)

    def note_call(self, ref: EpisodeRef, step: str, at: datetime, cleared_at: datetime) -> None:
        """Note that EC2 is asked to stop or terminate now: the last barrier before the call.

        The note uses up the recheck that was made at `cleared_at`, so only one of several
        invocations sends the call. Raises: MustWait if that recheck has been used or is no longer
        the last one, or everything is paused; Held if somebody holds the episode; ConflictError if
        the episode is closed or was never saved; CloudError.
        """
        is_last_recheck = where("cleared_at", "=", cleared_at) & where("cleared_step", "=", step)
        is_unused = absent("is_clearance_used") | where("is_clearance_used", "=", False)
        noted = update(
            keys.episode(ref),
            {"is_clearance_used": True},
            IS_OPEN & is_last_recheck & is_unused,
            first=("steps_done", step, at),
        )
        try:
            self._note_before_call(ref, noted, destroys=True)
        except ConflictError:
            stored = self._table.read(Episode, keys.episode(ref))
            if stored is None or stored.phase is Phase.CLOSED:
                raise
            raise MustWait("another call was sent after the same recheck") from None

    def _note_before_call(self, ref: EpisodeRef, noted: Write, *, destroys: bool) -> None:
        """Write `noted`, the note of a step, unless somebody holds the episode or, if the step
        `destroys`, everything is paused.

        Raises: Held; MustWait; ConflictError if the note's own condition fails; CloudError.
        """
        stored = self._table.get(keys.episode(ref)) or {}
        question = keys.approval(stored.get("approval_id", ""))
        barriers = [check(question, unset("brake") & unset("late_hold"))]
        if destroys:
            barriers.append(not_paused())
        try:
            self._table.transact(noted, *barriers)
        except ConflictError:
            self._raise_if_held(question)
            if destroys:
                self._raise_if_paused()
            raise

    def _raise_if_held(self, question: Key) -> None:
        """Raise Held, with who holds it, if somebody holds the episode of this question. Do nothing
        if nobody does, or there is no such question. Raises: CloudError too."""
        approval = self._table.read(Approval, question)
        held_by = None if approval is None else approval.counted_hold
        if held_by is not None:
            raise Held(held_by.why) from None

    def _raise_if_paused(self) -> None:
        """Raise MustWait, with who paused everything, if there is a pause. Do nothing if there is
        none. Raises: CloudError too."""
        pause = standing_pause(self._table)
        if pause is not None:
            raise MustWait(f"everything is {pause.why}") from None
