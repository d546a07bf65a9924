"""The queue of deliveries, and those for what cannot be used or was given up.

This module must not know what is in them, but for the form of an alert.
"""

from __future__ import annotations

import json

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.adapters.sns import alert_document
from governor.domain.alerts.alert import Alert

_WHY_CHARACTERS = 1000


class SqsQueue:
    """Fulfils `governor.channels.worker.Queue`."""

    def __init__(self, clients: Clients, url: str) -> None:
        self._clients = clients
        self._url = url

    def hide(self, receipt: str, seconds: int) -> None:
        with aws_errors("sqs:ChangeMessageVisibility"):
            self._clients.client("sqs").change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds
            )

    def later(self, body: str, seconds: int) -> None:
        with aws_errors("sqs:SendMessage"):
            self._clients.client("sqs").send_message(
                QueueUrl=self._url, MessageBody=body, DelaySeconds=seconds
            )


class SqsDeadLetters:
    """The port `DeadLetters`. The reason is the attribute `ErrorMessage`, where Lambda leaves its own."""

    def __init__(self, clients: Clients, url: str) -> None:
        self._clients = clients
        self._url = url

    def keep(self, body: str, reason: str) -> None:
        text = "".join(character if character.isprintable() else " " for character in reason)
        attribute = {"DataType": "String", "StringValue": text[:_WHY_CHARACTERS]}
        with aws_errors("sqs:SendMessage"):
            self._clients.client("sqs").send_message(
                QueueUrl=self._url, MessageBody=body, MessageAttributes={"ErrorMessage": attribute}
            )

    def park(self, alert: Alert, why: str) -> None:
        """Fulfils `governor.channels.dispatch.Park`.

        The body is what the delivery queue takes to try the alert again, so that SQS's own redrive does, when
        it is given the destination: of a message that was sent here it does not know where it came from.
        """
        self.keep(json.dumps({"again": alert_document(alert)}), why)
