"""The wire between real AWS clients and AWS, answered in this process: what a socket would bring,
as bytes.

Everything above the HTTP session of botocore is real: serializing, signing, retries, parsing. This
module needs botocore alone, so that other programs than ours are measured before the same stub.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from benchmarks.timeline import SimulatedThreads, Timeline

LATENCY = 0.05


@dataclass(frozen=True)
class Asked:
    """A request. `values` are the members of a JSON body, or the fields of a form, each with its
    last value. `place` is the access key and the Region that it was signed for."""

    service: str
    operation: str
    values: dict[str, Any]
    place: str


@dataclass(frozen=True)
class Answered:
    """An answer."""

    body: bytes
    status: int = 200


@dataclass(frozen=True)
class Raw:
    """A body as it arrives."""

    answer: bytes

    def stream(self) -> Iterator[bytes]:
        """The whole of it."""
        yield self.answer


Service = Callable[[Asked], Answered]


@dataclass
class Wire:
    """Counts calls by API. Without `sleeps` they wait on the simulated clock alone."""

    services: dict[str, Service]
    sleeps: bool = False
    calls: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def carrying(self) -> Iterator[Timeline]:
        """Answer every client of this process; the timeline of what it did is whole at the end."""
        timeline = SimulatedThreads.timeline = Timeline()
        with patch(
            "botocore.httpsession.URLLib3Session.send", lambda _, request: self._send(request)
        ):
            yield timeline
        timeline.close()

    def _send(self, request: Any) -> AWSResponse:
        if self.sleeps:
            time.sleep(LATENCY)
            answer = self._answer(request)
        else:
            answer = SimulatedThreads.timeline.wait(LATENCY, lambda: self._answer(request))
        headers = HTTPHeaders()
        headers["Content-Length"] = str(len(answer.body))
        return AWSResponse(request.url, answer.status, headers, Raw(answer.body))

    def _answer(self, request: Any) -> Answered:
        asked = _asked(request)
        self.calls[f"{asked.service}:{asked.operation}"] += 1
        return self.services[asked.service](asked)


def _asked(request: Any) -> Asked:
    service = str(urlsplit(request.url).hostname).split(".")[0]
    key, _, region, *_ = _header(request, "Authorization").partition("Credential=")[2].split("/")
    place = f"{key}/{region}"
    target, body = _header(request, "X-Amz-Target"), request.body or b""
    if target:
        return Asked(service, target.rpartition(".")[2], json.loads(body), place)
    text = body.decode() if isinstance(body, bytes) else body
    form = {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True).items()}
    return Asked(service, form.pop("Action"), form, place)


def _header(request: Any, name: str) -> str:
    value = request.headers.get(name, "")
    return value.decode() if isinstance(value, bytes) else str(value)


def megabytes() -> float:
    """The most that this process has held at once. Not as `getrusage`: there a child begins with
    what its parent held."""
    [kilobytes] = re.findall(
        r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii")
    )
    return int(kilobytes) / 1e3


def as_json(document: object) -> Answered:
    """An answer of a service that speaks JSON."""
    return Answered(json.dumps(document).encode())


def failed(code: str, message: str = "") -> Answered:
    """A refusal of a service that speaks JSON."""
    return Answered(json.dumps({"__type": code, "message": message}).encode(), 400)


def as_xml(operation: str, inner: str) -> Answered:
    """An answer of a service that speaks the query protocol."""
    body = (
        f"<{operation}Response><{operation}Result>{inner}</{operation}Result></{operation}Response>"
    )
    return Answered(body.encode())
