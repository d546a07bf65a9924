"""The control of the simulators: launches instances, publishes metrics, plans faults. For demo and
tests.

Speaks to the engine over HTTP. It must not know the governor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

_ANSWER_SECONDS = 600
"""As for any client: on a busy machine the engine may take minutes."""


@dataclass(frozen=True)
class VolumeSpec:
    """An EBS volume to attach. Size in GiB."""

    size_gib: int
    device: str = "/dev/xvda"
    delete_on_termination: bool = True


@dataclass(frozen=True)
class InstanceSpec:
    """An instance to launch, with everything EC2 would know of it."""

    instance_type: str
    launch_time: datetime
    tags: Mapping[str, str] = field(default_factory=dict)
    state: str = "running"
    lifecycle: str = "on-demand"
    spot_request_type: str | None = None
    root_device_type: str = "ebs"
    volumes: Sequence[VolumeSpec] = (VolumeSpec(100),)
    stop_protection: bool = False
    termination_protection: bool = False
    capacity_reservation_id: str | None = None
    public_ip: str | None = None
    operator: Mapping[str, Any] | None = None
    instance_id: str | None = None
    availability_zone: str | None = None
    image_id: str | None = None
    user_data: str | None = None
    """In base64, as EC2 takes and gives it."""
    stopped_at: datetime | None = None
    """When a user stopped it."""


@dataclass(frozen=True)
class Points:
    """Values of one series, oldest first, at the given times.

    `past` is what the simulator of CloudWatch calls a `Past`.
    """

    namespace: str
    metric: str
    dimensions: Mapping[str, str]
    points: tuple[tuple[datetime, float], ...]
    past: Mapping[str, object] | None = None


class Simulation:
    """Commands to the simulators of one account and Region."""

    def __init__(self, endpoint_url: str, account: str, region: str) -> None:
        self._endpoint = endpoint_url
        self._credential = f"{account}/20260101/{region}/ec2/aws4_request"

    def put_instance(self, spec: InstanceSpec) -> str:
        """Launches an instance; returns its id."""
        document = asdict(spec)
        document["launch_time"] = spec.launch_time.isoformat()
        if spec.stopped_at is not None:
            document["stopped_at"] = spec.stopped_at.isoformat()
        return str(self._do("put_instance", spec=document))

    def set_state(self, instance_id: str, state: str) -> None:
        """Somebody else stops, starts or terminates it (`stopped`, `running`, `terminated`)."""
        self._do("set_state", instance_id=instance_id, state=state)

    def put_volume(self, size_gib: int, created: datetime, tags: Mapping[str, str]) -> str:
        """Adds a volume that is attached to nothing; returns its id."""
        spec = {"size_gib": size_gib, "created": created.isoformat(), "tags": dict(tags)}
        return str(self._do("put_volume", spec=spec))

    def put_reservation(
        self, instance_type: str, count: int, created: datetime, tags: Mapping[str, str]
    ) -> str:
        """Adds a Capacity Reservation that no instance uses; returns its id."""
        spec = {
            "instance_type": instance_type,
            "count": count,
            "created": created.isoformat(),
            "tags": dict(tags),
        }
        return str(self._do("put_reservation", spec=spec))

    def put_spot_fleet(self, created: datetime, record: Mapping[str, Any]) -> str:
        """Adds a Spot Fleet request as EC2 describes it, which launches nothing; returns its id."""
        return str(self._do("put_spot_fleet", record={**record, "CreateTime": created.isoformat()}))

    def put_answer(
        self, operation: str, answer: Mapping[str, Any], match: Mapping[str, Any] | None = None
    ) -> None:
        """Invents the answer of `sagemaker:Operation` or `ce:Operation` that the engine does not
        have, in botocore's shape; with `match` only for requests with these parameters."""
        document = json.loads(json.dumps(answer, default=datetime.isoformat))
        self._do("put_answer", operation=operation, answer=document, match=dict(match or {}))

    def set_sagemaker_times(
        self, kind: str, name: str, created: datetime, modified: datetime | None = None
    ) -> None:
        """Puts back when an `endpoint` or a `notebook-instance` was created, and last changed."""
        self._do(
            "set_sagemaker_times",
            kind=kind,
            name=name,
            created=created.isoformat(),
            modified=(modified or created).isoformat(),
        )

    def set_throughput_time(self, name: str, created: datetime) -> None:
        """Puts back when a provisioned throughput of Bedrock was created."""
        self._do("set_throughput_time", name=name, created=created.isoformat())

    def set_sagemaker_prices(self, prices: Mapping[str, str]) -> None:
        """USD per hour by usage, such as `Host:ml.g5.xlarge`, in every Region."""
        self._do("set_sagemaker_prices", prices=dict(prices))

    def put_metrics(self, series: Iterable[Points]) -> None:
        """Publishes points."""
        self._do(
            "put_metrics",
            series=[
                {
                    "namespace": one.namespace,
                    "metric": one.metric,
                    "dimensions": dict(one.dimensions),
                    "points": [(at.timestamp(), value) for at, value in one.points],
                    **({"past": one.past} if one.past else {}),
                }
                for one in series
            ],
        )

    def drop_metrics(self, instance_id: str) -> None:
        """Forgets all series of an instance."""
        self._do("drop_metrics", instance_id=instance_id)

    def set_fault(
        self,
        operation: str,
        code: str,
        message: str = "simulated",
        times: int = 1,
        match: Mapping[str, Any] | None = None,
    ) -> None:
        """The next `times` calls of `service:Operation` are answered with this error.

        With `match` only calls whose parameters of these names are, or hold, these values. The
        service is `ec2`, `cloudwatch`, or one before which the engine has a gate (`sns`, `states`,
        `dynamodb`, ...).
        """
        self._do(
            "set_fault",
            operation=operation,
            code=code,
            message=message,
            times=times,
            match=dict(match or {}),
        )

    def starts_fall_back(self, code: str, message: str, times: int = 1) -> None:
        """EC2 accepts the next `times` starts of stopped instances and takes them back, with this
        `StateReason`."""
        self._do("starts_fall_back", code=code, message=message, times=times)

    def set_weather(self, seed: int, share: float) -> None:
        """From now on that share of all calls of functions meets a fault; 0 ends it.

        Only in a cloud that was started with `weather`. Counts begin anew with another seed.
        """
        self._do("set_weather", seed=seed, share=share)

    def weather(self) -> tuple[int, list[tuple[str, str, int]]]:
        """Calls of functions so far, and what struck them: operation, kind of fault, how often."""
        found = self._do("weather")
        return int(found["calls"]), [(one[0], one[1], int(one[2])) for one in found["struck"]]

    def partial_data(self, *metrics: str) -> None:
        """Answers about these metrics come back as PartialData."""
        self._do("partial_data", metrics=metrics)

    def set_delays(self, *, state_change: float, snapshot: float) -> None:
        """Seconds EC2 takes from now on."""
        self._do("set_delays", state_change=state_change, snapshot=snapshot)

    def finish_snapshots(self) -> None:
        """Completes every snapshot that is still pending, however long it was to take."""
        self._do("finish_snapshots")

    def snapshots_end_as(self, state: str) -> None:
        """How snapshots end that are started from now on: `completed` or `error`."""
        self._do("snapshots_end_as", state=state)

    def set_spot_prices(self, prices: Mapping[str, str]) -> None:
        """USD per hour by instance type."""
        self._do("set_spot_prices", prices=dict(prices))

    def set_list_prices(self, prices: Mapping[str, str]) -> None:
        """USD per hour by instance type, in every Region."""
        self._do("set_list_prices", prices=dict(prices))

    def set_placement_scores(self, scores: Mapping[str, int]) -> None:
        """Set the scores of Spot requests for three types and more: 1 to 10 by Region."""
        self._do("set_placement_scores", scores=dict(scores))

    def set_instance_types(self, shapes: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the answers of DescribeInstanceTypes, by instance type; in boto3's form."""
        shapes = {name: {"InstanceType": name, **shape} for name, shape in shapes.items()}
        self._do("set_instance_types", shapes=shapes)

    def spot_warning(
        self, *instance_ids: str, action: str = "terminate", interrupt_after: float | None = None
    ) -> None:
        """EC2 warns that it takes instances back; and after these seconds (AWS: 120) does so, if
        given."""
        self._do(
            "spot_warning",
            instance_ids=instance_ids,
            action=action,
            interrupt_after=interrupt_after,
        )

    def rebalance_recommendation(self, instance_id: str) -> None:
        """EC2 says that an interruption has become more likely."""
        self._do("rebalance_recommendation", instance_id=instance_id)

    def put_event(
        self,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: Sequence[str] = (),
    ) -> None:
        """An event of a service that is not simulated, as the service would send it."""
        self._do(
            "put_event",
            source=source,
            detail_type=detail_type,
            detail=dict(detail),
            resources=list(resources),
        )

    def set_unmanaged(self, *instance_ids: str) -> None:
        """These instances, and no others, have no agent of Systems Manager from now on."""
        self._do("set_unmanaged", instance_ids=instance_ids)

    def start_session(self, instance_id: str, owner: str, started_at: datetime) -> None:
        """Somebody opens a Session Manager session to an instance, and leaves it open."""
        session = {"Target": instance_id, "Owner": owner, "StartDate": started_at.timestamp()}
        self._do("start_session", session=session)

    def commands(self) -> list[dict[str, Any]]:
        """Commands that Systems Manager has taken, oldest first; `at` is their time, epoch
        seconds."""
        return list(self._do("commands"))

    def deeds(self) -> list[dict[str, Any]]:
        """Every stop, termination and start that a call to EC2 has begun, oldest first.

        `final` is the state it leads to, `at` epoch seconds, `completed` the completed snapshots of
        its volumes at that moment.
        """
        return list(self._do("deeds"))

    def calls(self) -> dict[str, int]:
        """Calls so far by `service:Operation`."""
        return dict(self._do("calls"))

    def await_end(self, execution_arn: str) -> bool:
        """Return whether an execution of a state machine has ended, as soon as it has; after a
        moment in any case. The engine waits, so that nobody has to ask it again and again."""
        return bool(self._do("await_end", execution=execution_arn))

    def steps(self) -> int:
        """Return how many events the histories of all executions hold."""
        return int(self._do("steps"))

    def dump(self) -> dict[str, dict[str, str]]:
        """States by id of instances, volumes, snapshots and Spot requests."""
        return dict(self._do("dump"))

    def clear(self) -> None:
        """Forgets everything."""
        self._do("clear")

    def _do(self, command: str, **arguments: Any) -> Any:
        text = json.dumps({"do": command, **arguments})
        request = Request(
            self._endpoint + "/",
            data=urlencode(
                {"Action": "GovernorSimulation", "Version": "2016-11-15", "Command": text}
            ).encode(),
            headers={
                "Authorization": f"AWS4-HMAC-SHA256 Credential={self._credential}, "
                "SignedHeaders=host, Signature=0",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        with urlopen(request, timeout=_ANSWER_SECONDS) as answer:
            return json.loads(answer.read())
