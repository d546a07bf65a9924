"""A small number is not believed alone: power contradicts it, or confirms it, or its absence is
said.

From CloudWatch's readings to the verdict, as a sweep reads and judges them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from governor.core.catalog import accelerated_types, shape_of
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules.figures import (
    FIGURES,
    implausible_percent,
    implausible_power_watts,
    implausible_reading,
    metrics_of,
)
from governor.policy.document import parse_policy
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.judging import IdleRule, Metrics, SecondFigure, Vetoes
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import NO_HOLD, Verdict, VerdictKind
from governor.verdict.rules.judge import is_candidate, judge
from governor.verdict.rules.judging import Memory, Subject, wanted_figures
from governor.verdict.rules.second_figure import has_power_limit
from tests.builders import NOW, POLICY, TARGET, make_evidence, make_instance
from tests.twins import MemoryMetrics

UTILIZATION = "nvidia_smi_utilization_gpu"
POWER = "nvidia_smi_power_draw"
SHARE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
OWN = "i-0123456789abcdef0"
BINS = 48
"""Four hours in bins of five minutes: more than a question needs."""
REQUIRED = Policy(idle=IdleRule(second_figure=SecondFigure.REQUIRED))
AUTO = Policy(mode=Mode.AUTO, plan=PlanRule(local_disks_may_be_lost_unasked=True))
"""Otherwise mode auto asks about these types, which have local disks."""
SILENCE_ACTS = Policy(mode=Mode.ASK, approval=ApprovalRule(on_expiry="act"))
ASK = Policy(mode=Mode.ASK)


class Series(NamedTuple):
    """A series of an instance: one value for all of the time, or a list that ends now."""

    metric: str
    values: float | Sequence[float | None]
    dimensions: Mapping[str, str] = MappingProxyType({})
    statistic: str = ""
    namespace: str = ""


def published(*series: Series, cpu: float = 1.0, bytes_per_second: float = 2000.0) -> MemoryMetrics:
    """CloudWatch with these series, and with EC2's own CPU and network."""
    metrics = MemoryMetrics()
    ec2 = {
        "CPUUtilization": cpu,
        "NetworkIn": bytes_per_second * 150,
        "NetworkOut": bytes_per_second * 150,
    }
    for one in (*series, *(Series(name, value) for name, value in ec2.items())):
        values = one.values
        if isinstance(values, int | float):
            values = [values] * BINS
        dimensions = {"InstanceId": OWN, **one.dimensions}
        metrics.publish(one.metric, dimensions, values, one.statistic, one.namespace)
    return metrics


def read(
    metrics: MemoryMetrics, policy: Policy, instance_type: str, *, ask: bool = False
) -> Evidence:
    """The evidence that a decision reads, over the idle window or over that of a question."""
    request = EvidenceRequest(
        instance=make_instance(instance_id=OWN, instance_type=instance_type),
        policy=policy,
        figures=wanted_figures(policy),
        length=policy.ask_window if ask else None,
    )
    return GatherEvidence(metrics)(TARGET, [request], NOW)[OWN].evidence


def verdict_of(
    metrics: MemoryMetrics, policy: Policy = POLICY, instance_type: str = "g5.xlarge"
) -> Verdict:
    """The verdict of a sweep."""
    instance = make_instance(instance_id=OWN, instance_type=instance_type)
    evidence = read(metrics, policy, instance_type)
    return judge(instance, NO_HOLD, evidence, policy, NOW)


def question_of(
    metrics: MemoryMetrics, policy: Policy, instance_type: str = "g5.xlarge"
) -> Verdict:
    """The verdict on which a question, or an action without one, rests."""
    instance = make_instance(instance_id=OWN, instance_type=instance_type)
    evidence = read(metrics, policy, instance_type, ask=True)
    return Subject(instance, policy, NOW).judge_question(evidence, policy.ask_window)


def kind(verdict: Verdict) -> str:
    """The stored name of its kind."""
    return verdict.kind.value


# Power contradicts a small utilization, however it came to be small.


