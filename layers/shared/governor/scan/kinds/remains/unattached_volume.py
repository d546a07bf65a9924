"""Unattached EBS volumes that a GPU host may have left.

EC2 keeps no history of a volume. Those that a tag or a snapshot connects with a GPU host count as
waste; large ones without such a link are listed, and count in no sum. CloudWatch has figures of a
volume only while it is attached: their absence says for how long it was not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from governor.core.errors import CloudError
from governor.core.instance import INSTANCE_TAG, Volume
from governor.core.units import UsdPerHour, UtcDatetime, as_utc, span
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery
from governor.scan.kind import Kind, Place
from governor.scan.kinds.calls import GET_METRIC_DATA, report_problem
from governor.scan.kinds.commands import aws_command, in_order, wait_for_snapshots
from governor.scan.kinds.remains.links import NO_LINK, Links, host_ids
from governor.scan.kinds.remains.rules import UNATTACHED_TOO_LONG
from governor.scan.kinds.remains.stopped import DESCRIBE_INSTANCES
from governor.scan.kinds.remains.storage import DESCRIBE_VOLUMES, price_of_volumes, read_volume
from governor.scan.kinds.tags import name_in, tags_in
from governor.scan.model import Finding, Judgment, Resource, Strength

LARGE_GIB = 500
"""At 0.08 USD a GiB it costs 40 USD a month. Smaller ones without a trace of a GPU host are the
leftovers of any account, which other tools list."""
_METRIC = "VolumeIdleTime"
_METRIC_OF_SHARED = "VolumeReadOps"
"""For volumes that several instances may share, which have no idle time. Source: EBS user guide,
CloudWatch metrics, which also says that a volume has figures only while it is attached."""
_TOPIC = "unattached volumes"
_DESCRIBE_SNAPSHOTS = "ec2:DescribeSnapshots"
_PAGE = 500
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Unattached(Resource):
    """A volume without an instance."""

    volume: Volume = Volume("", "", delete_on_termination=False)
    origin: str = ""
    """Why it is listed, in words."""
    is_linked: bool = False
    """True if something connects it with a GPU host."""
    snapshot_id: str = ""
    """The snapshot that it was made from; empty if it was made empty."""
    metric: str = _METRIC
    """A figure that CloudWatch has of it while it is attached."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """The figures that CloudWatch has of a volume over two weeks."""

    last_attached: UtcDatetime | None
    """The end of the last day with figures; `None` if there was none."""


class UnattachedVolumes(Kind[Unattached, Attachment]):
    """Volumes without an instance that a GPU host may have left."""

    name = "unattached-volume"
    words = _TOPIC
    operations = (DESCRIBE_VOLUMES, _DESCRIBE_SNAPSHOTS, DESCRIBE_INSTANCES, GET_METRIC_DATA)

    def list(self, place: Place) -> Sequence[Unattached]:
        """Return the volumes; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Unattached:
            """Return the volume in a record of EC2's answer, whatever made it."""
            return _unattached(place, record)

        available = [{"Name": "status", "Values": ["available"]}]
        volumes: list[Unattached] = []
        for page in place.pages(DESCRIBE_VOLUMES, Filters=available, MaxResults=_PAGE):
            records = page.get("Volumes") or ()
            volumes += place.read_each(_TOPIC, DESCRIBE_VOLUMES, records, read)
        links = Links(place.policy, _our_snapshots(place, volumes), host_ids(place, volumes))
        return [volume for volume in _with_origins(links, volumes) if volume.origin]

    def measure(self, place: Place, resources: Sequence[Unattached]) -> Mapping[str, Attachment]:
        """Return by its id when each volume was last attached, by one query each. A volume whose
        figures cannot be read is left out, and reported."""
        end = place.now.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
        window = Window(end - UNATTACHED_TOO_LONG - _DAY, end, _DAY)
        queries = [_query(resource) for resource in resources]
        answer = place.metrics.read(place.target, queries, window)
        for problem in dict.fromkeys(answer.problems.values()):
            report_problem(place, f"use of {_TOPIC}", problem)
        attachments: dict[str, Attachment] = {}
        for query in queries:
            if query.key in answer.problems:
                continue
            series = answer.series.get(query.key, ())
            days = [index for index, value in enumerate(series) if value is not None]
            last = min(window.bin_end(max(days)), place.now) if days else None
            attachments[query.key] = Attachment(last)
        return attachments

    def price(self, place: Place, resource: Unattached) -> UsdPerHour | None:
        """Return the price of the volume; `None` if its size is not known."""
        return price_of_volumes(place, [resource.volume])

    def own_judgment(
        self, place: Place, resource: Unattached, measured: Attachment | None
    ) -> Judgment:
        """Return the judgment that the volume is unused, if it was attached to nothing for two
        weeks; only that it is unattached if nothing connects it with a GPU host."""
        size = f"{resource.volume.size_gib:,} GiB"
        if measured is None:
            evidence = f"unattached, {size}, since when is not known; {resource.origin}"
            return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)
        since = measured.last_attached
        if since is not None:
            evidence = f"unattached, {size}, used until {since:%Y-%m-%d}; {resource.origin}"
            return Judgment(Finding.TOO_YOUNG, Strength.NONE, evidence)
        age = UNATTACHED_TOO_LONG
        if resource.since is not None:
            age = place.now - resource.since
        if age < UNATTACHED_TOO_LONG:
            evidence = f"unattached, {size}, made {span(age)} ago; {resource.origin}"
            return Judgment(Finding.TOO_YOUNG, Strength.NONE, evidence)
        evidence = f"unattached for at least {span(UNATTACHED_TOO_LONG)}, {size}; {resource.origin}"
        idle_since = place.now - UNATTACHED_TOO_LONG
        if not resource.is_linked:
            return Judgment(Finding.UNATTACHED, Strength.WEAK, evidence, idle_since)
        return Judgment(Finding.UNUSED, Strength.STRONG, evidence, idle_since)

    def own_command(self, resource: Unattached, judgment: Judgment) -> str:
        """Return the commands that save the volume as a snapshot, wait for it, and delete the
        volume; the one that shows it as long as it is not unused."""
        target = resource.target
        volume_id = resource.resource_id
        if judgment.finding is not Finding.UNUSED:
            return aws_command(target, "ec2", "describe-volumes", volume_ids=volume_id)
        saved = wait_for_snapshots(
            target,
            "create-snapshot",
            "SnapshotId",
            volume_id=volume_id,
            description="before deletion",
        )
        return in_order(saved, aws_command(target, "ec2", "delete-volume", volume_id=volume_id))


