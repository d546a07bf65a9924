"""Wiring of the response to an instance that has changed state."""

from __future__ import annotations

from governor.events.react_to_state_change import ReactToStateChange
from governor.wiring.endings import void_episode
from governor.wiring.following import follow_start
from governor.wiring.parts import Parts
from governor.wiring.policies import or_last


def react_to_state_change(parts: Parts) -> ReactToStateChange:
    """Return the use case of `handle_state_change`. It reads the policy only if a saving ends: that
    in force, or the last accepted one. Raises: ConfigurationError if a setting is missing."""
    return ReactToStateChange(
        policies=or_last(parts),
        clock=parts.clock,
        episode_store=parts.episode_store,
        instance_store=parts.instance_store,
        ledger_store=parts.ledger_store,
        void=void_episode(parts),
        follow_start=follow_start(parts),
    )
