"""What the event source mapping of a queue invokes a function with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pydantic import AliasPath, Field

from governor.contracts.parsing import Event
from governor.domain.alerts.delivery import Queued
from governor.errors import InputError


class _QueuedMessage(Event):
    message_id: str = Field(alias="messageId", min_length=1)
    receipt: str = Field(alias="receiptHandle", min_length=1)
    body: str
    receives: int = Field(validation_alias=AliasPath("attributes", "ApproximateReceiveCount"), ge=1)
    sent_milliseconds: int = Field(validation_alias=AliasPath("attributes", "SentTimestamp"), ge=0)

    def to_queued(self) -> Queued:
        """As the worker takes it."""
        sent_at = datetime.fromtimestamp(self.sent_milliseconds / 1000, tz=UTC)
        return Queued(self.message_id, self.receipt, self.body, self.receives, sent_at)


class QueueBatch(Event):
    """The messages of one invocation."""

    records: tuple[_QueuedMessage, ...] = Field(alias="Records", min_length=1)


def queued_event(body: str) -> Any:
    """The event that a rule has put into a queue, as it was sent.

    Raises:
        InputError: the message holds no JSON.
    """
    try:
        return json.loads(body)
    except ValueError as error:
        raise InputError(f"the message holds no JSON: {error}") from error
