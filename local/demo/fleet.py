"""The simulated fleet of the demo and of the integration tests, with three and a half hours of GPU
metrics.

Plain data about instances and what their agents publish; how either gets into the local cloud is
the simulator's affair. Each member is there for one behavior of the governor, named in `why`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from local.engine.simulation import Points

NAMESPACE = "GPU/EC2"
METRIC_MINUTES = 210
"""Longer than a question asks, with the newest minutes that are left out."""
METRIC_LENGTH = timedelta(minutes=METRIC_MINUTES)
SELECTOR = {"Purpose": "GPU-Workload"}

Load = Callable[[int, int], float]
"""Utilization in percent of GPU `index` at minute `minute` before now."""


def noise(*parts: object) -> float:
    """Between 0 and 1, the same for the same parts: the demo shows the same fleet every time."""
    return (zlib.crc32("/".join(map(str, parts)).encode()) % 1000) / 1000


def busy(index: int, minute: int) -> float:
    """A training job: high, with a dip while it writes checkpoints."""
    return (
        20.0 + 10 * noise("dip", minute) if minute % 15 == 0 else 82.0 + 15 * noise(index, minute)
    )


def idle(index: int, minute: int) -> float:
    """Nothing but a monitoring tool now and then."""
    return 2.0 * noise(index, minute) if minute % 7 == 0 else 0.0


def one_of_eight(index: int, minute: int) -> float:
    """GPU 3 works, the other seven do not."""
    return busy(index, minute) if index == 3 else idle(index, minute)


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi names it. Memory in MiB, power in W."""

    name: str
    memory_mib: int
    idle_watts: float
    limit_watts: float


A100 = Gpu("NVIDIA A100-SXM4-40GB", 40960, 55, 400)
A10G = Gpu("NVIDIA A10G", 22888, 18, 300)
T4 = Gpu("Tesla T4", 16384, 10, 70)
L4 = Gpu("NVIDIA L4", 22888, 13, 72)
H100 = Gpu("NVIDIA H100 80GB HBM3", 81920, 70, 700)


@dataclass(frozen=True)
class Member:
    """One instance of the fleet.

    `agent` says how its agent publishes: the `InstanceId` aggregate next to the GPUs, the GPUs
    alone, or silence since 40 minutes.
    """

    name: str
    instance_type: str
    gpu: Gpu
    gpus: int
    load: Load
    expected: str
    why: str
    agent: Literal["aggregate", "per-gpu", "fell-silent"] = "aggregate"
    launched_minutes_ago: int = 60 * 26
    lifecycle: str = "on-demand"
    spot_request_type: Literal["one-time", "persistent"] | None = None
    stop_protection: bool = False
    termination_protection: bool = False
    root_gib: int = 100
    data_gib: int | None = None
    snoozed: bool = False
    capacity_reservation_id: str | None = None
    user_data: str | None = None
    """In base64."""
    tags: Mapping[str, str] = field(default_factory=dict)
    selected: bool = True
    instance_id: str | None = None
    """`None`: a new one."""

    @property
    def all_tags(self) -> dict[str, str]:
        """With the name and, where it is selected, the selector."""
        return {"Name": self.name, **(SELECTOR if self.selected else {}), **self.tags}


