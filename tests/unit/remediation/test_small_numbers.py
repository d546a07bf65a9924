"""A small number of a GPU that works: the sweep, and the recheck before a stop without a person's
approval, from CloudWatch's readings on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest

from governor.core.errors import AccessDenied, Unavailable
from governor.core.instance import Target
from governor.episode.model.plan import Step
from governor.evidence.model import Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.policy.model.acting import PlanRule
from governor.policy.model.judging import Metrics, Vetoes
from governor.policy.model.policy import Mode, Policy
from governor.policy.model.profiles import ProfileName
from tests.twins import MemoryMetrics
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import World

UTILIZATION = "nvidia_smi_utilization_gpu"
POWER = "nvidia_smi_power_draw"
ONE_GPU = {"index": "0", "name": "A10G"}
TRUSTED = Metrics(publishers_are_trusted=True)


class Published(NamedTuple):
    """One series that holds this value all of the time."""

    metric: str
    value: float
    dimensions: Mapping[str, str] = {}
    readings: Sequence[float] = ()
    """The readings in place of `value`, oldest first, if they differ."""


def publish(metrics: MemoryMetrics, instance_id: str, series: Sequence[Published]) -> None:
    """Publish these series of an instance, and quiet figures of EC2."""
    ec2 = [Published(name, 1.0) for name in ("CPUUtilization", "NetworkIn", "NetworkOut")]
    for one in (*series, *ec2):
        dimensions = {"InstanceId": instance_id, **one.dimensions}
        values = one.readings or [one.value] * 48
        metrics.publish(one.metric, dimensions, values)


@dataclass
class Approved(World):
    """An idle instance of mode `auto`, right before it is stopped, with these series alone."""

    series: Sequence[Published] = ()
    names: Metrics = TRUSTED
    vetoes: Vetoes = field(default_factory=Vetoes)

    def publish_quiet(self, utilization: float = 1.0) -> None:  # noqa: ARG002
        """Publish the series, under the policy's names."""
        policy = self.policies.policy
        self.policies.policy = replace(policy, metrics=self.names, vetoes=self.vetoes)
        publish(self.metrics, self.instance.instance_id, self.series)


class Outcomes(NamedTuple):
    """Result of the sweep and of the recheck for the same series."""

    verdict: str
    episodes_started: int
    is_stopped: bool


def outcomes(
    series: Sequence[Published],
    *,
    instance_type: str = "g5.xlarge",
    names: Metrics = TRUSTED,
    vetoes: Vetoes | None = None,
) -> Outcomes:
    """Return what a sweep and a recheck in mode `auto` make of these series."""
    vetoes = Vetoes() if vetoes is None else vetoes
    fleet = FleetWorld()
    fleet.policies.policy = Policy(
        mode=Mode.AUTO,
        plan=PlanRule(local_disks_may_be_lost_unasked=True),
        metrics=names,
        vetoes=vetoes,
    )
    instance_id = fleet.add(1, instance_type=instance_type)
    fleet.metrics.published.clear()
    publish(fleet.metrics, instance_id, series)
    summary = fleet.sweep()
    world = Approved(
        mode=Mode.AUTO,
        changes={"instance_type": instance_type},
        series=series,
        names=names,
        vetoes=vetoes,
    )
    is_stopped = world.recheck(world.ref, Step.STOP).proceed
    return Outcomes(fleet.verdict(instance_id), summary.episodes_started, is_stopped)


STOPPED = Outcomes("idle", 1, is_stopped=True)
BUSY = Outcomes("busy", 0, is_stopped=False)
NOT_UNASKED = Outcomes("idle", 0, is_stopped=False)
"""Seen as idle, and nothing is done without a person's approval."""
NO_DATA = Outcomes("no-data", 0, is_stopped=False)
QUIET = [Published(UTILIZATION, 1.0, ONE_GPU), Published(POWER, 30.0, ONE_GPU)]


def test_an_idle_gpu_is_stopped() -> None:
    """The other tests change one thing in this world."""
    assert STOPPED == outcomes(QUIET)


