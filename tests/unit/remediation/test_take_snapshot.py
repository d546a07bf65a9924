"""One complete, labeled set of snapshots an episode, of an instance in the state the plan says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from governor.core.errors import (
    AccessDenied,
    CloudError,
    MustWait,
    NotFound,
    Protected,
    SafetyError,
    SnapshotFailed,
    SnapshotUnderWay,
    Throttled,
    Unavailable,
)
from governor.core.instance import Lifecycle, Snapshot, Target, UserData, Volume
from governor.core.units import iso
from governor.episode.model.episode import Episode, Phase
from governor.episode.model.plan import Step
from governor.limits.model.pause import Pause
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.remediation.take_snapshot import RESERVED, TakeSnapshot
from governor.table import keys
from tests.builders import NOW, TARGET
from tests.twins import MemoryEc2
from tests.unit.worlds.world import ALICE, World

TWO = (Volume("vol-1", "/dev/xvda", True, 10), Volume("vol-2", "/dev/sdb", False, 20))


def stopped_world(**changes: object) -> World:
    """Stopped by us, with two volumes."""
    world = World(action=Action.TERMINATE, changes={"volumes": TWO, **changes})
    world.put_away(world.ref, Step.STOP)
    return world


def episode_of(world: World) -> Episode:
    """As it is stored."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return episode


def creations(world: World) -> int:
    """How often EC2 was asked for a set."""
    return [name for name, _, _ in world.ec2.calls].count("create_snapshots")


def begin_set(world: World, at: datetime) -> None:
    """Somebody has EC2 begin a set with the tag of the episode."""
    world.ec2.now = lambda: at
    tags = {"GpuGovernor:Episode": world.ref.execution_name}
    world.ec2.create(world.instance.target, world.ref.instance_id, tags, dry_run=False)
    world.ec2.now = world.clock.now


def test_every_volume_gets_a_snapshot_and_the_episode_knows_them() -> None:
    """Also those that would survive a termination: the plan said so."""
    world = stopped_world()
    ids, dry_run = world.take_snapshot(world.ref)

    assert not dry_run
    assert {"vol-1", "vol-2"} == {world.ec2.snapshots[snapshot][0].volume_id for snapshot in ids}
    assert (ids, NOW) == (
        episode_of(world).progress.snapshot_ids,
        episode_of(world).progress.steps_done["snapshot"],
    )


def test_the_longest_name_leaves_room_for_the_snapshots_own() -> None:
    """EC2 takes 256 characters; a refusal after the stop would leave the plan half done."""
    world = stopped_world(tags={"Purpose": "GPU-Workload", "Name": "n" * 256})
    world.take_snapshot(world.ref)

    names = {tags["Name"] for _, tags in world.ec2.snapshots.values()}
    assert {"n" * 240 + " before put-away"} == names
    assert {256} == set(map(len, names))


def test_a_snapshot_says_whose_it_is_and_how_long_it_is_kept() -> None:
    """By its tags: the gate before a termination counts by one, the retention by another."""
    world = stopped_world()
    world.take_snapshot(world.ref)

    for _, tags in world.ec2.snapshots.values():
        assert world.ref.execution_name == tags["GpuGovernor:Episode"]
        assert world.instance.instance_id == tags["GpuGovernor:Instance"]
        assert iso(NOW + timedelta(days=30)) == tags["DeleteAfter"]
        assert "notebook before put-away" == tags["Name"]


@pytest.mark.parametrize("state", ["pending", "completed"])
def test_the_snapshots_of_a_lost_answer_are_found(state: str) -> None:
    """EC2 had made them when the call timed out: a retry makes no second set."""
    world = stopped_world()
    world.state.note_step(world.ref, "snapshot", NOW)
    begin_set(world, NOW + timedelta(seconds=1))
    world.ec2.finish_snapshots(state)
    ids, _ = world.take_snapshot(world.ref)

    assert 1 == creations(world)
    assert tuple(sorted(world.ec2.snapshots)) == ids
    assert set(ids) == set(episode_of(world).progress.snapshots)


