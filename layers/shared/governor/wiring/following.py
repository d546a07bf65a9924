"""Wiring of what follows a start, for the function that starts, the sweep, and EC2's events."""

from __future__ import annotations

from governor.remediation.follow_start import FollowStart
from governor.wiring.parts import Parts


def follow_start(parts: Parts) -> FollowStart:
    """Return the use case that records how a start ended, and notifies people of it."""
    return FollowStart(
        clock=parts.clock, episode_store=parts.episode_store, announcer=parts.announcer
    )
