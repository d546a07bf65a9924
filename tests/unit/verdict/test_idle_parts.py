"""The number of idle GPUs of a partly idle instance: counted once, and never guessed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.evidence.model import GpuReadings, MetricSource
from governor.fleet.rules.states import WORDS, State
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import ProfileName
from governor.scan.model import Finding
from governor.verdict.model import (
    NO_HOLD,
    PART_COLUMNS,
    IdleParts,
    Verdict,
    VerdictKind,
    part_values,
    partly_idle_text,
)
from governor.verdict.rules.judge import judge
from governor.verdict.rules.judging import Memory, Subject
from tests.builders import NOW, POLICY, QUIET, ago, make_evidence, make_instance

WORKS = (90.0,) * 12
THIN = (None,) * 6 + QUIET[6:]
"""Measured for half of the window, which proves nothing."""
INSTANCE = make_instance(launch_time=ago(days=9))
NEURON = Policy(metrics=Metrics(profile=ProfileName.NEURON, utilization="neuroncore_utilization"))
SEVEN_OF_EIGHT = IdleParts(7, 8, "GPU")
END = make_evidence().window.end


def told(*gpus: Any, policy: Policy = POLICY, **changes: Any) -> Verdict:
    """The verdict on an instance with these GPUs, which has run for long."""
    return judge(INSTANCE, NO_HOLD, make_evidence(*gpus, **changes), policy, NOW)


def test_the_idle_gpus_are_counted_among_all_of_the_instance() -> None:
    verdict = told(WORKS, *[QUIET] * 7)

    assert (VerdictKind.PARTLY_IDLE, SEVEN_OF_EIGHT) == (verdict.kind, verdict.idle_parts)
    assert verdict.reason == "1 of 8 GPUs works (up to 90.0%), 7 stayed under 5%"


@pytest.mark.parametrize("measured", [6, 8])
def test_a_gpu_that_was_measured_too_little_is_counted_but_not_as_idle(measured: int) -> None:
    """It published for a short time, or has no series. The reason is about the other GPUs."""
    thin = [THIN] * (measured - 6)
    verdict = told(WORKS, *[QUIET] * 5, *thin, gpus_expected=8)

    assert IdleParts(5, 8, "GPU") == verdict.idle_parts
    assert verdict.reason == "1 of 6 measured GPUs works (up to 90.0%), 5 stayed under 5%"


def test_neuron_cores_are_called_so() -> None:
    verdict = told(WORKS, *[QUIET] * 31, policy=NEURON)

    assert IdleParts(31, 32, "NeuronCore") == verdict.idle_parts


@pytest.mark.parametrize(
    ("policy", "changes"),
    [
        (POLICY, {"gpus_expected": None}),
        (POLICY, {"gpus_expected": 3}),
        (NEURON, {"gpus_expected": 8}),
        (
            Policy(metrics=Metrics(profile=ProfileName.CUSTOM, series_per_device=2)),
            {"gpus_expected": 4},
        ),
    ],
    ids=["type not known", "more series than GPUs", "joined cores", "two series for each GPU"],
)
def test_no_number_is_given_where_a_series_may_not_be_one_gpu(
    policy: Policy, changes: dict[str, Any]
) -> None:
    verdict = told(WORKS, QUIET, QUIET, QUIET, policy=policy, **changes)

    assert (VerdictKind.PARTLY_IDLE, None) == (verdict.kind, verdict.idle_parts)


def test_an_aggregate_alone_shows_no_idle_gpu() -> None:
    """It is the busiest GPU of all."""
    aggregate = (GpuReadings("all", WORKS),)
    verdict = told(source=MetricSource.AGGREGATE, gpus=aggregate, gpus_expected=8)

    assert (VerdictKind.BUSY, None) == (verdict.kind, verdict.idle_parts)


def test_no_other_verdict_has_a_number() -> None:
    for gpus in ((WORKS, WORKS), (QUIET, QUIET), (QUIET, THIN)):
        assert told(*gpus).idle_parts is None


def test_a_sweep_that_reads_nothing_repeats_the_number() -> None:
    """Within an hour of the last work the metrics are not read, and the verdict stands."""
    first = Subject(INSTANCE, POLICY, NOW)
    verdict = first.after_reading(make_evidence(WORKS, *[QUIET] * 7))
    remembered = first.remembered(verdict, None)
    next_sweep = replace(first, now=NOW + timedelta(minutes=5), memory=remembered)
    repeated = next_sweep.before_reading()

    assert SEVEN_OF_EIGHT == remembered.idle_parts
    assert repeated is not None
    assert (VerdictKind.PARTLY_IDLE, SEVEN_OF_EIGHT) == (repeated.kind, repeated.idle_parts)


def test_a_memory_of_an_earlier_release_has_no_number() -> None:
    memory = Memory(ago(minutes=5), VerdictKind.PARTLY_IDLE, last_busy=END)
    repeated = Subject(INSTANCE, POLICY, NOW, memory=memory).before_reading()

    assert repeated is not None
    assert (VerdictKind.PARTLY_IDLE, None) == (repeated.kind, repeated.idle_parts)


def test_one_function_words_it() -> None:
    """The words of the filter and of a scan's finding are the same, without a number."""
    assert "partly idle: 7 of 8 GPUs" == partly_idle_text(SEVEN_OF_EIGHT)
    assert "partly idle: 31 of 32 NeuronCores" == partly_idle_text(IdleParts(31, 32, "NeuronCore"))
    assert "partly idle" == partly_idle_text(None)
    assert partly_idle_text(None) == WORDS[State.PARTLY_IDLE] == Finding.PARTLY_IDLE.value


def test_programs_read_numbers_and_no_sentence() -> None:
    assert ("idle_parts", "all_parts", "part_name") == PART_COLUMNS
    assert (7, 8, "GPU") == part_values(SEVEN_OF_EIGHT)
    assert (None, None, None) == part_values(None)
