"""EC2 in memory, with time: what was asked for shows later, as it does at AWS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from governor.aws.ec2_writes import Ec2Controller
from governor.core.errors import AccessDenied, Throttled, Unavailable
from governor.core.instance import Instance, Snapshot, Target
from governor.episode.model.plan import Step
from tests.twins import MemoryEc2
from tests.unit.aws.fakes import FakeClients, client_error

SECRET = "user-data-secret"
"""In the user data of every instance."""
_SETTLES = 60.0
"""Seconds until a stop or a termination shows."""
_SNAPSHOTS_TAKE = 1_200.0
_REFUSED = (
    "ec2:CreateSnapshots failed: UnauthorizedOperation: You are not authorized to perform this "
    "operation: explicit deny in a service control policy"
)
_ACTOR = "arn:aws:iam::123456789012:role/gpu-governor-us-east-1-actor"


class Trouble(StrEnum):
    """How EC2 answers a call that it does not simply carry out."""

    UNAVAILABLE = "503"
    """It is not available, and does nothing."""
    THROTTLED = "throttled"
    LOST = "lost"
    """It does what was asked; the answer is lost."""
    DENIED = "denied"
    """The role has lost the permission for it."""


@dataclass(frozen=True)
class Cancellation:
    """A Spot request that was canceled, and whose it was."""

    request_id: str
    for_instance: str
    """The instance that was to be terminated."""
    owner: str | None


@dataclass(frozen=True)
class _SpotClient:
    """A client of EC2 for the Spot request of an instance."""

    ec2: SimulatedEc2
    instance: Instance

    def describe_spot_instance_requests(self, *, SpotInstanceRequestIds: list[str]) -> Any:
        (request_id,) = SpotInstanceRequestIds
        is_canceled = request_id in self.ec2.canceled
        state = "cancelled" if is_canceled else "active"
        request = {"State": state, "InstanceId": self.ec2.owner_of(request_id)}
        return {"SpotInstanceRequests": [request]}

    def cancel_spot_instance_requests(
        self, *, SpotInstanceRequestIds: list[str], DryRun: bool = False
    ) -> Any:
        if DryRun:
            raise client_error("DryRunOperation", status=412)
        (request_id,) = SpotInstanceRequestIds
        self.ec2.cancel(request_id, self.instance)
        return {}


@dataclass
class SimulatedEc2(MemoryEc2):
    """As its twin, with time: states change a minute after the call, and snapshots end after
    twenty."""

    cloud: Any = None
    """The cloud that is told of every deed."""
    began: dict[str, datetime] = field(default_factory=dict)
    """When each snapshot began."""
    lost: dict[str, tuple[Snapshot, Mapping[str, str]]] = field(default_factory=dict)
    """Each deleted snapshot, with its tags."""
    ran: dict[str, list[tuple[datetime, datetime | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """From when to when each instance ran."""
    instead: Callable[[], object] | None = None
    """An act in place of the next termination; its caller hears that EC2 is not available."""
    troubles: dict[str, list[Trouble]] = field(default_factory=dict)
    """How EC2 answers the next calls, by the name of the call, first come first served."""
    on_trouble: Callable[[], object] | None = None
    """An act of somebody else after the first of these answers."""
    launched_by: dict[str, str] = field(default_factory=dict)
    """The newest instance of a Spot request, where that is another one than the one that names
    it."""
    cancellations: list[Cancellation] = field(default_factory=list)
    refuses_snapshots: bool = False
    """A policy of the organization refuses each snapshot, in dry runs, too."""
    was_unsure: bool = False
    """Some answer did not say whether the call was carried out."""

    def add(self, *instances: Instance) -> None:
        super().add(*instances)
        for one in instances:
            self.ran[one.instance_id].append((one.launch_time, None))

    def user_data(self, target: Target, instance_id: str) -> bytes:
        return self.user_data_of.get(instance_id) or f"{SECRET}-{instance_id}".encode()

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        self._answered("stop", partial(self._stop, target, instance_id, dry_run=dry_run), dry_run)

    def _stop(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        if not dry_run and self.instances[instance_id].state in ("stopping", "stopped"):
            self.cloud.did(
                "stop", instance_id
            )  # as EC2 answers a second call: accepted, and nothing changes
            return
        super().stop(target, instance_id, dry_run=dry_run)
        if not dry_run:
            self.cloud.did("stop", instance_id)
            self._becomes(instance_id, "stopping", "stopped")

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        self._answered(
            "terminate", partial(self._terminate, target, instance_id, dry_run=dry_run), dry_run
        )

    def _terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        if self.instead is not None:
            act, self.instead = self.instead, None
            act()
            self.was_unsure = True
            raise Unavailable("EC2 is not available", operation="ec2:TerminateInstances")
        super().terminate(target, instance_id, dry_run=dry_run)
        if not dry_run:
            self.cloud.did("terminate", instance_id)
            self._becomes(instance_id, "shutting-down", "terminated")

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> None:
        # The real adapter asks EC2 whose request it is: no other part knows.
        controller = Ec2Controller(FakeClients(_SpotClient(self, instance)), _ACTOR)
        call = partial(controller.prepare, companion, instance, dry_run=dry_run)
        self._answered("prepare", call, dry_run)

    def cancel(self, request_id: str, instance: Instance) -> None:
        """Cancel a Spot request, for the termination of this instance."""
        owner_id = self.owner_of(request_id)
        self.cancellations.append(Cancellation(request_id, instance.instance_id, owner_id))
        super().prepare(Step.CANCEL_SPOT_REQUEST, instance, dry_run=False)

    def owner_of(self, request_id: str) -> str | None:
        """Return the instance that a Spot request belongs to now; `None` if to none."""
        if request_id in self.launched_by:
            return self.launched_by[request_id]
        for one in self.instances.values():
            if one.spot_request_id == request_id:
                return one.instance_id
        return None

    def _answered(self, name: str, call: Callable[[], object], dry_run: bool) -> None:
        """Carry out a call, or not, as `troubles` has it. Raises: Throttled, Unavailable,
        AccessDenied."""
        planned = self.troubles.get(name)
        if not planned or dry_run:
            call()
            return
        trouble = planned.pop(0)
        if trouble is Trouble.LOST:
            call()
        if self.on_trouble is not None:
            act = self.on_trouble
            self.on_trouble = None
            act()
        operation = f"ec2:{name}"
        if trouble is Trouble.THROTTLED:
            raise Throttled(f"{name}: slow down", operation=operation)
        if trouble is Trouble.DENIED:
            raise AccessDenied(f"{name} is not allowed", operation=operation)
        self.was_unsure = True
        raise Unavailable(f"{name}: EC2 is not available", operation=operation)

    def start(self, target: Target, instance_id: str) -> None:
        self.started_at = self.cloud.moment.replace(microsecond=0)
        was = self.instances[instance_id].state
        super().start(target, instance_id)
        if was == "stopped":
            self.cloud.did("start", instance_id)
            self.ran[instance_id].append((self.started_at, None))
            self.cloud.state_changed(instance_id, "pending")
            self.cloud.later(_SETTLES, partial(self._runs, instance_id))

    def _runs(self, instance_id: str) -> None:
        """EC2 has started it, unless somebody has stopped it meanwhile."""
        instance = self.instances[instance_id]
        if instance.state == "pending":
            self.instances[instance_id] = replace(instance, state="running")
            self.cloud.state_changed(instance_id, "running")

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> list[Snapshot]:
        if self.refuses_snapshots:
            raise AccessDenied(_REFUSED, operation="ec2:CreateSnapshots")
        created = super().create(target, instance_id, tags, dry_run=dry_run, boot=boot)
        if not dry_run:
            self.cloud.did("snapshot", instance_id)
        for one in created:
            self.began[one.snapshot_id] = self.cloud.moment
            self.cloud.later(_SNAPSHOTS_TAKE, partial(self._finish, one.snapshot_id))
        return created

    def delete(self, target: Target, snapshot_id: str) -> str | None:
        if snapshot_id in self.snapshots:
            self.lost[snapshot_id] = self.snapshots[snapshot_id]
        request_id = super().delete(target, snapshot_id)
        self.cloud.did("delete", snapshot_id)
        return request_id

    def _finish(self, snapshot_id: str) -> None:
        if snapshot_id not in self.snapshots:
            return  # somebody has deleted it
        snapshot, tags = self.snapshots[snapshot_id]
        if snapshot.state == "pending":
            self.snapshots[snapshot_id] = (replace(snapshot, state="completed"), tags)

    def by_hand(self, instance_id: str, what: str) -> None:
        """A person, or EC2, stops or terminates it."""
        state = self.instances[instance_id].state
        if what == "stop" and state == "running":
            self._becomes(instance_id, "stopping", "stopped")
        elif what == "terminate" and state in ("running", "stopping", "stopped"):
            self._becomes(instance_id, "shutting-down", "terminated")

    def _becomes(self, instance_id: str, first: str, then: str) -> None:
        self._is(instance_id, first)
        self.cloud.later(_SETTLES, partial(self._settles, instance_id, first, then))

    def _settles(self, instance_id: str, first: str, then: str) -> None:
        if self.instances[instance_id].state == first:
            self._is(instance_id, then)

    def _is(self, instance_id: str, state: str) -> None:
        self.instances[instance_id] = replace(self.instances[instance_id], state=state)
        began, until = self.ran[instance_id][-1]
        if until is None:
            self.ran[instance_id][-1] = (began, self.cloud.moment)
        self.cloud.state_changed(instance_id, state)
