"""`governor preflight`: each check confirms, refutes, or says what it lacks; and none can change
anything.

Calls and answers are held to botocore's models: nothing here was seen from AWS itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.validate import ParamValidator

from cli import aws, governor, preflight
from cli.errors import CommandError
from cli.preflight import rights
from cli.preflight.deployed import MEMBER_ROLES
from cli.preflight.world import LONGEST, Check, Finding, Needs, Outcome, World, unknown
from governor.core.errors import CloudError, SafetyError
from governor.policy.document import parse_policy
from local.engine.simulators.pricing import instance_product
from tests.iam import Request, allows, hub_roles
from tests.rights import TABLE

ROOT = Path(__file__).parents[2]
NOW = datetime.now(tz=UTC).replace(microsecond=0)
ACCOUNT, REGION, STACK = "123456789012", "us-east-1", "gpu-governor"
INSTANCE = "i-00000000000000001"
CONFIRMED, REFUTED, UNKNOWN = Outcome


RESOURCES = {
    **{
        f"{name}FunctionRole": ("AWS::IAM::Role", f"{STACK}-{REGION}-{end}")
        for name, end in MEMBER_ROLES.items()
    },
    "ActorRole": ("AWS::IAM::Role", f"{STACK}-{REGION}-actor"),
    "StateTable": ("AWS::DynamoDB::Table", "state"),
    "PolicyBucket": ("AWS::S3::Bucket", "policy"),
    "AuditBucket": ("AWS::S3::Bucket", "audit"),
    "Key": ("AWS::KMS::Key", "key"),
    "AlertKey": ("AWS::KMS::Key", "alert-key"),
    "OpeningKey": ("AWS::KMS::Key", "opening-key"),
    "AnswerKey": ("AWS::KMS::Key", "answer-key"),
    "DeliveryKey": ("AWS::KMS::Key", "delivery-key"),
    "ExpiryKey": ("AWS::KMS::Key", "expiry-key"),
    "Api": ("AWS::ApiGatewayV2::Api", "api"),
    "SweepStateMachine": (
        "AWS::StepFunctions::StateMachine",
        f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:s",
    ),
    "AuditStream": ("AWS::Lambda::EventSourceMapping", "0" * 36),
    "NoSweepAlarm": ("AWS::CloudWatch::Alarm", "gpu-NoSweep"),
    "AlarmOverRule": ("AWS::Events::Rule", "rule"),
    "ForwardedRule": ("AWS::Events::Rule", "bus|rule2"),
    "SweepTargetFunction": ("AWS::Lambda::Function", "gpu-SweepTargetFunction"),
    "PutAwayFunction": ("AWS::Lambda::Function", "put-away"),
    "ChannelSecret": ("AWS::SecretsManager::Secret", "channels"),
    "LinkKeySecret": ("AWS::SecretsManager::Secret", "link-keys"),
    "BaseAccess": ("AWS::IAM::ManagedPolicy", f"arn:aws:iam::{ACCOUNT}:policy/base"),
}
PARAMETERS = {
    "Mode": "observe",
    "SelectorTagValue": "GPU-Workload",
    "SweepRateMinutes": "5",
    "AuditLockMode": "",
    "OrganizationId": "o-1234567890",
    "EmailSender": "gpu@example.com",
    "CheckpointDocumentName": "checkpoint",
    "ReservedConcurrency": "0",
}
RUNNING = {
    "InstanceId": INSTANCE,
    "InstanceType": "g5.xlarge",
    "InstanceLifecycle": "spot",
    "SpotInstanceRequestId": "sir-1",
    "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeId": "vol-1"}}],
    "Tags": [{"Key": "aws:autoscaling:groupName", "Value": "group"}],
}
GPU = {"Name": "InstanceId", "Value": INSTANCE}
NEWEST = datetime.fromtimestamp((NOW.timestamp() - 120) // 300 * 300 - 300, tz=UTC)


class Refused(Exception):
    """A code that AWS answers with."""


def instances(**parameters: Any) -> dict[str, Any]:
    """Those that run; an unknown id is refused."""
    if "InstanceIds" in parameters:
        raise Refused("InvalidInstanceID.NotFound")
    return {"Reservations": [{"Instances": [RUNNING]}]}


def dry_run(**_: Any) -> dict[str, Any]:
    raise Refused("DryRunOperation")


def metrics(**parameters: Any) -> dict[str, Any]:
    """Series of one instance."""
    names = {key: parameters[key] for key in ("Namespace", "MetricName")}
    return {"Metrics": [{**names, "Dimensions": [GPU]}]}


def values(**parameters: Any) -> dict[str, Any]:
    """One datapoint where an instance is asked about; nothing of what never was, or never
    failed."""
    answers = []
    for query in parameters["MetricDataQueries"]:
        asked = query["MetricStat"]["Metric"]
        here = asked["Dimensions"][0]["Value"] == INSTANCE
        found = (
            {"Timestamps": [NEWEST], "Values": [1.0]} if here else {"Timestamps": [], "Values": []}
        )
        answers.append(
            {"Id": query["Id"], "Label": query.get("Label", "m"), "StatusCode": "Complete", **found}
        )
    return {"MetricDataResults": answers}


def simulated(**parameters: Any) -> dict[str, Any]:
    """IAM's answer, by the project's own evaluation of the statement, or of the role in the
    template."""
    context = {
        one["ContextKeyName"]: one["ContextKeyValues"]
        if one["ContextKeyType"] == "stringList"
        else one["ContextKeyValues"][0]
        for one in parameters["ContextEntries"]
    }
    (action,), (resource,) = parameters["ActionNames"], parameters["ResourceArns"]
    if "PolicyInputList" in parameters:
        policy = json.loads(parameters["PolicyInputList"][0])["Statement"]
    else:
        name = parameters["PolicySourceArn"].rpartition(f"{STACK}-{REGION}-")[2]
        (function,) = [
            one for one, end in [*MEMBER_ROLES.items(), ("Actor", "actor")] if end == name
        ]
        policy = hub_roles()[function]
        if action.startswith("dynamodb:"):
            resource = TABLE
    is_allowed = allows(policy, Request(action, resource, context))
    decision = "allowed" if is_allowed else "implicitDeny"
    return {"EvaluationResults": [{"EvalActionName": action, "EvalDecision": decision}]}


EVENT = {
    "userIdentity": {
        "sessionContext": {"sessionIssuer": {"userName": f"{STACK}-{REGION}-sweep-target"}}
    }
}
PRICE = instance_product("g5.xlarge", "1.006", "us-east-1")
ROUTES = ["GET /", "GET /api/approvals"]

WELL: Mapping[str, Any] = {
    "GetCallerIdentity": {
        "Account": ACCOUNT,
        "Arn": f"arn:aws:iam::{ACCOUNT}:user/ada",
        "UserId": "AIDA",
    },
    "DescribeRegions": {"Regions": [{"RegionName": REGION}]},
    "GetAccountSettings": {
        "AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}
    },
    "ListServiceQuotas": {
        "Quotas": [{"QuotaName": "Rate of GetMetricData requests", "Value": 500.0}]
    },
    "GetMetricData": values,
    "ListMetrics": metrics,
    "DescribeOrganization": {"Organization": {"Id": "o-1234567890"}},
    "ListAccountsForParent": {"Accounts": [{"Id": ACCOUNT, "State": "ACTIVE"}]},
    "GetProducts": {"PriceList": [PRICE]},
    "DescribeInstanceTypes": {
        "InstanceTypes": [{"InstanceType": "g5.xlarge", "GpuInfo": {"Gpus": [{"Count": 1}]}}]
    },
    "DescribeSpotPriceHistory": {"SpotPriceHistory": [{"SpotPrice": "0.4"}]},
    "DescribeSessions": {"Sessions": [{"Target": INSTANCE, "StartDate": NOW}]},
    "DescribeTrails": {
        "trailList": [{"TrailARN": "arn:aws:cloudtrail:us-east-1:123456789012:trail/all"}]
    },
    "GetEventSelectors": {
        "EventSelectors": [{"DataResources": [{"Type": "AWS::S3::Object", "Values": ["arn"]}]}]
    },
    "SimulateCustomPolicy": simulated,
    "SimulatePrincipalPolicy": simulated,
    "DescribeInstances": instances,
    "StopInstances": dry_run,
    "TerminateInstances": dry_run,
    "CreateSnapshots": dry_run,
    "CreateTags": dry_run,
    "DescribeAutoScalingInstances": {
        "AutoScalingInstances": [
            {
                "InstanceId": INSTANCE,
                "AutoScalingGroupName": "group",
                "AvailabilityZone": "a",
                "LifecycleState": "InService",
                "HealthStatus": "HEALTHY",
                "ProtectedFromScaleIn": False,
            }
        ]
    },
    "DescribeSpotInstanceRequests": {"SpotInstanceRequests": [{"Type": "persistent"}]},
    "DescribeVolumes": {
        "Volumes": [{"VolumeId": "vol-1", "Encrypted": True, "KmsKeyId": "arn:aws:kms:key"}]
    },
    "DescribeKey": lambda KeyId: {
        "KeyMetadata": {
            "KeyId": KeyId,
            "KeyState": "Enabled",
            "KeySpec": "SYMMETRIC_DEFAULT" if KeyId == "key" else "HMAC_256",
        }
    },
    "DescribeSnapshots": {"Snapshots": [{"State": "completed"}]},
    "GetAccount": {"SendingEnabled": True, "ProductionAccessEnabled": True},
    "GetEmailIdentity": {"VerifiedForSendingStatus": True},
    "ListSubscriptionsByTopic": {
        "Subscriptions": [
            {"Protocol": "sqs", "SubscriptionArn": "arn:aws:sns:q"},
            {"Protocol": "email", "SubscriptionArn": "arn:aws:sns:mail"},
        ]
    },
    "DescribeStacks": lambda **_: {"Stacks": [stack()]},
    "ListStackResources": lambda **_: {
        "StackResourceSummaries": [
            {
                "LogicalResourceId": name,
                "ResourceType": kind,
                "PhysicalResourceId": ident,
                "LastUpdatedTimestamp": NOW,
                "ResourceStatus": "CREATE_COMPLETE",
            }
            for name, (kind, ident) in RESOURCES.items()
        ]
    },
    "ListAttachedRolePolicies": {
        "AttachedPolicies": [
            {"PolicyName": "base", "PolicyArn": f"arn:aws:iam::{ACCOUNT}:policy/base"}
        ]
    },
    "ListRolePolicies": {
        "PolicyNames": [
            "reach-members",
            "ServeApiFunctionRolePolicy1",
            "PlanSweepFunctionOnFailureSQSPolicy",
        ]
    },
    "GetBucketVersioning": {"Status": "Enabled"},
    "GetObjectLockConfiguration": {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}},
    "GetBucketNotificationConfiguration": {"EventBridgeConfiguration": {}},
    "DescribeTable": {
        "Table": {
            "SSEDescription": {"Status": "ENABLED"},
            "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        }
    },
    "DescribeContinuousBackups": {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"},
        }
    },
    "DescribeTimeToLive": {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}},
    "DescribeStateMachine": {
        "stateMachineArn": "arn",
        "name": "s",
        "status": "ACTIVE",
        "definition": "{}",
        "roleArn": "arn",
        "type": "STANDARD",
        "creationDate": NOW,
    },
    "ValidateStateMachineDefinition": {"result": "OK", "diagnostics": []},
    "GetStages": {
        "Items": [
            {
                "StageName": "$default",
                "RouteSettings": {one: {"ThrottlingRateLimit": 10.0} for one in ROUTES},
            }
        ]
    },
    "GetRoutes": {
        "Items": [
            {"RouteKey": one, "AuthorizationType": "AWS_IAM" if "/api/" in one else "NONE"}
            for one in ROUTES
        ]
    },
    "GetEventSourceMapping": {"State": "Enabled", "LastProcessingResult": "OK"},
    "GetFunctionConcurrency": {},
    "DescribeSecret": {"RotationEnabled": True, "LastRotatedDate": NOW},
    "DescribeAlarmHistory": {
        "AlarmHistoryItems": [
            {"AlarmName": "gpu-NoSweep", "HistorySummary": "Successfully executed action arn"}
        ]
    },
    "LookupEvents": {"Events": [{"CloudTrailEvent": json.dumps(EVENT)}]},
    "DescribeDocument": {"Document": {"Status": "Active"}},
    "DescribeInstanceInformation": {
        "InstanceInformationList": [{"InstanceId": INSTANCE, "PingStatus": "Online"}]
    },
    "DescribeStackResourceDrifts": {
        "StackResourceDrifts": [
            {
                "LogicalResourceId": "PutAwayAccess",
                "StackId": "arn",
                "ResourceType": "AWS::IAM::ManagedPolicy",
                "StackResourceDriftStatus": "MODIFIED",
                "Timestamp": NOW,
            }
        ]
    },
}


def stack(drifted: str = "IN_SYNC", **parameters: str) -> dict[str, Any]:
    """As CloudFormation describes it."""
    return {
        "StackName": STACK,
        "StackStatus": "UPDATE_COMPLETE",
        "CreationTime": NOW,
        "DriftInformation": {"StackDriftStatus": drifted},
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in {**PARAMETERS, **parameters}.items()
        ],
        "Outputs": [{"OutputKey": "AlertTopicArn", "OutputValue": "arn:aws:sns:topic"}],
    }


SESSION = boto3.Session("key", "secret", region_name=REGION)
"""All accounts share it, because a session and its clients take longer than a check."""
CLIENTS: dict[str, Any] = {}


class Account:
    """AWS, of whose answers some differ from an account in which all is well.

    The last one that was made, or was asked for its world, answers.
    """

    present: Account

    def __init__(self, **changed: Any) -> None:
        self.answers = {**WELL, **changed}
        self.called: list[str] = []
        self.session = SESSION
        Account.present = self

    def remember(self, params: Mapping[str, Any]) -> None:
        """Keep what a check asks."""
        self.given = dict(params)

    def answer(self, model: Any) -> Any:
        """In place of the network. What a check asked is in `given`, already held to the model."""
        self.called.append(model.name)
        status, parsed = 200, {}
        try:
            answer = self.answers[model.name]
            parsed = dict(answer(**self.given) if callable(answer) else self._or_refuse(answer))
            wrong = ParamValidator().validate(
                {key: one for key, one in parsed.items() if key != "ResponseMetadata"},
                model.output_shape,
            )
            assert not wrong.has_errors(), wrong.generate_report()
        except Refused as error:
            status, parsed = (
                400,
                {"Error": {"Code": str(error), "Message": f"{error} does not exist"}},
            )
        headers = {"date": format_datetime(self.date, usegmt=True)}
        parsed["ResponseMetadata"] = {"HTTPStatusCode": status, "HTTPHeaders": headers}
        return SimpleNamespace(status_code=status, headers=headers), parsed

    date = NOW
    given: Mapping[str, Any] = {}

    @staticmethod
    def _or_refuse(answer: Any) -> Any:
        if isinstance(answer, Refused):
            raise answer
        return answer

    def world(self, *, is_deployed: bool = True) -> World:
        """Return the account's world, with the shipped policy."""
        if not is_deployed:
            self.answers["DescribeStacks"] = Refused("ValidationError")
        Account.present = self
        made = World(STACK, self.session, NOW, lambda: NOW, CLIENTS)
        made.policy = POLICY
        return made


