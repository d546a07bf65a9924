"""The fast rule: the window, holes, the measured end, released memory, and what a stop leaves
behind."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.rule import Rule, Seen
from evaluation.traces import Trace
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.request import EvidenceRequest
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.judging import IdleRule, Metrics, Vetoes
from governor.policy.model.policy import Policy
from governor.verdict.model import VerdictKind
from governor.verdict.rules.judge import is_candidate
from governor.verdict.rules.judging import Subject
from simulation.recording import RecordedMetrics
from simulation.traces import as_recording
from tests.unit.evaluation.builders import BUSY, HOLE, HOUR, IDLE, bins_of, of_text, trace_of

PLAIN = Rule(60)
DEFAULT = Rule(180, 90)
texts = st.text("iiib-", max_size=60).map(lambda text: text.replace("i", "iiii"))


def asked(trace: Trace, rule: Rule = PLAIN) -> list[int]:
    """Indices of the bins at whose end the rule asks."""
    seen = Seen(trace)
    return [index for index in range(trace.length) if seen.asks(rule, index)]


def test_it_asks_when_the_whole_window_is_idle() -> None:
    """From the bin that completes the hour, until work."""
    trace = trace_of(bins_of((BUSY, 1), (IDLE, 2), (BUSY, 1)))
    assert list(range(2 * HOUR - 1, 3 * HOUR)) == asked(trace)


@pytest.mark.parametrize("minutes", [0, -60, 62])
def test_a_window_is_a_whole_number_of_bins(minutes: int) -> None:
    """The window of the question, and that of the shorter wait."""
    with pytest.raises(ValueError, match="5-minute bins"):
        Rule(minutes)
    if minutes:
        with pytest.raises(ValueError, match="5-minute bins"):
            Rule(180, minutes)


def test_every_gpu_must_be_idle() -> None:
    """One that works keeps the others."""
    quiet = bins_of((IDLE, 2))
    assert asked(trace_of(quiet, quiet))
    assert not asked(trace_of(quiet, bins_of((BUSY, 2))))
    assert not asked(trace_of(quiet, bins_of((HOLE, 2))))


@pytest.mark.parametrize(
    ("window", "asks"),
    [
        ("iiiiiiiiiiii", True),
        ("--iiiiiiiiii", True),
        ("-iiii-iiiiii", True),
        ("-iii-ii-iiii", False),  # nine of twelve
        ("iiiii--iiiii", True),
        ("iiii---iiiii", False),
        ("iiiiiiiiii-i", False),
        ("iiiiiiiiiii-", False),
    ],
)
def test_four_fifths_must_be_measured_and_the_two_newest_bins(window: str, asks: bool) -> None:
    """Three missing bins of an hour are one too many."""
    assert asks is ((HOUR * 2 - 1) in asked(trace_of(of_text("b" * HOUR + window))))


@pytest.mark.parametrize(("hole", "asks"), [(3, True), (4, False)])
@pytest.mark.parametrize("at", [0, 9, 25])
def test_no_hole_is_longer_than_a_quarter_of_an_hour(hole: int, asks: bool, at: int) -> None:
    """Wherever it lies in three hours, however much of them is measured."""
    window = "i" * at + "-" * hole + "i" * (36 - hole - at)
    assert asks is (71 in asked(trace_of(of_text("b" * 36 + window)), Rule(180)))


@pytest.mark.parametrize(("second", "asks"), [(20, True), (12, False)])
def test_a_hole_of_one_gpu_and_the_next_of_another_are_one(second: int, asks: bool) -> None:
    """Ten minutes each: apart they are forgiven, one after the other nobody saw all GPUs for
    twenty."""
    gpus = ["i" * at + "--" + "i" * (34 - at) for at in (10, second)]
    trace = trace_of(*(of_text("b" * 36 + gpu) for gpu in gpus))
    assert asks is (71 in asked(trace, Rule(180)))


@pytest.mark.parametrize("early", [3, 4])
def test_nothing_is_known_from_before_the_first_bin(early: int) -> None:
    """It counts as a hole."""
    assert (early == 3) is bool(asked(trace_of([IDLE] * (36 - early)), Rule(180)))


@pytest.mark.parametrize(
    ("memory", "first"),
    [
        ([2.0] * 60, 12 + 18 - 1),
        ([50.0] * 60, 12 + 36 - 1),
        ([HOLE] * 60, 12 + 36 - 1),
        ([10.0] * 60, 12 + 36 - 1),
        ([50.0] * 32 + [9.9] * 28, 34),
        ([50.0] * 32 + [2.0, HOLE] * 14, 12 + 36 - 1),
    ],
    ids=[
        "released",
        "held",
        "unknown",
        "at the limit",
        "released later",
        "not measured throughout",
    ],
)
def test_released_memory_asks_sooner(memory: list[float], first: int) -> None:
    """After 90 minutes instead of 180, once the newest 15 minutes show it; unknown is held."""
    quiet = bins_of((BUSY, 1), (IDLE, 4))
    assert first == asked(trace_of(quiet, memory=[memory]), DEFAULT)[0]
    assert 12 + 36 - 1 == asked(trace_of(quiet, memory=[memory]), Rule(180))[0]


def test_memory_that_one_gpu_holds_is_held() -> None:
    """Every GPU must have released it."""
    quiet = bins_of((BUSY, 1), (IDLE, 4))
    trace = trace_of(quiet, quiet, memory=[[2.0] * 60, [50.0] * 60])
    assert 12 + 36 - 1 == asked(trace, DEFAULT)[0]


def test_a_stop_leaves_a_hole() -> None:
    """Readings from the time when it would have been off are not seen."""
    trace = trace_of([IDLE] * 60)
    seen = Seen(trace)
    assert seen.asks(PLAIN, 40)
    seen.stop(30, 40)
    assert not seen.asks(PLAIN, 40)
    assert not seen.asks(PLAIN, 48)
    assert seen.asks(PLAIN, 49)  # two of the ten bins are left in the hour
    assert seen.asks(PLAIN, 29)


@given(texts, st.sampled_from([PLAIN, Rule(120), DEFAULT]), st.data())
def test_more_work_and_fewer_readings_never_ask(text: str, rule: Rule, data: st.DataObject) -> None:
    """A question that is asked with less evidence would have been asked with more."""
    values = of_text(text)
    fewer = list(values)
    for index in data.draw(st.lists(st.integers(0, max(0, len(values) - 1)), max_size=6)):
        if values and values[index] == IDLE:
            fewer[index] = data.draw(st.sampled_from([BUSY, HOLE]))
    memory = [[2.0] * len(values)]
    less, more = (set(asked(trace_of(one, memory=memory), rule)) for one in (fewer, values))
    assert less <= more


@given(texts, st.integers(0, 300))
def test_what_comes_later_changes_no_answer(text: str, cut: int) -> None:
    """Another ending, the same questions before it."""
    trace = trace_of(of_text(text))
    values = trace.gpus[0]
    other = replace(trace, gpus=(values[:cut] + array("d", [BUSY] * len(values[cut:])),))
    before, after = ([index for index in asked(one) if index < cut] for one in (trace, other))
    assert before == after


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """One to three quiet GPUs that hold no memory, with short patches of something else."""
    length = draw(st.sampled_from([3, 12, 24, 40, 60]))

    def column(quiet: float, *others: float) -> list[float]:
        found = [quiet] * length
        patches = st.tuples(st.integers(0, length - 1), st.integers(1, 5), st.sampled_from(others))
        for at, size, value in draw(st.lists(patches, max_size=3)):
            found[at : at + size] = [value] * len(found[at : at + size])
        return found

    gpus = range(draw(st.integers(1, 3)))
    return trace_of(
        *(column(IDLE, 4.999, 5.0, HOLE, HOLE, -1.0) for _ in gpus),
        memory=[column(2.0, 9.999, 10.0, 60.0, HOLE) for _ in gpus],
    )


@given(
    traces(), st.sampled_from([(30, 15), (60, 30), (120, 60), (120, 90)]), st.sampled_from([15, 30])
)
def test_it_agrees_with_the_products_own_judgment(
    trace: Trace, waits: tuple[int, int], window_minutes: int
) -> None:
    """At the end of every bin, on what `GatherEvidence` makes of the same readings."""
    wait, sooner = waits
    policy = Policy(
        idle=IdleRule(window_minutes=min(window_minutes, sooner)),
        metrics=replace(Metrics(), lag_seconds=0),
        approval=ApprovalRule(ask_after_minutes=wait, ask_after_released_minutes=sooner),
        vetoes=Vetoes(required=()),
    )
    recording = as_recording(trace, policy.metrics)
    assert recording is not None
    instance = replace(recording.instance, launch_time=recording.span.start - timedelta(days=30))
    shape = recording.shape

    gather = GatherEvidence(RecordedMetrics([recording]), lambda _: shape)

    def proves(index: int, window: timedelta) -> bool:
        now = recording.time(index + 1)
        request = EvidenceRequest(
            instance,
            policy,
            dimensions=recording.sets,
            source=recording.source.value,
            search=False,
            figures=frozenset({"memory"}),
            only_if=is_candidate,
            length=window,
        )
        evidence = gather(instance.target, [request], now)[instance.instance_id].evidence
        return (
            Subject(instance, policy, now).judge_question(evidence, window).kind is VerdictKind.IDLE
        )

    product = [
        index
        for index in range(trace.length)
        if proves(index, policy.ask_window) or proves(index, policy.released_window)
    ]
    assert asked(trace, Rule(wait, sooner)) == product
