"""EC2: reading instances, tagging them, stopping and terminating them, and EBS snapshots."""

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

from governor.adapters.clients import DRY_RUN_OK, Adapter
from governor.domain.catalogue import families, shape_of
from governor.domain.episode.plan import Step
from governor.domain.fleet.rows import MOST_UNGOVERNED
from governor.domain.instance import (
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
from governor.domain.policy.policy import TagMatch
from governor.domain.units import as_utc, in_parts
from governor.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    NotFound,
    SafetyError,
    Throttled,
    Unavailable,
)

_log = logging.getLogger(__name__)

_PAGE = 1000
_RUNNING = {"Name": "instance-state-name", "Values": ["running"]}
_FILTER_VALUES = 200
"""Most values of one filter. Source: EC2 API, Filter."""
_CHARGED = ("active", "cancelling")
"""States of a Capacity Reservation: until it is canceled, it is charged."""
_TAG_BATCH = 500
"""CreateTags takes 1,000 resources; half of that keeps the bisection around one bad id short."""
_LIFECYCLES: dict[str | None, Lifecycle] = {
    None: Lifecycle.ON_DEMAND,
    **{one.value: one for one in Lifecycle},
}
_TENANCIES = {"default": "Shared", "dedicated": "Dedicated", "host": "Host"}
_DENIALS = 8
"""After so many single refusals and no success the role may not tag at all; asking on is
pointless."""


