"""Evidence costs as few reads as possible, keeps holes as holes, and a failed read is never
silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from governor.core.errors import Throttled
from governor.core.instance import Target
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import MetricSource
from governor.evidence.ports import Listed, SeriesFilter
from governor.evidence.read_batch import Listings
from governor.evidence.request import EvidenceRequest, Gathered
from governor.policy.model.judging import IdleRule, Metrics, Vetoes, WorkMetrics
from governor.policy.model.policy import Policy
from governor.verdict.model import NO_HOLD, Verdict, VerdictKind
from governor.verdict.rules.judge import is_candidate, judge
from governor.verdict.rules.judging import wanted_figures
from tests.builders import NOW, POLICY, TARGET, make_instance
from tests.twins import Dimensions, MemoryMetrics

UTILIZATION = "nvidia_smi_utilization_gpu"
POWER = "nvidia_smi_power_draw"
MEMORY = "nvidia_smi_memory_used"
FIGURES = frozenset({"power", "cpu", "network"})
QUIET = [1.0] * 12
BUSY = [90.0] * 12


@dataclass
class Readings:
    """CloudWatch in memory, with the use case in front of it."""

    metrics: MemoryMetrics = field(default_factory=MemoryMetrics)

    def gather(
        self, *requests: EvidenceRequest, listings: Listings | None = None
    ) -> dict[str, Gathered]:
        """Gathers the evidence of these requests now."""
        return GatherEvidence(self.metrics)(TARGET, requests, NOW, listings)

    def publish(
        self, number: int, values: Sequence[float | None], metric: str = UTILIZATION
    ) -> None:
        """The aggregate of an instance."""
        self.metrics.publish(metric, {"InstanceId": id_of(number)}, values)

    def publish_gpu(
        self,
        number: int,
        index: int,
        values: Sequence[float | None],
        metric: str = UTILIZATION,
        **more: str,
    ) -> None:
        """One GPU of an instance."""
        dimensions = {"InstanceId": id_of(number), "index": str(index), "name": "A10G", **more}
        self.metrics.publish(metric, dimensions, values)

    def count_samples(self, number: int, samples: Sequence[float | None]) -> None:
        """How many samples are in each period of an instance's aggregate."""
        own = {"InstanceId": id_of(number)}
        self.metrics.publish(UTILIZATION, own, samples, statistic="SampleCount")

    def asked(self) -> list[tuple[str, str]]:
        """Metric and statistic of every query so far."""
        return [(query.metric, query.statistic) for query in self.metrics.reads]


@dataclass
class SelectiveListing(MemoryMetrics):
    """Lists some metrics and fails for others."""

    fails_for: str = ""

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """As the port says; fails for one metric."""
        if wanted.metric == self.fails_for:
            raise Throttled("ListMetrics: Rate exceeded")
        return super().list_series(target, wanted, instance_id)


@dataclass
class RecordedListing(MemoryMetrics):
    """Notes which instance each listing of the agent's namespace was for; `None` for a pass."""

    listed_ids: list[str | None] = field(default_factory=list)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """As the port says."""
        if wanted.namespace == "GPU/EC2":
            self.listed_ids.append(instance_id)
        return super().list_series(target, wanted, instance_id)


def id_of(number: int) -> str:
    """Ids of the instances in these tests."""
    return f"i-{number:017x}"


def request(number: int = 1, instance_type: str = "g5.xlarge", **changes: Any) -> EvidenceRequest:
    """A request for the instance of that number."""
    instance = make_instance(instance_id=id_of(number), instance_type=instance_type)
    plain = EvidenceRequest(instance=instance, policy=Policy(), only_if=is_candidate)
    return replace(plain, **changes)


def sets_of(number: int, *indices: int) -> tuple[Dimensions, ...]:
    """Dimension sets as they are remembered."""
    return tuple(
        (("InstanceId", id_of(number)), ("index", str(index)), ("name", "A10G"))
        for index in indices
    )


def test_the_aggregate_is_asked_first_and_nothing_is_listed() -> None:
    """One query for an instance that aggregates, whatever number of GPUs it has."""
    world = Readings()
    world.publish(1, BUSY)
    (found,) = world.gather(request(instance_type="p4d.24xlarge")).values()

    assert [(("InstanceId", id_of(1)),)] == [query.dimensions for query in world.metrics.reads]
    assert [(UTILIZATION, "Maximum")] == world.asked()
    assert (0, False) == (world.metrics.lists, found.searched)
    assert MetricSource.AGGREGATE is found.evidence.source
    assert tuple(BUSY) == found.evidence.gpus[0].utilization


