"""The fate of a message on its way to people: one record for each channel and recipient."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.alerts.alert import Alert
from governor.domain.units import UtcDatetime

NOWHERE = "none"
"""The channel of the record that says that there is none to deliver to."""


DIGEST_PREFIX = "digest-"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message (the alert's `dedup_id`) on one channel to one target; `subject` is the episode's execution
    name, or the message's own id. Taken: `delivery_id` is what the channel calls it, `thread` what later
    messages name to be kept together with it. Refused: `refused` says why, and what to do."""

    subject: str
    message: str
    channel: str
    target: str
    at: UtcDatetime
    delivery_id: str | None = None
    thread: str | None = None
    refused: str | None = None
    shared: bool | None = None
    """Taken by a channel of everybody, where the policy names one of their own for those whom it is for."""
    given_up: bool = False
    """Refused only because nobody has taken it for too long: it may be tried again when somebody says so."""
    not_before: UtcDatetime | None = None
    """When to try again: the channel has said so, or somebody who may have died is sending it now."""

    @property
    def key(self) -> tuple[str, str]:
        """Name the way it took, as `Route.key` does."""
        return self.channel, self.target

    @property
    def is_settled(self) -> bool:
        return self.not_before is None

    @property
    def was_taken(self) -> bool:
        return self.is_settled and self.refused is None

    @property
    def reached_people(self) -> bool:
        """Say whether those have it whom it is for: a webhook is a machine's."""
        return self.was_taken and self.channel != "webhook" and not self.shared


@dataclass(frozen=True, slots=True)
class Queued:
    """One message of the queue; `receives` counts how often it was handed out, this time included."""

    message_id: str
    receipt: str
    body: str
    receives: int
    sent_at: UtcDatetime | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Asks to try once more where an alert was given up: somebody has put it back into the queue."""

    alert: Alert


@dataclass(frozen=True, slots=True)
class Flush:
    group: str
