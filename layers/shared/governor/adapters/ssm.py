"""The policy text, from SSM Parameter Store."""

from __future__ import annotations

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors


class PolicyParameter:
    """One parameter, read by value."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._name = name

    def read(self) -> str:
        """The text as it is now. Raises: NotFound, AccessDenied, Throttled, Unavailable."""
        with aws_errors("ssm:GetParameter"):
            answer = self._clients.client("ssm").get_parameter(Name=self._name, WithDecryption=True)
        return str(answer["Parameter"]["Value"])