def _unattached(place: Place, record: Mapping[str, Any]) -> Unattached:
    """Return the volume in a record, without its origin. Raises: LookupError, TypeError or
    ValueError for a record of another form."""
    volume = read_volume(record)
    tags = tags_in(record)
    created_at = record.get("CreateTime")
    return Unattached(
        target=place.target,
        resource_id=volume.volume_id,
        what=f"{volume.size_gib:,} GiB {volume.volume_type or 'volume'}",
        name=name_in(tags),
        tags=tags,
        since=as_utc(created_at) if created_at else None,
        volume=volume,
        snapshot_id=record.get("SnapshotId") or "",
        metric=_METRIC_OF_SHARED if record.get("MultiAttachEnabled") else _METRIC,
    )


def _our_snapshots(place: Place, volumes: Sequence[Unattached]) -> Collection[str]:
    """Return the ids of all snapshots that GPU Governor made; none if no volume was made from a
    snapshot. A refusal is reported, and then none is known."""
    if not any(volume.snapshot_id for volume in volumes):
        return ()
    tagged = [{"Name": "tag-key", "Values": [INSTANCE_TAG]}]
    ids: set[str] = set()
    try:
        for page in place.pages(
            _DESCRIBE_SNAPSHOTS, Filters=tagged, OwnerIds=["self"], MaxResults=_PAGE
        ):
            ids.update(record["SnapshotId"] for record in page.get("Snapshots") or ())
    except CloudError as error:
        place.could_not_read(f"snapshots of {_TOPIC}", error)
    return ids


def _with_origins(links: Links, volumes: Sequence[Unattached]) -> list[Unattached]:
    """Return the volumes, each with the reason why it is listed; empty for those that are not."""
    return [_with_origin(links, volume) for volume in volumes]


def _with_origin(links: Links, volume: Unattached) -> Unattached:
    """Return a volume with the reason why it is listed; empty if nothing connects it with a GPU
    host and it is not large."""
    link = links.of_volume(volume, volume.snapshot_id)
    if link:
        return replace(volume, origin=link, is_linked=True)
    if (volume.volume.size_gib or 0) >= LARGE_GIB:
        return replace(volume, origin=f"listed for its size; {NO_LINK}")
    return volume


def _query(resource: Unattached) -> MetricQuery:
    """Return the query for the figures of a volume, which it has only while it is attached."""
    return MetricQuery(
        key=resource.resource_id,
        namespace="AWS/EBS",
        metric=resource.metric,
        dimensions=(("VolumeId", resource.resource_id),),
        statistic="Sum",
    )
