"""What became of a message on its way to people: one record for each channel and recipient."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.units import UtcDatetime

NOWHERE = "none"
"""The channel of the record that says that there is none to deliver to."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """`subject` is the episode's execution name, or the message's own id where it is about none.

    `message` is the alert's `dedup_id`. Taken: `delivery_id` is what the channel calls it and `thread` what
    later messages must name to be kept together with it. Refused: `refused` says why, and what to do.
    """

    subject: str
    message: str
    channel: str
    target: str
    at: UtcDatetime
    delivery_id: str | None = None
    thread: str | None = None
    refused: str | None = None

    @property
    def was_taken(self) -> bool:
        """Whether the channel has it."""
        return self.refused is None


@dataclass(frozen=True, slots=True)
class Queued:
    """One message of the queue; `receives` counts how often it was handed out, this time included."""

    message_id: str
    receipt: str
    body: str
    receives: int
