"""Episodes, from the lock on the instance record to the close that frees it, and their questions. A
question is decided once, and a keep or an exemption holds from that moment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import reduce

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
        """Open the episode on the lock of its instance, and count it. True when this call took it,
        or the same episode holds it already; false when another one is open or this number has been
        used."""
        is_free = absent("open_episode") & (absent("episodes") | where("episodes", "<", ref.number))
        locked = {"open_episode": ref.execution_name, "episodes": ref.number}
        may = is_free | _is_held_by(ref)
        return self._table.wins(*(update(key, locked, may) for key in _locks(ref)))

    def free_lock(self, ref: EpisodeRef) -> None:
        """Free what a closed episode still holds: the release before this one freed the record
        alone."""
        for key in _locks(ref):
            self._table.holds(update(key, {}, _is_held_by(ref), remove=["open_episode"]))

    def save_opened(self, episode: Episode) -> Episode:
        """Write the episode and its pending approval once; return the stored one (first wins).
        Raises: ConflictError when the episode does not hold the lock (any more)."""
        ref = episode.ref
        question = first_approval(episode)
        # Without the attributes of an answer: the role that opens questions may not write them.
        asked = {
            name: value
            for name, value in self._table.document(question).items()
            if value is not None
        }
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
        """Let this step through once after a recheck, which `seen` was read for.

        Return False where another recheck has let a step through since. Raises: ConflictError when
        the episode is closed.
        """
        cleared: Document = {
            "phase": Phase.ACTING,
            "phase_since": at,
            "cleared_step": step,
            "cleared_at": at,
            "is_clearance_used": False,
            "first_cleared": {step: at, **(seen.first_cleared if seen else {})},
        }
        condition = _OPEN
        if seen is not None:
            is_last = where("cleared_at", "=", seen.cleared_at)
            condition &= is_last if seen.cleared_at is not None else is_last | absent("cleared_at")
        try:
            self._table.write(update(keys.episode(ref), cleared, condition))
        except ConflictError:
            stored = self.episode(ref)
            if stored is None or stored.phase is Phase.CLOSED:
                raise
            return False
        return True

    def note_no(self, ref: EpisodeRef, name: str, why: str) -> None:
        """Note why it goes no further, after its outcome or its error's name; nothing once it is
        closed."""
        self._table.holds(update(keys.episode(ref), {"last_no": f"{name}: {why}"[:1000]}, _OPEN))

    def reserve_snapshots(self, ref: EpisodeRef, step: str, at: datetime, stale: datetime) -> bool:
        """Note the step as `note_step` does, and that one try may make the snapshots from now on.
        False when the episode has snapshots, is closed, or was reserved after `stale`."""
        is_free = _unset("snapshots_reserved_at") | where("snapshots_reserved_at", "<", stale)
        reserved, first = {"snapshots_reserved_at": at}, ("steps_done", step, at)
        condition = _OPEN & _NO_SNAPSHOTS & is_free
        return self._table.holds(update(keys.episode(ref), reserved, condition, first=first))

    def release_snapshots(self, ref: EpisodeRef, at: datetime) -> None:
        """Let another try make them: the one that reserved at this moment has made none."""
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
        """Note when a step was first asked of EC2. This excludes `hold` and, for what destroys, the
        pause.

        Raises: Held or MustWait when somebody was faster; ConflictError when the episode is closed.
        """
        noted = update(keys.episode(ref), {}, _OPEN, first=("steps_done", step, at))
        self._note_before_call(ref, noted, destroys=step != Step.SNAPSHOT)

    def note_call(self, ref: EpisodeRef, step: str, at: datetime, cleared_at: datetime) -> None:
        """Note that EC2 is asked to stop or terminate now: the last barrier before the call.

        The note uses up the recheck made at `cleared_at`, so that of several invocations one sends.
        Raises: as `note_step`; MustWait when that recheck has been used, or is no longer the last
        one.
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
        stored = self._table.get(keys.episode(ref)) or {}
        question = keys.approval(stored.get("approval_id", ""))
        barriers = [check(question, _unset("brake") & _unset("late_hold"))]
        if destroys:
            barriers.append(not_paused())
        try:
            self._table.transact(noted, *barriers)
        except ConflictError:
            approval = self._table.read(Approval, question)
            held_by = None if approval is None else approval.brake or approval.late_hold
            if held_by is not None:
                raise Held(held_by.why) from None
            pause = self.pause() if destroys else None
            if pause is not None:
                raise MustWait(f"everything is {pause.why}") from None
            raise

    def note_late_hold(self, episode: Episode, hold: Decision) -> bool:
        """Keep a hold that came while the final step was under way; it counts if that has no
        effect.

        Return False when the call is no longer noted, or another late hold stands.
        """
        is_under_way = _OPEN & present(f"steps_done.{episode.final_step.value}")
        noted = update(
            keys.approval(episode.approval_id), {"late_hold": hold}, present() & _unset("late_hold")
        )
        return self._table.wins(noted, check(keys.episode(episode.ref), is_under_way))

    def forget_step(self, episode: Episode, step: str, noted_at: datetime) -> bool:
        """Take back the note of a call made at this time, which had no effect.

        Return False where it was rechecked, or noted again, since `episode` was read.
        """
        others = {name: at for name, at in episode.steps_done.items() if name != step}
        is_same_note = where(f"steps_done.{step}", "=", noted_at)
        is_unchanged = _OPEN & where("cleared_at", "=", episode.cleared_at) & is_same_note
        return self._table.holds(
            update(keys.episode(episode.ref), {"steps_done": others}, is_unchanged)
        )

    def hold(
        self, episode: Episode, brake: Decision, standing: Hold, before: Decision | None
    ) -> None:
        """Hold the episode in place of `before` alone, and store what the answer says of the
        instance. Raises: ConflictError: the final step was noted, another holds it, or the episode
        is over."""
        holding = update(
            keys.approval(episode.approval_id), {"brake": brake}, present() & _is_brake(before)
        )
        not_begun = _OPEN & absent(f"steps_done.{episode.final_step.value}")
        open_still = check(keys.episode(episode.ref), not_begun)
        self._with_standing(episode.ref, standing, brake.at, holding, open_still)

    def end_keep(self, approval: Approval, kept: Decision, by: str, at: datetime) -> None:
        """End a keep before its date, once. The longest of the others that still run holds from
        then on.

        Another keep that stands stays, also with the same date. Of a keep of the release before,
        the date alone says whose it is. Raises: ConflictError: it was ended, or another one stands
        or came meanwhile.
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
        following = keeps.next_keep(self._table, stored, keep, at)
        forgotten = keeps.names_to_forget(self._table, stored, at, keep)
        self._table.transact(
            update(keys.approval(approval.approval_id), ended, not_ended),
            _ended(place, _KEPT, following, is_its & keeps.as_read(stored), forgotten),
            _ended_copy(old_place, _KEPT, following, is_its_copy),
        )

    def stand(self, target: Target, instance_id: str, standing: Hold) -> None:
        """Store a keep or an exemption by itself; a longer keep stays."""
        ways = _standing(target, instance_id, standing)
        are_stored = [self._table.holds(write) for write in ways[0]]
        if are_stored and not are_stored[0]:
            for write in ways[-1]:
                self._table.holds(write)

    def end_hold(self, target: Target, instance_id: str, seen: Hold, by: str, at: datetime) -> None:
        """Take a keep and an exemption off. The longest of the other keeps that still run holds
        from then on.

        Raises: ConflictError where another hold than `seen` stands, or anything of it changes at
        this moment.
        """
        places = keys.holds(target, instance_id)
        stored = [self._table.get(place) or {} for place in places]
        own, copy = (next(self._table.records(Hold, [item])) for item in stored)
        if own.stricter(copy) != seen:
            raise ConflictError(f"another hold of {instance_id} stands than the one that was seen")
        names = [field.name for field in fields(Hold)]
        following = keeps.next_keep(self._table, stored[0], seen, at)
        forgotten = keeps.names_to_forget(self._table, stored[0], at, seen)
        writes = []
        for place, item in zip(places, stored, strict=True):
            is_same = reduce(
                Condition.__and__, [_as_read(item, name) for name in names], keeps.as_read(item)
            )
            if not item:
                writes.append(check(place, is_same))
            elif place == places[0]:
                writes.append(_ended(place, names, following, is_same, forgotten))
            else:
                writes.append(_ended_copy(place, names, following, is_same))
        ended = {
            "what": "hold ended",
            "by": by,
            "instance_id": instance_id,
            "kept_until": seen.snoozed_until,
            "exempt_reason": seen.exempt_reason,
        }
        key = f"ENDED#{keys.place(target)}", f"{instance_id}#{as_utc(at).isoformat()}"
        self._table.transact(*writes, update(key, ended, absent(), until=at + _APPROVALS_KEPT))

    def _with_standing(self, ref: EpisodeRef, standing: Hold, at: datetime, *writes: Write) -> None:
        *ways, last = _standing(ref.target, ref.instance_id, standing)
        if not any(self._table.wins(*writes, *way) for way in ways):
            self._table.transact(*writes, *last)
        if standing.snoozed_until is not None:
            self._forget_past_keeps(ref, at)

    def _forget_past_keeps(self, ref: EpisodeRef, at: datetime) -> None:
        """Take keeps that are over off the item, or one that is kept every day would grow for
        good."""
        place, _ = keys.holds(ref.target, ref.instance_id)
        try:
            item = self._table.get(place) or {}
            past = keeps.names_to_forget(self._table, item, at)
            if past:
                self._table.holds(update(place, {}, keeps.as_read(item), remove=past))
        except CloudError:
            _log.exception("past keeps of %s stay stored", ref.instance_id)

    def journal(self, ref: EpisodeRef, what: str, at: datetime, **facts: object) -> None:
        """Keep what the episode does not say itself, for the audit alone: a refusal, or EC2's
        answer."""
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
        """Keep an answer that was refused, for the audit alone; the first of its kind by the same
        person."""
        key = keys.approval(approval.approval_id)[0], f"REFUSED#{answer}#{by}"
        refused: Document = {
            "what": "refused",
            "episode": approval.episode.execution_name,
            "reason": why,
        }
        refused |= {
            "evidence_hash": approval.evidence_hash,
            "by": by,
            "answer": answer,
            "refused": decision,
        }
        self._keep_for_audit(update(key, refused, absent(), until=at + _APPROVALS_KEPT))

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """Note that people know the outcome. Raises ConflictError when there is no such episode."""
        # First: where it alone succeeds, nobody is notified once more.
        is_untold = where("untold", "=", ref.execution_name)
        self._table.holds(update(_record(ref), {}, is_untold, remove=("untold",)))
        self._table.write(update(keys.episode(ref), {"outcome_told_at": at}, present()))

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """Note who undid it; true when nobody was noted. Raises: ConflictError unless closed or
        stopped."""
        key, undone = keys.episode(ref), {"undone_at": at, "undone_by": by}
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
        """Close the episode, if need be unsaved, free the lock and book the entry; true when it was
        open."""
        closed = {
            "phase": Phase.CLOSED,
            "phase_since": at,
            "closed_at": at,
            "outcome": outcome,
            "outcome_reason": reason,
            "became": ledger.outcome if ledger is not None and ledger.ours else None,
        }
        for _ in range(_ATTEMPTS):
            stored = self._table.get(keys.episode(ref))
            locks = {key: self._table.get(key) or {} for key in _locks(ref)}
            held = [
                key for key, item in locks.items() if item.get("open_episode") == ref.execution_name
            ]
            is_over = stored["phase"] == Phase.CLOSED if stored else not held
            if is_over:
                return False
            # Without an episode freeing the lock is the whole close, unless one is saved this
            # moment.
            gone = check(keys.episode(ref), absent())
            writes = [update(keys.episode(ref), closed, _OPEN) if stored else gone]
            if held:
                writes += _freeing(ref, held, outcome, quiet_until, opened=stored is not None)
            if ledger is not None:
                writes += booking(ledger)
            if self._table.wins(*writes):
                return True
        raise ConflictError(f"episode {ref.execution_name} kept changing while it was closed")

    def approval(self, approval_id: str) -> Approval | None:
        return self._table.read(Approval, keys.approval(approval_id))

    def questions(self, asked: Mapping[str, str]) -> list[tuple[Approval, Episode]]:
        """Return questions with their episodes: execution names by the questions' ids. Read at
        once."""
        ids = {
            *map(keys.approval, asked),
            *((f"EPISODE#{name}", "EPISODE") for name in asked.values()),
        }
        items = self._table.get_all(sorted(ids))
        of_questions = [one for one in items if one["pk"].startswith("APPROVAL#")]
        episodes = self._table.records(Episode, [one for one in items if one["sk"] == "EPISODE"])
        known = {one.ref: one for one in episodes}
        found = self._table.records(Approval, of_questions)
        return [(one, known[one.episode]) for one in found if one.episode in known]

    def answered(self, approval_ids: Sequence[str]) -> set[str]:
        """Return those of the questions that are open no longer. Read at once."""
        items = self._table.get_all([keys.approval(one) for one in approval_ids])
        return {
            str(one["approval_id"]) for one in items if one.get("status") != ApprovalStatus.PENDING
        }

    def open_questions(
        self, refs: Sequence[EpisodeRef]
    ) -> dict[EpisodeRef, tuple[Episode, Approval | None]]:
        """Return what can be read of these episodes, with the question of each that asks. Read at
        once."""
        table = Readable(self._table)
        items = table.get_all([keys.episode(ref) for ref in refs])
        found = list(table.records(Episode, items))
        asking = [keys.approval(one.approval_id) for one in found if one.phase is Phase.ASKING]
        questions = {one.approval_id: one for one in table.records(Approval, table.get_all(asking))}
        return {one.ref: (one, questions.get(one.approval_id)) for one in found}

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
        """Return the question, and the write that decides it. Raises: ConflictError: it is
        decided."""
        approval = self.existing(approval_id)
        # Read first: spares a transaction that must fail.
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
    """Return where the lock is, and where the release before this one reads it: a rollback brings
    that one back. Both are written and read for one release; locked is what either says."""
    return keys.lock(ref.target, ref.instance_id), _record(ref)


def _standing(target: Target, instance_id: str, hold: Hold) -> list[list[Write]]:
    """The writes of a standing answer about the instance, if there is one: in each place, and in
    place of these, those for a transaction where a longer keep stands in one place or both, and
    stays."""
    (place, old_place), until = keys.holds(target, instance_id), hold.snoozed_until
    # The project and the question are noted in the first alone: the release before this one would
    # hold anew beside old ones.
    if until is None:
        exempt = {"exempt_reason": hold.exempt_reason}
        own, copy = (
            update(place, {**exempt, "exempt_in": hold.exempt_in}),
            update(old_place, exempt),
        )
        return [[own, copy] if hold.exempt_reason is not None else []]
    is_shorter = _unset("snoozed_until") | where("snoozed_until", "<=", until)
    kept = {"snoozed_until": until, "kept_in": hold.kept_in, "kept_by": hold.kept_by}
    remembered = {keeps.name_of(hold): keeps.only_keep(hold)}
    counted = {keeps.COUNT: 1}
    own = update(place, {**kept, **remembered}, is_shorter, add=counted)
    copy = update(old_place, {"snoozed_until": until}, is_shorter)
    longer = update(place, remembered, where("snoozed_until", ">", until), add=counted)
    return [[own, copy], [own], [longer, copy], [longer]]


def _ended(
    place: Key,
    names: Sequence[str],
    following: Hold,
    condition: Condition,
    forgotten: Sequence[str],
) -> Write:
    """Take these attributes of a hold off, or write the keep that follows; forget the keeps that
    are over."""
    kept: Document = {}
    if following.snoozed_until is not None:
        kept = {name: getattr(following, name) for name in _KEPT}
    left = [name for name in names if name not in kept]
    return update(place, kept, condition, remove=[*left, *forgotten], add={keeps.COUNT: 1})


def _ended_copy(place: Key, names: Sequence[str], following: Hold, condition: Condition) -> Write:
    """As `_ended`, where the release before reads it: it knows the end of a keep alone."""
    kept: Document = {}
    if following.snoozed_until is not None:
        kept = {"snoozed_until": following.snoozed_until}
    left = [name for name in names if name not in kept]
    return update(place, kept, condition, remove=left)


def _unset(attribute: str) -> Condition:
    return absent(attribute) | where(attribute, "=", None)


def _is_brake(read: Decision | None) -> Condition:
    """The episode is held by this decision alone, or by nobody, as it was read."""
    return _unset("brake") if read is None else where("brake.at", "=", read.at)


def _as_read(item: Document, attribute: str) -> Condition:
    """The attribute is what this item, or none, had of it."""
    value = item.get(attribute)
    return _unset(attribute) if value is None else where(attribute, "=", value)


def _is_held_by(ref: EpisodeRef) -> Condition:
    return where("open_episode", "=", ref.execution_name)


def _freeing(
    ref: EpisodeRef,
    held: Sequence[Key],
    outcome: Outcome,
    quiet_until: datetime | None,
    *,
    opened: bool,
) -> list[Write]:
    values: Document = {
        "last_outcome": outcome,
        **({"untold": ref.execution_name} if opened else {}),
    }
    quiet: Document = {"quiet_until": quiet_until, "quiet_launch_time": ref.launch_time}
    remove = [] if outcome is Outcome.FAILED else ["failures"]
    add = {"failures": 1} if outcome is Outcome.FAILED and quiet_until is not None else {}
    if quiet_until is None:
        remove += quiet
    else:
        values |= quiet
    lock, record = _locks(ref)
    freed = [update(lock, {}, _is_held_by(ref), remove=["open_episode"])] if lock in held else []
    if record not in held:
        return [*freed, update(record, values, remove=remove, add=add)]
    return [
        *freed,
        update(record, values, _is_held_by(ref), remove=[*remove, "open_episode"], add=add),
    ]


class Expiries(Store):
    """Notices to owners about expiring snapshots, and each snapshot's end: a partition a target."""

    def expiries(self, target: Target) -> list[Expiry]:
        return self._table.read_all(Expiry, f"EXPIRY#{keys.place(target)}")

    def note_expiring(self, target: Target, found: Iterable[Expiry]) -> None:
        """Note that their owner was notified, in place of what is known of them."""
        self._table.write_all([put(_expiry_key(target, one), one) for one in found])

    def begin_deletion(self, target: Target, one: Expiry, at: UtcDatetime) -> bool:
        """Note that EC2 is asked now; false while everything is paused, and where its owner was
        notified again, or it has ended, since `one` was read."""
        same = _GOES_ON & where("noticed_at", "=", one.noticed_at)
        begun = {"begun_at": at, "what": "snapshot deletion begun"}
        return self._table.wins(update(_expiry_key(target, one), begun, same), not_paused())

    def end_deletion(
        self, target: Target, one: Expiry, at: UtcDatetime, what: str, request_id: str | None
    ) -> None:
        """Note its end, once."""
        ended = {"ended_at": at, "what": what, "request_id": request_id}
        self._table.holds(update(_expiry_key(target, one), ended, _GOES_ON))


def _expiry_key(target: Target, one: Expiry) -> Key:
    return f"EXPIRY#{keys.place(target)}", f"{one.episode}#{one.snapshot_id}"
