"""Permissions of each role, call by call: of the state table by partition, of instances by tag."""

from __future__ import annotations

import ast
import inspect
import json
import re
import string
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from governor.approvals.model.approval import Approval
from governor.approvals.model.terms import SignIn
from governor.aws.clients import READING, allowing
from governor.aws.ec2_writes import Ec2Controller
from governor.core import managers
from governor.policy.model.names import TagMatch
from local.engine.templates import expand_template, load_template
from tests.iam import (
    ACCOUNT,
    PSEUDO,
    ROOT,
    Request,
    Value,
    actor,
    allows,
    functions,
    hub_roles,
    listed,
    members,
    own_statements,
    policies_of,
    written_out,
)
from tests.rights import KEYS, TABLE, USED, may

EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}
GOVERNED, OTHER = (
    {"aws:ResourceTag/Purpose": "GPU-Workload"},
    {"aws:ResourceTag/Purpose": "production"},
)
READS = (
    "dynamodb:GetItem",
    "dynamodb:Query",
    "dynamodb:ConditionCheckItem",
    "dynamodb:BatchGetItem",
)
WRITES = ("dynamodb:PutItem", "dynamodb:UpdateItem")
DELETES = ("dynamodb:DeleteItem",)
WITHOUT_KEYS = (
    *READS, *WRITES, *DELETES, "dynamodb:Scan", "dynamodb:PartiQLSelect", "dynamodb:PartiQLUpdate",
    "dynamodb:BatchWriteItem", "dynamodb:ExportTableToPointInTime", "dynamodb:DeleteTable",
)  # fmt: skip
STREAM = {
    f"dynamodb:{one}" for one in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
}
ON_THE_INTERNET = {"ServeApproval", "ServeApi", "ServeConsole", "HandleSlackAction"}
OF_SESSIONS = {
    "ServeApi": {"CODE", "ACCEPTED", "PAUSE"},
    "ServeApproval": {"SESSION"},
    "ServeConsole": {"CODE", "SESSION", "ENDED", "PAUSE"},
    "SignIn": {"SESSION"},
}
ENDS = {"RecordOutcome", "HandleExecutionEnd"}
WARNED = {"HandleSpotInterruption", "HandleLifecycleAction"}
TAKES_NO_ANSWER = {
    "OpenEpisode", "AskOwner", "ConcludeApproval", "SweepTarget", "HandleStateChange", *ENDS,
    *WARNED,
}  # fmt: skip
"""Nine of the thirteen that may write a question: they open, ask, void and expire it."""
WRITERS = {
    "BREAKER": {"SweepTarget"},
    "PAUSE": {"ServeApi", "ServeConsole"},
    "EPISODE": {
        "OpenEpisode", "RecheckEpisode", "PutAway", "TakeSnapshot", "UndoEpisode", "SweepTarget",
        "HandleStateChange", *ENDS,
    },
    "APPROVAL": {*TAKES_NO_ANSWER, *ON_THE_INTERNET},
    "TARGET": {
        "SweepTarget", "CheckHealth", "OpenEpisode", "UndoEpisode", "HandleStateChange",
        "HandleNotice",
        "HandleRebalanceRecommendation", *ENDS, *WARNED, *ON_THE_INTERNET,
    },
    "LEDGER": {"SweepTarget", "HandleStateChange", *ENDS},
    "COST": {"SweepTarget"},
    "FLEET": {"SweepTarget"},
    "SCAN": {"ScanAccelerators"},
    "DAYS": {"SweepTarget"},
    "EVENT": {
        "PlanSweep", "SweepTarget", "SumUpMonth", "ReportSavings", "CheckHealth",
        "HandleRebalanceRecommendation", "HandleNotice", *WARNED, *ENDS,
    },
    "FAILING": {"SweepTarget", "SumUpMonth", *ENDS},
    "INCIDENT": {"DeliverAlert", "SumUpMonth"},
    "DELIVERIES": {"DeliverAlert"},
    "OUTBOX": {"DeliverAlert"},
    "LEASE": {"DeliverAlert"},
    "DIGEST": {"DeliverAlert"},
    "LINK": {"DeliverAlert"},
    "POLICY": {"DeliverAlert"},
    "VERSION": {"PlanSweep"},
    "ACCEPTED": {"ServeApi"},
    "CAPS": {"PutAway"},
    "LOCK": {"SweepTarget", "OpenEpisode", *ENDS},
    "HOLD": {"UndoEpisode", *ON_THE_INTERNET},
    "SESSION": {"ServeApproval", "ServeConsole", "SignIn"},
    "CODE": {"ServeConsole", "ServeApi"},
    "ENDED": {"ServeConsole"},
    "STATEMENT": {"ReportSavings"},
    "PRICES": {"RefreshPrices"},
    "EXPIRY": {"ExpireSnapshots"},
    "UNSWEPT": set(),  # by the sweep machine itself
    "ADVICE": set(),  # by `governor advice`, with its caller's permissions
}  # fmt: skip
"""Functions that may write, or delete from, each kind of partition: a reviewer sees a change of it
here."""
READS_PRICES = {"SweepTarget", "OpenEpisode", "RecheckEpisode", "PutAway", "TakeSnapshot"}
"""By the port of prices, of which use cases have a twin (`wiring/ec2.py`)."""
READS_THE_LAST_POLICY = {
    "HandleSlackAction", "HandleStateChange", "HandleNotice", "HandleRebalanceRecommendation",
    *WARNED,
}  # fmt: skip
"""Where the present policy is refused, before the use case begins (`wiring/policies.py`,
`or_last`)."""


def partition(kind: str) -> str:
    """One of its kind; these are one alone."""
    return kind if kind in ("POLICY", "FLEET", "SCAN", "UNSWEPT", "PRICES") else f"{kind}#x"


def test_every_kind_of_partition_is_known() -> None:
    """As `docs/state.md` lists them."""
    cells = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs/state.md").read_text(), re.MULTILINE)

    assert WRITERS.keys() == {kind for cell in cells for kind in re.findall(r"`([A-Z]+)[#`]", cell)}


@pytest.mark.parametrize("function", sorted(own_statements()))
def test_a_role_reaches_the_table_by_named_partitions_alone(function: str) -> None:
    """Without a key, as a scan or a batch would be, every call is refused; and no statement is
    shared."""
    named = [one for one in functions()[function] if "dynamodb:" in str(one["Action"])]

    assert named == [one for one in own_statements()[function] if "dynamodb:" in str(one["Action"])]
    if function == "WriteAudit":
        (stream,) = named
        assert (stream["Resource"], STREAM) == ("${StateTable.Arn}/stream/*", set(stream["Action"]))
        named = []
    assert [] == [action for action in WITHOUT_KEYS if may(function, action, None)]
    assert [] == [action for action in WITHOUT_KEYS if may(function, action, "SOMETHING#else")]
    for statement in named:
        keys = {"dynamodb:LeadingKeys"}
        condition = dict(statement["Condition"])
        if "ForAllValues:StringEquals" in condition:
            assert {"dynamodb:Attributes"} == condition.pop("ForAllValues:StringEquals").keys()
            keys.add("dynamodb:Attributes")
        assert dict.fromkeys(keys, "false") == condition["Null"]
        assert {"Null", "ForAllValues:StringLike"} == condition.keys()
        assert {"dynamodb:LeadingKeys"} == condition["ForAllValues:StringLike"].keys()
        assert set(listed(statement["Action"])) <= {*READS, *WRITES, *DELETES}


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_a_partition_is_written_by_few(kind: str) -> None:
    """One request about two partitions must be allowed for both."""
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


