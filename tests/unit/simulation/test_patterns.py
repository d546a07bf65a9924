"""Advice about one instance: one plain and one hard case for each rule, and what holds for all."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.alerts.model import NOBODY
from governor.core.catalog import accelerated_types, list_price, shape_of
from governor.core.instance import CHECKPOINT_TAG, Lifecycle, tag_command
from governor.episode.model.plan import Price
from governor.policy.model.judging import IdleRule
from governor.policy.model.money import Advice as Rule
from governor.policy.model.policy import Policy
from simulation.past import Past
from simulation.patterns import (
    Advice,
    SpotOffer,
    asks_for_spot,
    of_instance,
    spot,
    ungoverned,
    vcpus_of,
)
from tests.builders import make_instance
from tests.properties import examples
from tests.unit.simulation.pasts import HOURS, make_past

BUSY, QUIET = 80.0, 1.0


def kinds(past: Past) -> dict[str, Advice]:
    """Return what is advised, by kind."""
    return {one.kind: one for one in of_instance(past)}


def two_of_eight(**changes: object) -> Past:
    """A g5.48xlarge of which six GPUs never worked."""
    return make_past(high=[BUSY] * 2 + [QUIET] * 6, **changes)  # type: ignore[arg-type]


def test_fewer_gpus_are_named_with_their_saving() -> None:
    """The cheapest of the same GPUs that hold the peak; the month has as many hours as the weeks
    show."""
    found = kinds(two_of_eight())["smaller-type"]

    per_hour = Decimal("16.288") - Decimal("5.672")
    assert (per_hour * 730, 6, 100) == (found.usd_per_month, found.weeks, found.percent_measured)
    assert "Only 2 of 8 GPUs were ever in use" in found.text
    assert (
        "Fits: g5.12xlarge ($7,750 a month less), g5.24xlarge ($5,945 a month less)." in found.text
    )
    assert "smaller-type:i-0123456789abcdef0" == found.advice_id


@pytest.mark.parametrize(
    "memory",
    [
        [22_000.0] * 8,  # what idle GPUs hold would not fit into four
        [22_000.0, *[100.0] * 7],  # one GPU is full to the brim
        [1024.0] * 7,  # one GPU's memory is not known
        [1024.0] * 7 + [nan],
    ],
)
def test_a_memory_peak_that_does_not_fit_or_is_not_known_advises_no_smaller_type(
    memory: list[float],
) -> None:
    assert "smaller-type" not in kinds(two_of_eight(memory=memory))


def test_a_single_hour_of_work_on_every_gpu_needs_all_of_them() -> None:
    """The rule is about what ever worked, not about means."""
    one = [lambda hour: BUSY if hour == 500 else QUIET] * 8

    assert "smaller-type" not in kinds(make_past(high=one))


def test_an_aggregate_hides_how_many_gpus_work() -> None:
    assert "smaller-type" not in kinds(make_past(high=[BUSY], aggregate=True))


def test_cpus_that_work_need_their_number() -> None:
    """Half of 192 vCPUs fit no g5.12xlarge, but twice as many do."""
    found = kinds(two_of_eight(cpu=40.0))["smaller-type"]

    assert "g5.12xlarge" not in found.text
    assert "g5.24xlarge" in found.text
    assert "smaller-type" not in kinds(two_of_eight(cpu=nan))


@pytest.mark.parametrize("hours", [27 * 24, HOURS])
def test_too_few_weeks_or_too_many_holes_advise_nothing(hours: int) -> None:
    """Under four weeks, or with a reading in 79 of 100 hours, nobody is advised, whatever it would
    save."""
    holes = 0 if hours < HOURS else 0.21

    def busy(hour: int) -> float:
        return nan if hour % 100 < holes * 100 else BUSY

    assert [] == of_instance(
        two_of_eight(hours=hours) if not holes else make_past(high=[busy, *[QUIET] * 7])
    )


def test_a_silent_gpu_is_not_an_unused_one() -> None:
    """Seven of eight publish: the eighth may work all the time."""
    assert [] == of_instance(make_past(high=[BUSY] * 2 + [QUIET] * 5))


def test_an_unpriced_or_prepaid_instance_is_promised_nothing() -> None:
    """An instance that costs nothing more an hour saves nothing; an unknown price makes no
    candidate cheaper."""
    past = two_of_eight()
    for price in (None, Decimal(0)):
        assert {} == kinds(replace(past, price=Price(price, "")))


def test_hours_that_it_was_stopped_save_nothing() -> None:
    """It ran every second hour: half the saving."""

    def every_second(value: float) -> Callable[[int], float]:
        return lambda hour: value if hour % 2 == 0 else nan

    past = make_past(
        high=[every_second(BUSY)] * 2 + [every_second(QUIET)] * 6, cpu=every_second(5.0)
    )
    assert (Decimal("16.288") - Decimal("5.672")) * 365 == kinds(past)["smaller-type"].usd_per_month


def test_small_savings_are_left_out_and_unknown_ones_are_not() -> None:
    rule = Rule(minimum_usd_per_month=Decimal(100_000))

    assert {} == kinds(two_of_eight(policy=Policy(advice=rule)))
    full = make_past(
        "g5.xlarge", [95.0], mean=[40.0], memory=[22_000.0], policy=Policy(advice=rule)
    )
    assert {"memory-full": None} == {kind: one.usd_per_month for kind, one in kinds(full).items()}


def test_unused_gpus_of_working_cpus_become_a_cpu_type() -> None:
    found = kinds(make_past("g5.4xlarge", [4.9], cpu=60.0))["cpu-type"]

    assert (Decimal("1.624") - 16 * Decimal("0.0504")) * 730 == found.usd_per_month
    assert "m7i.4xlarge" in found.text
    # 24 vCPUs of an odd size: the next size up.
    assert "m7i.12xlarge" not in found.text


def test_advice_and_the_sweep_agree_on_what_a_gpu_without_work_is() -> None:
    """One setting says it for both: `idle.utilization_below_percent`."""
    policy = Policy(idle=IdleRule(utilization_below_percent=10))
    found = kinds(make_past("g5.4xlarge", [9.9], cpu=60.0, policy=policy))["cpu-type"]

    assert "No GPU reached 10%" in found.text
    assert "cpu-type" not in kinds(make_past("g5.4xlarge", [9.9], cpu=60.0))


@pytest.mark.parametrize(
    ("high", "cpu"),
    [
        (lambda hour: 5.0 if hour == 3 else 0.0, 60.0),  # it worked once
        (0.0, 19.9),  # nobody works: that is a question, and no advice
        (0.0, nan),  # it is not known
    ],
)
def test_a_gpu_that_ever_worked_or_an_instance_that_never_did_stays(
    high: object, cpu: float
) -> None:
    assert "cpu-type" not in kinds(make_past("g5.4xlarge", [high], cpu=cpu))  # type: ignore[list-item]


def test_the_cpu_type_of_a_spot_instance_has_no_known_saving() -> None:
    """Its On-Demand price says nothing about a Spot price."""
    past = make_past("g5.4xlarge", [0.0], cpu=60.0, lifecycle=Lifecycle.SPOT)

    assert kinds(past)["cpu-type"].usd_per_month is None


def office(hour: int) -> float:
    """8 to 18 o'clock UTC on weekdays; the weeks begin on a Monday."""
    return BUSY if hour // 24 % 7 < 5 and 8 <= hour % 24 < 18 else QUIET


