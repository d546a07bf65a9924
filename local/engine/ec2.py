"""A simulator of the part of EC2 that the governor and its fleet touch, with EC2's own refusals.

State is plain Python per account and Region. Changes of state take simulated time and are told to
EventBridge, as on AWS. It must not know the governor: it answers the EC2 API and nothing else.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Request = Mapping[str, Any]
Answer = dict[str, Any]
Emit = Callable[[str, str, str, str, dict[str, Any], list[str]], None]
"""account, region, source, detail-type, detail, resources"""


class AwsError(Exception):
    """An error answer of AWS."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, status


@dataclass
class Faults:
    """Errors that the next calls of an operation get, first come first served, and a count of all calls."""

    planned: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def enter(self, operation: str) -> None:
        """Counts the call; raises the next planned error."""
        self.calls[operation] += 1
        queue = self.planned.get(operation)
        if queue:
            code, message = queue.pop(0)
            raise AwsError(code, message, 503 if code == "RequestLimitExceeded" else 400)


@dataclass
class Delays:
    """Seconds that EC2 takes."""

    state_change: float = 0.5
    snapshot: float = 0.8


@dataclass
class Region:
    """Everything of one account in one Region, by id."""

    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    spot_requests: dict[str, dict[str, Any]] = field(default_factory=dict)


_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


