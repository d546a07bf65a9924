"""Each stop and termination is sent once, after a recheck of its own; a lost answer is followed by
a look."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from governor.core.errors import AccessDenied, MustWait, SafetyError, Throttled, Unavailable
from governor.core.instance import Instance, Lifecycle
from governor.episode.model.episode import Clearance, Outcome
from governor.episode.model.plan import Step
from governor.episode.rules.sent_call import UNDER_WAY_FOR
from governor.limits.model.breaker import BreakerState
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.remediation.clearance import Cleared, must_be_fresh
from governor.table import keys
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.unit.worlds.world import World

STEPS = (Step.STOP, Step.TERMINATE)
NO_ANSWER = Unavailable("503", operation="ec2")


def ready(step: Step) -> World:
    """A world whose next step is this one."""
    world = World(action=Action.TERMINATE if step is Step.TERMINATE else Action.STOP)
    if step is Step.TERMINATE:
        world.stop_and_snapshot()
    return world


def sent(world: World, step: Step) -> int:
    """Return how often EC2 was asked for the step."""
    return world.writes().count(step.value)


def works(world: World) -> None:
    """The GPU works from now on."""
    world.publish_quiet(utilization=95.0)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [Throttled("slow down"), NO_ANSWER])
def test_a_failed_call_is_not_sent_again_without_a_recheck(step: Step, error: Exception) -> None:
    """However often the function is invoked: executions of the release before repeat it."""
    world = ready(step)
    world.ec2.failures[step.value] = [error]
    for _ in range(5):
        with pytest.raises(MustWait):
            world.put_away(world.ref, step)
        world.clock.moment += timedelta(seconds=20)

    assert 1 == sent(world, step)


@pytest.mark.parametrize("error", [Throttled("slow down"), NO_ANSWER])
@pytest.mark.parametrize("seconds", [54, 69, 253, 429])
def test_work_that_began_while_ec2_failed_keeps_the_instance(
    error: Exception, seconds: int
) -> None:
    """Seen: stopped after so many seconds of work: the repeated call never looked at the GPU
    again."""
    world = ready(Step.STOP)
    world.ec2.failures["stop"] = [error]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    works(world)
    world.clock.moment += timedelta(seconds=seconds)
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    rechecked = world.recheck(world.ref, Step.STOP)
    if rechecked.wait is not None:
        world.clock.moment += UNDER_WAY_FOR
        works(world)
        rechecked = world.recheck(world.ref, Step.STOP)

    assert (False, Outcome.WOKE_UP) == (rechecked.proceed, rechecked.outcome)
    assert 1 == sent(world, Step.STOP)
    assert "running" == world.ec2.instances[world.ref.instance_id].state


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_answer_is_followed_by_a_look(step: Step) -> None:
    """EC2 shows that it was carried out: the workflow goes on, and nothing is sent a second
    time."""
    world = ready(step)
    world.ec2.lost_answers.add(step.value)
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)
    rechecked = world.recheck(world.ref, step)

    assert rechecked.proceed
    assert not world.put_away(world.ref, step)
    assert not world.put_away(world.ref, step)
    assert 1 == sent(world, step)


def test_nothing_is_sent_while_a_lost_call_may_still_arrive() -> None:
    """EC2 accepts a signed request for five minutes, and the function may be slow to send it."""
    world = ready(Step.STOP)
    world.ec2.failures["stop"] = [NO_ANSWER]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    for _ in range(6):
        world.clock.moment += timedelta(minutes=1)
        rechecked = world.recheck(world.ref, Step.STOP)
        assert (False, timedelta(minutes=1), False) == (
            rechecked.proceed,
            rechecked.wait,
            rechecked.notifies,
        )
        with pytest.raises(MustWait, match="may still carry out the earlier call"):
            world.put_away(world.ref, Step.STOP)
    world.clock.moment += timedelta(minutes=1)
    world.publish_quiet()

    assert world.recheck(world.ref, Step.STOP).proceed
    assert not world.put_away(world.ref, Step.STOP)
    assert 2 == sent(world, Step.STOP)


def test_an_instance_that_somebody_started_after_a_lost_termination_is_left_alone() -> None:
    """Seen: the fourth send came after a person had started it again."""
    world = ready(Step.TERMINATE)
    world.ec2.failures["terminate"] = [NO_ANSWER]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.TERMINATE)
    world.clock.moment += UNDER_WAY_FOR
    world.change_instance(state="running", launch_time=world.clock.now())

    with pytest.raises(SafetyError):
        world.put_away(world.ref, Step.TERMINATE)
    assert Outcome.VOID is world.recheck(world.ref, Step.TERMINATE).outcome
    assert 1 == sent(world, Step.TERMINATE)


def test_a_stop_by_somebody_else_is_not_taken_for_the_lost_one() -> None:
    """EC2 dates the change before the call; the clocks may differ by a minute."""
    world = ready(Step.STOP)
    world.ec2.failures["stop"] = [NO_ANSWER]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    earlier = NOW - timedelta(minutes=2)
    reason = f"User initiated ({earlier:%Y-%m-%d %H:%M:%S} GMT)"
    world.change_instance(state="stopped", state_transition_reason=reason)

    assert Outcome.VOID is world.recheck(world.ref, Step.STOP).outcome
    with pytest.raises(SafetyError, match="somebody else"):
        world.put_away(world.ref, Step.STOP)


@pytest.mark.parametrize("step", STEPS)
def test_two_invocations_after_one_recheck_send_one_call(step: Step) -> None:
    """Both passed the guards; the note of the call is a conditional write, and one of them wins
    it."""
    world = ready(step)
    note = world.state.note_call
    others: list[bool] = []

    def overtaken(*arguments: object) -> None:
        if not others:
            others.append(True)
            world.put_away(world.ref, step)
        note(*arguments)  # type: ignore[arg-type]

    world.state.note_call = overtaken  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)
    assert 1 == sent(world, step)


@pytest.mark.parametrize("step", STEPS)
def test_without_an_answer_to_the_note_nothing_is_sent(step: Step) -> None:
    """The table may not have written the note, so a second invocation would send the call, too."""
    world = ready(step)

    def lost(*_: object) -> NoReturn:
        raise NO_ANSWER

    world.state.note_call = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)
    assert 0 == sent(world, step)


def test_a_function_that_died_after_its_note_sends_nothing_when_it_is_repeated() -> None:
    """Nobody knows if EC2 was asked: it is looked at until that is clear."""
    world = ready(Step.STOP)

    def died(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    world.ec2.stop = died  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        world.put_away(world.ref, Step.STOP)
    del world.ec2.stop
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_a_call_of_the_release_before_is_looked_at_first() -> None:
    """It noted the step, and not that this used up the recheck."""
    world = ready(Step.STOP)
    world.state.note_step(world.ref, "stop", world.clock.now())
    del world.state.items[keys.episode(world.ref)]["is_clearance_used"]
    world.clock.moment += UNDER_WAY_FOR

    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


@pytest.mark.parametrize(
    ("changes", "sent_after"),
    [
        ({"is_used": True}, None),
        ({"is_used": True}, timedelta(seconds=-1)),
        ({}, timedelta()),
        ({}, timedelta(seconds=1)),
    ],
)
def test_a_call_uses_up_the_recheck_before_it(
    changes: dict[str, Any], sent_after: timedelta | None
) -> None:
    """By its mark, or, from the release before, by the time of its note."""
    with pytest.raises(MustWait, match="EC2 was asked after the last recheck"):
        must_be_fresh(cleared(Clearance("stop", NOW, **changes), sent_after), Step.STOP, NOW)


def test_a_recheck_after_the_last_call_lets_another_one_through() -> None:
    """A step without any recheck is not sent."""
    rechecked = Clearance("stop", NOW)
    for sent_after in (None, timedelta(seconds=-1)):
        assert NOW == must_be_fresh(cleared(rechecked, sent_after), Step.STOP, NOW)
    with pytest.raises(MustWait, match="there was no recheck yet"):
        must_be_fresh(cleared(None, None), Step.STOP, NOW)


def cleared(clearance: Clearance | None, sent_after: timedelta | None) -> Cleared:
    """Findings before a stop, with this recheck, and a call so long after `NOW`."""
    world = ready(Step.STOP)
    findings = world.guards.check(world.ref, Step.STOP)
    steps_done = {} if sent_after is None else {"stop": NOW + sent_after}
    progress = replace(findings.episode.progress, steps_done=steps_done)
    episode = replace(findings.episode, clearance=clearance, progress=progress)
    return replace(findings, episode=episode)


@pytest.mark.parametrize(("minutes", "wait"), [(20, 5), (56, 14), (120, 15), (240, 20)])
def test_a_step_is_tried_again_after_a_quarter_of_the_time_that_it_has_taken(
    minutes: int, wait: int
) -> None:
    """Until that is a quarter of an hour; later with longer waits, as all steps that wait."""
    world = ready(Step.STOP)
    assert world.recheck(world.ref, Step.STOP).proceed
    world.state.note_waits_told(world._stored().approval_id, world.clock.now())
    world.clock.moment += timedelta(minutes=minutes)
    world.publish_quiet()

    assert timedelta(minutes=wait) == world.recheck(world.ref, Step.STOP).again


def test_a_step_ends_at_the_hour_that_the_policy_says() -> None:
    """Without a last try there is nothing to say of it."""
    world = ready(Step.STOP)
    assert world.recheck(world.ref, Step.STOP).proceed
    world.state.note_waits_told(world._stored().approval_id, world.clock.now())
    world.clock.moment += timedelta(hours=48)
    world.publish_quiet()

    rechecked = world.recheck(world.ref, Step.STOP)
    assert (
        "EC2 has not carried out the stop for 48 h (approval.wait_at_most_hours)"
        == rechecked.reason
    )
    assert Outcome.REFUSED is rechecked.outcome


def test_a_step_that_ec2_never_carries_out_ends_as_long_as_an_approval_lives() -> None:
    """It waits longer each time, and ends as refused, with the last reason."""
    world = ready(Step.STOP)
    world.ec2.failures["stop"] = [Throttled("slow down")] * 1_000
    # People know of the wait: else it is held back once, to notify them.
    world.state.note_waits_told(world._stored().approval_id, world.clock.now())
    waits = []
    while (rechecked := world.recheck(world.ref, Step.STOP)).proceed:
        with pytest.raises(MustWait):
            world.put_away(world.ref, Step.STOP)
        waits.append(rechecked.again)
        world.clock.moment += rechecked.again
        world.publish_quiet()

    assert (timedelta(minutes=1), timedelta(hours=3)) == (waits[0], waits[-1])
    assert sorted(waits) == waits
    assert Outcome.REFUSED is rechecked.outcome
    assert "EC2 has not carried out the stop for 48 h" in rechecked.reason
    assert "slow down" in rechecked.reason


def test_what_never_follows_a_stop_ends_as_long_as_an_approval_lives() -> None:
    """EC2 has stopped the instance, and the workflow comes back again and again."""
    world = ready(Step.STOP)
    world.put_away(world.ref, Step.STOP)
    world.state.note_waits_told(world._stored().approval_id, world.clock.now())
    world.clock.moment += timedelta(hours=47)
    assert world.recheck(world.ref, Step.STOP).proceed

    world.clock.moment += timedelta(hours=1)
    rechecked = world.recheck(world.ref, Step.STOP)
    assert Outcome.REFUSED is rechecked.outcome
    assert "the step after the stop waited for 48 h" in rechecked.reason
    assert 1 == sent(world, Step.STOP)


def test_a_rehearsal_is_not_taken_for_a_call() -> None:
    """In mode observe nothing is sent: a stop by somebody else is theirs."""
    world = World(mode=Mode.OBSERVE)
    assert world.put_away(world.ref, Step.STOP)
    world.change_instance(state="stopped")

    assert Outcome.VOID is world.recheck(world.ref, Step.STOP).outcome


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [Throttled("slow down"), AccessDenied("no")])
def test_a_call_without_effect_counts_no_longer_when_the_next_one_is_refused(
    step: Step, error: Exception
) -> None:
    """EC2 answered the first one with 503, a look showed that nothing came of it, and it refused
    the next."""
    world = ready(step)
    counted = world.state.used(world.clock.now())
    world.ec2.failures[step.value] = [NO_ANSWER, error]
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)
    assert counted != world.state.used(world.clock.now())
    world.clock.moment += UNDER_WAY_FOR
    world.publish_quiet()
    assert world.recheck(world.ref, step).proceed
    with pytest.raises((MustWait, AccessDenied)):
        world.put_away(world.ref, step)

    assert 2 == sent(world, step)
    assert counted == world.state.used(world.clock.now())


MEANWHILE: dict[str, Callable[[World], object]] = {
    "a keep": lambda w: w.state.store_hold(
        TARGET, w.ref.instance_id, Hold(snoozed_until=NOW + timedelta(days=1))
    ),
    "an exemption": lambda w: w.state.store_hold(
        TARGET, w.ref.instance_id, Hold(exempt_reason="mine")
    ),
    "a warning": lambda w: w.state.note_warned(
        TARGET, {w.ref.instance_id: NOW + timedelta(minutes=2)}
    ),
    "a freeze here": lambda w: w.state.set_breaker(TARGET, BreakerState(NOW, "outage")),
    "a freeze everywhere": lambda w: w.state.begin_hub_freeze(BreakerState(NOW, "outage")),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", sorted(MEANWHILE))
def test_what_is_stored_after_the_guards_is_seen_before_the_call(what: str, step: Step) -> None:
    """It was accepted, so the call must not follow. What was counted and noted is taken back."""
    world = ready(step)
    note = world.state.note_call

    def after_the_guards(*arguments: object) -> None:
        with ThreadPoolExecutor(1) as others:
            others.submit(MEANWHILE[what], world).result()
        note(*arguments)  # type: ignore[arg-type]

    world.state.note_call = after_the_guards  # type: ignore[method-assign, assignment]
    counted = world.state.used(world.clock.now())
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)

    assert 0 == sent(world, step)
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert step.value not in episode.progress.steps_done
    assert counted == world.state.used(world.clock.now())


@pytest.mark.parametrize("step", STEPS)
def test_a_last_check_that_fails_leaves_no_call_behind(step: Step) -> None:
    """The table fails between the note and the call. Seen: a person then stopped the instance, and
    the saving was booked as the governor's."""
    world = ready(step)
    counted = world.state.used(world.clock.now())
    pause = world.state.pause

    def fail() -> NoReturn:
        world.state.pause = pause  # type: ignore[method-assign]
        raise NO_ANSWER

    note = world.state.note_call

    def note_then_fail(*arguments: object) -> None:
        note(*arguments)  # type: ignore[arg-type]
        world.state.pause = fail  # type: ignore[method-assign]

    world.state.note_call = note_then_fail  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)

    assert 0 == sent(world, step)
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert step.value not in episode.progress.steps_done
    assert counted == world.state.used(world.clock.now())