def test_reports_read_the_pages_of_the_fleet_and_write_none() -> None:
    """Each report lists what stays because of something, as the last sweeps saw it."""
    assert may("ReportSavings", "dynamodb:Query", "FLEET")
    assert not any(may("ReportSavings", action, "FLEET") for action in (*WRITES, *DELETES))


def test_the_step_before_a_sweep_updates_the_freeze_of_all_targets_alone() -> None:
    """It reads who ended that freeze; it reaches no breaker of a target, and deletes none."""
    hub = "BREAKER#hub"
    allowed = {action for action in (*WRITES, *DELETES) if may("PlanSweep", action, hub)}

    assert {"dynamodb:UpdateItem"} == allowed
    assert may("PlanSweep", "dynamodb:GetItem", hub)
    assert may("PlanSweep", "dynamodb:GetItem", "ENDED#hub")
    assert not may("PlanSweep", "dynamodb:GetItem", partition("ENDED"))
    assert not may("PlanSweep", "dynamodb:UpdateItem", partition("ENDED"))


ANSWERS = ("decision", "first_yes", "brake", "late_hold", "keep_ended_at", "keep_ended_by")
"""The attributes of a question that an answer writes."""


def test_nine_of_the_thirteen_that_write_a_question_write_no_answer() -> None:
    """Nor a whole question in place of it, but the one that opens it; and that one without an
    answer."""
    question = partition("APPROVAL")

    assert 13 == len(WRITERS["APPROVAL"])
    assert 9 == len(TAKES_NO_ANSWER)
    for function in TAKES_NO_ANSWER:
        for action, answer in product((*WRITES, *DELETES), ANSWERS):
            assert not may(function, action, question, KEYS | {answer})
            assert not may(function, action, question, KEYS | {"status", answer})
        replaces = may(function, "dynamodb:PutItem", question, KEYS | {"status"})
        assert replaces == (function == "OpenEpisode")
        assert not may(function, "dynamodb:DeleteItem", question)
    for function in ON_THE_INTERNET:
        assert may(function, "dynamodb:UpdateItem", question, KEYS | {"status", "decision"})


def test_a_request_that_names_no_attributes_writes_no_question() -> None:
    """All of no values match: without "Null" a request without the condition key would pass."""
    unnamed = {"dynamodb:LeadingKeys": [partition("APPROVAL")]}

    for function in TAKES_NO_ANSWER:
        for action in (*WRITES, *DELETES):
            assert not allows(own_statements()[function], Request(action, TABLE, unnamed))


def test_every_answer_in_a_question_is_among_those_that_nine_never_write() -> None:
    """A later field of a question that holds an answer must be listed, too."""
    stored_names = {"hold": "brake"}
    holds_an_answer = {
        stored_names.get(one.name, one.name)
        for one in fields(Approval)
        if "Decision" in str(one.type) or one.name.startswith("keep_ended")
    }

    assert set(ANSWERS) == holds_an_answer


def test_what_faces_the_internet_answers_questions_and_nothing_else() -> None:
    """It releases no freeze, opens or closes no episode, books nothing, and deletes nothing."""
    for function in ON_THE_INTERNET | OF_SESSIONS.keys():
        written = {
            kind for kind in WRITERS if any(may(function, one, partition(kind)) for one in WRITES)
        }
        answers = {"APPROVAL", "HOLD", "TARGET"} if function in ON_THE_INTERNET else set()
        assert answers | OF_SESSIONS.get(function, set()) == written
        assert not any(may(function, "dynamodb:PutItem", partition(kind)) for kind in WRITERS)
        assert not any(may(function, "dynamodb:DeleteItem", partition(kind)) for kind in WRITERS)


def test_the_pages_of_links_end_a_session_and_open_none() -> None:
    """They write when it ends, and neither who signed in nor until when the item is kept."""
    session, whole = (
        partition("SESSION"),
        {one.name for one in fields(SignIn)} | {"expires_at_epoch"},
    )

    assert may("ServeApproval", "dynamodb:UpdateItem", session, KEYS | {"ends_at"})
    for name in whole - {"ends_at"}:
        assert not may("ServeApproval", "dynamodb:UpdateItem", session, KEYS | {"ends_at", name})
    unnamed = {"dynamodb:LeadingKeys": [session]}
    for action in (*WRITES, *DELETES):
        assert not allows(own_statements()["ServeApproval"], Request(action, TABLE, unnamed))


def test_no_role_may_do_what_no_use_case_does() -> None:
    """Every permission to read, write or delete a kind of partition is used by some test of its use
    case."""
    unused = {
        (function, actions[0], kind)
        for function in own_statements()
        for actions in (READS, WRITES, DELETES)
        for kind in WRITERS
        if any(may(function, action, partition(kind)) for action in actions)
        and not any((function, action, kind) in USED for action in actions)
    }

    outside = {(function, READS[0], "POLICY") for function in READS_THE_LAST_POLICY}
    outside |= {(function, READS[0], "PRICES") for function in READS_PRICES}
    assert all(may(function, action, kind) for function, action, kind in outside)
    # A function that the soak works twice at once reads it within its own use case, at a random
    # point.
    assert set() == unused - outside


def test_a_role_reads_many_items_in_one_call_only_where_its_function_does() -> None:
    """It reads them from the partitions whose items it may read one by one."""
    batches = "dynamodb:BatchGetItem"
    reading = {function for function, action, _ in USED if action == batches}

    assert reading == {
        function
        for function in own_statements()
        if any(may(function, batches, partition(kind)) for kind in WRITERS)
    }


LISTS = {
    "ScanAccelerators": set[str](),
    "SweepTarget": {"FAILING", "FLEET", "HOLD", "LEDGER", "LOCK", "TARGET"},
}
"""The kinds of partitions of which a function lists the items. It reads others by their keys."""


@pytest.mark.parametrize("function", sorted(LISTS))
def test_a_role_lists_no_partition_that_its_function_reads_by_key(function: str) -> None:
    """A sweep lists the few entries of one stop, and a scan nothing at all."""
    allowed = {kind for kind in WRITERS if may(function, "dynamodb:Query", partition(kind))}
    assert LISTS[function] == allowed
    assert not may("SweepTarget", "dynamodb:GetItem", partition("LEDGER"))


# the policy of the table itself

NAMED_BREAK_GLASS = f"arn:aws:iam::{ACCOUNT}:role/break-glass"
DATA_WRITES = (
    *WRITES, *DELETES, "dynamodb:BatchWriteItem", "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLUpdate",
    "dynamodb:PartiQLDelete",
)  # fmt: skip
"""A transaction is allowed for each of its writes, as the single call. Source: DynamoDB Developer
Guide."""
ADMINISTRATOR = {"Effect": "Allow", "Action": "*", "Resource": "*"}
ROLES = f"arn:aws:iam::{ACCOUNT}:role"


