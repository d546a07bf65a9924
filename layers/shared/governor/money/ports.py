"""Port for prices of instances.

An unknown price is `None`, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import Instance
    from governor.episode.model.plan import Price
    from governor.policy.model.policy import Policy


class PriceBook(Protocol):
    """Prices an hour with their sources."""

    def price(self, instance: Instance, policy: Policy) -> Price:
        """Return the price of an instance; for a Spot instance, the Spot price. Never raises: the
        amount of an unknown price is `None`."""
