"""Every reader of the table of figures knows each row: a new veto works in all of them, or a test
here fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple, cast, get_args, get_type_hints

import pytest

from cli import doctor
from cli.policy_schema import policy_schema
from governor.core.units import capitalized
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.evidence.model import Evidence, MetricSource, Series, Window
from governor.evidence.ports import MetricQuery
from governor.evidence.rules.figures import (
    FIGURES,
    Figure,
    Publisher,
    Scale,
    amount_text,
    can_be_replayed,
    limit_of,
)
from governor.evidence.rules.series import evidence_document
from governor.policy.document import parse_policy
from governor.policy.model.judging import Metrics, Vetoes
from governor.policy.model.policy import Policy
from governor.scan.kinds.ec2_instance.rules import ELSEWHERE, OWN_LIMITS, figures_beside
from governor.scan.model import Finding, Row
from scripts.policy_reference import reference
from simulation.store import SeriesStore
from tests.builders import NOW, TARGET, make_evidence, make_instance
from tests.twins import MemoryEc2, MemoryMetrics
from tests.unit.scan.ec2_world import QUIET
from tests.unit.scan.ec2_world import World as ScannedWorld
from tests.unit.scan.ec2_world import instance as scanned_instance
from tests.unit.simulation.builders import BUSY, HOUR, IDLE, anywhere, bins, by_window, run
from tests.unit.simulation.test_fetch import HOURS, Past, aggregate, make_fetch
from tests.unit.template.machines import ROOT
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import World


class NewVeto(NamedTuple):
    """A row that is not in the table, its metric in CloudWatch, and a reading above its limit."""

    row: Figure
    metric: str
    reading: float


NEW_VETOES = {
    "of EC2": NewVeto(
        Figure(
            words="traffic to disks",
            # Of the row that gives way for this one.
            field="agentless_power_percent",
            limit="vetoes.network_bytes_per_second",
            publisher=Publisher.EC2,
            metrics=("EBSWriteBytes",),
            statistic="Sum",
            scale=Scale.BYTES_PER_SECOND,
        ),
        metric="EBSWriteBytes",
        reading=9e8,
    ),
    "of the agent": NewVeto(
        Figure(
            words="heat",
            field="agentless_power_percent",
            limit="vetoes.cpu_percent",
            publisher=Publisher.AGENT,
            metrics=("temperature",),
            statistic="Maximum",
            scale=Scale.PERCENT,
        ),
        metric="nvidia_smi_temperature_gpu",
        reading=90.0,
    ),
}


@pytest.fixture(params=sorted(NEW_VETOES))
def veto(request: pytest.FixtureRequest) -> Iterator[NewVeto]:
    """A veto that was just added to the table, which gets its rows back in their order."""
    table = cast("dict[str, Figure]", FIGURES)
    rows = dict(table)
    added = NEW_VETOES[request.param]
    del table["agentless"]
    table["added"] = added.row
    yield added
    table.clear()
    table.update(rows)


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_sweep_knows_a_new_veto(veto: NewVeto, *, is_reached: bool) -> None:
    """Its limit makes the instance busy."""
    world = FleetWorld()
    instance_id = world.add(1)
    if is_reached:
        world.metrics.publish(veto.metric, {"InstanceId": instance_id}, [veto.reading] * 48)
    world.sweep()

    assert ("busy" if is_reached else "idle") == world.verdict(instance_id)


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_recheck_knows_a_new_veto(veto: NewVeto, *, is_reached: bool) -> None:
    """Work that it shows ends the episode."""
    world = World()
    own = {"InstanceId": world.instance.instance_id}
    if is_reached:
        world.metrics.publish(veto.metric, own, [veto.reading] * 48)
    result = world.recheck(world.ref, Step.STOP)

    assert is_reached != result.proceed
    if is_reached:
        assert Outcome.WOKE_UP is result.outcome
        assert f"{veto.row.words} reached" in result.reason


def scanned(veto: NewVeto, *, is_reached: bool, publishes: bool) -> Row:
    """The row of a quiet instance in a scan: its GPU publishes, or EC2 alone does."""
    world = ScannedWorld()
    world.metrics.quiet()
    host = scanned_instance(instance_type="g5.xlarge")
    own = {"InstanceId": host.instance_id}
    gpu = {**own, "index": "0"}
    if publishes:
        world.metrics.publish("GPU/EC2", "nvidia_smi_utilization_gpu", 0.0, **gpu)
    if is_reached and veto.row.publisher is Publisher.AGENT:
        world.metrics.publish("GPU/EC2", veto.metric, veto.reading, **gpu)
    elif is_reached:
        world.metrics.publish("AWS/EC2", veto.metric, veto.reading, **own)
    return world.row(host)


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_scan_knows_a_new_veto(veto: NewVeto, *, is_reached: bool) -> None:
    """An instance whose GPUs publish zeros is busy by it."""
    row = scanned(veto, is_reached=is_reached, publishes=True)

    assert (Finding.BUSY if is_reached else Finding.IDLE) is row.judgment.finding


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_scan_of_an_instance_without_metrics_knows_a_new_veto(
    veto: NewVeto, *, is_reached: bool
) -> None:
    """It is never likely to be idle while EC2's own figure shows work. Figures of publishers in
    `ELSEWHERE` count only where the same publisher shows utilization."""
    row = scanned(veto, is_reached=is_reached, publishes=False)

    is_read = veto.row.publisher not in ELSEWHERE
    is_busy = is_reached and is_read
    assert (Finding.BUSY if is_busy else Finding.LIKELY_IDLE) is row.judgment.finding
    if is_busy:
        assert capitalized(veto.row.words) in row.judgment.evidence


@pytest.mark.parametrize("figure", FIGURES)
def test_a_scan_differs_from_the_table_only_where_it_says_so(figure: str) -> None:
    """A row that a scan does not read is of a publisher in `ELSEWHERE`, and one that it limits
    otherwise than the policy does is in `OWN_LIMITS`."""
    row = FIGURES[figure]
    vetoes = replace(Vetoes(), busy_vcpus=8.0, memory_used_percent=50.0)
    policy = Policy(vetoes=vetoes, metrics=Metrics(bound_namespaces=True))
    beside = figures_beside(policy).get(figure)

    assert (row.publisher in ELSEWHERE) is (beside is None)
    if beside is not None:
        differs = (row.words, limit_of(policy, figure)) != (beside.words, beside.limit)
        assert (figure in OWN_LIMITS) is differs
        assert (row.metrics, row.statistic, row.scale) == (
            beside.metrics,
            beside.statistic,
            beside.scale,
        )


def test_a_quiet_host_of_the_scan_publishes_every_figure_beside() -> None:
    """Otherwise no host of the scan's tests would be likely idle."""
    figures = figures_beside(Policy()).values()
    metrics = {metric for row in figures if not row.is_listed for metric in row.metrics}

    assert set() == metrics - set(QUIET), "add these metrics to QUIET in unit/scan/ec2_world.py"