def test_a_hundred_busy_instances_cost_a_hundred_queries() -> None:
    """Only what utilization alone would call idle is worth a second look."""
    world = Readings()
    for number in range(100):
        world.publish(number, BUSY)
    world.gather(*(request(number, figures=FIGURES) for number in range(100)))

    assert 100 == len(world.metrics.reads)


def test_only_candidates_get_the_other_figures() -> None:
    """Five queries for the quiet one (utilization, power, CPU, network in and out), one for the
    busy."""
    world = Readings()
    world.publish(1, QUIET)
    world.publish(2, BUSY)
    found = world.gather(request(1, figures=FIGURES), request(2, figures=FIGURES))

    assert 6 == len(world.metrics.reads)
    read = tuple(found[id_of(number)].evidence.read for number in (1, 2))
    assert (FIGURES | {"work"}, frozenset()) == read


def test_who_acts_reads_all_figures_of_a_busy_instance_too() -> None:
    """`always` is for the one instance a workflow is about."""
    world = Readings()
    world.publish(1, BUSY)
    (found,) = world.gather(request(figures=FIGURES, only_if=None)).values()

    assert FIGURES | {"work"} == found.evidence.read
    assert 5 == len(world.metrics.reads)


def test_a_silent_instance_is_looked_for_in_one_pass_for_all() -> None:
    """Two silent ones, one listing of utilization; the talking one is not read again."""
    world = Readings()
    world.publish(1, BUSY)
    for number in (2, 3):
        world.publish_gpu(number, 0, QUIET)
    found = world.gather(request(1), request(2), request(3))

    assert 1 == world.metrics.lists
    assert 3 + 2 == len(world.metrics.reads)
    assert sets_of(2, 0) == found[id_of(2)].dimensions
    assert MetricSource.PER_GPU is found[id_of(2)].evidence.source
    assert found[id_of(2)].searched


def test_a_search_that_was_just_made_is_not_repeated() -> None:
    """`search` says whether it is time again."""
    world = Readings()
    world.publish_gpu(1, 0, QUIET)
    (found,) = world.gather(request(search=False)).values()

    assert (0, False) == (world.metrics.lists, found.searched)
    assert MetricSource.NONE is found.evidence.source


@pytest.mark.parametrize("search", [True, False])
def test_gpus_that_are_missing_are_searched_for(search: bool) -> None:
    """One that publishes under new dimensions, or again, would else never be read."""
    world = Readings()
    for index in range(4):
        world.publish_gpu(1, index, QUIET)
    known = request(
        instance_type="g5.12xlarge", dimensions=sets_of(1, 0, 1, 2), source="per-gpu", search=search
    )
    (found,) = world.gather(known).values()

    assert (int(search), search) == (world.metrics.lists, found.searched)
    assert (4 if search else 3) == found.evidence.gpus_reporting
    assert sets_of(1, *range(4 if search else 3)) == found.dimensions


def test_a_search_for_missing_gpus_forgets_none() -> None:
    """CloudWatch lists three hours; what a GPU did before may lie in the window."""
    world = Readings()
    world.publish_gpu(1, 0, QUIET)
    world.publish_gpu(1, 1, QUIET)
    known = sets_of(1, 0, 1, 2)
    (found,) = world.gather(
        request(instance_type="g5.12xlarge", dimensions=known, source="per-gpu")
    ).values()

    assert (True, known) == (found.searched, found.dimensions)


def test_known_series_are_asked_for_at_once() -> None:
    """A series that was found once needs no listing and no aggregate."""
    world = Readings()
    for index in range(4):
        world.publish_gpu(1, index, QUIET)
    sets = sets_of(1, 0, 1, 2, 3)
    (found,) = world.gather(
        request(instance_type="g5.12xlarge", dimensions=sets, source="per-gpu")
    ).values()

    assert list(sets) == [query.dimensions for query in world.metrics.reads]
    assert 0 == world.metrics.lists
    assert (4, 4) == (found.evidence.gpus_expected, found.evidence.gpus_reporting)


def test_an_aggregate_stays_the_cheap_way_although_gpus_are_known() -> None:
    """Unless the request is for GPU by GPU."""
    world = Readings()
    world.publish(1, BUSY)
    world.publish_gpu(1, 0, BUSY)
    known = request(instance_type="g5.12xlarge", dimensions=sets_of(1, 0), source="aggregate")
    (cheap,) = world.gather(known).values()
    (full,) = world.gather(replace(known, per_gpu=True)).values()

    assert ("aggregate", "per-gpu") == (cheap.evidence.source, full.evidence.source)