@pytest.mark.parametrize(
    ("start", "changes"),
    [
        (-timedelta(microseconds=1), {}),
        (-timedelta(days=30), {}),
        (timedelta(seconds=1), {"owner_id": "210987654321"}),
        (timedelta(seconds=1), {"volume_id": "vol-1"}),
        (timedelta(seconds=1), {"start_time": None}),
        (timedelta(seconds=1), {"state": "error"}),
    ],
)
def test_a_tagged_set_that_proves_nothing_is_not_taken_for_ours(
    start: timedelta, changes: dict[str, Any]
) -> None:
    """Before the note, of another account, not of every volume, of an unknown time, failed: a
    second set is made, and it alone counts."""
    world = stopped_world()
    world.state.note_step(world.ref, "snapshot", NOW)
    begin_set(world, NOW + start)
    stale = set(world.ec2.snapshots)
    for one in stale:
        snapshot, tags = world.ec2.snapshots[one]
        world.ec2.snapshots[one] = (replace(snapshot, **changes), tags)
    ids, _ = world.take_snapshot(world.ref)

    assert 2 == creations(world)
    assert (2, set()) == (len(ids), stale & set(ids))


def test_parts_of_two_sets_are_no_set() -> None:
    """One call takes all volumes at one moment; two halves of different moments are not adopted."""
    world = stopped_world()
    world.state.note_step(world.ref, "snapshot", NOW)
    begin_set(world, NOW + timedelta(seconds=1))
    last = sorted(world.ec2.snapshots)[-1]
    snapshot, tags = world.ec2.snapshots[last]
    world.ec2.snapshots[last] = (replace(snapshot, start_time=NOW + timedelta(hours=1)), tags)
    world.take_snapshot(world.ref)

    assert 2 == creations(world)


def test_a_set_that_nobody_asked_for_is_not_taken_for_ours() -> None:
    """Tagged with the name of the episode before its step began."""
    world = stopped_world()
    begin_set(world, NOW + timedelta(hours=1))
    foreign = set(world.ec2.snapshots)
    ids, _ = world.take_snapshot(world.ref)

    assert set() == foreign & set(ids)


def test_the_call_waits_until_clocks_cannot_disagree() -> None:
    """EC2 counts by its own clock, perhaps in whole seconds: ours is noted two seconds before."""
    world = stopped_world()
    world.take_snapshot(world.ref)
    world.take_snapshot(world.ref)

    assert ([2.0], 1) == (world.pauses, creations(world))


def test_a_throttled_call_may_be_repeated() -> None:
    """Nothing is noted as made that was not."""
    world = stopped_world()
    world.ec2.failures["create_snapshots"] = [Throttled("ConcurrentSnapshotLimitExceeded")]
    with pytest.raises(Throttled):
        world.take_snapshot(world.ref)
    assert () == episode_of(world).progress.snapshot_ids

    ids, _ = world.take_snapshot(world.ref)
    assert 2 == len(ids)


@pytest.mark.parametrize("error", [Throttled("slow down"), Unavailable("no answer")])
def test_a_call_that_is_repeated_is_recorded_as_no_refusal(error: CloudError) -> None:
    """The audit and the message about the end would name it, although EC2 has refused nothing."""
    world = stopped_world()
    world.ec2.failures["create_snapshots"] = [error]
    with pytest.raises(type(error)):
        world.take_snapshot(world.ref)

    entries = world.state._table.query(keys.episode(world.ref)[0], "JOURNAL#")
    assert ["done"] == [entry["what"] for entry in entries]
    assert episode_of(world).progress.last_no is None


