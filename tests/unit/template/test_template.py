"""Promises of the template: least privilege, nothing lost, nothing unbounded."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from benchmarks.sweep import MEMORY
from governor.alerts.model import FOR_MACHINES
from governor.notify.dispatch import TRIED_FOR
from governor.notify.worker import FIRST_WAIT_SECONDS, LONGEST_BACKOFF_SECONDS
from governor.scan.registry import KINDS
from governor.scan.rights import operations_of_the_stack
from governor.wiring.payloads import PlanPayload
from tests.iam import ACCOUNT, Request, allows, own_statements, policies_of, written_out
from tests.unit.template.machines import ROOT, rules, statements, template

TEMPLATE = template()
TEMPLATE_OF_MEMBERS = template("stacks/member.yaml")
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]
FUNCTIONS = {
    k: r["Properties"] for k, r in RESOURCES.items() if r["Type"] == "AWS::Serverless::Function"
}
QUEUED = {
    "DeliverAlertFunction": ("DeliveryQueue", "DeliveryFailures"),
    "HandleSpotInterruptionFunction": ("InterruptionQueue", "EventFailures"),
}
"""Functions that a queue feeds: the queue, and the one for what they give up."""
BY_MACHINE_OR_API = {
    "SweepTargetFunction",
    "CheckHealthFunction",
    "ScanAcceleratorsFunction",
    "SumUpMonthFunction",
    "OpenEpisodeFunction",
    "AskOwnerFunction",
    "ConcludeApprovalFunction",
    "RecheckEpisodeFunction",
    "PutAwayFunction",
    "TakeSnapshotFunction",
    "CheckProgressFunction",
    "RecordOutcomeFunction",
    "ServeApprovalFunction",
    "SignInFunction",
    "ServeApiFunction",
    "ServeConsoleFunction",
    "HandleSlackActionFunction",
}
NO_RESOURCE_SCOPE = re.compile(
    r"^(ec2:(Describe\w+|GetSpotPlacementScores)|cloudwatch:(GetMetricData|ListMetrics)"
    r"|autoscaling:Describe\w+|ssm:Describe(InstanceInformation|Sessions)|states:SendTaskSuccess"
    r"|sns:GetSubscriptionAttributes|batch:(DescribeComputeEnvironments|DescribeJobQueues|ListJobs)"
    r"|pricing:GetProducts|savingsplans:DescribeSavingsPlans|cloudtrail:LookupEvents"
    r"|bedrock:ListProvisionedModelThroughputs|organizations:DescribeOrganization"
    r"|sagemaker:List(Apps|Clusters|Endpoints|InferenceComponents|NotebookInstances))$"
)
"""AWS knows no resource scope for these."""


def actions(statement: dict[str, Any]) -> list[str]:
    """The actions of a statement."""
    found = statement["Action"]
    return [found] if isinstance(found, str) else found


def test_every_folder_is_a_function_and_every_function_a_folder() -> None:
    """Nothing is written and not deployed, nor deployed and not written."""
    folders = {
        f"functions/{folder.name}/" for folder in (ROOT / "functions").iterdir() if folder.is_dir()
    }

    assert folders == {properties["CodeUri"] for properties in FUNCTIONS.values()}


def test_the_runtime_is_python_on_arm() -> None:
    """One runtime and architecture for all, and for the layer."""
    everywhere = TEMPLATE["Globals"]["Function"]

    assert ("python3.13", ["arm64"]) == (everywhere["Runtime"], everywhere["Architectures"])
    assert "Active" == everywhere["Tracing"]
    assert ["python3.13"] == RESOURCES["SharedLayer"]["Properties"]["CompatibleRuntimes"]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_has_its_own_log_group_with_retention(name: str) -> None:
    """Explicit, encrypted, and not kept for ever."""
    group = FUNCTIONS[name]["LoggingConfig"]["LogGroup"]["Ref"]
    properties = RESOURCES[group]["Properties"]

    assert {"Ref": "LogRetentionDays"} == properties["RetentionInDays"]
    assert "KmsKeyId" in properties
    users = [
        other for other, p in FUNCTIONS.items() if p["LoggingConfig"]["LogGroup"]["Ref"] == group
    ]
    assert [name] == users


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_failure_of_a_function_is_seen(name: str) -> None:
    """Invoked by a machine or the API, which see it; or by events, with a queue for what fails."""
    if name in BY_MACHINE_OR_API:
        assert "Events" not in FUNCTIONS[name]
        return
    if name == "RotateLinkKeysFunction":
        # Secrets Manager repeats the steps; what stays broken is told by an alarm.
        alarm = RESOURCES["KeyRotationErrorsAlarm"]["Properties"]
        assert [{"Name": "FunctionName", "Value": {"Ref": name}}] == alarm["Dimensions"]
        return
    if name == "WriteAuditFunction":
        # The stream hands over again what failed; an alarm tells at once, and a queue what was
        # given up.
        stream, alarm = (
            RESOURCES[one]["Properties"] for one in ("AuditStream", "AuditErrorsAlarm")
        )
        assert {"OnFailure": {"Destination": {"Fn::GetAtt": ["EventFailures", "Arn"]}}} == stream[
            "DestinationConfig"
        ]
        assert "MaximumRetryAttempts" not in stream
        assert [{"Name": "FunctionName", "Value": {"Ref": name}}] == alarm["Dimensions"]
        return
    if name in QUEUED:
        queue, dead_letters = QUEUED[name]
        redrive = RESOURCES[queue]["Properties"]["RedrivePolicy"]
        assert {"Fn::GetAtt": [dead_letters, "Arn"]} == redrive["deadLetterTargetArn"]
        mapping = FUNCTIONS[name]["Events"]["Queued"]["Properties"]
        assert ["ReportBatchItemFailures"] == mapping["FunctionResponseTypes"]
        return
    config = FUNCTIONS[name]["EventInvokeConfig"]
    assert {"Fn::GetAtt": ["EventFailures", "Arn"]} == config["DestinationConfig"]["OnFailure"][
        "Destination"
    ]
    for event in FUNCTIONS[name]["Events"].values():
        assert {"Fn::GetAtt": ["EventFailures", "Arn"]} == event["Properties"]["DeadLetterConfig"][
            "Arn"
        ]
        assert event["Properties"]["RetryPolicy"]["MaximumRetryAttempts"] > 0


def test_what_reads_a_whole_target_grows_with_it_and_is_measured_as_it_is_deployed() -> None:
    """One parameter for all; benchmarks and costs take its default."""
    asked = TEMPLATE["Parameters"]["SweepMemoryMegabytes"]

    assert (MEMORY, MEMORY) == (asked["Default"], asked["MinValue"])
    grown = {
        name
        for name, one in FUNCTIONS.items()
        if "SweepMemoryMegabytes" in str(one.get("MemorySize"))
    }
    assert {"SweepTargetFunction", "CheckHealthFunction", "ScanAcceleratorsFunction"} == grown


def test_no_function_may_stop_and_put_away_alone_may_assume_the_role_that_does() -> None:
    """No function may itself. put_away has the role's ARN, and with it permission to assume it."""
    destructive = {"ec2:StopInstances", "ec2:TerminateInstances", "ec2:CancelSpotInstanceRequests"}
    holders = {
        name
        for name, properties in FUNCTIONS.items()
        for statement in statements(properties)
        if destructive & set(actions(statement))
    }
    told = {
        name: properties["Environment"]["Variables"]["ACTOR_ROLE_ARN"]
        for name, properties in FUNCTIONS.items()
        if "ACTOR_ROLE_ARN" in properties.get("Environment", {}).get("Variables", {})
    }
    assumes = {
        name: statement["Resource"]
        for name, properties in FUNCTIONS.items()
        for statement in statements(properties)
        if statement["Sid"] == "ActForOneCall"
    }
    role_name = RESOURCES["ActorRole"]["Properties"]["RoleName"]["Fn::Sub"]

    assert set() == holders
    assert {"PutAwayFunction": {"Fn::GetAtt": ["ActorRole", "Arn"]}} == told
    assert {
        "PutAwayFunction": {
            "Fn::Sub": f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{role_name}"
        }
    } == assumes


