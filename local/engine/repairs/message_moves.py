"""Moves of messages from a dead-letter queue.

- AWS: `StartMessageMoveTask` moves the messages of a dead-letter queue to another queue, over some
  time. The source must be the dead-letter queue of some other queue. Engine: knows no such task.
  Here the messages are moved at once.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from typing import Any


def repair() -> None:
    """Adds the action to the engine's; it looks them up at every request."""
    from ministack.services import sqs

    def start(asked: dict[str, Any], _url: str) -> dict[str, str]:
        source = found(asked["SourceArn"])
        if not is_dead_letter_queue(asked["SourceArn"]):
            raise sqs._Err(
                "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue."
            )
        target = found(asked["DestinationArn"])
        moved = source["messages"]
        source["messages"] = []
        for message in moved:
            message.update(receipt_handle=None, receive_count=0, visible_at=time.time())
            target["messages"].append(message)
        sqs.esm_wake.set()
        task = {"taskId": str(uuid.uuid4()), "sourceArn": asked["SourceArn"]}
        return {"TaskHandle": base64.b64encode(json.dumps(task).encode()).decode()}

    def found(arn: str) -> dict[str, Any]:
        queue: dict[str, Any] | None = sqs._queue_by_arn(arn)
        if queue is None:
            raise sqs._Err(
                "ResourceNotFoundException",
                "The resource that you specified for the SourceArn parameter doesn't exist.",
            )
        return queue

    def is_dead_letter_queue(arn: str) -> bool:
        for queue in sqs._queues.values():
            redrive = json.loads(queue["attributes"].get("RedrivePolicy") or "{}")
            if redrive.get("deadLetterTargetArn") == arn:
                return True
        return False

    sqs._HANDLERS["StartMessageMoveTask"] = start
