"""Documents that are written once."""

from __future__ import annotations

import pytest

from governor.adapters.clients import Clients
from governor.adapters.s3 import AuditBucket
from governor.errors import CloudError, Throttled
from tests.unit.adapters.fakes import FakeClients, ScriptedClient, client_error


def test_a_document_is_written_once_and_stays(aws: Clients) -> None:
    """S3 itself refuses the second."""
    s3, bucket = aws.client("s3"), AuditBucket(aws, "audit")
    s3.create_bucket(Bucket="audit")

    assert (True, False) == (bucket.keep("audit/1.json", '{"a": 1}'), bucket.keep("audit/1.json", "{}"))
    assert b'{"a": 1}' == s3.get_object(Bucket="audit", Key="audit/1.json")["Body"].read()


def test_what_could_not_be_written_is_an_error() -> None:
    """Two at the same moment, too: the stream hands it over again."""
    conflict = client_error("ConditionalRequestConflict", status=409)
    client = ScriptedClient(put_object=[client_error("SlowDown", status=503), conflict])
    bucket = AuditBucket(FakeClients(client), "audit")
    with pytest.raises(Throttled):
        bucket.keep("audit/1.json", "{}")
    with pytest.raises(CloudError, match="ConditionalRequestConflict"):
        bucket.keep("audit/1.json", "{}")
