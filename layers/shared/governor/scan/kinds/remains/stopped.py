"""Lists stopped instances of accelerated types, once for the kinds that need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from governor.core.catalog import family_patterns
from governor.core.units import UtcDatetime
from governor.scan.kind import Place
from governor.scan.kinds.remains.rules import stopped_since
from governor.scan.kinds.tags import tags_in

DESCRIBE_INSTANCES = "ec2:DescribeInstances"
_TOPIC = "stopped instances"
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class StoppedInstance:
    """A stopped instance of an accelerated type."""

    instance_id: str
    instance_type: str
    tags: dict[str, str]
    volume_ids: tuple[str, ...]
    stopped_at: UtcDatetime | None
    """`None` if EC2 does not say it."""
    operator: str | None = None
    """The AWS service that owns it, by EC2's own flag; empty if the flag names none, `None` without
    the flag."""


def stopped_here(place: Place) -> Sequence[StoppedInstance]:
    """Return the stopped accelerated instances here; empty if there are none. Raises:
    CloudError."""

    def ask() -> list[StoppedInstance]:
        """Return the instances of all pages of EC2's answer. Raises: CloudError."""
        filters = [
            {"Name": "instance-type", "Values": family_patterns()},
            {"Name": "instance-state-name", "Values": ["stopped"]},
        ]
        instances: list[StoppedInstance] = []
        for page in place.pages(DESCRIBE_INSTANCES, Filters=filters, MaxResults=_PAGE):
            for reservation in page.get("Reservations") or ():
                records = reservation.get("Instances") or ()
                instances += place.read_each(_TOPIC, DESCRIBE_INSTANCES, records, _stopped)
        return instances

    return place.kept.get(("stopped-instances", str(place.target)), ask)


def _stopped(record: Any) -> StoppedInstance:
    """Return the instance in a record. Raises: LookupError, TypeError or AttributeError for a
    record in another form."""
    mappings = record.get("BlockDeviceMappings") or ()
    operator = record.get("Operator") or {}
    volume_ids = []
    for mapping in mappings:
        if "Ebs" in mapping:
            volume_ids.append(mapping["Ebs"]["VolumeId"])
    return StoppedInstance(
        instance_id=record["InstanceId"],
        instance_type=record["InstanceType"],
        tags=tags_in(record),
        volume_ids=tuple(volume_ids),
        stopped_at=stopped_since(record.get("StateTransitionReason") or ""),
        operator=operator.get("Principal", "") if operator.get("Managed") else None,
    )
