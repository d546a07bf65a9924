"""Wiring of the button that pauses every action."""

from __future__ import annotations

from governor.approvals.pause import PauseAll
from governor.wiring.parts import Parts


def pause_all(parts: Parts) -> PauseAll:
    """Return the use case of the button that pauses all actions."""
    return PauseAll(
        pause_store=parts.pause_store,
        clock=parts.clock,
        announcer=parts.announcer,
        hub=parts.hub,
    )
