"""The judgment: golden cases by hand, and promises that hold for every series of readings."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from governor.aws.record_codec import read_all, written
from governor.core.instance import OWN_TAGS
from governor.core.units import letters_and_digits, printable
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series
from governor.evidence.rules.figures import FIGURES, Figure
from governor.evidence.rules.series import (
    coverage_percent,
    evidence_document,
    evidence_hash,
    is_reading,
    readings,
    window_before,
)
from governor.policy.model.judging import IdleRule, Vetoes
from governor.policy.model.names import TagMatch
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import NO_HOLD, Hold, VerdictKind
from governor.verdict.rules.judge import first_judged_at, freeze, judge, judge_without_metrics
from governor.verdict.rules.judging import Subject
from governor.verdict.rules.vetoes import activity, judge_age
from tests.builders import NOW, POLICY, QUIET, ago, make_evidence, make_instance

INSTANCE = make_instance()
IDLE_KINDS = (VerdictKind.IDLE, VerdictKind.MANAGED_ELSEWHERE, VerdictKind.FROZEN)

one_reading = st.one_of(st.none(), st.floats(0, 100))
one_gpu = st.lists(one_reading, min_size=12, max_size=12)
all_gpus = st.lists(one_gpu, min_size=1, max_size=8)

ALL_VETOES = Policy(vetoes=Vetoes(memory_used_percent=50.0))
FIGURE_LIMITS = {
    "power_percent_of_limit": 40.0,
    "memory_used_percent": 50.0,
    "cpu_percent": 30.0,
    "network_bytes_per_second": 1e6,
}
figures = st.fixed_dictionaries(
    {
        name: st.one_of(st.none(), st.floats(0, limit, exclude_max=True), st.floats(0, 2 * limit))
        for name, limit in FIGURE_LIMITS.items()
    }
)
"""Everything besides utilization that may veto, often quiet."""


def kind_of(evidence: Evidence, policy: Policy = POLICY) -> VerdictKind:
    """The verdict on the plain instance."""
    return judge(INSTANCE, NO_HOLD, evidence, policy, NOW).kind


def test_quiet_for_the_whole_window_is_idle() -> None:
    """The plain case, in plain words."""
    verdict = judge(INSTANCE, NO_HOLD, make_evidence(QUIET), POLICY, NOW)

    assert VerdictKind.IDLE is verdict.kind
    assert "Idle for 1 h (every GPU under 5%)." == verdict.reason


def test_the_threshold_itself_is_not_under_it() -> None:
    """Exactly 5% is busy."""
    assert VerdictKind.BUSY is kind_of(make_evidence((*QUIET[:-1], 5.0)))
    assert VerdictKind.IDLE is kind_of(make_evidence((*QUIET[:-1], 4.999)))


def test_one_busy_gpu_of_eight_keeps_the_instance_with_advice() -> None:
    """Maximum over time, then over GPUs; never the mean."""
    verdict = judge(INSTANCE, NO_HOLD, make_evidence((90.0,) * 12, *[QUIET] * 7), POLICY, NOW)

    assert VerdictKind.PARTLY_IDLE is verdict.kind
    assert "right-size" in verdict.advice[0]


def test_no_series_is_no_data() -> None:
    """A silent agent is told as such."""
    window = make_evidence().window

    assert VerdictKind.NO_DATA is kind_of(Evidence(window, MetricSource.NONE))


def test_a_read_that_failed_is_no_data_even_where_the_rest_is_quiet() -> None:
    """A throttled read proves nothing."""
    assert VerdictKind.NO_DATA is kind_of(make_evidence(QUIET, read_problem="Throttling"))


def test_activity_counts_even_in_a_read_that_was_cut_short() -> None:
    """Doubt keeps: what was seen working was working."""
    assert VerdictKind.BUSY is kind_of(make_evidence((90.0,) * 12, read_problem="Throttling"))


def test_a_gpu_that_publishes_nothing_is_not_idle() -> None:
    """A MIG GPU has no utilization: seven quiet ones of eight prove nothing about it."""
    assert VerdictKind.NO_DATA is kind_of(
        make_evidence(*[QUIET] * 7, gpus_expected=8, gpus_reporting=7)
    )


VETOES = [row for row in FIGURES.values() if row.limit.startswith("vetoes.")]


@pytest.mark.parametrize("row", VETOES, ids=lambda row: row.field)
def test_other_figures_veto(row: Figure) -> None:
    """At its limit a figure makes the instance busy; just under it does not."""
    limit: dict[str, Any] = {row.limit.removeprefix("vetoes."): 40.0}
    policy = replace(POLICY, vetoes=replace(POLICY.vetoes, **limit))

    assert VerdictKind.BUSY is kind_of(make_evidence(QUIET, **{row.field: 40.0}), policy)
    assert VerdictKind.IDLE is kind_of(make_evidence(QUIET, **{row.field: 39.9}), policy)


def test_a_required_figure_that_is_missing_is_no_data() -> None:
    """EC2 publishes CPU for every running instance; none means that something is wrong."""
    assert VerdictKind.NO_DATA is kind_of(make_evidence(QUIET, cpu_percent=None))
    assert VerdictKind.IDLE is kind_of(make_evidence(QUIET, power_percent_of_limit=None))


@pytest.mark.parametrize(
    ("seen", "kind"),
    [(100 / 12, VerdictKind.NO_DATA), (79.9, VerdictKind.NO_DATA), (80.0, VerdictKind.IDLE)],
)
def test_a_required_figure_must_be_seen_as_long_as_utilization(
    seen: float, kind: VerdictKind
) -> None:
    """One reading in an hour says nothing about the other fifty-five minutes; what it shows still
    counts."""
    measured = {"cpu": seen, "network": 100.0}

    assert kind is kind_of(make_evidence(QUIET, measured_percent=measured))
    assert VerdictKind.BUSY is kind_of(
        make_evidence(QUIET, measured_percent=measured, cpu_percent=60.0)
    )


def test_memory_held_vetoes_only_where_the_policy_says_so() -> None:
    """A forgotten notebook holds memory; a model server does, too."""
    serving = Policy(vetoes=Vetoes(memory_used_percent=50.0))

    assert VerdictKind.IDLE is kind_of(make_evidence(QUIET, memory_used_percent=90.0))
    assert VerdictKind.BUSY is kind_of(make_evidence(QUIET, memory_used_percent=90.0), serving)


@pytest.mark.parametrize(
    ("tags", "service"),
    [
        ({"aws:autoscaling:groupName": "x"}, "EC2 Auto Scaling"),
        ({"karpenter.sh/nodepool": "x"}, "Karpenter"),
        ({"eks:cluster-name": "x"}, "Amazon EKS"),
        ({"kubernetes.io/cluster/prod": "owned"}, "Kubernetes"),
        ({"AWSBatchServiceTag": "batch"}, "AWS Batch"),
        ({"aws:elasticmapreduce:job-flow-id": "x"}, "Amazon EMR"),
        ({"parallelcluster:cluster-name": "x"}, "AWS ParallelCluster"),
    ],
)
def test_somebody_elses_instance_is_told_as_such(tags: dict[str, str], service: str) -> None:
    """Idle, but not ours to touch."""
    managed = make_instance(tags={**INSTANCE.tags, **tags})
    verdict = judge(managed, NO_HOLD, make_evidence(QUIET), POLICY, NOW)

    assert VerdictKind.MANAGED_ELSEWHERE is verdict.kind
    assert verdict.manager is not None
    assert service == verdict.manager.service


def test_an_operators_instance_is_somebody_elses() -> None:
    """EKS Auto Mode and its kin are marked by EC2 itself."""
    managed = make_instance(operator_managed=True, operator_principal="eks.amazonaws.com")

    assert (
        VerdictKind.MANAGED_ELSEWHERE
        is judge(managed, NO_HOLD, make_evidence(QUIET), POLICY, NOW).kind
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("GpuGovernor", "Exempt"),
        ("GpuGovernor", "EXEMPT"),
        ("GpuGovernor", "exempt "),
        ("GpuGovernor", "keep"),
        ("GpuGovernor", "true"),
        ("GpuGovernor", ""),
        ("gpugovernor", "exempt"),
        ("GPUGOVERNOR ", "exempt"),
        ("gpu-governor", "exempt"),
        ("gpu_governor", "exempt"),
        ("GPU Governor", "exempt"),
        ("Gpu.Governor/", "no"),
        ("gpugovernor:exempt", ""),
        ("GpuGovernor-Exempt", "true"),
        ("\uff27\uff30\uff35\uff27\uff4f\uff56\uff45\uff52\uff4e\uff4f\uff52", "exempt"),
        ("Gpu\u200bGovernor", "exempt"),
    ],
)
def test_a_no_in_any_spelling_keeps_the_instance(key: str, value: str) -> None:
    """A human said no; how it is spelled is a matter for a message."""
    exempt = make_instance(tags={**INSTANCE.tags, key: value})
    verdict = judge_without_metrics(exempt, NO_HOLD, POLICY, NOW)

    assert verdict is not None
    assert (VerdictKind.EXEMPT, f"carries the tag {printable(f'{key}={value}')}") == (
        verdict.kind,
        verdict.reason,
    )


@given(
    upper=st.lists(st.booleans(), min_size=17, max_size=17),
    signs=st.lists(st.text("-_ .:/+=@\u200b", max_size=2), min_size=18, max_size=18),
    holds_value=st.booleans(),
    value=st.text(max_size=8),
)
def test_letters_and_digits_alone_make_an_exemption(
    upper: list[bool], signs: list[str], holds_value: bool, value: str
) -> None:
    """Signs between the letters and their case change nothing, for a sweep and for a guard
    alike."""
    name = "gpugovernorexempt" if holds_value else "gpugovernor"
    spelled = signs[-1]
    for letter, is_upper, sign in zip(name, upper, signs, strict=False):
        spelled += (letter.upper() if is_upper else letter) + sign
    exempt = make_instance(tags={**INSTANCE.tags, spelled: value})

    assert VerdictKind.EXEMPT is _unread(exempt, NO_HOLD)


@given(st.text(min_size=1, max_size=20), st.text(max_size=8))
def test_a_key_of_other_letters_exempts_nothing(key: str, value: str) -> None:
    letters = letters_and_digits(key)
    assume(letters not in ("gpugovernor", "gpugovernorexempt"))
    other = make_instance(tags={**INSTANCE.tags, key: value})

    assert POLICY.exemption.similar_tag_on(other) is None


@pytest.mark.parametrize(
    "key",
    [
        *(
            "GpuGovernorCheckpoint",
            "GpuGovernor:Episode",
            "GpuGovernor:Instance",
            "GpuGovernor:Event",
        ),
        *("GpuGovernor:x", "GpuGovernorOwner", "Purpose", "MyGpuGovernor", "Governor"),
    ],
)
def test_other_tags_of_the_governor_exempt_nothing(key: str) -> None:
    """They begin alike; no more than that."""
    marked = make_instance(tags={**INSTANCE.tags, key: "exempt"})

    assert judge_without_metrics(marked, NO_HOLD, POLICY, NOW) is None


@pytest.mark.parametrize("key", sorted(OWN_TAGS))
def test_no_policy_makes_the_governors_own_keys_exempt(key: str) -> None:
    """A value that completes one of them is read as another key."""
    word = key.removeprefix("GpuGovernor").removeprefix(":")
    policy = replace(POLICY, exemption=TagMatch("GpuGovernor", word))
    marked = make_instance(tags={**INSTANCE.tags, key: "exempt"})

    assert judge_without_metrics(marked, NO_HOLD, policy, NOW) is None


def test_a_key_of_signs_alone_has_one_spelling() -> None:
    """Every other key of signs alone has the same letters: none."""
    rule = TagMatch("+", "no")

    assert rule.similar_tag_on(make_instance(tags={"+": "yes"})) == "+=yes"
    assert rule.similar_tag_on(make_instance(tags={"-": "no"})) is None


def test_holds_of_people_need_no_metrics() -> None:
    """Exempt by tag or decision, and snoozed until its date and no longer."""
    exempt = make_instance(tags={**INSTANCE.tags, "GpuGovernor": "exempt"})
    over = Hold(snoozed_until=ago(seconds=1))

    assert VerdictKind.EXEMPT is _unread(exempt, NO_HOLD)
    assert VerdictKind.EXEMPT is _unread(INSTANCE, Hold(exempt_reason="license server"))
    assert VerdictKind.SNOOZED is _unread(INSTANCE, Hold(snoozed_until=NOW + timedelta(seconds=1)))
    assert judge_without_metrics(INSTANCE, over, POLICY, NOW) is None


def test_a_young_instance_is_not_judged() -> None:
    """Neither within its grace, nor before the window can be covered at all."""
    assert VerdictKind.TOO_YOUNG is _unread(make_instance(launch_time=ago(minutes=29)), NO_HOLD)
    assert VerdictKind.TOO_YOUNG is _unread(make_instance(launch_time=ago(minutes=56)), NO_HOLD)
    assert (
        judge_without_metrics(make_instance(launch_time=ago(minutes=58)), NO_HOLD, POLICY, NOW)
        is None
    )


@pytest.mark.parametrize("started", range(0, 300, 7))
def test_an_instance_is_ripe_only_when_enough_whole_periods_lie_behind_its_start(
    started: int,
) -> None:
    """At the first moment of judgment, at any second of a period: ten whole periods of twelve."""
    launched = datetime(2026, 11, 20, 9, 0, tzinfo=UTC) + timedelta(seconds=started)
    window = window_before(
        first_judged_at(make_instance(launch_time=launched), POLICY),
        POLICY.window,
        POLICY.period,
        POLICY.lag,
    )
    whole = [n for n in range(window.bins) if window.start + window.period * n >= launched]

    assert POLICY.idle.minimum_coverage_percent <= 100 * len(whole) / window.bins


@pytest.mark.parametrize("junk", [-1.0, math.nan])
def test_what_measures_nothing_is_a_hole(junk: float) -> None:
    """Some publishers write -1 or NaN where the driver says N/A: under every threshold, and no
    proof."""
    assert VerdictKind.NO_DATA is kind_of(make_evidence((junk,) * 12))
    assert VerdictKind.NO_DATA is kind_of(make_evidence((*QUIET[:9], junk, junk, junk)))
    assert VerdictKind.BUSY is kind_of(make_evidence((*[junk] * 11, 60.0)))
    assert VerdictKind.NO_DATA is kind_of(make_evidence(QUIET, cpu_percent=junk))


def test_readings_are_what_measures_something() -> None:
    """One value and a series of them are told apart by the same rule."""
    values = (0.0, None, -1.0, math.nan, 5.0, -0.0, math.inf)

    assert [value for value in values if is_reading(value)] == readings(values)


def test_evidence_of_less_than_the_window_proves_nothing() -> None:
    """Neither a window that is too short, nor a series that does not fill its window."""
    evidence = make_evidence(QUIET)
    window = replace(evidence.window, start=evidence.window.end - timedelta(minutes=55))

    assert VerdictKind.NO_DATA is kind_of(replace(evidence, window=window))
    assert VerdictKind.NO_DATA is kind_of(make_evidence((1.0,)))


def test_an_aggregate_of_several_gpus_that_were_not_counted_is_no_data() -> None:
    """A MIG GPU in it would not be missed. Told idleness is watched all the same."""
    aggregate = make_evidence(
        QUIET,
        source=MetricSource.AGGREGATE,
        gpus=(GpuReadings("all", QUIET),),
        gpus_expected=8,
        gpus_reporting=None,
    )

    assert VerdictKind.NO_DATA is kind_of(aggregate)
    assert VerdictKind.IDLE is judge(INSTANCE, NO_HOLD, aggregate, POLICY, NOW, in_full=False).kind
    assert VerdictKind.IDLE is kind_of(replace(aggregate, gpus_expected=1))


def test_series_are_counted_whatever_the_count_says() -> None:
    """One quiet series proves nothing about eight GPUs."""
    assert VerdictKind.NO_DATA is kind_of(
        make_evidence(QUIET, gpus_expected=8, gpus_reporting=None)
    )
    assert VerdictKind.NO_DATA is kind_of(make_evidence(QUIET, gpus_expected=8, gpus_reporting=8))


def test_a_gpu_nobody_saw_is_not_advised_away() -> None:
    """One works, one does not, six were not seen: seven may be needed."""
    unseen: list[Sequence[float | None]] = [(None,) * 12] * 6
    verdict = judge(INSTANCE, NO_HOLD, make_evidence((90.0,) * 12, QUIET, *unseen), POLICY, NOW)

    assert verdict.advice[0].endswith("A type with 7 accelerators would do")


def test_a_busy_verdict_says_until_when_it_holds() -> None:
    """The end of the last busy period, and a window after it."""
    evidence = make_evidence((90.0, *QUIET[1:]))
    verdict = judge(INSTANCE, NO_HOLD, evidence, POLICY, NOW)

    assert evidence.window.start + timedelta(minutes=5) == verdict.last_busy
    assert evidence.window.start + timedelta(minutes=65) == verdict.not_before


def test_told_idleness_is_watched_by_utilization_alone() -> None:
    """Figures nobody read do not make it no-data; work makes it busy."""
    unread = make_evidence(QUIET, cpu_percent=None, network_bytes_per_second=None)

    assert VerdictKind.IDLE is judge(INSTANCE, NO_HOLD, unread, POLICY, NOW, in_full=False).kind
    assert (
        VerdictKind.BUSY
        is judge(INSTANCE, NO_HOLD, make_evidence((90.0,) * 12), POLICY, NOW, in_full=False).kind
    )


def test_a_frozen_verdict_keeps_its_evidence() -> None:
    """The readings stand; nothing follows from them."""
    verdict = judge(INSTANCE, NO_HOLD, make_evidence(QUIET), POLICY, NOW)
    frozen = freeze(verdict, "30 of 40 turned idle")

    assert (VerdictKind.FROZEN, verdict.evidence) == (frozen.kind, frozen.evidence)
    assert "30 of 40" in frozen.reason


@given(all_gpus)
def test_too_little_coverage_is_never_idle(gpus: list[list[float | None]]) -> None:
    """No sequence of readings makes an instance idle when a GPU was seen under 80% of the
    window."""
    evidence = make_evidence(*gpus)
    lowest = min(coverage_percent(gpu.utilization) for gpu in evidence.gpus)

    if lowest < POLICY.idle.minimum_coverage_percent:
        assert kind_of(evidence) not in IDLE_KINDS


@given(all_gpus)
def test_idle_means_that_every_reading_was_under_the_threshold(
    gpus: list[list[float | None]],
) -> None:
    """The converse of the rule, for any readings."""
    if kind_of(make_evidence(*gpus)) in IDLE_KINDS:
        assert all(value is None or value < 5 for gpu in gpus for value in gpu)


@given(all_gpus, st.data())
def test_more_activity_never_turns_busy_into_idle(
    gpus: list[list[float | None]], data: st.DataObject
) -> None:
    """Raise any one reading: what was not idle does not become idle."""
    gpu = data.draw(st.integers(0, len(gpus) - 1))
    at = data.draw(st.integers(0, 11))
    before = kind_of(make_evidence(*gpus))
    busier = [list(values) for values in gpus]
    old = busier[gpu][at]
    if old is None:
        return
    busier[gpu][at] = data.draw(st.floats(old, 100))

    if before not in IDLE_KINDS:
        assert kind_of(make_evidence(*busier)) not in IDLE_KINDS


@given(all_gpus, st.data())
def test_a_missing_sample_never_helps_idleness(
    gpus: list[list[float | None]], data: st.DataObject
) -> None:
    """Take away a quiet reading: what was not idle does not become idle."""
    quiet = [
        (g, at)
        for g, values in enumerate(gpus)
        for at, value in enumerate(values)
        if value is not None and value < 5
    ]
    if not quiet:
        return
    gpu, at = data.draw(st.sampled_from(quiet))
    fewer = [list(values) for values in gpus]
    fewer[gpu][at] = None

    if kind_of(make_evidence(*gpus)) not in IDLE_KINDS:
        assert kind_of(make_evidence(*fewer)) not in IDLE_KINDS


@given(all_gpus, st.randoms())
def test_the_order_of_gpus_changes_nothing(
    gpus: list[list[float | None]], rng: random.Random
) -> None:
    """GPU numbers are names, not ranks."""
    shuffled = list(gpus)
    rng.shuffle(shuffled)

    assert kind_of(make_evidence(*gpus)) is kind_of(make_evidence(*shuffled))


@given(all_gpus, st.integers(-50, 50))
def test_shifting_time_by_whole_periods_changes_only_times(
    gpus: list[list[float | None]], bins: int
) -> None:
    """The clock's position has no influence."""
    shift = POLICY.period * bins
    here = make_evidence(*gpus)
    window = replace(here.window, start=here.window.start + shift, end=here.window.end + shift)
    there = replace(here, window=window)
    moved = make_instance(launch_time=INSTANCE.launch_time + shift)

    assert kind_of(here) is judge(moved, NO_HOLD, there, POLICY, NOW + shift).kind


