"""The sweep and open questions: taken back when they are moot, repaired when their workflow is
gone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.approvals.model.approval import Answer, ApprovalStatus
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import DecisionRefused, Throttled, Unavailable
from governor.episode.model.episode import Outcome, Phase
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.table import keys
from governor.table.table import update
from governor.verdict.model import Hold
from tests.builders import NOW, QUIET_BEFORE, TARGET
from tests.episodes import ending_of
from tests.twins import MemoryWorkflow
from tests.unit.worlds.builders import (
    approval_id_of,
    asked,
    decider,
    decision,
    open_question,
    recorder,
    ref_of,
    start_acting,
    stored_approval,
    stored_episode,
    token_of,
)
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld

BUSY = [90.0] * 12
QUIET = [1.0] * 12


def void_of(world: FleetWorld, instance_id: str) -> tuple[ApprovalStatus, str | None, object]:
    """Status and outcome of the question, and what the waiting task was told."""
    approval = stored_approval(world, instance_id)
    told = world.workflow.answers.get(token_of(instance_id), {})
    return approval.status, approval.void_outcome, told.get("decision")


def alerts(world: FleetWorld, kind: AlertKind) -> int:
    """How many messages of a kind went out."""
    return [alert.kind for alert in world.announcer.sent].count(kind)


def test_work_that_resumed_takes_the_question_back() -> None:
    """A late yes then finds nothing to say yes to."""
    world, instance_id, _ = asked()
    world.publish(instance_id, BUSY)
    world.sweep(15)

    assert (ApprovalStatus.VOID, "woke-up", "void") == void_of(world, instance_id)


def test_one_gpu_at_work_is_work() -> None:
    """Partly idle is not idle."""
    world = FleetWorld()
    instance_id = world.add(1, instance_type="g5.12xlarge")
    world.silence(instance_id)
    series = [{"InstanceId": instance_id, "index": str(n), "name": "A10G"} for n in range(4)]
    for dimensions in series:
        world.metrics.publish(UTILIZATION, dimensions, (*QUIET_BEFORE, *QUIET))
    world.sweep()
    open_question(world, instance_id)
    world.metrics.publish(UTILIZATION, series[2], BUSY)
    world.sweep(15)

    assert (ApprovalStatus.VOID, "woke-up", "void") == void_of(world, instance_id)


def test_an_exemption_by_tag_takes_the_question_back() -> None:
    """Somebody answered with a tag."""
    world, instance_id, _ = asked()
    tags = world.ec2.instances[instance_id].tags
    world.change(instance_id, tags={**tags, "GpuGovernor": "exempt"})
    world.sweep(5)

    assert (ApprovalStatus.VOID, "void", "void") == void_of(world, instance_id)


@pytest.mark.parametrize("key", ["gpugovernor", "gpu_governor", "gpugovernor:exempt"])
def test_an_oddly_spelled_exemption_is_reported_once_a_week(key: str) -> None:
    """It keeps the instance all the same; the exact tag is no news."""
    world, instance_id, _ = asked()
    tags = world.ec2.instances[instance_id].tags
    other = world.add(2)
    world.change(other, tags={**tags, "GpuGovernor": "exempt"})
    world.change(instance_id, tags={**tags, key: "Keep "})
    for _ in range(3):
        world.sweep(5)

    assert (ApprovalStatus.VOID, "void", "void") == void_of(world, instance_id)
    (alert,) = [one for one in world.announcer.sent if one.kind is AlertKind.EXEMPTION_UNUSUAL]
    assert [instance_id] == alert.facts["instance_ids"]
    assert any(f"{key}=Keep" in line for line in alert.lines)
    world.sweep(60 * 24 * 8)
    assert 2 == sum(one.kind is AlertKind.EXEMPTION_UNUSUAL for one in world.announcer.sent)


def test_a_restart_takes_the_question_back() -> None:
    """The run that was asked about is over."""
    world, instance_id, _ = asked()
    world.change(instance_id, launch_time=NOW)
    world.sweep(5)

    assert (ApprovalStatus.VOID, "void", "void") == void_of(world, instance_id)


@pytest.mark.parametrize(
    "changes", [{"state": "stopped"}, {"tags": {}}], ids=["stopped", "tag gone"]
)
def test_an_instance_that_left_the_list_takes_the_question_back(changes: dict[str, object]) -> None:
    """Also when the event that told of it was lost."""
    world, instance_id, _ = asked()
    world.change(instance_id, **changes)
    world.sweep(5)

    assert (ApprovalStatus.VOID, "void", "void") == void_of(world, instance_id)


def test_what_the_workflow_does_itself_is_no_news() -> None:
    """An approved instance leaves the list because we stop it."""
    world, instance_id, ref = asked()
    decide = decider(world)
    decide(approval_id_of(instance_id), decision(), losses_accepted=True)
    start_acting(world, ref)
    world.change(instance_id, state="stopping")
    summary = world.sweep(5)

    assert ApprovalStatus.APPROVED is stored_approval(world, instance_id).status
    assert Phase.ACTING is stored_episode(world, ref).phase
    assert [] == summary.problems


def test_an_idle_instance_keeps_its_question() -> None:
    """Nothing changed, so nothing is taken back and nothing is asked twice."""
    world, instance_id, _ = asked()
    summary = world.sweep(5)

    assert ApprovalStatus.PENDING is stored_approval(world, instance_id).status
    assert 0 == summary.episodes_started
    assert {} == world.workflow.answers


def test_silence_does_not_take_a_question_back() -> None:
    """No data says nothing about work; the recheck will refuse to act on it."""
    world, instance_id, _ = asked()
    world.silence(instance_id)
    world.sweep(15)

    assert "no-data" == world.verdict(instance_id)
    assert ApprovalStatus.PENDING is stored_approval(world, instance_id).status


def test_a_dead_workflow_is_closed_told_once_and_soon_tried_again() -> None:
    """Its lock would keep the instance for ever; its question can no longer be answered."""
    world, instance_id, ref = asked()
    world.workflow.executions[ref.execution_name] = False
    world.sweep(61)
    world.sweep(4)

    episode = stored_episode(world, ref)
    record = world.state.record(TARGET, instance_id)
    assert (Phase.CLOSED, Outcome.FAILED) == (episode.phase, episode.outcome)
    assert (None, NOW + timedelta(minutes=66)) == (record.open_episode, record.quiet_until)
    assert ApprovalStatus.VOID is stored_approval(world, instance_id).status
    (alert,) = (alert for alert in world.announcer.sent if alert.kind is AlertKind.FAILURE)
    assert Severity.CRITICAL is alert.severity


def test_a_workflow_that_moved_lately_is_not_called_dead() -> None:
    """Its last step may be recording its outcome in this very moment."""
    world, _, ref = asked()
    world.workflow.executions[ref.execution_name] = False
    world.sweep(30)

    assert Phase.ASKING is stored_episode(world, ref).phase


def test_a_workflow_that_is_forgotten_frees_its_instance_within_two_hours() -> None:
    """Its state machine was replaced, say: nobody will ever end this episode, and the lock would
    stay."""
    world, _, ref = asked()
    world.workflow.executions.clear()
    world.sweep(59)
    assert Phase.ASKING is stored_episode(world, ref).phase

    for _ in range(13):
        world.sweep(5)
    assert Outcome.FAILED is stored_episode(world, ref).outcome


def test_workflows_are_looked_at_once_an_hour_each_at_its_own_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Step Functions describes few executions a second; an hour's worth of looks never comes at
    once."""
    world = FleetWorld()
    ids = [world.add(number) for number in range(1, 31)]
    world.sweep()
    for one in ids:
        open_question(world, one)
    world.sweep(60)
    looks: Counter[str] = Counter()
    is_running = world.workflow.is_running

    def counted(ref: EpisodeRef) -> bool | None:
        looks[ref.instance_id] += 1
        return is_running(ref)

    monkeypatch.setattr(world.workflow, "is_running", counted)
    most = 0
    for _ in range(12):
        before = looks.total()
        world.sweep(5)
        most = max(most, looks.total() - before)

    assert ({1}, 30) == ({*looks.values()}, len(looks))
    assert most < 10