@pytest.mark.parametrize("dimensions", [{}, {"index": "0"}, {"gpu": "0", "UUID": "GPU-1"}])
@pytest.mark.parametrize(
    ("metric", "working", "resting"),
    [
        ("nvidia_smi_utilization_encoder", 1.0, 0.9),
        ("nvidia_smi_utilization_decoder", 100.0, 0.0),
        ("nvidia_smi_encoder_stats_session_count", 1.0, 0.0),
        ("nvidia_smi_encoder_stats_average_fps", 1.0, 0.9),
        ("nvidia_smi_memory_used", 2288.8, 2288.0),
    ],
)
def test_work_under_other_dimensions_keeps_an_instance(
    metric: str, working: float, resting: float, dimensions: dict[str, str]
) -> None:
    """The dimensions of utilization and of the work differ."""
    vetoes = Vetoes(memory_used_percent=10.0)

    assert BUSY == outcomes([*QUIET, Published(metric, working, dimensions)], vetoes=vetoes)
    assert STOPPED == outcomes([*QUIET, Published(metric, resting, dimensions)], vetoes=vetoes)


@pytest.mark.parametrize("dimensions", [{}, {"index": "0", "host": "a"}])
@pytest.mark.parametrize(
    ("metric", "working", "resting"),
    [(POWER, 255.0, 30.0), ("nvidia_smi_utilization_encoder", 100.0, 0.0)],
)
def test_a_quiet_publisher_does_not_hide_a_busy_one(
    metric: str, working: float, resting: float, dimensions: dict[str, str]
) -> None:
    """The figure is quiet under the dimensions of utilization, and not under others."""
    quiet = [*QUIET, Published(metric, resting, ONE_GPU)]

    assert BUSY == outcomes([*quiet, Published(metric, working, dimensions)])
    assert STOPPED == outcomes([*quiet, Published(metric, resting, dimensions)])


# Power that is too low to be power confirms nothing.


@pytest.mark.parametrize(
    ("instance_type", "watts", "is_plausible"),
    [
        ("g5.xlarge", 0.0, False),
        ("g5.xlarge", 0.25, False),
        ("g5.xlarge", 0.9, False),
        ("g5.xlarge", 3.0, False),
        ("g5.xlarge", 3.1, True),
        ("g5.xlarge", 9.0, True),
        ("g4dn.xlarge", 1.0, False),
        ("g4dn.xlarge", 2.0, False),
        ("g4dn.xlarge", 2.1, True),
        ("g4dn.xlarge", 8.0, True),
        ("p5.4xlarge", 7.0, False),
        ("p5.4xlarge", 7.1, True),
        ("p5.4xlarge", 60.0, True),
    ],
)
def test_power_of_no_running_gpu_confirms_nothing(
    instance_type: str, watts: float, is_plausible: bool
) -> None:
    """A script that writes 0 when `nvidia-smi` fails, kilowatts, or a share from 0 to 1."""
    power = Published(POWER, watts, ONE_GPU)
    expected = STOPPED if is_plausible else NOT_UNASKED

    assert expected == outcomes([QUIET[0], power], instance_type=instance_type)


@pytest.mark.parametrize("watts", [0.0, 0.25, 0.9])
def test_a_share_beside_implausible_power_is_no_data(watts: float) -> None:
    """A GPU at 98%, under names of a team's own."""
    names = replace(TRUSTED, utilization="gpu_load", power_draw="gpu_power")
    series = [Published("gpu_load", 0.98), Published("gpu_power", watts)]

    assert NO_DATA == outcomes(series, names=names)


@pytest.mark.parametrize("silent_gpu", range(4))
def test_implausible_power_of_one_gpu_confirms_nothing(silent_gpu: int) -> None:
    """The others draw what idle GPUs draw."""
    series = []
    for gpu in range(4):
        watts = 0.0 if gpu == silent_gpu else 20.0
        dimensions = {"index": str(gpu)}
        series += [Published(UTILIZATION, 0.0, dimensions), Published(POWER, watts, dimensions)]

    assert not outcomes(series, instance_type="g5.12xlarge").is_stopped
    assert 0 == outcomes(series, instance_type="g5.12xlarge").episodes_started


