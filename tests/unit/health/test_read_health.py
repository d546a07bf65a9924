"""Reading the state of GPUs: few reads where nothing is wrong, and nothing that a first look would
hide."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from governor.core.errors import Throttled
from governor.core.instance import Target
from governor.core.units import money
from governor.evidence.model import Series
from governor.evidence.ports import Listed, SeriesFilter
from governor.evidence.rules.series import window_before
from governor.health.model import FindingKind, GpuFigures
from governor.health.read_health import HealthRequest, ReadHealth
from governor.health.rules import health_findings
from governor.policy.document import parse_policy
from governor.policy.model.judging import Metrics, names_of_profile
from governor.policy.model.notices import HEAT_AVERAGE
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import ProfileName
from gpu_metrics_publisher import metrics as publisher
from tests.builders import NOW, TARGET, make_instance
from tests.properties import examples
from tests.twins import MemoryMetrics
from tests.unit.worlds.health_world import AGENT, BINS, HARDWARE, SOUND, HealthWorld, flat
from tests.unit.worlds.metric_layouts import CONTAINER_INSIGHTS, NEURON, Layout


@dataclass
class Asked(MemoryMetrics):
    """Keeps the names of the metrics that were listed."""

    listed: set[str | None] = field(default_factory=set)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """As the port says."""
        self.listed.add(wanted.metric)
        return super().list_series(target, wanted, instance_id)


BUSY = {"utilization": flat(95), "memory_utilization": flat(40)}


def kinds(world: HealthWorld, instance_id: str) -> list[FindingKind]:
    """Return what is found, the gravest first."""
    return [finding.kind for finding in world.read(instance_id).findings]


@pytest.mark.parametrize(("hardware", "reads"), [(False, 2), (True, 9)])
def test_a_sound_idle_machine_costs_its_aggregates_and_no_more(hardware: bool, reads: int) -> None:
    """However many GPUs it has: heat and work, and what only `agent/` publishes, once each."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=8, hardware=hardware)

    reading = world.read(instance_id)

    assert (reads, ()) == (len(world.metrics.reads), reading.findings)
    assert (True, hardware, False) == (
        reading.measured,
        reading.has_hardware_figures,
        reading.works,
    )


@pytest.mark.parametrize(
    ("row", "gpus", "load", "published"),
    [
        ("CloudWatch agent, 1 GPU or 8 idle GPUs", 1, BUSY, {"hardware": False}),
        ("CloudWatch agent, 1 GPU or 8 idle GPUs", 8, {}, {"hardware": False}),
        ("CloudWatch agent, 8 GPUs at work", 8, BUSY, {"hardware": False}),
        (
            "CloudWatch agent without metrics of the whole instance, 8 GPUs",
            8,
            BUSY,
            {"hardware": False, "aggregate": False},
        ),
        ("`agent/`, 1 GPU or 8 idle GPUs", 1, BUSY, {}),
        ("`agent/`, 1 GPU or 8 idle GPUs", 8, {}, {}),
        ("`agent/`, 8 GPUs at work", 8, BUSY, {}),
    ],
)
def test_a_look_costs_what_the_docs_say(
    request: pytest.FixtureRequest,
    row: str,
    gpus: int,
    load: dict[str, Series],
    published: dict[str, Any],
) -> None:
    """In reads, and in USD for a look every four hours and every hour of a month, at 0.01 USD per
    1,000."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=0)
    world.publish(instance_id, [load] * gpus, **published)
    world.read(instance_id, advice=False)
    reads = len(world.metrics.reads)

    text = (request.config.rootpath / "docs" / "health.md").read_text()
    rarely, hourly = (
        money(reads * looks * Decimal("0.00001"), 3) for looks in (Decimal("182.5"), 730)
    )
    assert f"| {row} | {reads} | ${rarely} | ${hourly} |" in text


def test_single_gpus_are_read_only_for_what_is_suspect() -> None:
    """One hot GPU of eight: eight temperatures, and nothing else, singly."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=8)
    world.publish(instance_id, [{}] * 5 + [{"temperature_celsius": flat(90)}] + [{}] * 2)

    (finding,) = world.read(instance_id).findings

    assert (FindingKind.HOT, ("5",)) == (finding.kind, finding.gpus)
    singly = [query for query in world.metrics.reads if dict(query.dimensions).get("index")]
    assert [AGENT["temperature_celsius"]] * 8 == [query.metric for query in singly]
    assert {"Average"} == {query.statistic for query in singly}