def test_gpu_by_gpu_is_looked_for_although_the_aggregate_talks() -> None:
    """The aggregate hides which GPU is busy."""
    world = Readings()
    world.publish(1, BUSY)
    for index in range(4):
        world.publish_gpu(1, index, BUSY if index == 3 else QUIET)
    (found,) = world.gather(request(instance_type="g5.12xlarge", per_gpu=True)).values()

    assert ["0", "1", "2", "3"] == [gpu.gpu for gpu in found.evidence.gpus]
    assert tuple(BUSY) == found.evidence.gpus[3].utilization


def test_work_in_the_aggregate_counts_where_gpus_are_read_one_by_one() -> None:
    """A GPU whose own series died may still be in it."""
    world = Readings()
    world.publish(1, BUSY)
    for index in range(4):
        world.publish_gpu(1, index, QUIET)
    (found,) = world.gather(request(instance_type="g5.12xlarge", per_gpu=True)).values()

    assert (MetricSource.PER_GPU, tuple(BUSY)) == (found.evidence.source, found.evidence.aggregate)
    assert not is_candidate(found.evidence, POLICY)


def test_gpu_by_gpu_falls_back_to_an_aggregate_that_is_all_there_is() -> None:
    """Its readings are kept when the search finds nothing finer."""
    world = Readings()
    world.publish(1, QUIET)
    (found,) = world.gather(request(instance_type="g5.12xlarge", per_gpu=True)).values()

    assert (MetricSource.AGGREGATE, True) == (found.evidence.source, found.searched)
    assert tuple(QUIET) == found.evidence.gpus[0].utilization


def test_a_gpu_published_twice_is_one_gpu() -> None:
    """After a change of the agent's configuration both series are that GPU's: the maximum, holes
    filled."""
    world = Readings()
    before = [7.0, 7.0, None, None] * 3
    after = [None, 9.0, 3.0, None] * 3
    world.publish_gpu(1, 0, before)
    world.publish_gpu(1, 0, after, arch="Ampere")
    (found,) = world.gather(request()).values()

    (gpu,) = found.evidence.gpus
    assert (7.0, 9.0, 3.0, None) * 3 == gpu.utilization
    assert (1, 1) == (found.evidence.gpus_expected, found.evidence.gpus_reporting)


def test_gpus_are_in_the_order_of_their_index() -> None:
    """Ten comes after nine, not after one."""
    world = Readings()
    for index in range(12):
        world.publish_gpu(1, index, QUIET)
    (found,) = world.gather(request(instance_type="p4d.24xlarge")).values()

    assert [str(index) for index in range(12)] == [gpu.gpu for gpu in found.evidence.gpus]


def test_an_aggregate_under_more_dimensions_is_found_by_a_search() -> None:
    """Agents that append an Auto Scaling group or an image id to the aggregate."""
    world = Readings()
    world.metrics.publish(UTILIZATION, {"InstanceId": id_of(1), "ImageId": "ami-1"}, BUSY)
    (found,) = world.gather(request()).values()

    assert (MetricSource.AGGREGATE, tuple(BUSY)) == (
        found.evidence.source,
        found.evidence.gpus[0].utilization,
    )


@pytest.mark.parametrize(
    ("samples", "gpus"),
    [
        ([40.0] * 12, 8),
        ([35.0] * 12, 7),
        ([40.0] * 10 + [25.0, 40.0], 8),
        ([35.0] * 10 + [None, None], 7),
    ],
    ids=["all", "one hidden", "all, samples lost", "one hidden, periods lost"],
)
def test_the_samples_of_an_aggregate_tell_how_many_gpus_are_in_it(
    samples: list[float | None], gpus: int
) -> None:
    """Five samples a period for each GPU, at one a minute."""
    world = Readings()
    world.publish(1, QUIET)
    world.count_samples(1, samples)
    (found,) = world.gather(request(instance_type="p4d.24xlarge", figures=FIGURES)).values()

    assert (8, gpus) == (found.evidence.gpus_expected, found.evidence.gpus_reporting)


def test_a_period_that_caught_one_collection_more_hides_no_gpu() -> None:
    """Agents drift: six collections fall into one period, four into the next. Seven GPUs stay
    seven."""
    world = Readings()
    world.publish(1, QUIET)
    world.count_samples(1, [35.0] * 8 + [42.0, 28.0, 42.0, 28.0])
    (found,) = world.gather(request(instance_type="p4d.24xlarge", figures=FIGURES)).values()

    assert 7 == found.evidence.gpus_reporting


