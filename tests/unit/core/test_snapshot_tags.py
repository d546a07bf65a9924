"""Tags of snapshots: the organization's beside GPU Governor's own, within what EC2 accepts."""

from __future__ import annotations

import pytest

from governor.core.instance import DELETE_AFTER_TAG, EPISODE_TAG, INSTANCE_TAG
from governor.core.settings import SettingError
from governor.policy.model.acting import PlanRule
from tests.builders import NOW, make_instance

OWN = {"Name", EPISODE_TAG, INSTANCE_TAG, DELETE_AFTER_TAG}


def snapshot_tags(rule: PlanRule | None = None, **tags: str) -> dict[str, str]:
    """The tags of a snapshot by this rule of the policy, of an instance with these tags."""
    instance = make_instance(tags={"Purpose": "GPU-Workload", **tags})
    rule = rule or PlanRule()
    return instance.snapshot_tags(
        "before put-away",
        NOW,
        {EPISODE_TAG: "e-1"},
        added=rule.snapshot_tags,
        copied_keys=rule.copied_tag_keys,
    )


def test_cost_tags_of_the_instance_are_copied() -> None:
    """An organization that demands them refuses a snapshot without them."""
    tags = snapshot_tags(CostCenter="42", Owner="ada")

    assert ("42", "ada") == (tags["CostCenter"], tags["Owner"])


def test_tags_with_a_meaning_on_instances_are_not_copied() -> None:
    """Nobody may set AWS's tags. The selector and GPU Governor's marks are about instances."""
    meaningful = {
        "aws:cloudformation:stack-name": "train",
        "GpuGovernor": "exempt",
        "gpu-governor:note": "x",
        "LowUtilization": "since",
        "ReviewForTermination": "since",
    }
    tags = snapshot_tags(None, **meaningful)

    assert OWN == tags.keys()


def test_the_policy_names_the_keys_in_any_letter_case() -> None:
    """Without `*`, only these."""
    rule = PlanRule(copied_tag_keys=("costcenter",))

    assert {*OWN, "CostCenter"} == snapshot_tags(rule, CostCenter="42", Owner="ada").keys()
    assert OWN == snapshot_tags(PlanRule(copied_tag_keys=()), CostCenter="42").keys()


def test_the_policys_tags_count_before_those_of_the_instance() -> None:
    """And GPU Governor's own before both."""
    rule = PlanRule(snapshot_tags={"CostCenter": "7", "Environment": "gpu"})
    tags = snapshot_tags(rule, CostCenter="42", DeleteAfter="never", Name="notebook")

    assert ("7", "gpu") == (tags["CostCenter"], tags["Environment"])
    assert "notebook before put-away" == tags["Name"]
    assert "never" != tags[DELETE_AFTER_TAG]


def test_a_tag_of_the_policy_replaces_the_instances_in_any_letter_case() -> None:
    """A tag policy that counts letter case refuses the whole call for `costcenter`."""
    rule = PlanRule(snapshot_tags={"CostCenter": "7"})
    tags = snapshot_tags(rule, costcenter="42", COSTCENTER="43", owner="ada")

    assert {*OWN, "CostCenter", "owner"} == tags.keys()
    assert "7" == tags["CostCenter"]


def test_the_policy_may_add_as_many_tags_as_ec2_accepts() -> None:
    """One more would be refused by EC2, at each snapshot."""
    most = 50 - len(OWN)
    added = {f"t{place:02}": "x" for place in range(most)}

    assert 50 == len(snapshot_tags(PlanRule(snapshot_tags=added), CostCenter="42"))
    with pytest.raises(SettingError, match="list at most 46"):
        PlanRule(snapshot_tags={**added, "another": "x"})


@pytest.mark.parametrize("number", [44, 45, 46, 60])
def test_no_snapshot_gets_more_tags_than_ec2_accepts(number: int) -> None:
    """50; the instance's last ones are left out, the policy's never."""
    rule = PlanRule(snapshot_tags={"zone-of-cost": "1"})
    tags = snapshot_tags(rule, **{f"t{place:02}": "x" for place in range(number)})

    assert min(50, len(OWN) + 1 + number) == len(tags)
    assert "zone-of-cost" in tags
    assert "t44" in tags if number > 44 and len(tags) < 50 else "t00" in tags


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"snapshot_tags": {"aws:cost": "x"}}, ("snapshot_tags", "aws:cost")),
        ({"snapshot_tags": {"Name": "x"}}, ("snapshot_tags", "Name")),
        ({"snapshot_tags": {"DeleteAfter": "x"}}, ("snapshot_tags", "DeleteAfter")),
        ({"snapshot_tags": {"GpuGovernor:Episode": "x"}}, ("snapshot_tags", "GpuGovernor:Episode")),
        ({"snapshot_tags": {"": "x"}}, ("snapshot_tags", "")),
        ({"snapshot_tags": {"k" * 129: "x"}}, ("snapshot_tags", "k" * 129)),
        ({"snapshot_tags": {"key": "v" * 257}}, ("snapshot_tags", "key")),
        ({"copied_tag_keys": ("",)}, ("copied_tag_keys", "0")),
        ({"copied_tag_keys": ("k" * 129,)}, ("copied_tag_keys", "0")),
        ({"copied_tag_keys": ("Owner", "cost:*")}, ("copied_tag_keys", "1")),
        ({"copied_tag_keys": ("AWS:createdBy",)}, ("copied_tag_keys", "0")),
    ],
)
def test_a_tag_that_ec2_would_refuse_is_refused_with_its_path(
    settings: dict[str, object], path: tuple[str, str]
) -> None:
    """Before the first snapshot fails by it."""
    with pytest.raises(SettingError) as refused:
        PlanRule(**settings)  # type: ignore[arg-type]
    assert [path] == [where for where, _ in refused.value.mistakes]


def test_tags_at_the_limits_are_accepted() -> None:
    """128 characters of key, 256 of value."""
    rule = PlanRule(snapshot_tags={"k" * 128: "v" * 256})
    assert "v" * 256 == snapshot_tags(rule)["k" * 128]