@given(all_gpus, figures, st.data())
def test_more_activity_of_any_kind_never_turns_busy_into_idle(
    gpus: list[list[float | None]], values: dict[str, float | None], data: st.DataObject
) -> None:
    """Raise any figure, let one appear, or let work appear where nothing was measured."""
    before = make_evidence(*gpus, **values)
    gpu, at = data.draw(st.integers(0, len(gpus) - 1)), data.draw(st.integers(0, 11))
    busier = [list(series) for series in gpus]
    busier[gpu][at] = data.draw(st.floats(max(5, busier[gpu][at] or 0), 100))
    at_work = [
        make_evidence(*busier, **values),
        replace(before, aggregate=(*QUIET[:-1], data.draw(st.floats(5, 100)))),
        replace(before, work="MLTraining Loss", last_active={"work": NOW}),
        *(
            make_evidence(*gpus, **{**values, name: data.draw(st.floats(limit, 2 * limit))})
            for name, limit in FIGURE_LIMITS.items()
        ),
    ]

    assert not any(kind_of(evidence, ALL_VETOES) in IDLE_KINDS for evidence in at_work)


@given(all_gpus, figures, st.data())
def test_a_missing_quiet_figure_never_helps_idleness(
    gpus: list[list[float | None]], values: dict[str, float | None], data: st.DataObject
) -> None:
    """As with readings of GPUs: one that vetoed and was lost is lost, unless the policy requires
    it."""
    name = data.draw(st.sampled_from(sorted(values)))
    value = values[name]
    if value is not None and value >= FIGURE_LIMITS[name]:
        return
    fewer = make_evidence(*gpus, **{**values, name: None})

    if kind_of(make_evidence(*gpus, **values), ALL_VETOES) not in IDLE_KINDS:
        assert kind_of(fewer, ALL_VETOES) not in IDLE_KINDS


