"""Capacity that is paid for and empty: reservations, blocks, Reserved Instances, Savings Plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.errors import AccessDenied, CloudError
from governor.core.instance import Instance, Lifecycle, Target
from governor.evidence.model import Series, Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.scan.kind import Kind, Place
from governor.scan.kinds.capacity.capacity_block import CapacityBlocks
from governor.scan.kinds.capacity.capacity_reservation import CapacityReservations
from governor.scan.kinds.capacity.reserved_instances import ReservedInstances
from governor.scan.kinds.capacity.rules import free_part
from governor.scan.kinds.capacity.savings_plan import SavingsPlans
from governor.scan.model import Finding, Row, Strength
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import (
    NOW,
    TARGET,
    ApiTwin,
    InstancesTwin,
    PricesTwin,
    SeriesTwin,
    place,
)
from tests.unit.scan.shapes import is_command_of_aws

RESERVATIONS = "ec2:DescribeCapacityReservations"
RESERVED = "ec2:DescribeReservedInstances"
ORGANIZATION = "organizations:DescribeOrganization"
PLANS = "ce:GetSavingsPlansUtilizationDetails"
USD = {"g5.xlarge": Decimal(1), "p5.48xlarge": Decimal(50)}
HOURS = 14 * 24
DAY = timedelta(days=1)


def where(answers: Mapping[str, Any], **changes: Any) -> Place:
    """Return a place in which AWS answers as the test says, and no other operation."""
    means: dict[str, Any] = {
        "api": ApiTwin(answers),
        "prices": PricesTwin(USD),
        "metrics": SeriesTwin(),
        "instances": InstancesTwin(),
        "reads_commitments": True,
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


def reservation(total: int = 4, free: int = 3, **changes: Any) -> dict[str, Any]:
    """Return a reservation that began 30 days ago."""
    return {
        "CapacityReservationId": "cr-1",
        "OwnerId": TARGET.account,
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a",
        "Tenancy": "default",
        "TotalInstanceCount": total,
        "AvailableInstanceCount": free,
        "State": "active",
        "StartDate": NOW - 30 * DAY,
        "CreateDate": NOW - 30 * DAY,
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "open",
        "ReservationType": "default",
        "Tags": [{"Key": "Name", "Value": "research"}, {"Key": "Owner", "Value": "ada"}],
        **changes,
    }


def reservations(*described: Mapping[str, Any]) -> dict[str, Any]:
    """Return EC2's answer."""
    return {RESERVATIONS: {"CapacityReservations": list(described)}}


def used(*values: float | None) -> SeriesTwin:
    """Return CloudWatch with these used instances in the newest hours, and the first of these
    values in all hours before."""
    series: Series = (values[0],) * (HOURS - len(values)) + values
    return SeriesTwin({("UsedInstanceCount", "cr-1"): series})


def test_free_instances_are_waste_at_the_on_demand_price() -> None:
    """EC2's count is a fact, and CloudWatch says since when."""
    row = only_row(CapacityReservations(), reservations(reservation()), metrics=used(1))
    assert (Finding.UNUSED, Strength.STRONG) == (row.judgment.finding, row.judgment.strength)
    assert Decimal(150) == row.usd_per_hour
    assert Decimal(150 * 730) == row.waste_usd_per_month
    assert "3 of 4 instances unused" in row.judgment.evidence
    assert "; empty for at least 13 days" in row.judgment.evidence
    assert "research" == row.resource.name
    assert "ada" == row.owner
    assert "3 x p5.48xlarge, 8 x NVIDIA H100 each" == row.resource.what
    expected = (
        "aws ec2 modify-capacity-reservation --region us-east-1 "
        "--capacity-reservation-id cr-1 --instance-count 1"
    )
    assert expected == row.command


def test_an_empty_reservation_can_be_canceled() -> None:
    """Nothing of it is left then."""
    row = only_row(CapacityReservations(), reservations(reservation(2, 2)), metrics=used(0))
    expected = (
        "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-1"
    )
    assert expected == row.command