def test_one_function_may_start_and_one_may_ask_it_to() -> None:
    """undo_episode, on governed instances only, asked by the pages of links and the console."""
    starters = {
        n for n, p in FUNCTIONS.items() for s in statements(p) if "ec2:StartInstances" in actions(s)
    }
    askers = {
        n
        for n, p in FUNCTIONS.items()
        for s in statements(p)
        if "lambda:InvokeFunction" in actions(s)
    }

    assert ({"UndoEpisodeFunction"}, {"ServeApprovalFunction", "ServeConsoleFunction"}) == (
        starters,
        askers,
    )


def test_the_function_that_starts_hears_of_stopped_instances_alone() -> None:
    """To look at a start that EC2 took back; a page asks for a start, and no event does."""
    patterns = [
        event["Properties"]["Pattern"]
        for event in FUNCTIONS["UndoEpisodeFunction"]["Events"].values()
    ]

    assert 2 == len(patterns)
    for pattern in patterns:
        assert ["EC2 Instance State-change Notification"] == pattern["detail-type"]
        assert {"state": ["stopped"]} == pattern["detail"]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_ec2_writes_are_limited_to_governed_instances(name: str) -> None:
    """Every write on instances carries the condition on the selector tag."""
    for statement in statements(FUNCTIONS[name]):
        writes = [a for a in actions(statement) if re.match("ec2:(?!Describe|Get)", a)]
        resource = str(statement["Resource"])
        if writes and "instance/*" in resource:
            condition = statement["Condition"]["StringEquals"]
            assert {"Ref": "SelectorTagValue"} == condition["aws:ResourceTag/Purpose"]


def test_commands_run_one_document_on_governed_instances() -> None:
    """And only the functions that answer warnings may send any."""
    sending = {
        name: [s for s in statements(properties) if "ssm:SendCommand" in actions(s)]
        for name, properties in FUNCTIONS.items()
    }
    holders = {name: found for name, found in sending.items() if found}

    assert {
        "HandleSpotInterruptionFunction",
        "HandleRebalanceRecommendationFunction",
        "HandleLifecycleActionFunction",
    } == set(holders)
    for document, instance in holders.values():
        assert document["Resource"]["Fn::Sub"].endswith(":document/${CheckpointDocumentName}")
        assert instance["Resource"]["Fn::Sub"].endswith(":instance/*")
        assert {"Ref": "SelectorTagValue"} == instance["Condition"]["StringEquals"][
            "ssm:resourceTag/Purpose"
        ]


