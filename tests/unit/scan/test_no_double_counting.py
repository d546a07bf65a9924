"""Money is counted once over all kinds: by the row of the thing that AWS charges for."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from governor.core.errors import CloudError
from governor.core.instance import Instance
from governor.scan.kind import Kind
from governor.scan.kinds.capacity.capacity_block import CapacityBlocks
from governor.scan.kinds.capacity.capacity_reservation import CapacityReservations
from governor.scan.kinds.capacity.reserved_instances import ReservedInstances
from governor.scan.kinds.capacity.savings_plan import SavingsPlans
from governor.scan.kinds.groups.auto_scaling_group import AutoScalingGroups
from governor.scan.kinds.groups.batch_environment import BatchEnvironments
from governor.scan.kinds.groups.eks_node_group import EksNodeGroups
from governor.scan.kinds.groups.fleets import Ec2Fleets, SpotFleets
from governor.scan.kinds.remains.elastic_ip import ElasticIps
from governor.scan.kinds.remains.stopped_instance import StoppedInstances
from governor.scan.kinds.remains.unattached_volume import UnattachedVolumes
from governor.scan.model import Finding, Judgment, Report, Row, Strength
from governor.scan.rules import groups_of, most_expensive_waste_first
from governor.scan.scan_place import scan_place
from governor.scan.words import remarks
from tests.unit.scan import test_capacity as capacity
from tests.unit.scan import test_groups as groups
from tests.unit.scan import test_remains as remains
from tests.unit.scan.kinds import (
    NOW,
    TARGET,
    ApiTwin,
    InstancesTwin,
    KindTwin,
    PricesTwin,
    SeriesTwin,
    place,
    resource,
)

KINDS: tuple[Kind[Any, Any], ...] = (
    AutoScalingGroups(),
    EksNodeGroups(),
    BatchEnvironments(),
    SpotFleets(),
    Ec2Fleets(),
    CapacityReservations(),
    CapacityBlocks(),
    ReservedInstances(),
    SavingsPlans(),
    StoppedInstances(),
    UnattachedVolumes(),
    ElasticIps(),
)
EMPTY: Mapping[str, Any] = {
    groups.GROUPS: {"AutoScalingGroups": []},
    groups.ENVIRONMENTS: {"computeEnvironments": []},
    groups.SPOT_FLEETS: {"SpotFleetRequestConfigs": []},
    groups.FLEETS: {"Fleets": []},
    capacity.RESERVATIONS: {"CapacityReservations": []},
    capacity.RESERVED: {"ReservedInstances": []},
    remains.INSTANCES: {"Reservations": []},
    remains.VOLUMES: {"Volumes": []},
    remains.ADDRESSES: {"Addresses": []},
}
USD = {"g5.xlarge": Decimal(1), "p5.48xlarge": Decimal(50)}


def report_of(
    answers: Mapping[str, Any], *others: Kind[Any, Any], running: tuple[Instance, ...] = ()
) -> Report:
    """Return the report on all kinds of this room, and on those that a test adds."""
    here = place(
        api=ApiTwin({**EMPTY, **answers}),
        prices=PricesTwin(USD),
        metrics=SeriesTwin(),
        instances=InstancesTwin(running),
    )
    found = scan_place(here, [*KINDS, *others])
    assert () == found.unread
    return Report(NOW, most_expensive_waste_first(found.rows), found.unread, (TARGET,))


def idle_instances(number: int) -> KindTwin:
    """Return EC2's kind with so many idle instances of 1 USD an hour."""
    idle = Judgment(Finding.IDLE, Strength.STRONG, "no GPU worked")
    ids = [f"i-{index}" for index in range(number)]
    return KindTwin([resource(one) for one in ids], dict.fromkeys(ids, idle), Decimal(1))


def waste_by_kind(rows: tuple[Row, ...]) -> dict[str, Decimal]:
    """Return the waste of each kind an hour, without those that waste nothing."""
    sums: dict[str, Decimal] = {}
    for row in rows:
        if row.waste_usd_per_month and row.usd_per_hour is not None:
            sums[row.kind] = sums.get(row.kind, Decimal()) + row.usd_per_hour
    return sums


