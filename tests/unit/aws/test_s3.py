"""Documents that are written once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from governor.aws.clients import Clients
from governor.aws.s3 import AuditBucket, UserDataBucket
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Throttled, Unavailable
from governor.episode.rules.audit import Change
from tests.builders import NOW
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error

CHANGE = Change("EPISODE#x", "EPISODE", "MODIFY", NOW, "1", {"a": 1}, {"a": 2})


def test_a_document_is_written_once_and_stays(aws: Clients) -> None:
    """S3 itself refuses the second."""
    s3, bucket = aws.client("s3"), AuditBucket(aws, "audit")
    s3.create_bucket(Bucket="audit")

    assert (True, False) == (bucket.keep(CHANGE), bucket.keep(replace(CHANGE, after={})))
    assert CHANGE.document() == json.loads(
        s3.get_object(Bucket="audit", Key=CHANGE.key)["Body"].read()
    )


def test_the_audit_is_encrypted_by_no_key_that_somebody_deletes(aws: Clients) -> None:
    """Whoever changes the default of the bucket chooses no key for it."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="audit")
    by_a_key = {
        "ApplyServerSideEncryptionByDefault": {
            "SSEAlgorithm": "aws:kms",
            "KMSMasterKeyID": "theirs",
        }
    }
    s3.put_bucket_encryption(
        Bucket="audit", ServerSideEncryptionConfiguration={"Rules": [by_a_key]}
    )
    AuditBucket(aws, "audit").keep(CHANGE)

    assert "AES256" == s3.get_object(Bucket="audit", Key=CHANGE.key)["ServerSideEncryption"]


def test_what_could_not_be_written_is_an_error() -> None:
    """Two at the same moment, too: the stream hands it over again."""
    conflict = client_error("ConditionalRequestConflict", status=409)
    client = ScriptedClient(put_object=[client_error("SlowDown", status=503), conflict])
    bucket = AuditBucket(FakeClients(client), "audit")
    with pytest.raises(Throttled):
        bucket.keep(CHANGE)
    with pytest.raises(Unavailable, match="ConditionalRequestConflict"):
        bucket.keep(CHANGE)


def test_user_data_that_two_keep_at_the_same_moment_is_tried_again() -> None:
    """The workflow retries what is not available, and fails on everything else."""
    client = ScriptedClient(put_object=[client_error("ConditionalRequestConflict", status=409)])
    ref = EpisodeRef("123456789012", "us-east-1", "i-0123456789abcdef0", NOW, 2)

    with pytest.raises(Unavailable):
        UserDataBucket(FakeClients(client), "audit", "arn:of:key").keep(ref, b"one")


def test_user_data_is_kept_once_under_its_episode_and_encrypted_with_the_key(aws: Clients) -> None:
    """A second try finds its copy; what somebody changed in between is a copy of its own."""
    ref = EpisodeRef("123456789012", "us-east-1", "i-0123456789abcdef0", NOW, 2)
    s3, bucket = (
        aws.client("s3"),
        UserDataBucket(aws, "audit", "arn:aws:kms:us-east-1:123456789012:key/data"),
    )
    s3.create_bucket(Bucket="audit")
    first, again, other = (bucket.keep(ref, data) for data in (b"one", b"one", b"two"))

    assert first == again != other
    assert (3, hashlib.sha256(b"one").hexdigest()) == (first.size, first.sha256)
    key = first.kept_at.removeprefix("s3://audit/")
    assert key.startswith(f"user-data/123456789012/i-0123456789abcdef0/{ref.execution_name}/")
    found = s3.get_object(Bucket="audit", Key=key)
    assert (b"one", "aws:kms") == (found["Body"].read(), found["ServerSideEncryption"])
    assert "arn:aws:kms:us-east-1:123456789012:key/data" == found["SSEKMSKeyId"]
    assert 2 == s3.list_objects_v2(Bucket="audit")["KeyCount"]
