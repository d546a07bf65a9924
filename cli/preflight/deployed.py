"""Checks of the deployed stack: whether AWS made it as the template means it. Reads only."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import timedelta
from typing import Any

from cli.preflight.world import Finding, NothingToSee, World, confirmed, refuted, unknown
from governor.core.errors import CloudError
from governor.core.units import in_parts, iso, plural, printable

_NAME_LIMIT = 64
_RULES_AT_ONCE = 250
"""Rules of one call of GetMetricData, which takes 500 queries."""
MEMBER_ROLES = {
    "SweepTarget": "sweep-target",
    "CheckHealth": "check-health",
    "ScanAccelerators": "scan",
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
    """The roles that members trust, and the one that put_away assumes, have their full fixed names,
    and no role's name is longer than 64 characters.

    Source: derived from real names: how CloudFormation shortens names is not documented.
    """
    roles = world.of_type("AWS::IAM::Role")
    problems = [name for name, role in roles.items() if len(role) > _NAME_LIMIT]
    prefix = f"{world.stack['StackName']}-{world.region}"
    for function, end in MEMBER_ROLES.items():
        role = roles.get(f"{function}FunctionRole", "none")
        if role != f"{prefix}-{end}":
            problems.append(f"{function}: {role}")
    actor = roles.get("ActorRole", "none")
    if actor != f"{prefix}-actor":
        problems.append(f"Actor: {actor}")
    if problems:
        return refuted(
            "; ".join(problems), "member accounts will refuse these roles: update the stack"
        )
    longest = max(len(role) for role in roles.values())
    return confirmed(
        f"{len(MEMBER_ROLES) + 1} fixed names; the longest of {len(roles)} has {longest}"
    )


def role_policies(world: World) -> Finding:
    """No role of the stack has a policy that the template did not give it.

    Source: docs/threats.md: each permission is held by a test of the template; one attached by hand
    is not.
    """
    own_arns = set(world.of_type("AWS::IAM::ManagedPolicy").values())
    roles = world.of_type("AWS::IAM::Role")
    foreign = []
    for name, role in roles.items():
        for policy in _foreign_policies(world, role, own_arns):
            foreign.append(f"{name} has {policy}")
    if foreign:
        return refuted(
            "; ".join(foreign), "detach them, and find out in CloudTrail who attached them"
        )
    return confirmed(f"{plural(len(roles), 'role')}, none with a policy from elsewhere")


def _foreign_policies(world: World, role: str, own_arns: Set[str]) -> Iterator[str]:
    """Yield the names of the role's policies that neither the template nor SAM gave it."""
    attached = world.call("iam:ListAttachedRolePolicies", RoleName=role)["AttachedPolicies"]
    for policy in attached:
        is_own = policy["PolicyArn"] in own_arns or policy["PolicyName"] in _OF_LAMBDA
        if not is_own:
            yield policy["PolicyName"]
    for name in world.call("iam:ListRolePolicies", RoleName=role)["PolicyNames"]:
        if not _INLINE.fullmatch(name):
            yield name


def drift(world: World) -> Finding:
    """Nothing of the stack was changed outside CloudFormation.

    Source: CloudFormation API, DescribeStackResourceDrifts; reads the last detection and starts
    none.
    """
    status = world.stack.get("DriftInformation", {}).get("StackDriftStatus", "NOT_CHECKED")
    command = f"aws cloudformation detect-stack-drift --stack-name {world.stack_name}"
    if status not in ("IN_SYNC", "DRIFTED"):
        return unknown(
            "drift was never detected", f"run `{command}`, and this again after a minute"
        )
    if status == "IN_SYNC":
        return confirmed("IN_SYNC at the last detection")
    drifts = world.all(
        "cloudformation:DescribeStackResourceDrifts",
        "StackResourceDrifts",
        StackName=world.stack_name,
        StackResourceDriftStatusFilters=["MODIFIED", "DELETED"],
    )
    names = [resource["LogicalResourceId"] for resource in drifts]
    return refuted(
        f"changed by hand: {', '.join(names)}", f"undo that, or deploy again; then `{command}`"
    )


