"""Things that GPU hosts leave: volumes of stopped instances, unattached volumes, addresses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from governor.core.errors import AccessDenied
from governor.core.units import UtcDatetime
from governor.episode.model.plan import StoragePrices
from governor.scan.kind import Kind, Place
from governor.scan.kinds.remains.elastic_ip import ElasticIps
from governor.scan.kinds.remains.rules import stopped_since
from governor.scan.kinds.remains.stopped_instance import StoppedInstances
from governor.scan.kinds.remains.unattached_volume import LARGE_GIB, UnattachedVolumes
from governor.scan.model import Finding, Row, Strength
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, ApiTwin, PricesTwin, SeriesTwin, place
from tests.unit.scan.shapes import commands_in, is_command_of_aws

INSTANCES = "ec2:DescribeInstances"
VOLUMES = "ec2:DescribeVolumes"
SNAPSHOTS = "ec2:DescribeSnapshots"
ADDRESSES = "ec2:DescribeAddresses"
DAY = timedelta(days=1)


def where(answers: Mapping[str, Any], **changes: Any) -> Place:
    """Return a place in which AWS answers as the test says, and no other operation."""
    means: dict[str, Any] = {
        "api": ApiTwin(answers),
        "prices": PricesTwin(),
        "metrics": SeriesTwin(),
    }
    return place(**{**means, **changes})


def only_row(kind: Kind[Any, Any], answers: Mapping[str, Any], **changes: Any) -> Row:
    """Return the only row of a kind. Nothing was unreadable."""
    report = scan_place(where(answers, **changes), [kind])
    assert () == report.unread
    (row,) = report.rows
    if row.command:
        is_command_of_aws(row.command)
    return row


def stopped(
    days: float = 40, volumes: tuple[str, ...] = ("vol-1",), **changes: Any
) -> dict[str, Any]:
    """Return an instance that was stopped that many days ago."""
    at = NOW - timedelta(days=days)
    return {
        "InstanceId": "i-1",
        "InstanceType": "g5.xlarge",
        "State": {"Name": "stopped"},
        "StateTransitionReason": f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)",
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/sda1", "Ebs": {"VolumeId": volume_id}} for volume_id in volumes
        ],
        "Tags": [{"Key": "Name", "Value": "notebook"}, {"Key": "Owner", "Value": "ada"}],
        **changes,
    }


def volume(volume_id: str = "vol-1", size: int = 730, **changes: Any) -> dict[str, Any]:
    """Return a volume that was made 100 days ago."""
    return {
        "VolumeId": volume_id,
        "Size": size,
        "VolumeType": "gp3",
        "Iops": 3000,
        "Throughput": 125,
        "State": "available",
        "CreateTime": NOW - 100 * DAY,
        "Attachments": [],
        **changes,
    }


def hosts(*instances: Mapping[str, Any], volumes: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return EC2's answers about instances and their volumes."""
    return {
        INSTANCES: {"Reservations": [{"Instances": list(instances)}]},
        VOLUMES: {"Volumes": list(volumes or (volume(),))},
    }


def test_a_stopped_instance_costs_what_its_volumes_cost() -> None:
    """730 GiB at the policy's 0.08 USD are 58.40 USD a month."""
    row = only_row(StoppedInstances(), hosts(stopped()))
    assert (Finding.UNUSED, Strength.STRONG) == (row.judgment.finding, row.judgment.strength)
    assert row.usd_per_month is not None
    assert Decimal("58.40") == round(row.usd_per_month, 6)
    assert "stopped for 40 days; 1 volume of 730 GiB in all" == row.judgment.evidence
    assert NOW - 40 * DAY == row.judgment.idle_since
    assert ("notebook", "ada") == (row.resource.name, row.owner)


def test_the_commands_save_the_volumes_before_they_end_the_cost() -> None:
    """A shell runs each only if the one before it succeeded: nothing is deleted without a complete
    snapshot. A volume that outlives its instance is deleted by itself."""
    attached = [{"Device": "/dev/sda1", "DeleteOnTermination": True}]
    volumes = (volume("vol-1", Attachments=attached), volume("vol-2"), volume("vol-3"))
    row = only_row(
        StoppedInstances(), hosts(stopped(volumes=("vol-1", "vol-2", "vol-3")), volumes=volumes)
    )
    region = "--region us-east-1"
    assert [
        f"aws ec2 create-snapshots {region} --instance-specification InstanceId=i-1 --description "
        "'before termination' --query 'Snapshots[].SnapshotId' --output text",
        f"aws ec2 wait snapshot-completed {region} --snapshot-ids x",
        f"aws ec2 describe-instances {region} --instance-ids i-1 "
        "--query 'Reservations[].Instances[].State.Name' --output text",
        f"aws ec2 terminate-instances {region} --instance-ids i-1",
        f"aws ec2 wait instance-terminated {region} --instance-ids i-1",
        f"aws ec2 delete-volume {region} --volume-id vol-2",
        f"aws ec2 delete-volume {region} --volume-id vol-3",
    ] == commands_in(row.command)


