"""Each hour: reads AWS's list prices of what runs, and the hub's commitments. Touches no
instance."""

from __future__ import annotations

from typing import Any

from governor.core.errors import Unavailable
from governor.core.parsing import Payload, parse
from governor.money.refresh_prices import RefreshPrices
from governor.wiring import money
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed


@observed(money.refresh_prices(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, refresh_prices: Ready[RefreshPrices]
) -> dict[str, Any]:
    """Return what was read, by Region, and how many commitments. Raises, when all was tried:
    Unavailable."""
    parse(Payload, event)
    refreshed = refresh_prices()()
    commitments = refreshed.commitments
    unread = dict(commitments.unread) if commitments else {}
    logger.info("read", extra={"types": refreshed.types, "commitments_unread": unread})
    if refreshed.problems:
        raise Unavailable("; ".join(refreshed.problems), operation="pricing:GetProducts")
    commitment_count = None if commitments is None else len(commitments.found)
    return {
        "types": refreshed.types,
        "commitments": commitment_count,
        "commitments_unread": unread,
    }