# A fraction under a name of a team's own may be a share, whatever power says.


@pytest.mark.parametrize("percent_of_power", [39.9, 30.0, 20.0, 10.0, 5.0])
@pytest.mark.parametrize(
    ("utilization", "expected"),
    [
        (0.98, NO_DATA),
        (0.5, NO_DATA),
        (0.05, NO_DATA),
        (0.049, STOPPED),
        (0.0, STOPPED),
        (1.0, NO_DATA),
        (1.0000001, NO_DATA),
        (1.5, NO_DATA),
        (2.0, STOPPED),
    ],
)
def test_low_power_does_not_settle_a_fraction(
    utilization: float, expected: Outcomes, percent_of_power: float
) -> None:
    """A GPU may work at 98% or 100% and draw little."""
    names = replace(TRUSTED, utilization="gpu_load")
    series = [Published("gpu_load", utilization), Published(POWER, 3.0 * percent_of_power)]

    assert expected == outcomes(series, names=names)


def test_power_settles_a_fraction_of_a_publisher_that_sends_percent() -> None:
    """An idle GPU of the agent shows a fraction where its samples are averaged."""
    series = [Published(UTILIZATION, 0.5), Published(POWER, 30.0)]

    assert STOPPED == outcomes(series)


# A series of utilization shows work whatever its dimensions are.

SLOTS = Metrics(
    publishers_are_trusted=True,
    profile=ProfileName.CUSTOM,
    namespace="Ours",
    utilization="ours",
    power_draw=POWER,
    device_dimension="Slot",
)


@pytest.mark.parametrize("stranger", [{"index": "3"}, {"UUID": "GPU-1"}, {"job": "train"}])
def test_work_without_the_policys_device_dimension_keeps_an_instance(
    stranger: dict[str, str],
) -> None:
    """The eight devices rest. The series of no device may show work, and stands for none."""
    series = [Published("ours", 0.0, {"Slot": str(slot)}) for slot in range(8)]
    series += [Published(POWER, 60.0, one.dimensions) for one in series]
    busy = outcomes(
        [*series, Published("ours", 98.0, stranger)], instance_type="p5.48xlarge", names=SLOTS
    )
    quiet = outcomes(
        [*series, Published("ours", 0.0, stranger)], instance_type="p5.48xlarge", names=SLOTS
    )

    assert BUSY == busy
    assert STOPPED == quiet


@pytest.mark.parametrize(
    ("instance_type", "gpu_count", "watts"), [("g5.xlarge", 1, 30.0), ("p5.48xlarge", 8, 60.0)]
)
def test_work_under_dimensions_of_no_gpu_keeps_an_instance(
    instance_type: str, gpu_count: int, watts: float
) -> None:
    """The GPUs rest under `index`, and a job publishes what it measures."""
    series = []
    for gpu in range(gpu_count):
        dimensions = {"index": str(gpu)}
        series += [Published(UTILIZATION, 0.0, dimensions), Published(POWER, watts, dimensions)]
    job = {"job": "train"}
    busy = outcomes([*series, Published(UTILIZATION, 98.0, job)], instance_type=instance_type)
    quiet = outcomes([*series, Published(UTILIZATION, 0.0, job)], instance_type=instance_type)

    assert BUSY == busy
    assert STOPPED == quiet


# EC2's power confirms GPU by GPU.


@pytest.mark.parametrize("measured", range(1, 8))
@pytest.mark.parametrize("also_whole", [False, True])
def test_ec2_power_of_some_gpus_confirms_nothing(measured: int, *, also_whole: bool) -> None:
    """Seven of eight say nothing about the last."""
    ec2_power = "GPUPowerUtilization"
    series = [Published(UTILIZATION, 0.0, {"index": str(gpu)}) for gpu in range(8)]
    series += [Published(ec2_power, 10.0, {"GpuId": str(gpu)}) for gpu in range(measured)]
    if also_whole:
        series.append(Published(ec2_power, 10.0))
    result = outcomes(series, instance_type="p5.48xlarge")

    assert (0, False) == (result.episodes_started, result.is_stopped)


