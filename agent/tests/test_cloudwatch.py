"""How calls reach CloudWatch: the real client of botocore up to the wire, which is a function here."""

from __future__ import annotations

import gzip
import json
from typing import Any, Callable

import botocore.exceptions
import pytest
from agent.tests.test_metrics import calls_of
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from gpu_metrics_publisher.cloudwatch import CloudWatchSink, cloudwatch_client
from gpu_metrics_publisher.errors import RefusedError, UndeliveredError
from gpu_metrics_publisher.metrics import Call

Wire = Callable[[Any], Any]


class _Body:
    """What botocore reads an answer from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Any:
        yield self._content


def sink_over(wire: Wire) -> CloudWatchSink:
    client = cloudwatch_client("us-east-1")
    client.meta.events.register("before-send.cloudwatch", lambda request, **_: wire(request))
    return CloudWatchSink(client)


def answer(status: int, code: str | None) -> Wire:
    """CloudWatch's answer in the protocol botocore speaks; `None` is success."""

    def wire(request: Any) -> Any:
        assert "json" in str(request.headers["Content-Type"]), "botocore speaks another protocol now"
        headers = {"Content-Type": "application/x-amz-json-1.0"}
        body = {}
        if code is not None:
            headers["x-amzn-query-error"] = f"{code};Sender"
            body = {"__type": f"com.amazonaws.cloudwatch#{code}", "message": "as CloudWatch says"}
        return AWSResponse(
            request.url, status, HTTPHeaders.from_dict(headers), _Body(json.dumps(body).encode())
        )

    return wire


def call(size: int = 1) -> Call:
    datum = {"MetricName": "m", "Timestamp": 1_800_000_000, "Value": 1.0}
    return Call("GPU/EC2", [datum] * size)


def test_sends_compressed() -> None:
    """A whole minute of eight GPUs goes as gzip, far under the limit of 1 MB even unpacked."""
    seen: list[Any] = []

    def wire(request: Any) -> Any:
        seen.append(request)
        return answer(200, None)(request)

    sink = sink_over(wire)
    calls = calls_of("h100x8", readings=6)
    for one in calls:
        sink.send(one)
    assert len(calls) == len(seen)
    for request in seen:
        assert request.headers["Content-Encoding"] in (b"gzip", "gzip")
        body = request.body if isinstance(request.body, bytes) else request.body.read()
        assert len(body) < 10_000 < len(gzip.decompress(body)) < 1_000_000


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "Throttling"),
        (400, "ExpiredToken"),
        (403, "AccessDenied"),
        (403, "InvalidClientTokenId"),
        (500, "InternalServiceFault"),
        (503, "ServiceUnavailable"),
        (400, "SomethingNew"),
    ],
)
def test_may_be_taken_later(status: int, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may heal by itself, or by somebody's hand, keeps the data."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(UndeliveredError, match=code):
        sink_over(answer(status, code)).send(call())


@pytest.mark.parametrize("code", ["InvalidParameterValue", "MissingParameter", "ValidationError"])
def test_never_to_be_taken(code: str) -> None:
    """A call that CloudWatch finds wrong would be wrong for ever."""
    with pytest.raises(RefusedError, match=code):
        sink_over(answer(400, code)).send(call())


def test_malformed_here_already() -> None:
    """What botocore itself refuses is wrong for ever, too."""
    with pytest.raises(RefusedError, match="malformed"):
        sink_over(answer(200, None)).send(Call("GPU/EC2", [{"Timestamp": 0}]))


@pytest.mark.parametrize(
    "error",
    [
        botocore.exceptions.EndpointConnectionError(endpoint_url="https://monitoring"),
        botocore.exceptions.ReadTimeoutError(endpoint_url="https://monitoring"),
        botocore.exceptions.NoCredentialsError(),
        botocore.exceptions.SSLError(
            endpoint_url="https://monitoring", error=OSError("certificate is not yet valid")
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_network_and_credentials_away(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """No way to the service, or no role yet: kept."""
    monkeypatch.setattr("time.sleep", lambda _: None)

    def wire(_: Any) -> Any:
        raise error

    with pytest.raises(UndeliveredError):
        sink_over(wire).send(call())
