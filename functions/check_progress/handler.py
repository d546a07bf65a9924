"""Looks whether EC2 has got there. Reads only."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import ProgressPayload, parse
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Episode and what is waited for to `{"done", "wait_seconds"}`."""
    payload = parse(ProgressPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, until=payload.until.value)
    progress = bootstrap.check_progress()(ref, payload.until)
    return {"done": progress.done, "wait_seconds": progress.wait_seconds}