@pytest.mark.parametrize("dimensions", [{}, {"GpuId": "0"}])
@pytest.mark.parametrize(
    ("percent", "expected"), [(0.0, NOT_UNASKED), (0.1, STOPPED), (0.9, STOPPED)]
)
def test_ec2_power_of_exactly_0_confirms_nothing(
    percent: float, expected: Outcomes, dimensions: dict[str, str]
) -> None:
    """A GPU that runs draws some power. EC2's figure of an idle one may be 0.9%."""
    series = [QUIET[0], Published("GPUPowerUtilization", percent, dimensions)]

    assert expected == outcomes(series)


def test_ec2_power_of_0_for_one_gpu_confirms_nothing() -> None:
    """Seven of eight are plausible."""
    series = [Published(UTILIZATION, 0.0, {"index": str(gpu)}) for gpu in range(8)]
    for gpu in range(8):
        percent = 0.0 if gpu == 3 else 10.0
        series.append(Published("GPUPowerUtilization", percent, {"GpuId": str(gpu)}))
    result = outcomes(series, instance_type="p5.48xlarge")

    assert (0, False) == (result.episodes_started, result.is_stopped)


@pytest.mark.parametrize("dimensions", [[{}], [{"GpuId": str(gpu)} for gpu in range(8)]])
def test_ec2_power_of_all_gpus_confirms(dimensions: Sequence[dict[str, str]]) -> None:
    """One series of the whole instance, or one of each GPU."""
    series = [Published(UTILIZATION, 0.0, {"index": str(gpu)}) for gpu in range(8)]
    series += [Published("GPUPowerUtilization", 10.0, one) for one in dimensions]

    assert STOPPED == outcomes(series, instance_type="p5.48xlarge")


@pytest.mark.parametrize(
    "label",
    [
        {"GpuId": "GPU-abc"},
        {"GpuId": "0000:53:00.0"},
        {"AcceleratorId": "0"},
    ],
)
def test_ec2_power_of_one_gpu_under_another_name_confirms_nothing(label: dict[str, str]) -> None:
    """Nobody knows how EC2 will name a GPU. Some name is not the whole instance."""
    series = [Published(UTILIZATION, 0.0, {"index": str(gpu)}) for gpu in range(8)]
    series.append(Published("GPUPowerUtilization", 10.0, label))
    result = outcomes(series, instance_type="p5.48xlarge")

    assert (0, False) == (result.episodes_started, result.is_stopped)


@pytest.mark.parametrize("name", ["GpuId", "AcceleratorId"])
def test_ec2_power_of_all_gpus_under_other_names_confirms(name: str) -> None:
    """Eight names are eight GPUs."""
    series = [Published(UTILIZATION, 0.0, {"index": str(gpu)}) for gpu in range(8)]
    series += [Published("GPUPowerUtilization", 10.0, {name: f"GPU-abc{n}"}) for n in range(8)]

    assert STOPPED == outcomes(series, instance_type="p5.48xlarge")


# Power confirms only while it is low.


@pytest.mark.parametrize("limit", [41.0, 90.0, 100.0])
@pytest.mark.parametrize(
    ("percent", "expected"),
    [(39.9, STOPPED), (40.0, NOT_UNASKED), (40.9, NOT_UNASKED), (85.0, None), (98.0, None)],
)
def test_a_high_power_limit_does_not_make_high_power_confirm(
    limit: float, percent: float, expected: Outcomes | None
) -> None:
    """Power from 40% on is no sign of an idle GPU."""
    vetoes = Vetoes(power_percent_of_limit=limit)
    series = [Published(UTILIZATION, 0.0), Published(POWER, 3.0 * percent)]
    if expected is None:
        expected = BUSY if percent >= limit else NOT_UNASKED

    assert expected == outcomes(series, vetoes=vetoes)


