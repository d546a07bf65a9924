"""Fetches earlier metrics of a target's instances, in as few reads as a back-test needs.

Hourly maxima and minima of utilization come first. An hour in which a GPU worked in every minute
cannot hold idleness, and one in which it worked now and then can only hold the edge of it; 5-minute
data are read for the days in which some hour could be part of an idle stretch that a policy asks
about. CloudWatch charges by metric requested, not by reading, so a day is the smallest part that is
requested. This module does not know how policies judge, only what they read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from math import isnan

from evaluation.bins import BINS_PER_HOUR, holes
from governor.core.catalog import shape_of
from governor.core.instance import Instance, Protection, Shape, Target
from governor.core.units import Usd, as_utc, in_parts
from governor.evidence.model import MetricSource, Window
from governor.evidence.ports import (
    InstanceReader,
    Listed,
    MetricAnswer,
    MetricQuery,
    MetricReader,
    SeriesFilter,
)
from governor.evidence.rules.figures import EC2_NAMESPACE, FIGURES, Publisher, factor_of, metrics_of
from governor.evidence.rules.profiles import expected_count, memory_factor, percent_factor
from governor.evidence.rules.series import Dimensions, has_gpu, whole_instance
from governor.money.ports import PriceBook
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import profile_of_names
from governor.remediation.inspect_instance import read_facts
from simulation.hours import hours_that_matter
from simulation.recording import PERIOD, Figures, Recording, SeriesKey, highest, replayed_figures
from simulation.store import SeriesStore
from simulation.wish import Wish

USD_PER_METRIC: Usd = Decimal("0.00001")
"""GetMetricData, 0.01 USD per 1,000 metrics requested: AWS list price in us-east-1, no free
tier."""
LONGEST_DAYS = 63
"""CloudWatch keeps 5-minute data for so many days."""
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_HOURS_A_DAY = 24
_SETTLED = timedelta(hours=1)
"""Readings older than this do not change any more."""
_FINAL = timedelta(days=16)
"""Silence of this age is believed: CloudWatch takes readings of the last two weeks, and shows old
ones about two days later (API reference of PutMetricData)."""
_QUERIES_PER_CALL = 500
_READINGS_PER_PAGE = 100_800
"""A call whose answer fits into one page is one request, whatever pages are charged."""
_CALLS_AT_A_TIME = 8
_SHOWS_RUNS = "cpu"
"""The figure that is read in any case: EC2 publishes it whenever an instance runs."""


class FetchError(Exception):
    """The past could not be read; the message says what and what to do."""


def last_days(now: datetime, days: int) -> Window:
    """Return so many whole UTC days, hour by hour. The last of them ended an hour ago or earlier.

    Whole days, so that a second back-test on the same day finds everything on disk.
    """
    end = (as_utc(now) - _SETTLED).replace(hour=0, minute=0, second=0, microsecond=0)
    return Window(end - days * _DAY, end, _HOUR)


@dataclass(frozen=True, slots=True)
class Subject:
    """One instance, and where its utilization is found."""

    instance: Instance
    shape: Shape | None
    source: MetricSource
    sets: tuple[Dimensions, ...]
    elsewhere: tuple[tuple[str, Dimensions], ...] = ()
    """The series of the agent's other figures, by metric, under other dimensions than `sets`."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Data to fetch of one target. `most_metrics` are requested if every day matters."""

    target: Target
    hours: Window
    subjects: tuple[Subject, ...]
    most_metrics: int

    @property
    def most_usd(self) -> Usd:
        """Return what that costs at most."""
        return self.most_metrics * USD_PER_METRIC


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads through the product's own ports. `progress` gets a label, the number of calls that are
    done, and the number of all."""

    metrics: MetricReader
    instances: InstanceReader
    prices: PriceBook
    store: SeriesStore
    wish: Wish
    progress: Callable[[str, int, int], None]

    def survey(self, target: Target, hours: Window) -> Survey:
        """List the instances and their series, which costs next to nothing, and count what reading
        them takes.

        Raises:
            CloudError: EC2 or CloudWatch refused.
        """
        selected = self.instances.list_selected(target, self.wish.selector)
        instances = [instance for instance in selected if self.wish.reads(instance)]
        names = self.wish.metrics
        by = SeriesFilter(names.namespace, names.utilization)
        listed = self.metrics.list_series(target, by) if instances else {}
        figures = self._listed_figures(target) if instances else {}
        subjects = tuple(
            self._subject(
                instance,
                listed.get(instance.instance_id, ()),
                figures.get(instance.instance_id, ()),
            )
            for instance in instances
        )
        unread = {query.key for query in self._missing_hours(target, subjects, hours)}
        days = _days(hours)
        wanted: dict[str, frozenset[int]] = {}
        for subject in subjects:
            # Hours that are on disk already show which days are read finer.
            has_unread_hours = any(query.key in unread for query in self._hourly_queries(subject))
            if has_unread_hours:
                days_to_read = frozenset(range(len(days)))
            else:
                days_to_read = self._days_that_matter(target, hours, subject)
            wanted[subject.instance.instance_id] = days_to_read
        most_metrics = len(unread)
        for queries, day in self._parts(subjects, wanted, days):
            most_metrics += len(self._missing_fine(target, queries, day, hours))
        return Survey(target, hours, subjects, most_metrics)

    def fetch(self, survey: Survey) -> list[Recording]:
        """Read what is not on disk yet, and make the recordings.

        Raises:
            CloudError: EC2 or CloudWatch refused.
            FetchError: a part of the readings could not be read. The others are kept.
        """
        target = survey.target
        hours = survey.hours
        missing_hours = self._missing_hours(target, survey.subjects, hours)
        self._read(f"{target}: hours", target, [(missing_hours, hours)])
        wanted = {}
        for subject in survey.subjects:
            wanted[subject.instance.instance_id] = self._days_that_matter(target, hours, subject)
        parts = self._parts(survey.subjects, wanted, _days(hours))
        missing_parts = []
        for queries, day in parts:
            missing_parts.append((self._missing_fine(target, queries, day, hours), day))
        self._read(f"{target}: 5-minute data", target, missing_parts)
        recordings = []
        for subject in survey.subjects:
            recordings.append(
                self._recording(survey, subject, wanted[subject.instance.instance_id])
            )
        return recordings

    def series(
        self, target: Target, queries: Sequence[MetricQuery], window: Window
    ) -> Mapping[MetricQuery, array[float]]:
        """Read these series in the window's periods, unless they are on disk.

        Raises:
            CloudError: CloudWatch refused.
            FetchError: a part of the readings could not be read. The others are kept.
        """
        self._read(f"{target}: history", target, [(self.unread(target, queries, window), window)])
        series: dict[MetricQuery, array[float]] = {}
        for part in in_parts(queries, _QUERIES_PER_CALL):
            series.update(zip(part, self.store.get(target, part, window), strict=True))
        return series

    # what to ask for

    def _listed_figures(self, target: Target) -> Mapping[str, Sequence[Listed]]:
        """Return the series of the agent's other figures that are read, by instance id. Raises:
        CloudError."""
        names = self.wish.metrics
        series_by_id: dict[str, list[Listed]] = {}
        for figure in replayed_figures():
            if figure not in self.wish.figures or FIGURES[figure].publisher is Publisher.EC2:
                continue
            for metric in metrics_of(figure, names):
                wanted = SeriesFilter(names.namespace, metric)
                for instance_id, listed in self.metrics.list_series(target, wanted).items():
                    series_by_id.setdefault(instance_id, []).extend(listed)
        return series_by_id

    def _subject(
        self, instance: Instance, listed: Sequence[Listed], figures: Sequence[Listed]
    ) -> Subject:
        """Return the series to read of an instance: of utilization the aggregate if there is one,
        as the sweep reads it; else all that is published, GPU by GPU if any series is of a GPU.

        `listed` are its series of utilization, `figures` those of other figures.
        """
        shape = shape_of(instance.instance_type)
        aggregate = whole_instance(instance.instance_id)
        published = sorted({series.dimensions for series in listed})
        source = MetricSource.AGGREGATE
        sets = tuple(published) or (aggregate,)
        if aggregate in published:
            sets = (aggregate,)
        elif has_gpu(published, self._own_dimension):
            source = MetricSource.PER_GPU
        elsewhere = {
            (series.metric, series.dimensions)
            for series in figures
            if series.dimensions not in sets
        }
        return Subject(instance, shape, source, sets, tuple(sorted(elsewhere)))

    @property
    def _own_dimension(self) -> str:
        """Return the dimension that distinguishes devices by the policy; empty if it names none."""
        return self.wish.metrics.device_dimension

    def _hourly_queries(self, subject: Subject) -> list[MetricQuery]:
        queries = []
        for dimensions in subject.sets:
            for statistic in ("Maximum", "Minimum"):
                queries.append(
                    self._gpu_query(self.wish.metrics.utilization, dimensions, statistic)
                )
        return [*queries, _ec2_query("CPUUtilization", subject, "Maximum")]

    def _fine_queries(self, subject: Subject) -> list[MetricQuery]:
        """Return what the sweep reads of a candidate. CPU in any case: it shows when the instance
        ran."""
        names = self.wish.metrics
        utilization = names.utilization
        queries = []
        for dimensions in subject.sets:
            queries.append(self._gpu_query(utilization, dimensions, "Maximum"))
        is_single = expected_count(subject.shape, profile_of_names(names)) == 1
        if subject.source is MetricSource.AGGREGATE and not is_single:
            queries.append(self._gpu_query(utilization, subject.sets[0], "SampleCount"))
        for figure in replayed_figures():
            if figure in self.wish.figures or figure == _SHOWS_RUNS:
                queries += self._figure_queries(figure, subject)
        # Two figures of one series, such as CPU in percent and in vCPUs, need one query.
        return list(dict.fromkeys(queries))

    def _figure_queries(self, figure: str, subject: Subject) -> list[MetricQuery]:
        """Return the series of one figure; an empty list if the instance type does not say what its
        readings mean."""
        row = FIGURES[figure]
        metrics = metrics_of(figure, self.wish.metrics)
        if row.publisher is Publisher.EC2:
            return [_ec2_query(metric, subject, row.statistic) for metric in metrics]
        if _factor(figure, subject.shape, self.wish.metrics) is None:
            return []
        queries: list[MetricQuery] = []
        for metric in metrics:
            found_elsewhere = [one for name, one in subject.elsewhere if name == metric]
            for dimensions in (*subject.sets, *found_elsewhere):
                queries.append(self._gpu_query(metric, dimensions, row.statistic))
        return queries

    def _gpu_query(self, metric: str, dimensions: Dimensions, statistic: str) -> MetricQuery:
        return query_of(self.wish.metrics.namespace, metric, dimensions, statistic)

    def _parts(
        self,
        subjects: Sequence[Subject],
        wanted: Mapping[str, frozenset[int]],
        days: Sequence[Window],
    ) -> list[tuple[list[MetricQuery], Window]]:
        """Return what is read finer, day by day. `wanted` holds numbers of days by instance."""
        parts: list[tuple[list[MetricQuery], Window]] = [([], day) for day in days]
        for subject in subjects:
            queries = self._fine_queries(subject)
            for number in wanted[subject.instance.instance_id]:
                queries_of_day, _ = parts[number]
                queries_of_day += queries
        return parts

    def _missing_hours(
        self, target: Target, subjects: Sequence[Subject], hours: Window
    ) -> list[MetricQuery]:
        queries: list[MetricQuery] = []
        for subject in subjects:
            queries += self._hourly_queries(subject)
        return self.unread(target, queries, hours)

    def unread(
        self, target: Target, queries: Sequence[MetricQuery], window: Window
    ) -> list[MetricQuery]:
        """Return the queries that are not on disk yet, and those that were silent: their readings
        may have come late."""
        return self.store.missing(target, queries, window, believes_silence=lambda _: False)

    def _missing_fine(
        self, target: Target, queries: Sequence[MetricQuery], day: Window, hours: Window
    ) -> list[MetricQuery]:
        """Return the queries of a day that are not on disk yet.

        Utilization of the day is known by the hour. A metric that was silent beside it is not
        published at all; utilization itself may have come late.
        """
        is_final = hours.end - day.end >= _FINAL
        utilization = self.wish.metrics.utilization
        return self.store.missing(
            target,
            queries,
            day,
            believes_silence=lambda query: is_final or query.metric != utilization,
        )

    def _days_that_matter(self, target: Target, hours: Window, subject: Subject) -> frozenset[int]:
        """Return the numbers of the days that may hold an idle stretch."""
        highest_by_hour = self._hourly(target, hours, subject, "Maximum")
        lowest_by_hour = self._hourly(target, hours, subject, "Minimum")
        hours_to_read = hours_that_matter(
            highest_by_hour, lowest_by_hour, self.wish.busy_from_percent, self.wish.shortest
        )
        return frozenset(hour // _HOURS_A_DAY for hour in hours_to_read)

    def _hourly(
        self, target: Target, hours: Window, subject: Subject, statistic: str
    ) -> array[float]:
        """Return the highest of the GPUs' hourly utilization, from the disk."""
        metric = self.wish.metrics.utilization
        queries = [self._gpu_query(metric, dimensions, statistic) for dimensions in subject.sets]
        names = self.wish.metrics
        factor = percent_factor(names, profile_of_names(names))
        return highest(self.store.get(target, queries, hours), hours.bins, factor)

    # reading

    def _read(
        self, label: str, target: Target, parts: Iterable[tuple[Sequence[MetricQuery], Window]]
    ) -> None:
        """Read all these queries and keep the answers. Raises: CloudError, FetchError."""
        calls: list[tuple[Sequence[MetricQuery], Window]] = []
        for queries, window in parts:
            for batch in _batches(queries, window):
                calls.append((batch, window))
        problems: list[str] = []
        self.progress(label, 0, len(calls))
        with ThreadPoolExecutor(max_workers=_CALLS_AT_A_TIME) as pool:
            call_by_future = {pool.submit(self.metrics.read, target, *call): call for call in calls}
            try:
                for done, future in enumerate(as_completed(call_by_future), start=1):
                    queries, window = call_by_future[future]
                    problems += self._keep(target, queries, window, future.result())
                    self.progress(label, done, len(calls))
            except BaseException:
                # Ctrl-C, or a full disk: calls that were not begun are not worth waiting for.
                pool.shutdown(cancel_futures=True)
                raise
        if problems:
            raise FetchError(
                f"{len(problems)} series of {target} could not be read ({problems[0]}): "
                "run it again, what was read is kept"
            )

    def _keep(
        self, target: Target, queries: Sequence[MetricQuery], window: Window, answer: MetricAnswer
    ) -> list[str]:
        """Store the series that were read without a problem; return the problems."""
        whole = [query for query in queries if query.key not in answer.problems]
        self.store.put(target, whole, window, answer.series)
        return list(answer.problems.values())

    # putting together

    def _recording(self, survey: Survey, subject: Subject, wanted: frozenset[int]) -> Recording:
        """Return the recording of one instance. `wanted` are the days that were read finer; the
        others hold hourly maxima."""
        span = Window(survey.hours.start, survey.hours.end, PERIOD)
        series = self._fine_series(survey, subject, wanted)
        self._fill_other_days(survey, subject, wanted, series)
        instance = subject.instance
        protection = Protection()
        spot_request = None
        if wanted:
            # A few free calls for an instance that may have been idle; they return today's facts.
            instance, protection, spot_request = read_facts(self.instances, subject.instance)
        return Recording(
            instance=instance,
            shape=subject.shape,
            span=span,
            source=subject.source,
            sets=subject.sets,
            series=series,
            figures=self._figures(subject, series, span.bins),
            price=self.prices.price(subject.instance, Policy()),
            protection=protection,
            spot_request=spot_request,
            names=self.wish.metrics,
        )

    def _fill_other_days(
        self,
        survey: Survey,
        subject: Subject,
        wanted: frozenset[int],
        series: Mapping[SeriesKey, array[float]],
    ) -> None:
        """Fill the days that were not read finer with hourly maxima."""
        queries = [query for query in self._hourly_queries(subject) if query.statistic == "Maximum"]
        stored_series = self.store.get(survey.target, queries, survey.hours)
        hourly_maxima = {}
        for query, hourly_values in zip(queries, stored_series, strict=True):
            hourly_maxima[query.metric, query.dimensions] = hourly_values
        for (metric, dimensions, statistic), values in series.items():
            # Readings as they are published: `_figures` turns them into percent.
            maxima = hourly_maxima.get((metric, dimensions))
            if maxima is not None and statistic in ("Maximum", "Average"):
                _fill(values, maxima, wanted)

    def _figures(
        self, subject: Subject, series: Mapping[SeriesKey, array[float]], bins: int
    ) -> Figures:
        """Return the signs of work; NaN where a figure was not read, or where the size of a GPU's
        memory or power is not known."""
        names = self.wish.metrics
        by_name: dict[str, array[float]] = {}
        for figure in replayed_figures():
            keys = [_key(query) for query in self._figure_queries(figure, subject)]
            parts = []
            for key in keys:
                if key in series:
                    parts.append(series[key])
            factor = _factor(figure, subject.shape, names)
            if not parts or factor is None:
                by_name[figure] = holes(bins)
            elif FIGURES[figure].publisher is Publisher.EC2:
                by_name[figure] = _sum_of_parts(parts, factor)
            else:
                by_name[figure] = highest(parts, bins, factor)
        factor = percent_factor(names, profile_of_names(names))
        return Figures(_highest_of(series, names.utilization, bins, factor), by_name)

    def _fine_series(
        self, survey: Survey, subject: Subject, wanted: frozenset[int]
    ) -> dict[SeriesKey, array[float]]:
        """Return the 5-minute series from the disk, with holes for the days that are not read."""
        queries = self._fine_queries(subject)
        series = {_key(query): array("d") for query in queries}
        for number, day in enumerate(_days(survey.hours)):
            if number in wanted:
                values_of_day = self.store.get(survey.target, queries, day)
            else:
                values_of_day = [holes(day.bins)] * len(queries)
            for values, more_values in zip(series.values(), values_of_day, strict=True):
                values.extend(more_values)
        return series


