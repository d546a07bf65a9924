"""The approval page. Without a sign-in it reads no policy, so that nothing of one is loaded."""

from __future__ import annotations

from governor.adapters.undo import LambdaUndoer
from governor.ports import Undoer
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ShowApproval
from governor.web.site import ApprovalSite, Gate
from governor.wiring.keys import sessions
from governor.wiring.parts import Parts


def approval_site(parts: Parts, undoer: Undoer | None = None) -> ApprovalSite:
    """For `serve_approval`."""
    return parts.fill(
        ApprovalSite,
        show=parts.fill(ShowApproval),
        decide=parts.fill(Decide),
        undoer=undoer or LambdaUndoer(parts.clients, parts.settings.need("undo_function_name")),
        gate=_gate(parts) if parts.settings.signs_in else None,
    )


def _gate(parts: Parts) -> Gate:
    # Not at the top: a page without a sign-in starts without the policy's parser.
    from governor.wiring.policies import or_defaults

    policies = or_defaults(parts)
    return Gate(sessions(parts), lambda: policies().base().policy.ownership)
