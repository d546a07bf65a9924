"""Hands the end of a question to the workflow that waits: an answer, or that nobody gave one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from governor.domain.approvals.approval import Approval, ApprovalStatus, SealedExpiry
from governor.domain.approvals.sealing import SealMaker, expiry_text, sealed
from governor.domain.episode.episode import Episode, EpisodeRef, Phase
from governor.errors import ConflictError, SafetyError
from governor.ports import Clock, Workflow
from governor.stores import Episodes


def answer_document(approval: Approval) -> Mapping[str, object]:
    """Return what the waiting task gets, as JSON data. Raises: ValueError while it is pending."""
    decision, status = approval.decision, approval.status
    by = decision.by if decision else "the governor"
    match status:
        case ApprovalStatus.APPROVED:
            first = f"{approval.first_yes.by} and " if approval.first_yes else ""
            answer, reason = "approve", f"approved by {first}{by}"
        case ApprovalStatus.KEPT:
            answer, reason = "keep", f"kept by {by}"
        case ApprovalStatus.EXEMPTED:
            why = decision.reason if decision and decision.reason else "no reason given"
            answer, reason = "exempt", f"exempted by {by}: {why}"
        case ApprovalStatus.EXPIRED:
            answer, reason = "expired", approval.void_reason or "nobody answered in time"
        case ApprovalStatus.VOID:
            reason, outcome = (
                approval.void_reason or "the instance changed",
                approval.void_outcome or "void",
            )
            return {"decision": "void", "reason": reason, "by": by, "outcome": outcome}
        case ApprovalStatus.PENDING:
            raise ValueError(
                f"approval {approval.approval_id} is pending; there is nothing to deliver"
            )
        case _:
            assert_never(status)
    return {"decision": answer, "reason": reason, "by": by}


def hand_over(state: Episodes, workflow: Workflow, approval: Approval | None) -> bool:
    """Send the answer of an approval; true when the waiting task has taken it, else the next stage
    finds it in the table. Safe to repeat. Raises: CloudError; the decision stands."""
    if approval is None or approval.status is ApprovalStatus.PENDING or approval.task_token is None:
        return False
    episode = state.episode(approval.episode)
    if episode is None or episode.phase is not Phase.ASKING:
        return False
    return workflow.answer(approval.task_token, answer_document(approval))


@dataclass(frozen=True, slots=True)
class ConcludeApproval:
    """Ends the question when its last stage has passed. Safe to repeat: the first answer stands."""

    state: Episodes
    clock: Clock
    expiry_seal: SealMaker

    def __call__(self, ref: EpisodeRef, *, answered: bool = False) -> Mapping[str, object]:
        """Return the answer document; its `decision` is `expired` when nobody answered. With
        `answered` a task has ended because somebody did: nothing expires. Raises: SafetyError;
        CloudError when KMS could not seal the expiry: nothing has expired."""
        episode = asked_about(self.state, ref)
        approval = self.state.approval(episode.approval_id)
        is_pending = approval is not None and approval.status is ApprovalStatus.PENDING
        if approval is not None and is_pending and not answered:
            with suppress(ConflictError):
                self._expire(episode, approval)
            approval = self.state.approval(episode.approval_id)
        return answer_document(must_be_answered(approval))

    def _expire(self, episode: Episode, approval: Approval) -> None:
        now = self.clock.now()
        seal = sealed(self.expiry_seal, expiry_text(episode, approval.expires_at, now))
        expiry = SealedExpiry(approval.expires_at, now, seal)
        self.state.void(
            approval.approval_id, "nobody answered in time", expired=True, expiry=expiry
        )


def must_be_answered(approval: Approval | None) -> Approval:
    """Let an answer through that the table holds, whatever came with a task token. Raises:
    SafetyError."""
    if approval is None:
        raise SafetyError("there is no approval for this episode")
    if approval.status is ApprovalStatus.PENDING:
        raise SafetyError(
            "an answer arrived, but nobody has given one: a task token was used by others"
        )
    return approval


def asked_about(state: Episodes, ref: EpisodeRef) -> Episode:
    """Raises: SafetyError."""
    episode = state.episode(ref)
    if episode is None:
        raise SafetyError("the episode does not exist")
    return episode