def buckets(world: World) -> Finding:
    """The buckets of policy and audit keep versions, and S3 locks the audit as the parameters say.

    Source: S3 User Guide; Object Lock cannot be turned off again.
    """
    wrong = []
    policy_bucket = world.physical("PolicyBucket")
    audit_bucket = world.physical("AuditBucket")
    for name, bucket in (("PolicyBucket", policy_bucket), ("AuditBucket", audit_bucket)):
        versioning = world.call("s3:GetBucketVersioning", Bucket=bucket)
        if versioning.get("Status") != "Enabled":
            wrong.append(f"{name} keeps no versions")
    lock = _lock(world, audit_bucket)
    state = lock.get("ObjectLockEnabled")
    retention = lock.get("Rule", {}).get("DefaultRetention", {}).get("Mode", "")
    wanted = world.parameters.get("AuditLockMode", "")
    if state != "Enabled" or retention != wanted:
        wrong.append(f"AuditBucket: Object Lock {state}, mode {retention or 'none'}")
    notifications = world.call("s3:GetBucketNotificationConfiguration", Bucket=policy_bucket)
    if "EventBridgeConfiguration" not in notifications:
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
    """Return the Object Lock of a bucket, or an empty mapping if it has none."""
    try:
        answer = world.call("s3:GetObjectLockConfiguration", Bucket=bucket)
    except CloudError as error:
        if error.code == "ObjectLockConfigurationNotFoundError":
            return {}
        raise
    configuration: Mapping[str, Any] = answer["ObjectLockConfiguration"]
    return configuration


def table(world: World) -> Finding:
    """The state table can be restored to any second, is encrypted by KMS, and deletes old items.

    Source: DynamoDB API; the audit reads its stream, which needs old and new images.
    """
    name = world.physical("StateTable")
    described = world.call("dynamodb:DescribeTable", TableName=name)["Table"]
    backups = world.call("dynamodb:DescribeContinuousBackups", TableName=name)
    recovery = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    expiry = world.call("dynamodb:DescribeTimeToLive", TableName=name)["TimeToLiveDescription"]
    encryption = described.get("SSEDescription", {})
    stream = described.get("StreamSpecification", {})
    wrong = []
    if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
        wrong.append("no point-in-time recovery")
    if encryption.get("Status") != "ENABLED":
        wrong.append("not encrypted by KMS")
    if stream.get("StreamViewType") != "NEW_AND_OLD_IMAGES":
        wrong.append("no stream of both images")
    if expiry.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        wrong.append("no time to live")
    if wrong:
        return refuted("; ".join(wrong), "deploy again")
    return confirmed("recovery, key, stream and expiry")


_SEALING_KEYS = ("AlertKey", "OpeningKey", "AnswerKey", "DeliveryKey", "ExpiryKey")


def keys(world: World) -> Finding:
    """The stack's keys are enabled, and those of seals are HMAC keys.

    Source: KMS API, DescribeKey; decisions 0009 and 0011.
    """
    wrong = []
    for name in ("Key", *_SEALING_KEYS):
        key = world.call("kms:DescribeKey", KeyId=world.physical(name))["KeyMetadata"]
        if key["KeyState"] != "Enabled":
            wrong.append(f"{name} is {key['KeyState']}")
        if name in _SEALING_KEYS and key.get("KeySpec") != "HMAC_256":
            wrong.append(f"{name} is {key.get('KeySpec')}")
    if wrong:
        return refuted("; ".join(wrong), "enable them; cancel a deletion")
    return confirmed("all are enabled")


def state_machines(world: World) -> Finding:
    """Step Functions accepts both definitions as they are deployed.

    Source: Step Functions API, ValidateStateMachineDefinition.
    """
    verdicts = []
    wrong = []
    for name, arn in world.of_type("AWS::StepFunctions::StateMachine").items():
        machine = world.call("states:DescribeStateMachine", stateMachineArn=arn)
        validation = world.call(
            "states:ValidateStateMachineDefinition",
            definition=machine["definition"],
            type="STANDARD",
        )
        problems = []
        for diagnostic in validation["diagnostics"]:
            problems.append(f"{diagnostic['code']} {diagnostic.get('location', '')}")
        verdict = validation["result"]
        state = machine["status"]
        verdicts.append(f"{name}: {verdict}")
        is_accepted = verdict == "OK" and state == "ACTIVE" and not problems
        if not is_accepted:
            wrong.append(f"{name} ({state}): {', '.join(problems) or verdict}")
    if wrong:
        return refuted("; ".join(wrong), "report this, and deploy the previous release")
    return confirmed("; ".join(verdicts))


def api_throttles(world: World) -> Finding:
    """Every route of the API has a throttle of its own: a flood of one cannot block answers.

    Source: API Gateway Developer Guide: HTTP APIs throttle per route, best effort; WAF does not
    cover them.
    """
    api = world.physical("Api")
    stages = world.all("apigateway:GetStages", "Items", ApiId=api)
    stage_by_name = {stage["StageName"]: stage for stage in stages}
    settings = stage_by_name["$default"].get("RouteSettings", {})
    count = 0
    unthrottled = []
    for route in world.all("apigateway:GetRoutes", "Items", ApiId=api):
        count += 1
        key = route["RouteKey"]
        if not settings.get(key, {}).get("ThrottlingRateLimit"):
            unthrottled.append(key)
    if unthrottled:
        return refuted(
            f"no rate limit: {', '.join(unthrottled)}",
            "deploy again; until then, the stage's default applies",
        )
    return confirmed(f"{plural(count, 'route')}, each with its own")


