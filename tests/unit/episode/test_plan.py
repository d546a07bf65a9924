"""Plans: what may be done to whom, what replaces it, and what it saves."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.instance import (
    Instance,
    LaunchFacts,
    Lifecycle,
    Protection,
    SpotRequestType,
    Volume,
)
from governor.episode.model.plan import PlanFacts, Price, Saving, Step, StoragePrices
from governor.episode.rules.plan import (
    MAIN_STEPS,
    acts_on_silence,
    companions,
    draw_plan,
    mode_of,
    why_impossible,
)
from governor.policy.model.acting import Action, ApprovalRule, PlanRule
from governor.policy.model.money import Prices
from governor.policy.model.policy import Mode, Policy
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
        tags=draw(
            st.sampled_from(
                [{}, {"aws:autoscaling:groupName": "x"}, {"karpenter.sh/nodepool": "x"}]
            )
        ),
        operator_managed=draw(st.booleans()),
        capacity_reservation_id=draw(st.sampled_from([None, "cr-1"])),
        host_id=draw(st.sampled_from([None, "h-1"])),
        spot_request_id="sir-1" if lifecycle is Lifecycle.SPOT else None,
    )
    return make_facts(
        instance,
        protection=Protection(draw(st.none() | st.booleans()), draw(st.none() | st.booleans())),
        spot_request=draw(st.sampled_from(SpotRequestType))
        if lifecycle is Lifecycle.SPOT
        else None,
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


@given(any_facts(), any_policy)
def test_money_adds_up(facts: PlanFacts, policy: Policy) -> None:
    """Saved is before minus after; unpriced is unknown, never zero; nothing done saves nothing."""
    plan = draw_plan(facts, policy)
    saving = plan.saving

    if facts.price.usd_per_hour is None or any(
        volume.size_gib is None for volume in facts.instance.volumes
    ):
        assert saving.saved_usd_per_hour is None
        assert saving.saved_usd_per_day is None
        return
    assert saving.cost_before_usd_per_hour is not None
    assert saving.cost_after_usd_per_hour is not None
    assert (
        saving.saved_usd_per_hour
        == saving.cost_before_usd_per_hour - saving.cost_after_usd_per_hour
    )
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


def test_a_price_that_is_known_in_part_is_no_saving() -> None:
    """Neither figure is guessed from the other; a day is 24 hours."""
    whole = Saving(Decimal("3.5"), Decimal("0.5"))
    assert (Decimal(3), Decimal(72)) == (whole.saved_usd_per_hour, whole.saved_usd_per_day)
    for half in (Saving(Decimal(3), None), Saving(None, Decimal(3))):
        assert (None, None) == (half.saved_usd_per_hour, half.saved_usd_per_day)


RAM = "everything in RAM and in GPU memory"
DISK = "all data on local NVMe disks (1x250 GB), which snapshots do not cover"
ADDRESS = "the public IPv4 address 198.51.100.7, unless it is an Elastic IP"
COPY = "its EC2 user data, if it has any; a copy is stored in the audit bucket first"
GOES = "volume vol-1 (/dev/xvda, 100 GiB): deleted with it"
KEPT = "volume vol-2 (/dev/sdb, size unknown), billed as before"
COPIES = "one snapshot of each EBS volume, for at least 30 days"
ITSELF = "the instance itself; starting it again needs free capacity for its type"
AFTER = (
    "what it writes to its volumes after the snapshots begin. It cannot be stopped first, so the "
    "snapshots are crash-consistent"
)
TWO = (Volume("vol-1", "/dev/xvda", True, 100), Volume("vol-2", "/dev/sdb", False))


def shape(**changes: Any) -> dict[str, Any]:
    """Facts of a type with these properties."""
    known = make_facts().shape
    assert known is not None
    return {"shape": replace(known, **changes)}


@pytest.mark.parametrize(
    ("policy", "changes", "facts", "lost", "stays"),
    [
        (
            STOP,
            {},
            {},
            [RAM, DISK],
            ["volume vol-1 (/dev/xvda, 100 GiB), billed as before", KEPT, COPIES, ITSELF],
        ),
        (TERMINATE, {}, {}, [RAM, DISK, GOES, COPY], [KEPT, COPIES]),
        (
            TERMINATE,
            {"public_ip": "198.51.100.7"},
            {},
            [RAM, DISK, ADDRESS, GOES, COPY],
            [KEPT, COPIES],
        ),
        (TERMINATE, {}, shape(local_nvme=None), [RAM, GOES, COPY], [KEPT, COPIES]),
        (
            TERMINATE,
            {"lifecycle": Lifecycle.SPOT},
            {"spot_request": SpotRequestType.ONE_TIME},
            [RAM, DISK, GOES, COPY, AFTER],
            [KEPT, COPIES],
        ),
        (
            TERMINATE,
            {"root_device_type": "instance-store"},
            shape(local_nvme="unknown"),
            [
                RAM,
                "all data on local disks (GPU Governor does not know their size), which "
                "snapshots do not cover",
                "the whole root volume: it is an instance store, which snapshots do not cover",
                GOES,
                COPY,
                AFTER,
            ],
            [KEPT, COPIES],
        ),
        (
            TERMINATE,
            {},
            {"shape": None},
            [
                RAM,
                "data on local disks, if g5.xlarge has any (GPU Governor does not know this type)",
                GOES,
                COPY,
            ],
            [KEPT, COPIES],
        ),
        (STOP, {"volumes": ()}, {}, [RAM, DISK], [ITSELF]),
        (STOP, {"host_id": "h-1"}, {}, [], []),
    ],
)
def test_what_is_lost_and_what_stays_is_said_word_by_word(
    policy: Policy,
    changes: dict[str, Any],
    facts: dict[str, Any],
    lost: list[str],
    stays: list[str],
) -> None:
    """People say yes to these lines, so none may be missing, and none may be there without its
    reason."""
    plan = draw_plan(make_facts(make_instance(**{"volumes": TWO, **changes}), **facts), policy)
    assert (lost, stays) == ([*plan.losses], [*plan.stays])


@pytest.mark.parametrize(
    ("changes", "facts", "loses"),
    [
        ({}, {}, True),
        ({}, shape(local_nvme=None), False),
        ({}, shape(local_nvme="unknown"), True),
        ({}, {"shape": None}, True),
        ({"root_device_type": "instance-store"}, shape(local_nvme=None), True),
        ({"host_id": "h-1"}, {}, False),
    ],
)
def test_disks_inside_the_host_are_known_to_be_lost(
    changes: dict[str, Any], facts: dict[str, Any], loses: bool
) -> None:
    """It decides who is asked; what is not known may have them, and a plan without steps loses
    nothing."""
    assert (
        loses
        is draw_plan(make_facts(make_instance(**changes), **facts), TERMINATE).loses_local_disks
    )


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


def test_a_stop_saves_the_instance_less_its_snapshots() -> None:
    """1.006 an hour, less 100 GiB of snapshots at 0.05 a month over 730 hours."""
    saved = draw_plan(make_facts(), STOP).saving.saved_usd_per_hour

    assert saved == Decimal("1.006") - Decimal(100) * (Decimal("0.05") / 730)


def test_prices_of_the_policy_are_used() -> None:
    """Free snapshots: the whole price is saved."""
    policy = Policy(prices=Prices(snapshot_usd_per_gib_month=Decimal(0)))

    assert Decimal("1.006") == draw_plan(make_facts(), policy).saving.saved_usd_per_hour


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


def test_the_root_on_an_instance_store_is_named_as_lost() -> None:
    """Its EBS volumes are in the snapshot; the root is not."""
    plan = draw_plan(make_facts(make_instance(root_device_type="instance-store")), TERMINATE)

    assert (Step.SNAPSHOT, Step.TERMINATE) == plan.steps
    assert any("root volume" in loss and "snapshots do not cover" in loss for loss in plan.losses)
    assert not any("root volume" in loss for loss in draw_plan(make_facts(), TERMINATE).losses)


def test_what_holds_a_cluster_together_is_named_as_lost_with_a_termination_only() -> None:
    """A stopped instance keeps it, and may find no capacity in its group. Earlier releases knew
    none."""
    facts = LaunchFacts(placement_group="trainers", network_interfaces=32, efa_interfaces=31)
    clustered = make_facts(make_instance(launch=facts))
    ends, stops = draw_plan(clustered, TERMINATE), draw_plan(clustered, STOP)
    unknown = draw_plan(make_facts(make_instance(launch=LaunchFacts())), TERMINATE)

    assert {
        "network interfaces (32, 31 of them with EFA) that are deleted with it",
        "its place in the placement group trainers",
        COPY,
    } <= set(ends.losses)
    assert not any(
        "user data" in loss or "network" in loss or "group" in loss for loss in stops.losses
    )
    assert stops.stays[-1].endswith("free capacity for its type in the placement group trainers")
    assert (1, 0) == tuple(sum("capacity" in stay for stay in plan.stays) for plan in (stops, ends))
    assert ("Stopping", "Terminating") == (stops.doing, ends.doing)
    assert not any("network" in loss or "group" in loss for loss in unknown.losses)


@pytest.mark.parametrize(
    ("tags", "after_stop", "after_termination"),
    [
        (
            {"ManagedBy": "terraform"},
            "its place in Terraform (ManagedBy=terraform): the next apply may start it again or "
            "replace it",
            "its place in Terraform (ManagedBy=terraform): the next apply creates it again, unless "
            "it is removed from the configuration first",
        ),
        (
            {"Schedule": "office"},
            "its place in Instance Scheduler on AWS (Schedule=office): it may start the instance "
            "again at its next start time",
            None,
        ),
        ({}, None, None),
    ],
)
def test_people_read_which_tool_may_undo_a_plan(
    tags: dict[str, str], after_stop: str | None, after_termination: str | None
) -> None:
    """Before they answer. A schedule starts nothing that is terminated."""
    for policy, line in ((STOP, after_stop), (TERMINATE, after_termination)):
        stays = draw_plan(make_facts(make_instance(tags=tags)), policy).stays
        places = [kept for kept in stays if kept.startswith("its place in")]
        assert ([] if line is None else [line]) == places


@pytest.mark.parametrize(
    ("policy", "verb"), [(STOP, "stop"), (TERMINATE, "terminate"), (Policy(), "stop")]
)
def test_a_plan_is_named_by_what_it_does_in_the_end(policy: Policy, verb: str) -> None:
    """In the subject of its question, and on its button."""
    assert verb == draw_plan(make_facts(), policy).verb


def test_a_volume_of_unknown_size_makes_the_saving_unknown() -> None:
    """It is not free because nobody has read its size."""
    unread = make_facts(make_instance(volumes=(Volume("vol-1", "/dev/xvda", True),)))

    for policy in (STOP, TERMINATE):
        saving = draw_plan(unread, policy).saving
        assert (None, None) == (saving.cost_before_usd_per_hour, saving.saved_usd_per_hour)


def test_a_termination_saves_the_volumes_that_go_with_it() -> None:
    """1.006 an hour and 100 GiB of EBS go; 500 GiB stay, and snapshots of 600 GiB come."""
    instance = make_instance(
        volumes=(Volume("vol-1", "/dev/xvda", True, 100), Volume("vol-2", "/dev/sdb", False, 500)),
    )
    saving = draw_plan(make_facts(instance), TERMINATE).saving
    gib_hour = Decimal("0.08") / 730

    assert Decimal("1.006") + 600 * gib_hour == saving.cost_before_usd_per_hour
    assert 500 * gib_hour + 600 * (Decimal("0.05") / 730) == saving.cost_after_usd_per_hour


STORAGE = StoragePrices(
    {"gp3": Decimal("0.0952"), "io2": Decimal("0.149"), "st1": Decimal("0.054")},
    {"gp3": Decimal("0.006"), "io2": Decimal("0.078")},
    {"gp3": Decimal("0.0476")},
    Decimal("0.054"),
)


@pytest.mark.parametrize(
    ("volume", "usd"),
    [
        (Volume("vol-1", "/dev/xvda", True, 100, "gp3"), "9.52"),
        (Volume("vol-1", "/dev/xvda", True, 100, "gp3", 3_000, 125), "9.52"),
        (Volume("vol-1", "/dev/xvda", True, 100, "gp3", 4_000, 225), "20.28"),
        (Volume("vol-1", "/dev/xvda", True, 100, "io2", 1_000), "92.9"),
        (Volume("vol-1", "/dev/xvda", True, 100, "io2", None), "14.9"),
        (Volume("vol-1", "/dev/xvda", True, 100, "st1", 500, 40), "5.4"),
        (Volume("vol-1", "/dev/xvda", True, 100, "io1", 1_000), None),
        (Volume("vol-1", "/dev/xvda", True, 100), None),
        (Volume("vol-1", "/dev/xvda", True, None, "gp3"), None),
    ],
    ids=str,
)
def test_a_volume_costs_what_its_region_lists_for_its_type(volume: Volume, usd: str | None) -> None:
    """With IOPS and throughput above what is included; what is not listed is not known."""
    assert (None if usd is None else Decimal(usd)) == STORAGE.usd_per_month(volume)


def test_faster_volumes_of_a_type_whose_speed_is_not_priced_are_not_known() -> None:
    """Else they would cost as if they were slow."""
    slow, fast = (Volume("vol-1", "/dev/xvda", True, 100, "gp3", iops) for iops in (3_000, 3_001))
    known = replace(STORAGE, usd_per_iops_month={})

    assert (Decimal("9.52"), None) == (known.usd_per_month(slow), known.usd_per_month(fast))


def test_what_stays_is_priced_by_the_region_where_that_was_read() -> None:
    """Else by the policy; a first snapshot at the full size of its volume."""
    volumes = (
        Volume("vol-1", "/dev/xvda", True, 100, "gp3", 4_000, 225),
        Volume("vol-2", "/dev/sdb", False, 500, "sc1"),
    )
    price = Price(Decimal("1.258"), "AWS price list", storage=STORAGE)
    saving = draw_plan(make_facts(make_instance(volumes=volumes), price=price), TERMINATE).saving

    assert Decimal("1.258") + (Decimal("20.28") + 40) / 730 == saving.cost_before_usd_per_hour
    assert (40 + 600 * Decimal("0.054")) / 730 == saving.cost_after_usd_per_hour


def test_an_elastic_ip_stays_and_is_charged_on() -> None:
    """At the Region's price, else at AWS's for all Regions. One that EC2 lent is lost."""
    own, lent = "198.51.100.7", "203.0.113.9"
    launch = LaunchFacts(elastic_ips=(own,))
    dear = Price(
        Decimal(1),
        "AWS price list",
        storage=replace(STORAGE, address_usd_per_hour=Decimal("0.006")),
    )
    for price, usd in ((Price(Decimal(1), "a list"), "0.005"), (dear, "0.006")):
        with_one, without = (
            draw_plan(make_facts(make_instance(public_ip=own, launch=facts), price=price), STOP)
            for facts in (launch, LaunchFacts())
        )
        before, after = (
            (plan.saving.cost_before_usd_per_hour or 0, plan.saving.cost_after_usd_per_hour or 0)
            for plan in (without, with_one)
        )
        assert (Decimal(usd), Decimal(usd)) == (after[0] - before[0], after[1] - before[1])
        assert f"Elastic IP {own}, billed as before" in with_one.stays
        assert not any(own in loss for loss in with_one.losses)
        assert any(own in loss for loss in without.losses)
    both = draw_plan(make_facts(make_instance(public_ip=lent, launch=launch)), STOP)
    assert any(lent in loss for loss in both.losses)


@given(any_facts(), any_policy)
def test_each_plan_says_what_it_loses_and_keeps_and_all_money_is_decimal(
    facts: PlanFacts, policy: Policy
) -> None:
    """No step without its losses; every volume either goes or stays; no float anywhere."""
    plan = draw_plan(facts, policy)
    saving = plan.saving
    amounts = (
        saving.cost_before_usd_per_hour,
        saving.cost_after_usd_per_hour,
        saving.saved_usd_per_hour,
        saving.saved_usd_per_day,
    )

    assert all(amount is None or type(amount) is Decimal for amount in amounts)
    assert bool(plan.steps) == bool(plan.losses) == bool(plan.stays)
    if plan.steps:
        for volume in facts.instance.volumes:
            named = sum(volume.volume_id in line for line in (*plan.losses, *plan.stays))
            assert named >= 1


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
