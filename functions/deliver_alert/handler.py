"""Takes alerts from their queue to the channels: email, Slack, Teams, PagerDuty and signed
webhooks."""

from __future__ import annotations

from typing import Any

from governor.channels.dispatch import Dispatched
from governor.channels.worker import Worker
from governor.contracts.events import QueueBatch, must_be_of
from governor.contracts.parsing import parse
from governor.observability import MetricUnit, count, logger, observed
from governor.wiring.delivery import delivery_worker
from governor.wiring.parts import Parts


def _count(done: Dispatched, late_seconds: float) -> None:
    count("DeliveriesTaken", done.taken)
    count("DeliveriesRefused", done.refused)
    count("DeliveryDelay", late_seconds, MetricUnit.Seconds)


PARTS = Parts()
HUB = PARTS.hub.account


@observed(delivery_worker(PARTS, _count))
def handler(event: dict[str, Any], context: Any, worker: Worker) -> dict[str, Any]:
    """Deliver a batch of the queue; return the messages that must stay in it."""
    batch = [record.to_queued() for record in parse(QueueBatch, event).records]
    must_be_of(HUB, event)
    left = worker(batch)
    logger.info("delivered", extra={"messages": len(batch), "left": len(left)})
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}
