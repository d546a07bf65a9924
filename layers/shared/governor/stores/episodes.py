"""Episodes, from the lock on the instance record to the close that frees it, and their questions.

A question is decided once. A keep or an exemption holds from that moment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta

from governor.domain.approvals.approval import (
    STATUS_AFTER,
    Approval,
    ApprovalStatus,
    Decision,
    SealedExpiry,
    first_approval,
    hold_of,
)
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase
from governor.domain.episode.expiry import Expiry
from governor.domain.episode.plan import Step
from governor.domain.instance import Target, UserData
from governor.domain.money.ledger import LedgerEntry
from governor.domain.sweep.verdict import Hold
from governor.domain.units import UtcDatetime, as_utc
from governor.errors import CloudError, ConflictError, Held, MustWait, NotFound
from governor.stores import keeps, keys
from governor.stores.ledger import booking
from governor.stores.pauses import Pauses, not_paused
from governor.stores.table import (
    Condition,
    Document,
    Key,
    Readable,
    Store,
    Write,
    absent,
    check,
    insert,
    present,
    put,
    update,
    where,
)

_log = logging.getLogger(__name__)

_APPROVALS_KEPT = timedelta(days=400)
_ATTEMPTS = 6
"""Attempts of a close that read an older state."""
_GOES_ON = present() & (absent("ended_at") | where("ended_at", "=", None))
_CLOSED = where("phase", "=", Phase.CLOSED)
_OPEN = present() & where("phase", "<>", Phase.CLOSED)
_NO_SNAPSHOTS = absent("snapshots") | where("snapshots", "=", {})
_KEPT = ("snoozed_until", "kept_in", "kept_by")
"""The attributes of a hold that describe a keep."""
_PENDING = where("status", "=", ApprovalStatus.PENDING)


class Episodes(Pauses):
    def take_lock(self, ref: EpisodeRef) -> bool:
        """Open the episode on the lock of its instance, and count it.

        Return true if this call took the lock, or the same episode holds it already; false if
        another episode is open, or this number has been used.
        """
        is_free = absent("open_episode") & (absent("episodes") | where("episodes", "<", ref.number))
        locked = {"open_episode": ref.execution_name, "episodes": ref.number}
        is_free_or_own = is_free | _is_held_by(ref)
        return self._table.wins(*(update(key, locked, is_free_or_own) for key in _locks(ref)))

    def free_lock(self, ref: EpisodeRef) -> None:
        """Free the locks that a closed episode still holds: the previous release freed only the
        record."""
        for key in _locks(ref):
            self._table.holds(update(key, {}, _is_held_by(ref), remove=["open_episode"]))

    def save_opened(self, episode: Episode) -> Episode:
        """Write the episode and its pending approval once; return the stored one (first wins).

        Raises: ConflictError when the episode does not hold the lock (any more).
        """
        ref = episode.ref
        question = first_approval(episode)
        # Without the attributes of an answer: the role that opens questions may not write them.
        document = self._table.document(question)
        asked = {name: value for name, value in document.items() if value is not None}
        until = question.created_at + _APPROVALS_KEPT
        try:
            self._table.transact(
                insert(keys.episode(ref), episode),
                insert(keys.approval(question.approval_id), asked, until=until),
                check(_locks(ref)[0], _is_held_by(ref)),
            )
        except ConflictError:
            stored = self.episode(ref)
            if stored is None:
                raise
            return stored
        return episode

    def episode(self, ref: EpisodeRef) -> Episode | None:
        return self._table.read(Episode, keys.episode(ref))

    def clear_step(
        self, ref: EpisodeRef, step: str, at: datetime, *, seen: Episode | None = None
    ) -> bool:
        """Let this step through once after a recheck. `seen` is the episode as the recheck read it.

        Return false if another recheck has let a step through since. Raises: ConflictError when the
        episode is closed.
        """
        cleared_before = {} if seen is None else seen.first_cleared
        cleared: Document = {
            "phase": Phase.ACTING,
            "phase_since": at,
            "cleared_step": step,
            "cleared_at": at,
            "is_clearance_used": False,
            "first_cleared": {step: at, **cleared_before},
        }
        condition = _OPEN
        if seen is not None:
            is_last = where("cleared_at", "=", seen.cleared_at)
            if seen.cleared_at is None:
                is_last |= absent("cleared_at")
            condition &= is_last
        try:
            self._table.write(update(keys.episode(ref), cleared, condition))
        except ConflictError:
            stored = self.episode(ref)
            if stored is None or stored.phase is Phase.CLOSED:
                raise
            return False
        return True

    def note_no(self, ref: EpisodeRef, name: str, why: str) -> None:
        """Note why the episode goes no further, after the outcome or the error's name. A closed
        episode stays as it is."""
        self._table.holds(update(keys.episode(ref), {"last_no": f"{name}: {why}"[:1000]}, _OPEN))

    def reserve_snapshots(self, ref: EpisodeRef, step: str, at: datetime, stale: datetime) -> bool:
        """Note the step as `note_step` does, and let this one attempt make the snapshots.

        Return false if the episode has snapshots, is closed, or was reserved after `stale`.
        """
        is_free = _unset("snapshots_reserved_at") | where("snapshots_reserved_at", "<", stale)
        reserved = {"snapshots_reserved_at": at}
        reserving = update(
            keys.episode(ref),
            reserved,
            _OPEN & _NO_SNAPSHOTS & is_free,
            first=("steps_done", step, at),
        )
        return self._table.holds(reserving)

    def release_snapshots(self, ref: EpisodeRef, at: datetime) -> None:
        """Let another attempt make the snapshots: the one that reserved at this time has made
        none."""
        is_ours = where("snapshots_reserved_at", "=", at)
        self._table.holds(update(keys.episode(ref), {"snapshots_reserved_at": None}, is_ours))

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> Mapping[str, str]:
        """Note volume ids by snapshot id, once; return those that are noted. Raises:
        ConflictError."""
        change = update(
            keys.episode(ref), {"snapshots": dict(snapshots)}, present() & _NO_SNAPSHOTS
        )
        if self._table.holds(change):
            return snapshots
        stored = self.episode(ref)
        if stored is None:
            raise ConflictError(f"there is no episode {ref.execution_name}")
        return stored.snapshots

    def note_user_data(self, ref: EpisodeRef, kept: UserData) -> None:
        """Note where the copy is. Raises ConflictError when the episode is closed."""
        self._table.write(update(keys.episode(ref), {"user_data": kept}, _OPEN))

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """Note when EC2 was first asked for a step, unless somebody holds the episode or, for a
        step that destroys something, everything is paused.

        Raises: Held or MustWait when somebody was faster; ConflictError when the episode is closed.
        """
        noted = update(keys.episode(ref), {}, _OPEN, first=("steps_done", step, at))
        self._note_before_call(ref, noted, destroys=step != Step.SNAPSHOT)

    def note_call(self, ref: EpisodeRef, step: str, at: datetime, cleared_at: datetime) -> None:
        """Note that EC2 is asked to stop or terminate now: the last barrier before the call.

        The note uses up the recheck made at `cleared_at`, so only one of several invocations sends
        the call. Raises: as `note_step`; MustWait when that recheck has been used, or is no longer
        the last one.
        """
        is_last_recheck = where("cleared_at", "=", cleared_at) & where("cleared_step", "=", step)
        is_unused = absent("is_clearance_used") | where("is_clearance_used", "=", False)
        noted = update(
            keys.episode(ref),
            {"is_clearance_used": True},
            _OPEN & is_last_recheck & is_unused,
            first=("steps_done", step, at),
        )
        try:
            self._note_before_call(ref, noted, destroys=True)
        except ConflictError:
            stored = self.episode(ref)
            if stored is None or stored.phase is Phase.CLOSED:
                raise
            raise MustWait("another call was sent after the same recheck") from None

    def _note_before_call(self, ref: EpisodeRef, noted: Write, *, destroys: bool) -> None:
        """Write the note unless somebody holds the episode or, if it `destroys`, all is paused.
        Raises: Held; MustWait; ConflictError."""
        stored = self._table.get(keys.episode(ref)) or {}
        question = keys.approval(stored.get("approval_id", ""))
        barriers = [check(question, _unset("brake") & _unset("late_hold"))]
        if destroys:
            barriers.append(not_paused())
        try:
            self._table.transact(noted, *barriers)
        except ConflictError:
            self._must_not_be_held(question)
            if destroys:
                self._must_not_be_paused()
            raise

    def _must_not_be_held(self, question: Key) -> None:
        """Raises: Held, with the answer that holds the episode."""
        approval = self._table.read(Approval, question)
        held_by = None if approval is None else approval.counted_hold
        if held_by is not None:
            raise Held(held_by.why) from None

    def _must_not_be_paused(self) -> None:
        """Raises: MustWait while everything is paused."""
        pause = self.pause()
        if pause is not None:
            raise MustWait(f"everything is {pause.why}") from None

    def note_late_hold(self, episode: Episode, hold: Decision) -> bool:
        """Keep a hold that came while the final step was under way. It counts if that step has no
        effect.

        Return false if the call is no longer noted, or another late hold stands.
        """
        is_under_way = _OPEN & present(f"steps_done.{episode.final_step.value}")
        noted = update(
            keys.approval(episode.approval_id), {"late_hold": hold}, present() & _unset("late_hold")
        )
        return self._table.wins(noted, check(keys.episode(episode.ref), is_under_way))

    def forget_step(self, episode: Episode, step: str, noted_at: datetime) -> bool:
        """Take back the note of a call made at this time, which had no effect.

        Return false if the step was rechecked, or noted again, since `episode` was read.
        """
        remaining_steps = {name: at for name, at in episode.steps_done.items() if name != step}
        is_same_note = where(f"steps_done.{step}", "=", noted_at)
        is_unchanged = _OPEN & where("cleared_at", "=", episode.cleared_at) & is_same_note
        return self._table.holds(
            update(keys.episode(episode.ref), {"steps_done": remaining_steps}, is_unchanged)
        )

    def hold(
        self, episode: Episode, brake: Decision, standing: Hold, before: Decision | None
    ) -> None:
        """Hold the episode in place of `before` alone, and store the keep or exemption that the
        answer gives the instance.

        Raises: ConflictError: the final step was noted, somebody else holds the episode, or it is
        over.
        """
        holding = update(
            keys.approval(episode.approval_id), {"brake": brake}, present() & _is_brake(before)
        )
        not_begun = _OPEN & absent(f"steps_done.{episode.final_step.value}")
        still_open = check(keys.episode(episode.ref), not_begun)
        self._with_standing(episode.ref, standing, brake.at, holding, still_open)

    def end_keep(self, approval: Approval, kept: Decision, by: str, at: datetime) -> None:
        """End a keep before its date, once. From then on the longest keep that still runs holds.

        Another keep that stands stays, even with the same date. A keep of the previous release is
        recognized by its date alone. Raises: ConflictError: the keep was ended, or another one
        stands or came meanwhile.
        """
        ref = approval.episode
        ended = {"keep_ended_at": at, "keep_ended_by": by}
        not_ended = present() & _unset("keep_ended_at") & _is_brake(approval.brake)
        place, old_place = keys.holds(ref.target, ref.instance_id)
        has_its_date = where("snoozed_until", "=", kept.keep_until)
        is_its_own = absent("kept_by") | where("kept_by", "=", approval.approval_id)
        is_its = (has_its_date & is_its_own) | _unset("snoozed_until")
        is_its_copy = has_its_date | _unset("snoozed_until")
        stored = self._table.get(place) or {}
        keep = Hold(kept.keep_until, kept_by=approval.approval_id)
        others = keeps.beside(self._table, stored, at, keep)
        self._table.transact(
            update(keys.approval(approval.approval_id), ended, not_ended),
            _ended(place, _KEPT, others, is_its & keeps.as_read(stored)),
            _ended_copy(old_place, _KEPT, others.longest, is_its_copy),
        )

    def stand(self, target: Target, instance_id: str, standing: Hold) -> None:
        """Store a keep or an exemption by itself; a longer keep stays.

        Raises: ConflictError: somebody else changed the keeps at each attempt.
        """
        alternatives = _standing(target, instance_id, standing)
        for _ in range(_ATTEMPTS):
            if self._is_stored(alternatives):
                return
        raise ConflictError(f"the keeps of {instance_id} change all the time")

    def _is_stored(self, alternatives: Sequence[Sequence[Write]]) -> bool:
        """Write the first alternative, or the last one where a longer keep stands. Return false if
        that keep ended in between."""
        are_written = [self._table.holds(write) for write in alternatives[0]]
        if all(are_written[:1]):
            return True
        return all(self._table.holds(write) for write in alternatives[-1])

    def end_hold(self, target: Target, instance_id: str, seen: Hold, by: str, at: datetime) -> None:
        """Take a keep and an exemption off. From then on the longest other keep that still runs
        holds.

        Raises: ConflictError where another hold than `seen` stands, or anything of it changes at
        this moment.
        """
        place, old_place = keys.holds(target, instance_id)
        item = self._table.get(place) or {}
        old_item = self._table.get(old_place) or {}
        [hold] = self._table.records(Hold, [item])
        [copied_hold] = self._table.records(Hold, [old_item])
        if hold.stricter(copied_hold) != seen:
            raise ConflictError(f"another hold of {instance_id} stands than the one that was seen")
        others = keeps.beside(self._table, item, at, seen)
        names = [field.name for field in fields(Hold)]
        # An item that does not exist is not written; the check fails if it came meanwhile.
        own = check(place, _is_hold_as_read(item))
        if item:
            own = _ended(place, names, others, _is_hold_as_read(item))
        copy = check(old_place, _is_hold_as_read(old_item))
        if old_item:
            copy = _ended_copy(old_place, names, others.longest, _is_hold_as_read(old_item))
        ended = {
            "what": "hold ended",
            "by": by,
            "instance_id": instance_id,
            "kept_until": seen.snoozed_until,
            "exempt_reason": seen.exempt_reason,
        }
        key = f"ENDED#{keys.place(target)}", f"{instance_id}#{as_utc(at).isoformat()}"
        log = update(key, ended, absent(), until=at + _APPROVALS_KEPT)
        self._table.transact(own, copy, log)

    def _with_standing(self, ref: EpisodeRef, standing: Hold, at: datetime, *writes: Write) -> None:
        """Carry out these writes together with those of a standing answer. Raises:
        ConflictError."""
        *alternatives, last = _standing(ref.target, ref.instance_id, standing)
        is_written = any(self._table.wins(*writes, *alternative) for alternative in alternatives)
        if not is_written:
            self._table.transact(*writes, *last)
        if standing.snoozed_until is not None:
            self._forget_past_keeps(ref, at)

    def _forget_past_keeps(self, ref: EpisodeRef, at: datetime) -> None:
        """Take keeps that are over off the item. Otherwise the item of an instance that is kept
        every day would grow without end."""
        place, _ = keys.holds(ref.target, ref.instance_id)
        try:
            item = self._table.get(place) or {}
            past = keeps.beside(self._table, item, at).names_to_forget
            if past:
                self._table.holds(update(place, {}, keeps.as_read(item), remove=past))
        except CloudError:
            _log.exception("past keeps of %s stay stored", ref.instance_id)

    def journal(self, ref: EpisodeRef, what: str, at: datetime, **facts: object) -> None:
        """Keep a fact that the episode itself does not hold, for the audit alone: a refusal, or
        EC2's answer."""
        key = keys.episode(ref)[0], f"JOURNAL#{as_utc(at).isoformat()}#{what}"
        self._keep_for_audit(update(key, {"what": what, **facts}, until=at + _APPROVALS_KEPT))

    def note_refused(
        self,
        approval: Approval,
        answer: str,
        by: str,
        why: str,
        at: datetime,
        decision: Decision | None = None,
    ) -> None:
        """Keep an answer that was refused, for the audit alone: the first of its kind by the same
        person."""
        key = keys.approval(approval.approval_id)[0], f"REFUSED#{answer}#{by}"
        refused: Document = {
            "what": "refused",
            "episode": approval.episode.execution_name,
            "reason": why,
            "evidence_hash": approval.evidence_hash,
            "by": by,
            "answer": answer,
            "refused": decision,
        }
        self._keep_for_audit(update(key, refused, absent(), until=at + _APPROVALS_KEPT))

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """Note that people know the outcome. Raises ConflictError when there is no such episode."""
        # The record first: if only this write succeeds, nobody is notified a second time.
        is_untold = where("untold", "=", ref.execution_name)
        self._table.holds(update(_record(ref), {}, is_untold, remove=("untold",)))
        self._table.write(update(keys.episode(ref), {"outcome_told_at": at}, present()))

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """Note who undid the episode; return true if nobody was noted before. Raises: ConflictError
        unless the episode is closed or its instance stopped."""
        key = keys.episode(ref)
        undone = {"undone_at": at, "undone_by": by}
        was_stopped = _CLOSED | present(f"steps_done.{Step.STOP.value}")
        try:
            self._table.write(update(key, undone, was_stopped & _unset("undone_at")))
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
        """Close the episode, even if it was never saved, free its lock and book the entry.

        Return true if the episode was open. Raises: ConflictError where it keeps changing.
        """
        became = None
        if ledger is not None and ledger.ours:
            became = ledger.outcome
        closed = {
            "phase": Phase.CLOSED,
            "phase_since": at,
            "closed_at": at,
            "outcome": outcome,
            "outcome_reason": reason,
            "became": became,
        }
        for _ in range(_ATTEMPTS):
            stored = self._table.get(keys.episode(ref))
            held_locks = self._held_locks(ref)
            is_over = stored["phase"] == Phase.CLOSED if stored else not held_locks
            if is_over:
                return False
            # Without an episode, freeing the lock is the whole close, unless one is saved now.
            writes = [check(keys.episode(ref), absent())]
            if stored:
                writes = [update(keys.episode(ref), closed, _OPEN)]
            if held_locks:
                writes += _freeing(ref, held_locks, outcome, quiet_until, opened=stored is not None)
            if ledger is not None:
                writes += booking(ledger)
            if self._table.wins(*writes):
                return True
        raise ConflictError(f"episode {ref.execution_name} kept changing while it was closed")

    def _held_locks(self, ref: EpisodeRef) -> list[Key]:
        """Return the places of the lock that this episode holds."""
        held_locks = []
        for key in _locks(ref):
            item = self._table.get(key) or {}
            if item.get("open_episode") == ref.execution_name:
                held_locks.append(key)
        return held_locks

    def approval(self, approval_id: str) -> Approval | None:
        return self._table.read(Approval, keys.approval(approval_id))

    def questions(self, asked: Mapping[str, str]) -> list[tuple[Approval, Episode]]:
        """Return questions with their episodes: execution names by the questions' ids. Read at
        once."""
        wanted_keys = {keys.approval(approval_id) for approval_id in asked}
        for execution_name in asked.values():
            wanted_keys.add((f"EPISODE#{execution_name}", "EPISODE"))
        items = self._table.get_all(sorted(wanted_keys))
        question_items = [item for item in items if item["pk"].startswith("APPROVAL#")]
        episode_items = [item for item in items if item["sk"] == "EPISODE"]
        episodes = self._table.records(Episode, episode_items)
        episode_by_ref = {episode.ref: episode for episode in episodes}
        questions = []
        for question in self._table.records(Approval, question_items):
            episode = episode_by_ref.get(question.episode)
            if episode is not None:
                questions.append((question, episode))
        return questions

    def answered(self, approval_ids: Sequence[str]) -> set[str]:
        """Return the ids of these questions that are no longer open. Read at once."""
        items = self._table.get_all([keys.approval(approval_id) for approval_id in approval_ids])
        answered_ids = set()
        for item in items:
            if item.get("status") != ApprovalStatus.PENDING:
                answered_ids.add(str(item["approval_id"]))
        return answered_ids

    def open_questions(
        self, refs: Sequence[EpisodeRef]
    ) -> dict[EpisodeRef, tuple[Episode, Approval | None]]:
        """Return the episodes that can be read, each with its question if it asks. Read at once."""
        table = Readable(self._table)
        items = table.get_all([keys.episode(ref) for ref in refs])
        episodes = list(table.records(Episode, items))
        question_keys = []
        for episode in episodes:
            if episode.phase is Phase.ASKING:
                question_keys.append(keys.approval(episode.approval_id))
        questions = table.records(Approval, table.get_all(question_keys))
        question_by_id = {question.approval_id: question for question in questions}
        return {
            episode.ref: (episode, question_by_id.get(episode.approval_id)) for episode in episodes
        }

    def await_answer(
        self, approval_id: str, task_token: str | None, stage: str, expires_at: datetime
    ) -> Approval:
        """Open the approval for answers until `expires_at`, and bind the task token that waits, if
        any. Return it as stored: it may already be decided. Raises: NotFound."""
        asked = {"task_token": task_token, "stage": stage, "expires_at": expires_at}
        self._table.holds(update(keys.approval(approval_id), asked, _PENDING))
        return self.existing(approval_id)

    def note_waits_told(self, approval_id: str, at: datetime) -> None:
        self._table.write(update(keys.approval(approval_id), {"waits_told_at": at}, present()))

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        """Note the first of two approvals; return the approval as stored. Raises: NotFound."""
        is_first = _PENDING & _unset("first_yes")
        self._table.holds(update(keys.approval(approval_id), {"first_yes": decision}, is_first))
        return self.existing(approval_id)

    def settle(self, approval_id: str, decision: Decision, project: str | None = None) -> Approval:
        """Change PENDING to the decision's status, once, and store a keep or an exemption, all or
        nothing. Raises: ConflictError when it is no longer pending, NotFound."""
        changes = {"status": STATUS_AFTER[decision.answer], "decision": decision}
        approval, decided = self._decision(approval_id, changes, _PENDING)
        standing = hold_of(decision, project, approval_id)
        self._with_standing(approval.episode, standing, decision.at, decided)
        return self.existing(approval_id)

    def void(
        self,
        approval_id: str,
        reason: str,
        *,
        expired: bool,
        outcome: str = "void",
        expiry: SealedExpiry | None = None,
    ) -> Approval:
        """Change PENDING to VOID (or EXPIRED), once, with `outcome`. Silence counts with the
        `expiry` alone. Raises: ConflictError, also where it expires at another time than the
        `expiry` says; NotFound."""
        status = ApprovalStatus.EXPIRED if expired else ApprovalStatus.VOID
        changes: Document = {"status": status, "void_reason": reason, "void_outcome": outcome}
        condition = _PENDING
        if expiry is not None:
            changes |= {"expired_at": expiry.expired_at, "expiry_seal": expiry.seal}
            condition &= where("expires_at", "=", expiry.expires_at)
        _, decided = self._decision(approval_id, changes, condition)
        self._table.transact(decided)
        return self.existing(approval_id)

    def _decision(
        self, approval_id: str, changes: Document, condition: Condition
    ) -> tuple[Approval, Write]:
        """Return the question, and the write that decides it. Raises: ConflictError where it is
        decided already."""
        approval = self.existing(approval_id)
        # This saves a transaction that must fail.
        if approval.status is not ApprovalStatus.PENDING:
            raise ConflictError(f"approval {approval_id} is {approval.status.value} already")
        return approval, update(keys.approval(approval_id), changes, condition)

    def existing(self, approval_id: str) -> Approval:
        """As `approval`. Raises: NotFound where there is none."""
        approval = self.approval(approval_id)
        if approval is None:
            raise NotFound(f"approval {approval_id} does not exist", operation="dynamodb:GetItem")
        return approval