def test_one_function_asks_which_instances_are_managed() -> None:
    """The one that sends commands to many: of one instance alone the refusal says it."""
    asking = {
        name
        for name, properties in FUNCTIONS.items()
        for s in statements(properties)
        if "ssm:DescribeInstanceInformation" in actions(s)
    }

    assert {"HandleSpotInterruptionFunction"} == asking


def test_warnings_wait_a_second_for_others_and_no_longer() -> None:
    """At most two minutes: a mass is taken in a few calls, and one alone is hardly delayed."""
    (queued,) = FUNCTIONS["HandleSpotInterruptionFunction"]["Events"].values()

    assert (1, 200) == (
        queued["Properties"]["MaximumBatchingWindowInSeconds"],
        queued["Properties"]["BatchSize"],
    )


def test_one_function_lets_auto_scaling_go_on_and_only_governed_groups() -> None:
    """The condition is on the group, which the instance's tag says nothing about."""
    holders = {
        name: s
        for name, properties in FUNCTIONS.items()
        for s in statements(properties)
        if any(a.startswith("autoscaling:") and "Describe" not in a for a in actions(s))
    }

    assert {"HandleLifecycleActionFunction"} == set(holders)
    (statement,) = holders.values()
    assert ["autoscaling:CompleteLifecycleAction"] == actions(statement)
    assert {"aws:ResourceTag/Purpose": {"Ref": "SelectorTagValue"}} == statement["Condition"][
        "StringEquals"
    ]


def test_what_is_replayed_from_an_archive_is_no_news() -> None:
    """Somebody who replays last week's events must not have last week's warnings told and
    hooked."""
    patterns = [rule.pattern for rule in rules()]

    assert patterns
    assert all([{"exists": False}] == pattern["replay-name"] for pattern in patterns)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_star_where_aws_knows_resources(name: str) -> None:
    """`*` as a resource only for calls that know no scope, and never as an action."""
    for statement in statements(FUNCTIONS[name]):
        assert all("*" not in action for action in actions(statement))
        if statement["Resource"] == "*":
            assert all(NO_RESOURCE_SCOPE.match(action) for action in actions(statement)), statement[
                "Sid"
            ]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_role_fits_its_environment(name: str) -> None:
    """A function is told of a resource exactly when its role reaches it."""
    environment = FUNCTIONS[name]["Environment"]["Variables"]
    sids = {statement["Sid"] for statement in statements(FUNCTIONS[name])}

    assert ("TABLE_NAME" in environment) == ("StateTable" in sids)
    assert ("ALERT_TOPIC_ARN" in environment) == ("Announce" in sids)
    assert ("UNDO_FUNCTION_NAME" in environment) == ("Undo" in sids)
    assert ("CHECKPOINT_DOCUMENT_NAME" in environment) == ("RunCheckpointDocument" in sids)
    assert ("LINK_KEY_SECRET_ARN" in environment) == ("LinkKeys" in sids)
    assert ("CHANNEL_SECRET_ARN" in environment) == ("Channels" in sids)
    assert ("OIDC_CLIENT_SECRET_ARN" in environment) == ("ClientSecret" in sids)
    assert ("DELIVERY_QUEUE_URL" in environment) == ("DeliveryQueue" in sids)
    assert ("DEAD_LETTER_QUEUE_URL" in environment) == ("KeepWhatCannotBeRead" in sids)
    assert ("DELIVERY_FAILURES_URL" in environment) == ("DeliveryFailures" in sids)
    reaches = bool({"AnswerRemediation", "StartRemediation"} & sids)
    assert ("REMEDIATION_STATE_MACHINE_ARN" in environment) == reaches


