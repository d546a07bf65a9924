"""Looks at the health of the GPUs of one target and tells their owners what is new. Touches no instance."""

from __future__ import annotations

from typing import Any

from governor.contracts.parsing import parse
from governor.contracts.payloads import TargetPayload
from governor.observability import count, logger, observed
from governor.usecases.health.check_health import CheckHealth
from governor.wiring.health import HealthParts
from governor.wiring.policies import ByTarget, by_target


@observed(by_target(HealthParts(), CheckHealth))
def handler(event: dict[str, Any], context: Any, wired: ByTarget[CheckHealth]) -> dict[str, Any]:
    """One target to counts; what could not be read or told is logged and tried again."""
    payload = parse(TargetPayload, event)
    target = wired.accounts.target(payload.account, payload.region)
    summary = wired.ready()(target)
    if summary.looked:
        count("HealthProblems", len(summary.problems))
    for problem in summary.problems:
        logger.warning("tried again", extra={"target": str(target), "problem": problem})
    logger.info("looked" if summary.looked else "not due, or off", extra={"target": str(target)})
    return {
        "looked": summary.looked,
        "instances": summary.instances,
        "findings": summary.findings,
        "told": summary.told,
        "messages": summary.messages,
        "problems": len(summary.problems),
    }
