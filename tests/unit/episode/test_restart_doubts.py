"""Before a stop, people read what may stand against the next start: keys of volumes, capacity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from governor.approvals.messages.questions import stage_words
from governor.approvals.model.approval import Stage
from governor.core.catalog import families
from governor.core.instance import Instance, Lifecycle
from governor.episode.rules.restart_doubts import VolumeKey, doubts_of, keys_of
from tests.builders import NOW, TARGET, make_instance
from tests.unit.worlds.builders import open_question, stored_episode
from tests.unit.worlds.fleet_world import FleetWorld

OWN = f"arn:aws:kms:us-east-1:{TARGET.account}:key/own"
CENTRAL = "arn:aws:kms:us-east-1:999999999999:key/central"
STATES = (
    *("Creating", "Disabled", "PendingDeletion", "PendingImport", "PendingReplicaDeletion"),
    *("Unavailable", "Updating", "SomethingNew"),
)
"""All states of a key but `Enabled`. Source: KMS API, KeyMetadata, KeyState."""


def encrypted(*keys: str | None, **changes: object) -> Instance:
    """An instance whose volumes have these keys."""
    instance = make_instance(**changes)  # type: ignore[arg-type]
    volume = instance.volumes[0]
    volumes = [
        replace(volume, volume_id=f"vol-{number}", device=f"/dev/sd{number}", kms_key_id=key)
        for number, key in enumerate(keys)
    ]
    return replace(instance, volumes=tuple(volumes))


def test_an_enabled_key_of_the_account_and_one_of_aws_are_no_doubt() -> None:
    """Nor are volumes without a key."""
    instance = encrypted(OWN, OWN, CENTRAL, None)
    assert (OWN, CENTRAL) == keys_of(instance)
    assert () == doubts_of(instance, [VolumeKey(OWN, "Enabled")])
    assert () == doubts_of(instance, [VolumeKey(CENTRAL, "Enabled", is_of_aws=True)])
    assert () == doubts_of(encrypted(None), [])


@pytest.mark.parametrize("state", STATES)
def test_a_key_that_is_not_enabled_is_a_doubt(state: str) -> None:
    """Whatever keeps EC2 from using it, and states that AWS adds later."""
    (doubt,) = doubts_of(encrypted(OWN, OWN), [VolumeKey(OWN, state)])
    assert doubt.startswith(f"The KMS key {OWN} of volumes /dev/sd0, /dev/sd1 ")
    assert doubt.endswith("EC2 cannot start the instance until that changes.")


def test_a_key_of_a_central_account_is_a_doubt_even_if_it_is_enabled() -> None:
    """Its account decides for itself."""
    (doubt,) = doubts_of(encrypted(CENTRAL), [VolumeKey(CENTRAL, "Enabled")])
    assert "volume /dev/sd0 belongs to account 999999999999" in doubt


def test_a_disabled_key_of_a_central_account_is_named_once() -> None:
    """Its ARN fills two lines on a phone."""
    (doubt,) = doubts_of(encrypted(CENTRAL), [VolumeKey(CENTRAL, "Disabled")])
    assert 1 == doubt.count(CENTRAL)
    assert (
        "is disabled. EC2 cannot start the instance until that changes. It belongs to account"
        in doubt
    )


def test_a_key_that_cannot_be_looked_at_is_a_doubt_with_the_reason() -> None:
    (doubt,) = doubts_of(encrypted(OWN), [VolumeKey(OWN, problem="AccessDeniedException")])
    assert "could not be checked" in doubt
    assert doubt.endswith(": AccessDeniedException.")


@pytest.mark.parametrize(
    ("instance_type", "is_scarce"),
    [
        ("p5.48xlarge", True),
        ("p5en.48xlarge", True),
        ("p4de.24xlarge", True),
        ("p6-b200.48xlarge", True),
        ("trn2.48xlarge", True),
        ("u-p6e-gb200x72.metal", True),
        ("p6e-gb200.36xlarge", True),
        ("trn3.48xlarge", True),
        ("trn3-ultra.48xlarge", True),
        ("p7.48xlarge", True),
        ("p10x.48xlarge", True),
        ("g5.xlarge", False),
        ("p2.xlarge", False),
        ("p3dn.24xlarge", False),
        ("u-6tb1.metal", False),
        ("u7i-12tb.224xlarge", False),
        ("p3.2xlarge", False),
        ("inf2.xlarge", False),
    ],
)
def test_types_without_assured_on_demand_capacity_are_a_doubt(
    instance_type: str, is_scarce: bool
) -> None:
    """Those that AWS also sells as Capacity Blocks."""
    doubts = doubts_of(make_instance(instance_type=instance_type), [])
    assert is_scarce == ("Without a Capacity Reservation or a Capacity Block" in str(doubts))


def test_each_accelerated_family_of_the_catalog_is_scarce_or_not_by_its_class() -> None:
    """The classes P from the fourth generation on, and Trn."""
    scarce = {
        family
        for family in families()
        if "Capacity Block" in str(doubts_of(make_instance(instance_type=f"{family}.xlarge"), []))
    }
    old = {"p2", "p3", "p3dn"}
    assert {one for one in families() if one.startswith(("p", "trn"))} - old == scarce


def test_a_spot_instance_depends_on_its_request() -> None:
    (doubt,) = doubts_of(make_instance(lifecycle=Lifecycle.SPOT, instance_type="p5.48xlarge"), [])
    assert "only while its Spot request is open" in doubt


def test_the_question_says_the_doubts_where_it_speaks_of_starting_again() -> None:
    """From the look at the keys when it was opened, to the words that people read, not folded."""
    world = FleetWorld()
    instance_id = world.add(1)
    volume = replace(world.ec2.instances[instance_id].volumes[0], kms_key_id=OWN)
    world.ec2.add(replace(world.ec2.instances[instance_id], volumes=(volume,)))
    world.keys.keys[OWN] = VolumeKey(OWN, "Disabled")
    world.sweep()

    episode = stored_episode(world, open_question(world, instance_id))

    words, details = stage_words(episode, Stage.ASK, NOW, None)
    (section,) = [one for one in words.sections if one.heading == "Starting it again"]
    assert "Starting it again" not in {one.heading for one in details.sections}
    assert f"The KMS key {OWN} of volume {volume.device} is disabled." in str(section.lines)
