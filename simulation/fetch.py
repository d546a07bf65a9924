"""Fetches the past of a target's instances in as few reads as a back-test can do with.

Hourly maxima and minima of utilization come first. An hour in which a GPU worked in every minute
cannot hold idleness, and one in which it worked now and then can only hold the edge of it; 5-minute
data are read for the days in which some hour could be part of an idle stretch that a policy asks
about. CloudWatch charges by metric requested, not by reading, so a day is the smallest part that is
asked for. This module must not know how policies judge, only what they look at.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from math import nan

from evaluation.bins import BINS_PER_HOUR, holes
from governor.domain.catalogue import shape_of
from governor.domain.evidence import Dimensions, MetricSource, Window
from governor.domain.instance import Instance, Protection, Shape, Target
from governor.domain.policy.policy import Policy
from governor.domain.units import Usd, as_utc, in_parts
from governor.ports import (
    InstanceReader,
    Listed,
    MetricAnswer,
    MetricQuery,
    MetricReader,
    PriceBook,
    SeriesFilter,
)
from governor.usecases.evidence.inspect_instance import read_facts
from simulation.hours import hours_that_matter
from simulation.recording import PERIOD, Figures, Recording, SeriesKey, highest
from simulation.store import SeriesStore
from simulation.wish import Wish

USD_PER_METRIC: Usd = Decimal("0.00001")
"""GetMetricData, 0.01 USD per 1,000 metrics requested: AWS list price in us-east-1, no free
tier."""
LONGEST_DAYS = 63
"""CloudWatch keeps 5-minute data so long."""
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
_EC2 = "AWS/EC2"


class FetchError(Exception):
    """The past could not be read; the message says what and what to do."""


def last_days(now: datetime, days: int) -> Window:
    """So many whole UTC days, the last of them over since an hour at least; hour by hour.

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


