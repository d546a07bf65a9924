"""A replay asks the past as the sweep does, from what was recorded until then."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.adapters.catalogue import ShippedCatalogue
from governor.domain.detection.history import History
from governor.domain.evidence import MetricSource, empty_evidence
from governor.domain.policy import Action, ApprovalRule, Mode, PlanRule, Policy, Survival
from governor.domain.verdict import Verdict, VerdictKind
from governor.usecases.ask_the_past import Proved, ReadPast
from governor.usecases.gather_evidence import Gathered, GatherEvidence
from simulation.outcome import Ending
from simulation.past import RecordedPast
from simulation.recording import PERIOD, RecordedMetrics, Recording, highest
from simulation.track import Track
from simulation.wish import wish_of
from tests.builders import by_window, make_instance
from tests.unit.simulation.builders import BUSY, HOLE, HOUR, IDLE, START, at, bins, make_recording, run
from tests.unit.usecases.fleet_world import UTILIZATION, FleetWorld

SURVIVAL = Policy(mode=Mode.ASK, detector="survival")
LAG = timedelta(minutes=5)
FOUR_GPUS = "g5.12xlarge"
BURSTS = [one for _ in range(30) for one in ((BUSY, 0.25), (IDLE, 2.5))]
"""Work for a quarter of an hour, then nothing for two and a half, for three days and more."""


def test_pauses_like_all_earlier_ones_are_not_asked_about() -> None:
    """The threshold asks in every one of them; survival, once it knows the instance, in none."""
    recording = make_recording(bins(*BURSTS))

    by_threshold = run(recording, policy=replace(SURVIVAL, detector="threshold")).results[0].events
    by_survival = run(recording, policy=SURVIVAL).results[0].events

    assert len(by_threshold) > 25
    # Nothing was known in the first pause; what it learnt from it holds from then on.
    assert [at(0.25 + 2) + LAG] == [event.found_at for event in by_survival]


def test_the_proof_is_asked_for_again_every_quarter_of_an_hour() -> None:
    """From the moment the rule was met on, which is 65 minutes after the last work."""
    (event,) = run(make_recording(bins((BUSY, 1), (IDLE, 12))), policy=SURVIVAL).results[0].events
    assert (at(2) + LAG + timedelta(hours=1), Ending.STOPPED) == (event.found_at, event.ending)


def test_what_was_stopped_is_a_hole_in_its_past() -> None:
    """Nobody would have seen the rest of the stretch; only pauses that nobody cut short are known."""
    policy = replace(SURVIVAL, survival=Survival(unproven_minutes=60, interruption_times=1.0))
    stopped = bins((BUSY, 1), (IDLE, 3.5), (BUSY, 1), (IDLE, 3.5))
    waiting = run(make_recording(stopped), policy=policy, delay=timedelta(days=9)).results[0].events
    cut_short = run(make_recording(stopped), policy=policy).results[0].events

    assert [at(2) + LAG] == [event.found_at for event in waiting]
    assert [at(2) + LAG, at(6.5) + LAG] == [event.found_at for event in cut_short]


def test_the_recheck_asks_the_past_as_well() -> None:
    """A hole between question and answer leaves too little of the proof measured."""
    quiet = bins((BUSY, 1), (IDLE, 2.1), (HOLE, 0.4), (IDLE, 8))
    policy = replace(
        SURVIVAL, idle=replace(SURVIVAL.idle, window_minutes=5), survival=Survival(minimum_evidence=100.0)
    )
    recording = make_recording(quiet, cpu=[1.0] * len(quiet))
    recorded = run(recording, policy=policy, delay=timedelta(minutes=50)).results[0].events

    assert Ending.REFUSED is recorded[0].ending
    assert "needed" in recorded[0].reason


def mixed(seed: int, days: int) -> list[list[float]]:
    """Four GPUs of which the last appears later: rhythm, bursts, short and long holes."""
    chance = random.Random(seed)
    first: list[float] = []
    while len(first) < days * 24 * HOUR:
        first += [BUSY] * chance.choice((1, 2, 6, 30))
        first += [IDLE] * chance.choice((3, 14, 20, 40, 90))
        first += [HOLE] * chance.choice((0, 0, 0, 1, 2, 3, 14))
    first = first[: days * 24 * HOUR]
    late = len(first) // 4
    quiet = [IDLE if value == value else HOLE for value in first]
    return [first, quiet, quiet, [HOLE] * late + quiet[late:]]


def by_gpu(gpus: Sequence[Sequence[float]]) -> Recording:
    """Published GPU by GPU; everything else quiet."""
    instance = make_instance(launch_time=START - timedelta(days=90), instance_type=FOUR_GPUS)
    busiest = highest([array("d", gpu) for gpu in gpus], len(gpus[0]))
    recording = make_recording(busiest, cpu=[1.0] * len(busiest), instance=instance)
    names, shape = SURVIVAL.metrics, ShippedCatalogue().shape(FOUR_GPUS)
    sets = tuple(
        (("InstanceId", instance.instance_id), ("index", str(number))) for number in range(len(gpus))
    )
    series = {key: one for key, one in recording.series.items() if key[0] != names.utilization}
    series |= {
        (names.utilization, one, "Maximum"): array("d", gpu) for one, gpu in zip(sets, gpus, strict=True)
    }
    return replace(recording, sets=sets, source=MetricSource.PER_GPU, series=series, shape=shape)


def swept(gpus: Sequence[Sequence[float]], index: int, policy: Policy) -> str:
    """What a live sweep says at the beginning of that bin, which sees the bins before the last one."""
    world = FleetWorld(policy)
    world.clock.moment = START + index * PERIOD
    instance_id = world.add(1, launch_time=START - timedelta(days=90), instance_type=FOUR_GPUS)
    world.silence(instance_id)
    for number, gpu in enumerate(gpus):
        seen = [None if value != value else value for value in gpu[: index - 1]]
        if any(value is not None for value in seen):
            world.metrics.publish(UTILIZATION, {"InstanceId": instance_id, "index": str(number)}, seen)
    for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        world.metrics.publish(metric, {"InstanceId": instance_id}, [1.0] * 12)
    world.sweep()
    return world.verdict(instance_id)


@pytest.mark.parametrize(("seed", "history_days"), [(1, 14), (2, 14), (3, 1), (4, 2)])
def test_a_replay_finds_idle_what_a_live_sweep_finds_idle(seed: int, history_days: int) -> None:
    """At many moments of the same data, also where the past is longer than the policy looks back."""
    policy = replace(
        SURVIVAL,
        # Told only, and told again at once: every moment that is judged idle leaves its mark.
        plan=PlanRule(action=Action.NOTIFY_ONLY),
        approval=ApprovalRule(ask_again_after_hours=0, retry_unopened_after_minutes=0),
        survival=Survival(history_days=history_days, ask_again_after_minutes=0),
    )
    gpus = mixed(seed, days=4)
    found = {event.found_at for event in run(by_gpu(gpus), policy=policy).results[0].events}
    # Live, work in the last five minutes is seen by the second look, after the sweep.
    moments = [index for index in range(24, len(gpus[0]), 11) if not gpus[0][index - 1] >= BUSY]

    live = {index for index in moments if swept(gpus, index, policy) == "idle"}
    assert live == {index for index in moments if START + index * PERIOD in found}
    by_rule = {index for index in moments if swept(gpus, index, by_window(mode=Mode.ASK)) == "idle"}
    assert live
    assert live < by_rule


def test_interruptions_that_the_past_counts_are_read() -> None:
    """A back-test reads 5-minute data wherever a stretch matters, were it shorter than the window."""
    assert timedelta(hours=1) == wish_of([SURVIVAL]).shortest
    often = replace(SURVIVAL, survival=Survival(unproven_minutes=60, interruption_times=3.0))
    assert timedelta(minutes=20) == wish_of([often]).shortest
    assert timedelta(hours=1) == wish_of([replace(often, detector="threshold")]).shortest


@pytest.mark.parametrize("history_days", [1, 14])
def test_a_recorded_past_is_the_one_that_would_be_read(history_days: int) -> None:
    """Bin by bin in all that a detector asks, also when a GPU appears and when it leaves the window."""
    policy = replace(SURVIVAL, survival=Survival(history_days=history_days))
    gpus = mixed(5, days=3)
    half = len(gpus[0]) // 2
    gpus[1] = gpus[1][:half] + [HOLE] * half
    gpus[3] = [HOLE] * half + gpus[3][half:]
    recording = by_gpu(gpus)
    instance = recording.instance
    evidence = empty_evidence(recording.span)
    gathered = Gathered(evidence, recording.sets, MetricSource.PER_GPU.value, searched=False)
    asked = [Proved(instance, policy, gathered, Verdict(VerdictKind.IDLE, "quiet"))]
    read = ReadPast(GatherEvidence(RecordedMetrics([recording]), ShippedCatalogue()))
    recorded = RecordedPast([Track(recording, policy)])

    for index in range(24, len(gpus[0]), 25):
        now = recording.time(index)
        both = [past(instance.target, asked, now)[instance.instance_id] for past in (read, recorded)]
        known = [
            (one.idle_bins, one.is_measured_now, one.now_bin, one.gaps, one.is_covered(12, 0.8))
            for one in both
            if isinstance(one, History)
        ]
        assert known[0] == known[1], index
