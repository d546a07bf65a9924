"""Sends one message of an episode: tells, asks, reminds or escalates."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import AskPayload, parse
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Episode and stage (and, where an answer is awaited, the task token) to `{"heard", "settled"}`."""
    payload = parse(AskPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, stage=payload.stage.value)
    asked = bootstrap.ask_owner()(ref, payload.stage, payload.task_token)
    logger.info("asked", extra={"heard": asked.heard, "settled": asked.settled})
    return {"heard": asked.heard, "settled": asked.settled}
