"""An instance that EC2 lists and does not describe: it keeps what it has, and nothing is done."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.model.approval import Answer, ApprovalStatus
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.fleet.model import FleetRow
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.unit.worlds.builders import (
    asked,
    decision,
    open_question,
    recorder,
    start_acting,
    stored_approval,
)
from tests.unit.worlds.fleet_world import FleetWorld

BUSY = [90.0] * 12
PROBLEM = "EC2's record of it cannot be read: KeyError('LaunchTime')"
TAGS = {
    "Purpose": "GPU-Workload",
    "Name": "notebook-7",
    "Owner": "alice@example.com",
    "Project": "vision",
}


def hide(world: FleetWorld, *instance_ids: str) -> None:
    """From now on EC2 lists these instances and describes none of them."""
    for instance_id in instance_ids:
        world.ec2.odd[instance_id] = PROBLEM


def row(world: FleetWorld, instance_id: str) -> FleetRow:
    """The row of one instance."""
    page = world.state.page(TARGET)
    assert page is not None
    [found] = [one for one in page.rows if one.instance_id == instance_id]
    return found


def test_it_is_counted_as_not_judged_and_its_problem_is_said() -> None:
    """In the summary, from which the metrics and the digest come, and on the page."""
    world = FleetWorld()
    world.add(1, BUSY)
    hidden = world.add(2, BUSY)
    world.sweep()
    hide(world, hidden)
    summary = world.sweep(5)

    assert (2, {"busy": 1, "no-data": 1}) == (summary.instances, dict(summary.verdicts))
    assert [f"{hidden}: {PROBLEM}"] == summary.problems
    page = world.state.page(TARGET)
    assert page is not None
    assert "1 step of the last sweep failed; the next sweep tries again." == page.problem


def test_what_the_last_sweep_knew_of_it_is_remembered() -> None:
    """Where its metrics are, who was notified, and what it was by its last readings."""
    world = FleetWorld()
    hidden = world.add(1, BUSY)
    world.sweep()
    before = world.state.observations(TARGET)[hidden]
    hide(world, hidden)
    world.sweep(5)
    after = world.state.observations(TARGET)[hidden]

    assert ("no-data", PROBLEM, world.clock.moment) == (after.verdict, after.reason, after.at)
    assert (None, None, ()) == (after.last_busy, after.idle_since, after.advice)
    for name in ("launch_time", "source", "dimensions", "searched_at", "last_known"):
        assert getattr(before, name) == getattr(after, name), name
    assert "busy" == after.last_known


@pytest.mark.parametrize("is_answered", [False, True])
def test_its_question_stands_and_is_on_its_row(is_answered: bool) -> None:
    """An answer that has come is handed to the workflow."""
    world, hidden, ref = asked()
    world.sweep(5)
    shown = row(world, hidden)
    if is_answered:
        world.state.settle(stored_approval(world, hidden).approval_id, decision(Answer.APPROVE))
    hide(world, hidden)
    summary = world.sweep(5)

    assert ref == world.state.record(TARGET, hidden).open_episode
    assert ref.execution_name == row(world, hidden).episode == shown.episode
    assert 0 == summary.episodes_started
    if is_answered:
        assert ApprovalStatus.APPROVED == stored_approval(world, hidden).status
    else:
        assert ApprovalStatus.PENDING == stored_approval(world, hidden).status
        assert (shown.approval_id, shown.expires_at) == (
            row(world, hidden).approval_id,
            row(world, hidden).expires_at,
        )
    world.ec2.odd.clear()
    world.sweep(5)
    assert ref == world.state.record(TARGET, hidden).open_episode


def test_its_episode_is_closed_if_the_workflow_died() -> None:
    """As that of any other instance."""
    world, hidden, ref = asked()
    hide(world, hidden)
    world.workflow.executions.clear()
    for _ in range(3):
        world.sweep(60)

    assert world.state.record(TARGET, hidden).open_episode is None
    episode = world.state.episode(ref)
    assert episode is not None
    assert episode.ending is not None
    assert Outcome.FAILED == episode.ending.outcome


def test_a_start_that_nobody_knows_ends_no_question() -> None:
    """The sweep that first saw it could not read when it was started, and the one that asked died
    before it could remember that. Its question is about the run that EC2 described."""
    world = FleetWorld()
    hidden = world.add(1)
    hide(world, hidden)
    world.sweep()
    last_remembered = world.state.observations(TARGET)
    world.ec2.odd.clear()
    world.sweep(5)
    ref = open_question(world, hidden)
    world.state.remember(TARGET, last_remembered, world.clock.moment)
    hide(world, hidden)
    world.sweep(5)

    assert ref == world.state.record(TARGET, hidden).open_episode
    assert ApprovalStatus.PENDING == stored_approval(world, hidden).status


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ASK])
def test_its_tags_stay_as_they_are(mode: Mode, is_remembered: bool) -> None:
    """Even if no sweep remembers when it was started: a mark is not taken for that of an earlier
    run."""
    world = FleetWorld(Policy(mode=mode))
    hidden = world.add(1)
    world.sweep()
    tags = dict(world.ec2.instances[hidden].tags)
    marked_at = world.state.record(TARGET, hidden).marked_at
    assert marked_at is not None
    if not is_remembered:
        world.state.remember(TARGET, {}, world.clock.moment)
    hide(world, hidden)
    world.ec2.calls.clear()
    world.sweep(5)

    assert tags == world.ec2.instances[hidden].tags
    assert [] == world.ec2.calls
    assert marked_at == world.state.record(TARGET, hidden).marked_at


def test_nothing_is_asked_about_the_stop_of_an_instance_that_runs_again() -> None:
    """EC2 lists it as running, so it is not stopped any more; its saving ends when EC2 says since
    when."""
    world, hidden, ref = asked()
    start_acting(world, ref)
    for step in (Step.STOP, Step.SNAPSHOT):
        world.state.note_step(ref, step.value, NOW)
    world.state.set_snapshots(ref, {"snap-1": "vol-1"})
    world.change(hidden, state="stopped")
    recorder(world)(ref, Outcome.STOPPED)
    world.sweep(5)
    assert "stopped" == row(world, hidden).verdict
    started_at = NOW + timedelta(minutes=600)
    world.change(hidden, state="running", launch_time=started_at)
    hide(world, hidden)
    summary = world.sweep(620)

    assert ("no-data", 0) == (row(world, hidden).verdict, summary.episodes_started)
    (entry,) = world.state.entries("2026-11")
    assert entry.ended_at is None
    world.ec2.odd.clear()
    world.sweep(5)
    (entry,) = world.state.entries("2026-11")
    assert started_at == entry.ended_at


def test_it_neither_trips_a_freeze_nor_ends_one() -> None:
    """In mode auto a freeze lasts while one of its instances may still be idle."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    ids = [world.add(number, BUSY) for number in range(1, 7)]
    world.sweep()
    hide(world, *ids)
    assert not world.sweep(65).frozen
    world.ec2.odd.clear()
    world.sweep(5)
    for instance_id in ids:
        world.publish(instance_id, [0.0] * 12)
    assert world.sweep(65).frozen
    hide(world, *ids)
    assert world.sweep(600).frozen
    freeze = world.state.breaker(TARGET)
    assert freeze is not None
    assert freeze.left_ids == frozenset(ids)
    world.ec2.odd.clear()
    for instance_id in ids:
        world.publish(instance_id, BUSY)
    assert not world.sweep(65).frozen


