"""A simulator of the part of EC2 that the governor and its fleet touch, with EC2's own refusals.

State is plain Python per account and Region. Changes of state take simulated time and are told to
EventBridge, as on AWS. It must not know the governor: it answers the EC2 API and nothing else.
"""

from __future__ import annotations

import copy
import itertools
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from local.engine.simulators import filters
from local.engine.simulators.faults import AwsError, Faults
from local.engine.simulators.filters import tags_of

Request = Mapping[str, Any]
Answer = dict[str, Any]
Emit = Callable[[str, str, str, str, dict[str, Any], list[str]], None]
"""account, region, source, detail-type, detail, resources"""

_MAX_TAGGED = 1000
_MAX_TAGS = 50
_MOST_SCORED_REGIONS = 10
_FEWEST_SCORED_TYPES = 3


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
    reservations: dict[str, dict[str, Any]] = field(default_factory=dict)
    spot_fleets: dict[str, dict[str, Any]] = field(default_factory=dict)


_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}


class Ec2Simulator:
    """EC2. `operation(name, account, region, request)` answers one call."""

    def __init__(self, faults: Faults, emit: Emit) -> None:
        self.faults = faults
        self.delays = Delays()
        self.snapshot_outcome = "completed"
        self.spot_prices: dict[str, str] = {}
        self.fall_backs: list[tuple[str, str]] = []
        """Code and message of the `StateReason` with which the next starts fall back to stopped."""
        self.placement_scores: dict[str, int] = {}
        """By Region, of three types and more."""
        self.instance_types: dict[str, dict[str, Any]] = {}
        """Shapes by instance type, as DescribeInstanceTypes answers them."""
        self.deeds: list[dict[str, Any]] = []
        """Every stop, termination and start that a call has begun, with the completed snapshots of
        then."""
        self._emit = emit
        self._lock = threading.RLock()
        self._regions: dict[tuple[str, str], Region] = {}
        self._numbers = itertools.count(1)
        self._generation = 0
        self._operations: dict[str, Callable[[str, str, Request], Answer]] = {
            "RunInstances": self._run_instances,
            "DescribeInstances": self._describe_instances,
            "DescribeInstanceStatus": self._describe_instance_status,
            "DescribeInstanceTypes": self._describe_instance_types,
            "DescribeCapacityReservations": self._describe_capacity_reservations,
            "DescribeInstanceAttribute": self._describe_instance_attribute,
            "ModifyInstanceAttribute": self._modify_instance_attribute,
            "StartInstances": self._start_instances,
            "StopInstances": self._stop_instances,
            "TerminateInstances": self._terminate_instances,
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
            "DescribeTags": self._describe_tags,
            "CreateSnapshots": self._create_snapshots,
            "DescribeSnapshots": self._describe_snapshots,
            "DeleteSnapshot": self._delete_snapshot,
            "DescribeVolumes": self._describe_volumes,
            "DescribeSpotInstanceRequests": self._describe_spot_requests,
            "CancelSpotInstanceRequests": self._cancel_spot_requests,
            "DescribeSpotFleetRequests": self._describe_spot_fleets,
            "DescribeReservedInstances": lambda *_: {"ReservedInstances": []},
            "DescribeSpotPriceHistory": self._describe_spot_prices,
            "GetSpotPlacementScores": self._get_placement_scores,
        }

    def knows(self, operation: str) -> bool:
        """Return whether this simulator answers the operation."""
        return operation in self._operations

    def operation(self, name: str, account: str, region: str, request: Request) -> Answer:
        """One call. Raises: AwsError."""
        with self._lock:
            self.faults.enter(f"ec2:{name}", request)
            # A copy: the answer is written out while timers go on changing the state.
            return copy.deepcopy(self._operations[name](account, region, request))

    def clear(self) -> None:
        """Forgets everything; transitions still under way come to nothing."""
        with self._lock:
            self._regions.clear()
            self.deeds.clear()
            self._generation += 1
            self.delays = Delays()
            self.snapshot_outcome = "completed"
            self.spot_prices = {}
            self.fall_backs.clear()
            self.placement_scores = {}
            self.instance_types = {}

    # what the simulation's own control asks for

    def put_instance(self, account: str, region: str, spec: Mapping[str, Any]) -> str:
        """Launches an instance as described; every field has a default. Returns its id."""
        with self._lock:
            place = self._region(account, region)
            number = next(self._numbers)
            instance_id = spec.get("instance_id") or f"i-{number:017x}"
            instance: dict[str, Any] = {
                "InstanceId": instance_id,
                "ImageId": spec.get("image_id") or "ami-0123456789abcdef0",
                "InstanceType": spec["instance_type"],
                "State": _state(spec.get("state", "running")),
                "LaunchTime": datetime.fromisoformat(spec["launch_time"]),
                "RootDeviceType": spec.get("root_device_type", "ebs"),
                "RootDeviceName": "/dev/xvda",
                "Placement": {
                    "AvailabilityZone": spec.get("availability_zone") or f"{region}a",
                    "Tenancy": "default",
                },
                "PlatformDetails": "Linux/UNIX",
                "UsageOperation": "RunInstances",
                "Tags": _tag_list(spec.get("tags", {})),
                "BlockDeviceMappings": [],
                "_protected": {
                    "disableApiStop": bool(spec.get("stop_protection")),
                    "disableApiTermination": bool(spec.get("termination_protection")),
                },
                # What a Spot request or an Auto Scaling group launches its successors from.
                "_spec": dict(spec),
            }
            if spec.get("stopped_at"):
                stopped_at = datetime.fromisoformat(spec["stopped_at"])
                instance["StateTransitionReason"] = _user_initiated(stopped_at)
            if spec.get("public_ip"):
                instance["PublicIpAddress"] = spec["public_ip"]
            if spec.get("lifecycle", "on-demand") != "on-demand":
                instance["InstanceLifecycle"] = spec["lifecycle"]
            if spec.get("capacity_reservation_id"):
                self._reserve(account, region, instance, spec["capacity_reservation_id"])
            if spec.get("operator"):
                instance["Operator"] = dict(spec["operator"])
            if spec.get("spot_request_type"):
                self._add_spot_request(place, instance, spec["spot_request_type"])
            for volume in spec.get("volumes", ()):
                self._attach(place, instance, volume)
            place.instances[instance_id] = instance
            return instance_id

    def put_volume(self, account: str, region: str, spec: Mapping[str, Any]) -> str:
        """Adds a volume that is attached to nothing. Returns its id."""
        with self._lock:
            volume_id = f"vol-{next(self._numbers):017x}"
            self._region(account, region).volumes[volume_id] = {
                "VolumeId": volume_id,
                "Size": int(spec["size_gib"]),
                "VolumeType": "gp3",
                "State": "available",
                "CreateTime": datetime.fromisoformat(spec["created"]),
                "AvailabilityZone": f"{region}a",
                "Tags": _tag_list(spec["tags"]),
                "Attachments": [],
            }
            return volume_id

    def put_reservation(self, account: str, region: str, spec: Mapping[str, Any]) -> str:
        """Adds an On-Demand Capacity Reservation that no instance uses. Returns its id."""
        with self._lock:
            reservation_id = f"cr-{next(self._numbers):017x}"
            self._region(account, region).reservations[reservation_id] = {
                "CapacityReservationId": reservation_id,
                "OwnerId": account,
                "InstanceType": spec["instance_type"],
                "AvailabilityZone": f"{region}a",
                "InstancePlatform": "Linux/UNIX",
                "Tenancy": "default",
                "CreateDate": datetime.fromisoformat(spec["created"]),
                "StartDate": datetime.fromisoformat(spec["created"]),
                "EndDateType": "unlimited",
                "State": "active",
                "TotalInstanceCount": int(spec["count"]),
                "AvailableInstanceCount": int(spec["count"]),
                "ReservationType": "default",
                "Tags": _tag_list(spec["tags"]),
            }
            return reservation_id

    def put_spot_fleet(self, account: str, region: str, record: Mapping[str, Any]) -> str:
        """Adds a Spot Fleet request as DescribeSpotFleetRequests gives it; the fleet launches
        nothing. Returns its id."""
        with self._lock:
            fleet_id = f"sfr-00000000-0000-0000-0000-{next(self._numbers):012x}"
            self._region(account, region).spot_fleets[fleet_id] = {
                **record,
                "SpotFleetRequestId": fleet_id,
                "CreateTime": datetime.fromisoformat(record["CreateTime"]),
            }
            return fleet_id

    def _reserve(
        self, account: str, region: str, instance: dict[str, Any], reservation_id: str
    ) -> None:
        instance["CapacityReservationId"] = reservation_id
        is_block = instance.get("InstanceLifecycle") == "capacity-block"
        known = self._region(account, region).reservations
        reservation = known.setdefault(
            reservation_id,
            {
                "CapacityReservationId": reservation_id,
                "OwnerId": account,
                "InstanceType": instance["InstanceType"],
                "AvailabilityZone": instance["Placement"]["AvailabilityZone"],
                "InstancePlatform": "Linux/UNIX",
                "CreateDate": instance["LaunchTime"],
                "State": "active",
                "TotalInstanceCount": 0,
                "AvailableInstanceCount": 0,
                "ReservationType": "capacity-block" if is_block else "default",
                "Tags": [],
            },
        )
        reservation["TotalInstanceCount"] += 1

    def set_state(self, account: str, region: str, instance_id: str, state: str) -> None:
        """Somebody else stops, starts or terminates the instance."""
        with self._lock:
            instance = self._instance(account, region, instance_id)
            self._go(account, region, instance, state)

    def spot_warning(
        self, account: str, region: str, instance_id: str, action: str, after: float | None
    ) -> None:
        """EC2 warns that it takes the instance back, and does so `after` seconds (AWS: 120) if
        given."""
        with self._lock:
            instance = self._instance(account, region, instance_id)
            self._tell_zone(
                account,
                region,
                instance,
                "EC2 Spot Instance Interruption Warning",
                {"instance-id": instance_id, "instance-action": action},
            )
            if after is not None:
                final = {"terminate": "terminated", "stop": "stopped", "hibernate": "stopped"}[
                    action
                ]
                self._later(after, lambda: self._take_back(account, region, instance, final))

    def rebalance_recommendation(self, account: str, region: str, instance_id: str) -> None:
        """EC2 says that an interruption has become more likely."""
        with self._lock:
            instance = self._instance(account, region, instance_id)
            name = "EC2 Instance Rebalance Recommendation"
            self._tell_zone(account, region, instance, name, {"instance-id": instance_id})

    def _take_back(self, account: str, region: str, instance: dict[str, Any], final: str) -> None:
        if instance["State"]["Name"] in ("pending", "running"):
            self._go(account, region, instance, final)

    def _tell_zone(
        self, account: str, region: str, instance: dict[str, Any], name: str, detail: dict[str, Any]
    ) -> None:
        """The ARN of these events has the zone for a Region and names no account."""
        zone = instance["Placement"]["AvailabilityZone"]
        arn = f"arn:aws:ec2:{zone}:instance/{instance['InstanceId']}"
        self._emit(account, region, "aws.ec2", name, detail, [arn])

    def is_running(self, account: str, region: str, instance_id: str) -> bool:
        """Return whether an agent on the instance could answer."""
        with self._lock:
            found = self._region(account, region).instances.get(instance_id)
            return found is not None and found["State"]["Name"] == "running"

    def tags(self, account: str, region: str) -> dict[str, dict[str, str]]:
        """The tags of every instance and snapshot, by its id."""
        with self._lock:
            place = self._region(account, region)
            return {
                key: tags_of(one) for key, one in {**place.instances, **place.snapshots}.items()
            }

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

    def _run_instances(self, account: str, region: str, request: Request) -> Answer:
        """Type, market, volumes, tags, protection and reservation count; images and networks do
        not."""
        _check_dry_run(request)
        spec = {
            "instance_type": request.get("InstanceType", "m1.small"),
            "image_id": request.get("ImageId"),
            "availability_zone": request.get("Placement", {}).get("AvailabilityZone"),
            "launch_time": _now().isoformat(),
            "state": "pending",
            "tags": _tags_for("instance", request),
            "stop_protection": request.get("DisableApiStop", False),
            "termination_protection": request.get("DisableApiTermination", False),
            "volumes": _volumes_wanted(request),
            **_market(request),
        }
        launched = [
            self._instance(account, region, self.put_instance(account, region, spec))
            for _ in range(int(request["MaxCount"]))
        ]
        answer = [_public(instance) for instance in launched]
        for instance in launched:
            self._go(account, region, instance, "running")
        return {
            "ReservationId": f"r-{next(self._numbers):017x}",
            "OwnerId": account,
            "Instances": answer,
        }

    def _describe_instances(self, account: str, region: str, request: Request) -> Answer:
        found = self._visible(account, region, request)
        matching = filters.select(found, request, filters.INSTANCE)
        reservations = [
            {
                "OwnerId": account,
                "ReservationId": f"r-{i['InstanceId'][2:]}",
                "Instances": [_public(i)],
            }
            for i in matching
        ]
        return filters.page("Reservations", reservations, request, ids="InstanceIds")

    def _visible(self, account: str, region: str, request: Request) -> list[dict[str, Any]]:
        """By id everything; else without the managed ones that are hidden, unless they are asked
        for."""
        if request.get("InstanceIds"):
            return self._instances(account, region, request["InstanceIds"])
        return [
            instance
            for instance in self._region(account, region).instances.values()
            if request.get("IncludeManagedResources")
            or not instance.get("Operator", {}).get("HiddenByDefault")
        ]

    def _describe_instance_status(self, account: str, region: str, request: Request) -> Answer:
        everything = request.get("IncludeAllInstances")
        found = [
            instance
            for instance in filters.select(
                self._visible(account, region, request), request, filters.INSTANCE
            )
            if everything or instance["State"]["Name"] == "running"
        ]
        statuses = [
            {
                "InstanceId": instance["InstanceId"],
                "AvailabilityZone": instance["Placement"]["AvailabilityZone"],
                "InstanceState": instance["State"],
                "InstanceStatus": {"Status": _health(instance)},
                "SystemStatus": {"Status": _health(instance)},
            }
            for instance in found
        ]
        return filters.page("InstanceStatuses", statuses, request, ids="InstanceIds")

    def _describe_instance_types(self, account: str, region: str, request: Request) -> Answer:
        del account, region
        wanted = request.get("InstanceTypes") or list(self.instance_types)
        unknown = [name for name in wanted if name not in self.instance_types]
        if unknown:
            message = f"The following supplied instance types do not exist: {unknown}"
            raise AwsError("InvalidInstanceType", message)
        found = filters.select([self.instance_types[name] for name in wanted], request, {})
        return filters.page("InstanceTypes", found, request, ids="InstanceTypes")

    def _describe_capacity_reservations(
        self, account: str, region: str, request: Request
    ) -> Answer:
        known = self._region(account, region).reservations
        ids = request.get("CapacityReservationIds") or list(known)
        for reservation_id in ids:
            if reservation_id not in known:
                message = f"The capacity reservation ID '{reservation_id}' does not exist"
                raise AwsError("InvalidCapacityReservationId.NotFound", message)
        found = filters.select([known[one] for one in ids], request, filters.RESERVATION)
        return filters.page("CapacityReservations", found, request)

    def _describe_instance_attribute(self, account: str, region: str, request: Request) -> Answer:
        instance = self._instance(account, region, request["InstanceId"])
        name = request["Attribute"]
        if name == "userData":
            given = instance["_spec"].get("user_data")
            return {
                "InstanceId": request["InstanceId"],
                "UserData": {"Value": given} if given else {},
            }
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
        instances = self._instances(account, region, request["InstanceIds"])
        for instance in instances:
            self._refuse_managed(instance)
            _check_state(instance, "pending", "running", "stopped")
        _check_dry_run(request)
        changes = [
            self._change(account, region, i, "running", unless="pending running") for i in instances
        ]
        return {"StartingInstances": changes}

    def _stop_instances(self, account: str, region: str, request: Request) -> Answer:
        """All are checked before any is touched: a request that fails has done nothing."""
        instances = self._instances(account, region, request["InstanceIds"])
        for instance in instances:
            self._check_stop(account, region, instance)
        _check_dry_run(request)
        changes = [
            self._change(account, region, i, "stopped", unless="stopping stopped")
            for i in instances
        ]
        return {"StoppingInstances": changes}

    def _check_stop(self, account: str, region: str, instance: dict[str, Any]) -> None:
        self._refuse_managed(instance)
        if instance["RootDeviceType"] != "ebs":
            message = "has an instance store root device and cannot be stopped"
            raise AwsError("UnsupportedOperation", f"{instance['InstanceId']} {message}")
        if self._spot_type(account, region, instance) == "one-time":
            message = (
                "You can't stop the Spot Instance associated with a one-time Spot Instance request"
            )
            raise AwsError("UnsupportedOperation", message)
        if instance["_protected"]["disableApiStop"]:
            raise AwsError(
                "OperationNotPermitted", f"{instance['InstanceId']}: disableApiStop is set"
            )
        _check_state(instance, "running", "pending", "stopping", "stopped")

    def _terminate_instances(self, account: str, region: str, request: Request) -> Answer:
        """Protection counts zone by zone: an unprotected zone goes, and the request fails all the
        same."""
        instances = self._instances(account, region, request["InstanceIds"])
        for instance in instances:
            self._refuse_managed(instance)
        protected = [i for i in instances if i["_protected"]["disableApiTermination"]]
        if not protected:
            _check_dry_run(request)
        guarded_zones = {i["Placement"]["AvailabilityZone"] for i in protected}
        changes = [
            self._change(account, region, instance, "terminated", unless="shutting-down terminated")
            for instance in instances
            if not request.get("DryRun")
            and instance["Placement"]["AvailabilityZone"] not in guarded_zones
        ]
        if protected:
            names = ", ".join(i["InstanceId"] for i in protected)
            raise AwsError("OperationNotPermitted", f"{names}: disableApiTermination is set")
        return {"TerminatingInstances": changes}

    def _change(
        self, account: str, region: str, instance: dict[str, Any], final: str, *, unless: str
    ) -> dict[str, Any]:
        """Sends an instance on its way, unless it is there or under way already."""
        before = instance["State"]
        if before["Name"] not in unless.split():
            self._note(account, region, instance, final)
            self._go(account, region, instance, final)
        return {
            "InstanceId": instance["InstanceId"],
            "PreviousState": before,
            "CurrentState": instance["State"],
        }

    def _note(self, account: str, region: str, instance: dict[str, Any], final: str) -> None:
        attached = {one["Ebs"]["VolumeId"] for one in instance["BlockDeviceMappings"]}
        snapshots = self._region(account, region).snapshots.values()
        completed = [
            {
                "volume_id": one["VolumeId"],
                "begun": one["StartTime"].timestamp(),
                "tags": {tag["Key"]: tag["Value"] for tag in one["Tags"]},
            }
            for one in snapshots
            if one["VolumeId"] in attached and one["State"] == "completed"
        ]
        self.deeds.append(
            {
                "instance_id": instance["InstanceId"],
                "final": final,
                "at": datetime.now(tz=UTC).timestamp(),
                "volumes": sorted(attached),
                "completed": completed,
            }
        )

    def _go(self, account: str, region: str, instance: dict[str, Any], final: str) -> None:
        """First the passing state at once, then the final one after the delay; both are told."""
        before = instance["State"]["Name"]
        passing = {"running": "pending", "stopped": "stopping", "terminated": "shutting-down"}[
            final
        ]
        if final == "running":
            instance["LaunchTime"] = _now()
            instance["StateTransitionReason"] = ""
            instance.pop("StateReason", None)
        else:
            instance["StateTransitionReason"] = _user_initiated(_now())
            instance["StateReason"] = _reason(
                "Client.UserInitiatedShutdown", "User initiated shutdown"
            )
        self._set_state(account, region, instance, passing)
        falls_back = final == "running" and before == "stopped" and bool(self.fall_backs)

        def arrive() -> None:
            if instance["State"]["Name"] != passing:
                return
            if falls_back:
                instance["StateReason"] = _reason(*self.fall_backs.pop(0))
            self._arrive(account, region, instance, "stopped" if falls_back else final)

        self._later(self.delays.state_change, arrive)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        """Acts after that time, unless everything has been cleared meanwhile."""
        generation = self._generation

        def due() -> None:
            with self._lock:
                if generation == self._generation:
                    act()

        timer = threading.Timer(seconds, due)
        timer.daemon = True
        timer.start()

    def _arrive(self, account: str, region: str, instance: dict[str, Any], final: str) -> None:
        place = self._region(account, region)
        if final != "running":
            instance.pop("PublicIpAddress", None)
        if final == "terminated":
            self._release_volumes(place, instance)
        self._set_state(account, region, instance, final)
        request = place.spot_requests.get(instance.get("SpotInstanceRequestId", ""))
        if request is not None:
            self._follow_up(account, region, instance, request, final)
        group = any(tag["Key"] == "aws:autoscaling:groupName" for tag in instance["Tags"])
        if final in ("stopped", "terminated") and group:
            self._replace(account, region, instance)

    def _follow_up(
        self,
        account: str,
        region: str,
        instance: dict[str, Any],
        request: dict[str, Any],
        final: str,
    ) -> None:
        """End a Spot request with its instance; a persistent one launches a successor."""
        if request["State"] not in ("active", "disabled"):
            return
        if final == "running":
            request["State"] = "active"
        elif final == "stopped":
            request["State"] = "disabled"
        elif request["Type"] == "persistent":
            request["State"] = "active"
            successor = self._replace(account, region, instance)
            successor["InstanceLifecycle"] = "spot"
            successor["SpotInstanceRequestId"] = request["SpotInstanceRequestId"]
            request["InstanceId"] = successor["InstanceId"]
        else:
            request["State"] = "closed"

    def _replace(self, account: str, region: str, old: dict[str, Any]) -> dict[str, Any]:
        """A persistent Spot request or an Auto Scaling group launches a successor, as it did the
        first."""
        spec = {
            **old["_spec"],
            "instance_id": None,
            "spot_request_type": None,
            "launch_time": _now().isoformat(),
            "state": "pending",
        }
        successor = self._instance(account, region, self.put_instance(account, region, spec))
        self._go(account, region, successor, "running")
        return successor

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
            message = (
                f"{instance['InstanceId']} is managed by {instance['Operator'].get('Principal')}"
            )
            raise AwsError("OperationNotPermitted", message)

    # tags

    def _create_tags(self, account: str, region: str, request: Request) -> Answer:
        resources = self._tagged(account, region, request["Resources"])
        new = {tag["Key"]: tag.get("Value", "") for tag in request["Tags"]}
        _check_tags(new)
        for resource in resources:
            own = [key for key in {**tags_of(resource), **new} if not key.startswith("aws:")]
            if len(own) > _MAX_TAGS:
                raise AwsError("TagLimitExceeded", f"a resource can have {_MAX_TAGS} tags")
        _check_dry_run(request)
        for resource in resources:
            _set_tags(resource, {**tags_of(resource), **new})
        return {}

    def _delete_tags(self, account: str, region: str, request: Request) -> Answer:
        """A tag given with a value goes only if it has that value; without any tag all of the
        user's go."""
        resources = self._tagged(account, region, request["Resources"])
        named = {tag["Key"]: tag.get("Value") for tag in request.get("Tags", ())}
        _refuse_reserved(named)
        _check_dry_run(request)
        for resource in resources:
            kept = {
                key: value
                for key, value in tags_of(resource).items()
                if key.startswith("aws:")
                or (bool(named) and not (key in named and named[key] in (None, value)))
            }
            _set_tags(resource, kept)
        return {}

    def _describe_tags(self, account: str, region: str, request: Request) -> Answer:
        place = self._region(account, region)
        stores = {"instance": place.instances, "volume": place.volumes, "snapshot": place.snapshots}
        found = [
            {"ResourceId": resource_id, "ResourceType": kind, "Key": key, "Value": value}
            for kind, store in stores.items()
            for resource_id, resource in store.items()
            for key, value in tags_of(resource).items()
        ]
        return filters.page("Tags", filters.select(found, request, filters.TAG), request)

    def _tagged(self, account: str, region: str, ids: Iterable[str]) -> list[dict[str, Any]]:
        place = self._region(account, region)
        resources: list[dict[str, Any]] = []
        ids = list(ids)
        if len(ids) > _MAX_TAGGED:
            raise AwsError(
                "InvalidParameterValue", f"at most {_MAX_TAGGED} resources, not {len(ids)}"
            )
        for resource_id in ids:
            kind = resource_id.partition("-")[0]
            store = {"i": place.instances, "vol": place.volumes, "snap": place.snapshots}.get(
                kind, {}
            )
            if resource_id not in store:
                name = {"i": "InstanceID", "vol": "Volume", "snap": "Snapshot"}.get(kind, "ID")
                raise AwsError(f"Invalid{name}.NotFound", f"The ID '{resource_id}' does not exist")
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
            "CreateTime": instance["LaunchTime"],
            "AvailabilityZone": instance["Placement"]["AvailabilityZone"],
            "Tags": [],
            "Attachments": [{"InstanceId": instance["InstanceId"], "DeleteOnTermination": deleted}],
        }
        instance["BlockDeviceMappings"].append(
            {
                "DeviceName": spec.get("device", "/dev/xvda"),
                "Ebs": {
                    "VolumeId": volume_id,
                    "DeleteOnTermination": deleted,
                    "Status": "attached",
                },
            }
        )

    def _describe_volumes(self, account: str, region: str, request: Request) -> Answer:
        ids = request.get("VolumeIds")
        place = self._region(account, region)
        volumes = self._tagged(account, region, ids) if ids else place.volumes.values()
        found = filters.select(volumes, request, filters.VOLUME)
        return filters.page("Volumes", found, request, ids="VolumeIds")

    def _describe_spot_fleets(self, account: str, region: str, request: Request) -> Answer:
        known = self._region(account, region).spot_fleets
        ids = request.get("SpotFleetRequestIds") or list(known)
        found = [known[one] for one in ids if one in known]
        return filters.page("SpotFleetRequestConfigs", found, request, ids="SpotFleetRequestIds")

    def _create_snapshots(self, account: str, region: str, request: Request) -> Answer:
        place = self._region(account, region)
        specification = request["InstanceSpecification"]
        instance = self._instance(account, region, specification["InstanceId"])
        tags = _tags_for("snapshot", request)
        _check_tags(tags)
        wanted = _volumes_to_keep(instance, specification)
        _check_dry_run(request)
        created, begun = [], _now()
        for volume_id in wanted:
            volume = place.volumes[volume_id]
            copied = tags_of(volume) if request.get("CopyTagsFromSource") == "volume" else {}
            snapshot_id = f"snap-{next(self._numbers):017x}"
            place.snapshots[snapshot_id] = {
                "SnapshotId": snapshot_id,
                "VolumeId": volume_id,
                "VolumeSize": volume["Size"],
                "OwnerId": account,
                "State": "pending",
                "Progress": "0%",
                "StartTime": begun,
                "Description": request.get("Description", ""),
                "Tags": [{"Key": k, "Value": v} for k, v in {**copied, **tags}.items()],
            }
            created.append(place.snapshots[snapshot_id])
        self._finish_later(created)
        return {"Snapshots": [dict(snapshot) for snapshot in created]}

    def _finish_later(self, snapshots: list[dict[str, Any]]) -> None:
        outcome = self.snapshot_outcome

        def finish() -> None:
            for snapshot in snapshots:
                snapshot["State"] = outcome
                snapshot["Progress"] = "100%" if outcome == "completed" else "42%"

        self._later(self.delays.snapshot, finish)

    def finish_snapshots(self) -> None:
        """Complete every snapshot that is still pending, in every account and Region."""
        for place in self._regions.values():
            for snapshot in place.snapshots.values():
                if snapshot["State"] == "pending":
                    snapshot["State"] = "completed"
                    snapshot["Progress"] = "100%"

    def _describe_snapshots(self, account: str, region: str, request: Request) -> Answer:
        ids = request.get("SnapshotIds")
        place = self._region(account, region)
        snapshots = self._tagged(account, region, ids) if ids else place.snapshots.values()
        found = filters.select(snapshots, request, filters.SNAPSHOT)
        return filters.page("Snapshots", found, request, ids="SnapshotIds")

    def _delete_snapshot(self, account: str, region: str, request: Request) -> Answer:
        self._tagged(account, region, [request["SnapshotId"]])
        _check_dry_run(request)
        del self._region(account, region).snapshots[request["SnapshotId"]]
        return {}

    # Spot

    def _add_spot_request(self, place: Region, instance: dict[str, Any], kind: str) -> None:
        request_id = f"sir-{next(self._numbers):08x}"
        instance["SpotInstanceRequestId"] = request_id
        instance["InstanceLifecycle"] = "spot"
        place.spot_requests[request_id] = {
            "SpotInstanceRequestId": request_id,
            "Type": kind,
            "State": "active",
            "CreateTime": instance["LaunchTime"],
            "Tags": [],
            "InstanceId": instance["InstanceId"],
        }

    def _spot_type(self, account: str, region: str, instance: dict[str, Any]) -> str | None:
        request_id = instance.get("SpotInstanceRequestId")
        if request_id is None:
            return None
        return str(self._region(account, region).spot_requests[request_id]["Type"])

    def _describe_spot_requests(self, account: str, region: str, request: Request) -> Answer:
        found = filters.select(
            self._requests(account, region, request), request, filters.SPOT_REQUEST
        )
        return filters.page("SpotInstanceRequests", found, request, ids="SpotInstanceRequestIds")

    def _cancel_spot_requests(self, account: str, region: str, request: Request) -> Answer:
        """Running instances stay; a stopped instance of the request is terminated, as EC2 does."""
        requests = self._requests(account, region, request)
        _check_dry_run(request)
        for found in requests:
            found["State"] = "cancelled"
            instance = self._region(account, region).instances.get(found["InstanceId"])
            if instance is not None and instance["State"]["Name"] == "stopped":
                self._note(account, region, instance, "terminated")
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
                    "Timestamp": _now(),
                }
                for kind in request.get("InstanceTypes", ())
                if kind in self.spot_prices
            ]
        }

    def _get_placement_scores(self, account: str, region: str, request: Request) -> Answer:
        """As EC2, which gives fewer than three types a low score whatever there is."""
        del account
        if len(regions := request.get("RegionNames", [region])) > _MOST_SCORED_REGIONS:
            raise AwsError("InvalidParameterValue", f"{len(regions)} Regions are more than 10")
        few = len(set(request.get("InstanceTypes", ()))) < _FEWEST_SCORED_TYPES
        scores = [(name, 1 if few else self.placement_scores.get(name, 1)) for name in regions]
        ranked = sorted(scores, key=lambda one: -one[1])
        return {"SpotPlacementScores": [{"Region": name, "Score": score} for name, score in ranked]}

    # helpers

    def _region(self, account: str, region: str) -> Region:
        return self._regions.setdefault((account, region), Region())

    def _instance(self, account: str, region: str, instance_id: str) -> dict[str, Any]:
        if not re.fullmatch(r"i-[0-9a-f]{8,17}", instance_id):
            raise AwsError("InvalidInstanceID.Malformed", f"Invalid id: '{instance_id}'")
        found = self._region(account, region).instances.get(instance_id)
        if found is None:
            message = f"The instance ID '{instance_id}' does not exist"
            raise AwsError("InvalidInstanceID.NotFound", message)
        return found

    def _instances(self, account: str, region: str, ids: Iterable[str]) -> list[dict[str, Any]]:
        return [self._instance(account, region, instance_id) for instance_id in ids]


