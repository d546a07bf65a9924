"""EC2 says that it takes a Spot instance back in two minutes."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import SpotInterruptionEvent, parse
from governor.domain.units import as_utc
from governor.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An `EC2 Spot Instance Interruption Warning` to whether its owner was told now for the first time."""
    warning = parse(SpotInterruptionEvent, event)
    detail = warning.detail
    logger.append_keys(instance_id=detail.instance_id, action=detail.instance_action)
    told = bootstrap.react_to_spot_warning()(
        warning.account,
        warning.region,
        detail.instance_id,
        detail.instance_action,
        as_utc(warning.time),
        warning.id,
    )
    logger.info("told" if told else "not ours, or told before")
    count("SpotInterruptions")
    return {"told": told}