def test_nobody_is_notified_of_its_silence_or_idleness() -> None:
    """It was not read."""
    world = FleetWorld()
    hidden = world.add(1, BUSY)
    world.sweep()
    world.silence(hidden)
    hide(world, hidden)
    for _ in range(24):
        world.sweep(10)

    assert [] == [alert.kind for alert in world.announcer.sent]
    world.ec2.odd.clear()
    for _ in range(24):
        world.sweep(10)
    assert {AlertKind.TELEMETRY_SILENT: 1} == Counter(alert.kind for alert in world.announcer.sent)


def test_its_time_costs_what_the_last_sweep_knew() -> None:
    """For the project, at the price; not as used, for nobody knows that."""
    world = FleetWorld()
    hidden = world.add(1, BUSY, tags=TAGS, launch_time=NOW)
    world.sweep()
    hide(world, hidden)
    world.sweep(60)
    world.ec2.odd.clear()
    world.sweep(60)

    meter = world.state.meter(TARGET, "2026-11")
    assert meter is not None
    assert ({"vision": Decimal("2.012")}, {}) == (dict(meter.usd), dict(meter.unpriced_hours))
    (day,) = world.state.days("2026-11")
    assert [(Decimal("1.006"), Decimal("1.006"))] == [
        (share.used, share.unmeasured) for share in day.shares.values()
    ]


