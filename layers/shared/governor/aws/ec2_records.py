"""EC2's records as records of `core`, and the forms that EC2 wants: tags, and values of filters.

This module calls nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from governor.core.catalog import shape_of
from governor.core.instance import (
    LINUX,
    PLAIN_OPERATION,
    Instance,
    LaunchFacts,
    Lifecycle,
    Reservation,
    Snapshot,
    Target,
    Volume,
)
from governor.core.units import as_utc

_CHARGED = ("active", "cancelling")
"""States of a Capacity Reservation that is charged."""
_LIFECYCLES: dict[str | None, Lifecycle] = {
    None: Lifecycle.ON_DEMAND,
    **{lifecycle.value: lifecycle for lifecycle in Lifecycle},
}
_TENANCIES = {"default": "Shared", "dedicated": "Dedicated", "host": "Host"}


def read_instance(target: Target, whole: bool, record: Mapping[str, Any]) -> Instance:
    """Return the instance in a record of DescribeInstances. Its `launch` is `None` unless `whole`.
    Fields that the record lacks get EC2's defaults (On-Demand, an EBS root, Linux, shared tenancy),
    else "" or `None`; a lifecycle that is not known is `UNKNOWN`.

    Raises: LookupError, TypeError or ValueError for a record that lacks what every instance has.
    """
    operator = record.get("Operator") or {}
    placement = record.get("Placement") or {}
    tenancy = placement.get("Tenancy", "default")
    launch = _launch(record) if whole else None
    return Instance(
        target=target,
        instance_id=record["InstanceId"],
        instance_type=record["InstanceType"],
        state=record["State"]["Name"],
        launch_time=as_utc(record["LaunchTime"]).replace(microsecond=0),
        lifecycle=_LIFECYCLES.get(record.get("InstanceLifecycle"), Lifecycle.UNKNOWN),
        root_device_type=record.get("RootDeviceType", "ebs"),
        tags=_tags(record),
        volumes=_volumes(record),
        availability_zone=placement.get("AvailabilityZone", ""),
        platform=record.get("PlatformDetails", LINUX),
        operation=record.get("UsageOperation", PLAIN_OPERATION),
        tenancy=_TENANCIES.get(tenancy, tenancy),
        public_ip=record.get("PublicIpAddress"),
        spot_request_id=record.get("SpotInstanceRequestId"),
        capacity_reservation_id=record.get("CapacityReservationId"),
        host_id=placement.get("HostId"),
        operator_managed=bool(operator.get("Managed")),
        operator_principal=operator.get("Principal"),
        launch=launch,
        state_transition_reason=record.get("StateTransitionReason") or "",
        state_reason=_state_reason(record),
    )


def _state_reason(record: Mapping[str, Any]) -> str:
    """Return EC2's code and message for the state of an instance, as in
    `Server.SpotInstanceTermination: Spot instance termination`; the message alone if it begins with
    the code, the code alone if there is no message; empty if EC2 gives neither."""
    reason = record.get("StateReason") or {}
    code = reason.get("Code") or ""
    message = reason.get("Message") or ""
    if not message or message.startswith(code):
        # EC2 often begins the message with the code.
        return message or code
    return f"{code}: {message}"


def _tags(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a record by key; empty if it has none."""
    return {tag["Key"]: tag["Value"] for tag in record.get("Tags", ())}


def _volumes(record: Mapping[str, Any]) -> tuple[Volume, ...]:
    """Return the EBS volumes in a record of an instance, without sizes, which it does not have;
    empty if it has no volumes."""
    volumes: list[Volume] = []
    for mapping in record.get("BlockDeviceMappings", ()):
        if "Ebs" not in mapping:
            continue
        ebs = mapping["Ebs"]
        volume = Volume(
            volume_id=ebs["VolumeId"],
            device=mapping.get("DeviceName", ""),
            delete_on_termination=bool(ebs.get("DeleteOnTermination")),
        )
        volumes.append(volume)
    return tuple(volumes)