@pytest.mark.parametrize(("watts", "expected"), [(119.9, "idle"), (120.0, "busy"), (250.0, "busy")])
@pytest.mark.parametrize("utilization", [0.0, 1.0, 4.9])
def test_power_contradicts_a_low_utilization_from_its_limit_on(
    utilization: float, watts: float, expected: str
) -> None:
    """40% of the 300 W of an A10G: zeros of a GPU in MIG mode, a profiler that is frozen."""
    metrics = published(Series(UTILIZATION, utilization), Series(POWER, watts))

    assert expected == kind(verdict_of(metrics))


def test_only_the_figure_of_power_is_shown_by_the_power_beside_utilization() -> None:
    """Watts are no memory. A profile without a name for a figure has no metric of it."""
    names = Metrics(utilization="DCGM_FI_DEV_GPU_UTIL", encoder_sessions="")

    assert ("nvidia_smi_power_draw", "DCGM_FI_DEV_POWER_USAGE") == metrics_of("power", names)
    assert ("nvidia_smi_memory_used",) == metrics_of("memory", names)
    assert () == metrics_of("encoder-sessions", names)


@pytest.mark.parametrize(
    ("instance_type", "watts", "percent"),
    [("g4dn.xlarge", 2.0, 2.857), ("g5.xlarge", 3.0, 1.0), ("p99.new", 2.0, 1.0)],
)
def test_power_counts_from_the_least_that_a_gpu_draws(
    instance_type: str, watts: float, percent: float
) -> None:
    """1% of the limit, and at least 2 W: zeros, kilowatts and shares are below. EC2's own figure
    may be low, but not 0."""
    shape = shape_of(instance_type)

    assert watts == implausible_power_watts(shape) == implausible_reading("power", shape)
    assert percent == pytest.approx(implausible_percent("power", shape), abs=0.001)
    assert 0.0 == implausible_percent("agentless", shape) == implausible_reading("agentless", shape)


@pytest.mark.parametrize(
    ("utilization", "power"),
    [
        (SHARE, "DCGM_FI_DEV_POWER_USAGE"),
        ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"),
        ("node_gpu_utilization", "node_gpu_power_draw"),
        ("GPUUtilization", "GPUPowerDraw"),
    ],
)
def test_the_power_beside_a_known_utilization_is_read(utilization: str, power: str) -> None:
    """A policy that names only the utilization of another publisher has its power read, too."""
    policy = Policy(metrics=Metrics(utilization=utilization))
    metrics = published(Series(utilization, 0.0), Series(power, 250.0))
    named = replace(policy, metrics=replace(policy.metrics, power_draw="our_own_power"))

    assert "busy" == kind(verdict_of(metrics, policy))
    assert power not in {query.metric for query in _reads(metrics, named)}


def _reads(metrics: MemoryMetrics, policy: Policy) -> list[Any]:
    metrics.reads.clear()
    verdict_of(metrics, policy)
    return metrics.reads


@pytest.mark.parametrize(
    "dimensions",
    [
        {"index": "0"},
        {"index": "0", "name": "H100", "host": "a"},
        {"gpu": "0", "UUID": "GPU-1"},
        {"UUID": "GPU-1"},
        {"GpuDevice": "nvidia0"},
        {"host": "a"},
    ],
)
@pytest.mark.parametrize(("watts", "expected"), [(279.0, "idle"), (280.0, "busy")])
def test_one_gpu_is_matched_under_any_dimensions(
    dimensions: dict[str, str], watts: float, expected: str
) -> None:
    """With one GPU every set is about it: 280 of 700 W are the limit."""
    metrics = published(
        Series(UTILIZATION, 1.0, {"index": "0", "name": "H100"}), Series(POWER, watts, dimensions)
    )
    verdict = verdict_of(metrics, REQUIRED, "p5.4xlarge")

    assert expected == kind(verdict)


def several(
    utilization: Sequence[dict[str, str]], power: Sequence[dict[str, str]], *watts: float
) -> MemoryMetrics:
    """Four quiet GPUs under these dimensions, and the power of these."""
    series = [Series(UTILIZATION, 1.0, one) for one in utilization]
    for one, draw in zip(power, watts, strict=True):
        series.append(Series(POWER, draw, one))
    return published(*series)