def test_nobody_but_its_functions_and_alarms_publishes_to_the_topic() -> None:
    """A subscriber reads forged words as they are: nothing stands between the topic and a plain
    mail."""
    policy = RESOURCES["AlertTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    (deny,) = [one for one in policy if one["Sid"] == "OwnFunctionsAndAlarms"]
    roles = [one["Fn::GetAtt"][0] for one in deny["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]]

    assert ("Deny", "*") == (deny["Effect"], deny["Principal"])
    assert {f"{name}Role" for name in FUNCTIONS if "Announce" in _sids(name)} == set(roles)
    written = {**deny, "Resource": "topic"}
    written["Condition"] = {**deny["Condition"], "ArnNotEquals": {"aws:PrincipalArn": roles}}
    anybody: dict[str, Any] = {"Effect": "Allow", "Action": "sns:*", "Resource": "*"}
    for caller, service, may in (
        ("SweepTargetFunctionRole", "false", True),
        ("arn:aws:iam::123456789012:role/Admin", "false", False),
        ("cloudwatch.amazonaws.com", "true", True),
    ):
        context = {"aws:PrincipalArn": caller, "aws:PrincipalIsAWSService": service}
        assert may == allows([anybody, written], Request("sns:Publish", "topic", context))


def test_messages_are_signed_and_queues_take_them_from_the_topic_and_alarms_alone() -> None:
    """By SHA-256, for subscribers that check; SNS by its service name alone would be any topic of
    anybody."""
    assert "2" == RESOURCES["AlertTopic"]["Properties"]["SignatureVersion"]
    for name in ("DeliveryQueuesPolicy", "FailureQueuesPolicy"):
        policy = RESOURCES[name]["Properties"]["PolicyDocument"]["Statement"]
        (given,) = [one for one in policy if one["Sid"] == "Topic"]
        assert {"ArnEquals": {"aws:SourceArn": {"Ref": "AlertTopic"}}} == given["Condition"]
    policy = RESOURCES["DeliveryQueuesPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    rule = {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": ["AlarmOverRule", "Arn"]}}}
    assert [rule] == [one["Condition"] for one in policy if one["Sid"] == "Rule"]
    assert {"TlsOnly", "Topic", "Rule"} == {one["Sid"] for one in policy}


def _sids(name: str) -> set[str]:
    return {statement["Sid"] for statement in statements(FUNCTIONS[name])}


def test_every_other_route_asks_iam() -> None:
    """These authorize by a signature or a session, which their function checks first of all."""
    routes = [
        r["Properties"] for r in RESOURCES.values() if r["Type"] == "AWS::ApiGatewayV2::Route"
    ]

    assert {
        "GET /approvals/{approval_id}",
        "HEAD /approvals/{approval_id}",
        "POST /approvals/{approval_id}",
        *("GET /q/{link}", "HEAD /q/{link}", "POST /q/{link}"),
        "GET /sign-in",
        "GET /sign-in/callback",
        "POST /slack/actions",
        *("GET /", "HEAD /", "GET /{proxy+}", "HEAD /{proxy+}", "POST /{proxy+}"),
        *("GET /console", "GET /questions", "GET /questions/{approval_id}"),
    } == {route["RouteKey"] for route in routes if route["AuthorizationType"] != "AWS_IAM"}


def test_managed_policies_are_used_and_fit_on_a_role() -> None:
    """IAM allows ten on a role, and SAM adds three at the most to those that it makes; and 6,144
    characters in one."""
    policies = {
        n: r["Properties"] for n, r in RESOURCES.items() if r["Type"] == "AWS::IAM::ManagedPolicy"
    }
    machines = [
        r["Properties"] for r in RESOURCES.values() if r["Type"] == "AWS::Serverless::StateMachine"
    ]
    roles = [r["Properties"] for r in RESOURCES.values() if r["Type"] == "AWS::IAM::Role"]
    given = [one.get("Policies", ()) for one in (*FUNCTIONS.values(), *machines)]
    attached = [
        p["Ref"]
        for one in (*given, *(r.get("ManagedPolicyArns", ()) for r in roles))
        for p in one
        if "Ref" in p
    ]

    assert policies.keys() == {*attached} | {
        name for name, one in policies.items() if one.get("Roles")
    }
    for function in FUNCTIONS.values():
        assert len(policies_of(function, RESOURCES)) <= 8
    for name, one in policies.items():
        written = json.dumps(written_out(one["PolicyDocument"], {}), separators=(",", ":"))
        assert len(written) < 5_000, name  # ARNs are longer than what stands for them here


def test_a_role_that_sam_does_not_make_has_what_sam_would_give_it() -> None:
    """Logs and traces; and the queue for what failed, or the one that the function reads."""
    own = {name: f for name, f in FUNCTIONS.items() if "Role" in f}
    aws = "arn:${AWS::Partition}:iam::aws:policy/"

    assert own
    for name, function in own.items():
        role = RESOURCES[function["Role"]["Fn::GetAtt"][0]]["Properties"]
        managed = [one.get("Fn::Sub", "").removeprefix(aws) for one in role["ManagedPolicyArns"]]
        assert {"service-role/AWSLambdaBasicExecutionRole", "AWSXRayDaemonWriteAccess"} <= {
            *managed
        }
        assert "Policies" not in function, "SAM ignores them beside a role"
        assert ("EventInvokeConfig" in function) == ("KeepWhatFailed" in _sids(name))
        queues = [one for one in function.get("Events", {}).values() if one["Type"] == "SQS"]
        assert bool(queues) == ("Warnings" in _sids(name))


def test_the_api_is_throttled_at_its_stage() -> None:
    """Whoever tries signatures gets ten a second, far from what 128 bits would need."""
    stages = [
        r["Properties"] for r in RESOURCES.values() if r["Type"] == "AWS::ApiGatewayV2::Stage"
    ]

    assert stages
    for stage in stages:
        limits = stage["DefaultRouteSettings"]
        assert (20, 10) == (limits["ThrottlingBurstLimit"], limits["ThrottlingRateLimit"])


def test_each_route_has_a_limit_of_its_own() -> None:
    """One that is flooded leaves the others to those who answer; and the stage waits for all of
    them."""
    stage = RESOURCES["ApiStage"]
    own = stage["Properties"]["RouteSettings"]
    routes = {
        r["Properties"]["RouteKey"]: (name, r.get("Condition"))
        for name, r in RESOURCES.items()
        if r["Type"] == "AWS::ApiGatewayV2::Route"
    }

    assert set(routes) == set(own)
    for key, (name, condition) in routes.items():
        limits = own[key]["Fn::If"][1] if condition else own[key]
        assert limits["ThrottlingRateLimit"] <= 10
        assert limits["ThrottlingBurstLimit"] == 2 * limits["ThrottlingRateLimit"]
        assert name in (
            stage["Properties"]["StageVariables"]["signInRoutes"]["Fn::If"][1]["Fn::Sub"]
        ) or (name in stage["DependsOn"])


def test_refused_answers_are_counted_where_silence_looks_for_them() -> None:
    """Throttling by API Gateway, and failures behind it, by the status in its access log. A failure
    where nobody can answer holds nothing back: anybody can ask for the console's first page."""
    counted = RESOURCES["AnswersRefused"]["Properties"]
    [figure] = counted["MetricTransformations"]

    pattern = counted["FilterPattern"]
    assert pattern.startswith(
        '{ ($.status = "429") || (($.status = "5*") && ($.method != "HEAD") && '
    )
    left_out = re.findall(r'\(\$\.route != "([^"]+)"\)', pattern)
    routes = set(RESOURCES["ApiStage"]["Properties"]["RouteSettings"])
    matched = {one for one in routes for rule in left_out if fnmatchcase(one, rule)}
    assert {
        "GET /",
        "GET /{proxy+}",
        "GET /api/policy",
        "POST /api/policy/{version}",
        "GET /api/freezes",
    } == matched
    logged = RESOURCES["ApiStage"]["Properties"]["AccessLogSettings"]["Format"]
    for name, value in (("status", "status"), ("method", "httpMethod"), ("route", "routeKey")):
        assert f'"{name}":"$context.{value}"' in logged
    assert {"Ref": "ApiLogs"} == counted["LogGroupName"]
    assert ({"Ref": "AWS::StackName"}, "AnswersRefused") == (
        figure["MetricNamespace"],
        figure["MetricName"],
    )
    assert {"Ref": "Api"} == TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]["API_ID"]
    for function in ("RecheckEpisode", "PutAway", "TakeSnapshot"):
        assert allows(own_statements()[function], Request("cloudwatch:GetMetricData", "*"))


