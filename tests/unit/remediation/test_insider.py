"""Somebody who writes the state table past the product: what they can do, and cannot
(docs/threats.md).

Such a person has the break-glass role, or has taken the policy off the table. Each test changes
items as they would, and shows both sides.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from governor.core.episode_ref import EpisodeRef
from governor.core.errors import MustWait, SafetyError
from governor.episode.model.plan import Step
from governor.limits.model.breaker import BreakerState
from governor.policy.model.limits import Caps
from governor.table import keys
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.twins import StaticPrices
from tests.unit.policy.test_policy_versions import ALICE, ASK, AUTO, BOB, OBSERVE, STRICT, Versions
from tests.unit.worlds.world import PRICE, World


def delete(world: World, *partitions: str) -> None:
    """Delete all items of these kinds of partitions."""
    for key in [key for key in world.state.items if key[0].partition("#")[0] in partitions]:
        del world.state.items[key]


def delete_hold(world: World) -> None:
    for key in keys.holds(TARGET, world.instance.instance_id):
        world.state.items.pop(key, None)


def kept(*, decide: bool) -> World:
    """An instance that somebody keeps, asked about, with or without a yes."""
    world = World(decide=decide)
    world.state.store_hold(
        TARGET, world.instance.instance_id, Hold(snoozed_until=NOW + timedelta(days=3))
    )
    with pytest.raises(SafetyError):
        world.put_away(world.ref, Step.STOP)
    return world


def test_a_deleted_hold_lets_a_standing_yes_act_and_nothing_without_a_yes() -> None:
    approved, asked = kept(decide=True), kept(decide=False)

    delete_hold(approved)
    delete_hold(asked)

    approved.put_away(approved.ref, Step.STOP)
    assert ["stop"] == approved.writes()
    with pytest.raises(SafetyError):
        asked.put_away(asked.ref, Step.STOP)
    assert [] == asked.writes()


def test_a_deleted_question_or_episode_ends_in_nothing() -> None:
    """Its yes is gone, too."""
    for kind in ("APPROVAL", "EPISODE"):
        world = World()
        delete(world, kind)
        with pytest.raises(SafetyError):
            world.put_away(world.ref, Step.STOP)
        assert [] == world.writes()


def test_a_deleted_freeze_or_count_lets_approved_steps_through_and_no_others() -> None:
    """Freezes and caps hold back what people have approved; they approve nothing."""
    for decided in (True, False):
        world = World(decide=decided)
        world.state.set_breaker(TARGET, BreakerState(NOW, "outage"))
        world.state.begin_hub_freeze(BreakerState(NOW, "outage"))
        with pytest.raises((MustWait, SafetyError)):
            world.put_away(world.ref, Step.STOP)
        delete(world, "BREAKER")
        # For one release a copy of the freeze stays beside the record.
        world.state.items.pop((keys.target_pk(TARGET), "BREAKER"), None)
        if decided:
            world.put_away(world.ref, Step.STOP)
        else:
            with pytest.raises(SafetyError):
                world.put_away(world.ref, Step.STOP)
        assert (["stop"] if decided else []) == world.writes()


def test_a_deleted_count_of_the_hour_lets_more_start_than_the_cap() -> None:
    """A cap of 0 counts nothing, so that one stays."""
    world = World()
    world.policies.policy = replace(world.policies.policy, caps=Caps(account_actions_per_hour=1))
    place = f"CAPS#{world.clock.now():%Y%m%d%H}", f"ACCOUNT#{TARGET.account}"
    world.state.items[place] = {"pk": place[0], "sk": place[1], "taken": 1}
    with pytest.raises(MustWait, match="account_actions_per_hour"):
        world.put_away(world.ref, Step.STOP)

    delete(world, "CAPS")
    world.policies.policy = replace(world.policies.policy, caps=Caps(account_actions_per_hour=0))
    with pytest.raises(MustWait, match="account_actions_per_hour"):
        world.put_away(world.ref, Step.STOP)
    world.policies.policy = replace(world.policies.policy, caps=Caps(account_actions_per_hour=1))
    world.put_away(world.ref, Step.STOP)

    assert ["stop"] == world.writes()


def test_a_deleted_lock_has_people_asked_twice_and_the_first_yes_counts_no_more() -> None:
    world = World()
    again = EpisodeRef(
        TARGET.account, TARGET.region, world.ref.instance_id, world.ref.launch_time, 2
    )
    assert not world.state.take_lock(again)

    delete(world, "LOCK")
    world.state.items.pop(keys.instance(TARGET, world.ref.instance_id), None)

    assert world.state.take_lock(again)
    with pytest.raises(SafetyError, match="another episode is open"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_a_forged_price_changes_no_step() -> None:
    """An open question has the price of its evidence; only later amounts follow the forged one."""
    world = World()
    forged = replace(PRICE, usd_per_hour=Decimal("0.0001"))
    world.inspect = replace(world.inspect, prices=StaticPrices(forged))
    world.guards = replace(world.guards, inspect=world.inspect)
    world.put_away = replace(world.put_away, guards=world.guards)

    world.put_away(world.ref, Step.STOP)

    assert ["stop"] == world.writes()
    stored = world.state.episode(world.ref)
    assert stored is not None
    assert PRICE.usd_per_hour == stored.price.usd_per_hour


def swap(world: Versions, version: str) -> None:
    """Write into the table which version counts."""
    world.state.items["VERSION#in-force", "POLICY"]["version"] = version


def test_a_swapped_version_counts_until_the_next_sweep_and_its_text_is_not_theirs() -> None:
    """Only texts that are in the bucket can count, and its versions cannot be changed."""
    world = Versions(ASK)
    before = world.put(ASK)
    world.review()
    now = world.put(OBSERVE)
    assert now == world.review()

    world.told()

    swap(world, before)
    assert ASK == world.read()

    # A review that follows at once leaves the announcement to the one before.
    world.clock.moment += timedelta(minutes=5)
    assert now == world.review()
    assert OBSERVE == world.read()
    assert [now] == [alert.facts["version"] for alert in world.told()]


def test_acceptances_written_into_the_table_put_a_risky_version_in_force_and_people_are_told() -> (
    None
):
    """Acceptances are items, too. Nobody accepts a version that is not the newest of the bucket."""
    world = Versions(STRICT)
    world.put(STRICT)
    world.review()
    risky = world.put(AUTO)
    world.review()
    assert "v1" == world.state.version_in_force()
    world.told()

    for person in (ALICE, BOB):
        key = f"ACCEPTED#{risky}", f"aws:{person}"
        world.state.items[key] = {"pk": key[0], "sk": key[1], "at": NOW.isoformat()}

    assert risky == world.review()
    assert [risky] == [alert.facts["version"] for alert in world.told()]
