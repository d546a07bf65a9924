"""CloudWatch on simulated time: readings that come late, out of order, twice, not at all, or that
lie.

`busy` is the truth: when the GPUs of an instance work. `Habits` say what becomes of it on its way
to whoever reads. The invariants ask this module what could be known at a moment; the product only
reads.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from governor.core.instance import Target
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from tests.soak.aws import SimulatedEc2

UTILIZATION = "nvidia_smi_utilization_gpu"
MINUTE = timedelta(minutes=1)
_OF_EC2 = timedelta(minutes=5)
POWER = "nvidia_smi_power_draw"
_OF_AGENT = (UTILIZATION, POWER)
_QUIET = {
    UTILIZATION: 1.0,
    POWER: 10.0,
    "CPUUtilization": 1.0,
    "NetworkIn": 1000.0,
    "NetworkOut": 1000.0,
}
"""Power stays at this, so that no veto of it hides what utilization shows."""
_BUSY = {"CPUUtilization": 95.0, "NetworkIn": 9e8, "NetworkOut": 9e8}
Busy = tuple[datetime, datetime]


@dataclass(frozen=True)
class Habits:
    """How the readings of one instance come to CloudWatch. The defaults are those of a good
    agent."""

    late: timedelta = timedelta()
    """Each reading comes up to so late, by itself: the newest may come before older ones."""
    delay: timedelta = timedelta()
    """All of them come so late, at least."""
    gone: tuple[Busy, ...] = ()
    """When the agent publishes nothing."""
    lies_from: datetime | None = None
    """From then on every GPU is published as 0, whatever it does. CPU and network are EC2's own
    figures."""
    ahead: timedelta = timedelta()
    """How far the clock of the host is ahead."""
    level: float = 95.0
    """Utilization while it works, in percent."""
    on_gpu_alone: bool = False
    """Its work shows on its GPUs only, neither as CPU time nor on the network."""
    twice: bool = False
    """Each reading of the agent is published twice."""


GOOD = Habits()


@dataclass
class SimulatedMetrics:
    """Quiet while an instance runs, but for the times in `busy`; nothing while it does not run."""

    ec2: SimulatedEc2
    busy: dict[str, list[Busy]] = field(default_factory=lambda: defaultdict(list))
    habits: dict[str, Habits] = field(default_factory=dict)
    """The habits of bad agents, by instance."""

    # the port

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        found = {}
        for query in queries:
            series = self._series(query, window)
            if series is not None:
                found[query.key] = series
        return MetricAnswer(found, {})

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        namespace, metric, _ = wanted
        if metric != UTILIZATION or namespace is None:
            return {}
        ids = [instance_id] if instance_id is not None else list(self.ec2.instances)
        return {one: [Listed(namespace, metric, (("InstanceId", one),))] for one in ids}

    def _series(self, query: MetricQuery, window: Window) -> Series | None:
        if query.metric == "AnswersRefused":
            found = [(one - window.start) // window.period for one in self.ec2.cloud.refusals]
            return tuple(float(found.count(number)) for number in range(window.bins))
        names = dict(query.dimensions)
        is_known = query.metric in _QUIET and set(names) == {"InstanceId"}
        if not is_known or names["InstanceId"] not in self.ec2.instances:
            return None
        instance_id = names["InstanceId"]
        return tuple(self._bins(instance_id, query.metric, query.statistic, window))

    def _bins(
        self, instance_id: str, metric: str, statistic: str, window: Window
    ) -> Iterator[float | None]:
        """Yield the value of each period of the window, as it can be read now."""
        ends = [window.bin_end(index) for index in range(window.bins)]
        if self.habits.get(instance_id, GOOD) == GOOD and statistic != "SampleCount":
            for end in ends:
                yield self._plain_value(instance_id, metric, end, window.period)
            return
        for end in ends:
            yield self._value(instance_id, metric, statistic, end, window.period)

    def _plain_value(
        self, instance_id: str, metric: str, end: datetime, period: timedelta
    ) -> float | None:
        """Return what a good agent has published of a period: all of it at once."""
        now = self.ec2.cloud.moment
        if end - period + MINUTE > now or not self._ran(instance_id, end - period, end):
            return None
        for began, until in self.busy[instance_id]:
            if began < min(end, now) and end - period < until:
                return self._working_value(instance_id, metric)
        return _QUIET[metric]

    def _value(
        self, instance_id: str, metric: str, statistic: str, end: datetime, period: timedelta
    ) -> float | None:
        """Return what the readings of a period come to that have arrived by now."""
        now = self.ec2.cloud.moment
        values = []
        for minute in range(period // MINUTE):
            stamp = end - minute * MINUTE
            value = self._reading(instance_id, metric, stamp)
            if value is not None and self._arrives_at(instance_id, metric, stamp) <= now:
                values.append(value)
        if not values:
            return None
        if statistic == "SampleCount":
            return float(len(values) * self._copies(instance_id, metric))
        return (
            max(values)
            if statistic == "Maximum" or metric == UTILIZATION
            else sum(values) / len(values)
        )

    def _copies(self, instance_id: str, metric: str) -> int:
        is_doubled = metric in _OF_AGENT and self.habits.get(instance_id, GOOD).twice
        return 2 if is_doubled else 1

    # readings

    def _reading(self, instance_id: str, metric: str, stamp: datetime) -> float | None:
        """Return the reading of the minute that ends at `stamp` by the host's clock, if there is
        one."""
        habits = self.habits.get(instance_id, GOOD)
        end = self._true_time(instance_id, metric, stamp)
        if not self._ran(instance_id, end - MINUTE, end):
            return None
        if metric in _OF_AGENT:
            if any(began < end and end - MINUTE < until for began, until in habits.gone):
                return None
            if habits.lies_from is not None and end > habits.lies_from:
                return 0.0
        works = any(began < end and end - MINUTE < until for began, until in self.busy[instance_id])
        return self._working_value(instance_id, metric) if works else _QUIET[metric]

    def _working_value(self, instance_id: str, metric: str) -> float:
        habits = self.habits.get(instance_id, GOOD)
        if metric == UTILIZATION:
            return habits.level
        if metric == POWER:
            return _QUIET[POWER]
        shows = not habits.on_gpu_alone
        # Network traffic of a job that computes stays small, as it always was in these stories.
        is_seen = shows and (metric == "CPUUtilization" or habits.lies_from is not None)
        return _BUSY[metric] if is_seen else _QUIET[metric]

    def _true_time(self, instance_id: str, metric: str, stamp: datetime) -> datetime:
        """Return when it was by a right clock. Only the agent's readings have the host's time."""
        ahead = self.habits.get(instance_id, GOOD).ahead
        return stamp - ahead if metric in _OF_AGENT else stamp

    def _arrives_at(self, instance_id: str, metric: str, stamp: datetime) -> datetime:
        """Return when a reading can be read. One that is late stays as late at every look."""
        habits = self.habits.get(instance_id, GOOD)
        end = self._true_time(instance_id, metric, stamp) + habits.delay
        if not habits.late:
            return end
        chance = zlib.crc32(f"{instance_id} {metric} {stamp.isoformat()}".encode()) / 2**32
        return end + habits.late * chance

    def _ran(self, instance_id: str, begin: datetime, end: datetime) -> bool:
        """Return whether it ran from the begin to the end."""
        return any(
            began <= begin and (until is None or end <= until)
            for began, until in self.ec2.ran[instance_id]
        )

    # the truth, for the invariants

    def worked(self, instance_id: str, since: datetime, until: datetime) -> bool:
        """Return whether a GPU of it really worked in this time."""
        return any(began < until and since < ended for began, ended in self.busy[instance_id])

    def known_work(
        self, instance_id: str, since: datetime, by: datetime, threshold: float
    ) -> datetime | None:
        """Return when the first work since then was, of which a reading had come by then; `None`:
        nothing that could be read showed any."""
        for began, until in sorted(self.busy[instance_id]):
            stamp = _next_minute(max(began, since))
            while stamp - MINUTE < min(until, by):
                if self._shows_work(instance_id, stamp, by, threshold):
                    return max(began, stamp - MINUTE)
                stamp += MINUTE
        return None

    def _shows_work(self, instance_id: str, end: datetime, by: datetime, threshold: float) -> bool:
        """Return whether a reading of this minute, of the agent or of EC2, shows that it works."""
        ahead = self.habits.get(instance_id, GOOD).ahead
        for metric, limit in ((UTILIZATION, threshold), ("CPUUtilization", 30.0)):
            stamp = end + ahead if metric == UTILIZATION else end
            value = self._reading(instance_id, metric, stamp)
            arrives = self._arrives_at(instance_id, metric, stamp)
            if metric != UTILIZATION:
                arrives += _OF_EC2
            if value is not None and value >= limit and arrives <= by:
                return True
        return False

    def newest_reading(self, instance_id: str, since: datetime, by: datetime) -> datetime | None:
        """Return when the newest minute ended of which the agent's reading had come by then."""
        newest = None
        for end in self._known_minutes(instance_id, since, by):
            newest = end
        return newest

    def longest_hole(self, instance_id: str, since: datetime, by: datetime) -> timedelta:
        """Return the longest time without a reading of the agent, of all that had come by then."""
        longest = timedelta()
        last = since
        for end in self._known_minutes(instance_id, since, by):
            longest = max(longest, end - MINUTE - last)
            last = end
        return longest

    def _known_minutes(self, instance_id: str, since: datetime, by: datetime) -> Iterator[datetime]:
        ahead = self.habits.get(instance_id, GOOD).ahead
        end = _next_minute(since)
        while end <= by:
            stamp = end + ahead
            is_published = self._reading(instance_id, UTILIZATION, stamp) is not None
            if is_published and self._arrives_at(instance_id, UTILIZATION, stamp) <= by:
                yield end
            end += MINUTE


def _next_minute(moment: datetime) -> datetime:
    """Return the end of the minute that a moment is in."""
    return moment.replace(second=0, microsecond=0) + MINUTE