def test_snapshots_have_the_tags_that_the_policy_names() -> None:
    """An organization may refuse snapshots without them, and count costs by them."""
    world = stopped_world(tags={"Purpose": "GPU-Workload", "Name": "n", "Team": "ml", "Stage": "x"})
    rule = replace(
        world.policies.policy.plan,
        snapshot_tags={"CostCenter": "42"},
        copied_tag_keys=("Team",),
    )
    world.policies.policy = replace(world.policies.policy, plan=rule)
    world.take_snapshot(world.ref)

    for _, tags in world.ec2.snapshots.values():
        assert {"Name", "GpuGovernor:Episode", "GpuGovernor:Instance", "DeleteAfter"} == (
            tags.keys() - {"CostCenter", "Team"}
        )
        assert ("42", "ml") == (tags["CostCenter"], tags["Team"])


class Answers(MemoryEc2):
    """Makes sets, and does something before it answers."""

    before_answer: Callable[[], object] = dict

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> list[Snapshot]:
        """As the port says."""
        made = super().create(target, instance_id, tags, dry_run=dry_run, boot=boot)
        self.before_answer()
        return made


def answering(world: World) -> tuple[Answers, TakeSnapshot]:
    """An EC2 of the same instances, and the step over it."""
    ec2 = Answers(instances=world.ec2.instances, now=world.clock.now)
    guards = replace(world.guards, snapshots=ec2)
    world.ec2 = ec2
    return ec2, TakeSnapshot(
        world.clock,
        guards,
        ec2,
        world.vault,
        episode_store=world.state,
        call_store=world.state,
        pause=world.pauses.append,
    )


def test_parallel_tries_make_one_set() -> None:
    """Lambda was called twice: while one try waits for EC2's answer, another one looks, and makes
    none."""
    world = stopped_world()
    ec2, take = answering(world)
    # Not visible yet: the other try cannot know of the set that is being made.
    find, hidden = ec2.find, list[Snapshot]()
    refused: list[str] = []

    def other_try() -> None:
        with (
            patch.object(ec2, "find", lambda *_: hidden),
            pytest.raises(SnapshotUnderWay) as caught,
        ):
            take(world.ref)
        refused.append(str(caught.value))

    ec2.before_answer = other_try
    ids, _ = take(world.ref)

    assert (1, 1) == (creations(world), len(refused))
    assert (
        tuple(sorted(one.snapshot_id for one in find(TARGET, {})))
        == ids
        == episode_of(world).progress.snapshot_ids
    )
    assert (ids, False) == take(world.ref)


def test_a_lost_answer_is_waited_for_and_its_set_is_found() -> None:
    """EC2 shows what was made only after a while: no second set is made in the meantime."""
    world = stopped_world()
    ec2, take = answering(world)

    def lose() -> None:
        raise Unavailable("ec2:CreateSnapshots failed: timed out")

    ec2.before_answer = lose
    with pytest.raises(Unavailable):
        take(world.ref)
    with patch.object(ec2, "find", lambda *_: []), pytest.raises(SnapshotUnderWay):
        take(world.ref)
    ids, _ = take(world.ref)

    assert (1, 2) == (creations(world), len(ids))


def test_a_set_that_never_shows_is_made_again_after_the_reservation() -> None:
    """The try died before its call, or EC2 does not show its set: one may be wasted, and is never
    counted."""
    world = stopped_world()
    ec2, take = answering(world)
    world.state.reserve_snapshots(world.ref, "snapshot", NOW, NOW - RESERVED)
    world.clock.moment = NOW + RESERVED
    with pytest.raises(SnapshotUnderWay):
        take(world.ref)
    assert 0 == creations(world)

    world.clock.moment += timedelta(seconds=1)
    ids, _ = take(world.ref)
    begin_set(world, NOW + timedelta(seconds=1))
    assert ids == take(world.ref)[0] == episode_of(world).progress.snapshot_ids
    assert ec2.snapshots.keys() > set(ids)