def test_what_may_have_stopped_costs_its_project_nothing() -> None:
    """A record without an id may be that of any known instance: none of them is known to run."""
    world = FleetWorld()
    stopped = world.add(1, BUSY, tags=TAGS, launch_time=NOW)
    world.sweep()
    world.change(stopped, state="stopped")
    world.ec2.odd[""] = PROBLEM
    world.sweep(60)

    meter = world.state.meter(TARGET, "2026-11")
    assert meter is not None
    assert ({}, {"vision": Decimal(1)}) == (dict(meter.usd), dict(meter.unpriced_hours))
    shown = row(world, stopped)
    assert ("no-data", "vision", None) == (shown.verdict, shown.project, shown.usd_per_hour)


def test_the_time_of_one_that_was_never_described_has_no_price() -> None:
    """Its hours are counted for nobody until EC2 describes it."""
    world = FleetWorld()
    hidden = world.add(1, tags=TAGS, launch_time=NOW)
    hide(world, hidden)
    world.sweep()
    world.sweep(60)

    meter = world.state.meter(TARGET, "2026-11")
    assert meter is not None
    assert ({}, {"untagged": Decimal(1)}) == (dict(meter.usd), dict(meter.unpriced_hours))
    shown = row(world, hidden)
    assert ("unassigned", "unassigned", None) == (shown.owner, shown.project, shown.usd_per_hour)
    assert (hidden, "unknown", NOW) == (shown.name, shown.instance_type, shown.launched_at)


def test_its_row_shows_what_ec2_said_last() -> None:
    """People of its project still find it, with the reason why it could not be judged."""
    world = FleetWorld()
    hidden = world.add(1, BUSY, tags=TAGS)
    world.sweep()
    known = row(world, hidden)
    hide(world, hidden)
    world.sweep(60)
    found = row(world, hidden)

    assert ("no-data", PROBLEM, None) == (found.verdict, found.reason, found.idle_since)
    for name in ("name", "instance_type", "owner", "project", "usd_per_hour", "launched_at"):
        assert getattr(known, name) == getattr(found, name), name
    assert (90, (*known.hours[1:], None)) == (known.hours[-2], found.hours)


def test_what_people_decided_about_it_is_still_listed() -> None:
    """A keep and an exemption are in the state table, and not in EC2's record."""
    world = FleetWorld()
    exempt, kept = world.add(1, tags=TAGS), world.add(2, tags=TAGS)
    until = NOW + timedelta(days=3)
    exemption = Hold(exempt_reason="a demo (link:ada@example.com)", exempt_in="vision")
    world.state.store_hold(TARGET, exempt, exemption)
    keep = Hold(snoozed_until=until, kept_in="vision", keeper="link:bob@example.com")
    world.state.store_hold(TARGET, kept, keep)
    world.sweep()
    before = [row(world, exempt), row(world, kept)]
    hide(world, exempt, kept)
    world.sweep(5)
    after = [row(world, exempt), row(world, kept)]

    assert ["no-data", "no-data"] == [one.verdict for one in after]
    for known, found in zip(before, after, strict=True):
        assert known.kept_because is not None
        for name in ("kept_because", "kept_by", "stays_until", "kept_until", "exempt"):
            assert getattr(known, name) == getattr(found, name), name
