"""The recheck at the moment of acting: only what is as it was asked about goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pytest

from governor.core.errors import AccessDenied, MetricsLate, Throttled, Unavailable
from governor.core.instance import Session
from governor.episode.model.episode import Outcome, Phase
from governor.episode.model.plan import Step
from governor.evidence.model import Evidence
from governor.evidence.rules.series import window_before
from governor.limits.model.breaker import BreakerState
from governor.policy.model.acting import Action
from governor.policy.model.limits import Caps
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET, make_evidence
from tests.unit.worlds.world import World

UTILIZATION = "nvidia_smi_utilization_gpu"


def phase_of(world: World) -> Phase:
    """Return where the episode is."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return episode.phase


def own(world: World) -> dict[str, str]:
    """The dimensions of the instance's metrics."""
    return {"InstanceId": world.instance.instance_id}


def snooze(world: World) -> None:
    """Somebody asked to keep it, in another episode."""
    record = world.state.record(TARGET, world.ref.instance_id)
    world.state.put(replace(record, hold=Hold(snoozed_until=NOW + timedelta(days=1))))


CHANGES: dict[str, tuple[Callable[[World], object], Outcome, str]] = {
    "gone": (lambda w: w.ec2.instances.clear(), Outcome.VOID, "no longer exists"),
    "restarted": (lambda w: w.change_instance(launch_time=NOW), Outcome.VOID, "restarted"),
    "taken back by EC2": (
        lambda w: w.state.note_warned(
            TARGET, {w.ref.instance_id: w.clock.now() + timedelta(minutes=2)}
        ),
        Outcome.INTERRUPTED,
        "will reclaim the instance",
    ),
    "stopped by others": (
        lambda w: w.change_instance(state="stopped"),
        Outcome.VOID,
        "somebody was faster",
    ),
    "terminating": (
        lambda w: w.change_instance(state="shutting-down"),
        Outcome.VOID,
        "somebody was faster",
    ),
    "frozen": (
        lambda w: w.state.set_breaker(TARGET, BreakerState(NOW, "outage")),
        Outcome.REFUSED,
        "frozen: outage",
    ),
    "exempt": (
        lambda w: w.change_instance(tags={**w.instance.tags, "GpuGovernor": "exempt"}),
        Outcome.REFUSED,
        "exempt",
    ),
    "kept": (snooze, Outcome.REFUSED, "snoozed"),
    "mode changed": (
        lambda w: setattr(w.policies, "policy", Policy(mode=Mode.OBSERVE)),
        Outcome.REFUSED,
        "mode has changed from ask to observe",
    ),
    "GPU works": (lambda w: w.publish_quiet(utilization=5.0), Outcome.WOKE_UP, "busy"),
    "CPU works": (
        lambda w: w.metrics.publish("CPUUtilization", own(w), [30.0] * 12),
        Outcome.WOKE_UP,
        "CPU reached",
    ),
    "network works": (
        lambda w: w.metrics.publish("NetworkIn", own(w), [3e8] * 12),
        Outcome.WOKE_UP,
        "network traffic reached",
    ),
    "a job says so": (
        lambda w: w.metrics.publish("Throughput", own(w), [512.0] * 12, namespace="MLTraining"),
        Outcome.WOKE_UP,
        "a job reports work: MLTraining Throughput",
    ),
    "power is drawn": (
        lambda w: w.metrics.publish("nvidia_smi_power_draw", own(w), [150.0] * 12),
        Outcome.WOKE_UP,
        "power draw reached",
    ),
    "GPU silent": (
        lambda w: w.metrics.published.pop((UTILIZATION, tuple(own(w).items()))),
        Outcome.REFUSED,
        "no-data",
    ),
    "CPU silent": (
        lambda w: w.metrics.published.pop(("CPUUtilization", tuple(own(w).items()))),
        Outcome.REFUSED,
        "no-data",
    ),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_each_change_alone_ends_the_episode_with_its_own_outcome(name: str) -> None:
    """Void when the instance is another, woken when it works, refused otherwise; nothing is
    moved."""
    world = World(phase=Phase.ASKING)
    change, outcome, why = CHANGES[name]
    change(world)
    result = world.recheck(world.ref, Step.STOP)

    assert (False, outcome) == (result.proceed, result.outcome)
    assert why in result.reason
    assert Phase.ASKING is phase_of(world)
    assert [] == world.ec2.calls


def test_a_job_that_cannot_be_heard_is_waited_for() -> None:
    """Its metric exists and cannot be read: the machine tries again, and nothing goes on
    meanwhile."""
    world = World(phase=Phase.ASKING)
    world.metrics.publish("Throughput", own(world), [0.0] * 12, namespace="MLTraining")
    world.metrics.broken["Throughput"] = "Throttling"

    with pytest.raises(Unavailable):
        world.recheck(world.ref, Step.STOP)
    assert Phase.ASKING is phase_of(world)


def test_what_is_as_it_was_goes_on_and_may_be_repeated() -> None:
    """A retried recheck finds the same and says the same."""
    world = World(phase=Phase.ASKING)
    first = world.recheck(world.ref, Step.STOP)
    again = world.recheck(world.ref, Step.STOP)

    assert (True, None) == (first.proceed, first.outcome)
    assert first == again
    assert Phase.ACTING is phase_of(world)
    assert [] == world.ec2.calls


@pytest.mark.parametrize(("age", "proceeds"), [(11, False), (13, True)])
def test_whoever_is_logged_in_keeps_it(age: int, proceeds: bool) -> None:
    """Idle GPUs say nothing of somebody at a shell; sessions of yesterday are most likely
    disconnected."""
    world = World(phase=Phase.ASKING)
    owner = "arn:aws:sts::123456789012:assumed-role/Research/ana"
    since = world.clock.now() - timedelta(hours=age)
    world.ec2.sessions[world.ref.instance_id] = [Session(owner, since)]

    result = world.recheck(world.ref, Step.STOP)

    assert proceeds == result.proceed
    if not proceeds:
        assert (Outcome.WOKE_UP, True) == (result.outcome, "ana has an open" in result.reason)


@pytest.mark.parametrize(
    ("mode", "on_expiry", "proceeds"),
    [(Mode.ASK, "no-action", True), (Mode.ASK, "act", False), (Mode.AUTO, "no-action", False)],
)
def test_what_would_be_done_unasked_waits_where_nobody_may_look(
    mode: Mode, on_expiry: Literal["no-action", "act"], proceeds: bool
) -> None:
    """Member roles of earlier releases may not list sessions: a person has answered, silence has
    not."""
    world = World(phase=Phase.ASKING, mode=mode, on_expiry=on_expiry)
    world.ec2.failures["open_sessions"] = [AccessDenied("no", operation="ssm:DescribeSessions")]

    result = world.recheck(world.ref, Step.STOP)

    assert proceeds == result.proceed
    assert proceeds or "is not known" in result.reason


def test_sessions_that_cannot_be_listed_right_now_are_asked_for_again() -> None:
    """A throttled call is no answer."""
    world = World(phase=Phase.ASKING)
    world.ec2.failures["open_sessions"] = [Throttled("later")]

    with pytest.raises(Throttled):
        world.recheck(world.ref, Step.STOP)
    assert Phase.ASKING is phase_of(world)


@pytest.mark.parametrize("decide", [True, False])
def test_the_recheck_asks_for_the_yes_itself(decide: bool) -> None:
    """A state machine that took a wrong turn gets no further than this."""
    world = World(phase=Phase.ASKING, decide=decide)

    assert decide == world.recheck(world.ref, Step.STOP).proceed


def test_metrics_that_cannot_be_read_are_waited_for() -> None:
    """Neither going on nor ending is right; a retry is."""
    world = World(phase=Phase.ASKING)
    world.metrics.broken[UTILIZATION] = "Throttling"

    with pytest.raises(Unavailable):
        world.recheck(world.ref, Step.STOP)
    assert Phase.ASKING is phase_of(world)


def test_an_instance_that_cannot_be_described_is_waited_for() -> None:
    """An error is no refusal."""
    world = World(phase=Phase.ASKING)
    world.ec2.failures["describe"] = [Throttled("later")]

    with pytest.raises(Throttled):
        world.recheck(world.ref, Step.STOP)


def test_after_our_own_stop_no_metrics_are_asked_for() -> None:
    """A stopped instance publishes nothing; that it is the same one is what counts."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.metrics.reads.clear()

    assert world.recheck(world.ref, Step.TERMINATE).proceed
    assert [] == world.metrics.reads


@pytest.mark.parametrize("state", ["pending", "running"])
def test_an_instance_that_somebody_started_after_our_stop_is_theirs(state: str) -> None:
    """Even where EC2 does not show another launch time yet."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.change_instance(state=state)
    result = world.recheck(world.ref, Step.TERMINATE)

    assert (False, Outcome.VOID) == (result.proceed, result.outcome)
    assert ["stop"] == world.writes()


def test_an_observed_episode_is_rechecked_as_running() -> None:
    """Its stop was a dry run, so the instance runs and its metrics count."""
    world = World(mode=Mode.OBSERVE, action=Action.TERMINATE, decide=False)
    world.put_away(world.ref, Step.STOP)
    assert world.recheck(world.ref, Step.TERMINATE).proceed

    world.publish_quiet(utilization=90.0)
    assert Outcome.WOKE_UP is world.recheck(world.ref, Step.TERMINATE).outcome


def test_an_episode_that_was_never_saved_is_refused() -> None:
    """Anybody who may start the workflow can name one."""
    world = World()
    checked = world.recheck(replace(world.ref, number=2), Step.STOP)

    assert (False, Outcome.REFUSED) == (checked.proceed, checked.outcome)
    assert [] == world.writes()


def test_a_closed_episode_is_not_moved() -> None:
    """An execution that lives on after its episode does nothing."""
    world = World()
    world.state.close_episode(world.ref, Outcome.FAILED, "died", NOW, quiet_until=None)
    result = world.recheck(world.ref, Step.STOP)

    assert (False, Outcome.REFUSED) == (result.proceed, result.outcome)
    assert Phase.CLOSED is phase_of(world)


def test_readings_that_may_still_come_are_waited_for() -> None:
    """Giving up would end what people have approved, because CloudWatch is slow."""
    world = World(phase=Phase.ASKING)
    world.metrics.publish(UTILIZATION, own(world), [*[1.0] * 47, None])

    with pytest.raises(MetricsLate, match="published nothing in the newest 5 min"):
        world.recheck(world.ref, Step.STOP)


LONGER = window_before(NOW, timedelta(minutes=180), timedelta(minutes=5), timedelta(minutes=2))


@pytest.mark.parametrize(
    "asked_on",
    [
        make_evidence(),
        make_evidence([1.0] * 36, window=LONGER, memory_newest_percent=5.0),
    ],
)
def test_memory_is_no_reason_where_the_question_did_not_rest_on_it(asked_on: Evidence) -> None:
    """It was not known to be released, or the question had waited for the longer time anyway."""
    world = World(phase=Phase.ASKING, evidence=asked_on)
    world.metrics.publish(UTILIZATION, own(world), [*[1.0] * 20, *[None] * 8, *[1.0] * 20])
    result = world.recheck(world.ref, Step.STOP)

    assert Outcome.REFUSED is result.outcome
    assert result.reason.startswith("no-data: ")


def test_work_that_ended_where_the_evidence_began_is_no_news() -> None:
    """People were asked although it was there; what is missing is a longer proof."""
    world = World(phase=Phase.ASKING)
    world.metrics.publish(UTILIZATION, own(world), [*[1.0] * 35, 90.0, *[1.0] * 12])

    assert Outcome.REFUSED is world.recheck(world.ref, Step.STOP).outcome


@pytest.mark.parametrize(
    ("mode", "action", "step", "waits"),
    [
        (Mode.ASK, Action.STOP, Step.STOP, True),
        (Mode.OBSERVE, Action.STOP, Step.STOP, False),
        (Mode.ASK, Action.TERMINATE, Step.SNAPSHOT, False),
    ],
)
def test_a_cap_holds_back_what_changes_an_instance_and_nothing_else(
    mode: Mode, action: Action, step: Step, waits: bool
) -> None:
    """A dry run and a snapshot take no place in the hour."""
    root = "instance-store" if step is Step.SNAPSHOT else "ebs"
    world = World(mode=mode, action=action, phase=Phase.ASKING, changes={"root_device_type": root})
    world.policies.policy = replace(
        world.policies.policy, caps=Caps(organization_actions_per_hour=0)
    )
    result = world.recheck(world.ref, step)

    assert (not waits, waits) == (result.proceed, result.wait is not None)


@pytest.mark.parametrize(
    ("silent_bins", "proceeds"), [(0, True), (2, True), (3, False), (47, False), (48, False)]
)
def test_power_that_vanished_since_the_question_ends_the_step(
    silent_bins: int, proceeds: bool
) -> None:
    """As after an update of the driver: what people decided on is not known any more. Readings
    that may still arrive are waited for."""
    world = World()
    draw = [18.0] * (48 - silent_bins) + [None] * silent_bins
    world.metrics.publish("nvidia_smi_power_draw", own(world), draw)
    if silent_bins == 3:
        with pytest.raises(MetricsLate, match="power: not measured since"):
            world.recheck(world.ref, Step.STOP)
        return
    result = world.recheck(world.ref, Step.STOP)

    assert proceeds is result.proceed
    if not proceeds:
        assert Outcome.REFUSED is result.outcome
        assert "power: not measured" in result.reason
        assert "it was measured when this began" in result.reason


def test_power_that_was_not_measured_for_the_question_is_not_missed_later() -> None:
    """People approved without it, and the question said so."""
    asked_on = make_evidence(power_percent_of_limit=None, measured_percent={}, last_measured={})
    world = World(evidence=asked_on)
    world.metrics.published.pop(("nvidia_smi_power_draw", tuple(own(world).items())))

    assert world.recheck(world.ref, Step.STOP).proceed