def test_office_hours_become_a_schedule_with_its_tag() -> None:
    """118 of 168 hours a week are free; in the owner's zone the day begins later."""
    found = kinds(make_past("g5.4xlarge", [office], zone="Africa/Lagos"))["schedule"]

    assert Decimal("1.624") * 730 * 118 / 168 == found.usd_per_month
    assert "on weekdays from 09:00 to 19:00 Africa/Lagos" in found.text
    assert found.command.endswith("--tags Key=Schedule,Value=office-hours")
    assert "each stop wipes local disks" in found.text


def test_a_zone_of_half_hours_keeps_the_last_half_hour_of_work() -> None:
    """The last reading begins at 22:30 there and ends at 23:30: a schedule until 23:00 would cut
    it."""
    found = kinds(make_past("g5.4xlarge", [office], zone="Asia/Kolkata"))["schedule"]

    assert "on weekdays from 13:00 to 24:00 Asia/Kolkata" in found.text
    assert Decimal("1.624") * 730 * 113 / 168 == found.usd_per_month


def test_work_past_midnight_needs_no_schedule() -> None:
    """Its last reading begins at 23:30 and ends on the next day."""
    late = make_past("g5.4xlarge", [lambda hour: office(hour - 1)], zone="Asia/Kolkata")

    assert "schedule" not in kinds(late)


@pytest.mark.parametrize("extra", [5 * 24 + 3, 3 * 168 + 23])
def test_one_weekend_or_one_night_of_work_needs_no_schedule(extra: int) -> None:
    one = make_past("g5.4xlarge", [lambda hour: BUSY if hour == extra else office(hour)])

    assert "schedule" not in kinds(one)