def of_the_table(**parameters: str) -> list[dict[str, Any]]:
    """The statements of the table's own policy, and one that allows the caller everything."""
    document = load_template(ROOT / "template.yaml")
    table = document["Resources"]["StateTable"]["Properties"]
    defaults = {name: str(one.get("Default", "")) for name, one in document["Parameters"].items()}
    policy = written_out(
        table["ResourcePolicy"]["PolicyDocument"], {**PSEUDO, **defaults, **parameters}
    )
    return [ADMINISTRATOR, *policy["Statement"]]


def role_arns() -> dict[str, str]:
    """The role of each function and state machine that may write the table, as the template names
    it."""
    resources = expand_template(ROOT / "template.yaml")["Resources"]
    found = {}
    for name, resource in resources.items():
        if resource["Type"] not in ("AWS::Serverless::Function", "AWS::Serverless::StateMachine"):
            continue
        statements = [
            one
            for policy in policies_of(resource["Properties"], resources)
            for one in policy["Statement"]
        ]
        actions = {action for one in statements for action in listed(one.get("Action", ()))}
        if actions.isdisjoint(DATA_WRITES):
            continue
        properties = resource["Properties"]
        if "Role" in properties:
            role = resources[properties["Role"]["Fn::GetAtt"][0]]["Properties"]
            end = written_out(role["RoleName"], PSEUDO)
            found[name] = f"{ROLES}/{end}"
        else:
            path = written_out(properties["RolePath"], PSEUDO)
            found[name] = f"{ROLES}{path}gpu-governor-{name}Role-1A2B3C4D5E6F"
    return found


def writes(policy: list[dict[str, Any]], principal: str) -> set[str]:
    """The writes of data that the policy leaves to somebody who may do everything else."""
    return {
        one
        for one in DATA_WRITES
        if allows(policy, Request(one, TABLE, {"aws:PrincipalArn": principal}))
    }


def test_every_role_of_the_stack_that_writes_the_table_may() -> None:
    """Each by its name, or by its path; and nobody is forgotten."""
    policy = of_the_table()
    roles = role_arns()

    functions_that_write = {name.removesuffix("Function") for name in roles} - {"SweepStateMachine"}
    assert set().union(*WRITERS.values()) == functions_that_write
    for principal in roles.values():
        assert set(DATA_WRITES) == writes(policy, principal)


def test_nobody_else_writes_data_into_the_table_whatever_they_may() -> None:
    """Nor a role alike of another stack or Region, nor the root user; reading stays as it was."""
    policy = of_the_table()
    others = (
        f"{ROLES}/admin",
        f"{ROLES}/gpu-governor-admin",
        f"{ROLES}/gpu-governor-us-east-1-put-away-2",
        f"{ROLES}/gpu-governor-eu-west-1-put-away",
        f"{ROLES}/gpu-governor-eu-west-1/gpu-governor-ServeApiFunctionRole-1A2B",
        f"{ROLES}/path/gpu-governor-us-east-1-put-away",
        f"{ROLES}/other-us-east-1/x",
        "arn:aws:iam::999999999999:role/gpu-governor-us-east-1-put-away",
        f"arn:aws:iam::{ACCOUNT}:user/ada",
        f"arn:aws:iam::{ACCOUNT}:root",
        NAMED_BREAK_GLASS,
    )

    for principal in others:
        assert set() == writes(policy, principal)
        for action in ("dynamodb:GetItem", "dynamodb:Scan"):
            assert allows(policy, Request(action, TABLE, {"aws:PrincipalArn": principal}))


def test_one_role_that_an_operator_names_writes_as_well() -> None:
    """For `governor restore`, and what else an operator writes with permissions of their own."""
    policy = of_the_table(BreakGlassRoleArn=NAMED_BREAK_GLASS)

    assert set(DATA_WRITES) == writes(policy, NAMED_BREAK_GLASS)
    assert set() == writes(policy, f"{NAMED_BREAK_GLASS}-2")
    assert set() == writes(policy, f"{ROLES}/admin")


@pytest.mark.parametrize(
    "action",
    [
        "dynamodb:PutResourcePolicy", "dynamodb:DeleteResourcePolicy", "dynamodb:UpdateTable",
        "dynamodb:UpdateTimeToLive", "dynamodb:UpdateContinuousBackups", "dynamodb:DeleteTable",
    ],
)  # fmt: skip
def test_the_tables_policy_locks_nobody_out_of_the_table_itself(action: str) -> None:
    """CloudFormation changes the table with the permissions of whoever deploys, which no template
    knows."""
    for principal in (f"{ROLES}/deployer", f"arn:aws:iam::{ACCOUNT}:root"):
        assert allows(of_the_table(), Request(action, TABLE, {"aws:PrincipalArn": principal}))


def test_a_role_of_the_release_before_writes_until_the_update_has_replaced_it() -> None:
    """The table gets its policy before functions get their new roles. One release more."""
    of_a_path = [
        arn for arn in role_arns().values() if arn.startswith(f"{ROLES}/gpu-governor-us-east-1/")
    ]

    assert 14 == len(of_a_path)
    for arn in of_a_path:
        before = arn.replace("gpu-governor-us-east-1/", "")
        assert set(DATA_WRITES) == writes(of_the_table(), before)


# link keys

LINK_KEYS = "the-LinkKeySecret"
MAKES_LINKS = {"AskOwner", "RecordOutcome", "DeliverAlert"}
CHECKS_LINKS = {"ServeApproval", "ServeConsole", "SignIn"}
"""Cookies and forms of the page and of the console are sealed with the same keys."""


def test_link_keys_are_read_by_those_that_make_or_check_links() -> None:
    """And by the one that rotates them, which alone changes them."""
    reads = Request("secretsmanager:GetSecretValue", LINK_KEYS)
    changes = Request("secretsmanager:PutSecretValue", LINK_KEYS)

    readers = {name for name, role in functions().items() if allows(role, reads)}
    assert MAKES_LINKS | CHECKS_LINKS | {"RotateLinkKeys"} == readers
    assert {"RotateLinkKeys"} == {
        name for name, role in functions().items() if allows(role, changes)
    }
    assert not any(allows(role, reads) for role, _ in members().values())


def test_no_other_function_knows_where_the_link_keys_are() -> None:
    """Its name is a setting of those alone."""
    resources = load_template(ROOT / "template.yaml")["Resources"]
    told = {
        name.removesuffix("Function")
        for name, resource in resources.items()
        if isinstance(resource, dict)
        and resource["Type"] == "AWS::Serverless::Function"
        and "LINK_KEY_SECRET_ARN" in resource["Properties"]["Environment"]["Variables"]
    }

    assert MAKES_LINKS | CHECKS_LINKS | {"RotateLinkKeys"} == told


# instances

