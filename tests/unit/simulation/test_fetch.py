"""Fetching reads what could matter, once, and says what it costs before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isnan, nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.core.errors import CloudError
from governor.core.instance import Instance, Target
from governor.episode.model.plan import Price
from governor.evidence.model import MetricSource, Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.evidence.rules.figures import FIGURES, can_be_replayed, limit_of
from governor.evidence.rules.series import Dimensions
from governor.policy.document import parse_policy
from governor.policy.model.judging import IdleRule, SecondFigure, Vetoes
from governor.policy.model.names import TagMatch
from governor.policy.model.policy import Policy
from simulation.fetch import Fetch, FetchError, last_days
from simulation.hours import hours_that_matter
from simulation.outcome import InstanceResult
from simulation.recording import PERIOD, RecordedMetrics
from simulation.replay import ReplayError, replay
from simulation.store import SeriesStore
from simulation.wish import wish_of, wishes_of
from tests.builders import TARGET, make_instance
from tests.properties import examples
from tests.twins import MemoryEc2, StaticPrices
from tests.unit.simulation.builders import BUSY, HOLE, IDLE, anywhere, bins, run
from tests.unit.worlds.metric_layouts import (
    CONTAINER_INSIGHTS,
    DCGM,
    DCGM_SHARE,
    NEURON,
    Layout,
)

NOW = datetime(2026, 11, 6, 15, 30, tzinfo=UTC)
HOURS = last_days(NOW, 4)
START = HOURS.start


class Past:
    """The port `MetricReader`: utilization of 5-minute bins, read at any period; CPU and network
    are quiet.

    `busy` gives by instance one value a bin since START. Every GPU publishes the same.
    """

    def __init__(
        self, busy: Mapping[str, Sequence[float]], sets: Mapping[str, Sequence[Dimensions]]
    ) -> None:
        self.busy = busy
        self.sets = sets
        self.calls: list[tuple[int, Window]] = []
        self.queries: Counter[str] = Counter()
        self.names = Policy().metrics
        """The names under which utilization is published."""
        self.unit = 1.0
        """The reading that stands for one percent of utilization."""
        self.elsewhere: dict[str, Sequence[Dimensions]] = {}
        """Dimensions of a metric that is published under others than utilization."""
        self.readings: dict[Dimensions, float] = {}
        """The constant value of a series that differs from the others."""
        self.fail: Callable[[MetricQuery, Window], str | None] = lambda _query, _window: None

    def read(self, _: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        self.calls.append((len(queries), window))
        assert len(queries) <= 500
        assert len(queries) * window.bins <= 100_800
        series, problems = {}, {}
        for query in queries:
            self.queries[f"{query.metric} {query.statistic} {window.period}"] += 1
            reason = self.fail(query, window)
            if reason is not None:
                problems[query.key] = reason
            elif (found := self._series(query, window)) is not None:
                series[query.key] = found
        return MetricAnswer(series, problems)

    def _series(self, query: MetricQuery, window: Window) -> Series | None:
        owner = dict(query.dimensions)["InstanceId"]
        step = window.period // PERIOD
        first = (window.start - START) // PERIOD
        values = self.busy[owner][first : first + window.bins * step]
        if query.namespace == "AWS/EC2":
            known = [1.0] * len(values)
        elif query.dimensions not in self.elsewhere.get(query.metric, self.sets[owner]):
            return None
        elif query.metric not in self.elsewhere and re.search("coder|EC_|ENC_", query.metric):
            return None  # Nobody publishes the video encoder's and decoder's figures.
        elif query.dimensions in self.readings:
            known = [self.readings[query.dimensions]] * len(values)
        elif query.metric != self.names.utilization:
            known = [20.0] * len(values)
        else:
            known = [value * self.unit for value in values]
        choose = min if query.statistic == "Minimum" else max
        found = []
        for index in range(0, len(known), step):
            there = [value for value in known[index : index + step] if not isnan(value)]
            found.append(choose(there) if there else None)
        return tuple(found) if any(value is not None for value in found) else None

    def list_series(
        self, _: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        namespace, metric, is_recent = wanted
        assert (True, None) == (is_recent, instance_id)
        assert namespace == self.names.namespace
        assert metric is not None
        listed: dict[str, list[Listed]] = {}
        for owner, sets in self.sets.items():
            for dimensions in self.elsewhere.get(metric, sets):
                if ("InstanceId", owner) in dimensions:
                    series = Listed(self.names.namespace, metric, dimensions)
                    listed.setdefault(owner, []).append(series)
        return listed


def aggregate(instance: Instance) -> list[Dimensions]:
    """How an aggregating agent publishes."""
    return [(("InstanceId", instance.instance_id),)]


def by_gpu(instance: Instance, count: int) -> list[Dimensions]:
    """How an agent publishes that does not aggregate."""
    return [(("InstanceId", instance.instance_id), ("index", str(gpu))) for gpu in range(count)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SeriesStore]:
    """An empty one."""
    opened = SeriesStore(tmp_path / "series.sqlite", anywhere)
    yield opened
    opened.close()


def make_fetch(
    past: Past, store: SeriesStore, *instances: Instance, policy: Policy | None = None
) -> Fetch:
    """Make the fetch of these instances, for one policy."""
    ec2 = MemoryEc2()
    ec2.add(*instances)
    return Fetch(
        metrics=past,
        instances=ec2,
        prices=StaticPrices(Price(Decimal("1.006"), "list price")),
        store=store,
        wish=wish_of([policy or Policy()]),
        progress=lambda _label, _done, _total: None,
    )


WORKS = make_instance(instance_id="i-00000000000000001")
RESTS = make_instance(instance_id="i-00000000000000002")
EIGHT = make_instance(instance_id="i-00000000000000008", instance_type="p4d.24xlarge")


def world() -> Past:
    """One works for four days, two rest in the third one for some hours; one of these has eight
    GPUs."""
    rest = bins((BUSY, 50), (IDLE, 5), (BUSY, 41))
    return Past(
        {WORKS.instance_id: bins((BUSY, 96)), RESTS.instance_id: rest, EIGHT.instance_id: rest},
        {
            WORKS.instance_id: aggregate(WORKS),
            RESTS.instance_id: aggregate(RESTS),
            EIGHT.instance_id: by_gpu(EIGHT, 8),
        },
    )


def test_five_minute_data_are_read_of_the_day_that_matters_only(store: SeriesStore) -> None:
    """Steady work is read hour by hour; a day in which something rested, finer."""
    past = world()
    fetch = make_fetch(past, store, WORKS, RESTS, EIGHT)
    fetch.fetch(fetch.survey(TARGET, HOURS))

    hourly, fine = [
        {w for _, w in past.calls if w.period == p} for p in (timedelta(hours=1), PERIOD)
    ]
    third = START + timedelta(days=2)
    assert {HOURS} == hourly
    assert {Window(third, third + timedelta(days=1), PERIOD)} == fine
    name = Policy().metrics.utilization
    assert (1 + 8, 1 + 1 + 8) == (
        past.queries[f"{name} Maximum {PERIOD}"],
        past.queries[f"{name} Minimum {timedelta(hours=1)}"],
    )


def test_a_recording_is_exact_where_it_matters_and_busy_elsewhere(store: SeriesStore) -> None:
    """Days without rest hold their hourly maxima, and the instance ran all the time."""
    fetch = make_fetch(world(), store, WORKS, RESTS, EIGHT)
    works, rests, eight = fetch.fetch(fetch.survey(TARGET, HOURS))

    policy = Policy()
    assert bytes([1]) * 96 * 12 == works.activity(policy)
    for one in (rests, eight):
        assert bytes([1] * 50 * 12 + [0] * 5 * 12 + [1] * 41 * 12) == one.activity(policy)
        assert ((0, 96 * 12),) == one.runs
    assert (MetricSource.AGGREGATE, MetricSource.PER_GPU) == (rests.source, eight.source)
    assert 100.0 * 20.0 / 400 == pytest.approx(eight.figures.by_name["power"][60 * 12])
    assert 2.0 / 300 == pytest.approx(rests.figures.by_name["network"][52 * 12])
    assert [100] == [volume.size_gib for volume in rests.instance.volumes]


def test_a_large_fleet_is_read_in_calls_of_one_page(store: SeriesStore) -> None:
    """At most 500 series and 100,800 readings a call, which the reader here insists on; and no more
    calls than that takes."""
    fleet = [replace(EIGHT, instance_id=f"i-{number:017x}") for number in range(40)]
    rest = bins((BUSY, 50), (IDLE, 5), (BUSY, 41))
    past = Past(
        {one.instance_id: rest for one in fleet}, {one.instance_id: by_gpu(one, 8) for one in fleet}
    )
    fetch = make_fetch(past, store, *fleet)
    fetch.fetch(fetch.survey(TARGET, HOURS))
    sizes = [
        [count for count, window in past.calls if window.period == p]
        for p in (HOURS.period, PERIOD)
    ]
    by_hour, by_period = [sorted(calls) for calls in sizes]
    assert [180, 500] == by_hour
    # A day of five minutes has 288 readings, so a call has room for 350 series.
    assert 6 <= by_period.count(350) == len(by_period) - 1


def test_the_survey_counts_at_least_what_is_requested(store: SeriesStore) -> None:
    """The bound holds, and its price follows from it."""
    past = world()
    fetch = make_fetch(past, store, WORKS, RESTS, EIGHT)
    survey = fetch.survey(TARGET, HOURS)
    assert [] == past.calls
    fetch.fetch(survey)
    assert sum(past.queries.values()) <= survey.most_metrics
    assert survey.most_metrics * Decimal("0.00001") == survey.most_usd


def test_a_second_fetch_requests_nothing(store: SeriesStore) -> None:
    """And costs nothing, and finds the same."""
    past = world()
    fetch = make_fetch(past, store, RESTS, EIGHT)
    first = fetch.fetch(fetch.survey(TARGET, HOURS))
    past.calls.clear()
    again = fetch.fetch(fetch.survey(TARGET, HOURS))
    assert [] == past.calls
    assert [one.activity(Policy()) for one in first] == [one.activity(Policy()) for one in again]


def test_what_is_on_disk_is_not_in_the_bound(store: SeriesStore) -> None:
    """Neither what was read nor the days that the hours have ruled out."""
    fetch = make_fetch(world(), store, WORKS, RESTS, EIGHT)
    assert fetch.survey(TARGET, HOURS).most_metrics
    fetch.fetch(fetch.survey(TARGET, HOURS))
    assert 0 == fetch.survey(TARGET, HOURS).most_metrics


def test_a_bound_after_the_hours_counts_the_days_that_matter(store: SeriesStore) -> None:
    """One day of four; and only what is not on disk of it."""
    past = world()
    past.fail = lambda _query, window: "InternalError" if window.period == PERIOD else None
    fetch = make_fetch(past, store, RESTS)
    with pytest.raises(FetchError):
        fetch.fetch(fetch.survey(TARGET, HOURS))

    past.fail = lambda _query, _window: None
    past.calls.clear()
    survey = fetch.survey(TARGET, HOURS)
    fetch.fetch(survey)
    assert survey.most_metrics == sum(count for count, _ in past.calls)


def test_readings_that_come_late_are_found(store: SeriesStore) -> None:
    """An instance that was silent is asked again; what else it does not publish is known."""
    past = world()
    late = past.busy[RESTS.instance_id]
    past.busy = {**past.busy, RESTS.instance_id: [HOLE] * len(late)}
    fetch = make_fetch(past, store, RESTS)
    (silent,) = fetch.fetch(fetch.survey(TARGET, HOURS))
    assert silent.is_silent

    past.busy = {**past.busy, RESTS.instance_id: late}
    survey = fetch.survey(TARGET, HOURS)
    past.calls.clear()
    (heard,) = fetch.fetch(survey)
    assert 52 * 12 == heard.activity(Policy()).find(0) + 2 * 12
    assert sum(count for count, _ in past.calls) <= survey.most_metrics


@pytest.mark.parametrize(("days_later", "asked"), [(0, 1), (15, 1), (16, 0)])
def test_silence_is_believed_when_nothing_can_come_any_more(
    store: SeriesStore, days_later: int, asked: int
) -> None:
    """Two weeks CloudWatch takes old readings, and takes two days to show them."""
    fetch = make_fetch(world(), store, RESTS)
    dimensions = aggregate(RESTS)[0]
    query = MetricQuery("u", "GPU/EC2", Policy().metrics.utilization, dimensions, "Maximum")
    day = Window(START, START + timedelta(days=1), PERIOD)
    store.put(TARGET, [query], day, {})
    hours = Window(START, day.end + timedelta(days=days_later), timedelta(hours=1))
    assert asked == len(fetch._missing_fine(TARGET, [query], day, hours))


def test_an_interrupted_fetch_goes_on_where_it_was(store: SeriesStore) -> None:
    """Readings are not read again, and what could not be read is no silence."""
    past = world()
    past.fail = lambda _query, window: "InternalError" if window.period == PERIOD else None
    fetch = make_fetch(past, store, RESTS)
    with pytest.raises(
        FetchError, match=r"series of .* could not be read \(InternalError\): run it again"
    ):
        fetch.fetch(fetch.survey(TARGET, HOURS))

    past.calls.clear()
    past.fail = lambda _query, _window: None
    fetch.fetch(fetch.survey(TARGET, HOURS))
    assert {PERIOD} == {window.period for _, window in past.calls}


def test_a_refusal_of_aws_ends_it(store: SeriesStore) -> None:
    """Nothing is made up for what may not be read."""
    fetch = make_fetch(world(), store, RESTS)
    assert isinstance(fetch.instances, MemoryEc2)
    fetch.instances.failures["list_selected"] = [
        CloudError("no", operation="ec2:DescribeInstances")
    ]
    with pytest.raises(CloudError):
        fetch.survey(TARGET, HOURS)


def test_days_are_whole_and_over() -> None:
    """So that what is kept never changes; the first hour of a day waits for the last readings."""
    assert datetime(2026, 11, 6, tzinfo=UTC) == HOURS.end
    early = datetime(2026, 11, 6, 0, 59, tzinfo=UTC)
    assert datetime(2026, 11, 5, tzinfo=UTC) == last_days(early, 4).end


def test_policies_that_read_different_things_are_refused() -> None:
    """One fetch serves all of them or none."""
    other = replace(Policy(), metrics=replace(Policy().metrics, namespace="Other"))
    with pytest.raises(ReplayError, match="one by one"):
        wish_of([Policy(), other])
    with pytest.raises(ReplayError, match="one by one"):
        wish_of([Policy(), Policy(selector=TagMatch("Purpose", "Other"))])


def test_a_wish_serves_the_most_demanding_policy() -> None:
    """The highest threshold, the shortest window, every figure that any of them looks at."""
    eager = Policy(
        idle=IdleRule(utilization_below_percent=10, window_minutes=30),
        vetoes=Vetoes(memory_used_percent=5),
    )
    wish = wish_of([Policy(), eager])
    assert (10, timedelta(minutes=30)) == (wish.busy_from_percent, wish.shortest)
    limited = {figure for figure in FIGURES if limit_of(eager, figure) is not None}
    assert "memory" in limited
    assert {figure for figure in limited if can_be_replayed(figure)} == wish.figures
    assert timedelta(hours=1) == wish_of([Policy(idle=IdleRule(window_minutes=720))]).shortest


def test_a_rest_between_two_jobs_matters_to_a_short_window_only() -> None:
    """Half an hour within an hour of work, with nothing but work beside it."""
    high, low = [90.0] * 3, [90.0, 0.0, 90.0]
    assert {1} == hours_that_matter(high, low, 5.0, timedelta(minutes=30))
    assert set() == hours_that_matter(high, low, 5.0, timedelta(hours=1))


@given(
    values=st.lists(
        st.tuples(st.sampled_from([IDLE, BUSY, nan]), st.integers(1, 20)), min_size=1
    ).map(lambda parts: [value for value, count in parts for _ in range(count)]),
    shortest=st.sampled_from([30, 60]),
)
def test_no_idle_stretch_that_counts_is_left_out(values: list[float], shortest: int) -> None:
    """Every 5-minute reading of a stretch as long as the shortest window lies in an hour that
    matters."""
    values = values[: len(values) // 12 * 12]
    high, low = [], []
    for hour in range(len(values) // 12):
        part = slice(12 * hour, 12 * hour + 12)
        known = [value for value in values[part] if not isnan(value)]
        if known and min(known) >= 5.0:
            values[part] = [BUSY] * 12  # holes among nothing but work count as work
        high.append(max(known, default=nan))
        low.append(min(known, default=nan))
    matter = hours_that_matter(high, low, 5.0, timedelta(minutes=shortest))
    start = 0
    for index in range(len(values) + 1):
        if index < len(values) and not values[index] >= 5.0:
            continue
        measured = [i for i in range(start, index) if not isnan(values[i])]
        if index - start >= shortest // 5:
            assert {i // 12 for i in measured} <= matter
        start = index + 1


@settings(max_examples=examples(10, 200))
@given(
    parts=st.lists(
        st.tuples(st.sampled_from([IDLE, BUSY, BUSY, 7.0, nan]), st.integers(1, 200)),
        min_size=1,
        max_size=10,
    ),
    window=st.sampled_from([30, 60, 240]),
    threshold=st.sampled_from([5.0, 10.0]),
)
def test_hours_first_finds_what_reading_everything_would_find(
    parts: list[tuple[float, int]], window: int, threshold: float
) -> None:
    """The same questions, stops and idle hours as with 5-minute data of every day."""
    past = [value for value, count in parts for _ in range(count)]
    past = (past * (4 * 288 // len(past) + 1))[: 4 * 288]
    for hour in range(96):
        part = slice(12 * hour, 12 * hour + 12)
        if not any(value < threshold for value in past[part]) and any(
            value > 0 for value in past[part]
        ):
            past[part] = [BUSY] * 12  # holes among nothing but work count as work
    rule = IdleRule(window_minutes=window, utilization_below_percent=threshold)
    policy = Policy(idle=rule)
    results: list[InstanceResult] = []
    for shortest in (None, timedelta(0)):
        store = SeriesStore(Path(":memory:"), anywhere)
        reader = Past({RESTS.instance_id: past}, {RESTS.instance_id: aggregate(RESTS)})
        fetch = make_fetch(reader, store, RESTS, policy=policy)
        if shortest is not None:
            fetch = replace(
                fetch, wish=replace(fetch.wish, shortest=shortest, busy_from_percent=101.0)
            )
        results += run(*fetch.fetch(fetch.survey(TARGET, HOURS)), policy=policy).results
        store.close()
    first, second = results
    assert (second.events, second.idle, second.idle_left) == (
        first.events,
        first.idle,
        first.idle_left,
    )


@pytest.mark.parametrize(
    ("metrics", "layout", "unit"),
    [
        ("{profile: container-insights}", CONTAINER_INSIGHTS, 1.0),
        ("{profile: dcgm}", DCGM, 1.0),
        ("{profile: dcgm, utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE}", DCGM_SHARE, 0.01),
        ("{profile: neuron}", NEURON, 1.0),
    ],
)
def test_a_back_test_reads_each_metric_profile(
    store: SeriesStore, metrics: str, layout: Layout, unit: float
) -> None:
    """Device by device or core by core, in percent: work is work, rest becomes one question, and a
    silent device or core leaves it unknown."""
    document = f"mode: ask\nmetrics: {metrics}"
    book = parse_policy(document)
    instance = make_instance(instance_type=layout.instance_type)
    owner = instance.instance_id
    rest = bins((BUSY, 50), (2.0, 5), (BUSY, 41))
    sets = []
    for part in range(layout.parts):
        dimensions = layout.dimensions(owner, part, layout.instance_type)  # type: ignore[operator]
        sets.append(tuple(sorted(dimensions.items())))

    def questions(published: int) -> tuple[int, float]:
        """Return the questions, and the highest utilization, if so many of them publish."""
        past = Past({owner: rest}, {owner: sets[:published]})
        past.names = book.base().policy.metrics
        past.unit = unit
        fetch = make_fetch(past, store, instance, policy=book.base().policy)
        recordings = fetch.fetch(fetch.survey(TARGET, HOURS))
        replayed = replay("p", book, recordings, approval_delay=timedelta(hours=1))
        (result,) = replayed.results
        asked = sum(event.sent_at is not None for event in result.events)
        return asked, max(recordings[0].figures.utilization)

    asked, highest = questions(layout.parts)
    assert 1 == asked
    assert pytest.approx(BUSY) == highest
    assert 0 == questions(layout.parts - 1)[0]


def test_each_instance_is_read_by_the_metrics_of_its_own_policy() -> None:
    """One back-test of a fleet whose overrides have other profiles."""
    document = "overrides: [{name: t, match: {instance_families: [trn1]}, set: {metrics: %s}}]"
    book = parse_policy(document % "{profile: neuron}")
    wishes = wishes_of(book.variants, [lambda instance: book.applied_to(instance).policy])
    gpu = make_instance(instance_type="g5.xlarge")
    trainium = make_instance(instance_type="trn1.32xlarge")

    assert ["nvidia_smi_utilization_gpu", "node_neuroncore_utilization"] == [
        wish.metrics.utilization for wish in wishes
    ]
    assert [True, False] == [wish.reads(gpu) for wish in wishes]
    assert [False, True] == [wish.reads(trainium) for wish in wishes]


def test_two_documents_that_read_an_instance_differently_are_refused() -> None:
    """No recording serves both."""
    book = parse_policy("")
    other = parse_policy("metrics: {profile: neuron}")
    policies = [*book.variants, *other.variants]
    wishes = wishes_of(policies, [lambda _: book.base().policy, lambda _: other.base().policy])
    with pytest.raises(ReplayError, match=r"different names for i-\w+: back-test them one by one"):
        wishes[0].reads(make_instance())


def test_a_fetch_leaves_out_instances_of_other_metrics(store: SeriesStore) -> None:
    """Another fetch reads them."""
    fetch = make_fetch(world(), store, WORKS, RESTS)
    only_rests = replace(fetch.wish, reads=lambda one: one.instance_id == RESTS.instance_id)
    survey = replace(fetch, wish=only_rests).survey(TARGET, HOURS)
    assert [RESTS.instance_id] == [one.instance.instance_id for one in survey.subjects]


def outcome_of(past: Past, store: SeriesStore, policy: Policy) -> InstanceResult:
    """Return what becomes of the one instance of a past, fetched and replayed."""
    fetch = make_fetch(past, store, RESTS, policy=policy)
    recordings = fetch.fetch(fetch.survey(TARGET, HOURS))
    return run(*recordings, policy=policy).results[0]


OWN = (("InstanceId", RESTS.instance_id),)
INDEX = (*OWN, ("index", "0"))
NAMED = (*INDEX, ("name", "A10G"))
RESTING = bins((BUSY, 50), (IDLE, 20), (BUSY, 26))
POWER = Policy().metrics.power_draw


@pytest.mark.parametrize(("watts", "stops"), [(30.0, 1), (200.0, 0), (0.0, 0)])
def test_power_under_other_dimensions_is_replayed(
    store: SeriesStore, watts: float, stops: int
) -> None:
    """Live, power of one GPU confirms its utilization whatever the dimensions are."""
    past = Past({RESTS.instance_id: RESTING}, {RESTS.instance_id: [INDEX]})
    past.elsewhere = {POWER: [NAMED]}
    past.readings = {NAMED: watts}
    policy = Policy(idle=IdleRule(second_figure=SecondFigure.REQUIRED))

    assert stops == len([one for one in outcome_of(past, store, policy).events if one.stop])


@pytest.mark.parametrize(("percent", "stops"), [(0.0, 1), (100.0, 0)])
def test_encoding_under_other_dimensions_is_replayed(
    store: SeriesStore, percent: float, stops: int
) -> None:
    """Live, a question looks for it under any dimensions."""
    past = Past({RESTS.instance_id: RESTING}, {RESTS.instance_id: [INDEX]})
    past.elsewhere = {"nvidia_smi_utilization_encoder": [OWN]}
    past.readings = {OWN: percent}

    assert stops == len([one for one in outcome_of(past, store, Policy()).events if one.stop])


@pytest.mark.parametrize(("percent", "stops"), [(0.0, 1), (98.0, 0)])
def test_a_series_of_no_gpu_shows_work_in_a_back_test(
    store: SeriesStore, percent: float, stops: int
) -> None:
    """A job publishes beside the GPU, and stands for no GPU."""
    job = (*OWN, ("job", "train"))
    past = Past({RESTS.instance_id: RESTING}, {RESTS.instance_id: [INDEX, job]})
    past.readings = {job: percent}
    past.elsewhere = {POWER: [INDEX]}

    assert stops == len([one for one in outcome_of(past, store, Policy()).events if one.stop])


def test_a_listing_without_a_metric_shows_the_recorded_series_of_the_instance(
    store: SeriesStore,
) -> None:
    """As CloudWatch lists a few instances; other namespaces hold nothing."""
    past = Past({RESTS.instance_id: RESTING}, {RESTS.instance_id: [INDEX]})
    fetch = make_fetch(past, store, RESTS)
    metrics = RecordedMetrics(fetch.fetch(fetch.survey(TARGET, HOURS)))
    listed = metrics.list_series(TARGET, SeriesFilter("GPU/EC2", None), RESTS.instance_id)
    foreign = metrics.list_series(TARGET, SeriesFilter("Jobs", None), RESTS.instance_id)

    assert POWER in {one.metric for one in listed[RESTS.instance_id]}
    assert {} == foreign
