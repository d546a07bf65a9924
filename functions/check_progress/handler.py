"""Checks whether EC2 has done what the workflow waits for. Reads only."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.remediation.check_progress import CheckProgress
from governor.wiring import progress
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed
from governor.wiring.payloads import ProgressPayload


@observed(progress.check_progress(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, check_progress: Ready[CheckProgress]
) -> dict[str, Any]:
    """Return whether that is `done`, and how many seconds to wait for the next check if not."""
    payload = parse(ProgressPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, until=payload.until.value)
    wait_seconds = check_progress()(ref, payload.until)
    return {"done": wait_seconds == 0, "wait_seconds": wait_seconds}
