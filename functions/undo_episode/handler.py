"""Starts an instance again that an episode has stopped (undo). The only function whose role may.

EC2's event that an instance is stopped comes here, too: to look whether EC2 took a start back.
"""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.events.contract import StateChangeEvent
from governor.remediation.look_at_start import LookAtStart
from governor.wiring import undo
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed
from governor.wiring.payloads import UndoPayload
from governor.wiring.undo import StartingAgain


@observed(undo.starting_again(Ec2Parts()))
def handler(event: dict[str, Any], context: Any, starting: StartingAgain) -> dict[str, Any]:
    """Start the instance again; return whether that is `done`, and a `text` for who asked.

    For an `EC2 Instance State-change Notification`, start nothing; return the status of the start
    that is followed, as `seen`.
    """
    if "detail-type" in event:
        return {"seen": _look(event, starting.look)}
    payload = parse(UndoPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name)
    answer = starting.undo()(ref, payload.by, payload.channel)
    logger.info("answered", extra={"done": answer.done, "text": answer.text, "by": payload.by})
    count("Undos", Done=str(answer.done).lower())
    return {"done": answer.done, "text": answer.text}


def _look(event: dict[str, Any], look: LookAtStart) -> str:
    """Look at the start of the instance that the event names, and return its status."""
    change = parse(StateChangeEvent, event)
    logger.append_keys(instance_id=change.instance_id, ec2_state=change.state)
    seen = look(change.account, change.region, change.instance_id)
    logger.info("looked", extra={"seen": seen})
    return seen