def demo_fleet() -> tuple[Member, ...]:
    """The fleet; `expected` is the verdict each member must get."""
    owner = {"Owner": "ml-platform", "Project": "vision"}
    return (
        Member(
            "train-a",
            "p4d.24xlarge",
            A100,
            8,
            busy,
            "busy",
            "a training job on all GPUs, on Spot capacity",
            lifecycle="spot",
            spot_request_type="one-time",
            tags={**owner, "Job": "resnet-pretrain"},
        ),
        Member(
            "notebook-1",
            "g5.xlarge",
            A10G,
            1,
            idle,
            "idle",
            "a forgotten notebook",
            data_gib=200,
            tags=owner,
        ),
        Member(
            "finetune-b",
            "p4d.24xlarge",
            A100,
            8,
            one_of_eight,
            "partly-idle",
            "one busy GPU of eight keeps the instance",
            agent="per-gpu",
            tags={**owner, "Job": "segment-finetune"},
        ),
        Member(
            "spot-once",
            "g4dn.xlarge",
            T4,
            1,
            idle,
            "idle",
            "a one-time Spot instance cannot be stopped",
            lifecycle="spot",
            spot_request_type="one-time",
            tags={**owner, "Job": "nightly-eval"},
        ),
        Member(
            "spot-persistent",
            "g4dn.2xlarge",
            T4,
            1,
            idle,
            "idle",
            "a persistent Spot request would launch a successor",
            lifecycle="spot",
            spot_request_type="persistent",
            agent="per-gpu",
        ),
        Member(
            "asg-member",
            "g5.2xlarge",
            A10G,
            1,
            idle,
            "managed-elsewhere",
            "Auto Scaling would replace it",
            tags={"aws:autoscaling:groupName": "inference-asg"},
        ),
        Member(
            "karpenter-node",
            "g6.2xlarge",
            L4,
            1,
            idle,
            "managed-elsewhere",
            "Karpenter owns it",
            agent="per-gpu",
            tags={"karpenter.sh/nodepool": "gpu", "eks:eks-cluster-name": "prod"},
        ),
        Member(
            "silent",
            "g5.4xlarge",
            A10G,
            1,
            idle,
            "no-data",
            "its agent went silent",
            agent="fell-silent",
        ),
        Member(
            "fresh",
            "g5.xlarge",
            A10G,
            1,
            idle,
            "too-young",
            "started ten minutes ago",
            launched_minutes_ago=10,
        ),
        Member(
            "exempt",
            "g5.8xlarge",
            A10G,
            1,
            idle,
            "exempt",
            "exempted by tag",
            tags={"GpuGovernor": "exempt"},
        ),
        Member(
            "snoozed", "g6.4xlarge", L4, 1, idle, "snoozed", "somebody said: keep it", snoozed=True
        ),
        Member(
            "stop-protected",
            "g6.8xlarge",
            L4,
            1,
            idle,
            "idle",
            "disableApiStop is a no",
            stop_protection=True,
        ),
        Member(
            "termination-protected",
            "g6.xlarge",
            L4,
            1,
            idle,
            "idle",
            "disableApiTermination forbids to terminate, not to stop",
            termination_protection=True,
        ),
        Member(
            "capacity-block",
            "p5.48xlarge",
            H100,
            8,
            idle,
            "idle",
            "a Capacity Block is paid in advance",
            lifecycle="capacity-block",
            capacity_reservation_id="cr-0123456789abcdef0",
            agent="per-gpu",
        ),
        Member(
            "idle-eight",
            "p4d.24xlarge",
            A100,
            8,
            idle,
            "idle",
            "eight idle GPUs, and local NVMe that dies with a stop",
            data_gib=500,
            tags={"Owner": "research", "Project": "llm"},
        ),
        Member(
            "not-selected",
            "g5.xlarge",
            A10G,
            1,
            idle,
            "(not seen)",
            "idle, but without the Purpose tag",
            selected=False,
        ),
    )