def _ask_the_present_account(params: Mapping[str, Any], **_: Any) -> None:
    Account.present.remember(params)


def _answer_as_the_present_account(model: Any, **_: Any) -> Any:
    return Account.present.answer(model)


SESSION.events.register("provide-client-params", _ask_the_present_account)
SESSION.events.register("before-call", _answer_as_the_present_account)


def found(account: Account, name: str, *, is_deployed: bool = True) -> Finding:
    """Return what one check comes to there."""
    (check,) = [one for one in preflight.CHECKS if one.name == name]
    return preflight.look(check, account.world(is_deployed=is_deployed))


POLICY = parse_policy("targets: {units: [ou-abcd-11111111]}").base().policy
NAMES = [one.name for one in preflight.CHECKS]


@pytest.mark.parametrize("name", NAMES)
def test_where_all_is_well_each_check_confirms(name: str) -> None:
    """After a deploy; by answers that botocore's models take."""
    one = found(Account(), name)
    assert (CONFIRMED, "") == (one.outcome, one.advice), one


@pytest.mark.parametrize(
    "name", [one.name for one in preflight.CHECKS if one.needs is not Needs.STACK]
)
def test_before_a_deploy_what_needs_no_stack_confirms_as_well(name: str) -> None:
    """IAM is asked about the template's statements then."""
    one = found(Account(), name, is_deployed=False)
    assert CONFIRMED is one.outcome, one


