"""Reads instances and who launched them, Spot requests, Capacity Reservations and volumes from EC2.

Nothing here writes: `ec2_writes` does.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from governor.aws.clients import Adapter, Clients
from governor.aws.ec2_records import literal, read_instance, read_reservation
from governor.core.catalog import family_patterns
from governor.core.errors import (
    CloudError,
    NotFound,
)
from governor.core.instance import (
    Instance,
    Launch,
    Protection,
    Reservation,
    SpotRequestType,
    Target,
    Volume,
)
from governor.core.regions import partition_of
from governor.core.units import UtcDatetime, as_utc, in_parts, printable
from governor.fleet.model import MOST_UNGOVERNED
from governor.policy.model.names import TagMatch

_log = logging.getLogger(__name__)
_DESCRIBE = "ec2:DescribeInstances"
_MANAGED = "IncludeManagedResources"
_INCLUDING_MANAGED: Mapping[str, Any] = {_MANAGED: True}
_NOT_KNOWN_CODES = ("Unknown", "Unsupported", "InvalidParameter", "InvalidAttribute")
"""The beginnings of EC2's error codes for a parameter or an attribute that it does not know. AWS's
partitions get new ones months apart."""
_KNOWS_EVERY_FLAG = "aws"
"""The partition whose EC2 knows both flags of protection in every Region."""
_PAGE = 1000
_RUNNING = {"Name": "instance-state-name", "Values": ["running"]}
_LONGEST_PRINCIPAL = 1000
"""More than the longest ARN of a user or a role. Source: IAM user guide, IAM and AWS STS quotas."""
_FILTER_VALUES = 200
"""The most values of one filter. Source: EC2 API, Filter."""


class Ec2Instances(Adapter):
    """The port that reads instances, Spot requests, Capacity Reservations and volumes."""

    def __init__(self, clients: Clients, resource: str = "", *, long_timeout: bool = True) -> None:
        """Use these clients; no method needs `resource`. Without `long_timeout` every call gives up
        within seconds."""
        super().__init__(clients, resource, long_timeout=long_timeout)
        self._without_managed: set[str] = set()
        """Regions whose EC2 does not know the parameter for hidden managed instances."""

    def list_selected(
        self, target: Target, selector: TagMatch, unreadable: MutableMapping[str, str] | None = None
    ) -> list[Instance]:
        """Return the running instances that bear the selector's tag; empty if there are none.

        An instance whose record cannot be read, or lacks the tag by which EC2 found it, is left
        out, and `unreadable` gets the reason by its id. Raises: CloudError.
        """
        unreadable = {} if unreadable is None else unreadable
        selected = {"Name": f"tag:{selector.tag_key}", "Values": [literal(selector.tag_value)]}
        running = list(self._described(target, unreadable, selected, _RUNNING))
        for instance in running:
            if not selector.is_on(instance):
                # The tag of its exemption may be missing from the record, too.
                unreadable[instance.instance_id] = "EC2 found it by a tag that its record lacks"
        selected_by_id = {instance.instance_id: instance for instance in running}
        return [
            instance
            for instance in selected_by_id.values()
            if instance.instance_id not in unreadable
        ]

    def list_accelerated(
        self, target: Target, unreadable: MutableMapping[str, str] | None = None
    ) -> list[Instance]:
        """Return all running instances of accelerated types, each once. One whose record cannot be
        read is left out, and `unreadable` gets the reason by its id. Raises: CloudError."""
        unreadable = {} if unreadable is None else unreadable
        running = self._described(target, unreadable, _accelerated(), _RUNNING)
        instance_by_id = {instance.instance_id: instance for instance in running}
        return list(instance_by_id.values())

    def list_ungoverned(self, target: Target, selector: TagMatch) -> list[Instance]:
        """Return the running GPU instances without the selector's tag, `MOST_UNGOVERNED` at most;
        those whose record cannot be read are left out. Raises: CloudError.

        No filter of EC2 leaves a tag out, so the governed ones are read, too.
        """
        running = self._described(target, {}, _accelerated(), _RUNNING)
        ungoverned = (instance for instance in running if not selector.is_on(instance))
        return list(itertools.islice(ungoverned, MOST_UNGOVERNED))

    def creator(self, target: Target, instance_id: str) -> str | None:
        """Return the ARN or name of who launched the instance; `None` if CloudTrail, which keeps
        90 days, has no record of the launch, names nobody or cannot be read. Raises:
        CloudError."""
        lookup: Any = {
            "LookupAttributes": [{"AttributeKey": "ResourceName", "AttributeValue": instance_id}]
        }
        for page in self._pages("cloudtrail:LookupEvents", target, **lookup):
            for event in page["Events"]:
                if event.get("EventName") == "RunInstances":
                    return _launcher(event)
        return None

    def launch(self, target: Target, instance_id: str, before: UtcDatetime) -> Launch | None:
        """Return who launched the instance and when; `None` if CloudTrail's newest records of it
        before this time have no launch, or name nobody.

        It is one call, sent once, that gives up within seconds. Raises: CloudError.
        """
        answer = self._call(
            "cloudtrail:LookupEvents",
            target,
            repeat=False,
            long_timeout=False,
            LookupAttributes=[{"AttributeKey": "ResourceName", "AttributeValue": instance_id}],
            EndTime=before,
        )
        for event in answer["Events"]:
            if event.get("EventName") == "RunInstances":
                return _launch_of(event)
        return None

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """Return an instance with its launch facts; `None` if EC2 does not know it. Raises:
        CloudError, also if its record cannot be read."""
        try:
            instances = self._described(target, None, whole=True, InstanceIds=[instance_id])
            return next(instances, None)
        except NotFound:
            return None

    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> dict[str, Instance | CloudError]:
        """Return the instances by id, with an error in place of each whose record cannot be read.
        An id that EC2 does not know is missing. Raises: CloudError if a call fails.

        A filter selects them, because EC2 refuses a whole call that names one unknown id.
        """
        unreadable: dict[str, str] = {}
        described: dict[str, Instance | CloudError] = {}
        for part in in_parts(instance_ids, _FILTER_VALUES):
            by_id = {"Name": "instance-id", "Values": list(part)}
            for instance in self._described(target, unreadable, by_id, whole=True):
                described[instance.instance_id] = instance
        for missing_id in {*instance_ids} - described.keys():
            # A record without an id may be that of any instance that is missing.
            why = unreadable.get(missing_id, unreadable.get(""))
            if why is not None:
                described[missing_id] = CloudError(why, operation="ec2:DescribeInstances")
        return described

    def _described(
        self,
        target: Target,
        unreadable: MutableMapping[str, str] | None,
        *filters: Mapping[str, Any],
        whole: bool = False,
        **parameters: Any,
    ) -> Iterator[Instance]:
        """Yield the instances that these filters or parameters select, with their launch facts if
        `whole`. One whose record cannot be read is left out, and `unreadable` gets the reason by
        its id. Raises: CloudError; without `unreadable` (`None`) also if records cannot be read and
        none can."""
        if filters:
            parameters["Filters"] = list(filters)
            parameters["MaxResults"] = _PAGE
        answers = self._instance_pages(target, parameters)
        path = ("Reservations", "Instances")
        read = partial(read_instance, target, whole)
        return self._records(_DESCRIBE, target, path, read, unreadable, answers)

    def _instance_pages(self, target: Target, parameters: Mapping[str, Any]) -> Iterator[Any]:
        """Yield EC2's answers for these parameters, hidden managed instances included.

        EC2 in a partition may not know the parameter for those yet. It is then left out, here and
        in later calls to the Region, and the call is made again. Raises: CloudError.
        """
        if not self._knows_managed(target):
            yield from self._pages(_DESCRIBE, target, **parameters)
            return
        pages = self._pages(_DESCRIBE, target, **parameters, **_INCLUDING_MANAGED)
        refusal = ""
        try:
            first_page = next(pages)
        except CloudError as error:
            if not is_not_known(error):
                raise
            refusal = str(error)
        if refusal:
            pages = self._pages(_DESCRIBE, target, **parameters)
            # If the parameter was not at fault, this call fails, too.
            first_page = next(pages)
            self._note_managed_not_known(target, refusal)
        yield first_page
        yield from pages

    def _known(
        self, operation: str, target: Target, list_field: str, **parameters: Any
    ) -> Sequence[Any]:
        """Call an operation that is asked for ids; return the records in this field of its answer,
        empty if EC2 does not know an id. Raises: CloudError."""
        try:
            return list(self._records(operation, target, (list_field,), dict, **parameters))
        except NotFound:
            return ()

    def _knows_managed(self, target: Target) -> bool:
        """Return whether EC2 can be asked for hidden managed instances: both botocore's model and
        the Region know the parameter. If botocore's does not, that is remembered, and logged once.
        """
        if target.region in self._without_managed:
            return False
        model = self._clients.client("ec2", target).meta.service_model
        if _MANAGED in model.operation_model("DescribeInstances").input_shape.members:
            return True
        self._note_managed_not_known(target, "this botocore lacks it")
        return False

    def _note_managed_not_known(self, target: Target, why: str) -> None:
        """Remember, and log once, that the Region lists no hidden managed instances."""
        self._without_managed.add(target.region)
        _log.warning(
            "EC2 in %s does not know %s (%s): managed instances that it hides are not seen",
            target.region,
            _MANAGED,
            why,
        )

    def protection(self, target: Target, instance_id: str) -> Protection:
        """Return whether the instance is protected against stops and against terminations, read
        now; a flag is `None` where EC2 does not know it. EC2 answers one attribute a call. Raises:
        CloudError."""
        return Protection(
            stop=self._is_set(target, instance_id, "disableApiStop", "DisableApiStop"),
            termination=self._is_set(
                target, instance_id, "disableApiTermination", "DisableApiTermination"
            ),
        )

    def _is_set(
        self, target: Target, instance_id: str, attribute: str, answer_field: str
    ) -> bool | None:
        """Return whether a flag of the instance is set; `None` if EC2 does not know the flag there:
        it refuses the attribute or, outside of the partition `aws`, answers without it. Raises:
        CloudError; also in `aws` if the flag is missing in the answer, as it may be set."""
        operation = "ec2:DescribeInstanceAttribute"
        parameters: Any = {"InstanceId": instance_id, "Attribute": attribute}
        try:
            answer = self._call(operation, target, **parameters)
        except CloudError as error:
            if is_not_known(error):
                return None
            raise
        flag = answer.get(answer_field) or {}
        value = flag.get("Value")
        if value is not None:
            return bool(value)
        if partition_of(target.region) == _KNOWS_EVERY_FLAG:
            why = f"EC2 answered without {answer_field} for {instance_id}, so it may be set"
            raise CloudError(why, operation=operation)
        return None

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        """Return whether a Spot request is one-time or persistent; `None` if EC2 does not know it.
        Raises: CloudError."""
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
        """Return whether EC2 knows this Capacity Reservation. Raises: CloudError."""
        reservations = self._known(
            "ec2:DescribeCapacityReservations",
            target,
            "CapacityReservations",
            CapacityReservationIds=[reservation_id],
        )
        return bool(reservations)

    def reservations(self, target: Target) -> list[Reservation]:
        """Return the Capacity Reservations of GPU instances that this account is charged for; empty
        if there are none. One whose record cannot be read is left out. Raises: CloudError, also if
        a record cannot be read and no other one is returned."""
        operation = "ec2:DescribeCapacityReservations"
        path = ("CapacityReservations",)
        read = partial(read_reservation, target)
        return list(self._records(operation, target, path, read, MaxResults=_PAGE))

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """Return the instance's volumes with their sizes and types; `None` in these fields for a
        volume whose record lacks them or cannot be read; empty for an instance without volumes.
        Raises: CloudError."""
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
                kms_key_id=record.get("KmsKeyId"),
            )
            volumes.append(sized)
        return tuple(volumes)


def _accelerated() -> dict[str, Any]:
    """Return EC2's filter for all accelerated instance types."""
    return {"Name": "instance-type", "Values": family_patterns()}


