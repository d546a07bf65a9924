"""`governor uninstall` where not all may be read, or what is asked for must not go."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli import aws, uninstall
from cli.governor import main
from cli.leftovers import LEDGER_MONTHS, Leftover, Leftovers, left_behind
from governor.core.instance import DELETE_AFTER_TAG, EPISODE_TAG, INSTANCE_TAG, Target, Volume
from governor.episode.model.episode import Outcome, Phase
from governor.episode.model.plan import StoragePrices
from governor.money.store.ledger import booking
from tests.twins.table import MemoryStateTable
from tests.unit.aws import state_samples as samples

DENIED = ClientError(
    {"Error": {"Code": "AccessDenied", "Message": "may not list buckets"}}, "ListBuckets"
)
GONE = ClientError(
    {"Error": {"Code": "ValidationError", "Message": "does not exist"}}, "DescribeStacks"
)


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
    monkeypatch.setattr(Leftovers, "recorded", frozenset({"snap-1"}))
    return done


def run(capsys: pytest.CaptureFixture[str], *given: str) -> tuple[int, str]:
    """The exit status, and what is printed."""
    code = main(["uninstall", *given])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_may_not_be_read_is_said(
    removed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest is shown all the same."""
    code, said = run(capsys)
    assert 1 == code
    assert "tags       could not be read: " in said
    assert "may not list buckets" in said
    assert "one table: less than $0.01 a month" in said
    assert "one key: $1.00 a month" in said
    assert [] == removed