@dataclass(frozen=True, slots=True)
class Survey:
    """Data to fetch of one target. `most_metrics` are requested if every day matters."""

    target: Target
    hours: Window
    subjects: tuple[Subject, ...]
    most_metrics: int

    @property
    def most_usd(self) -> Usd:
        """Return what that costs at the most."""
        return self.most_metrics * USD_PER_METRIC


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads through the product's own ports. `progress` is told how many calls of how many are
    done."""

    metrics: MetricReader
    instances: InstanceReader
    prices: PriceBook
    store: SeriesStore
    wish: Wish
    progress: Callable[[str, int, int], None]

    def survey(self, target: Target, hours: Window) -> Survey:
        """Lists the instances and their series, which costs next to nothing, and counts what
        reading them takes.

        Raises:
            CloudError: EC2 or CloudWatch refused.
        """
        found = self.instances.list_selected(target, self.wish.selector)
        names = self.wish.metrics
        by = SeriesFilter(names.namespace, names.utilization)
        series = self.metrics.list_series(target, by) if found else {}
        subjects = tuple(self._subject(one, series.get(one.instance_id, ())) for one in found)
        unread = {query.key for query in self._missing_hours(target, subjects, hours)}
        days = _days(hours)
        # What is on disk by the hour tells already which days are read finer.
        wanted = {
            one.instance.instance_id: frozenset(range(len(days)))
            if any(query.key in unread for query in self._hourly_queries(one))
            else self._days_that_matter(target, hours, one)
            for one in subjects
        }
        parts = self._parts(subjects, wanted, days)
        most = len(unread) + sum(len(self._missing_fine(target, *part, hours)) for part in parts)
        return Survey(target, hours, subjects, most)

    def fetch(self, survey: Survey) -> list[Recording]:
        """Reads what is not on disk yet, and makes the recordings.

        Raises:
            CloudError: EC2 or CloudWatch refused.
            FetchError: a part of the readings could not be had. What could is kept.
        """
        target, hours = survey.target, survey.hours
        self._read(
            f"{target}: hours",
            target,
            [(self._missing_hours(target, survey.subjects, hours), hours)],
        )
        wanted = {
            one.instance.instance_id: self._days_that_matter(target, hours, one)
            for one in survey.subjects
        }
        parts = self._parts(survey.subjects, wanted, _days(hours))
        self._read(
            f"{target}: 5-minute data",
            target,
            [(self._missing_fine(target, queries, day, hours), day) for queries, day in parts],
        )
        return [
            self._recording(survey, one, wanted[one.instance.instance_id])
            for one in survey.subjects
        ]

    def series(
        self, target: Target, queries: Sequence[MetricQuery], window: Window
    ) -> Mapping[MetricQuery, array[float]]:
        """Reads these series in the window's periods, unless they are on disk.

        Raises:
            CloudError: CloudWatch refused.
            FetchError: a part of the readings could not be had. What could is kept.
        """
        self._read(f"{target}: history", target, [(self.unread(target, queries, window), window)])
        return {
            query: values
            for part in in_parts(queries, _QUERIES_PER_CALL)
            for query, values in zip(part, self.store.get(target, part, window), strict=True)
        }

    # what to ask for

    def _subject(self, instance: Instance, listed: Sequence[Listed]) -> Subject:
        """The aggregate where there is one, as the sweep reads it; else GPU by GPU, else what there
        is."""
        found = [one.dimensions for one in listed]
        shape = shape_of(instance.instance_type)
        aggregate: Dimensions = (("InstanceId", instance.instance_id),)
        by_gpu = tuple(sorted(one for one in found if "index" in dict(one)))
        if by_gpu and aggregate not in found:
            return Subject(instance, shape, MetricSource.PER_GPU, by_gpu)
        sets = (aggregate,) if aggregate in found or not found else tuple(sorted(found))
        return Subject(instance, shape, MetricSource.AGGREGATE, sets)

    def _hourly_queries(self, one: Subject) -> list[MetricQuery]:
        queries = [
            self._gpu_query(self.wish.metrics.utilization, dimensions, statistic)
            for dimensions in one.sets
            for statistic in ("Maximum", "Minimum")
        ]
        return [*queries, _ec2_query("CPUUtilization", one, "Maximum")]

    def _fine_queries(self, one: Subject) -> list[MetricQuery]:
        """Return what the sweep reads of a candidate. CPU in any case: it shows when the instance
        ran."""
        names, shape = self.wish.metrics, one.shape
        metrics = [names.utilization]
        if "power" in self.wish.figures and shape and shape.board_power_watts:
            metrics.append(names.power_draw)
        if "memory" in self.wish.figures and shape and shape.memory_mib_each:
            metrics.append(names.memory_used)
        queries = [
            self._gpu_query(metric, dimensions, "Maximum")
            for metric in metrics
            for dimensions in one.sets
        ]
        if one.source is MetricSource.AGGREGATE and (shape is None or shape.accelerator_count != 1):
            queries.append(self._gpu_query(names.utilization, one.sets[0], "SampleCount"))
        queries.append(_ec2_query("CPUUtilization", one, "Average"))
        if "network" in self.wish.figures:
            queries += [_ec2_query(metric, one, "Sum") for metric in ("NetworkIn", "NetworkOut")]
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
        for one in subjects:
            queries = self._fine_queries(one)
            for number in wanted[one.instance.instance_id]:
                parts[number][0].extend(queries)
        return parts

    def _missing_hours(
        self, target: Target, subjects: Sequence[Subject], hours: Window
    ) -> list[MetricQuery]:
        return self.unread(
            target, [query for one in subjects for query in self._hourly_queries(one)], hours
        )

    def unread(
        self, target: Target, queries: Sequence[MetricQuery], window: Window
    ) -> list[MetricQuery]:
        """Those not on disk yet; also what was silent: its readings may have come late."""
        return self.store.missing(target, queries, window, believes_silence=lambda _: False)

    def _missing_fine(
        self, target: Target, queries: Sequence[MetricQuery], day: Window, hours: Window
    ) -> list[MetricQuery]:
        """These are of days of which there is utilization by the hour. What was silent beside it is
        not published at all; utilization itself may have come late."""
        is_final = hours.end - day.end >= _FINAL
        utilization = self.wish.metrics.utilization
        return self.store.missing(
            target,
            queries,
            day,
            believes_silence=lambda query: is_final or query.metric != utilization,
        )

    def _days_that_matter(self, target: Target, hours: Window, one: Subject) -> frozenset[int]:
        metric = self.wish.metrics.utilization
        high, low = (
            highest(
                self.store.get(
                    target,
                    [self._gpu_query(metric, dimensions, statistic) for dimensions in one.sets],
                    hours,
                ),
                hours.bins,
            )
            for statistic in ("Maximum", "Minimum")
        )
        found = hours_that_matter(high, low, self.wish.busy_from_percent, self.wish.shortest)
        return frozenset(hour // _HOURS_A_DAY for hour in found)

    # reading

    def _read(
        self, label: str, target: Target, parts: Iterable[tuple[Sequence[MetricQuery], Window]]
    ) -> None:
        calls = [
            (batch, window) for queries, window in parts for batch in _batches(queries, window)
        ]
        problems: list[str] = []
        self.progress(label, 0, len(calls))
        with ThreadPoolExecutor(max_workers=_CALLS_AT_A_TIME) as pool:
            pending = {pool.submit(self.metrics.read, target, *call): call for call in calls}
            try:
                for done, future in enumerate(as_completed(pending), start=1):
                    problems += self._keep(target, *pending[future], future.result())
                    self.progress(label, done, len(calls))
            except BaseException:
                # Ctrl-C, or a disk that is full: what was not begun is not worth waiting for.
                pool.shutdown(cancel_futures=True)
                raise
        if problems:
            raise FetchError(
                f"{len(problems)} series of {target} could not be read ({problems[0]}): "
                "run it again, "
                "what was read is kept"
            )

    def _keep(
        self, target: Target, queries: Sequence[MetricQuery], window: Window, answer: MetricAnswer
    ) -> list[str]:
        whole = [query for query in queries if query.key not in answer.problems]
        self.store.put(target, whole, window, answer.series)
        return list(answer.problems.values())

    # putting together

    def _recording(self, survey: Survey, one: Subject, wanted: frozenset[int]) -> Recording:
        target, names = survey.target, self.wish.metrics
        span = Window(survey.hours.start, survey.hours.end, PERIOD)
        series = self._fine_series(survey, one, wanted)
        by_hour = [query for query in self._hourly_queries(one) if query.statistic == "Maximum"]
        found_by_hour = self.store.get(target, by_hour, survey.hours)
        coarse = {
            (query.metric, query.dimensions): values
            for query, values in zip(by_hour, found_by_hour, strict=True)
        }
        for (metric, dimensions, statistic), values in series.items():
            highs = coarse.get((metric, dimensions))
            if highs is not None and statistic in ("Maximum", "Average"):
                _fill(values, highs, wanted)

        def gathered(metric: str, factor: float) -> array[float]:
            found = [
                values
                for (name, _, statistic), values in series.items()
                if name == metric and statistic == "Maximum"
            ]
            return highest(found, span.bins, factor)

        ec2: Dimensions = (("InstanceId", one.instance.instance_id),)
        shape = one.shape
        instance, protection, spot_request = (
            # A few free calls for each that may have been idle; as it is today.
            read_facts(self.instances, one.instance)
            if wanted
            else (one.instance, Protection(), None)
        )
        return Recording(
            instance=instance,
            shape=shape,
            span=span,
            source=one.source,
            sets=one.sets,
            series=series,
            figures=Figures(
                utilization=gathered(names.utilization, 1.0),
                power=gathered(
                    names.power_draw, 100.0 / (shape.board_power_watts or nan) if shape else nan
                ),
                memory=gathered(
                    names.memory_used, 100.0 / (shape.memory_mib_each or nan) if shape else nan
                ),
                cpu=series["CPUUtilization", ec2, "Average"],
                network=_network(series, ec2, span.bins),
            ),
            price=self.prices.price(one.instance, Policy()),
            protection=protection,
            spot_request=spot_request,
        )

    def _fine_series(
        self, survey: Survey, one: Subject, wanted: frozenset[int]
    ) -> dict[SeriesKey, array[float]]:
        queries = self._fine_queries(one)
        series = {_key(query): array("d") for query in queries}
        for number, day in enumerate(_days(survey.hours)):
            read = number in wanted
            found = (
                self.store.get(survey.target, queries, day)
                if read
                else [holes(day.bins)] * len(queries)
            )
            for values, more in zip(series.values(), found, strict=True):
                values.extend(more)
        return series


def _days(hours: Window) -> list[Window]:
    count = (hours.end - hours.start) // _DAY
    return [
        Window(hours.start + day * _DAY, hours.start + (day + 1) * _DAY, PERIOD)
        for day in range(count)
    ]


def _batches(queries: Sequence[MetricQuery], window: Window) -> list[Sequence[MetricQuery]]:
    size = min(_QUERIES_PER_CALL, _READINGS_PER_PAGE // window.bins)
    return list(in_parts(queries, size))


def query_of(namespace: str, metric: str, dimensions: Dimensions, statistic: str) -> MetricQuery:
    key = "|".join((metric, statistic, *(f"{name}={value}" for name, value in dimensions)))
    return MetricQuery(key, namespace, metric, dimensions, statistic)


def _ec2_query(metric: str, one: Subject, statistic: str) -> MetricQuery:
    return query_of(_EC2, metric, (("InstanceId", one.instance.instance_id),), statistic)


def _key(query: MetricQuery) -> SeriesKey:
    return query.metric, query.dimensions, query.statistic


def _fill(values: array[float], by_hour: Sequence[float], wanted: frozenset[int]) -> None:
    """Hourly maxima for the days that hold no idle stretch: work, as far as any policy can tell."""
    for hour, value in enumerate(by_hour):
        if hour // _HOURS_A_DAY not in wanted:
            first = hour * BINS_PER_HOUR
            values[first : first + BINS_PER_HOUR] = array("d", (value,)) * BINS_PER_HOUR


def _network(series: Mapping[SeriesKey, array[float]], ec2: Dimensions, bins: int) -> array[float]:
    """Bytes a second, both ways; where one way was not published, the other."""
    into, out = (
        series.get((metric, ec2, "Sum"), holes(bins)) for metric in ("NetworkIn", "NetworkOut")
    )
    seconds = PERIOD.total_seconds()
    return array(
        "d",
        [
            (a + b if a == a and b == b else a if a == a else b) / seconds
            for a, b in zip(into, out, strict=True)
        ],
    )
