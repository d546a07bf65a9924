"""The keys of approval links, from Secrets Manager, and their rotation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.errors import ConfigurationError, NotFound

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
        return _read(self._clients, self._arn)


class SecretVersions:
    """The port `RotatingSecret`."""

    def __init__(self, clients: Clients, arn: str) -> None:
        self._clients = clients
        self._arn = arn

    def stages(self, version: str) -> frozenset[str]:
        return frozenset(self._versions().get(version, ()))

    def current(self) -> Mapping[str, str]:
        return _read(self._clients, self._arn, VersionStage="AWSCURRENT")

    def pending(self, version: str) -> Mapping[str, str] | None:
        try:
            return _read(self._clients, self._arn, VersionId=version, VersionStage="AWSPENDING")
        except NotFound:
            return None

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        with aws_errors("secretsmanager:PutSecretValue"):
            self._client.put_secret_value(
                SecretId=self._arn,
                ClientRequestToken=version,
                SecretString=json.dumps(dict(document)),
                VersionStages=["AWSPENDING"],
            )

    def promote(self, version: str) -> None:
        before = next(name for name, stages in self._versions().items() if "AWSCURRENT" in stages)
        with aws_errors("secretsmanager:UpdateSecretVersionStage"):
            self._client.update_secret_version_stage(
                SecretId=self._arn,
                VersionStage="AWSCURRENT",
                MoveToVersionId=version,
                RemoveFromVersionId=before,
            )

    @property
    def _client(self) -> Any:
        return self._clients.client("secretsmanager")

    def _versions(self) -> Mapping[str, Sequence[str]]:
        with aws_errors("secretsmanager:DescribeSecret"):
            answer = self._client.describe_secret(SecretId=self._arn)
        versions: Mapping[str, Sequence[str]] = answer.get("VersionIdsToStages", {})
        return versions


def _read(clients: Clients, arn: str, **version: str) -> Mapping[str, str]:
    """Raises: as `SecretDocument.read_now`."""
    with aws_errors("secretsmanager:GetSecretValue"):
        answer = clients.client("secretsmanager").get_secret_value(SecretId=arn, **version)
    try:
        document = json.loads(answer["SecretString"])
    except (KeyError, ValueError):
        document = None
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise ConfigurationError("the secret must be a JSON object of strings")
    return document