def series_of(
    member: Member,
    instance_id: str,
    launched: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[Points]:
    """Everything the agent of a member, and EC2 itself, publish from `since` to before `until`.

    Both are whole minutes; without them the `METRIC_MINUTES` before `launched`, when the scene was
    set. After that the same load goes on: the idle stay idle, and the busy stay busy.
    """
    start = launched.replace(second=0, microsecond=0)
    until = until or start
    since = since or start - METRIC_LENGTH
    born = start - timedelta(minutes=member.launched_minutes_ago)
    quiet = start - timedelta(minutes=40) if member.agent == "fell-silent" else until
    times = [at for at in _times(since, until, timedelta(minutes=1)) if born <= at < quiet]
    for metric, value in _GPU_METRICS.items():
        whole: list[tuple[datetime, float]] = []
        for index in range(member.gpus):
            points = tuple(
                (at, value(member, member.load(index, (start - at) // timedelta(minutes=1))))
                for at in times
            )
            dimensions = {
                "InstanceId": instance_id,
                "InstanceType": member.instance_type,
                "index": str(index),
                "name": member.gpu.name,
                "arch": "Ampere",
            }
            yield Points(NAMESPACE, metric, dimensions, points)
            whole += points
        if member.agent != "per-gpu":
            # As the agent aggregates: one sample a GPU and minute under the instance id alone.
            yield Points(NAMESPACE, metric, {"InstanceId": instance_id}, tuple(whole))
    yield from _ec2_series(member, instance_id, max(since, born), until)


def _times(since: datetime, until: datetime, every: timedelta) -> Iterator[datetime]:
    while since < until:
        yield since
        since += every


def _ec2_series(
    member: Member, instance_id: str, since: datetime, until: datetime
) -> Iterator[Points]:
    """Basic monitoring: a value in five minutes, from EC2 itself and so also of silent hosts."""
    every = timedelta(minutes=5)
    first = datetime.fromtimestamp(int(since.timestamp()) // 300 * 300, tz=since.tzinfo)
    # A period is named by its start, and there when it is over.
    times = [at for at in _times(first, until, every) if at + every <= until]
    for metric, of_work in _EC2_METRICS.items():
        value = of_work[member.load is not idle]
        points = tuple((time, value * (0.9 + 0.2 * noise(metric, time.minute))) for time in times)
        yield Points("AWS/EC2", metric, {"InstanceId": instance_id}, points)


_EC2_METRICS = {
    "CPUUtilization": (1.2, 45.0),
    "NetworkIn": (2.1e6, 9e9),
    "NetworkOut": (1.4e6, 6e9),
}
"""Without work, and with it."""


def past_of(
    member: Member,
    instance_id: str,
    launched: datetime,
    loads: Sequence[float | None],
    first: datetime,
) -> Iterator[Points]:
    """The same series before the launch, from the load of each hour since `first`; `None`: it was
    stopped."""
    span = {"start": first.timestamp(), "end": (launched - METRIC_LENGTH).timestamp()}
    for one in series_of(member, instance_id, launched, launched - timedelta(minutes=10), launched):
        if not one.points:
            continue
        index = one.dimensions.get("index")
        rests = (
            index is not None and member.load(int(index), 1) <= 10 and member.load is one_of_eight
        )
        if one.namespace == NAMESPACE:
            made, gpus = _GPU_METRICS[one.metric], member.gpus if index is None else 1
            hours = [
                None if load is None else made(member, 1.0 if rests else load) for load in loads
            ]
            past = {**span, "hours": hours, "per_minute": float(gpus)}
        else:
            quiet, works = _EC2_METRICS[one.metric]
            hours = [None if load is None else works if load > 10 else quiet for load in loads]
            past = {**span, "hours": hours, "per_minute": 0.2}
        yield Points(one.namespace, one.metric, one.dimensions, (), past)


_GPU_METRICS: dict[str, Callable[[Member, float], float]] = {
    "nvidia_smi_utilization_gpu": lambda member, load: round(load, 1),
    "nvidia_smi_memory_used": lambda member, load: (
        member.gpu.memory_mib * (0.8 if load > 10 else 0.02)
    ),
    "nvidia_smi_memory_total": lambda member, load: float(member.gpu.memory_mib),
    "nvidia_smi_power_draw": lambda member, load: (
        member.gpu.idle_watts + (member.gpu.limit_watts - member.gpu.idle_watts) * load / 100
    ),
    "nvidia_smi_temperature_gpu": lambda member, load: 35 + load * 0.4,
}
