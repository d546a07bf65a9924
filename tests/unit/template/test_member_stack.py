"""Promises of the roles in a member account: there, too, one function acts and the others look."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from botocore import xform_name
from botocore.loaders import Loader

from tests.iam import inline_document, written_out
from tests.unit.template.machines import ROOT, statements, template

HUB = {
    k: r["Properties"]
    for k, r in template()["Resources"].items()
    if r["Type"].endswith("::Function")
}
MEMBER = template("stacks/member.yaml")
ROLES: dict[str, dict[str, Any]] = {k: r["Properties"] for k, r in MEMBER["Resources"].items()}
LOOKING = re.compile(
    r"^(\w+:Describe|ec2:Get|cloudwatch:|(batch|bedrock|sagemaker):List|pricing:GetProducts$"
    r"|cloudtrail:LookupEvents$)"
)
OF_THE_PAGE = {
    key: {"cloudwatch:GetMetricData"} for key in ("PutAwayFunction", "TakeSnapshotFunction")
}
"""They read whether answers were refused, in the hub's own CloudWatch, and no metrics of
instances."""
IN_THE_HUB = re.compile(
    r"^(ssm:GetParameter$|(dynamodb|s3|states|sns|sqs|secretsmanager|kms|sts):)"
)


def suffix_of(function: str) -> str | None:
    """How the name of the role ends that a function assumes, as its environment says."""
    name = HUB[function].get("Environment", {}).get("Variables", {}).get("MEMBER_ROLE_NAME")
    return None if name is None else str(name["Fn::Sub"]).removeprefix("${MemberRoleName}-")


def role_of(suffix: str) -> dict[str, Any]:
    """The role with that name."""
    (found,) = (
        r for r in ROLES.values() if r["RoleName"]["Fn::Sub"] == f"${{MemberRoleName}}-{suffix}"
    )
    return found


def allowed(statements: list[dict[str, Any]]) -> set[str]:
    """All actions of these statements."""
    lists = [s["Action"] if isinstance(s["Action"], list) else [s["Action"]] for s in statements]
    return {action for actions in lists for action in actions}


def statements_of(role: dict[str, Any]) -> list[dict[str, Any]]:
    """All statements of a member role that allow something."""
    documents = [policy["PolicyDocument"] for policy in role["Policies"]]
    # Text where a parameter names a key.
    plain = [inline_document(one.get("Fn::Sub", one)) for one in documents]
    return [s for document in plain for s in document["Statement"] if s["Effect"] == "Allow"]


def role_name(function: str, stack: str) -> str | None:
    """The name that the template gives the role of a function; `None` where CloudFormation makes
    one up."""
    given = HUB[function].get("Role")
    role = given and template()["Resources"][given["Fn::GetAtt"][0]]["Properties"]["RoleName"]
    return role and str(
        written_out(role, {"AWS::StackName": stack, "AWS::Region": "ap-southeast-1"})
    )


def trusted_by(role: dict[str, Any], stack: str = "gpu-governor") -> set[str]:
    """The functions whose roles may assume it: by the whole ARN, with nothing in it that stands for
    more."""
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    known = {"HubStackName": stack, "HubRegion": "ap-southeast-1", "HubAccountId": "111122223333"}
    arns = written_out(statement["Condition"]["ArnEquals"]["aws:PrincipalArn"], known)
    names = [
        one.rpartition("111122223333:role/")[2]
        for one in ([arns] if isinstance(arns, str) else arns)
    ]
    assert not [one for one in names if "*" in one or "?" in one]
    of = {role_name(function, stack): function for function in HUB}
    return {of[name] for name in names}


REACHING = sorted(function for function in HUB if suffix_of(function))


@pytest.mark.parametrize("function", REACHING)
def test_a_function_assumes_its_own_role_and_no_other(function: str) -> None:
    """The name in its environment, the resource of its permission and the trust of the role
    agree."""
    suffix = suffix_of(function)
    reach = [s for s in statements(HUB[function]) if "sts:AssumeRole" in s["Action"]]
    if function == "PutAwayFunction":
        # It has a role to act with in the hub's account, too.
        reach = [s for s in reach if s["Sid"] != "ActForOneCall"]

    assert suffix is not None
    known = {"AWS::Partition": "aws", "MemberRoleName": "member"}
    assert [f"arn:aws:iam::*:role/member-{suffix}"] == [
        written_out(s["Resource"], known) for s in reach
    ]
    assert function in trusted_by(role_of(suffix))


@pytest.mark.parametrize("stack", ["g", "gpu-governor-prod", "g" * 32])
def test_no_role_trusts_a_function_that_does_not_assume_it(stack: str) -> None:
    """And each trusts some, by the names that their roles have in a stack of any name that is
    allowed."""
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


PAGE = (ROOT / "docs" / "accounts.md").read_text(encoding="utf-8")
COMMANDS = re.findall(
    r"^ *(aws (?:cloudformation|organizations) .*?)(?=\n *aws |\n *```)", PAGE, re.M | re.S
)


OF_THE_COMMAND_LINE = {"query"}
"""Options that every command of the AWS CLI has."""


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.split()[2])
def test_a_command_of_the_page_is_one_of_aws(command: str) -> None:
    """Each option is a parameter of the operation, each parameter one of the stack, and none is
    missing."""
    _, service, operation, *words = shlex.split(command.replace("\\\n", " "))
    options = {one.removeprefix("--") for one in words if one.startswith("--")}
    parameters = {name for one in words if (name := _parameter(one))}
    if operation == "deploy":  # of the command line alone
        assert options == {"stack-name", "capabilities", "template-file", "parameter-overrides"}
    else:
        model = Loader().load_service_model(service, "service-2")
        shape = model["operations"]["".join(one.title() for one in operation.split("-"))]["input"][
            "shape"
        ]
        known = model["shapes"][shape]
        # The command line writes a parameter that is true or false as --x or --no-x.
        said = {one.removeprefix("no-") for one in options} - OF_THE_COMMAND_LINE
        assert said <= {xform_name(one, "-") for one in known["members"]}
        assert {xform_name(one, "-") for one in known.get("required", ())} <= said
    if parameters:
        needed = {name for name, one in MEMBER["Parameters"].items() if "Default" not in one}
        assert needed <= parameters <= MEMBER["Parameters"].keys()


def _parameter(word: str) -> str | None:
    """The parameter of a stack that a word of a command sets, in either way to write it."""
    if word.startswith("ParameterKey="):
        return word.removeprefix("ParameterKey=").partition(",")[0]
    name, sign, _ = word.partition("=")
    return name if sign and name in MEMBER["Parameters"] else None


def test_the_page_has_every_command_of_a_stack_set() -> None:
    """From its making to its end, and those of a single account and of a delegated
    administrator."""
    operations = [one.split()[2] for one in COMMANDS]

    assert [
        "create-stack-set",
        "create-stack-instances",
        "list-stack-instances",
        "deploy",
        "update-stack-set",
        "register-delegated-administrator",
        "describe-stack-set",
        "delete-stack-instances",
        "list-stack-instances",
        "delete-stack-set",
    ] == operations
