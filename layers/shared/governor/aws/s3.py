"""Stores the audit, user data and reports in S3, and reads the policy's versions from it.

The audit and user data are written once and never changed. Only people write the policy.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from governor.aws.call_errors import aws_errors
from governor.aws.clients import Adapter, Clients
from governor.aws.ssm import PolicyParameter
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, NotFound, Throttled, Unavailable
from governor.core.instance import UserData
from governor.core.units import printable
from governor.episode.rules.audit import Change
from governor.policy.store import PolicyVersions
from governor.policy.versions import StoredPolicy
from governor.table.table import Table

_KEY = "policy.yaml"
_MOST_BYTES = 300_000
"""More than the longest policy has, at four bytes a character."""
_NO_VERSION = ("AccessDenied", "InvalidArgument")
"""S3's codes for a version that is missing, or for an id that cannot be one. Without permission to
list, it does not tell that a version is missing."""


class _WrittenOnce(Adapter):
    """A bucket in which an object is written once."""

    def _put(self, key: str, body: bytes, **parameters: Any) -> bool:
        """Write an object. Return false, and write nothing, if it exists already. Raises:
        CloudError."""
        # Object Lock requires a checksum.
        once: Any = {"IfNoneMatch": "*", "ChecksumAlgorithm": "SHA256", **parameters}
        try:
            self._call("s3:PutObject", Bucket=self._resource, Key=key, Body=body, **once)
        except CloudError as error:
            if error.code != "PreconditionFailed":
                raise
            return False
        return True


class AuditBucket(_WrittenOnce):
    """The audit: each change is one document, which is written once and never replaced."""

    def keep(self, change: Change) -> bool:
        """Write a change. Return false if it is on record already. Raises: CloudError."""
        body = json.dumps(change.document()).encode()
        # The encryption is named, in case somebody changed the bucket's default.
        return self._put(
            change.key, body, ContentType="application/json", ServerSideEncryption="AES256"
        )


class UserDataBucket(_WrittenOnce):
    """Fulfils the port `Vault`, in the audit's bucket. User data is encrypted with a key of its
    own, so that readers of the audit cannot read it."""

    def __init__(self, clients: Clients, bucket: str, kms_key: str) -> None:
        """Write to this bucket (its name), encrypted with the KMS key `kms_key` (its ARN)."""
        super().__init__(clients, bucket)
        self._encrypted = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}

    def keep(self, ref: EpisodeRef, data: bytes) -> UserData:
        """Write the user data, unless the same is there already; return its size, its hash
        (SHA-256, hex) and its place (`s3://bucket/key`). Raises: CloudError."""
        content_hash = hashlib.sha256(data).hexdigest()
        # The hash is part of the key, because user data may change between two tries.
        key = f"user-data/{ref.account}/{ref.instance_id}/{ref.execution_name}/{content_hash}"
        self._put(key, data, **self._encrypted)
        return UserData(len(data), content_hash, f"s3://{self._resource}/{key}")


class ReportBucket(Adapter):
    """Stores the reports of costs and savings. Fulfils the port `ReportStore`."""

    def keep(self, name: str, text: str) -> None:
        """Write a report in place of an earlier one of this name. Raises: CloudError."""
        body = text.encode()
        self._call(
            "s3:PutObject", Bucket=self._resource, Key=name, Body=body, ContentType="text/csv"
        )


class PolicyBucket(Adapter):
    """The versions of the policy document."""

    def newest(self) -> StoredPolicy | None:
        """Return the newest version with its text and author, who is "" if none was stored with it;
        `None` if nothing was stored yet. The version is `null` in a bucket without versions.
        Raises: CloudError."""
        try:
            # Short timeout: a sweep waits for this answer, and the next sweep asks again.
            answer, text = self._get(long_timeout=False)
        except NotFound:
            return None
        author = printable(answer.get("Metadata", {}).get("author", ""))
        return StoredPolicy(answer.get("VersionId", "null"), text, author)

    def read(self, version: str, *, long_timeout: bool = True) -> str:
        """Return the text of a version. Without `long_timeout` the call gives up within seconds.
        Raises: CloudError, among them NotFound if there is no such version."""
        try:
            _, text = self._get(long_timeout=long_timeout, VersionId=version)
        except CloudError as error:
            if error.code not in _NO_VERSION:
                raise
            raise NotFound(str(error), operation=error.operation, code=error.code) from error
        return text

    def _get(self, *, long_timeout: bool, **version: Any) -> tuple[Any, str]:
        """Return S3's answer and the text of a version, by default the newest; the text is cut soon
        after the longest that a policy may have. Raises: CloudError.

        Bytes that are no UTF-8 stay as surrogates, which no YAML accepts.
        """
        answer = self._call(
            "s3:GetObject", long_timeout=long_timeout, Bucket=self._resource, Key=_KEY, **version
        )
        with aws_errors("s3:GetObject"):
            body: bytes = answer["Body"].read(_MOST_BYTES)
        return answer, body.decode(errors="surrogateescape")


class PolicyText:
    """The text in force: that of the version that the table names, or before the first one that of
    the SSM parameter."""

    def __init__(self, parameter: PolicyParameter, documents: PolicyBucket, table: Table) -> None:
        """Read which version is in force from `table`, its text from `documents`; before the first
        version, the text from `parameter`. Nothing is read yet."""
        self._parameter = parameter
        self._documents = documents
        self._table = table
        self._last_version: str | None = None
        """The version that was read last; `None` until one is."""
        self._last_text = ""
        """The text of that version."""

    def read(self, *, long_timeout: bool = True) -> str:
        """Return the text in force now; that of the parameter before the first version. A version
        never changes, so its text is read once.

        Without `long_timeout` each call gives up within seconds, and if the table does not answer,
        the text of the last version that was read is returned. Raises: CloudError.
        """
        table = self._table if long_timeout else self._table.with_short_timeout()
        try:
            version = PolicyVersions(table).version_in_force()
        except (Throttled, Unavailable):
            if long_timeout or self._last_version is None:
                raise
            return self._last_text
        if version is None:
            return self._parameter.read(long_timeout=long_timeout)
        if version != self._last_version:
            self._last_text = self._documents.read(version, long_timeout=long_timeout)
            self._last_version = version
        return self._last_text
