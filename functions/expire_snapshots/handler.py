"""Each day: notifies owners of snapshots that expire, and deletes those they have known of for a
week."""

from __future__ import annotations

from typing import Any

from governor.core.errors import Unavailable
from governor.core.parsing import Payload, parse
from governor.remediation.expire_snapshots import ExpireSnapshots
from governor.wiring import expiry
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed


@observed(expiry.expire_snapshots(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, expire_snapshots: Ready[ExpireSnapshots]
) -> dict[str, Any]:
    """Return how many were announced, deleted and kept. Raises, when all was tried: Unavailable."""
    parse(Payload, event)
    run = expire_snapshots()()
    logger.info("expired", extra={"noticed": run.noticed, "deleted": run.deleted, "kept": run.kept})
    if run.problems:
        raise Unavailable("; ".join(run.problems), operation="ec2:DeleteSnapshot")
    return {"noticed": len(run.noticed), "deleted": len(run.deleted), "kept": len(run.kept)}
