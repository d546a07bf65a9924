"""Nothing is stopped or terminated unless every guard holds; each guard refuses by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.approval import Answer, Decision
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConflictError,
    MustWait,
    Protected,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.core.instance import Lifecycle, Protection, Volume
from governor.episode.model.episode import Outcome, Phase, Progress, Terms
from governor.episode.model.plan import Step
from governor.evidence.model import Evidence, MetricSource
from governor.limits.model.breaker import BreakerState
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Mode, Policy
from governor.remediation.clearance import Cleared
from governor.table import keys
from tests.builders import NOW, TARGET
from tests.unit.worlds.world import ALICE, APPROVAL_ID, World


def _tags(world: World, **tags: str) -> None:
    world.change_instance(tags={**world.instance.tags, **tags})


def _protect(world: World, *, stop: bool = False, termination: bool = False) -> None:
    world.ec2.protections[world.instance.instance_id] = Protection(stop, termination)


def _alter_evidence(world: World) -> None:
    episode = world.state.episode(world.ref)
    assert episode is not None
    altered = replace(
        episode,
        measurement=replace(
            episode.measurement,
            evidence=Evidence(episode.measurement.evidence.window, MetricSource.NONE),
        ),
    )
    world.state.put(altered)


def _policy(world: World, policy: Policy) -> None:
    world.policies.policy = policy


FAULTS: dict[str, Callable[[World], object]] = {
    "breaker": lambda w: w.state.set_breaker(TARGET, BreakerState(NOW, "outage")),
    "restarted": lambda w: w.change_instance(launch_time=NOW - timedelta(minutes=5)),
    "gone": lambda w: w.ec2.instances.clear(),
    "selector lost": lambda w: _tags(w, Purpose="something else"),
    "exempt by tag": lambda w: _tags(w, GpuGovernor="exempt"),
    "exempt by an odd tag": lambda w: _tags(w, gpuGovernor="Keep it "),
    "of another type": lambda w: w.change_instance(instance_type="g5.2xlarge"),
    "handed to another owner": lambda w: _tags(w, Owner="bob@example.com"),
    "owner in another letter case": lambda w: _tags(w, Owner="ML"),
    "nobody's any more": lambda w: _tags(w, Owner=" "),
    "moved to another project": lambda w: _tags(w, Project="audio"),
    "now in a group": lambda w: _tags(w, **{"aws:autoscaling:groupName": "asg"}),
    "now managed": lambda w: w.change_instance(operator_managed=True),
    "stop protected": lambda w: _protect(w, stop=True),
    "capacity block": lambda w: w.change_instance(lifecycle=Lifecycle.CAPACITY_BLOCK),
    "reservation": lambda w: w.change_instance(capacity_reservation_id="cr-1"),
    "volume attached": lambda w: w.change_instance(
        volumes=(*w.instance.volumes, Volume("vol-new", "/dev/sdz", True))
    ),
    "volume will be deleted": lambda w: w.change_instance(
        volumes=tuple(
            replace(v, delete_on_termination=not v.delete_on_termination)
            for v in w.instance.volumes
        )
    ),
    "evidence altered": _alter_evidence,
    "mode changed": lambda w: _policy(w, Policy(mode=Mode.OBSERVE)),
    "plan changed": lambda w: _policy(
        w, Policy(mode=Mode.ASK, plan=PlanRule(action=Action.NOTIFY_ONLY))
    ),
    "closed": lambda w: w.state.close_episode(w.ref, Outcome.VOID, "over", NOW, quiet_until=None),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_alone_keeps_the_instance(name: str) -> None:
    """One thing is not as it was: EC2 is not called."""
    world = World()
    FAULTS[name](world)

    with pytest.raises(SafetyError):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


@given(st.sets(st.sampled_from(sorted(FAULTS))))
def test_ec2_is_called_exactly_when_no_fault_holds(names: set[str]) -> None:
    """For every combination of faults."""
    world = World()
    for name in sorted(names):
        # Some faults leave nothing that a later one could change.
        try:
            FAULTS[name](world)
        except (KeyError, ConflictError):
            assert names > {name}
    try:
        world.put_away(world.ref, Step.STOP)
    except (SafetyError, CloudError):
        pass

    assert (["stop"] if not names else []) == world.writes()


@pytest.mark.parametrize("phase", [Phase.ASKING, Phase.OPENING])
def test_nothing_is_done_before_the_recheck(phase: Phase) -> None:
    """Only the recheck moves an episode to acting."""
    world = World(phase=phase)

    with pytest.raises(SafetyError, match="not rechecked"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_a_recheck_lets_one_step_through_and_not_the_next() -> None:
    """Hours of snapshots lie between a stop and a termination."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    world.ec2.finish_snapshots()

    with pytest.raises(SafetyError, match="the last recheck let stop through, not terminate"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


@pytest.mark.parametrize("step", [Step.STOP, Step.TERMINATE])
def test_an_old_recheck_lets_nothing_through(step: Step) -> None:
    """Work may have begun since: everything is checked again, however often that is."""
    world = World(action=Action.TERMINATE)
    if step is Step.TERMINATE:
        world.stop_and_snapshot()
    before = world.writes()
    world.clock.moment += timedelta(minutes=2, seconds=1)

    with pytest.raises(MustWait, match="the last recheck was 2 min ago"):
        world.put_away(world.ref, step)
    assert before == world.writes()

    world.let_through(step)
    world.clock.moment += timedelta(minutes=2)
    world.put_away(world.ref, step)
    assert [*before, step.value] == world.writes()


def test_a_pending_approval_is_no_yes() -> None:
    """Nor is a void one."""
    world = World(decide=False)
    with pytest.raises(SafetyError, match="PENDING"):
        world.put_away(world.ref, Step.STOP)

    world.state.void(APPROVAL_ID, "work resumed", expired=False)
    with pytest.raises(SafetyError, match="VOID"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_an_expired_approval_is_no_yes_unless_the_policy_says_so() -> None:
    """`on_expiry: act` is an explicit choice."""
    world = World(decide=False)
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    with pytest.raises(SafetyError, match="EXPIRED"):
        world.put_away(world.ref, Step.STOP)

    # Not by a policy that changed since people read that nothing would be done, either.
    rule = replace(world.policies.policy.approval, on_expiry="act")
    world.policies.policy = replace(world.policies.policy, approval=rule)
    with pytest.raises(SafetyError, match="EXPIRED"):
        world.put_away(world.ref, Step.STOP)

    world = World(decide=False, on_expiry="act")
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_what_is_on_local_disks_is_not_lost_by_silence() -> None:
    """A stop wipes them: an expiry is no yes to that, unless the policy says so."""
    world = World(decide=False, on_expiry="act", local_disks_may_be_lost_unasked=False)
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)

    with pytest.raises(SafetyError, match="EXPIRED"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def two_yes(first: str | None, second: str | None) -> World:
    """A termination that takes two people, as these two would have approved it past every page."""
    world = World(
        action=Action.TERMINATE,
        approval=yes(second),
        terms=Terms(people_needed=2, known_people=frozenset({ALICE, "bob@example.com"})),
        decide=False,
    )
    world.state.note_first_yes(APPROVAL_ID, yes(first))
    world.state.settle(APPROVAL_ID, yes(second))
    return world


def yes(person: str | None) -> Decision:
    """An approval."""
    return Decision(Answer.APPROVE, f"link:{person}", "page", NOW, person=person)


@pytest.mark.parametrize(
    ("first", "second", "passes"),
    [
        (ALICE, "bob@example.com", True),
        (ALICE, ALICE, False),
        (ALICE, None, False),
        (None, ALICE, False),
        (ALICE, "aws:arn:aws:iam::123456789012:user/bob", False),
        (ALICE, "alice+2@example.com", False),
        (ALICE, "aws:arn:aws:sts::123456789012:assumed-role/admin/bob@example.com", False),
    ],
)
def test_two_different_known_people_stand_behind_a_dear_termination(
    first: str | None, second: str | None, passes: bool
) -> None:
    """Looked at again before anything is done, however the approval came about."""
    world = two_yes(first, second)
    if passes:
        world.put_away(world.ref, Step.STOP)
    else:
        with pytest.raises(SafetyError, match="those who may give it"):
            world.put_away(world.ref, Step.STOP)
    assert (["stop"] if passes else []) == world.writes()


def test_a_link_that_went_to_a_list_terminates_nothing() -> None:
    """Even where the table says APPROVED."""
    world = World(action=Action.TERMINATE, approval=yes(None))

    with pytest.raises(SafetyError, match="those who may give it"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_a_step_outside_the_plan_is_refused() -> None:
    """People approved a stop; nobody can make it a termination."""
    world = World(action=Action.STOP)
    world.stop_and_snapshot()

    with pytest.raises(SafetyError, match="not part of the plan"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


@pytest.mark.parametrize("state", ["pending", "error"])
def test_no_termination_without_completed_snapshots(state: str) -> None:
    """Not with one that is still under way, nor with one that failed."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot(state)

    with pytest.raises(SafetyError, match="no completed snapshot"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_no_termination_without_a_note_of_user_data() -> None:
    """Also where an earlier release took the snapshots, which kept no copy."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    key = keys.episode(world.ref)
    del world.state.items[key]["user_data"]

    with pytest.raises(SafetyError, match="no copy of its user data"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


@pytest.mark.parametrize(
    ("then", "now"),
    [(b"old", b"the new, only copy"), (b"", b"new"), (b"old", b""), (b"old", b"new")],
)
def test_no_termination_where_user_data_was_changed_since_its_copy(then: bytes, now: bytes) -> None:
    """EC2 lets it be changed while the instance is stopped, and snapshots give that a day."""
    world = World(action=Action.TERMINATE)
    world.ec2.user_data_of[world.ref.instance_id] = then
    world.stop_and_snapshot()
    world.ec2.user_data_of[world.ref.instance_id] = now

    with pytest.raises(SafetyError, match="user data was changed"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_no_termination_where_user_data_cannot_be_compared() -> None:
    """A refused read is no answer."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.ec2.failures["user_data"] = [
        Throttled("slow down", operation="ec2:DescribeInstanceAttribute")
    ]

    with pytest.raises(MustWait, match="slow down"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_no_termination_when_one_volume_has_no_snapshot() -> None:
    """Every volume of then and of now."""
    volumes = (Volume("vol-1", "/dev/xvda", True, 10), Volume("vol-2", "/dev/sdb", True, 10))
    world = World(action=Action.TERMINATE, changes={"volumes": volumes})
    world.stop_and_snapshot()
    lost = next(
        key for key, (snapshot, _) in world.ec2.snapshots.items() if snapshot.volume_id == "vol-2"
    )
    del world.ec2.snapshots[lost]

    with pytest.raises(SafetyError, match="vol-2"):
        world.put_away(world.ref, Step.TERMINATE)


def test_a_snapshot_of_another_volume_than_was_recorded_does_not_count() -> None:
    """Each recorded id is there and completed, but of the other volume."""
    volumes = (Volume("vol-1", "/dev/xvda", True, 10), Volume("vol-2", "/dev/sdb", True, 10))
    world = World(action=Action.TERMINATE, changes={"volumes": volumes})
    world.stop_and_snapshot()
    other = {"vol-1": "vol-2", "vol-2": "vol-1"}
    for key, (snapshot, tags) in world.ec2.snapshots.items():
        world.ec2.snapshots[key] = (replace(snapshot, volume_id=other[snapshot.volume_id]), tags)

    with pytest.raises(SafetyError, match="no completed snapshot of vol-1, vol-2"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_no_termination_of_another_type_than_was_asked_about() -> None:
    """Somebody rebuilds the stopped instance."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.change_instance(instance_type="g5.2xlarge")

    with pytest.raises(SafetyError, match="type was changed to g5"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_no_termination_of_what_was_handed_to_somebody_else_and_its_copy_is_kept() -> None:
    """Alice said yes; while its snapshots are taken, the stopped instance becomes Bob's."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    _tags(world, Owner="bob@example.com")
    world.take_snapshot(world.ref)
    rechecked = world.recheck(world.ref, Step.TERMINATE)

    assert (False, Outcome.REFUSED) == (rechecked.proceed, rechecked.outcome)
    assert (
        "its owner was changed from ml to bob@example.com since it was asked about"
        == rechecked.reason
    )
    assert (["stop"], 1) == (world.writes(), len(world.ec2.snapshots))


def test_an_address_in_another_letter_case_is_the_same_owner() -> None:
    """Whoever answers for it is the same person."""
    world = World(changes={"tags": {"Purpose": "GPU-Workload", "Owner": "alice@example.com"}})
    world.change_instance(tags={"Purpose": "GPU-Workload", "owner": " Alice@Example.com "})
    world.put_away(world.ref, Step.STOP)

    assert ["stop"] == world.writes()


def test_snapshots_of_another_episode_do_not_count() -> None:
    """Last month's snapshot holds last month's data."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    for key, (snapshot, tags) in world.ec2.snapshots.items():
        world.ec2.snapshots[key] = (snapshot, {**tags, "GpuGovernor:Episode": "another"})

    with pytest.raises(SafetyError, match="no completed snapshot"):
        world.put_away(world.ref, Step.TERMINATE)


@pytest.mark.parametrize(
    "changes",
    [
        {"start_time": NOW - timedelta(seconds=1)},
        {"start_time": NOW - timedelta(days=30)},
        {"start_time": None},
        {"owner_id": "210987654321"},
        {"volume_id": "vol-of-another-instance"},
        {"snapshot_id": "snap-nobody-recorded"},
    ],
)
def test_a_tagged_snapshot_that_is_not_the_recorded_one_does_not_count(
    changes: dict[str, Any],
) -> None:
    """Begun before the stop, at an unknown time, in another account, of another volume, or not
    recorded by the step that took them: each carries the tag of the episode, and is completed."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    [(key, (snapshot, tags))] = world.ec2.snapshots.items()
    world.ec2.snapshots[key] = (replace(snapshot, **changes), tags)

    with pytest.raises(SafetyError, match="no completed snapshot"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_snapshots_without_the_note_of_their_step_do_not_count() -> None:
    """Nobody knows whether they began after the stop, although they are recorded."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    del world.state.items[keys.episode(world.ref)]["steps_done"]["snapshot"]

    with pytest.raises(SafetyError, match="no completed snapshot"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_a_snapshot_from_between_the_stop_and_its_end_does_not_count() -> None:
    """Programs write while they shut down: what counts is when the instance was seen stopped."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.clock.moment = NOW + timedelta(minutes=2)
    world.take_snapshot(world.ref)
    world.ec2.finish_snapshots()
    world.let_through(Step.TERMINATE)
    [(key, (snapshot, tags))] = world.ec2.snapshots.items()
    world.ec2.snapshots[key] = (replace(snapshot, start_time=NOW + timedelta(minutes=1)), tags)

    with pytest.raises(SafetyError, match="no completed snapshot"):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_a_termination_with_everything_in_place_is_done() -> None:
    """Stopped, snapshot, terminated; nothing twice when it is repeated."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.put_away(world.ref, Step.TERMINATE)
    world.put_away(world.ref, Step.TERMINATE)

    assert ["stop", "terminate"] == world.writes()


def with_persistent_request() -> World:
    """A persistent Spot instance that is stopped and snapshot, and may be terminated."""
    changes = {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"}
    world = World(action=Action.TERMINATE, changes=changes)
    world.stop_and_snapshot()
    return world


def progress_of(world: World) -> Progress:
    """The stored progress of its episode."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return episode.progress


def ends_of(world: World) -> list[tuple[str, bool]]:
    """The calls that end an instance or its request, and whether each was a dry run."""
    names = ("cancel_spot_request", "terminate")
    return [(name, dry_run) for name, _, dry_run in world.ec2.calls if name in names]


def test_a_persistent_request_is_cancelled_before_the_termination() -> None:
    """Otherwise it would launch a successor. Whether EC2 allows the termination is asked first."""
    world = with_persistent_request()
    world.put_away(world.ref, Step.TERMINATE)

    wanted = [("terminate", True), ("cancel_spot_request", False), ("terminate", False)]
    assert wanted == ends_of(world)


def test_a_termination_that_is_denied_leaves_the_spot_request_alone() -> None:
    """IAM denies it by the tags of the instance; the cancellation, which ends a stopped instance,
    is denied by none."""
    world = with_persistent_request()
    counted = world.state.used(world.clock.now())
    world.ec2.failures["terminate"] = [AccessDenied("exempt")]

    with pytest.raises(AccessDenied):
        world.put_away(world.ref, Step.TERMINATE)
    assert [("terminate", True)] == ends_of(world)
    assert set() == world.ec2.canceled
    assert counted == world.state.used(world.clock.now())
    assert Step.TERMINATE.value not in progress_of(world).steps_done


def test_a_dry_run_without_an_answer_leaves_no_note() -> None:
    """Nothing was sent: what others terminate meanwhile is not ours."""
    world = with_persistent_request()
    world.ec2.failures["terminate"] = [Unavailable("no answer")]

    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.TERMINATE)
    assert Step.TERMINATE.value not in progress_of(world).steps_done


@pytest.mark.parametrize("error", [AccessDenied("exempt"), Throttled("later"), Protected("flag")])
def test_an_instance_that_ended_with_its_request_counts_as_terminated(error: CloudError) -> None:
    """EC2 ends a stopped instance with its Spot request. What refuses the termination after that
    takes neither the note nor the count back."""
    world = with_persistent_request()
    counted = world.state.used(world.clock.now())
    world.ec2.failures["terminate"] = [None, error]

    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.TERMINATE)
    assert counted != world.state.used(world.clock.now())
    assert Step.TERMINATE.value in progress_of(world).steps_done

    assert world.recheck(world.ref, Step.TERMINATE).proceed
    assert not world.put_away(world.ref, Step.TERMINATE)
    assert [("terminate", True), ("cancel_spot_request", False), ("terminate", False)] == (
        ends_of(world)
    )


def test_an_observed_episode_makes_every_call_a_dry_run() -> None:
    """The real path with the last call withheld."""
    world = World(mode=Mode.OBSERVE, action=Action.TERMINATE, decide=False)

    assert world.put_away(world.ref, Step.STOP)
    assert ((), True) == world.take_snapshot(world.ref)
    world.let_through(Step.TERMINATE)
    assert world.put_away(world.ref, Step.TERMINATE)
    assert [] == world.writes()
    assert "running" == world.ec2.instances[world.instance.instance_id].state


def test_what_ec2_refuses_is_raised() -> None:
    """Never worked around; the flow decides what it means."""
    world = World()
    world.ec2.failures["stop"] = [Protected("flag")]

    with pytest.raises(Protected):
        world.put_away(world.ref, Step.STOP)


def test_a_repeated_stop_stops_once() -> None:
    """Lambda and Step Functions may call twice."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.put_away(world.ref, Step.STOP)

    assert ["stop"] == world.writes()


def test_work_that_resumed_is_seen_by_the_recheck() -> None:
    """The approval is void the moment the GPU wakes up; without data nothing is done either."""
    awake = World(phase=Phase.ASKING)
    awake.publish_quiet(utilization=90.0)
    silent = World(phase=Phase.ASKING)
    silent.metrics.published.clear()

    woke = awake.recheck(awake.ref, Step.STOP)
    unknown = silent.recheck(silent.ref, Step.STOP)

    assert (False, Outcome.WOKE_UP) == (woke.proceed, woke.outcome)
    assert (False, Outcome.REFUSED) == (unknown.proceed, unknown.outcome)


def test_the_recheck_lets_through_what_is_as_it_was() -> None:
    """And moves the episode to acting, which is what the steps ask for."""
    world = World(phase=Phase.ASKING)

    assert world.recheck(world.ref, Step.STOP).proceed
    episode = world.state.episode(world.ref)
    assert episode is not None
    assert Phase.ACTING is episode.phase


def test_work_of_the_last_minutes_is_seen_by_the_recheck() -> None:
    """The window ends two minutes ago; what began since then counts, too."""
    world = World(phase=Phase.ASKING)
    world.metrics.reads.clear()
    own = {"InstanceId": world.instance.instance_id}
    quiet = [1.0] * 48

    class Recent(type(world.metrics)):  # type: ignore[misc]
        """Answers by the minute that the GPU works, by five minutes that it is quiet."""

        def read(self, target, queries, window):  # type: ignore[no-untyped-def]
            by_minute = window.period == timedelta(minutes=1)
            self.publish("nvidia_smi_utilization_gpu", own, [90.0] if by_minute else quiet)
            return super().read(target, queries, window)

    recent = Recent(published=world.metrics.published, statistics=world.metrics.statistics)
    inspect = replace(world.inspect, gather=replace(world.inspect.gather, metrics=recent))
    result = replace(world.recheck, inspect=inspect)(world.ref, Step.STOP)

    assert (False, Outcome.WOKE_UP) == (result.proceed, result.outcome)


@pytest.mark.parametrize(("hours", "passes"), [(3.9, True), (4.0, True), (4.1, False)])
def test_an_instance_that_ran_on_is_not_terminated_on_old_snapshots(
    hours: float, passes: bool
) -> None:
    """Data written since they began would be lost, however idle its GPU is."""
    world = World(action=Action.TERMINATE, changes={"root_device_type": "instance-store"})
    world.take_snapshot(world.ref)
    world.ec2.finish_snapshots("completed")
    world.clock.moment = NOW + timedelta(hours=hours)
    world.let_through(Step.TERMINATE)

    if passes:
        world.put_away(world.ref, Step.TERMINATE)
    else:
        with pytest.raises(
            SafetyError, match=r"older than 240 minutes \(plan.running_snapshot_valid_minutes"
        ):
            world.put_away(world.ref, Step.TERMINATE)

    assert (["terminate"] if passes else []) == world.writes()


def test_an_instance_that_was_stopped_first_may_wait_for_its_snapshots() -> None:
    """It has written nothing since, however long they take."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.clock.moment = NOW + timedelta(hours=20)
    world.let_through(Step.TERMINATE)
    world.put_away(world.ref, Step.TERMINATE)

    assert ["stop", "terminate"] == world.writes()


@pytest.mark.parametrize("instant", [True, False])
@pytest.mark.parametrize("step", [Step.STOP, Step.TERMINATE])
def test_a_repeated_step_is_one_call_while_it_takes_effect_and_after(
    step: Step, instant: bool
) -> None:
    """EC2 answers at once and takes its time."""
    world = World(action=Action.TERMINATE)
    if step is Step.TERMINATE:
        world.stop_and_snapshot()
    world.ec2.instant = instant
    for _ in range(2):
        assert not world.put_away(world.ref, step)
    assert 1 == world.writes().count(step.value)


class LostRequest:
    """Guards that let an instance through whose Spot request EC2 has just stopped to name."""

    def __init__(self, guards: Any) -> None:
        self._guards = guards

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guards, name)

    def clear(self, ref: EpisodeRef, step: Step) -> Cleared:
        cleared: Cleared = self._guards.clear(ref, step)
        return replace(cleared, instance=replace(cleared.instance, spot_request_id=None))


def test_no_termination_while_a_spot_request_is_not_known_that_must_be_canceled_first() -> None:
    """Left open, it would launch a successor. The plan would differ, too; this guard holds by
    itself."""
    world = World(
        action=Action.TERMINATE, changes={"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"}
    )
    world.stop_and_snapshot()
    put_away = replace(world.put_away, guards=LostRequest(world.guards))  # type: ignore[arg-type]

    with pytest.raises(SafetyError, match="its Spot request is not known"):
        put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


def test_an_instance_that_others_terminated_is_no_success_of_ours() -> None:
    """Only our own earlier call makes such a state one: the ledger would book it, and nobody would
    look."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    for state in ("shutting-down", "terminated"):
        world.change_instance(state=state)
        with pytest.raises(SafetyError, match=f"the instance is {state}, not stopped"):
            world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()
