"""What each role may do, call by call: with the state table by partition, with instances by tag."""

from __future__ import annotations

import re

import pytest

from tests.iam import ACCOUNT, ROOT, Request, allows, functions, members, own_statements
from tests.rights import TABLE, USED, may

GOVERNED, OTHER = {"aws:ResourceTag/Purpose": "GPU-Workload"}, {"aws:ResourceTag/Purpose": "production"}
READS = ("dynamodb:GetItem", "dynamodb:Query", "dynamodb:ConditionCheckItem")
WRITES = ("dynamodb:PutItem", "dynamodb:UpdateItem")
DELETES = ("dynamodb:DeleteItem",)
WITHOUT_KEYS = (
    *READS, *WRITES, *DELETES, "dynamodb:Scan", "dynamodb:PartiQLSelect", "dynamodb:PartiQLUpdate",
    "dynamodb:BatchWriteItem", "dynamodb:ExportTableToPointInTime", "dynamodb:DeleteTable",
)  # fmt: skip
ON_THE_INTERNET = {"ServeApproval", "ServeApi", "HandleSlackAction"}
ENDS = {"RecordOutcome", "HandleExecutionEnd"}
WARNED = {"HandleSpotInterruption", "HandleLifecycleAction"}
WRITERS = {
    "BREAKER": {"SweepTarget"},
    "EPISODE": {
        "OpenEpisode", "RecheckEpisode", "PutAway", "TakeSnapshot", "UndoEpisode", "SweepTarget", *ENDS,
    },
    "APPROVAL": {
        "OpenEpisode", "AskOwner", "ConcludeApproval", "SweepTarget", "HandleStateChange", *ENDS, *WARNED,
        *ON_THE_INTERNET,
    },
    "TARGET": {
        "SweepTarget", "CheckHealth", "OpenEpisode", "UndoEpisode", "HandleStateChange", "HandleNotice",
        "HandleRebalanceRecommendation", *ENDS, *WARNED, *ON_THE_INTERNET,
    },
    "LEDGER": {"SweepTarget", "HandleStateChange", *ENDS},
    "COST": {"SweepTarget"},
    "EVENT": {
        "SweepTarget", "SumUpMonth", "CheckHealth", "HandleRebalanceRecommendation", "HandleNotice", *WARNED,
    },
    "DELIVERIES": {"DeliverAlert"},
    "OUTBOX": {"DeliverAlert"},
    "LEASE": {"DeliverAlert"},
    "DIGEST": {"DeliverAlert"},
    "POLICY": {"DeliverAlert"},
    "HOLD": set(),
    "CAPS": set(),
    "LOCK": set(),
}  # fmt: skip
"""Who may write, or delete from, each kind of partition: a reviewer sees a change of it here."""
READS_THE_LAST_POLICY = {
    "HandleSlackAction", "HandleStateChange", "HandleNotice", "HandleRebalanceRecommendation", *WARNED,
}  # fmt: skip
"""Where the present policy is refused, before the use case begins (`wiring/policies.py`, `or_last`)."""


def partition(kind: str) -> str:
    """One of its kind; `POLICY` is one alone."""
    return kind if kind == "POLICY" else f"{kind}#x"


def test_every_kind_of_partition_is_known() -> None:
    """As `docs/state.md` lists them."""
    cells = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs/state.md").read_text(), re.MULTILINE)

    assert WRITERS.keys() == {kind for cell in cells for kind in re.findall(r"`([A-Z]+)[#`]", cell)}


@pytest.mark.parametrize("function", sorted(own_statements()))
def test_a_role_reaches_the_table_by_named_partitions_alone(function: str) -> None:
    """Without a key, as a scan or a batch would be, every call is refused; and no statement is shared."""
    named = [one for one in functions()[function] if "dynamodb:" in str(one["Action"])]

    assert named == [one for one in own_statements()[function] if "dynamodb:" in str(one["Action"])]
    assert [] == [action for action in WITHOUT_KEYS if may(function, action, None)]
    assert [] == [action for action in WITHOUT_KEYS if may(function, action, "SOMETHING#else")]
    for statement in named:
        condition = statement["Condition"]
        assert {"Null": {"dynamodb:LeadingKeys": "false"}} == {"Null": condition["Null"]}
        assert {"Null", "ForAllValues:StringLike"} == condition.keys()
        assert set(statement["Action"]) <= {*READS, *WRITES, *DELETES}


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_a_partition_is_written_by_few(kind: str) -> None:
    """What is asked in one request about two partitions must be allowed for both."""
    writing = {
        function
        for function in own_statements()
        if any(may(function, action, partition(kind)) for action in (*WRITES, *DELETES))
    }
    both = {"dynamodb:LeadingKeys": [partition(kind), "SOMETHING#else"]}

    assert WRITERS[kind] == writing
    assert not any(
        allows(own_statements()[function], Request(action, TABLE, both))
        for function in writing
        for action in (*WRITES, *DELETES)
    )