class Ec2Instances(Adapter):
    def list_selected(
        self, target: Target, selector: TagMatch, odd: MutableMapping[str, str] | None = None
    ) -> list[Instance]:
        odd = {} if odd is None else odd
        selected = {"Name": f"tag:{selector.tag_key}", "Values": [_literal(selector.tag_value)]}
        running = list(self._described(target, odd, selected, _RUNNING))
        # Its exemption may be missing, too.
        unlike = (one.instance_id for one in running if not selector.is_on(one))
        odd.update(dict.fromkeys(unlike, "EC2 found it by a tag that its record lacks"))
        return list(
            {one.instance_id: one for one in running if one.instance_id not in odd}.values()
        )

    def list_ungoverned(self, target: Target, selector: TagMatch) -> list[Instance]:
        """No filter leaves a tag out: the governed ones are listed, too."""
        accelerated = {"Name": "instance-type", "Values": [f"{family}.*" for family in families()]}
        running = self._described(target, {}, accelerated, _RUNNING)
        return list(
            itertools.islice((one for one in running if not selector.is_on(one)), MOST_UNGOVERNED)
        )

    def creator(self, target: Target, instance_id: str) -> str | None:
        asked: Any = {
            "LookupAttributes": [{"AttributeKey": "ResourceName", "AttributeValue": instance_id}]
        }
        for page in self._pages("cloudtrail:LookupEvents", target, **asked):
            for event in page["Events"]:
                if event.get("EventName") == "RunInstances":
                    who = json.loads(event.get("CloudTrailEvent") or "{}").get("userIdentity", {})
                    found = who.get("arn") or who.get("invokedBy") or event.get("Username")
                    return str(found) if found else None
        return None

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        try:
            return next(self._described(target, None, whole=True, InstanceIds=[instance_id]), None)
        except NotFound:
            return None

    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> dict[str, Instance | CloudError]:
        """By a filter: of ids, a single unknown one would fail the whole call."""
        odd: dict[str, str] = {}
        found: dict[str, Instance | CloudError] = {
            one.instance_id: one
            for part in in_parts(instance_ids, _FILTER_VALUES)
            for by_id in [{"Name": "instance-id", "Values": list(part)}]
            for one in self._described(target, odd, by_id, whole=True)
        }
        for one in {*instance_ids} - found.keys():
            # A record without an id may be that of any which is missing.
            if (why := odd.get(one, odd.get(""))) is not None:
                found[one] = CloudError(why, operation="ec2:DescribeInstances")
        return found

    def _described(
        self,
        target: Target,
        odd: MutableMapping[str, str] | None,
        *filters: Mapping[str, Any],
        whole: bool = False,
        **asked: Any,
    ) -> Iterator[Instance]:
        asked |= {"Filters": list(filters), "MaxResults": _PAGE} if filters else {}
        asked |= self._including_managed(target)
        path, read = ("Reservations", "Instances"), partial(_instance, target, whole)
        return self._records("ec2:DescribeInstances", target, path, read, odd, **asked)

    def _known(self, operation: str, target: Target, found: str, **asked: Any) -> Sequence[Any]:
        """Return what EC2 answers in the field `found` about things by their ids; nothing of
        unknown ones."""
        try:
            return [*self._records(operation, target, (found,), dict, **asked)]
        except NotFound:
            return ()

    def _including_managed(self, target: Target) -> dict[str, Any]:
        """EC2 lists hidden managed instances only where asked to; old models lack the parameter."""
        model = self._clients.client("ec2", target).meta.service_model
        if (
            "IncludeManagedResources"
            in model.operation_model("DescribeInstances").input_shape.members
        ):
            return {"IncludeManagedResources": True}
        _log.warning(
            "this boto3 does not know IncludeManagedResources; hidden managed instances "
            "are not seen"
        )
        return {}

    def protection(self, target: Target, instance_id: str) -> Protection:
        """EC2 gives one attribute a call."""

        def is_set(name: str, key: str) -> bool:
            asked: Any = {"InstanceId": instance_id, "Attribute": name}
            return bool(self._call("ec2:DescribeInstanceAttribute", target, **asked)[key]["Value"])

        return Protection(
            stop=is_set("disableApiStop", "DisableApiStop"),
            termination=is_set("disableApiTermination", "DisableApiTermination"),
        )

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        asked, found = {"SpotInstanceRequestIds": [spot_request_id]}, "SpotInstanceRequests"
        requests = self._known("ec2:DescribeSpotInstanceRequests", target, found, **asked)
        if not requests:
            return None
        is_persistent = requests[0].get("Type") == SpotRequestType.PERSISTENT
        return SpotRequestType.PERSISTENT if is_persistent else SpotRequestType.ONE_TIME

    def knows_reservation(self, target: Target, reservation_id: str) -> bool:
        asked, found = {"CapacityReservationIds": [reservation_id]}, "CapacityReservations"
        return bool(self._known("ec2:DescribeCapacityReservations", target, found, **asked))

    def reservations(self, target: Target) -> list[Reservation]:
        operation, path = "ec2:DescribeCapacityReservations", ("CapacityReservations",)
        return [
            *self._records(operation, target, path, partial(_reservation, target), MaxResults=_PAGE)
        ]

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        if not instance.volumes:
            return ()
        ids = [volume.volume_id for volume in instance.volumes]
        pairs = partial(self._records, "ec2:DescribeVolumes", instance.target, ("Volumes",))
        known = dict(pairs(lambda volume: (volume["VolumeId"], volume), {}, VolumeIds=ids))
        return tuple(
            replace(
                volume,
                size_gib=found.get("Size"),
                volume_type=found.get("VolumeType"),
                iops=found.get("Iops"),
                throughput=found.get("Throughput"),
            )
            for volume in instance.volumes
            for found in [known.get(volume.volume_id, {})]
        )


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
        """An EC2 write. In a dry run "would have succeeded" is the only good answer. Raises:
        SafetyError."""
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
        """As `_write`; the id of the request, `None` for a dry run."""
        return _request_id(
            self._write(operation, target, dry_run=dry_run, repeat=repeat, **parameters)
        )

    def _send_once(
        self, operation: str, target: Target, *, dry_run: bool, **parameters: Any
    ) -> str | None:
        """As `_request`, for calls that EC2 gives no token: a repeated call is a second call."""
        return self._request(operation, target, dry_run=dry_run, repeat=False, **parameters)


