"""Ports for sending alerts.

Every method may raise `CloudError` unless its docstring says otherwise, and no other error of
`governor.core.errors` that it does not name. With a `Target` that has a `role_arn`, it acts as that
role in that account.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.alerts.model import Alert


class Announcer(Protocol):
    """Sends alerts to the alert topic."""

    def announce(self, alert: Alert) -> None:
        """Send an alert to the topic, and return once it is accepted. Raises: CloudError if it is
        not."""

    def reaches(self, addresses: Collection[str]) -> bool:
        """Return whether one of these addresses (lower case) gets every question directly from the
        topic. If not, the recorded deliveries say who has a question. It sends nothing. Raises:
        NobodyListens if a message would reach nobody at all; CloudError."""