def test_a_scan_counts_busy_vcpus_where_the_policy_limits_them() -> None:
    """5% of 192 vCPUs are under the limit in percent, and more than eight vCPUs."""
    world = ScannedWorld()
    world.metrics.quiet(changes={"CPUUtilization": 5.0})
    host = scanned_instance()
    limiting = Policy(vetoes=Vetoes(busy_vcpus=8.0))

    assert Finding.LIKELY_IDLE is world.row(host).judgment.finding
    row = world.row(host, policy=limiting)
    assert Finding.BUSY is row.judgment.finding
    assert "Busy vCPUs reached 9.6 within 24 h" in row.judgment.evidence


class PastWithVeto(Past):
    """A past in which one more metric has the same reading all the time."""

    metric: str
    reading: float

    def _series(self, query: MetricQuery, window: Window) -> Series | None:
        if query.metric == self.metric:
            return (self.reading,) * window.bins
        return super()._series(query, window)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SeriesStore]:
    """An empty one."""
    opened = SeriesStore(tmp_path / "series.sqlite", anywhere)
    yield opened
    opened.close()


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_back_test_knows_a_new_veto(
    veto: NewVeto, store: SeriesStore, *, is_reached: bool
) -> None:
    """It is fetched, shows as work in every bin, and nobody is asked."""
    instance = make_instance()
    past = PastWithVeto(
        {instance.instance_id: bins((BUSY, 30), (IDLE, 30), (BUSY, 36))},
        {instance.instance_id: aggregate(instance)},
    )
    past.metric = veto.metric
    past.reading = veto.reading if is_reached else 0.0
    fetch = make_fetch(past, store, instance)
    (recording,) = fetch.fetch(fetch.survey(TARGET, HOURS))
    active_bins = sum(recording.activity(Policy()))
    (result,) = run(recording, policy=by_window()).results

    assert (96 if is_reached else 66) * HOUR == active_bins
    assert is_reached == (not result.events)


