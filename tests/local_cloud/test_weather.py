"""The weather between functions and the engine: faults as AWS's client meets them, by a seed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from local.engine.cloud import ACCOUNT, REGION, LocalCloud
from local.engine.simulators.weather import KINDS, Weather, serve

pytestmark = pytest.mark.integration

Maker = Callable[[str], Any]


class _Always(Weather):
    """The same fault every time."""

    def __init__(self, kind: str, chance: float) -> None:
        super().__init__()
        self.always = kind, chance

    def strike(self, operation: str) -> tuple[str, float]:
        self.calls[operation] += 1
        return self.always


@pytest.fixture
def through(bare_cloud: LocalCloud) -> Callable[[Weather], Maker]:
    """Clients that try once, and go through a weather."""
    front_door = int(bare_cloud.endpoint_url.rpartition(":")[2])

    def of(weather: Weather) -> Maker:
        port = serve(weather, front_door)
        return lambda service: boto3.client(
            service,  # type: ignore[call-overload]
            region_name=REGION,
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key="local",
            config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
        )

    return of


@pytest.mark.parametrize(
    ("service", "call", "throttled", "error"),
    [
        ("dynamodb", "list_tables", "ThrottlingException", "InternalServerError"),
        ("ec2", "describe_instances", "RequestLimitExceeded", "InternalError"),
        ("s3", "list_buckets", "SlowDown", "InternalError"),
        (
            "sesv2",
            "list_email_identities",
            "TooManyRequestsException",
            "InternalServiceErrorException",
        ),
        ("sns", "list_topics", "Throttling", "InternalError"),
        ("stepfunctions", "list_state_machines", "ThrottlingException", "InternalFailure"),
    ],
)
def test_a_client_meets_the_errors_of_the_service(
    through: Callable[[Weather], Maker], service: str, call: str, throttled: str, error: str
) -> None:
    """In its own protocol and by its own codes; a load balancer before it has none."""
    wanted = (("throttled", 0.9, throttled), ("error", 0.9, error), ("error", 0.1, "503"))
    for kind, chance, code in wanted:
        with pytest.raises(ClientError) as refused:
            getattr(through(_Always(kind, chance))(service), call)()
        assert code == refused.value.response["Error"]["Code"]
    fine = getattr(through(Weather())(service), call)()
    assert 200 == fine["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize(
    ("kind", "arrives"), [("lost answer", True), ("never arrived", False), ("arrived late", True)]
)
def test_an_answer_that_is_lost_says_nothing_of_what_was_done(
    bare_cloud: LocalCloud, through: Callable[[Weather], Maker], kind: str, arrives: bool
) -> None:
    """The connection is cut; the request has taken effect, never will, or does so a moment
    later."""
    name = f"topic-{KINDS.index(kind)}"
    with pytest.raises(ConnectionClosedError):
        through(_Always(kind, 0.3))("sns").create_topic(Name=name)

    sns = bare_cloud.client("sns")

    def there() -> bool | None:
        return (
            any(one["TopicArn"].endswith(f":{name}") for one in sns.list_topics()["Topics"]) or None
        )

    if arrives:
        assert bare_cloud.wait_for(there, "it does not arrive")
    else:
        assert there() is None


def test_a_client_that_asks_first_is_answered_before_it_sends_its_body() -> None:
    """As by S3. AWS's client waits a second for that, and the engine's one thread that feeds
    functions from queues and streams with it."""
    port = serve(_Always("never arrived", 0.0), 0)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            b"PUT /bucket/key HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        # No body comes, so the weather can only cut the connection after what it has said.
        connection.shutdown(socket.SHUT_WR)
        said = connection.makefile("rb").read()

    assert b"HTTP/1.1 100 Continue\r\n\r\n" == said


def test_the_same_seed_strikes_the_same_calls() -> None:
    """About as many as asked for, whatever other operations do between them; none when it is
    over."""
    first, second, other = Weather(1, 0.2), Weather(1, 0.2), Weather(2, 0.2)
    struck = [first.strike("sns:Publish") for _ in range(500)]
    for _ in range(500):
        second.strike("sqs:SendMessage")

    assert struck == [second.strike("sns:Publish") for _ in range(500)]
    assert struck != [other.strike("sns:Publish") for _ in range(500)]
    assert 70 < sum(1 for kind, _ in struck if kind) < 130
    assert set(KINDS) == {kind for kind, _ in struck if kind}
    first.change(1, 0.0)
    assert ("", 0.0) == first.strike("sns:Publish")
    assert 501 == first.counts()["calls"]
