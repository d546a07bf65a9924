"""How calls reach CloudWatch: the real client of botocore up to the wire, which is a function
here."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, Callable

import botocore.exceptions
import botocore.httpsession
import botocore.session
import pytest
from agent.tests.test_metrics import calls_of
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from gpu_metrics_publisher.cloudwatch import CloudWatchSink, machine_session
from gpu_metrics_publisher.errors import RefusedError, UndeliveredError, UnforeseenError
from gpu_metrics_publisher.metrics import BOUND_NAMESPACE, Call

Wire = Callable[[Any], Any]


class _Body:
    """The body that botocore reads an answer from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Any:
        yield self._content


def sink_over(wire: Wire) -> CloudWatchSink:
    handler: Any = lambda request, **_: wire(request)  # noqa: E731 - botocore gives keywords alone

    def new_session() -> botocore.session.Session:
        session = machine_session()
        session.register("before-send.cloudwatch", handler)
        return session

    return CloudWatchSink("us-east-1", new_session)


def answer(status: int, code: str | None) -> Wire:
    """CloudWatch's answer in the protocol botocore speaks; `None` is success."""

    def wire(request: Any) -> Any:
        assert "json" in str(request.headers["Content-Type"]), (
            "botocore speaks another protocol now"
        )
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
        (429, "SomethingNew"),
        (500, "InternalServiceFault"),
        (503, "ServiceUnavailable"),
        (500, "SomethingNew"),
    ],
)
def test_may_be_taken_later(status: int, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may heal by itself, or by somebody's hand, keeps the data; others would get the
    same."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(UndeliveredError, match=code) as caught:
        sink_over(answer(status, code)).send(call())
    assert not isinstance(caught.value, UnforeseenError)


def test_unforeseen_answer() -> None:
    """A code that is not known keeps the data, and is told apart: it may be the fault of this one
    call."""
    with pytest.raises(UnforeseenError, match="MalformedQueryString"):
        sink_over(answer(400, "MalformedQueryString")).send(call())


@pytest.mark.parametrize("code", ["InvalidParameterValue", "MissingParameter", "ValidationError"])
def test_never_to_be_taken(code: str) -> None:
    """A call that CloudWatch finds wrong would be wrong for ever."""
    with pytest.raises(RefusedError, match=code):
        sink_over(answer(400, code)).send(call())


def test_malformed_here_already() -> None:
    """A call that botocore itself refuses is wrong for ever, too."""
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


class Instance:
    """The network of an instance as botocore sees it: the metadata service, which may have a role,
    and CloudWatch."""

    def __init__(self) -> None:
        self.role: str | None = None
        self.late = 0
        """So many questions time out before one is answered."""
        self.looks = 0
        self.denied: set[str] = set()
        """Roles without the permission."""
        self.taken_from: list[str] = []
        self.valid = timedelta(hours=6)

    def send(self, request: Any) -> Any:
        if "monitoring" in request.url:
            return self._put(request)
        if self.late:
            self.late -= 1
            raise botocore.exceptions.ConnectTimeoutError(endpoint_url=request.url)
        if request.method == "PUT":
            return self._text(request, 200, "token")
        if request.url.endswith("/security-credentials/"):
            self.looks += 1
            return self._text(request, 200 if self.role else 404, self.role or "")
        expires = datetime.now(timezone.utc) + self.valid
        document = {
            "AccessKeyId": f"key-of-{self.role}",
            "SecretAccessKey": "secret",
            "Token": "token",
            "Expiration": expires.isoformat(),
        }
        return self._text(request, 200, json.dumps(document))

    def _put(self, request: Any) -> Any:
        signed = str(request.headers["Authorization"])
        (role,) = {name for name in ("one", "other") if f"key-of-{name}/" in signed}
        if role in self.denied:
            return answer(403, "AccessDenied")(request)
        self.taken_from.append(role)
        return answer(200, None)(request)

    def _text(self, request: Any, status: int, text: str) -> Any:
        return AWSResponse(request.url, status, HTTPHeaders(), _Body(text.encode()))


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Instance:
    """An instance without credentials of its own in the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    found = Instance()
    monkeypatch.setattr(botocore.httpsession.URLLib3Session, "send", found.send)
    return found


def test_role_attached_later(instance: Instance) -> None:
    """A publisher that starts before its role is attached sends when it is; it need not be
    restarted."""
    sink = CloudWatchSink("us-east-1")
    for _ in range(2):
        with pytest.raises(UndeliveredError, match="without a restart"):
            sink.send(call())
    instance.role = "one"
    sink.send(call())
    assert ["one"] == instance.taken_from


def test_other_role_attached(instance: Instance) -> None:
    """A role that may not publish can be replaced: the next try finds the new one, not the old
    one's keys, which stay valid for hours."""
    instance.role = "one"
    instance.denied = {"one"}
    sink = CloudWatchSink("us-east-1")
    with pytest.raises(UndeliveredError, match="AccessDenied"):
        sink.send(call())
    instance.role = "other"
    sink.send(call())
    assert ["other"] == instance.taken_from


def test_role_taken_away_and_another_attached(instance: Instance) -> None:
    """Between two roles data is kept; with the next role it goes out."""
    instance.role = "one"
    instance.valid = timedelta(seconds=30)
    sink = CloudWatchSink("us-east-1")
    sink.send(call())
    instance.role = None
    with pytest.raises(UndeliveredError, match="without a restart"):
        sink.send(call())
    instance.role = "other"
    sink.send(call())
    assert ["one", "other"] == instance.taken_from


def test_looks_for_credentials_no_more_than_it_must(instance: Instance) -> None:
    """Once while all goes well; once a try while they are refused, and the client, which is dear,
    stays."""
    made = []

    def new_session() -> botocore.session.Session:
        session = machine_session()
        session.register("creating-client-class.cloudwatch", lambda **_: made.append(1))
        return session

    instance.role = "one"
    sink = CloudWatchSink("us-east-1", new_session)
    for _ in range(3):
        sink.send(call())
    assert (1, 1) == (instance.looks, len(made))
    instance.denied = {"one"}
    for _ in range(3):
        with pytest.raises(UndeliveredError):
            sink.send(call())
    assert (3, 1) == (instance.looks, len(made))


def test_slow_metadata_service(instance: Instance) -> None:
    """Two questions that time out are no instance without a role."""
    instance.role = "one"
    instance.late = 2
    CloudWatchSink("us-east-1").send(call())
    assert ["one"] == instance.taken_from


def test_metadata_service_tries_may_be_set(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment decides, as for any AWS program."""
    monkeypatch.setenv("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "1")
    instance.role = "one"
    instance.late = 2
    with pytest.raises(UndeliveredError):
        CloudWatchSink("us-east-1").send(call())


def test_half_of_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key without its secret is told like no key, and keeps the data."""
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(UndeliveredError, match="without a restart"):
        CloudWatchSink("us-east-1").send(call())


class _Session:
    """A session whose STS and CloudWatch answer without a wire."""

    def __init__(self, user_id: str, namespaces: list[str]) -> None:
        self.user_id, self.namespaces = user_id, namespaces

    def get_credentials(self) -> Any:
        key = SimpleNamespace(access_key="AKIA")
        return SimpleNamespace(get_frozen_credentials=lambda: key)

    def create_client(self, service: str, **_: Any) -> Any:
        if service == "sts":
            return SimpleNamespace(get_caller_identity=lambda: {"UserId": self.user_id})
        return SimpleNamespace(
            put_metric_data=lambda **sent: self.namespaces.append(sent["Namespace"])
        )


@pytest.mark.parametrize(
    ("user_id", "is_ours"),
    [("AROAEXAMPLE:i-1", True), ("AROAEXAMPLE:i-2", False), ("AIDAEXAMPLE", False)],
)
def test_a_bound_namespace_is_that_of_the_role_on_this_instance(
    user_id: str, is_ours: bool
) -> None:
    """As STS names the caller, and so IAM; with other credentials nothing is claimed."""
    namespaces: list[str] = []
    session: Any = _Session(user_id, namespaces)
    sink = CloudWatchSink("us-east-1", lambda: session, "i-1")
    bound = Call(BOUND_NAMESPACE, call().datums)
    if is_ours:
        sink.send(bound)
        sink.send(call())
    else:
        with pytest.raises(UndeliveredError, match="not of this instance's role"):
            sink.send(bound)

    assert [f"GPU/EC2/{user_id}", "GPU/EC2"] == namespaces or (not is_ours and namespaces == [])
