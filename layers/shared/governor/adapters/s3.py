"""S3: the audit and user data, written once; copies of reports; and the versions of the policy,
which only people write."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from governor.adapters.clients import Adapter, Clients, aws_errors
from governor.adapters.ssm import PolicyParameter
from governor.domain.audit import Change
from governor.domain.episode.episode import EpisodeRef
from governor.domain.instance import UserData
from governor.domain.units import printable
from governor.errors import CloudError, NotFound, Throttled, Unavailable
from governor.ports import StoredPolicy
from governor.stores import StateTable
from governor.stores.table import Table

_KEY = "policy.yaml"
_MOST_BYTES = 300_000
"""More than the longest document has: four for each of its characters."""
_NO_VERSION = ("AccessDenied", "InvalidArgument")
"""Without the right to list, S3 does not say that a version is missing; it may name none so,
either."""


class _WrittenOnce(Adapter):
    def _put(self, key: str, body: bytes, **more: Any) -> bool:
        # Object Lock asks for a checksum.
        once: Any = {"IfNoneMatch": "*", "ChecksumAlgorithm": "SHA256", **more}
        try:
            self._call("s3:PutObject", Bucket=self._resource, Key=key, Body=body, **once)
        except CloudError as error:
            if error.code != "PreconditionFailed":
                raise
            return False
        return True


class AuditBucket(_WrittenOnce):
    """The audit: each change has one document, which is written once and stays."""

    def keep(self, change: Change) -> bool:
        body = json.dumps(change.document()).encode()
        # Whatever the bucket's default is by now.
        return self._put(
            change.key, body, ContentType="application/json", ServerSideEncryption="AES256"
        )


class UserDataBucket(_WrittenOnce):
    """The port `Vault`, in the audit's bucket. By its key, who may read the audit cannot read
    it."""

    def __init__(self, clients: Clients, bucket: str, kms_key: str) -> None:
        super().__init__(clients, bucket)
        self._encrypted = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}

    def keep(self, ref: EpisodeRef, data: bytes) -> UserData:
        digest = hashlib.sha256(data).hexdigest()
        # Who may change the instance may change its user data between two tries.
        key = f"user-data/{ref.account}/{ref.instance_id}/{ref.execution_name}/{digest}"
        self._put(key, data, **self._encrypted)
        return UserData(len(data), digest, f"s3://{self._resource}/{key}")


class ReportBucket(Adapter):
    """The port `ReportStore`."""

    def keep(self, name: str, text: str) -> None:
        body = text.encode()
        self._call(
            "s3:PutObject", Bucket=self._resource, Key=name, Body=body, ContentType="text/csv"
        )


class PolicyBucket(Adapter):
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
        """The object, and its text: not much more than a policy may have. No UTF-8 is no YAML
        either."""
        found = self._call(
            "s3:GetObject", patient=patient, Bucket=self._resource, Key=_KEY, **which
        )
        with aws_errors("s3:GetObject"):
            return found, found["Body"].read(_MOST_BYTES).decode(errors="surrogateescape")


class PolicyText:
    """The text in force: of the version that the table names; before the first one, the SSM
    parameter's."""

    def __init__(self, parameter: PolicyParameter, documents: PolicyBucket, table: Table) -> None:
        self._parameter, self._documents, self._table = parameter, documents, table
        self._last: tuple[str, str] | None = None

    def read(self, *, patient: bool = True) -> str:
        """Return it as it is now; a version, which never changes, is read once. Without `patient`
        the last one read, where the table does not answer; never the parameter then."""
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