@pytest.mark.parametrize(
    "changes",
    [
        {"lifecycle": Lifecycle.SPOT},
        {"tags": {"aws:autoscaling:groupName": "workers"}},
        {"root_device_type": "instance-store"},
    ],
)
def test_what_cannot_be_stopped_by_a_schedule_gets_none(changes: dict[str, object]) -> None:
    assert "schedule" not in kinds(make_past("g5.4xlarge", [office], **changes))  # type: ignore[arg-type]


def test_hours_without_a_reading_are_no_hours_off() -> None:
    """Work at night may hide in them: they save nothing."""

    def seen(hour: int) -> float:
        return nan if hour % 24 < 4 else office(hour)

    found = kinds(make_past("g5.4xlarge", [seen]))["schedule"]
    assert Decimal("1.624") * 730 * (118 - 28) / 168 == found.usd_per_month


def test_an_old_generation_gets_a_newer_type_that_holds_its_peak() -> None:
    found = kinds(make_past("p3.8xlarge", [BUSY] * 4, memory=[12_000.0] * 4))["newer-type"]

    assert "g6.12xlarge" in found.text
    assert (Decimal("12.24") - Decimal("4.6016")) * 730 == found.usd_per_month
    # The newer types have 22.4 GiB a GPU at least: 40 GiB fit g7e alone, and too few of its GPUs
    # are cheaper.
    assert "newer-type" not in kinds(make_past("p3.8xlarge", [BUSY] * 4, memory=[40_000.0] * 4))


def test_a_p_type_that_waits_may_serve_inference_and_one_that_computes_may_not() -> None:
    waits = make_past("p5.48xlarge", [40.0] * 8, mean=[20.0] * 8, memory=[10_000.0] * 8)
    computes = make_past("p5.48xlarge", [90.0] * 8, mean=[60.0] * 8, memory=[10_000.0] * 8)

    assert "if it serves inference" in kinds(waits)["newer-type"].text
    assert "newer-type" not in kinds(computes)


def test_a_port_names_what_it_may_cost() -> None:
    found = kinds(make_past("p4d.24xlarge", [BUSY] * 8, memory=[30_000.0] * 8))["port"]

    saved = (Decimal("21.957642") - Decimal("12.98127")) * 730
    assert saved == found.usd_per_month
    assert "It needs a port to the Neuron SDK" in found.text
    assert "less than $78,633 pays within 12 months" in found.text
    rare = make_past("p4d.24xlarge", [lambda hour: BUSY if hour % 2 else QUIET] * 8)
    assert "port" not in kinds(rare)


def test_the_class_of_the_work_says_what_to_change_first() -> None:
    """With what the wait costs, up to the target."""
    waits = kinds(make_past("g5.xlarge", [90.0], mean=[34.0], traffic=[10.0], memory=[8_000.0]))
    found = waits["input-bound"]

    assert Decimal("1.006") * 730 * Decimal("0.6") == found.usd_per_month
    assert "34% busy at work, where 85% is the target" in found.text
    assert "Check data loading" in found.text
    bound = kinds(make_past("g5.xlarge", [90.0], mean=[45.0], traffic=[85.0], memory=[8_000.0]))
    assert "Fuse kernels" in bound["memory-bound"].text
    fast = kinds(make_past("g5.xlarge", [95.0], mean=[92.0], traffic=[30.0], memory=[8_000.0]))
    assert (
        "Only more or faster ones would speed up the job. Lower precision"
        in fast["compute-bound"].text
    )
    assert fast["compute-bound"].usd_per_month is None
    past = make_past("g5.xlarge", [95.0], mean=[86.0], traffic=[30.0], memory=[8_000.0])
    assert not {"input-bound", "compute-bound"} & kinds(past).keys()
    # Without memory traffic the class is not known.
    assert {"port"} == kinds(make_past("g5.xlarge", [90.0], mean=[34.0], memory=[8_000.0])).keys()


def bursts(hour: int) -> float:
    """Twelve hours every second day."""
    return BUSY if hour % 48 < 12 else QUIET


OFFER = SpotOffer(Decimal("0.5"), "us-east-1b", ("g5.4xlarge", "g5.2xlarge", "g5.8xlarge"), 7)


def test_bursts_with_checkpoints_may_be_spot() -> None:
    past = make_past("g5.4xlarge", [bursts], tags={CHECKPOINT_TAG: "hook"})
    found = spot(past, OFFER)

    assert found is not None
    assert (Decimal("1.624") - Decimal("0.5")) * 730 == found.usd_per_month
    assert "21 bursts of 12 h at the longest" in found.text
    assert "placement score of the Region 7 of 10" in found.text
    unscored = spot(past, replace(OFFER, score=None))
    assert unscored is not None
    assert "placement score of the Region unknown" in unscored.text


