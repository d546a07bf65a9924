"""A policy that was loosened after the question: the guards take the stricter of the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from governor.approvals.rules.terms import terms_of
from governor.core.errors import SafetyError
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.judging import SecondFigure, Targets
from governor.policy.model.names import TagMatch
from governor.policy.model.policy import Mode, Policy
from governor.policy.model.profiles import ProfileName, UtilizationScale
from governor.policy.rules.changes import asked_under, settings_of
from tests.unit.worlds.world import ALICE, PEOPLE, World

LOOSER: dict[str, Any] = {
    "idle.utilization_below_percent": 50.0,
    "idle.window_minutes": 10,
    "idle.minimum_coverage_percent": 50.0,
    "idle.grace_after_launch_minutes": 0,
    "idle.second_figure": SecondFigure.UNASKED,
    "vetoes.busy_vcpus": None,
    "vetoes.video_percent": 50.0,
    "vetoes.encoder_sessions": None,
    "vetoes.encoded_frames_per_second": None,
    "vetoes.memory_used_percent": 100.0,
    "vetoes.power_percent_of_limit": None,
    "vetoes.cpu_percent": None,
    "vetoes.network_bytes_per_second": 1e12,
    "vetoes.session_younger_than_hours": None,
    "vetoes.required": (),
    "approval.ask_after_minutes": 5,
    "approval.ask_after_released_minutes": 5,
    "approval.released_memory_below_percent": 50.0,
    "approval.notice_minutes": 5.0,
    "approval.wait_at_most_hours": 168,
    "plan.running_snapshot_valid_minutes": 2_880,
    "plan.snapshot_retention_days": 1,
    "metrics.bound_namespaces": False,
    "metrics.publishers_are_trusted": True,
    "managed.tag_keys": (),
}
"""The stricter of both counts."""
REFUSED: dict[str, Any] = {
    "mode": Mode.AUTO,
    "selector": TagMatch("Other", "x"),
    "targets.accounts": ("999999999999",),
    "targets.units": ("ou-abcd-11111111",),
    "targets.regions": ("ap-south-1",),
    "plan.action": Action.TERMINATE,
    "metrics.profile": ProfileName.CUSTOM,
    "metrics.device_dimension": "Slot",
    "metrics.utilization_scale": UtilizationScale.SHARE,
    "metrics.series_per_device": 2,
    "metrics.namespace": "GPU/Other",
    "metrics.utilization": "idle_utilization",
    "metrics.memory_used": "other",
    "metrics.power_draw": "other",
    "metrics.temperature": "other",
    "metrics.encoder_utilization": "other",
    "metrics.decoder_utilization": "other",
    "metrics.encoder_sessions": "other",
    "metrics.encoded_frames": "other",
    "metrics.memory_utilization": "other",
    "metrics.hardware_namespace": "Other",
    "metrics.period_seconds": 60,
    "metrics.collection_interval_seconds": 300,
    "metrics.lag_seconds": 0,
    "metrics.work": None,
    "ownership.owner_tag_keys": ("Team",),
    "ownership.project_tag_keys": ("Team",),
}
"""Neither of the two is the stricter one, or another guard compares them: nothing is done."""
ELSEWHERE = {
    "targets.without_units": "sweeps take their accounts out of those of the units: "
    "test_organization.py",
    "targets.without": "nothing is done in a place that the policy does not govern today: "
    "test_accounts.py",
    "exemption.tag_key exemption.tag_value": "both tags keep it: "
    "test_the_exemption_of_then_counts_as_now",
    "selector.tag_key selector.tag_value": "both tags are needed: REFUSED",
    "plan.when_stop_is_unsupported "
    "plan.when_termination_is_protected": "the steps are compared: plan.action",
    "plan.local_disks_may_be_lost_unasked "
    "approval.on_expiry": "the mode, and what silence means, are those "
    "of the episode and of today: REFUSED, and test_silence.py",
    "plan.delete_expired_snapshots "
    "plan.delete_last_of_terminated": "of closed episodes: their owners get a "
    "message a week before, whatever was asked then: test_expire_snapshots.py",
    "approval.ask_about_stopped_after_days": "a question of its own, for two people; "
    "off, it ends one that "
    "is open: test_stopped.py",
    "budget.act": "the mode that it leads to must be the episode's: test_over_budget.py",
    "plan.stop_limit_minutes plan.snapshot_limit_minutes": "how long EC2 may take; the "
    "guards stand after it",
    "approval.people_to_stop approval.people_to_terminate approval.two_people_above_usd_per_hour "
    "approval.broadcast_may approval.tag_owner_may "
    "approval.cli_may": "terms: test_terms.py, and below",
    "approval.remind_after_minutes approval.escalate_after_minutes "
    "approval.expire_after_minutes": "the question's schedule is its own, made when it was opened",
    "approval.keep_at_most_days approval.keep_after_undo_hours "
    "approval.ask_again_after_hours": "of the "
    "instance's rest after a no, an undo or an end; the next episode is asked under what "
    "it says then",
    "ownership.contacts ownership.project_owners ownership.default_contacts "
    "ownership.escalation_contacts "
    "ownership.email_domains": "who is asked: the question has gone to those of "
    "then; who approves: test_an_approver_who_has_gone_approves_nothing",
    "ownership.default_owner": "as the tags that name an owner: REFUSED",
    "two_people_for_policy": "of documents, not of instances",
    "console.scopes": "who sees which instances in the console; who answers a question "
    "is the terms' matter",
    "prices.usd_per_hour": "the price is the episode's own",
    "caps.organization_actions_per_hour caps.account_actions_per_hour "
    "caps.owner_actions_per_hour": "how "
    "many of those that people have approved begin in one hour; no proof about this one",
    "breaker": "a freeze is lifted by an operator, for what was asked before, too: docs/policy.md",
    "events": "what the governor does in an instance that EC2 takes back; no episode's step",
}
"""Why it needs no comparison with what the policy said when the question was asked."""
RISKY = {path for path, risk, _ in settings_of(Policy()) if risk != "none"}
ALLOWED_BY: dict[str, dict[str, Any]] = {
    "metrics.device_dimension": {"metrics.profile": ProfileName.CUSTOM},
    "metrics.utilization_scale": {"metrics.profile": ProfileName.CUSTOM},
    "metrics.series_per_device": {"metrics.profile": ProfileName.CUSTOM},
}
"""Settings that a policy must have for one of `REFUSED` to be accepted at all."""


def asked_world(policy: Callable[[Policy], Policy] = lambda policy: policy) -> World:
    """With the figures of its policy in the episode, as every new one has them."""
    world = World()
    world.policies.policy = policy(world.policies.policy)
    episode = world.state.episode(world.ref)
    assert episode is not None
    terms = terms_of(world.policies.policy, episode.plan, episode.price)
    world.state.put(
        replace(
            episode,
            asking=replace(episode.asking, asked_under=asked_under(world.policies.policy)),
            terms=terms,
        )
    )
    return world


def change(world: World, **sections: Any) -> None:
    """The policy says something else from now on."""
    world.policies.policy = replace(world.policies.policy, **sections)


def with_settings(policy: Policy, values: dict[str, Any]) -> Policy:
    """The same policy with these settings, each by its path."""
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        value = replace(getattr(policy, section), **{name: value}) if section else value
        policy = replace(policy, **{section or name: value})
    return policy


def strict(policy: Policy) -> Policy:
    """With a limit for everything, so that each can be loosened."""
    return with_settings(
        policy,
        {
            "vetoes.memory_used_percent": 10.0,
            "vetoes.busy_vcpus": 8.0,
            "idle.second_figure": SecondFigure.REQUIRED,
            "metrics.bound_namespaces": True,
            "managed.tag_keys": ("batch",),
        },
    )


def test_every_setting_that_may_loosen_something_is_compared_or_says_why_not() -> None:
    """A new setting without a declared risk is risky, and must be named in one of the three
    lists."""
    said = [one for paths in ELSEWHERE for one in paths.split()]
    named = {*LOOSER, *REFUSED, *said} - {"selector"}

    unnamed = {path for path in RISKY if not {path, path.partition(".")[0]} & named}

    assert set() == unnamed, "name each of these settings in LOOSER, REFUSED or ELSEWHERE"
    assert named - {"breaker", "events"} <= RISKY


@pytest.mark.parametrize("path", LOOSER)
def test_a_loosened_figure_changes_nothing_and_a_stricter_one_counts(path: str) -> None:
    """Whichever of the two policies it is that proves more; the guards judge an approved episode by
    it."""
    # In this order, each of them must be at most the one before.
    chain = [f"approval.{n}" for n in ("ask_after_minutes", "ask_after_released_minutes")]
    looser = (
        dict.fromkeys(reversed(chain[chain.index(path) :]), 5)
        if path in chain
        else {path: LOOSER[path]}
    )
    world = asked_world(strict)
    asked = world.policies.policy
    world.policies.policy = with_settings(asked, looser)

    assert asked == world.guards.check(world.ref, Step.STOP).applied.policy

    loose = asked_world(lambda policy: with_settings(strict(policy), looser))
    loose.policies.policy = asked
    assert asked == loose.guards.check(loose.ref, Step.STOP).applied.policy


@pytest.mark.parametrize("path", REFUSED)
def test_what_has_no_stricter_side_is_not_acted_on_once_it_is_changed(path: str) -> None:
    """An answer under other metrics, another owner or another plan was given to another
    question."""
    world = asked_world(lambda policy: with_settings(policy, ALLOWED_BY.get(path, {})))
    world.guards.check(world.ref, Step.STOP)
    world.policies.policy = with_settings(world.policies.policy, {path: REFUSED[path]})

    with pytest.raises(SafetyError):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_a_question_of_an_earlier_release_is_judged_by_what_it_kept() -> None:
    """Its episode has neither the plan's minutes nor the metrics; the other figures are
    compared."""
    world = asked_world(strict)
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert episode.asking.asked_under is not None
    older = replace(
        episode.asking.asked_under, plan=None, metrics=None, managed=None, selector=None
    )
    world.state.put(replace(episode, asking=replace(episode.asking, asked_under=older)))
    plan_limit = "plan.running_snapshot_valid_minutes"
    now = {path: LOOSER[path] for path in (plan_limit, "idle.utilization_below_percent")}
    asked, world.policies.policy = world.policies.policy, with_settings(world.policies.policy, now)

    found = world.guards.check(world.ref, Step.STOP).applied.policy
    assert with_settings(asked, {plan_limit: LOOSER[plan_limit]}) == found


def test_nobody_is_believed_who_publishes_where_everybody_may() -> None:
    """A namespace of its own was needed for the question; after the yes somebody switched that
    off."""
    world = asked_world(strict)
    world.policies.policy = with_settings(
        world.policies.policy, {"metrics.bound_namespaces": False}
    )

    rechecked = world.recheck(world.ref, Step.STOP)
    assert (False, Outcome.REFUSED) == (rechecked.proceed, rechecked.outcome)
    assert "no-data" in rechecked.reason


def test_work_that_only_todays_threshold_calls_idle_keeps_the_instance() -> None:
    """Somebody raised it from 5% to 50% after the yes; the GPU works at 20%."""
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


def test_the_selector_of_then_counts_as_that_of_now() -> None:
    """Somebody took the tag off to have it left alone; the policy selects by another one since."""
    world = asked_world()
    change(world, selector=TagMatch("Other", "x"))
    world.change_instance(tags={**world.instance.tags, "Other": "x"})
    world.guards.check(world.ref, Step.STOP)
    world.change_instance(tags={**world.instance.tags, "Purpose": "", "Other": "x"})

    with pytest.raises(SafetyError, match="no longer carries Purpose=GPU-Workload"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_two_policies_that_do_not_fit_act_on_nothing() -> None:
    """A window of 61 minutes is no whole number of five."""
    world = asked_world()
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert episode.asking.asked_under is not None
    odd = replace(
        episode.asking.asked_under, idle=replace(episode.asking.asked_under.idle, window_minutes=61)
    )
    world.state.put(replace(episode, asking=replace(episode.asking, asked_under=odd)))

    with pytest.raises(SafetyError, match="does not fit"):
        world.put_away(world.ref, Step.STOP)