@given(all_gpus, figures, st.integers(0, 10**6))
def test_the_same_evidence_gives_the_same_verdict_at_any_later_time(
    gpus: list[list[float | None]], values: dict[str, float | None], seconds: int
) -> None:
    """Word for word, and as it comes back from the state table: nothing after the window counts."""
    evidence = make_evidence(*gpus, **values)
    [copy] = read_all(Evidence, [written(evidence)])

    assert judge(INSTANCE, NO_HOLD, evidence, POLICY, NOW) == judge(
        INSTANCE, NO_HOLD, copy, POLICY, NOW + timedelta(seconds=seconds)
    )


@given(one_gpu, st.floats(0.1, 50), st.floats(50, 100))
def test_the_policys_figures_decide(
    values: list[float | None], threshold: float, coverage: float
) -> None:
    """Another threshold and another coverage are obeyed to the letter."""
    policy = Policy(
        idle=IdleRule(
            utilization_below_percent=threshold,
            minimum_coverage_percent=coverage,
            window_minutes=60,
        )
    )
    old = make_instance(launch_time=ago(days=5))
    evidence = make_evidence(values)
    seen = [value for value in values if value is not None]
    idle = bool(seen) and max(seen) < threshold and 100 * len(seen) / 12 >= coverage
    idle = idle and None not in values[-2:]

    assert idle == (judge(old, NO_HOLD, evidence, policy, NOW).kind is VerdictKind.IDLE)