def test_a_late_answer_does_not_replace_what_is_recorded() -> None:
    """The episode's set is the first that was recorded; a volume has one snapshot that counts."""
    world = stopped_world()
    ec2, take = answering(world)
    ec2.before_answer = lambda: world.state.set_snapshots(
        world.ref, {"snap-1": "vol-1", "snap-2": "vol-2"}
    )
    ids, _ = take(world.ref)

    assert ("snap-1", "snap-2") == ids == episode_of(world).progress.snapshot_ids


class LosesOne(MemoryEc2):
    """Makes sets that lack the last volume."""

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> list[Snapshot]:
        """As the port says, less one."""
        return super().create(target, instance_id, tags, dry_run=dry_run, boot=boot)[:-1]


def test_an_incomplete_set_is_a_failure() -> None:
    """A volume without a snapshot would be lost."""
    world = stopped_world()
    ec2 = LosesOne(instances=world.ec2.instances)
    guards = replace(world.guards, snapshots=ec2)

    with pytest.raises(SnapshotFailed, match="vol-2"):
        TakeSnapshot(
            world.clock,
            guards,
            ec2,
            world.vault,
            episode_store=world.state,
            call_store=world.state,
            pause=world.pauses.append,
        )(world.ref)
    assert () == episode_of(world).progress.snapshot_ids


@pytest.mark.parametrize("state", ["running", "stopping", "terminated"])
def test_nothing_but_a_stopped_instance_is_taken_where_the_plan_stops_first(state: str) -> None:
    """Otherwise the snapshots would not be what people were told."""
    world = stopped_world()
    world.change_instance(state=state)

    with pytest.raises(SafetyError, match=f"the instance is {state}, not stopped"):
        world.take_snapshot(world.ref)
    assert 0 == creations(world)


@pytest.mark.parametrize("phase", [Phase.OPENING, Phase.ASKING])
def test_nothing_is_taken_before_the_recheck(phase: Phase) -> None:
    """Only the recheck moves an episode to acting."""
    world = World(phase=phase)

    with pytest.raises(SafetyError, match="not rechecked"):
        world.take_snapshot(world.ref)
    assert 0 == creations(world)


def test_an_observed_episode_asks_ec2_and_makes_nothing() -> None:
    """The running instance is checked by a dry run."""
    world = World(mode=Mode.OBSERVE, decide=False, changes={"volumes": TWO})
    world.put_away(world.ref, Step.STOP)

    assert ((), True) == world.take_snapshot(world.ref)
    assert [("create_snapshots", True)] == [(name, dry) for name, _, dry in world.ec2.calls[1:]]
    assert {} == world.ec2.snapshots
    assert "snapshot" in episode_of(world).progress.steps_done


def test_what_is_recorded_is_not_made_again_whatever_its_tags_say() -> None:
    """Somebody removed them, or EC2 does not list them yet."""
    world = stopped_world()
    first, _ = world.take_snapshot(world.ref)
    world.ec2.snapshots.clear()

    assert first == world.take_snapshot(world.ref)[0]
    assert 1 == creations(world)


def test_what_cannot_be_stopped_is_snapshot_while_it_runs() -> None:
    """A one-time Spot instance: crash-consistent snapshots first, then the termination."""
    world = World(action=Action.TERMINATE, changes={"lifecycle": Lifecycle.SPOT, "volumes": TWO})
    assert (Step.SNAPSHOT, Step.TERMINATE) == episode_of(world).plan.steps
    world.let_through(Step.TERMINATE)
    with pytest.raises(SafetyError, match="no completed snapshot"):
        world.put_away(world.ref, Step.TERMINATE)

    world.let_through(Step.SNAPSHOT)
    world.take_snapshot(world.ref)
    world.let_through(Step.TERMINATE)
    world.ec2.finish_snapshots()
    world.put_away(world.ref, Step.TERMINATE)
    assert ["terminate"] == world.writes()


SCRIPT = b"#!/bin/sh\nexport TOKEN=hunter2\n"