@pytest.mark.parametrize(
    ("instance_type", "newest"), [("g5.xlarge", 0.437), ("p4d.24xlarge", None)]
)
def test_memory_of_several_gpus_is_not_known_by_their_aggregate(
    instance_type: str, newest: float | None
) -> None:
    """It goes on where one GPU has fallen silent, which may hold its memory."""
    world = Readings()
    world.publish(1, QUIET)
    world.count_samples(1, [40.0] * 12)
    world.publish(1, [100.0] * 12, metric=MEMORY)
    wanted = request(instance_type=instance_type, figures=FIGURES | {"memory"}, only_if=None)
    (found,) = world.gather(wanted).values()

    assert "memory" in found.evidence.read
    assert newest == found.evidence.memory_newest_percent


def test_a_single_gpu_needs_no_counting() -> None:
    """The GPU that publishes is the only one; nothing is asked for it."""
    world = Readings()
    world.publish(1, QUIET)
    (found,) = world.gather(request(figures=FIGURES)).values()

    assert "SampleCount" not in {statistic for _, statistic in world.asked()}
    assert (1, 1) == (found.evidence.gpus_expected, found.evidence.gpus_reporting)


def test_a_gpu_that_publishes_nothing_is_missed() -> None:
    """A GPU in MIG mode publishes no utilization: that is no data, however quiet the others are."""
    world = Readings()
    for index in range(7):
        world.publish_gpu(1, index, QUIET)
    world.publish(1, QUIET, metric="CPUUtilization")
    asked = request(instance_type="p4d.24xlarge")
    (found,) = world.gather(asked).values()
    verdict = judge(asked.instance, NO_HOLD, found.evidence, asked.policy, NOW)

    assert (8, 7) == (found.evidence.gpus_expected, found.evidence.gpus_reporting)
    assert VerdictKind.NO_DATA is verdict.kind


def test_a_gpu_whose_series_died_counts_as_missing() -> None:
    """A remembered series without a reading in the window reports nothing."""
    world = Readings()
    for index in range(3):
        world.publish_gpu(1, index, QUIET)
    world.publish_gpu(1, 3, [None] * 12)
    (found,) = world.gather(request(instance_type="g5.12xlarge")).values()

    assert (4, 3) == (found.evidence.gpus_expected, found.evidence.gpus_reporting)


def test_utilization_that_cannot_be_read_is_a_problem_and_not_silence() -> None:
    """No search follows: nothing says that the series is missing."""
    world = Readings()
    world.publish(1, QUIET)
    world.metrics.broken[UTILIZATION] = "Throttling"
    asked = request(figures=FIGURES)
    (found,) = world.gather(asked).values()

    assert "Throttling" == found.evidence.read_problem
    assert 0 == world.metrics.lists
    assert (
        VerdictKind.NO_DATA
        is judge(asked.instance, NO_HOLD, found.evidence, asked.policy, NOW).kind
    )


@pytest.mark.parametrize("metric", [POWER, "CPUUtilization", "NetworkIn", "NetworkOut"])
def test_a_figure_that_cannot_be_read_is_a_problem_of_its_instance(metric: str) -> None:
    """A veto that could not be heard is no consent."""
    world = Readings()
    for name in (UTILIZATION, POWER, "CPUUtilization", "NetworkIn", "NetworkOut"):
        world.publish(1, QUIET, metric=name)
    world.publish(2, BUSY)
    world.metrics.broken[metric] = "InternalServiceFault"
    found = world.gather(request(1, figures=FIGURES), request(2, figures=FIGURES))

    problems = [found[id_of(number)].evidence.read_problem for number in (1, 2)]
    assert ["InternalServiceFault", None] == problems


def test_the_samples_that_cannot_be_counted_are_a_problem() -> None:
    """Without the count, hidden GPUs would go unseen."""

    class NoCounts(MemoryMetrics):
        def read(self, target: Target, queries: Sequence[Any], window: Any) -> Any:
            answer = super().read(target, queries, window)
            bad = {query.key: "cut short" for query in queries if query.statistic == "SampleCount"}
            kept = {key: series for key, series in answer.series.items() if key not in bad}
            return replace(answer, series=kept, problems={**answer.problems, **bad})

    world = Readings(NoCounts())
    world.publish(1, QUIET)
    (found,) = world.gather(request(instance_type="p4d.24xlarge", figures=FIGURES)).values()

    assert "cut short" == found.evidence.read_problem


def test_a_listing_that_fails_is_a_problem_of_the_silent_alone() -> None:
    """And the search is not counted as made, so that the next sweep makes it."""
    world = Readings()
    world.publish(1, QUIET)
    world.metrics.list_failure = Throttled("ListMetrics: Rate exceeded")
    found = world.gather(request(1), request(2))

    talks, silent = found[id_of(1)], found[id_of(2)]
    assert (None, MetricSource.AGGREGATE) == (talks.evidence.read_problem, talks.evidence.source)
    assert "Rate exceeded" in str(silent.evidence.read_problem)
    assert not silent.searched


