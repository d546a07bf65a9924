"""The evidence about an instance: readings of its GPUs and other metrics over a window, as
CloudWatch gave them.

A missing reading stays missing. Nothing is judged here: `verdict.rules` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from governor.core.units import BytesPerSecond, Percent, UtcDatetime

Series = tuple[float | None, ...]
"""One value a period, oldest first; `None` if nothing was published in it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open span of whole periods, `[start, end)`, aligned to the period as CloudWatch
    aligns."""

    start: UtcDatetime
    end: UtcDatetime
    period: timedelta

    @property
    def length(self) -> timedelta:
        """Return the time from the start to the end."""
        return self.end - self.start

    @property
    def bins(self) -> int:
        """Return the number of periods."""
        return int(self.length / self.period)

    def bin_end(self, index: int) -> UtcDatetime:
        """Return the end of the period at this index."""
        return self.start + self.period * (index + 1)


class MetricSource(StrEnum):
    """The series from which utilization was read."""

    AGGREGATE = "aggregate"
    """The agent's `InstanceId` aggregate: the busiest GPU of each period."""
    PER_GPU = "per-gpu"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """Utilization of one GPU (`gpu` is its index), or of the busiest one (`gpu` is `all`), in
    percent."""

    gpu: str
    utilization: Series


@dataclass(frozen=True, slots=True)
class Evidence:
    """All measurements that a verdict rests on. An episode stores them, with their hash.

    Maxima are over the window. They are `None` if nothing was published, or if the figure was not
    asked for (`read` names the figures that were).
    """

    window: Window
    source: MetricSource
    gpus: tuple[GpuReadings, ...] = ()
    aggregate: Series = ()
    """The `InstanceId` aggregate if GPUs were read one by one, too: it can prove work, not
    idleness."""
    gpus_expected: int | None = None
    gpus_reporting: int | None = None
    memory_used_percent: Percent | None = None
    power_percent_of_limit: Percent | None = None
    cpu_percent: Percent | None = None
    network_bytes_per_second: BytesPerSecond | None = None
    agentless_power_percent: Percent | None = None
    measured_percent: Mapping[str, Percent] = field(default_factory=dict)
    """For `power`, `cpu`, `network`, `memory`: the share of its window's periods that have a
    reading."""
    read: frozenset[str] = frozenset()
    """The figures that were asked for."""
    read_problem: str | None = None
    """The reason if an answer of CloudWatch is incomplete; `None` if all were complete."""
    last_active: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """For `power`, `cpu`, `network`, `memory`: the end of the period with the maximum. For `work`:
    the end of the last period in which a job said that it works."""
    work: str | None = None
    """The metric by which a job reports work: namespace and name."""
    samples: Series = ()
    """Samples in each period of an aggregate of several GPUs. They reveal a GPU without a
    reading."""
    memory_newest_percent: Percent | None = None
    """The most memory that any GPU uses in the newest minutes; `None` if one of them was not
    measured."""
    last_measured: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """For `power`, `cpu`, `network`, `memory`: the end of the newest period that has a reading."""
    longest_hole_minutes: Mapping[str, float] = field(default_factory=dict)
    """For the same figures: the longest time without a reading."""
    bound_utilization_percent: Percent | None = None
    """The highest utilization that the instance itself published, in the namespace into which only
    it may publish."""
    encoder_percent: Percent | None = None
    decoder_percent: Percent | None = None
    encoder_sessions: float | None = None
    encoded_frames_per_second: float | None = None
    busy_vcpus: float | None = None