def test_what_faces_the_internet_answers_questions_and_nothing_else() -> None:
    """It releases no freeze, opens or closes no episode, books nothing, and deletes nothing."""
    for function in ON_THE_INTERNET:
        written = {kind for kind in WRITERS if any(may(function, one, partition(kind)) for one in WRITES)}
        assert {"APPROVAL", "TARGET"} == written
        assert not any(may(function, "dynamodb:PutItem", partition(kind)) for kind in WRITERS)
        assert not any(may(function, "dynamodb:DeleteItem", partition(kind)) for kind in WRITERS)


def test_no_role_may_do_what_no_use_case_does() -> None:
    """Every right to read, write or delete a kind of partition is used by some test of its use case."""
    unused = {
        (function, actions[0], kind)
        for function in own_statements()
        for actions in (READS, WRITES, DELETES)
        for kind in WRITERS
        if any(may(function, action, partition(kind)) for action in actions)
        and not any((function, action, kind) in USED for action in actions)
    }

    assert {(function, READS[0], "POLICY") for function in READS_THE_LAST_POLICY} == unused


# instances

INSTANCE = f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-0123456789abcdef0"
GROUP = f"arn:aws:autoscaling:us-east-1:{ACCOUNT}:autoScalingGroup:x:autoScalingGroupName/trainers"
MARKS = {"aws:TagKeys": ["LowUtilization", "ReviewForTermination"]}
COMMAND = {"ssm:resourceTag/Purpose": "GPU-Workload"}
CALLS = {
    "ec2:StopInstances": (INSTANCE, {}, {"PutAway": "actor"}),
    "ec2:TerminateInstances": (INSTANCE, {}, {"PutAway": "actor"}),
    "ec2:StartInstances": (INSTANCE, {}, {"UndoEpisode": "starter"}),
    "ec2:CreateSnapshots": (
        INSTANCE, {}, {"TakeSnapshot": "snapshotter", "HandleSpotInterruption": "responder"},
    ),
    "ec2:CreateTags": (INSTANCE, MARKS, {"SweepTarget": "sweeper", "RecordOutcome": "sweeper"}),
    "ec2:DeleteTags": (INSTANCE, MARKS, {"SweepTarget": "sweeper", "RecordOutcome": "sweeper"}),
    "autoscaling:CompleteLifecycleAction": (GROUP, {}, {"HandleLifecycleAction": "releaser"}),
}  # fmt: skip
"""The resource, what the request carries, and who may: the function, and its role in member accounts."""
NEVER = (
    "ec2:RunInstances", "ec2:ModifyInstanceAttribute", "ec2:DeleteSnapshot", "ec2:DeleteVolume",
    "ec2:DetachVolume", "ec2:RebootInstances", "iam:PassRole", "sts:AssumeRoleWithWebIdentity",
)  # fmt: skip


@pytest.mark.parametrize("action", CALLS)
def test_only_its_own_role_writes_and_only_to_governed_instances(action: str) -> None:
    """Each role with each call, on a governed instance, another one, one without tags, and one elsewhere."""
    resource, carried, holders = CALLS[action]
    elsewhere = resource.replace(ACCOUNT, "999999999999")
    governed = Request(action, resource, {**GOVERNED, **carried})

    assert set(holders) == {name for name, role in functions().items() if allows(role, governed)}
    assert set(holders.values()) == {name for name, (role, _) in members().items() if allows(role, governed)}
    for role in (*functions().values(), *(role for role, _ in members().values())):
        assert not allows(role, Request(action, resource, {**OTHER, **carried}))
        assert not allows(role, Request(action, resource, carried))
        assert not allows(role, Request(action, elsewhere, {**GOVERNED, **carried}))