def _record(ref: EpisodeRef) -> Key:
    return keys.instance(ref.target, ref.instance_id)


def _locks(ref: EpisodeRef) -> tuple[Key, Key]:
    """Return where the lock is, and where the previous release reads it.

    Both are written and read for one release, since a rollback brings the previous one back. An
    instance is locked if either place says so.
    """
    return keys.lock(ref.target, ref.instance_id), _record(ref)


def _standing(target: Target, instance_id: str, hold: Hold) -> list[list[Write]]:
    """Return the writes of a standing answer about the instance, as alternatives for a transaction.

    The first writes both places. A longer keep stays, so each of the others is for one or both
    places with a longer keep. Without a standing answer there is one alternative without writes.
    """
    if hold.snoozed_until is not None:
        return _standing_keep(target, instance_id, hold, hold.snoozed_until)
    if hold.exempt_reason is None:
        return [[]]
    place, old_place = keys.holds(target, instance_id)
    exempt = {"exempt_reason": hold.exempt_reason}
    # Not in the old place: the previous release would leave the project there beside a new hold.
    own = update(place, {**exempt, "exempt_in": hold.exempt_in})
    return [[own, update(old_place, exempt)]]


def _standing_keep(
    target: Target, instance_id: str, hold: Hold, until: UtcDatetime
) -> list[list[Write]]:
    """Return the alternatives of `_standing` for a keep."""
    place, old_place = keys.holds(target, instance_id)
    is_shorter = _unset("snoozed_until") | where("snoozed_until", "<=", until)
    kept = {"snoozed_until": until, "kept_in": hold.kept_in, "kept_by": hold.kept_by}
    remembered = {keeps.name_of(hold): keeps.only_keep(hold)}
    counted = {keeps.COUNT: 1}
    own = update(place, {**kept, **remembered}, is_shorter, add=counted)
    # Only the end: the previous release would leave project and question beside a new hold.
    copy = update(old_place, {"snoozed_until": until}, is_shorter)
    longer_stays = update(place, remembered, where("snoozed_until", ">", until), add=counted)
    return [[own, copy], [own], [longer_stays, copy], [longer_stays]]


