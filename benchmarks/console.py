"""The console's pages over a fleet of 5,000 instances: processor time, size, and reads of the
table.

The table's client is a real one; its requests are answered from this process before they reach a
socket. Signing, parsing and checksums are measured, and so is everything else from the event to the
answer.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import statistics
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from unittest.mock import patch

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from benchmarks.wire import Raw
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable, packed
from governor.console.app import Console
from governor.console.page import Reader
from governor.fleet.model import FleetRow, Share
from governor.policy.document import parse_policy
from governor.policy.store import PolicyVersions
from governor.table.table import Document, Readable
from governor.wiring.console import VIEWS
from tests.builders import NOW, make_entry
from tests.console_world import TARGETS, ConsoleWorld, make_episode, many_rows
from tests.twins.services import FakeClock
from tests.unit.console.entrance import Entrance, ask

INSTANCES, ENTRIES_A_MONTH = 5_000, 300
OWNERS_AND_PROJECTS = 200
"""By target and day."""
QUESTIONS = 500
"""Stored; as many as there are on ten pages."""
HOURLY = Decimal("5.672")
PAGES = ("/", "/fleet", "/fleet?q=notebook-4&sort=price", "/questions", "/savings", "/projects")
_PAGE_BYTES = 1_000_000
"""DynamoDB ends a page of a query at 1 MB."""
_POLICY = "console: {scopes: {all: {groups: [everybody], everything: true}}}"


@dataclass(frozen=True)
class PageView:
    """One page. `milliseconds` of processor time: the median of some requests to a warm
    function."""

    path: str
    milliseconds: float
    kibibytes: float
    reads: int


class Wire:
    """Answers the table's requests from memory. What it answered once it has ready."""

    def __init__(self, items: dict[tuple[str, str], Document]) -> None:
        self._items = items
        self._answers: dict[bytes, bytes] = {}
        self.reads = 0

    def __call__(self, request: Any, **_: Any) -> AWSResponse:
        self.reads += 1
        body = request.body
        if body not in self._answers:
            operation = request.headers["X-Amz-Target"].decode().partition(".")[2]
            self._answers[body] = json.dumps(self._answer(operation, json.loads(body))).encode()
        answer = self._answers[body]
        headers = HTTPHeaders()
        headers["x-amz-crc32"] = str(zlib.crc32(answer))
        return AWSResponse(request.url, 200, headers, Raw(answer))

    def _answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        if operation == "GetItem":
            found = self._items.get((asked["Key"]["pk"]["S"], asked["Key"]["sk"]["S"]))
            return {"Item": _wired(found)} if found else {}
        if operation == "BatchGetItem":
            [(table, wanted)] = asked["RequestItems"].items()
            keys = [(key["pk"]["S"], key["sk"]["S"]) for key in wanted["Keys"]]
            return {
                "Responses": {
                    table: [_wired(self._items[key]) for key in keys if key in self._items]
                }
            }
        assert operation == "Query", operation
        values = {name: value["S"] for name, value in asked["ExpressionAttributeValues"].items()}
        after = asked.get("ExclusiveStartKey", {"sk": {"S": ""}})["sk"]["S"]
        page: list[dict[str, Any]] = []
        size = 0
        for key in sorted(self._items):
            if (
                key[0] != values[":pk"]
                or not key[1].startswith(values.get(":prefix", ""))
                or key[1] <= after
            ):
                continue
            if size >= _PAGE_BYTES:
                return {
                    "Items": page,
                    "LastEvaluatedKey": {"pk": page[-1]["pk"], "sk": page[-1]["sk"]},
                }
            page.append(_wired(self._items[key]))
            size += len(str(self._items[key]))
        return {"Items": page}


def measure(instances: int = INSTANCES, runs: int = 9) -> list[PageView]:
    """Each page as a signed-in reader of everything gets it."""
    world = _world(instances)
    entrance = Entrance(world.table)
    entrance.clock.at = NOW
    cookies = entrance.session("oidc:1", groups=("everybody",))
    wire = Wire(world.table.items)
    site = _site(wire)
    views = []
    for path in (*PAGES, _busiest(world)):
        answer = ask(site, path, cookies=cookies)
        assert answer["statusCode"] == 200, answer["body"]
        wire.reads = 0
        times = [_milliseconds(partial(ask, site, path, cookies=cookies)) for _ in range(runs)]
        size = len(answer["body"].encode()) / 1024
        views.append(PageView(path, statistics.median(times), size, wire.reads // runs))
    return views


def _busiest(world: ConsoleWorld) -> str:
    """The page of the most expensive instance that somebody is asked about."""
    row = _asked(world)[0]
    return f"/instances/{row.account}/{row.region}/{row.instance_id}"


def _asked(world: ConsoleWorld) -> list[FleetRow]:
    rows = [row for page in world.reader.pages for row in page.rows if row.approval_id]
    return sorted(rows, key=lambda row: -(row.usd_per_hour or 0))


def text_of(one: PageView) -> str:
    return (
        f"  {one.path:<32} {one.milliseconds:>6.0f} ms {one.kibibytes:>6.0f} KiB "
        f"{one.reads:>3} reads"
    )


def _milliseconds(call: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    call()
    return 1000 * (time.process_time() - began)


def _site(wire: Wire) -> Console:
    clients = Clients("us-east-1")
    with patch.dict(os.environ, AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench"):  # noqa: S106 - no secret: the wire is replaced
        client = clients.client("dynamodb")
    client.meta.events.register("before-send.dynamodb.*", wire)
    table = DynamoTable(clients, "state")
    policy_store = PolicyVersions(table)
    policies = parse_policy(_POLICY)
    clock = FakeClock(NOW)

    def reader() -> Reader:
        # As every request does: a version that was accepted since counts.
        assert policy_store.version_in_force() is None
        return Reader(Readable(table), clock, policies, TARGETS, "governor", policy_is_whole=True)

    doors = Entrance(table)
    doors.clock.at = NOW
    return Console(reader, doors.doors, VIEWS)


def _world(instances: int) -> ConsoleWorld:
    """Two months of costs and savings, and a fleet in which many questions are open."""
    world = ConsoleWorld()
    world.keep(*many_rows(instances))
    shares = {
        (f"{row.owner}-{row.name}", row.project): Share(used=HOURLY * 17, idle=HOURLY * 7 / 3)
        for row in many_rows(OWNERS_AND_PROJECTS)
    }
    for back in range(60):
        for target in TARGETS:
            world.spend((NOW - timedelta(days=back)).date(), shares, target)
    for number in range(2 * ENTRIES_A_MONTH):
        booked = NOW - timedelta(hours=2.4 * number)
        world.book(make_entry(number, booked_at=booked, ended_at=booked + timedelta(hours=20)))
    for row in _asked(world)[:QUESTIONS]:
        episode = make_episode(row, approval_id=row.approval_id)
        world.state.take_lock(episode.ref)
        world.state.save_opened(episode)
        world.state.await_answer(
            episode.approval_id, f"of {row.name}", "ask", NOW + timedelta(hours=9)
        )
    return world


def _wired(item: Document) -> dict[str, Any]:
    """As DynamoDB writes it: bytes in base 64."""
    return {
        name: {"B": base64.b64encode(value["B"]).decode()} if "B" in value else value
        for name, value in packed(item).items()
    }


if __name__ == "__main__":
    for view in measure():
        print(text_of(view))