def test_a_machine_that_works_is_read_gpu_by_gpu_and_its_memory_traffic_for_advice_alone() -> None:
    """A straggler is a fault, what holds back all is advice."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=4)
    world.publish(instance_id, [BUSY] * 3 + [{**BUSY, "utilization": flat(60)}])

    assert [FindingKind.STRAGGLER] == [
        f.kind for f in world.read(instance_id, advice=False).findings
    ]
    assert AGENT["memory_utilization"] not in [query.metric for query in world.metrics.reads]
    assert [FindingKind.STRAGGLER, FindingKind.BOTTLENECK] == kinds(world, instance_id)


def test_xids_are_told_by_number_and_found_without_a_listing_of_them() -> None:
    """A new series may be listed a quarter of an hour late; its dimensions are known before."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=2)
    seldom = (*flat(0)[:-2], 1.0, 0.0)
    world.publish(instance_id, [{}, {"xids": seldom}])
    world.xid(instance_id, 1, 48, seldom)

    (finding,) = world.read(instance_id).findings

    assert (FindingKind.MEMORY_ERROR, ("1",), "Xid 48 once") == (
        finding.kind,
        finding.gpus,
        finding.seen,
    )


def test_what_is_no_reading_does_not_date_an_xid() -> None:
    """Some publishers write -1 where they know nothing: the error began with its first count."""
    world = HealthWorld()
    instance_id = world.add(1)
    counts = (-1.0, *flat(0)[1:-2], 2.0, 0.0)
    world.publish(instance_id, [{"xids": counts}])
    world.xid(instance_id, 0, 48, counts)
    policy = world.policy.health
    window = window_before(NOW, policy.window, HEAT_AVERAGE, world.policy.lag)

    (finding,) = world.read(instance_id).findings

    assert ("Xid 48 2 times", window.end - 2 * window.period) == (finding.seen, finding.since)


def test_an_xid_of_a_program_is_no_finding() -> None:
    """Xid 13 and its like are mistakes of what runs there."""
    world = HealthWorld()
    instance_id = world.add(1)
    world.publish(instance_id, [{"xids": flat(1)}])
    world.xid(instance_id, 0, 13, flat(1))

    assert [] == kinds(world, instance_id)


def test_a_lost_gpu_is_found_although_it_publishes_nothing_else() -> None:
    """`agent/` tells it by 1 without other figures."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=2)
    gone = dict.fromkeys([*AGENT, *HARDWARE], (None,) * BINS)
    world.metrics.published.clear()
    world.publish(instance_id, [{}, {**gone, "lost": flat(1)}])

    (finding,) = world.read(instance_id).findings

    assert (FindingKind.LOST, ("1",)) == (finding.kind, finding.gpus)


@pytest.mark.parametrize("published", [{"aggregate": False}, {"singly": False}])
def test_one_form_of_the_series_suffices(published: dict[str, Any]) -> None:
    """GPUs without the aggregate, or the aggregate alone."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=2, **published)
    world.publish(instance_id, [{"temperature_celsius": flat(90)}] * 2, **published)

    hot = [
        finding for finding in world.read(instance_id).findings if finding.kind is FindingKind.HOT
    ]

    assert {"0", "1"} == {gpu for finding in hot for gpu in finding.gpus} or ("all",) == hot[0].gpus


def test_without_a_temperature_utilization_shows_the_way() -> None:
    """An agent that was told to publish less."""
    world = HealthWorld()
    instance_id = world.add(1)
    world.publish(instance_id, [{**BUSY, "utilization": flat(30)}])
    for key in [key for key in world.metrics.published if key[0] == AGENT["temperature_celsius"]]:
        del world.metrics.published[key]

    assert [FindingKind.UNDER_USED, FindingKind.BOTTLENECK] == kinds(world, instance_id)


def test_what_could_not_be_read_is_a_problem_and_no_health() -> None:
    """The other readings still count."""
    world = HealthWorld()
    instance_id = world.add(1)
    world.publish(instance_id, [{"temperature_celsius": flat(90)}])
    world.metrics.broken[HARDWARE["lost"]] = "Throttling"

    reading = world.read(instance_id)

    assert [FindingKind.HOT] == [finding.kind for finding in reading.findings]
    assert "GPULost: Throttling" == reading.problem


def test_a_listing_that_fails_is_raised() -> None:
    """Nothing is known of any instance then."""
    world = HealthWorld()
    instance_id = world.add(1)
    world.metrics.list_failure = Throttled("later")

    with pytest.raises(Throttled):
        world.read(instance_id)