def _ended(
    place: Key,
    names: Sequence[str],
    others: keeps.OtherKeeps,
    condition: Condition,
) -> Write:
    """Return the write that takes these attributes of a hold off, or puts the longest other keep in
    their place, and forgets keeps that are over."""
    kept: Document = {}
    if others.longest.snoozed_until is not None:
        kept = {name: getattr(others.longest, name) for name in _KEPT}
    removed = [name for name in names if name not in kept]
    forgotten = others.names_to_forget
    return update(place, kept, condition, remove=[*removed, *forgotten], add={keeps.COUNT: 1})


def _ended_copy(place: Key, names: Sequence[str], following: Hold, condition: Condition) -> Write:
    """Return the write of `_ended` for the previous release, which knows only the end of a keep."""
    kept: Document = {}
    if following.snoozed_until is not None:
        kept = {"snoozed_until": following.snoozed_until}
    removed = [name for name in names if name not in kept]
    return update(place, kept, condition, remove=removed)


def _unset(attribute: str) -> Condition:
    return absent(attribute) | where(attribute, "=", None)


def _is_brake(read: Decision | None) -> Condition:
    """Return the condition that still this decision alone holds the episode, or still nobody."""
    return _unset("brake") if read is None else where("brake.at", "=", read.at)


def _is_hold_as_read(item: Document) -> Condition:
    """Return the condition that neither the hold nor its keeps have changed since the item was
    read."""
    condition = keeps.as_read(item)
    for field in fields(Hold):
        condition &= _as_read(item, field.name)
    return condition


