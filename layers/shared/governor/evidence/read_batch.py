"""Reads the metrics of instances that publish by the same metric names, over the same window. This
module must not judge.

Three stages: the `InstanceId` aggregate (or the known per-GPU series) of all; a search for the
series of silent ones; the other figures of those that utilization alone would call idle. What
cannot be read becomes a `read_problem`, never an empty answer.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.evidence.measure import Measurement
from governor.evidence.model import Evidence, MetricSource, Series, Window
from governor.evidence.pending import AskedSeries, Pending, choose_sets, found_sets
from governor.evidence.ports import Listed, MetricQuery, MetricReader, SeriesFilter
from governor.evidence.request import EvidenceRequest, Gathered
from governor.evidence.rules import series as evidence
from governor.evidence.rules.figures import (
    EC2_NAMESPACE,
    FIGURES,
    WORK,
    Publisher,
    confirming_figures,
    is_published_by,
    limit_of,
    metrics_of,
    published_by,
)
from governor.evidence.rules.series import Dimensions
from governor.policy.model.profiles import profile_of

_EC2_PERIOD = timedelta(minutes=5)
"""Basic monitoring publishes one value in five minutes; a shorter period would read holes as
silence."""
_RECENTLY_ACTIVE = timedelta(hours=2)
"""CloudWatch lists what was published in the last three hours, give or take 50 minutes."""
_LISTED_SINGLY = 5
"""So many instances are listed one by one; for more, one pass over the namespace is cheaper."""
_SERIES_OF_A_PAGE = 500
"""CloudWatch lists so many series in a call."""


@dataclass(slots=True)
class Listings:
    """The series that CloudWatch has listed in a target, so that no call is made twice."""

    by_filter: dict[SeriesFilter, Mapping[str, Sequence[Listed]]] = field(default_factory=dict)
    """Passes over a namespace: by the filter, and then by instance id."""
    by_instance: dict[tuple[str, SeriesFilter], Sequence[Listed]] = field(default_factory=dict)
    """Instances that were listed one by one; an instance without series has an empty tuple."""


class Batch:
    """Instances that are read by the same metric names and over the same window."""

    def __init__(
        self,
        metrics: MetricReader,
        target: Target,
        instances: Sequence[Pending],
        now: datetime,
        listings: Listings,
    ) -> None:
        """Set the windows before `now`, and read nothing yet. `instances` must not be empty: the
        policy and the window of the first one are those of all. `listings` holds what was listed
        before; more is added to it."""
        self._metrics = metrics
        self._target = target
        self._listings = listings
        request = instances[0].request
        policy = request.policy
        length = request.window
        ec2_period = max(policy.period, _EC2_PERIOD)
        ec2_length = max(length, ec2_period)
        self._names = policy.metrics
        self._window = evidence.window_before(now, length, policy.period, policy.lag)
        self._ec2_window = evidence.window_before(now, ec2_length, ec2_period, policy.lag)
        self._measurement = Measurement(self._names, self._window, self._ec2_window)
        self._all = instances

    def gather(self) -> dict[str, Gathered]:
        """Read all instances, and return what was read of each by its id: their utilization, again
        after a search where GPUs are missing, and further figures of those whose request wants them
        after that. Never raises for a failed read: that is a `read_problem` of the evidence."""
        self._read_utilization(self._all)
        self._search([pending for pending in self._all if self._wants_search(pending)])
        evidence_by_id: dict[str, Evidence] = {}
        candidates: list[Pending] = []
        for pending in self._all:
            if pending.is_silent():
                pending.source = MetricSource.NONE
            seen = self._measurement.evidence(pending)
            evidence_by_id[pending.instance_id] = seen
            if pending.request.wants_figures(seen):
                candidates.append(pending)
        self._read_figures(candidates)
        for pending in candidates:
            evidence_by_id[pending.instance_id] = self._measurement.evidence(pending)
        return {
            pending.instance_id: self._gathered(pending, evidence_by_id[pending.instance_id])
            for pending in self._all
        }

    def _gathered(self, pending: Pending, own_evidence: Evidence) -> Gathered:
        """Return the evidence of one instance and how it was found. The percentages are there only
        if the request reads its figures in any case."""
        percent: dict[str, Series] = {}
        if pending.request.only_if is None:
            percent = self._measurement.percent(pending)
        return Gathered(
            evidence=own_evidence,
            dimensions=pending.dimensions,
            searched=pending.searched,
            percent=percent,
        )

    def _wants_search(self, pending: Pending) -> bool:
        """Return whether to search for the series of an instance: it is silent, or some GPUs were
        not read that are wanted or that its type has. Return false if the request allows no search,
        or a read has failed."""
        if pending.problem is not None or not pending.request.search:
            return False
        reporting = pending.count_reporting()
        if not reporting:
            return True
        if pending.request.per_gpu and pending.dimensions is None:
            return True
        if pending.source is not MetricSource.PER_GPU or pending.expected is None:
            return False
        return reporting < pending.expected

    def _read_utilization(self, instances: Iterable[Pending], *, all_sets: bool = False) -> None:
        """Read utilization: by the sets that are known if `all_sets`, else as the request says."""
        metric = self._names.utilization
        asked: list[AskedSeries] = []
        for pending in instances:
            choose_sets(pending, all_sets=all_sets)
            pending.figures.pop("utilization", None)
            for dimensions in pending.sets:
                asked.append(AskedSeries(pending, "utilization", metric, dimensions))
        self._read(asked)

    def _search(self, instances: list[Pending]) -> None:
        """Find the series of these instances in one pass over the namespace, and read them. If the
        pass fails, note that as a problem of the silent ones."""
        if not instances:
            return
        found_series = self._list_utilization(instances)
        if found_series is None:
            return
        # The pass found the series of all instances, not only of those that need it.
        for pending in self._all:
            pending.searched = True
            pending.dimensions = found_sets(pending, found_series.get(pending.instance_id, ()))
        with_sets = [pending for pending in instances if pending.dimensions]
        self._read_utilization(with_sets, all_sets=True)
        # EC2's own metrics name the silent instances that work.
        silent = [pending for pending in instances if pending.is_silent()]
        for figure in published_by(Publisher.EC2_GPU):
            self._read(self._listed_by_ec2(silent, figure))

    def _list_utilization(self, instances: list[Pending]) -> Mapping[str, Sequence[Listed]] | None:
        """Return the namespace's utilization series by instance id, empty if none is listed; those
        of one instance alone if the batch has only that. Return `None` if the listing failed, which
        becomes the problem of those `instances` that are silent."""
        only = instances[0].instance_id if len(self._all) == 1 else None
        wanted = SeriesFilter(self._names.namespace, self._names.utilization)
        try:
            series_by_id = self._listings.by_filter.get(wanted) or self._metrics.list_series(
                self._target, wanted, only
            )
        except CloudError as error:
            for pending in instances:
                if pending.is_silent():
                    pending.problem = f"the search for its series failed: {error}"
            return None
        if only is None:
            self._listings.by_filter[wanted] = series_by_id
        return series_by_id

    def _read_figures(self, candidates: list[Pending]) -> None:
        """Read the figures besides utilization, in as few reads as possible, and add them to the
        candidates. The agent's figures that are missing under the dimensions of utilization are
        searched for."""
        asked: list[AskedSeries] = []
        for pending in candidates:
            pending.figures_read = self._figures_to_read(pending.request)
            asked += self._figures(pending)
        for figure in published_by(Publisher.EC2_GPU):
            readers = [pending for pending in candidates if figure in pending.figures_read]
            asked += self._listed_by_ec2(readers, figure)
        for figure in published_by(Publisher.INSTANCE):
            readers = [pending for pending in candidates if figure in pending.figures_read]
            asked += self._listed_in_own_namespaces(readers, figure)
        asked += self._jobs(candidates)
        asked += self._in_other_namespaces(candidates)
        self._read(asked)
        self._read(self._under_other_dimensions(candidates))

    def _under_other_dimensions(self, candidates: list[Pending]) -> Iterator[AskedSeries]:
        """Yield the series of the agent's figures for instances of which some GPU does not publish
        the figure under the dimensions of utilization."""
        instances_by_figure: dict[str, list[Pending]] = {}
        for figure in published_by(Publisher.AGENT):
            missing = [pending for pending in candidates if self._is_sought(pending, figure)]
            if missing:
                instances_by_figure[figure] = missing
        filter_of_one = self._filter_of_one(instances_by_figure)
        for figure, instances in instances_by_figure.items():
            for asked in self._listed_by_agent(instances, figure, filter_of_one):
                if asked.dimensions not in self._sets_of(asked.pending, figure):
                    yield asked

    def _is_sought(self, pending: Pending, figure: str) -> bool:
        """Return whether to search for a figure of the agent: it may show work or confirm idleness,
        and some GPU does not publish it under the dimensions of utilization."""
        if figure not in pending.figures_read:
            return False
        has_limit = limit_of(pending.request.policy, figure) is not None
        if not has_limit and figure not in confirming_figures():
            return False
        if pending.factor(figure, self._window.period) is None:
            return False
        return self._looks_everywhere(pending) or pending.is_missing(figure)

    def _looks_everywhere(self, pending: Pending) -> bool:
        """Return whether this read decides on an instance that turns idle, on a question or on an
        act: a second publisher may show work that the first does not."""
        figures = pending.figures_read & FIGURES.keys()
        return any(not FIGURES[figure].at_every_sweep for figure in figures)

    def _is_decided(self, pending: Pending) -> bool:
        """Return whether this read decides on a question or an act: unlike a sweep, it reads the
        figures whatever utilization is."""
        return pending.request.only_if is None and self._looks_everywhere(pending)

    def _filter_of_one(
        self, instances_by_figure: Mapping[str, list[Pending]]
    ) -> SeriesFilter | None:
        """Return the filter by which these instances are listed one by one, each with all of its
        metrics; `None` if a pass over the namespace for each metric takes fewer calls."""
        instance_ids: set[str] = set()
        metrics: set[str] = set()
        for figure, instances in instances_by_figure.items():
            instance_ids.update(pending.instance_id for pending in instances)
            metrics.update(metrics_of(figure, self._names))
        is_few = len(instance_ids) <= _LISTED_SINGLY
        # A longer window holds series that CloudWatch no longer lists as recently active. For many
        # instances they are not sought.
        is_recent = not is_few or self._window.length <= _RECENTLY_ACTIVE
        wanted = SeriesFilter(self._names.namespace, None, is_recent)
        not_listed: set[str] = set()
        for instance_id in instance_ids:
            if (instance_id, wanted) not in self._listings.by_instance:
                not_listed.add(instance_id)
        # Other instances may publish to the namespace, too: then a pass has more pages.
        series = sum(pending.expected or 1 for pending in self._all)
        calls_of_passes = len(metrics) * math.ceil(series / _SERIES_OF_A_PAGE)
        if is_few or len(not_listed) <= calls_of_passes:
            return wanted
        return None

    def _listed_by_agent(
        self, instances: list[Pending], figure: str, filter_of_one: SeriesFilter | None
    ) -> Iterator[AskedSeries]:
        """Yield the series of one figure of the agent that a listing shows.

        With `filter_of_one`, each instance is listed with all of its metrics, once for all figures,
        because most figures are missing together. Without it, one pass is made for each metric:
        what nobody publishes takes one empty page.
        """
        metrics = metrics_of(figure, self._names)
        words = FIGURES[figure].words
        if filter_of_one is not None:
            for asked in self._listed(instances, figure, filter_of_one, words, one_by_one=True):
                if asked.metric in metrics:
                    yield asked
            return
        for metric in metrics:
            wanted = SeriesFilter(self._names.namespace, metric)
            yield from self._listed(instances, figure, wanted, words)

    def _figures_to_read(self, request: EvidenceRequest) -> frozenset[str]:
        """Return the wanted figures that the policy has metrics for: without those that the
        instance itself publishes if the policy names no namespace of them, and with those of jobs
        if it names any."""
        figures = request.figures
        if not self._names.bound_namespaces:
            figures -= set(published_by(Publisher.INSTANCE))
        if self._names.work:
            figures |= {WORK}
        return figures

    def _listed_by_ec2(self, instances: list[Pending], figure: str) -> Iterator[AskedSeries]:
        """Yield EC2's own metrics of GPUs. One is a veto; it is never proof of idleness."""
        for metric in metrics_of(figure, self._names):
            wanted = SeriesFilter(EC2_NAMESPACE, metric)
            yield from self._listed(instances, figure, wanted, "EC2's own GPU metrics")

    def _listed_in_own_namespaces(
        self, instances: list[Pending], figure: str
    ) -> Iterator[AskedSeries]:
        """Yield what the instances publish with their own role; the highest of several such
        namespaces counts."""
        for metric in metrics_of(figure, self._names):
            wanted = SeriesFilter(None, metric)
            listed = self._listed(instances, figure, wanted, "the instances' own namespaces")
            yield from self._only_own(listed)

    def _only_own(self, listed: Iterable[AskedSeries]) -> Iterator[AskedSeries]:
        """Yield the series of a whole instance that lie in the namespace of its own role."""
        base = re.escape(self._names.namespace)
        for asked in listed:
            pending = asked.pending
            own_namespace = rf"{base}/AROA[A-Z0-9]+:{re.escape(pending.instance_id)}"
            is_aggregate = asked.dimensions == pending.aggregate
            if is_aggregate and re.fullmatch(own_namespace, asked.namespace):
                yield asked

    def _in_other_namespaces(self, candidates: list[Pending]) -> Iterator[AskedSeries]:
        """Yield series of the policy's metric of utilization in other namespaces, for a question or
        an act about a few instances. They may only show work. A sweep does not list them.

        Yield nothing for a name of a team's own, which may mean something else elsewhere, and where
        the policy believes only namespaces that belong to one role.
        """
        metric = self._names.utilization
        if self._names.bound_namespaces or profile_of(metric) is None:
            return
        deciders = [pending for pending in candidates if self._is_decided(pending)]
        if len(deciders) > _LISTED_SINGLY:
            return
        wanted = SeriesFilter(None, metric)
        for asked in self._listed(deciders, "utilization", wanted, f"{metric} of all namespaces"):
            # EC2's own figures have periods of their own, and are read as such.
            if asked.namespace not in (self._names.namespace, EC2_NAMESPACE):
                yield asked

    def _jobs(self, instances: list[Pending]) -> Iterator[AskedSeries]:
        """Yield the metrics by which a job may have said that it works; nothing if the policy names
        none. Without names of metrics, all of the policy's namespace count."""
        rule = self._names.work
        if rule is None:
            return
        # A longer window holds series that CloudWatch no longer lists as recently active.
        is_recent = self._window.length <= _RECENTLY_ACTIVE
        wanted = SeriesFilter(rule.namespace, None, is_recent)
        for asked in self._listed(instances, WORK, wanted, "the metrics of jobs"):
            if not rule.names or asked.metric in rule.names:
                yield asked

    def _listed(
        self,
        instances: list[Pending],
        figure: str,
        wanted: SeriesFilter,
        what: str,
        *,
        one_by_one: bool = False,
    ) -> Iterator[AskedSeries]:
        """Yield the series of these instances that a listing shows. `what` names them in a problem.
        A few instances are listed one by one in any case, and many if `one_by_one`.

        If the listing fails, yield nothing, and note that as the problem of each of the instances
        that publishes utilization and has no problem yet: a failed listing is no silence.
        """
        try:
            series_by_id = self._list_series(
                instances, wanted, one_by_one=one_by_one or len(instances) <= _LISTED_SINGLY
            )
        except CloudError as error:
            for pending in instances:
                if not pending.is_silent():
                    pending.problem = pending.problem or f"{what} could not be listed: {error}"
            return
        for pending in instances:
            for listed in series_by_id.get(pending.instance_id, ()):
                yield AskedSeries(
                    pending,
                    figure,
                    listed.metric,
                    listed.dimensions,
                    namespace=listed.namespace,
                )

    def _list_series(
        self, instances: list[Pending], wanted: SeriesFilter, *, one_by_one: bool
    ) -> Mapping[str, Sequence[Listed]]:
        """Return the series that CloudWatch lists for the filter `wanted`, by instance id: by a
        call for each instance if `one_by_one`, else by one pass over the namespace. No call is made
        twice. An instance without series may be missing. Raises: CloudError."""
        passes = self._listings.by_filter
        if wanted in passes:
            return passes[wanted]
        if not one_by_one:
            passes[wanted] = self._metrics.list_series(self._target, wanted)
            return passes[wanted]
        series_by_id: dict[str, Sequence[Listed]] = {}
        for pending in instances:
            series_by_id[pending.instance_id] = self._series_of_one(pending.instance_id, wanted)
        return series_by_id

    def _series_of_one(self, instance_id: str, wanted: SeriesFilter) -> Sequence[Listed]:
        """Return the series of one instance that CloudWatch lists for the filter `wanted`; empty if
        there are none. No call is made twice. Raises: CloudError."""
        listed = self._listings.by_instance
        key = (instance_id, wanted)
        if key not in listed:
            series_by_id = self._metrics.list_series(self._target, wanted, instance_id)
            listed[key] = series_by_id.get(instance_id, ())
        return listed[key]

    def _figures(self, pending: Pending) -> Iterator[AskedSeries]:
        """Yield the series of a candidate's figures whose names are known; and for an aggregate of
        other than one GPU its samples."""
        for figure in FIGURES:
            if figure in pending.request.figures:
                yield from self._series_of(pending, figure)
        if pending.source is MetricSource.AGGREGATE and pending.expected != 1:
            # How many GPUs are in the aggregate: a MIG GPU publishes no utilization and would not
            # be missed.
            utilization = self._names.utilization
            yield AskedSeries(pending, "samples", utilization, pending.sets[0], "SampleCount")

    def _series_of(self, pending: Pending, figure: str) -> Iterator[AskedSeries]:
        """Yield the series of one figure. Yield nothing if only a listing shows them, or if the
        instance type does not say what a reading means."""
        row = FIGURES[figure]
        if pending.factor(figure, self._window.period) is None:
            return
        for metric in metrics_of(figure, self._names):
            if row.publisher is Publisher.EC2:
                dimensions = pending.aggregate
                yield AskedSeries(pending, figure, metric, dimensions, row.statistic, EC2_NAMESPACE)
            elif row.publisher is Publisher.AGENT:
                for dimensions in self._sets_of(pending, figure):
                    yield AskedSeries(pending, figure, metric, dimensions, row.statistic)

    def _sets_of(self, pending: Pending, figure: str) -> tuple[Dimensions, ...]:
        """Return the dimension sets under which a figure of the agent is read: those of
        utilization, and the whole instance for a figure that may show work there alone."""
        shows_work_alone = not FIGURES[figure].at_every_sweep
        if shows_work_alone and pending.aggregate not in pending.sets:
            return (*pending.sets, pending.aggregate)
        return pending.sets

    def _read(self, asked: Iterable[AskedSeries]) -> None:
        """Add the series to their instances, or note there why they could not be read."""
        # In one pass where the windows agree, so that calls are filled to their limit.
        by_window: dict[Window, list[AskedSeries]] = defaultdict(list)
        for series in asked:
            window = self._ec2_window if series.namespace == EC2_NAMESPACE else self._window
            by_window[window].append(series)
        for window, part in by_window.items():
            self._read_over(window, part)

    def _read_over(self, window: Window, asked: Sequence[AskedSeries]) -> None:
        """Read these series over one window, and note each at its instance. A query that failed is
        noted as its instance's problem, unless there is one already, or the series only helps to
        say why a silent instance is silent."""
        # Two figures of one series, such as CPU in percent and in vCPUs, need one query.
        query_by_series: dict[tuple[object, ...], MetricQuery] = {}
        queries: list[MetricQuery] = []
        for wanted in asked:
            namespace = wanted.namespace or self._names.namespace
            series_key = (namespace, wanted.metric, wanted.dimensions, wanted.statistic)
            if series_key not in query_by_series:
                key = str(len(query_by_series))
                query_by_series[series_key] = MetricQuery(key, *series_key)
            queries.append(query_by_series[series_key])
        answer = self._metrics.read(self._target, list(query_by_series.values()), window)
        for wanted, query in zip(asked, queries, strict=True):
            pending = wanted.pending
            # For a silent instance, EC2's own metric only helps to say why. It may be missing.
            is_hint = is_published_by(wanted.figure, Publisher.EC2_GPU)
            if not is_hint or pending.count_reporting():
                pending.problem = pending.problem or answer.problems.get(query.key)
            series = answer.series.get(query.key)
            if series is not None:
                pending.note(wanted, series)