@pytest.mark.parametrize("name", [one.name for one in preflight.CHECKS if one.needs is Needs.STACK])
def test_before_a_deploy_the_rest_says_that_it_needs_the_stack(name: str) -> None:
    one = found(Account(), name, is_deployed=False)
    assert (UNKNOWN, True) == (one.outcome, "there is no stack" in one.seen), one


def code(text: str) -> Callable[..., Any]:
    def refuse(**_: Any) -> Any:
        raise Refused(text)

    return refuse


def altered(**changed: Any) -> Callable[..., Any]:
    """The instance with other facts."""
    return lambda **asked: (
        instances(**asked)
        if "InstanceIds" in asked
        else {"Reservations": [{"Instances": [{**RUNNING, **changed}]}]}
    )


def late(**asked: Any) -> dict[str, Any]:
    answer = values(**asked)
    for one in answer["MetricDataResults"]:
        one["Timestamps"] = [moment - timedelta(minutes=5) for moment in one["Timestamps"]]
    return answer


def failing(**asked: Any) -> dict[str, Any]:
    answer = values(**asked)
    answer["MetricDataResults"][0] |= {
        "Timestamps": [NOW],
        "Values": [3.0],
        "StatusCode": "Complete",
    }
    return answer


def everything(**asked: Any) -> dict[str, Any]:
    (action,) = asked["ActionNames"]
    return {"EvaluationResults": [{"EvalActionName": action, "EvalDecision": "allowed"}]}