INSTANCE = f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-0123456789abcdef0"
GROUP = f"arn:aws:autoscaling:us-east-1:{ACCOUNT}:autoScalingGroup:x:autoScalingGroupName/trainers"
MARKS = {"aws:TagKeys": ["LowUtilization", "ReviewForTermination"]}
COMMAND = {"ssm:resourceTag/Purpose": "GPU-Workload"}
CALLS = {
    "ec2:StopInstances": (INSTANCE, {}, {"Actor": "actor"}),
    "ec2:TerminateInstances": (INSTANCE, {}, {"Actor": "actor"}),
    "ec2:StartInstances": (INSTANCE, {}, {"UndoEpisode": "starter"}),
    "ec2:CreateSnapshots": (
        INSTANCE, {}, {"TakeSnapshot": "snapshotter", "HandleSpotInterruption": "responder"},
    ),
    "ec2:DescribeInstanceAttribute": (
        INSTANCE, {}, {
            "OpenEpisode": "reader", "RecheckEpisode": "reader", "PutAway": "actor",
            "TakeSnapshot": "snapshotter",
        },
    ),
    "ec2:CreateTags": (INSTANCE, MARKS, {"SweepTarget": "sweeper", "RecordOutcome": "sweeper"}),
    "ec2:DeleteTags": (INSTANCE, MARKS, {"SweepTarget": "sweeper", "RecordOutcome": "sweeper"}),
    "autoscaling:CompleteLifecycleAction": (GROUP, {}, {"HandleLifecycleAction": "releaser"}),
}  # fmt: skip
"""The resource, what the request carries, and who may: the function, and its role in member
accounts."""
NEVER = (
    "ec2:RunInstances", "ec2:ModifyInstanceAttribute", "ec2:DeleteSnapshot", "ec2:DeleteVolume",
    "ec2:DetachVolume", "ec2:RebootInstances", "iam:PassRole", "sts:AssumeRoleWithWebIdentity",
)  # fmt: skip


@pytest.mark.parametrize("action", CALLS)
def test_only_its_own_role_writes_or_reads_user_data_and_only_of_governed_instances(
    action: str,
) -> None:
    """Each role with each call, on a governed instance, another one, one without tags, and one
    elsewhere."""
    resource, carried, holders = CALLS[action]
    elsewhere = resource.replace(ACCOUNT, "999999999999")
    governed = Request(action, resource, {**GOVERNED, **carried})

    assert set(holders) == {name for name, role in hub_roles().items() if allows(role, governed)}
    assert set(holders.values()) == {
        name for name, (role, _) in members().items() if allows(role, governed)
    }
    for role in (*hub_roles().values(), *(role for role, _ in members().values())):
        assert not allows(role, Request(action, resource, {**OTHER, **carried}))
        assert not allows(role, Request(action, resource, carried))
        assert not allows(role, Request(action, elsewhere, {**GOVERNED, **carried}))


KEY_OWNERS = (ACCOUNT, "999999999999")
"""The account of the instance, and a central one that holds the keys of others."""
FOR_AWS = {"kms:GrantIsForAWSResource": "true", "kms:ViaService": "ec2.us-east-1.amazonaws.com"}


@pytest.mark.parametrize("owner", KEY_OWNERS)
@pytest.mark.parametrize("via", ["ec2.us-east-1.amazonaws.com", "ec2.cn-north-1.amazonaws.com.cn"])
def test_who_starts_lets_ec2_use_the_keys_of_volumes_and_nobody_else_does(
    owner: str, via: str
) -> None:
    """In any account that lets it: without the grant, EC2 takes the start back."""
    request = Request(
        "kms:CreateGrant",
        f"arn:aws:kms:us-east-1:{owner}:key/central",
        {**FOR_AWS, "kms:ViaService": via},
    )

    assert {"UndoEpisode"} == {name for name, role in hub_roles().items() if allows(role, request)}
    assert {"starter"} == {name for name, (role, _) in members().items() if allows(role, request)}


@pytest.mark.parametrize("owner", KEY_OWNERS)
def test_who_asks_may_look_at_the_keys_of_volumes_and_use_none(owner: str) -> None:
    """In any account: the question says what stands against the next start."""
    arn = f"arn:aws:kms:us-east-1:{owner}:key/central"
    look = Request("kms:DescribeKey", arn)
    use = Request("kms:Decrypt", arn)

    assert {"OpenEpisode"} == {name for name, role in hub_roles().items() if allows(role, look)}
    assert {"reader"} == {name for name, (role, _) in members().items() if allows(role, look)}
    for role in (*hub_roles().values(), *(role for role, _ in members().values())):
        assert not allows(role, use)


def test_who_asks_and_who_lists_may_look_up_launches() -> None:
    """In the hub and in member accounts: nobody else reads CloudTrail."""
    look = Request("cloudtrail:LookupEvents", "*")

    assert {"OpenEpisode", "SweepTarget", "ScanAccelerators"} == {
        name for name, role in hub_roles().items() if allows(role, look)
    }
    assert {"reader", "sweeper", "scanner"} == {
        name for name, (role, _) in members().items() if allows(role, look)
    }


@pytest.mark.parametrize(
    "context",
    [
        {},
        {**FOR_AWS, "kms:GrantIsForAWSResource": "false"},
        {**FOR_AWS, "kms:ViaService": "s3.us-east-1.amazonaws.com"},
        {"kms:GrantIsForAWSResource": "true"},
        {"kms:ViaService": "ec2.us-east-1.amazonaws.com"},
    ],
)
def test_a_grant_is_for_ec2_and_through_ec2_alone(context: dict[str, str]) -> None:
    """Nobody can give a key of a volume to anybody else."""
    for owner in KEY_OWNERS:
        request = Request("kms:CreateGrant", f"arn:aws:kms:us-east-1:{owner}:key/k", context)
        for role in (*hub_roles().values(), *(role for role, _ in members().values())):
            assert not allows(role, request)


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
    roles = (*hub_roles().values(), *(role for role, _ in members().values()))

    assert not any(
        allows(role, Request(action, INSTANCE, {**GOVERNED, **carried})) for role in roles
    )


def test_a_command_runs_on_governed_instances_alone() -> None:
    """By the key of Systems Manager, which has one of its own for tags."""
    senders = {
        name for name, role in functions().items() if allows(role, _command(INSTANCE, COMMAND))
    }

    assert {
        "HandleSpotInterruption",
        "HandleRebalanceRecommendation",
        "HandleLifecycleAction",
    } == senders
    for role in (*functions().values(), *(role for role, _ in members().values())):
        assert not allows(role, _command(INSTANCE, {"ssm:resourceTag/Purpose": "production"}))
        assert not allows(role, _command(INSTANCE, GOVERNED))
        assert not allows(
            role, _command(f"arn:aws:ssm:us-east-1:{ACCOUNT}:document/another", COMMAND)
        )


def _command(resource: str, context: dict[str, str]) -> Request:
    return Request("ssm:SendCommand", resource, context)


