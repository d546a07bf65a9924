"""Loads the questions that were asked in one message. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from governor.errors import NotFound
from governor.stores import Deliveries
from governor.usecases.approvals.show_approval import ApprovalView, ShowApproval


@dataclass(frozen=True, slots=True)
class ShowDigest:
    """Reads a digest and its questions, in the order of the message."""

    state: Deliveries
    show: ShowApproval

    def __call__(self, digest_id: str) -> list[ApprovalView]:
        """Raises: NotFound."""
        approval_ids = self.state.digest(digest_id)
        if not approval_ids:
            raise NotFound(f"digest {digest_id} does not exist")
        return [self.show(approval_id) for approval_id in approval_ids]