def test_an_aggregate_stands_for_all_gpus() -> None:
    """By the aggregate's maximum the busiest GPU is known; a lower count than expected is no
    proof."""
    aggregate = replace(
        make_evidence(QUIET),
        source=MetricSource.AGGREGATE,
        gpus=(GpuReadings("all", QUIET),),
        gpus_expected=8,
        gpus_reporting=8,
        samples=(40.0,) * 12,
    )

    assert VerdictKind.IDLE is kind_of(aggregate)
    assert VerdictKind.NO_DATA is kind_of(replace(aggregate, gpus_reporting=7))


@pytest.mark.parametrize(
    ("gpus", "counts", "kind"),
    [
        (16, (80.0, 80.0), VerdictKind.IDLE),
        (16, (80.0, 64.0), VerdictKind.IDLE),
        (16, (96.0, 80.0), VerdictKind.IDLE),
        (16, (75.0, 75.0), VerdictKind.NO_DATA),
        (16, (80.0, 75.0), VerdictKind.NO_DATA),
        (16, (90.0, 75.0), VerdictKind.NO_DATA),
        (8, (40.0, 35.0), VerdictKind.NO_DATA),
        (8, (32.0, 32.0), VerdictKind.NO_DATA),
    ],
)
def test_only_a_whole_collection_may_be_missing_at_the_end(
    gpus: int, counts: tuple[float, ...], kind: VerdictKind
) -> None:
    """As many samples as GPUs may be one GPU's, which is hidden and may work."""
    aggregate = make_evidence(
        QUIET,
        source=MetricSource.AGGREGATE,
        gpus=(GpuReadings("all", QUIET),),
        gpus_expected=gpus,
        gpus_reporting=gpus,
        samples=(5.0 * gpus,) * 10 + counts,
    )

    assert kind is kind_of(aggregate)


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ((35.0, 35.0, 40.0, 40.0, 40.0), VerdictKind.NO_DATA),
        ((35.0, 40.0, 40.0, 40.0, 40.0), VerdictKind.IDLE),
        ((36.0, 36.0, 40.0, 40.0, 40.0), VerdictKind.IDLE),
        ((32.0, 32.0, 40.0, 40.0, 40.0), VerdictKind.IDLE),
        ((48.0, 32.0, 40.0, 40.0, 40.0), VerdictKind.IDLE),
        ((24.0, 24.0, 40.0, 40.0, 40.0), VerdictKind.NO_DATA),
    ],
)
def test_an_aggregate_covers_a_period_only_where_no_gpu_can_be_missing(
    counts: tuple[float, ...], kind: VerdictKind
) -> None:
    """A GPU that is silent in 40% of the periods is not measured enough, though no hole is long."""
    series = (1.0,) * 30
    aggregate = make_evidence(
        series,
        source=MetricSource.AGGREGATE,
        gpus=(GpuReadings("all", series),),
        gpus_expected=8,
        gpus_reporting=8,
        samples=(*(counts * 6)[:28], 40.0, 40.0),
    )

    assert kind is kind_of(aggregate)


