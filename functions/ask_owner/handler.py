"""Sends one message of an episode: tells, asks, reminds or escalates."""

from __future__ import annotations

from typing import Any

from governor.contracts.parsing import parse
from governor.contracts.payloads import AskPayload
from governor.observability import logger, observed
from governor.usecases.approvals.ask_owner import AskOwner
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import use_case


@observed(use_case(Parts(), AskOwner))
def handler(event: dict[str, Any], context: Any, ask_owner: Ready[AskOwner]) -> dict[str, Any]:
    """Episode and stage (and, where an answer is awaited, the task token) to `{"heard",
    "settled"}`."""
    payload = parse(AskPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, stage=payload.stage.value)
    asked = ask_owner()(ref, payload.stage, payload.task_token, payload.reason)
    logger.info("asked", extra={"heard": asked.heard, "settled": asked.settled})
    return {"heard": asked.heard, "settled": asked.settled}