def test_high_power_of_the_agent_is_not_outvoted_by_ec2() -> None:
    """One of the two figures shows work."""
    series = [
        Published(UTILIZATION, 0.0),
        Published(POWER, 240.0),
        Published("GPUPowerUtilization", 10.0, {"GpuId": "0"}),
    ]

    assert NOT_UNASKED == outcomes(series, vetoes=Vetoes(power_percent_of_limit=100.0))


# A share may be exactly 1, or above 1 by a rounding error.


def outcomes_of_readings(
    readings: Sequence[Sequence[float]], metric: str, *, instance_type: str = "g5.xlarge"
) -> Outcomes:
    """Return what a sweep and a recheck in mode `auto` make of these readings of each GPU, beside
    low power."""
    names = replace(TRUSTED, utilization=metric)
    series = []
    for gpu, values in enumerate(readings):
        dimensions = {"index": str(gpu)}
        series.append(Published(metric, 0.0, dimensions, values))
        series.append(Published(POWER, 30.0, dimensions))
    return outcomes(series, instance_type=instance_type, names=names)


@pytest.mark.parametrize("metric", ["gpu_load", "gpu_ratio"])
@pytest.mark.parametrize("above_1", [1.0000001, 1.01, 1.99])
@pytest.mark.parametrize("share", [0.98, 0.0501])
def test_a_share_that_was_once_above_1_is_no_data(
    share: float, above_1: float, metric: str
) -> None:
    """A quotient of two times passes 1 where the clocks differ."""
    readings = [share] * 47 + [above_1]

    assert NO_DATA == outcomes_of_readings([readings], metric)


