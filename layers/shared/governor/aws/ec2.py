"""Reads, tags, stops and terminates EC2 instances, and makes EBS snapshots.

Only `Ec2Controller` stops and terminates; each of its calls has credentials for that call alone.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from governor.aws.clients import DRY_RUN_OK, Adapter
from governor.core.catalog import families, shape_of
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    NotFound,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.core.instance import (
    LINUX,
    PLAIN_OPERATION,
    Instance,
    LaunchFacts,
    Lifecycle,
    Protection,
    Reservation,
    Snapshot,
    SpotRequestType,
    Target,
    Volume,
)
from governor.core.units import as_utc, in_parts
from governor.episode.model.plan import Step
from governor.fleet.model import MOST_UNGOVERNED
from governor.policy.model.names import TagMatch

_log = logging.getLogger(__name__)

_PAGE = 1000
_RUNNING = {"Name": "instance-state-name", "Values": ["running"]}
_FILTER_VALUES = 200
"""The most values of one filter. Source: EC2 API, Filter."""
_CHARGED = ("active", "cancelling")
"""States of a Capacity Reservation that is charged."""
_TAG_BATCH = 500
"""CreateTags takes 1,000 resources; half of that keeps the bisection around one bad id short."""
_LIFECYCLES: dict[str | None, Lifecycle] = {
    None: Lifecycle.ON_DEMAND,
    **{lifecycle.value: lifecycle for lifecycle in Lifecycle},
}
_TENANCIES = {"default": "Shared", "dedicated": "Dedicated", "host": "Host"}
_DENIALS = 8
"""After this many single refusals and no success, the role may not tag at all, and the rest is not
tried."""


class Ec2Instances(Adapter):
    """The port that reads instances, Spot requests, Capacity Reservations and volumes."""

    def list_selected(
        self, target: Target, selector: TagMatch, odd: MutableMapping[str, str] | None = None
    ) -> list[Instance]:
        """Return the running instances that the selector governs.

        `odd` gets the reason for each one that cannot be read, by its id.
        """
        odd = {} if odd is None else odd
        selected = {"Name": f"tag:{selector.tag_key}", "Values": [_literal(selector.tag_value)]}
        running = list(self._described(target, odd, selected, _RUNNING))
        for instance in running:
            if not selector.is_on(instance):
                # The tag of its exemption may be missing from the record, too.
                odd[instance.instance_id] = "EC2 found it by a tag that its record lacks"
        selected_by_id = {instance.instance_id: instance for instance in running}
        return [instance for instance in selected_by_id.values() if instance.instance_id not in odd]

    def list_ungoverned(self, target: Target, selector: TagMatch) -> list[Instance]:
        """Return running GPU instances that the selector does not govern.

        No filter of EC2 leaves a tag out, so the governed ones are read, too.
        """
        accelerated = {"Name": "instance-type", "Values": [f"{family}.*" for family in families()]}
        running = self._described(target, {}, accelerated, _RUNNING)
        ungoverned = (instance for instance in running if not selector.is_on(instance))
        return list(itertools.islice(ungoverned, MOST_UNGOVERNED))

    def creator(self, target: Target, instance_id: str) -> str | None:
        """Return who launched the instance, as CloudTrail says, or `None` if it does not."""
        lookup: Any = {
            "LookupAttributes": [{"AttributeKey": "ResourceName", "AttributeValue": instance_id}]
        }
        for page in self._pages("cloudtrail:LookupEvents", target, **lookup):
            for event in page["Events"]:
                if event.get("EventName") == "RunInstances":
                    return _launcher(event)
        return None

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """Return an instance with all its facts, or `None` if EC2 does not know it."""
        try:
            instances = self._described(target, None, whole=True, InstanceIds=[instance_id])
            return next(instances, None)
        except NotFound:
            return None

    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> dict[str, Instance | CloudError]:
        """Return the known instances by id, and an error for each that cannot be read.

        They are found by a filter: of ids, a single unknown one would fail the whole call.
        """
        odd: dict[str, str] = {}
        described: dict[str, Instance | CloudError] = {}
        for part in in_parts(instance_ids, _FILTER_VALUES):
            by_id = {"Name": "instance-id", "Values": list(part)}
            for instance in self._described(target, odd, by_id, whole=True):
                described[instance.instance_id] = instance
        for missing_id in {*instance_ids} - described.keys():
            # A record without an id may be that of any instance that is missing.
            why = odd.get(missing_id, odd.get(""))
            if why is not None:
                described[missing_id] = CloudError(why, operation="ec2:DescribeInstances")
        return described

    def _described(
        self,
        target: Target,
        odd: MutableMapping[str, str] | None,
        *filters: Mapping[str, Any],
        whole: bool = False,
        **parameters: Any,
    ) -> Iterator[Instance]:
        """Yield the instances that these filters or parameters select."""
        if filters:
            parameters["Filters"] = list(filters)
            parameters["MaxResults"] = _PAGE
        parameters |= self._including_managed(target)
        path = ("Reservations", "Instances")
        read = partial(_instance, target, whole)
        return self._records("ec2:DescribeInstances", target, path, read, odd, **parameters)

    def _known(
        self, operation: str, target: Target, list_field: str, **parameters: Any
    ) -> Sequence[Any]:
        """Return what EC2 lists in this field for the ids asked for; nothing of unknown ids."""
        try:
            return list(self._records(operation, target, (list_field,), dict, **parameters))
        except NotFound:
            return ()

    def _including_managed(self, target: Target) -> dict[str, Any]:
        """Return the parameter by which EC2 lists hidden managed instances, too.

        It is empty with an older model of EC2, which lacks the parameter.
        """
        model = self._clients.client("ec2", target).meta.service_model
        parameters = model.operation_model("DescribeInstances").input_shape.members
        if "IncludeManagedResources" in parameters:
            return {"IncludeManagedResources": True}
        _log.warning(
            "this botocore does not know IncludeManagedResources; hidden managed instances "
            "are not seen"
        )
        return {}

    def protection(self, target: Target, instance_id: str) -> Protection:
        """Return whether the instance may be stopped and terminated; EC2 answers one attribute a
        call."""

        def is_set(name: str, key: str) -> bool:
            parameters: Any = {"InstanceId": instance_id, "Attribute": name}
            answer = self._call("ec2:DescribeInstanceAttribute", target, **parameters)
            return bool(answer[key]["Value"])

        return Protection(
            stop=is_set("disableApiStop", "DisableApiStop"),
            termination=is_set("disableApiTermination", "DisableApiTermination"),
        )

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        """Return whether a Spot request is persistent, or `None` if EC2 does not know it."""
        requests = self._known(
            "ec2:DescribeSpotInstanceRequests",
            target,
            "SpotInstanceRequests",
            SpotInstanceRequestIds=[spot_request_id],
        )
        if not requests:
            return None
        is_persistent = requests[0].get("Type") == SpotRequestType.PERSISTENT
        return SpotRequestType.PERSISTENT if is_persistent else SpotRequestType.ONE_TIME

    def knows_reservation(self, target: Target, reservation_id: str) -> bool:
        """Return whether EC2 knows this Capacity Reservation."""
        reservations = self._known(
            "ec2:DescribeCapacityReservations",
            target,
            "CapacityReservations",
            CapacityReservationIds=[reservation_id],
        )
        return bool(reservations)

    def reservations(self, target: Target) -> list[Reservation]:
        """Return the Capacity Reservations of GPU instances that this account is charged for."""
        operation = "ec2:DescribeCapacityReservations"
        path = ("CapacityReservations",)
        read = partial(_reservation, target)
        return list(self._records(operation, target, path, read, MaxResults=_PAGE))

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """Return the instance's volumes with their sizes and types, where EC2 tells them."""
        if not instance.volumes:
            return ()
        ids = [volume.volume_id for volume in instance.volumes]
        records = self._records(
            "ec2:DescribeVolumes",
            instance.target,
            ("Volumes",),
            lambda record: (record["VolumeId"], record),
            {},
            VolumeIds=ids,
        )
        record_by_id: dict[str, Mapping[str, Any]] = dict(records)
        volumes: list[Volume] = []
        for volume in instance.volumes:
            record = record_by_id.get(volume.volume_id, {})
            sized = replace(
                volume,
                size_gib=record.get("Size"),
                volume_type=record.get("VolumeType"),
                iops=record.get("Iops"),
                throughput=record.get("Throughput"),
            )
            volumes.append(sized)
        return tuple(volumes)