def test_ec2s_own_power_metric_is_told_and_proves_nothing() -> None:
    """It colors the sentence of a verdict that is no data with or without it."""
    world = Readings()
    world.publish(1, [3.0, 11.0], metric="GPUPowerUtilization")
    asked = request()
    (found,) = world.gather(asked).values()
    verdict = judge(asked.instance, NO_HOLD, found.evidence, asked.policy, NOW)

    assert (MetricSource.NONE, 11.0) == (
        found.evidence.source,
        found.evidence.agentless_power_percent,
    )
    assert VerdictKind.NO_DATA is verdict.kind
    assert "11%" in verdict.reason


def test_a_missing_power_metric_of_ec2_changes_nothing() -> None:
    """A failed listing of it is no reason to read everything again."""
    world = Readings(SelectiveListing(fails_for="GPUPowerUtilization"))
    (found,) = world.gather(request()).values()

    assert (MetricSource.NONE, None) == (found.evidence.source, found.evidence.read_problem)
    assert found.searched


def test_figures_are_shares_of_what_the_hardware_can() -> None:
    """Watts of the board's limit, MiB of a GPU's memory, bytes a second from sums of five
    minutes."""
    world = Readings()
    world.publish(1, QUIET)
    world.publish(1, [30.0] * 11 + [75.0], metric=POWER)
    world.publish(1, [2288.8] * 12, metric=MEMORY)
    world.publish(1, [4.0] * 12, metric="CPUUtilization")
    world.publish(1, [30_000.0, 90_000.0, *[0.0] * 10], metric="NetworkIn")
    world.publish(1, [60_000.0, None, *[0.0] * 10], metric="NetworkOut")
    (found,) = world.gather(request(figures=FIGURES | {"memory"})).values()
    evidence = found.evidence

    assert 25.0 == evidence.power_percent_of_limit
    assert 10.0 == evidence.memory_used_percent
    assert 4.0 == evidence.cpu_percent
    assert 300.0 == evidence.network_bytes_per_second
    assert datetime(2026, 11, 20, 12, 0, tzinfo=UTC) == evidence.last_active["power"]
    assert datetime(2026, 11, 20, 11, 10, tzinfo=UTC) == evidence.last_active["network"]


def test_the_busiest_gpu_speaks_for_power() -> None:
    """GPU by GPU the maximum counts, not the sum and not the first."""
    world = Readings()
    for index, watts in enumerate([30.0, 150.0, 60.0, 30.0]):
        world.publish_gpu(1, index, QUIET)
        world.publish_gpu(1, index, [watts] * 12, metric=POWER)
    (found,) = world.gather(request(instance_type="g5.12xlarge", figures=FIGURES)).values()

    assert 50.0 == found.evidence.power_percent_of_limit


@pytest.mark.parametrize(("metric", "figure"), [(POWER, "power"), (MEMORY, "memory")])
def test_a_figure_of_gpus_is_measured_where_every_gpu_publishes_it(
    metric: str, figure: str
) -> None:
    """One GPU alone says nothing about the others, so a policy that requires the figure has no
    data."""
    world = Readings()
    asked = request(instance_type="g5.12xlarge", figures=frozenset({figure}))
    for index in range(4):
        world.publish_gpu(1, index, QUIET)
    world.publish_gpu(1, 0, [20.0] * 12, metric=metric)
    one = world.gather(asked)[id_of(1)].evidence
    for index in range(1, 4):
        world.publish_gpu(1, index, [20.0] * 12, metric=metric)
    every = world.gather(asked)[id_of(1)].evidence

    assert (0.0, 100.0) == (one.measured_percent[figure], every.measured_percent[figure])
    assert (60.0, 0.0) == (one.longest_hole_minutes[figure], every.longest_hole_minutes[figure])
    assert (one.window.start, one.window.end) == (
        one.last_measured[figure],
        every.last_measured[figure],
    )


def test_nothing_published_is_not_zero() -> None:
    """A figure that nobody published is not known, and was asked for."""
    world = Readings()
    world.publish(1, QUIET)
    (found,) = world.gather(request(figures=FIGURES)).values()
    evidence = found.evidence

    assert (None, None, None) == (
        evidence.power_percent_of_limit,
        evidence.cpu_percent,
        evidence.network_bytes_per_second,
    )
    assert FIGURES | {"work"} == evidence.read


