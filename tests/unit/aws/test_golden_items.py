"""Items that release 2428e04 stored are read as it read them, and stored as it would read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Approval
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable, unpacked
from governor.aws.record_codec import read_all
from governor.core.errors import CloudError
from governor.episode.model.episode import Episode, InstanceRecord
from governor.evidence.rules.series import evidence_hash
from governor.limits.model.breaker import BreakerState
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import Meter
from governor.table.table import Record
from tests.twins.stores import EveryEventStore, EveryStore
from tests.unit.aws.golden import (
    ADDED,
    IDS,
    PATH,
    RETIRED,
    RETIRED_OF_OBSERVATIONS,
    comparable,
    from_text,
    load,
    new_fields,
    read,
    stored,
    write,
)
from tests.unit.aws.state_samples import TABLE, create_table, ref

GOLDEN: dict[str, Any] = json.loads(PATH.read_text())
REQUIRED: dict[type, tuple[str, set[str]]] = {
    Episode: (
        "EPISODE",
        {
            "execution_name", "phase", "opened_at", "approval_id", "mode", "policy_version",
            "overrides",
            "instance", "reason", "evidence", "evidence_hash", "plan", "price", "owner", "project",
            "keep_at_most_seconds",
            # Of an end, and of an undo.
            "outcome_reason", "closed_at", "undone_by",
        },
    ),
    Approval: (
        "REQUEST",
        {
            "approval_id", "episode", "evidence_hash", "status", "created_at", "expires_at",
            "keep_at_most_seconds",
        },
    ),
    LedgerEntry: (
        "20",
        {
            "execution_name", "outcome", "instance_type", "owner", "project", "price_source",
            "booked_at",
            "cost_before_usd_per_hour", "cost_after_usd_per_hour", "saved_usd_per_hour",
        },
    ),
    Meter: (
        "1",
        {"account", "region", "month", "counted_until", "usd", "unpriced_hours", "usd_per_hour"},
    ),
    Delivery: ("m-", {"subject", "message", "channel", "target", "at"}),
    BreakerState: ("BREAKER", {"tripped_at", "why"}),
}  # fmt: skip
"""The beginning of the sort key, and what a record cannot be read without."""
REQUIRED_WITHIN = {
    "instance": {
        "account", "region", "instance_id", "instance_type", "state", "launch_time", "lifecycle",
        "root_device_type", "tags", "volumes", "platform", "operator_managed",
    },
    "plan": {
        "wanted", "action", "steps", "replaced_because", "losses", "stays",
        "cost_before_usd_per_hour",
        "cost_after_usd_per_hour",
    },
    "price": {"usd_per_hour", "source"},
}  # fmt: skip
ADD_THEM = "records have new fields: add their names to ADDED in tests/unit/aws/golden.py"
OF_THE_KEY = {"pk", "sk", "expires_at_epoch"}


@pytest.fixture
def client(aws: Clients) -> Any:
    """The table in moto, with the items of the release."""
    client = aws.client("dynamodb")
    create_table(client)
    load(client, TABLE, GOLDEN["items"])
    return client


def document(prefix: str) -> dict[str, Any]:
    """The first golden item whose sort key begins so."""
    item = next(item for item in GOLDEN["items"] if item["sk"]["S"].startswith(prefix))
    return unpacked({name: from_text(value) for name, value in item.items()})


def without(fields: frozenset[str], value: Any) -> Any:
    """The same without these fields, wherever they stand."""
    if isinstance(value, Mapping):
        return {key: without(fields, inner) for key, inner in value.items() if key not in fields}
    return [without(fields, inner) for inner in value] if isinstance(value, list) else value


def read_document(kind: type[Record], whole: dict[str, Any]) -> Record:
    """The record of one item."""
    [record] = read_all(kind, [whole])
    return record


def test_items_of_the_release_are_read_as_it_read_them(aws: Clients, client: Any) -> None:
    """Questions that are open during an update go on, whatever their shape."""
    table = DynamoTable(aws, TABLE)
    now = read(EveryStore(table), EveryEventStore(table))

    for name, before in GOLDEN["reads"].items():
        retired = RETIRED_OF_OBSERVATIONS if name == "observations" else RETIRED
        known_before = without(retired, before)
        known_now = without(ADDED, json.loads(json.dumps(now[name])))
        assert set() == new_fields(known_before, known_now), ADD_THEM
        assert known_before == known_now, name


def test_evidence_of_the_release_keeps_its_hash(aws: Clients, client: Any) -> None:
    """An approval given before an update is bound to the same evidence after it."""
    table = EveryStore(DynamoTable(aws, TABLE))
    for number, one in enumerate(IDS):
        episode, approval = table.episode(ref(1, one)), table.approval(f"approval-{number}")
        assert episode is not None
        assert approval is not None
        assert (
            evidence_hash(episode.measurement.evidence)
            == episode.measurement.evidence_hash
            == approval.evidence_hash
        )


def test_items_are_stored_as_the_release_stored_them(aws: Clients) -> None:
    """A rollback reads what this version wrote: the same keys, attributes and encodings."""
    client = aws.client("dynamodb")
    create_table(client)
    table = DynamoTable(aws, TABLE)

    write(EveryStore(table), EveryEventStore(table))

    own = ("BREAKER#", "LOCK#", "HOLD#")
    moved = [item for item in stored(client, TABLE) if not item["pk"]["S"].startswith(own)]
    # The end of a saving is an item of its own now, which that release does not count.
    [end] = [item for item in moved if item["sk"]["S"].endswith("#END")]
    moved.remove(end)
    [entry] = [item for item in moved if end["sk"]["S"] == f"{item['sk']['S']}#END"]
    entry |= {name: end[name] for name in ("ended_at", "false_stop")}
    # Nothing has ever read the history of sweeps.
    golden = [item for item in GOLDEN["items"] if not item["sk"]["S"].startswith("SWEEP#")]
    for before, now in zip(golden, moved, strict=True):
        if now["sk"]["S"].startswith("OPENLEDGER#"):
            del now["expires_at_epoch"]  # it lasted for ever
        if now["sk"]["S"] == "REQUEST":
            # An unset attribute is missing now, and was NULL: both releases read both alike (test
            # below).
            before = {name: value for name, value in before.items() if value != {"NULL": True}}
            now = {name: value for name, value in now.items() if value != {"NULL": True}}
        assert set() == new_fields(comparable(before), comparable(now)), ADD_THEM
        assert comparable(before) == comparable(now)


@pytest.mark.parametrize("kind", REQUIRED, ids=lambda kind: kind.__name__)
def test_an_item_that_lacks_what_matters_is_unreadable(kind: type) -> None:
    """A missing mode, plan or hash is never guessed; everything else has a default that says so."""
    prefix, required = REQUIRED[kind]
    whole = document(prefix)
    read_document(kind, whole)
    for name in whole.keys() - OF_THE_KEY:
        part = {key: value for key, value in whole.items() if key != name}
        if name in required:
            with pytest.raises(CloudError, match="required"):
                read_document(kind, part)
        else:
            read_document(kind, part)


@pytest.mark.parametrize("inner", REQUIRED_WITHIN)
def test_a_part_that_lacks_what_matters_is_unreadable(inner: str) -> None:
    """The same of the instance, the plan and the price of an episode."""
    whole = document("EPISODE")
    for name in whole[inner]:
        part = {**whole, inner: {key: value for key, value in whole[inner].items() if key != name}}
        if name in REQUIRED_WITHIN[inner]:
            with pytest.raises(CloudError, match="required"):
                read_document(Episode, part)
        else:
            read_document(Episode, part)


def test_older_episodes_may_lose_local_disks_and_had_one_approver() -> None:
    """A field that a release did not write yet means what it meant then, on the safe side."""
    whole = document("EPISODE")
    older = {
        "idle_below_percent",
        "broadcast_may",
        "people_needed",
        "known_people",
        "acts_on_silence",
    }
    del whole["plan"]["loses_local_disks"]

    episode = read_document(
        Episode, {name: value for name, value in whole.items() if name not in older}
    )

    assert episode.plan.loses_local_disks
    assert (5.0, 1, frozenset(), False) == (
        episode.measurement.idle_below_percent,
        episode.terms.people_needed,
        episode.terms.known_people,
        episode.asking.acts_on_silence,
    )
    assert frozenset({"keep", "stop", "undo"}) == episode.terms.broadcast_may


@pytest.mark.parametrize(
    "change",
    [
        {"people_needed": "1"},
        {"people_needed": True},
        {"keep_at_most_seconds": "604800"},
        {"owner": 7},
        {"acts_on_silence": 1},
        {"acts_on_silence": "yes"},
        {"opened_at": 1795154400},
        {"opened_at": "2026-11-20T12:00:00"},
        {"opened_at": "1795154400"},
        {"idle_below_percent": "NaN"},
        {"price": {"usd_per_hour": 1, "source": "list price"}},
        {"price": {"usd_per_hour": "much", "source": "list price"}},
        {"overrides": "research"},
        {"mode": "reckless"},
        {"execution_name": "another"},
        {"evidence": "text"},
        {"evidence": b"not packed"},
    ],
    ids=str,
)
def test_nothing_is_converted(change: dict[str, Any]) -> None:
    """Text is not a number, a number is not a time, and an unknown word is not the nearest one."""
    with pytest.raises(CloudError, match=next(iter(change))):
        read_document(Episode, {**document("EPISODE"), **change})


def test_what_cannot_be_read_is_named_without_its_values() -> None:
    """An approval holds a token, which must not reach a log."""
    damaged = {
        **document("REQUEST"),
        "task_token": "secret-token",
        "status": "secret-status",
        "stage": 7,
    }
    with pytest.raises(CloudError) as caught:
        read_document(Approval, damaged)
    assert "status: " in str(caught.value)
    assert "stage: " in str(caught.value)
    assert "secret" not in repr(caught.value)
    assert caught.value.__context__ is None or "secret" not in str(caught.value.__context__)


def test_unknown_attributes_are_ignored_even_where_a_field_is_not_stored() -> None:
    """`problem` of a record and the role of a target are never stored, so an attribute is not
    theirs."""
    place = {"account": "111122223333", "region": "us-east-1", "instance_id": "i-1"}
    record = read_document(
        InstanceRecord, {**place, "problem": "x", "role_arn": "arn", "last_started_at": 1}
    )
    assert (None, None) == (record.problem, record.target.role_arn)