def _launch(record: Mapping[str, Any]) -> LaunchFacts:
    """Return what it takes to launch the instance of this record again; `None`, false or empty for
    what the record does not name."""
    profile = record.get("IamInstanceProfile") or {}
    placement = record.get("Placement") or {}
    interfaces = record.get("NetworkInterfaces", ())
    interface_types = [interface.get("InterfaceType", "") for interface in interfaces]
    # `efa`, or `efa-only` for one without an address.
    efa_types = [name for name in interface_types if name.startswith("efa")]
    security_groups = record.get("SecurityGroups", ())
    return LaunchFacts(
        image_id=record.get("ImageId"),
        subnet_id=record.get("SubnetId"),
        security_group_ids=tuple(group["GroupId"] for group in security_groups),
        key_name=record.get("KeyName"),
        instance_profile_arn=profile.get("Arn"),
        private_ip=record.get("PrivateIpAddress"),
        placement_group=placement.get("GroupName") or None,
        network_interfaces=len(interfaces),
        efa_interfaces=len(efa_types),
        elastic_ips=_elastic_ips(interfaces),
    )


def _elastic_ips(interfaces: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the Elastic IP addresses of these network interfaces; empty if there are none.

    Other public addresses belong to `amazon`, which lends them for as long as an instance runs.
    """
    elastic_ips: list[str] = []
    for interface in interfaces:
        for address in interface.get("PrivateIpAddresses", ()):
            association = address.get("Association", {})
            is_lent = association.get("IpOwnerId", "amazon") == "amazon"
            if "PublicIp" in association and not is_lent:
                elastic_ips.append(association["PublicIp"])
    return tuple(elastic_ips)


def read_reservation(target: Target, record: Mapping[str, Any]) -> Reservation | None:
    """Return the Capacity Reservation in a record; `None` if it is for no GPU instance, is not
    charged any more, or is charged to another account than the target's. Raises: KeyError if it
    lacks a field; ValueError for a time without a zone."""
    if record["State"] not in _CHARGED or shape_of(record["InstanceType"]) is None:
        return None
    payer = record.get("UnusedReservationBillingOwnerId", record["OwnerId"])
    if payer != target.account:
        return None
    ends_at = record.get("EndDate")
    return Reservation(
        reservation_id=record["CapacityReservationId"],
        target=target,
        instance_type=record["InstanceType"],
        platform=record.get("InstancePlatform", "Linux/UNIX"),
        total=record["TotalInstanceCount"],
        available=record["AvailableInstanceCount"],
        is_block=record.get("ReservationType") == "capacity-block",
        began_at=as_utc(record.get("StartDate") or record["CreateDate"]),
        ends_at=as_utc(ends_at) if ends_at else None,
        account=record["OwnerId"],
        tags=_tags(record),
    )


def read_snapshot(record: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot in a record of DescribeSnapshots, or of the answer of CreateSnapshots. It
    is pending, has no start time, owner or size where the record does not say. Raises: KeyError if
    it lacks the id of the snapshot or of its volume; ValueError for a time without a zone."""
    return Snapshot(
        snapshot_id=record["SnapshotId"],
        volume_id=record["VolumeId"],
        state=record.get("State", "pending"),
        start_time=as_utc(record["StartTime"]) if "StartTime" in record else None,
        owner_id=record.get("OwnerId", ""),
        size_gib=record.get("VolumeSize"),
        tags=_tags(record),
    )


def tag_pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as EC2 takes them: `{"a": "b"}` becomes `[{"Key": "a", "Value": "b"}]`."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def literal(value: str) -> str:
    """Return a filter value for just this text: EC2 reads `*` and `?` as wildcards, and a backslash
    as an escape, unless they are escaped."""
    return re.sub(r"([\\*?])", r"\\\1", value)