@pytest.mark.parametrize(("free", "usd"), [(0, []), (1, [Decimal(50)]), (4, [Decimal(200)])])
def test_only_the_free_part_is_priced(free: int, usd: list[Decimal]) -> None:
    """A full reservation is no row: its instances are."""
    answers = reservations(reservation(4, free))
    rows = scan_place(where(answers, metrics=used(4 - free)), [CapacityReservations()]).rows
    assert usd == [row.usd_per_hour for row in rows]


@pytest.mark.parametrize(
    "changes",
    [
        {"State": "scheduled"},
        {"State": "expired"},
        {"State": "cancelling"},
        {"State": "payment-pending"},
        {"InstanceType": "m5.large"},
        {"OwnerId": "210987654321"},
        {"UnusedReservationBillingOwnerId": "210987654321"},
        {"OutpostArn": "arn:aws:outposts:us-east-1:123456789012:outpost/op-1"},
        {"ReservationType": "capacity-block"},
    ],
)
def test_what_costs_this_account_nothing_now_is_left_out(changes: dict[str, Any]) -> None:
    """Another account pays, it has not begun, it has ended, or it has no accelerators."""
    answers = reservations(reservation(**changes))
    assert PlaceReport((), ()) == scan_place(where(answers), [CapacityReservations()])


def test_an_account_pays_for_a_reservation_that_is_billed_to_it() -> None:
    """Its owner has assigned the unused part."""
    billed_here = reservation(
        OwnerId="210987654321", UnusedReservationBillingOwnerId=TARGET.account
    )
    assert 1 == len(scan_place(where(reservations(billed_here)), [CapacityReservations()]).rows)


@pytest.mark.parametrize(
    ("age", "finding"),
    [
        (timedelta(hours=23, minutes=59), Finding.TOO_YOUNG),
        (timedelta(hours=24), Finding.UNUSED),
        (timedelta(days=30), Finding.UNUSED),
    ],
)
def test_a_young_reservation_is_not_judged(age: timedelta, finding: Finding) -> None:
    """The policy's 24 hours are those after which an empty reservation is reported."""
    answers = reservations(reservation(StartDate=NOW - age))
    assert finding is only_row(CapacityReservations(), answers, metrics=used(1)).judgment.finding


def test_only_what_was_free_all_day_is_waste() -> None:
    """Three of four were used for an hour of the last day, so one is unused."""
    row = only_row(CapacityReservations(), reservations(reservation()), metrics=used(1, 3, 1))
    assert Decimal(50) == row.usd_per_hour
    assert "; 1 of them empty for at least" in row.judgment.evidence
    assert row.command.endswith("--instance-count 3")


def test_a_reservation_that_was_full_within_a_day_is_no_waste() -> None:
    """It is used from time to time."""
    row = only_row(CapacityReservations(), reservations(reservation()), metrics=used(1, 4, 1))
    assert Finding.BUSY is row.judgment.finding
    assert Decimal() == row.waste_usd_per_month


@pytest.mark.parametrize(("hours_ago", "usd"), [(23, 50), (24, 150)])
def test_the_day_has_24_hours(hours_ago: int, usd: int) -> None:
    """Three were used in one hour that long ago."""
    row = only_row(
        CapacityReservations(),
        reservations(reservation()),
        metrics=used(1, 3, *[1] * hours_ago),
    )
    assert Decimal(usd) == row.usd_per_hour


def test_it_is_empty_since_the_last_hour_with_more_instances() -> None:
    """Four were used three days ago."""
    row = only_row(
        CapacityReservations(), reservations(reservation()), metrics=used(1, 4, *[1] * 72)
    )
    assert row.judgment.idle_since is not None
    assert 72 == (NOW + timedelta(hours=1) - row.judgment.idle_since) // timedelta(hours=1)