def unused_volume() -> Row:
    """A volume that a tag links with GPU hosts."""
    return only_row(
        UnattachedVolumes(),
        available(volume(Tags=[{"Key": "Purpose", "Value": "GPU-Workload"}])),
    )


def unused_instance() -> Row:
    """A stopped instance, one volume of which outlives it."""
    return only_row(StoppedInstances(), hosts(stopped()))


@pytest.mark.parametrize("unused", [unused_volume, unused_instance])
@pytest.mark.parametrize(
    "answers",
    [
        {"create": "exit 1"},
        {"create": "exit 0"},
        {"create": "echo snap-1", "wait": "exit 255"},
        {"create": "echo snap-1", "describe": "echo running", "delete": "exit 254"},
        {"create": "echo snap-1", "describe": "exit 254", "delete": "exit 254"},
    ],
    ids=["refused", "no answer", "not complete in time", "started since", "not shown"],
)
def test_nothing_is_deleted_without_a_complete_snapshot(
    unused: Callable[[], Row], answers: Mapping[str, str], tmp_path: Path
) -> None:
    """In a shell, where `aws` is a program. Without ids, the real one waits for other snapshots,
    and succeeds. EC2 itself deletes no volume that is in use."""
    program = tmp_path / "aws"
    cases = "".join(f"{name}-*|{name}) {does};; " for name, does in answers.items())
    program.write_text(f'#!/bin/sh\necho "$2" >> {tmp_path}/asked\ncase "$2" in {cases}esac\n')
    program.chmod(0o755)
    done = subprocess.run(
        unused().command, shell=True, check=False, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    )
    assert 0 != done.returncode
    asked = (tmp_path / "asked").read_text().split()
    assert "terminate-instances" not in asked
    if "delete" not in answers:
        assert "delete-volume" not in asked


@pytest.mark.parametrize(
    ("days", "finding"),
    [
        (0, Finding.TOO_YOUNG),
        (29, Finding.TOO_YOUNG),
        (29.9999, Finding.TOO_YOUNG),
        (30, Finding.UNUSED),
        (31, Finding.UNUSED),
        (400, Finding.UNUSED),
    ],
)
def test_an_instance_is_unused_from_30_days_on(days: float, finding: Finding) -> None:
    """Before that it may be stopped for a holiday."""
    row = only_row(StoppedInstances(), hosts(stopped(days)))
    assert finding is row.judgment.finding
    if finding is not Finding.UNUSED:
        assert Decimal() == row.waste_usd_per_month
        assert "describe-instances" in row.command


@pytest.mark.parametrize("reason", ["", "User initiated", "Server.InternalError (2026-99-99)"])
def test_an_unknown_time_is_not_measured(reason: str) -> None:
    """Missing data is never idleness."""
    row = only_row(StoppedInstances(), hosts(stopped(StateTransitionReason=reason)))
    assert (Finding.NOT_MEASURED, Strength.NONE) == (row.judgment.finding, row.judgment.strength)
    assert Decimal() == row.waste_usd_per_month


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("User initiated (2026-11-27 14:00:00 GMT)", 27),
        ("Server.SpotInstanceShutdown (2026-11-02 00:00:00 GMT)", 2),
        ("(2026-11-31 00:00:00 GMT)", None),
        ("(2026-11-27)", None),
    ],
)
def test_the_time_of_a_stop_is_in_the_words_of_ec2(text: str, day: int | None) -> None:
    """November has no 31st."""
    since: UtcDatetime | None = stopped_since(text)
    assert day == (None if since is None else since.day)


def test_an_instance_without_volumes_costs_nothing() -> None:
    """It is left out, and no volume is asked for."""
    api = ApiTwin({INSTANCES: {"Reservations": [{"Instances": [stopped(volumes=())]}]}})
    assert PlaceReport((), ()) == scan_place(where({}, api=api), [StoppedInstances()])