class _Ec2Writer(Adapter):
    def _write(
        self,
        operation: str,
        target: Target,
        *,
        dry_run: bool,
        repeat: bool = True,
        **parameters: Any,
    ) -> Any:
        """Return EC2's answer to a write; `None` for a dry run that would have succeeded.

        Raises: CloudError; SafetyError if EC2 carried out a dry run.
        """
        try:
            answer = self._call(operation, target, repeat=repeat, **parameters, DryRun=dry_run)
        except CloudError as error:
            if dry_run and error.code == DRY_RUN_OK:
                return None
            raise
        if dry_run:
            raise SafetyError(
                f"{operation} was a dry run, but EC2 answered as if it had been carried out"
            )
        return answer

    def _request(
        self,
        operation: str,
        target: Target,
        *,
        dry_run: bool,
        repeat: bool = True,
        **parameters: Any,
    ) -> str | None:
        """Write, as `_write` does. Return the id of the request, or `None` for a dry run."""
        answer = self._write(operation, target, dry_run=dry_run, repeat=repeat, **parameters)
        return _request_id(answer)

    def _send_once(
        self, operation: str, target: Target, *, dry_run: bool, **parameters: Any
    ) -> str | None:
        """Write, as `_request` does, but never repeat: EC2 gives these calls no token, so that a
        repeat would act twice."""
        return self._request(operation, target, dry_run=dry_run, repeat=False, **parameters)