def test_one_role_deletes_snapshots_and_only_those_of_an_episode() -> None:
    snapshot = "arn:aws:ec2:us-east-1::snapshot/snap-0123456789abcdef0"
    tagged = Request(
        "ec2:DeleteSnapshot", snapshot, {"aws:ResourceTag/GpuGovernor:Episode": "an-episode"}
    )
    of_an_event: dict[str, Value] = {"aws:ResourceTag/GpuGovernor:Event": "an-event"}
    others: tuple[dict[str, Value], ...] = ({}, {**GOVERNED}, of_an_event)

    assert {"ExpireSnapshots"} == {
        name for name, role in functions().items() if allows(role, tagged)
    }
    assert {"expirer"} == {name for name, (role, _) in members().items() if allows(role, tagged)}
    for role in (*functions().values(), *(role for role, _ in members().values())):
        assert not any(allows(role, Request("ec2:DeleteSnapshot", snapshot, one)) for one in others)


@pytest.mark.parametrize("action", NEVER)
def test_some_calls_are_nobodys(action: str) -> None:
    """Whatever the instance carries."""
    for role in (*hub_roles().values(), *(role for role, _ in members().values())):
        assert not allows(role, Request(action, INSTANCE, {**GOVERNED, **MARKS}))


# the role that stops and terminates

SPOT_REQUEST = f"arn:aws:ec2:us-east-1:{ACCOUNT}:spot-instances-request/sir-1"
DESTRUCTIVE = {
    "ec2:StopInstances": INSTANCE,
    "ec2:TerminateInstances": INSTANCE,
    "ec2:CancelSpotInstanceRequests": SPOT_REQUEST,
}
ACTOR_ARN = f"arn:aws:iam::{ACCOUNT}:role/gpu-governor-us-east-1-actor"
IN_BOTH = pytest.mark.parametrize("account", ["hub", "member"])
MANAGERS = json.loads(
    (Path(managers.__file__).parent / "managers.json").read_text(encoding="utf-8")
)
UNDER_IAM = (
    *sorted(key for manager in MANAGERS if manager.get("denied_by_iam") for key in manager["keys"]),
    "aws:servicecatalog:provisionedProductArn",
    "aws:servicecatalog:productArn",
)
"""The marks of managers that have an exact key."""


def acting(account: str, **parameters: str) -> list[dict[str, Any]]:
    """The statements of the role that acts in the hub's account, or in a member."""
    return actor(**parameters)[0] if account == "hub" else members(**parameters)["actor"][0]


def test_no_function_holds_a_destructive_right_itself() -> None:
    """Not put_away either: it takes a session of the role for each call."""
    for name, role in functions().items():
        for action, resource in DESTRUCTIVE.items():
            assert not allows(role, Request(action, resource, GOVERNED)), name
    for action, resource in DESTRUCTIVE.items():
        assert allows(acting("hub"), Request(action, resource, GOVERNED))


def calls_of_a_plan() -> set[str]:
    """The calls by which steps are carried out, as the adapter names them."""
    tree = ast.parse(inspect.getsource(Ec2Controller))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    calls = {text for text in texts if isinstance(text, str) and re.fullmatch(r"ec2:\w+", text)}
    return {call for call in calls if not call.startswith("ec2:Describe")}


@IN_BOTH
def test_the_role_that_acts_may_make_each_call_of_a_plan(account: str) -> None:
    """A new cloud action needs its permission in both stacks, and its place among the destructive
    permissions, which the tests below deny for exempt and managed instances."""
    assert set(DESTRUCTIVE) == calls_of_a_plan()
    for action, resource in DESTRUCTIVE.items():
        assert allows(acting(account), Request(action, resource, GOVERNED)), action


def test_the_role_that_acts_trusts_put_away_alone() -> None:
    """And no other function has permission to assume it, nor to name the session's source."""
    _, trust = actor()
    root = f"arn:aws:iam::{ACCOUNT}:root"
    assumed = ("sts:AssumeRole", "sts:SetSourceIdentity")
    for name, role in functions().items():
        caller = {"aws:PrincipalArn": _role(name)}
        may = {one: allows([trust], Request(one, "*", caller)) for one in assumed}
        has = {one: allows(role, Request(one, ACTOR_ARN)) for one in assumed}
        assert (dict.fromkeys(assumed, name == "PutAway"),) * 2 == (may, has), name
    assert {"AWS": root} == trust["Principal"]
    for action in ("sts:TagSession", "sts:AssumeRoleWithWebIdentity"):
        assert not allows([trust], Request(action, "*", {"aws:PrincipalArn": _role("PutAway")}))


@IN_BOTH
@pytest.mark.parametrize("value", ["exempt", "", "false"])
@pytest.mark.parametrize("action", DESTRUCTIVE)
def test_iam_denies_whatever_carries_the_exemption_key(
    account: str, action: str, value: str
) -> None:
    """With any value, as the guards have it, although something else allows everything."""
    role = [*acting(account), EVERYTHING]
    tagged: dict[str, Value] = {**GOVERNED, "aws:ResourceTag/GpuGovernor": value}

    assert allows(role, Request(action, DESTRUCTIVE[action], GOVERNED))
    assert not allows(role, Request(action, DESTRUCTIVE[action], tagged))


@pytest.mark.parametrize("template", ["template.yaml", "stacks/member.yaml"])
def test_the_exemption_key_is_one_that_iam_compares(template: str) -> None:
    """Letters, digits and + - = . _ : / @ alone: nobody has shown that a condition key takes a
    space."""
    rules = load_template(ROOT / template)["Parameters"]["ExemptionTagKey"]
    every = [chr(number) for number in range(0x250)]
    taken = "".join(one for one in every if re.fullmatch(rules["AllowedPattern"], one))

    assert sorted(string.ascii_letters + string.digits + "+-=._:/@") == sorted(taken)
    assert taken == "".join(filter(TagMatch.is_key_for_iam, every))
    for length, is_taken in ((0, False), (1, True), (128, True), (129, False)):
        assert is_taken is bool(re.fullmatch(rules["AllowedPattern"], "k" * length))
        assert is_taken is TagMatch.is_key_for_iam("k" * length)
    assert "spaces" not in rules["ConstraintDescription"]


@IN_BOTH
def test_the_exemption_key_is_the_parameters(account: str) -> None:
    role = acting(account, ExemptionTagKey="CostCenter:keep")
    own: dict[str, Value] = {**GOVERNED, "aws:ResourceTag/CostCenter:keep": "x"}
    default: dict[str, Value] = {**GOVERNED, "aws:ResourceTag/GpuGovernor": "exempt"}

    assert not allows(role, Request("ec2:StopInstances", INSTANCE, own))
    assert allows(role, Request("ec2:StopInstances", INSTANCE, default))


@IN_BOTH
@pytest.mark.parametrize("key", UNDER_IAM)
def test_iam_denies_whatever_carries_a_managers_mark(account: str, key: str) -> None:
    """Each key that `managed_by` lists has a statement of its own: keys of one condition all have
    to hold."""
    role = [*acting(account), EVERYTHING]
    tagged: dict[str, Value] = {**GOVERNED, f"aws:ResourceTag/{key}": "any"}

    assert not allows(role, Request("ec2:StopInstances", INSTANCE, tagged))
    assert not allows(role, Request("ec2:TerminateInstances", INSTANCE, tagged))


