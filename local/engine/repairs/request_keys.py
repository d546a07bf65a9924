"""The subject of a request, for IAM: its resources, their tags, and the keys that conditions ask
for.

- AWS: a call about several resources is allowed for each of them, and knows the tags of each.
  Engine: looks at one at most, and at the tags of what it holds itself, not of what is simulated.
- AWS: `ses:SendEmail` is allowed for the identity that sends, and has `ses:FromAddress`. Engine:
  neither.
- AWS: `s3:PutObject` has `s3:if-none-match` and the key that encrypts. Engine: no such keys.
- AWS: requests come over TLS. Engine: without, on loopback; what refuses plain HTTP would refuse
  everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from local.engine.repairs.table_keys import parsed


class Check(NamedTuple):
    """One resource that a call must be allowed for; `action` is another than the call's own, if
    any."""

    arn: str
    keys: dict[str, Any]
    action: str | None = None


_of_request: ContextVar[list[Check]] = ContextVar("of_request")
_PLACES = {"InstanceId": "instance", "SpotInstanceRequestId": "spot-instances-request"}
_PREFIXES = {"i": "instance", "vol": "volume"}


def repair(simulation: Any) -> None:
    """Wraps the engine's functions; it looks them up by name at every request."""
    from ministack.core import iam_actions, iam_evaluator

    named, context, enforce = (
        iam_actions.extract_resource_arn,
        iam_actions.s3_service_context,
        iam_evaluator.enforce,
    )
    resolve = iam_evaluator._resolve_condition_key

    def noting(
        service: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        query: Mapping[str, Any],
        region: str,
        account: str,
    ) -> str:
        place = f"{region}:{account}"
        checks = list(_checks(simulation, service, headers, body, query, account, region, place))
        _of_request.set(checks)
        first = named(service, method, path, headers, body, query, region, account)
        return checks[0].arn if checks else str(first)

    def enforced(access_key: Any, action: str, service: str, region: str, **more: Any) -> Any:
        checks = _of_request.get([])
        _of_request.set([])
        if not checks:
            return enforce(access_key, action, service, region, **more)
        given = more.pop("service_context", None) or {}
        more.pop("resource_arn", None)
        for one in checks:
            keys = {**given, **one.keys}
            denied = enforce(
                access_key,
                one.action or action,
                service,
                region,
                resource_arn=one.arn,
                service_context=keys,
            )
            if denied:
                return denied
        return None

    def of_objects(action: str, query: Any, path: str = "", headers: Any = None) -> dict[str, Any]:
        found = dict(context(action, query, path, headers))
        for name in ("if-none-match", "x-amz-server-side-encryption-aws-kms-key-id"):
            if given := (headers or {}).get(name):
                found[f"s3:{name}"] = given
        return found

    def resolved(key: str, of: Any) -> Any:
        return "true" if key.lower() == "aws:securetransport" else resolve(key, of)

    iam_actions.extract_resource_arn = noting
    iam_actions.s3_service_context = of_objects
    iam_evaluator.enforce = enforced
    iam_evaluator._resolve_condition_key = resolved


def _checks(
    simulation: Any,
    service: str,
    headers: Mapping[str, str],
    body: bytes,
    query: Mapping[str, Any],
    account: str,
    region: str,
    place: str,
) -> Iterator[Check]:
    """None where the engine's own look is right."""
    action = headers.get("x-amz-target", "").rpartition(".")[2] or str(_one(query, "Action"))
    if service == "ec2":
        tags = simulation.ec2.tags(account, region)
        yield from _of_ec2(action, query, place, region, tags)
    elif service == "ses":
        sender = parsed(body).get("FromEmailAddress")
        if sender:
            yield Check(f"arn:aws:ses:{place}:identity/{sender}", {"ses:FromAddress": sender})
    elif service == "ssm" and action == "SendCommand":
        request, tags = parsed(body), simulation.ec2.tags(account, region)
        yield Check(f"arn:aws:ssm:{place}:document/{request.get('DocumentName')}", {})
        for one in request.get("InstanceIds", ()):
            keys = {f"ssm:resourceTag/{key}": value for key, value in tags.get(one, {}).items()}
            yield Check(f"arn:aws:ec2:{place}:instance/{one}", keys)
    elif service == "autoscaling" and action == "CompleteLifecycleAction":
        group = str(_one(query, "AutoScalingGroupName"))
        arn = f"arn:aws:autoscaling:{place}:autoScalingGroup:*:autoScalingGroupName/{group}"
        yield Check(arn, _tag_keys(_tags_of_group(group)))


def _tags_of_group(name: str) -> dict[str, str]:
    from ministack.services import autoscaling

    return {tag["Key"]: tag["Value"] for tag in autoscaling._tags.get(name, [])}


def _of_ec2(
    action: str,
    query: Mapping[str, Any],
    place: str,
    region: str,
    tags: Mapping[str, Mapping[str, str]],
) -> Iterator[Check]:
    match action:
        case "DescribeInstanceAttribute":
            one = str(_one(query, "InstanceId"))
            yield Check(f"arn:aws:ec2:{place}:instance/{one}", _tag_keys(tags.get(one, {})))
        case (
            "StopInstances" | "TerminateInstances" | "StartInstances" | "CancelSpotInstanceRequests"
        ):
            for name, kind in _PLACES.items():
                for one in _listed(query, name):
                    yield Check(f"arn:aws:ec2:{place}:{kind}/{one}", _tag_keys(tags.get(one, {})))
        case "CreateTags" | "DeleteTags":
            keys = (
                {"aws:TagKeys": _listed(query, "Tag", ".Key")}
                if _listed(query, "Tag", ".Key")
                else {}
            )
            for one in _listed(query, "ResourceId"):
                kind = _PREFIXES.get(one.partition("-")[0])
                arn = (
                    f"arn:aws:ec2:{place}:{kind}/{one}"
                    if kind
                    else f"arn:aws:ec2:{region}::snapshot/{one}"
                )
                yield Check(arn, {**keys, **_tag_keys(tags.get(one, {}))})
        case "DeleteSnapshot":
            one = str(_one(query, "SnapshotId"))
            yield Check(f"arn:aws:ec2:{region}::snapshot/{one}", _tag_keys(tags.get(one, {})))
        case "CreateSnapshots":
            one = str(_one(query, "InstanceSpecification.InstanceId"))
            new = f"arn:aws:ec2:{region}::snapshot/*"
            yield Check(f"arn:aws:ec2:{place}:instance/{one}", _tag_keys(tags.get(one, {})))
            yield Check(f"arn:aws:ec2:{place}:volume/*", {})
            yield Check(new, {})
            if _listed(query, "TagSpecification", ".Tag.1.Key"):
                yield Check(new, {"ec2:CreateAction": "CreateSnapshots"}, "ec2:CreateTags")


def _tag_keys(tags: Mapping[str, str]) -> dict[str, Any]:
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def _listed(query: Mapping[str, Any], name: str, end: str = "") -> list[str]:
    """The values of `Name.1`, `Name.2` and so on."""
    found = []
    while (value := _one(query, f"{name}.{len(found) + 1}{end}")) is not None:
        found.append(str(value))
    return found


def _one(query: Mapping[str, Any], name: str) -> Any:
    value = query.get(name)
    return value[0] if isinstance(value, list) and value else value