@pytest.mark.parametrize(
    ("usd_a_month", "last"),
    [
        (
            None,
            "  nothing. If you expected something, check --stack-name, --region and --profile.",
        ),
        ("0.001", "Together at most $0.01 a month at AWS's list prices in us-east-1."),
        ("0", "Together at most $0.00 a month at AWS's list prices in us-east-1."),
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
        (["--remove", "key"], "without the key, nobody can read table, audit: remove"),
        (["--remove", "key,table"], "without the key, nobody can read audit: remove"),
        (
            ["--remove", "workflow"],
            "'workflow' is none of workflows, tags, alarms, schedules, logs, table",
        ),
        (["--remove", "workflow"], "; did you mean workflows?"),
        (["--remove", "workflows"], "there are no workflows: they ended with the stack"),
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
    """Unreadable remains may be there."""
    monkeypatch.setattr(uninstall, "_KINDS", {**uninstall._KINDS, "copies": fails(DENIED)})
    code, said = run(capsys, "--remove", "key,table", "--remove-audit", "--confirm", "gpu-governor")
    assert (1, []) == (code, removed)
    assert "copies cannot be read, and may need the key" in said


KEY = "arn:aws:kms:us-east-1:123456789012:key/1"
TABLES: dict[str, dict[str, Any]] = {
    "gpu-governor-StateTable-ABCDEFGHIJKL": {"SSEDescription": {"KMSMasterKeyArn": KEY}},
    "copied": {"SSEDescription": {"KMSMasterKeyArn": KEY}},
    "copied-under-another-key": {
        "RestoreSummary": {
            "SourceTableArn": "arn:aws:dynamodb:::table/gpu-governor-StateTable-ABCDEFGHIJKL"
        }
    },
    "copied-from-another-stack": {
        "RestoreSummary": {
            "SourceTableArn": "arn:aws:dynamodb:::table/other-StateTable-ABCDEFGHIJKL"
        }
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
    """Objects under Object Lock may need it."""
    code, said = run(capsys, "--remove", "key,table", "--remove-audit", "--confirm", "gpu-governor")
    assert (1, ["table", "audit"]) == (code, removed)
    assert "kept the key: something else that was kept may need it" in said


def test_a_stack_of_another_product_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with what to pass; nothing of it is read."""
    other = {"StackName": "shop", "StackStatus": "CREATE_COMPLETE", "Parameters": [], "Outputs": []}
    client = SimpleNamespace(describe_stacks=lambda **_: {"Stacks": [other]})
    session = SimpleNamespace(region_name="us-east-1", client=lambda *_: client)
    monkeypatch.setattr(aws, "session", lambda *_: session)

    code, said = run(capsys, "--stack-name", "shop")
    assert (1, "governor: the stack 'shop' is no stack of GPU Governor: pass --stack-name\n") == (
        code,
        said,
    )


def tagged(snapshot_id: str, until: str | None = "2027-01-31T00:00:00Z") -> dict[str, Any]:
    """A snapshot with the governor's tags, which anybody may set."""
    tags = {INSTANCE_TAG: "i-1", EPISODE_TAG: "forged", DELETE_AFTER_TAG: until}
    found = [{"Key": key, "Value": value} for key, value in tags.items() if value is not None]
    return {"SnapshotId": snapshot_id, "VolumeSize": 100, "Tags": found}


def snapshots_left(
    monkeypatch: pytest.MonkeyPatch, *elsewhere: str, phase: Phase = Phase.CLOSED, refuse: str = ""
) -> tuple[Leftovers, list[str]]:
    """Snapshots of which one closed episode has recorded two; those that EC2 is asked to delete."""
    state, asked = MemoryStateTable(), list[str]()
    episode = replace(
        samples.episode(),
        phase=phase,
        progress=replace(
            samples.episode().progress, snapshots={"snap-ours": "vol-1", "snap-wanted": "vol-2"}
        ),
    )
    state.put(episode)
    state.memory.transact(*booking(replace(samples.entry(booked_at=datetime.now(tz=UTC)))))
    found = [
        tagged("snap-ours"),
        tagged("snap-wanted", None),
        tagged("snap-backup"),
        tagged("snap-member"),
    ]

    def delete(SnapshotId: str) -> None:
        if SnapshotId == refuse:
            raise ClientError(
                {"Error": {"Code": "InvalidSnapshot.InUse", "Message": "an AMI needs it"}}, "x"
            )
        asked.append(SnapshotId)

    monkeypatch.setattr(Leftovers, "_client", lambda *_: SimpleNamespace(delete_snapshot=delete))
    monkeypatch.setattr(Leftovers, "_pages", lambda *_, **__: [{"Snapshots": found}])
    monkeypatch.setattr(Leftovers, "_tables", ["t"])
    monkeypatch.setattr(Leftovers, "_state_table", lambda *_: state.memory)
    session: Any = SimpleNamespace(region_name="us-east-1")
    return Leftovers(session, "gpu-governor", ["us-east-1"], "GPU-Workload", elsewhere), asked


def removal(left: Leftovers) -> list[str]:
    """Return what is said of each snapshot."""
    found = left.snapshots()
    assert found
    assert found.remove
    return list(found.remove())


def test_a_tag_alone_removes_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a closed episode has recorded goes; not what people keep by taking its date off."""
    left, asked = snapshots_left(monkeypatch)
    found = left.snapshots()
    assert found
    assert (
        "4 snapshots of 400 GiB, the first to be deleted on 2027-01-31; 3 of them are never removed"
        in found.text
    )
    assert removal(left) == [
        "deleted snapshot snap-ours in us-east-1",
        "kept snapshot snap-wanted in us-east-1: its tag DeleteAfter is not a date, so somebody "
        "wants to keep it",
        *(
            f"kept snapshot {one} in us-east-1: it is in no state table; delete it "
            "yourself if nobody "
            "needs it"
            for one in ("snap-backup", "snap-member")
        ),
    ]
    assert ["snap-ours"] == asked


def test_an_open_episode_keeps_its_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    left, asked = snapshots_left(monkeypatch, phase=Phase.ACTING)
    removal(left)
    assert [] == asked


def test_one_that_an_image_needs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    left, asked = snapshots_left(monkeypatch, "snap-member", refuse="snap-ours")
    assert "kept snapshot snap-ours in us-east-1: " in removal(left)[0]
    assert ["snap-member"] == asked


def test_the_hub_says_which_snapshots_of_other_accounts_are_its_own(
    removed: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its table knows them; in their account the command is given what it said."""
    code, said = run(capsys, "--json")
    given = tmp_path / "left.json"
    given.write_text(said)
    assert (1, ["snap-1"]) == (code, uninstall._recorded(given))
    assert [] == uninstall._recorded(None)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"recorded_snapshots": 1}'])
def test_a_file_that_says_nothing_of_snapshots_is_refused(
    removed: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    given = tmp_path / "left.json"
    given.write_text(text)
    code, said = run(capsys, "--recorded", str(given))
    assert 1 == code
    assert "is not what `governor uninstall --json` prints in the hub's account" in said


ADDRESSES = [
    {"PublicIp": "203.0.113.7", "AllocationId": "eipalloc-1"},
    {"PublicIp": "203.0.113.8", "InstanceId": "i-stopped", "AssociationId": "eipassoc-1"},
    {"PublicIp": "203.0.113.9", "InstanceId": "i-busy", "AssociationId": "eipassoc-2"},
    {"PublicIp": "203.0.113.10"},
]


def left_by_a_termination(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome = Outcome.TERMINATED, **changes: Any
) -> tuple[Leftovers, list[Any]]:
    """One episode of the stack's account ended so; and what DescribeVolumes is asked."""
    state, asked = MemoryStateTable(), []
    episode = samples.episode()
    kept = (Volume("vol-2", "/dev/sdb", False), Volume("vol-3", "/dev/sdc", False))
    volumes = (*episode.instance.volumes[:1], *kept)
    storage = StoragePrices({"io2": Decimal("0.125")}, {"io2": Decimal("0.065")})
    state.put(
        replace(
            episode,
            instance=replace(episode.instance, volumes=volumes),
            price=replace(episode.price, storage=storage),
        )
    )
    state.memory.transact(
        *booking(replace(samples.entry(booked_at=datetime.now(tz=UTC)), outcome=outcome, **changes))
    )
    found = [
        {"VolumeId": "vol-2", "Size": 100, "VolumeType": "io2", "Iops": 1000},
        {"VolumeId": "vol-3", "Size": 50, "VolumeType": "st1"},
    ]

    def pages(_: Leftovers, service: str, operation: str, region: str, **given: Any) -> list[Any]:
        asked.append((service, operation, region, given["Filters"]))
        return [{"Volumes": found}]

    client = SimpleNamespace(describe_addresses=lambda: {"Addresses": ADDRESSES})
    monkeypatch.setattr(Leftovers, "_client", lambda *_: client)
    monkeypatch.setattr(Leftovers, "_pages", pages)
    monkeypatch.setattr(Leftovers, "_tables", ["t"])
    monkeypatch.setattr(Leftovers, "_account", samples.TARGET.account)
    monkeypatch.setattr(Leftovers, "_stopped", [("us-east-1", "i-stopped")])
    monkeypatch.setattr(Leftovers, "_state_table", lambda *_: state.memory)
    session: Any = SimpleNamespace(region_name="us-east-1")
    return Leftovers(session, "gpu-governor", ["us-east-1"], "GPU-Workload"), asked


def test_volumes_of_terminated_instances_are_listed_with_their_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unattached ones that EC2 was to keep: by type and IOPS where their prices are known."""
    left, asked = left_by_a_termination(monkeypatch)
    found = left.volumes()
    of_them = [{"Name": "volume-id", "Values": ["vol-2", "vol-3"]}]
    filters = [*of_them, {"Name": "status", "Values": ["available"]}]
    assert [("ec2", "describe_volumes", "us-east-1", filters)] == asked
    assert found
    assert ["us-east-1 vol-2", "us-east-1 vol-3"] == found.names
    assert Decimal("12.5") + 65 + 4 == found.usd_a_month
    assert (
        "2 volumes of instances that GPU Governor terminated (vol-2, vol-3), 150 GiB; never removed"
        == found.text
    )
    assert found.remove is None


def test_addresses_of_stopped_and_terminated_instances_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that an instance which runs holds, or that nothing of ours held, are not."""
    left, _ = left_by_a_termination(monkeypatch)
    found = left.addresses()
    assert found
    assert ["us-east-1 203.0.113.7", "us-east-1 203.0.113.8"] == found.names
    assert Decimal("7.30") == found.usd_a_month
    assert found.remove is None


def test_each_becomes_a_line_of_advice_with_its_price_and_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The dearest may go first; an address that a stopped instance holds has no command: it may
    need it."""
    left, _ = left_by_a_termination(monkeypatch)
    found = {
        one.advice_id: one for one in left_behind(Target(samples.TARGET.account, "us-east-1"), left)
    }
    amounts = {name: one.usd_per_month for name, one in found.items()}
    assert amounts == {
        "left-volume:vol-2": Decimal("77.5"),
        "left-volume:vol-3": Decimal(4),
        "left-address:203.0.113.7": Decimal("3.65"),
        "left-address:203.0.113.8": Decimal("3.65"),
    }
    volumes, addresses = left.volumes(), left.addresses()
    assert volumes
    assert addresses
    assert sum(filter(None, amounts.values())) == volumes.usd_a_month + addresses.usd_a_month
    command = "aws ec2 delete-volume --region us-east-1 --volume-id vol-2"
    assert (command, "io2") == (
        found["left-volume:vol-2"].command,
        found["left-volume:vol-2"].instance_type,
    )
    held = found["left-address:203.0.113.8"]
    assert ("", "Of i-stopped, which GPU Governor stopped") == (
        held.command,
        held.text.partition(":")[0],
    )
    assert [] == list(left_behind(Target(samples.TARGET.account, "eu-west-1"), left))


@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        (Outcome.STOPPED, {}),
        (Outcome.TERMINATED, {"ours": False}),
        (
            Outcome.TERMINATED,
            {"booked_at": datetime.now(tz=UTC) - timedelta(days=31 * LEDGER_MONTHS)},
        ),
        (Outcome.TERMINATED, {"episode": replace(samples.ref(), account="210987654321")}),
        (Outcome.TERMINATED, {"episode": replace(samples.ref(), region="eu-west-1")}),
    ],
)
def test_only_the_governors_own_terminations_leave_something(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, changes: Any
) -> None:
    """In this account and these Regions; others' volumes are not even asked for."""
    left, asked = left_by_a_termination(monkeypatch, outcome, **changes)
    found = left.addresses()
    assert (None, []) == (left.volumes(), asked)
    assert found
    assert ["us-east-1 203.0.113.8"] == found.names