@pytest.mark.parametrize(("minutes", "is_late"), [(20, None), (21, True), (29, True), (31, False)])
@pytest.mark.parametrize("figure", ["cpu", "network"])
def test_a_required_figure_is_at_most_twenty_minutes_old_whatever_the_lag(
    figure: str, minutes: int, is_late: bool | None
) -> None:
    """Measured against now; what the policy does not limit need not be measured."""
    measured = {"cpu": NOW, "network": NOW, figure: ago(minutes=minutes)}
    evidence = make_evidence(QUIET, last_measured=measured)
    verdict = judge_age(evidence, POLICY, NOW)
    free = Vetoes(cpu_percent=None, network_bytes_per_second=None)

    assert is_late == (None if verdict is None else verdict.is_late)
    assert judge_age(evidence, replace(POLICY, vetoes=free), NOW) is None


@pytest.mark.parametrize(
    ("samples", "is_late"),
    [
        ((40.0,) * 8 + (35.0,) * 4, True),
        ((40.0,) * 4 + (35.0,) * 8, False),
        ((None,) * 8 + (35.0,) * 4, False),
    ],
)
def test_a_gpu_that_stays_hidden_is_not_late(samples: Series, *, is_late: bool) -> None:
    """The other seven publish more samples in a period than there are GPUs: no sign of the
    eighth."""
    gpus = (GpuReadings("all", QUIET),)
    hidden = replace(
        make_evidence(QUIET),
        source=MetricSource.AGGREGATE,
        gpus=gpus,
        gpus_expected=8,
        samples=samples,
    )
    verdict = judge(make_instance(), NO_HOLD, replace(hidden, gpus_reporting=8), POLICY, NOW)
    assert (VerdictKind.NO_DATA, is_late) == (verdict.kind, verdict.is_late)


