"""How episodes end: the ledger, the silence after it, and what EC2 and Step Functions tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.alerts.model import REPEATS, AlertKind, Severity
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.core.episode_ref import episode_from_execution_name
from governor.core.errors import (
    AccessDenied,
    Interrupted,
    MustWait,
    PolicyError,
    PolicyProblem,
    Protected,
    SafetyError,
    Unavailable,
)
from governor.core.instance import Lifecycle, Volume
from governor.episode.model.episode import Outcome, Phase
from governor.episode.model.plan import Price, Saving, Step
from governor.episode.model.start_try import StartStatus, StartTry
from governor.events.react_to_state_change import ReactToStateChange
from governor.money.book_saving import BookSaving
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import AppliedPolicy, Mode
from governor.policy.ports import Policies
from governor.remediation.close_dead import CloseDead
from governor.remediation.outcome import outcome_of_error
from governor.remediation.void_episode import VoidEpisode
from governor.table import keys
from governor.table.table import put
from tests.builders import NOW, TARGET
from tests.episodes import ending_of
from tests.unit.worlds.builders import announce_end, follow_start, recorder
from tests.unit.worlds.fleet_world import ACCOUNTS
from tests.unit.worlds.world import APPROVAL_ID, World

TAGS = {"Purpose": "GPU-Workload", "LowUtilization": "x", "ReviewForTermination": "true"}


def state_change(world: World) -> ReactToStateChange:
    """The use case over the world."""
    void = VoidEpisode(
        episode_store=world.state, approval_store=world.state, workflow=world.workflow
    )
    return ReactToStateChange(
        lambda: world.policies,
        world.clock,
        episode_store=world.state,
        instance_store=world.state,
        ledger_store=world.state,
        void=void,
        follow_start=follow_start(world),
    )


def execution_end(world: World) -> Callable[[str, str], bool]:
    """The use case over the world, as its handler calls it."""
    book = BookSaving(world.policies, ACCOUNTS, world.ec2)
    close = CloseDead(
        world.clock,
        world.policies,
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        announce=announce_end(world),
        book=book,
    )

    def ended(name: str, status: str) -> bool:
        ref = episode_from_execution_name(name)
        return close(ref, f"its workflow ended {status}", aborted=status == "ABORTED")

    return ended


def answered(world: World, outcome: Outcome) -> World:
    """The table holds the answer that leads to the outcome."""
    said = {Outcome.KEPT: Answer.KEEP, Outcome.EXEMPTED: Answer.EXEMPT}.get(outcome)
    if said is None:
        expired = outcome is Outcome.EXPIRED
        world.state.void(APPROVAL_ID, "said so", expired=expired, outcome=outcome.value)
    else:
        until = NOW + timedelta(days=1)
        world.state.settle(
            APPROVAL_ID, Decision(said, "alice", "page", NOW, until, "license server")
        )
    return world


def tell(world: World, state: str, minutes: float = 0) -> str:
    """EC2 says that the instance is in this state."""
    at = NOW + timedelta(minutes=minutes)
    return state_change(world)(TARGET.account, TARGET.region, world.instance.instance_id, state, at)


def test_a_stop_is_booked_from_the_moment_it_was_asked_for() -> None:
    """1.006 an hour, less the snapshots; the lock is free and people know."""
    world = World()
    world.stop_and_snapshot()
    world.clock.moment = NOW + timedelta(hours=2)
    recorder(world)(world.ref, Outcome.STOPPED)

    (entry,) = world.state.entries("2026-11")
    assert NOW == entry.booked_at
    assert Decimal("1.006") - Decimal(100) * (Decimal("0.05") / 730) == entry.saved_usd_per_hour
    assert world.state.record(TARGET, world.ref.instance_id).open_episode is None
    assert [AlertKind.OUTCOME] == [alert.kind for alert in world.announcer.sent]


def test_a_stop_whose_instance_others_terminated_promises_no_saving() -> None:
    """The message said "is stopped, which saves $24/day", and nothing was booked."""
    world = World()
    world.stop_and_snapshot()
    world.ec2.instances.clear()
    recorder(world)(world.ref, Outcome.STOPPED)

    (alert,) = world.announcer.sent
    assert [] == world.state.entries("2026-11")
    assert "notebook was stopped, then terminated" == alert.subject
    text = " ".join(alert.lines)
    assert "so no savings are recorded." in text
    for wrong in ("saves", "is stopped", "start it again", "Starting it again"):
        assert wrong not in text, wrong


def test_an_entry_says_what_it_is_in_cash_and_when_people_would_have_done_it() -> None:
    """A Savings Plan may pay for the instance anyway; then its snapshots cost more than nothing."""
    world = World()
    world.stop_and_snapshot()
    recorder(world)(world.ref, Outcome.STOPPED)

    (entry,) = world.state.entries("2026-11")
    snapshots = Decimal(100) * (Decimal("0.05") / 730)
    assert entry.cash_low_usd_per_hour is not None
    assert abs(entry.cash_low_usd_per_hour + snapshots) < Decimal("1e-20")
    assert entry.cash_high_usd_per_hour == entry.saved_usd_per_hour
    assert (NOW, NOW) == (entry.saves_from, entry.recorded_at)
    assert entry.morning is not None
    assert NOW < entry.morning <= NOW + timedelta(days=1)
    assert entry.idle_usd is not None
    assert entry.idle_usd > 0


def test_a_discount_is_in_cash_and_not_in_the_list_value() -> None:
    """1.006 at list, 0.80 as paid; no commitment can pay for it, so the cash is known."""
    world = World()
    world.stop_and_snapshot()
    stored = world._stored()
    paid = Price(
        Decimal("0.80"),
        "list price less 20%",
        list_usd_per_hour=Decimal("1.006"),
        may_be_committed=False,
    )
    saving = Saving(Decimal("0.80"), Decimal("0.01"))
    world.state._table.write(
        put(
            keys.episode(world.ref),
            replace(stored, price=paid, plan=replace(stored.plan, saving=saving)),
        )
    )
    recorder(world)(world.ref, Outcome.STOPPED)

    (entry,) = world.state.entries("2026-11")
    assert (Decimal("1.006"), Decimal("0.996")) == (
        entry.cost_before_usd_per_hour,
        entry.saved_usd_per_hour,
    )
    assert Decimal("0.79") == entry.cash_low_usd_per_hour == entry.cash_high_usd_per_hour
    assert Decimal("0.01") == entry.storage_usd_per_hour


@pytest.mark.parametrize("outcome", [Outcome.KEPT, Outcome.EXEMPTED, Outcome.EXPIRED])
def test_what_people_let_go_on_is_found_and_not_saved(outcome: Outcome) -> None:
    """The ledger holds every question: also the idle cost that somebody chose, or that nobody
    answered."""
    world = answered(World(decide=False), outcome)
    recorder(world)(world.ref, outcome)

    (entry,) = world.state.entries("2026-11")
    assert (outcome, Decimal(0), NOW, False) == (
        entry.outcome,
        entry.saved_usd_per_hour,
        entry.ended_at,
        entry.acted,
    )
    assert entry.cost_before_usd_per_hour == entry.cost_after_usd_per_hour
    assert [] == world.state.open_entries(TARGET, world.ref.instance_id)


def test_the_first_outcome_stands_and_is_booked_once() -> None:
    """A repeated record tells again and changes nothing."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    first = recorder(world)(world.ref, Outcome.STOPPED)
    again = recorder(world)(world.ref, Outcome.FAILED)

    assert (Outcome.STOPPED, Outcome.STOPPED) == (first, again)
    assert 1 == len(world.state.entries("2026-11"))


