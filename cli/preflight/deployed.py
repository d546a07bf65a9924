"""Checks of the deployed stack: whether AWS made it as the template means it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from cli.preflight.world import Finding, NothingToSee, World, confirmed, refuted, unknown
from governor.domain.units import in_parts, iso, plural, printable
from governor.errors import CloudError

_NAME_LIMIT = 64
MEMBER_ROLES = {
    "SweepTarget": "sweep-target",
    "CheckHealth": "check-health",
    "OpenEpisode": "open-episode",
    "RecheckEpisode": "recheck-episode",
    "PutAway": "put-away",
    "TakeSnapshot": "take-snapshot",
    "ExpireSnapshots": "expiry",
    "CheckProgress": "check-progress",
    "RecordOutcome": "record-outcome",
    "UndoEpisode": "undo-episode",
    "HandleSpotInterruption": "spot",
    "HandleRebalanceRecommendation": "rebalance",
    "HandleLifecycleAction": "lifecycle",
    "HandleNotice": "notice",
    "HandleExecutionEnd": "execution-end",
}
"""The ends of the names by which stacks/member.yaml trusts roles of the hub."""
_OF_LAMBDA = {
    "AWSLambdaBasicExecutionRole",
    "AWSLambdaSQSQueueExecutionRole",
    "AWSLambdaDynamoDBExecutionRole",
    "AWSXRayDaemonWriteAccess",
    "AWSXrayWriteOnlyAccess",
}
"""Policies of AWS that SAM attaches to roles of functions and state machines."""
_INLINE = re.compile(
    r"reach-members|act|never|start-sweep|[A-Za-z]+(RolePolicy\d+|OnFailureSQSPolicy)"
)
"""Names of inline policies: of the template, and those that SAM makes up."""
_LISTENING = ("Enabled", "Enabling", "Creating", "Updating")


def role_names(world: World) -> Finding:
    """The roles that members trust, and the one that put_away assumes, have their fixed names,
    whole, and no role's name is longer than 64.

    Source: derived from real names: how CloudFormation shortens names is not documented.
    """
    roles = world.of_type("AWS::IAM::Role")
    long = [name for name, ident in roles.items() if len(ident) > _NAME_LIMIT]
    wrong = [
        f"{function}: {roles.get(f'{function}FunctionRole', 'none')}"
        for function, end in MEMBER_ROLES.items()
        if roles.get(f"{function}FunctionRole")
        != f"{world.stack['StackName']}-{world.region}-{end}"
    ]
    actor = roles.get("ActorRole", "none")
    if actor != f"{world.stack['StackName']}-{world.region}-actor":
        wrong.append(f"Actor: {actor}")
    if long or wrong:
        return refuted(
            "; ".join([*long, *wrong]), "member accounts will refuse these roles: update the stack"
        )
    longest = max(map(len, roles.values()))
    return confirmed(
        f"{len(MEMBER_ROLES) + 1} fixed names; the longest of {len(roles)} has {longest}"
    )


def role_policies(world: World) -> Finding:
    """No role of the stack has a policy that the template did not give it.

    Source: docs/threats-aws.md: each right is held by a test of the template; one attached by hand
    is not.
    """
    own = set(world.of_type("AWS::IAM::ManagedPolicy").values())
    extra = []
    for name, role in world.of_type("AWS::IAM::Role").items():
        attached = world.call("iam:ListAttachedRolePolicies", RoleName=role)["AttachedPolicies"]
        extra += [
            f"{name} has {one['PolicyName']}"
            for one in attached
            if one["PolicyArn"] not in own and one["PolicyName"] not in _OF_LAMBDA
        ]
        inline = world.call("iam:ListRolePolicies", RoleName=role)["PolicyNames"]
        extra += [f"{name} has {one}" for one in inline if not _INLINE.fullmatch(one)]
    if extra:
        return refuted(
            "; ".join(extra), "detach them, then look into CloudTrail for who attached them"
        )
    return confirmed(
        f"{plural(len(world.of_type('AWS::IAM::Role')), 'role')}, none with a policy from elsewhere"
    )


def drift(world: World) -> Finding:
    """Nothing of the stack was changed beside CloudFormation.

    Source: CloudFormation API, DescribeStackResourceDrifts; reads the last detection and starts
    none.
    """
    status = world.stack.get("DriftInformation", {}).get("StackDriftStatus", "NOT_CHECKED")
    command = f"aws cloudformation detect-stack-drift --stack-name {world.stack_name}"
    if status not in ("IN_SYNC", "DRIFTED"):
        return unknown(
            "drift was never looked for", f"run `{command}`, and this again after a minute"
        )
    if status == "IN_SYNC":
        return confirmed("IN_SYNC at the last detection")
    drifted = [
        one["LogicalResourceId"]
        for one in world.all(
            "cloudformation:DescribeStackResourceDrifts",
            "StackResourceDrifts",
            StackName=world.stack_name,
            StackResourceDriftStatusFilters=["MODIFIED", "DELETED"],
        )
    ]
    return refuted(
        f"changed by hand: {', '.join(drifted)}", f"undo that, or deploy again; then `{command}`"
    )


def buckets(world: World) -> Finding:
    """The buckets of policy and audit keep versions; S3 locks the audit as the parameters say.

    Source: S3 User Guide; Object Lock cannot be turned off again.
    """
    wrong = []
    names = {name: world.physical(name) for name in ("PolicyBucket", "AuditBucket")}
    for name, bucket in names.items():
        if world.call("s3:GetBucketVersioning", Bucket=bucket).get("Status") != "Enabled":
            wrong.append(f"{name} keeps no versions")
    lock = _lock(world, names["AuditBucket"])
    retention = lock.get("Rule", {}).get("DefaultRetention", {}).get("Mode", "")
    wanted = world.parameters.get("AuditLockMode", "")
    if lock.get("ObjectLockEnabled") != "Enabled" or retention != wanted:
        wrong.append(
            f"AuditBucket: Object Lock {lock.get('ObjectLockEnabled')}, mode {retention or 'none'}"
        )
    told = world.call("s3:GetBucketNotificationConfiguration", Bucket=names["PolicyBucket"])
    if "EventBridgeConfiguration" not in told:
        wrong.append(
            "PolicyBucket notifies EventBridge of nothing: a new policy is seen by the "
            "next sweep only"
        )
    if wrong:
        return refuted(
            "; ".join(wrong), "deploy again; if it stays, look for an SCP or a Config rule"
        )
    return confirmed(f"versions in both; Object Lock is enabled, its mode is {retention or 'none'}")


def _lock(world: World, bucket: str) -> Mapping[str, Any]:
    try:
        answer = world.call("s3:GetObjectLockConfiguration", Bucket=bucket)
    except CloudError as error:
        if error.code == "ObjectLockConfigurationNotFoundError":
            return {}
        raise
    found: Mapping[str, Any] = answer["ObjectLockConfiguration"]
    return found


def table(world: World) -> Finding:
    """The state table can be restored to any second, is encrypted by KMS, and forgets by itself.

    Source: DynamoDB API; the audit reads its stream, which needs old and new images.
    """
    name = world.physical("StateTable")
    found = world.call("dynamodb:DescribeTable", TableName=name)["Table"]
    backups = world.call("dynamodb:DescribeContinuousBackups", TableName=name)[
        "ContinuousBackupsDescription"
    ]
    ttl = world.call("dynamodb:DescribeTimeToLive", TableName=name)["TimeToLiveDescription"]
    recovery = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    wrong = [
        text
        for text, is_right in {
            "no point-in-time recovery": recovery == "ENABLED",
            "not encrypted by KMS": found.get("SSEDescription", {}).get("Status") == "ENABLED",
            "no stream of both images": found.get("StreamSpecification", {}).get("StreamViewType")
            == "NEW_AND_OLD_IMAGES",
            "no time to live": ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"),
        }.items()
        if not is_right
    ]
    return (
        refuted("; ".join(wrong), "deploy again")
        if wrong
        else confirmed("recovery, key, stream and expiry")
    )


_SEALING_KEYS = ("AlertKey", "OpeningKey", "AnswerKey", "DeliveryKey", "ExpiryKey")


def keys(world: World) -> Finding:
    """The stack's keys are enabled, and those of seals are HMAC keys.

    Source: KMS API, DescribeKey; decisions 0009 and 0011.
    """
    wrong = []
    for name in ("Key", *_SEALING_KEYS):
        found = world.call("kms:DescribeKey", KeyId=world.physical(name))["KeyMetadata"]
        if found["KeyState"] != "Enabled":
            wrong.append(f"{name} is {found['KeyState']}")
        if name in _SEALING_KEYS and found.get("KeySpec") != "HMAC_256":
            wrong.append(f"{name} is {found.get('KeySpec')}")
    if wrong:
        return refuted("; ".join(wrong), "enable them; cancel a deletion")
    return confirmed("all are enabled")


def state_machines(world: World) -> Finding:
    """Step Functions accepts both definitions as they are deployed.

    Source: Step Functions API, ValidateStateMachineDefinition.
    """
    said, wrong = [], []
    for name, arn in world.of_type("AWS::StepFunctions::StateMachine").items():
        found = world.call("states:DescribeStateMachine", stateMachineArn=arn)
        answer = world.call(
            "states:ValidateStateMachineDefinition", definition=found["definition"], type="STANDARD"
        )
        problems = [f"{one['code']} {one.get('location', '')}" for one in answer["diagnostics"]]
        said.append(f"{name}: {answer['result']}")
        if answer["result"] != "OK" or found["status"] != "ACTIVE" or problems:
            wrong.append(f"{name} ({found['status']}): {', '.join(problems) or answer['result']}")
    return (
        refuted("; ".join(wrong), "report this; deploy the release before")
        if wrong
        else confirmed("; ".join(said))
    )


def api_throttles(world: World) -> Finding:
    """Every route of the API has a throttle of its own: a flood of one leaves answers alone.

    Source: API Gateway Developer Guide: HTTP APIs throttle per route, best effort; WAF does not
    cover them.
    """
    api = world.physical("Api")
    stages = {
        one["StageName"]: one for one in world.all("apigateway:GetStages", "Items", ApiId=api)
    }
    settings = stages["$default"].get("RouteSettings", {})
    routes = [one["RouteKey"] for one in world.all("apigateway:GetRoutes", "Items", ApiId=api)]
    bare = [route for route in routes if not settings.get(route, {}).get("ThrottlingRateLimit")]
    if bare:
        return refuted(
            f"without: {', '.join(bare)}", "deploy again; the stage's default counts meanwhile"
        )
    return confirmed(f"{plural(len(routes), 'route')}, each with its own")


def api_signatures(world: World) -> Finding:
    """Every route of the command line takes signed calls only.

    Source: API Gateway API, AuthorizationType; the function trusts the caller that the API names.
    """
    routes = world.all("apigateway:GetRoutes", "Items", ApiId=world.physical("Api"))
    found = {
        one["RouteKey"]: one.get("AuthorizationType")
        for one in routes
        if " /api/" in one["RouteKey"]
    }
    bare = sorted(key for key, kind in found.items() if kind != "AWS_IAM")
    if bare or not found:
        return refuted(
            f"without: {', '.join(bare) or 'all'}", "deploy again at once; look into CloudTrail"
        )
    return confirmed(f"{plural(len(found), 'route')} by AWS_IAM")


def mappings(world: World) -> Finding:
    """Lambda reads the stream of the audit and the queues of warnings and messages.

    Source: Lambda API, GetEventSourceMapping: a mapping that lacks a right of the role disables
    itself.
    """
    wrong, count = [], 0
    for name, ident in world.of_type("AWS::Lambda::EventSourceMapping").items():
        found = world.call("lambda:GetEventSourceMapping", UUID=ident)
        count += 1
        result = found.get("LastProcessingResult", "")
        if found["State"] not in _LISTENING or result.startswith("PROBLEM"):
            wrong.append(f"{name}: {found['State']} {printable(result)}".rstrip())
    if wrong:
        return refuted("; ".join(wrong), "enable them; the log of the function says why")
    return confirmed(f"{plural(count, 'mapping')} read")


def subscriptions(world: World) -> Finding:
    """Somebody confirmed to get alerts: SNS takes messages also when it has nobody to give them to.

    Source: SNS Developer Guide; the address gets a mail with a link, once.
    """
    listed = list(
        world.all(
            "sns:ListSubscriptionsByTopic", "Subscriptions", TopicArn=world.outputs["AlertTopicArn"]
        )
    )
    people = [one for one in listed if one["Protocol"] != "sqs"]
    waiting = [one for one in people if not one["SubscriptionArn"].startswith("arn:")]
    if len(people) == len(waiting) and world.parameters.get("EmailSender"):
        return confirmed("nobody; contacts of the policy get mail by SES")
    if len(people) == len(waiting):
        secret = world.call(
            "secretsmanager:DescribeSecret", SecretId=world.physical("ChannelSecret")
        )
        if len(secret.get("VersionIdsToStages", {})) > 1:
            return confirmed("nobody; contacts of the policy have channels")
        seen = (
            f"{plural(len(waiting), 'address')} wait to be confirmed"
            if waiting
            else "nobody subscribes"
        )
        advice = "confirm the mail of AWS Notifications, or subscribe an address (ALERT_EMAIL=)"
        return refuted(seen, advice)
    return confirmed(f"{len(people) - len(waiting)} confirmed, {len(waiting)} waiting")


def alarm_actions(world: World) -> Finding:
    """CloudWatch may publish alarms to the encrypted topic.

    Source: the statement Services of Key in template.yaml; AWS documents no condition for all of
    these.
    """
    said = [
        one["HistorySummary"]
        for alarm in world.of_type("AWS::CloudWatch::Alarm").values()
        for one in world.call(
            "cloudwatch:DescribeAlarmHistory",
            AlarmName=alarm,
            HistoryItemType="Action",
            StartDate=world.now - timedelta(days=30),
            EndDate=world.now,
        )["AlarmHistoryItems"]
    ]
    failed = [one for one in said if "Failed" in one]
    if failed:
        return refuted(
            printable(failed[0]),
            "the key's policy must let cloudwatch.amazonaws.com use it: deploy again",
        )
    if not said:
        raise NothingToSee(
            "no alarm has fired for 30 days", "fire one: aws cloudwatch set-alarm-state"
        )
    return confirmed(f"{plural(len(said), 'action')} in 30 days, none failed")


def event_delivery(world: World) -> Finding:
    """EventBridge reaches functions and encrypted queues: nothing failed in a week.

    Source: memory: the metric FailedInvocations exists only where something failed.
    """
    rules = list(world.of_type("AWS::Events::Rule").values())
    failed = Counter[str]()
    for part in in_parts(rules, 250):
        queries = [
            {
                "Id": f"q{number}",
                "Label": rule,
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/Events",
                        "MetricName": "FailedInvocations",
                        "Dimensions": _of_rule(rule),
                    },
                    "Period": 86400,
                    "Stat": "Sum",
                },
            }
            for number, rule in enumerate(part)
        ]
        found = world.all(
            "cloudwatch:GetMetricData",
            "MetricDataResults",
            MetricDataQueries=queries,
            StartTime=world.now - timedelta(days=7),
            EndTime=world.now,
        )
        for one in found:
            failed[one["Label"]] += int(sum(one["Values"]))
    if failed.total():
        said = ", ".join(f"{rule}: {count}" for rule, count in failed.items() if count)
        return refuted(said, "the queue EventFailures says why (docs/events.md)")
    return confirmed(f"{plural(len(rules), 'rule')}, no failed delivery in 7 days")


def _of_rule(ident: str) -> list[dict[str, str]]:
    """The dimensions of a rule's metrics: one of a bus of its own is known as `bus|rule`."""
    bus, _, rule = ident.rpartition("|")
    named = {"EventBusName": bus, "RuleName": rule} if bus else {"RuleName": rule}
    return [{"Name": name, "Value": value} for name, value in named.items()]