class Ec2Tags(_Ec2Writer):
    """The port `InstanceTagger`: it tags in batches, and halves a batch that one id spoils."""

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> dict[str, str]:
        """Set the tags, and remove those that are `None`. Return the failures by id."""
        created = _pairs({key: value for key, value in tags.items() if value is not None})
        deleted = [{"Key": key} for key, value in tags.items() if value is None]

        def write(batch: Sequence[str]) -> None:
            parameters: Any = {"dry_run": dry_run, "Resources": list(batch)}
            if created:
                self._write("ec2:CreateTags", target, **parameters, Tags=created)
            if deleted:
                self._write("ec2:DeleteTags", target, **parameters, Tags=deleted)

        return _in_batches(instance_ids, write)


class Ec2Controller(_Ec2Writer):
    """Stops, terminates and cancels, each call with credentials that are good for that call alone.

    The function's own credentials, with which it reads, allow none of these calls. `_resource` is
    the role that acts in the account of the stack; a member account has its own. A dry run goes the
    same way.
    """

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        operation = "ec2:StopInstances"
        client = self._client_for(operation, target, "instance", instance_id)
        return self._send_once(
            operation, target, dry_run=dry_run, client=client, InstanceIds=[instance_id]
        )

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        operation = "ec2:TerminateInstances"
        client = self._client_for(operation, target, "instance", instance_id)
        return self._send_once(
            operation, target, dry_run=dry_run, client=client, InstanceIds=[instance_id]
        )

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> str | None:
        match companion:
            case Step.CANCEL_SPOT_REQUEST:
                return self._cancel_spot_request(instance, dry_run=dry_run)
            case Step.STOP | Step.SNAPSHOT | Step.TERMINATE:
                raise SafetyError(f"{companion.value} is no companion of another step")
            case _:
                assert_never(companion)

    def _cancel_spot_request(self, instance: Instance, *, dry_run: bool) -> str | None:
        """Cancel the request of this instance: left open, a persistent one would launch a
        successor.

        A request carries no tag of its instance, so IAM cannot tell whose it is. EC2 is asked right
        before. Nothing is sent if an earlier call, whose answer was lost, has canceled it.

        Raises:
            SafetyError: the request belongs to another instance, to none, or is gone.
        """
        operation = "ec2:CancelSpotInstanceRequests"
        target = instance.target
        request_id = instance.spot_request_id or ""
        request = self._spot_request(target, request_id)
        if request.get("State") == "cancelled":
            return None
        owner = request.get("InstanceId")
        if owner != instance.instance_id:
            raise SafetyError(
                f"the Spot request {request_id} belongs to {owner or 'no instance'}, "
                f"not to {instance.instance_id}"
            )
        client = self._client_for(operation, target, "spot-instances-request", request_id)
        parameters: Any = {"SpotInstanceRequestIds": [request_id]}
        return self._send_once(operation, target, dry_run=dry_run, client=client, **parameters)

    def _spot_request(self, target: Target, request_id: str) -> Mapping[str, Any]:
        """Return a Spot request as EC2 describes it. It is empty if EC2 knows none."""
        operation = "ec2:DescribeSpotInstanceRequests"
        try:
            answer = self._call(operation, target, SpotInstanceRequestIds=[request_id])
        except NotFound:
            return {}
        requests: Sequence[Mapping[str, Any]] = answer.get("SpotInstanceRequests", ())
        return requests[0] if requests else {}

    def _client_for(self, operation: str, target: Target, kind: str, resource_id: str) -> Any:
        """Return a client that may carry out this operation on this one resource.

        Raises:
            SafetyError: the id could mean more than one resource.
            ConfigurationError: the stack names no role that acts.
            AccessDenied, Throttled, Unavailable: the role could not be assumed. EC2 was not called.
        """
        if re.fullmatch(r"[A-Za-z0-9-]+", resource_id) is None:
            raise SafetyError(f"{resource_id!r} is no single {kind}")
        role_arn = target.role_arn or self._resource
        if not role_arn:
            raise ConfigurationError(
                "the environment variable ACTOR_ROLE_ARN is missing: set it in template.yaml"
            )
        partition = role_arn.split(":")[1]
        resource = f"arn:{partition}:ec2:{target.region}:{target.account}:{kind}/{resource_id}"
        return self._clients.client_for_one_call(operation, target, role_arn, resource)