def by_name(**asked: Any) -> dict[str, Any]:
    return {
        "Metrics": [
            {**metrics(**asked)["Metrics"][0], "Dimensions": [{"Name": "GpuId", "Value": "0"}]}
        ]
    }


SIMULATED = {"SimulatePrincipalPolicy": everything, "SimulateCustomPolicy": everything}
AFTER = {"GetMetricData": late}
KEY = WELL["DescribeKey"]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "credentials",
        {"GetCallerIdentity": {"Account": ACCOUNT, "Arn": "arn:aws-cn:iam::1:user/a"}},
        "aws-cn",
    ),
    ("regions", {"DescribeRegions": {"Regions": []}}, REGION),
    (
        "lambda-concurrency",
        {
            "GetAccountSettings": {
                "AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
            }
        },
        "10 at a time",
    ),
    (
        "metric-quota",
        {
            "ListServiceQuotas": {
                "Quotas": [{"QuotaName": "x GetMetricData requests", "Value": 5.0}]
            }
        },
        "5",
    ),
    ("missing-metric", {"GetMetricData": failing}, "(1, 'Complete')"),
    (
        "organization",
        {"DescribeOrganization": {"Organization": {"Id": "o-0987654321"}}},
        "o-0987654321",
    ),
    (
        "organization",
        {"DescribeOrganization": Refused("AWSOrganizationsNotInUseException")},
        "None",
    ),
    (
        "list-prices",
        {"GetProducts": {"PriceList": [PRICE.replace("1.006", "0.5")]}},
        "0.5 listed",
    ),
    (
        "units",
        {"ListAccountsForParent": Refused("ParentNotFoundException")},
        "no unit ou-abcd-11111111",
    ),
    ("units", {"ListAccountsForParent": {"Accounts": [{"Id": ACCOUNT}]}}, f"no state of {ACCOUNT}"),
    ("list-prices", {"GetProducts": {"PriceList": []}}, "none listed"),
    (
        "instance-shapes",
        {
            "DescribeInstanceTypes": {
                "InstanceTypes": [
                    {"InstanceType": "g5.xlarge", "GpuInfo": {"Gpus": [{"Count": 4}]}}
                ]
            }
        },
        "4 by EC2",
    ),
    (
        "spot-prices",
        {"DescribeSpotPriceHistory": {"SpotPriceHistory": [{"SpotPrice": "0"}]}},
        "a price of 0",
    ),
    ("sessions", {"DescribeSessions": {"Sessions": [{"SessionId": "s"}]}}, "SessionId"),
    ("iam-stop", SIMULATED, "is allowed"),
    ("iam-own-rights", SIMULATED, "is allowed"),
    ("iam-snapshots", SIMULATED, "is allowed"),
    ("iam-snapshot-tags", SIMULATED, "is allowed"),
    ("iam-tag-keys", SIMULATED, "is allowed"),
    ("iam-leading-keys", SIMULATED, "with no key is allowed"),
    ("iam-command", SIMULATED, "is allowed"),
    ("iam-namespace", SIMULATED, "another's is allowed"),
    ("unknown-instance", {"DescribeInstances": code("InvalidInstanceID.Malformed")}, "Malformed"),
    (
        "managed-instances",
        {
            "DescribeInstances": lambda **asked: (
                {"Reservations": []} if asked.get("IncludeManagedResources") else instances(**asked)
            )
        },
        "1 instance only without it",
    ),
    ("agent-metrics", {"ListMetrics": by_name}, "1 with GpuId"),
    ("gpu-metric-delay", AFTER, "ended 120 s ago"),
    ("ec2-metric-delay", AFTER, "ended 120 s ago"),
    (
        "gpu-power",
        {
            "ListMetrics": lambda **asked: {
                "Metrics": [*metrics(**asked)["Metrics"], *by_name(**asked)["Metrics"]]
            }
        },
        "GpuId",
    ),
    ("dry-runs", {"TerminateInstances": code("Brandnew")}, "ec2:TerminateInstances: Brandnew"),
    ("lifecycles", {"DescribeInstances": altered(InstanceLifecycle="lent")}, "lent"),
    ("group-tags", {"DescribeInstances": altered(Tags=[])}, INSTANCE),
    ("spot-requests", {"DescribeSpotInstanceRequests": {"SpotInstanceRequests": []}}, "0 of 1"),
    ("spot-requests", {"DescribeInstances": altered(SpotInstanceRequestId="")}, "name no request"),
    (
        "volume-keys",
        {"DescribeKey": {"KeyMetadata": {"KeyId": "k", "KeyState": "Disabled"}}},
        "is Disabled",
    ),
    ("snapshot-keys", {"DescribeSnapshots": {"Snapshots": [{"State": "error"}]}}, "1 of 1"),
    ("mail", {"GetAccount": {"SendingEnabled": True, "ProductionAccessEnabled": False}}, "sandbox"),
    ("mail", {"GetAccount": {"SendingEnabled": False}}, "sends nothing"),
    (
        "mail",
        {"GetEmailIdentity": Refused("NotFoundException")},
        "neither gpu@example.com nor example.com",
    ),
    (
        "subscriptions",
        {
            "ListSubscriptionsByTopic": {
                "Subscriptions": [{"Protocol": "email", "SubscriptionArn": "PendingConfirmation"}]
            },
            "DescribeStacks": lambda **_: {"Stacks": [stack(EmailSender="")]},
        },
        "wait to be confirmed",
    ),
    ("role-policies", {"ListRolePolicies": {"PolicyNames": ["mine"]}}, "has mine"),
    (
        "role-policies",
        {
            "ListAttachedRolePolicies": {
                "AttachedPolicies": [
                    {
                        "PolicyName": "AdministratorAccess",
                        "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess",
                    }
                ]
            }
        },
        "has AdministratorAccess",
    ),
    ("drift", {"DescribeStacks": lambda **_: {"Stacks": [stack("DRIFTED")]}}, "PutAwayAccess"),
    (
        "buckets",
        {"GetObjectLockConfiguration": Refused("ObjectLockConfigurationNotFoundError")},
        "Object Lock None",
    ),
    ("buckets", {"GetBucketVersioning": {}}, "PolicyBucket keeps no versions"),
    ("buckets", {"GetBucketNotificationConfiguration": {}}, "notifies EventBridge of nothing"),
    (
        "buckets",
        {"DescribeStacks": lambda **_: {"Stacks": [stack(AuditLockMode="COMPLIANCE")]}},
        "mode none",
    ),
    (
        "table",
        {"DescribeTimeToLive": {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}},
        "no time to live",
    ),
    ("keys", {"DescribeKey": lambda **_: KEY("key")}, "AlertKey is SYMMETRIC_DEFAULT"),
    (
        "state-machines",
        {
            "ValidateStateMachineDefinition": {
                "result": "FAIL",
                "diagnostics": [
                    {"severity": "ERROR", "code": "SCHEMA_VALIDATION_FAILED", "message": "m"}
                ],
            }
        },
        "SCHEMA_VALIDATION_FAILED",
    ),
    ("api-throttles", {"GetStages": {"Items": [{"StageName": "$default"}]}}, "GET /api/approvals"),
    (
        "api-signatures",
        {"GetRoutes": {"Items": [{"RouteKey": "GET /api/x", "AuthorizationType": "NONE"}]}},
        "/api/x",
    ),
    ("mappings", {"GetEventSourceMapping": {"State": "Disabled"}}, "AuditStream: Disabled"),
    (
        "mappings",
        {"GetEventSourceMapping": {"State": "Enabled", "LastProcessingResult": "PROBLEM: no"}},
        "PROBLEM",
    ),
    (
        "reserved-concurrency",
        {"GetFunctionConcurrency": {"ReservedConcurrentExecutions": 5}},
        "5 reserved",
    ),
    (
        "reserved-concurrency",
        {"GetFunctionConcurrency": {"ReservedConcurrentExecutions": 0}},
        "0 reserved",
    ),
    ("link-keys", {"DescribeSecret": {"RotationEnabled": True}}, "never rotated"),
    ("link-keys", {"DescribeSecret": {}}, "rotation is off"),
    (
        "alarm-actions",
        {
            "DescribeAlarmHistory": {
                "AlarmHistoryItems": [{"AlarmName": "gpu-NoSweep", "HistorySummary": "Failed to"}]
            }
        },
        "Failed to",
    ),
    ("event-delivery", {"GetMetricData": failing}, "3"),
    (
        "session-names",
        {
            "LookupEvents": {
                "Events": [{"CloudTrailEvent": json.dumps(EVENT).replace("-target", "")}]
            }
        },
        "sweep",
    ),
    (
        "checkpoint-document",
        {"DescribeInstanceInformation": {"InstanceInformationList": []}},
        "0 of 1",
    ),
    ("checkpoint-document", {"DescribeDocument": {"Document": {"Status": "Failed"}}}, "is Failed"),
]


