"""Ends the question when its last stage has passed."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import EpisodeOnlyPayload, parse
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An episode to its answer; `expired` when nobody gave one."""
    ref = parse(EpisodeOnlyPayload, event).episode.to_domain()
    logger.append_keys(episode=ref.execution_name)
    answer = dict(bootstrap.conclude_approval()(ref))
    logger.info("concluded", extra={"decision": answer.get("decision")})
    return answer