def test_the_function_gives_up_before_the_queue_does() -> None:
    """With the reason and on record; what SQS moves by itself says neither. Twice as many receives
    are left as a day of the shortest waits takes, for those that met another worker."""
    waits, receives = 0.0, 0
    while waits < TRIED_FOR.total_seconds():
        waits += min(LONGEST_BACKOFF_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(receives, 10))
        receives += 1

    assert (
        2 * receives < RESOURCES["DeliveryQueue"]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
    )


def test_what_is_given_up_can_be_put_back() -> None:
    """One function keeps it, in the dead-letter queue of the one it came from; it may read nothing
    there."""
    reaching = {
        (name, tuple(actions(statement)))
        for name, function in FUNCTIONS.items()
        for statement in statements(function)
        if "DeliveryFailures" in str(statement["Resource"])
    }
    redrive = RESOURCES["DeliveryQueue"]["Properties"]["RedrivePolicy"]

    assert {("DeliverAlertFunction", ("sqs:SendMessage",))} == reaching
    assert {"Fn::GetAtt": ["DeliveryFailures", "Arn"]} == redrive["deadLetterTargetArn"]


def test_the_table_survives_mistakes() -> None:
    """Recoverable, protected, encrypted, kept when the stack goes."""
    table = RESOURCES["StateTable"]
    properties = table["Properties"]

    assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert {"Ref": "DeletionProtection"} == properties["DeletionProtectionEnabled"]
    assert "true" == TEMPLATE["Parameters"]["DeletionProtection"]["Default"]
    assert properties["SSESpecification"]["SSEEnabled"]
    assert "Retain" in table["DeletionPolicy"]


def test_everything_that_a_rolled_back_create_must_delete_can_be_deleted() -> None:
    """Kept resources are kept only from a later removal; a replacement keeps the old one."""
    kept = {name: one for name, one in RESOURCES.items() if "DeletionPolicy" in one}

    assert {"StateTable", "Key", "PolicyBucket", "AuditBucket", "ReportBucket"} == kept.keys()
    assert {"RetainExceptOnCreate"} == {one["DeletionPolicy"] for one in kept.values()}
    assert {"Retain"} == {one["UpdateReplacePolicy"] for one in kept.values()}


def test_the_first_sweep_comes_when_everything_is_there() -> None:
    """Its writes reach the bucket of the audit, which a rollback could then no longer delete."""
    before = set(RESOURCES["SweepSchedule"]["DependsOn"])

    assert {
        "Dashboard",
        "ApiStage",
        "LinkKeyRotation",
        "AuditStream",
        "AuditBucketPolicy",
    } <= before
    assert {
        name
        for name, one in RESOURCES.items()
        if one["Type"].endswith(("QueuePolicy", "BucketPolicy"))
    } <= (before | {"InterruptionQueuePolicy"})
    body = str(RESOURCES["Dashboard"])
    alarms = [name for name, one in RESOURCES.items() if one["Type"] == "AWS::CloudWatch::Alarm"]
    assert [] == [name for name in alarms if name not in body]


def test_a_schedule_says_what_it_is_for() -> None:
    """Without an input AWS sends a notification of its own, in which no check is named."""
    resources = template()["Resources"]
    schedules = [one for one in resources.values() if one["Type"] == "AWS::Scheduler::Schedule"]
    said = [
        PlanPayload.model_validate_json(one["Properties"]["Target"]["Input"]).check
        for one in schedules
    ]
    assert ["sweep", "health", "scan"] == said
    assert ["sweep", "health", "scan"] == [
        one["Properties"]["Name"]["Fn::Sub"].rpartition("-")[2] for one in schedules
    ]
    events = [
        event["Properties"]
        for one in resources.values()
        for event in one.get("Properties", {}).get("Events", {}).values()
        if event["Type"].startswith("Schedule")
    ]
    assert events
    assert {"{}"} == {event["Input"] for event in events}