def api_signatures(world: World) -> Finding:
    """Every route of the command line takes signed calls only.

    Source: API Gateway API, AuthorizationType; the function trusts the caller that the API names.
    """
    routes = world.all("apigateway:GetRoutes", "Items", ApiId=world.physical("Api"))
    authorization_by_route = {}
    for route in routes:
        if " /api/" in route["RouteKey"]:
            authorization_by_route[route["RouteKey"]] = route.get("AuthorizationType")
    unsigned = sorted(key for key, kind in authorization_by_route.items() if kind != "AWS_IAM")
    if unsigned or not authorization_by_route:
        return refuted(
            f"unsigned: {', '.join(unsigned) or 'all'}",
            "deploy again at once; look into CloudTrail",
        )
    return confirmed(f"{plural(len(authorization_by_route), 'route')} by AWS_IAM")


def mappings(world: World) -> Finding:
    """Lambda reads the stream of the audit and the queues of warnings and messages.

    Source: Lambda API, GetEventSourceMapping: a mapping that lacks a permission of the role
    disables itself.
    """
    wrong = []
    ids = world.of_type("AWS::Lambda::EventSourceMapping")
    for name, mapping_id in ids.items():
        mapping = world.call("lambda:GetEventSourceMapping", UUID=mapping_id)
        state = mapping["State"]
        last_result = mapping.get("LastProcessingResult", "")
        if state not in _LISTENING or last_result.startswith("PROBLEM"):
            wrong.append(f"{name}: {state} {printable(last_result)}".rstrip())
    if wrong:
        return refuted("; ".join(wrong), "enable them; the log of the function says why")
    return confirmed(f"{plural(len(ids), 'mapping')} read")


def subscriptions(world: World) -> Finding:
    """Somebody has confirmed a subscription; SNS accepts alerts even if nobody gets them.

    Source: SNS Developer Guide; the address gets an email with a link, once.
    """
    confirmed_count = 0
    waiting_count = 0
    topic = world.outputs["AlertTopicArn"]
    for subscription in world.all("sns:ListSubscriptionsByTopic", "Subscriptions", TopicArn=topic):
        if subscription["Protocol"] == "sqs":
            continue
        if subscription["SubscriptionArn"].startswith("arn:"):
            confirmed_count += 1
        else:
            waiting_count += 1
    if confirmed_count:
        return confirmed(f"{confirmed_count} confirmed, {waiting_count} waiting")
    if world.parameters.get("EmailSender"):
        return confirmed("nobody; contacts of the policy get email by SES")
    # The stack makes the first version of the secret; somebody who fills it in, a second one.
    secret = world.call("secretsmanager:DescribeSecret", SecretId=world.physical("ChannelSecret"))
    if len(secret.get("VersionIdsToStages", {})) > 1:
        return confirmed("nobody; contacts of the policy have channels")
    seen = "nobody subscribes"
    if waiting_count:
        seen = f"{plural(waiting_count, 'address')} wait to be confirmed"
    advice = "confirm the email of AWS Notifications, or subscribe an address (ALERT_EMAIL=)"
    return refuted(seen, advice)


def alarm_actions(world: World) -> Finding:
    """CloudWatch may publish alarms to the encrypted topic.

    Source: the statement Services of Key in template.yaml; AWS documents no condition for all of
    these.
    """
    summaries: list[str] = []
    for alarm in world.of_type("AWS::CloudWatch::Alarm").values():
        history = world.call(
            "cloudwatch:DescribeAlarmHistory",
            AlarmName=alarm,
            HistoryItemType="Action",
            StartDate=world.now - timedelta(days=30),
            EndDate=world.now,
        )
        summaries += [action["HistorySummary"] for action in history["AlarmHistoryItems"]]
    failed = [summary for summary in summaries if "Failed" in summary]
    if failed:
        return refuted(
            printable(failed[0]),
            "the key's policy must let cloudwatch.amazonaws.com use it: deploy again",
        )
    if not summaries:
        raise NothingToSee(
            "no alarm has fired for 30 days", "fire one: aws cloudwatch set-alarm-state"
        )
    return confirmed(f"{plural(len(summaries), 'action')} in 30 days, none failed")


def event_delivery(world: World) -> Finding:
    """EventBridge reaches the functions and the encrypted queues: no delivery failed in the last 7
    days.

    Source: memory: the metric FailedInvocations exists only where something failed.
    """
    rules = list(world.of_type("AWS::Events::Rule").values())
    failures_by_rule = Counter[str]()
    for part in in_parts(rules, _RULES_AT_ONCE):
        queries = [_failures_query(number, rule) for number, rule in enumerate(part)]
        series = world.all(
            "cloudwatch:GetMetricData",
            "MetricDataResults",
            MetricDataQueries=queries,
            StartTime=world.now - timedelta(days=7),
            EndTime=world.now,
        )
        for points in series:
            failures_by_rule[points["Label"]] += int(sum(points["Values"]))
    if failures_by_rule.total():
        failures = []
        for rule, count in failures_by_rule.items():
            if count:
                failures.append(f"{rule}: {count}")
        return refuted(", ".join(failures), "the queue EventFailures says why (docs/events.md)")
    return confirmed(f"{plural(len(rules), 'rule')}, no failed delivery in 7 days")


