"""The costs that sweeps count: through restarts, missed sweeps, months and two sweeps at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.errors import Throttled
from governor.core.instance import Lifecycle
from governor.episode.model.episode import Observation
from governor.episode.model.plan import Price
from governor.fleet.model import DayCosts
from governor.money.costs import CountCosts
from governor.money.rules.cost import UNTAGGED, Meter
from governor.policy.model.money import Money
from governor.verdict.model import VerdictKind
from tests.builders import NOW, POLICY, TARGET, make_instance
from tests.twins import MemoryStateTable, StaticPrices
from tests.unit.worlds.fleet_world import FleetWorld

BUSY = [90.0] * 12
TAGS = {"Purpose": "GPU-Workload", "Project": "llm"}
HOUR = Decimal("1.006")
NANO = Decimal("1E-9")


def world_since(launched: datetime) -> FleetWorld:
    """One busy instance of llm."""
    world = FleetWorld()
    world.add(1, BUSY, tags=TAGS, launch_time=launched)
    return world


def meter(world: FleetWorld, month: str = "2026-11") -> Meter:
    """Return what was counted; it must exist."""
    found = world.state.meter(TARGET, month)
    assert found is not None
    return found


def hours(world: FleetWorld, month: str = "2026-11", project: str = "llm") -> Decimal:
    """Return hours of one project, at the price of the world."""
    return (meter(world, month).usd[project] / HOUR).quantize(Decimal("0.0001"))


def test_the_first_sweep_counts_what_is_known_to_have_run_this_month() -> None:
    """Since its start; of what ran before the month began, since that."""
    world = world_since(NOW - timedelta(hours=5))
    world.add(2, BUSY, tags=TAGS, launch_time=NOW - timedelta(days=90))
    world.sweep()

    this_month = Decimal((NOW - datetime(2026, 11, 1, tzinfo=UTC)) // timedelta(seconds=1)) / 3600
    assert (this_month + 5).quantize(Decimal("0.0001")) == hours(world)


def test_a_missed_sweep_is_made_up_for() -> None:
    """Five minutes or five hours later: what ran has run."""
    world = world_since(NOW)
    world.sweep()
    world.sweep(5)
    world.sweep(300)

    assert Decimal("5.0833") == hours(world)


def test_a_sweep_that_comes_twice_counts_once() -> None:
    """At the same moment, and with what it had remembered lost."""
    world = world_since(NOW)
    world.sweep(60)
    world.sweep()
    world.state.remember(TARGET, {}, world.clock.now())
    world.sweep()

    assert Decimal(1) == hours(world)


def test_a_stop_between_two_sweeps_is_not_paid_for() -> None:
    """Stopped within the first half hour of the gap on average, started anew ten minutes before its
    end."""
    world = world_since(NOW)
    world.sweep(60)
    restarted = world.clock.now() + timedelta(minutes=50)
    world.change("i-00000000000000001", launch_time=restarted)
    world.sweep(60)

    assert (Decimal(60 + 25 + 10) / 60).quantize(Decimal("0.0001")) == hours(world)


def test_what_is_gone_is_counted_once_more_and_then_no_more() -> None:
    """Half of the time in which it must have stopped."""
    world = world_since(NOW)
    world.sweep(60)
    world.change("i-00000000000000001", state="stopped")
    for _ in range(3):
        world.sweep(10)

    assert (Decimal(65) / 60).quantize(Decimal("0.0001")) == hours(world)
    assert {} == meter(world).usd_per_hour


def test_a_month_ends_at_midnight_utc() -> None:
    """Hours before it stay in the old month, hours after it open the new one."""
    world = world_since(datetime(2026, 11, 30, 22, 0, tzinfo=UTC))
    world.clock.moment = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    world.sweep()
    world.sweep(90)

    assert (Decimal(2), Decimal(1)) == (hours(world), hours(world, "2026-12"))
    assert datetime(2026, 12, 1, tzinfo=UTC) == meter(world).counted_until


def test_after_a_long_pause_the_month_is_counted_from_its_start() -> None:
    """The months between were not looked at; this one holds what runs."""
    world = world_since(NOW)
    world.sweep()
    world.clock.moment = datetime(2027, 2, 1, 3, 0, tzinfo=UTC)
    world.sweep()

    assert Decimal(3) == hours(world, "2027-02")


def test_a_sweep_whose_count_failed_is_made_up_for() -> None:
    """The sweep says so, judges all the same, and the next one counts the whole."""
    world = world_since(NOW)
    world.sweep()
    meter_of, world.state.meter = world.state.meter, _throttled  # type: ignore[method-assign,assignment]
    summary = world.sweep(60)
    world.state.meter = meter_of  # type: ignore[method-assign]
    world.change("i-00000000000000001", state="stopped")
    world.sweep(60)

    assert ["costs: Throttled: later"] == summary.problems
    assert Decimal("1.5") == hours(world)


def test_of_two_sweeps_at_once_one_counts() -> None:
    """Nothing of the other one's write stands, of the meter and of the day, and it is no
    problem."""
    world = world_since(NOW)
    world.sweep()
    world.clock.moment += timedelta(hours=1)
    bring_forward = world.state.bring_forward

    def beaten(new: Meter, seen: Meter | None, days: Iterable[DayCosts]) -> bool:
        world.state.bring_forward = bring_forward  # type: ignore[method-assign]
        world.sweep()
        world.sweep(60)
        return bring_forward(new, seen, days)

    world.state.bring_forward = beaten  # type: ignore[method-assign,assignment]
    summary = world.sweep()

    assert [] == summary.problems
    assert Decimal(2) == hours(world)
    [day] = world.state.days("2026-11")
    assert 2 * HOUR == sum(share.total for share in day.shares.values())


def test_each_project_has_its_own_amount() -> None:
    """By the first of the policy's tags; what names none is counted together."""
    world = world_since(NOW)
    world.add(2, BUSY, launch_time=NOW)
    world.add(3, BUSY, tags={"Purpose": "GPU-Workload", "project": " llm "}, launch_time=NOW)
    world.sweep(60)

    assert (Decimal(2), Decimal(1)) == (hours(world), hours(world, project=UNTAGGED))
    assert {"llm": 2 * HOUR, UNTAGGED: HOUR} == meter(world).usd_per_hour