def test_a_volume_that_ec2_does_not_show_leaves_the_price_unknown() -> None:
    """`None`, never the price of the others alone."""
    row = only_row(StoppedInstances(), hosts(stopped(volumes=("vol-1", "vol-2"))))
    assert row.usd_per_hour is None
    assert Finding.UNUSED is row.judgment.finding


def test_an_exempt_instance_is_left_alone() -> None:
    """Its tag says so."""
    tags = [{"Key": "GpuGovernor", "Value": "exempt"}]
    row = only_row(StoppedInstances(), hosts(stopped(Tags=tags)))
    assert Finding.EXEMPT is row.judgment.finding
    assert "" == row.command


@pytest.mark.parametrize(
    ("changes", "service"),
    [
        ({"Tags": [{"Key": "aws:autoscaling:groupName", "Value": "fleet"}]}, "EC2 Auto Scaling"),
        ({"Tags": [{"Key": "Coder_Provisioned", "Value": "true"}]}, "Coder"),
        ({"Operator": {"Managed": True, "Principal": "eks.amazonaws.com"}}, "eks.amazonaws.com"),
    ],
)
def test_a_stopped_instance_of_a_service_is_shown_and_never_ended(
    changes: dict[str, Any], service: str
) -> None:
    """A warm pool keeps stopped instances on purpose, and their service would lose track of one
    that others terminate."""
    row = only_row(StoppedInstances(), hosts(stopped(**changes)))
    assert (Finding.UNUSED, Strength.WEAK) == (row.judgment.finding, row.judgment.strength)
    assert row.judgment.evidence.startswith("stopped for 40 days; 1 volume of 730 GiB in all; ")
    assert f"; {service} runs it (" in row.judgment.evidence
    assert service == row.resource.manager
    assert "aws ec2 describe-instances --region us-east-1 --instance-ids i-1" == row.command


def test_a_young_stop_of_a_service_stays_too_young() -> None:
    """It is not judged yet."""
    tags = [{"Key": "aws:autoscaling:groupName", "Value": "fleet"}]
    row = only_row(StoppedInstances(), hosts(stopped(2, Tags=tags)))
    assert (Finding.TOO_YOUNG, Strength.NONE) == (row.judgment.finding, row.judgment.strength)


def test_volumes_of_many_instances_take_few_calls() -> None:
    """A filter takes 200 ids."""
    instances = [
        stopped(InstanceId=f"i-{number}", volumes=(f"vol-{number}",)) for number in range(1000)
    ]
    volumes = tuple(volume(f"vol-{number}") for number in range(1000))
    api = ApiTwin(hosts(*instances, volumes=volumes))
    report = scan_place(where({}, api=api), [StoppedInstances()])
    assert 1000 == len(report.rows)
    assert 5 == api.count(VOLUMES)


def test_a_volume_of_two_stopped_instances_is_counted_once() -> None:
    """Instances may share a volume."""
    answers = hosts(stopped(), stopped(InstanceId="i-2", volumes=("vol-1", "vol-2")))
    answers[VOLUMES]["Volumes"].append(volume("vol-2", size=73))
    rows = scan_place(where(answers), [StoppedInstances()]).rows
    assert [Decimal("58.40"), Decimal("5.84")] == [row.usd_per_month for row in rows]


def test_an_odd_instance_costs_its_own_row() -> None:
    """It is left out, and the report says so."""
    odd = stopped()
    del odd["InstanceType"]
    report = scan_place(where(hosts(odd, stopped())), [StoppedInstances()])
    assert 1 == len(report.rows)
    assert 1 == len(report.unread)


def test_a_volume_has_the_price_of_the_list_if_that_was_read() -> None:
    """By its type, with what it has above the included IOPS."""
    prices = StoragePrices(
        usd_per_gib_month={"gp3": Decimal("0.1")},
        usd_per_iops_month={"gp3": Decimal("0.01")},
        usd_per_mibps_month={},
    )
    answers = hosts(stopped(), volumes=(volume(size=100, Iops=4000),))
    row = only_row(StoppedInstances(), answers, prices=PricesTwin(storage=prices))
    assert row.usd_per_month is not None
    assert Decimal(20) == round(row.usd_per_month, 6)


