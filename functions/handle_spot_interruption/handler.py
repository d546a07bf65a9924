"""EC2 says that it takes an instance back in two minutes: Spot, or an interruptible Capacity Reservation."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import InterruptionEvent, parse
from governor.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An interruption warning to what was done about it."""
    warned = parse(InterruptionEvent, event).to_domain()
    logger.append_keys(instance_id=warned.instance_id, action=warned.action, cause=warned.cause.value)
    reaction = bootstrap.react_to_interruption()(warned)
    for note in reaction.notes:
        logger.warning(note)
    if reaction.ours:
        count("Interruptions", Cause=warned.cause.value)
    answer = {
        "ours": reaction.ours,
        "told": reaction.told,
        "checkpoint_sent": reaction.checkpoint_sent,
        "snapshots": list(reaction.snapshots),
        "voided": reaction.voided,
        "advised": reaction.advised,
    }
    logger.info("handled", extra=answer)
    return answer
