"""Handles dates that AWS announces: a scheduled change of an instance, or the begin and end of a
Capacity Block."""

from __future__ import annotations

from typing import Any

from governor.events.contract import notice_of
from governor.events.model.notice import ScheduledChange
from governor.events.notify_dates import NotifyDates
from governor.wiring import events
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed


@observed(events.notify_dates(Ec2Parts()))
def handler(event: dict[str, Any], context: Any, notify: Ready[NotifyDates]) -> dict[str, Any]:
    """Handle an `AWS Health Event` or a `Capacity Block ...` event; return the instances, or the
    owners, that were notified."""
    notice = notice_of(event)
    if notice is None:
        logger.info("nothing follows from this kind of event", extra={"kind": event["detail-type"]})
        return {"told": []}
    if isinstance(notice, ScheduledChange):
        told = notify().notify_scheduled(notice)
    else:
        told = notify().notify_block(notice)
    nothing = "not ours, no target of the policy, sent before, older than what was sent, or over"
    logger.info("told" if told else nothing, extra={"told": list(told)})
    return {"told": list(told)}