@pytest.mark.parametrize("step", STEPS)
def test_an_episode_that_ends_after_the_note_sends_no_call(step: Step) -> None:
    """Somebody aborts the workflow at that moment, and its end is handled before the call."""
    world = ready(step)
    note = world.state.note_call

    def close() -> None:
        world.state.close_episode(world.ref, Outcome.FAILED, "aborted", NOW, quiet_until=None)

    def before_the_end(*arguments: object) -> None:
        note(*arguments)  # type: ignore[arg-type]
        with ThreadPoolExecutor(1) as others:
            others.submit(close).result()

    world.state.note_call = before_the_end  # type: ignore[method-assign, assignment]
    counted = world.state.used(world.clock.now())
    with pytest.raises(SafetyError, match="the episode has ended"):
        world.put_away(world.ref, step)

    assert 0 == sent(world, step)
    assert counted == world.state.used(world.clock.now())


def test_a_slow_recheck_takes_back_no_call_that_was_sent_meanwhile() -> None:
    """It looked at an earlier call; another recheck let a newer one through, whose answer is lost,
    too."""
    world = ready(Step.STOP)
    world.ec2.failures["stop"] = [NO_ANSWER]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    world.clock.moment += UNDER_WAY_FOR
    world.publish_quiet()
    describe = world.ec2.describe

    def slowly(*arguments: object) -> Instance | None:
        world.ec2.describe = describe  # type: ignore[method-assign]
        seen = describe(*arguments)  # type: ignore[arg-type]
        with ThreadPoolExecutor(1) as other:
            assert other.submit(world.recheck, world.ref, Step.STOP).result().proceed
            world.ec2.failures["stop"] = [NO_ANSWER]
            with pytest.raises(MustWait):
                other.submit(world.put_away, world.ref, Step.STOP).result()
        return seen

    world.ec2.describe = slowly  # type: ignore[method-assign, assignment]
    rechecked = world.recheck(world.ref, Step.STOP)
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)

    assert (False, False) == (rechecked.proceed, rechecked.notifies)
    assert 2 == sent(world, Step.STOP)
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert world.clock.now() == episode.progress.steps_done["stop"]


def test_a_recheck_keeps_the_note_of_a_snapshot() -> None:
    """A set that EC2 began before a freeze is found by it: none is made twice, and it counts."""
    world = World(action=Action.TERMINATE, changes={"lifecycle": Lifecycle.SPOT})
    assert Step.SNAPSHOT is world._stored().plan.steps[0]
    noted = world.clock.now()
    world.state.note_step(world.ref, "snapshot", noted)
    assert world.recheck(world.ref, Step.SNAPSHOT).proceed

    episode = world.state.episode(world.ref)
    assert episode is not None
    assert noted == episode.progress.steps_done["snapshot"]
