"""The instance's identity comes from version 2 of the metadata service only."""

from __future__ import annotations

import http.client
import io
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from gpu_metrics_publisher.errors import MetadataError
from gpu_metrics_publisher.imds import DEFAULT_ENDPOINT, Identity, read_identity

DOCUMENT = {
    "instanceId": "i-0123456789abcdef0",
    "instanceType": "g5.xlarge",
    "region": "eu-west-1",
    "accountId": "111122223333",
}


class Service:
    """The metadata service as a function; asks for the token as version 2 does."""

    def __init__(self, document: bytes = json.dumps(DOCUMENT).encode()) -> None:
        self.document = document
        self.asked: list[tuple[str, str]] = []

    def open(self, request: urllib.request.Request, timeout: float) -> Any:
        assert timeout <= 5
        self.asked.append((request.get_method(), request.full_url))
        if request.full_url.endswith("/latest/api/token"):
            assert "PUT" == request.get_method()
            assert request.get_header("X-aws-ec2-metadata-token-ttl-seconds")
            return io.BytesIO(b"token-1")
        assert "token-1" == request.get_header("X-aws-ec2-metadata-token")
        return io.BytesIO(self.document)


def test_token_first() -> None:
    """A token, then the identity document, and nothing without a token."""
    service = Service()
    assert Identity("i-0123456789abcdef0", "g5.xlarge", "eu-west-1") == read_identity(
        DEFAULT_ENDPOINT + "/", service.open
    )
    assert [
        ("PUT", "http://169.254.169.254/latest/api/token"),
        ("GET", "http://169.254.169.254/latest/dynamic/instance-identity/document"),
    ] == service.asked


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"not json",
        b"\xff",
        b"{}",
        b"[]",
        b"null",
        *(
            json.dumps({**DOCUMENT, name: value}).encode()
            for name in ("instanceId", "instanceType", "region")
            for value in ("", None, 7)
        ),
    ],
)
def test_useless_answers(document: bytes) -> None:
    """An answer that names no instance is an error that says what to check."""
    with pytest.raises(MetadataError, match="HttpEndpoint"):
        read_identity(DEFAULT_ENDPOINT, Service(document).open)


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("unreachable"),
        TimeoutError("timed out"),
        ConnectionRefusedError(),
        http.client.IncompleteRead(b""),
        http.client.BadStatusLine("?"),
    ],
)
def test_no_answer(error: Exception) -> None:
    """No service at all, too."""

    def opener(*_: Any, **__: Any) -> Any:
        raise error

    with pytest.raises(MetadataError, match="--instance-id"):
        read_identity(DEFAULT_ENDPOINT, opener)