_FROM_AN_ANSWER = (Outcome.KEPT, Outcome.EXEMPTED, Outcome.EXPIRED, Outcome.VOID, Outcome.WOKE_UP)


@pytest.mark.parametrize("claimed", [*_FROM_AN_ANSWER, Outcome.INTERRUPTED])
def test_an_outcome_of_an_answer_that_nobody_gave_is_refused(claimed: Outcome) -> None:
    """Whoever has read the task token can send any payload; the episode stays open and the question
    asked."""
    world = World(decide=False, phase=Phase.ASKING)
    with pytest.raises(SafetyError, match="nobody has given one"):
        recorder(world)(world.ref, claimed, "forged")

    assert Phase.ASKING is world._stored().phase
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.PENDING is approval.status


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO])
@pytest.mark.parametrize(
    "claimed",
    [
        Outcome.STOPPED,
        Outcome.TERMINATED,
        Outcome.OBSERVED,
        Outcome.TOLD,
        Outcome.KEPT,
        Outcome.EXEMPTED,
    ],
)
def test_an_outcome_that_the_record_contradicts_is_refused(claimed: Outcome, mode: Mode) -> None:
    """No step was noted, it is no rehearsal, and nobody said so: nothing is closed or sent."""
    world = World(mode=mode, decide=False, phase=Phase.ASKING)
    with pytest.raises(SafetyError):
        recorder(world)(world.ref, claimed, "forged: see http://evil")
    assert Phase.ASKING is world._stored().phase
    assert [] == world.announcer.sent


TWO = (Volume("vol-1", "/dev/xvda", True, 10), Volume("vol-2", "/dev/sdb", True, 10))
FORGED = "see http://evil.example.com and sign in there"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED])
@pytest.mark.parametrize(
    "error", ["SafetyError", "States.TaskFailed", "States.Timeout", FORGED, "http", "os"]
)
@pytest.mark.parametrize("saved", [True, False])
def test_what_an_error_says_is_not_believed(outcome: Outcome, error: str, saved: bool) -> None:
    """Nor its name, unless it is one of ours or of Step Functions: an official message goes out
    with it."""
    world = World(decide=False, phase=Phase.ASKING)
    if not saved:
        world.state.forget("EPISODE")
    recorder(world)(world.ref, outcome, error)

    (alert,) = world.announcer.sent
    assert not [
        word
        for word in ("evil", "sign in", "http")
        if word in f"{alert.subject} {alert.lines} {alert.facts}"
    ]
    reason = str(alert.facts["outcome_reason"])
    assert reason.startswith(error if error[0] == "S" else "a step failed")


def test_why_a_step_failed_is_read_from_the_record() -> None:
    """As the function has noted it that was refused; not for another error than that."""
    for error, why in (
        ("Protected", "Protected: flag"),
        ("SnapshotFailed", "SnapshotFailed: its log says more"),
    ):
        world = World()
        world.ec2.failures["stop"] = [Protected("flag")]
        with pytest.raises(Protected):
            world.put_away(world.ref, Step.STOP)
        recorder(world)(world.ref, Outcome.REFUSED, error)
        assert why == ending_of(world._stored()).reason