def test_without_figures_of_cloudwatch_the_count_of_ec2_stands_alone() -> None:
    """It is a fact about this moment, and the report says that no more is known."""
    row = only_row(CapacityReservations(), reservations(reservation()))
    assert Finding.UNUSED is row.judgment.finding
    assert "for how long is not measured" in row.judgment.evidence
    assert row.judgment.idle_since is None


def test_figures_that_may_not_be_read_are_reported() -> None:
    """One line stands for all reservations."""
    described = [reservation(CapacityReservationId=f"cr-{number}") for number in range(3)]
    metrics = SeriesTwin(problem="AccessDenied: not authorized")
    report = scan_place(where(reservations(*described), metrics=metrics), [CapacityReservations()])
    assert 3 == len(report.rows)
    assert ["cloudwatch:GetMetricData"] == [line.operation for line in report.unread]
    assert report.unread[0].is_missing_right


def test_committed_instances_cannot_be_given_back() -> None:
    """A reservation for a future date has a commitment; its command only shows it."""
    until = NOW + 10 * DAY
    commitment = {"CommittedInstanceCount": 4, "CommitmentEndDate": until}
    row = only_row(
        CapacityReservations(),
        reservations(reservation(CommitmentInfo=commitment)),
        metrics=used(1),
    )
    assert Finding.UNUSED is row.judgment.finding
    assert "4 are committed until 2026-12-08" in row.judgment.evidence
    assert "describe-capacity-reservations" in row.command


def test_lent_instances_go_back_to_the_reservation_that_lends_them() -> None:
    """An interruptible reservation cannot be changed by itself."""
    lent = reservation(
        Interruptible=True, InterruptionInfo={"SourceCapacityReservationId": "cr-source"}
    )
    row = only_row(CapacityReservations(), reservations(lent), metrics=used(1))
    expected = (
        "aws ec2 update-interruptible-capacity-reservation-allocation --region us-east-1 "
        "--capacity-reservation-id cr-source --target-instance-count 1"
    )
    assert expected == row.command


def test_a_platform_has_its_own_price() -> None:
    """The price list knows Windows by another operation."""
    prices = PricesTwin(USD)
    windows = reservation(InstancePlatform="Windows", Tenancy="dedicated")
    only_row(CapacityReservations(), reservations(windows), prices=prices)
    asked = prices.asked[0]
    assert ("Windows", "RunInstances:0002", "Dedicated") == (
        asked.platform,
        asked.operation,
        asked.tenancy,
    )


def test_an_unknown_price_is_no_waste_in_the_sum() -> None:
    """It is `None`, never zero."""
    row = only_row(CapacityReservations(), reservations(reservation()), prices=PricesTwin())
    assert row.usd_per_hour is None
    assert Decimal() == row.waste_usd_per_month


def test_an_odd_reservation_costs_its_own_row() -> None:
    """It is left out, and the report says so."""
    odd = reservation()
    del odd["TotalInstanceCount"]
    report = scan_place(where(reservations(odd, reservation())), [CapacityReservations()])
    assert 1 == len(report.rows)
    assert 1 == len(report.unread)


def test_an_empty_region_takes_one_call_for_reservations_and_blocks() -> None:
    """Both kinds read the same list."""
    api = ApiTwin(reservations())
    report = scan_place(where({}, api=api), [CapacityReservations(), CapacityBlocks()])
    assert PlaceReport((), ()) == report
    assert 1 == len(api.calls)


def test_a_block_is_paid_in_advance_and_has_no_monthly_waste() -> None:
    """EC2 does not show its price, and nothing can be given back."""
    block = reservation(
        ReservationType="capacity-block", EndDate=NOW + 5 * DAY, EndDateType="limited"
    )
    row = only_row(CapacityBlocks(), reservations(block))
    assert (Finding.UNUSED, Strength.STRONG) == (row.judgment.finding, row.judgment.strength)
    assert row.usd_per_hour is None
    assert row.resource.is_prepaid
    assert Decimal() == row.waste_usd_per_month
    assert "cannot be given back" in row.judgment.evidence
    assert "2026-12-03 12:00 UTC" in row.judgment.evidence
    assert "describe-capacity-reservations" in row.command