@pytest.mark.parametrize(
    ("name", "changed", "text"), WRONG, ids=[f"{one[0]}-{one[2]}" for one in WRONG]
)
def test_each_check_refutes(name: str, changed: dict[str, Any], text: str) -> None:
    """And says what to do."""
    one = found(Account(**changed), name)
    assert (REFUTED, True) == (one.outcome, bool(one.advice)), one
    assert text in one.seen


@pytest.mark.parametrize(("sender", "versions"), [("gpu@example.com", 1), ("", 2)])
def test_where_contacts_have_mail_or_channels_nobody_has_to_subscribe(
    sender: str, versions: int
) -> None:
    there = Account(
        ListSubscriptionsByTopic={"Subscriptions": []},
        DescribeStacks=lambda **_: {"Stacks": [stack(EmailSender=sender)]},
        DescribeSecret={
            "VersionIdsToStages": {f"{number:032}": ["AWSCURRENT"] for number in range(versions)}
        },
    )
    assert CONFIRMED is found(there, "subscriptions").outcome


def test_a_policy_without_units_has_none_to_look_at() -> None:
    world = Account().world()
    world.policy = parse_policy("").base().policy
    (check,) = [one for one in preflight.CHECKS if one.name == "units"]
    assert UNKNOWN is preflight.look(check, world).outcome


