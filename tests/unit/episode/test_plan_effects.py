"""The losses of plans, the things that stay after them, and their savings."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from governor.core.instance import LaunchFacts, Lifecycle, SpotRequestType, Volume
from governor.episode.model.plan import PlanFacts, Price, Saving, Step, StoragePrices
from governor.episode.rules.plan import draw_plan
from governor.policy.model.money import Prices
from governor.policy.model.policy import Policy
from tests.builders import make_facts, make_instance
from tests.unit.episode.plans import STOP, TERMINATE, any_facts, any_policy


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


def test_a_stop_saves_the_instance_less_its_snapshots() -> None:
    """1.006 an hour, less 100 GiB of snapshots at 0.05 a month over 730 hours."""
    saved = draw_plan(make_facts(), STOP).saving.saved_usd_per_hour

    assert saved == Decimal("1.006") - Decimal(100) * (Decimal("0.05") / 730)


def test_prices_of_the_policy_are_used() -> None:
    """Free snapshots: the whole price is saved."""
    policy = Policy(prices=Prices(snapshot_usd_per_gib_month=Decimal(0)))

    assert Decimal("1.006") == draw_plan(make_facts(), policy).saving.saved_usd_per_hour


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
