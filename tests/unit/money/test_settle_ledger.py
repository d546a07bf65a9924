"""A saving ends when the instance runs again, whichever way that becomes known."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Throttled
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.store.ledger import booking
from tests.builders import NOW, make_instance
from tests.unit.worlds.builders import asked, recorder, start_acting, stored_episode
from tests.unit.worlds.fleet_world import FleetWorld

TAGS = make_instance().tags


def stopped_by_us() -> tuple[FleetWorld, str, EpisodeRef]:
    """The stop is asked for now; its snapshots are under way, so nothing is booked yet."""
    world, instance_id, ref = asked()
    start_acting(world, ref)
    for step in (Step.STOP, Step.SNAPSHOT):
        world.state.note_step(ref, step.value, NOW)
    world.state.set_snapshots(ref, {"snap-1": "vol-1"})
    world.change(instance_id, state="stopped")
    return world, instance_id, ref


def book(world: FleetWorld, ref: EpisodeRef, outcome: Outcome = Outcome.STOPPED) -> None:
    """The last step of the workflow."""
    recorder(world)(ref, outcome)


def restart(world: FleetWorld, instance_id: str, minutes: float) -> datetime:
    """Somebody starts it, that long after the stop."""
    at = NOW + timedelta(minutes=minutes)
    world.change(instance_id, state="running", launch_time=at)
    return at


def only_entry(world: FleetWorld) -> LedgerEntry:
    """The one entry there is."""
    (entry,) = world.state.entries("2026-11")
    return entry


@pytest.mark.parametrize(("minutes", "false_stop"), [(30, True), (60, True), (61, False)])
def test_a_restart_before_the_booking_ends_the_saving(minutes: float, false_stop: bool) -> None:
    """Snapshots take hours; the event of the restart found nothing to settle, the sweep does."""
    world, instance_id, ref = stopped_by_us()
    at = restart(world, instance_id, minutes)
    world.clock.moment = NOW + timedelta(hours=5)
    book(world, ref)
    world.sweep(5)

    assert (at, false_stop) == (only_entry(world).ended_at, only_entry(world).false_stop)


def test_a_restart_that_ends_the_episode_ends_the_saving_of_its_stop() -> None:
    """Seen in a storm: restarted while the next step waited; the episode failed, and its stop saved
    on."""
    world, instance_id, ref = stopped_by_us()
    at = restart(world, instance_id, 70)
    world.clock.moment = NOW + timedelta(minutes=85)
    book(world, ref, Outcome.FAILED)
    world.sweep(5)

    assert (Outcome.STOPPED, at) == (only_entry(world).outcome, only_entry(world).ended_at)


def test_a_restart_whose_event_was_lost_ends_the_saving() -> None:
    """The sweep sees it run, and repeats nothing afterwards."""
    world, instance_id, ref = stopped_by_us()
    book(world, ref)
    world.sweep(5)
    assert only_entry(world).ended_at is None

    at = restart(world, instance_id, 600)
    world.sweep(600)
    first = only_entry(world)
    world.sweep(5)
    assert at == first.ended_at
    assert first == only_entry(world)


@pytest.mark.parametrize(
    ("changes", "minutes", "is_replaced"),
    [
        ({}, 200, True),
        ({}, -200, False),
        ({"instance_type": "g5.48xlarge"}, 200, False),
        ({"tags": {**TAGS, "Owner": "somebody-else"}}, 200, False),
        ({"tags": {**TAGS, "Project": "another"}}, 200, False),
    ],
    ids=["the same", "ran before", "another type", "of another owner", "for another project"],
)
def test_the_like_of_it_that_is_started_takes_its_place(
    changes: dict[str, Any], minutes: float, is_replaced: bool
) -> None:
    """By the same owner, for the same project: from then on nothing is saved, as the next sweep
    finds too."""
    world, _, ref = stopped_by_us()
    book(world, ref)
    at = NOW + timedelta(minutes=minutes)
    world.add(2, [90.0] * 48, launch_time=at, **changes)
    world.sweep(300)
    world.sweep(5)

    entry = only_entry(world)
    assert (Ending.REPLACED if is_replaced else None) is entry.ended
    assert (at if is_replaced else None) == entry.ended_at
    assert entry.replaced_by == ("i-00000000000000002" if is_replaced else "")


def test_one_start_takes_the_place_of_one_stop() -> None:
    """The first of two that were stopped, also in another Region; the second goes on saving."""
    world, _, ref = stopped_by_us()
    book(world, ref)
    there = replace(only_entry(world), episode=replace(ref, region="eu-west-1", number=7))
    world.state._table.transact(*booking(replace(there, booked_at=NOW - timedelta(hours=1))))
    targets = replace(world.policies.policy.targets, regions=("us-east-1", "eu-west-1"))
    world.policies.policy = replace(world.policies.policy, targets=targets)
    world.add(2, [90.0] * 48, launch_time=NOW + timedelta(minutes=200))
    world.sweep(300)

    found = {one.episode.region: one.ended for one in world.state.entries("2026-11")}
    assert {"eu-west-1": Ending.REPLACED, "us-east-1": None} == found


def test_an_instance_that_is_seen_running_as_it_was_settles_nothing() -> None:
    """Another start is what ends a saving, not a listing that lags behind the stop."""
    world, instance_id, ref = stopped_by_us()
    book(world, ref)
    world.change(instance_id, state="running")
    world.sweep(5)

    assert only_entry(world).ended_at is None


def test_a_ledger_that_cannot_be_read_is_looked_at_again() -> None:
    """It is counted as a problem, and the other effects of the sweep are done; within an hour it is
    read."""
    world, instance_id, ref = stopped_by_us()
    book(world, ref)
    at = restart(world, instance_id, 600)
    entries = world.state.open_entries

    def throttled(*_: object) -> list[LedgerEntry]:
        raise Throttled("later")

    world.state.open_entries = throttled  # type: ignore[method-assign, assignment]
    summary = world.sweep(600)
    world.state.open_entries = entries  # type: ignore[method-assign, assignment]
    assert ([True], 1) == (["later" in problem for problem in summary.problems], summary.instances)

    world.sweep(60)
    assert at == only_entry(world).ended_at


def test_the_entry_holds_what_the_episode_promised() -> None:
    """Before, after and the difference, from the plan that people saw; booked at the stop."""
    world, _, ref = stopped_by_us()
    world.clock.moment = NOW + timedelta(hours=5)
    book(world, ref)
    entry, saving = only_entry(world), stored_episode(world, ref).plan.saving

    assert NOW == entry.booked_at
    assert saving.saved_usd_per_hour == entry.saved_usd_per_hour
    assert Decimal("1.006") - Decimal(5) / 730 == entry.saved_usd_per_hour
    assert (saving.cost_before_usd_per_hour, saving.cost_after_usd_per_hour) == (
        entry.cost_before_usd_per_hour,
        entry.cost_after_usd_per_hour,
    )
