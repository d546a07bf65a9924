"""The past that `make up` starts with: it adds up, and a sweep goes on where it ends."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Any

import pytest

from governor.approvals.show_approval import ShowApproval
from governor.core.catalog import shape_of
from governor.episode.model.episode import Outcome
from governor.fleet.model import UNGOVERNED, Share
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import months
from governor.web.pages import headline_of
from local.demo.fleet import NAMESPACE, Member, demo_fleet
from local.demo.past import WEEKS, part_of, past_metrics, write_past
from local.engine.simulation import Points
from local.engine.simulators.cloudwatch import CloudWatchSimulator
from local.engine.simulators.faults import Faults
from tests.builders import NOW, TARGET
from tests.twins import FakeClock
from tests.twins.stores import EveryStore
from tests.twins.table import MemoryTable

PERSON = "owner@example.com"


def fleet() -> dict[str, Member]:
    return {f"i-{number:017x}": member for number, member in enumerate(demo_fleet())}


@pytest.fixture(scope="module")
def state() -> EveryStore:
    table = MemoryTable()
    assert write_past(table, TARGET, fleet(), NOW, PERSON) > 20
    return EveryStore(table)


def entries(state: EveryStore) -> list[LedgerEntry]:
    return [one for month in months(NOW - WEEKS, NOW) for one in state.entries(month)]


def test_a_record_of_the_past_names_the_gpus_of_its_type(state: EveryStore) -> None:
    """They were measured together, as one series."""
    for entry in entries(state):
        episode = state.episode(entry.episode)
        shape = shape_of(entry.instance_type)
        if episode is not None and shape is not None:
            assert shape.accelerator_count == episode.measurement.evidence.gpus_expected


def test_every_month_of_the_past_adds_up(state: EveryStore) -> None:
    """As the costs of sweeps do; the meter of this month is counted up to now."""
    for month in months(NOW - WEEKS, NOW):
        meter, days = state.meter(TARGET, month), state.days(month)
        assert meter is not None
        spent = sum((one.total for day in days for one in day.shares.values()), Decimal(0))
        assert spent == sum(meter.usd.values()) > 100
    this = state.meter(TARGET, "2026-11")
    assert this is not None
    assert this.counted_until == NOW
    found = sum((one for day in days for one in day.shares.values()), Share())
    assert min(found.used, found.idle, found.kept, found.unmeasured) > 0


def test_the_metrics_of_the_past_say_what_its_costs_say() -> None:
    """Read as CloudWatch would be: at work while used, quiet while idle, nothing while stopped."""
    simulator = CloudWatchSimulator(Faults())
    now = datetime.now(tz=UTC).replace(minute=30, second=0, microsecond=0)
    simulator.put("a", "r", [series(one) for one in past_metrics(fleet(), now)])
    seen = Counter[str]()
    for instance_id, member in fleet().items():
        if member.agent != "aggregate" or member.expected in ("too-young", "exempt"):
            continue
        rows = maxima(simulator, instance_id, now)
        for back in range(24, 24 * 7 * 6):
            at = now.replace(minute=0) - timedelta(hours=back)
            part = part_of(member, at, now)
            value = rows.get(at.timestamp())
            if part in (None, "stopped"):
                assert value is None, (member.name, at)
            else:
                assert value is not None, (member.name, at)
                assert (value > 50) is (part == "used"), (member.name, at)
            seen[str(part)] += 1
    assert min(seen["used"], seen["idle"], seen["stopped"]) > 100


def series(one: Points) -> dict[str, Any]:
    return {
        "namespace": one.namespace,
        "metric": one.metric,
        "dimensions": dict(one.dimensions),
        "points": [],
        "past": one.past,
    }


def maxima(simulator: CloudWatchSimulator, instance_id: str, now: datetime) -> dict[float, float]:
    """Utilization by hour."""
    metric = {
        "Namespace": NAMESPACE,
        "MetricName": "nvidia_smi_utilization_gpu",
        "Dimensions": [{"Name": "InstanceId", "Value": instance_id}],
    }
    asked = {
        "MetricDataQueries": [
            {"Id": "a", "MetricStat": {"Metric": metric, "Period": 3600, "Stat": "Maximum"}}
        ],
        "StartTime": (now - WEEKS).timestamp(),
        "EndTime": now.timestamp(),
    }
    [found] = simulator.operation("GetMetricData", "a", "r", asked)["MetricDataResults"]
    return dict(zip(found["Timestamps"], found["Values"], strict=True))


def test_stops_are_over_before_the_fleet_of_the_demo_started(state: EveryStore) -> None:
    """No two of one instance overlap, one in some was a mistake, and nothing is left open or
    unsaid."""
    stops = entries(state)
    records = state.records(TARGET)

    assert all(one.ended_at and one.booked_at < one.ended_at <= NOW for one in stops)
    assert 0 < sum(one.false_stop for one in stops) < len(stops) / 4
    for instance_id, member in fleet().items():
        mine = [one for one in stops if one.episode.instance_id == instance_id]
        launched = NOW - timedelta(minutes=member.launched_minutes_ago)
        ends = [one.ended_at for one in mine if one.ended_at]
        assert all(end <= one.booked_at for end, one in zip(ends, mine[1:], strict=False))
        assert all(end <= launched for end in ends)
        record = records.get(instance_id)
        assert (record is not None) == bool(mine)
        if record is not None:
            assert (None, None, Outcome.STOPPED) == (
                record.open_episode,
                record.untold,
                record.last_outcome,
            )
            assert len(mine) == record.episodes
            assert [] == state.open_entries(TARGET, instance_id)


def test_the_newest_stops_say_who_decided(state: EveryStore) -> None:
    """Their episodes are there as a workflow leaves them."""
    newest = entries(state)[-1]
    episode = state.episode(newest.episode)
    assert episode is not None
    approval = state.approval(episode.approval_id)
    assert approval is not None
    assert approval.decision is not None

    assert PERSON == approval.decision.person
    assert (Outcome.STOPPED, Outcome.STOPPED) == (episode.outcome, episode.became)


def test_the_page_has_a_day_of_readings(state: EveryStore) -> None:
    """Idle for hours, and at work before: the first sweep carries it on."""
    [page] = state.pages()
    rows = {row.name: row for row in page.rows}

    assert ["not-selected"] == [name for name, row in rows.items() if row.verdict == UNGOVERNED]
    assert max(one or 0 for one in rows["notebook-1"].hours[-6:]) <= 2
    assert max(one or 0 for one in rows["notebook-1"].hours[:12]) >= 60
    assert (
        part_of(next(one for one in demo_fleet() if one.name == "fresh"), NOW - WEEKS, NOW) is None
    )


@pytest.mark.parametrize("name", ["asg-member", "karpenter-node"])
def test_a_managed_instance_is_idle_for_as_long_as_its_hours_show(
    state: EveryStore, name: str
) -> None:
    """The first sweep reads an hour of it and asks nobody, so it knows the rest from this row."""
    page = state.page(TARGET)
    assert page is not None
    [row] = [one for one in page.rows if one.name == name]
    *hours, this_hour = row.hours
    quiet = list(takewhile(lambda hour: hour is not None and hour < 5, reversed(hours)))

    assert this_hour is None
    assert len(quiet) == 6
    assert row.idle_since == NOW.replace(minute=0, second=0) - timedelta(hours=6)


def test_each_record_of_the_past_says_that_the_instance_was_started_again(
    state: EveryStore,
) -> None:
    """All stops of the past are over; the records said that the instances are stopped."""
    show = ShowApproval(state, state, state, state, state, FakeClock(NOW))
    headlines: list[str] = []
    for entry in entries(state):
        episode = state.episode(entry.episode)
        if episode is not None:
            view = show.record(episode.approval_id)
            headline, _ = headline_of(view)
            assert not view.can_be_started
            headlines.append(headline)

    assert headlines
    assert [] == [headline for headline in headlines if ", started again " not in headline]