def test_a_back_test_requires_a_new_veto_as_the_sweep_does(
    veto: NewVeto, store: SeriesStore
) -> None:
    """Where the policy requires the figure, a bin without it proves no idleness."""
    instance = make_instance()
    past = PastWithVeto(
        {instance.instance_id: bins((IDLE, 96))}, {instance.instance_id: aggregate(instance)}
    )
    past.metric = veto.metric
    past.reading = 0.0
    fetch = make_fetch(past, store, instance)
    (recording,) = fetch.fetch(fetch.survey(TARGET, HOURS))
    requiring = Policy(vetoes=Vetoes(required=("cpu", "added")))  # type: ignore[arg-type]
    key = next(key for key in recording.series if key[0] == veto.metric)
    measured = sum(recording.steady(requiring))
    for index in range(HOUR):
        recording.series[key][index] = float("nan")

    assert 96 * HOUR == measured
    assert 95 * HOUR == sum(recording.steady(requiring))


def test_the_doctor_knows_a_new_veto(veto: NewVeto) -> None:
    """It reads the figure of each instance, and says where a required one is missing."""
    ec2 = MemoryEc2()
    metrics = MemoryMetrics()
    instance = make_instance(tags={"Purpose": "GPU-Workload"})
    ec2.add(instance)
    own = {"InstanceId": instance.instance_id}
    for metric in ("nvidia_smi_utilization_gpu", "CPUUtilization", "NetworkIn", "NetworkOut"):
        metrics.publish(metric, own, [1.0] * 48)
    doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)

    assert veto.metric in {query.metric for query in metrics.reads}


def test_the_docs_know_a_new_veto(veto: NewVeto) -> None:
    """The generated reference lists the figure, its metrics and its limit."""
    page = reference(policy_schema())

    assert any(
        veto.row.words in line and veto.metric in line and veto.row.limit in line
        for line in page.splitlines()
    )


def test_the_docs_say_which_vetoes_a_back_test_cannot_replay() -> None:
    """Live they keep instances that a back-test stops."""
    page = (ROOT / "docs/simulate.md").read_text(encoding="utf-8")
    unreplayed = [row for figure, row in FIGURES.items() if not can_be_replayed(figure)]

    assert unreplayed
    for row in unreplayed:
        assert row.words in " ".join(page.split()), row.words


def test_each_row_has_a_field_of_the_evidence_and_a_limit_in_the_policy() -> None:
    """A figure that a policy may require is one whose series have known names. Another may veto
    without it: a new name in `required` needs a new number of the schema."""
    evidence_fields = {field.name for field in fields(Evidence)}
    for row in FIGURES.values():
        section, _, name = row.limit.partition(".")
        assert row.field in evidence_fields, f"add the field {row.field} to Evidence"
        assert hasattr(getattr(Policy(), section), name), f"add the setting {row.limit}"
    known = set(get_args(get_args(get_type_hints(Vetoes)["required"])[0]))

    assert known
    assert known <= {figure for figure in FIGURES if can_be_replayed(figure)}


OTHER_VETOES = {"session_younger_than_hours", "required"}
"""Settings of the section that are no limit of a figure."""


def test_each_limit_of_the_policy_is_that_of_a_figure() -> None:
    """A limit without a row would be accepted, and hold back nothing."""
    settings = {field.name for field in fields(Vetoes)} - OTHER_VETOES
    limits = {row.limit for row in FIGURES.values()}

    unused = {f"vetoes.{setting}" for setting in settings} - limits

    assert set() == unused, "give each of these limits a row in FIGURES"


FIRST_FIELDS = {
    *("window", "source", "gpus", "aggregate", "gpus_expected", "gpus_reporting"),
    *("memory_used_percent", "power_percent_of_limit", "cpu_percent", "network_bytes_per_second"),
    *("agentless_power_percent", "measured_percent", "read", "read_problem", "last_active"),
}
"""The fields of evidence that the first release has stored."""


def test_evidence_that_is_stored_keeps_its_hash() -> None:
    """An approval counts for the hash of the evidence: a field that is added is left out of it
    while it is empty."""
    evidence = Evidence(make_evidence((1.0,)).window, MetricSource.NONE)
    message = "an empty new field changes the hash of stored evidence: keep it out of the document"

    assert FIRST_FIELDS == set(evidence_document(evidence)), message


@pytest.mark.parametrize("figure", FIGURES)
def test_an_amount_has_its_unit(figure: str) -> None:
    """A percentage says so; no other amount does."""
    scale = FIGURES[figure].scale
    is_percentage = scale.value.startswith("%")
    message = f"give {scale} its own case in amount_text and factor_of"

    assert amount_text(figure, 50.0).endswith("%") is is_percentage, message