@pytest.mark.parametrize(
    ("error", "why", "told"),
    [
        (
            "SnapshotFailed",
            "one of snap-1, snap-2; nothing is destroyed",
            "A snapshot failed: one of snap-1,",
        ),
        (
            "StepTimedOut",
            "snapshot was requested 90 min ago",
            "EC2 did not finish in time: snapshot was",
        ),
        (
            "MetricsLate",
            "none of the last minutes is known",
            "The newest metrics did not arrive in time: none",
        ),
    ],
)
def test_what_the_function_may_not_note_is_told_from_the_steps_of_the_record(
    error: str, why: str, told: str
) -> None:
    """Failed before: people read that its log says more. Of the payload the name alone is
    believed."""
    world = World(action=Action.TERMINATE, changes={"volumes": TWO})
    world.put_away(world.ref, Step.STOP)
    world.clock.moment += timedelta(minutes=1)
    world.state.note_step(world.ref, "snapshot", world.clock.moment)
    world.state.set_snapshots(world.ref, {"snap-2": "vol-2", "snap-1": "vol-1"})
    world.clock.moment += timedelta(minutes=90)
    recorder(world)(world.ref, Outcome.FAILED, error)

    assert f"{error}: {why}" == ending_of(world._stored()).reason
    assert told in " ".join(world.announcer.sent[-1].lines)


def test_which_channels_refused_a_question_is_read_from_the_record() -> None:
    """By the deliveries that are stored."""
    world = World(decide=False, phase=Phase.ASKING)
    world.deliver("ask", NOW, refused="all 2 channels of people have refused it")
    recorder(world)(world.ref, Outcome.FAILED, "NobodyListens")

    assert (
        "NobodyListens: all 2 channels of people have refused it"
        == ending_of(world._stored()).reason
    )


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO])
@pytest.mark.parametrize("claimed", [Outcome.VOID, Outcome.WOKE_UP, Outcome.INTERRUPTED])
def test_the_end_by_a_recheck_is_what_the_recheck_noted(claimed: Outcome, mode: Mode) -> None:
    """In mode auto, and after a yes, nobody else could say: the payload alone ends nothing so."""
    world = World(mode=mode)
    with pytest.raises(SafetyError, match="no check has said so"):
        recorder(world)(world.ref, claimed, FORGED)
    assert [] == world.announcer.sent

    world.publish_quiet(90.0)
    found = world.recheck(world.ref, Step.STOP)
    assert Outcome.WOKE_UP is found.outcome
    if claimed is Outcome.WOKE_UP:
        recorder(world)(world.ref, claimed, FORGED)
        assert found.reason == ending_of(world._stored()).reason
    else:
        with pytest.raises(SafetyError, match="no check has said so"):
            recorder(world)(world.ref, claimed, FORGED)


