"""Runs the daily scan of one target for accelerators that cost money and that GPU Governor does not
govern. It only reads, and keeps what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from governor.core.parsing import parse
from governor.scan.model import RefusedScan, Snapshot, Unread
from governor.wiring import scanning
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import TargetPayload


@observed(scanning.scan_accelerators(Parts()))
def handler(
    event: dict[str, Any], context: Any, scan: Callable[[str, str], Snapshot | RefusedScan]
) -> dict[str, Any]:
    """Scan one target; return counts. What AWS refuses is logged, and is a part of what is kept."""
    payload = parse(TargetPayload, event)
    kept = scan(payload.account, payload.region)
    if isinstance(kept, RefusedScan):
        _log_unread(kept.line)
        return _result(kept, rows=0, not_read=1, calls=0, usd="0")
    for line in kept.unread:
        _log_unread(line)
    logger.info(
        "scanned",
        extra={"target": str(kept.target), "rows": len(kept.rows), "calls": kept.calls},
    )
    return _result(
        kept,
        rows=len(kept.rows),
        not_read=len(kept.unread),
        calls=kept.calls,
        usd=str(kept.usd_spent),
    )


def _log_unread(line: Unread) -> None:
    """Log what could not be read."""
    logger.warning(
        "not read",
        extra={"place": line.place, "topic": line.topic, "operation": line.operation},
    )


def _result(
    kept: Snapshot | RefusedScan, *, rows: int, not_read: int, calls: int, usd: str
) -> dict[str, Any]:
    """Return the result of the function."""
    return {
        "account": kept.account,
        "region": kept.region,
        "is_refused": isinstance(kept, RefusedScan),
        "rows": rows,
        "not_read": not_read,
        "calls": calls,
        "usd": usd,
    }
