"""Checks at the moment of acting that everything is as it was when people were asked."""

from __future__ import annotations

import math
from typing import Any

from governor.contracts.parsing import parse
from governor.contracts.payloads import RecheckPayload
from governor.observability import logger, observed
from governor.usecases.episode.recheck_episode import RecheckEpisode
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import asking, use_case


@observed(use_case(Ec2Parts(), RecheckEpisode, asking))
def handler(
    event: dict[str, Any], context: Any, recheck_episode: Ready[RecheckEpisode]
) -> dict[str, Any]:
    """Episode and next step to whether to go on, end or wait, and why.

    `wait_seconds` also counts after a step that was let through and not carried out: until the next
    recheck.
    """
    payload = parse(RecheckPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, before=payload.before.value)
    result = recheck_episode()(ref, payload.before)
    logger.info("rechecked", extra={"proceed": result.proceed, "reason": result.reason})
    return {
        "before": payload.before.value,
        "proceed": result.proceed,
        "wait": result.wait is not None,
        "wait_seconds": math.ceil((result.wait or result.again).total_seconds()),
        "notify": result.notifies,
        "outcome": result.outcome.value if result.outcome else None,
        "reason": result.reason,
    }
