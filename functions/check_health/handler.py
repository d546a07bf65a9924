"""Checks the health of the GPUs of one target and notifies their owners of what is new. Touches no
instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from governor.core.parsing import parse
from governor.health.check_health import HealthSummary
from governor.wiring import health
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed
from governor.wiring.payloads import TargetPayload


@observed(health.check_health(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, check_health: Callable[[str, str], HealthSummary]
) -> dict[str, Any]:
    """Check one target; return counts. What could not be read or sent is logged, and tried
    again."""
    payload = parse(TargetPayload, event)
    summary = check_health(payload.account, payload.region)
    target = summary.target
    if summary.was_checked:
        count("HealthProblems", len(summary.problems))
    for problem in summary.problems:
        logger.warning("tried again", extra={"target": str(target), "problem": problem})
    logger.info(
        "looked" if summary.was_checked else "not due, off, or not readable",
        extra={"target": str(target)},
    )
    return {
        "looked": summary.was_checked,
        "instances": summary.instances,
        "findings": summary.findings,
        "told": summary.findings_sent,
        "messages": summary.messages_sent,
        "problems": len(summary.problems),
    }
