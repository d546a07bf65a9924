"""Starts an instance again that an episode has stopped. The only function whose role may."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.remediation.undo_episode import UndoEpisode
from governor.wiring import undo
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed
from governor.wiring.payloads import UndoPayload


@observed(undo.undo_episode(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, undo_episode: Ready[UndoEpisode]
) -> dict[str, Any]:
    """Start the instance again; return whether that is `done`, and a `text` for who asked."""
    payload = parse(UndoPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name)
    answer = undo_episode()(ref, payload.by, payload.channel)
    logger.info("answered", extra={"done": answer.done, "text": answer.text, "by": payload.by})
    count("Undos", Done=str(answer.done).lower())
    return {"done": answer.done, "text": answer.text}
