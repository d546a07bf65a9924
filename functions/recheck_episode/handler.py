"""Checks at the moment of acting that everything is as it was when people were asked."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import RecheckPayload, parse
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Episode and next step to `{"proceed", "outcome", "reason"}`."""
    payload = parse(RecheckPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, before=payload.before.value)
    result = bootstrap.recheck_episode()(ref, payload.before)
    logger.info("rechecked", extra={"proceed": result.proceed, "reason": result.reason})
    return {
        "proceed": result.proceed,
        "outcome": result.outcome.value if result.outcome else None,
        "reason": result.reason,
    }
