"""Handles EC2's event that an instance has changed its state."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.core.units import as_utc
from governor.events.contract import StateChangeEvent
from governor.events.react_to_state_change import ReactToStateChange
from governor.wiring import state_changes
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts


@observed(state_changes.react_to_state_change(Parts()))
def handler(
    event: dict[str, Any], context: Any, react_to_state_change: ReactToStateChange
) -> dict[str, Any]:
    """Handle an `EC2 Instance State-change Notification`; return what was done about it."""
    change = parse(StateChangeEvent, event)
    logger.append_keys(instance_id=change.instance_id, ec2_state=change.state)
    done = react_to_state_change(
        change.account, change.region, change.instance_id, change.state, as_utc(change.time)
    )
    logger.info(done)
    return {"done": done}