def test_a_rule_loses_nothing_on_its_way_to_a_queue() -> None:
    """Repeated for an hour, then kept; and only the rule itself may write into the queue."""
    rules_to_queue = {
        name: r["Properties"] for name, r in RESOURCES.items() if r["Type"] == "AWS::Events::Rule"
    }
    over = rules_to_queue.pop("AlarmOverRule")
    assert {"InterruptionRule", "ForwardedInterruptionRule"} <= set(rules_to_queue)
    for rule in (*rules_to_queue.values(), over):
        for target in rule["Targets"]:
            assert {"Fn::GetAtt": ["EventFailures", "Arn"]} == target["DeadLetterConfig"]["Arn"]
            assert target["RetryPolicy"]["MaximumRetryAttempts"] > 0
    (_, allow) = RESOURCES["InterruptionQueuePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    writers = allow["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert "sqs:SendMessage" == allow["Action"]
    assert ["ArnEquals"] == list(allow["Condition"])
    assert sorted(rules_to_queue) == sorted(writer["Fn::GetAtt"][0] for writer in writers)
    assert {"Arn"} == {writer["Fn::GetAtt"][1] for writer in writers}


def test_a_warning_that_failed_comes_again_while_it_helps() -> None:
    """Hidden for longer than the function may run, and for less than half of the two minutes."""
    hidden = RESOURCES["InterruptionQueue"]["Properties"]["VisibilityTimeout"]

    assert FUNCTIONS["HandleSpotInterruptionFunction"]["Timeout"] < hidden < 60


def test_queues_for_what_fails_have_alarms() -> None:
    """A message in a dead-letter queue is told."""
    queues = {name for name, r in RESOURCES.items() if r["Type"] == "AWS::SQS::Queue"}
    watched = {
        dimension["Value"]["Fn::GetAtt"][0]
        for r in RESOURCES.values()
        if r["Type"] == "AWS::CloudWatch::Alarm" and r["Properties"].get("Namespace") == "AWS/SQS"
        for dimension in r["Properties"]["Dimensions"]
    }

    # The delivery queue is watched by what its function counts.
    assert queues - {"DeliveryQueue"} == watched


@pytest.mark.parametrize("path", ["template.yaml", "stacks/forward_events.yaml"])
def test_what_fails_later_is_told_although_earlier_failures_are_kept(path: str) -> None:
    """The first alarm lasts until its queue is empty, up to 14 days; another one tells of each
    increase.

    Of all messages, also of those that somebody is looking at: they go and come back, which is no
    increase.
    """
    resources = template(path)["Resources"]
    alarms = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::CloudWatch::Alarm"]
    first = [one for one in alarms if one.get("MetricName") == "ApproximateNumberOfMessagesVisible"]
    more: dict[str, list[tuple[str, str]]] = {}
    for alarm in alarms:
        for query in alarm.get("Metrics", ()):
            if query["ReturnData"]:
                assert "DIFF(visible + looked_at)" == query["Expression"]
                continue
            metric = query["MetricStat"]["Metric"]
            (dimension,) = metric["Dimensions"]
            queue = dimension["Value"]["Fn::GetAtt"][0]
            more.setdefault(queue, []).append((query["Id"], metric["MetricName"]))
            assert alarm["AlarmActions"]

    assert {one["Dimensions"][0]["Value"]["Fn::GetAtt"][0] for one in first} == set(more)
    both = [
        ("visible", "ApproximateNumberOfMessagesVisible"),
        ("looked_at", "ApproximateNumberOfMessagesNotVisible"),
    ]
    assert all(both == metrics for metrics in more.values())
    assert more


@pytest.mark.parametrize(
    ("service", "names_its_source"),
    [("cloudwatch", True), ("sns", True), ("events", False), ("scheduler", False)],
)
def test_aws_services_use_the_key_for_this_account_alone(
    service: str, names_its_source: bool
) -> None:
    """An alarm, topic or rule of another account does not. Services that name no source still
    may."""
    policy = RESOURCES["Key"]["Properties"]["KeyPolicy"]["Statement"]
    principal = f"{service}.amazonaws.com"
    own = [
        {**written_out(one, {"AWS::AccountId": ACCOUNT}), "Resource": "*"}
        for one in policy
        if principal in one["Principal"].get("Service", ())
    ]

    def may(**context: str) -> bool:
        keys = {key.replace("_", ":"): value for key, value in context.items()}
        calls = ("kms:Decrypt", "kms:GenerateDataKey")
        return all(allows(own, Request(call, "key", keys)) for call in calls)

    assert may(aws_SourceAccount=ACCOUNT)
    assert not may(aws_SourceAccount="999999999999")
    assert may() is not names_its_source


def test_the_safe_mode_is_the_default() -> None:
    """Whoever deploys without reading gets a rehearsal."""
    assert "observe" == TEMPLATE["Parameters"]["Mode"]["Default"]


def test_machines_log_without_execution_data() -> None:
    """Execution data holds task tokens."""
    machines = [r for r in RESOURCES.values() if r["Type"] == "AWS::Serverless::StateMachine"]

    assert 2 == len(machines)
    for machine in machines:
        assert machine["Properties"]["Logging"]["IncludeExecutionData"] is False
        assert machine["Properties"]["Tracing"]["Enabled"]


def test_signatures_are_not_logged() -> None:
    """The access log holds the route: path and query have the signature."""
    logged = RESOURCES["ApiStage"]["Properties"]["AccessLogSettings"]["Format"]

    assert "$context.routeKey" in logged
    assert not [
        name for name in ("queryString", "$context.path", "$context.resourcePath") if name in logged
    ]


def test_without_an_issuer_nothing_of_a_sign_in_is_deployed() -> None:
    """And half a setting deploys it, which then refuses to work: the page never stands open by
    mistake."""
    parts = {name: r.get("Condition") for name, r in RESOURCES.items() if name.startswith("SignIn")}
    assert {
        "SignInFunction",
        "SignInLogs",
        "SignInIntegration",
        "SignInRoute",
        "SignInCallbackRoute",
        "SignInPermission",
    } == set(parts)
    assert {"HasSignIn"} == set(parts.values())

    either = TEMPLATE["Conditions"]["HasSignIn"]["Fn::Or"]
    named = {one["Fn::Not"][0]["Fn::Equals"][0]["Ref"] for one in either}
    assert {"OidcIssuer", "OidcClientId", "OidcApproverGroup"} == named


def test_the_page_holds_no_secret_of_the_issuer() -> None:
    """Only the function that signs in reads the client's secret; it stores sessions, and reads no
    state."""
    secret = {n for n, p in FUNCTIONS.items() for s in statements(p) if s["Sid"] == "ClientSecret"}

    assert {"SignInFunction"} == secret
    own = {s["Sid"]: actions(s) for s in statements(FUNCTIONS["SignInFunction"])}
    assert {"LinkKeys", "ClientSecret", "Decrypt", "StateTable"} == own.keys()
    assert ["dynamodb:UpdateItem"] == own["StateTable"]


def test_the_look_at_health_reads_and_tells_and_nothing_else() -> None:
    """It reads instances and metrics, and writes what it announced. An alarm tells of its
    failures."""
    role = {action for s in statements(FUNCTIONS["CheckHealthFunction"]) for action in actions(s)}
    outside = {a for a in role if a.split(":")[0] not in ("dynamodb", "kms", "s3", "ssm", "sts")}
    alarms = [
        RESOURCES[name]["Properties"] for name in ("HealthErrorsAlarm", "HealthProblemsAlarm")
    ]

    assert {
        "ec2:DescribeInstances",
        "ec2:DescribeCapacityReservations",
        "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics",
        "sns:Publish",
    } == outside
    assert [
        [{"Name": "FunctionName", "Value": {"Ref": "CheckHealthFunction"}}],
        [{"Name": "service", "Value": "check_health"}],
    ] == [alarm["Dimensions"] for alarm in alarms]
    assert all(alarm["AlarmActions"] == [{"Ref": "AlertTopic"}] for alarm in alarms)


def test_the_daily_scan_may_read_what_its_kinds_name_and_write_its_snapshot() -> None:
    """In the hub's account and in members. An alarm tells of its failures."""
    role = statements(FUNCTIONS["ScanAcceleratorsFunction"])
    outside = {
        action
        for one in role
        for action in actions(one)
        if action.split(":")[0] not in ("dynamodb", "kms", "s3", "ssm", "sts")
    }
    in_members = TEMPLATE_OF_MEMBERS["Resources"]["ScannerRole"]["Properties"]["Policies"]
    (policy,) = in_members
    there = {action for one in policy["PolicyDocument"]["Statement"] for action in actions(one)}
    alarm = RESOURCES["ScanErrorsAlarm"]["Properties"]

    assert set(operations_of_the_stack(KINDS)) == outside == there
    assert not [action for action in outside if action.startswith("ce:")]
    (written,) = [one for one in role if "dynamodb:PutItem" in actions(one)]
    assert ["SCAN"] == written["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    assert [{"Name": "FunctionName", "Value": {"Ref": "ScanAcceleratorsFunction"}}] == alarm[
        "Dimensions"
    ]
    assert [{"Ref": "AlertTopic"}] == alarm["AlarmActions"]


def test_the_daily_scan_is_done_before_the_reports_of_the_night() -> None:
    """The second part of a report is what the scan of that night found."""
    schedule = RESOURCES["ScanSchedule"]["Properties"]["ScheduleExpression"]
    report = FUNCTIONS["ReportSavingsFunction"]["Events"]["Nightly"]["Properties"]["Schedule"]
    minute, hour, *every_day = schedule.removeprefix("cron(").removesuffix(")").split()
    minute_of_report, hour_of_report, *_ = report.removeprefix("cron(").split()

    assert ["*", "*", "?", "*"] == every_day
    minutes_between = 60 * (int(hour_of_report) - int(hour))
    assert 60 <= minutes_between + int(minute_of_report) - int(minute)


def test_one_alarm_covers_the_budgets_of_all_projects() -> None:
    """An alarm on the figure that the last step of a sweep publishes, by the function's own
    dimension."""
    alarm = RESOURCES["BudgetAlarm"]["Properties"]
    source = (ROOT / "functions" / "sum_up_month" / "handler.py").read_text(encoding="utf-8")
    service = FUNCTIONS["SumUpMonthFunction"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]

    assert f'count("{alarm["MetricName"]}"' in source
    assert [{"Name": "service", "Value": service}] == alarm["Dimensions"]
    assert (100, "GreaterThanOrEqualToThreshold") == (
        alarm["Threshold"],
        alarm["ComparisonOperator"],
    )


def test_who_sums_up_changes_no_amount() -> None:
    """It reads the table, and writes nothing into it but the notes of what was sent, and failures
    and states that are over."""
    found = statements(FUNCTIONS["SumUpMonthFunction"])
    (write,) = [s for s in found if "dynamodb:UpdateItem" in actions(s)]

    written = {"dynamodb:LeadingKeys": ["EVENT#*", "FAILING#*"]}
    assert written == write["Condition"]["ForAllValues:StringLike"]
    (delete,) = [s for s in found if "dynamodb:DeleteItem" in actions(s)]
    deleted = {"dynamodb:LeadingKeys": ["FAILING#*", "INCIDENT#*"]}
    assert deleted == delete["Condition"]["ForAllValues:StringLike"]
    others = [s for s in found if s not in (write, delete)]
    reads = {a for s in others for a in actions(s) if a.startswith("dynamodb:")}
    assert {"dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem"} == reads


@pytest.mark.parametrize("name", ["AlertEmailSubscription", "DeliverySubscription"])
def test_events_for_machines_reach_no_mail_and_no_chat(name: str) -> None:
    """Messages without a kind, as CloudWatch's alarms, do."""
    left_out = sorted(kind.value for kind in FOR_MACHINES)
    policy = RESOURCES[name]["Properties"]["FilterPolicy"]
    once = {"repeats": [{"exists": False}]} if name == "AlertEmailSubscription" else {}
    assert {"kind": [{"exists": False}, {"anything-but": left_out}], **once} == policy


def test_the_policy_bucket_keeps_every_version_and_no_function_writes_it() -> None:
    """Encrypted, private, versioned, over TLS alone, and kept when the stack goes."""
    bucket, policy = RESOURCES["PolicyBucket"], RESOURCES["PolicyBucketPolicy"]["Properties"]
    properties = bucket["Properties"]
    (by_default,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    reaching = [
        s for p in FUNCTIONS.values() for s in statements(p) if "PolicyBucket" in str(s["Resource"])
    ]
    calls = {action for s in reaching for action in actions(s) if action.startswith("s3:")}

    assert ("RetainExceptOnCreate", "Retain") == (
        bucket["DeletionPolicy"],
        bucket["UpdateReplacePolicy"],
    )
    assert {"Status": "Enabled"} == properties["VersioningConfiguration"]
    assert {"Fn::GetAtt": ["Key", "Arn"]} == by_default["ServerSideEncryptionByDefault"][
        "KMSMasterKeyID"
    ]
    assert [True] * 4 == list(properties["PublicAccessBlockConfiguration"].values())
    assert properties["NotificationConfiguration"]["EventBridgeConfiguration"]["EventBridgeEnabled"]
    assert [("Deny", "s3:*"), ("Deny", "s3:DeleteObjectVersion")] == [
        (s["Effect"], s["Action"]) for s in policy["PolicyDocument"]["Statement"]
    ]
    assert {"s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket"} == calls


def test_the_audit_keeps_every_version_and_can_be_locked() -> None:
    """Object Lock is always there, because it cannot be added later; it locks where days are
    given."""
    bucket = RESOURCES["AuditBucket"]
    properties = bucket["Properties"]
    locked, unlocked = properties["ObjectLockConfiguration"]["Fn::If"][1:]
    parameters = TEMPLATE["Parameters"]["AuditLockMode"]

    assert ("RetainExceptOnCreate", "Retain") == (
        bucket["DeletionPolicy"],
        bucket["UpdateReplacePolicy"],
    )
    assert {"Status": "Enabled"} == properties["VersioningConfiguration"]
    assert properties["ObjectLockEnabled"] is True
    assert {"Ref": "AWS::NoValue"} == unlocked
    assert {"Mode": {"Ref": "AuditLockMode"}, "Days": {"Ref": "AuditLockDays"}} == locked["Rule"][
        "DefaultRetention"
    ]
    assert {"GOVERNANCE", "COMPLIANCE"} <= set(parameters["AllowedValues"])
    assert [True] * 4 == list(properties["PublicAccessBlockConfiguration"].values())


def test_who_reads_the_policy_reads_which_version_is_in_force() -> None:
    """One function decides which that is; the newest version is of no use to the others."""
    readers = {n for n, p in FUNCTIONS.items() for s in statements(p) if s["Sid"] == "Policy"}
    named = {
        n
        for n, p in FUNCTIONS.items()
        for s in statements(p)
        if "VERSION#" in str(s.get("Condition"))
    }
    newest = {
        n for n, p in FUNCTIONS.items() for s in statements(p) if "s3:GetObject" in actions(s)
    }

    assert readers == named
    assert {"PlanSweepFunction"} == newest
    assert {"POLICY_PARAMETER", "POLICY_BUCKET"} <= set(
        TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    )


def test_a_custom_domain_takes_two_parameters() -> None:
    """Its host is that of the links; without a certificate the stack makes none."""
    made = {name: RESOURCES[name] for name in ("ApprovalDomain", "ApprovalDomainMapping")}
    domain = made["ApprovalDomain"]["Properties"]

    assert {"HasDomain"} == {one["Condition"] for one in made.values()}
    assert {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "ApprovalBaseUrl"}]}]} == domain[
        "DomainName"
    ]
    assert [
        {"CertificateArn": {"Ref": "ApprovalCertificateArn"}, "SecurityPolicy": "TLS_1_2"}
    ] == domain["DomainNameConfigurations"]
