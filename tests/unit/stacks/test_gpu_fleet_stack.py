"""Promises of the example fleet: no open ports, a bill with a cap, no remains."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from governor.core.catalog import list_price, shape_of
from scripts.embed import node_shapes
from tests.unit.stacks.hosts import FLEET
from tests.unit.template.machines import ROOT

RESOURCES: dict[str, dict[str, Any]] = FLEET["Resources"]
PARAMETERS: dict[str, dict[str, Any]] = FLEET["Parameters"]
LAUNCH: dict[str, Any] = RESOURCES["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
FLEET_PROPERTIES: dict[str, Any] = RESOURCES["SpotFleet"]["Properties"]
OVERRIDES: list[dict[str, Any]] = FLEET_PROPERTIES["LaunchTemplateConfigs"][0]["Overrides"]


def test_no_port_is_open_unless_it_is_asked_for() -> None:
    """And then SSH only, from where it was said."""
    condition, rules, otherwise = RESOURCES["SecurityGroup"]["Properties"]["SecurityGroupIngress"][
        "Fn::If"
    ]

    assert ("HasSsh", {"Ref": "AWS::NoValue"}) == (condition, otherwise)
    assert [(22, 22, {"Ref": "SshCidr"})] == [
        (r["FromPort"], r["ToPort"], r["CidrIp"]) for r in rules
    ]
    assert "" == PARAMETERS["SshCidr"]["Default"]


def test_ssh_is_never_open_to_the_world() -> None:
    """Not even if it is asked for."""
    pattern = PARAMETERS["SshCidr"]["AllowedPattern"]

    assert all(re.fullmatch(pattern, good) for good in ("", "203.0.113.7/32", "10.0.0.0/8"))
    assert not any(
        re.fullmatch(pattern, bad) for bad in ("0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/7", "::/0", "x")
    )


def test_out_goes_https_only() -> None:
    """The hosts need AWS, packages and images."""
    (rule,) = RESOURCES["SecurityGroup"]["Properties"]["SecurityGroupEgress"]

    assert ("tcp", 443, 443) == (rule["IpProtocol"], rule["FromPort"], rule["ToPort"])


def test_the_governor_finds_every_instance_and_whose_it_is() -> None:
    """By the tags that instances are launched with, and their volumes."""
    tags = {
        spec["ResourceType"]: {t["Key"]: t["Value"] for t in spec["Tags"]}
        for spec in LAUNCH["TagSpecifications"]
    }

    assert {"instance", "volume", "network-interface"} == tags.keys()
    for found in tags.values():
        assert {"Ref": "SelectorTagValue"} == found["Purpose"]
        assert ({"Ref": "OwnerTag"}, {"Ref": "ProjectTag"}) == (found["Owner"], found["Project"])
    assert "Default" not in PARAMETERS["OwnerTag"]


def test_hosts_keep_to_good_manners() -> None:
    """IMDSv2 with one hop, encrypted disks that go with the instance."""
    assert {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    } == LAUNCH["MetadataOptions"]
    (disk,) = LAUNCH["BlockDeviceMappings"]
    assert (True, True) == (disk["Ebs"]["Encrypted"], disk["Ebs"]["DeleteOnTermination"])


def test_spot_is_spread_over_types_and_zones_and_has_a_cap() -> None:
    """Every type in every subnet, none above the price that was said."""
    assert "price-capacity-optimized" == FLEET_PROPERTIES["SpotOptions"]["AllocationStrategy"]
    assert {
        "TotalTargetCapacity": {"Ref": "SpotTargetInstances"},
        "DefaultTargetCapacityType": "spot",
    } == FLEET_PROPERTIES["TargetCapacitySpecification"]
    for override in OVERRIDES:
        assert {"Fn::Join": [",", {"Ref": "SubnetIds"}]} == override["SubnetId"]
        assert {"Ref": "SpotMaxUsdPerInstanceHour"} == override["MaxPrice"]


def test_the_types_of_the_fleet_are_g4_and_g5_with_one_gpu_each() -> None:
    """So that target capacity counts GPUs, too."""
    types = [override["InstanceType"] for override in OVERRIDES]

    assert {"g4dn", "g5"} == {name.split(".")[0] for name in types}
    assert len(set(types)) == len(types) >= 6
    assert {1} == {node_shapes()[name][0] for name in types}


def test_the_p_family_instance_is_of_a_type_that_the_drivers_open_modules_know() -> None:
    """P4 and later; the catalog knows each of them."""
    types = [name for name in PARAMETERS["PInstanceType"]["AllowedValues"] if name != "none"]

    assert PARAMETERS["PInstanceType"]["Default"] in types
    assert [] == [name for name in types if shape_of(name) is None or not re.match(r"p[456]", name)]


def test_nothing_is_left_when_the_stack_is_deleted() -> None:
    """No resource is kept, the fleet takes its instances along, names are left to AWS."""
    for name, resource in RESOURCES.items():
        assert "DeletionPolicy" not in resource, name
        assert (
            not {"RoleName", "InstanceProfileName", "GroupName", "LaunchTemplateName"}
            & resource["Properties"].keys()
        )
    assert True is FLEET_PROPERTIES["TerminateInstancesWithExpiration"]
    assert "termination" == FLEET_PROPERTIES["ExcessCapacityTerminationPolicy"]


def test_the_user_data_fits() -> None:
    """EC2 takes 16 KiB."""
    parts = LAUNCH["UserData"]["Fn::Base64"]["Fn::Join"][1]

    assert (
        len(
            "\n".join(part if isinstance(part, str) else part["Fn::Sub"] for part in parts).encode()
        )
        <= 15_000
    )


def test_the_documented_bill_is_the_one_of_the_defaults() -> None:
    """List price of the P-family instance, and the cap on Spot."""
    text = " ".join((ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8").split())
    price = list_price(PARAMETERS["PInstanceType"]["Default"])
    assert price is not None
    cap = Decimal(PARAMETERS["SpotMaxUsdPerInstanceHour"]["Default"])

    assert f"default `{PARAMETERS['PInstanceType']['Default']}`, ${price} an hour" in text
    most = price + PARAMETERS["SpotTargetInstances"]["Default"] * cap
    assert f"at most ${most} an hour plus disks" in text