class Ec2Starter(Adapter):
    def start(self, target: Target, instance_id: str) -> str | None:
        return _request_id(self._call("ec2:StartInstances", target, InstanceIds=[instance_id]))


class EbsSnapshots(_Ec2Writer):
    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> list[Snapshot]:
        """Start snapshots of an instance's volumes. Return none for a dry run.

        It is sent once: CreateSnapshots has no token, so that a repeat would make a second set.
        Look with `find` before it is repeated.
        """
        answer = self._write(
            "ec2:CreateSnapshots",
            target,
            dry_run=dry_run,
            repeat=False,
            InstanceSpecification={"InstanceId": instance_id, "ExcludeBootVolume": not boot},
            Description=f"GPU Governor: {instance_id} before it goes",
            TagSpecifications=[{"ResourceType": "snapshot", "Tags": _pairs(tags)}],
        )
        answers = [] if answer is None else [answer]
        read = self._records(
            "ec2:CreateSnapshots", target, ("Snapshots",), _snapshot, answers=answers
        )
        return list(read)

    def find(self, target: Target, tags: Mapping[str, str]) -> list[Snapshot]:
        """Return the account's snapshots with these tags. Raises: CloudError also if one of them
        cannot be read."""
        filters = [
            {"Name": f"tag:{key}", "Values": [_literal(value)]} for key, value in tags.items()
        ]
        operation = "ec2:DescribeSnapshots"
        odd: dict[str, str] = {}
        parameters: Any = {"odd": odd, "OwnerIds": ["self"], "Filters": filters}
        snapshots = list(self._records(operation, target, ("Snapshots",), _snapshot, **parameters))
        if odd:  # One that is missing would count as deleted.
            raise CloudError("; ".join(odd.values()), operation=operation)
        return snapshots

    def delete(self, target: Target, snapshot_id: str) -> str | None:
        return self._request("ec2:DeleteSnapshot", target, dry_run=False, SnapshotId=snapshot_id)

    def user_data(self, target: Target, instance_id: str) -> bytes:
        """Return the instance's user data; empty if it has none."""
        parameters: Any = {"InstanceId": instance_id, "Attribute": "userData"}
        answer = self._call("ec2:DescribeInstanceAttribute", target, **parameters)
        return base64.b64decode(answer.get("UserData", {}).get("Value", ""))


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _launcher(event: Mapping[str, Any]) -> str | None:
    """Return who launched an instance, by its RunInstances event of CloudTrail."""
    identity = json.loads(event.get("CloudTrailEvent") or "{}").get("userIdentity", {})
    name = identity.get("arn") or identity.get("invokedBy") or event.get("Username")
    return str(name) if name else None