class Ec2Tags(_Ec2Writer):
    """The port `InstanceTagger`: batches, bisected where one id spoils the rest."""

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> dict[str, str]:
        kept = _pairs({key: value for key, value in tags.items() if value is not None})
        gone = [{"Key": key} for key, value in tags.items() if value is None]

        def write(batch: Sequence[str]) -> None:
            for operation, asked in (("ec2:CreateTags", kept), ("ec2:DeleteTags", gone)):
                if asked:
                    self._write(
                        operation, target, dry_run=dry_run, Resources=list(batch), Tags=asked
                    )

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
        asked: Any = {"SpotInstanceRequestIds": [request_id]}
        return self._send_once(operation, target, dry_run=dry_run, client=client, **asked)

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
        # Sent once: CreateSnapshots has no token, so a repeated call would make a second set. Look
        # with `find` before it is repeated.
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
        return [
            *self._records(
                "ec2:CreateSnapshots", target, ("Snapshots",), _snapshot, answers=answers
            )
        ]

    def find(self, target: Target, tags: Mapping[str, str]) -> list[Snapshot]:
        filters = [
            {"Name": f"tag:{key}", "Values": [_literal(value)]} for key, value in tags.items()
        ]
        odd: dict[str, str] = {}
        asked: Any = {"odd": odd, "OwnerIds": ["self"], "Filters": filters}
        found = [
            *self._records("ec2:DescribeSnapshots", target, ("Snapshots",), _snapshot, **asked)
        ]
        if odd:  # One that is missing would count as deleted.
            raise CloudError("; ".join(odd.values()), operation="ec2:DescribeSnapshots")
        return found

    def delete(self, target: Target, snapshot_id: str) -> str | None:
        return self._request("ec2:DeleteSnapshot", target, dry_run=False, SnapshotId=snapshot_id)

    def user_data(self, target: Target, instance_id: str) -> bytes:
        asked: Any = {"InstanceId": instance_id, "Attribute": "userData"}
        found = self._call("ec2:DescribeInstanceAttribute", target, **asked).get("UserData", {})
        return base64.b64decode(found.get("Value", ""))


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _request_id(answer: Mapping[str, Any] | None) -> str | None:
    return None if answer is None else answer.get("ResponseMetadata", {}).get("RequestId")


def _in_batches(
    instance_ids: Sequence[str], act: Callable[[Sequence[str]], object]
) -> dict[str, str]:
    """Act on batches; where one fails, on its halves, until those that fail alone are known by
    reason."""
    failures: dict[str, str] = {}
    is_allowed, denials = False, 0
    waiting = [*in_parts(list(dict.fromkeys(instance_ids)), _TAG_BATCH)][::-1]
    while waiting:
        batch = waiting.pop()
        try:
            act(batch)
            is_allowed = True
        except CloudError as error:
            is_denied = isinstance(error, AccessDenied)
            # Of what is busy, more and smaller calls would only add to the load.
            is_hopeless = isinstance(error, (Throttled, Unavailable)) or (
                is_denied and not is_allowed and denials >= _DENIALS
            )
            if len(batch) > 1 and not is_hopeless:
                middle = len(batch) // 2
                waiting += [batch[middle:], batch[:middle]]
            else:
                denials += is_denied
                failures |= dict.fromkeys(batch, str(error))
    return failures


def _literal(value: str) -> str:
    """A filter value that means itself: EC2 reads `*` and `?` as wildcards unless escaped."""
    return re.sub(r"([\\*?])", r"\\\1", value)