def test_user_data_is_kept_before_a_termination_and_its_text_stands_nowhere_else() -> None:
    """The record has its size, its hash and where it is; many roles read the table."""
    world = stopped_world()
    world.ec2.user_data_of[world.ref.instance_id] = SCRIPT
    world.take_snapshot(world.ref)
    world.take_snapshot(world.ref)
    kept = episode_of(world).progress.user_data

    assert kept is not None
    assert (len(SCRIPT), hashlib.sha256(SCRIPT).hexdigest()) == (kept.size, kept.sha256)
    assert {kept.kept_at: SCRIPT} == world.vault.copies
    assert kept.kept_at in str(kept)
    assert "hunter2" not in repr((world.state.items, world.announcer.sent))


def test_an_instance_without_user_data_has_that_in_its_record() -> None:
    """Nothing is put away, and the termination goes on."""
    world = stopped_world()
    world.take_snapshot(world.ref)

    assert (UserData(), {}) == (episode_of(world).progress.user_data, world.vault.copies)
    assert "none" == str(UserData())


@pytest.mark.parametrize(
    "error", [Unavailable("down"), AccessDenied("no"), CloudError("no such bucket")]
)
@pytest.mark.parametrize("read", [True, False])
def test_without_a_copy_of_user_data_nothing_is_terminated(error: CloudError, read: bool) -> None:
    """Not read, or not kept: the step fails, and can be repeated."""
    world = stopped_world()
    world.ec2.user_data_of[world.ref.instance_id] = SCRIPT
    if read:
        world.ec2.failures["user_data"] = [error]
    else:
        world.vault.failure = error
    with pytest.raises(type(error)):
        world.take_snapshot(world.ref)

    assert (0, None) == (creations(world), episode_of(world).progress.user_data)
    world.vault.failure = None
    world.take_snapshot(world.ref)
    assert SCRIPT in world.vault.copies.values()


@pytest.mark.parametrize(
    ("action", "mode"), [(Action.STOP, Mode.ASK), (Action.TERMINATE, Mode.OBSERVE)]
)
def test_user_data_of_what_stays_is_not_read(action: Action, mode: Mode) -> None:
    """A stopped instance keeps it, and a rehearsal ends nothing."""
    world = World(action=action, mode=mode)
    world.ec2.failures["user_data"] = [AssertionError("it was read")]
    if mode is Mode.ASK:
        world.put_away(world.ref, Step.STOP)
    else:
        world.let_through(Step.STOP)
    world.take_snapshot(world.ref)

    assert (None, {}) == (episode_of(world).progress.user_data, world.vault.copies)


# the rehearsal before a stop

SCP = AccessDenied(
    "ec2:CreateSnapshots failed: UnauthorizedOperation: You are not authorized to perform this "
    "operation. User: arn:aws:sts::123456789012:assumed-role/take-snapshot/x is not authorized to "
    "perform: ec2:CreateSnapshots on resource: arn:aws:ec2:us-east-1::snapshot/* with an explicit "
    f"deny in a service control policy. Encoded authorization failure message: {'q' * 900}",
    operation="ec2:CreateSnapshots",
    code="UnauthorizedOperation",
)


def rehearsable(**settings: Any) -> World:
    """An approved episode right after the recheck of its stop, with snapshots in its plan."""
    return World(action=Action.TERMINATE, changes={"volumes": TWO}, **settings)


def test_snapshots_are_rehearsed_with_their_real_tags_and_nothing_is_changed() -> None:
    """The stop finds its recheck unused."""
    world = rehearsable()
    with patch.object(world.ec2, "create", wraps=world.ec2.create) as create:
        before = dict(world.state.items)
        assert world.take_snapshot.rehearse(world.ref)
        rehearsed = create.call_args.args[2]
        assert before == world.state.items
        assert [("create_snapshots", world.ref.instance_id, True)] == world.ec2.calls

        world.put_away(world.ref, Step.STOP)
        world.take_snapshot(world.ref)
    assert rehearsed == create.call_args.args[2]
    assert ["stop"] == world.writes()


