"""S3: documents that are written once."""

from __future__ import annotations

from governor.adapters.clients import Adapter, call
from governor.errors import CloudError


class AuditBucket(Adapter):
    """The port `Archive`."""

    def keep(self, key: str, document: str) -> bool:
        try:
            call(
                "s3:PutObject",
                self._clients.client("s3"),
                Bucket=self._resource,
                Key=key,
                Body=document.encode(),
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
