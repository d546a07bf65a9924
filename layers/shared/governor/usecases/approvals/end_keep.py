"""Ends a keep before its date, so that the instance is judged, and its owner asked, again."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.approvals.terms import Role, may_end_keep
from governor.errors import ConflictError, DecisionRefused, NotAllowed
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ApprovalView


@dataclass(frozen=True, slots=True)
class EndKeep:
    """One's own keep, and as an approver whom the policy knows any."""

    decide: Decide

    def __call__(self, view: ApprovalView, by: str, person: str | None, role: Role) -> None:
        """End the keep of this record.

        Raises:
            NotAllowed: it is somebody else's, and this person is no approver.
            DecisionRefused: it is over, or another keep stands by now.
        """
        approval, now = view.approval, self.decide.clock.now()
        kept = approval.lasting_keep(now)
        if kept is None:
            raise DecisionRefused("there is no keep to end: it is over", status=approval.status.value)
        if not may_end_keep(self.decide.terms_now(view.episode), role, kept, person):
            raise NotAllowed("only the person who kept it, or an approver by their own link, may end that")
        try:
            self.decide.state.end_keep(approval, kept, by, now)
        except ConflictError:
            why = "somebody has kept it for longer, or has ended this keep, meanwhile"
            raise DecisionRefused(why, status=approval.status.value) from None