class Ec2Simulator:
    """EC2. `operation(name, account, region, request)` answers one call."""

    def __init__(self, faults: Faults, emit: Emit) -> None:
        self.faults = faults
        self.delays = Delays()
        self.snapshot_outcome = "completed"
        self.spot_prices: dict[str, str] = {}
        self._emit = emit
        self._lock = threading.RLock()
        self._regions: dict[tuple[str, str], Region] = {}
        self._numbers = itertools.count(1)
        self._generation = 0
        self._operations: dict[str, Callable[[str, str, Request], Answer]] = {
            "DescribeInstances": self._describe_instances,
            "DescribeInstanceAttribute": self._describe_instance_attribute,
            "ModifyInstanceAttribute": self._modify_instance_attribute,
            "StartInstances": self._start_instances,
            "StopInstances": self._stop_instances,
            "TerminateInstances": self._terminate_instances,
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
            "CreateSnapshots": self._create_snapshots,
            "DescribeSnapshots": self._describe_snapshots,
            "DescribeVolumes": self._describe_volumes,
            "DescribeSpotInstanceRequests": self._describe_spot_requests,
            "CancelSpotInstanceRequests": self._cancel_spot_requests,
            "DescribeSpotPriceHistory": self._describe_spot_prices,
        }

    def knows(self, operation: str) -> bool:
        """Whether this simulator answers the operation."""
        return operation in self._operations

    def operation(self, name: str, account: str, region: str, request: Request) -> Answer:
        """One call. Raises: AwsError."""
        self.faults.enter(f"ec2:{name}")
        with self._lock:
            return self._operations[name](account, region, request)

    def clear(self) -> None:
        """Forgets everything; transitions still under way come to nothing."""
        with self._lock:
            self._regions.clear()
            self._generation += 1
            self.delays = Delays()
            self.snapshot_outcome = "completed"
            self.spot_prices = {}

    # what the simulation's own control asks for

    def put_instance(self, account: str, region: str, spec: Mapping[str, Any]) -> str:
        """Launches an instance as described; every field has a default. Returns its id."""
        with self._lock:
            place = self._region(account, region)
            number = next(self._numbers)
            instance_id = spec.get("instance_id") or f"i-{number:017x}"
            launch_time = datetime.fromisoformat(spec["launch_time"])
            instance: dict[str, Any] = {
                "InstanceId": instance_id,
                "ImageId": "ami-0123456789abcdef0",
                "InstanceType": spec["instance_type"],
                "State": _state(spec.get("state", "running")),
                "LaunchTime": launch_time,
                "RootDeviceType": spec.get("root_device_type", "ebs"),
                "RootDeviceName": "/dev/xvda",
                "Placement": {"AvailabilityZone": f"{region}a", "Tenancy": "default"},
                "PlatformDetails": "Linux/UNIX",
                "Tags": [{"Key": k, "Value": v} for k, v in spec.get("tags", {}).items()],
                "BlockDeviceMappings": [],
                "_protected": {
                    "disableApiStop": bool(spec.get("stop_protection")),
                    "disableApiTermination": bool(spec.get("termination_protection")),
                },
            }
            if spec.get("public_ip"):
                instance["PublicIpAddress"] = spec["public_ip"]
            if spec.get("lifecycle", "on-demand") != "on-demand":
                instance["InstanceLifecycle"] = spec["lifecycle"]
            if spec.get("capacity_reservation_id"):
                instance["CapacityReservationId"] = spec["capacity_reservation_id"]
            if spec.get("operator"):
                instance["Operator"] = dict(spec["operator"])
            if spec.get("spot_request_type"):
                self._add_spot_request(place, instance, spec["spot_request_type"])
            for volume in spec.get("volumes", ()):
                self._attach(place, instance, volume)
            place.instances[instance_id] = instance
            return instance_id

    def set_state(self, account: str, region: str, instance_id: str, state: str) -> None:
        """Somebody else stops, starts or terminates the instance."""
        with self._lock:
            instance = self._instance(account, region, instance_id)
            self._go(account, region, instance, state)

    def spot_warning(self, account: str, region: str, instance_id: str, action: str) -> None:
        """EC2 warns that it takes the instance back. The ARN of this event names no account."""
        zone = self._instance(account, region, instance_id)["Placement"]["AvailabilityZone"]
        self._emit(
            account,
            region,
            "aws.ec2",
            "EC2 Spot Instance Interruption Warning",
            {"instance-id": instance_id, "instance-action": action},
            [f"arn:aws:ec2:{zone}:instance/{instance_id}"],
        )

    def dump(self, account: str, region: str) -> dict[str, Any]:
        """State by id, for a look from outside."""
        with self._lock:
            place = self._region(account, region)
            return {
                "instances": {k: v["State"]["Name"] for k, v in place.instances.items()},
                "volumes": {k: v["State"] for k, v in place.volumes.items()},
                "snapshots": {k: v["State"] for k, v in place.snapshots.items()},
                "spot_requests": {k: v["State"] for k, v in place.spot_requests.items()},
            }

    # instances

    def _describe_instances(self, account: str, region: str, request: Request) -> Answer:
        place = self._region(account, region)
        ids = request.get("InstanceIds")
        if ids:
            found = [self._instance(account, region, instance_id) for instance_id in ids]
        else:
            hidden = not request.get("IncludeManagedResources")
            found = [
                instance
                for instance in place.instances.values()
                if not (hidden and instance.get("Operator", {}).get("HiddenByDefault"))
            ]
        matching = [i for i in found if _matches(i, request.get("Filters", ()), _instance_filter)]
        start = int(request.get("NextToken") or 0)
        end = start + int(request.get("MaxResults") or 1000)
        answer: Answer = {
            "Reservations": [
                {"OwnerId": account, "ReservationId": f"r-{i['InstanceId'][2:]}", "Instances": [_public(i)]}
                for i in matching[start:end]
            ]
        }
        if end < len(matching):
            answer["NextToken"] = str(end)
        return answer

    def _describe_instance_attribute(self, account: str, region: str, request: Request) -> Answer:
        instance = self._instance(account, region, request["InstanceId"])
        name = request["Attribute"]
        if name not in instance["_protected"]:
            raise AwsError("InvalidParameterValue", f"the attribute {name} is not simulated")
        key = name[0].upper() + name[1:]
        return {"InstanceId": request["InstanceId"], key: {"Value": instance["_protected"][name]}}

    def _modify_instance_attribute(self, account: str, region: str, request: Request) -> Answer:
        instance = self._instance(account, region, request["InstanceId"])
        for key, name in (
            ("DisableApiStop", "disableApiStop"),
            ("DisableApiTermination", "disableApiTermination"),
        ):
            if key in request:
                instance["_protected"][name] = bool(request[key]["Value"])
        return {}

    def _start_instances(self, account: str, region: str, request: Request) -> Answer:
        changes = []
        for instance in self._instances(account, region, request["InstanceIds"]):
            before = instance["State"]
            if before["Name"] not in ("stopped", "running", "pending"):
                raise AwsError("IncorrectInstanceState", f"{instance['InstanceId']} is {before['Name']}")
            _check_dry_run(request)
            if before["Name"] == "stopped":
                self._go(account, region, instance, "running")
            changes.append(_change(instance, before))
        return {"StartingInstances": changes}

    def _stop_instances(self, account: str, region: str, request: Request) -> Answer:
        changes = []
        for instance in self._instances(account, region, request["InstanceIds"]):
            self._refuse_managed(instance)
            if instance["RootDeviceType"] != "ebs":
                message = "has an instance store root device and cannot be stopped"
                raise AwsError("UnsupportedOperation", f"{instance['InstanceId']} {message}")
            if self._spot_type(account, region, instance) == "one-time":
                message = "You can't stop the Spot Instance associated with a one-time Spot Instance request"
                raise AwsError("UnsupportedOperation", message)
            if instance["_protected"]["disableApiStop"]:
                raise AwsError("OperationNotPermitted", f"{instance['InstanceId']}: disableApiStop is set")
            before = instance["State"]
            if before["Name"] not in ("running", "pending", "stopping", "stopped"):
                raise AwsError("IncorrectInstanceState", f"{instance['InstanceId']} is {before['Name']}")
            _check_dry_run(request)
            if before["Name"] in ("running", "pending"):
                self._go(account, region, instance, "stopped")
            changes.append(_change(instance, before))
        return {"StoppingInstances": changes}

    def _terminate_instances(self, account: str, region: str, request: Request) -> Answer:
        changes = []
        for instance in self._instances(account, region, request["InstanceIds"]):
            self._refuse_managed(instance)
            if instance["_protected"]["disableApiTermination"]:
                message = f"{instance['InstanceId']}: disableApiTermination is set"
                raise AwsError("OperationNotPermitted", message)
            _check_dry_run(request)
            before = instance["State"]
            if before["Name"] not in ("shutting-down", "terminated"):
                self._go(account, region, instance, "terminated")
            changes.append(_change(instance, before))
        return {"TerminatingInstances": changes}

    def _go(self, account: str, region: str, instance: dict[str, Any], final: str) -> None:
        """First the passing state at once, then the final one after the delay; both are told."""
        passing = {"running": "pending", "stopped": "stopping", "terminated": "shutting-down"}[final]
        self._set_state(account, region, instance, passing)
        generation = self._generation

        def arrive() -> None:
            with self._lock:
                if generation != self._generation or instance["State"]["Name"] != passing:
                    return
                self._arrive(account, region, instance, final)

        timer = threading.Timer(self.delays.state_change, arrive)
        timer.daemon = True
        timer.start()

    def _arrive(self, account: str, region: str, instance: dict[str, Any], final: str) -> None:
        place = self._region(account, region)
        if final == "running":
            instance["LaunchTime"] = datetime.now(tz=UTC).replace(microsecond=0)
        else:
            instance.pop("PublicIpAddress", None)
        if final == "terminated":
            self._release_volumes(place, instance)
        self._set_state(account, region, instance, final)
        persistent = self._spot_type(account, region, instance) == "persistent"
        request = place.spot_requests.get(instance.get("SpotInstanceRequestId", ""), {})
        if final == "terminated" and persistent and request.get("State") == "active":
            self._replace(account, region, instance, keep_request=True)
        group = any(tag["Key"] == "aws:autoscaling:groupName" for tag in instance["Tags"])
        if final in ("stopped", "terminated") and group:
            self._replace(account, region, instance, keep_request=False)

    def _replace(self, account: str, region: str, old: dict[str, Any], *, keep_request: bool) -> None:
        """A persistent Spot request, or an Auto Scaling group, launches a successor."""
        spec = {
            "instance_type": old["InstanceType"],
            "launch_time": datetime.now(tz=UTC).isoformat(),
            "tags": {tag["Key"]: tag["Value"] for tag in old["Tags"]},
        }
        successor = self.put_instance(account, region, spec)
        if keep_request:
            instance = self._instance(account, region, successor)
            instance["InstanceLifecycle"] = "spot"
            instance["SpotInstanceRequestId"] = old["SpotInstanceRequestId"]

    def _release_volumes(self, place: Region, instance: dict[str, Any]) -> None:
        for mapping in instance["BlockDeviceMappings"]:
            volume = place.volumes[mapping["Ebs"]["VolumeId"]]
            if mapping["Ebs"]["DeleteOnTermination"]:
                del place.volumes[volume["VolumeId"]]
            else:
                volume["State"], volume["Attachments"] = "available", []
        instance["BlockDeviceMappings"] = []

    def _set_state(self, account: str, region: str, instance: dict[str, Any], state: str) -> None:
        instance["State"] = _state(state)
        instance_id = instance["InstanceId"]
        self._emit(
            account,
            region,
            "aws.ec2",
            "EC2 Instance State-change Notification",
            {"instance-id": instance_id, "state": state},
            [f"arn:aws:ec2:{region}:{account}:instance/{instance_id}"],
        )

    def _refuse_managed(self, instance: dict[str, Any]) -> None:
        if instance.get("Operator", {}).get("Managed"):
            message = f"{instance['InstanceId']} is managed by {instance['Operator'].get('Principal')}"
            raise AwsError("OperationNotPermitted", message)

    # tags

    def _create_tags(self, account: str, region: str, request: Request) -> Answer:
        resources = self._tagged(account, region, request["Resources"])
        for tag in request["Tags"]:
            if tag["Key"].startswith("aws:"):
                raise AwsError("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved")
        _check_dry_run(request)
        for resource in resources:
            new = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
            _set_tags(resource, {**_tags(resource), **new})
        return {}

    def _delete_tags(self, account: str, region: str, request: Request) -> Answer:
        resources = self._tagged(account, region, request["Resources"])
        _check_dry_run(request)
        keys = {tag["Key"] for tag in request.get("Tags", ())}
        for resource in resources:
            _set_tags(resource, {k: v for k, v in _tags(resource).items() if k not in keys})
        return {}

    def _tagged(self, account: str, region: str, ids: Iterable[str]) -> list[dict[str, Any]]:
        place = self._region(account, region)
        resources = []
        for resource_id in ids:
            kind = resource_id.partition("-")[0]
            store = {"i": place.instances, "vol": place.volumes, "snap": place.snapshots}.get(kind, {})
            if resource_id not in store:
                name = {"i": "Instance", "vol": "Volume", "snap": "Snapshot"}.get(kind, "Resource")
                raise AwsError(f"Invalid{name}ID.NotFound", f"The ID '{resource_id}' does not exist")
            resources.append(store[resource_id])
        return resources

    # volumes and snapshots

    def _attach(self, place: Region, instance: dict[str, Any], spec: Mapping[str, Any]) -> None:
        volume_id = f"vol-{next(self._numbers):017x}"
        deleted = bool(spec.get("delete_on_termination", True))
        place.volumes[volume_id] = {
            "VolumeId": volume_id,
            "Size": int(spec["size_gib"]),
            "VolumeType": "gp3",
            "State": "in-use",
            "Tags": [],
            "Attachments": [{"InstanceId": instance["InstanceId"], "DeleteOnTermination": deleted}],
        }
        instance["BlockDeviceMappings"].append(
            {
                "DeviceName": spec.get("device", "/dev/xvda"),
                "Ebs": {"VolumeId": volume_id, "DeleteOnTermination": deleted, "Status": "attached"},
            }
        )

    def _describe_volumes(self, account: str, region: str, request: Request) -> Answer:
        ids = request.get("VolumeIds")
        place = self._region(account, region)
        volumes = self._tagged(account, region, ids) if ids else list(place.volumes.values())
        return {"Volumes": volumes}

    def _create_snapshots(self, account: str, region: str, request: Request) -> Answer:
        place = self._region(account, region)
        specification = request["InstanceSpecification"]
        instance = self._instance(account, region, specification["InstanceId"])
        _check_dry_run(request)
        tags = [tag for one in request.get("TagSpecifications", ()) for tag in one.get("Tags", ())]
        excluded = set(specification.get("ExcludeDataVolumeIds", ()))
        created = []
        for mapping in instance["BlockDeviceMappings"]:
            volume_id = mapping["Ebs"]["VolumeId"]
            if volume_id in excluded:
                continue
            snapshot_id = f"snap-{next(self._numbers):017x}"
            place.snapshots[snapshot_id] = {
                "SnapshotId": snapshot_id,
                "VolumeId": volume_id,
                "VolumeSize": place.volumes[volume_id]["Size"],
                "OwnerId": account,
                "State": "pending",
                "Progress": "0%",
                "StartTime": datetime.now(tz=UTC),
                "Description": request.get("Description", ""),
                "Tags": [dict(tag) for tag in tags],
            }
            created.append(place.snapshots[snapshot_id])
        self._finish_later(created)
        return {"Snapshots": [dict(snapshot) for snapshot in created]}

    def _finish_later(self, snapshots: list[dict[str, Any]]) -> None:
        outcome, generation = self.snapshot_outcome, self._generation

        def finish() -> None:
            with self._lock:
                if generation == self._generation:
                    for snapshot in snapshots:
                        snapshot["State"] = outcome
                        snapshot["Progress"] = "100%" if outcome == "completed" else "42%"

        timer = threading.Timer(self.delays.snapshot, finish)
        timer.daemon = True
        timer.start()

    def _describe_snapshots(self, account: str, region: str, request: Request) -> Answer:
        found = [
            snapshot
            for snapshot in self._region(account, region).snapshots.values()
            if _matches(snapshot, request.get("Filters", ()), lambda _item, _name: None)
            and (not request.get("SnapshotIds") or snapshot["SnapshotId"] in request["SnapshotIds"])
        ]
        return {"Snapshots": found}

    # Spot

    def _add_spot_request(self, place: Region, instance: dict[str, Any], kind: str) -> None:
        request_id = f"sir-{next(self._numbers):08x}"
        instance["SpotInstanceRequestId"] = request_id
        instance["InstanceLifecycle"] = "spot"
        place.spot_requests[request_id] = {
            "SpotInstanceRequestId": request_id,
            "Type": kind,
            "State": "active",
            "InstanceId": instance["InstanceId"],
        }

    def _spot_type(self, account: str, region: str, instance: dict[str, Any]) -> str | None:
        request_id = instance.get("SpotInstanceRequestId")
        if request_id is None:
            return None
        return str(self._region(account, region).spot_requests[request_id]["Type"])

    def _describe_spot_requests(self, account: str, region: str, request: Request) -> Answer:
        return {"SpotInstanceRequests": self._requests(account, region, request)}

    def _cancel_spot_requests(self, account: str, region: str, request: Request) -> Answer:
        """Running instances stay; a stopped instance of the request is terminated, as EC2 does."""
        requests = self._requests(account, region, request)
        _check_dry_run(request)
        for found in requests:
            found["State"] = "cancelled"
            instance = self._region(account, region).instances.get(found["InstanceId"])
            if instance is not None and instance["State"]["Name"] == "stopped":
                self._go(account, region, instance, "terminated")
        return {
            "CancelledSpotInstanceRequests": [
                {"SpotInstanceRequestId": found["SpotInstanceRequestId"], "State": "cancelled"}
                for found in requests
            ]
        }

    def _requests(self, account: str, region: str, request: Request) -> list[dict[str, Any]]:
        known = self._region(account, region).spot_requests
        ids = request.get("SpotInstanceRequestIds") or list(known)
        for request_id in ids:
            if request_id not in known:
                code = "InvalidSpotInstanceRequestID.NotFound"
                raise AwsError(code, f"The spot instance request ID '{request_id}' does not exist")
        return [known[request_id] for request_id in ids]

    def _describe_spot_prices(self, account: str, region: str, request: Request) -> Answer:
        del account
        zone = request.get("AvailabilityZone") or f"{region}a"
        return {
            "SpotPriceHistory": [
                {
                    "InstanceType": kind,
                    "SpotPrice": self.spot_prices[kind],
                    "AvailabilityZone": zone,
                    "ProductDescription": "Linux/UNIX",
                    "Timestamp": datetime.now(tz=UTC),
                }
                for kind in request.get("InstanceTypes", ())
                if kind in self.spot_prices
            ]
        }

    # helpers

    def _region(self, account: str, region: str) -> Region:
        return self._regions.setdefault((account, region), Region())

    def _instance(self, account: str, region: str, instance_id: str) -> dict[str, Any]:
        found = self._region(account, region).instances.get(instance_id)
        if found is None:
            message = f"The instance ID '{instance_id}' does not exist"
            raise AwsError("InvalidInstanceID.NotFound", message)
        return found

    def _instances(self, account: str, region: str, ids: Iterable[str]) -> list[dict[str, Any]]:
        return [self._instance(account, region, instance_id) for instance_id in ids]


