"""EC2 says that it takes instances back in two minutes: Spot, or an interruptible Capacity Reservation."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import InterruptionEvent, QueueBatch, parse, queued_event
from governor.domain.interruption import Warned
from governor.errors import InputError
from governor.observability import count, logger, observed
from governor.usecases.tell_warning import Reaction


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A batch of the queue to what must stay in it; or one warning, as EC2 sends it, to what was done."""
    if "Records" in event:
        return _handle_batch(event)
    warned = parse(InterruptionEvent, event).to_domain()
    (result,) = bootstrap.react_to_interruption()([warned])
    if isinstance(result, Exception):
        raise result
    return _note(warned, result)


def _handle_batch(event: dict[str, Any]) -> dict[str, Any]:
    readable: list[tuple[str, Warned]] = []
    left: list[str] = []
    for record in parse(QueueBatch, event).records:
        try:
            warned = parse(InterruptionEvent, queued_event(record.body)).to_domain()
        except InputError as error:
            # It would be as unreadable the next time: kept with the reason, for somebody to look at.
            logger.error("a warning was refused", extra={"reason": str(error)})
            bootstrap.dead_letters().keep(record.body, str(error))
            continue
        readable.append((record.message_id, warned))
    results = bootstrap.react_to_interruption()([warned for _, warned in readable]) if readable else []
    for (message_id, warned), result in zip(readable, results, strict=True):
        if isinstance(result, Exception):
            logger.error("a step failed", exc_info=result, extra=_names(warned))
            left.append(message_id)
        else:
            _note(warned, result)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}


def _note(warned: Warned, reaction: Reaction) -> dict[str, Any]:
    for note in reaction.notes:
        logger.warning(note, extra=_names(warned))
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
    logger.info("handled", extra={**_names(warned), **answer})
    return answer


def _names(warned: Warned) -> dict[str, Any]:
    return {"instance_id": warned.instance_id, "action": warned.action, "cause": warned.cause.value}
