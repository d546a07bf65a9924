"""What the roles in a member account promise: there, too, one function acts and the others look."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.unit.template.machines import statements, template

HUB = {k: r["Properties"] for k, r in template()["Resources"].items() if r["Type"].endswith("::Function")}
MEMBER = template("stacks/member.yaml")
ROLES: dict[str, dict[str, Any]] = {k: r["Properties"] for k, r in MEMBER["Resources"].items()}
LOOKING = re.compile(r"^(\w+:Describe|ec2:Get|cloudwatch:|batch:List)")
OF_THE_PAGE = {key: {"cloudwatch:GetMetricData"} for key in ("PutAwayFunction", "TakeSnapshotFunction")}
"""Whether answers were refused, as the hub's own CloudWatch has it; they read no metrics of instances."""
IN_THE_HUB = re.compile(r"^(ssm:GetParameter$|(dynamodb|s3|states|sns|sqs|secretsmanager|kms|sts):)")


def suffix_of(function: str) -> str | None:
    """How the name of the role ends that a function assumes, as its environment says."""
    name = HUB[function].get("Environment", {}).get("Variables", {}).get("MEMBER_ROLE_NAME")
    return None if name is None else str(name["Fn::Sub"]).removeprefix("${MemberRoleName}-")


def role_of(suffix: str) -> dict[str, Any]:
    """The role with that name."""
    (found,) = (r for r in ROLES.values() if r["RoleName"]["Fn::Sub"] == f"${{MemberRoleName}}-{suffix}")
    return found


def allowed(statements: list[dict[str, Any]]) -> set[str]:
    """All actions of these statements."""
    lists = [s["Action"] if isinstance(s["Action"], list) else [s["Action"]] for s in statements]
    return {action for actions in lists for action in actions}


def statements_of(role: dict[str, Any]) -> list[dict[str, Any]]:
    """All statements of a member role."""
    return [s for policy in role["Policies"] for s in policy["PolicyDocument"]["Statement"]]


def role_names(function: str, stack: str) -> set[str]:
    """What CloudFormation may call the role of a function: 64 characters, twelve of them its own.

    Of a longer name it cuts an end off; how much is not documented. No logical id was seen cut below 25.
    """
    logical = f"{function}Role"
    room = 64 - len(f"{stack}--") - 12
    kept = {room, 25} if len(logical) > room else {len(logical)}
    return {f"{stack}-{logical[:length]}-ABCDEF123456" for length in kept}


def trusted_by(role: dict[str, Any], stack: str = "gpu-governor") -> set[str]:
    """The functions whose roles may assume it, whatever CloudFormation calls them."""
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    arns = statement["Condition"]["ArnLike"]["aws:PrincipalArn"]
    texts = [arn["Fn::Sub"] for arn in (arns if isinstance(arns, list) else [arns])]
    patterns = [text.rpartition("role/")[2].replace("${HubStackName}", stack) for text in texts]
    return {
        function
        for function in HUB
        if any(all(fnmatchcase(name, one) for name in role_names(function, stack)) for one in patterns)
    }


REACHING = sorted(function for function in HUB if suffix_of(function))


@pytest.mark.parametrize("function", REACHING)
def test_a_function_assumes_its_own_role_and_no_other(function: str) -> None:
    """The name in its environment, the resource of its permission and the trust of the role agree."""
    suffix = suffix_of(function)
    reach = [s for s in statements(HUB[function]) if "sts:AssumeRole" in s["Action"]]

    assert suffix is not None
    assert [f"arn:${{AWS::Partition}}:iam::*:role/${{MemberRoleName}}-{suffix}"] == [
        s["Resource"]["Fn::Sub"] for s in reach
    ]
    assert function in trusted_by(role_of(suffix))


@pytest.mark.parametrize("stack", ["g", "gpu-governor", "g" * 16])
def test_no_role_trusts_a_function_that_does_not_assume_it(stack: str) -> None:
    """And each trusts some, by the names that their roles have in a stack of any name that is allowed."""
    for role in ROLES.values():
        suffix = role["RoleName"]["Fn::Sub"].removeprefix("${MemberRoleName}-")
        assert trusted_by(role, stack) == {f for f in REACHING if suffix_of(f) == suffix} != set()


@pytest.mark.parametrize("function", REACHING)
def test_a_role_allows_there_what_the_function_may_do_here(function: str) -> None:
    """Not less, or members could not be governed."""
    here = allowed(statements(HUB[function]))
    wanted = {action for action in here if not IN_THE_HUB.match(action)}

    wanted -= OF_THE_PAGE.get(function, set())

    assert wanted <= allowed(statements_of(role_of(suffix_of(function) or "")))


def test_only_put_away_stops_and_terminates_there_too() -> None:
    """One role holds it, and one function may assume that role."""
    destructive = {"ec2:StopInstances", "ec2:TerminateInstances", "ec2:CancelSpotInstanceRequests"}
    holders = [role for role in ROLES.values() if destructive & allowed(statements_of(role))]

    assert [{"PutAwayFunction"}] == [trusted_by(role) for role in holders]


def test_every_write_there_is_on_governed_instances() -> None:
    """The condition on the tag is the member account's own."""
    for role in ROLES.values():
        for statement in statements_of(role):
            writes = [a for a in allowed([statement]) if not LOOKING.match(a)]
            if statement["Resource"] == "*":
                assert [] == writes
            elif re.search(r"instance/\*|autoScalingGroup", str(statement["Resource"])):
                key = "ssm:resourceTag" if ["ssm:SendCommand"] == writes else "aws:ResourceTag"
                condition = statement["Condition"]["StringEquals"]
                assert {"Ref": "SelectorTagValue"} == condition[f"{key}/Purpose"]
