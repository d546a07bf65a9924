"""Ends a question: hands the answer, or that nobody answered in time, to the workflow that waits.

The answer is always the one in the table. This module must not believe a document that comes with a
task token.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from governor.approvals.model.approval import Approval, ApprovalStatus, SealedExpiry
from governor.approvals.rules.sealing import SealMaker, expiry_text, sealed
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import ConflictError, SafetyError
from governor.core.ports import Clock
from governor.episode.model.episode import Episode, Phase
from governor.episode.ports import Workflow
from governor.episode.store.episodes import Episodes


def answer_document(approval: Approval) -> Mapping[str, object]:
    """Return the answer for the waiting task, as JSON data: `decision`, `reason` and `by`, which is
    `the governor` if nobody answered; and for a canceled question the `outcome` of its episode,
    such as `woke-up`. Raises: ValueError while the question is pending."""
    by = approval.decision.by if approval.decision else "the governor"
    document = {"decision": _answer(approval), "reason": _reason(approval, by), "by": by}
    if approval.status is ApprovalStatus.VOID:
        document["outcome"] = approval.void_outcome or "void"
    return document


def _answer(approval: Approval) -> str:
    """Return the answer as the workflow names it: `approve`, `keep`, `exempt`, `expired` or `void`.
    Raises: ValueError while the question is pending."""
    match approval.status:
        case ApprovalStatus.APPROVED:
            return "approve"
        case ApprovalStatus.KEPT:
            return "keep"
        case ApprovalStatus.EXEMPTED:
            return "exempt"
        case ApprovalStatus.EXPIRED:
            return "expired"
        case ApprovalStatus.VOID:
            return "void"
        case ApprovalStatus.PENDING:
            raise ValueError(
                f"approval {approval.approval_id} is pending; there is nothing to deliver"
            )
        case _:
            assert_never(approval.status)


def _reason(approval: Approval, by: str) -> str:
    """Return who answered what, as in `kept by alice@example.com`, or why the question ended
    without an answer. `by` is the name of the person who answered. Call it only for a question that
    is no longer pending."""
    if approval.status is ApprovalStatus.APPROVED:
        if approval.first_yes is not None:
            return f"approved by {approval.first_yes.by} and {by}"
        return f"approved by {by}"
    if approval.status is ApprovalStatus.KEPT:
        return f"kept by {by}"
    if approval.status is ApprovalStatus.EXEMPTED:
        reason = approval.decision.reason if approval.decision else None
        return f"exempted by {by}: {reason or 'no reason given'}"
    if approval.status is ApprovalStatus.EXPIRED:
        return approval.void_reason or "nobody answered in time"
    return approval.void_reason or "the instance changed"


def hand_over(episode_store: Episodes, workflow: Workflow, approval: Approval | None) -> bool:
    """Send the answer to a question to the waiting task, and return whether the task took it.

    Return false also if there is no question (`None`) or no answer, no task waits, or the episode
    asks nobody now. The next stage then finds the answer in the table. Safe to repeat. Raises:
    CloudError; the decision in the table stands.
    """
    if approval is None or approval.status is ApprovalStatus.PENDING:
        return False
    if approval.task_token is None:
        return False
    episode = episode_store.episode(approval.episode)
    if episode is None or episode.phase is not Phase.ASKING:
        return False
    return workflow.answer(approval.task_token, answer_document(approval))


@dataclass(frozen=True, slots=True)
class ConcludeApproval:
    """Ends the question when its last stage has passed: it expires if nobody answered. Safe to
    repeat: the first answer stands."""

    episode_store: Episodes
    approval_store: Approvals
    clock: Clock
    expiry_seal: SealMaker

    def __call__(self, ref: EpisodeRef, *, answered: bool = False) -> Mapping[str, object]:
        """Store that nobody answered, if the question is still pending, and return the answer
        document; its `decision` is `expired` if nobody answered.

        `answered` says that the task ended because somebody answered, so nothing expires. Raises:
        SafetyError if there is no question, or it is still pending; CloudError, also if KMS could
        not seal the expiry. Nothing has expired then.
        """
        episode = asked_about(self.episode_store, ref)
        approval = self.approval_store.approval(episode.approval_id)
        is_pending = approval is not None and approval.status is ApprovalStatus.PENDING
        if approval is not None and is_pending and not answered:
            with suppress(ConflictError):
                self._expire(episode, approval)
            approval = self.approval_store.approval(episode.approval_id)
        return answer_document(must_be_answered(approval))

    def _expire(self, episode: Episode, approval: Approval) -> None:
        """Store that nobody answered, with a seal. Raises: ConflictError if the question was
        answered, or its end was moved, meanwhile; CloudError."""
        now = self.clock.now()
        seal = sealed(self.expiry_seal, expiry_text(episode, approval.expires_at, now))
        expiry = SealedExpiry(approval.expires_at, now, seal)
        self.approval_store.void(
            approval.approval_id, "nobody answered in time", expired=True, expiry=expiry
        )


def must_be_answered(approval: Approval | None) -> Approval:
    """Return the approval if it is no longer pending. Raises: SafetyError if there is no approval,
    or nobody has answered."""
    if approval is None:
        raise SafetyError("there is no approval for this episode")
    if approval.status is ApprovalStatus.PENDING:
        raise SafetyError(
            "an answer arrived, but nobody has given one: a task token was used by others"
        )
    return approval


def asked_about(episode_store: Episodes, ref: EpisodeRef) -> Episode:
    """Return the episode. Raises: SafetyError if there is none; CloudError."""
    episode = episode_store.episode(ref)
    if episode is None:
        raise SafetyError("the episode does not exist")
    return episode