@pytest.mark.parametrize("hardware", [True, False])
def test_series_that_are_listed_and_hold_no_reading_measure_nothing(hardware: bool) -> None:
    """A series is listed for three hours after its last reading; the window is shorter."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=2, hardware=hardware)
    for series in (world.metrics.published, world.metrics.statistics):
        for key in series:
            series[key] = (None,) * BINS  # type: ignore[index]

    reading = world.read(instance_id)
    assert (False, False) == (reading.measured, reading.has_hardware_figures)


def test_a_silent_machine_is_not_measured() -> None:
    """That is told by the sweep; here it neither proves nor clears anything."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=0)

    reading = world.read(instance_id)

    assert (False, ()) == (reading.measured, reading.findings)


def test_the_names_are_those_that_are_published() -> None:
    """By the publisher's own table, and by the agent's names that it shares."""
    custom = {
        metric.name
        for metric in publisher.METRICS
        if metric.namespace == publisher.CUSTOM_NAMESPACE
    }
    names, world = Metrics(), HealthWorld()
    world.read(world.add(1, gpus=8))
    read = {one.metric for one in world.metrics.reads if one.namespace == names.hardware_namespace}

    assert (7, True) == (len(read), read <= {*custom, publisher.XID_METRIC})
    assert publisher.CUSTOM_NAMESPACE == names.hardware_namespace
    shared = {
        metric.name for metric in publisher.METRICS if metric.namespace == publisher.AGENT_NAMESPACE
    }
    assert {names.temperature, names.memory_utilization, names.utilization} <= shared


@pytest.mark.parametrize(("percent", "told"), [(11, True), (9, False)])
def test_a_gpu_that_was_measured_for_a_part_of_the_window_is_not_hidden_by_its_peers(
    percent: float, told: bool
) -> None:
    """15 periods of 18 are enough to believe a mean; in the aggregate the others make it look
    smaller."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=0)
    throttled = (*flat(percent)[:15], None, None, None)
    world.publish(instance_id, [{}, {"thermal_throttle": throttled}])

    found = world.read(instance_id).findings
    assert told == (FindingKind.THROTTLED in [finding.kind for finding in found])


def percents(most: float) -> st.SearchStrategy[Series]:
    """Readings with holes, often at the ends of the scale."""
    reading = st.one_of(st.none(), st.sampled_from([0.0, 8.0, 12.0, most]), st.floats(0, most))
    return st.lists(reading, min_size=BINS, max_size=BINS).map(tuple)


def listed(most: float) -> st.SearchStrategy[Series]:
    """With a reading at least: the agent publishes the temperature of every GPU and `agent/`
    whether it is lost, so that by these two all GPUs are found."""
    return percents(most).filter(lambda series: any(value is not None for value in series))


FIGURES = st.fixed_dictionaries(
    {
        "temperature_celsius": listed(100),
        "utilization": st.one_of(percents(100), st.floats(0, 100).map(flat)),
        "memory_utilization": percents(100),
        "thermal_throttle": percents(100),
        "hardware_slowdown": st.one_of(percents(100), st.floats(0, 30).map(flat)),
        "lost": listed(1),
        "ecc_uncorrected": percents(3),
        "repair_pending": percents(1),
        "repair_failed": percents(1),
    }
)


LONELY = {
    **SOUND,
    "utilization": flat(14),
    "memory_utilization": flat(5),
    "thermal_throttle": flat(12),
}


@settings(max_examples=examples(15, 500), deadline=None)
@example([{name: flat(0) for name in SOUND}] * 3 + [LONELY])
@given(st.lists(FIGURES, min_size=1, max_size=4))
def test_the_first_look_hides_nothing_that_the_gpus_would_show(
    gpus: list[dict[str, Series]],
) -> None:
    """Aggregates first, or every series of every GPU: the same findings."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=0)
    world.publish(instance_id, gpus)
    rule = world.policy.health
    window = window_before(NOW, rule.window, HEAT_AVERAGE, world.policy.lag)

    figures: list[dict[str, Any]] = [
        {name: series for name, series in gpu.items() if name != "xids"} for gpu in gpus
    ]
    whole = health_findings(
        window, [GpuFigures(str(i), **gpu) for i, gpu in enumerate(figures)], rule
    )

    assert whole == world.read(instance_id).findings