def session_names(world: World) -> Finding:
    """CloudTrail names a function's calls after the function: sessions of Lambda roles bear its
    name.

    Source: memory; CloudTrail shows calls about 15 minutes later.
    """
    name, role = world.physical("SweepTargetFunction"), world.physical("SweepTargetFunctionRole")
    answer = world.call(
        "cloudtrail:LookupEvents",
        LookupAttributes=[{"AttributeKey": "Username", "AttributeValue": name}],
        StartTime=world.now - timedelta(days=1),
        EndTime=world.now,
        MaxResults=10,
    )
    issuers = set(_issuers(answer["Events"]))
    if issuers == {role}:
        return confirmed(f"calls of {name} are by a session of that name of {role}")
    if issuers:
        return refuted(
            f"sessions named {name} are of {', '.join(sorted(issuers))}", "look into CloudTrail"
        )
    return unknown(
        f"no call of a session named {name} in a day", "run it an hour after the first sweep"
    )


def _issuers(events: list[dict[str, str]]) -> Iterator[str]:
    for one in events:
        identity = json.loads(one["CloudTrailEvent"]).get("userIdentity", {})
        if issuer := identity.get("sessionContext", {}).get("sessionIssuer", {}).get("userName"):
            yield str(issuer)


def checkpoint_document(world: World) -> Finding:
    """The SSM document of the checkpoint hook is there, and selected instances can be sent it.

    Source: docs/interruptions.md: it is sent within the two minutes of a warning.
    """
    document = world.parameters.get("CheckpointDocumentName", "")
    if not document:
        raise NothingToSee(
            "CheckpointDocumentName is not set: no hook runs", "set it, if jobs should save"
        )
    status = world.call("ssm:DescribeDocument", Name=document)["Document"]["Status"]
    if status != "Active":
        return refuted(f"{document} is {status}", "deploy stacks/telemetry.yaml again")
    ids = [one["InstanceId"] for one in world.instances]
    online = {
        one["InstanceId"]
        for part in in_parts(ids, 50)
        for one in world.all(
            "ssm:DescribeInstanceInformation",
            "InstanceInformationList",
            Filters=[{"Key": "InstanceIds", "Values": list(part)}],
        )
        if one.get("PingStatus") == "Online"
    }
    seen = (
        f"{document} is active; {len(online)} of {len(ids)} instances are online in Systems Manager"
    )
    if online:
        return confirmed(seen)
    return refuted(seen, "give them AmazonSSMManagedInstanceCore and a route to Systems Manager")


def link_keys(world: World) -> Finding:
    """Secrets Manager has rotated the keys of links: the first rotation comes with the stack.

    Source: LinkKeyRotation of template.yaml.
    """
    found = world.call("secretsmanager:DescribeSecret", SecretId=world.physical("LinkKeySecret"))
    if not found.get("RotationEnabled"):
        return refuted("rotation is off", "deploy again")
    if "LastRotatedDate" not in found:
        return refuted("never rotated", "the log of rotate_link_keys says why")
    return confirmed(f"last rotated {iso(found['LastRotatedDate'])}")


def reserved_concurrency(world: World) -> Finding:
    """Lambda reserves for put_away what ReservedConcurrency says.

    Source: Lambda API, GetFunctionConcurrency.
    """
    wanted = int(world.parameters.get("ReservedConcurrency", "0")) or None
    answer = world.call(
        "lambda:GetFunctionConcurrency", FunctionName=world.physical("PutAwayFunction")
    )
    found = answer.get("ReservedConcurrentExecutions")
    if found == wanted:
        return confirmed(f"{found or 'none'} reserved")
    seen = f"{'none' if found is None else found} reserved, {wanted or 'none'} wanted"
    return refuted(seen, "deploy again; at 0 it would not run at all")
