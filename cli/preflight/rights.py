"""Checks of IAM's conditions with IAM's own simulator.

It evaluates policies as a real call would, and changes nothing. Asked are the roles of the stack;
before a deploy, the same statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from cli.preflight.world import Finding, World, confirmed, refuted

Context = Mapping[str, str | Sequence[str]]
"""Keys of a request, such as `aws:ResourceTag/Purpose`, with their values."""
Document = Mapping[str, Any]
"""A statement of a policy."""

_STOP = ("ec2:StopInstances", "ec2:TerminateInstances")
_EXEMPT = "aws:ResourceTag/GpuGovernor"
"""The default. A deployed stack says its own by the parameter ExemptionTagKey."""
_IN_A_GROUP = "aws:ResourceTag/aws:autoscaling:groupName"
_SELECTED_VALUE = "GPU-Workload"
"""The default. A deployed stack says its own by the parameter SelectorTagValue."""
_INSTANCE = "arn:{partition}:ec2:{region}:{account}:instance/i-00000000000000001"
_TAGGED: Context = {"aws:ResourceTag/Purpose": _SELECTED_VALUE}
_OTHER: Context = {"aws:ResourceTag/Purpose": "other"}
_NO_KEYS: Context = {}
_ONLY_THESE = {
    "ForAllValues:StringEquals": {"aws:TagKeys": ["LowUtilization", "ReviewForTermination"]},
    "Null": {"aws:TagKeys": "false"},
}


@dataclass(frozen=True)
class Rule:
    """Statements as the template has them, and what they must allow and refuse.

    `role` is the role that they stand for. `statements` takes the ARN of the state table.
    `{...}` in texts is filled with what the account has.
    """

    role: str
    statements: Callable[[str], Sequence[Document]]
    actions: tuple[str, ...]
    resource: str
    allowed: tuple[Context, ...]
    refused: tuple[Context, ...]


@dataclass(frozen=True)
class _Names:
    """The names of this stack, or of one that could be deployed here.

    `role_arn` is `None` before a deploy. `table_arn` is the state table.
    """

    table_arn: str
    role_arn: str | None
    selected_value: str
    exempt_key: str


def _allow(
    action: str | Sequence[str], condition: Mapping[str, Any], resource: str = "*"
) -> Document:
    return {
        "Effect": "Allow",
        "Action": action,
        "Resource": resource,
        "Condition": condition,
    }


def _deny_stop_with(key: str) -> Document:
    """Return the statement that ActorRole has for each such key, whatever its value is."""
    return {
        "Effect": "Deny",
        "Action": list(_STOP),
        "Resource": "*",
        "Condition": {"Null": {key: "false"}},
    }


def _actor_statements(_: str) -> Sequence[Document]:
    return (
        _allow(_STOP, {"StringEquals": _TAGGED}),
        _deny_stop_with(_EXEMPT),
        _deny_stop_with(_IN_A_GROUP),
    )


def _put_away_statements(_: str) -> Sequence[Document]:
    return ({"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"},)


def _snapshot_statements(_: str) -> Sequence[Document]:
    return (_allow(["ec2:CreateSnapshots"], {"StringEquals": _TAGGED}),)


def _snapshot_tag_statements(_: str) -> Sequence[Document]:
    condition = {"StringEquals": {"ec2:CreateAction": "CreateSnapshots"}}
    return (_allow("ec2:CreateTags", condition),)


def _tag_statements(_: str) -> Sequence[Document]:
    condition = {"StringEquals": _TAGGED, **_ONLY_THESE}
    return (_allow(["ec2:CreateTags", "ec2:DeleteTags"], condition),)


def _table_statements(table_arn: str) -> Sequence[Document]:
    condition = {
        "Null": {"dynamodb:LeadingKeys": "false"},
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["EPISODE#*", "CAPS#*"]},
    }
    return (_allow("dynamodb:UpdateItem", condition, table_arn),)


def _command_statements(_: str) -> Sequence[Document]:
    condition = {"StringEquals": {"ssm:resourceTag/Purpose": _SELECTED_VALUE}}
    return (_allow(["ssm:SendCommand"], condition),)


RULES: Mapping[str, Rule] = {
    "stop": Rule(
        role="ActorRole",
        statements=_actor_statements,
        actions=_STOP,
        resource=_INSTANCE,
        allowed=(_TAGGED,),
        refused=(
            _OTHER,
            _NO_KEYS,
            {**_TAGGED, _EXEMPT: "exempt"},
            {**_TAGGED, _IN_A_GROUP: "any"},
        ),
    ),
    "own rights": Rule(
        role="PutAwayFunctionRole",
        statements=_put_away_statements,
        actions=(*_STOP, "ec2:CancelSpotInstanceRequests"),
        resource=_INSTANCE,
        allowed=(),
        refused=(_TAGGED,),
    ),
    "snapshots": Rule(
        role="TakeSnapshotFunctionRole",
        statements=_snapshot_statements,
        actions=("ec2:CreateSnapshots",),
        resource=_INSTANCE,
        allowed=(_TAGGED,),
        refused=(_OTHER, _NO_KEYS),
    ),
    "snapshot tags": Rule(
        role="TakeSnapshotFunctionRole",
        statements=_snapshot_tag_statements,
        actions=("ec2:CreateTags",),
        resource="arn:{partition}:ec2:{region}::snapshot/*",
        allowed=({"ec2:CreateAction": "CreateSnapshots"},),
        refused=({"ec2:CreateAction": "CreateVolume"}, _NO_KEYS),
    ),
    "tags": Rule(
        role="SweepTargetFunctionRole",
        statements=_tag_statements,
        actions=("ec2:CreateTags", "ec2:DeleteTags"),
        resource=_INSTANCE,
        allowed=({**_TAGGED, "aws:TagKeys": ["LowUtilization"]},),
        refused=(
            {**_TAGGED, "aws:TagKeys": ["Purpose"]},
            {**_TAGGED, "aws:TagKeys": ["LowUtilization", "Purpose"]},
            _TAGGED,
            {**_OTHER, "aws:TagKeys": ["LowUtilization"]},
        ),
    ),
    "table keys": Rule(
        role="PutAwayFunctionRole",
        statements=_table_statements,
        actions=("dynamodb:UpdateItem",),
        resource="{table}",
        allowed=({"dynamodb:LeadingKeys": ["EPISODE#1"]},),
        refused=(
            {"dynamodb:LeadingKeys": ["POLICY"]},
            {"dynamodb:LeadingKeys": ["EPISODE#1", "LOCK#1"]},
            _NO_KEYS,
        ),
    ),
    "command": Rule(
        role="HandleSpotInterruptionFunctionRole",
        statements=_command_statements,
        actions=("ssm:SendCommand",),
        resource=_INSTANCE,
        allowed=({"ssm:resourceTag/Purpose": _SELECTED_VALUE},),
        refused=({"ssm:resourceTag/Purpose": "other"}, _NO_KEYS),
    ),
}


def stop_by_tag(world: World) -> Finding:
    """IAM refuses to stop or terminate an instance without the selector tag, or one with the
    exemption key or the tag of an Auto Scaling group.

    Source: Service Authorization Reference of EC2; the statements are ActorRole of template.yaml.
    """
    return judged(world, RULES["stop"])


def no_right_of_its_own(world: World) -> Finding:
    """put_away itself may not stop, terminate or cancel; it must assume another role for each call.

    Source: Service Authorization Reference of EC2; PutAwayAccess of template.yaml.
    """
    return judged(world, RULES["own rights"])


def snapshots_by_tag(world: World) -> Finding:
    """CreateSnapshots is evaluated on the instance, so its tag decides which volumes are included.

    Source: Service Authorization Reference of EC2; SnapshotAccess of template.yaml.
    """
    return judged(world, RULES["snapshots"])


def snapshot_tags(world: World) -> Finding:
    """ec2:CreateAction lets a role tag snapshots while it makes them, and never later.

    Source: EC2 User Guide, on tags at creation; SnapshotAccess of template.yaml.
    """
    return judged(world, RULES["snapshot tags"])


def tag_keys(world: World) -> Finding:
    """aws:TagKeys with Null refuses other keys and calls without keys, which would remove all tags.

    Source: IAM User Guide: ForAllValues is true where the key is absent; TagAccess of
    template.yaml.
    """
    return judged(world, RULES["tags"])


def leading_keys(world: World) -> Finding:
    """dynamodb:LeadingKeys with Null refuses other partitions of the table, and calls that name
    none.

    Source: DynamoDB Developer Guide, on conditions; what holds for an absent key is from memory.
    """
    return judged(world, RULES["table keys"])


def command_by_tag(world: World) -> Finding:
    """SendCommand checks the tags of instances by a condition key of its own, ssm:resourceTag.

    Source: memory; CheckpointAccess of template.yaml.
    """
    return judged(world, RULES["command"])


def bound_namespace(world: World) -> Finding:
    """A policy variable binds a namespace to one instance: no other may publish to
    GPU/EC2/${aws:userid}.

    Source: derived from the IAM User Guide on policy variables; metrics.bound_namespaces rests on
    it.
    """
    condition = {"StringEquals": {"cloudwatch:namespace": "GPU/EC2/${aws:userid}"}}
    document = {
        "Effect": "Allow",
        "Action": "cloudwatch:PutMetricData",
        "Resource": "*",
        "Condition": condition,
    }
    role_id = "AROAEXAMPLEEXAMPLEEX"
    me = f"{role_id}:i-00000000000000001"
    other_instance = f"{role_id}:i-00000000000000002"
    is_allowed = {}
    for user_id in (me, other_instance):
        context = {"aws:userid": me, "cloudwatch:namespace": f"GPU/EC2/{user_id}"}
        is_allowed[user_id] = _is_allowed_by(
            world, [document], "cloudwatch:PutMetricData", "*", context
        )
    if is_allowed[me] and not is_allowed[other_instance]:
        return confirmed("its own is allowed, another's is refused")
    return refuted(
        f"its own is {_word(is_allowed[me])}, another's is {_word(is_allowed[other_instance])}",
        "leave metrics.bound_namespaces out",
    )


def judged(world: World, rule: Rule) -> Finding:
    """Return what the simulator says of a rule: of the deployed role where there is one."""
    names = _names(world, rule)
    asked = 0
    wrong = []
    for action in rule.actions:
        for is_wanted, contexts in ((True, rule.allowed), (False, rule.refused)):
            for context in contexts:
                context_here = _of_this_stack(context, names)
                is_allowed = _is_allowed(world, rule, names, action, context_here)
                asked += 1
                if is_allowed is not is_wanted:
                    keys = dumps(context_here) if context_here else "no key"
                    wrong.append(f"{action} with {keys} is {_word(is_allowed)}")
    subject = f"the role {rule.role}" if names.role_arn else "the statement of the template"
    if wrong:
        advice = (
            "stay in observe; look for an SCP, a boundary or a policy attached by "
            "hand, then report this"
        )
        return refuted(f"{subject}: {'; '.join(wrong)}", advice)
    return confirmed(f"{subject}: IAM decided {asked} of {asked} calls as expected")


def _names(world: World, rule: Rule) -> _Names:
    table_prefix = f"arn:{world.partition}:dynamodb:{world.region}:{world.account}:table/"
    if not world.is_deployed:
        return _Names(f"{table_prefix}preflight", None, _SELECTED_VALUE, _EXEMPT)
    exempt_key = world.parameters.get("ExemptionTagKey", "GpuGovernor")
    return _Names(
        table_arn=table_prefix + world.physical("StateTable"),
        role_arn=f"arn:{world.partition}:iam::{world.account}:role/{world.physical(rule.role)}",
        selected_value=world.parameters.get("SelectorTagValue", _SELECTED_VALUE),
        exempt_key=f"aws:ResourceTag/{exempt_key}",
    )


def _of_this_stack(context: Context, names: _Names) -> Context:
    """Return the keys of a request with the tags by which this stack selects and exempts."""
    own_context = {}
    for key, value in context.items():
        own_key = names.exempt_key if key == _EXEMPT else key
        own_context[own_key] = names.selected_value if value == _SELECTED_VALUE else value
    return own_context


def _is_allowed(world: World, rule: Rule, names: _Names, action: str, context: Context) -> bool:
    """Return whether the deployed role may do this; before a deploy, whether its statements may."""
    resource = rule.resource.format(
        partition=world.partition,
        region=world.region,
        account=world.account,
        table=names.table_arn,
    )
    if names.role_arn is None:
        statements = rule.statements(names.table_arn)
        return _is_allowed_by(world, statements, action, resource, context)
    answer = world.call(
        "iam:SimulatePrincipalPolicy",
        PolicySourceArn=names.role_arn,
        ActionNames=[action],
        ResourceArns=[resource],
        ContextEntries=_context_entries(context),
    )
    return _is_allowed_in(answer)


def _is_allowed_by(
    world: World, statements: Sequence[Document], action: str, resource: str, context: Context
) -> bool:
    """Return whether these statements allow the call."""
    policy = dumps({"Version": "2012-10-17", "Statement": list(statements)})
    answer = world.call(
        "iam:SimulateCustomPolicy",
        PolicyInputList=[policy],
        ActionNames=[action],
        ResourceArns=[resource],
        ContextEntries=_context_entries(context),
    )
    return _is_allowed_in(answer)


def _context_entries(context: Context) -> list[Mapping[str, Any]]:
    """Return the keys of a request as the simulator takes them."""
    entries: list[Mapping[str, Any]] = []
    for key, value in context.items():
        if isinstance(value, str):
            values = [value]
            kind = "string"
        else:
            values = list(value)
            kind = "stringList"
        entries.append({"ContextKeyName": key, "ContextKeyValues": values, "ContextKeyType": kind})
    return entries


def _is_allowed_in(answer: Mapping[str, Any]) -> bool:
    return bool(answer["EvaluationResults"][0]["EvalDecision"] == "allowed")


def _word(is_allowed: bool) -> str:
    return "allowed" if is_allowed else "refused"