def test_ec2_is_read_in_its_own_rhythm() -> None:
    """Basic monitoring has one value in five minutes, also where GPUs are read every minute."""
    world = Readings()
    policy = Policy(metrics=Metrics(period_seconds=60), idle=IdleRule(window_minutes=30))
    world.publish(1, [1.0] * 30)
    world.publish(1, [300_000.0] * 6, metric="NetworkIn")
    (found,) = world.gather(request(policy=policy, figures=FIGURES)).values()

    assert 1_000.0 == found.evidence.network_bytes_per_second
    assert 30 == found.evidence.window.bins


def test_policies_with_other_metrics_are_read_apart() -> None:
    """Each instance is judged by the names and the window of its own policy."""
    world = Readings()
    other = Policy(
        metrics=Metrics(namespace="Custom", utilization="gpu"), idle=IdleRule(window_minutes=120)
    )
    world.publish(1, QUIET)
    world.publish(2, [2.0] * 24, metric="gpu")
    found = world.gather(request(1), request(2, policy=other))

    assert (12, 24) == tuple(found[id_of(number)].evidence.window.bins for number in (1, 2))
    assert (2.0,) * 24 == found[id_of(2)].evidence.gpus[0].utilization


def test_an_unknown_type_is_not_taken_for_a_quiet_one() -> None:
    """Neither its GPUs nor its power limit are known."""
    world = Readings()
    world.publish(1, QUIET)
    asked = request(instance_type="g99.xlarge", figures=FIGURES)
    (found,) = world.gather(asked).values()

    assert (None, None) == (found.evidence.gpus_expected, found.evidence.power_percent_of_limit)
    assert (
        VerdictKind.NO_DATA
        is judge(asked.instance, NO_HOLD, found.evidence, asked.policy, NOW).kind
    )


def test_nothing_to_gather_costs_nothing() -> None:
    """A sweep over a fleet that needs no read makes none."""
    world = Readings()

    assert {} == world.gather()
    assert ([], 0) == (world.metrics.reads, world.metrics.lists)


# what jobs say of themselves


def says(
    world: Readings, number: int, values: Sequence[float | None], name: str = "Loss", **more: str
) -> None:
    """A job on the instance publishes this."""
    own = {"InstanceId": id_of(number), **more}
    world.metrics.publish(name, own, values, namespace="MLTraining")


def test_the_latest_work_of_any_job_counts() -> None:
    """Whatever its dimensions besides the instance; it ends with its last period that is not 0."""
    world = Readings()
    world.publish(1, QUIET)
    says(world, 1, [3.0] * 2 + [0.0] * 10)
    says(world, 1, [None] * 6 + [512.0, None] + [0.0] * 4, name="Throughput", JobName="a", Rank="0")
    (found,) = world.gather(request(figures=FIGURES)).values()
    evidence = found.evidence

    assert "MLTraining Throughput" == evidence.work
    assert evidence.window.bin_end(6) == evidence.last_active["work"]
    assert FIGURES | {"work"} == evidence.read


@pytest.mark.parametrize("values", [[0.0] * 12, [None] * 12, [-0.0, None] * 6])
def test_nothing_and_zero_are_no_work(values: list[float | None]) -> None:
    """A job that waits may well publish that it does nothing."""
    world = Readings()
    world.publish(1, QUIET)
    says(world, 1, values)
    (found,) = world.gather(request(figures=FIGURES)).values()

    assert (None, None) == (found.evidence.work, found.evidence.read_problem)


def test_a_negative_figure_is_work() -> None:
    """A log-likelihood is; only GPUs' readings cannot be."""
    world = Readings()
    world.publish(1, QUIET)
    says(world, 1, [-2.5] * 12)

    assert "MLTraining Loss" == world.gather(request(figures=FIGURES))[id_of(1)].evidence.work


def test_only_candidates_for_idleness_are_looked_at() -> None:
    """A busy GPU, and one whose idleness was told, cost neither a list nor a read; a recheck always
    does."""
    world = Readings()
    for number, values in ((1, BUSY), (2, QUIET)):
        world.publish(number, values)
        says(world, number, BUSY)
    world.gather(request(1, figures=FIGURES), request(2))
    assert 0 == world.metrics.lists_of_work

    (found,) = world.gather(request(1, figures=FIGURES, only_if=None)).values()
    assert (1, "MLTraining Loss") == (world.metrics.lists_of_work, found.evidence.work)


@pytest.mark.parametrize(("candidates", "lists"), [(1, 1), (5, 5), (6, 1), (40, 1)])
def test_many_candidates_are_one_pass(candidates: int, lists: int) -> None:
    """A few are listed one by one: the namespace of a large fleet has many pages."""
    world = Readings()
    for number in range(candidates):
        world.publish(number, QUIET)
        says(world, number, BUSY)
    found = world.gather(*(request(number, figures=FIGURES) for number in range(candidates)))

    assert lists == world.metrics.lists_of_work
    assert {"MLTraining Loss"} == {one.evidence.work for one in found.values()}


