"""Errors of channels; the whole tree stands in `governor.errors`.

Messages name the channel and the status, never an address or a token: an address of a webhook is a secret.
For that reason the foreign error is not chained; its class name is in the message instead.
"""

from __future__ import annotations

from governor.errors import GovernorError


class DeliveryError(GovernorError):
    """A channel did not take a message. `channel` names it."""

    def __init__(self, message: str, *, channel: str) -> None:
        self.channel = channel
        super().__init__(f"{channel}: {message}")


class DeliveryRetryable(DeliveryError):
    """The same delivery may succeed later: not before `retry_after_seconds`, or `None` when nobody said."""

    def __init__(self, message: str, *, channel: str, retry_after_seconds: int | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message, channel=channel)


class DeliveryRefused(DeliveryError):
    """Repeating the same delivery never helps; the message says what to do."""


class CallbackRefused(GovernorError):
    """A request that claims to come from a chat system was not let through; the message says why."""