def _unread(instance: object, hold: Hold) -> VerdictKind:
    verdict = judge_without_metrics(instance, hold, POLICY, NOW)  # type: ignore[arg-type]
    assert verdict is not None
    return verdict.kind


def test_work_in_the_aggregate_keeps_quiet_gpus() -> None:
    """Its quiet proves nothing: an empty or silent one changes nothing."""
    assert VerdictKind.BUSY is kind_of(make_evidence(QUIET, aggregate=(1.0,) * 11 + (60.0,)))

    for quiet in ((), (None,) * 12, QUIET):
        assert VerdictKind.IDLE is kind_of(make_evidence(QUIET, aggregate=quiet))
    assert VerdictKind.NO_DATA is kind_of(make_evidence((None,) * 12, aggregate=QUIET))


def test_a_type_of_unknown_size_is_never_idle() -> None:
    """How many GPUs must be seen is not known; nor is it when more publish than exist."""
    assert VerdictKind.NO_DATA is kind_of(make_evidence(QUIET, gpus_expected=None))
    assert VerdictKind.NO_DATA is kind_of(make_evidence(QUIET, gpus_reporting=2))


# what jobs say of themselves


def test_a_job_that_says_it_works_makes_its_instance_busy() -> None:
    """However quiet everything else is, and where its GPUs cannot be seen; the sentence names the
    metric."""
    at = ago(minutes=20)
    for gpus in (QUIET, (None,) * 12):
        evidence = make_evidence(gpus, work="MLTraining Throughput", last_active={"work": at})
        verdict = judge(INSTANCE, NO_HOLD, evidence, POLICY, NOW)

        assert (VerdictKind.BUSY, at, at + POLICY.window) == (
            verdict.kind,
            verdict.last_busy,
            verdict.not_before,
        )
        assert "a job reports work: MLTraining Throughput" in verdict.reason