def test_the_hub_and_its_members_deny_the_same() -> None:
    denied = [
        [one for one in acting(account) if one["Effect"] == "Deny"] for account in ("hub", "member")
    ]
    assert denied[0] == denied[1]
    assert 1 + len(UNDER_IAM) == len(denied[0])


@IN_BOTH
def test_the_policies_of_the_role_fit_iam(account: str) -> None:
    """IAM counts the characters of all inline policies of a role, without white space: 10,240 at
    most."""
    longest = "k" * 128
    written = json.dumps(acting(account, ExemptionTagKey=longest), separators=(",", ":"))
    assert 10_240 > len(written)


@IN_BOTH
@pytest.mark.parametrize("action", DESTRUCTIVE)
def test_a_session_for_one_call_may_do_nothing_else(account: str, action: str) -> None:
    """A session may do what both allow: the role's policies and the session's."""
    resource = DESTRUCTIVE[action]
    session = json.loads(allowing(action, resource))["Statement"]

    def may(asked: str, named: str) -> bool:
        request = Request(asked, named, GOVERNED)
        return allows(acting(account), request) and allows(session, request)

    assert may(action, resource)
    assert not may(action, resource[:-1] + "f")
    assert not may(action, resource.replace("us-east-1", "eu-west-1"))
    assert not any(may(other, named) for other, named in DESTRUCTIVE.items() if other != action)
    assert not may("ec2:DescribeInstances", "*")


def test_a_session_for_reading_in_a_member_changes_nothing() -> None:
    """Although the role there may stop: its trust is put_away's, who reads with it, too."""
    session = json.loads(allowing(*READING))["Statement"]
    for action, resource in DESTRUCTIVE.items():
        assert not allows(session, Request(action, resource, GOVERNED))
    for action in (
        "ec2:DescribeInstances",
        "ec2:DescribeSpotInstanceRequests",
        "ec2:DescribeSnapshots",
    ):
        assert allows(session, Request(action, "*"))


# the audit

AUDIT = "${AuditBucket.Arn}/audit/day=2026-11-22/an-episode/1.json"
USER_DATA = "${AuditBucket.Arn}/user-data/123456789012/i-1/an-episode/abc"
DELETIONS = (
    "s3:DeleteObject",
    "s3:DeleteObjectVersion",
    "s3:BypassGovernanceRetention",
    "s3:ReplicateDelete",
)
ONCE: dict[str, Value] = {"s3:if-none-match": "*", "aws:SecureTransport": "true"}


def test_one_role_writes_the_audit_and_only_what_is_not_there() -> None:
    """Each role of the stack and of its members with each call, beside the policy of the bucket
    itself."""
    roles = {**hub_roles(), **{name: role for name, (role, _) in members().items()}}
    administrator = [ADMINISTRATOR]
    bucket = _bucket_policy()

    assert {"WriteAudit"} == {
        n for n, role in roles.items() if allows(role, Request("s3:PutObject", AUDIT, ONCE))
    }
    for role in roles.values():
        assert not allows(role, Request("s3:PutObject", AUDIT, {"aws:SecureTransport": "true"}))
        assert [] == [one for one in DELETIONS if allows(role, Request(one, AUDIT))]
        assert not allows(role, Request("s3:PutBucketPolicy", "${AuditBucket.Arn}"))
    for writer, path in (("WriteAudit", AUDIT), ("TakeSnapshot", USER_DATA)):
        others = ("arn:of:admin", *(_role(one) for one in roles if one != writer))
        put = {
            name: Request("s3:PutObject", path, {**ONCE, "aws:PrincipalArn": name})
            for name in others
        }
        assert not any(allows([*administrator, *bucket], one) for one in put.values())
        own = {**ONCE, "aws:PrincipalArn": _role(writer)}
        assert allows([*administrator, *bucket], Request("s3:PutObject", path, own))
        for action in ("s3:PutObject", "s3:ReplicateObject", *DELETIONS):
            again = {name: value for name, value in own.items() if name != "s3:if-none-match"}
            assert not allows([*administrator, *bucket], Request(action, path, again))
    assert not allows(
        [*administrator, *bucket], Request("s3:GetObject", AUDIT, {"aws:SecureTransport": "false"})
    )


def test_user_data_is_written_once_by_one_role_and_read_by_none() -> None:
    """Nor does a copy go there without the key: whoever may read the audit could read it."""
    roles = {**hub_roles(), **{name: role for name, (role, _) in members().items()}}
    with_key: dict[str, Value] = {
        **ONCE,
        "s3:x-amz-server-side-encryption-aws-kms-key-id": "arn:of:Key",
    }
    without = [
        ONCE,
        {**with_key, "s3:x-amz-server-side-encryption-aws-kms-key-id": "arn:of:another"},
    ]
    again = {name: value for name, value in with_key.items() if name != "s3:if-none-match"}

    assert {"TakeSnapshot"} == {
        n for n, role in roles.items() if allows(role, Request("s3:PutObject", USER_DATA, with_key))
    }
    for role in roles.values():
        assert not any(
            allows(role, Request("s3:PutObject", USER_DATA, one)) for one in (*without, again)
        )
        for action in ("s3:GetObject", "s3:GetObjectVersion", *DELETIONS):
            assert not allows(role, Request(action, USER_DATA, with_key))
    assert not allows(roles["TakeSnapshot"], Request("s3:PutObject", AUDIT, with_key))


def _role(function: str) -> str:
    return f"arn:of:{function}FunctionRole"


def _bucket_policy() -> list[dict[str, Any]]:
    policy = load_template(ROOT / "template.yaml")["Resources"]["AuditBucketPolicy"]["Properties"]
    found: list[dict[str, Any]] = written_out(policy["PolicyDocument"]["Statement"], {})
    return found


# seals

TAKE_ANSWERS = {"ServeApproval", "ServeConsole", "HandleSlackAction", "ServeApi"}
SEALERS = {
    "OpeningKey": {"OpenEpisode"},
    "AnswerKey": TAKE_ANSWERS,
    "DeliveryKey": {"DeliverAlert"},
    "ExpiryKey": {"ConcludeApproval"},
}
"""Functions that make the seals of each duty."""
CHECKERS = {"PutAway", "RecheckEpisode", "TakeSnapshot"}
SEALS_ALERTS = {
    "PlanSweep", "SweepTarget", "SumUpMonth", "ReportSavings", "CheckHealth", "AskOwner",
    "ExpireSnapshots",
    "RecordOutcome", "UndoEpisode", "DeliverAlert", "HandleSpotInterruption", "HandleStateChange",
    "HandleRebalanceRecommendation", "HandleLifecycleAction", "HandleNotice", "HandleExecutionEnd",
    *TAKE_ANSWERS,
}  # fmt: skip


def _key_policy(key: str) -> list[dict[str, Any]]:
    policy = load_template(ROOT / "template.yaml")["Resources"][key]["Properties"]["KeyPolicy"]
    found: list[dict[str, Any]] = written_out(policy["Statement"], {})
    return found


