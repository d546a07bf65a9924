"""Handles EC2's two-minute warning of an interruption: of a Spot instance, or of one in an
interruptible Capacity Reservation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from governor.core.errors import GovernorError, InputError
from governor.core.parsing import parse
from governor.events.contract import InterruptionEvent, QueueBatch, queued_event
from governor.events.model.interruption import Warned
from governor.events.notify_warning import Reaction
from governor.events.respond_to_warnings import RespondToWarnings
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.events import ToInterruptions, respond_to_interruptions
from governor.wiring.observability import count, logger, observed


@observed(respond_to_interruptions(Ec2Parts()))
def handler(event: dict[str, Any], context: Any, wired: ToInterruptions) -> dict[str, Any]:
    """Respond to warnings. For a batch of the queue, return the messages that must stay in it; for
    one warning, as EC2 sends it, what was done."""
    if isinstance(event, dict) and "Records" in event:
        return _handle_batch(event, wired)
    warned = parse(InterruptionEvent, event).to_domain()
    return _note(warned, wired.respond().one(warned))


def _handle_batch(event: dict[str, Any], wired: ToInterruptions) -> dict[str, Any]:
    readable: list[tuple[str, Warned]] = []
    unreadable: list[tuple[str, str, Exception]] = []
    for record in parse(QueueBatch, event).records:
        try:
            warned = parse(InterruptionEvent, queued_event(record.body)).to_domain()
        except Exception as error:  # noqa: BLE001 - the other warnings have their turn
            unreadable.append((record.message_id, record.body, error))
        else:
            readable.append((record.message_id, warned))
    # What can be saved goes first.
    left = _respond_to(readable, wired.respond)
    left += _keep(unreadable, wired.keep)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}


def _respond_to(
    readable: Sequence[tuple[str, Warned]], respond: Ready[RespondToWarnings]
) -> list[str]:
    """Respond to the warnings of these messages; return the ids of those that must come again."""
    if not readable:
        return []
    left = []
    results = respond()([warned for _, warned in readable])
    for (message_id, warned), result in zip(readable, results, strict=True):
        if isinstance(result, Exception):
            logger.error("a step failed", exc_info=result, extra=_names(warned))
            left.append(message_id)
        else:
            _note(warned, result)
    return left


def _keep(
    unreadable: Sequence[tuple[str, str, Exception]], keep: Callable[[str, str], None]
) -> list[str]:
    """Keep each message with its reason, for somebody to look at: it would be as unreadable the
    next time. Return the ids of those that could not be kept, which stay where they are."""
    left = []
    for message_id, body, error in unreadable:
        reason = str(error) if isinstance(error, InputError) else repr(error)
        logger.error("a warning was refused", extra={"reason": reason})
        try:
            keep(body, reason)
        except GovernorError as keep_error:
            logger.error("and it could not be kept", exc_info=keep_error)
            left.append(message_id)
    return left


def _note(warned: Warned, reaction: Reaction) -> dict[str, Any]:
    """Log and count what was done about a warning; return it."""
    for note in reaction.notes:
        logger.warning(note, extra=_names(warned))
    if reaction.ours:
        count("Interruptions", Cause=warned.cause.value)
    answer = {
        "ours": reaction.ours,
        "told": reaction.notified,
        "checkpoint_sent": reaction.checkpoint_sent,
        "snapshots": list(reaction.snapshots),
        "voided": reaction.voided,
        "advised": reaction.advised,
    }
    logger.info("handled", extra={**_names(warned), **answer})
    return answer


def _names(warned: Warned) -> dict[str, Any]:
    return {"instance_id": warned.instance_id, "action": warned.action, "cause": warned.cause.value}