def available(*volumes: Mapping[str, Any], snapshots: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return EC2's answers about unattached volumes, and GPU Governor's snapshots."""
    ours = [{"SnapshotId": snapshot_id} for snapshot_id in snapshots]
    return {VOLUMES: {"Volumes": list(volumes)}, SNAPSHOTS: {"Snapshots": ours}}


def test_a_large_volume_that_nothing_links_with_a_gpu_host_is_in_no_sum() -> None:
    """It may be the database of anybody: it is listed with its price, and its command shows it."""
    row = only_row(UnattachedVolumes(), available(volume(size=1000)))
    assert (Finding.UNATTACHED, Strength.WEAK) == (row.judgment.finding, row.judgment.strength)
    expected = (
        "unattached for at least 14 days, 1,000 GiB; listed for its size; it may be left over "
        "from a GPU host, but AWS does not say who left it"
    )
    assert expected == row.judgment.evidence
    assert "1,000 GiB gp3" == row.resource.what
    assert (Decimal(80), Decimal()) == (row.usd_per_month, row.waste_usd_per_month)
    assert "aws ec2 describe-volumes --region us-east-1 --volume-ids vol-1" == row.command


def test_a_volume_that_is_linked_with_a_gpu_host_is_unused() -> None:
    """CloudWatch has figures of it only while it is attached, and had none for two weeks."""
    tag = {"Key": "Purpose", "Value": "GPU-Workload"}
    row = only_row(UnattachedVolumes(), available(volume(size=1000, Tags=[tag])))
    assert (Finding.UNUSED, Strength.STRONG) == (row.judgment.finding, row.judgment.strength)
    assert Decimal(80) == round(row.waste_usd_per_month, 6)
    region = "--region us-east-1"
    assert [
        f"aws ec2 create-snapshot {region} --volume-id vol-1 --description 'before deletion' "
        "--query SnapshotId --output text",
        f"aws ec2 wait snapshot-completed {region} --snapshot-ids x",
        f"aws ec2 delete-volume {region} --volume-id vol-1",
    ] == commands_in(row.command)


HOST = "i-0123456789abcdef0"


@pytest.mark.parametrize(
    ("value", "is_linked"),
    [(HOST, True), (f"backup of {HOST} (sda1)", True), (f"{HOST}f", False), ("i-1", False)],
)
def test_a_tag_that_names_a_stopped_gpu_host_is_a_link(value: str, is_linked: bool) -> None:
    """That holds for a volume, however small, and for an address. Other ids are no link."""
    tags = [{"Key": "Instance", "Value": value}]
    instances = {"Reservations": [{"Instances": [stopped(InstanceId=HOST)]}]}
    answers = {
        **available(volume(Tags=tags)),
        ADDRESSES: {"Addresses": [address(Tags=tags)]},
        INSTANCES: instances,
    }
    for kind in (UnattachedVolumes(), ElasticIps()):
        finding = only_row(kind, answers).judgment.finding
        assert (finding is Finding.UNUSED) == is_linked, kind.name


@pytest.mark.parametrize(("size", "rows"), [(LARGE_GIB - 1, 0), (LARGE_GIB, 1)])
def test_without_a_trace_of_a_gpu_host_only_large_volumes_are_listed(size: int, rows: int) -> None:
    """Small ones are the leftovers of any account."""
    report = scan_place(where(available(volume(size=size))), [UnattachedVolumes()])
    assert rows == len(report.rows)


@pytest.mark.parametrize(
    ("changes", "origin"),
    [
        ({"Tags": [{"Key": "Purpose", "Value": "GPU-Workload"}]}, "tag Purpose=GPU-Workload"),
        ({"Tags": [{"Key": "GpuGovernor:Instance", "Value": "i-1"}]}, "tag of GPU Governor"),
        ({"SnapshotId": "snap-ours"}, "made from snap-ours"),
    ],
)
def test_a_small_volume_of_a_gpu_host_is_listed(changes: dict[str, Any], origin: str) -> None:
    """A tag or a snapshot connects it with one."""
    answers = available(volume(size=8, **changes), snapshots=("snap-ours",))
    assert origin in only_row(UnattachedVolumes(), answers).judgment.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"SnapshotId": "snap-other"},
        {"Tags": [{"Key": "Purpose", "Value": "web"}]},
        {"Tags": [{"Key": "Name", "Value": "p5-training"}]},
    ],
)
def test_a_small_volume_of_others_is_not_listed(changes: dict[str, Any]) -> None:
    """A name proves nothing."""
    answers = available(volume(size=8, **changes), snapshots=("snap-ours",))
    assert PlaceReport((), ()) == scan_place(where(answers), [UnattachedVolumes()])


def test_a_volume_that_was_attached_within_two_weeks_is_no_waste() -> None:
    """A pod may mount it each night."""
    series = (None,) * 10 + (1.0,) + (None,) * 4
    metrics = SeriesTwin({("VolumeIdleTime", "vol-1"): series})
    row = only_row(UnattachedVolumes(), available(volume()), metrics=metrics)
    assert Finding.TOO_YOUNG is row.judgment.finding
    assert "used until 2026-11-25" in row.judgment.evidence
    assert Decimal() == row.waste_usd_per_month
    (window,) = metrics.windows
    assert window.end - 15 * DAY == window.start
    assert 15 == window.bins


@pytest.mark.parametrize(
    ("age", "finding"),
    [
        (14 * DAY - timedelta(minutes=1), Finding.TOO_YOUNG),
        (14 * DAY, Finding.UNATTACHED),
    ],
)
def test_a_young_volume_may_wait_for_its_instance(age: timedelta, finding: Finding) -> None:
    """It exists for less than two weeks."""
    answers = available(volume(CreateTime=NOW - age))
    assert finding is only_row(UnattachedVolumes(), answers).judgment.finding


def test_a_volume_without_measurements_is_not_measured() -> None:
    """CloudWatch refused: nothing is known but that it is unattached now."""
    metrics = SeriesTwin(problem="AccessDenied: not authorized")
    report = scan_place(where(available(volume()), metrics=metrics), [UnattachedVolumes()])
    (row,) = report.rows
    assert Finding.NOT_MEASURED is row.judgment.finding
    assert Decimal() == row.waste_usd_per_month
    assert ["cloudwatch:GetMetricData"] == [line.operation for line in report.unread]


def test_a_shared_volume_is_measured_by_its_reads() -> None:
    """Volumes of several instances have no idle time."""
    metrics = SeriesTwin()
    answers = available(volume(MultiAttachEnabled=True, VolumeType="io2"))
    only_row(UnattachedVolumes(), answers, metrics=metrics)
    assert ["VolumeReadOps"] == [query.metric for query in metrics.asked]


def test_snapshots_that_may_not_be_read_are_reported() -> None:
    """The large volumes are listed all the same."""
    denied = AccessDenied("x", operation=SNAPSHOTS, words="no right")
    answers = {**available(volume(SnapshotId="snap-1")), SNAPSHOTS: denied}
    report = scan_place(where(answers), [UnattachedVolumes()])
    assert 1 == len(report.rows)
    assert [SNAPSHOTS] == [line.operation for line in report.unread]


def test_five_thousand_volumes_in_pages() -> None:
    """EC2 gives 500 a page; every tenth is large, and only those are measured."""
    volumes = [
        volume(f"vol-{number}", size=600 if number % 10 == 0 else 8) for number in range(5000)
    ]
    pages = [{"Volumes": volumes[start : start + 500]} for start in range(0, 5000, 500)]
    metrics = SeriesTwin()
    report = scan_place(where({VOLUMES: pages}, metrics=metrics), [UnattachedVolumes()])
    assert 500 == len(report.rows) == len(metrics.asked)
    assert () == report.unread


@pytest.mark.parametrize("name", ["a, b", "=cmd()", "🚀", 'x"; rm -rf /', "two\nlines"])
def test_a_name_is_one_printable_line(name: str) -> None:
    """Anybody may name a volume. The command has its id alone."""
    row = only_row(UnattachedVolumes(), available(volume(Tags=[{"Key": "Name", "Value": name}])))
    assert " ".join(name.split()) == row.resource.name
    assert "vol-1" in split(row.command)


def test_an_odd_volume_costs_its_own_row() -> None:
    """It is left out, and the report says so."""
    odd = volume("vol-odd")
    del odd["Size"]
    report = scan_place(where(available(odd, volume())), [UnattachedVolumes()])
    assert ["vol-1"] == [row.resource.resource_id for row in report.rows]
    assert 1 == len(report.unread)


def address(**changes: Any) -> dict[str, Any]:
    """Return an address that belongs to nothing."""
    return {
        "PublicIp": "203.0.113.7",
        "AllocationId": "eipalloc-1",
        "Domain": "vpc",
        "PublicIpv4Pool": "amazon",
        **changes,
    }


def test_an_address_that_nothing_links_with_a_gpu_host_is_in_no_sum() -> None:
    """A released address does not come back, so the command only shows it."""
    row = only_row(ElasticIps(), {ADDRESSES: {"Addresses": [address()]}})
    assert (Finding.UNATTACHED, Strength.WEAK) == (row.judgment.finding, row.judgment.strength)
    assert (Decimal("3.65"), Decimal()) == (row.usd_per_month, row.waste_usd_per_month)
    assert "may be left over from a GPU host, but AWS does not say who" in row.judgment.evidence
    assert "describe-addresses" in row.command


def test_an_address_that_a_gpu_host_left_is_unused() -> None:
    """It costs 0.005 USD an hour, as one in use does."""
    tags = [{"Key": "Purpose", "Value": "GPU-Workload"}]
    row = only_row(ElasticIps(), {ADDRESSES: {"Addresses": [address(Tags=tags)]}})
    assert (Finding.UNUSED, Strength.STRONG) == (row.judgment.finding, row.judgment.strength)
    assert Decimal("3.65") == row.waste_usd_per_month
    expected = "aws ec2 release-address --region us-east-1 --allocation-id eipalloc-1"
    assert expected == row.command


@pytest.mark.parametrize(
    "changes",
    [
        {"AssociationId": "eipassoc-1", "NetworkInterfaceId": "eni-1"},
        {"PublicIpv4Pool": "ipv4pool-ec2-1"},
        {"ServiceManaged": "nlb"},
    ],
)
def test_an_address_in_use_or_free_of_charge_is_left_out(changes: dict[str, Any]) -> None:
    """Addresses that a customer brought cost nothing."""
    answers = {ADDRESSES: {"Addresses": [address(**changes)]}}
    assert PlaceReport((), ()) == scan_place(where(answers), [ElasticIps()])


@pytest.mark.parametrize(("days", "finding"), [(29, Finding.TOO_YOUNG), (30, Finding.UNUSED)])
def test_an_address_of_a_stopped_gpu_host_is_judged_by_the_stop(
    days: int, finding: Finding
) -> None:
    """Its command shows it, because the instance would lose it."""
    described = address(InstanceId="i-1", AssociationId="eipassoc-1")
    answers = {ADDRESSES: {"Addresses": [described]}, **hosts(stopped(days))}
    row = only_row(ElasticIps(), answers)
    assert finding is row.judgment.finding
    expected = "aws ec2 describe-addresses --region us-east-1 --allocation-ids eipalloc-1"
    assert expected == row.command


def test_an_address_of_another_instance_is_left_out() -> None:
    """Only stopped accelerated instances are looked at."""
    described = address(InstanceId="i-web", AssociationId="eipassoc-1")
    answers = {ADDRESSES: {"Addresses": [described]}, **hosts(stopped())}
    assert PlaceReport((), ()) == scan_place(where(answers), [ElasticIps()])


def test_the_price_of_an_address_is_that_of_the_list() -> None:
    """AWS may change it."""
    prices = PricesTwin(storage=StoragePrices(address_usd_per_hour=Decimal("0.01")))
    row = only_row(ElasticIps(), {ADDRESSES: {"Addresses": [address()]}}, prices=prices)
    assert Decimal("0.01") == row.usd_per_hour


def test_an_empty_region_takes_a_call_for_each_kind() -> None:
    """Three calls at 50 ms."""
    answers: dict[str, Any] = {
        INSTANCES: {"Reservations": []},
        VOLUMES: {"Volumes": []},
        ADDRESSES: {"Addresses": []},
    }
    api = ApiTwin(answers)
    kinds: list[Kind[Any, Any]] = [StoppedInstances(), UnattachedVolumes(), ElasticIps()]
    assert PlaceReport((), ()) == scan_place(where({}, api=api), kinds)
    assert 3 == len(api.calls)


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        (StoppedInstances(), INSTANCES),
        (UnattachedVolumes(), VOLUMES),
        (ElasticIps(), ADDRESSES),
    ],
)
def test_a_refusal_costs_the_kind_and_names_the_right(kind: Kind[Any, Any], operation: str) -> None:
    """All other kinds are still read."""
    denied = AccessDenied("x", operation=operation, words="no right")
    report = scan_place(where({operation: denied}), [kind])
    assert () == report.rows
    assert [operation] == [line.operation for line in report.unread]
    assert report.unread[0].is_missing_right
