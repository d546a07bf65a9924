"""Handles EC2's rebalance recommendation, which says that a Spot instance is at an elevated risk of
interruption."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.events.contract import InterruptionEvent
from governor.events.respond_to_warnings import RespondToWarnings
from governor.wiring import events
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed


@observed(events.respond_to_rebalance_recommendation(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, respond: Ready[RespondToWarnings]
) -> dict[str, Any]:
    """Handle an `EC2 Instance Rebalance Recommendation`; return what was done about it."""
    warned = parse(InterruptionEvent, event).to_domain()
    logger.append_keys(instance_id=warned.instance_id, cause=warned.cause.value)
    reaction = respond().one(warned)
    for note in reaction.notes:
        logger.warning(note)
    if reaction.ours:
        count("Interruptions", Cause=warned.cause.value)
    answer = {
        "ours": reaction.ours,
        "told": reaction.notified,
        "checkpoint_sent": reaction.checkpoint_sent,
    }
    logger.info("handled", extra=answer)
    return answer
