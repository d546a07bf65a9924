"""Stopped instances of accelerated types: they cost what their EBS volumes cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from governor.core.instance import Volume
from governor.core.managers import Manager, manager_by
from governor.core.units import UsdPerHour, in_parts, plural, printable
from governor.scan.kind import Kind, Place
from governor.scan.kinds.commands import aws_command, in_order, only_if_stopped, wait_for_snapshots
from governor.scan.kinds.ec2_types import hardware
from governor.scan.kinds.remains.rules import judge_stopped
from governor.scan.kinds.remains.stopped import (
    DESCRIBE_INSTANCES,
    StoppedInstance,
    stopped_here,
)
from governor.scan.kinds.remains.storage import DESCRIBE_VOLUMES, price_of_volumes, read_volume
from governor.scan.kinds.tags import name_in
from governor.scan.model import Finding, Judgment, Resource, Strength

_TOPIC = "stopped instances"
_FILTER_VALUES = 200
"""The most values of one filter. Source: EC2 API, Filter."""
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Stopped(Resource):
    """A stopped instance with volumes."""

    volumes: tuple[Volume, ...] = ()
    """Without size if EC2 did not show them."""
    known_manager: Manager | None = None
    """The service that runs it, with the mark by which it is known; `None` if none does."""


class StoppedInstances(Kind[Stopped, None]):
    """Stopped instances of accelerated types that still have EBS volumes."""

    name = "stopped-instance"
    words = _TOPIC
    operations = (DESCRIBE_INSTANCES, DESCRIBE_VOLUMES)

    def list(self, place: Place) -> Sequence[Stopped]:
        """Return the instances with their volumes; empty if there are none. One without volumes
        costs nothing and is left out. Raises: CloudError."""
        instances = [instance for instance in stopped_here(place) if instance.volume_ids]
        volume_by_id = _volumes(place, instances)
        counted: set[str] = set()
        resources: list[Stopped] = []
        for instance in instances:
            # A volume that instances share is counted with the first of them.
            own_ids = [one for one in instance.volume_ids if one not in counted]
            counted.update(own_ids)
            resources.append(_resource(place, instance, own_ids, volume_by_id))
        return resources

    def price(self, place: Place, resource: Stopped) -> UsdPerHour | None:
        """Return the price of the volumes; `None` if a size is not known."""
        return price_of_volumes(place, resource.volumes)

    def own_judgment(self, place: Place, resource: Stopped, measured: None) -> Judgment:
        """Return the judgment that the instance is unused once it was stopped for 30 days. The
        evidence is weak if a service runs it: a warm pool keeps stopped instances on purpose."""
        size = sum(volume.size_gib or 0 for volume in resource.volumes)
        volumes = plural(len(resource.volumes), "volume")
        rest = f"{volumes} of {size:,} GiB in all" if size else volumes
        judgment = judge_stopped(resource.since, place.now, rest)
        manager = resource.known_manager
        if manager is None or judgment.finding is not Finding.UNUSED:
            return judgment
        evidence = f"{judgment.evidence}; {manager.service} runs it ({printable(manager.mark)})"
        return replace(judgment, strength=Strength.WEAK, evidence=evidence)

    def own_command(self, resource: Stopped, judgment: Judgment) -> str:
        """Return the commands that save the instance's volumes as snapshots, wait for them,
        terminate it if it is still stopped, and delete the volumes that stay then. Without
        strong evidence that it is `UNUSED`, return the command that shows the instance."""
        target = resource.target
        instance_id = resource.resource_id
        is_proved = judgment.finding is Finding.UNUSED and judgment.strength is Strength.STRONG
        if not is_proved:
            return aws_command(target, "ec2", "describe-instances", instance_ids=instance_id)
        saved = wait_for_snapshots(
            target,
            "create-snapshots",
            "Snapshots[].SnapshotId",
            instance_specification=f"InstanceId={instance_id}",
            description="before termination",
        )
        commands = [
            saved,
            only_if_stopped(target, instance_id),
            aws_command(target, "ec2", "terminate-instances", instance_ids=instance_id),
        ]
        staying = []
        for volume in resource.volumes:
            if _stays(volume):
                staying.append(volume.volume_id)
        if staying:
            ended = "wait instance-terminated"
            commands.append(aws_command(target, "ec2", ended, instance_ids=instance_id))
        for volume_id in staying:
            commands.append(aws_command(target, "ec2", "delete-volume", volume_id=volume_id))
        return in_order(*commands)


def _stays(volume: Volume) -> bool:
    """Return whether a volume is known to stay when its instance is terminated."""
    return volume.size_gib is not None and not volume.delete_on_termination


def _volumes(place: Place, instances: Sequence[StoppedInstance]) -> dict[str, Volume]:
    """Return the volumes of the instances by id; those that EC2 does not show are missing. Raises:
    CloudError."""
    ids: list[str] = []
    for instance in instances:
        ids += instance.volume_ids
    volume_by_id: dict[str, Volume] = {}
    for part in in_parts(ids, _FILTER_VALUES):
        by_id = [{"Name": "volume-id", "Values": [*part]}]
        for page in place.pages(DESCRIBE_VOLUMES, Filters=by_id, MaxResults=_PAGE):
            records = page.get("Volumes") or ()
            for volume in place.read_each(_TOPIC, DESCRIBE_VOLUMES, records, read_volume):
                volume_by_id[volume.volume_id] = volume
    return volume_by_id


def _resource(
    place: Place,
    instance: StoppedInstance,
    volume_ids: Sequence[str],
    volume_by_id: Mapping[str, Volume],
) -> Stopped:
    """Return a stopped instance with these of its volumes."""
    volumes: list[Volume] = []
    for volume_id in volume_ids:
        not_shown = Volume(volume_id=volume_id, device="", delete_on_termination=False)
        volumes.append(volume_by_id.get(volume_id, not_shown))
    manager = manager_by(instance.operator, instance.tags, place.policy.managed.tag_keys)
    return Stopped(
        target=place.target,
        resource_id=instance.instance_id,
        what=f"{hardware(instance.instance_type)}, stopped",
        name=name_in(instance.tags),
        tags=instance.tags,
        since=instance.stopped_at,
        manager=None if manager is None else manager.service,
        is_governed=place.policy.selector.is_on(instance),
        volumes=tuple(volumes),
        known_manager=manager,
    )