@pytest.mark.parametrize(
    "changes", [{"State": "scheduled"}, {"AvailableInstanceCount": 0}, {"State": "payment-failed"}]
)
def test_a_block_that_has_not_begun_or_is_full_is_left_out(changes: dict[str, Any]) -> None:
    """Its instances are rows of their own."""
    block = reservation(ReservationType="capacity-block", **changes)
    assert PlaceReport((), ()) == scan_place(where(reservations(block)), [CapacityBlocks()])


def purchase(count: int = 2, **changes: Any) -> dict[str, Any]:
    """Return a purchase of Reserved Instances of a Region for a year: each was half paid in
    advance, and costs 1 USD an hour in all."""
    return {
        "ReservedInstancesId": "ri-1",
        "InstanceType": "g5.xlarge",
        "InstanceCount": count,
        "ProductDescription": "Linux/UNIX (Amazon VPC)",
        "InstanceTenancy": "default",
        "Scope": "Region",
        "State": "active",
        "CurrencyCode": "USD",
        "Start": NOW - 100 * DAY,
        "End": NOW + 265 * DAY,
        "Duration": 365 * 24 * 3600,
        "FixedPrice": 4380.0,
        "UsagePrice": 0.0,
        "RecurringCharges": [{"Amount": 0.5, "Frequency": "Hourly"}],
        **changes,
    }


def running(instance_type: str = "g5.xlarge", **changes: Any) -> Instance:
    """Return a running On-Demand instance."""
    facts: dict[str, Any] = {
        "target": TARGET,
        "instance_id": "i-1",
        "instance_type": instance_type,
        "state": "running",
        "launch_time": NOW - DAY,
        "availability_zone": "us-east-1a",
    }
    return Instance(**{**facts, **changes})


def alone() -> CloudError:
    """Return the error of an account that is in no organization."""
    return CloudError(
        "x", operation=ORGANIZATION, code="AWSOrganizationsNotInUseException", words="none"
    )


