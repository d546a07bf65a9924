"""Checks that look at selected instances: what EC2 and CloudWatch say of them, and how EC2 answers
a dry run."""

from __future__ import annotations

from collections import Counter, defaultdict
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
from governor.aws.ec2 import is_not_known
from governor.core.errors import AccessDenied, CloudError
from governor.core.instance import INSTANCE_TAG, Lifecycle
from governor.core.units import in_parts, plural, printable

_SOME = 20
"""Instances of a large fleet that a check looks at."""
_SILENT = timedelta(minutes=20)
"""An agent whose newest data point is older publishes no more; `governor doctor` looks at that."""
_GROUP = "aws:autoscaling:groupName"


def dry_runs(world: World) -> Finding:
    """EC2 answers a dry run with DryRunOperation or with an error that GPU Governor
    knows.

    Source: EC2 API. Observe rehearses so. Tried with your permissions on one selected instance:
    nothing is done.
    """
    instance = world.instances[0]["InstanceId"]
    tag = [{"Key": "LowUtilization", "Value": "preflight"}]
    calls: Mapping[str, Mapping[str, Any]] = {
        "ec2:StopInstances": {"InstanceIds": [instance]},
        "ec2:TerminateInstances": {"InstanceIds": [instance]},
        "ec2:CreateSnapshots": {"InstanceSpecification": {"InstanceId": instance}},
        "ec2:CreateTags": {"Resources": [instance], "Tags": tag},
    }
    strange = []
    codes = Counter[str]()
    for operation, arguments in calls.items():
        error = world.dry_run(operation, **arguments)
        codes[error.code if error else "DryRunOperation"] += 1
        if error is not None and not is_understood(error):
            strange.append(f"{operation}: {error.code}")
    if strange:
        return refuted(
            f"{instance}: {'; '.join(strange)}",
            "report the codes; the guards refuse to act on them",
        )
    counts = ", ".join(f"{count} x {code}" for code, count in codes.items())
    return confirmed(f"{instance}: {counts}")


def unknown_instance(world: World) -> Finding:
    """EC2 answers InvalidInstanceID.NotFound for an instance that is gone, also in a dry run.

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
    """DescribeInstances accepts IncludeManagedResources; without it, EC2 hides instances that other
    services run.

    Source: EC2 User Guide, managed instances; hidden ones cost all the same.
    """
    # Twice: an instance that starts or ends meanwhile is in one of the two lists only.
    before = _running(world)
    try:
        everything = _running(world, IncludeManagedResources=True)
    except CloudError as error:
        if not is_not_known(error):
            raise
        return unknown(
            f"EC2 in {world.region} does not know the parameter",
            "GPU Governor cannot see the managed instances there; look for them in the bill",
        )
    after = _running(world)
    missing = (before & after) - everything
    if missing:
        return refuted(f"{plural(len(missing), 'instance')} only without it", "report this")
    return confirmed(f"{len(after)} running, and {len(everything - after - before)} hidden ones")


def _running(world: World, **options: Any) -> set[str]:
    """Return the ids of the running instances that EC2 lists with these options."""
    is_running = [{"Name": "instance-state-name", "Values": ["running"]}]
    ids: set[str] = set()
    for reservation in world.all(
        "ec2:DescribeInstances", "Reservations", Filters=is_running, **options
    ):
        ids.update(instance["InstanceId"] for instance in reservation["Instances"])
    return ids


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
    sets = Counter(_dimension_names(metric) for metric in listed)
    name = f"{printable(metrics.namespace)} {printable(metrics.utilization)}"
    if not sets:
        raise NothingToSee(
            f"{name}: no series of the last 3 hours",
            "deploy stacks/telemetry.yaml; governor doctor",
        )
    parts = []
    for names, count in sets.items():
        parts.append(f"{count} with {names or 'none'}")
    counts = ", ".join(parts)
    observed = f"{name}: {counts}"
    if not any("InstanceId" in names.split(",") for names in sets):
        return refuted(
            observed,
            "add append_dimensions.InstanceId to the agent's configuration (docs/telemetry.md)",
        )
    return confirmed(observed)


def _dimension_names(metric: Any) -> str:
    """Return the names of a series' dimensions, in order and separated by commas."""
    return ",".join(sorted(dimension["Name"] for dimension in metric["Dimensions"]))


def _dimensions(metric: Any) -> dict[str, str]:
    """Return the values of a series' dimensions by their names."""
    return {dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}


def gpu_metric_delay(world: World) -> Finding:
    """GPU metrics are in CloudWatch metrics.lag_seconds after their period; newer ones are ignored.

    Source: memory: the agent buffers for up to 2 minutes.
    """
    metrics = world.policy.metrics
    ids = {instance["InstanceId"] for instance in world.instances[:_SOME]}
    listed = world.all(
        "cloudwatch:ListMetrics",
        "Metrics",
        Namespace=metrics.namespace,
        MetricName=metrics.utilization,
        RecentlyActive="PT3H",
    )
    series = [metric for metric in listed if _dimensions(metric).get("InstanceId") in ids]
    return _delay(world, series, metrics.period_seconds)


