"""The judgment at the very edge of each of its limits, and in the words that people read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.core.managers import Manager
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series
from governor.evidence.rules.series import window_before
from governor.policy.model.judging import IdleRule, Metrics
from governor.policy.model.policy import Policy
from governor.verdict import model
from governor.verdict.model import NO_HOLD, Family, Hold, Verdict, VerdictKind, known_kind
from governor.verdict.rules.judge import (
    first_judged_at,
    idle_sentence,
    is_candidate,
    judge,
    judge_holes,
    judge_without_metrics,
)
from governor.verdict.rules.proof import is_short_hole
from governor.verdict.rules.vetoes import activity, judge_age
from tests.builders import NOW, POLICY, QUIET, ago, make_evidence, make_instance

BUSY, IDLE, NO_DATA = VerdictKind.BUSY, VerdictKind.IDLE, VerdictKind.NO_DATA
INSTANCE = make_instance()
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
END = make_evidence().window.end
EVERY_MINUTE = Policy(metrics=Metrics(period_seconds=60))
COLLECTS_OFTEN = Policy(metrics=Metrics(collection_interval_seconds=10))
COLLECTS_EVERY_SECOND = Policy(metrics=Metrics(collection_interval_seconds=1))
TWICE_A_MINUTE = Policy(metrics=Metrics(period_seconds=60, collection_interval_seconds=30))
LAGS = Policy(metrics=Metrics(lag_seconds=600))
HOURLY = Policy(metrics=Metrics(period_seconds=3600), idle=IdleRule(window_minutes=120))
BOUND = Policy(metrics=Metrics(bound_namespaces=True))
ENDED = (1.0,) * 10 + (None,) * 2
"""The newest readings are missing."""
FULL = (40.0,) * 12
"""The samples of eight GPUs."""


def over(*gpus: Series, policy: Policy = POLICY, **changes: Any) -> Evidence:
    """Evidence over as many periods as there are readings."""
    window = window_before(NOW, policy.period * len(gpus[0]), policy.period, policy.lag)
    measured = dict.fromkeys(("power", "cpu", "network", "memory"), window.end)
    return make_evidence(*gpus, **{"window": window, "last_measured": measured, **changes})


def eight(
    samples: Series, policy: Policy = POLICY, series: Series = (), **changes: Any
) -> Evidence:
    """Eight quiet GPUs in one series, with so many samples in each period."""
    readings = series or (1.0,) * len(samples)
    given = {"gpus_expected": 8, "gpus_reporting": 8, "samples": samples, **changes}
    gpus = (GpuReadings("all", readings),)
    return over(readings, policy=policy, source=MetricSource.AGGREGATE, gpus=gpus, **given)


def told(evidence: Evidence, policy: Policy = POLICY) -> Verdict:
    """The verdict on the plain instance, which has run for long."""
    return judge(make_instance(launch_time=ago(days=9)), NO_HOLD, evidence, policy, NOW)


def test_what_becomes_of_each_kind() -> None:
    """A breaker that counted others as working, or as idle, would freeze on nothing, or never."""
    left_alone = (VerdictKind.EXEMPT, VerdictKind.SNOOZED)
    assert (BUSY, VerdictKind.PARTLY_IDLE) == model.WORKING
    assert (IDLE, VerdictKind.MANAGED_ELSEWHERE, VerdictKind.FROZEN) == model.IDLE
    assert left_alone == model.LEFT_ALONE
    assert (VerdictKind.TOO_YOUNG,) == model.YOUNG
    assert {*left_alone, VerdictKind.TOO_YOUNG} == set(model.UNREAD)
    assert (NO_DATA,) == model._kinds(Family.UNKNOWN)
    assert (IDLE, BUSY, None) == (known_kind("resting"), known_kind("busy"), known_kind("other"))


def test_people_s_word_holds_until_its_last_second() -> None:
    """And what is too young is so until its first."""
    assert judge_without_metrics(INSTANCE, Hold(snoozed_until=NOW), POLICY, NOW) is None
    exempt = judge(INSTANCE, Hold(exempt_reason="mine"), make_evidence(), POLICY, NOW)
    assert (VerdictKind.EXEMPT, "exempted by decision: mine") == (exempt.kind, exempt.reason)
    first = first_judged_at(INSTANCE, POLICY)
    assert INSTANCE.launch_time + 57 * MINUTE == first
    assert judge_without_metrics(INSTANCE, NO_HOLD, POLICY, first) is None
    young = judge_without_metrics(INSTANCE, NO_HOLD, POLICY, first - SECOND)
    assert young is not None
    assert young.reason.startswith(
        "started 56 min ago; judged from Thu Nov 19, 08:57 UTC on (grace 30 min"
    )
    every = replace(POLICY, idle=IdleRule(minimum_coverage_percent=100.0))
    assert INSTANCE.launch_time + 67 * MINUTE == first_judged_at(INSTANCE, every)
    long = replace(POLICY, idle=IdleRule(window_minutes=1200))
    assert INSTANCE.launch_time + 967 * MINUTE == first_judged_at(INSTANCE, long)
    late = replace(POLICY, idle=IdleRule(grace_after_launch_minutes=180))
    assert INSTANCE.launch_time + 180 * MINUTE == first_judged_at(INSTANCE, late)


MISSING = (None,) * 3
WORKED_LAST = (*QUIET[:9], 50.0, 1.0, 1.0)
FOURS = ((1.0,) * 4 + (None,)) * 11 + (1.0, 1.0, 1.0, None, 1.0)
"""80% of an hour of minutes."""
SILENT: Any = {"source": MetricSource.NONE, "gpus": ()}


@pytest.mark.parametrize(
    ("evidence", "kind", "reason"),
    [
        (
            make_evidence((*QUIET[:3], 90.0, *QUIET[4:]), WORKED_LAST),
            BUSY,
            "reached 90.0% in the last 60 min",
        ),
        (
            make_evidence((*QUIET[:3], 90.0, *QUIET[4:]), WORKED_LAST),
            BUSY,
            "last at Fri Nov 20, 11:50 UTC",
        ),
        (make_evidence(source=MetricSource.NONE), NO_DATA, "no nvidia_smi_utilization_gpu"),
        (make_evidence(gpus=()), NO_DATA, "no nvidia_smi_utilization_gpu"),
        (
            over((1.0,) * 6, **SILENT),
            NO_DATA,
            "no nvidia_smi_utilization_gpu in GPU/EC2 for 30 min",
        ),
        (over((1.0,) * 5, **SILENT), "late", "no nvidia_smi_utilization_gpu in GPU/EC2 for 25 min"),
        (
            make_evidence(**SILENT, agentless_power_percent=3.0),
            NO_DATA,
            "; EC2's own GPUPowerUtilization reached",
        ),
        (
            make_evidence(QUIET, ENDED, QUIET[:9]),
            "late",
            "GPU 2 published nothing in the newest 15 min",
        ),
        (
            make_evidence((*QUIET[:10], None, 1.0)),
            "late",
            "GPU 0 has missing readings in the newest 10 min",
        ),
        (eight(FULL, series=ENDED), "late", "the instance published nothing in the newest 10 min"),
        (
            make_evidence((*QUIET[:2], *MISSING, *QUIET[5:])),
            NO_DATA,
            "GPU 0 was measured for 75% of the window; 80",
        ),
        (over((1.0,) * 6), NO_DATA, "the policy looks at 60 min, but only 30 min were read"),
        (make_evidence(gpus_expected=None), NO_DATA, "the catalog does not say how many GPUs"),
        (
            make_evidence(gpus_reporting=2),
            NO_DATA,
            "the catalog or the agent's dimensions are wrong",
        ),
        (
            eight(FULL, gpus_reporting=9),
            NO_DATA,
            "metrics.collection_interval_seconds does not fit the agent",
        ),
        (
            make_evidence(QUIET, QUIET, gpus_reporting=1),
            NO_DATA,
            "only 1 of 2 GPUs publish utilization",
        ),
        (
            make_evidence(power_percent_of_limit=55.0),
            BUSY,
            "power draw reached 55.0% (the policy's limit is 40.0%)",
        ),
        (
            make_evidence(network_bytes_per_second=2.5e6),
            BUSY,
            "reached 2.50 MB/s (the policy's limit is 1.00",
        ),
        (
            make_evidence(network_bytes_per_second=1e12),
            BUSY,
            "network traffic reached 1000000.00 MB/s",
        ),
        (
            make_evidence(agentless_power_percent=40.0),
            BUSY,
            "EC2's own GPUPowerUtilization reached 40.0%",
        ),
        (
            make_evidence(last_measured={"cpu": END - 13 * MINUTE, "network": END}),
            IDLE,
            "Idle for 1 h",
        ),
        (
            make_evidence(last_measured={"cpu": END - 13 * MINUTE - SECOND, "network": END}),
            "late",
            "CPU is required",
        ),
        (
            make_evidence(cpu_percent=None),
            NO_DATA,
            "CPU is required by the policy and was not published",
        ),
        (
            make_evidence(measured_percent={"cpu": 79.0}),
            NO_DATA,
            "CPU is required by the policy and was measured for 79%",
        ),
        (eight(FULL), IDLE, "Idle for 1 h"),
        (
            eight(FULL, gpus_reporting=None),
            NO_DATA,
            "it is not known how many of 8 GPUs publish utilization",
        ),
        (
            eight((), series=QUIET),
            NO_DATA,
            "it is not known how many of 8 GPUs publish utilization",
        ),
        (eight((*FULL[:10], 64.0, 8.0)), IDLE, "Idle for 1 h"),
        (
            eight((*FULL[:10], 72.0, 0.0)),
            "late",
            "not all of 8 GPUs published in the newest 10 min",
        ),
        (eight(FULL[:7] + (32.0,) * 5), "late", "not all of 8 GPUs published in the newest 10 min"),
        (
            eight(FULL[:6] + (32.0,) * 6),
            NO_DATA,
            "not all of 8 GPUs published in the newest 10 min",
        ),
        (
            eight((7.0,) * 3 + FULL[3:]),
            NO_DATA,
            "all 8 GPUs were measured for 75% of the window; 80% is required",
        ),
    ],
)
def test_what_is_said_of_the_evidence(evidence: Evidence, kind: str, reason: str) -> None:
    """Late is what may still come: nobody is alerted yet."""
    verdict = told(evidence)
    assert (kind, True) == ("late" if verdict.is_late else verdict.kind, reason in verdict.reason)


@pytest.mark.parametrize(
    ("policy", "evidence", "kind"),
    [
        (EVERY_MINUTE, (1.0,) * 50 + (None,) * 5 + (1.0,) * 5, "late"),
        (EVERY_MINUTE, FOURS, IDLE),
        (EVERY_MINUTE, eight((8.0,) * 60, EVERY_MINUTE), IDLE),
        # Three and two of the ten newest collections, and each seventh of all.
        (EVERY_MINUTE, eight((8.0,) * 50 + (8.0, 8.0, 8.0, 0.0, 0.0) * 2, EVERY_MINUTE), "late"),
        (EVERY_MINUTE, eight((8.0, 8.0, 8.0, 0.0) * 12 + (8.0,) * 12, EVERY_MINUTE), IDLE),
        (EVERY_MINUTE, eight((8.0, 8.0, 0.0) * 16 + (8.0,) * 12, EVERY_MINUTE), NO_DATA),
        (TWICE_A_MINUTE, eight((8.0, 16.0) * 24 + (16.0,) * 12, TWICE_A_MINUTE), IDLE),
        (COLLECTS_OFTEN, eight((240.0,) * 10 + (216.0,) * 2, COLLECTS_OFTEN), IDLE),
        (COLLECTS_OFTEN, eight((240.0,) * 10 + (216.0, 208.0), COLLECTS_OFTEN), "late"),
        (COLLECTS_EVERY_SECOND, eight((2400.0,) * 10 + (2160.0,) * 2, COLLECTS_EVERY_SECOND), IDLE),
        (
            COLLECTS_EVERY_SECOND,
            eight((2400.0,) * 10 + (2160.0, 2152.0), COLLECTS_EVERY_SECOND),
            "late",
        ),
        (HOURLY, eight((480.0, 420.0), HOURLY), NO_DATA),
        (HOURLY, eight((420.0, 0.0), HOURLY, series=(1.0, 1.0)), NO_DATA),
        # Required figures: in the newest 20 minutes less the lag and a period, or in the two newest
        # periods.
        (EVERY_MINUTE, {"cpu": END - 12 * MINUTE}, IDLE),
        (EVERY_MINUTE, {"cpu": END - 14 * MINUTE}, "late"),
        (LAGS, {"cpu": END - 20 * MINUTE}, IDLE),
        (LAGS, {"cpu": END - 21 * MINUTE}, "late"),
    ],
)
def test_periods_collections_and_the_lag_count(policy: Policy, evidence: Any, kind: str) -> None:
    """Readings of one GPU alone, or only the time when its CPU was measured last."""
    match evidence:
        case tuple():
            evidence = over(evidence, policy=policy)
        case dict():
            window = over((1.0,) * (60 // int(policy.period / MINUTE)), policy=policy)
            evidence = replace(window, last_measured={"network": END, **evidence})
    verdict = told(evidence, policy)
    assert kind == ("late" if verdict.is_late else verdict.kind)


def test_of_an_hour_only_an_hour_is_said() -> None:
    """The last minutes of a period of an hour cannot be shown."""
    verdict = told(over((1.0, None), policy=HOURLY), HOURLY)
    assert "GPU 0 published nothing in the newest 1 h" in verdict.reason
    assert "in the newest 60 min" in told(eight((480.0, 420.0), HOURLY), HOURLY).reason


@pytest.mark.parametrize(
    ("figures", "kind", "reason"),
    [
        ({}, NO_DATA, "publishes is required by the policy and was not published"),
        (
            {"bound_utilization_percent": 5.0},
            BUSY,
            "that the instance itself publishes reached 5.0%",
        ),
        (
            {"bound_utilization_percent": 4.9, "measured_percent": {"bound": 9.0}},
            NO_DATA,
            "9% of the window",
        ),
        ({"bound_utilization_percent": 4.9}, IDLE, "Idle for 1 h"),
    ],
)
def test_what_an_instance_must_say_of_itself(figures: Any, kind: VerdictKind, reason: str) -> None:
    """Where the policy asks for it, and only there."""
    measured = {
        **dict.fromkeys(("cpu", "network", "bound"), 100.0),
        **figures.get("measured_percent", {}),
    }
    newest = dict.fromkeys(("cpu", "network", "bound"), END)
    evidence = make_evidence(**{**figures, "measured_percent": measured, "last_measured": newest})
    assert (kind, True) == (told(evidence, BOUND).kind, reason in told(evidence, BOUND).reason)
    assert IDLE is told(evidence).kind


def test_of_two_answers_the_stricter_holds() -> None:
    """The later date, and an exemption of either."""
    short, long, mine = Hold(NOW), Hold(NOW + SECOND), Hold(exempt_reason="mine")
    assert long == short.stricter(long) == long.stricter(short) == long.stricter(NO_HOLD)
    assert Hold(NOW, "mine") == mine.stricter(short) == short.stricter(mine)


def test_of_two_answers_each_keeps_its_project_and_its_author() -> None:
    """The keep of one and the exemption of the other: people read who has given which."""
    kept = Hold(NOW + SECOND, kept_in="vision", kept_by="approval-1", keeper="bob@example.com")
    exempt = Hold(NOW, "mine (ann)", kept_in="llm", exempt_in="llm", exempt_by="ann")
    both = replace(kept, exempt_reason="mine (ann)", exempt_in="llm", exempt_by="ann")

    assert both == kept.stricter(exempt) == exempt.stricter(kept)


@pytest.mark.parametrize(
    ("gpus", "advice"),
    [
        (
            ((90.0,) * 12, QUIET),
            "right-size: GPU 1 did nothing; 1 worked, at 90% on average. A type with 1 "
            "accelerator would do",
        ),
        (
            ((90.0,) * 12, QUIET, (30.0,) * 12, QUIET),
            "right-size: GPUs 1, 3 did nothing; 2 worked, at 60% on average. "
            "A type with 2 accelerators would do",
        ),
    ],
)
def test_the_advice_counts(gpus: tuple[Series, ...], advice: str) -> None:
    """Those that worked, and those that were measured enough and did not."""
    verdict = told(make_evidence(*gpus))
    assert (VerdictKind.PARTLY_IDLE, (advice,)) == (verdict.kind, verdict.advice)
    half = len(gpus) // 2
    works = "works" if half == 1 else "work"
    assert (
        verdict.reason == f"{half} of {2 * half} GPUs {works} (up to 90.0%), {half} stayed under 5%"
    )
    assert (advice,) == told(make_evidence(*gpus, gpus_expected=None)).advice


def test_a_gpu_that_was_measured_just_enough_did_nothing() -> None:
    """As for idleness."""
    policy = replace(POLICY, idle=IdleRule(minimum_coverage_percent=75.0))
    thin = (*MISSING, *QUIET[3:])
    assert VerdictKind.PARTLY_IDLE is told(make_evidence((90.0,) * 12, thin), policy).kind
    assert BUSY is told(make_evidence((90.0,) * 12, thin)).kind


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"longest_hole_minutes": {"cpu": 15.0}}, None),
        ({"longest_hole_minutes": {"cpu": 16.0}}, "CPU was not measured for 16 min of the window"),
        ({"longest_hole_minutes": {"power": 16.0}}, None),
        ({"gpus": (GpuReadings("0", (*QUIET[:3], *MISSING, *QUIET[:6])),)}, None),
        (
            {"gpus": (GpuReadings("0", (*QUIET[:3], *MISSING, None, *QUIET[:5])),)},
            "GPU readings were missing for more than 15 min, up to Fri Nov 20, 11:35 UTC",
        ),
    ],
)
def test_a_hole_of_more_than_a_quarter_of_an_hour_is_no_proof(
    changes: Any, reason: str | None
) -> None:
    """A hole of a GPU, or of a figure that is required. It is tried again when it has left the
    window."""
    found = judge_holes(make_evidence(**changes), POLICY)
    assert reason == (found and found.reason)
    if found and "GPU" in found.reason:
        assert END - 25 * MINUTE + POLICY.window == found.not_before


@pytest.mark.parametrize(
    ("samples", "until"),
    [
        (FULL, None),
        (FULL[:3] + (35.0,) * 4 + FULL[:5], END - 25 * MINUTE),
        ((*FULL[:3], 35.0, 35.0, 35.0, 36.0, *FULL[:5]), None),
        (FULL[:8] + (35.0,) * 4, END),
        ((35.0,) * 4 + FULL[:8], END - 40 * MINUTE),
        ((*FULL[:3], 40.0, None, None, 40.0, *FULL[:5]), END - 15 * MINUTE),
    ],
)
def test_a_gpu_that_one_series_may_hide_is_a_hole(samples: Series, until: Any) -> None:
    """No more samples in four periods than seven publish; where each has its own series, none is
    hidden."""
    found = judge_holes(eight(samples), POLICY)
    assert (until and until + POLICY.window) == (found and found.not_before)
    assert judge_holes(eight(samples, gpus_expected=1), POLICY) is None
    assert judge_holes(make_evidence(samples=samples), POLICY) is None


SCATTERED = (None,) * 4 + (1.0, None) * 4 + (1.0,) * 4
"""Half of the periods are missing, a quarter of them in one hole."""
CPU: Any = {"measured_percent": {"cpu": 70.0, "network": 100.0}}


@pytest.mark.parametrize(
    ("series", "needed", "changes", "is_short"),
    [
        (SCATTERED, 75.0, {}, True),
        (SCATTERED, 75.1, {}, False),
        (SCATTERED, 50.0, {}, False),
        ((None,) * 5 + (1.0,) * 7, 80.0, {}, True),
        ((None,) * 6 + (1.0,) * 6, 80.0, {}, False),
        (QUIET, 80.0, {}, False),
        (QUIET, 80.0, {**CPU, "longest_hole_minutes": {"cpu": 6.0}}, True),
        (QUIET, 80.0, CPU, False),
        (QUIET, 80.0, {"measured_percent": {}}, False),
        ((None,) * 5 + (1.0,) * 7, 80.0, {"measured_percent": {}}, False),
        ((None,) * 5 + (1.0,) * 7, 80.0, {"measured_percent": {}, "read": frozenset()}, True),
    ],
)
def test_one_short_hole_is_told_from_too_little(
    series: Series, needed: float, changes: Any, *, is_short: bool
) -> None:
    """Less than half an hour, and all the rest is measured enough: of every GPU and figure that was
    read."""
    policy = replace(POLICY, idle=IdleRule(minimum_coverage_percent=needed))
    assert is_short is is_short_hole(over(series, **changes), policy)


def test_half_an_hour_is_not_late_any_more() -> None:
    """Nor for a figure."""
    verdict = judge_age(
        make_evidence(last_measured={"cpu": ago(minutes=30), "network": NOW}), POLICY, NOW
    )
    assert verdict is not None
    assert not verdict.is_late


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"gpus": (GpuReadings("0", (4.9,)), GpuReadings("1", (1.0,)))}, None),
        (
            {"gpus": (GpuReadings("0", (5.0,)), GpuReadings("1", (1.0,)))},
            "utilization reached 5.0%",
        ),
        ({"gpus": (), "aggregate": (9.0,)}, "utilization reached 9.0%"),
        ({"gpus": (), "cpu_percent": 29.9}, None),
        ({"gpus": (), "cpu_percent": 30.0}, "CPU reached 30.0%"),
        ({"network_bytes_per_second": 1e6}, "network traffic reached 1.00 MB/s"),
        ({"memory_used_percent": 99.0}, None),
    ],
)
def test_what_has_happened_since(changes: Any, said: str | None) -> None:
    """At a limit of the policy; what it does not limit may be as high as it likes."""
    assert said == activity(make_evidence(**changes), POLICY)


def test_who_runs_it_is_said() -> None:
    """With the mark by which that is known."""
    manager = Manager("Karpenter", "the tag karpenter.sh/nodepool")
    said = "Idle for 1 h (every GPU under 5%). Karpenter runs it (the tag karpenter.sh/nodepool)."
    assert said == idle_sentence(timedelta(hours=1), POLICY, manager)


def test_a_candidate_is_what_utilization_alone_calls_idle() -> None:
    """The other figures of anything else need not be read."""
    assert is_candidate(make_evidence(cpu_percent=None), POLICY)
    assert not is_candidate(make_evidence((90.0,) * 12), POLICY)


def test_a_keep_stands_until_its_moment_and_not_at_it() -> None:
    """As the sweep takes it: what is over then is judged."""
    assert Hold(snoozed_until=NOW + SECOND).stands(NOW)
    assert not Hold(snoozed_until=NOW).stands(NOW)


def test_of_two_keeps_the_project_of_the_longer_one_counts() -> None:
    """Whichever of the two is asked."""
    short, long = Hold(NOW, kept_in="vision"), Hold(NOW + SECOND, kept_in="llm")
    assert long == short.stricter(long) == long.stricter(short)