def test_a_wrong_clock_is_refuted() -> None:
    account = Account()
    account.date = NOW - timedelta(minutes=4)
    one = found(account, "clock")
    assert (REFUTED, True) == (one.outcome, "240 s" in one.seen), one


def test_roles_of_other_names_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As CloudFormation would make them up; and what is longer than IAM allows."""
    monkeypatch.setitem(
        RESOURCES, "PutAwayFunctionRole", ("AWS::IAM::Role", "gpu-PutAwayFunctionRole-1A")
    )
    monkeypatch.setitem(RESOURCES, "ActorRole", ("AWS::IAM::Role", "gpu-ActorRole-1A"))
    monkeypatch.setitem(RESOURCES, "OtherRole", ("AWS::IAM::Role", "x" * 65))
    one = found(Account(), "role-names")
    assert REFUTED is one.outcome
    assert "OtherRole; PutAway: gpu-PutAwayFunctionRole-1A; Actor: gpu-ActorRole-1A" == one.seen


def test_an_exemption_is_tried_by_the_key_of_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator is asked about the tag that the deployed policy denies."""
    monkeypatch.setitem(PARAMETERS, "ExemptionTagKey", "Keep")
    asked: list[str] = []

    def noting(**parameters: Any) -> dict[str, Any]:
        asked.extend(one["ContextKeyName"] for one in parameters["ContextEntries"])
        return simulated(**parameters)

    found(Account(SimulatePrincipalPolicy=noting), "iam-stop")

    assert "aws:ResourceTag/Keep" in asked
    assert "aws:ResourceTag/GpuGovernor" not in asked


