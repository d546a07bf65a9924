"""Takes alerts from their queue to the channels: email, Slack, Teams, PagerDuty and signed
webhooks."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from governor.core.parsing import parse
from governor.events.contract import QueueBatch, require_account
from governor.notify.dispatched import Dispatched
from governor.notify.worker import Worker
from governor.wiring.delivery import delivery_worker
from governor.wiring.observability import count, logger, observed
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
    require_account(HUB, event)
    left = worker(batch)
    logger.info("delivered", extra={"messages": len(batch), "left": len(left)})
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}
