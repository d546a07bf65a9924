"""The queue of deliveries.

This module must not know what is delivered.
"""

from __future__ import annotations

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors


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