EMPTY: list[tuple[str, dict[str, Any]]] = [
    ("metric-quota", {"ListServiceQuotas": {"Quotas": []}}),
    ("instance-shapes", {"DescribeInstanceTypes": Refused("InvalidInstanceType")}),
    ("spot-prices", {"DescribeSpotPriceHistory": {"SpotPriceHistory": []}}),
    ("sessions", {"DescribeSessions": {"Sessions": []}}),
    ("trail", {"GetEventSelectors": {"EventSelectors": []}}),
    ("trail", {"GetEventSelectors": Refused("TrailNotFoundException")}),
    ("agent-metrics", {"ListMetrics": {"Metrics": []}}),
    ("gpu-metric-delay", {"ListMetrics": {"Metrics": []}}),
    ("gpu-power", {"ListMetrics": {"Metrics": []}}),
    ("group-tags", {"DescribeAutoScalingInstances": {"AutoScalingInstances": []}}),
    ("spot-requests", {"DescribeInstances": altered(InstanceLifecycle="on-demand")}),
    ("volume-keys", {"DescribeVolumes": {"Volumes": [{"Encrypted": False}]}}),
    ("snapshot-keys", {"DescribeSnapshots": {"Snapshots": []}}),
    ("mail", {"DescribeStacks": lambda **_: {"Stacks": [stack(EmailSender="")]}}),
    ("drift", {"DescribeStacks": lambda **_: {"Stacks": [stack("NOT_CHECKED")]}}),
    ("alarm-actions", {"DescribeAlarmHistory": {"AlarmHistoryItems": []}}),
    ("session-names", {"LookupEvents": {"Events": []}}),
    (
        "checkpoint-document",
        {"DescribeStacks": lambda **_: {"Stacks": [stack(CheckpointDocumentName="")]}},
    ),
    *(
        (one.name, {"DescribeInstances": {"Reservations": []}})
        for one in preflight.CHECKS
        if one.needs is Needs.INSTANCES
    ),
]


@pytest.mark.parametrize(("name", "changed"), EMPTY, ids=[one[0] for one in EMPTY])
def test_where_there_is_nothing_to_see_that_is_said(name: str, changed: dict[str, Any]) -> None:
    one = found(Account(**changed), name)
    assert (UNKNOWN, True) == (one.outcome, bool(one.advice)), one


def test_every_check_can_refute() -> None:
    """One that cannot would only reassure; the trail is advice."""
    refutable = {name for name, _, _ in WRONG} | {"clock", "role-names"}
    assert {"trail"} == set(NAMES) - refutable


@pytest.mark.parametrize(
    "name", [one for one in NAMES if one not in ("credentials", "clock", "drift")]
)
@pytest.mark.parametrize("is_deployed", [True, False])
def test_without_a_right_the_missing_action_is_named(name: str, is_deployed: bool) -> None:
    """Each by itself: the others go on."""
    denied = {
        one: Refused("AccessDenied")
        for one in WELL
        if one not in ("GetCallerIdentity", "DescribeStacks")
    }
    one = found(Account(**denied), name, is_deployed=is_deployed)
    assert UNKNOWN is one.outcome
    assert (
        re.search(r"\w+:[A-Z]\w+", f"{one.seen} {one.advice}") or "there is no stack" in one.seen
    ), one


def test_an_answer_in_another_form_is_unknown() -> None:
    one = found(Account(GetAccountSettings={}), "lambda-concurrency")
    assert (UNKNOWN, True) == (one.outcome, "KeyError" in one.seen), one


def test_a_region_that_does_not_know_managed_instances_is_said() -> None:
    """Partitions get parameters months apart."""

    def described(**asked: Any) -> Any:
        if "IncludeManagedResources" in asked:
            raise Refused("UnknownParameter")
        return instances(**asked)

    one = found(Account(DescribeInstances=described), "managed-instances")

    seen = f"EC2 in {REGION} does not know the parameter"
    assert (UNKNOWN, seen) == (one.outcome, one.seen)


def test_nothing_but_reads_and_dry_runs_leaves_this_machine() -> None:
    """By the one way to AWS, of what it would let through, and of what all checks together have
    called."""
    world = Account().world()
    for operation in (
        "ec2:StopInstances",
        "s3:PutObject",
        "sts:AssumeRole",
        "cloudformation:DetectStackDrift",
    ):
        with pytest.raises(SafetyError):
            world.call(operation)
        with pytest.raises(SafetyError):
            list(world.all(operation, "x"))
    with pytest.raises(SafetyError):
        world.call("ec2:StopInstances", InstanceIds=[INSTANCE], DryRun=False)
    account = Account()
    there = account.world()
    for check in preflight.CHECKS:
        preflight.look(check, there)
    others = {
        one
        for one in account.called
        if not re.match("(Describe|Get|List|Lookup|Simulate|Validate)[A-Z]", one)
    }
    assert {"StopInstances", "TerminateInstances", "CreateSnapshots", "CreateTags"} == others
    assert not {one for one in account.called if one.startswith(("GetSecret", "GetObject"))} - {
        "GetObjectLockConfiguration"
    }


def test_a_dry_run_that_was_carried_out_is_no_good_answer() -> None:
    """EC2 never does; if ever, it is said."""
    one = found(Account(StopInstances={"StoppingInstances": []}), "dry-runs")
    assert (UNKNOWN, True) == (one.outcome, "as if it had been carried out" in one.seen), one


def test_nothing_is_begun_after_15_minutes() -> None:
    world = Account().world()
    world.clock = lambda: NOW + LONGEST + timedelta(seconds=1)
    one = preflight.look(preflight.CHECKS[0], world)
    assert (UNKNOWN, True) == (one.outcome, "--only credentials" in one.advice)