def test_open_questions_are_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of them one by one would take longer than all metrics."""
    world, instance_id, _ = asked()

    def never(*_: object) -> None:
        raise Unavailable("read by itself")

    monkeypatch.setattr(world.state, "episode", never)
    monkeypatch.setattr(world.state, "approval", never)
    assert [] == world.sweep(5).problems
    [row] = [one for one in world.state.page(TARGET).rows if one.instance_id == instance_id]  # type: ignore[union-attr]
    assert row.approval_id is not None


def test_a_batch_that_cannot_be_read_is_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is taken back all the same, and the sweep says what failed."""
    world, instance_id, _ = asked()

    def throttled(_: object) -> None:
        raise Throttled("later")

    monkeypatch.setattr(world.state, "open_questions", throttled)
    world.publish(instance_id, BUSY)
    summary = world.sweep(15)

    assert ["open episodes: Throttled: later"] == summary.problems
    assert ApprovalStatus.VOID is stored_approval(world, instance_id).status


def test_a_running_workflow_is_never_called_dead() -> None:
    """However long it waits for an answer."""
    world, _, ref = asked()
    world.sweep(60 * 12)

    assert Phase.ASKING is stored_episode(world, ref).phase


def test_a_decision_is_kept_when_its_workflow_died() -> None:
    """A person's word is a record; the episode closes all the same."""
    world, instance_id, ref = asked()
    world.state.settle(approval_id_of(instance_id), decision())
    world.workflow.executions[ref.execution_name] = False
    world.sweep(61)

    assert ApprovalStatus.APPROVED is stored_approval(world, instance_id).status
    assert Outcome.FAILED is stored_episode(world, ref).outcome