INDEX_AND_NAME = [{"index": str(gpu), "name": "A10G"} for gpu in range(4)]
INDEX_AND_UUID = [{"index": str(gpu), "UUID": f"GPU-{gpu}"} for gpu in range(4)]
INDEX = [{"index": str(gpu)} for gpu in range(4)]
UUID = [{"UUID": f"GPU-{gpu}"} for gpu in range(4)]


@pytest.mark.parametrize(
    ("utilization", "power"),
    [
        (INDEX_AND_NAME, INDEX),
        (INDEX, INDEX_AND_NAME),
        (INDEX_AND_UUID, UUID),
        (UUID, INDEX_AND_UUID),
        (INDEX_AND_NAME, UUID),
    ],
)
def test_figures_are_matched_by_gpu(
    utilization: Sequence[dict[str, str]], power: Sequence[dict[str, str]]
) -> None:
    """By index or UUID, whatever else the dimensions hold. All four confirm, one contradicts."""
    quiet = several(utilization, power, 30.0, 30.0, 30.0, 30.0)
    one_works = several(utilization, power, 30.0, 30.0, 30.0, 120.0)

    assert "idle" == kind(verdict_of(quiet, REQUIRED, "g5.12xlarge"))
    assert "busy" == kind(verdict_of(one_works, REQUIRED, "g5.12xlarge"))


@pytest.mark.parametrize("missing", range(4))
def test_the_power_of_every_gpu_is_needed(missing: int) -> None:
    """Three of four confirm nothing, and still contradict."""
    gpus = INDEX[:missing] + INDEX[missing + 1 :]
    quiet = several(INDEX_AND_NAME, gpus, 30.0, 30.0, 30.0)
    one_works = several(INDEX_AND_NAME, gpus, 30.0, 120.0, 30.0)

    assert "no-data" == kind(verdict_of(quiet, REQUIRED, "g5.12xlarge"))
    assert "idle" == kind(verdict_of(quiet, ASK, "g5.12xlarge"))
    assert "busy" == kind(verdict_of(one_works, REQUIRED, "g5.12xlarge"))


def test_container_insights_is_read_gpu_by_gpu() -> None:
    """`GpuDevice` names a GPU. The sum of a node counts as one sample, which hides no GPU."""
    names = Metrics(namespace="ContainerInsights", utilization="node_gpu_utilization")
    node = {"ClusterName": "c", "NodeName": "n"}
    sets = [node, *({**node, "GpuDevice": f"nvidia{gpu}"} for gpu in range(4))]
    series = []
    for dimensions in sets:
        series.append(Series(names.utilization, 0.0, dimensions))
        series.append(Series(names.utilization, 5.0, dimensions, "SampleCount"))
    policy = Policy(metrics=names)

    assert "idle" == kind(verdict_of(published(*series), policy, "g5.12xlarge"))
    without_one = published(*series[:-2])
    assert "no-data" == kind(verdict_of(without_one, policy, "g5.12xlarge"))


# A metric in shares from 0 to 1 is not taken for percent.


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (0.98, "no-data"),
        (0.05, "no-data"),
        (0.049, "idle"),
        (0.0, "idle"),
        (1.0, "no-data"),
        ([1.0] * 6 + [0.0] * 6, "no-data"),
        ([1.0] * 5 + [0.0] * 7, "idle"),
        (1.5, "no-data"),
        (2.0, "idle"),
        ([1.0] * 11 + [1.5], "no-data"),
        ([1.0] * 11 + [2.0], "idle"),
        ([0.0] * 11 + [0.4], "no-data"),
        ([0.0] * 10 + [0.4, 1.5], "no-data"),
        ([0.0] * 10 + [0.4, 2.0], "idle"),
        ([1.0] * 11 + [0.98], "no-data"),
        (98.0, "busy"),
    ],
)
def test_a_metric_that_never_reaches_2_may_be_a_share(values: Any, expected: str) -> None:
    """Where it would be work as a share, and is none as percent. Low power does not settle it: it
    stays unknown with 30 W of 300, and is busy with 150."""
    alone = published(Series("our_gpu", values))
    low = published(Series("our_gpu", values), Series(POWER, 30.0))
    high = published(Series("our_gpu", values), Series(POWER, 150.0))
    policy = Policy(metrics=Metrics(utilization="our_gpu"))
    verdict = verdict_of(alone, policy)

    assert expected == kind(verdict)
    assert (expected == "no-data") is ("may be a share from 0 to 1" in verdict.reason)
    assert expected == kind(verdict_of(low, policy))
    assert "busy" == kind(verdict_of(high, policy))