def test_a_group_its_idle_instances_and_its_reservation_are_counted_once() -> None:
    """The group keeps two instances in a reservation for three: two idle ones and a free place."""
    described = capacity.reservation(3, 1, InstanceType="g5.xlarge")
    answers = {
        **groups.groups(groups.group(2)),
        **capacity.reservations(described),
    }
    report = report_of(answers, idle_instances(2))
    assert {"twin": Decimal(2), "capacity-reservation": Decimal(1)} == waste_by_kind(report.rows)
    assert Decimal(3 * 730) == report.waste_usd_per_month
    (group,) = [row for row in report.rows if row.kind == "auto-scaling-group"]
    assert Decimal(2) == group.usd_per_hour
    assert group.judgment.finding.is_priced_elsewhere
    assert Decimal() == group.own_usd_per_month
    total = sum(one.usd_per_month for one in groups_of(report.rows, lambda row: row.kind))
    assert Decimal(3 * 730) == total
    # CloudWatch has no figures of the reservation here.
    assert ["The evidence for $730 of the waste is weak: ask before you act."] == remarks(report)


def test_groups_and_fleets_never_waste_anything_themselves() -> None:
    """Two groups may even keep the same instance, as a node group and its Auto Scaling group do."""
    answers = {
        **groups.groups(groups.group(2), groups.group(3, Tags=groups.NODE_GROUP_TAGS)),
        groups.NODE_GROUP: groups.node_group(3),
        **groups.environments(groups.environment()),
        groups.SPOT_FLEETS: {"SpotFleetRequestConfigs": [groups.spot_fleet()]},
        groups.FLEETS: {"Fleets": [groups.ec2_fleet()]},
    }
    report = report_of(answers)
    assert 5 == len(report.rows)
    assert Decimal() == report.waste_usd_per_month
    assert {Finding.KEEPS_RUNNING} == {row.judgment.finding for row in report.rows}


def test_a_reserved_instance_of_an_empty_reservation_is_not_counted_again() -> None:
    """It pays for the free place, whose price is counted in full."""
    answers = {
        **capacity.reservations(capacity.reservation(1, 1, InstanceType="g5.xlarge")),
        capacity.RESERVED: {"ReservedInstances": [capacity.purchase(1)]},
    }
    report = report_of(answers)
    assert {"capacity-reservation": Decimal(1)} == waste_by_kind(report.rows)


def test_a_reserved_instance_of_an_idle_instance_is_not_counted_again() -> None:
    """It pays for the instance, whose price is counted in full."""
    answers = {
        capacity.RESERVED: {"ReservedInstances": [capacity.purchase(2)]},
        capacity.ORGANIZATION: CloudError(
            "x",
            operation=capacity.ORGANIZATION,
            code="AWSOrganizationsNotInUseException",
            words="none",
        ),
    }
    report = report_of(answers, idle_instances(1), running=(capacity.running(),))
    assert {"twin": Decimal(1), "reserved-instances": Decimal(1)} == waste_by_kind(report.rows)


def test_a_stopped_instance_its_volumes_and_its_address_are_counted_once() -> None:
    """Its volumes are in its own row; an attached volume is not listed as unattached."""
    described = remains.address(InstanceId="i-1", AssociationId="eipassoc-1")
    volume = remains.volume(State="in-use")

    def volumes(Filters: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """Return the attached volume by its id, and none that is available."""
        is_by_id = Filters[0]["Name"] == "volume-id"
        return {"Volumes": [volume] if is_by_id else []}

    answers = {
        **remains.hosts(remains.stopped(40)),
        remains.VOLUMES: volumes,
        remains.ADDRESSES: {"Addresses": [described]},
    }
    report = report_of(answers)
    assert ["stopped-instance", "elastic-ip"] == [row.kind for row in report.rows]
    expected = Decimal("58.40") + Decimal("3.65")
    assert expected == report.waste_usd_per_month


def test_an_empty_region_takes_nine_calls() -> None:
    """At 50 ms each that is half a second, Regions being scanned at the same time."""
    api = ApiTwin(EMPTY)
    report = scan_place(place(api=api), KINDS)
    assert ((), ()) == (report.rows, report.unread)
    assert 9 == len(api.calls)


def test_kinds_call_nothing_that_is_not_on_their_lists() -> None:
    """The lists are the policy that a scan prints."""
    operations = {operation for kind in KINDS for operation in kind.operations}
    assert {*EMPTY} <= operations
    verbs = ("Describe", "Get")
    assert [] == [name for name in operations if not name.partition(":")[2].startswith(verbs)]
