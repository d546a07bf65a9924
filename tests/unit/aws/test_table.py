"""Promises of the DynamoDB table alone: chunks, times to live, retries and items it cannot read."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import Answer
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.errors import AccessDenied, CloudError, ConflictError, NotFound, Throttled
from governor.episode.model.episode import Outcome
from governor.money.model.ledger import Ending
from governor.table.table import update
from tests.twins.stores import EveryStore
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.aws.state_samples import (
    INSTANCE_ID,
    NOW,
    TABLE,
    TARGET,
    decision,
    dynamo_table,
    entry,
    episode,
    observation,
    ref,
)

PK = f"TARGET#{TARGET.account}#{TARGET.region}"


@pytest.fixture
def table(aws: Clients) -> EveryStore:
    """The table in moto."""
    return dynamo_table(aws)


def items(aws: Clients) -> Iterator[dict[str, Any]]:
    """All items as stored."""
    for page in aws.client("dynamodb").get_paginator("scan").paginate(TableName=TABLE):
        yield from page["Items"]


def chunks(aws: Clients) -> list[str]:
    """Sort keys of the stored observation chunks."""
    return sorted(
        item["sk"]["S"] for item in items(aws) if item["sk"]["S"].startswith("OBSERVATIONS#")
    )


def many(count: int) -> dict[str, Any]:
    """Observations that hardly compress."""
    noise = random.Random(7)
    return {
        f"i-{number:08x}": observation(reason=noise.randbytes(600).hex(), dimensions=None)
        for number in range(count)
    }


def test_a_large_fleet_is_remembered_in_chunks(aws: Clients, table: EveryStore) -> None:
    """No item exceeds DynamoDB's 400 KB, and nothing is lost between chunks or pages."""
    seen = many(3000)

    table.remember(TARGET, seen, NOW)

    assert len(chunks(aws)) > 3
    assert seen == table.observations(TARGET)


def test_a_smaller_set_leaves_no_old_chunk(aws: Clients, table: EveryStore) -> None:
    """When a fleet shrinks, what is no longer needed is deleted."""
    table.remember(TARGET, many(3000), NOW)
    table.remember(TARGET, many(1), NOW)

    assert ["OBSERVATIONS#000"] == chunks(aws)
    assert many(1) == table.observations(TARGET)


def test_half_written_observations_count_as_never_seen(
    aws: Clients, table: EveryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Chunks of two sweeps are not mixed: a lost cache costs reads, a wrong one would cost
    trust."""
    table.remember(TARGET, many(3000), NOW)
    client = aws.client("dynamodb")
    client.delete_item(TableName=TABLE, Key={"pk": {"S": PK}, "sk": {"S": "OBSERVATIONS#001"}})
    assert {} == table.observations(TARGET)

    table.remember(TARGET, many(3000), NOW)
    client.update_item(
        TableName=TABLE,
        Key={"pk": {"S": PK}, "sk": {"S": "OBSERVATIONS#001"}},
        UpdateExpression="SET version = :other",
        ExpressionAttributeValues={":other": {"S": "another sweep"}},
    )
    assert {} == table.observations(TARGET)
    assert "incomplete" in caplog.text


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("data", {"B": b"not packed"}), ("format", {"N": "999"}), ("data", {"S": "text"})],
)
def test_observations_of_another_making_count_as_never_seen(
    aws: Clients, table: EveryStore, attribute: str, value: dict[str, Any]
) -> None:
    """Another version's cache is read anew, with a warning, and never fails a sweep."""
    table.remember(TARGET, many(1), NOW)
    aws.client("dynamodb").update_item(
        TableName=TABLE,
        Key={"pk": {"S": PK}, "sk": {"S": "OBSERVATIONS#000"}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": value},
    )
    assert {} == table.observations(TARGET)


def test_items_live_as_long_as_they_are_needed(aws: Clients, table: EveryStore) -> None:
    """Approvals 400 days; the record of what was done has no end."""
    table.take_lock(ref())
    table.save_opened(episode())

    lives = {item["sk"]["S"].partition("#")[0]: item.get("expires_at_epoch") for item in items(aws)}

    def epoch(days: int) -> dict[str, str]:
        return {"N": str(int((NOW + timedelta(days=days)).timestamp()))}

    assert {
        "REQUEST": epoch(400),
        "LOCK": None,
        "EPISODE": None,
        "INSTANCE": None,
    } == lives


def test_what_a_newer_version_added_is_ignored(aws: Clients, table: EveryStore) -> None:
    """During a deployment two versions read the same items."""
    table.take_lock(ref())
    table.save_opened(episode())
    client = aws.client("dynamodb")
    for item in list(items(aws)):
        client.update_item(
            TableName=TABLE,
            Key={"pk": item["pk"], "sk": item["sk"]},
            UpdateExpression="SET added_later = :x",
            ExpressionAttributeValues={":x": {"M": {"deep": {"L": [{"N": "1"}]}}}},
        )
    assert episode() == table.episode(ref())
    assert table.approval("approval-1") is not None
    assert ref() == table.record(TARGET, INSTANCE_ID).open_episode


def test_an_item_that_cannot_be_read_is_named(aws: Clients, table: EveryStore) -> None:
    """A broken item is an error of the tree that says which item, never a guess."""
    table.take_lock(ref())
    table.save_opened(episode())
    aws.client("dynamodb").update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"EPISODE#{ref().execution_name}"}, "sk": {"S": "EPISODE"}},
        UpdateExpression="SET #mode = :x",
        ExpressionAttributeNames={"#mode": "mode"},
        ExpressionAttributeValues={":x": {"S": "reckless"}},
    )
    with pytest.raises(CloudError, match=ref().execution_name):
        table.episode(ref())