def is_not_known(error: CloudError) -> bool:
    """Return whether EC2 refused a request for a parameter or a value that it does not know."""
    return (error.code or "").startswith(_NOT_KNOWN_CODES)


def _launch_of(event: Mapping[str, Any]) -> Launch | None:
    """Return the launch in a RunInstances event of CloudTrail, with the name of who launched,
    clipped to 1,000 characters; `None` if it names nobody, or cannot be read."""
    principal = _launcher(event)
    if principal is None:
        return None
    try:
        launched_at = as_utc(event["EventTime"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        _log.warning("a record of CloudTrail cannot be read: %r", error)
        return None
    return Launch(printable(principal)[:_LONGEST_PRINCIPAL], launched_at)


def _launcher(event: Mapping[str, Any]) -> str | None:
    """Return who launched, by a RunInstances event of CloudTrail: an ARN, else the AWS service that
    called, else a user name; `None` if it names nobody, or cannot be read, which is logged."""
    try:
        identity = json.loads(event.get("CloudTrailEvent") or "{}").get("userIdentity", {})
        name = identity.get("arn") or identity.get("invokedBy") or event.get("Username")
    except (AttributeError, TypeError, ValueError) as error:
        _log.warning("a record of CloudTrail cannot be read: %r", error)
        return None
    return str(name) if name else None