@pytest.mark.parametrize(
    ("metric", "value", "watts", "expected"),
    [
        (SHARE, 0.98, None, "no-data"),
        (SHARE, 1.0, None, "no-data"),
        (SHARE, 0.0, None, "no-data"),
        ("gpu_busy_ratio", 1.0, None, "no-data"),
        (SHARE, 0.98, 30.0, "no-data"),
        (SHARE, 0.05, 30.0, "no-data"),
        (SHARE, 0.049, 30.0, "idle"),
        (SHARE, 0.0, 30.0, "idle"),
        (SHARE, 0.0, 150.0, "busy"),
        (SHARE, 4.0, None, "idle"),
        (SHARE, 98.0, None, "busy"),
    ],
)
def test_a_metric_that_is_a_share_by_its_name_needs_power(
    metric: str, value: float, watts: float | None, expected: str
) -> None:
    """Its 1 is 100%, and DCGM's profiler may be frozen at 0. Above 1, somebody publishes percent
    under that name."""
    series = [Series(metric, value)]
    if watts is not None:
        series.append(Series(POWER, watts))
    policy = Policy(metrics=Metrics(utilization=metric))

    assert expected == kind(verdict_of(published(*series), policy))


# Work that no GPU utilization shows.


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("nvidia_smi_utilization_encoder", 0.0, "idle"),
        ("nvidia_smi_utilization_encoder", 1.0, "busy"),
        ("nvidia_smi_utilization_decoder", 0.9, "idle"),
        ("nvidia_smi_utilization_decoder", 1.0, "busy"),
        ("nvidia_smi_encoder_stats_session_count", 0.0, "idle"),
        ("nvidia_smi_encoder_stats_session_count", 8.0, "busy"),
        ("nvidia_smi_encoder_stats_average_fps", 0.0, "idle"),
        ("nvidia_smi_encoder_stats_average_fps", 30.0, "busy"),
    ],
)
def test_encoding_and_decoding_are_work(metric: str, value: float, expected: str) -> None:
    """A GPU that only encodes is at 1%, and draws little."""
    one_bin = [0.0] * 6 + [value] + [0.0] * 5
    off = Policy(
        vetoes=Vetoes(video_percent=None, encoder_sessions=None, encoded_frames_per_second=None)
    )
    for values in (value, one_bin):
        metrics = published(
            Series(UTILIZATION, 1.0),
            Series(POWER, 27.5),
            Series(metric, values),
            cpu=15.0,
            bytes_per_second=400_000,
        )
        assert expected == kind(verdict_of(metrics, instance_type="g4dn.xlarge"))
        assert "idle" == kind(verdict_of(metrics, off, "g4dn.xlarge"))


VIDEO = [
    ("nvidia_smi_utilization_encoder", 1.0, 0.9),
    ("nvidia_smi_utilization_decoder", 1.0, 0.9),
    ("nvidia_smi_encoder_stats_session_count", 1.0, 0.0),
    ("nvidia_smi_encoder_stats_average_fps", 1.0, 0.9),
    ("nvidia_smi_memory_used", 2288.8, 2288.0),
]
"""Each figure of the agent with a limit: a reading that reaches it, and one just below. 10% of the
memory of an A10G are 2288.8 MiB."""
WITH_MEMORY = Policy(vetoes=Vetoes(memory_used_percent=10.0))
ONE_GPU = {"index": "0", "name": "A10G"}