@pytest.mark.parametrize("claimed", [Outcome.STOPPED, Outcome.TERMINATED])
def test_an_instance_that_awaits_its_termination_is_not_recorded_as_gone(claimed: Outcome) -> None:
    """It is stopped, whatever the payload says; nor is a termination that EC2 has not taken
    believed."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    with pytest.raises(SafetyError, match="the record of the episode does not"):
        recorder(world)(world.ref, claimed, "forged")
    world.state.note_step(world.ref, Step.TERMINATE.value, NOW)
    with pytest.raises(SafetyError):
        recorder(world)(world.ref, claimed, "forged")
    assert [] == world.announcer.sent


@pytest.mark.parametrize("then", ["runs on", "started anew", "terminated by others"])
def test_a_stop_that_ec2_did_not_take_is_not_recorded(then: str) -> None:
    """It was noted and refused. What was stopped, and started or terminated by others since, was
    stopped."""
    world = World()
    if then == "runs on":
        world.ec2.failures["stop"] = [Unavailable("503", operation="ec2:StopInstances")]
        with pytest.raises(MustWait):
            world.put_away(world.ref, Step.STOP)
        with pytest.raises(SafetyError, match="EC2 shows that the instance runs on"):
            recorder(world)(world.ref, Outcome.STOPPED, "forged")
        assert [] == world.announcer.sent
        return
    world.put_away(world.ref, Step.STOP)
    anew: dict[str, Any] = {"state": "running", "launch_time": NOW}
    changes = anew if then == "started anew" else {"state": "terminated"}
    instance_id = world.ref.instance_id
    world.ec2.instances[instance_id] = replace(world.ec2.instances[instance_id], **changes)
    assert Outcome.STOPPED is recorder(world)(world.ref, Outcome.STOPPED)


@pytest.mark.parametrize("stored", _FROM_AN_ANSWER)
@pytest.mark.parametrize("claimed", _FROM_AN_ANSWER)
def test_the_answer_in_the_table_decides_the_outcome(stored: Outcome, claimed: Outcome) -> None:
    """And its reason, whatever the payload of the task token said."""
    world = answered(World(decide=False, phase=Phase.ASKING), stored)

    assert stored is recorder(world)(world.ref, claimed, "forged")
    assert "forged" not in ending_of(world._stored()).reason


@pytest.mark.parametrize("claimed", [Outcome.KEPT, Outcome.EXEMPTED, Outcome.EXPIRED])
def test_an_approved_question_was_not_kept(claimed: Outcome) -> None:
    """Its workflow fails and people learn why."""
    world = World()
    with pytest.raises(SafetyError, match="APPROVED"):
        recorder(world)(world.ref, claimed, "forged")


@pytest.mark.parametrize("outcome", [Outcome.KEPT, Outcome.EXEMPTED, Outcome.WOKE_UP, Outcome.VOID])
def test_marks_go_with_the_reason_for_them(outcome: Outcome) -> None:
    """And nothing is booked as saved."""
    world = answered(World(decide=False, changes={"tags": TAGS}), outcome)
    recorder(world)(world.ref, outcome)

    assert {"Purpose": "GPU-Workload"} == world.ec2.instances[world.ref.instance_id].tags
    assert not any(entry.ours for entry in world.state.entries("2026-11"))


@pytest.mark.parametrize(
    ("outcome", "quiet"),
    [
        (Outcome.EXPIRED, True),
        (Outcome.OBSERVED, True),
        (Outcome.WOKE_UP, False),
        (Outcome.VOID, False),
    ],
)
def test_the_same_idleness_is_not_told_again_at_once(outcome: Outcome, quiet: bool) -> None:
    """A day by default, unless the outcome itself says what comes next."""
    mode = Mode.OBSERVE if outcome is Outcome.OBSERVED else Mode.ASK
    world = answered(World(mode=mode, decide=False), outcome)
    recorder(world)(world.ref, outcome)

    until = world.state.record(TARGET, world.ref.instance_id).quiet_until
    assert (NOW + timedelta(hours=24) if quiet else None) == until


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((), "Nothing was changed."),
        ((Step.STOP,), "Nothing was deleted"),
        ((Step.STOP, Step.TERMINATE), "Check in the EC2 console whether it is gone"),
    ],
)
def test_a_failure_is_critical_and_says_what_had_been_asked(
    steps: tuple[Step, ...], said: str
) -> None:
    """A person must know whether to look for the instance."""
    world = World(action=Action.TERMINATE)
    if steps:
        world.stop_and_snapshot()
    if Step.TERMINATE in steps:
        world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.FAILED, "StepTimedOut")

    (alert,) = world.announcer.sent
    assert (AlertKind.FAILURE, Severity.CRITICAL) == (alert.kind, alert.severity)
    assert said in " ".join(alert.lines)


def booked(world: World) -> list[tuple[Outcome, Decimal | None]]:
    """Return what is in the ledger: what became of the instance, and what it saves an hour."""
    return [(entry.outcome, entry.saved_usd_per_hour) for entry in world.state.entries("2026-11")]


GIB_HOUR = Decimal("0.05") / 730


def test_a_stop_saves_although_the_flow_failed_after_it() -> None:
    """No snapshot is kept where none was made."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.FAILED, "SnapshotFailed")

    assert [(Outcome.STOPPED, Decimal("1.006"))] == booked(world)


def test_a_termination_that_was_refused_is_booked_as_the_stop_it_left() -> None:
    """It was noted before it was asked for; the volumes stay, and are paid for."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.ec2.failures["terminate"] = [AccessDenied("an SCP says no")]
    with pytest.raises(AccessDenied):
        world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")

    assert [(Outcome.STOPPED, Decimal("1.006") - 100 * GIB_HOUR)] == booked(world)


def test_snapshots_that_were_refused_cost_nothing() -> None:
    """Noted before they were asked for, too."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.ec2.failures["create_snapshots"] = [AccessDenied("an SCP says no")]
    with pytest.raises(AccessDenied):
        world.take_snapshot(world.ref)
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")

    assert [(Outcome.STOPPED, Decimal("1.006"))] == booked(world)


def test_a_death_is_told_by_the_retry_when_the_first_try_could_not() -> None:
    """A workflow that died must not go unnoticed because SNS was busy once."""
    world = World(decide=False, phase=Phase.ASKING)
    world.announcer.failure = Unavailable("SNS is down")
    with pytest.raises(Unavailable):
        execution_end(world)(world.ref.execution_name, "ABORTED")
    world.announcer.failure = None

    assert execution_end(world)(world.ref.execution_name, "ABORTED")
    assert [AlertKind.FAILURE] == [alert.kind for alert in world.announcer.sent]
    assert not execution_end(world)(world.ref.execution_name, "ABORTED")


def test_an_outcome_that_its_last_step_could_not_tell_is_told_when_the_workflow_ends() -> None:
    """As it is recorded, not as a failure."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.announcer.failure = Unavailable("SNS is down")
    with pytest.raises(Unavailable):
        recorder(world)(world.ref, Outcome.STOPPED)
    world.announcer.failure = None

    assert execution_end(world)(world.ref.execution_name, "FAILED")

    (alert,) = world.announcer.sent
    assert (AlertKind.OUTCOME, "stopped") == (alert.kind, alert.facts["outcome"])


def test_an_end_that_was_told_is_not_told_again() -> None:
    """The execution may fail after its last step did its work."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.STOPPED)

    assert not execution_end(world)(world.ref.execution_name, "FAILED")
    assert 1 == len(world.announcer.sent)


def test_a_late_event_of_an_earlier_run_says_nothing_about_this_one() -> None:
    """Events are retried for hours, and redriven from the queue days later."""
    world = World(decide=False, phase=Phase.ASKING)
    minutes = (world.ref.launch_time - timedelta(minutes=1) - NOW).total_seconds() / 60

    assert "nothing to do" == tell(world, "stopped", minutes)