def _reason(code: str, message: str) -> dict[str, str]:
    """Return a `StateReason` as EC2 gives it: the message begins with the code."""
    return {"Code": code, "Message": f"{code}: {message}"}


def _check_dry_run(request: Request) -> None:
    """EC2 checks everything first and then says what it would have done."""
    if request.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")


def _check_state(instance: dict[str, Any], *allowed: str) -> None:
    state = instance["State"]["Name"]
    if state not in allowed:
        message = (
            f"The instance '{instance['InstanceId']}' is not in a state from which "
            f"it can be: {state}"
        )
        raise AwsError("IncorrectInstanceState", message)


def _check_tags(tags: Mapping[str, str]) -> None:
    _refuse_reserved(tags)
    for key, value in tags.items():
        if not 1 <= len(key) <= 127 or len(value) > 256:
            raise AwsError("InvalidParameterValue", f"Tag key or value is too long: {key}")


def _refuse_reserved(keys: Iterable[str]) -> None:
    for key in keys:
        if key.startswith("aws:"):
            raise AwsError("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved")


def _tags_for(kind: str, request: Request) -> dict[str, str]:
    return {
        tag["Key"]: tag.get("Value", "")
        for one in request.get("TagSpecifications", ())
        if one["ResourceType"] == kind
        for tag in one.get("Tags", ())
    }


