"""The sweep: what it reads, marks, starts, takes back and repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.errors import AccessDenied, PolicyError, PolicyProblem, Throttled
from governor.core.instance import Instance, Target
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Failing, InstanceRecord, Outcome
from governor.evidence.ports import Listed, SeriesFilter
from governor.limits.model.breaker import SweepDay
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import AppliedPolicy, Mode, Policy
from governor.table import keys
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.twins import StaticPolicies, table
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld

BUSY = [90.0] * 12
READS = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")


def test_an_idle_instance_is_marked_and_gets_one_workflow() -> None:
    """A second sweep while it is open starts nothing."""
    world = FleetWorld()
    instance_id = world.add(1)

    first = world.sweep()
    ref = episode_from_execution_name(next(iter(world.workflow.executions)))
    world.state.take_lock(ref)
    second = world.sweep(5)

    assert (1, 0) == (first.episodes_started, second.episodes_started)
    tags = world.ec2.instances[instance_id].tags
    assert ("2026-11-20T12:02:30Z", "true") == (
        tags["LowUtilization"],
        tags["ReviewForTermination"],
    )
    assert 1 == len(world.workflow.executions)


def test_what_cannot_have_become_idle_is_not_read() -> None:
    """Busy until 12:00: the next read is the first whose window no longer holds that period."""
    world = FleetWorld()
    instance_id = world.add(1, BUSY)
    world.sweep()
    read = len(world.metrics.reads)
    world.publish(instance_id, [1.0] * 12)

    for _ in range(11):
        world.sweep(5)
    assert read == len(world.metrics.reads)
    assert "busy" == world.verdict(instance_id)
    world.sweep(5)
    assert "idle" == world.verdict(instance_id)


def test_another_policy_makes_it_read_again() -> None:
    """Work under the old one may be none under the new one."""
    world = FleetWorld()
    instance_id = world.add(1, [8.0] * 12)
    world.sweep()
    world.policies.version = "other"
    world.publish(instance_id, [1.0] * 12)
    world.sweep(5)

    assert "idle" == world.verdict(instance_id)


def test_the_aggregate_is_asked_first_and_series_are_listed_once() -> None:
    """No listing for a fleet that works and aggregates; one pass for a silent instance, not again
    for an hour."""
    world = FleetWorld()
    world.add(1, [50.0] * 48)
    world.sweep()
    assert 0 == world.metrics.lists

    silent = world.add(2)
    world.silence(silent)
    world.sweep(5)
    listed = world.metrics.lists
    world.sweep(5)
    assert listed == world.metrics.lists
    world.sweep(60)
    assert listed < world.metrics.lists


def test_what_speaks_against_idleness_is_listed_once_for_both_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First over the hour that is judged, then over the hours of the question: the same series."""
    world, listed = FleetWorld(), list[SeriesFilter]()
    list_series = world.metrics.list_series

    def noted(
        target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        listed.append(wanted)
        return list_series(target, wanted, instance_id)

    monkeypatch.setattr(world.metrics, "list_series", noted)
    for number in range(6):
        world.add(number)

    assert 6 == world.sweep().episodes_started
    assert 1 == Counter(listed)[SeriesFilter("AWS/EC2", "GPUPowerUtilization")]


def test_per_gpu_series_are_found_and_remembered() -> None:
    """The busiest of them decides; the next sweep asks for them at once."""
    world = FleetWorld()
    instance_id = world.add(1, instance_type="g5.12xlarge")
    world.silence(instance_id)
    for index in range(4):
        dimensions = {"InstanceId": instance_id, "index": str(index), "name": "A10G"}
        world.metrics.publish(UTILIZATION, dimensions, BUSY if index == 2 else [1.0] * 12)
    world.sweep()
    assert "partly-idle" == world.verdict(instance_id)

    listed = world.metrics.lists
    world.sweep(65)
    assert listed == world.metrics.lists


def test_a_failed_read_is_no_data_and_read_again_at_once() -> None:
    """A throttled CloudWatch proves nothing and spoils nothing."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.metrics.broken[UTILIZATION] = "Throttling"
    world.sweep()
    assert "no-data" == world.verdict(instance_id)

    world.metrics.broken.clear()
    world.sweep(5)
    assert "idle" == world.verdict(instance_id)


def test_marks_go_when_work_resumes() -> None:
    """Tags are a view; the next sweep repairs them."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    world.publish(instance_id, BUSY)
    world.sweep(5)

    assert "LowUtilization" not in world.ec2.instances[instance_id].tags


@pytest.mark.parametrize("utilization", [[1.0] * 12, [None] * 12], ids=["too young", "no data"])
def test_marks_of_an_earlier_run_go_whatever_is_known_of_this_one(
    utilization: list[float | None],
) -> None:
    """They were about work that is over; the first sweep that sees it run again removes them."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    world.change(instance_id, launch_time=NOW + timedelta(hours=2))
    world.publish(instance_id, utilization)
    world.sweep(minutes=121 if utilization[0] else 240)

    assert {"too-young", "no-data"} & {world.verdict(instance_id)}
    assert {"LowUtilization", "ReviewForTermination"}.isdisjoint(
        world.ec2.instances[instance_id].tags
    )
    assert world.state.record(TARGET, instance_id).marked_at is None


def test_idleness_of_another_run_is_marked_with_its_own_date() -> None:
    """The tags of the run before are written over, once."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    world.change(instance_id, launch_time=NOW + timedelta(hours=1))

    for minutes, calls in ((4 * 60, 1), (5, 0)):
        world.ec2.calls.clear()
        world.sweep(minutes)
        assert calls == len(world.ec2.calls)
    assert "2026-11-20T16:02:30Z" == world.ec2.instances[instance_id].tags["LowUtilization"]


@pytest.mark.parametrize(
    ("date", "noted", "goes"),
    [
        ("see ticket", True, True),
        ("2026-11-20T12:02:30Z", False, True),
        ("2026-11-20T14:02:30Z", False, False),
        ("see ticket", False, False),
    ],
)
def test_the_note_says_when_it_was_marked_or_else_the_tag(
    date: str, noted: bool, goes: bool
) -> None:
    """The note may be lost, and anybody may write a tag; what nobody can date stays until work is
    seen."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    if not noted:
        world.state.set_marked(TARGET, None, instance_id)
    tags = {**world.ec2.instances[instance_id].tags, "LowUtilization": date}
    world.change(instance_id, launch_time=NOW + timedelta(hours=2), tags=tags)
    world.sweep(121)

    assert goes == ("LowUtilization" not in world.ec2.instances[instance_id].tags)


def test_many_marks_are_noted_at_once_and_a_note_that_fails_keeps_no_question_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction takes 100; what it could not write is said of these."""
    world, noted = FleetWorld(), list[tuple[str, ...]]()
    for number in range(1, 104):
        world.add(number)

    def fail(_target: Target, _at: UtcDatetime | None, *ids: str) -> None:
        noted.append(ids)
        raise Throttled("the table is busy")

    monkeypatch.setattr(world.state, "set_marked", fail)
    summary = world.sweep()

    assert [100, 3] == [len(ids) for ids in noted]
    assert (103, 2) == (summary.episodes_started, len(summary.problems))
    assert summary.problems[0].startswith("note of the tags of i-00000000000000001, ")
    assert "and 97 more: Throttled: the table is busy" in summary.problems[0]


def test_observe_mode_tries_the_marks_of_each_run_once() -> None:
    """By dry run: to mark, to unmark when it runs anew, to mark again; nothing is written."""
    world = FleetWorld(Policy(mode=Mode.OBSERVE))
    instance_id = world.add(1)
    world.sweep()
    world.change(instance_id, launch_time=NOW + timedelta(hours=2))
    for minutes in (121, 5, 240, 5):
        world.sweep(minutes)

    calls = [call for call in world.ec2.calls if call[0] in ("set_tags", "remove_tags")]
    assert [(name, instance_id, True) for name in ("set_tags", "remove_tags", "set_tags")] == calls


def test_observe_mode_tags_by_dry_run_only_once() -> None:
    """No tag is written, and the call is not made again every five minutes."""
    world = FleetWorld(Policy(mode=Mode.OBSERVE))
    instance_id = world.add(1)
    world.sweep()
    world.sweep(5)

    assert [("set_tags", instance_id, True)] == [c for c in world.ec2.calls if c[0] == "set_tags"]
    assert "LowUtilization" not in world.ec2.instances[instance_id].tags


def test_one_instance_that_cannot_be_tagged_does_not_sink_the_others() -> None:
    """It is counted, and the rest is done."""
    world = FleetWorld()
    bad, good = world.add(1), world.add(2)
    world.ec2.failures[f"set_tags:{bad}"] = [AccessDenied("no")]
    summary = world.sweep()

    assert 1 == len(summary.problems)
    assert "LowUtilization" in world.ec2.instances[good].tags
    assert 2 == summary.episodes_started


def test_a_workflow_that_cannot_be_started_is_started_by_the_next_sweep() -> None:
    """Level-triggered: nothing is lost."""
    world = FleetWorld()
    world.add(1)
    world.workflow.failure = Throttled("later")
    assert 1 == len(world.sweep().problems)

    world.workflow.failure = None
    assert 1 == world.sweep(5).episodes_started


def test_a_used_name_is_not_waited_for() -> None:
    """An execution that ended before it opened its episode uses up its number; the next one
    follows."""
    world = FleetWorld()
    instance_id = world.add(1)
    instance = world.ec2.instances[instance_id]
    ref = EpisodeRef(TARGET.account, TARGET.region, instance_id, instance.launch_time, 1)
    world.workflow.executions[ref.execution_name] = False

    world.sweep()
    world.sweep(5)

    numbers = sorted(episode_from_execution_name(name).number for name in world.workflow.executions)
    assert [1, 2] == numbers


def test_told_idleness_is_quiet_until_its_time_or_until_work_resumes() -> None:
    """The same idleness is not told twice; another one is."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    ref = episode_from_execution_name(next(iter(world.workflow.executions)))
    world.state.take_lock(ref)
    quiet = NOW + timedelta(hours=24)
    world.state.close_episode(ref, Outcome.EXPIRED, "nobody", NOW, quiet_until=quiet)
    assert 0 == world.sweep(5).episodes_started

    world.publish(instance_id, BUSY)
    world.sweep(5)
    world.publish(instance_id, [1.0] * 12)
    world.sweep(120)
    assert 1 == world.sweep(5).episodes_started


def test_managed_instances_are_told_and_never_marked() -> None:
    """No workflow is about them, and no tag of ours is set on them."""
    world = FleetWorld()
    tags = {"Purpose": "GPU-Workload", "aws:autoscaling:groupName": "asg"}
    instance_id = world.add(1, tags=tags)
    summary = world.sweep()

    assert (0, []) == (summary.episodes_started, world.ec2.calls)
    assert "managed-elsewhere" == world.verdict(instance_id)
    assert 1 == told(world, AlertKind.MANAGED_IDLE)


def test_far_more_than_ever_before_freezes_although_most_go_on_working() -> None:
    """Six of thirty are no half; but no sweep of the last days saw more than one turn."""
    world = FleetWorld()
    ids = [world.add(number, BUSY) for number in range(30)]
    world.sweep()
    known = [SweepDay(NOW.date() - timedelta(days=age), 1, 0) for age in (3, 2, 1)]
    world.state.set_sweep_days(TARGET, known)
    for instance_id in ids[:6]:
        world.publish(instance_id, [0.0] * 12)

    summary = world.sweep(65)

    assert (True, 0) == (summary.frozen, summary.episodes_started)
    assert 6 == world.state.sweep_days(TARGET)[-1].most_idle


def test_an_outage_that_looks_like_idleness_freezes_everything() -> None:
    """Six busy instances report zero at once: no workflow starts, people are told once."""
    world = FleetWorld()
    ids = [world.add(n, BUSY) for n in range(1, 7)]
    world.sweep()
    for instance_id in ids:
        world.publish(instance_id, [0.0] * 12)
    summary = world.sweep(65)
    again = world.sweep(5)

    assert summary.frozen
    assert again.frozen
    assert {"frozen"} == {world.verdict(instance_id) for instance_id in ids}
    assert {} == world.workflow.executions
    kinds = [alert.kind for alert in world.announcer.sent]
    assert 1 == kinds.count(AlertKind.BREAKER_TRIPPED)


def test_the_freeze_ends_when_its_time_is_over() -> None:
    """Told again, and plans are made again."""
    world = FleetWorld()
    ids = [world.add(n, BUSY) for n in range(1, 7)]
    world.sweep()
    for instance_id in ids:
        world.publish(instance_id, [0.0] * 12)
    world.sweep(65)
    summary = world.sweep(200)

    assert not summary.frozen
    assert 6 == summary.episodes_started
    assert AlertKind.BREAKER_RELEASED in [alert.kind for alert in world.announcer.sent]


def test_silence_is_told_once_for_all() -> None:
    """One message for three silent instances, and none at the next sweep."""
    world = FleetWorld()
    for number in (1, 2, 3):
        world.silence(world.add(number))
    world.sweep()
    world.sweep(5)

    silent = [alert for alert in world.announcer.sent if alert.kind is AlertKind.TELEMETRY_SILENT]
    assert 1 == len(silent)
    assert 3 == len(silent[0].facts["instance_ids"])  # type: ignore[arg-type]
    assert {} == world.workflow.executions


def tagged(owner: str, project: str = "vision") -> dict[str, str]:
    """Tags of a selected instance of somebody's."""
    return {"Purpose": "GPU-Workload", "Owner": owner, "Project": project}


def silence_messages(world: FleetWorld) -> list[tuple[str, int, bool]]:
    """Owner, number of instances, and whether it was told as an outage."""
    sent = [alert for alert in world.announcer.sent if alert.kind is AlertKind.TELEMETRY_SILENT]
    facts = [(alert.owner, alert.facts["instance_ids"], alert.facts["outage"]) for alert in sent]
    return sorted((owner, len(ids), bool(outage)) for owner, ids, outage in facts)  # type: ignore[arg-type]


def test_silence_is_told_to_each_owner_with_what_to_do() -> None:
    """Two of ada's as one message, bob's by itself, and what nobody owns to the default owner."""
    world = FleetWorld()
    for number, tags in enumerate(
        (tagged("ada"), tagged("ada"), tagged("bob"), {"Purpose": "GPU-Workload"})
    ):
        world.silence(world.add(number, tags=tags))
    for _ in range(3):
        world.sweep(5)

    assert [("ada", 2, False), ("bob", 1, False), ("unassigned", 1, False)] == silence_messages(
        world
    )
    assert all("governor doctor" in " ".join(alert.lines) for alert in world.announcer.sent)


def test_a_fleet_without_metrics_is_one_message_and_not_one_an_owner() -> None:
    """The agent was never rolled out: forty owners have one cause. Who falls silent later is told
    singly."""
    world = FleetWorld()
    for number in range(40):
        world.silence(world.add(number, tags=tagged(f"owner-{number}")))
    world.sweep()
    late = world.add(99, tags=tagged("late"))
    world.sweep(5)
    world.silence(late)
    world.sweep(65)

    assert [("late", 1, False), ("unassigned", 40, True)] == silence_messages(world)


def test_an_outage_is_told_by_the_breaker_and_what_stays_silent_after_it() -> None:
    """Forty agents stop within an hour: one freeze. When it ends, those whose agents are still
    down."""
    world = FleetWorld()
    ids = [world.add(number, BUSY, tags=tagged(f"owner-{number}")) for number in range(40)]
    world.sweep()
    for instance_id in ids:
        world.silence(instance_id)
    for _ in range(24):
        world.sweep(5)
    assert [] == silence_messages(world)
    assert 1 == told(world, AlertKind.BREAKER_TRIPPED)

    for instance_id in ids[10:]:
        world.publish(instance_id, BUSY)
    for _ in range(24):
        world.sweep(10)
    assert [(f"owner-{number}", 1, False) for number in range(10)] == silence_messages(world)


def test_hidden_gpus_keep_an_instance() -> None:
    """An aggregate of seven GPUs on a machine of eight: one may be in MIG mode and at work."""
    world = FleetWorld()
    instance_id = world.add(1, instance_type="p4d.24xlarge")
    own = {"InstanceId": instance_id}
    world.metrics.publish(UTILIZATION, own, [35.0] * 12, statistic="SampleCount")
    world.sweep()
    assert "no-data" == world.verdict(instance_id)

    world.metrics.publish(UTILIZATION, own, [40.0] * 12, statistic="SampleCount")
    world.sweep(5)
    assert "idle" == world.verdict(instance_id)


def test_in_auto_mode_a_freeze_does_not_end_by_time_alone() -> None:
    """Nobody would be asked: six instances that an outage made idle stay until work is seen
    again."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    ids = [world.add(n, BUSY) for n in range(1, 7)]
    world.sweep()
    for instance_id in ids:
        world.publish(instance_id, [0.0] * 12)
    world.sweep(65)

    assert world.sweep(200).frozen
    assert world.sweep(600).frozen
    assert {} == world.workflow.executions


def turn(world: FleetWorld, ids: Sequence[str], *, bins: int) -> None:
    """They worked for an hour, and have shown nothing for so many bins since."""
    for instance_id in ids:
        readings = [90.0] * 12 + [0.0] * bins
        world.metrics.publish(UTILIZATION, {"InstanceId": instance_id}, readings)


def test_a_simultaneous_turn_is_seen_before_a_question_could_start() -> None:
    """A question takes three hours; that all stopped at once is seen after one, and holds until
    then."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    ids = [world.add(n, BUSY) for n in range(1, 7)]
    world.sweep()
    turn(world, ids, bins=12)
    assert world.sweep(65).frozen
    turn(world, ids, bins=60)
    assert world.sweep(240).frozen
    assert {} == world.workflow.executions


def test_silence_after_a_turn_is_an_outage_too() -> None:
    """An idle instance about which nobody was asked yet has data, and is heard."""
    world = FleetWorld(Policy(mode=Mode.ASK, breaker=Breaker(turned_idle_percent=100)))
    ids = [world.add(n, BUSY) for n in range(1, 7)]
    world.add(7, BUSY)
    world.sweep()
    turn(world, ids, bins=12)
    assert not world.sweep(65).frozen
    assert {"idle"} == {world.verdict(instance_id) for instance_id in ids}
    for instance_id in ids:
        world.silence(instance_id)
    assert world.sweep(30).frozen


def test_in_auto_mode_a_freeze_ends_when_most_of_those_that_turned_have_worked() -> None:
    """One that is forgotten must not keep all the others frozen for ever."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    ids = [world.add(n, BUSY) for n in range(1, 11)]
    world.sweep()
    turn(world, ids, bins=12)
    world.sweep(65)
    for instance_id in ids[1:]:
        world.publish(instance_id, BUSY)
    turn(world, ids[:1], bins=36)
    assert world.sweep(120).frozen  # its time is not over
    turn(world, ids[:1], bins=60)

    assert not world.sweep(120).frozen
    assert [ids[0]] == [
        episode_from_execution_name(name).instance_id for name in world.workflow.executions
    ]


def test_work_that_came_and_went_during_a_freeze_has_been_seen() -> None:
    """An instance that is idle again since is idle in earnest."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    outage(world)
    world.sweep(65)
    for n in range(1, 4):
        world.publish(f"i-{n:017x}", BUSY)
    world.sweep(30)
    for n in range(1, 4):
        world.publish(f"i-{n:017x}", [0.0] * 12)
    assert not world.sweep(200).frozen


def test_what_was_put_away_holds_no_freeze() -> None:
    """Stopped, or stopped and started anew."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    outage(world)
    world.sweep(65)
    assert world.sweep(200).frozen
    world.change(f"i-{1:017x}", state="stopped")
    world.change(f"i-{2:017x}", launch_time=world.clock.now())
    assert not world.sweep(5).frozen


def test_a_freeze_that_lasts_is_told_again_every_day() -> None:
    """With what would end it."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    outage(world)
    for minutes in (65, 23 * 60, 30):
        world.sweep(minutes)
    assert 1 == told(world, AlertKind.BREAKER_TRIPPED)
    for minutes in (60, 60):
        world.sweep(minutes)
    tripped = [alert for alert in world.announcer.sent if alert.kind is AlertKind.BREAKER_TRIPPED]
    assert 2 == len({alert.dedup_id for alert in tripped}) == len(tripped)
    assert "6 of 6 instances have neither worked nor been stopped" in tripped[1].lines[2]


def mixed(world: FleetWorld) -> list[str]:
    """Six whose policy asks, six whose policy does not, at work together and idle together."""
    tags = {"Purpose": "GPU-Workload"}
    ids = [
        world.add(n, BUSY, tags={**tags, "Mode": "auto" if n > 6 else "ask"}) for n in range(1, 13)
    ]
    world.sweep()
    turn(world, ids, bins=30)
    return ids


class ByTag(StaticPolicies):
    """The tag `Mode` decides; nothing can be said about an instance whose tag is `unclear`."""

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """As the port says."""
        found = instance.tags.get("Mode", "ask")
        if found == "unclear":
            raise PolicyError([PolicyProblem("overrides[0]", "they contradict each other")])
        return AppliedPolicy(replace(self.policy, mode=Mode(found)), "v1", ())


def test_a_freeze_is_kept_by_all_that_turned_while_any_of_them_is_acted_on_unasked() -> None:
    """Half of the fleet asks people, and publishes zeros like the other half."""
    world = FleetWorld(Policy(mode=Mode.ASK))
    world.sweep_target = replace(world.sweep_target, policies=ByTag(world.policy))
    mixed(world)
    assert world.sweep(65).frozen
    assert world.sweep(240).frozen
    assert {} == world.workflow.executions


def test_a_policy_that_cannot_be_read_ends_no_freeze() -> None:
    """Its word about asking is not known."""
    world = FleetWorld(Policy(mode=Mode.ASK))
    world.sweep_target = replace(world.sweep_target, policies=ByTag(world.policy))
    ids = mixed(world)
    world.sweep(65)
    for instance_id in ids[6:]:
        world.change(instance_id, tags={"Purpose": "GPU-Workload", "Mode": "unclear"})
    assert world.sweep(240).frozen


def test_where_silence_is_a_yes_a_freeze_does_not_end_by_time_alone() -> None:
    """Mode `ask`, and nobody answers."""
    world = FleetWorld(Policy(mode=Mode.ASK, approval=ApprovalRule(on_expiry="act")))
    outage(world)
    world.sweep(65)
    assert world.sweep(240).frozen


def test_a_sweep_that_could_read_nothing_hides_no_turn() -> None:
    """Busy, then CloudWatch fails, then zeros: between the two there is no busy sweep."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    outage(world)
    world.metrics.broken = {UTILIZATION: "Throttling"}
    assert not world.sweep(65).frozen
    world.metrics.broken = {}
    assert world.sweep(5).frozen


def test_what_is_out_of_sight_for_a_sweep_still_holds_a_freeze() -> None:
    """Its tag was lost and put back."""
    world = FleetWorld(Policy(mode=Mode.AUTO))
    outage(world)
    world.sweep(65)
    for n in range(1, 6):
        world.change(f"i-{n:017x}", tags={})
    world.sweep(5)
    for n in range(1, 6):
        world.change(f"i-{n:017x}", tags={"Purpose": "GPU-Workload"})
    assert world.sweep(240).frozen


def outage(world: FleetWorld) -> None:
    """Six busy instances report zero at once."""
    ids = [world.add(n, BUSY) for n in range(1, 7)]
    world.sweep()
    for instance_id in ids:
        world.publish(instance_id, [0.0] * 12)


def told(world: FleetWorld, kind: AlertKind) -> int:
    """How many messages of a kind went out."""
    return sum(alert.kind is kind for alert in world.announcer.sent)


def test_a_freeze_is_told_until_a_channel_takes_it() -> None:
    """An outage may hit the alerts, too; once told, it is not told again."""
    world = FleetWorld()
    outage(world)
    world.announcer.failure = Throttled("later")
    assert world.sweep(65).frozen
    assert 0 == told(world, AlertKind.BREAKER_TRIPPED)

    world.announcer.failure = None
    for _ in range(3):
        world.sweep(5)
    assert 1 == told(world, AlertKind.BREAKER_TRIPPED)


def test_a_freeze_does_not_end_before_its_end_can_be_told() -> None:
    """Waiting costs little; a fleet that is asked about again without a word costs trust."""
    world = FleetWorld()
    outage(world)
    world.sweep(65)
    world.announcer.failure = Throttled("later")
    assert world.state.breaker(TARGET) is not None
    world.sweep(200)
    assert world.state.breaker(TARGET) is not None

    world.announcer.failure = None
    world.sweep(5)
    assert world.state.breaker(TARGET) is None
    assert 1 == told(world, AlertKind.BREAKER_RELEASED)


def test_silence_is_told_until_a_channel_takes_it() -> None:
    """Then once, until the instance has been heard of again."""
    world = FleetWorld()
    silent = world.add(1)
    world.silence(silent)
    world.announcer.failure = Throttled("later")
    world.sweep()
    world.announcer.failure = None
    for _ in range(3):
        world.sweep(5)
    assert 1 == told(world, AlertKind.TELEMETRY_SILENT)

    world.publish(silent, BUSY)
    world.sweep(5)
    world.silence(silent)
    world.sweep(65)
    assert 2 == told(world, AlertKind.TELEMETRY_SILENT)


def test_a_throttled_read_hides_no_silence_that_follows_it() -> None:
    """Both are no data; only one of them is a broken agent."""
    world = FleetWorld()
    silent = world.add(1)
    world.metrics.broken[UTILIZATION] = "Throttling"
    world.sweep()
    assert 0 == told(world, AlertKind.TELEMETRY_SILENT)

    world.metrics.broken.clear()
    world.silence(silent)
    world.sweep(5)
    assert 1 == told(world, AlertKind.TELEMETRY_SILENT)


def test_overrides_that_contradict_each_other_sink_one_instance_only() -> None:
    """It is not judged, and the sweep says why."""
    world = FleetWorld()
    good, bad = world.add(1), world.add(2, tags={"Purpose": "GPU-Workload", "team": "b"})
    applied_to = world.policies.applied_to

    def contradict(instance: Instance) -> AppliedPolicy:
        if instance.instance_id == bad:
            raise PolicyError(
                [PolicyProblem("overrides.a+b", "window_minutes must be a whole number of periods")]
            )
        of_others: AppliedPolicy = applied_to(instance)
        return of_others

    world.policies.applied_to = contradict  # type: ignore[method-assign]
    summary = world.sweep()

    assert ("idle", "no-data", 1) == (
        world.verdict(good),
        world.verdict(bad),
        summary.episodes_started,
    )
    assert [bad] == [problem.partition(":")[0] for problem in summary.problems]


def test_keeps_cost_a_sweep_one_query_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As locks do: nothing is read instance by instance."""

    def reads(number: int) -> Counter[tuple[str, str]]:
        world, asked = FleetWorld(), Counter[tuple[str, str]]()
        for one in range(number):
            world.state.store_hold(
                TARGET, world.add(one), Hold(snoozed_until=NOW + timedelta(days=1))
            )
        monkeypatch.setattr(
            table, "ASKED", [lambda action, pk: asked.update([(action, pk.split("#")[0])])]
        )
        assert {"snoozed": number} == world.sweep().verdicts
        return Counter({one: times for one, times in asked.items() if one[0] in READS})

    few = reads(1)
    assert (1, 1) == (few["dynamodb:Query", "HOLD"], few["dynamodb:Query", "LOCK"])
    assert few == reads(40)


@pytest.mark.parametrize(
    ("key", "broken"),
    [
        ((keys.target_pk(TARGET), "SWEEP-DAYS"), {}),
        ((keys.target_pk(TARGET), "SWEEP-DAYS"), {"days": "many"}),
        ((keys.target_pk(TARGET), "SWEEP-DAYS"), {"days": {"yesterday": [1, 0]}}),
        ((keys.target_pk(TARGET), "SWEEP-DAYS"), {"days": {"2026-11-19": [1]}}),
        ((keys.target_pk(TARGET), "SWEEP-DAYS"), {"days": {"2026-11-20": ["many", 0]}}),
        ((f"BREAKER#{keys.place(TARGET)}", "TURNED"), {"ids": None}),
        ((f"BREAKER#{keys.place(TARGET)}", "TURNED"), {"ids": {"i-1": "now"}}),
        ((f"BREAKER#{keys.place(TARGET)}", "TURNED"), {"ids": {"i-1": 5}}),
        (("FAILING#all", f"WORKED#{keys.place(TARGET)}"), {"stop": "yesterday"}),
        (("FAILING#all", f"WORKED#{keys.place(TARGET)}"), {"stop": 5}),
        (("FAILING#all", "CAUSE#denied#x"), {"cause": "denied"}),
    ],
)
def test_one_broken_item_ends_no_sweep(key: tuple[str, str], broken: dict[str, object]) -> None:
    """Its target is swept and remembered, and a failure that is over is told of, as if it were not
    there."""
    world = FleetWorld()
    new, earlier = world.add(1), NOW - timedelta(hours=1)
    failed = Failing(TARGET, "i-0000000f", "gone", "denied", "AccessDenied", "stop", earlier)
    world.state.note_failing(failed)
    world.state.items[key] = {**broken, "pk": key[0], "sk": key[1]}
    summary = world.sweep()

    assert ("idle", 1, []) == (world.verdict(new), summary.episodes_started, summary.problems)
    assert [] == world.close_sweep().problems
    assert 1 == told(world, AlertKind.FAILURE_OVER)
    assert [] == world.state.failing()


def test_a_record_that_cannot_be_read_sinks_one_instance_only() -> None:
    """It may hold an exemption: nothing follows for that instance."""
    world = FleetWorld()
    good, bad = world.add(1), world.add(2)
    world.state.put(InstanceRecord(TARGET, bad, episodes=1))
    world.state.items[keys.instance(TARGET, bad)]["episodes"] = "many"
    summary = world.sweep()

    assert ("idle", "no-data", 1) == (
        world.verdict(good),
        world.verdict(bad),
        summary.episodes_started,
    )
    (problem,) = summary.problems
    assert problem.startswith(f"{bad}: the item TARGET#")
    assert "cannot be read: episodes: " in problem


def test_an_admin_ends_the_freeze_of_a_target_and_no_later_one() -> None:
    """By the console's note, which names the freeze that its page showed."""
    world = FleetWorld(Policy(mode=Mode.ASK))
    outage(world)
    assert world.sweep(65).frozen
    freeze = world.state.breaker(TARGET)
    assert freeze is not None
    other = replace(freeze, tripped_at=freeze.tripped_at - timedelta(minutes=5))
    world.state.request_freeze_end(TARGET, other, "oidc:ada@example.com", world.clock.moment)
    assert world.sweep(5).frozen
    world.state.request_freeze_end(TARGET, freeze, "oidc:ada@example.com", world.clock.moment)
    assert not world.sweep(5).frozen
    assert world.state.breaker(TARGET) is None


@pytest.mark.parametrize("was_idle", [False, True])
def test_one_record_that_cannot_be_read_has_no_data_and_sinks_no_other(was_idle: bool) -> None:
    """Its reason is a problem of the sweep; an open question about it stands; nothing of it is
    changed."""
    world = FleetWorld()
    odd, whole = world.add(1), world.add(2)
    if was_idle:
        world.sweep()
        for name in list(world.workflow.executions):
            world.state.take_lock(episode_from_execution_name(name))
    before = len(world.workflow.executions)
    tags = dict(world.ec2.instances[odd].tags)
    world.ec2.odd[odd] = "EC2's record of it cannot be read: KeyError('LaunchTime')"

    summary = world.sweep(5)

    assert {"idle": 1, "no-data": 1} == dict(summary.verdicts)
    assert [f"{odd}: {world.ec2.odd[odd]}"] == summary.problems
    assert ("idle", "no-data") == (world.verdict(whole), world.verdict(odd))
    assert tags == world.ec2.instances[odd].tags
    assert (0 if was_idle else 1) == len(world.workflow.executions) - before
    assert (world.state.record(TARGET, odd).open_episode is not None) == was_idle
    world.ec2.odd.clear()
    world.sweep(5)
    assert "idle" == world.verdict(odd)


def test_a_list_that_cannot_be_read_is_said_although_no_instance_is_missing() -> None:
    """Or a first sweep would count no instance, and call that well."""
    world = FleetWorld()
    world.ec2.odd[""] = (
        "ec2:DescribeInstances gave a record that cannot be read: KeyError('Reservations')"
    )

    assert [world.ec2.odd[""]] == world.sweep().problems


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_record_without_an_id_voids_no_question(is_remembered: bool) -> None:
    """It may be any instance that is missing: each of those has no data, and its question
    stands."""
    world = FleetWorld()
    gone, whole = world.add(1), world.add(2)
    world.sweep()
    for name in list(world.workflow.executions):
        world.state.take_lock(episode_from_execution_name(name))
    if not is_remembered:
        world.state.remember(TARGET, {}, world.clock.moment)
    nameless = world.ec2.instances.pop(gone)
    world.ec2.odd[""] = (
        "ec2:DescribeInstances gave a record that cannot be read: KeyError('InstanceId')"
    )

    summary = world.sweep(5)

    assert f"{gone}: {world.ec2.odd['']}" in summary.problems
    assert ("idle", "no-data") == (world.verdict(whole), world.verdict(gone))
    assert world.state.record(TARGET, gone).open_episode is not None
    world.ec2.odd.clear()
    world.ec2.add(nameless)
    world.sweep(5)
    assert "idle" == world.verdict(gone)
    assert world.state.record(TARGET, gone).open_episode is not None