def test_a_dead_workflow_of_an_instance_that_left_is_closed_too() -> None:
    """Half way through its own steps: the instance is stopped, the record is not."""
    world, instance_id, ref = asked()
    start_acting(world, ref)
    world.change(instance_id, state="stopped")
    world.workflow.executions[ref.execution_name] = False
    world.sweep(61)

    assert Outcome.FAILED is stored_episode(world, ref).outcome
    assert "stopped" == world.ec2.instances[instance_id].state


def test_a_lock_that_a_rollback_left_is_freed_by_the_sweep() -> None:
    """The release before closed the episode and freed the record alone: the instance was left for
    ever."""
    world, instance_id, ref = asked()
    world.state.close_episode(ref, Outcome.KEPT, "kept", NOW, quiet_until=None)
    left = update(keys.lock(TARGET, instance_id), {"open_episode": ref.execution_name})
    world.state._table.write(left)
    world.workflow.executions[ref.execution_name] = False
    world.sweep(61)

    assert world.state.record(TARGET, instance_id).open_episode is None


def test_a_lock_without_an_episode_is_freed() -> None:
    """The execution died between two writes; the next one follows after five minutes."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    ref = ref_of(world, instance_id)
    world.state.take_lock(ref)
    world.workflow.executions[ref.execution_name] = False
    world.sweep(5)
    record = world.state.record(TARGET, instance_id)
    assert (None, NOW + timedelta(minutes=10)) == (record.open_episode, record.quiet_until)

    assert 0 == world.sweep(4).episodes_started
    assert 1 == world.sweep(1).episodes_started
    assert ref_of(world, instance_id, number=2).execution_name in world.workflow.executions


def test_a_decision_that_was_not_delivered_is_delivered_by_the_next_sweep() -> None:
    """It stands in the table; Step Functions could not be reached when it was made."""
    world, instance_id, _ = asked()
    world.workflow.failure = Unavailable("Step Functions")
    decide = decider(world)
    result = decide(approval_id_of(instance_id), decision(), losses_accepted=True)
    assert not result.delivered

    world.workflow.failure = None
    world.sweep(5)
    assert "approve" == world.workflow.answers[token_of(instance_id)]["decision"]


def test_a_void_that_was_not_delivered_is_delivered_by_the_next_sweep() -> None:
    """The question is closed first, the workflow hears of it when it can."""
    world, instance_id, _ = asked()
    world.publish(instance_id, BUSY)
    world.workflow.failure = Unavailable("Step Functions")
    summary = world.sweep(15)
    assert 1 == len(summary.problems)
    assert (ApprovalStatus.VOID, "woke-up", None) == void_of(world, instance_id)

    world.workflow.failure = None
    world.sweep(5)
    assert (ApprovalStatus.VOID, "woke-up", "void") == void_of(world, instance_id)


def test_told_idleness_is_watched_by_utilization_alone() -> None:
    """One query instead of five: whatever acts reads everything again."""
    world, _, _ = asked()
    world.metrics.reads.clear()
    world.sweep(15)

    assert [(UTILIZATION, "Maximum")] == [
        (query.metric, query.statistic) for query in world.metrics.reads
    ]


def test_told_idleness_is_read_once_in_a_quarter_of_an_hour() -> None:
    """Its verdict and how long it is idle go on in between; each instance is read at minutes of its
    own."""
    world, instance_id, _ = asked()
    since = world.state.observations(TARGET)[instance_id].idle_since
    world.metrics.reads.clear()
    read = []
    for _ in range(12):
        world.sweep(5)
        read.append(len(world.metrics.reads))
        seen = world.state.observations(TARGET)[instance_id]
        assert ("idle", since) == (seen.verdict, seen.idle_since)
        assert seen.reason.startswith("Idle for ")

    assert [1, 2, 3, 4] == sorted({*read} - {0})
    assert all(later - earlier <= 1 for earlier, later in zip(read, read[3:], strict=False))


def test_other_news_than_metrics_has_told_idleness_read_at_once() -> None:
    """A new start, another policy, and an answer that ends the question."""
    for change in (
        lambda world, one: world.change(one, launch_time=NOW - timedelta(hours=2)),
        lambda world, _: setattr(world.policies, "version", "2"),
        lambda world, one: world.state.close_episode(
            ref_of(world, one), Outcome.FAILED, "x", NOW, quiet_until=None
        ),
    ):
        world, instance_id, _ = asked()
        change(world, instance_id)
        world.metrics.reads.clear()
        world.sweep(1)
        assert world.metrics.reads


def test_nothing_is_asked_about_what_ec2_takes_back() -> None:
    """Not in the minutes of a warning, and with no read more; what was spared is asked about after
    them."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.state.note_warned(TARGET, {instance_id: NOW + timedelta(minutes=7)})

    assert 0 == world.sweep().episodes_started
    assert 0 == world.sweep(6).episodes_started
    assert 1 == world.sweep(1).episodes_started


