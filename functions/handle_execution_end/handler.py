"""A remediation workflow failed, timed out or was aborted: its episode must not stay open."""

from __future__ import annotations

from typing import Any

from governor.contracts.events import ExecutionEndEvent
from governor.contracts.parsing import parse
from governor.errors import InputError
from governor.observability import logger, observed
from governor.usecases.events.react import ReactToExecutionEnd
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import or_defaults, use_case


@observed(use_case(Ec2Parts(), ReactToExecutionEnd, or_defaults))
def handler(event: dict[str, Any], context: Any, react: Ready[ReactToExecutionEnd]) -> dict[str, Any]:
    """A `Step Functions Execution Status Change` to whether an episode was closed by it."""
    ended = parse(ExecutionEndEvent, event)
    logger.append_keys(episode=ended.name, status=ended.status)
    if ended.status not in ("FAILED", "TIMED_OUT", "ABORTED"):
        return {"closed": False}
    try:
        closed = react()(ended.name, ended.status)
    except ValueError as error:
        raise InputError(str(error)) from error
    logger.info("episode closed as failed" if closed else "was closed already")
    return {"closed": closed}
