"""Wiring of the end of a question, by an answer or by silence. It is a module of its own, because
it loads no policy."""

from __future__ import annotations

from governor.approvals.deliver_decision import ConcludeApproval
from governor.wiring.parts import Parts


def conclude_approval(parts: Parts) -> ConcludeApproval:
    """Return the use case of `conclude_approval`."""
    return ConcludeApproval(
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        clock=parts.clock,
        expiry_seal=parts.expiry_seal,
    )
