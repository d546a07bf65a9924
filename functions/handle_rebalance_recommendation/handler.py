"""EC2 says that an instance runs at an elevated risk of interruption."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import RebalanceEvent, parse
from governor.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An `EC2 Instance Rebalance Recommendation` to what was done about it."""
    warned = parse(RebalanceEvent, event).to_domain()
    logger.append_keys(instance_id=warned.instance_id, cause=warned.cause.value)
    reaction = bootstrap.respond_to_rebalance().one(warned)
    for note in reaction.notes:
        logger.warning(note)
    if reaction.ours:
        count("Interruptions", Cause=warned.cause.value)
    answer = {
        "ours": reaction.ours,
        "told": reaction.notified,
        "checkpoint_sent": reaction.checkpoint_sent,
    }
    logger.info("handled", extra=answer)
    return answer
