"""Mail through SES, API version 2.

This module must not know what a mail says.
"""

from __future__ import annotations

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors


class SesMailService:
    """Fulfils `governor.channels.email.MailService`. Sends once: a lost answer is for the queue to repeat."""

    def __init__(self, clients: Clients, configuration_set: str | None = None) -> None:
        self._clients = clients
        self._options = {} if configuration_set is None else {"ConfigurationSetName": configuration_set}

    def send(self, sender: str, recipient: str, document: bytes) -> str:
        """Return the id that SES gives it, when SES has taken it."""
        with aws_errors("sesv2:SendEmail"):
            answer = self._clients.client("sesv2", repeat=False).send_email(
                FromEmailAddress=sender,
                Destination={"ToAddresses": [recipient]},
                Content={"Raw": {"Data": document}},
                **self._options,
            )
        return str(answer["MessageId"])
