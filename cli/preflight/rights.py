"""IAM's conditions, asked of IAM's own simulator: of the roles of the stack, or before it is there
of the same statements. The simulator changes nothing and evaluates policies as a real call would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps
from typing import Any

from cli.preflight.world import Finding, World, confirmed, refuted

_TAGGED = {"aws:ResourceTag/Purpose": "GPU-Workload"}
Context = Mapping[str, str | Sequence[str]]
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """Statements as the template has them, the role that they stand for, and what they must allow
    and refuse.

    `{...}` in texts is filled with what the account has.
    """

    role: str
    statements: Callable[[str], Sequence[Document]]
    actions: tuple[str, ...]
    resource: str
    allowed: tuple[Context, ...]
    refused: tuple[Context, ...]


def _on_tag(
    *actions: str, key: str = "aws:ResourceTag/Purpose", more: Document | None = None
) -> Document:
    condition: dict[str, Any] = {"StringEquals": {key: "GPU-Workload"}, **(more or {})}
    return {"Effect": "Allow", "Action": list(actions), "Resource": "*", "Condition": condition}


def _denied_on(key: str) -> Document:
    """As ActorRole has it for each key: whatever carries it, with any value."""
    return {
        "Effect": "Deny",
        "Action": list(_STOP),
        "Resource": "*",
        "Condition": {"Null": {key: "false"}},
    }


_STOP = ("ec2:StopInstances", "ec2:TerminateInstances")
_EXEMPT = "aws:ResourceTag/GpuGovernor"
"""The default. A deployed stack says its own by the parameter ExemptionTagKey."""
_IN_A_GROUP = "aws:ResourceTag/aws:autoscaling:groupName"
_INSTANCE = "arn:{partition}:ec2:{region}:{account}:instance/i-00000000000000001"
_OTHER = {"aws:ResourceTag/Purpose": "other"}
_ONLY_THESE = {
    "ForAllValues:StringEquals": {"aws:TagKeys": ["LowUtilization", "ReviewForTermination"]},
    "Null": {"aws:TagKeys": "false"},
}

RULES: Mapping[str, Rule] = {
    "stop": Rule(
        "ActorRole",
        lambda _: (_on_tag(*_STOP), _denied_on(_EXEMPT), _denied_on(_IN_A_GROUP)),
        _STOP,
        _INSTANCE,
        (_TAGGED,),
        (_OTHER, {}, {**_TAGGED, _EXEMPT: "exempt"}, {**_TAGGED, _IN_A_GROUP: "any"}),
    ),
    "own rights": Rule(
        "PutAwayFunctionRole",
        lambda _: ({"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"},),
        (*_STOP, "ec2:CancelSpotInstanceRequests"),
        _INSTANCE,
        (),
        (_TAGGED,),
    ),
    "snapshots": Rule(
        "TakeSnapshotFunctionRole",
        lambda _: (_on_tag("ec2:CreateSnapshots"),),
        ("ec2:CreateSnapshots",),
        _INSTANCE,
        (_TAGGED,),
        (_OTHER, {}),
    ),
    "snapshot tags": Rule(
        "TakeSnapshotFunctionRole",
        lambda _: (
            {
                "Effect": "Allow",
                "Action": "ec2:CreateTags",
                "Resource": "*",
                "Condition": {"StringEquals": {"ec2:CreateAction": "CreateSnapshots"}},
            },
        ),
        ("ec2:CreateTags",),
        "arn:{partition}:ec2:{region}::snapshot/*",
        ({"ec2:CreateAction": "CreateSnapshots"},),
        ({"ec2:CreateAction": "CreateVolume"}, {}),
    ),
    "tags": Rule(
        "SweepTargetFunctionRole",
        lambda _: (_on_tag("ec2:CreateTags", "ec2:DeleteTags", more=_ONLY_THESE),),
        ("ec2:CreateTags", "ec2:DeleteTags"),
        _INSTANCE,
        ({**_TAGGED, "aws:TagKeys": ["LowUtilization"]},),
        (
            {**_TAGGED, "aws:TagKeys": ["Purpose"]},
            {**_TAGGED, "aws:TagKeys": ["LowUtilization", "Purpose"]},
            _TAGGED,
            {**_OTHER, "aws:TagKeys": ["LowUtilization"]},
        ),
    ),
    "table keys": Rule(
        "PutAwayFunctionRole",
        lambda table: (
            {
                "Effect": "Allow",
                "Action": "dynamodb:UpdateItem",
                "Resource": table,
                "Condition": {
                    "Null": {"dynamodb:LeadingKeys": "false"},
                    "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["EPISODE#*", "CAPS#*"]},
                },
            },
        ),
        ("dynamodb:UpdateItem",),
        "{table}",
        ({"dynamodb:LeadingKeys": ["EPISODE#1"]},),
        (
            {"dynamodb:LeadingKeys": ["POLICY"]},
            {"dynamodb:LeadingKeys": ["EPISODE#1", "LOCK#1"]},
            {},
        ),
    ),
    "command": Rule(
        "HandleSpotInterruptionFunctionRole",
        lambda _: (_on_tag("ssm:SendCommand", key="ssm:resourceTag/Purpose"),),
        ("ssm:SendCommand",),
        _INSTANCE,
        ({"ssm:resourceTag/Purpose": "GPU-Workload"},),
        ({"ssm:resourceTag/Purpose": "other"}, {}),
    ),
}


def stop_by_tag(world: World) -> Finding:
    """The role that stops and terminates may do so with the selector tag alone, and never with the
    exemption key or the tag of an Auto Scaling group.

    Source: Service Authorization Reference of EC2; the statements are ActorRole of template.yaml.
    """
    return judged(world, RULES["stop"])


def no_right_of_its_own(world: World) -> Finding:
    """put_away itself may neither stop, terminate nor cancel: it takes a session of another role
    for each call.

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
    """SendCommand knows the tags of instances by a key of its own, ssm:resourceTag.

    Source: memory; CheckpointAccess of template.yaml.
    """
    return judged(world, RULES["command"])