def test_a_capacity_block_costs_nothing_more() -> None:
    """It was paid for in advance."""
    world = FleetWorld()
    world.add(1, BUSY, tags=TAGS, launch_time=NOW, lifecycle=Lifecycle.CAPACITY_BLOCK)
    world.sweep(60)

    assert {"llm": Decimal(0)} == meter(world).usd


def _throttled(*_: object) -> None:
    raise Throttled("later")


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_nothing_is_written_when_no_time_has_passed(minutes: int) -> None:
    """A sweep that is repeated costs no write."""
    world = world_since(NOW)
    world.sweep(minutes)
    ((key, before),) = [one for one in world.state.items.items() if one[0][0] == "COST#2026-11"]
    world.sweep()

    assert before is world.state.items[key]


@given(
    changes=st.lists(st.integers(1, 600), max_size=8),
    sweeps=st.lists(st.integers(1, 240), min_size=1, max_size=20),
)
def test_whatever_comes_and_goes_is_counted_but_for_the_gaps_it_stopped_in(
    changes: list[int], sweeps: list[int]
) -> None:
    """Started and stopped at any minute, swept at any: an error is never longer than the gaps with
    a stop.

    Without a stop, and whatever sweeps were missed, it is exact.
    """
    launches, stops = _life(changes)
    state, before = MemoryStateTable(), dict[str, Observation]()
    now, gaps_with_a_stop, last = NOW, timedelta(0), NOW
    for minutes in [0, *sweeps]:
        now = last + timedelta(minutes=minutes)
        started = max((at for at in launches if at <= now), default=None)
        ended_at = max((at for at in stops if at <= now), default=None)
        runs = started is not None and (ended_at is None or ended_at < started)
        instances = [make_instance(tags=TAGS, launch_time=started)] if runs and started else []
        count = CountCosts(
            StaticPrices(Price(Decimal(1), "list price")), ledger_store=state, fleet_store=state
        )
        rates = count.rates([(one, POLICY, VerdictKind.BUSY) for one in instances])
        launched = {one.instance_id: one.launch_time for one in instances}
        count(TARGET, launched, rates, before, now)
        before = {
            one.instance_id: Observation(
                one.launch_time, "busy", now, project="llm", usd_per_hour=Decimal(1)
            )
            for one in instances
        }
        gaps_with_a_stop += sum((now - last for at in stops if last < at <= now), timedelta(0))
        last = now

    found = state.meter(TARGET, "2026-11")
    counted = timedelta(hours=float(found.usd.get("llm", 0))) if found else timedelta(0)
    truth = _ran(launches, stops, now)
    assert abs(counted - truth) <= gaps_with_a_stop + timedelta(seconds=1)
    days = [share for day in state.days("2026-11") for share in day.shares.values()]
    spent = sum(found.usd.values(), Decimal(0)) if found else Decimal(0)
    assert abs(sum((one.total for one in days), Decimal(0)) - spent) < NANO * 100
    assert spent == 0 or all(one.used == one.total for one in days)