def ec2_metric_delay(world: World) -> Finding:
    """EC2's CPU and network metrics arrive within metrics.lag_seconds after their 5 minutes, so
    that they can show work.

    Source: memory: basic monitoring publishes every 5 minutes.
    """
    series = []
    for instance in world.instances[:_SOME]:
        series.append(
            {
                "Namespace": "AWS/EC2",
                "MetricName": "CPUUtilization",
                "Dimensions": [{"Name": "InstanceId", "Value": instance["InstanceId"]}],
            }
        )
    return _delay(world, series, 300)


def _delay(world: World, series: Sequence[Any], period: int) -> Finding:
    """Return whether each series that is alive has the newest period that ended `lag_seconds`
    ago."""
    lag = world.policy.metrics.lag_seconds
    begins = []
    for newest in _newest(world, series[:500], period):
        if world.now - newest <= _SILENT:
            begins.append(newest)
    if not begins:
        raise NothingToSee(
            f"none of {len(series)} series has data of the last 20 minutes", "run governor doctor"
        )
    ages = [(world.now - begin).total_seconds() for begin in begins]
    expected = (world.now.timestamp() - lag) // period * period - period
    late = [begin for begin in begins if begin.timestamp() < expected]
    observed = (
        f"the newest periods of {len(begins)} series began {min(ages):.0f} to {max(ages):.0f} s ago"
    )
    if not late:
        return confirmed(observed)
    # The next period of the latest series has ended, and is not there yet.
    needed = int((max(ages) - 2 * period) // 60 + 2) * 60
    return refuted(
        f"{observed}; {len(late)} of them lack a period that ended {lag} s ago",
        f"set metrics.lag_seconds to {max(needed, lag + 60)} in the policy",
    )


def _newest(world: World, series: Sequence[Any], period: int) -> list[datetime]:
    """Return the time of the newest data point of each series that has one in the last hour."""
    queries = []
    for number, metric in enumerate(series):
        queries.append(
            {
                "Id": f"q{number}",
                "MetricStat": {
                    "Metric": {
                        "Namespace": metric["Namespace"],
                        "MetricName": metric["MetricName"],
                        "Dimensions": metric["Dimensions"],
                    },
                    "Period": period,
                    "Stat": "Maximum",
                },
            }
        )
    if not queries:
        return []
    answers = world.all(
        "cloudwatch:GetMetricData",
        "MetricDataResults",
        MetricDataQueries=queries,
        StartTime=world.now - timedelta(hours=1),
        EndTime=world.now,
    )
    times_by_id: dict[str, list[datetime]] = defaultdict(list)
    for answer in answers:
        times_by_id[answer["Id"]] += answer["Timestamps"]
    newest_times = []
    for times in times_by_id.values():
        if times:
            newest_times.append(max(times))
    return newest_times


def gpu_power(world: World) -> Finding:
    """EC2 publishes GPUPowerUtilization by InstanceId, alone or with GpuId, which is evidence where
    no agent runs.

    Source: EC2 User Guide; AWS names neither the families that have it nor all dimensions.
    """
    listed = world.all(
        "cloudwatch:ListMetrics",
        "Metrics",
        Namespace="AWS/EC2",
        MetricName="GPUPowerUtilization",
        RecentlyActive="PT3H",
    )
    series = [_dimensions(metric) for metric in listed]
    families = {}
    for instance in world.instances:
        families[instance["InstanceId"]] = instance["InstanceType"].partition(".")[0]
    publishing = set()
    for dimensions in series:
        family = families.get(dimensions.get("InstanceId", ""))
        if family is not None:
            publishing.add(family)
    silent = sorted(set(families.values()) - publishing)
    if not publishing:
        return unknown(
            f"none of {', '.join(silent)} publishes it",
            "nothing to do: GPU Governor works without it; report the families",
        )
    sets = sorted({",".join(sorted(dimensions)) for dimensions in series})
    observed = (
        f"families {', '.join(sorted(publishing))} have it, {', '.join(silent) or 'none'} not; "
        f"by {'; '.join(sets)}"
    )
    if any("InstanceId" not in dimensions for dimensions in series):
        return refuted(observed, "report the dimensions: a series without InstanceId is not read")
    return confirmed(observed)


def snapshot_keys(world: World) -> Finding:
    """CreateSnapshots of encrypted volumes completes without permissions of its caller on the
    volumes' keys.

    Source: none: AWS does not say what it needs; the stack has no permissions on others' keys.
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
    states = Counter(snapshot["State"] for snapshot in listed)
    if states["error"]:
        return refuted(
            f"{states['error']} of {states.total()} snapshots of encrypted volumes ended in error",
            "let the snapshotter's roles use the keys: kms:CreateGrant, kms:DescribeKey",
        )
    if not states["completed"]:
        raise NothingToSee(
            "GPU Governor has taken no snapshot of an encrypted volume yet",
            "approve a termination of a test instance with an encrypted volume, then run "
            "this again",
        )
    return confirmed(f"{states['completed']} completed, none in error")


def volume_keys(world: World) -> Finding:
    """The KMS keys of encrypted volumes are enabled; with a disabled key, an instance cannot start.

    Source: EBS User Guide: a running instance does not notice, the next attach fails.
    """
    volumes = _volumes(world)
    keys = set()
    for volume in volumes:
        if _is_encrypted_by_a_key(volume):
            keys.add(volume["KmsKeyId"])
    if not keys:
        raise NothingToSee(
            f"none of {plural(len(volumes), 'volume')} is encrypted by KMS", "nothing to do"
        )
    unusable = []
    for key in sorted(keys):
        state = world.call("kms:DescribeKey", KeyId=key)["KeyMetadata"]["KeyState"]
        if state != "Enabled":
            unusable.append(f"{key} is {state}")
    if unusable:
        return refuted(
            ", ".join(unusable),
            "enable them, or exempt their instances: once stopped, they stay stopped",
        )
    return confirmed(f"{plural(len(keys), 'key')} enabled")


def _volumes(world: World) -> list[Any]:
    """Return the EBS volumes of some instances, as EC2 describes them."""
    ids = []
    for instance in world.instances[:_SOME]:
        for mapping in instance.get("BlockDeviceMappings", ()):
            if "Ebs" in mapping:
                ids.append(mapping["Ebs"]["VolumeId"])
    volumes: list[Any] = []
    for part in in_parts(ids, 200):
        volumes += world.call("ec2:DescribeVolumes", VolumeIds=list(part))["Volumes"]
    return volumes


def _is_encrypted_by_a_key(volume: Any) -> bool:
    return bool(volume.get("Encrypted")) and bool(volume.get("KmsKeyId"))


def group_tags(world: World) -> Finding:
    """Instances of an Auto Scaling group have the tag aws:autoscaling:groupName, by which they are
    left alone.

    Source: EC2 Auto Scaling User Guide: a stopped member would be replaced.
    """
    groups = _groups(world)
    if not groups:
        raise NothingToSee(
            "no selected instance is in an Auto Scaling group", "nothing to do if you use none"
        )
    tagged = {}
    for instance in world.instances:
        for tag in instance.get("Tags", ()):
            if tag["Key"] == _GROUP:
                tagged[instance["InstanceId"]] = tag["Value"]
    wrong = []
    for member, group in sorted(groups.items()):
        if tagged.get(member) != group:
            wrong.append(member)
    if wrong:
        return refuted(
            f"without the tag of its group: {', '.join(wrong[:5])}", "exempt these, and report this"
        )
    return confirmed(f"{plural(len(groups), 'member')}, each with the tag of its group")


def _groups(world: World) -> dict[str, str]:
    """Return the Auto Scaling group of each instance that is in one, by instance id."""
    ids = [instance["InstanceId"] for instance in world.instances]
    groups = {}
    for part in in_parts(ids, 50):
        answer = world.call("autoscaling:DescribeAutoScalingInstances", InstanceIds=list(part))
        for member in answer["AutoScalingInstances"]:
            groups[member["InstanceId"]] = member["AutoScalingGroupName"]
    return groups


def spot_requests(world: World) -> Finding:
    """A Spot instance names its request, and EC2 says whether that is persistent, which starts the
    instance again.

    Source: EC2 API; a persistent request is canceled before its instance is terminated.
    """
    spot = []
    for instance in world.instances:
        if instance.get("InstanceLifecycle") == Lifecycle.SPOT:
            spot.append(instance)
    if not spot:
        raise NothingToSee("no selected instance is Spot", "nothing to do if you use none")
    named = [instance.get("SpotInstanceRequestId") for instance in spot]
    ids = [request_id for request_id in named if request_id]
    if len(ids) < len(spot):
        return refuted(
            f"{len(spot) - len(ids)} of {len(spot)} name no request", "exempt them, and report this"
        )
    types: list[str] = []
    for part in in_parts(ids, 200):
        answer = world.call("ec2:DescribeSpotInstanceRequests", SpotInstanceRequestIds=list(part))
        types += [request["Type"] for request in answer["SpotInstanceRequests"]]
    if set(types) <= {"one-time", "persistent"} and len(types) == len(ids):
        return confirmed(f"{len(types)} requests, {types.count('persistent')} of them persistent")
    return refuted(
        f"{len(types)} of {len(ids)} requests, of types {sorted(set(types))}", "report this"
    )


def lifecycles(world: World) -> Finding:
    """EC2 uses only lifecycles that GPU Governor knows; it plans nothing for instances with others.

    Source: EC2 API, InstanceLifecycle.
    """
    known = {lifecycle.value for lifecycle in Lifecycle if lifecycle is not Lifecycle.UNKNOWN}
    used = Counter(
        instance.get("InstanceLifecycle", Lifecycle.ON_DEMAND.value) for instance in world.instances
    )
    strange = sorted(set(used) - known)
    if strange:
        return refuted(
            f"unknown: {', '.join(strange)}", "report the name; these instances are only shown"
        )
    return confirmed(", ".join(f"{count} {name}" for name, count in used.items()))
