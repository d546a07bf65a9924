"""The queue of deliveries, and the one for what cannot be used.

This module must not know what is in them.
"""

from __future__ import annotations

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors

_LONGEST_REASON = 1_000


class SqsQueue:
    """Fulfils `governor.channels.worker.Queue`."""

    def __init__(self, clients: Clients, url: str) -> None:
        self._clients = clients
        self._url = url

    def hide(self, receipt: str, seconds: int) -> None:
        """As the Protocol says."""
        with aws_errors("sqs:ChangeMessageVisibility"):
            self._clients.client("sqs").change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds
            )

    def later(self, body: str, seconds: int) -> None:
        """As the Protocol says."""
        with aws_errors("sqs:SendMessage"):
            self._clients.client("sqs").send_message(
                QueueUrl=self._url, MessageBody=body, DelaySeconds=seconds
            )


class SqsDeadLetters:
    """The port `DeadLetters`. The reason stands where Lambda puts it for what it gives up itself."""

    def __init__(self, clients: Clients, url: str) -> None:
        self._clients = clients
        self._url = url

    def keep(self, body: str, reason: str) -> None:
        """As the port says."""
        attribute = {"DataType": "String", "StringValue": reason[:_LONGEST_REASON]}
        with aws_errors("sqs:SendMessage"):
            self._clients.client("sqs").send_message(
                QueueUrl=self._url, MessageBody=body, MessageAttributes={"ErrorMessage": attribute}
            )