@pytest.mark.parametrize("name", rights.RULES)
def test_the_statements_asked_before_a_deploy_decide_as_the_roles_of_the_template(
    name: str,
) -> None:
    """For every call that the check asks, both allow it or both refuse it."""
    rule = rights.RULES[name]
    resource = rule.resource.format(partition="aws", region=REGION, account=ACCOUNT, table=TABLE)
    role = hub_roles()[rule.role.removesuffix("FunctionRole").removesuffix("Role")]
    for action, (is_allowed, contexts) in product(
        rule.actions, ((True, rule.allowed), (False, rule.refused))
    ):
        for context in contexts:
            request = Request(action, resource, context)
            assert (
                is_allowed is allows(rule.statements(resource), request) is allows(role, request)
            ), request


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Account:
    """The command line's account."""
    account = Account()
    made = account.world()
    monkeypatch.setattr(aws, "session", lambda: account.session)
    monkeypatch.setattr(preflight, "World", lambda *_: made)
    return account


@pytest.mark.usefixtures("here")
def test_it_ends_well_when_nothing_is_refuted(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == governor.main(["preflight"])
    lines = capsys.readouterr().out.splitlines()
    assert f"{len(NAMES)} confirmed, 0 refuted, 0 unknown" == lines[-1]
    assert NAMES == re.findall(r"^confirmed  ([\w-]+): ", "\n".join(lines), re.MULTILINE)


def test_it_ends_with_1_when_something_is_refuted(
    here: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    here.answers["DescribeRegions"] = {"Regions": []}
    assert 1 == governor.main(["preflight", "--only", "regions", "--only", "table", "--json"])
    said = {one["check"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"regions": "refuted", "table": "confirmed"} == {
        name: one["outcome"] for name, one in said.items()
    }
    assert "nothing" == said["regions"]["needs"]
    assert said["regions"]["advice"].startswith("enable them")


def test_checks_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == governor.main(["preflight", "--only", "dry-run", "--list"])
    assert "there is no check 'dry-run'; did you mean dry-runs?" in capsys.readouterr().err


def documented() -> dict[str, str]:
    """The rows of the docs: each check, and what it needs."""
    text = (ROOT / "docs/preflight.md").read_text(encoding="utf-8")
    return dict(
        re.findall(r"^\| `([a-z0-9-]+)` \| (nothing|instances|the stack) \|", text, re.MULTILINE)
    )


def test_the_docs_count_the_checks() -> None:
    """In the example of what it prints."""
    text = (ROOT / "docs/preflight.md").read_text(encoding="utf-8")
    (counts,) = re.findall(r"^(\d+) confirmed, (\d+) refuted, (\d+) unknown$", text, re.MULTILINE)
    assert len(NAMES) == sum(map(int, counts))


@pytest.mark.parametrize("is_deployed", [True, False])
def test_where_the_policy_may_not_be_read_the_selector_is_the_stacks(
    monkeypatch: pytest.MonkeyPatch, is_deployed: bool
) -> None:
    """Instances of another tag would be looked for in vain."""
    monkeypatch.setattr(preflight.world, "deployed", mock.Mock(side_effect=CommandError("denied")))
    account = Account(DescribeStacks=lambda **_: {"Stacks": [stack(SelectorTagValue="ours")]})
    world = account.world(is_deployed=is_deployed)
    del world.policy
    assert f"Purpose={'ours' if is_deployed else 'GPU-Workload'}" == str(world.policy.selector)


def test_the_docs_list_each_check_and_no_other() -> None:
    assert {one.name: one.needs.value for one in preflight.CHECKS} == documented()


@pytest.mark.parametrize("check", preflight.CHECKS, ids=NAMES)
def test_each_check_says_what_must_hold_and_how_that_is_known(check: Check) -> None:
    assert check.claim
    assert "Source: " in (check.look.__doc__ or "")


@pytest.mark.parametrize(("imitation", "outcome"), [("", REFUTED), ("local cloud", UNKNOWN)])
def test_what_an_imitation_of_aws_refutes_is_unknown(imitation: str, outcome: Outcome) -> None:
    """It says nothing of AWS. What it confirms is confirmed, as far as it goes."""
    world: Any = SimpleNamespace(now=NOW, clock=lambda: NOW, imitation=imitation)
    wrong = Check("x", Needs.NOTHING, lambda _: Finding(REFUTED, "no key", "deploy again"))
    right = Check("x", Needs.NOTHING, lambda _: Finding(CONFIRMED, "a key"))
    finding = preflight.look(wrong, world)

    assert outcome is finding.outcome
    assert ("the local cloud answers in place of AWS: no key" == finding.seen) == bool(imitation)
    assert CONFIRMED is preflight.look(right, world).outcome


@pytest.mark.parametrize(
    ("imitation", "seen", "advice"),
    [
        ("", "AWS could not be asked: x failed: 400", "run it again; look at the reason"),
        (
            "local cloud",
            "the local cloud does not imitate this: x failed: 400",
            "run it in an AWS account",
        ),
    ],
)
def test_a_call_that_an_imitation_never_answers_is_not_to_be_tried_again(
    imitation: str, seen: str, advice: str
) -> None:
    def fails(_: World) -> Finding:
        raise CloudError("x failed: 400")

    world: Any = SimpleNamespace(now=NOW, clock=lambda: NOW, imitation=imitation)
    assert unknown(seen, advice) == preflight.look(Check("made-up", Needs.NOTHING, fails), world)