@pytest.mark.parametrize(
    ("working", "instance_type", "one_by_one"),
    [(80, "p5.48xlarge", True), (0, "g5.xlarge", False)],
)
def test_idle_instances_of_a_large_fleet_are_listed_one_by_one(
    working: int, instance_type: str, one_by_one: bool
) -> None:
    """A pass lists the series of all 704 GPUs, two pages for each metric: more calls and memory
    than for the eight idle instances. Another batch of the same sweep repeats no call."""
    metrics = RecordedListing()
    world = Readings(metrics)
    for number in range(8 + working):
        world.publish(number, QUIET if number < 8 else BUSY)
    encoder = {"InstanceId": id_of(3), "host": "trainer-3"}
    metrics.publish("nvidia_smi_utilization_encoder", encoder, BUSY)
    figures = wanted_figures(Policy())
    requests = [request(n, instance_type, figures=figures) for n in range(8 + working)]
    listings = Listings()
    found = world.gather(*requests, listings=listings)

    assert 90.0 == found[id_of(3)].evidence.encoder_percent
    calls = len(metrics.listed_ids)
    if one_by_one:
        assert [id_of(number) for number in range(8)] == sorted(map(str, metrics.listed_ids))
    else:
        assert {None} == set(metrics.listed_ids)
    world.gather(*requests, listings=listings)
    assert calls == len(metrics.listed_ids)


