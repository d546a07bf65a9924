"""The keys of approval links, from Secrets Manager."""

from __future__ import annotations

import json
from collections.abc import Mapping

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.errors import ConfigurationError


class SecretDocument:
    """One secret that holds a JSON object of strings."""

    def __init__(self, clients: Clients, arn: str) -> None:
        self._clients = clients
        self._arn = arn

    def read(self) -> Mapping[str, str]:
        """The object as it is now.

        Raises:
            ConfigurationError: not a JSON object of strings. The value is never part of the message.
            NotFound, AccessDenied, Throttled, Unavailable: Secrets Manager said no.
        """
        with aws_errors("secretsmanager:GetSecretValue"):
            answer = self._clients.client("secretsmanager").get_secret_value(SecretId=self._arn)
        try:
            document = json.loads(answer["SecretString"])
        except (KeyError, ValueError):
            document = None
        if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
            raise ConfigurationError("the secret of the approval links must be a JSON object of strings")
        return document