def _volumes_wanted(request: Request) -> list[dict[str, Any]]:
    """The block devices of a launch; without any, the image's root of 8 GiB."""
    wanted = [
        {
            "device": mapping["DeviceName"],
            "size_gib": mapping["Ebs"].get("VolumeSize", 8),
            "delete_on_termination": mapping["Ebs"].get("DeleteOnTermination", True),
        }
        for mapping in request.get("BlockDeviceMappings", ())
        if "Ebs" in mapping
    ]
    return wanted or [{"size_gib": 8}]


def _market(request: Request) -> dict[str, Any]:
    options = request.get("InstanceMarketOptions", {})
    reservation = request.get("CapacityReservationSpecification", {}).get(
        "CapacityReservationTarget", {}
    )
    spec = {"capacity_reservation_id": reservation.get("CapacityReservationId")}
    match options.get("MarketType"):
        case None:
            return spec
        case "spot":
            kind = options.get("SpotOptions", {}).get("SpotInstanceType", "one-time")
            return {**spec, "spot_request_type": kind}
        case other:
            return {**spec, "lifecycle": other}


def _volumes_to_keep(instance: dict[str, Any], specification: Request) -> list[str]:
    """Ids of the volumes that a set of snapshots takes in. Excluding what is not attached is an
    error."""
    attached = {m["Ebs"]["VolumeId"]: m["DeviceName"] for m in instance["BlockDeviceMappings"]}
    excluded = set(specification.get("ExcludeDataVolumeIds", ()))
    if not excluded <= set(attached):
        raise AwsError("InvalidParameterValue", f"not attached: {sorted(excluded - set(attached))}")
    return [
        volume_id
        for volume_id, device in attached.items()
        if volume_id not in excluded
        and not (specification.get("ExcludeBootVolume") and device == instance["RootDeviceName"])
    ]


def _health(instance: dict[str, Any]) -> str:
    return "ok" if instance["State"]["Name"] == "running" else "not-applicable"


def _now() -> datetime:
    return datetime.now(tz=UTC).replace(microsecond=0)


def _state(name: str) -> dict[str, Any]:
    return {"Code": _CODES[name], "Name": name}


def _public(instance: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in instance.items() if not key.startswith("_")}


def _set_tags(resource: dict[str, Any], tags: Mapping[str, str]) -> None:
    resource["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]


def new_event_id() -> str:
    """As EventBridge names its events."""
    return str(uuid.uuid4())


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as EC2 lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _user_initiated(at: datetime) -> str:
    """Return the reason of a state that a user asked for, as EC2 words it."""
    return f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
