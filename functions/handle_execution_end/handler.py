"""A remediation workflow failed, timed out or was aborted: its episode must not stay open."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import ExecutionEndEvent, parse
from governor.errors import InputError
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A `Step Functions Execution Status Change` to whether an episode was closed by it."""
    ended = parse(ExecutionEndEvent, event)
    logger.append_keys(episode=ended.detail.name, status=ended.detail.status)
    if ended.detail.status not in ("FAILED", "TIMED_OUT", "ABORTED"):
        return {"closed": False}
    try:
        closed = bootstrap.react_to_execution_end()(ended.detail.name, ended.detail.status)
    except ValueError as error:
        raise InputError(str(error)) from error
    logger.info("episode closed as failed" if closed else "was closed already")
    return {"closed": closed}
