"""S3: the audit, whose documents are written once, and the versions of the policy, which only people write.

This module must not know what a policy says.
"""

from __future__ import annotations

import json
from typing import Any

from governor.adapters.clients import Adapter
from governor.adapters.errors import aws_errors
from governor.adapters.ssm import PolicyParameter
from governor.domain.audit import Change
from governor.domain.units import printable
from governor.errors import CloudError, NotFound, Throttled, Unavailable
from governor.ports import StoredPolicy
from governor.stores import StateTable
from governor.stores.table import Table

_KEY = "policy.yaml"
_MOST_BYTES = 300_000
"""More than the longest document has: four for each of its characters."""
_NO_VERSION = ("AccessDenied", "InvalidArgument")
"""Without the right to list, S3 does not say that a version is missing; it may name none so, either."""


class AuditBucket(Adapter):
    """The port `Archive`."""

    def keep(self, change: Change) -> bool:
        try:
            self._call(
                "s3:PutObject",
                Bucket=self._resource,
                Key=change.key,
                Body=json.dumps(change.document()).encode(),
                ContentType="application/json",
                # Object Lock asks for a checksum.
                ChecksumAlgorithm="SHA256",
                IfNoneMatch="*",
            )
        except CloudError as error:
            if error.code != "PreconditionFailed":
                raise
            return False
        return True


class PolicyBucket(Adapter):
    """The port `PolicyDocuments`."""

    def newest(self) -> StoredPolicy | None:
        try:
            # A sweep waits behind this, and the next one asks again.
            found, text = self._get(patient=False)
        except NotFound:
            return None
        author = printable(found.get("Metadata", {}).get("author", ""))
        return StoredPolicy(found.get("VersionId", "null"), text, author)

    def read(self, version: str, *, patient: bool = True) -> str:
        try:
            return self._get(patient=patient, VersionId=version)[1]
        except CloudError as error:
            if error.code not in _NO_VERSION:
                raise
            raise NotFound(str(error), operation=error.operation, code=error.code) from error

    def _get(self, *, patient: bool, **which: Any) -> tuple[Any, str]:
        """The object, and its text: not much more than a policy may have. No UTF-8 is no YAML either."""
        found = self._call("s3:GetObject", patient=patient, Bucket=self._resource, Key=_KEY, **which)
        with aws_errors("s3:GetObject"):
            return found, found["Body"].read(_MOST_BYTES).decode(errors="surrogateescape")


class PolicyText:
    """The text in force: of the version that the table names; before the first one, the SSM parameter's."""

    def __init__(self, parameter: PolicyParameter, documents: PolicyBucket, table: Table) -> None:
        self._parameter, self._documents, self._table = parameter, documents, table
        self._last: tuple[str, str] | None = None

    def read(self, *, patient: bool = True) -> str:
        """Return it as it is now. A version never changes, so a warm function reads it once.

        Without `patient` the last one that this function has read, where the table does not answer. Never
        the parameter then: perhaps it is no longer the policy.
        """
        try:
            version = StateTable(self._table if patient else self._table.hasty()).version_in_force()
        except (Throttled, Unavailable):
            if patient or self._last is None:
                raise
            return self._last[1]
        if version is None:
            return self._parameter.read(patient=patient)
        if self._last is None or self._last[0] != version:
            self._last = version, self._documents.read(version, patient=patient)
        return self._last[1]
