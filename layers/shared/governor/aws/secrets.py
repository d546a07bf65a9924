"""Reads and rotates secrets in Secrets Manager, and seals alerts with a KMS key.

A secret's value must never get into an error or a log.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from governor.aws.clients import Adapter, Clients
from governor.core.errors import ConfigurationError, NotFound

_KEPT_SECONDS = 60.0
"""A flood of requests must not become a flood of paid reads, and a rotation must count soon."""


class SecretDocument(Adapter):
    """The port `RotatingSecret`: one secret that holds a JSON object of strings, with versions."""

    def __init__(
        self, clients: Clients, arn: str, *, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        """Use the secret with this ARN; nothing is read yet. `elapsed` is a monotonic clock in
        seconds."""
        super().__init__(clients, arn)
        self._elapsed = elapsed
        self._kept: tuple[float, Mapping[str, str]] | None = None
        """When the current version was last read, by `elapsed`, and the version."""

    def _read(self, **version: Any) -> Mapping[str, str]:
        """Return the JSON object of a version of the secret, read now. `version` are parameters of
        GetSecretValue (`VersionId`, `VersionStage`); without them it is the current version.
        Raises: ConfigurationError if it is no JSON object of strings; NotFound; CloudError."""
        answer = self._call("secretsmanager:GetSecretValue", SecretId=self._resource, **version)
        try:
            document = json.loads(answer["SecretString"])
        except (KeyError, ValueError):
            document = None
        if not _has_only_strings(document):
            raise ConfigurationError("the secret must be a JSON object of strings")
        return document

    def read(self) -> Mapping[str, str]:
        """Return the JSON object of the secret, at most a minute old.

        Raises: ConfigurationError if it is no JSON object of strings (the text does not hold the
        value); CloudError.
        """
        now = self._elapsed()
        if self._kept is not None:
            read_at, document = self._kept
            if now - read_at < _KEPT_SECONDS:
                return document
        document = self._read()
        self._kept = now, document
        return document

    def stages(self, version: str) -> frozenset[str]:
        """Return the stages of a version, such as `AWSPENDING`; empty if there is no such version.
        Raises: CloudError."""
        return frozenset(self._versions().get(version, ()))

    def current(self) -> Mapping[str, str]:
        """Return the JSON object of the current version, read now. Raises: ConfigurationError if it
        is no JSON object of strings; CloudError."""
        return self._read(VersionStage="AWSCURRENT")

    def pending(self, version: str) -> Mapping[str, str] | None:
        """Return the JSON object of this version, which a rotation prepares; `None` if it is not
        stored yet, or is pending no more. Raises: ConfigurationError if it is no JSON object of
        strings; CloudError."""
        try:
            return self._read(VersionId=version, VersionStage="AWSPENDING")
        except NotFound:
            return None

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        """Store this document as the version (its id) that a rotation prepares, in the stage
        `AWSPENDING`. Raises: CloudError."""
        self._call(
            "secretsmanager:PutSecretValue",
            SecretId=self._resource,
            ClientRequestToken=version,
            SecretString=json.dumps(dict(document)),
            VersionStages=["AWSPENDING"],
        )

    def promote(self, version: str) -> None:
        """Move the stage `AWSCURRENT` to the version with this id. Call it only while another
        version is the current one. Raises: ConfigurationError if none is; CloudError."""
        self._call(
            "secretsmanager:UpdateSecretVersionStage",
            SecretId=self._resource,
            VersionStage="AWSCURRENT",
            MoveToVersionId=version,
            RemoveFromVersionId=self._current_version(),
        )

    def _current_version(self) -> str:
        """Return the id of the current version. Raises: ConfigurationError if none is stored yet;
        CloudError."""
        for version, stages in self._versions().items():
            if "AWSCURRENT" in stages:
                return version
        raise ConfigurationError("the secret has no current version: store one")

    def _versions(self) -> Mapping[str, Sequence[str]]:
        """Return the stages of each version, by the version's id; empty if there are no versions.
        Raises: CloudError."""
        answer = self._call("secretsmanager:DescribeSecret", SecretId=self._resource)
        versions: Mapping[str, Sequence[str]] = answer.get("VersionIdsToStages", {})
        return versions


def _has_only_strings(document: Any) -> TypeGuard[Mapping[str, str]]:
    """Return whether a document is a JSON object of strings."""
    if not isinstance(document, dict):
        return False
    return all(isinstance(value, str) for value in document.values())


class AlertSeal(Adapter):
    """Fulfils `governor.alerts.model.Seal` by an HMAC whose key never leaves KMS."""

    def __call__(self, text: bytes) -> str:
        """Return the seal of a text in base64. Raises: CloudError."""
        # It is a MAC of the hash, because KMS takes 4,096 bytes.
        parts: Any = {"MacAlgorithm": "HMAC_SHA_256", "Message": hashlib.sha256(text).digest()}
        answer = self._call("kms:GenerateMac", KeyId=self._resource, **parts)
        return base64.b64encode(answer["Mac"]).decode()
