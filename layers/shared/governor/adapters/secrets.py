"""The keys of approval links, from Secrets Manager."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.errors import ConfigurationError

_KEPT_SECONDS = 60.0
"""A flood of requests must not become a flood of paid reads; a rotation counts within a minute."""


class SecretDocument:
    """One secret that holds a JSON object of strings."""

    def __init__(self, clients: Clients, arn: str, *, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._arn = arn
        self._elapsed = elapsed
        self._kept: tuple[float, Mapping[str, str]] | None = None

    def read(self) -> Mapping[str, str]:
        """The object, at most a minute old.

        Raises:
            ConfigurationError, NotFound, AccessDenied, Throttled, Unavailable: as `read_now`.
        """
        now = self._elapsed()
        if self._kept is None or now - self._kept[0] >= _KEPT_SECONDS:
            self._kept = now, self.read_now()
        return self._kept[1]

    def read_now(self) -> Mapping[str, str]:
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
