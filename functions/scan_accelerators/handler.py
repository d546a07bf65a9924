"""Looks for accelerators that cost money and that GPU Governor does not govern, in one target. It
only reads, and keeps what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from governor.core.parsing import parse
from governor.scan.model import Snapshot
from governor.wiring import scanning
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import TargetPayload


@observed(scanning.scan_accelerators(Parts()))
def handler(
    event: dict[str, Any], context: Any, scan: Callable[[str, str], Snapshot]
) -> dict[str, Any]:
    """Scan one target; return counts. What AWS refuses is logged, and is a part of what is
    kept."""
    payload = parse(TargetPayload, event)
    kept = scan(payload.account, payload.region)
    for line in kept.unread:
        logger.warning(
            "not read",
            extra={"place": line.place, "topic": line.topic, "operation": line.operation},
        )
    logger.info(
        "scanned",
        extra={"target": str(kept.target), "rows": len(kept.rows), "calls": kept.calls},
    )
    return {
        "account": kept.account,
        "region": kept.region,
        "rows": len(kept.rows),
        "not_read": len(kept.unread),
        "calls": kept.calls,
        "usd": str(kept.usd_spent),
    }