def reserved(
    *purchases: Mapping[str, Any], organization: Any = None, free: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return EC2's answers, by default in an account without an organization."""
    return {
        RESERVED: {"ReservedInstances": list(purchases)},
        ORGANIZATION: alone() if organization is None else organization,
        **reservations(*free),
    }


def test_reserved_instances_that_nothing_uses_are_weakly_unused() -> None:
    """Instances that run at this moment prove nothing about other hours."""
    row = only_row(ReservedInstances(), reserved(purchase(3)), instances=InstancesTwin([running()]))
    assert (Finding.UNUSED, Strength.WEAK) == (row.judgment.finding, row.judgment.strength)
    assert Decimal(2) == row.usd_per_hour
    assert "2 of 3 pay for nothing that runs here now, until 2027-08-20" in row.judgment.evidence
    expected = (
        "aws ec2 describe-reserved-instances --region us-east-1 --reserved-instances-ids ri-1"
    )
    assert expected == row.command


@pytest.mark.parametrize(
    ("instances", "unused"),
    [
        ([], 2),
        ([running()], 1),
        ([running(), running()], 0),
        ([running(lifecycle=Lifecycle.SPOT)], 2),
        ([running(lifecycle=Lifecycle.CAPACITY_BLOCK)], 2),
        ([running(host_id="h-1")], 2),
        ([running(platform="Windows")], 2),
        ([running(tenancy="Dedicated")], 2),
        ([running("p5.48xlarge")], 2),
        ([running("g5.2xlarge")], 0),
        ([running("g5.24xlarge")], 0),
        ([running("g5.newsize")], 0),
    ],
)
def test_in_doubt_a_reserved_instance_counts_as_used(
    instances: Sequence[Instance], unused: int
) -> None:
    """AWS applies some to other sizes of the family, so those count as its use."""
    report = scan_place(
        where(reserved(purchase(2)), instances=InstancesTwin(instances)), [ReservedInstances()]
    )
    assert ([Decimal(unused)] if unused else []) == [row.usd_per_hour for row in report.rows]


@pytest.mark.parametrize(
    ("instance_type", "unused"),
    [("g5.24xlarge", []), ("g5.2xlarge", [1, 1]), ("g5.newsize", [])],
)
def test_purchases_share_the_vcpus_of_another_size(instance_type: str, unused: list[int]) -> None:
    """A g5.24xlarge has those of 24 small ones, and a g5.2xlarge those of two."""
    purchases = [purchase(2), purchase(2, ReservedInstancesId="ri-2")]
    answers = reserved(*purchases)
    instances = InstancesTwin([running(instance_type)])
    rows = scan_place(where(answers, instances=instances), [ReservedInstances()]).rows
    assert sum(unused) == sum(row.usd_per_hour or 0 for row in rows)


@pytest.mark.parametrize(("zone", "rows"), [("us-east-1a", 0), ("us-east-1b", 1)])
def test_a_purchase_for_a_zone_pays_there_alone(zone: str, rows: int) -> None:
    """It does so before those for the Region."""
    zonal = purchase(1, AvailabilityZone=zone, Scope="Availability Zone")
    report = scan_place(
        where(reserved(zonal), instances=InstancesTwin([running()])), [ReservedInstances()]
    )
    assert rows == len(report.rows)


def test_two_purchases_do_not_use_the_same_instance() -> None:
    """One instance is paid for once."""
    purchases = [purchase(1), purchase(1, ReservedInstancesId="ri-2")]
    report = scan_place(
        where(reserved(*purchases), instances=InstancesTwin([running()])), [ReservedInstances()]
    )
    assert 1 == len(report.rows)


def test_in_an_organization_other_accounts_may_use_them() -> None:
    """So they are not measured, and never waste."""
    answers = reserved(purchase(2), organization={"Organization": {"Id": "o-1"}})
    row = only_row(ReservedInstances(), answers)
    assert (Finding.NOT_MEASURED, Strength.NONE) == (row.judgment.finding, row.judgment.strength)
    assert Decimal() == row.waste_usd_per_month


def test_an_organization_that_may_not_be_read_is_reported() -> None:
    """Sharing is then assumed."""
    denied = AccessDenied("x", operation=ORGANIZATION, words="no right")
    report = scan_place(where(reserved(purchase(2), organization=denied)), [ReservedInstances()])
    assert [Finding.NOT_MEASURED] == [row.judgment.finding for row in report.rows]
    assert [ORGANIZATION] == [line.operation for line in report.unread]


def test_an_account_without_reserved_instances_takes_one_call() -> None:
    """Instances and reservations are read only to be compared."""
    api = ApiTwin({RESERVED: {"ReservedInstances": []}})
    assert PlaceReport((), ()) == scan_place(where({}, api=api), [ReservedInstances()])
    assert 1 == len(api.calls)


def plan(unused: str = "84", total: str = "168", **attributes: str) -> dict[str, Any]:
    """Return Cost Explorer's figures of a plan that commits 1 USD an hour."""
    return {
        "SavingsPlanArn": f"arn:aws:savingsplans::{TARGET.account}:savingsplan/sp-1",
        "Attributes": {"SavingsPlansType": "ComputeSavingsPlans", **attributes},
        "Utilization": {
            "TotalCommitment": total,
            "UsedCommitment": "0",
            "UnusedCommitment": unused,
            "UtilizationPercentage": "50",
        },
    }


def plans(*described: Mapping[str, Any]) -> dict[str, Any]:
    """Return Cost Explorer's answer."""
    period = {"Start": "2026-11-20", "End": "2026-11-27"}
    return {
        PLANS: {
            "SavingsPlansUtilizationDetails": list(described),
            "TimePeriod": period,
        }
    }


def test_the_unused_part_of_a_plan_is_waste() -> None:
    """Cost Explorer's figure of seven full days is a fact."""
    row = only_row(SavingsPlans(), plans(plan()))
    assert (Finding.UNUSED, Strength.STRONG) == (row.judgment.finding, row.judgment.strength)
    assert Decimal("0.5") == row.usd_per_hour
    assert "50% of the commitment was not used in 7 days" in row.judgment.evidence
    assert row.command.endswith("describe-savings-plans --region us-east-1 --savings-plan-ids sp-1")


@pytest.mark.parametrize(("unused", "rows"), [("0", 0), ("0.01", 1), ("168", 1), ("NaN", 0)])
def test_a_plan_that_is_used_up_is_no_row(unused: str, rows: int) -> None:
    """All of it pays for something."""
    assert rows == len(scan_place(where(plans(plan(unused))), [SavingsPlans()]).rows)


@pytest.mark.parametrize(
    ("attributes", "rows"),
    [
        ({"InstanceFamily": "m5"}, 0),
        ({"InstanceFamily": "p5"}, 1),
        ({"SavingsPlansType": "Database"}, 0),
        ({"SavingsPlansType": "SageMakerSavingsPlans"}, 1),
    ],
)
def test_a_plan_that_pays_for_no_accelerators_is_left_out(
    attributes: dict[str, str], rows: int
) -> None:
    """A plan of a family pays for that family alone."""
    assert rows == len(scan_place(where(plans(plan(**attributes))), [SavingsPlans()]).rows)


def test_a_plan_counts_in_the_account_that_owns_it() -> None:
    """The payer of an organization sees all plans, and must not count them again."""
    other = {**plan(), "SavingsPlanArn": "arn:aws:savingsplans::210987654321:savingsplan/sp-2"}
    assert PlaceReport((), ()) == scan_place(where(plans(other)), [SavingsPlans()])


def test_a_young_plan_counts_its_own_hours() -> None:
    """It was bought a day before the end of the period, and wasted 12 USD of 24 since."""
    row = only_row(SavingsPlans(), plans(plan("12", "24", StartDateTime="2026-11-26T00:00:00Z")))
    assert Decimal("0.5") == row.usd_per_hour


@pytest.mark.parametrize(
    ("ends_at", "rows"),
    [("2026-11-24T12:00:00.000Z", 0), ("2026-11-28T12:00:00.000Z", 0), ("2026-11-29T00:00:00Z", 1)],
)
def test_a_plan_that_has_ended_wastes_nothing_any_more(ends_at: str, rows: int) -> None:
    """Cost Explorer lists it for as long as it was in force on one of the seven days."""
    answers = plans(plan("48", "96", EndDateTime=ends_at))
    assert rows == len(scan_place(where(answers), [SavingsPlans()]).rows)


def test_plans_are_asked_for_once_an_account() -> None:
    """A plan has no Region, and each request is billed."""
    api = ApiTwin(plans(plan()))
    first = where({}, api=api)
    second = where({}, api=api, target=Target(TARGET.account, "eu-west-1"), kept=first.kept)
    rows = [scan_place(one, [SavingsPlans()]).rows for one in (first, second)]
    assert [1, 0] == [len(found) for found in rows]
    assert 1 == len(api.calls)


def test_plans_are_not_asked_for_unless_that_was_wanted() -> None:
    """Each request costs 0.01 USD."""
    api = ApiTwin({})
    assert () == scan_place(where({}, api=api, reads_commitments=False), [SavingsPlans()]).rows


def test_an_account_without_plans_is_no_missing_part() -> None:
    """Cost Explorer refuses the question then."""
    none = CloudError("x", operation=PLANS, code="DataUnavailableException", words="no data")
    assert PlaceReport((), ()) == scan_place(where({PLANS: none}), [SavingsPlans()])


@dataclass
class Refusing:
    """A place's kinds, each of which AWS refuses."""

    kind: Kind[Any, Any]
    operation: str


@pytest.mark.parametrize(
    "refusing",
    [
        Refusing(CapacityReservations(), RESERVATIONS),
        Refusing(CapacityBlocks(), RESERVATIONS),
        Refusing(ReservedInstances(), RESERVED),
        Refusing(SavingsPlans(), PLANS),
    ],
)
def test_a_refusal_costs_the_kind_and_names_the_right(refusing: Refusing) -> None:
    """All other kinds are still read."""
    denied = AccessDenied("x", operation=refusing.operation, words="no right")
    report = scan_place(where({refusing.operation: denied}), [refusing.kind])
    assert () == report.rows
    assert [refusing.operation] == [line.operation for line in report.unread]
    assert report.unread[0].is_missing_right


def test_the_hour_of_the_scan_is_part_of_the_window() -> None:
    """The window ends with the hour that has begun."""
    metrics = used(1)
    only_row(CapacityReservations(), reservations(reservation()), metrics=metrics)
    (window,) = metrics.windows
    assert datetime(2026, 11, 28, 13, tzinfo=NOW.tzinfo) == window.end
    assert HOURS == window.bins


@pytest.mark.parametrize(
    ("free_now", "most_used", "count"),
    [(3, 1, 3), (2, 1, 2), (3, 1.5, 2), (3, 4, 0), (3, 9, 0)],
)
def test_the_free_part_is_the_least_of_now_and_the_day(
    free_now: int, most_used: float, count: int
) -> None:
    """A part of an instance counts as one that was used."""
    window = Window(NOW - 2 * DAY, NOW, timedelta(hours=1))
    part = free_part(4, free_now, (most_used,) * window.bins, window, DAY)
    assert (count, True) == (part.count, part.is_measured)


def test_a_purchase_for_a_zone_takes_its_instance_before_one_for_the_region() -> None:
    """Otherwise that of the zone would seem unused, and the other would have its other zone."""
    zonal = purchase(1, ReservedInstancesId="ri-z", AvailabilityZone="us-east-1a")
    instances = [running(), running(availability_zone="us-east-1b")]
    report = scan_place(
        where(reserved(purchase(1), zonal), instances=InstancesTwin(instances)),
        [ReservedInstances()],
    )
    assert () == report.rows


@pytest.mark.parametrize(
    ("changes", "rows"),
    [({}, 0), ({"ReservationType": "capacity-block"}, 1), ({"State": "expired"}, 1)],
)
def test_a_purchase_pays_for_free_places_of_reservations_alone(
    changes: dict[str, str], rows: int
) -> None:
    """A block is paid in advance."""
    free = reservation(1, 1, InstanceType="g5.xlarge", **changes)
    report = scan_place(where(reserved(purchase(1), free=[free])), [ReservedInstances()])
    assert rows == len(report.rows)


def test_figures_with_a_problem_do_not_count() -> None:
    """CloudWatch may give a part of them, and say that more is missing."""

    class Partial(SeriesTwin):
        """CloudWatch, that gives readings and a problem."""

        def read(
            self, target: Target, queries: Sequence[MetricQuery], window: Window
        ) -> MetricAnswer:
            """Return both."""
            answer = super().read(target, queries, window)
            return MetricAnswer(answer.series, dict.fromkeys(answer.series, "more is missing"))

    metrics = Partial({("UsedInstanceCount", "cr-1"): 0.0})
    report = scan_place(
        where(reservations(reservation()), metrics=metrics), [CapacityReservations()]
    )
    assert "for how long is not measured" in report.rows[0].judgment.evidence
    assert 1 == len(report.unread)


@pytest.mark.parametrize("newest", [(None,) * 24, (None,) * 23 + (0.0,)])
def test_a_hole_in_the_newest_figures_proves_no_empty_reservation(
    newest: tuple[float | None, ...],
) -> None:
    # The figures before the hole say nothing of the hours after which a reservation is empty.
    row = only_row(
        CapacityReservations(), reservations(reservation(4, 4)), metrics=used(*(0.0,) * 48, *newest)
    )
    assert (row.judgment.finding, row.judgment.strength) == (Finding.UNUSED, Strength.WEAK)
    assert "for how long is not measured" in row.judgment.evidence
    assert "describe-capacity-reservations" in row.command
