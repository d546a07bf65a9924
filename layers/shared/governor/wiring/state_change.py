"""The reaction to what has become of an instance."""

from __future__ import annotations

from governor.usecases.events.react import ReactToStateChange
from governor.wiring.parts import Parts
from governor.wiring.policies import or_last


def react_to_state_change(parts: Parts) -> ReactToStateChange:
    """For `handle_state_change`. The policy is read only where a saving ends."""
    return ReactToStateChange(or_last(parts), parts.state, parts.void)