def test_what_is_known_of_a_warning_goes_with_its_instance() -> None:
    """Spot instances come and go: records of nothing else would be read by every sweep for ever."""
    world = FleetWorld()
    stays = world.add(1)
    until = dict.fromkeys((stays, "i-0000000000000000a"), NOW + timedelta(minutes=7))
    world.state.note_warned(TARGET, until)

    world.sweep(6)
    assert set(until) == set(world.state.records(TARGET))
    world.sweep(1)
    assert "i-0000000000000000a" not in world.state.records(TARGET)


def test_quiet_idleness_is_watched_by_utilization_alone() -> None:
    """Until its quiet time is over; then it is proved in full again."""
    world, _, ref = asked()
    quiet = NOW + timedelta(hours=24)
    world.state.close_episode(ref, Outcome.EXPIRED, "nobody", NOW, quiet_until=quiet)
    world.metrics.reads.clear()
    world.sweep(15)
    assert 1 == len(world.metrics.reads)

    world.metrics.reads.clear()
    world.sweep(60 * 24)
    reads_by_metric = Counter(query.metric for query in world.metrics.reads)
    # The window of a verdict, and that of a question.
    assert 2 == reads_by_metric["nvidia_smi_utilization_gpu"]
    assert 2 == reads_by_metric["CPUUtilization"] == reads_by_metric["NetworkIn"]


def test_quiet_time_is_about_one_start_of_the_instance() -> None:
    """After a restart the idleness is another one, asked about when all targets have been
    counted."""
    world, instance_id, ref = asked()
    quiet = NOW + timedelta(hours=24)
    world.state.close_episode(ref, Outcome.EXPIRED, "nobody", NOW, quiet_until=quiet)
    world.state.note_told(ref, NOW)
    world.change(instance_id, launch_time=NOW)

    world.sweep(200)
    assert 1 == world.sweep(5).episodes_started


