"""Loads what the approval page shows. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.approval import Approval, ApprovalStatus
from governor.domain.episode import Episode
from governor.domain.units import UtcDatetime
from governor.errors import NotFound
from governor.ports import Clock, StateTable


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """The question with its episode, at one moment."""

    approval: Approval
    episode: Episode
    now: UtcDatetime

    @property
    def can_decide(self) -> bool:
        """Whether an answer would be taken now."""
        return self.approval.status is ApprovalStatus.PENDING and self.now < self.approval.expires_at

    @property
    def is_moving(self) -> bool:
        """Whether the record may still grow, so that the page refreshes itself."""
        return not self.can_decide and self.episode.outcome is None


@dataclass(frozen=True, slots=True)
class ShowApproval:
    """Reads the question and its episode."""

    state: StateTable
    clock: Clock

    def __call__(self, approval_id: str) -> ApprovalView:
        """Raises: NotFound."""
        approval = self.state.approval(approval_id)
        episode = self.state.episode(approval.episode) if approval else None
        if approval is None or episode is None:
            raise NotFound(f"approval {approval_id} does not exist")
        return ApprovalView(approval, episode, self.clock.now())
