"""EC2 says that an instance has changed state."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import StateChangeEvent, parse
from governor.domain.units import as_utc
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An `EC2 Instance State-change Notification` to what was done about it."""
    change = parse(StateChangeEvent, event)
    detail = change.detail
    logger.append_keys(instance_id=detail.instance_id, ec2_state=detail.state)
    done = bootstrap.react_to_state_change()(
        change.account, change.region, detail.instance_id, detail.state, as_utc(change.time)
    )
    logger.info(done)
    return {"done": done}