def test_a_tag_that_an_organization_demands_is_named_before_anything_is_stopped() -> None:
    """EC2's words, without the part that only a machine can read, the tags, and the setting."""
    world = rehearsable()
    world.ec2.failures["create_snapshots"] = [SCP]
    with pytest.raises(SafetyError) as caught:
        world.take_snapshot.rehearse(world.ref)

    text = str(caught.value)
    assert text.startswith("EC2 refuses its snapshots: UnauthorizedOperation: You are not")
    assert text.endswith(
        "with an explicit deny in a service control policy. The organization refuses snapshots "
        "with the tags Name, GpuGovernor:Episode, GpuGovernor:Instance, DeleteAfter, Owner, "
        "Project: set the tags that it demands in plan.snapshot_tags"
    )
    assert f"SafetyError: {text}" == episode_of(world).progress.last_no
    assert [] == world.writes()
    assert {} == episode_of(world).progress.steps_done


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            AccessDenied("ec2:CreateSnapshots failed: UnauthorizedOperation: no"),
            "Allow ec2:CreateSnapshots to the role of take_snapshot in this account",
        ),
        (
            CloudError(
                "ec2:CreateSnapshots failed: TagPolicyViolation: no", code="TagPolicyViolation"
            ),
            "The organization refuses snapshots with the tags Name,",
        ),
        (
            CloudError("ec2:CreateSnapshots failed: TagLimitExceeded: no", code="TagLimitExceeded"),
            "docs/snapshots.md says how to change them",
        ),
        (
            CloudError(
                "ec2:CreateSnapshots failed: SnapshotLimitExceeded: no",
                code="SnapshotLimitExceeded",
            ),
            "This is a quota, not a matter of tags: delete snapshots, or ask AWS for a higher",
        ),
        (
            CloudError(
                "ec2:CreateSnapshots failed: SnapshotCreationRateExceeded: no",
                code="SnapshotCreationRateExceeded",
            ),
            "EC2 had too many calls, not a matter of tags: try again later",
        ),
        (NotFound("ec2:CreateSnapshots failed: InvalidInstanceID.NotFound: no"), "the tags Name,"),
        (Protected("ec2:CreateSnapshots failed: OperationNotPermitted: no"), "the tags Name,"),
    ],
)
def test_every_refusal_of_a_rehearsal_is_said_with_what_to_do(
    error: CloudError, advice: str
) -> None:
    """Nothing is stopped after any of them."""
    world = rehearsable()
    world.ec2.failures["create_snapshots"] = [error]
    with pytest.raises(SafetyError) as caught:
        world.take_snapshot.rehearse(world.ref)

    assert str(error).removeprefix("ec2:CreateSnapshots failed: ") in str(caught.value)
    assert advice in str(caught.value)
    assert type(caught.value) is SafetyError
    assert [] == world.writes()


def test_a_long_refusal_says_that_it_is_cut_and_still_names_the_organization() -> None:
    """EC2 names the policy at the end, behind the names of role and resource."""
    world = rehearsable()
    world.ec2.failures["create_snapshots"] = [
        AccessDenied(
            "ec2:CreateSnapshots failed: UnauthorizedOperation: You are not authorized to perform "
            f"this operation. User: {'w' * 500} with an explicit deny in a service control policy."
        )
    ]
    with pytest.raises(SafetyError) as caught:
        world.take_snapshot.rehearse(world.ref)

    assert "www…. The organization refuses snapshots with the tags Name," in str(caught.value)


def test_the_longest_refusal_leaves_room_for_what_to_do() -> None:
    """A stored reason has 1,000 characters."""
    tags = {f"{n:02}-{'k' * 60}": "v" for n in range(45)}
    world = rehearsable()
    world.change_instance(tags={**world.instance.tags, **tags})
    world.ec2.failures["create_snapshots"] = [
        AccessDenied(f"ec2:CreateSnapshots failed: UnauthorizedOperation: {'w' * 5_000}")
    ]
    with pytest.raises(SafetyError):
        world.take_snapshot.rehearse(world.ref)

    noted = episode_of(world).progress.last_no
    assert noted is not None
    assert noted.endswith("plan.snapshot_tags")