def _check_dry_run(request: Request) -> None:
    """EC2 checks everything first and then says what it would have done."""
    if request.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)


def _state(name: str) -> dict[str, Any]:
    return {"Code": _CODES[name], "Name": name}


def _change(instance: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {"InstanceId": instance["InstanceId"], "PreviousState": before, "CurrentState": instance["State"]}


def _public(instance: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in instance.items() if not key.startswith("_")}


def _tags(resource: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource["Tags"]}


def _set_tags(resource: dict[str, Any], tags: Mapping[str, str]) -> None:
    resource["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]


def _instance_filter(instance: dict[str, Any], name: str) -> str | None:
    values = {
        "instance-state-name": instance["State"]["Name"],
        "instance-id": instance["InstanceId"],
        "instance-type": instance["InstanceType"],
    }
    return values.get(name)


def _matches(
    resource: dict[str, Any],
    filters: Iterable[Mapping[str, Any]],
    property_of: Callable[[dict[str, Any], str], str | None],
) -> bool:
    tags = _tags(resource)
    for one in filters:
        name, wanted = one["Name"], one["Values"]
        if name.startswith("tag:"):
            value = tags.get(name[4:])
        elif name == "tag-key":
            value = next((key for key in tags if key in wanted), None)
        else:
            value = property_of(resource, name)
            if value is None:
                raise AwsError("InvalidParameterValue", f"The filter '{name}' is not simulated")
        if value not in wanted:
            return False
    return True


def new_event_id() -> str:
    """As EventBridge names its events."""
    return str(uuid.uuid4())
