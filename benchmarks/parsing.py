"""The cost of reading a data point of GetMetricData and an instance of DescribeInstances: real
clients before answers as they come from the wire.

Which protocol a client speaks is botocore's choice, and a later botocore may choose another one:
each is measured, beside the same client with botocore's own parser of times, in the same run.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.parsers import EC2QueryParser
from botocore.utils import parse_timestamp

from benchmarks.fleet import Fleet
from benchmarks.wire import Asked, Raw
from governor.aws.clients import _OWN, Clients, moment
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery

TARGET = Target("123456789012", "us-east-1")
SERIES, POINTS = 500, 36
"""One call of GetMetricData: three hours in 5-minute periods."""
WINDOW = Window(
    datetime(2026, 11, 20, 9, tzinfo=UTC),
    datetime(2026, 11, 20, 12, tzinfo=UTC),
    timedelta(minutes=5),
)
_XML = "http://monitoring.amazonaws.com/doc/2010-08-01/"


@dataclass(frozen=True)
class Reading:
    """The cost in one protocol: microseconds of processor time a data point, and with botocore's
    parser of times."""

    protocol: str
    microseconds: float
    unmended: float


def measure(series: int = SERIES, runs: int = 7) -> list[Reading]:
    """Each protocol that CloudWatch speaks. Medians of pairs."""
    readings = []
    queries = [
        MetricQuery(f"q{n}", "GPU/EC2", "utilization", (("InstanceId", f"i-{n}"),), "Maximum")
        for n in range(series)
    ]
    for protocol, encode in ENCODERS.items():
        body = encode(series)
        ours, plain = (_reader(protocol, body, mended=mended) for mended in (True, False))
        assert len(ours.read(TARGET, queries, WINDOW).series) == series
        calls = [partial(one.read, TARGET, queries, WINDOW) for one in (ours, plain)]
        readings.append(Reading(protocol, *_micros(calls, series * POINTS, runs)))
    return readings


def text_of(one: Reading) -> str:
    """A line of the table."""
    return (
        f"  {one.protocol:<22} {one.microseconds:>6.2f} us a point; botocore's own "
        f"{one.unmended:>6.2f} us"
    )


def measure_instances(instances: int = 1_000, runs: int = 7) -> tuple[float, float]:
    """Return microseconds an instance of DescribeInstances, in processor time; and by botocore's
    parser."""
    services = Fleet(instances, "aggregate", WINDOW.end).services()
    page = services["ec2"](Asked("ec2", "DescribeInstances", {}, "bench/us-east-1")).body
    session: Any = Clients("us-east-1")._session(_OWN)
    shape = session.get_service_model("ec2").operation_model("DescribeInstances").output_shape
    ours = session.get_component("response_parser_factory").create_parser("ec2")
    both = ours, EC2QueryParser(timestamp_parser=moment)
    answer = {"body": page, "headers": {}, "status_code": 200}
    assert ours.parse(answer, shape) == both[1].parse(answer, shape)
    mine, theirs = _micros([partial(one.parse, answer, shape) for one in both], instances, runs)
    return mine, theirs


class _Speaks(Clients):
    """Clients of one protocol, with this parser of times or with that of the product."""

    def __init__(self, protocol: str, *, mended: bool) -> None:
        super().__init__("us-east-1")
        self._protocol, self._mended = protocol, mended

    def _session(self, role: Any) -> Any:
        session = super()._session(role)
        loader = session.get_component("data_loader")
        load = loader.load_service_model

        def loaded(*asked: Any, **more: Any) -> Any:
            model = load(*asked, **more)
            if "metadata" not in model:
                return model
            of_one = {"protocol": self._protocol, "protocols": [self._protocol]}
            return {**model, "metadata": {**model["metadata"], **of_one}}

        loader.load_service_model = loaded
        if not self._mended:
            session.get_component("response_parser_factory").set_parser_defaults(
                timestamp_parser=parse_timestamp
            )
        return session


def _reader(protocol: str, body: bytes, *, mended: bool) -> CloudWatchMetrics:
    clients = _Speaks(protocol, mended=mended)
    with patch.dict(os.environ, AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench"):  # noqa: S106 - no secret: the wire is replaced
        client = clients.client("cloudwatch", TARGET)
    assert client.meta.service_model.resolved_protocol == protocol

    def answer(request: Any, **_: Any) -> AWSResponse:
        headers = HTTPHeaders()
        headers["smithy-protocol"] = "rpc-v2-cbor"
        return AWSResponse(request.url, 200, headers, Raw(body))

    client.meta.events.register("before-send.cloudwatch.GetMetricData", answer)
    return CloudWatchMetrics(clients)


def _micros(calls: Sequence[Callable[[], object]], count: int, runs: int) -> list[float]:
    """Return the medians of runs in which each call is made once, in microseconds for one of
    `count`."""
    seconds = [[_seconds(call) for call in calls] for _ in range(runs)]
    return [1e6 * statistics.median(column) / count for column in zip(*seconds, strict=True)]


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _moments() -> list[datetime]:
    return [WINDOW.start + WINDOW.period * n for n in range(POINTS)]


def _answer(series: int, moments: list[Any]) -> dict[str, Any]:
    values = [60.0 + n % 40 / 7 for n in range(POINTS)]
    results = [
        {
            "Id": f"q{n}",
            "Label": "",
            "Timestamps": moments,
            "Values": values,
            "StatusCode": "Complete",
        }
        for n in range(series)
    ]
    return {"MetricDataResults": results}


def _json(series: int) -> bytes:
    return json.dumps(_answer(series, [moment.timestamp() for moment in _moments()])).encode()


def _query(series: int) -> bytes:
    members = "<Id>{}</Id><Label></Label><StatusCode>Complete</StatusCode>"
    times = "".join(f"<member>{moment:%Y-%m-%dT%H:%M:%SZ}</member>" for moment in _moments())
    values = "".join(f"<member>{60.0 + n % 40 / 7}</member>" for n in range(POINTS))
    found = "".join(
        f"<member>{members.format(f'q{n}')}<Timestamps>{times}</Timestamps><Values>{values}</Values></member>"
        for n in range(series)
    )
    return (
        f'<GetMetricDataResponse xmlns="{_XML}"><GetMetricDataResult><MetricDataResults>{found}'
        "</MetricDataResults></GetMetricDataResult></GetMetricDataResponse>"
    ).encode()


def _cbor(series: int) -> bytes:
    return _item(_answer(series, _moments()))


def _item(value: Any) -> bytes:
    """As RFC 8949 writes it: what an answer of metrics holds, and no more."""
    if isinstance(value, datetime):
        return b"\xc1" + _item(value.timestamp())
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, str):
        return _head(3, len(value)) + value.encode("ascii")
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(_item, value))
    return _head(5, len(value)) + b"".join(_item(one) for pair in value.items() for one in pair)


def _head(kind: int, count: int) -> bytes:
    return bytes([kind << 5 | 25]) + struct.pack(">H", count)


ENCODERS: dict[str, Callable[[int], bytes]] = {
    "smithy-rpc-v2-cbor": _cbor,
    "json": _json,
    "query": _query,
}
"""How CloudWatch answers in each protocol."""