def _request_id(answer: Mapping[str, Any] | None) -> str | None:
    if answer is None:
        return None
    request_id: str | None = answer.get("ResponseMetadata", {}).get("RequestId")
    return request_id


def _in_batches(
    instance_ids: Sequence[str], act: Callable[[Sequence[str]], object]
) -> dict[str, str]:
    """Act on batches, and on the halves of a batch that fails. Return the reason for each id that
    failed alone."""
    failures: dict[str, str] = {}
    is_allowed = False
    denials = 0
    batches_left = list(in_parts(list(dict.fromkeys(instance_ids)), _TAG_BATCH))
    batches_left.reverse()
    while batches_left:
        batch = batches_left.pop()
        try:
            act(batch)
        except CloudError as error:
            is_denied = isinstance(error, AccessDenied)
            may_not_tag = is_denied and not is_allowed and denials >= _DENIALS
            # More and smaller calls would only add to the load of a busy service.
            is_busy = isinstance(error, (Throttled, Unavailable))
            if len(batch) > 1 and not may_not_tag and not is_busy:
                middle = len(batch) // 2
                batches_left += [batch[middle:], batch[:middle]]
            else:
                denials += is_denied
                failures |= dict.fromkeys(batch, str(error))
        else:
            is_allowed = True
    return failures


def _literal(value: str) -> str:
    """Return a filter value for just this text: EC2 reads `*` and `?` as wildcards unless
    escaped."""
    return re.sub(r"([\\*?])", r"\\\1", value)


def _instance(target: Target, whole: bool, record: Mapping[str, Any]) -> Instance:
    """Return the instance of a record of DescribeInstances; its launch facts only if `whole`."""
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
    )


def _tags(record: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in record.get("Tags", ())}


def _volumes(record: Mapping[str, Any]) -> tuple[Volume, ...]:
    """Return the EBS volumes of an instance."""
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
    """Return what it takes to launch such an instance again."""
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
        ebs_optimized=bool(record.get("EbsOptimized")),
        placement_group=placement.get("GroupName") or None,
        network_interfaces=len(interfaces),
        efa_interfaces=len(efa_types),
        elastic_ips=_elastic_ips(interfaces),
    )


def _elastic_ips(interfaces: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the public addresses that stay when the instance stops.

    Addresses that EC2 lends for as long as an instance runs belong to `amazon`.
    """
    elastic_ips: list[str] = []
    for interface in interfaces:
        for address in interface.get("PrivateIpAddresses", ()):
            association = address.get("Association", {})
            is_lent = association.get("IpOwnerId", "amazon") == "amazon"
            if "PublicIp" in association and not is_lent:
                elastic_ips.append(association["PublicIp"])
    return tuple(elastic_ips)


def _reservation(target: Target, record: Mapping[str, Any]) -> Reservation | None:
    """Return a Capacity Reservation, or `None` unless it is of GPUs and charged to this account."""
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


def _snapshot(record: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        snapshot_id=record["SnapshotId"],
        volume_id=record["VolumeId"],
        state=record.get("State", "pending"),
        start_time=as_utc(record["StartTime"]) if "StartTime" in record else None,
        owner_id=record.get("OwnerId", ""),
        size_gib=record.get("VolumeSize"),
        tags=_tags(record),
    )
