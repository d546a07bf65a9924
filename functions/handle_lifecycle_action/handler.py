"""Handles the lifecycle hook of an Auto Scaling group that is about to terminate an instance."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.events.contract import LifecycleEvent
from governor.events.respond_to_warnings import RespondToWarnings
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.events import respond_to_lifecycle_action
from governor.wiring.observability import count, logger, observed


@observed(respond_to_lifecycle_action(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, respond: Ready[RespondToWarnings]
) -> dict[str, Any]:
    """Handle an `EC2 Instance-terminate Lifecycle Action`; return what was done about it."""
    action = parse(LifecycleEvent, event)
    logger.append_keys(
        instance_id=action.instance_id, auto_scaling_group=action.group, hook=action.hook
    )
    reaction = respond().one(action.to_domain())
    for note in reaction.notes:
        logger.warning(note)
    if reaction.ours:
        count("Interruptions", Cause="auto-scaling")
    answer = {
        "ours": reaction.ours,
        "told": reaction.notified,
        "checkpoint_sent": reaction.checkpoint_sent,
        "voided": reaction.voided,
        "completed": reaction.completed,
    }
    logger.info("handled", extra=answer)
    return answer
