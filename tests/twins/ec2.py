"""EC2 in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from governor.core.errors import (
    CloudError,
    NotFound,
    Protected,
    Unavailable,
    Unsupported,
    WrongState,
)
from governor.core.instance import (
    Instance,
    Launch,
    Protection,
    Reservation,
    Session,
    Snapshot,
    SpotRequestType,
    Target,
    Volume,
)
from governor.episode.model.plan import Step
from governor.policy.model.names import TagMatch


@dataclass
class MemoryEc2:
    """A small EC2: reads, tags, stops, terminates and snapshots as EC2 answers them.

    `failures` maps an operation to errors that are raised by its next calls, first come first
    served; `None` lets one through. Snapshots are `pending` until `finish_snapshots` is called. A
    dry run meets the same refusals, and does nothing.
    """

    instances: dict[str, Instance] = field(default_factory=dict)
    protections: dict[str, Protection] = field(default_factory=dict)
    spot_requests: dict[str, SpotRequestType] = field(default_factory=dict)
    canceled: set[str] = field(default_factory=set)
    snapshots: dict[str, tuple[Snapshot, dict[str, str]]] = field(default_factory=dict)
    user_data_of: dict[str, bytes] = field(default_factory=dict)
    known_reservations: set[str] = field(default_factory=set)
    held: list[Reservation] = field(default_factory=list)
    sessions: dict[str, list[Session]] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    """Instances whose records cannot be read, and why."""
    creators: dict[str, str] = field(default_factory=dict)
    """By instance id, as CloudTrail knows them; those looked up are in `looked_up`."""
    looked_up: list[str] = field(default_factory=list)
    launches: dict[str, Launch] = field(default_factory=dict)
    """By instance id, as CloudTrail knows them; each lookup is in `launches_asked`."""
    launches_asked: list[tuple[str, datetime]] = field(default_factory=list)
    failures: dict[str, list[Exception | None]] = field(default_factory=dict)
    lost_answers: set[str] = field(default_factory=set)
    """Operations whose next call takes effect, and whose answer does not come."""
    calls: list[tuple[str, str, bool]] = field(default_factory=list)
    instant: bool = True
    started_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    now: Callable[[], datetime] = lambda: datetime(2026, 1, 1, tzinfo=UTC)
    """When snapshots begin."""

    def add(self, *instances: Instance) -> None:
        """Adds instances, or replaces those with the same id."""
        self.instances |= {instance.instance_id: instance for instance in instances}

    def _raise_planned(self, operation: str) -> None:
        planned = self.failures.get(operation)
        error = planned.pop(0) if planned else None
        if error is not None:
            raise error

    # SessionReader

    def open_sessions(
        self, target: Target, instance_id: str, since: datetime
    ) -> tuple[Session, ...]:
        self._raise_planned("open_sessions")
        return tuple(one for one in self.sessions.get(instance_id, []) if one.since > since)

    # InstanceReader

    def list_selected(
        self, target: Target, selector: TagMatch, odd: MutableMapping[str, str] | None = None
    ) -> list[Instance]:
        self._raise_planned("list_selected")
        if odd is not None:
            odd.update(self.odd)
        return [
            instance
            for instance in self.instances.values()
            if instance.target == target
            and instance.state == "running"
            and selector.is_on(instance)
            and instance.instance_id not in self.odd
        ]

    def list_ungoverned(self, target: Target, selector: TagMatch) -> list[Instance]:
        self._raise_planned("list_ungoverned")
        running = [
            one
            for one in self.instances.values()
            if one.target == target and one.state == "running"
        ]
        return [one for one in running if not selector.is_on(one)]

    def creator(self, target: Target, instance_id: str) -> str | None:
        self._raise_planned("creator")
        self.looked_up.append(instance_id)
        return self.creators.get(instance_id)

    def launch(self, target: Target, instance_id: str, before: datetime) -> Launch | None:
        self.launches_asked.append((instance_id, before))
        self._raise_planned("launch")
        return self.launches.get(instance_id)

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        self._raise_planned("describe")
        if instance_id in self.odd:
            raise CloudError(self.odd[instance_id])
        return self.instances.get(instance_id)

    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> dict[str, Instance | CloudError]:
        self._raise_planned("describe_all")
        found: dict[str, Instance | CloudError] = {
            one: self.instances[one] for one in instance_ids if one in self.instances
        }
        return found | {one: CloudError(self.odd[one]) for one in instance_ids if one in self.odd}

    def protection(self, target: Target, instance_id: str) -> Protection:
        return self.protections.get(instance_id, Protection())

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        return self.spot_requests.get(spot_request_id)

    def knows_reservation(self, target: Target, reservation_id: str) -> bool:
        self._raise_planned("knows_reservation")
        return reservation_id in self.known_reservations

    def reservations(self, target: Target) -> list[Reservation]:
        self._raise_planned("reservations")
        return [one for one in self.held if one.target == target]

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """Every volume that has none yet has 100 GiB."""
        return tuple(
            volume
            if volume.size_gib is not None
            else replace(volume, size_gib=100, volume_type="gp3")
            for volume in instance.volumes
        )

    # InstanceTagger

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> dict[str, CloudError]:
        operation = "set_tags" if any(tags.values()) else "remove_tags"
        failures: dict[str, CloudError] = {}
        for instance_id in instance_ids:
            self.calls.append((operation, instance_id, dry_run))
            try:
                self._raise_planned(f"{operation}:{instance_id}")
                instance = self._existing(instance_id)
            except CloudError as error:
                failures[instance_id] = error
                continue
            if not dry_run:
                found = {**instance.tags, **tags}
                kept = {key: value for key, value in found.items() if value is not None}
                self.instances[instance_id] = replace(instance, tags=kept)
        return failures

    # InstanceController

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        instance = self._checked(
            "stop", instance_id, dry_run, self.protection(target, instance_id).stop
        )
        request = instance.spot_request_id and self.spot_requests.get(instance.spot_request_id)
        one_time = (
            instance.spot_request_id is not None and request is not SpotRequestType.PERSISTENT
        )
        if instance.root_device_type != "ebs" or one_time:
            raise Unsupported(f"{instance_id} cannot be stopped")
        if instance.state != "running":
            raise WrongState(f"{instance_id} is {instance.state}")
        if not dry_run:
            state = "stopped" if self.instant else "stopping"
            self._change_state(instance, state, public_ip=None)
        return self._answer("stop", dry_run)

    # InstanceStarter

    def start(self, target: Target, instance_id: str) -> str | None:
        """It runs at once, since `started_at`, or is `pending` unless EC2 is `instant`."""
        instance = self._checked("start", instance_id, False, False)
        if instance.state not in ("stopped", "pending", "running"):
            raise WrongState(f"{instance_id} is {instance.state}")
        self.instances[instance_id] = replace(
            instance,
            state="running" if self.instant else "pending",
            launch_time=self.started_at,
            state_transition_reason="",
            state_reason="",
        )
        return self._answer("start", False)

    def fall_back(self, instance_id: str, state_reason: str, **changes: object) -> None:
        """EC2 takes a start back, for this reason."""
        fallen: dict[str, Any] = {"state": "stopped", "state_reason": state_reason, **changes}
        self.instances[instance_id] = replace(self.instances[instance_id], **fallen)

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        protected = self.protection(target, instance_id).termination
        instance = self._checked("terminate", instance_id, dry_run, protected)
        if not dry_run:
            state = "terminated" if self.instant else "shutting-down"
            self._change_state(instance, state)
        return self._answer("terminate", dry_run)

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> str | None:
        assert companion is Step.CANCEL_SPOT_REQUEST
        request = instance.spot_request_id or ""
        self.calls.append(("cancel_spot_request", request, dry_run))
        self._raise_planned("cancel_spot_request")
        if request in self.canceled:
            return None
        if not dry_run:
            self.canceled.add(request)
            if self.instances[instance.instance_id].state == "stopped":
                # EC2 ends a stopped instance with its request.
                self._change_state(instance, "terminated" if self.instant else "shutting-down")
        return self._request_id(dry_run)

    def _change_state(self, instance: Instance, state: str, **changes: object) -> None:
        changes |= {
            "state_transition_reason": f"User initiated ({self.now():%Y-%m-%d %H:%M:%S} GMT)",
            "state_reason": "Client.UserInitiatedShutdown: User initiated shutdown",
        }
        changed = replace(instance, state=state, **changes)  # type: ignore[arg-type]
        self.instances[instance.instance_id] = changed

    def _answer(self, operation: str, dry_run: bool) -> str | None:
        if operation in self.lost_answers:
            self.lost_answers.remove(operation)
            raise Unavailable("the answer did not come", operation=operation)
        return self._request_id(dry_run)

    def _request_id(self, dry_run: bool) -> str | None:
        """Numbered by the call."""
        return None if dry_run else f"request-{len(self.calls)}"

    def _checked(
        self, operation: str, instance_id: str, dry_run: bool, protected: bool | None
    ) -> Instance:
        self.calls.append((operation, instance_id, dry_run))
        self._raise_planned(operation)
        instance = self._existing(instance_id)
        if protected:
            raise Protected(f"{instance_id} is protected")
        if instance.operator_managed:
            raise Protected(f"{instance_id} is managed by {instance.operator_principal}")
        return instance

    def _existing(self, instance_id: str) -> Instance:
        if instance_id not in self.instances:
            raise NotFound(f"{instance_id} does not exist", code="InvalidInstanceID.NotFound")
        return self.instances[instance_id]

    # Snapshotter

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> list[Snapshot]:
        self.calls.append(("create_snapshots", instance_id, dry_run))
        self._raise_planned("create_snapshots")
        instance = self._existing(instance_id)
        if dry_run:
            return []
        created = [
            Snapshot(
                f"snap-{len(self.snapshots) + n:017x}",
                volume.volume_id,
                "pending",
                start_time=self.now(),
                owner_id=target.account,
                size_gib=volume.size_gib,
                tags=dict(tags),
            )
            for n, volume in enumerate(instance.volumes[0 if boot else 1 :])
        ]
        self.snapshots |= {snapshot.snapshot_id: (snapshot, dict(tags)) for snapshot in created}
        return created

    def find(self, target: Target, tags: Mapping[str, str]) -> list[Snapshot]:
        return [
            snapshot
            for snapshot, own in self.snapshots.values()
            if all(own.get(key) == value for key, value in tags.items())
        ]

    def delete(self, target: Target, snapshot_id: str) -> str | None:
        self.calls.append(("delete_snapshot", snapshot_id, False))
        self._raise_planned("delete_snapshot")
        if snapshot_id not in self.snapshots:
            raise NotFound(f"{snapshot_id} does not exist", code="InvalidSnapshot.NotFound")
        del self.snapshots[snapshot_id]
        return self._request_id(False)

    def user_data(self, target: Target, instance_id: str) -> bytes:
        self._raise_planned("user_data")
        return self.user_data_of.get(instance_id, b"")

    def finish_snapshots(self, state: str = "completed") -> None:
        """Every pending snapshot ends in this state."""
        for snapshot_id, (snapshot, tags) in self.snapshots.items():
            if snapshot.state == "pending":
                self.snapshots[snapshot_id] = (replace(snapshot, state=state), tags)
