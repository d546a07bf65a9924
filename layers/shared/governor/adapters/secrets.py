"""The keys of approval links, from Secrets Manager, and their rotation; the key in KMS that seals
alerts."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from governor.adapters.clients import Adapter, Clients
from governor.errors import ConfigurationError, NotFound

_KEPT_SECONDS = 60.0
"""A flood of requests must not become a flood of paid reads; a rotation counts within a minute."""


class SecretDocument(Adapter):
    """One secret that holds a JSON object of strings, and its versions: the port
    `RotatingSecret`."""

    def __init__(
        self, clients: Clients, arn: str, *, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clients, arn)
        self._elapsed = elapsed
        self._kept: tuple[float, Mapping[str, str]] | None = None

    def _read(self, **version: Any) -> Mapping[str, str]:
        answer = self._call("secretsmanager:GetSecretValue", SecretId=self._resource, **version)
        try:
            document = json.loads(answer["SecretString"])
        except (KeyError, ValueError):
            document = None
        if not isinstance(document, dict) or not all(
            isinstance(value, str) for value in document.values()
        ):
            raise ConfigurationError("the secret must be a JSON object of strings")
        return document

    def read(self) -> Mapping[str, str]:
        """Return the object, at most a minute old. Raises: ConfigurationError for anything but a
        JSON object of strings, without its value; NotFound, AccessDenied, Throttled,
        Unavailable."""
        now = self._elapsed()
        if self._kept is None or now - self._kept[0] >= _KEPT_SECONDS:
            self._kept = now, self._read()
        return self._kept[1]

    def stages(self, version: str) -> frozenset[str]:
        return frozenset(self._versions().get(version, ()))

    def current(self) -> Mapping[str, str]:
        return self._read(VersionStage="AWSCURRENT")

    def pending(self, version: str) -> Mapping[str, str] | None:
        try:
            return self._read(VersionId=version, VersionStage="AWSPENDING")
        except NotFound:
            return None

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        self._call(
            "secretsmanager:PutSecretValue",
            SecretId=self._resource,
            ClientRequestToken=version,
            SecretString=json.dumps(dict(document)),
            VersionStages=["AWSPENDING"],
        )

    def promote(self, version: str) -> None:
        before = next(name for name, stages in self._versions().items() if "AWSCURRENT" in stages)
        self._call(
            "secretsmanager:UpdateSecretVersionStage",
            SecretId=self._resource,
            VersionStage="AWSCURRENT",
            MoveToVersionId=version,
            RemoveFromVersionId=before,
        )

    def _versions(self) -> Mapping[str, Sequence[str]]:
        answer = self._call("secretsmanager:DescribeSecret", SecretId=self._resource)
        versions: Mapping[str, Sequence[str]] = answer.get("VersionIdsToStages", {})
        return versions


class AlertSeal(Adapter):
    """Fulfils `governor.domain.alerts.alert.Seal` by an HMAC whose key never leaves KMS."""

    def __call__(self, text: bytes) -> str:
        # The hash, because KMS takes 4,096 bytes.
        parts: Any = {"MacAlgorithm": "HMAC_SHA_256", "Message": hashlib.sha256(text).digest()}
        answer = self._call("kms:GenerateMac", KeyId=self._resource, **parts)
        return base64.b64encode(answer["Mac"]).decode()