@pytest.mark.parametrize(
    "dimensions",
    [{}, {"index": "0"}, {**ONE_GPU, "host": "a"}, {"gpu": "0"}, {"UUID": "GPU-1"}, ONE_GPU],
)
@pytest.mark.parametrize(("metric", "reached", "below"), VIDEO)
@pytest.mark.parametrize("policy", [WITH_MEMORY, replace(AUTO, vetoes=WITH_MEMORY.vetoes)])
def test_work_of_one_gpu_is_seen_under_any_dimensions(
    policy: Policy, metric: str, reached: float, below: float, dimensions: dict[str, str]
) -> None:
    """Other publishers and versions of the agent add or leave out dimensions."""
    quiet = [Series(UTILIZATION, 1.0, ONE_GPU), Series(POWER, 30.0, ONE_GPU)]
    one_bin = [below] * 6 + [reached] + [below] * 5
    at_work = published(*quiet, Series(metric, one_bin, dimensions))
    at_rest = published(*quiet, Series(metric, below, dimensions))

    assert "busy" == kind(verdict_of(at_work, policy))
    assert "busy" == kind(question_of(at_work, policy))
    assert "idle" == kind(verdict_of(at_rest, policy))
    assert "idle" == kind(question_of(at_rest, policy))


@pytest.mark.parametrize("gpu", range(4))
@pytest.mark.parametrize(("metric", "reached", "below"), VIDEO)
def test_work_of_one_of_several_gpus_is_seen_under_any_dimensions(
    metric: str, reached: float, below: float, gpu: int
) -> None:
    """Also where the others publish the figure under the dimensions of utilization."""
    quiet = [Series(UTILIZATION, 1.0, one) for one in INDEX_AND_NAME]
    quiet += [Series(POWER, 30.0, one) for one in INDEX_AND_NAME]
    others = [
        Series(metric, below, one) for index, one in enumerate(INDEX_AND_NAME) if index != gpu
    ]
    alone = published(*quiet, Series(metric, reached, INDEX[gpu]))
    among_others = published(*quiet, *others, Series(metric, reached, UUID[gpu]))

    for metrics in (alone, among_others):
        assert "busy" == kind(verdict_of(metrics, WITH_MEMORY, "g5.12xlarge"))
        assert "busy" == kind(question_of(metrics, WITH_MEMORY, "g5.12xlarge"))


@pytest.mark.parametrize(("metric", "reached", "below"), VIDEO[:4])
def test_work_of_the_whole_instance_is_seen_beside_quiet_gpus(
    metric: str, reached: float, below: float
) -> None:
    """Where the GPUs publish the figure one by one, too."""
    series = [Series(POWER, 30.0, one) for one in INDEX]
    series += [Series(UTILIZATION, 1.0, one) for one in INDEX]
    series += [Series(metric, below, one) for one in INDEX]
    metrics = published(*series, Series(metric, reached))

    assert "busy" == kind(verdict_of(metrics, ASK, "g5.12xlarge"))


@pytest.mark.parametrize(("count", "lists"), [(1, 1), (5, 5), (6, 5)])
def test_missing_figures_take_one_listing_for_each_of_a_few_instances(
    count: int, lists: int
) -> None:
    """From six on, one pass for each of power and the four figures of video, shared by all."""
    metrics = MemoryMetrics()
    requests = []
    for number in range(count):
        instance = make_instance(instance_id=f"i-{number:017x}")
        dimensions = {"InstanceId": instance.instance_id}
        for metric in (UTILIZATION, "CPUUtilization", "NetworkIn", "NetworkOut"):
            metrics.publish(metric, dimensions, [1.0] * BINS)
        figures = wanted_figures(ASK)
        request = EvidenceRequest(
            instance=instance, policy=ASK, figures=figures, only_if=is_candidate
        )
        requests.append(request)
    GatherEvidence(metrics)(TARGET, requests, NOW)

    assert lists == metrics.lists