@pytest.mark.parametrize(
    ("layout", "profile"),
    [(NEURON, ProfileName.NEURON), (CONTAINER_INSIGHTS, ProfileName.CONTAINER_INSIGHTS)],
)
def test_metrics_that_a_publisher_lacks_are_neither_listed_nor_read(
    layout: Layout, profile: ProfileName
) -> None:
    """CloudWatch refuses a metric without a name, and with it the whole call."""
    metrics = Asked()
    own_id = "i-00000000000000001"
    layout.publish(metrics, own_id, [90.0] * layout.parts)
    names = Metrics(**names_of_profile(profile), profile=profile)  # type: ignore[arg-type]
    instance = make_instance(instance_id=own_id, instance_type=layout.instance_type)
    request = HealthRequest(instance, Policy(metrics=names), advice=True)

    reading = ReadHealth(metrics)(TARGET, [request], NOW)[own_id]

    assert (True, True) == (reading.measured, reading.works)
    assert "" not in {query.metric for query in metrics.reads} | metrics.listed


@pytest.mark.parametrize(
    "settings",
    [
        "profile: dcgm, namespace: Ours, utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "profile: custom, namespace: Ours, utilization: ours, utilization_scale: share",
    ],
)
def test_a_share_of_0_to_1_is_read_in_percent(settings: str) -> None:
    """One of eight GPUs lags behind. As percent, 0.9 would be no work, and no advice be given."""
    metrics = MemoryMetrics()
    own_id = "i-00000000000000001"
    policy = parse_policy(f"metrics: {{{settings}}}").base().policy
    for gpu in range(8):
        dimensions = {"InstanceId": own_id, "gpu": str(gpu)}
        share = 0.3 if gpu == 5 else 0.9
        metrics.publish(policy.metrics.utilization, dimensions, [share] * 96)
    instance = make_instance(instance_id=own_id, instance_type="p5.48xlarge")

    request = HealthRequest(instance, policy)

    reading = ReadHealth(metrics)(TARGET, [request], NOW)[own_id]
    assert reading.works
    found = [(finding.kind, finding.gpus) for finding in reading.findings]
    assert [(FindingKind.STRAGGLER, ("5",))] == found


def test_devices_of_a_dimension_of_our_own_are_told_apart() -> None:
    """One of two slots is hot: the finding names it, though both series have the same `index`."""
    metrics = MemoryMetrics()
    own_id = "i-00000000000000001"
    for slot, celsius in (("a", 40.0), ("b", 99.0)):
        dimensions = {"InstanceId": own_id, "Slot": slot, "index": "0"}
        metrics.publish("heat", dimensions, [celsius] * BINS)
        metrics.publish("ours", dimensions, [0.0] * BINS)
    policy = (
        parse_policy(
            "metrics: {profile: custom, namespace: Ours, utilization: ours, temperature: heat, "
            "device_dimension: Slot}"
        )
        .base()
        .policy
    )
    instance = make_instance(instance_id=own_id, instance_type="g5.12xlarge")
    request = HealthRequest(instance, policy)

    reading = ReadHealth(metrics)(TARGET, [request], NOW)[own_id]
    assert [(FindingKind.HOT, ("b",))] == [(one.kind, one.gpus) for one in reading.findings]


@pytest.mark.parametrize(
    ("indexes", "lost"),
    [
        (("0", "1"), "slot-1"),
        # This `index` means something else: it distinguishes no devices.
        (("0", "0"), "1"),
    ],
)
def test_hardware_figures_have_the_device_of_their_index(
    indexes: tuple[str, str], lost: str
) -> None:
    """`agent/` publishes them without the policy's own dimension. They are of one GPU each, under
    the name by which its other figures are known, if a series has both."""
    metrics = MemoryMetrics()
    own_id = "i-00000000000000001"
    for slot, index in enumerate(indexes):
        dimensions = {"InstanceId": own_id, "Slot": f"slot-{slot}", "index": index}
        metrics.publish("heat", dimensions, [99.0] * BINS)
        metrics.publish("ours", dimensions, [0.0] * BINS)
        hardware = {"InstanceId": own_id, "index": str(slot)}
        metrics.publish("GPULost", hardware, [float(slot)] * BINS)
    policy = parse_policy(
        "metrics: {profile: custom, namespace: Ours, utilization: ours, temperature: heat, "
        "device_dimension: Slot}"
    )
    instance = make_instance(instance_id=own_id, instance_type="g5.12xlarge")
    request = HealthRequest(instance, policy.base().policy)

    reading = ReadHealth(metrics)(TARGET, [request], NOW)[own_id]
    assert [
        (FindingKind.LOST, (lost,)),
        (FindingKind.HOT, ("slot-0",)),
        (FindingKind.HOT, ("slot-1",)),
    ] == [(finding.kind, finding.gpus) for finding in reading.findings]