@pytest.mark.parametrize("key", SEALERS)
def test_a_duty_is_sealed_by_its_own_functions_alone(key: str) -> None:
    """By the permissions of each role, and by the policy of the key, which denies an administrator
    as well."""
    arn, administrator = f"arn:of:{key}", [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    make, check = Request("kms:GenerateMac", arn), Request("kms:VerifyMac", arn)
    roles = {**functions(), **{name: role for name, (role, _) in members().items()}}

    assert SEALERS[key] == {name for name, role in roles.items() if allows(role, make)}
    assert CHECKERS == {name for name, role in roles.items() if allows(role, check)}
    may_make = set()
    for name in ("admin", *functions()):
        context = {"aws:PrincipalArn": _role(name) if name in functions() else "arn:of:admin"}
        if allows([*administrator, *_key_policy(key)], Request("kms:GenerateMac", arn, context)):
            may_make.add(name)
    assert SEALERS[key] == may_make
    # A role of a similar name, of another path or stack, is none of them.
    for name in SEALERS[key]:
        for other in (f"{_role(name)}-2", f"{_role(name)}/x", _role(name).removesuffix("Role")):
            request = Request("kms:GenerateMac", arn, {"aws:PrincipalArn": other})
            assert not allows([*administrator, *_key_policy(key)], request)


def test_what_is_made_with_guards_knows_the_keys() -> None:
    """Without one of them the function would not start. `check_progress` only reads, and knows no
    key."""
    resources = load_template(ROOT / "template.yaml")["Resources"]
    wanted = {f"{key.removesuffix('Key').upper()}_KEY_ARN": key for key in SEALERS}

    for function in CHECKERS:
        variables = resources[f"{function}Function"]["Properties"]["Environment"]["Variables"]
        assert {
            name: {"Fn::GetAtt": [key, "Arn"]} for name, key in wanted.items()
        }.items() <= variables.items()
    progress = resources["CheckProgressFunction"]["Properties"]["Environment"]["Variables"]
    assert set() == wanted.keys() & progress.keys()
    for key, functions_of_duty in SEALERS.items():
        for function in functions_of_duty:
            variables = resources[f"{function}Function"]["Properties"]["Environment"]["Variables"]
            assert f"{key.removesuffix('Key').upper()}_KEY_ARN" in variables


def test_the_key_of_alerts_seals_no_decision() -> None:
    """Every function that sends messages uses it; none of the duties is its."""
    request = Request("kms:GenerateMac", "arn:of:AlertKey")

    assert {name for name, role in functions().items() if allows(role, request)} == SEALS_ALERTS
    assert not {key for key in SEALERS if "AlertKey" in str(_key_policy(key))}


def test_no_role_changes_a_key_of_seals_or_lends_it_out() -> None:
    """A grant, or another policy, would let others make seals."""
    for action in (
        "CreateGrant",
        "PutKeyPolicy",
        "ScheduleKeyDeletion",
        "ReplicateKey",
        "UpdateAlias",
    ):
        for key in SEALERS:
            request = Request(f"kms:{action}", f"arn:of:{key}")
            assert [] == [name for name, role in functions().items() if allows(role, request)]


# who may assume a member role

OWN = f"arn:aws:iam::{ACCOUNT}:role/gpu-governor-us-east-1-put-away"
LOOKALIKE = f"arn:aws:iam::{ACCOUNT}:role/gpu-governor-us-east-1-put-away-2"
SISTER = f"arn:aws:iam::{ACCOUNT}:role/gpu-governor-us-east-1-sweep-target"
ORGANIZATION = "o-abcdefghij"


def assumes(principal: str, organization: str | None = None, **parameters: object) -> set[str]:
    """The member roles that a principal of the hub's account may assume, and name their session."""
    context = {"aws:PrincipalArn": principal}
    if organization is not None:
        context["aws:PrincipalOrgID"] = organization
    return {
        name
        for name, (_, trust) in members(**parameters).items()
        if trust["Principal"] == {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        and all(
            allows([trust], Request(f"sts:{one}", "*", context))
            for one in ("AssumeRole", "SetSourceIdentity")
        )
    }


def test_a_member_role_trusts_its_own_function_by_its_whole_name() -> None:
    """Not a role that looks like it, of another stack, another Region, a path, or an earlier
    release."""
    assert {"actor"} == assumes(OWN)
    assert {"sweeper"} == assumes(SISTER)
    role = f"arn:aws:iam::{ACCOUNT}:role"
    for other in (
        LOOKALIKE,
        f"{role}/admin",
        f"{role}/path/gpu-governor-us-east-1-put-away",
        f"{role}/another-us-east-1-put-away",
        f"{role}/gpu-governor-eu-west-1-put-away",
        f"{role}/gpu-governor-PutAwayFunctionRole-ABC123",
    ):
        assert set() == assumes(other)


@pytest.mark.parametrize(
    ("organization", "trusted"), [(ORGANIZATION, {"actor"}), ("o-other", set()), (None, set())]
)
def test_by_organization_others_are_refused(organization: str | None, trusted: set[str]) -> None:
    """Also a principal of none."""
    assert trusted == assumes(OWN, organization, OrganizationId=ORGANIZATION)


# the service control policy of the examples

SCP = json.loads((ROOT / "examples/organizations/protect-tags.json").read_text())["Statement"]
DEVELOPER = "arn:aws:iam::111122223333:role/developer"
PLATFORM = "arn:aws:iam::111122223333:role/platform-admin"
MARKING = "arn:aws:iam::210987654321:role/gpu-governor-member-sweeper"


@pytest.mark.parametrize(
    ("principal", "action", "context", "may_do"),
    [
        (DEVELOPER, "ec2:CreateTags", {"aws:TagKeys": ["Owner"]}, False),
        (DEVELOPER, "ec2:CreateTags", {"aws:TagKeys": ["Team", "PURPOSE"]}, False),
        (DEVELOPER, "ec2:CreateTags", {"aws:TagKeys": ["Lifecycle"]}, False),
        (
            DEVELOPER,
            "ec2:CreateTags",
            {"aws:TagKeys": ["Owner"], "ec2:CreateAction": "RunInstances"},
            True,
        ),
        (DEVELOPER, "ec2:CreateTags", {"aws:TagKeys": ["GpuGovernor"]}, True),
        (DEVELOPER, "ec2:DeleteTags", {"aws:TagKeys": ["GpuGovernor"]}, False),
        (DEVELOPER, "ec2:DeleteTags", {}, False),
        (PLATFORM, "ec2:DeleteTags", {}, False),
        (PLATFORM, "ec2:CreateTags", {"aws:TagKeys": ["Owner", "Purpose"]}, True),
        (DEVELOPER, "ec2:CreateTags", {"aws:TagKeys": ["LowUtilization"]}, False),
        (MARKING, "ec2:CreateTags", MARKS, True),
        (MARKING, "ec2:CreateTags", {"aws:TagKeys": ["Owner"]}, False),
    ],
)
def test_the_example_keeps_others_from_tagging(
    principal: str, action: str, context: dict[str, Value], may_do: bool
) -> None:
    """Launches and new exemptions stay free; a deletion without keys takes all tags and is
    nobody's."""
    request = Request(action, INSTANCE, {"aws:PrincipalArn": principal, **context})

    assert may_do is allows([EVERYTHING, *SCP], request)


MANAGED = f"arn:aws:iam::{ACCOUNT}:policy/gpu-governor-BaseAccess-1a2B"


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        *product(
            ("iam:CreateRole", "iam:UpdateAssumeRolePolicy", "iam:PutRolePolicy", "iam:PassRole"),
            (LOOKALIKE, f"{ROLES}/gpu-governor-us-east-1/anything", PLATFORM),
        ),
        *product(
            ("iam:CreatePolicyVersion", "iam:SetDefaultPolicyVersion"),
            (MANAGED, f"arn:aws:iam::{ACCOUNT}:policy/platform-admin"),
        ),
    ],
)
def test_the_example_keeps_others_from_the_governors_roles(action: str, resource: str) -> None:
    """Members trust a role of the hub's name whoever may assume it, one that is passed to a
    function acts as the governor, as does one whose managed policy says more, and a new platform
    role is exempt from all of this."""
    for principal, may_do in ((DEVELOPER, False), (PLATFORM, True)):
        request = Request(action, resource, {"aws:PrincipalArn": principal})
        assert may_do is allows([EVERYTHING, *SCP], request)


