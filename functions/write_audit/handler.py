"""Keeps every question, answer, refusal and action in the audit bucket. Invoked by the table's stream."""

from __future__ import annotations

from typing import Any

from governor.contracts.events import changes_of
from governor.observability import logger, observed
from governor.ports import Archive
from governor.wiring.parts import Parts


@observed(Parts().archive)
def handler(event: dict[str, Any], context: Any, archive: Archive) -> dict[str, Any]:
    """A batch of changes to `{"kept"}`: how many documents are new. Where one fails, all come again."""
    kept = sum(map(archive.keep, changes_of(event)))
    logger.info("kept", extra={"kept": kept})
    return {"kept": kept}