def test_one_damaged_record_says_so_and_leaves_the_others(aws: Clients, table: EveryStore) -> None:
    """The sweep reads them all at once; what acts reads one, and gets an error."""
    table.set_marked(TARGET, NOW, "i-00000000000000001")
    table.set_marked(TARGET, NOW, INSTANCE_ID)
    aws.client("dynamodb").update_item(
        TableName=TABLE,
        Key={"pk": {"S": PK}, "sk": {"S": f"INSTANCE#{INSTANCE_ID}"}},
        UpdateExpression="SET marked_at = :x",
        ExpressionAttributeValues={":x": {"S": "yesterday"}},
    )
    records = table.records(TARGET)

    assert (None, NOW) == (
        records["i-00000000000000001"].problem,
        records["i-00000000000000001"].marked_at,
    )
    assert INSTANCE_ID in (records[INSTANCE_ID].problem or "")
    with pytest.raises(CloudError, match=INSTANCE_ID):
        table.record(TARGET, INSTANCE_ID)


@pytest.mark.parametrize("value", [{"N": "1.5"}, {"SS": ["many"]}, {"NS": ["1"]}])
def test_a_value_that_nobody_writes_hides_no_other_item(
    aws: Clients, table: EveryStore, value: dict[str, Any]
) -> None:
    """A hand in the DynamoDB console: all items of a target come by one query."""
    table.set_marked(TARGET, NOW, "i-00000000000000001")
    key = {"pk": {"S": PK}, "sk": {"S": f"INSTANCE#{INSTANCE_ID}"}}
    aws.client("dynamodb").put_item(TableName=TABLE, Item={**key, "episodes": value})
    records = table.records(TARGET)

    assert NOW == records["i-00000000000000001"].marked_at
    assert "cannot be read: episodes" in (records[INSTANCE_ID].problem or "")


def test_a_busy_item_is_tried_again() -> None:
    """A transaction that met another one is repeated after a pause that grows."""
    busy = client_error(
        "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}]
    )
    client = ScriptedClient(transact_write_items=[busy, busy, {}])
    pauses: list[float] = []

    table = EveryStore(DynamoTable(FakeClients(client), TABLE, sleep=pauses.append))
    assert table.settle_entry(entry(), NOW, Ending.STARTED, NOW)
    assert 3 == len(client.calls)
    assert 2 == len(pauses)
    assert all(0 < pause <= 0.1 for pause in pauses)


def test_an_item_that_stays_busy_is_told_as_throttled() -> None:
    """Not as a lost condition: nobody else has won."""
    busy = client_error(
        "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}]
    )
    client = ScriptedClient(transact_write_items=lambda **_: busy)
    table = EveryStore(DynamoTable(FakeClients(client), TABLE, sleep=lambda _: None))
    with pytest.raises(Throttled):
        table.settle_entry(entry(), NOW, Ending.STARTED, NOW)
    assert len(client.calls) < 10


def test_a_close_that_keeps_losing_says_so() -> None:
    """It never ends as if it had closed, nor tries for ever."""
    lost = client_error(
        "TransactionCanceledException", CancellationReasons=[{"Code": "ConditionalCheckFailed"}]
    )
    locked = {"Item": {"open_episode": {"S": ref().execution_name}}}

    def get_item(**parameters: Any) -> dict[str, Any]:
        return locked if parameters["Key"]["sk"]["S"].startswith("INSTANCE#") else {}

    client = ScriptedClient(transact_write_items=lambda **_: lost, get_item=get_item)
    table = EveryStore(DynamoTable(FakeClients(client), TABLE, sleep=lambda _: None))
    with pytest.raises(ConflictError):
        table.close_episode(ref(), Outcome.FAILED, "why", NOW, quiet_until=None)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ProvisionedThroughputExceededException", Throttled),
        ("AccessDeniedException", AccessDenied),
        ("ResourceNotFoundException", NotFound),
    ],
)
def test_a_failed_read_is_no_empty_answer(code: str, kind: type[Exception]) -> None:
    """A table that cannot be read must not look like an empty one."""
    error = client_error(code)
    client = ScriptedClient(
        get_item=lambda **_: error, batch_get_item=lambda **_: error, query=lambda **_: error
    )
    table = EveryStore(DynamoTable(FakeClients(client), TABLE))
    for read in (
        lambda: table.episode(ref()),
        lambda: table.approval("approval-1"),
        lambda: table.record(TARGET, INSTANCE_ID),
        lambda: table.records(TARGET),
        lambda: table.observations(TARGET),
        lambda: table.breaker(TARGET),
        lambda: table.entries("2026-11"),
    ):
        with pytest.raises(kind):
            read()