def _life(changes: list[int]) -> tuple[list[datetime], list[datetime]]:
    """Starts and stops in turn, so many minutes after each other, the first start now."""
    moments, at = [NOW], NOW
    for minutes in changes:
        at += timedelta(minutes=minutes)
        moments.append(at)
    return moments[::2], moments[1::2]


def _ran(launches: list[datetime], stops: list[datetime], until: datetime) -> timedelta:
    ends = [*stops, until]
    spans = (min(end, until) - start for start, end in zip(launches, ends, strict=False))
    return sum((span for span in spans if span > timedelta(0)), timedelta(0))


def named(world: FleetWorld) -> dict[tuple[str, str | None], Decimal]:
    """The costs of the month by project and job, without amounts of zero."""
    sums: dict[tuple[str, str | None], Decimal] = {}
    for day in world.state.days("2026-11"):
        for key, share in day.by_job():
            if share.total:
                whose = (key.project, key.job)
                sums[whose] = sums.get(whose, Decimal(0)) + share.total
    return sums


def test_the_cost_of_a_project_is_split_by_job() -> None:
    """By the tag of the instance; hours of instances without such a tag have no job."""
    world = FleetWorld()
    world.add(1, BUSY, tags={**TAGS, "Job": "finetune"}, launch_time=NOW)
    world.add(2, BUSY, tags={**TAGS, "job": "finetune"}, launch_time=NOW)
    world.add(3, BUSY, tags={**TAGS, "Job": '=1+1, "🚀"'}, launch_time=NOW)
    world.add(4, BUSY, tags=TAGS, launch_time=NOW)
    world.sweep(60)
    world.sweep(60)

    assert {
        ("llm", "finetune"): 4 * HOUR,
        ("llm", '=1+1, "🚀"'): 2 * HOUR,
        ("llm", None): 2 * HOUR,
    } == named(world)
    assert 8 * HOUR == meter(world).usd["llm"]


def test_hours_belong_to_the_job_of_the_time_in_which_they_ran() -> None:
    """An instance that turned to another job counts for that from the last sweep on; one that is
    gone is counted for the job that the last sweep saw."""
    world = FleetWorld()
    world.add(1, BUSY, tags={**TAGS, "Job": "first"}, launch_time=NOW)
    world.sweep(60)
    world.change("i-00000000000000001", tags={**TAGS, "Job": "second"})
    world.sweep(60)
    world.change("i-00000000000000001", state="stopped", tags={**TAGS, "Job": "third"})
    world.sweep(60)

    assert {
        ("llm", "first"): HOUR,
        ("llm", "second"): Decimal("1.5") * HOUR,
    } == named(world)


def test_without_tag_keys_nothing_has_a_job() -> None:
    """`money.job_tag_keys: []` is a policy without jobs."""
    world = FleetWorld()
    world.policies.policy = replace(world.policies.policy, money=Money(job_tag_keys=()))
    world.add(1, BUSY, tags={**TAGS, "Job": "first"}, launch_time=NOW)
    world.sweep(60)

    assert {("llm", None): HOUR} == named(world)
