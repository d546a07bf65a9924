"""Checks at the moment of acting that everything is as it was when people were asked."""

from __future__ import annotations

import math
from typing import Any

from governor.core.parsing import parse
from governor.remediation.recheck_episode import RecheckEpisode
from governor.wiring import remediation
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed
from governor.wiring.payloads import RecheckPayload


@observed(remediation.recheck_episode(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, recheck_episode: Ready[RecheckEpisode]
) -> dict[str, Any]:
    """Recheck an episode before its next step; return whether to go on, end or wait, and why.

    `wait_seconds` is the time to the next recheck, also after a step that was let through and not
    carried out.
    """
    payload = parse(RecheckPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, before=payload.before.value)
    result = recheck_episode()(ref, payload.before)
    logger.info("rechecked", extra={"proceed": result.proceed, "reason": result.reason})
    wait = result.wait or result.again
    outcome = result.outcome.value if result.outcome else None
    return {
        "before": payload.before.value,
        "proceed": result.proceed,
        "wait": result.wait is not None,
        "wait_seconds": math.ceil(wait.total_seconds()),
        "notify": result.notifies,
        "outcome": outcome,
        "reason": result.reason,
    }
