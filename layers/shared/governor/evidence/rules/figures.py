"""The one table of metrics besides GPU utilization that may show work, such as CPU, network and
power, each with its veto's limit.

A row says where a figure is published, how it is read, and what limits it. The sweep, the recheck,
`governor simulate`, `governor scan`, `governor doctor` and the docs read this table. A new veto is
a row here, a limit in `Vetoes`, and a field in `Evidence`. This module reads and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple, assert_never

from governor.core.instance import Shape
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy

EC2_NAMESPACE = "AWS/EC2"
"""The CloudWatch namespace of EC2's own metrics."""
WORK = "work"
"""The name of jobs' own metrics in `Evidence.last_active` and `Evidence.read`."""


class Publisher(Enum):
    """The publisher of a figure, which decides how its series are found."""

    AGENT = "the agent, for each GPU"
    """Under the names of the policy."""
    EC2 = "EC2, for the whole instance"
    """Every five minutes. Several metrics of one figure add up."""
    EC2_GPU = "EC2, for some instance types"
    """Only a listing shows the series, so a back-test cannot read it."""
    INSTANCE = "the instance, in a namespace of its own"
    """Only a listing shows the series, so a back-test cannot read it."""


class Scale(Enum):
    """How a reading becomes the figure."""

    PERCENT = "%"
    PERCENT_OF_POWER = "% of the GPU's power limit"
    PERCENT_OF_MEMORY = "% of the GPU's memory"
    BYTES_PER_SECOND = "bytes per second"
    OPERATIONS_PER_SECOND = "operations per second"
    VCPUS = "busy vCPUs"
    """From a percentage of all vCPUs of the type."""
    SESSIONS = "sessions"
    FRAMES = "frames per second"


class Figure(NamedTuple):
    """A measurement besides utilization.

    `field` names its maximum in `Evidence`. `limit` is the path of the setting of the policy that
    it must stay under. `metrics` are names of CloudWatch where EC2 publishes, else names of the
    settings in `Metrics` that hold them.
    """

    words: str
    field: str
    limit: str
    publisher: Publisher
    metrics: tuple[str, ...]
    statistic: str
    scale: Scale
    confirms_utilization: bool = False
    """True for a second figure of the GPU's side: measured and low, it confirms a low utilization.
    It is searched for where nothing is published under the dimensions of utilization."""
    at_every_sweep: bool = True
    """False for a figure that hardly any instance publishes: it is read when an instance turns
    idle, and by every question and recheck, but not by the sweeps between."""


FIGURES: Mapping[str, Figure] = {
    "power": Figure(
        words="power draw",
        field="power_percent_of_limit",
        limit="vetoes.power_percent_of_limit",
        publisher=Publisher.AGENT,
        metrics=("power_draw",),
        statistic="Maximum",
        scale=Scale.PERCENT_OF_POWER,
        confirms_utilization=True,
    ),
    "memory": Figure(
        words="GPU memory held",
        field="memory_used_percent",
        limit="vetoes.memory_used_percent",
        publisher=Publisher.AGENT,
        metrics=("memory_used",),
        statistic="Maximum",
        scale=Scale.PERCENT_OF_MEMORY,
    ),
    "cpu": Figure(
        words="CPU",
        field="cpu_percent",
        limit="vetoes.cpu_percent",
        publisher=Publisher.EC2,
        metrics=("CPUUtilization",),
        statistic="Average",
        scale=Scale.PERCENT,
    ),
    "network": Figure(
        words="network traffic",
        field="network_bytes_per_second",
        limit="vetoes.network_bytes_per_second",
        publisher=Publisher.EC2,
        metrics=("NetworkIn", "NetworkOut"),
        statistic="Sum",
        scale=Scale.BYTES_PER_SECOND,
    ),
    "agentless": Figure(
        words="EC2's own GPUPowerUtilization",
        field="agentless_power_percent",
        limit="vetoes.power_percent_of_limit",
        publisher=Publisher.EC2_GPU,
        metrics=("GPUPowerUtilization",),
        statistic="Maximum",
        scale=Scale.PERCENT,
        confirms_utilization=True,
    ),
    "encoder": Figure(
        words="utilization of the video encoder",
        field="encoder_percent",
        limit="vetoes.video_percent",
        publisher=Publisher.AGENT,
        metrics=("encoder_utilization",),
        statistic="Maximum",
        scale=Scale.PERCENT,
        at_every_sweep=False,
    ),
    "decoder": Figure(
        words="utilization of the video decoder",
        field="decoder_percent",
        limit="vetoes.video_percent",
        publisher=Publisher.AGENT,
        metrics=("decoder_utilization",),
        statistic="Maximum",
        scale=Scale.PERCENT,
        at_every_sweep=False,
    ),
    "encoder-sessions": Figure(
        words="open sessions of the video encoder",
        field="encoder_sessions",
        limit="vetoes.encoder_sessions",
        publisher=Publisher.AGENT,
        metrics=("encoder_sessions",),
        statistic="Maximum",
        scale=Scale.SESSIONS,
        at_every_sweep=False,
    ),
    "encoder-frames": Figure(
        words="frames encoded per second",
        field="encoded_frames_per_second",
        limit="vetoes.encoded_frames_per_second",
        publisher=Publisher.AGENT,
        metrics=("encoded_frames",),
        statistic="Maximum",
        scale=Scale.FRAMES,
        at_every_sweep=False,
    ),
    "vcpus": Figure(
        words="busy vCPUs",
        field="busy_vcpus",
        limit="vetoes.busy_vcpus",
        publisher=Publisher.EC2,
        metrics=("CPUUtilization",),
        statistic="Average",
        scale=Scale.VCPUS,
    ),
    "bound": Figure(
        words="the utilization that the instance itself publishes",
        field="bound_utilization_percent",
        limit="idle.utilization_below_percent",
        publisher=Publisher.INSTANCE,
        metrics=("utilization",),
        statistic="Maximum",
        scale=Scale.PERCENT,
    ),
}
"""Figures that may veto by the policy, in the order of the checks."""