def test_a_gpu_at_work_says_more_than_its_job() -> None:
    """Its verdict may be partly idle, with an advice."""
    evidence = make_evidence(
        [90.0] * 12, QUIET, work="MLTraining Throughput", last_active={"work": NOW}
    )

    assert VerdictKind.PARTLY_IDLE is kind_of(evidence)


@given(gpus=all_gpus)
def test_a_silent_job_never_makes_anything_idle(gpus: list[list[float | None]]) -> None:
    """Looked for and not found is the same as not looked for; found is never idle."""
    evidence = make_evidence(*gpus)
    looked = replace(evidence, read=evidence.read | {"work"})
    found = replace(looked, work="MLTraining Loss", last_active={"work": NOW})

    assert kind_of(evidence) is kind_of(looked)
    assert kind_of(found) not in (*IDLE_KINDS, VerdictKind.NO_DATA)


def test_work_in_the_last_minutes_counts_before_an_act() -> None:
    """The look since the window's end sees it, too."""
    assert "MLTraining Loss" in (
        activity(make_evidence(QUIET, work="MLTraining Loss"), POLICY) or ""
    )
    assert activity(make_evidence(QUIET), POLICY) is None


def test_evidence_without_work_keeps_the_hash_it_was_frozen_with() -> None:
    """Approvals that were open when this figure came stay valid; with work it comes back as it
    was."""
    plain, works = make_evidence(QUIET), make_evidence(QUIET, work="MLTraining Loss")

    assert "work" not in evidence_document(plain)
    for evidence in (plain, works):
        assert [evidence] == list(read_all(Evidence, [written(evidence)]))
    assert evidence_hash(plain) != evidence_hash(works)