def test_a_termination_that_was_sent_saves_although_the_flow_failed_after_it() -> None:
    """The whole plan was carried out; only its bookkeeping failed."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.FAILED, "StepTimedOut")

    ebs = Decimal(100) * (Decimal("0.08") / 730)
    assert [(Outcome.TERMINATED, Decimal("1.006") + ebs - 100 * GIB_HOUR)] == booked(world)


def test_a_stop_that_ec2_refused_saves_nothing() -> None:
    """It was noted before it was asked for; the instance runs on as it was."""
    world = World()
    world.ec2.failures["stop"] = [Protected("flag")]
    with pytest.raises(Protected):
        world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.REFUSED, "Protected")

    assert [] == booked(world)


def test_a_refused_stop_is_named_and_leaves_no_note() -> None:
    """Before, people read that the snapshots failed, and nothing of when they are asked again."""
    world = World()
    world.ec2.failures["stop"] = [AccessDenied("an SCP says no", operation="ec2:StopInstances")]
    with pytest.raises(AccessDenied):
        world.put_away(world.ref, Step.STOP)
    assert {} == world._stored().progress.steps_done
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")

    [alert] = world.announcer.sent
    assert "Could not stop notebook. Nothing was changed" == alert.subject
    assert "asks again" in alert.lines[-1]


def test_refused_snapshots_before_a_termination_are_named_and_not_said_to_exist() -> None:
    """Before, the message said that the termination failed after the snapshots began."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.ec2.failures["create_snapshots"] = [AccessDenied("an SCP says no")]
    with pytest.raises(AccessDenied):
        world.take_snapshot(world.ref)
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")

    [alert] = world.announcer.sent
    assert "Could not snapshot notebook. It is stopped; nothing was deleted" == alert.subject
    assert "snapshots began" not in " ".join(alert.lines)


def test_snapshots_whose_answer_was_lost_may_exist() -> None:
    """They cost money, and no record names them."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.ec2.failures["create_snapshots"] = [Unavailable("no answer")]
    with pytest.raises(Unavailable):
        world.take_snapshot(world.ref)
    recorder(world)(world.ref, Outcome.FAILED, "Unavailable")

    [alert] = world.announcer.sent
    assert "some of its snapshots may have begun" in " ".join(alert.lines)


def test_a_refused_termination_of_a_spot_instance_is_named() -> None:
    """Its plan has the cancellation of its request before it."""
    changes = {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"}
    world = World(action=Action.TERMINATE, changes=changes)
    world.stop_and_snapshot()
    world.ec2.failures["terminate"] = [AccessDenied("an SCP says no")]
    with pytest.raises(AccessDenied):
        world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")

    [alert] = world.announcer.sent
    assert alert.subject.startswith("Could not terminate notebook.")


@pytest.mark.parametrize("refused", [Step.SNAPSHOT, Step.TERMINATE])
def test_a_refused_dry_run_is_named(refused: Step) -> None:
    """A dry run of snapshots records none, whether EC2 allows them or not."""
    world = World(mode=Mode.OBSERVE, action=Action.TERMINATE, decide=False)
    operation = {Step.SNAPSHOT: "create_snapshots", Step.TERMINATE: "terminate"}[refused]
    world.ec2.failures[operation] = [AccessDenied("an SCP says no")]
    world.put_away(world.ref, Step.STOP)
    if refused is Step.SNAPSHOT:
        with pytest.raises(AccessDenied):
            world.take_snapshot(world.ref)
    else:
        world.take_snapshot(world.ref)
        world.let_through(Step.TERMINATE)
        with pytest.raises(AccessDenied):
            world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.FAILED, "AccessDenied")

    [alert] = world.announcer.sent
    assert alert.subject.startswith(f"Could not {refused.value} notebook.")


def test_what_others_terminated_after_our_stop_is_not_our_saving() -> None:
    """Nobody asked for it here."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.change_instance(state="terminated")
    recorder(world)(world.ref, Outcome.FAILED, "WrongState")

    assert [] == booked(world)


def test_a_rehearsal_saves_nothing() -> None:
    """Every step was noted, none took effect."""
    world = World(mode=Mode.OBSERVE, decide=False)
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.OBSERVED)

    (entry,) = world.state.entries("2026-11")
    assert (Outcome.OBSERVED, Decimal(0), False) == (
        entry.outcome,
        entry.saved_usd_per_hour,
        entry.acted,
    )


