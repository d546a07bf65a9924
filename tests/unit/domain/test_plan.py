"""Plans: what may be done to whom, what replaces it, and what it saves."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.domain.instance import Instance, Lifecycle, Protection, SpotRequestType, Volume
from governor.domain.plan import PlanFacts, Price, Step, draw_plan
from governor.domain.policy import Action, PlanRule, Policy, Prices
from tests.builders import make_facts, make_instance

STOP = Policy(plan=PlanRule(action=Action.STOP))
TERMINATE = Policy(plan=PlanRule(action=Action.TERMINATE))

volumes = st.lists(
    st.builds(
        Volume,
        volume_id=st.integers(0, 99).map(lambda n: f"vol-{n:017x}"),
        device=st.just("/dev/sdf"),
        delete_on_termination=st.booleans(),
        size_gib=st.one_of(st.none(), st.integers(1, 16_000)),
    ),
    max_size=3,
).map(tuple)


@st.composite
def any_facts(draw: st.DrawFn) -> PlanFacts:
    """Any combination of what EC2 can tell."""
    lifecycle = draw(st.sampled_from(Lifecycle))
    instance: Instance = make_instance(
        lifecycle=lifecycle,
        root_device_type=draw(st.sampled_from(["ebs", "instance-store"])),
        volumes=draw(volumes),
        tags=draw(st.sampled_from([{}, {"aws:autoscaling:groupName": "x"}, {"karpenter.sh/nodepool": "x"}])),
        operator_managed=draw(st.booleans()),
        capacity_reservation_id=draw(st.sampled_from([None, "cr-1"])),
        spot_request_id="sir-1" if lifecycle is Lifecycle.SPOT else None,
    )
    return make_facts(
        instance,
        protection=Protection(draw(st.booleans()), draw(st.booleans())),
        spot_request=draw(st.sampled_from(SpotRequestType)) if lifecycle is Lifecycle.SPOT else None,
        price=Price(draw(st.sampled_from([None, Decimal("55.04")])), "somewhere"),
    )


any_policy = st.builds(
    lambda action, unsupported, protected: Policy(
        plan=PlanRule(
            action=action,
            when_stop_is_unsupported=unsupported,
            when_termination_is_protected=protected,
        )
    ),
    st.sampled_from(Action),
    st.sampled_from([Action.TERMINATE, Action.NOTIFY_ONLY]),
    st.sampled_from([Action.STOP, Action.NOTIFY_ONLY]),
)


@given(any_facts(), any_policy)
def test_nothing_is_terminated_without_a_snapshot_before_it(facts: PlanFacts, policy: Policy) -> None:
    """For every combination: a snapshot comes first, and a persistent request is cancelled right before."""
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
    if facts.protection.stop or managed or paid_anyway or instance.capacity_reservation_id:
        assert () == plan.steps
    if facts.protection.termination:
        assert Step.TERMINATE not in plan.steps
    if policy.plan.action is not Action.NOTIFY_ONLY and plan.action is not plan.wanted:
        assert plan.replaced_because


@given(any_facts(), any_policy)
def test_money_adds_up(facts: PlanFacts, policy: Policy) -> None:
    """Saved is before minus after; unpriced is unknown, never zero; nothing done saves nothing."""
    plan = draw_plan(facts, policy)
    saving = plan.saving

    if facts.price.usd_per_hour is None:
        assert saving.saved_usd_per_hour is None
        return
    assert saving.cost_before_usd_per_hour is not None
    assert saving.cost_after_usd_per_hour is not None
    assert saving.saved_usd_per_hour == saving.cost_before_usd_per_hour - saving.cost_after_usd_per_hour
    if not plan.steps:
        assert Decimal(0) == saving.saved_usd_per_hour


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


def test_losses_are_named() -> None:
    """NVMe by size, volumes that go with the instance, the address, and what stays."""
    instance = make_instance(
        public_ip="198.51.100.7",
        volumes=(Volume("vol-1", "/dev/xvda", True, 100), Volume("vol-2", "/dev/sdb", False, 500)),
    )
    plan = draw_plan(make_facts(instance), TERMINATE)

    lost, stays = " ".join(plan.losses), " ".join(plan.stays)
    assert all(part in lost for part in ("1x250", "vol-1", "198.51.100.7", "RAM"))
    assert "vol-2" in stays
    assert "vol-2" not in lost


def test_a_stop_saves_the_instance_less_its_snapshots() -> None:
    """1.006 an hour, less 100 GiB of snapshots at 0.05 a month over 730 hours."""
    saved = draw_plan(make_facts(), STOP).saving.saved_usd_per_hour

    assert saved == Decimal("1.006") - Decimal(100) * (Decimal("0.05") / 730)


def test_prices_of_the_policy_are_used() -> None:
    """Free snapshots: the whole price is saved."""
    policy = Policy(prices=Prices(snapshot_usd_per_gib_month=Decimal(0)))

    assert Decimal("1.006") == draw_plan(make_facts(), policy).saving.saved_usd_per_hour