def test_only_the_policys_metrics_count() -> None:
    """A namespace of one's own, and of it the names that mean work; or none at all."""
    named = Policy(metrics=Metrics(work=WorkMetrics(names=("Throughput",))))
    elsewhere = Policy(metrics=Metrics(work=WorkMetrics(namespace="Other")))
    off = Policy(metrics=Metrics(work=None))
    world = Readings()
    for number in (1, 2, 3, 4):
        world.publish(number, QUIET)
        says(world, number, BUSY)
    found = world.gather(
        *(request(n, policy=p, figures=FIGURES) for n, p in ((1, named), (2, elsewhere), (3, off)))
    )

    assert [None, None, None] == [found[id_of(number)].evidence.work for number in (1, 2, 3)]
    assert [True, True, False] == [
        "work" in found[id_of(number)].evidence.read for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("where", ["list", "read"])
def test_a_job_that_cannot_be_heard_is_no_idle_one(where: str) -> None:
    """Neither a list nor a read that failed is silence: the instance has no data."""
    world = Readings()
    for metric in (UTILIZATION, "CPUUtilization", "NetworkIn", "NetworkOut"):
        world.publish(1, QUIET, metric)
    says(world, 1, [0.0] * 12)
    asked = request(figures=FIGURES)
    (fine,) = world.gather(asked).values()
    if where == "list":
        world.metrics.list_failure = Throttled("ListMetrics: Rate exceeded")
    else:
        world.metrics.broken["Loss"] = "Throttling"
    (failed,) = world.gather(asked).values()

    assert VerdictKind.IDLE is judge(asked.instance, NO_HOLD, fine.evidence, asked.policy, NOW).kind
    assert (
        VerdictKind.NO_DATA
        is judge(asked.instance, NO_HOLD, failed.evidence, asked.policy, NOW).kind
    )


@pytest.mark.parametrize(("window_minutes", "recently"), [(60, True), (120, True), (180, False)])
def test_a_long_window_holds_work_of_long_ago(window_minutes: int, recently: bool) -> None:
    """CloudWatch's list of what is active reaches back three hours, give or take 50 minutes."""
    world = Readings(RememberingLists())
    policy = Policy(idle=IdleRule(window_minutes=window_minutes))
    world.publish(1, [1.0] * (window_minutes // 5))
    world.gather(request(policy=policy, figures=FIGURES))

    assert isinstance(world.metrics, RememberingLists)
    assert [recently] == world.metrics.asked


@dataclass
class RememberingLists(MemoryMetrics):
    """Keeps whether only recent series were asked for."""

    asked: list[bool] = field(default_factory=list)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """As the port says."""
        if wanted.metric is None and wanted.namespace == "MLTraining":
            self.asked.append(wanted.recently)
        return super().list_series(target, wanted, instance_id)


# what cannot be forged, or not by everybody

BOUND = Policy(metrics=Metrics(bound_namespaces=True), vetoes=Vetoes(required=()))
OWN = f"GPU/EC2/AROAEXAMPLE:{id_of(1)}"


def verdict_of(world: Readings, policy: Policy) -> Verdict:
    """By everything that the policy asks for."""
    asked = request(policy=policy, figures=wanted_figures(policy))
    (found,) = world.gather(asked).values()
    return judge(asked.instance, NO_HOLD, found.evidence, policy, NOW)


@pytest.mark.parametrize(("power", "kind"), [(62.0, VerdictKind.BUSY), (11.0, VerdictKind.IDLE)])
def test_published_zeros_are_checked_against_ec2s_own_power_metric(
    power: float, kind: VerdictKind
) -> None:
    """Nobody can publish into AWS/EC2; by the policy's limit of power."""
    world, policy = Readings(), Policy(vetoes=Vetoes(required=()))
    world.publish(1, QUIET)
    world.publish(1, [power] * 12, metric="GPUPowerUtilization")

    verdict = verdict_of(world, policy)
    assert kind is verdict.kind
    assert ("EC2's own GPUPowerUtilization reached 62.0%" in verdict.reason) == (
        kind is VerdictKind.BUSY
    )


def test_nothing_is_idle_while_ec2s_own_metrics_cannot_be_listed() -> None:
    """A failure is no silence."""
    world = Readings()
    world.publish(1, QUIET)
    world.metrics.list_failure = Throttled("ListMetrics: Rate exceeded")

    assert VerdictKind.NO_DATA is verdict_of(world, Policy(vetoes=Vetoes(required=()))).kind


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        ({}, VerdictKind.NO_DATA),
        ({f"GPU/EC2/AROAEXAMPLE:{id_of(2)}": QUIET}, VerdictKind.NO_DATA),
        ({OWN: QUIET}, VerdictKind.IDLE),
        ({OWN: [None] * 9 + [1.0] * 3}, VerdictKind.NO_DATA),
        ({OWN: [80.0] * 12}, VerdictKind.BUSY),
        ({OWN: [80.0] * 12, f"GPU/EC2/AROAFORGER:{id_of(1)}": QUIET}, VerdictKind.BUSY),
    ],
    ids=["none", "of another", "quiet", "a part", "busy", "busy, and somebody says zero"],
)
def test_an_instance_is_idle_where_it_says_so_of_itself(
    own: dict[str, Any], kind: VerdictKind
) -> None:
    """Forged zeros in the common namespace stop nothing; of several own ones the highest counts."""
    world = Readings()
    world.publish(1, QUIET)
    world.metrics.bound = {namespace: tuple(values) for namespace, values in own.items()}

    assert kind is verdict_of(world, BOUND).kind


@dataclass
class Forgeries(MemoryMetrics):
    """Lists what others may have published beside the instance's own namespaces."""

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """As the port says."""
        if wanted.namespace is not None:
            return super().list_series(target, wanted, instance_id)
        own, gpu = (("InstanceId", id_of(1)),), (("InstanceId", id_of(1)), ("index", "0"))
        names = (
            f"GPU/EC2/AROA1:{id_of(1)}",
            f"GPU/EC2/AROA2:{id_of(1)}",
            f"GPU/EC2/AROA1:{id_of(2)}",
            f"GPU/EC2/AIDA1:{id_of(1)}",
            f"GPU/EC2xAROA1:{id_of(1)}",
            "GPU/EC2",
        )
        listed = [Listed(name, UTILIZATION, own) for name in names]
        return {id_of(1): [*listed, Listed(f"GPU/EC2/AROA3:{id_of(1)}", UTILIZATION, gpu)]}


def test_a_namespace_is_an_instances_own_by_its_name_alone() -> None:
    """Base, a role's id, the id of the instance that the metric names, and no other dimension."""
    world = Readings(metrics=Forgeries())
    world.publish(1, QUIET)
    verdict_of(world, BOUND)

    read = {query.namespace for query in world.metrics.reads}
    own = {name for name in read if name.startswith("GPU/EC2") and name != "GPU/EC2"}
    assert {f"GPU/EC2/AROA1:{id_of(1)}", f"GPU/EC2/AROA2:{id_of(1)}"} == own


def test_the_aggregate_as_the_only_known_set_is_the_aggregate() -> None:
    """A back-test names it. It proves idleness as where no set is known."""
    world = Readings()
    world.publish(1, QUIET)
    aggregate = (("InstanceId", id_of(1)),)
    instance = make_instance(instance_id=id_of(1))
    request = EvidenceRequest(instance, POLICY, dimensions=(aggregate,), search=False)
    evidence = world.gather(request)[id_of(1)].evidence

    assert MetricSource.AGGREGATE is evidence.source
    assert ["all"] == [gpu.gpu for gpu in evidence.gpus]