def test_organizations_takes_the_examples() -> None:
    """Source: quotas of AWS Organizations; a policy given by the command line counts with its white
    space."""
    for path in (ROOT / "examples/organizations").glob("*.json"):
        assert 5_120 >= len(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("lambda:UpdateFunctionCode", "function:gpu-governor-PutAwayFunction-1a2B"),
        ("lambda:UpdateFunctionConfiguration", "function:gpu-governor-PutAwayFunction-1a2B"),
        ("lambda:AddPermission", "function:gpu-governor-PutAwayFunction-1a2B"),
        ("lambda:DeleteFunction", "function:gpu-governor-WriteAuditFunction-1a2B"),
        ("lambda:PutFunctionConcurrency", "function:gpu-governor-WriteAuditFunction-1a2B"),
        ("lambda:UpdateEventSourceMapping", "event-source-mapping:6b2e"),
        ("states:UpdateStateMachine", "stateMachine:gpu-governor-remediation"),
        ("cloudformation:UpdateStack", "stack/gpu-governor/5c1d"),
        ("cloudformation:CreateChangeSet", "stack/gpu-governor/5c1d"),
        ("cloudformation:ExecuteChangeSet", "stack/gpu-governor/5c1d"),
        ("dynamodb:UpdateTable", "table/gpu-governor-StateTable-1a2B"),
        ("dynamodb:DeleteTable", "table/gpu-governor-StateTable-1a2B"),
        ("dynamodb:PutResourcePolicy", "table/gpu-governor-StateTable-1a2B"),
        ("dynamodb:DeleteResourcePolicy", "table/gpu-governor-StateTable-1a2B"),
        ("kms:PutKeyPolicy", "key/00000000-0000-0000-0000-000000000000"),
    ],
)
def test_the_example_keeps_others_from_changing_what_the_governor_runs(
    action: str, name: str
) -> None:
    """Other code, or a layer, in a function of the stack acts as its role without passing any;
    without the table's stream nothing is kept for the audit."""
    arn = f"arn:aws:{action.partition(':')[0]}:eu-west-1:{{}}:{name}"
    for principal, account, may_do in (
        (DEVELOPER, "111122223333", False),
        (PLATFORM, "111122223333", True),
        (DEVELOPER, ACCOUNT, True),
    ):
        fed = f"arn:aws:lambda:eu-west-1:{account}:function:gpu-governor-WriteAuditFunction-1a2B"
        request = Request(
            action, arn.format(account), {"aws:PrincipalArn": principal, "lambda:FunctionArn": fed}
        )
        assert may_do is allows([EVERYTHING, *SCP], request)


@pytest.mark.parametrize("action", ["s3:PutBucketPolicy", "s3:PutLifecycleConfiguration"])
def test_the_example_keeps_others_from_the_governors_buckets(action: str) -> None:
    """Those of the audit and of the policy; a lifecycle would delete what nobody may."""
    for principal, name, may_do in (
        (DEVELOPER, "gpu-governor-auditbucket-1a2b", False),
        (PLATFORM, "gpu-governor-auditbucket-1a2b", True),
        (DEVELOPER, "training-data", True),
    ):
        request = Request(action, f"arn:aws:s3:::{name}", {"aws:PrincipalArn": principal})
        assert may_do is allows([EVERYTHING, *SCP], request)


METRICS_SCP = json.loads((ROOT / "examples/organizations/protect-metrics.json").read_text())[
    "Statement"
]
TELEMETRY = "arn:aws:iam::111122223333:role/gpu-telemetry-notebooks"
USER = "AROAEXAMPLE:i-0123456789abcdef0"


@pytest.mark.parametrize(
    ("principal", "namespace", "may_publish"),
    [
        (DEVELOPER, "GPU/EC2", False),
        (DEVELOPER, f"GPU/EC2/{USER}", False),
        (DEVELOPER, "GPU/Custom", False),
        (PLATFORM, "GPU/EC2", False),
        (DEVELOPER, "MyApplication", True),
        (DEVELOPER, "GPU/EC2Other", True),
        (TELEMETRY, "GPU/EC2", True),
        (TELEMETRY, "GPU/Custom", True),
        (TELEMETRY, f"GPU/EC2/{USER}", True),
        (TELEMETRY, "GPU/EC2/AROAEXAMPLE:i-0fedcba9876543210", False),
    ],
)
def test_the_example_leaves_gpu_metrics_to_telemetry_roles(
    principal: str, namespace: str, may_publish: bool
) -> None:
    """Whoever may publish for any instance can make it look idle; bound namespaces are of one
    instance."""
    context = {"aws:PrincipalArn": principal, "cloudwatch:namespace": namespace, "aws:userid": USER}
    request = Request("cloudwatch:PutMetricData", "*", context)

    assert may_publish is allows([EVERYTHING, *METRICS_SCP], request)
    assert may_publish is allows([EVERYTHING, *SCP, *METRICS_SCP], request)


def test_the_example_protects_the_roles_that_may_publish() -> None:
    """Or anybody makes one of that name."""
    for principal, may_do in ((DEVELOPER, False), (PLATFORM, True)):
        request = Request("iam:PutRolePolicy", TELEMETRY, {"aws:PrincipalArn": principal})
        assert may_do is allows([EVERYTHING, *METRICS_SCP], request)


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
    """IAM User Guide: of an absent key ForAllValues and negated operators hold, all others do
    not."""
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


def test_one_function_says_which_version_of_the_policy_is_in_force() -> None:
    """Everybody else reads that one item, and nothing else of its kind; acceptances are
    another's."""
    record, writers = "VERSION#in-force", set()
    for function in own_statements():
        if any(may(function, action, record) for action in (*WRITES, *DELETES)):
            writers.add(function)
        readable = may(function, "dynamodb:GetItem", "VERSION#x")
        assert readable == (function in ("PlanSweep", "ServeApi"))

    assert {"PlanSweep"} == writers
    assert not any(may("PlanSweep", action, "ACCEPTED#x") for action in WRITES)