def test_decisions_read_what_was_last_written() -> None:
    """Every read of the table is strongly consistent."""
    client = ScriptedClient(
        get_item=lambda **_: {},
        batch_get_item=lambda **_: {"Responses": {}},
        query=lambda **_: {"Items": []},
    )
    table = EveryStore(DynamoTable(FakeClients(client), TABLE))
    table.episode(ref())
    table.approval("approval-1")
    table.record(TARGET, INSTANCE_ID)
    table.records(TARGET)
    table.breaker(TARGET)
    table.open_entries(TARGET, INSTANCE_ID)

    reads = []
    for operation, call in client.calls:
        if operation == "batch_get_item":
            reads += call["RequestItems"].values()
        else:
            reads.append(call)
    assert {True} == {read["ConsistentRead"] for read in reads}


def test_a_token_never_reaches_a_log(table: EveryStore, caplog: pytest.LogCaptureFixture) -> None:
    """Task tokens stay in the table."""
    with caplog.at_level(logging.DEBUG, logger="governor"):
        table.take_lock(ref())
        table.save_opened(episode())
        table.await_answer("approval-1", "secret-task-token", "ask", NOW)
        table.settle("approval-1", decision(Answer.APPROVE))
    assert "secret-task-token" not in caplog.text


def test_each_item_comes_in_the_order_of_its_key(table: EveryStore) -> None:
    """A key may be given twice, and more than the hundred of one call; a missing item is empty."""
    for number in range(0, 120, 2):
        table._table.write(update(("LOCK#a", str(number)), {"number": number}))
    wanted = [("LOCK#a", str(number)) for number in (*range(120), 4, 4)]

    found = [item.get("number") for item in table._table.get_each(wanted)]
    assert [None if number % 2 else number for number in (*range(120), 4, 4)] == found
    assert [] == table._table.get_each([])


def test_a_key_that_is_given_twice_is_asked_for_once() -> None:
    """DynamoDB refuses the call else, as it did for the page of an instance with two stops in one
    episode."""
    key = {"pk": {"S": "APPROVAL#1"}, "sk": {"S": "REQUEST"}}
    client = ScriptedClient(batch_get_item={"Responses": {TABLE: [key]}})
    table = DynamoTable(FakeClients(client), TABLE)

    assert 1 == len(table.get_all([("APPROVAL#1", "REQUEST")] * 2))
    ((_, call),) = client.calls
    assert [key] == call["RequestItems"][TABLE]["Keys"]


def test_items_that_a_read_left_out_are_asked_for_again() -> None:
    """DynamoDB answers with what it had time for; what stays left out is no missing item."""
    key = {"pk": {"S": "APPROVAL#1"}, "sk": {"S": "REQUEST"}}
    left: dict[str, Any] = {"Responses": {}, "UnprocessedKeys": {TABLE: {"Keys": [key]}}}
    pauses: list[float] = []

    client = ScriptedClient(batch_get_item=[left, {"Responses": {TABLE: [key]}}])
    table = DynamoTable(FakeClients(client), TABLE, sleep=pauses.append)
    assert [{"pk": "APPROVAL#1", "sk": "REQUEST"}] == table.get_all([("APPROVAL#1", "REQUEST")])
    assert 1 == len(pauses)
    reads = [call["RequestItems"][TABLE] for _, call in client.calls]
    assert [{"Keys": [key], "ConsistentRead": True}] * 2 == reads
    stuck = DynamoTable(
        FakeClients(ScriptedClient(batch_get_item=[left] * 6)), TABLE, sleep=pauses.append
    )
    with pytest.raises(Throttled, match="left out 1 of 1"):
        stuck.get_all([("APPROVAL#1", "REQUEST")])


def test_a_write_of_a_question_asks_for_nothing_back() -> None:
    """Its role may name some attributes alone, and IAM may count those that come back."""
    question = {"pk": {"S": "APPROVAL#a"}, "sk": {"S": "REQUEST"}}
    client = ScriptedClient(update_item={})
    store = EveryStore(DynamoTable(FakeClients(client), TABLE))  # type: ignore[arg-type]

    store.note_waits_told("a", NOW)

    ((_, parameters),) = client.calls
    assert question == parameters["Key"]
    assert "ReturnValues" not in parameters


def test_a_new_question_has_no_attribute_of_an_answer(aws: Clients, table: EveryStore) -> None:
    """The role that opens questions may not write them, not even empty."""
    assert table.take_lock(ref())
    table.save_opened(episode())

    (question,) = (item for item in items(aws) if item["pk"]["S"].startswith("APPROVAL#"))
    assert question.keys().isdisjoint(
        {"decision", "first_yes", "brake", "keep_ended_at", "keep_ended_by"}
    )
    stored = table.existing(episode().approval_id)
    assert (None, None, None) == (stored.decision, stored.first_yes, stored.hold)