def test_a_workflow_that_dies_after_its_stop_still_saves() -> None:
    """Somebody aborts the execution while the snapshots are under way."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    assert execution_end(world)(world.ref.execution_name, "ABORTED")

    assert [(Outcome.STOPPED, Decimal("1.006"))] == booked(world)


def test_an_end_comes_whatever_the_overrides_say() -> None:
    """Overrides that contradict each other would keep the lock otherwise."""
    world = World()
    world.put_away(world.ref, Step.STOP)

    def refuse(_: object) -> AppliedPolicy:
        raise PolicyError([PolicyProblem("overrides.a+b", "contradict each other")])

    world.policies.applied_to = refuse  # type: ignore[method-assign, assignment]
    recorder(world)(world.ref, Outcome.STOPPED)

    assert world.state.record(TARGET, world.ref.instance_id).open_episode is None
    assert 1 == len(booked(world))


def test_what_was_refused_is_told_from_what_failed() -> None:
    """A protection flag is a result; a failed snapshot is a defect."""
    assert Outcome.REFUSED is outcome_of_error({"Error": "Protected", "Cause": "flag"})[0]
    assert Outcome.FAILED is outcome_of_error({"Error": "SnapshotFailed", "Cause": "x"})[0]
    taken_back = {"Error": Interrupted.__name__, "Cause": "EC2 takes it back"}
    assert Outcome.INTERRUPTED is outcome_of_error(taken_back)[0]
    assert Outcome.FAILED is outcome_of_error({})[0]
    late = {"Error": "MetricsLate", "Cause": "GPU 3 published nothing in the newest 20 min"}
    assert Outcome.REFUSED is outcome_of_error(late)[0]


def test_the_wait_after_a_dead_workflow_is_the_instances_own() -> None:
    """An override that asks again sooner holds."""
    world = World()
    approval = replace(world.policies.policy.approval, ask_again_after_hours=2)
    own = replace(world.policies.policy, approval=approval)

    def applied_to(_: object) -> AppliedPolicy:
        return AppliedPolicy(own, "test", ("sooner",))

    world.policies.applied_to = applied_to  # type: ignore[method-assign, assignment]
    assert execution_end(world)(world.ref.execution_name, "ABORTED")
    assert NOW + timedelta(hours=2) == world.state.record(TARGET, world.ref.instance_id).quiet_until


def test_others_stopping_it_void_the_question() -> None:
    """The workflow hears of it; a late approval comes to nothing."""
    world = World(decide=False, phase=Phase.ASKING)
    world.workflow.waiting.add("token")

    assert "question voided" == tell(world, "stopping")
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.VOID is approval.status
    assert "void" == world.workflow.answers["token"]["decision"]


@pytest.mark.parametrize(
    ("state", "after"),
    [
        ("stopped", Decimal(100) * (Decimal("0.08") / 730)),
        ("shutting-down", Decimal(0)),
        ("terminated", Decimal(0)),
    ],
)
def test_what_others_did_while_people_were_asked_is_booked_as_not_ours(
    state: str, after: Decimal
) -> None:
    """The bill falls, but the governor saved none of it; the entry ends at once and stays out of
    sums."""
    world = answered(World(decide=False, phase=Phase.ASKING), Outcome.VOID)
    world.change_instance(state=state)
    recorder(world)(world.ref, Outcome.VOID)

    (entry,) = world.state.entries("2026-11")
    assert (False, Outcome.VOID, Decimal(0)) == (
        entry.ours,
        entry.outcome,
        entry.saved_usd_per_hour,
    )
    assert (after, NOW) == (entry.cost_after_usd_per_hour, entry.ended_at)
    assert [] == list(world.state.open_entries(TARGET, world.ref.instance_id))
    tell(world, "running", 5)
    assert [entry] == list(world.state.entries("2026-11"))


def test_a_question_that_is_void_for_another_reason_books_nothing() -> None:
    """The instance runs on as it did."""
    world = answered(World(decide=False, phase=Phase.ASKING), Outcome.VOID)
    recorder(world)(world.ref, Outcome.VOID)

    assert [] == world.state.entries("2026-11")


def test_what_ec2_takes_back_is_booked_as_not_ours() -> None:
    """It still runs when this is booked: two minutes are left."""
    world = answered(World(decide=False, phase=Phase.ASKING), Outcome.INTERRUPTED)
    recorder(world)(world.ref, Outcome.INTERRUPTED)

    (entry,) = world.state.entries("2026-11")
    assert (False, Outcome.INTERRUPTED, Decimal(0)) == (
        entry.ours,
        entry.outcome,
        entry.saved_usd_per_hour,
    )


def test_what_ec2_takes_back_after_a_snapshot_is_not_ours_either() -> None:
    """A snapshot puts nothing away: the workflow was about to terminate it."""
    world = World(action=Action.TERMINATE)
    world.state.note_step(world.ref, Step.SNAPSHOT.value, NOW)
    world.state.note_refusal(world.ref, "Interrupted", "EC2 takes the instance back")
    recorder(world)(world.ref, Outcome.INTERRUPTED, "Interrupted")

    (entry,) = world.state.entries("2026-11")
    assert (False, Outcome.INTERRUPTED, Decimal(0)) == (
        entry.ours,
        entry.outcome,
        entry.saved_usd_per_hour,
    )


@pytest.mark.parametrize("state", ["running", "stopping", "stopped", "shutting-down", "terminated"])
def test_a_change_of_an_instance_nobody_knows_costs_one_read(state: str) -> None:
    """Changes of all instances of the account come here, many at once; no policy is read, nothing
    is kept."""
    world = World()
    react = replace(state_change(world), policies=unread)
    stranger = "i-0fedcba9876543210"

    assert "nothing to do" == react(TARGET.account, TARGET.region, stranger, state, NOW)
    assert stranger not in world.state.records(TARGET)


@pytest.mark.parametrize("state", ["running", "stopped", "terminated"])
def test_without_a_saving_to_settle_no_policy_is_read(state: str) -> None:
    """The record and the ledger say it."""
    world = World(decide=False, phase=Phase.ASKING)
    react = replace(state_change(world), policies=unread)

    react(TARGET.account, TARGET.region, world.ref.instance_id, state, NOW)


def unread() -> Policies:
    """The policy, which must not be read."""
    raise AssertionError("the policy was read")


def test_our_own_stop_is_no_news() -> None:
    """In the acting phase the change is the workflow's own."""
    world = World()
    world.put_away(world.ref, Step.STOP)

    assert "nothing to do" == tell(world, "stopped")


