"""The engine's HTTP is what AWS's clients expect."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from local.engine.cloud import LocalCloud

pytestmark = pytest.mark.integration
BUCKET = "serving"
KEY = "a folder/100 % of é+ü?&=#"


@pytest.fixture(scope="module")
def bucket(bare_cloud: LocalCloud) -> Iterator[Any]:
    """A client of S3; there is a bucket."""
    s3 = bare_cloud.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    yield s3
    for item in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        s3.delete_object(Bucket=BUCKET, Key=item["Key"])
    s3.delete_bucket(Bucket=BUCKET)


def address(cloud: LocalCloud) -> tuple[str, int]:
    """Return where the engine listens."""
    parts = urlsplit(cloud.endpoint_url)
    return str(parts.hostname), int(parts.port or 0)


@pytest.mark.usefixtures("bucket")
def test_an_upload_is_told_to_continue_before_its_body_comes(bare_cloud: LocalCloud) -> None:
    """Else a client waits a second for it at each upload."""
    with socket.create_connection(address(bare_cloud)) as connection:
        connection.sendall(
            b"PUT /serving/key HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        answer = connection.makefile("rb")
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert answer.readline() == b"\r\n"
        connection.sendall(b"body")
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"


def test_a_big_object_comes_back_as_it_was(bucket: Any) -> None:
    """In the chunks in which it travels."""
    content = os.urandom(20_000_000)

    bucket.put_object(Bucket=BUCKET, Key="big", Body=content)

    assert bucket.get_object(Bucket=BUCKET, Key="big")["Body"].read() == content
    assert bucket.head_object(Bucket=BUCKET, Key="big")["ContentLength"] == len(content)


def test_a_key_keeps_each_of_its_characters(bucket: Any) -> None:
    """Those that a path escapes, in the name of the object and under a signature."""
    bucket.put_object(Bucket=BUCKET, Key=KEY, Body=b"found")

    found = [item["Key"] for item in bucket.list_objects_v2(Bucket=BUCKET)["Contents"]]
    link = bucket.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": KEY})
    with urlopen(link) as answer:
        assert answer.read() == b"found"
    assert KEY in found


def test_a_connection_serves_many_requests(bare_cloud: LocalCloud) -> None:
    """Each answer has one date, and no name of a server."""
    connection = http.client.HTTPConnection(*address(bare_cloud))
    sockets = set()
    for _ in range(3):
        connection.request("GET", "/_ministack/health")
        answer = connection.getresponse()
        answer.read()
        sockets.add(connection.sock)
        (date,) = answer.headers.get_all("date", [])
        assert parsedate_to_datetime(date).tzinfo is not None
        assert answer.headers["server"] is None
    connection.close()

    assert len(sockets) == 1


def test_accounts_on_one_connection_stay_apart(bare_cloud: LocalCloud) -> None:
    """A request that follows on a connection is nobody's but its own signer's."""
    connection = http.client.HTTPConnection(*address(bare_cloud))
    accounts = []
    for key in ("111111111111", "222222222222", ""):
        scope = f"Credential={key}/20260101/us-east-1/sts/aws4_request"
        signed = {"Authorization": f"AWS4-HMAC-SHA256 {scope}"} if key else {}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        body = "Action=GetCallerIdentity&Version=2011-06-15"
        connection.request("POST", "/", body, {**form, **signed})
        text = connection.getresponse().read().decode()
        accounts.append(text.partition("<Account>")[2].partition("<")[0])
    connection.close()

    assert accounts == ["111111111111", "222222222222", "123456789012"]
