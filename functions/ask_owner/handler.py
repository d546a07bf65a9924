"""Sends one message of an episode: notifies, asks, reminds or escalates."""

from __future__ import annotations

import math
from typing import Any

from governor.approvals.ask_owner import AskOwner
from governor.core.parsing import parse
from governor.wiring import approvals
from governor.wiring.basics import Ready
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import AskPayload, stage_seconds


@observed(approvals.ask_owner(Parts()))
def handler(event: dict[str, Any], context: Any, ask_owner: Ready[AskOwner]) -> dict[str, Any]:
    """Send the message of a stage; return whether it was delivered (`heard`), and whether the
    question is `settled`. The answer to a late question also has the seconds of its later stages
    (`approval`), in place of those of `open_episode`. If it is not time to ask yet, the answer has
    the seconds to the next try (`wait_seconds`) and the reason (`waits_because`). The task token
    comes with a stage that waits for an answer."""
    payload = parse(AskPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, stage=payload.stage.value)
    asked = ask_owner()(
        ref,
        payload.stage,
        payload.task_token,
        payload.reason,
        takes_new_times=payload.takes_new_times,
        takes_waits=payload.takes_waits,
    )
    logger.info("asked", extra={"heard": asked.reached_people, "settled": asked.settled})
    answer: dict[str, Any] = {"heard": asked.reached_people, "settled": asked.settled}
    if asked.delay is not None:
        answer["wait_seconds"] = math.ceil(asked.delay.wait.total_seconds())
        answer["waits_because"] = asked.delay.why
    if asked.moved is not None:
        answer["approval"] = stage_seconds(asked.moved, asked.moved.ask_at)
    return answer