@pytest.mark.parametrize(("minutes", "false_stop"), [(30, True), (120, False)])
def test_a_restart_settles_the_saving(minutes: float, false_stop: bool) -> None:
    """Soon after the stop it counts as false; doubled events settle once."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.STOPPED)
    tell(world, "running", minutes)
    tell(world, "running", minutes + 1)

    (entry,) = world.state.entries("2026-11")
    assert (NOW + timedelta(minutes=minutes), false_stop) == (entry.ended_at, entry.false_stop)


def test_an_event_older_than_the_booking_settles_nothing() -> None:
    """Events come out of order."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.STOPPED)
    tell(world, "running", -5)

    (entry,) = world.state.entries("2026-11")
    assert entry.ended_at is None


def test_a_workflow_that_dies_frees_its_instance() -> None:
    """Closed as failed, told, and not asked again at once."""
    world = World(decide=False, phase=Phase.ASKING)
    react = execution_end(world)

    assert react(world.ref.execution_name, "ABORTED")
    assert not react(world.ref.execution_name, "ABORTED")
    stored = world.state.record(TARGET, world.ref.instance_id)
    assert (None, NOW + timedelta(hours=24)) == (stored.open_episode, stored.quiet_until)
    assert [AlertKind.FAILURE] == [alert.kind for alert in world.announcer.sent]


def test_an_execution_of_another_machine_is_refused() -> None:
    """Its name is not one of ours."""
    world = World()
    react = execution_end(world)

    with pytest.raises(ValueError, match="not the name"):
        react("nightly-report", "FAILED")


@pytest.mark.parametrize("ends", ["recorded", "found dead"])
@pytest.mark.parametrize(("before", "minutes"), [(0, 5), (1, 15), (2, 60), (3, 24 * 60)])
def test_what_failed_by_our_own_fault_is_asked_again_soon(
    before: int, minutes: int, ends: str
) -> None:
    """Not a day later: an idle p4d costs hundreds until then. After a fourth time people must
    look."""
    world = World()
    record = world.state.items[keys.instance(TARGET, world.ref.instance_id)]
    record["failures"] = before
    if ends == "recorded":
        recorder(world)(world.ref, Outcome.FAILED, "States.Timeout")
    else:
        assert execution_end(world)(world.ref.execution_name, "FAILED")

    stored = world.state.record(TARGET, world.ref.instance_id)
    assert (before + 1, NOW + timedelta(minutes=minutes)) == (stored.failures, stored.quiet_until)


def test_failures_count_only_in_a_row() -> None:
    """An episode that came to its end shows that the fault is over; so does work that resumed."""
    world = World()
    record = world.state.items[keys.instance(TARGET, world.ref.instance_id)]
    record["failures"] = 2
    recorder(world)(world.ref, Outcome.REFUSED)
    assert 0 == world.state.record(TARGET, world.ref.instance_id).failures

    world.state.items[keys.instance(TARGET, world.ref.instance_id)]["failures"] = 2
    world.state.clear_quiet(TARGET, world.ref.instance_id)
    assert 0 == world.state.record(TARGET, world.ref.instance_id).failures


@pytest.mark.parametrize("outcome", Outcome)
def test_an_episode_that_was_never_begun_gets_no_outcome(outcome: Outcome) -> None:
    """A sample run against a deployed stack wrote records and messaged people."""
    world = World()
    never = replace(world.ref, number=7)
    before = dict(world.state.items)

    with pytest.raises(SafetyError, match="neither saved nor locked"):
        recorder(world)(never, outcome)
    assert (before, []) == (world.state.items, world.announcer.sent)


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.FAILED, Outcome.REFUSED}))
def test_what_was_never_saved_can_only_have_failed(outcome: Outcome) -> None:
    """A payload would have people believe that it was terminated."""
    world = World()
    world.state.forget("EPISODE")
    with pytest.raises(SafetyError, match="never saved"):
        recorder(world)(world.ref, outcome, "forged")
    assert [] == world.announcer.sent
    assert world.ref == world.state.record(TARGET, world.ref.instance_id).open_episode


def test_what_was_locked_and_never_saved_is_told_before_it_is_freed() -> None:
    """When the message cannot be sent, the lock still says that something is to be ended."""
    world = World()
    world.state.forget("EPISODE")
    world.announcer.failure = Unavailable("SNS is down")
    with pytest.raises(Unavailable):
        recorder(world)(world.ref, Outcome.FAILED, "States.Timeout")
    assert world.ref == world.state.record(TARGET, world.ref.instance_id).open_episode

    world.announcer.failure = None
    recorder(world)(world.ref, Outcome.FAILED, "States.Timeout")
    assert world.state.record(TARGET, world.ref.instance_id).open_episode is None
    assert [AlertKind.FAILURE] == [alert.kind for alert in world.announcer.sent]


WAY_BACK = "Still needed? You can start it again from its record."


