"""Plans: what may be done to whom, and what replaces it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given

from governor.core.instance import (
    Lifecycle,
    Protection,
    SpotRequestType,
)
from governor.episode.model.plan import PlanFacts, Step
from governor.episode.rules.plan import (
    MAIN_STEPS,
    acts_on_silence,
    companions,
    draw_plan,
    mode_of,
    why_impossible,
)
from governor.policy.model.acting import Action, ApprovalRule, PlanRule
from governor.policy.model.policy import Mode, Policy
from tests.builders import make_facts, make_instance
from tests.unit.episode.plans import STOP, TERMINATE, any_facts, any_policy


@given(any_facts(), any_policy)
def test_nothing_is_terminated_without_a_snapshot_before_it(
    facts: PlanFacts, policy: Policy
) -> None:
    """For every combination: a snapshot comes first, and a persistent request is canceled right
    before."""
    steps = draw_plan(facts, policy).steps

    if Step.TERMINATE in steps:
        assert steps.index(Step.SNAPSHOT) < steps.index(Step.TERMINATE) == len(steps) - 1
        assert facts.instance.volumes
        persistent = facts.spot_request is SpotRequestType.PERSISTENT
        assert persistent == (steps[-2] is Step.CANCEL_SPOT_REQUEST)


@given(any_facts(), any_policy)
def test_a_human_no_and_other_owners_are_obeyed(facts: PlanFacts, policy: Policy) -> None:
    """Stop protection, managers, prepaid and unknown lifecycles never get a step."""
    plan = draw_plan(facts, policy)
    instance = facts.instance
    paid_anyway = instance.lifecycle not in (Lifecycle.ON_DEMAND, Lifecycle.SPOT)
    managed = instance.operator_managed or bool(instance.tags)
    prepaid = instance.capacity_reservation_id or instance.host_id
    if facts.protection.stop or managed or paid_anyway or prepaid:
        assert () == plan.steps
    if facts.protection.termination is not False:
        assert Step.TERMINATE not in plan.steps
    if policy.plan.action is not Action.NOTIFY_ONLY and plan.action is not plan.wanted:
        assert plan.replaced_because


def test_an_on_demand_instance_is_stopped_then_snapshot() -> None:
    """The default plan."""
    assert (Step.STOP, Step.SNAPSHOT) == draw_plan(make_facts(), STOP).steps


def test_a_one_time_spot_instance_is_told_by_default() -> None:
    """EC2 cannot stop it; the policy must say terminate."""
    spot = make_instance(lifecycle=Lifecycle.SPOT, spot_request_id="sir-1")
    facts = make_facts(spot, spot_request=SpotRequestType.ONE_TIME)
    allowed = Policy(plan=PlanRule(when_stop_is_unsupported=Action.TERMINATE))

    assert () == draw_plan(facts, STOP).steps
    assert (Step.SNAPSHOT, Step.TERMINATE) == draw_plan(facts, allowed).steps


def test_a_spot_instance_whose_request_is_unknown_counts_as_one_time() -> None:
    """The careful reading: it is never stopped on a guess."""
    spot = make_instance(lifecycle=Lifecycle.SPOT, spot_request_id="sir-1")

    assert Step.STOP not in draw_plan(make_facts(spot, spot_request=None), TERMINATE).steps


@pytest.mark.parametrize("lifecycle", [Lifecycle.CAPACITY_BLOCK, Lifecycle.SCHEDULED])
def test_prepaid_capacity_saves_nothing_and_says_so(lifecycle: Lifecycle) -> None:
    """Stopping it would only lose work."""
    plan = draw_plan(make_facts(make_instance(lifecycle=lifecycle)), TERMINATE)

    assert "stopping saves nothing" in plan.replaced_because[0]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("on_expiry", ["act", "no-action"])
@pytest.mark.parametrize("loses", [True, False])
@pytest.mark.parametrize("unasked", [True, False])
def test_disks_inside_the_host_are_wiped_without_a_yes_only_where_the_policy_says_so(
    mode: Mode, on_expiry: Literal["act", "no-action"], loses: bool, unasked: bool
) -> None:
    """Mode auto asks, and silence is no yes; every other plan goes by the policy's words alone."""
    rule = PlanRule(local_disks_may_be_lost_unasked=unasked)
    policy = Policy(mode=mode, plan=rule, approval=ApprovalRule(on_expiry=on_expiry))
    plan = replace(draw_plan(make_facts(), policy), loses_local_disks=loses)

    asks = loses and not unasked
    assert (Mode.ASK if asks and mode is Mode.AUTO else mode) is mode_of(policy, plan)
    assert (on_expiry == "act" and not asks) is acts_on_silence(policy, plan)


def test_what_can_neither_be_stopped_nor_terminated_is_left_alone() -> None:
    """Whatever the policy says of each alone: a stop of a one-time Spot instance would fail."""
    spot = make_instance(lifecycle=Lifecycle.SPOT, spot_request_id="sir-1")
    facts = make_facts(
        spot, spot_request=SpotRequestType.ONE_TIME, protection=Protection(termination=True)
    )
    stop_instead = Policy(
        plan=PlanRule(Action.TERMINATE, when_termination_is_protected=Action.STOP)
    )

    plan = draw_plan(facts, stop_instead)
    assert (Action.NOTIFY_ONLY, ()) == (plan.action, plan.steps)