@pytest.mark.parametrize("figure", ["memory", "power"])
@pytest.mark.parametrize(("gpus", "kind"), [(1, VerdictKind.IDLE), (8, VerdictKind.NO_DATA)])
def test_a_required_figure_of_several_gpus_in_one_series_is_not_known(
    figure: Any, gpus: int, kind: VerdictKind
) -> None:
    """It goes on where one GPU does not publish it, so nothing that acts rests on it."""
    vetoes = Vetoes(memory_used_percent=90.0, required=(figure,))
    policy = Policy(mode=Mode.ASK, vetoes=vetoes)
    window = window_before(NOW, policy.ask_window, policy.period, policy.lag)
    evidence = make_evidence(
        window=window,
        source=MetricSource.AGGREGATE,
        gpus=(GpuReadings("all", (1.0,) * window.bins),),
        gpus_expected=gpus,
        gpus_reporting=gpus,
        samples=(5.0 * gpus,) * window.bins,
        memory_used_percent=1.0,
        read=frozenset({"power", "cpu", "network", "memory"}),
        last_measured=dict.fromkeys(("power", "cpu", "network", "memory"), window.end),
    )
    verdict, _ = Subject(INSTANCE, policy, NOW).judge_again(evidence)

    assert kind is verdict.kind
    assert ("only one series for all GPUs has it" in verdict.reason) == (gpus > 1)
    free = replace(policy, vetoes=replace(vetoes, required=("cpu",)))
    assert VerdictKind.IDLE is Subject(INSTANCE, free, NOW).judge_again(evidence)[0].kind