def _highest_of(
    series: Mapping[SeriesKey, array[float]], metric: str, bins: int, factor: float
) -> array[float]:
    """Return the highest of a metric's maxima in each bin, times the factor."""
    maxima = []
    for (name, _, statistic), values in series.items():
        if name == metric and statistic == "Maximum":
            maxima.append(values)
    return highest(maxima, bins, factor)


def _days(hours: Window) -> list[Window]:
    count = (hours.end - hours.start) // _DAY
    starts = [hours.start + number * _DAY for number in range(count)]
    return [Window(start, start + _DAY, PERIOD) for start in starts]


def _batches(queries: Sequence[MetricQuery], window: Window) -> list[Sequence[MetricQuery]]:
    size = min(_QUERIES_PER_CALL, _READINGS_PER_PAGE // window.bins)
    return list(in_parts(queries, size))


def query_of(namespace: str, metric: str, dimensions: Dimensions, statistic: str) -> MetricQuery:
    places = [f"{name}={value}" for name, value in dimensions]
    key = "|".join((metric, statistic, *places))
    return MetricQuery(key, namespace, metric, dimensions, statistic)


def _ec2_query(metric: str, subject: Subject, statistic: str) -> MetricQuery:
    dimensions = whole_instance(subject.instance.instance_id)
    return query_of(EC2_NAMESPACE, metric, dimensions, statistic)


def _key(query: MetricQuery) -> SeriesKey:
    return query.metric, query.dimensions, query.statistic


def _fill(values: array[float], by_hour: Sequence[float], wanted: frozenset[int]) -> None:
    """Put hourly maxima into the days that hold no idle stretch: no policy sees a difference."""
    for hour, value in enumerate(by_hour):
        if hour // _HOURS_A_DAY not in wanted:
            first = hour * BINS_PER_HOUR
            values[first : first + BINS_PER_HOUR] = array("d", (value,)) * BINS_PER_HOUR


def _factor(figure: str, shape: Shape | None, names: Metrics) -> float | None:
    """Return the factor that turns a reading of a metric of these names into the figure; `None` if
    the instance type does not say what 100% is."""
    factor = factor_of(FIGURES[figure].scale, shape, PERIOD.total_seconds())
    if factor is not None and figure == "memory":
        factor *= memory_factor(shape, names, profile_of_names(names))
    return factor


def _sum_of_parts(parts: Sequence[array[float]], factor: float) -> array[float]:
    """Return the sum of EC2's metrics in each bin, times the factor; a hole counts only where all
    have it."""
    total = parts[0]
    for values in parts[1:]:
        total = array("d", map(_sum_of_known, total, values))
    return array("d", [value * factor for value in total])


def _sum_of_known(left: float, right: float) -> float:
    if isnan(left):
        return right
    if isnan(right):
        return left
    return left + right