def limit_of(policy: Policy, figure: str) -> float | None:
    """Return the limit that a figure must stay under; `None` if the policy sets no limit for the
    figure."""
    row = FIGURES[figure]
    if row.publisher is Publisher.INSTANCE and not policy.metrics.bound_namespaces:
        return None
    section, _, name = row.limit.partition(".")
    limit: float | None = getattr(getattr(policy, section), name)
    return limit


def required_figures(policy: Policy) -> Iterator[str]:
    """Yield the figures that must be measured before an instance counts as idle, because the policy
    lets them veto."""
    for figure in (*policy.vetoes.required, *published_by(Publisher.INSTANCE)):
        if limit_of(policy, figure) is not None:
            yield figure


def metrics_of(figure: str, names: Metrics) -> tuple[str, ...]:
    """Return CloudWatch's names of the metrics that show a figure; empty if none is published.
    `names` are the policy's names for the agent's metrics."""
    row = FIGURES[figure]
    if row.publisher in (Publisher.EC2, Publisher.EC2_GPU):
        return row.metrics
    metrics = tuple([getattr(names, setting) for setting in row.metrics])
    metrics = tuple([metric for metric in metrics if metric])
    if row.scale is Scale.PERCENT_OF_POWER:
        return (*metrics, *_power_beside(names))
    return metrics


_POWER_BY_FAMILY = {
    "DCGM_FI_": "DCGM_FI_DEV_POWER_USAGE",
    "node_gpu_": "node_gpu_power_draw",
    "GPUUtilization": "GPUPowerDraw",
}
"""The metric of power in watts that a publisher sends beside utilization, by how the name of its
utilization begins. Publishers: DCGM's exporter, Container Insights, `agent/` in `GPU/Custom`."""


_POWER_OF_THE_AGENT = Metrics().power_draw
"""The metric of power if the policy names none."""


def _power_beside(names: Metrics) -> tuple[str, ...]:
    """Return the metric of power that belongs to the policy's utilization; an empty tuple if the
    policy names one itself, or the publisher is not known."""
    if names.power_draw != _POWER_OF_THE_AGENT:
        return ()
    for family, power_metric in _POWER_BY_FAMILY.items():
        if names.utilization.startswith(family):
            return (power_metric,)
    return ()


def is_share_by_name(metric: str) -> bool:
    """Return whether a metric is known to be a share from 0 to 1 although people read it as
    percent: DCGM's profiling metrics, and names that say so."""
    return may_be_frozen(metric) or metric.lower().endswith("_ratio")


def may_be_frozen(metric: str) -> bool:
    """Return whether a metric stays at 0 while another tool holds the GPU's profiler, as DCGM's
    profiling metrics do."""
    return metric.startswith("DCGM_FI_PROF_")


def confirming_figures() -> tuple[str, ...]:
    """Return the second figures of the GPU's side, in the order of the table."""
    return tuple(figure for figure, row in FIGURES.items() if row.confirms_utilization)


