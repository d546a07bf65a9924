"""Wiring of what every way to answer shares: the page, the console, the API, buttons in Slack."""

from __future__ import annotations

from collections.abc import Callable

from governor.approvals.decide import Decide
from governor.approvals.show_approval import ShowApproval
from governor.policy.ports import Policies
from governor.wiring.parts import Parts


def decide(parts: Parts, policies_now: Callable[[], Policies]) -> Decide:
    """Return the use case of one answer."""
    return Decide(
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        hold_store=parts.hold_store,
        instance_store=parts.instance_store,
        workflow=parts.workflow,
        clock=parts.clock,
        announcer=parts.announcer,
        policies_now=policies_now,
        answer_seal=parts.answer_seal,
    )


def show_approval(parts: Parts) -> ShowApproval:
    """Return the use case that shows a question."""
    return ShowApproval(
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        instance_store=parts.instance_store,
        delivery_store=parts.delivery_store,
        ledger_store=parts.ledger_store,
        clock=parts.clock,
    )
