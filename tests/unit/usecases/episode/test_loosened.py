"""A policy that was loosened after the question: the guards take the stricter of the two."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from governor.domain.approvals.terms import terms_of
from governor.domain.episode.episode import Outcome
from governor.domain.episode.plan import Step
from governor.domain.policy.changes import _OF_A_PROOF, asked_under
from governor.domain.policy.contacts import Contact, Ownership
from governor.domain.policy.policy import IdleRule, Policy, TagMatch, Targets, Vetoes
from governor.errors import SafetyError
from tests.unit.usecases.world import ALICE, PEOPLE, World

LOOSER: dict[str, dict[str, Any]] = {
    "idle": {
        "utilization_below_percent": 50.0,
        "window_minutes": 10,
        "minimum_coverage_percent": 50.0,
        "grace_after_launch_minutes": 0,
    },
    "vetoes": {
        "memory_used_percent": 100.0,
        "power_percent_of_limit": None,
        "cpu_percent": None,
        "network_bytes_per_second": 1e12,
        "session_younger_than_hours": None,
        "required": (),
    },
    "approval": {
        "ask_after_minutes": 5,
        "ask_after_released_minutes": 5,
        "released_memory_below_percent": 50.0,
        "released_for_minutes": 5,
        "notice_minutes": 5.0,
        "wait_at_most_hours": 168,
    },
}


def asked_world() -> World:
    """With the figures of its policy in the episode, as every new one has them."""
    world = World()
    policy = world.policies.policy
    episode = world.state.episode(world.ref)
    assert episode is not None
    terms = terms_of(policy, episode.plan, episode.price)
    world.state.put(replace(episode, asked_under=asked_under(policy), terms=terms))
    return world


def change(world: World, **sections: Any) -> None:
    """The policy says something else from now on."""
    world.policies.policy = replace(world.policies.policy, **sections)


def test_every_figure_that_proves_idleness_is_compared() -> None:
    """A new one must be added here, and declare which way it is risky."""
    assert set(LOOSER["idle"]) == {one.name for one in fields(IdleRule)}
    assert set(LOOSER["vetoes"]) == {one.name for one in fields(Vetoes)}
    assert set(LOOSER["approval"]) == set(_OF_A_PROOF)


@pytest.mark.parametrize(("section", "name"), [(s, n) for s, names in LOOSER.items() for n in names])
def test_a_loosened_figure_changes_nothing_and_a_stricter_one_counts(section: str, name: str) -> None:
    """Whichever of the two policies it is that proves more."""
    strict = Policy(vetoes=Vetoes(memory_used_percent=10.0))
    # In this order, each of them must be at most the one before.
    chain = ("ask_after_minutes", "ask_after_released_minutes", "released_for_minutes")
    names = dict.fromkeys(chain[chain.index(name) :], 5) if name in chain else {name: LOOSER[section][name]}
    loose = replace(strict, **{section: replace(getattr(strict, section), **names)})

    assert strict == asked_under(strict).stricter(loose)
    assert strict == asked_under(loose).stricter(strict)


def test_work_that_only_todays_threshold_calls_idle_keeps_the_instance() -> None:
    """Somebody raised it from 5 % to 50 % after the yes; the GPU works at 20 %."""
    world = asked_world()
    change(world, idle=replace(world.policies.policy.idle, utilization_below_percent=50))
    world.publish_quiet(utilization=20.0)

    assert not world.recheck(world.ref, Step.STOP).proceed


def test_a_removed_target_acts_no_more() -> None:
    """The policy names another account since; all is as it was asked about otherwise."""
    world = asked_world()
    change(world, targets=Targets(accounts=("999999999999",)))

    with pytest.raises(SafetyError, match="targets no longer name"):
        world.put_away(world.ref, Step.STOP)
    rechecked = world.recheck(world.ref, Step.STOP)
    assert (False, Outcome.REFUSED) == (rechecked.proceed, rechecked.outcome)
    assert [] == world.writes()


@pytest.mark.parametrize(
    "ownership",
    [Ownership(), Ownership(contacts={"new": Contact(emails=("bob@example.com",))})],
    ids=["nobody", "others"],
)
def test_an_approver_who_has_gone_approves_nothing(ownership: Ownership) -> None:
    """Nor does one whom the policy names only since."""
    world = asked_world()
    world.put_away(world.ref, Step.STOP)
    world = asked_world()
    change(world, ownership=ownership)
    with pytest.raises(SafetyError, match="those who may give it"):
        world.put_away(world.ref, Step.STOP)

    world = asked_world()
    episode = world.state.episode(world.ref)
    assert episode is not None
    terms = replace(episode.terms, known_people=frozenset({"bob@example.com"}))
    world.state.put(replace(episode, terms=terms))
    change(world, ownership=PEOPLE)
    with pytest.raises(SafetyError, match="those who may give it"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()
    assert ALICE not in terms.known_people


def test_the_exemption_of_then_counts_as_that_of_now() -> None:
    """Somebody changed the key after the question; the tag that says no is still there."""
    world = asked_world()
    change(world, exemption=TagMatch("Other", "exempt"))
    world.put_away(world.ref, Step.STOP)

    world = asked_world()
    change(world, exemption=TagMatch("Other", "exempt"))
    world.change_instance(tags={**world.instance.tags, "GpuGovernor": "exempt"})
    with pytest.raises(SafetyError, match="the instance is exempt"):
        world.put_away(world.ref, Step.STOP)


def test_two_policies_that_do_not_fit_act_on_nothing() -> None:
    """A window of 61 minutes is no whole number of five."""
    world = asked_world()
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert episode.asked_under is not None
    odd = replace(episode.asked_under, idle=replace(episode.asked_under.idle, window_minutes=61))
    world.state.put(replace(episode, asked_under=odd))

    with pytest.raises(SafetyError, match="does not fit"):
        world.put_away(world.ref, Step.STOP)
