"""Traces are replayed as the evaluation replays them, and required to hold no more than they do."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.rule import Rule
from evaluation.scoring import replay as score
from evaluation.traces import Trace, TraceError
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.judging import IdleRule, Metrics
from governor.policy.model.money import Prices
from governor.policy.model.policy import Policy
from simulation.replay import replay
from simulation.report import summarize
from simulation.traces import UtilizationOnly, as_recording, read_traces
from tests.twins import StaticPolicies
from tests.unit.simulation.builders import BUSY, HOLE, IDLE


@given(
    gpus=st.lists(
        st.lists(
            st.tuples(st.sampled_from([IDLE, IDLE, BUSY]), st.integers(1, 60)),
            min_size=1,
            max_size=15,
        ),
        min_size=1,
        max_size=3,
    ),
    held=st.lists(
        st.tuples(st.sampled_from([2.0, 2.0, 60.0, HOLE]), st.integers(1, 60)), min_size=1
    ),
    asks=st.sampled_from([(30, 30), (60, 60), (180, 90), (360, 90)]),
)
def test_a_replay_agrees_with_the_evaluation(
    gpus: list[list[tuple[float, int]]], held: list[tuple[float, int]], asks: tuple[int, int]
) -> None:
    """Two programs, one answer: the same questions and the same hours, when nobody has to be waited
    for."""
    # It begins with work: the first window after a start is judged a period later by the product.
    columns = [[BUSY, *(value for value, count in parts for _ in range(count))] for parts in gpus]
    length = min(map(len, columns))
    memory = [value for value, count in held for _ in range(count)]
    memory = (memory * (length // len(memory) + 1))[:length]
    trace = Trace(
        "made-up",
        "one",
        1_000,
        tuple(array("d", one[:length]) for one in columns),
        tuple(array("d", memory) for _ in columns),
    )
    wait, sooner = asks
    policy = Policy(
        idle=IdleRule(window_minutes=min(60, wait), grace_after_launch_minutes=0),
        metrics=replace(Metrics(), lag_seconds=0),
        approval=ApprovalRule(ask_after_minutes=wait, ask_after_released_minutes=sooner),
    )
    recording = as_recording(trace, policy.metrics)
    assert recording is not None
    found = replay(
        "one", UtilizationOnly(StaticPolicies(policy)), [recording], approval_delay=timedelta(0)
    )
    expected = score(trace, Rule(wait, sooner))
    stops = [event.stop for event in found.results[0].events if event.stop]
    # A question with the very last bin stops nothing any more.
    last = expected.questions + expected.censored - len(stops)
    assert last in (0, 1)
    assert expected.caught_bins == sum(stop.length // timedelta(minutes=5) for stop in stops)


def test_policies_require_nothing_that_traces_do_not_hold() -> None:
    """Everything else is as it was."""
    policy = Policy(idle=IdleRule(window_minutes=120))
    changed = UtilizationOnly(StaticPolicies(policy)).base().policy
    assert () == changed.vetoes.required
    assert policy == replace(changed, vetoes=policy.vetoes)


def test_a_policy_may_price_what_traces_do_not(tmp_path: Path) -> None:
    """By the made-up type that tells the number of GPUs."""
    rows = [f"s1,{gpu},{minute * 60},0\n" for minute in range(360) for gpu in range(2)]
    file = tmp_path / "trace.csv"
    file.write_text("instance_id,gpu_index,timestamp_s,utilization_gpu\n" + "".join(rows))
    (recording,) = read_traces(file, Metrics(), pytest.fail)
    policy = Policy(prices=Prices(usd_per_hour={"trace-2-gpu": Decimal(2)}))
    found = replay(
        "one", UtilizationOnly(StaticPolicies(policy)), [recording], approval_delay=timedelta(0)
    )
    one = summarize(found)
    assert (1, 0) == (one.stops, one.unpriced_stops)
    assert 2 * one.hours_saved == pytest.approx(one.usd_saved)


def test_a_directory_without_traces_is_refused(tmp_path: Path) -> None:
    """As the evaluation says it."""
    with pytest.raises(TraceError):
        read_traces(tmp_path, Metrics(), pytest.fail)