def published_by(*publishers: Publisher) -> tuple[str, ...]:
    """Return the figures that one of these publishers publishes, in the order of the table."""
    return tuple(figure for figure, row in FIGURES.items() if row.publisher in publishers)


def is_published_by(figure: str, *publishers: Publisher) -> bool:
    """Return whether one of these publishers publishes the figure; false if it is not in the
    table."""
    row = FIGURES.get(figure)
    return row is not None and row.publisher in publishers


def can_be_replayed(figure: str) -> bool:
    """Return whether a back-test can read earlier values of a figure, which takes the names of its
    series."""
    return FIGURES[figure].publisher in (Publisher.AGENT, Publisher.EC2)


def factor_of(scale: Scale, shape: Shape | None, period_seconds: float) -> float | None:
    """Return the factor that turns a reading of a period into the figure.

    Return `None` if the instance type does not say what 100% is, or is not known.
    """
    match scale:
        case Scale.PERCENT | Scale.SESSIONS | Scale.FRAMES:
            return 1.0
        case Scale.BYTES_PER_SECOND | Scale.OPERATIONS_PER_SECOND:
            return 1.0 / period_seconds
        case Scale.VCPUS:
            return shape.vcpus / 100.0 if shape and shape.vcpus else None
        case Scale.PERCENT_OF_POWER | Scale.PERCENT_OF_MEMORY:
            whole = _whole(scale, shape)
            return 100.0 / whole if whole else None
    assert_never(scale)


_LEAST_POWER_PERCENT = 1.0
_LEAST_POWER_WATTS = 2.0


def implausible_power_watts(shape: Shape | None) -> float:
    """Return up to how many watts no GPU of this type draws: 1% of its power limit, and at least
    2 W. Readings up to this do not count as measured.

    A powered GPU draws more when it is idle: 8 to 10 of 70 W (T4), 9 to 20 of 300 W (A10G), 60 to
    70 of 700 W (H100), by `nvidia-smi`. Lower readings come from a script that writes 0, from
    kilowatts, or from a share from 0 to 1, which on a T4 would pass 1% of the limit.
    """
    limit_watts = _whole(Scale.PERCENT_OF_POWER, shape)
    if limit_watts is None:
        return _LEAST_POWER_WATTS
    return max(_LEAST_POWER_WATTS, limit_watts * _LEAST_POWER_PERCENT / 100.0)


def implausible_reading(figure: str, shape: Shape | None) -> float:
    """Return up to which reading a second figure does not count as measured: the agent's in watts,
    EC2's own in percent, which may be as low as 0.9 but not 0."""
    if is_published_by(figure, Publisher.AGENT):
        return implausible_power_watts(shape)
    return 0.0


def implausible_percent(figure: str, shape: Shape | None) -> float:
    """Return `implausible_reading` in percent of the power limit; for the agent's figure 1% if that
    is not known."""
    if not is_published_by(figure, Publisher.AGENT):
        return implausible_reading(figure, shape)
    limit_watts = _whole(Scale.PERCENT_OF_POWER, shape)
    if limit_watts is None:
        return _LEAST_POWER_PERCENT
    return 100.0 * implausible_power_watts(shape) / limit_watts


def _whole(scale: Scale, shape: Shape | None) -> int | None:
    """Return the reading of a GPU that is 100%: its power limit in W, or its memory in MiB.

    Return `None` if the instance type is not known, or does not say.
    """
    if shape is None:
        return None
    if scale is Scale.PERCENT_OF_POWER:
        return shape.board_power_watts
    return shape.memory_mib_each


def amount_text(figure: str, value: float) -> str:
    """Return a value of a figure with its unit, where its words do not say it: `12.5%`."""
    return scaled_text(FIGURES[figure].scale, value)


def scaled_text(scale: Scale, value: float) -> str:
    """Return a value with the unit of its scale, where the words of the figure do not say it."""
    match scale:
        case Scale.BYTES_PER_SECOND:
            return f"{value / 1_000_000:.2f} MB/s"
        case Scale.OPERATIONS_PER_SECOND:
            return f"{value:.1f}/s"
        case Scale.VCPUS | Scale.SESSIONS | Scale.FRAMES:
            return f"{value:.1f}".removesuffix(".0")
        case Scale.PERCENT | Scale.PERCENT_OF_POWER | Scale.PERCENT_OF_MEMORY:
            return f"{value:.1f}%"
    assert_never(scale)