def bound_namespace(world: World) -> Finding:
    """A policy variable binds a namespace to one instance: GPU/EC2/${aws:userid} is no other's.

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
    me = "AROAEXAMPLEEXAMPLEEX:i-00000000000000001"
    other = me[:-1] + "2"
    ask = partial(_decision, world, "cloudwatch:PutMetricData", "*", documents=(document,))
    own, foreign = (
        ask(context={"aws:userid": me, "cloudwatch:namespace": f"GPU/EC2/{who}"})
        for who in (me, other)
    )
    if (own, foreign) == (True, False):
        return confirmed("its own is allowed, another's is refused")
    return refuted(
        f"its own is {_word(own)}, another's is {_word(foreign)}",
        "leave metrics.bound_namespaces out",
    )


def judged(world: World, rule: Rule) -> Finding:
    """Return what the simulator says of a rule: of the deployed role where there is one."""
    table = "arn:{partition}:dynamodb:{region}:{account}:table/"
    names = {"partition": world.partition, "region": world.region, "account": world.account}
    if world.is_deployed:
        table += world.physical("StateTable")
        who = {
            "role": f"arn:{world.partition}:iam::{world.account}:role/{world.physical(rule.role)}"
        }
        selector = world.parameters.get("SelectorTagValue", "GPU-Workload")
        exempt = f"aws:ResourceTag/{world.parameters.get('ExemptionTagKey', 'GpuGovernor')}"
    else:
        table += "preflight"
        who = {}
        selector = "GPU-Workload"
        exempt = _EXEMPT
    table = table.format(**names)
    resource = rule.resource.format(**names, table=table)
    wrong, asked = [], 0
    for action in rule.actions:
        for is_allowed, contexts in ((True, rule.allowed), (False, rule.refused)):
            for context in contexts:
                here = _of_this_stack(context, selector, exempt)
                documents = None if who else rule.statements(table)
                found = _decision(world, action, resource, documents=documents, context=here, **who)
                asked += 1
                if found is not is_allowed:
                    wrong.append(
                        f"{action} with {dumps(here) if here else 'no key'} is {_word(found)}"
                    )
    subject = f"the role {rule.role}" if who else "the statement of the template"
    if wrong:
        advice = (
            "stay in observe; look for an SCP, a boundary or a policy attached by "
            "hand, then report this"
        )
        return refuted(f"{subject}: {'; '.join(wrong)}", advice)
    return confirmed(f"{subject}: {asked} of {asked} calls decided as wanted")


def _of_this_stack(context: Context, selector: str, exempt: str) -> Context:
    """Return the keys of a request with the tags by which this stack selects and exempts."""
    found = {}
    for key, value in context.items():
        own_key = exempt if key == _EXEMPT else key
        found[own_key] = selector if value == "GPU-Workload" else value
    return found


def _decision(
    world: World,
    action: str,
    resource: str,
    *,
    context: Context,
    documents: Sequence[Document] | None = None,
    role: str = "",
) -> bool:
    entries = [
        {
            "ContextKeyName": key,
            "ContextKeyValues": [value] if isinstance(value, str) else list(value),
            "ContextKeyType": "string" if isinstance(value, str) else "stringList",
        }
        for key, value in context.items()
    ]
    asked: dict[str, Any] = {
        "ActionNames": [action],
        "ResourceArns": [resource],
        "ContextEntries": entries,
    }
    if documents is None:
        answer = world.call("iam:SimulatePrincipalPolicy", PolicySourceArn=role, **asked)
    else:
        text = dumps({"Version": "2012-10-17", "Statement": list(documents)})
        answer = world.call("iam:SimulateCustomPolicy", PolicyInputList=[text], **asked)
    return bool(answer["EvaluationResults"][0]["EvalDecision"] == "allowed")


def _word(is_allowed: bool) -> str:
    return "allowed" if is_allowed else "refused"