@pytest.mark.parametrize(
    "hold",
    [Hold(snoozed_until=NOW + timedelta(days=2)), Hold(exempt_reason="demo machine (someone)")],
    ids=["kept", "exempted"],
)
def test_a_standing_answer_costs_no_read_and_removes_the_marks(hold: Hold) -> None:
    """Nobody is asked again what they have answered."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    record = world.state.record(TARGET, instance_id)
    world.state.put(replace(record, hold=hold))
    world.metrics.reads.clear()
    world.workflow.executions.clear()
    summary = world.sweep(5)

    assert ([], 0) == (world.metrics.reads, summary.episodes_started)
    assert "LowUtilization" not in world.ec2.instances[instance_id].tags


def test_a_kept_instance_is_looked_at_again_when_its_time_is_over() -> None:
    """A keep has a date."""
    world = FleetWorld()
    instance_id = world.add(1)
    record = world.state.record(TARGET, instance_id)
    world.state.put(replace(record, hold=Hold(snoozed_until=NOW + timedelta(days=2))))
    assert 0 == world.sweep().episodes_started

    assert 1 == world.sweep(60 * 48).episodes_started


def test_a_young_instance_costs_no_read() -> None:
    """It has no past to be judged by."""
    world = FleetWorld()
    instance_id = world.add(1, launch_time=NOW - timedelta(minutes=20))
    world.sweep()

    assert ("too-young", []) == (world.verdict(instance_id), world.metrics.reads)


def test_two_sweeps_of_the_same_moment_start_one_workflow() -> None:
    """EventBridge delivers at least once."""
    world = FleetWorld()
    world.add(1)
    world.sweep()
    world.sweep()

    assert 1 == len(world.workflow.executions)


def test_a_fleet_that_cannot_be_listed_changes_nothing() -> None:
    """An empty answer would look like a fleet that is gone."""
    world, instance_id, _ = asked()
    seen = world.state.observations(TARGET)
    world.ec2.failures["list_selected"] = [Throttled("later")]
    with pytest.raises(Throttled):
        world.sweep(5)

    assert ApprovalStatus.PENDING is stored_approval(world, instance_id).status
    assert seen == world.state.observations(TARGET)


class OneFails(MemoryWorkflow):
    """Starts all workflows but those of one instance."""

    bad: str = ""

    def start(self, ref: EpisodeRef) -> bool:
        """As the port says."""
        if ref.instance_id == self.bad:
            raise Throttled("StartExecution: Rate exceeded")
        return super().start(ref)


def test_one_workflow_that_cannot_be_started_sinks_no_other() -> None:
    """And the summary names the one."""
    world = FleetWorld()
    ids = [world.add(number) for number in (1, 2, 3)]
    workflow = OneFails()
    workflow.bad = ids[1]
    follow_up = replace(world.sweep_target.follow_up, workflow=workflow)
    summary = replace(world.sweep_target, follow_up=follow_up)(TARGET)

    assert [ids[0], ids[2]] == [
        name.split("-", 4)[4].rsplit("-", 2)[0] for name in workflow.executions
    ]
    assert 2 == summary.episodes_started
    assert [True] == [ids[1] in problem for problem in summary.problems]


def test_the_breaker_leaves_open_questions_alone() -> None:
    """People are asked already, and the guards refuse to act while it is open."""
    world, instance_id, _ = asked()
    fleet = [world.add(number, BUSY) for number in range(2, 8)]
    world.sweep(5)
    for other in fleet:
        world.publish(other, [0.0] * 12)
    summary = world.sweep(65)

    assert summary.frozen
    assert "idle" == world.verdict(instance_id)
    assert ApprovalStatus.PENDING is stored_approval(world, instance_id).status


def test_a_fleet_that_falls_silent_at_once_freezes_plans() -> None:
    """One that still talks is not believed either while the rest is gone."""
    world = FleetWorld()
    fleet = [world.add(number, BUSY) for number in range(1, 7)]
    world.sweep()
    late = world.add(9)
    for instance_id in fleet:
        world.silence(instance_id)
    summary = world.sweep(65)

    assert (True, 0) == (summary.frozen, summary.episodes_started)
    assert "frozen" == world.verdict(late)
    assert 1 == alerts(world, AlertKind.BREAKER_TRIPPED)


def test_a_read_that_failed_for_all_is_not_silence() -> None:
    """A throttled CloudWatch is told as what it is and trips nothing."""
    world = FleetWorld()
    for number in range(1, 7):
        world.add(number, BUSY)
    world.sweep()
    world.metrics.broken[UTILIZATION] = "Throttling"
    summary = world.sweep(65)

    assert not summary.frozen
    assert (0, 0) == (
        alerts(world, AlertKind.TELEMETRY_SILENT),
        alerts(world, AlertKind.BREAKER_TRIPPED),
    )


def test_fewer_than_the_minimum_trip_nothing() -> None:
    """Four researchers who go home are no outage."""
    world = FleetWorld()
    fleet = [world.add(number, BUSY) for number in range(1, 5)]
    world.sweep()
    for instance_id in fleet:
        world.publish(instance_id, QUIET)
    world.sweep(65)
    summary = world.sweep(5)

    assert (False, 4) == (summary.frozen, summary.episodes_started)


def test_a_freeze_holds_its_time_from_the_last_cause() -> None:
    """A second cause during the freeze prolongs it."""
    world = FleetWorld(Policy(mode=Mode.ASK, breaker=Breaker(hold_minutes=180)))
    first = [world.add(number, BUSY) for number in range(1, 7)]
    world.sweep()
    for instance_id in first:
        world.publish(instance_id, [0.0] * 12)
    world.sweep(65)
    second = [world.add(number, BUSY) for number in range(11, 21)]
    world.sweep(5)
    for instance_id in second:
        world.publish(instance_id, [0.0] * 12)
    world.sweep(65)

    assert world.sweep(120).frozen
    assert not world.sweep(61).frozen
    assert (1, 1) == (
        alerts(world, AlertKind.BREAKER_TRIPPED),
        alerts(world, AlertKind.BREAKER_RELEASED),
    )


def test_a_freeze_stands_although_nobody_could_be_told() -> None:
    """The message is an effect like any other; safety does not wait for it."""
    world = FleetWorld()
    fleet = [world.add(number, BUSY) for number in range(1, 7)]
    world.sweep()
    for instance_id in fleet:
        world.publish(instance_id, [0.0] * 12)
    world.announcer.failure = Unavailable("SNS")
    summary = world.sweep(65)

    assert summary.frozen
    assert {} == world.workflow.executions
    assert [True] == ["breaker alert" in problem for problem in summary.problems]
    assert world.state.breaker(TARGET) is not None


def test_an_answer_keeps_its_meaning() -> None:
    """A keep by a person ends the question as kept, not as void."""
    world, instance_id, _ = asked()
    keep = decision(Answer.KEEP, keep_until=NOW + timedelta(days=2))
    decider(world)(approval_id_of(instance_id), keep)
    world.sweep(5)

    assert "snoozed" == world.verdict(instance_id)
    assert (ApprovalStatus.KEPT, None, "keep") == void_of(world, instance_id)


def test_another_date_or_reason_is_another_decision() -> None:
    """A repeated request is answered as the first; a different one comes too late and is told
    so."""
    world, instance_id, _ = asked()
    decide = decider(world)
    keep = decision(Answer.KEEP, by="link:broadcast", keep_until=NOW + timedelta(hours=4))
    decide(approval_id_of(instance_id), keep)
    assert ApprovalStatus.KEPT is decide(approval_id_of(instance_id), keep).approval.status

    longer = decision(Answer.KEEP, by="link:broadcast", keep_until=NOW + timedelta(days=7))
    with pytest.raises(DecisionRefused, match="already decided"):
        decide(approval_id_of(instance_id), longer)


def test_an_outcome_that_nobody_was_told_of_is_found_by_the_sweep() -> None:
    """Its last step closed it while SNS was down, and so did whatever followed. It is told once."""
    world, instance_id, ref = asked()
    world.announcer.failure = Unavailable("SNS is down")
    world.state.void(approval_id_of(instance_id), "nobody answered in time", expired=True)
    with pytest.raises(Unavailable):
        recorder(world)(ref, Outcome.EXPIRED)
    world.announcer.failure = None
    sent = alerts(world, AlertKind.OUTCOME)
    world.sweep(5)  # its workflow may still try
    assert sent == alerts(world, AlertKind.OUTCOME)

    world.sweep(10)
    world.sweep(10)

    assert sent + 1 == alerts(world, AlertKind.OUTCOME)
    assert ending_of(stored_episode(world, ref)).told_at is not None
    assert world.state.record(TARGET, instance_id).untold is None


def test_nobody_is_asked_again_before_the_last_outcome_is_known() -> None:
    """The record holds one episode whose outcome people must learn; the next would take its
    place."""
    world, _, ref = asked()
    world.announcer.failure = Unavailable("SNS is down")
    with pytest.raises(Unavailable):
        recorder(world)(ref, Outcome.FAILED, "States.Timeout")
    started = len(world.workflow.executions)
    for _ in range(3):
        world.sweep(5)
    assert started == len(world.workflow.executions)

    world.announcer.failure = None
    world.sweep(5)
    assert ending_of(stored_episode(world, ref)).told_at is not None
    world.sweep(5)
    assert started + 1 == len(world.workflow.executions)