def _failures_query(number: int, rule: str) -> dict[str, Any]:
    metric = {
        "Namespace": "AWS/Events",
        "MetricName": "FailedInvocations",
        "Dimensions": _dimensions_of_rule(rule),
    }
    return {
        "Id": f"q{number}",
        "Label": rule,
        "MetricStat": {"Metric": metric, "Period": 86400, "Stat": "Sum"},
    }


def _dimensions_of_rule(physical_id: str) -> list[dict[str, str]]:
    """Return the dimensions of a rule's metrics.

    The physical id of a rule on a bus of its own is `bus|rule`.
    """
    bus, _, rule = physical_id.rpartition("|")
    dimensions = []
    if bus:
        dimensions.append({"Name": "EventBusName", "Value": bus})
    dimensions.append({"Name": "RuleName", "Value": rule})
    return dimensions


def session_names(world: World) -> Finding:
    """CloudTrail shows which function made a call: the session of a Lambda role has the function's
    name.

    Source: memory; CloudTrail shows calls about 15 minutes later.
    """
    name = world.physical("SweepTargetFunction")
    role = world.physical("SweepTargetFunctionRole")
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
    """Yield the name of the role behind each call that a session of a role made."""
    for event in events:
        identity = json.loads(event["CloudTrailEvent"]).get("userIdentity", {})
        issuer = identity.get("sessionContext", {}).get("sessionIssuer", {})
        role = issuer.get("userName")
        if role:
            yield str(role)


def checkpoint_document(world: World) -> Finding:
    """The SSM document of the checkpoint hook exists, and can be sent to selected instances.

    Source: docs/interruptions.md: it is sent within the two minutes of a warning.
    """
    document = world.parameters.get("CheckpointDocumentName", "")
    if not document:
        raise NothingToSee(
            "CheckpointDocumentName is not set: no hook runs",
            "set it if jobs should save their work",
        )
    status = world.call("ssm:DescribeDocument", Name=document)["Document"]["Status"]
    if status != "Active":
        return refuted(f"{document} is {status}", "deploy stacks/telemetry.yaml again")
    ids = [instance["InstanceId"] for instance in world.instances]
    online = _online(world, ids)
    seen = (
        f"{document} is active; {len(online)} of {len(ids)} instances are online in Systems Manager"
    )
    if online:
        return confirmed(seen)
    return refuted(seen, "give them AmazonSSMManagedInstanceCore and a route to Systems Manager")


def _online(world: World, instance_ids: Sequence[str]) -> set[str]:
    """Return the ids of those instances whose agent of Systems Manager answers."""
    online = set()
    for part in in_parts(instance_ids, 50):
        filters = [{"Key": "InstanceIds", "Values": list(part)}]
        for instance in world.all(
            "ssm:DescribeInstanceInformation", "InstanceInformationList", Filters=filters
        ):
            if instance.get("PingStatus") == "Online":
                online.add(instance["InstanceId"])
    return online


def link_keys(world: World) -> Finding:
    """Secrets Manager has rotated the keys that sign links; the first rotation comes with the
    stack.

    Source: LinkKeyRotation of template.yaml.
    """
    secret = world.call("secretsmanager:DescribeSecret", SecretId=world.physical("LinkKeySecret"))
    if not secret.get("RotationEnabled"):
        return refuted("rotation is off", "deploy again")
    if "LastRotatedDate" not in secret:
        return refuted("never rotated", "the log of rotate_link_keys says why")
    return confirmed(f"last rotated {iso(secret['LastRotatedDate'])}")


def reserved_concurrency(world: World) -> Finding:
    """Lambda reserves as many executions for put_away as ReservedConcurrency says.

    Source: Lambda API, GetFunctionConcurrency.
    """
    wanted = int(world.parameters.get("ReservedConcurrency", "0")) or None
    answer = world.call(
        "lambda:GetFunctionConcurrency", FunctionName=world.physical("PutAwayFunction")
    )
    reserved = answer.get("ReservedConcurrentExecutions")
    if reserved == wanted:
        return confirmed(f"{reserved or 'none'} reserved")
    actual = "none" if reserved is None else str(reserved)
    seen = f"{actual} reserved, {wanted or 'none'} wanted"
    return refuted(seen, "deploy again; at 0 it would not run at all")