@pytest.mark.parametrize("action", ["ec2:CreateTags", "ec2:DeleteTags"])
@pytest.mark.parametrize(
    "carried",
    [{}, {"aws:TagKeys": ["Purpose"]}, {"aws:TagKeys": ["LowUtilization", "Purpose"]}],
    ids=["no keys: all tags", "the selector", "the selector beside a mark"],
)
def test_nobody_tags_an_instance_into_or_out_of_the_selector(
    action: str, carried: dict[str, list[str]]
) -> None:
    """The two marks alone, by name; a deletion that names no key would take all tags."""
    roles = (*functions().values(), *(role for role, _ in members().values()))

    assert not any(allows(role, Request(action, INSTANCE, {**GOVERNED, **carried})) for role in roles)


def test_a_command_runs_on_governed_instances_alone() -> None:
    """By the key of Systems Manager, which has one of its own for tags."""
    senders = {name for name, role in functions().items() if allows(role, _command(INSTANCE, COMMAND))}

    assert {
        "HandleSpotInterruption",
        "HandleRebalanceRecommendation",
        "HandleLifecycleAction",
    } == senders
    for role in (*functions().values(), *(role for role, _ in members().values())):
        assert not allows(role, _command(INSTANCE, {"ssm:resourceTag/Purpose": "production"}))
        assert not allows(role, _command(INSTANCE, GOVERNED))
        assert not allows(role, _command(f"arn:aws:ssm:us-east-1:{ACCOUNT}:document/another", COMMAND))


def _command(resource: str, context: dict[str, str]) -> Request:
    return Request("ssm:SendCommand", resource, context)


@pytest.mark.parametrize("action", NEVER)
def test_some_calls_are_nobodys(action: str) -> None:
    """Whatever the instance carries."""
    for role in (*functions().values(), *(role for role, _ in members().values())):
        assert not allows(role, Request(action, INSTANCE, {**GOVERNED, **MARKS}))


# the evaluator


@pytest.mark.parametrize(
    ("condition", "context", "holds"),
    [
        ({"ForAllValues:StringLike": {"k": ["A#*"]}}, {}, True),
        ({"ForAllValues:StringLike": {"k": ["A#*"]}}, {"k": ["A#1", "A#2"]}, True),
        ({"ForAllValues:StringLike": {"k": ["A#*"]}}, {"k": ["A#1", "B#1"]}, False),
        ({"Null": {"k": "false"}}, {}, False),
        ({"Null": {"k": "true"}}, {}, True),
        ({"StringEquals": {"k": "a"}}, {}, False),
        ({"StringEquals": {"k": ["a", "b"]}}, {"k": "b"}, True),
        ({"StringEqualsIfExists": {"k": "a"}}, {}, True),
        ({"StringNotEquals": {"k": "a"}}, {}, True),
        ({"StringNotEquals": {"k": "a"}}, {"k": "a"}, False),
        ({"ForAnyValue:StringEquals": {"k": "a"}}, {}, False),
        ({"ArnLike": {"k": "arn:aws:iam::*:role/x-*"}}, {"k": "arn:aws:iam::1:role/x-y"}, True),
        ({"Bool": {"k": "true"}}, {"k": "true"}, True),
    ],
    ids=str,
)
def test_conditions_hold_as_iam_says(
    condition: dict[str, dict[str, str]], context: dict[str, str], holds: bool
) -> None:
    """IAM User Guide: of an absent key ForAllValues and negated operators hold, all others do not."""
    statement = {"Effect": "Allow", "Action": "s:Call", "Resource": "*", "Condition": condition}

    assert holds is allows([statement], Request("s:Call", "arn", context))


def test_a_denial_wins_and_an_unknown_operator_is_an_error() -> None:
    """A condition that nobody evaluates must not pass for one that holds."""
    allow = {"Effect": "Allow", "Action": "s:*", "Resource": "*"}
    deny = {"Effect": "Deny", "NotAction": "s:Other", "Resource": "arn:*"}
    odd = {**allow, "Condition": {"StringEqualsSomewhat": {"k": "a"}}}

    assert not allows([allow, deny], Request("s:Call", "arn:x"))
    assert allows([allow, deny], Request("s:other", "arn:x"))
    with pytest.raises(KeyError):
        allows([odd], Request("s:Call", "arn:x", {"k": "a"}))
