"""The policy text, from SSM Parameter Store."""

from __future__ import annotations

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors


class PolicyParameter:
    """One parameter, read by value."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._name = name

    def read(self, *, patient: bool = True) -> str:
        """Return the text as it is now; without `patient`, for a caller that can do with an older one.

        Raises:
            NotFound, AccessDenied, Throttled, Unavailable: Systems Manager said no.
        """
        with aws_errors("ssm:GetParameter"):
            client = self._clients.client("ssm", patient=patient)
            answer = client.get_parameter(Name=self._name, WithDecryption=True)
        return str(answer["Parameter"]["Value"])
