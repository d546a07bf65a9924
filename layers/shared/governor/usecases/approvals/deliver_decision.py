"""Hands a decision that stands in the state table to the workflow that waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from governor.domain.approvals.approval import Approval, ApprovalStatus
from governor.domain.episode.episode import Phase
from governor.ports import Workflow
from governor.stores import Episodes


def answer_document(approval: Approval) -> Mapping[str, object]:
    """What the waiting task gets: plain JSON data, the same for the same decision.

    Raises:
        ValueError: the approval is pending; there is nothing to deliver.
    """
    decision = approval.decision
    by = decision.by if decision else "the governor"
    match approval.status:
        case ApprovalStatus.APPROVED:
            first = f"{approval.first_yes.by} and " if approval.first_yes else ""
            return {"decision": "approve", "reason": f"approved by {first}{by}", "by": by}
        case ApprovalStatus.KEPT:
            return {"decision": "keep", "reason": f"kept by {by}", "by": by}
        case ApprovalStatus.EXEMPTED:
            why = decision.reason if decision and decision.reason else "no reason given"
            return {"decision": "exempt", "reason": f"exempted by {by}: {why}", "by": by}
        case ApprovalStatus.EXPIRED:
            return {
                "decision": "expired",
                "reason": approval.void_reason or "nobody answered in time",
                "by": by,
            }
        case ApprovalStatus.VOID:
            return {
                "decision": "void",
                "reason": approval.void_reason or "the instance changed",
                "by": by,
                "outcome": approval.void_outcome or "void",
            }
        case ApprovalStatus.PENDING:
            raise ValueError(f"approval {approval.approval_id} is pending; there is nothing to deliver")
        case _:
            assert_never(approval.status)


@dataclass(frozen=True, slots=True)
class DeliverDecision:
    """Sends the answer of an approval. Safe to repeat: a task takes one answer."""

    state: Episodes
    workflow: Workflow

    def __call__(self, approval_id: str) -> bool:
        """True when the waiting task has taken the answer.

        False when nothing is decided, the episode no longer asks, or the task of that token no longer waits
        (the next stage then finds the decision in the table).

        Raises:
            CloudError: the state table or Step Functions could not be reached; the decision stands.
        """
        approval = self.state.approval(approval_id)
        if approval is None or approval.status is ApprovalStatus.PENDING or approval.task_token is None:
            return False
        episode = self.state.episode(approval.episode)
        if episode is None or episode.phase is not Phase.ASKING:
            return False
        return self.workflow.answer(approval.task_token, answer_document(approval))
