"""Stores questions to people and their answers, each about one episode.

A question is decided once. What an answer changes of the question, of its episode and of the
instance's holds is written in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from governor.approvals.model.approval import (
    Answer,
    Approval,
    ApprovalStatus,
    Decision,
    SealedExpiry,
)
from governor.approvals.rules.approval import STATUS_AFTER, first_approval, hold_of
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import ConflictError, NotFound
from governor.core.units import without_none
from governor.episode.model.episode import Episode, Phase
from governor.episode.store import holds, keeps
from governor.episode.store.episodes import IS_OPEN, is_held_by, locks
from governor.policy.rules.schedule import Schedule
from governor.table import keys
from governor.table.table import (
    Condition,
    Document,
    Readable,
    Store,
    Write,
    absent,
    check,
    insert,
    present,
    unset,
    update,
    where,
)
from governor.verdict.model import Hold

_APPROVALS_KEPT = timedelta(days=400)
_PENDING = where("status", "=", ApprovalStatus.PENDING)
_ANSWER_BY_STATUS: dict[object, Answer] = {
    status: answer for answer, status in STATUS_AFTER.items()
}


class Approvals(Store):
    """Questions and answers. Every method may raise CloudError."""

    def save_opened(self, episode: Episode) -> Episode:
        """Store the episode and its pending question, once and all or nothing. Return the episode
        that is stored: another caller's, if that one was first.

        Raises: ConflictError if the episode does not hold the lock, or no longer does, and none was
        stored; CloudError.
        """
        ref = episode.ref
        question = first_approval(episode)
        # Without the attributes of an answer: the role that opens questions may not write them.
        document = self._table.document(question)
        asked = without_none(document)
        until = question.created_at + _APPROVALS_KEPT
        try:
            self._table.transact(
                insert(keys.episode(ref), episode),
                insert(keys.approval(question.approval_id), asked, until=until),
                check(locks(ref)[0], is_held_by(ref)),
            )
        except ConflictError:
            stored = self._table.read(Episode, keys.episode(ref))
            if stored is None:
                raise
            return stored
        return episode

    def approval(self, approval_id: str) -> Approval | None:
        """Return the question with this id; `None` if there is none. Raises: CloudError, also if it
        is damaged."""
        return self._table.read(Approval, keys.approval(approval_id))

    def existing(self, approval_id: str) -> Approval:
        """Return the question with this id. Raises: NotFound if there is none; CloudError."""
        approval = self.approval(approval_id)
        if approval is None:
            raise NotFound(f"approval {approval_id} does not exist", operation="dynamodb:GetItem")
        return approval

    def questions(self, asked: Mapping[str, str]) -> list[tuple[Approval, Episode]]:
        """Return the questions with these ids, each with its episode, by one read. `asked` has the
        execution name of the episode by the id of the question.

        Questions whose episode or record is missing are left out. Raises: CloudError, also if a
        record is damaged.
        """
        wanted_keys = {keys.approval(approval_id) for approval_id in asked}
        for execution_name in asked.values():
            wanted_keys.add((f"EPISODE#{execution_name}", "EPISODE"))
        items = self._table.get_all(sorted(wanted_keys))
        question_items = [item for item in items if item["pk"].startswith("APPROVAL#")]
        episode_items = [item for item in items if item["sk"] == "EPISODE"]
        episodes = self._table.records(Episode, episode_items)
        episode_by_ref = {episode.ref: episode for episode in episodes}
        questions: list[tuple[Approval, Episode]] = []
        for question in self._table.records(Approval, question_items):
            episode = episode_by_ref.get(question.episode)
            if episode is not None:
                questions.append((question, episode))
        return questions

    def answers(self, approval_ids: Sequence[str]) -> dict[str, Answer | None]:
        """Return the last answer to each of these questions that somebody answered or held, by the
        question's id, and `None` for one that was canceled. It is one read. Questions that are
        open, expired or do not exist are left out; empty if none is left. Raises: CloudError."""
        items = self._table.get_all([keys.approval(approval_id) for approval_id in approval_ids])
        answer_by_id: dict[str, Answer | None] = {}
        for item in items:
            approval_id = str(item["approval_id"])
            status = item.get("status")
            if item.get("brake") is not None:
                answer_by_id[approval_id] = Answer.HOLD
            elif status not in (ApprovalStatus.PENDING, ApprovalStatus.EXPIRED):
                answer_by_id[approval_id] = _ANSWER_BY_STATUS.get(status)
        return answer_by_id

    def keepers(self, approval_ids: Sequence[str]) -> dict[str, str]:
        """Return the person whose answer keeps the instance of each of these questions, by the
        question's id, by one read. Questions that do not exist, keep nothing or cannot be read are
        left out; empty if none is left. Raises: CloudError."""
        if not approval_ids:
            return {}
        table = Readable(self._table)
        items = table.get_all([keys.approval(approval_id) for approval_id in approval_ids])
        people: dict[str, str] = {}
        for approval in table.records(Approval, items):
            # After a yes, a keep is stored as a hold: the decision is then somebody else's.
            for answer in (approval.hold, approval.late_hold, approval.decision):
                if answer is not None and answer.answer is Answer.KEEP:
                    people[approval.approval_id] = answer.by
                    break
        return people

    def open_questions(
        self, refs: Sequence[EpisodeRef]
    ) -> dict[EpisodeRef, tuple[Episode, Approval | None]]:
        """Return the episodes that can be read, each with its question, by two reads.

        The question is `None` if the episode is in no phase in which it asks, or the question
        cannot be read. Raises: CloudError.
        """
        table = Readable(self._table)
        items = table.get_all([keys.episode(ref) for ref in refs])
        episodes = list(table.records(Episode, items))
        question_keys = []
        for episode in episodes:
            if episode.phase is Phase.ASKING:
                question_keys.append(keys.approval(episode.approval_id))
        questions = table.records(Approval, table.get_all(question_keys))
        question_by_id = {question.approval_id: question for question in questions}
        question_by_episode: dict[EpisodeRef, tuple[Episode, Approval | None]] = {}
        for episode in episodes:
            question_by_episode[episode.ref] = (episode, question_by_id.get(episode.approval_id))
        return question_by_episode

    def await_answer(
        self,
        approval_id: str,
        task_token: str | None,
        stage: str,
        expires_at: datetime,
        answer_by: datetime | None = None,
        moved_schedule: Schedule | None = None,
    ) -> Approval:
        """Open the question for answers until `expires_at`, and bind the task that waits to it. A
        question that is decided stays as it is.

        `task_token` is `None` if no task waits; `stage` is the value of the stage. `answer_by` is
        the deadline that people are given; without it, `expires_at`. `moved_schedule` has the times
        of a late question; `None` leaves them as they are. Return the question as it is stored.
        Raises: NotFound; CloudError.
        """
        asked: Document = {
            "task_token": task_token,
            "stage": stage,
            "expires_at": expires_at,
            "answer_by": answer_by or expires_at,
        }
        if moved_schedule is not None:
            asked["moved_schedule"] = moved_schedule
        self._table.try_write(update(keys.approval(approval_id), asked, _PENDING))
        return self.existing(approval_id)

    def note_quiet_wait(self, approval_id: str, quiet_wait: timedelta, until: datetime) -> None:
        """Note how long the late question waits for working hours only, all its waits together,
        and when the last one ends. A question that is decided stays as it is. Raises:
        CloudError."""
        waited: Document = {
            "quiet_wait_seconds": int(quiet_wait.total_seconds()),
            "quiet_wait_until": until,
        }
        self._table.try_write(update(keys.approval(approval_id), waited, _PENDING))

    def note_question_sent(self, approval_id: str, at: datetime) -> None:
        """Note that the message of the question was sent. A question that is decided stays as it
        is. Raises: CloudError."""
        self._table.try_write(
            update(keys.approval(approval_id), {"question_sent_at": at}, _PENDING)
        )

    def note_waits_told(self, approval_id: str, at: datetime) -> None:
        """Note that people were notified that an approved step waits. Raises: ConflictError if
        there is no such question; CloudError."""
        self._table.write(update(keys.approval(approval_id), {"waits_told_at": at}, present()))

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        """Note the first of two approvals, unless one is noted or the question is decided. Return
        the question as it is stored: its `first_yes` may be another decision. Raises: NotFound;
        CloudError."""
        is_first = _PENDING & unset("first_yes")
        self._table.try_write(update(keys.approval(approval_id), {"first_yes": decision}, is_first))
        return self.existing(approval_id)

    def settle(self, approval_id: str, decision: Decision, project: str | None = None) -> Approval:
        """Store the decision with its status, once, and the keep or the exemption of the answer,
        all or nothing. Return the question as it is stored.

        `project` is that of the instance; `None` stores the keep or exemption without one. Raises:
        ConflictError if the question is no longer pending; NotFound; DecisionRefused for a keep
        without a date or an exemption without a reason; CloudError.
        """
        changes = {"status": STATUS_AFTER[decision.answer], "decision": decision}
        approval, decided = self._decision_write(approval_id, changes, _PENDING)
        hold = hold_of(decision, project, approval_id)
        self._write_with_hold(approval.episode, hold, decision.at, decided)
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
        """Cancel a pending question, or note its expiry if `expired`, once, with the `outcome` of
        the episode. Return the question as it is stored.

        `expiry` is the sealed note that nobody answered. Only with it can silence count as an
        answer. Raises: ConflictError if the question is no longer pending, or ends at another time
        than the `expiry` says; NotFound; CloudError.
        """
        status = ApprovalStatus.EXPIRED if expired else ApprovalStatus.VOID
        changes: Document = {"status": status, "void_reason": reason, "void_outcome": outcome}
        condition = _PENDING
        if expiry is not None:
            changes |= {"expired_at": expiry.expired_at, "expiry_seal": expiry.seal}
            condition &= where("expires_at", "=", expiry.expires_at)
        _, decided = self._decision_write(approval_id, changes, condition)
        self._table.transact(decided)
        return self.existing(approval_id)

    def _decision_write(
        self, approval_id: str, changes: Document, condition: Condition
    ) -> tuple[Approval, Write]:
        """Return the question, and the write that decides it under this condition. It writes
        nothing. Raises: ConflictError if the question is decided already; NotFound; CloudError."""
        approval = self.existing(approval_id)
        # This saves a transaction that must fail.
        if approval.status is not ApprovalStatus.PENDING:
            raise ConflictError(f"approval {approval_id} is {approval.status.value} already")
        return approval, update(keys.approval(approval_id), changes, condition)

    def hold(
        self,
        episode: Episode,
        hold_decision: Decision,
        keep: Hold,
        replaced: Decision | None,
    ) -> None:
        """Store the decision that holds the episode, and the keep or the exemption of its answer,
        all or nothing.

        `replaced` is the decision that holds the episode until now; `None` if nobody holds it.
        Raises: ConflictError if another decision holds the episode, its final step was noted, or it
        is over; CloudError.
        """
        holding = update(
            keys.approval(episode.approval_id),
            {"brake": hold_decision},
            present() & _is_held_by(replaced),
        )
        not_begun = IS_OPEN & absent(f"steps_done.{episode.final_step.value}")
        still_open = check(keys.episode(episode.ref), not_begun)
        self._write_with_hold(episode.ref, keep, hold_decision.at, holding, still_open)

    def end_keep(self, approval: Approval, kept: Decision, by: str, at: datetime) -> None:
        """End the keep of this question before its date, once. From then on the longest other keep
        that still runs holds the instance.

        `kept` is the answer that keeps, `by` who ends it. A keep of another question stays, even
        with the same date. A keep of the previous release is recognized by its date alone. Raises:
        ConflictError if the keep was ended, or another one stands or came meanwhile; CloudError.
        """
        ref = approval.episode
        ended = {"keep_ended_at": at, "keep_ended_by": by}
        not_ended = present() & unset("keep_ended_at") & _is_held_by(approval.hold)
        hold_key, old_hold_key = keys.holds(ref.target, ref.instance_id)
        # Each place holds either this keep or none. The previous release stores no `kept_by`.
        has_its_date = where("snoozed_until", "=", kept.keep_until)
        is_its_own = absent("kept_by") | where("kept_by", "=", approval.approval_id)
        is_this_or_none = (has_its_date & is_its_own) | unset("snoozed_until")
        is_its_copy_or_none = has_its_date | unset("snoozed_until")
        stored = self._table.get(hold_key) or {}
        keep = Hold(kept.keep_until, kept_by=approval.approval_id)
        others = keeps.other_keeps(self._table, stored, at, keep)
        self._table.transact(
            update(keys.approval(approval.approval_id), ended, not_ended),
            holds.end_hold_write(
                hold_key,
                holds.KEEP_ATTRIBUTES,
                others,
                is_this_or_none & keeps.are_keeps_unchanged(stored),
            ),
            holds.end_hold_copy_write(
                old_hold_key, holds.KEEP_ATTRIBUTES, others.longest, is_its_copy_or_none
            ),
        )

    def _write_with_hold(self, ref: EpisodeRef, hold: Hold, at: datetime, *writes: Write) -> None:
        """Carry out these writes together with those that store the keep or the exemption in
        `hold`, all or nothing. Then remove the instance's keeps that were over `at` this time; a
        failure of that is only logged.

        Raises: ConflictError if a condition fails in every alternative of the hold's writes;
        CloudError.
        """
        *alternatives, last = holds.hold_writes(ref.target, ref.instance_id, hold)
        is_written = False
        for alternative in alternatives:
            is_written = self._table.try_transaction(*writes, *alternative)
            if is_written:
                break
        if not is_written:
            # Unlike the tries before it, the last one raises the conflict.
            self._table.transact(*writes, *last)
        if hold.snoozed_until is not None:
            holds.forget_past_keeps(self._table, ref.target, ref.instance_id, at)

    def note_late_hold(self, episode: Episode, hold: Decision) -> bool:
        """Store a hold that came while the final step was under way, and return true. The hold
        counts if that step has no effect.

        Return false, with nothing stored, if the call is no longer noted, or another late hold
        stands. Raises: CloudError.
        """
        is_under_way = IS_OPEN & present(f"steps_done.{episode.final_step.value}")
        noted = update(
            keys.approval(episode.approval_id), {"late_hold": hold}, present() & unset("late_hold")
        )
        return self._table.try_transaction(noted, check(keys.episode(episode.ref), is_under_way))

    def note_refused(
        self,
        approval: Approval,
        answer: str,
        by: str,
        why: str,
        at: datetime,
        decision: Decision | None = None,
    ) -> None:
        """Note an answer that was refused, for the audit alone: only the first of its kind by the
        same person. A failure is only logged. `why` is the text of the refusal, and `decision` the
        answer as it was given; `None` stores the entry without it."""
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


def _is_held_by(decision: Decision | None) -> Condition:
    """Return the condition on a question that this decision, known by its time, holds its episode;
    with `None`, that nobody does. The decision is stored as `brake`."""
    if decision is None:
        return unset("brake")
    return where("brake.at", "=", decision.at)
