"""Takes alerts from their queue to the channels: email, Slack, Teams, PagerDuty and signed webhooks."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.channels.dispatch import Dispatched
from governor.contracts.payloads import QueueBatch, parse
from governor.observability import MetricUnit, count, logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A batch of the queue to what must stay in it."""
    batch = [record.to_queued() for record in parse(QueueBatch, event).records]
    left = bootstrap.delivery_worker(_count)(batch)
    logger.info("delivered", extra={"messages": len(batch), "left": len(left)})
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}


def _count(done: Dispatched, late_seconds: float) -> None:
    count("DeliveriesTaken", done.taken)
    count("DeliveriesRefused", done.refused)
    count("DeliveryDelay", late_seconds, MetricUnit.Seconds)
