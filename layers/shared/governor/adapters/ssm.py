"""The policy text, from SSM Parameter Store."""

from __future__ import annotations

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors


class PolicyParameter:
    """One parameter, read by value; without `patient`, for a caller that can do with an older one."""

    def __init__(self, clients: Clients, name: str, *, patient: bool = True) -> None:
        self._clients = clients
        self._name = name
        self._patient = patient

    def read(self) -> str:
        """The text as it is now. Raises: NotFound, AccessDenied, Throttled, Unavailable."""
        with aws_errors("ssm:GetParameter"):
            client = self._clients.client("ssm", patient=self._patient)
            answer = client.get_parameter(Name=self._name, WithDecryption=True)
        return str(answer["Parameter"]["Value"])