def test_a_policy_that_only_notifies_has_no_other_reason() -> None:
    """Nothing replaces what it wants."""
    protected = make_facts(protection=Protection(stop=True))
    plan = draw_plan(protected, Policy(plan=PlanRule(Action.NOTIFY_ONLY)))
    assert (Action.NOTIFY_ONLY, ()) == (plan.action, plan.replaced_because)


def test_a_dedicated_host_is_paid_anyway() -> None:
    """The host is billed, not the instance on it."""
    plan = draw_plan(make_facts(make_instance(host_id="h-0123456789abcdef0")), TERMINATE)

    assert () == plan.steps
    assert "h-0123456789abcdef0" in plan.replaced_because[0]
    assert "stopping saves nothing" in plan.replaced_because[0]


def test_a_persistent_spot_request_is_cancelled_right_before_the_termination() -> None:
    """Stop, snapshot, cancel, terminate; a stop alone leaves the request as it is."""
    spot = make_instance(lifecycle=Lifecycle.SPOT, spot_request_id="sir-1")
    facts = make_facts(spot, spot_request=SpotRequestType.PERSISTENT)

    assert (Step.STOP, Step.SNAPSHOT) == draw_plan(facts, STOP).steps
    assert (Step.STOP, Step.SNAPSHOT, Step.CANCEL_SPOT_REQUEST, Step.TERMINATE) == draw_plan(
        facts, TERMINATE
    ).steps


def test_termination_protection_falls_back_to_a_stop_only_where_the_policy_says_so() -> None:
    """The flag forbids to terminate; whether a stop is welcome instead is the policy's word."""
    facts = make_facts(protection=Protection(termination=True))
    stop_instead = Policy(
        plan=PlanRule(Action.TERMINATE, when_termination_is_protected=Action.STOP)
    )

    assert () == draw_plan(facts, TERMINATE).steps
    assert (Step.STOP, Step.SNAPSHOT) == draw_plan(facts, stop_instead).steps
    assert "is on, so it is not" in draw_plan(facts, stop_instead).replaced_because[0]


def test_stop_protection_that_a_partition_does_not_know_is_said() -> None:
    """The plan is as without it: EC2 would not have let anybody set the flag."""
    facts = make_facts(protection=Protection(stop=None))
    said = (
        "stop protection is not known, because EC2 in this Region does not support disableApiStop"
    )

    for policy in (STOP, TERMINATE):
        plan = draw_plan(facts, policy)
        assert draw_plan(make_facts(), policy).steps == plan.steps
        assert (said,) == plan.replaced_because


def test_termination_protection_that_is_not_known_forbids_a_termination() -> None:
    """A stop can be undone."""
    facts = make_facts(protection=Protection(termination=None))
    stop_instead = Policy(
        plan=PlanRule(Action.TERMINATE, when_termination_is_protected=Action.STOP)
    )

    assert () == draw_plan(facts, TERMINATE).steps
    assert (Step.STOP, Step.SNAPSHOT) == draw_plan(facts, stop_instead).steps
    assert "is not known" in draw_plan(facts, stop_instead).replaced_because[0]
    assert () == draw_plan(facts, STOP).replaced_because


def test_what_has_no_volume_is_not_terminated() -> None:
    """Nothing could be kept of it, and the plan says so."""
    bare = make_facts(make_instance(volumes=(), root_device_type="instance-store"))
    allowed = Policy(plan=PlanRule(when_stop_is_unsupported=Action.TERMINATE))

    for policy in (TERMINATE, allowed):
        plan = draw_plan(bare, policy)
        assert () == plan.steps
        assert "it has no EBS volume, so no snapshot could keep its data" in plan.replaced_because


@pytest.mark.parametrize(
    ("policy", "verb"), [(STOP, "stop"), (TERMINATE, "terminate"), (Policy(), "stop")]
)
def test_a_plan_is_named_by_what_it_does_in_the_end(policy: Policy, verb: str) -> None:
    """In the subject of its question, and on its button."""
    assert verb == draw_plan(make_facts(), policy).verb


@given(any_facts(), any_policy)
def test_every_step_is_carried_out_with_a_main_step_of_its_plan(
    facts: PlanFacts, policy: Policy
) -> None:
    """A companion goes right before the next main step, so that none is left over."""
    steps = draw_plan(facts, policy).steps

    carried_out = [
        one for main in steps if main in MAIN_STEPS for one in (*companions(steps, main), main)
    ]
    assert list(steps) == carried_out


def test_a_companion_says_what_it_needs() -> None:
    """Where the Spot request is not known, nothing is terminated, since a successor could be
    launched."""
    known, unknown = make_instance(spot_request_id="sir-1"), make_instance(spot_request_id=None)

    assert why_impossible(Step.CANCEL_SPOT_REQUEST, known) is None
    assert "could be launched" in str(why_impossible(Step.CANCEL_SPOT_REQUEST, unknown))