def _as_read(item: Document, attribute: str) -> Condition:
    """Return the condition that the attribute is as the item holds it; unset if it does not."""
    value = item.get(attribute)
    return _unset(attribute) if value is None else where(attribute, "=", value)


def _is_held_by(ref: EpisodeRef) -> Condition:
    return where("open_episode", "=", ref.execution_name)


def _freeing(
    ref: EpisodeRef,
    held_locks: Sequence[Key],
    outcome: Outcome,
    quiet_until: datetime | None,
    *,
    opened: bool,
) -> list[Write]:
    """Return the writes that free the lock of a closed episode and note its end on the record."""
    values: Document = {"last_outcome": outcome}
    removed: list[str] = []
    added: dict[str, int] = {}
    if opened:
        values["untold"] = ref.execution_name
    if outcome is not Outcome.FAILED:
        removed.append("failures")
    elif quiet_until is not None:
        added["failures"] = 1
    if quiet_until is None:
        removed += ["quiet_until", "quiet_launch_time"]
    else:
        values["quiet_until"] = quiet_until
        values["quiet_launch_time"] = ref.launch_time

    lock, record = _locks(ref)
    writes: list[Write] = []
    if lock in held_locks:
        writes.append(update(lock, {}, _is_held_by(ref), remove=["open_episode"]))
    is_own = None
    if record in held_locks:
        is_own = _is_held_by(ref)
        removed.append("open_episode")
    writes.append(update(record, values, is_own, remove=removed, add=added))
    return writes