@pytest.mark.parametrize(
    ("limit", "cpu", "expected"),
    [
        (None, 8.0, "idle"),
        (15.0, 8.0, "busy"),
        (15.36, 8.0, "busy"),
        (15.37, 8.0, "idle"),
        (100.0, 29.9, "idle"),
    ],
)
def test_a_cpu_limit_can_be_given_in_vcpus(limit: float | None, cpu: float, expected: str) -> None:
    """8% of 192 vCPUs are 15.36 busy ones."""
    gpus = [Series(UTILIZATION, 1.0, {"index": str(gpu)}) for gpu in range(8)]
    metrics = published(*gpus, cpu=cpu)
    policy = Policy(vetoes=Vetoes(busy_vcpus=limit))
    verdict = verdict_of(metrics, policy, "g5.48xlarge")
    cpu_queries = [query for query in metrics.reads if query.metric == "CPUUtilization"]

    assert expected == kind(verdict)
    assert 1 == len(cpu_queries)
    if expected == "busy":
        assert "busy vCPUs reached 15.4" in verdict.reason


# Where power is not measured.

UNMEASURED = published(Series(UTILIZATION, 1.0))
MEASURED = published(Series(UTILIZATION, 1.0), Series(POWER, 30.0))
BY_EC2 = published(Series(UTILIZATION, 1.0), Series("GPUPowerUtilization", 10.0, {"GpuId": "0"}))


@pytest.mark.parametrize("metrics", [MEASURED, BY_EC2], ids=["the agent", "EC2"])
@pytest.mark.parametrize("policy", [ASK, AUTO, SILENCE_ACTS, REQUIRED])
def test_power_of_the_agent_or_of_ec2_confirms(metrics: MemoryMetrics, policy: Policy) -> None:
    """Either of them is a second figure of the GPU's side."""
    assert ("idle", ()) == (kind(verdict_of(metrics, policy)), verdict_of(metrics, policy).advice)
    assert "idle" == kind(question_of(metrics, policy))


def test_ask_goes_on_without_power_and_says_so() -> None:
    """Nobody's fleet is switched off; the hint stays while people know of the idleness."""
    verdict = verdict_of(UNMEASURED, ASK)
    question = question_of(UNMEASURED, ASK)
    hint = "power: not measured. Only GPU utilization says that it is idle"
    known = Memory(NOW, VerdictKind.IDLE, advice=verdict.advice)
    instance = make_instance(instance_id=OWN)
    again = Subject(instance, ASK, NOW, memory=known, people_know=True)
    by_utilization = replace(read(UNMEASURED, ASK, "g5.xlarge"), read=frozenset())
    later = again.after_reading(by_utilization)

    assert ("idle", (hint,)) == (kind(verdict), verdict.advice)
    assert "Idle for 1 h (every GPU under 5%; power: not measured)." == verdict.reason
    assert "idle" == kind(question)
    assert "Idle for 3 h (every GPU under 5%; power: not measured)." == question.reason
    assert (hint,) == later.advice


def test_nothing_is_done_unasked_without_power() -> None:
    """It is still marked as idle, and no sweep stops it."""
    question = question_of(UNMEASURED, AUTO)
    assert "idle" == kind(verdict_of(UNMEASURED, AUTO))
    assert "no-data" == kind(question)
    assert "power: not measured, and mode: auto does not act on utilization alone" == (
        question.reason
    )


@pytest.mark.parametrize(
    ("policy", "setting"), [(AUTO, "mode: auto"), (SILENCE_ACTS, "approval.on_expiry: act")]
)
def test_a_fleet_that_acts_unasked_says_that_it_does_not_without_power(
    policy: Policy, setting: str
) -> None:
    """No fleet is switched off silently by an update."""
    [hint] = verdict_of(UNMEASURED, policy).advice
    assert f"power: not measured, and {setting} does not act on utilization alone" == hint


def test_where_silence_acts_people_are_asked_without_power() -> None:
    """Their silence is no answer then; `remediation` sees to that."""
    question = question_of(UNMEASURED, SILENCE_ACTS)
    assert "idle" == kind(question)
    assert "power: not measured" in question.reason


