"""Where the policy's detector asks the past, it may ask for a longer proof, and for nothing less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from governor.adapters.catalogue import ShippedCatalogue
from governor.contracts.policy import parse_policy
from governor.domain.detection.history import History
from governor.domain.evidence import Window, empty_evidence, window_before
from governor.domain.instance import Target
from governor.domain.policy import IdleRule, Policy, Survival, Targets
from governor.domain.verdict import Verdict, VerdictKind
from governor.errors import PolicyError, Unavailable
from governor.ports import MetricAnswer, MetricQuery
from governor.usecases.ask_the_past import AskThePast, Proved, ReadPast
from governor.usecases.gather_evidence import Gathered, GatherEvidence
from tests.builders import NOW, TARGET, by_window, make_instance
from tests.twins import MemoryMetrics
from tests.unit.usecases.builders import opener, ref_of
from tests.unit.usecases.fleet_world import FleetWorld

PAST = timedelta(days=14)
PERIOD = timedelta(minutes=5)
BINS = int(PAST / PERIOD)
SURVIVAL = Policy(survival=Survival(history_days=PAST.days))
UTILIZATION = "nvidia_smi_utilization_gpu"
TAGS = {"Purpose": "GPU-Workload"}
BURSTY = [90.0, *[0.0] * 30]
"""Work, then two and a half hours of nothing, then work again, for two weeks."""


def world_of(past: Sequence[float | None], policy: Policy = SURVIVAL) -> tuple[FleetWorld, str]:
    """One instance with these readings up to now, one in five minutes; CPU and network are quiet."""
    world = FleetWorld(policy)
    instance_id = world.add(1)
    world.change(instance_id, launch_time=world.clock.now() - PAST)
    world.metrics.publish(UTILIZATION, {"InstanceId": instance_id}, list(past))
    return world, instance_id


def ending_idle(minutes: int, rhythm: Sequence[float] = BURSTY) -> list[float | None]:
    """The past in this rhythm, with so many idle minutes at its end."""
    idle = minutes // 5
    past = (list(rhythm) * (BINS // len(rhythm) + 1))[: BINS - idle - 1]
    return [*past, 90.0, *[0.0] * idle]


def daily(hours: Sequence[int], minutes: int) -> list[float | None]:
    """Thirteen days that begin with so many idle hours in turn, and so many idle minutes of the next one."""
    days = [hours[day % len(hours)] * 12 for day in range(13)]
    past = [value for idle in days for value in [*[0.0] * idle, *[90.0] * (288 - idle)]]
    return [*past, *[0.0] * (minutes // 5)]


NIGHTS = [*[90.0] * 96, *[0.0] * 192]
"""Eight hours of work, sixteen of rest."""
PAUSES = [90.0, *[0.0] * 6]


def test_a_pause_like_all_its_earlier_ones_is_not_idle_yet() -> None:
    """Work resumes within three hours, as it always did; the rule of an hour alone would ask."""
    world, instance_id = world_of(ending_idle(70))
    world.sweep()
    assert ("resting", {}) == (world.verdict(instance_id), world.workflow.executions)
    assert "needed" in world.state.observations(TARGET)[instance_id].reason

    rule, same = world_of(ending_idle(70), by_window())
    rule.sweep()
    assert "idle" == rule.verdict(same)


def test_what_is_idle_for_longer_than_its_past_ever_was_is_idle() -> None:
    """Asked about, with the reason of the past."""
    world, instance_id = world_of(ending_idle(360))
    world.sweep()

    assert "idle" == world.verdict(instance_id)
    opened = opener(world)(ref_of(world, instance_id))
    assert opened.episode is not None
    assert "4 more hours stay idle" in opened.episode.reason or "are asked" in opened.episode.reason


def test_the_past_never_makes_a_working_instance_idle() -> None:
    """It is asked only about what the rules have proved."""
    world, instance_id = world_of([*[0.0] * (BINS - 1), 90.0])
    world.sweep()
    assert "busy" == world.verdict(instance_id)


def break_the_past(world: FleetWorld) -> None:
    """CloudWatch answers what is asked about the present, and throttles what reaches back for long."""
    read = world.metrics.read

    def only_the_present(target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        if window.end - window.start < PAST:
            return read(target, queries, window)
        return MetricAnswer({}, {query.key: "Throttling" for query in queries})

    world.metrics.read = only_the_present  # type: ignore[method-assign]


def test_a_past_that_cannot_be_read_proves_nothing() -> None:
    """Tried again, not guessed; and told as a problem of the sweep, not as silence of the instance."""
    world, instance_id = world_of(ending_idle(360))
    break_the_past(world)
    summary = world.sweep()
    assert ("resting", []) == (world.verdict(instance_id), world.announcer.sent)
    assert [True] == ["its past could not be read: Throttling" in problem for problem in summary.problems]
    reads = len(world.metrics.reads)
    world.sweep(5)
    assert len(world.metrics.reads) > reads
    with pytest.raises(Unavailable, match="its past could not be read"):
        opener(world)(ref_of(world, instance_id))


def test_pasts_that_cannot_be_read_are_no_outage() -> None:
    """Their present was read, and the breaker looks at that."""
    world = FleetWorld(SURVIVAL)
    ids = [world.add(number, [90.0] * 12) for number in range(1, 7)]
    world.sweep()
    break_the_past(world)
    for instance_id in ids[:5]:
        world.publish(instance_id, [0.0] * 12)
    world.state.set_sweep_days(TARGET, ())
    frozen = world.sweep(65)
    assert "turned idle" in str(world.announcer.sent[0].facts["why"])
    assert (5, True) == (len(frozen.problems), frozen.frozen)
    world.sweep(5)
    assert 1 == len(world.announcer.sent)


def test_a_short_past_asks_for_the_detectors_own_minimum() -> None:
    """Two hours where nothing is known."""
    holes: list[float | None] = [None] * (BINS - 20)
    young, first = world_of([*holes, *[0.0] * 20])
    young.sweep()
    assert "resting" == young.verdict(first)

    old, second = world_of([*[None] * (BINS - 30), *[0.0] * 30])
    old.sweep()
    assert "idle" == old.verdict(second)


def test_the_detector_is_made_for_one_threshold() -> None:
    """Another one would be another detector."""
    with pytest.raises(PolicyError, match="utilization_below_percent: 5"):
        parse_policy("detector: survival\nidle: {utilization_below_percent: 10}")


@pytest.mark.parametrize(
    ("past", "setting", "kinds"),
    [
        (daily((3, 10), 120), {"needed_chance_percent": 40.0}, ("resting", "idle")),
        (daily((3, 10), 120), {"worthwhile_hours": 1.0}, ("resting", "idle")),
        (daily((8,), 90), {"minimum_evidence": 20.0}, ("idle", "resting")),
        (daily((8,), 90), {"prior_weight": 50.0}, ("idle", "resting")),
        (daily((8,), 90), {"history_days": 1}, ("idle", "resting")),
        (ending_idle(90, NIGHTS), {"similar_start_hours": 6.0}, ("resting", "idle")),
        (ending_idle(90, PAUSES), {"unproven_minutes": 60}, ("resting", "idle")),
        (ending_idle(230), {"unproven_minutes": 240}, ("idle", "resting")),
        (ending_idle(200), {"interruption_times": 1.0}, ("resting", "idle")),
        (ending_idle(200), {"interruption_up_to_hours": 2.0}, ("resting", "idle")),
        (ending_idle(200), {"longest_proof_hours": 3}, ("resting", "idle")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_setting_of_the_policy_changes_what_it_is_for(
    past: list[float | None], setting: dict[str, Any], kinds: tuple[str, str]
) -> None:
    """The verdict by default, and with the one setting changed."""
    found = []
    for policy in (SURVIVAL, replace(SURVIVAL, survival=Survival(**setting))):
        world, instance_id = world_of(past, policy)
        world.sweep()
        found.append(world.verdict(instance_id))
    assert kinds == tuple(found)


def test_the_idle_rule_s_window_and_coverage_are_the_detector_s() -> None:
    """The past never asks for less than the rules do, and measures by the same share."""
    rule = IdleRule(window_minutes=90, minimum_coverage_percent=95)
    detector = replace(SURVIVAL, idle=rule).past_detector
    assert (90, 0.95) == (detector.minimum_minutes, detector.minimum_coverage)


def test_each_instance_is_judged_by_its_own_policy_over_its_own_past() -> None:
    """Two that look equally far back share a read; a third looks back further."""
    windows: list[tuple[int, int]] = []
    metrics = MemoryMetrics()
    read = metrics.read

    def noted(target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        windows.append((window.bins, len(queries)))
        return read(target, queries, window)

    metrics.read = noted  # type: ignore[method-assign]
    proved = []
    settings = (
        Survival(history_days=14),
        Survival(history_days=14, interruption_times=1.0),
        Survival(history_days=63),
    )
    for number, survival in enumerate(settings):
        instance = make_instance(instance_id=f"i-{number:017x}")
        metrics.publish(UTILIZATION, {"InstanceId": instance.instance_id}, ending_idle(200))
        gathered = Gathered(empty_evidence(window_before(NOW, PAST, PERIOD, PERIOD)), None, None, False)
        policy = replace(SURVIVAL, survival=survival)
        proved.append(Proved(instance, policy, gathered, Verdict(VerdictKind.IDLE, "quiet")))
    past = ReadPast(GatherEvidence(metrics, ShippedCatalogue()))

    verdicts = AskThePast(past)(TARGET, proved, NOW)

    assert sorted([(BINS, 2), (63 * 288, 1)]) == sorted(windows)
    kinds = [verdicts[one.instance.instance_id].kind for one in proved]
    assert [VerdictKind.RESTING, VerdictKind.IDLE, VerdictKind.RESTING] == kinds


def test_what_needs_a_longer_proof_is_not_read_again_for_a_while() -> None:
    """Half an hour by default, and its past not before the proof can be complete: reads are what costs."""
    world, instance_id = world_of([*[None] * (BINS - 14), *[0.0] * 14])
    lengths: list[timedelta] = []
    read = world.metrics.read

    def noted(target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        lengths.append(window.end - window.start)
        return read(target, queries, window)

    world.metrics.read = noted  # type: ignore[method-assign]
    world.sweep()
    assert PAST == max(lengths)
    lengths.clear()
    for _ in range(5):
        world.sweep(5)
        assert ([], "resting") == (lengths, world.verdict(instance_id))
    world.sweep(5)
    assert (True, "resting") == (PAST > max(lengths), world.verdict(instance_id))
    world.metrics.publish(UTILIZATION, {"InstanceId": instance_id}, [0.0] * 24)
    world.sweep(20)
    assert (PAST, "idle") == (max(lengths), world.verdict(instance_id))


def test_what_was_proved_is_not_asked_again_while_it_goes_on() -> None:
    """A fleet that another service runs, or whose plans are frozen, would keep all others waiting."""
    world = FleetWorld(replace(SURVIVAL, targets=Targets(pasts_asked_per_sweep=2)))
    ids = [world.add(number, tags={**TAGS, "aws:autoscaling:groupName": "asg"}) for number in range(1, 7)]
    for _ in range(3):
        world.sweep(5)
    assert {"managed-elsewhere"} == {world.verdict(instance_id) for instance_id in ids}
    world.sweep(5)
    assert {"managed-elsewhere"} == {world.verdict(instance_id) for instance_id in ids}
    for instance_id in ids:
        world.publish(instance_id, [90.0, *[0.0] * 11])
    world.sweep(5)
    assert {"busy"} == {world.verdict(instance_id) for instance_id in ids}


def test_it_is_read_again_as_soon_as_its_proof_can_be_complete() -> None:
    """Ten minutes are lacking: half an hour of waiting would be twenty minutes of GPU for nothing."""
    world, instance_id = world_of([*[None] * (BINS - 22), *[0.0] * 22])
    world.sweep()
    assert "2 h needed" in world.state.observations(TARGET)[instance_id].reason
    reads = len(world.metrics.reads)
    world.sweep(5)
    assert reads == len(world.metrics.reads)
    world.metrics.publish(UTILIZATION, {"InstanceId": instance_id}, [0.0] * 24)
    world.sweep(5)
    assert "idle" == world.verdict(instance_id)


def test_no_sweep_reads_more_pasts_than_it_has_time_for() -> None:
    """The others wait, those first that have waited longest; none is forgotten."""
    world = FleetWorld(replace(SURVIVAL, targets=Targets(pasts_asked_per_sweep=4)))
    for number in range(1, 11):
        world.add(number)
    for opened in (4, 8, 10):
        world.sweep(5)
        assert opened == len(world.workflow.executions)


def test_those_that_rest_do_not_keep_others_waiting() -> None:
    """Who was never asked comes before who was asked before."""
    world = FleetWorld(replace(SURVIVAL, targets=Targets(pasts_asked_per_sweep=2)))
    ids = [world.add(number) for number in range(1, 5)]
    for instance_id in ids:
        world.metrics.publish(UTILIZATION, {"InstanceId": instance_id}, [90.0, *[0.0] * 13])
    world.sweep()
    world.sweep(5)
    assert {"resting"} == {world.verdict(instance_id) for instance_id in ids}
    assert all(one.not_before is not None for one in world.state.observations(TARGET).values())


def test_a_fleet_s_past_is_read_in_parts() -> None:
    """Six weeks of a hundred instances would not fit into the memory of a function."""
    sizes: list[int] = []

    def noted(target: Target, asked: Sequence[Proved], now: datetime) -> dict[str, History | str]:
        sizes.append(len(asked))
        return {one.instance.instance_id: "unread" for one in asked}

    seen = Gathered(empty_evidence(window_before(NOW, PAST, PERIOD, PERIOD)), None, None, False)
    proved = [
        Proved(make_instance(instance_id=f"i-{n:017x}"), Policy(), seen, Verdict(VerdictKind.IDLE, "quiet"))
        for n in range(40)
    ]
    assert 40 == len(AskThePast(noted)(TARGET, proved, NOW))
    assert [16, 16, 8] == sizes
