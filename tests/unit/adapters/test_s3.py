"""Documents that are written once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from governor.adapters.clients import Clients
from governor.adapters.s3 import AuditBucket
from governor.domain.audit import Change
from governor.errors import CloudError, Throttled
from tests.builders import NOW
from tests.unit.adapters.fakes import FakeClients, ScriptedClient, client_error

CHANGE = Change("EPISODE#x", "EPISODE", "MODIFY", NOW, "1", {"a": 1}, {"a": 2})


def test_a_document_is_written_once_and_stays(aws: Clients) -> None:
    """S3 itself refuses the second."""
    s3, bucket = aws.client("s3"), AuditBucket(aws, "audit")
    s3.create_bucket(Bucket="audit")

    assert (True, False) == (bucket.keep(CHANGE), bucket.keep(replace(CHANGE, after={})))
    assert CHANGE.document() == json.loads(s3.get_object(Bucket="audit", Key=CHANGE.key)["Body"].read())


def test_what_could_not_be_written_is_an_error() -> None:
    """Two at the same moment, too: the stream hands it over again."""
    conflict = client_error("ConditionalRequestConflict", status=409)
    client = ScriptedClient(put_object=[client_error("SlowDown", status=503), conflict])
    bucket = AuditBucket(FakeClients(client), "audit")
    with pytest.raises(Throttled):
        bucket.keep(CHANGE)
    with pytest.raises(CloudError, match="ConditionalRequestConflict"):
        bucket.keep(CHANGE)
