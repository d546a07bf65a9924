"""Checks that look at selected instances: what EC2 and CloudWatch say of them, and what a dry run
is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from cli.preflight.world import (
    Finding,
    NothingToSee,
    World,
    confirmed,
    is_understood,
    refuted,
    unknown,
)
from governor.domain.instance import INSTANCE_TAG, Lifecycle
from governor.domain.units import in_parts, plural, printable
from governor.errors import AccessDenied, CloudError

_SOME = 20
"""Instances of a large fleet that a check looks at."""
_SILENT = timedelta(minutes=20)
"""An agent whose newest data point is older publishes no more; `governor doctor` looks at that."""
_GROUP = "aws:autoscaling:groupName"


def dry_runs(world: World) -> Finding:
    """EC2 answers a dry run with DryRunOperation or with an error that the product tells from
    others.

    Source: EC2 API. Observe rehearses so. Tried with your rights on one selected instance: nothing
    is done.
    """
    instance = world.instances[0]["InstanceId"]
    tag = [{"Key": "LowUtilization", "Value": "preflight"}]
    calls: Mapping[str, Mapping[str, Any]] = {
        "ec2:StopInstances": {"InstanceIds": [instance]},
        "ec2:TerminateInstances": {"InstanceIds": [instance]},
        "ec2:CreateSnapshots": {"InstanceSpecification": {"InstanceId": instance}},
        "ec2:CreateTags": {"Resources": [instance], "Tags": tag},
    }
    strange, said = [], Counter[str]()
    for operation, asked in calls.items():
        error = world.dry_run(operation, **asked)
        said[error.code if error else "DryRunOperation"] += 1
        if error is not None and not is_understood(error):
            strange.append(f"{operation}: {error.code}")
    if strange:
        return refuted(
            f"{instance}: {'; '.join(strange)}",
            "report the codes; the guards refuse to act on them",
        )
    return confirmed(
        f"{instance}: {', '.join(f'{count} x {code}' for code, count in said.items())}"
    )


def unknown_instance(world: World) -> Finding:
    """EC2 says InvalidInstanceID.NotFound of an instance that is gone, also in a dry run.

    Source: EC2 User Guide: terminated instances are visible for about an hour.
    """
    try:
        world.call("ec2:DescribeInstances", InstanceIds=["i-0fffffffffffffff0"])
    except AccessDenied:
        raise
    except CloudError as error:
        if error.code == "InvalidInstanceID.NotFound":
            return confirmed(error.code)
        return refuted(error.code, "report this code")
    return refuted("EC2 described an instance that does not exist", "report this")


def managed_instances(world: World) -> Finding:
    """DescribeInstances takes IncludeManagedResources: without it EC2 hides instances of other
    services.

    Source: EC2 User Guide, managed instances; hidden ones cost all the same.
    """
    running = [{"Name": "instance-state-name", "Values": ["running"]}]

    def ids(**more: Any) -> set[str]:
        listed = world.all("ec2:DescribeInstances", "Reservations", Filters=running, **more)
        return {instance["InstanceId"] for one in listed for instance in one["Instances"]}

    # Twice: what starts or ends meanwhile is in one of the two only.
    before, everything, after = ids(), ids(IncludeManagedResources=True), ids()
    if missing := (before & after) - everything:
        return refuted(f"{plural(len(missing), 'instance')} only without it", "report this")
    return confirmed(f"{len(after)} running, and {len(everything - after - before)} hidden ones")


def agent_metrics(world: World) -> Finding:
    """Each GPU metric has a series with InstanceId; the aggregate by InstanceId alone saves reads.

    Source: derived from the agent's code: it needs append_dimensions and aggregation_dimensions.
    """
    metrics = world.policy.metrics
    listed = world.all(
        "cloudwatch:ListMetrics",
        "Metrics",
        Namespace=metrics.namespace,
        MetricName=metrics.utilization,
        RecentlyActive="PT3H",
    )
    sets = Counter(
        ",".join(sorted(one["Name"] for one in metric["Dimensions"])) for metric in listed
    )
    name = f"{printable(metrics.namespace)} {printable(metrics.utilization)}"
    if not sets:
        raise NothingToSee(
            f"{name}: no series of the last 3 hours",
            "deploy stacks/telemetry.yaml; governor doctor",
        )
    seen = f"{name}: " + ", ".join(f"{count} with {keys or 'none'}" for keys, count in sets.items())
    lost = [keys for keys in sets if "InstanceId" not in keys.split(",")]
    if len(lost) == len(sets):
        return refuted(
            seen,
            "add append_dimensions.InstanceId to the agent's configuration (docs/telemetry.md)",
        )
    return confirmed(seen)


def gpu_metric_delay(world: World) -> Finding:
    """GPU metrics are in CloudWatch lag_seconds after their period: newer ones are ignored.

    Source: memory: the agent buffers for up to 2 minutes.
    """
    metrics = world.policy.metrics
    ids = {one["InstanceId"] for one in world.instances[:_SOME]}
    listed = world.all(
        "cloudwatch:ListMetrics",
        "Metrics",
        Namespace=metrics.namespace,
        MetricName=metrics.utilization,
        RecentlyActive="PT3H",
    )
    series = [
        one
        for one in listed
        if any(d["Name"] == "InstanceId" and d["Value"] in ids for d in one["Dimensions"])
    ]
    return _delay(world, series, metrics.period_seconds)


def ec2_metric_delay(world: World) -> Finding:
    """EC2's own figures are there lag_seconds after their 5 minutes: CPU and network are vetoes.

    Source: memory: basic monitoring publishes every 5 minutes.
    """
    series = [
        {
            "Namespace": "AWS/EC2",
            "MetricName": "CPUUtilization",
            "Dimensions": [{"Name": "InstanceId", "Value": one["InstanceId"]}],
        }
        for one in world.instances[:_SOME]
    ]
    return _delay(world, series, 300)


def _delay(world: World, series: Sequence[Any], period: int) -> Finding:
    """Return whether each series that is alive has the newest period that ended `lag_seconds`
    ago."""
    lag = world.policy.metrics.lag_seconds
    newest = [one for one in _newest(world, series[:500], period) if world.now - one <= _SILENT]
    if not newest:
        raise NothingToSee(
            f"none of {len(series)} series has data of the last 20 minutes", "run governor doctor"
        )
    ages = [(world.now - one).total_seconds() for one in newest]
    wanted = (world.now.timestamp() - lag) // period * period - period
    late = [one for one in newest if one.timestamp() < wanted]
    seen = (
        f"the newest periods of {len(newest)} series began {min(ages):.0f} to {max(ages):.0f} s ago"
    )
    if late:
        # The next period of the latest one has ended, and is not there yet.
        needed = int((max(ages) - 2 * period) // 60 + 2) * 60
        advice = f"set metrics.lag_seconds to {max(needed, lag + 60)} in the policy"
        return refuted(f"{seen}; {len(late)} of them lack a period that ended {lag} s ago", advice)
    return confirmed(seen)


def _newest(world: World, series: Sequence[Any], period: int) -> list[datetime]:
    wanted = ("Namespace", "MetricName", "Dimensions")
    queries = [
        {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {key: one[key] for key in wanted},
                "Period": period,
                "Stat": "Maximum",
            },
        }
        for number, one in enumerate(series)
    ]
    if not queries:
        return []
    found = world.all(
        "cloudwatch:GetMetricData",
        "MetricDataResults",
        MetricDataQueries=queries,
        StartTime=world.now - timedelta(hours=1),
        EndTime=world.now,
    )
    by_id: dict[str, datetime] = {}
    for one in found:
        if one["Timestamps"]:
            by_id[one["Id"]] = max([*one["Timestamps"], *filter(None, [by_id.get(one["Id"])])])
    return list(by_id.values())


def gpu_power(world: World) -> Finding:
    """EC2 publishes GPUPowerUtilization by InstanceId, alone or with GpuId: evidence where no agent
    runs.

    Source: EC2 User Guide; AWS names neither the families that have it nor all dimensions.
    """
    listed = world.all(
        "cloudwatch:ListMetrics",
        "Metrics",
        Namespace="AWS/EC2",
        MetricName="GPUPowerUtilization",
        RecentlyActive="PT3H",
    )
    series = [{one["Name"]: one["Value"] for one in metric["Dimensions"]} for metric in listed]
    kinds = {one["InstanceId"]: one["InstanceType"].partition(".")[0] for one in world.instances}
    with_it = {kinds[one["InstanceId"]] for one in series if one.get("InstanceId") in kinds}
    without = sorted(set(kinds.values()) - with_it)
    if not with_it:
        families = ", ".join(without)
        return unknown(
            f"none of {families} publishes it",
            "nothing: the product works without; report the families",
        )
    sets = sorted({",".join(sorted(one)) for one in series})
    have, lack = ", ".join(sorted(with_it)), ", ".join(without) or "none"
    seen = f"families {have} have it, {lack} not; by {'; '.join(sets)}"
    if any("InstanceId" not in one for one in series):
        return refuted(seen, "report the dimensions: a series without InstanceId is not read")
    return confirmed(seen)


def snapshot_keys(world: World) -> Finding:
    """CreateSnapshots of encrypted volumes completes without rights of its caller on the volumes'
    keys.

    Source: none: AWS does not say what it needs; the stack has no rights on others' keys.
    """
    listed = world.all(
        "ec2:DescribeSnapshots",
        "Snapshots",
        OwnerIds=["self"],
        Filters=[
            {"Name": "tag-key", "Values": [INSTANCE_TAG]},
            {"Name": "encrypted", "Values": ["true"]},
        ],
    )
    states = Counter(one["State"] for one in listed)
    if states["error"]:
        seen = (
            f"{states['error']} of {states.total()} snapshots of encrypted volumes ended in error"
        )
        return refuted(
            seen, "let the snapshotter's roles use the keys: kms:CreateGrant, kms:DescribeKey"
        )
    if not states["completed"]:
        raise NothingToSee(
            "GPU Governor has taken no snapshot of an encrypted volume yet",
            "approve a termination of a test instance with an encrypted volume, then run "
            "this again",
        )
    return confirmed(f"{states['completed']} completed, none in error")


def volume_keys(world: World) -> Finding:
    """The keys of encrypted volumes are enabled: an instance whose key is not would never start
    again.

    Source: EBS User Guide: a running instance does not notice, the next attach fails.
    """
    ids = [
        mapping["Ebs"]["VolumeId"]
        for one in world.instances[:_SOME]
        for mapping in one.get("BlockDeviceMappings", ())
        if "Ebs" in mapping
    ]
    volumes = [
        volume
        for part in in_parts(ids, 200)
        for volume in world.call("ec2:DescribeVolumes", VolumeIds=list(part))["Volumes"]
    ]
    keys = sorted(
        {one["KmsKeyId"] for one in volumes if one.get("Encrypted") and one.get("KmsKeyId")}
    )
    if not keys:
        raise NothingToSee(
            f"none of {plural(len(volumes), 'volume')} is encrypted by KMS", "nothing"
        )
    states = {
        key: world.call("kms:DescribeKey", KeyId=key)["KeyMetadata"]["KeyState"] for key in keys
    }
    if bad := {key: state for key, state in states.items() if state != "Enabled"}:
        said = ", ".join(f"{key} is {state}" for key, state in bad.items())
        return refuted(
            said, "enable them, or exempt their instances: once stopped, they stay stopped"
        )
    return confirmed(f"{plural(len(keys), 'key')} enabled")


def group_tags(world: World) -> Finding:
    """Instances of an Auto Scaling group carry aws:autoscaling:groupName, by which they are left
    alone.

    Source: EC2 Auto Scaling User Guide: a stopped member would be replaced.
    """
    ids = [one["InstanceId"] for one in world.instances]
    members = {
        one["InstanceId"]: one["AutoScalingGroupName"]
        for part in in_parts(ids, 50)
        for one in world.call("autoscaling:DescribeAutoScalingInstances", InstanceIds=list(part))[
            "AutoScalingInstances"
        ]
    }
    if not members:
        raise NothingToSee(
            "no selected instance is in an Auto Scaling group", "nothing, if you use none"
        )
    tagged = {
        one["InstanceId"]: tag["Value"]
        for one in world.instances
        for tag in one.get("Tags", ())
        if tag["Key"] == _GROUP
    }
    if wrong := sorted(one for one, group in members.items() if tagged.get(one) != group):
        return refuted(
            f"without the tag of its group: {', '.join(wrong[:5])}", "exempt these, and report this"
        )
    return confirmed(f"{plural(len(members), 'member')}, each with the tag of its group")


def spot_requests(world: World) -> Finding:
    """A Spot instance names its request, and EC2 says whether that is persistent: else it comes
    back.

    Source: EC2 API; a persistent request is canceled before its instance is terminated.
    """
    spot = [one for one in world.instances if one.get("InstanceLifecycle") == Lifecycle.SPOT]
    if not spot:
        raise NothingToSee("no selected instance is Spot", "nothing, if you use none")
    ids = [one["SpotInstanceRequestId"] for one in spot if one.get("SpotInstanceRequestId")]
    if len(ids) < len(spot):
        return refuted(
            f"{len(spot) - len(ids)} of {len(spot)} name no request", "exempt them, and report this"
        )
    found = [
        one["Type"]
        for part in in_parts(ids, 200)
        for one in world.call(
            "ec2:DescribeSpotInstanceRequests", SpotInstanceRequestIds=list(part)
        )["SpotInstanceRequests"]
    ]
    if set(found) <= {"one-time", "persistent"} and len(found) == len(ids):
        return confirmed(f"{len(found)} requests, {found.count('persistent')} of them persistent")
    return refuted(
        f"{len(found)} of {len(ids)} requests, of types {sorted(set(found))}", "report this"
    )


def lifecycles(world: World) -> Finding:
    """EC2 uses only the lifecycles that the product knows: nothing is ever planned for others.

    Source: EC2 API, InstanceLifecycle.
    """
    known = {one.value for one in Lifecycle if one is not Lifecycle.UNKNOWN}
    found = Counter(
        one.get("InstanceLifecycle", Lifecycle.ON_DEMAND.value) for one in world.instances
    )
    if strange := sorted(set(found) - known):
        return refuted(
            f"unknown: {', '.join(strange)}", "report the name; these instances are only shown"
        )
    return confirmed(", ".join(f"{count} {name}" for name, count in found.items()))
