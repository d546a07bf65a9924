"""Stores every question, answer, refusal and action in the audit bucket. Invoked by the table's
stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from governor.episode.rules.audit import Change
from governor.events.contract import require_account
from governor.events.table_stream import changes_of
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts

PARTS = Parts()
HUB = PARTS.hub.account


@observed(PARTS.archive.keep)
def handler(event: dict[str, Any], context: Any, keep: Callable[[Change], bool]) -> dict[str, Any]:
    """Keep a batch of changes; return how many documents are new. If one fails, all come again."""
    changes = changes_of(event)
    require_account(HUB, event)
    kept = sum(map(keep, changes))
    logger.info("kept", extra={"kept": kept})
    return {"kept": kept}