def _instance(target: Target, whole: bool, found: Mapping[str, Any]) -> Instance:
    operator, placement = found.get("Operator") or {}, found.get("Placement") or {}
    tenancy = placement.get("Tenancy", "default")
    return Instance(
        target=target,
        instance_id=found["InstanceId"],
        instance_type=found["InstanceType"],
        state=found["State"]["Name"],
        launch_time=as_utc(found["LaunchTime"]).replace(microsecond=0),
        lifecycle=_LIFECYCLES.get(found.get("InstanceLifecycle"), Lifecycle.UNKNOWN),
        root_device_type=found.get("RootDeviceType", "ebs"),
        tags={tag["Key"]: tag["Value"] for tag in found.get("Tags", ())},
        volumes=tuple(
            Volume(
                volume_id=mapping["Ebs"]["VolumeId"],
                device=mapping.get("DeviceName", ""),
                delete_on_termination=bool(mapping["Ebs"].get("DeleteOnTermination")),
            )
            for mapping in found.get("BlockDeviceMappings", ())
            if "Ebs" in mapping
        ),
        availability_zone=placement.get("AvailabilityZone", ""),
        platform=found.get("PlatformDetails", LINUX),
        operation=found.get("UsageOperation", PLAIN_OPERATION),
        tenancy=_TENANCIES.get(tenancy, tenancy),
        public_ip=found.get("PublicIpAddress"),
        spot_request_id=found.get("SpotInstanceRequestId"),
        capacity_reservation_id=found.get("CapacityReservationId"),
        host_id=placement.get("HostId"),
        operator_managed=bool(operator.get("Managed")),
        operator_principal=operator.get("Principal"),
        launch=_launch(found) if whole else None,
        state_transition_reason=found.get("StateTransitionReason") or "",
    )


def _launch(found: Mapping[str, Any]) -> LaunchFacts:
    interfaces = found.get("NetworkInterfaces", ())
    return LaunchFacts(
        image_id=found.get("ImageId"),
        subnet_id=found.get("SubnetId"),
        security_group_ids=tuple(group["GroupId"] for group in found.get("SecurityGroups", ())),
        key_name=found.get("KeyName"),
        instance_profile_arn=(found.get("IamInstanceProfile") or {}).get("Arn"),
        private_ip=found.get("PrivateIpAddress"),
        ebs_optimized=bool(found.get("EbsOptimized")),
        placement_group=(found.get("Placement") or {}).get("GroupName") or None,
        network_interfaces=len(interfaces),
        # `efa`, or `efa-only` for one without an address.
        efa_interfaces=sum(one.get("InterfaceType", "").startswith("efa") for one in interfaces),
        # Addresses that EC2 lends for as long as an instance runs belong to `amazon`.
        elastic_ips=tuple(
            linked["PublicIp"]
            for interface in interfaces
            for address in interface.get("PrivateIpAddresses", ())
            if "PublicIp" in (linked := address.get("Association", {}))
            and linked.get("IpOwnerId", "amazon") != "amazon"
        ),
    )


def _reservation(target: Target, found: Mapping[str, Any]) -> Reservation | None:
    is_charged = found["State"] in _CHARGED and shape_of(found["InstanceType"]) is not None
    if (
        not is_charged
        or found.get("UnusedReservationBillingOwnerId", found["OwnerId"]) != target.account
    ):
        return None
    return Reservation(
        reservation_id=found["CapacityReservationId"],
        target=target,
        instance_type=found["InstanceType"],
        platform=found.get("InstancePlatform", "Linux/UNIX"),
        total=found["TotalInstanceCount"],
        available=found["AvailableInstanceCount"],
        is_block=found.get("ReservationType") == "capacity-block",
        began_at=as_utc(found.get("StartDate") or found["CreateDate"]),
        ends_at=as_utc(found["EndDate"]) if found.get("EndDate") else None,
        account=found["OwnerId"],
        tags={tag["Key"]: tag["Value"] for tag in found.get("Tags", ())},
    )


def _snapshot(found: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        snapshot_id=found["SnapshotId"],
        volume_id=found["VolumeId"],
        state=found.get("State", "pending"),
        start_time=as_utc(found["StartTime"]) if "StartTime" in found else None,
        owner_id=found.get("OwnerId", ""),
        size_gib=found.get("VolumeSize"),
        tags={tag["Key"]: tag["Value"] for tag in found.get("Tags", ())},
    )