@pytest.mark.parametrize("metric", ["gpu_load", "gpu_ratio"])
def test_a_share_of_one_gpu_above_1_does_not_settle_the_others(metric: str) -> None:
    """Seven of eight GPUs work at 98%."""
    readings = [[0.98] * 48 for _ in range(7)] + [[1.01] * 48]

    assert NO_DATA == outcomes_of_readings(readings, metric, instance_type="p5.48xlarge")


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([1.0], NO_DATA),
        ([1.0, 0.0], NO_DATA),
        ([1.0, 0.0, 0.0, 0.0], STOPPED),
        ([0.0], STOPPED),
    ],
)
def test_a_share_of_exactly_1_is_no_data(readings: Sequence[float], expected: Outcomes) -> None:
    """Less than half of the window is no sign of a share: docs/telemetry.md names this gap."""
    repeated = [*readings] * (48 // len(readings))

    assert expected == outcomes_of_readings([repeated], "gpu_load")


@pytest.mark.parametrize("share", [0.98, 1.0])
def test_a_reading_of_2_settles_that_the_metric_is_percent(share: float) -> None:
    """No share is 2."""
    assert STOPPED == outcomes_of_readings([[share] * 47 + [2.0]], "gpu_load")


@pytest.mark.parametrize("percent", [0.98, 1.0, 1.0000001, 1.01, 1.5])
def test_a_steady_small_percent_of_a_known_publisher_is_idle(percent: float) -> None:
    """The agent publishes percent, so that no small number of it is doubted beside low power."""
    assert STOPPED == outcomes_of_readings([[percent] * 48], UTILIZATION)


# Several publishers of one GPU.


@pytest.mark.parametrize("extra", [{"host": "a"}, {"job": "train"}])
def test_work_under_the_instance_alone_is_seen_beside_other_dimensions(
    extra: dict[str, str],
) -> None:
    """No series is of a GPU: the one with further dimensions does not hide the other."""
    quiet = [Published(UTILIZATION, 0.0, extra), Published(POWER, 30.0, extra)]

    assert BUSY == outcomes([*quiet, Published(UTILIZATION, 98.0)])
    assert STOPPED == outcomes([*quiet, Published(UTILIZATION, 0.0)])


def test_a_gpu_under_two_names_does_not_stand_for_a_hidden_one() -> None:
    """Seven GPUs publish by their index, the first also by its UUID: the eighth may work."""
    labels = [{"index": str(gpu)} for gpu in range(7)] + [{"uuid": "GPU-1"}]
    series = []
    for label in labels:
        series += [Published(UTILIZATION, 0.0, label), Published(POWER, 70.0, label)]

    assert NO_DATA == outcomes(series, instance_type="p5.48xlarge")


def test_the_same_metric_in_another_namespace_keeps_an_instance() -> None:
    """A script that is stuck at 0 publishes beside an agent that measures work."""
    for percent, expected in ((98.0, False), (1.0, True)):
        world = Approved(mode=Mode.AUTO, series=QUIET)
        agent = {"InstanceId": world.instance.instance_id, "index": "0", "host": "a"}
        world.metrics.publish(UTILIZATION, agent, [percent] * 48, namespace="CWAgent")

        assert expected == world.recheck(world.ref, Step.STOP).proceed


def test_a_failed_listing_at_the_recheck_waits() -> None:
    """Nobody knows whether other series show work, so nothing is done, and it is tried again."""
    world = Approved(mode=Mode.AUTO, series=QUIET)
    world.metrics.list_failure = AccessDenied("no ListMetrics", operation="cloudwatch:ListMetrics")
    with pytest.raises(Unavailable, match=r"could not be (read|listed)"):
        world.recheck(world.ref, Step.STOP)


@pytest.mark.parametrize("dimensions", [{}, {"index": "0", "host": "a"}])
def test_a_second_publisher_that_works_since_the_window_keeps_an_instance(
    dimensions: dict[str, str],
) -> None:
    """Seen: where GPUs are known one by one, the series of the whole instance was not read."""
    world = Approved(mode=Mode.AUTO, series=QUIET)
    second = {"InstanceId": world.instance.instance_id, **dimensions}
    world.metrics.publish(UTILIZATION, second, [98.0] * 48)
    read_all = world.metrics.read

    def read(target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Leave out the second publisher from windows that end before this moment."""
        answer = read_all(target, queries, window)
        if window.end > world.clock.moment:
            return answer
        left_out = {
            query.key
            for query in queries
            if query.metric == UTILIZATION and dict(query.dimensions) == second
        }
        series = {key: values for key, values in answer.series.items() if key not in left_out}
        return MetricAnswer(series, answer.problems)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.metrics, "read", read)
        assert not world.recheck(world.ref, Step.STOP).proceed


def test_ec2s_own_metric_of_the_policys_name_breaks_no_recheck() -> None:
    """Its periods are those of EC2, and it is read as EC2's own figure. These readings cover a part
    of the window of three hours, and the recheck says so."""
    names = replace(
        TRUSTED, utilization="GPUUtilization", namespace="GPU/Custom", period_seconds=60
    )
    series = [
        Published("GPUUtilization", 1.0, ONE_GPU),
        Published("GPUUtilization", 1.0, {}),
        Published(POWER, 30.0, ONE_GPU),
    ]
    world = Approved(mode=Mode.AUTO, series=series, names=names)
    whole = {"InstanceId": world.instance.instance_id}
    world.metrics.publish("GPUUtilization", whole, [1.0] * 48, namespace="AWS/EC2")

    assert "was measured for 27% of the window" in world.recheck(world.ref, Step.STOP).reason


def test_memory_under_other_dimensions_that_came_in_the_last_minutes_keeps_an_instance() -> None:
    """The window ends some minutes ago. The look at the time since knows the policy's limits."""
    vetoes = Vetoes(memory_used_percent=10.0)
    world = Approved(mode=Mode.AUTO, series=QUIET, vetoes=vetoes)
    owner = {"InstanceId": world.instance.instance_id, "host": "a"}
    world.metrics.publish("nvidia_smi_memory_used", owner, [20_000.0] * 48)
    read_all = world.metrics.read

    def read(target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Leave out memory from windows that end before this moment."""
        answer = read_all(target, queries, window)
        if window.end > world.clock.moment:
            return answer
        memory = {query.key for query in queries if query.metric == "nvidia_smi_memory_used"}
        series = {key: values for key, values in answer.series.items() if key not in memory}
        return MetricAnswer(series, answer.problems)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.metrics, "read", read)
        assert not world.recheck(world.ref, Step.STOP).proceed
