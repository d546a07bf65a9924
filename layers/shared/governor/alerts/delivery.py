"""Records of deliveries, one for each message, channel and recipient, and the contents of the
delivery queue.

Records only: the notify room sends, and says what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from governor.alerts.model import Alert
from governor.core.units import UtcDatetime

NOWHERE = "none"
"""The channel in the record of a message that goes to no channel."""
DIGEST_PREFIX = "digest-"
"""The start of the id of a message about several questions."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message on one channel to one target."""

    subject: str
    """The execution name of the episode, or the message's own id."""
    message: str
    """The alert's `dedup_id`."""
    channel: str
    target: str
    at: UtcDatetime
    delivery_id: str | None = None
    """The channel's id of a delivered message."""
    thread: str | None = None
    """The id by which later messages are kept together with this one."""
    refused: str | None = None
    """Why the channel refused it, and what to do."""
    shared: bool | None = None
    """True if it was delivered to a channel for everybody, although the policy names a channel of
    its readers' own."""
    given_up: bool = False
    """True if it counts as refused only because the channel did not accept it for too long. An
    operator may have it tried again."""
    not_before: UtcDatetime | None = None
    """Time of the next try: the time that the channel asked for, or the end of the claim of the
    function that sends it now. `None` once it is settled."""
    seal: str | None = None
    """Made by `deliver_alert`, if silence may count from this delivery."""
    stated_until: UtcDatetime | None = None
    """The end of the notice period of mode auto as the message gives it; `None` for any other
    message. It is only shown, and not under the seal: the period is counted from `at`, which also
    limits what is shown."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the name of the channel and the target, which distinguish deliveries of one
        message: `("email", "ada@example.com")`."""
        return self.channel, self.target

    @property
    def is_settled(self) -> bool:
        """Return whether the message was delivered or refused, so that it is not tried again."""
        return self.not_before is None

    @property
    def was_delivered(self) -> bool:
        """Return whether the channel has accepted the message."""
        return self.is_settled and self.refused is None

    @property
    def reached_people(self) -> bool:
        """Return whether the message was delivered to a channel of its readers' own: to no webhook,
        which reaches only machines, and to no channel for everybody in place of theirs."""
        if not self.was_delivered or self.channel == "webhook":
            return False
        return not self.shared


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """One message of the queue. `receives` is how often it was received, including this time."""

    message_id: str
    receipt: str
    body: str
    receives: int
    sent_at: UtcDatetime | None = None


class RetryRequest(NamedTuple):
    """A request to try an alert again that was given up: an operator has put it into the queue."""

    alert: Alert


class FlushRequest(NamedTuple):
    """A request to send the messages of a group that wait in the outbox."""

    group: str
