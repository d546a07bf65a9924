"""Closes the episode of a remediation workflow that failed, timed out or was aborted."""

from __future__ import annotations

from typing import Any

from governor.core.episode_ref import episode_from_execution_name
from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.events.contract import ExecutionEndEvent
from governor.remediation.close_dead import CloseDead
from governor.wiring import endings
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed


@observed(endings.handle_execution_end(Ec2Parts()))
def handler(event: dict[str, Any], context: Any, close_dead: Ready[CloseDead]) -> dict[str, Any]:
    """Handle a `Step Functions Execution Status Change`; return whether it closed an episode.
    Raises: InputError for another event, or a name that is not that of an episode; CloudError."""
    ended = parse(ExecutionEndEvent, event)
    logger.append_keys(episode=ended.name, status=ended.status)
    if ended.status not in ("FAILED", "TIMED_OUT", "ABORTED"):
        return {"closed": False}
    try:
        ref = episode_from_execution_name(ended.name)
    except ValueError as error:
        raise InputError(str(error)) from error
    reason = f"its workflow ended {ended.status}"
    closed = close_dead()(ref, reason, aborted=ended.status == "ABORTED")
    logger.info("episode closed as failed" if closed else "was closed already")
    return {"closed": closed}
