"""Advice about groups and reservations: a plain and a hard case for each rule."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import nan
from typing import Any

import pytest

from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment
from governor.episode.model.plan import Price
from governor.evidence.model import Window
from governor.policy.model.money import Advice as Rule
from governor.sweep.model import BatchEnvironment
from simulation.capacity_advice import Group, Reserved, of_group, reservation, savings_plan
from simulation.past import Past
from simulation.patterns import Advice
from tests.builders import make_reservation
from tests.unit.simulation.pasts import MONDAY, make_past

TAGS = {"aws:autoscaling:groupName": "workers"}
HOME = ManagedEnvironment(EnvironmentKind.GROUP, "EC2 Auto Scaling", "workers")


def half(hour: int) -> float:
    """Twelve hours of work a day."""
    return 90.0 if hour % 24 < 12 else 1.0


def member(high: object, **changes: object) -> Past:
    """One GPU for 1.006 USD an hour."""
    return make_past("g5.xlarge", [high], **{"tags": TAGS, **changes})  # type: ignore[list-item, arg-type]


def kinds(group: Group) -> dict[str, Advice]:
    """Return what is advised, by kind."""
    return {one.kind: one for one in of_group(group)}


def test_a_group_scales_in_when_its_mean_is_low() -> None:
    """One of four members at 1% for half of the hours would do."""
    group = Group(HOME, tuple(member(half) for _ in range(4)), minimum=4)
    found = kinds(group)["scale-in"]

    assert Decimal("1.006") * 730 * 3 / 2 == found.usd_per_month
    assert "under 20% on average, for 10 minutes or longer, in 50% of the time" in found.text
    assert "Its minimum size is 4; now it has 4 instances" in found.text
    assert "123456789012/us-east-1/workers" == found.subject
    unread = kinds(replace(group, minimum=None))
    assert "Its minimum size is unknown" in unread["scale-in"].text
    assert "minimum-size" not in unread


def test_ten_quiet_minutes_of_every_hour_are_enough() -> None:
    """The mean of the hour is 75%: by the hour nobody would see them."""

    def quiet(ten: int) -> float:
        return 0.0 if ten % 6 == 5 else 90.0

    group = Group(HOME, tuple(member(90.0, tens=[quiet]) for _ in range(4)), minimum=1)
    found = kinds(group)["scale-in"]

    assert Decimal("1.006") * 730 * 4 / 6 == found.usd_per_month
    assert "for 10 minutes or longer, in 16% of the time" in found.text


def test_ten_minutes_that_one_member_did_not_publish_are_not_quiet() -> None:
    def silent(ten: int) -> float:
        return nan if ten % 6 == 5 else 90.0

    group = Group(HOME, (member(90.0, tens=[silent]), member(90.0, tens=[silent])), minimum=1)

    assert "scale-in" not in kinds(group)


def test_a_group_is_judged_by_all_its_gpus_together() -> None:
    """One idle member beside two busy ones is no low mean."""
    group = Group(HOME, (member(90.0), member(90.0), member(1.0)), minimum=0)

    assert {} == kinds(group)


def test_a_minimum_that_holds_idle_gpus_gets_the_exact_command() -> None:
    """Two of three idle all the time, and the minimum holds one of them."""
    group = Group(HOME, (member(90.0), member(1.0), member(1.0)), minimum=1)
    found = kinds(group)["minimum-size"]

    assert Decimal("1.006") * 730 == found.usd_per_month
    wanted = (
        "aws autoscaling update-auto-scaling-group --region us-east-1 "
        "--auto-scaling-group-name workers"
    )
    assert f"{wanted} --min-size 0" == found.command


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        (
            ManagedEnvironment(EnvironmentKind.NODE_GROUP, "Amazon EKS", "gpu", "prod"),
            "--scaling-config minSize=0",
        ),
        (
            ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "nightly"),
            "--compute-resources minvCpus=0",
        ),
        (
            ManagedEnvironment(EnvironmentKind.ECS, "Amazon ECS", "inference"),
            "--auto-scaling-group-name workers --min-size 0",
        ),
    ],
)
def test_each_service_has_its_own_command(environment: ManagedEnvironment, wanted: str) -> None:
    is_batch = environment.kind is EnvironmentKind.BATCH
    batch = BatchEnvironment("nightly", 4, 4, 0, 0, {}) if is_batch else None
    found = kinds(Group(environment, (member(1.0),), minimum=1, batch=batch))["minimum-size"]

    assert found.command.endswith(wanted)


def test_a_name_that_anybody_may_write_stays_one_word() -> None:
    tags = {"aws:autoscaling:groupName": "x; curl evil | sh"}
    found = kinds(Group(HOME, (member(1.0, tags=tags),), minimum=1))["minimum-size"]

    assert "x; curl evil | sh" in shlex.split(found.command)


def test_a_group_with_a_silent_or_unpriced_member_promises_nothing() -> None:
    """A member that nobody measured may work; of unknown prices there is no sum."""
    silent = Group(HOME, (member(1.0), member(lambda hour: 1.0 if hour % 2 else nan)), minimum=2)
    unpriced = replace(member(1.0), price=Price(None, "unknown"))

    assert {} == kinds(silent)
    found = kinds(Group(HOME, (member(1.0), unpriced), minimum=2))
    assert {"scale-in": None, "minimum-size": None} == {
        kind: one.usd_per_month for kind, one in found.items()
    }


RESERVED = Reserved(
    make_reservation(available=3, ends_at=None),
    Decimal("55.04"),
    used_at_most=2,
    weeks=6,
    percent_measured=98,
)


def reserved(used_at_most: int | None = 2, **changes: Any) -> Reserved:
    """That one, with changes as EC2 describes it."""
    return replace(RESERVED, now=replace(RESERVED.now, **changes), used_at_most=used_at_most)


def test_a_half_used_reservation_names_its_holder_and_what_it_costs() -> None:
    """Three are free now, but two were used once: two can go."""
    found = reservation(RESERVED)

    assert found is not None
    assert (Decimal("110.08") * 730, 6, 98) == (
        found.usd_per_month,
        found.weeks,
        found.percent_measured,
    )
    assert "2 of 4 are unused (at most 2 were used in 6 weeks): 110.08 USD an hour" in found.text
    assert "It belongs to account 123456789012 (without an end date)" in found.text
    assert "training" == found.name
    assert found.command.endswith(
        "--capacity-reservation-id cr-0123456789abcdef0 --instance-count 2"
    )


def test_an_empty_one_may_be_canceled_and_a_block_cannot() -> None:
    empty = reservation(reserved(0, available=4))
    block = reservation(reserved(is_block=True, ends_at=datetime(2026, 12, 1, 11, 30, tzinfo=UTC)))

    assert empty is not None
    assert "cancel-capacity-reservation" in empty.command
    assert block is not None
    assert ("empty-block", "") == (block.kind, block.command)
    assert "paid for in advance and cannot be canceled" in block.text
    assert "until 2026-12-01 11:30 UTC" in block.text


@pytest.mark.parametrize("changes", [{"available": 0}, {"used_at_most": 4}])
def test_one_that_is_used_or_was_is_left_alone(changes: dict[str, int]) -> None:
    """Empty at this moment is not unused: its holder may need all of it every night."""
    assert reservation(reserved(**changes)) is None


def test_what_is_not_known_of_a_reservation_is_said() -> None:
    found = reservation(
        replace(RESERVED, used_at_most=None, weeks=0, percent_measured=0, usd_per_hour=None)
    )

    assert found is not None
    assert found.usd_per_month is None
    assert "3 of 4 are unused (for how long is not known): its price is not known" in found.text


RULE = Rule()
SIX_WEEKS = Window(MONDAY, MONDAY + timedelta(days=42), timedelta(hours=1))


def plan(days: list[int], discount: str | None = "0.25") -> Advice | None:
    """Return what is advised where days cost so much On-Demand."""
    share = None if discount is None else Decimal(discount)
    return savings_plan("123456789012", [Decimal(day) for day in days], SIX_WEEKS, share, RULE)


def test_a_savings_plan_covers_what_quiet_days_spend_and_names_its_break_even() -> None:
    """Two days of 42 may be quieter: the floor is that of the third."""
    found = plan([0, 24, *[240] * 40])

    assert found is not None
    assert (Decimal("2.5") * 730, 6, 100) == (
        found.usd_per_month,
        found.weeks,
        found.percent_measured,
    )
    assert "at least 10.00 USD an hour On-Demand, after commitments" in found.text
    assert (
        "commits at most 7.50 USD an hour. It pays while at least 75% of that floor" in found.text
    )


@pytest.mark.parametrize("days", [[0] * 3 + [240] * 39, [240] * 27, [240] * 33])
def test_a_floor_that_is_none_or_hardly_known_needs_no_plan(days: list[int]) -> None:
    """One quiet day in fourteen, too few weeks, or too few days of them."""
    assert plan(days) is None


def test_an_unknown_discount_saves_an_unknown_amount() -> None:
    found = plan([240] * 42, None)

    assert found is not None
    assert found.usd_per_month is None
    assert "would save is not known" in found.text