@pytest.mark.parametrize("error", [Throttled("slow down"), Unavailable("no answer")])
def test_an_unclear_rehearsal_waits_and_is_tried_again(error: CloudError) -> None:
    """It says neither yes nor no: everything is checked again first."""
    world = rehearsable()
    world.ec2.failures["create_snapshots"] = [error]
    with pytest.raises(MustWait, match="everything is checked again"):
        world.take_snapshot.rehearse(world.ref)
    assert [] == world.writes()

    world.clock.moment += timedelta(minutes=1)
    world.publish_quiet()
    assert world.recheck(world.ref, Step.STOP).proceed
    assert world.take_snapshot.rehearse(world.ref)


def test_a_rehearsal_that_took_long_leaves_the_stop_to_the_next_recheck() -> None:
    """A recheck lets a stop through for two minutes, rehearsed or not."""
    world = rehearsable()
    world.take_snapshot.rehearse(world.ref)
    world.clock.moment += timedelta(minutes=2, seconds=1)

    with pytest.raises(MustWait, match="the last recheck was"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_the_guards_of_the_stop_stand_before_the_rehearsal() -> None:
    """Each ends it without a call: no recheck, a hold of everything, a restart."""
    world = rehearsable(phase=Phase.ASKING)
    with pytest.raises(SafetyError, match="not rechecked"):
        world.take_snapshot.rehearse(world.ref)

    world = rehearsable()
    world.state.begin_pause(Pause(NOW, ALICE, "outage"))
    with pytest.raises(MustWait, match="outage"):
        world.take_snapshot.rehearse(world.ref)

    world = rehearsable()
    world.change_instance(state="stopping")
    with pytest.raises(SafetyError, match="the instance is stopping, not running"):
        world.take_snapshot.rehearse(world.ref)
    assert 0 == creations(world)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_stop_that_was_sent_is_not_rehearsed(is_stopped: bool) -> None:
    """An answer was lost: the workflow comes here again, and there is nothing left to prevent."""
    world = rehearsable()
    world.put_away(world.ref, Step.STOP)
    if not is_stopped:
        world.change_instance(state="stopping")

    assert not world.take_snapshot.rehearse(world.ref)
    assert 0 == creations(world)


def test_a_plan_without_snapshots_has_none_to_rehearse() -> None:
    """An instance without EBS volumes, whose workflow was started by hand."""
    world = World(action=Action.STOP, changes={"volumes": ()})
    assert Step.SNAPSHOT not in episode_of(world).plan.steps

    assert not world.take_snapshot.rehearse(world.ref)
    assert 0 == creations(world)


def test_refused_snapshots_of_what_runs_on_end_its_plan_as_a_rehearsal_does() -> None:
    """A one-time Spot instance: its snapshots are the first step, and nothing is ended."""
    world = World(action=Action.TERMINATE, changes={"lifecycle": Lifecycle.SPOT, "volumes": TWO})
    world.ec2.failures["create_snapshots"] = [SCP]
    with pytest.raises(SafetyError, match=r"set the tags that it demands in plan\.snapshot_tags"):
        world.take_snapshot(world.ref)
    assert [] == world.writes()

    world.let_through(Step.SNAPSHOT)
    ids, _ = world.take_snapshot(world.ref)
    assert 2 == len(ids)


def test_snapshots_that_are_refused_after_the_stop_say_so_by_their_own_error() -> None:
    """The organization changed its policy in the meantime: the episode fails, and is stopped."""
    world = stopped_world()
    world.ec2.failures["create_snapshots"] = [SCP]
    with pytest.raises(AccessDenied):
        world.take_snapshot(world.ref)