@pytest.mark.parametrize(
    ("high", "changes"),
    [
        (bursts, {"tags": {}}),  # an interruption would lose its work
        (bursts, {"tags": {CHECKPOINT_TAG: "off"}}),
        (BUSY, {}),  # no bursts
        (bursts, {"lifecycle": Lifecycle.SPOT}),
        (bursts, {"capacity_reservation_id": "cr-0123456789abcdef0"}),
        (bursts, {"hours": 3 * 168}),  # too few weeks
        (lambda hour: nan if hour % 48 >= 24 else bursts(hour), {}),  # too little of it measured
        # A burst of 30 hours, of which some were not measured.
        (lambda hour: QUIET if hour % 168 >= 30 else nan if hour % 15 == 14 else BUSY, {}),
    ],
)
def test_work_that_an_interruption_loses_stays_on_demand(
    high: object, changes: dict[str, object]
) -> None:
    past = make_past("g5.4xlarge", [high], **{"tags": {CHECKPOINT_TAG: "hook"}, **changes})  # type: ignore[list-item, arg-type]

    assert not asks_for_spot(past)
    assert spot(past, OFFER) is None


@pytest.mark.parametrize("price", ["1.60", "1.624", "1.90"])
def test_spot_that_costs_hardly_less_is_not_advised(price: str) -> None:
    """17.52 USD a month are under the 50 of the policy; a dearer one saves nothing at all."""
    past = make_past("g5.4xlarge", [bursts], tags={CHECKPOINT_TAG: "hook"})

    assert spot(past, replace(OFFER, usd_per_hour=Decimal(price))) is None


def test_what_is_not_governed_shows_its_cost_its_creator_and_the_tag_to_set() -> None:
    """A creator that nobody knows is said so."""
    selector = Policy().selector
    found = ungoverned(
        make_instance(), NOBODY, selector, Price(Decimal("1.006"), ""), "arn:aws:iam::1:user/a"
    )
    unknown = ungoverned(make_instance(), NOBODY, selector, Price(None, ""), None)

    assert Decimal("1.006") * 730 == found.usd_per_month
    assert (
        "not the tag Purpose=GPU-Workload, so it is not governed. Created by arn:aws:iam::1:user/a."
        in found.text
    )
    assert found.command.endswith("--tags Key=Purpose,Value=GPU-Workload")
    assert unknown.usd_per_month is None
    assert "Creator unknown." in unknown.text


def test_a_command_to_copy_quotes_what_anybody_may_have_written() -> None:
    command = tag_command("i-0123456789abcdef0", "us-east-1", "Purpose", "x; rm -rf $HOME")

    assert shlex.split(command)[-1] == "Key=Purpose,Value=x; rm -rf $HOME"


def test_sizes_name_their_vcpus() -> None:
    names = ("g6f.large", "g5.xlarge", "g5.48xlarge", "g4dn.metal", "odd")

    assert [2, 4, 192, None, None] == [vcpus_of(one) for one in names]


@settings(max_examples=examples(15, 500), deadline=None)
@given(
    st.sampled_from([one for one in accelerated_types() if list_price(one)]),
    st.lists(st.floats(0, 100), min_size=1, max_size=16),
    st.floats(0, 200_000),
    st.floats(0, 100),
)
def test_whatever_is_advised_fits_and_saves(
    name: str, high: list[float], memory: float, cpu: float
) -> None:
    """No type is named that costs more or holds less than the peak; amounts are above 0 and
    exact."""
    shape = shape_of(name)
    assert shape is not None
    figures = (high * 16)[: shape.accelerator_count or 1]
    for one in of_instance(make_past(name, figures, memory=[memory] * len(figures), cpu=cpu)):
        assert one.usd_per_month is None or one.usd_per_month >= 50
        assert (6, 100) == (one.weeks, one.percent_measured)
        assert not {"", " "} & {one.text, one.kind}
        if one.kind in ("smaller-type", "newer-type"):
            named = one.text.partition("Fits: ")[2].partition(" (")[0]
            other, now = shape_of(named), list_price(name)
            price = list_price(named)
            assert other is not None
            assert other.memory_mib_each is not None
            assert price is not None
            assert now is not None
            assert price < now
            assert other.memory_mib_each >= memory
            assert other.memory_mib_each * (other.accelerator_count or 0) >= memory * len(figures)
