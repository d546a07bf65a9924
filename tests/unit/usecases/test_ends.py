"""How episodes end: the ledger, the silence after it, and what EC2 and Step Functions tell."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from governor.adapters.links import HmacLinkSigner
from governor.domain.alert import AlertKind, Severity
from governor.domain.approval import ApprovalStatus
from governor.domain.episode import Outcome, Phase
from governor.domain.plan import Step
from governor.usecases.accounts import Accounts
from governor.usecases.deliver_decision import DeliverDecision
from governor.usecases.react import ReactToExecutionEnd, ReactToSpotWarning, ReactToStateChange
from governor.usecases.record_outcome import RecordOutcome, outcome_of_error
from governor.usecases.void_episode import VoidEpisode
from tests.builders import NOW, TARGET
from tests.unit.usecases.world import APPROVAL_ID, World

ACCOUNTS = Accounts(TARGET.account, TARGET.region)
SIGNER = HmacLinkSigner(lambda: {"current": "k1", "k1": "n" * 64}, "https://api.example.com")
TAGS = {"Purpose": "GPU-Workload", "LowUtilization": "x", "ReviewForTermination": "true"}


def record(world: World) -> RecordOutcome:
    """The use case over the world."""
    return RecordOutcome(
        world.clock, world.policies, ACCOUNTS, world.state, world.ec2, world.announcer, SIGNER
    )


def state_change(world: World) -> ReactToStateChange:
    """The use case over the world."""
    void = VoidEpisode(world.state, DeliverDecision(world.state, world.workflow))
    return ReactToStateChange(world.policies, ACCOUNTS, world.state, void)


def tell(world: World, state: str, minutes: float = 0) -> str:
    """EC2 says that the instance is in this state."""
    at = NOW + timedelta(minutes=minutes)
    return state_change(world)(TARGET.account, TARGET.region, world.instance.instance_id, state, at)


def test_a_stop_is_booked_from_the_moment_it_was_asked_for() -> None:
    """1.006 an hour, less the snapshots; the lock is free and people know."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.clock.moment = NOW + timedelta(hours=2)
    record(world)(world.ref, Outcome.STOPPED, "the instance is stopped")

    (entry,) = world.state.entries("2026-11")
    assert NOW == entry.booked_at
    assert Decimal("1.006") - Decimal(100) * (Decimal("0.05") / 730) == entry.saved_usd_per_hour
    assert world.state.record(TARGET, world.ref.instance_id).open_episode is None
    assert [AlertKind.OUTCOME] == [alert.kind for alert in world.announcer.sent]


def test_the_first_outcome_stands_and_is_booked_once() -> None:
    """A repeated record tells again and changes nothing."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    first = record(world)(world.ref, Outcome.STOPPED, "stopped")
    again = record(world)(world.ref, Outcome.FAILED, "something else")

    assert (Outcome.STOPPED, Outcome.STOPPED) == (first, again)
    assert 1 == len(world.state.entries("2026-11"))


@pytest.mark.parametrize("outcome", [Outcome.KEPT, Outcome.EXEMPTED, Outcome.WOKE_UP])
def test_marks_go_with_the_reason_for_them(outcome: Outcome) -> None:
    """And nothing is booked."""
    world = World(changes={"tags": TAGS})
    record(world)(world.ref, outcome, "said so")

    assert {"Purpose": "GPU-Workload"} == world.ec2.instances[world.ref.instance_id].tags
    assert [] == world.state.entries("2026-11")


@pytest.mark.parametrize(
    ("outcome", "quiet"),
    [(Outcome.EXPIRED, True), (Outcome.OBSERVED, True), (Outcome.WOKE_UP, False), (Outcome.VOID, False)],
)
def test_the_same_idleness_is_not_told_again_at_once(outcome: Outcome, quiet: bool) -> None:
    """A day by default, unless the outcome itself says what comes next."""
    world = World()
    record(world)(world.ref, outcome, "because")

    until = world.state.record(TARGET, world.ref.instance_id).quiet_until
    assert (NOW + timedelta(hours=24) if quiet else None) == until


def test_a_failure_is_critical() -> None:
    """And says that nothing is destroyed."""
    world = World()
    record(world)(world.ref, Outcome.FAILED, "SnapshotFailed: snap-1")

    (alert,) = world.announcer.sent
    assert (AlertKind.FAILURE, Severity.CRITICAL) == (alert.kind, alert.severity)
    assert "nothing is destroyed" in " ".join(alert.lines)


def test_what_was_refused_is_told_from_what_failed() -> None:
    """A protection flag is a result; a failed snapshot is a defect."""
    assert Outcome.REFUSED is outcome_of_error({"Error": "Protected", "Cause": "flag"})[0]
    assert Outcome.FAILED is outcome_of_error({"Error": "SnapshotFailed", "Cause": "x"})[0]
    assert Outcome.FAILED is outcome_of_error({})[0]


def test_others_stopping_it_void_the_question() -> None:
    """The workflow hears of it; a late approval comes to nothing."""
    world = World(decide=False, phase=Phase.ASKING)
    world.workflow.waiting.add("token")

    assert "question voided" == tell(world, "stopping")
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.VOID is approval.status
    assert "void" == world.workflow.answers["token"]["decision"]


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
    record(world)(world.ref, Outcome.STOPPED, "stopped")
    tell(world, "running", minutes)
    tell(world, "running", minutes + 1)

    (entry,) = world.state.entries("2026-11")
    assert (NOW + timedelta(minutes=minutes), false_stop) == (entry.ended_at, entry.false_stop)


def test_an_event_older_than_the_booking_settles_nothing() -> None:
    """Events come out of order."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    record(world)(world.ref, Outcome.STOPPED, "stopped")
    tell(world, "running", -5)

    (entry,) = world.state.entries("2026-11")
    assert entry.ended_at is None


def test_a_spot_warning_tells_the_seconds_left() -> None:
    """And takes the question back; instances that are not ours are nobody's news."""
    world = World(decide=False, phase=Phase.ASKING)
    void = VoidEpisode(world.state, DeliverDecision(world.state, world.workflow))
    react = ReactToSpotWarning(
        world.clock, world.policies, ACCOUNTS, world.ec2, world.state, void, world.announcer
    )
    at = NOW - timedelta(seconds=20)
    told = react(TARGET.account, TARGET.region, world.instance.instance_id, "terminate", at, "event-1")
    world.change_instance(tags={})
    other = react(TARGET.account, TARGET.region, world.instance.instance_id, "terminate", at, "event-2")

    assert (True, False) == (told, other)
    assert "100 s left" in world.announcer.sent[0].subject
    assert 1 == len(world.announcer.sent)


def test_a_workflow_that_dies_frees_its_instance() -> None:
    """Closed as failed, told, and not asked again at once."""
    world = World(decide=False, phase=Phase.ASKING)
    react = ReactToExecutionEnd(world.clock, world.policies, world.state, world.announcer)

    assert react(world.ref.execution_name, "ABORTED")
    assert not react(world.ref.execution_name, "ABORTED")
    stored = world.state.record(TARGET, world.ref.instance_id)
    assert (None, NOW + timedelta(hours=24)) == (stored.open_episode, stored.quiet_until)
    assert [AlertKind.FAILURE] == [alert.kind for alert in world.announcer.sent]


def test_an_execution_of_another_machine_is_refused() -> None:
    """Its name is not one of ours."""
    world = World()
    react = ReactToExecutionEnd(world.clock, world.policies, world.state, world.announcer)

    with pytest.raises(ValueError, match="not the name"):
        react("nightly-report", "FAILED")