def test_a_policy_may_require_power_always() -> None:
    """Then nothing is idle without it, in any mode."""
    for verdict in (verdict_of(UNMEASURED, REQUIRED), question_of(UNMEASURED, REQUIRED)):
        assert "no-data" == kind(verdict)
        assert "power: not measured, and idle.second_figure: required asks for it" == verdict.reason


@pytest.mark.parametrize("policy", [REQUIRED, AUTO])
def test_a_power_limit_of_null_confirms_nothing(policy: Policy) -> None:
    """Unasked, power that is compared with nothing is no second figure."""
    off = replace(policy, vetoes=Vetoes(power_percent_of_limit=None))
    assert "no-data" == kind(question_of(MEASURED, off))


@pytest.mark.parametrize("instance_type", accelerated_types())
def test_power_is_asked_for_where_the_catalog_has_a_limit(instance_type: str) -> None:
    """Each type of the catalog: without a limit nobody knows what 100% is."""
    shape = shape_of(instance_type)
    assert shape is not None
    count = shape.accelerator_count or 1
    gpus = [(1.0,) * 12] * count
    evidence = make_evidence(
        *gpus, power_percent_of_limit=None, measured_percent={"cpu": 100.0, "network": 100.0}
    )
    verdict = judge(make_instance(instance_type=instance_type), NO_HOLD, evidence, REQUIRED, NOW)

    assert has_power_limit(instance_type) is (shape.board_power_watts is not None)
    assert has_power_limit(instance_type) is (kind(verdict) == "no-data")


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (48, None),
        (46, None),
        (45, "power: not measured since Fri Nov 20, 11:45 UTC"),
        (24, "power: not measured"),
        (0, "power: not measured"),
    ],
)
def test_power_that_vanishes_is_said(measured: int, text: str | None) -> None:
    """As after an update of the driver. 10 minutes may be late, 15 are not."""
    draw = [30.0] * measured + [None] * (BINS - measured)
    metrics = published(Series(UTILIZATION, 1.0), Series(POWER, draw))
    (*_, hint) = ("", *verdict_of(metrics, ASK).advice)

    assert (text or "") == hint.partition(". Only")[0]
    assert (text is None) is (kind(verdict_of(metrics, REQUIRED)) == "idle")
    assert (text is None) is (kind(question_of(metrics, AUTO)) == "idle")


@pytest.mark.parametrize(("held", "expected"), [(10, "idle"), (9, "no-data")])
def test_power_must_be_measured_as_much_as_utilization(held: int, expected: str) -> None:
    """80% of the twelve bins are ten."""
    draw = [None] * (12 - held) + [30.0] * held
    metrics = published(Series(UTILIZATION, 1.0), Series(POWER, draw))
    verdict = verdict_of(metrics, REQUIRED)

    assert expected == kind(verdict)
    if expected == "no-data":
        assert "power: measured in only 75% of the window" in verdict.reason


def test_the_policy_knows_the_settings() -> None:
    """Unknown values are refused with their path."""
    book = parse_policy("idle: {second_figure: required}\nvetoes: {busy_vcpus: 8}")

    assert SecondFigure.REQUIRED is book.base().policy.idle.second_figure
    for text, path in (
        ("idle: {second_figure: always}", "idle.second_figure"),
        ("vetoes: {busy_vcpus: 0}", "vetoes.busy_vcpus"),
        ("vetoes: {busy_cores: 8}", "vetoes.busy_cores"),
    ):
        with pytest.raises(Exception, match=path):
            parse_policy(text)


def test_only_types_with_a_catalog_entry_have_vcpus() -> None:
    """Every type of the catalog says how many vCPUs it has."""
    assert all((shape_of(name) or make_instance()).vcpus for name in accelerated_types())  # type: ignore[union-attr]
    assert 192 == shape_of("p5.48xlarge").vcpus  # type: ignore[union-attr]


def test_each_second_figure_is_one_of_the_gpu() -> None:
    """Power, by the agent or by EC2."""
    confirming = {figure for figure, row in FIGURES.items() if row.confirms_utilization}
    assert {"power", "agentless"} == confirming
