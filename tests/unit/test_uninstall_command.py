"""`governor uninstall` where not all may be read, or what is asked for must not go."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli import aws, uninstall
from cli.governor import main
from cli.leftovers import Leftover, Leftovers

DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "may not list buckets"}}, "ListBuckets")
GONE = ClientError({"Error": {"Code": "ValidationError", "Message": "does not exist"}}, "DescribeStacks")


def fails(error: Exception) -> Any:
    """A call that raises this."""

    def call(*_: object, **__: object) -> Any:
        raise error

    return call


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stack is gone; a table, a key and the audit are left, and tags may not be read."""
    done: list[str] = []

    def left(name: str, usd: str, *, keeps: bool = False) -> Any:
        said = f"kept the {name}" if keeps else f"deleted the {name}"

        def remove() -> list[str]:
            done.append(name)
            return [said]

        return lambda _: Leftover(f"one {name}", [name], Decimal(usd), remove)

    found = {
        "tags": fails(DENIED),
        "table": left("table", "0.001"),
        "audit": left("audit", "0", keeps=True),
        "key": left("key", "1"),
    }
    session = SimpleNamespace(
        region_name="us-east-1", client=lambda *_: SimpleNamespace(describe_stacks=fails(GONE))
    )
    monkeypatch.setattr(uninstall, "_KINDS", found)
    monkeypatch.setattr(aws, "session", lambda *_: session)
    monkeypatch.setattr(Leftovers, "has_user_data", lambda _: True)
    return done


def run(capsys: pytest.CaptureFixture[str], *given: str) -> tuple[int, str]:
    """The exit status, and what is printed."""
    code = main(["uninstall", *given])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_may_not_be_read_is_said(removed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is shown all the same."""
    code, said = run(capsys)
    assert 1 == code
    assert "tags       not readable: " in said
    assert "may not list buckets" in said
    assert "one table: less than $0.01 a month" in said
    assert "one key: $1.00 a month" in said
    assert [] == removed


@pytest.mark.parametrize(
    ("usd_a_month", "last"),
    [
        (None, "  nothing. If you expected some: --stack-name, --region and --profile say where it was"),
        ("0.001", "Together at most $0.01 a month, by AWS's list prices in us-east-1."),
        ("0", "Together at most $0.00 a month, by AWS's list prices in us-east-1."),
    ],
)
def test_the_sum_agrees_with_its_lines(
    removed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    usd_a_month: str | None,
    last: str,
) -> None:
    """Less than a cent is not nothing; and nothing at all may be a wrong name or Region."""
    assert [] == removed
    left = usd_a_month and Leftover("one table", ["t"], Decimal(usd_a_month), list)
    monkeypatch.setattr(uninstall, "_KINDS", {"table": lambda _: left or None})
    code, said = run(capsys)
    assert 0 == code
    assert said.splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--remove", "tags,table"], "tags cannot be read, so nothing was removed"),
        (["--remove", "key"], "without the key nobody can read table, audit: remove"),
        (["--remove", "key,table"], "without the key nobody can read audit: remove"),
        (["--remove", "workflow"], "'workflow' is none of workflows, tags, alarms, schedules, logs, table"),
        (["--remove", "workflow"], "; did you mean workflows?"),
        (["--remove", "workflows"], "workflows have ended with the stack"),
        (["--remove", "instances"], "'instances' is none of workflows, tags"),
        (["--remove", "snapshots"], "pass --remove-snapshots"),
    ],
)
def test_nothing_goes_that_must_not(
    removed: list[str], capsys: pytest.CaptureFixture[str], given: list[str], why: str
) -> None:
    """Not even what could have gone."""
    code, said = run(capsys, *given, "--confirm", "gpu-governor")
    assert (1, []) == (code, removed)
    assert why in said


def test_the_key_stays_where_a_table_may_need_it_that_cannot_be_seen(
    removed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may not be read may be there."""
    monkeypatch.setattr(uninstall, "_KINDS", {**uninstall._KINDS, "copies": fails(DENIED)})
    code, said = run(capsys, "--remove", "key,table", "--remove-audit", "--confirm", "gpu-governor")
    assert (1, []) == (code, removed)
    assert "copies cannot be read, and may need the key" in said


KEY = "arn:aws:kms:us-east-1:123456789012:key/1"
TABLES: dict[str, dict[str, Any]] = {
    "gpu-governor-StateTable-ABCDEFGHIJKL": {"SSEDescription": {"KMSMasterKeyArn": KEY}},
    "copied": {"SSEDescription": {"KMSMasterKeyArn": KEY}},
    "copied-under-another-key": {
        "RestoreSummary": {"SourceTableArn": "arn:aws:dynamodb:::table/gpu-governor-StateTable-ABCDEFGHIJKL"}
    },
    "copied-from-another-stack": {
        "RestoreSummary": {"SourceTableArn": "arn:aws:dynamodb:::table/other-StateTable-ABCDEFGHIJKL"}
    },
    "orders": {"SSEDescription": {"KMSMasterKeyArn": f"{KEY}2"}},
}


@pytest.mark.parametrize("state", ["Enabled", "PendingDeletion"])
def test_copies_of_the_state_table_are_found_whatever_they_are_called(state: str) -> None:
    """By their source, or by the key: also where that waits to be deleted and can be had back."""
    pages = {
        "list_tables": [{"TableNames": list(TABLES)}],
        "list_keys": [{"Keys": []}],
    }
    described = {"Arn": KEY, "KeyState": state, "Description": "Encrypts the data of GPU Governor"}
    client = SimpleNamespace(
        get_paginator=lambda name: SimpleNamespace(paginate=lambda **_: pages[name]),
        describe_table=lambda TableName: {"Table": TABLES[TableName]},
        describe_key=lambda **_: {"KeyMetadata": described},
        list_buckets=lambda: {"Buckets": []},
    )
    session: Any = SimpleNamespace(region_name="us-east-1", client=lambda *_, **__: client)
    left = Leftovers(session, "gpu-governor", ["us-east-1"], "GPU-Workload")

    copies, tables, keys = left.copies(), left.table(), left.key()
    assert copies
    assert tables
    assert ["copied", "copied-under-another-key"] == copies.names
    assert ["gpu-governor-StateTable-ABCDEFGHIJKL"] == tables.names
    assert (state == "Enabled") is (keys is not None)


def test_the_key_stays_where_something_could_not_go(
    removed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What Object Lock holds may need it."""
    code, said = run(capsys, "--remove", "key,table", "--remove-audit", "--confirm", "gpu-governor")
    assert (1, ["table", "audit"]) == (code, removed)
    assert "kept the key: what was kept may need it" in said


def test_a_stack_of_another_product_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with what to pass; nothing of it is read."""
    other = {"StackName": "shop", "StackStatus": "CREATE_COMPLETE", "Parameters": [], "Outputs": []}
    client = SimpleNamespace(describe_stacks=lambda **_: {"Stacks": [other]})
    session = SimpleNamespace(region_name="us-east-1", client=lambda *_: client)
    monkeypatch.setattr(aws, "session", lambda *_: session)

    code, said = run(capsys, "--stack-name", "shop")
    assert (1, "governor: the stack 'shop' is no stack of GPU Governor: pass --stack-name\n") == (code, said)