class Expiries(Store):
    """Notices to owners about expiring snapshots, and each snapshot's end. Each target has its own
    partition."""

    def expiries(self, target: Target) -> list[Expiry]:
        return self._table.read_all(Expiry, f"EXPIRY#{keys.place(target)}")

    def note_expiring(self, target: Target, expiries: Iterable[Expiry]) -> None:
        """Note that the owner was notified of these snapshots; replace what is stored of them."""
        self._table.write_all([put(_expiry_key(target, expiry), expiry) for expiry in expiries])

    def begin_deletion(self, target: Target, expiry: Expiry, at: UtcDatetime) -> bool:
        """Note that EC2 is asked now to delete the snapshot.

        Return false while everything is paused, and if the owner was notified again or the
        snapshot has ended since `expiry` was read.
        """
        is_unchanged = _GOES_ON & where("noticed_at", "=", expiry.noticed_at)
        begun = {"begun_at": at, "what": "snapshot deletion begun"}
        beginning = update(_expiry_key(target, expiry), begun, is_unchanged)
        return self._table.wins(beginning, not_paused())

    def end_deletion(
        self, target: Target, expiry: Expiry, at: UtcDatetime, what: str, request_id: str | None
    ) -> None:
        """Note the end of the snapshot, once."""
        ended = {"ended_at": at, "what": what, "request_id": request_id}
        self._table.holds(update(_expiry_key(target, expiry), ended, _GOES_ON))


def _expiry_key(target: Target, expiry: Expiry) -> Key:
    return f"EXPIRY#{keys.place(target)}", f"{expiry.episode}#{expiry.snapshot_id}"