def stopped_and_then(end: Callable[[World], object]) -> World:
    """Its termination was approved; it was stopped, and then its workflow came to this end."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    end(world)
    return world


@pytest.mark.parametrize(
    "end",
    [
        lambda world: recorder(world)(world.ref, Outcome.REFUSED, "Protected"),
        lambda world: recorder(world)(world.ref, Outcome.FAILED, "States.Timeout"),
        lambda world: execution_end(world)(world.ref.execution_name, "FAILED"),
    ],
    ids=["refused", "failed", "died"],
)
def test_what_ended_stopped_says_how_to_start_it_again(end: Callable[[World], object]) -> None:
    """Its record has the button for every one of these ends."""
    world = stopped_and_then(end)
    [alert] = world.announcer.sent

    assert world._stored().can_be_started
    assert WAY_BACK in alert.lines


def test_what_runs_on_or_again_has_no_button_and_no_message_promises_one() -> None:
    def runs_again(world: World) -> None:
        world.state.note_undo(world.ref, "link:alice@example.com", NOW)
        recorder(world)(world.ref, Outcome.REFUSED, "Protected")

    never_stopped = World(action=Action.TERMINATE)
    never_stopped.ec2.failures["stop"] = [Protected("flag")]
    with pytest.raises(Protected):
        never_stopped.put_away(never_stopped.ref, Step.STOP)
    recorder(never_stopped)(never_stopped.ref, Outcome.REFUSED, "Protected")

    for world in (never_stopped, stopped_and_then(runs_again)):
        [alert] = world.announcer.sent
        assert not world._stored().can_be_started
        assert WAY_BACK not in alert.lines


def stopped_by_its_plan() -> World:
    """Its stop was approved and carried out, and is not recorded as the end yet."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    return world


def test_no_message_offers_a_start_that_ec2_has_accepted() -> None:
    """Somebody pressed the button of the open question before the stop was recorded. The message
    said what the stop saves, and offered the button again."""
    world = stopped_by_its_plan()
    accepted = StartTry(
        asked_at=NOW,
        asked_by="link:alice@example.com",
        channel="page",
        launched_before=world.ref.launch_time,
        reason_before="",
    )
    assert world.state.note_start_try(world.ref, accepted, None)
    world.state.change_start_try(
        world.ref, accepted, replace(accepted, status=StartStatus.ACCEPTED)
    )
    recorder(world)(world.ref, Outcome.STOPPED)
    [alert] = world.announcer.sent

    assert not world._stored().can_be_started
    assert WAY_BACK not in alert.lines
    assert "saves" not in alert.subject


def test_no_message_offers_to_start_what_others_terminated() -> None:
    """Its record has no button either: nothing of ours is stopped."""
    world = stopped_by_its_plan()
    world.ec2.instances[world.ref.instance_id] = replace(
        world.ec2.instances[world.ref.instance_id], state="terminated"
    )
    recorder(world)(world.ref, Outcome.STOPPED)
    [alert] = world.announcer.sent

    assert not world._stored().can_be_started
    assert WAY_BACK not in alert.lines


def failure(world: World, why: str) -> None:
    """One workflow more has failed."""
    episode = world._stored()
    announce_end(world)(
        outcome_alert(world.ref, episode, Outcome.FAILED, why, world.clock.now(), None)
    )


def repeats(world: World) -> list[bool]:
    """Return for each message so far whether plain subscribers are spared it."""
    return [REPEATS in alert.facts for alert in world.announcer.sent]


def test_plain_subscribers_get_one_message_per_cause_and_hour() -> None:
    """Fifteen workflows that fail for one cause are one mail, as in the channels."""
    world = World(decide=False)
    for number in range(15):
        failure(world, f"Throttled: ec2 was too busy for i-{number:017x}")
    failure(world, "AccessDenied: ec2:StopInstances")
    assert [False, *[True] * 14, False] == repeats(world)

    world.clock.moment += timedelta(hours=1)
    failure(world, "Throttled: ec2 was too busy for i-00000000000000001")
    assert not repeats(world)[-1]


def test_a_failure_that_could_not_be_announced_is_the_first_when_it_is_tried_again() -> None:
    """Else the subscribers of the topic would never get it."""
    world = World(decide=False)
    world.announcer.failure = Unavailable("sns did not answer", operation="sns:Publish")
    with pytest.raises(Unavailable):
        failure(world, "Throttled: ec2")
    world.announcer.failure = None
    failure(world, "Throttled: ec2")

    assert [False] == repeats(world)


def test_a_failure_whose_sender_died_is_the_first_when_it_is_tried_again() -> None:
    """Lambda's time-out leaves no error to catch: before, the claim stood for an hour, and the
    subscribers never got it."""
    world = World(decide=False)
    world.announcer.failure = TimeoutError("the function was killed")  # type: ignore[assignment]
    with pytest.raises(TimeoutError):
        failure(world, "Throttled: ec2")
    world.announcer.failure = None
    world.clock.moment += timedelta(seconds=40)
    failure(world, "Throttled: ec2")
    world.clock.moment += timedelta(minutes=59)
    failure(world, "Throttled: ec2")

    assert [False, True] == repeats(world)


def test_where_nobody_else_hears_subscribers_get_every_failure() -> None:
    """The policy names nobody: no channel sends what they are spared."""
    world = World(decide=False)
    world.policies.policy = replace(world.policies.policy, ownership=Ownership())
    failure(world, "Throttled: ec2")
    failure(world, "Throttled: ec2")

    assert [False, False] == repeats(world)


def test_without_the_log_everybody_gets_every_failure() -> None:
    """Twice is better than never."""
    world = World(decide=False)
    world.log.memory.failure = Unavailable(
        "dynamodb did not answer", operation="dynamodb:UpdateItem"
    )
    failure(world, "Throttled: ec2")
    failure(world, "Throttled: ec2")

    assert [False, False] == repeats(world)
