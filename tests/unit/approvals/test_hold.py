"""A hold works from the yes until the very call: it comes first, or its answer says that it came
too late."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.approvals.decide import Decided
from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.approvals.show_approval import ApprovalView, ShowApproval
from governor.core.errors import (
    CloudError,
    ConflictError,
    DecisionRefused,
    Held,
    MustWait,
    NotAllowed,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.episode.model.episode import Episode, Outcome, Terms
from governor.episode.model.plan import Step, Until
from governor.episode.rules.sent_call import UNDER_WAY_FOR
from governor.limits.model.breaker import BreakerState
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.remediation.check_progress import CheckProgress
from tests.builders import NOW, TARGET
from tests.episodes import ending_of
from tests.properties import examples
from tests.unit.worlds.builders import decider, recorder, undoer
from tests.unit.worlds.fleet_world import ACCOUNTS
from tests.unit.worlds.world import ALICE, APPROVAL_ID, World

BOB = "bob@example.com"
LATER = NOW + timedelta(days=3)


def decide(
    world: World, answer: Answer = Answer.HOLD, person: str | None = BOB, **more: Any
) -> Decided:
    """Bob's answer, on the page."""
    use_case = decider(world)
    by = f"link:{person or 'broadcast'}"
    return use_case(
        APPROVAL_ID, Decision(answer, by, "page", world.clock.now(), person=person, **more)
    )


def episode_of(world: World) -> Episode:
    """As it is stored."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return episode


def held(world: World) -> Decision | None:
    """Return who holds it."""
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    return approval.hold


def undo(world: World) -> str:
    """Return what the record's button answers."""
    use_case = undoer(world)
    return use_case(world.ref, "link:bob@example.com", "page").text


@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
@pytest.mark.parametrize(
    ("answer", "more", "why"),
    [
        (Answer.HOLD, {}, "held by link:bob@example.com"),
        (Answer.KEEP, {"keep_until": LATER}, "kept by link:bob@example.com"),
        (Answer.EXEMPT, {"reason": "demo"}, "exempted by link:bob@example.com: demo"),
    ],
)
def test_an_approved_plan_is_held_before_its_first_step(
    action: Action, answer: Answer, more: dict[str, Any], why: str
) -> None:
    """Hold, keep and exempt after a yes: nothing is done, and what they say of the instance is
    stored."""
    world = World(action=action)
    assert decide(world, answer, **more).holds

    with pytest.raises(Held, match=why):
        world.put_away(world.ref, Step.STOP)
    checked = world.recheck(world.ref, Step.STOP)
    assert (False, Outcome.HELD, why) == (checked.proceed, checked.outcome, checked.reason)
    assert [] == world.writes()
    record = world.state.record(TARGET, world.ref.instance_id)
    assert more.get("keep_until") == record.hold.snoozed_until
    assert (answer is Answer.EXEMPT) is (record.hold.exempt_reason is not None)
    recorder(world)(world.ref, Outcome.HELD)
    assert why == ending_of(episode_of(world)).reason
    (alert,) = world.announcer.sent
    assert "is on hold and was not" in alert.subject
    assert "Nothing was changed." in alert.lines
    with pytest.raises(
        DecisionRefused, match=r"it is over \(held\): there is nothing left to hold"
    ):
        decide(world, person="carol@example.com")


def test_a_held_stopped_instance_stays_stopped_until_it_is_undone() -> None:
    """Held while its snapshots run: no wait, no termination; a saving is booked, and undo starts
    it."""
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    decide(world)

    assert "hold" in undo(world)
    look = CheckProgress(
        world.clock,
        world.policies,
        ACCOUNTS,
        episode_store=world.state,
        approval_store=world.state,
        delivery_store=world.state,
        instances=world.ec2,
        snapshots=world.ec2,
    )
    assert 0 == look(world.ref, Until.SNAPSHOTS_COMPLETED)
    assert Outcome.HELD is world.recheck(world.ref, Step.TERMINATE).outcome
    world.ec2.finish_snapshots("completed")
    world.let_through(Step.TERMINATE)
    with pytest.raises(Held):
        world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.HELD)
    assert (["stop"], "stopped") == (
        world.writes(),
        world.ec2.instances[world.ref.instance_id].state,
    )
    assert (Outcome.HELD, Outcome.STOPPED) == (episode_of(world).outcome, episode_of(world).became)
    text = "\n".join(world.announcer.sent[-1].lines)
    assert "its snapshots began. Nothing was deleted" in text
    assert "It stays stopped" in text
    assert "while it runs" not in text
    assert "EC2 has been asked to start it" in undo(world)


@pytest.mark.parametrize(
    ("answer", "more"),
    [(Answer.HOLD, {}), (Answer.KEEP, {"keep_until": LATER}), (Answer.EXEMPT, {"reason": "demo"})],
)
@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
def test_after_the_call_the_answer_says_that_it_had_begun(
    action: Action, answer: Answer, more: dict[str, Any]
) -> None:
    """With the way back. A keep and an exemption are stored all the same, and nobody holds it."""
    world = World(action=action)
    if action is Action.STOP:
        world.put_away(world.ref, Step.STOP)
    else:
        world.stop_and_snapshot()
        world.put_away(world.ref, Step.TERMINATE)
    way = (
        r"stop it .* you can start it again"
        if action is Action.STOP
        else r"terminate it .* keep it"
    )
    with pytest.raises(
        DecisionRefused, match=rf"too late to hold it.*EC2 was asked to {way}"
    ) as refused:
        decide(world, answer, **more)
    hold = world.state.record(TARGET, world.ref.instance_id).hold
    assert more.get("keep_until") == hold.snoozed_until
    assert (answer is Answer.EXEMPT) is (hold.exempt_reason is not None)
    assert (answer is not Answer.HOLD) is ("your answer is stored" in str(refused.value))
    assert held(world) is None
    if action is Action.TERMINATE:
        assert "no longer exists" in undo(world) or "EC2 was asked to terminate it" in undo(world)


def test_a_refused_answer_that_is_incomplete_or_not_allowed_is_not_stored() -> None:
    """Too late or not: a keep needs a date that the policy allows, an exemption somebody who
    may."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    with pytest.raises(DecisionRefused, match="at most 30 days"):
        decide(world, Answer.KEEP, keep_until=NOW + timedelta(days=90))
    with pytest.raises(NotAllowed):
        decide(world, Answer.EXEMPT, person=None, reason="demo")
    hold = world.state.record(TARGET, world.ref.instance_id).hold
    assert (None, None) == (hold.snoozed_until, hold.exempt_reason)


def progress(world: World, until: Until) -> bool:
    """Return whether the workflow goes on to its next step."""
    look = CheckProgress(
        world.clock,
        world.policies,
        ACCOUNTS,
        episode_store=world.state,
        approval_store=world.state,
        delivery_store=world.state,
        instances=world.ec2,
        snapshots=world.ec2,
    )
    return look(world.ref, until) == 0


@pytest.mark.parametrize("kept", [False, True])
def test_a_stop_is_undone_while_its_snapshots_run(kept: bool) -> None:
    """As soon as EC2 shows it stopped; no day of waiting, and the record says that it runs
    again."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    if kept:
        with pytest.raises(DecisionRefused, match="answer is stored"):
            decide(world, Answer.KEEP, keep_until=NOW + timedelta(days=20))
    world.take_snapshot(world.ref)
    world.change_instance(state="stopping")
    assert "still stopping; try again in a minute" in undo(world)
    world.change_instance(state="stopped")
    world.clock.moment += timedelta(hours=20)
    view = ShowApproval(
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        delivery_store=world.state,
        ledger_store=world.state,
        clock=world.clock,
    )(APPROVAL_ID)
    assert (False, True) == (view.can_hold, view.episode.can_be_started)
    assert not progress(world, Until.SNAPSHOTS_COMPLETED)

    assert "EC2 has been asked to start it" in undo(world)

    instance = world.ec2.instances[world.ref.instance_id]
    assert instance.state in ("pending", "running")
    assert not ShowApproval(
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        delivery_store=world.state,
        ledger_store=world.state,
        clock=world.clock,
    )(APPROVAL_ID).episode.can_be_started
    assert "bob@example.com (mail link) has already started it" in undo(world)
    with pytest.raises(SafetyError):
        world.put_away(world.ref, Step.STOP)
    assert progress(world, Until.STOPPED)
    assert progress(world, Until.SNAPSHOTS_COMPLETED)
    recorder(world)(world.ref, Outcome.STOPPED)
    alert = world.announcer.sent[-1]
    assert "was started again" in alert.subject
    text = "\n".join(alert.lines)
    assert "bob@example.com (mail link) started it again" in text
    assert "It saves" not in alert.subject + text
    assert "button to start it again" not in text
    assert Outcome.STOPPED is episode_of(world).became
    record = world.state.record(TARGET, world.ref.instance_id)
    # A keep that was stored is not cut short by the day after an undo.
    left_alone = NOW + (timedelta(days=20) if kept else timedelta(hours=44))
    assert (left_alone, None) == (record.hold.snoozed_until, record.open_episode)


def test_what_is_not_stopped_by_its_open_episode_is_not_started() -> None:
    """A rehearsal stops nothing, whoever stopped it; a plan that terminates must be held first."""
    rehearsal = World(mode=Mode.OBSERVE)
    rehearsal.put_away(rehearsal.ref, Step.STOP)
    rehearsal.change_instance(state="stopped")
    assert "did not stop the instance" in undo(rehearsal)
    world = World(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    assert "hold it first" in undo(world)
    view = ShowApproval(
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        delivery_store=world.state,
        ledger_store=world.state,
        clock=world.clock,
    )(APPROVAL_ID)
    assert (True, False) == (view.can_hold, view.episode.can_be_started)


@pytest.mark.parametrize("step", [Step.STOP, Step.TERMINATE])
def test_a_hold_between_the_guards_and_the_call_wins(step: Step) -> None:
    """It comes after the last guard has passed: the note of the step is refused, and EC2 is not
    called."""
    world = World(action=Action.TERMINATE)
    if step is Step.TERMINATE:
        world.stop_and_snapshot()
    before = list(world.ec2.calls)
    note = world.state.note_call

    def late(*arguments: object) -> None:
        person = threading.Thread(target=decide, args=[world])
        person.start()
        person.join()
        note(*arguments)  # type: ignore[arg-type]

    world.state.note_call = late  # type: ignore[method-assign, assignment]
    with pytest.raises(Held, match="held by link:bob@"):
        world.put_away(world.ref, step)
    assert before == world.ec2.calls


@settings(max_examples=examples(20, 300), deadline=None)
@given(
    action=st.sampled_from([Action.STOP, Action.TERMINATE]),
    answers=st.lists(st.sampled_from([Answer.HOLD, Answer.KEEP]), min_size=1, max_size=3),
)
def test_either_the_hold_wins_or_its_answer_says_that_the_call_had_begun(
    action: Action, answers: list[Answer]
) -> None:
    """Put_away and several people at once, in any order of the table's writes."""
    world = World(action=action)
    last = Step.STOP
    if action is Action.TERMINATE:
        world.stop_and_snapshot()
        last = Step.TERMINATE
    before, accepted, refused, told = len(world.writes()), [], [], []
    gate = threading.Barrier(len(answers) + 1)

    def act() -> None:
        gate.wait()
        try:
            world.put_away(world.ref, last)
        except (SafetyError, ConflictError) as error:
            refused.append(str(error))

    def press(number: int, answer: Answer) -> None:
        gate.wait()
        until = LATER if answer is Answer.KEEP else None
        try:
            decide(world, answer, person=f"p{number}@example.com", keep_until=until)
            accepted.append(answer)
        except DecisionRefused as error:
            told.append(str(error))

    threads = [threading.Thread(target=act)]
    threads += [threading.Thread(target=press, args=pair) for pair in enumerate(answers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("too late" in text or "already" in text or "try again" in text for text in told)
    called = len(world.writes()) - before
    assert 1 == called + len(refused)
    assert (held(world) is not None) is bool(accepted)
    if called:
        assert [] == accepted
    elif not accepted:
        assert_kept_late(world, last)


def assert_kept_late(world: World, step: Step) -> None:
    """A keep came after the note of the call, and the last check before the call found it."""
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert approval.late_hold is not None
    assert LATER == world.state.record(TARGET, world.ref.instance_id).hold.snoozed_until
    assert not world.recheck(world.ref, step).proceed


def test_a_keep_between_the_note_and_the_last_check_prevents_the_call() -> None:
    """Its answer says that it may be too late, and that it counts if the call is not carried
    out."""
    world = World()
    note = world.state.note_call
    told: list[str] = []

    def press() -> None:
        with pytest.raises(DecisionRefused) as refused:
            decide(world, Answer.KEEP, keep_until=LATER)
        told.append(str(refused.value))

    def noted(*arguments: object) -> None:
        note(*arguments)  # type: ignore[arg-type]
        person = threading.Thread(target=press)
        person.start()
        person.join()

    world.state.note_call = noted  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait, match="a keep or an exemption was stored"):
        world.put_away(world.ref, Step.STOP)

    assert [] == world.writes()
    assert "your answer counts" in told[0]
    assert_kept_late(world, Step.STOP)


def test_a_keep_may_follow_a_hold_and_a_repeated_answer_changes_nothing() -> None:
    """Held at once, and later for how long; a second plain hold is told that there is one."""
    world = World()
    decide(world)
    first = held(world)
    world.clock.moment += timedelta(minutes=1)
    assert decide(world).holds
    assert first == held(world)
    with pytest.raises(DecisionRefused, match="already held by bob"):
        decide(world, person="carol@example.com")
    with pytest.raises(DecisionRefused, match="at most 30 days"):
        decide(world, Answer.KEEP, keep_until=NOW + timedelta(days=31))
    decide(world, Answer.KEEP, keep_until=LATER)
    assert LATER == world.state.record(TARGET, world.ref.instance_id).hold.snoozed_until


@pytest.mark.parametrize(
    ("answer", "reason", "kept"), [(Answer.EXEMPT, "  demo ", "demo"), (Answer.HOLD, "  ", None)]
)
def test_a_reason_is_kept_without_the_spaces_around_it(
    answer: Answer, reason: str, kept: str | None
) -> None:
    """A request that repeats it with others is the same answer."""
    world = World()
    decide(world, answer, reason=reason)
    brake = held(world)

    assert brake is not None
    assert kept == brake.reason


@pytest.mark.parametrize("has_a_yes", [False, True])
@pytest.mark.parametrize(
    ("answer", "more", "projects"),
    [
        (Answer.KEEP, {"keep_until": LATER}, ("vision", None)),
        (Answer.EXEMPT, {"reason": "demo"}, (None, "vision")),
    ],
)
def test_the_project_is_kept_that_it_is_held_in(
    answer: Answer, more: dict[str, Any], projects: tuple[str | None, str | None], has_a_yes: bool
) -> None:
    """Rights to an answer, and to what comes after one: an admin of a project ends only what was
    held in it."""
    world = World(decide=has_a_yes)
    decide(world, answer, **more)
    hold = world.state.record(TARGET, world.ref.instance_id).hold

    assert projects == (hold.kept_in, hold.exempt_in)


@pytest.mark.parametrize("when", ["held", "notice", "too late"])
@pytest.mark.parametrize("first", [Answer.KEEP, Answer.EXEMPT])
def test_a_link_of_a_list_takes_nobodys_keep_off(first: Answer, when: str) -> None:
    """Before, a keep of a minute ended one of twenty days, and the record said that the list had
    kept it."""
    world = World(mode=Mode.AUTO, noticed_at=NOW) if when == "notice" else World()
    if when == "too late":
        world.put_away(world.ref, Step.STOP)
    days, soon = NOW + timedelta(days=20), NOW + timedelta(minutes=10)
    more: dict[str, Any] = {"keep_until": days} if first is Answer.KEEP else {"reason": "demo"}
    if when == "too late":
        for answer, person, said in ((first, BOB, more), (Answer.KEEP, None, {"keep_until": soon})):
            with pytest.raises(DecisionRefused, match="too late"):
                decide(world, answer, person, **said)
    else:
        assert decide(world, first, **more).holds
        with pytest.raises(DecisionRefused, match=r"already (kept|exempted) by bob@example\.com"):
            decide(world, Answer.KEEP, None, keep_until=soon)

    hold, brake = world.state.record(TARGET, world.ref.instance_id).hold, held(world)
    if first is Answer.KEEP:
        assert days == hold.snoozed_until
    assert (first is Answer.EXEMPT) is (hold.exempt_reason is not None)
    assert (None if when == "too late" else BOB) == (brake and brake.person)


def test_a_longer_keep_and_an_exemption_follow_a_keep() -> None:
    """Whoever gives it; the record names the one who holds it longest."""
    world = World()
    decide(world, Answer.KEEP, person=None, keep_until=NOW + timedelta(hours=1))
    decide(world, Answer.KEEP, keep_until=LATER)
    assert LATER == world.state.record(TARGET, world.ref.instance_id).hold.snoozed_until
    decide(world, Answer.EXEMPT, ALICE, reason="demo")
    brake = held(world)
    assert (Answer.EXEMPT, ALICE) == (brake and brake.answer, brake and brake.person)
    assert "demo" in (world.state.record(TARGET, world.ref.instance_id).hold.exempt_reason or "")


def test_a_keep_that_lost_to_a_yes_becomes_a_hold() -> None:
    """Both pressed at once: the approval was stored first, and the keep still counts."""
    world = World(decide=False)
    settle = world.state.settle

    def slow(*arguments: object) -> object:
        settle(APPROVAL_ID, Decision(Answer.APPROVE, f"link:{ALICE}", "page", NOW, person=ALICE))
        return settle(*arguments)  # type: ignore[arg-type]

    world.state.settle = slow  # type: ignore[method-assign, assignment]
    assert decide(world, Answer.KEEP, keep_until=LATER).holds
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.APPROVED is approval.status
    with pytest.raises(Held):
        world.put_away(world.ref, Step.STOP)


def test_a_late_yes_holds_nothing() -> None:
    """Another one was first; what was approved goes on."""
    world = World()
    with pytest.raises(DecisionRefused, match=r"already decided by .*: approved"):
        decide(world, Answer.APPROVE)
    assert held(world) is None


def test_whoever_may_keep_may_hold() -> None:
    """A list's link holds only where the policy lets it keep; an open question has nothing to
    hold."""
    decide(World(), person=None)
    world = World(terms=Terms(broadcast_may=frozenset({"stop"})))
    with pytest.raises(NotAllowed, match="lets nobody keep it by it"):
        decide(world, person=None)
    assert held(world) is None
    with pytest.raises(DecisionRefused, match="nothing happens to it without an approval"):
        decide(World(decide=False))
    with pytest.raises(DecisionRefused, match="nothing to hold"):
        decide(World(mode=Mode.OBSERVE))


def test_an_expiry_that_acts_can_be_held() -> None:
    """Nobody answered and the policy acts: until the call, somebody may still say no."""
    world = World(on_expiry="act", decide=False)
    world.clock.moment = NOW + timedelta(hours=1)
    decide(world)
    world.state.void(APPROVAL_ID, "nobody answered in time", expired=True)
    with pytest.raises(Held):
        world.put_away(world.ref, Step.STOP)


@pytest.mark.parametrize("step", [Step.STOP, Step.TERMINATE])
def test_people_may_hold_until_ec2_has_carried_out_the_final_step(step: Step) -> None:
    """Before the call the hold prevents it; after it, the page still takes one, which counts if EC2
    does not carry out the call."""
    world = World(action=Action.TERMINATE if step is Step.TERMINATE else Action.STOP)
    if step is Step.TERMINATE:
        world.stop_and_snapshot()
    assert (True, False) == takes(world)

    world.ec2.lost_answers.add(step.value)
    with pytest.raises(MustWait):
        world.put_away(world.ref, step)
    assert (False, True) == takes(world)


def test_nothing_is_held_once_a_later_step_shows_that_it_was_stopped() -> None:
    """The snapshots after a stop began."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)

    assert (False, False) == takes(world)


def takes(world: World) -> tuple[bool, bool]:
    """Return whether the page takes a hold that counts, and one that may be too late."""
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    view = ApprovalView(approval, episode_of(world), world.clock.now())
    return view.can_hold, view.can_hold_late


def test_a_hold_during_a_call_that_ec2_did_not_carry_out_counts() -> None:
    """The answer says that it may be too late; minutes later EC2 shows that it was not."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.ec2.failures["terminate"] = [Unavailable("503", operation="ec2:TerminateInstances")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.TERMINATE)
    with pytest.raises(DecisionRefused, match="too late"):
        decide(world)

    world.clock.moment += UNDER_WAY_FOR - timedelta(seconds=1)
    under_way = world.recheck(world.ref, Step.TERMINATE)
    world.clock.moment += timedelta(seconds=1)
    over = world.recheck(world.ref, Step.TERMINATE)

    assert (timedelta(minutes=1), False) == (under_way.wait, under_way.notifies)
    assert (False, Outcome.HELD, None) == (over.proceed, over.outcome, over.wait)
    assert ["stop", "terminate"] == world.writes()
    assert "stopped" == world.ec2.instances[world.ref.instance_id].state


@pytest.mark.parametrize("error", [Throttled, Unavailable])
def test_a_hold_that_came_during_the_call_is_the_outcome(error: type[CloudError]) -> None:
    """The record says who held it, and not that a step failed."""
    world = World()
    stop = world.ec2.stop

    def hold_and_fail(*arguments: object, **named: object) -> None:
        with ThreadPoolExecutor(1) as person, pytest.raises(DecisionRefused, match="too late"):
            person.submit(decide, world).result()
        raise error("not now", operation="ec2:StopInstances")

    world.ec2.stop = hold_and_fail  # type: ignore[method-assign]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    world.ec2.stop = stop  # type: ignore[method-assign]
    world.clock.moment += UNDER_WAY_FOR
    over = world.recheck(world.ref, Step.STOP)
    assert over.outcome is Outcome.HELD

    recorder(world)(world.ref, over.outcome)

    episode = episode_of(world)
    assert (Outcome.HELD, "held by link:bob@example.com") == (
        episode.outcome,
        ending_of(episode).reason,
    )
    assert "running" == world.ec2.instances[world.ref.instance_id].state


@pytest.mark.parametrize(
    ("answer", "more", "expected"),
    [
        (Answer.KEEP, {"keep_until": LATER}, "It is kept until"),
        (Answer.EXEMPT, {"reason": "demo"}, "It is exempt"),
    ],
)
def test_the_message_of_a_late_keep_says_that_it_is_kept(
    answer: Answer, more: dict[str, Any], expected: str
) -> None:
    """And not that people are asked again."""
    world = World()
    world.ec2.failures["stop"] = [Unavailable("503", operation="ec2:StopInstances")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    with pytest.raises(DecisionRefused, match="too late"):
        decide(world, answer, **more)
    world.clock.moment += UNDER_WAY_FOR
    over = world.recheck(world.ref, Step.STOP)
    assert over.outcome is not None
    recorder(world)(world.ref, over.outcome)

    text = "\n".join(world.announcer.sent[-1].lines)
    assert expected in text
    assert "asked again" not in text


def test_a_hold_during_a_call_that_ec2_carried_out_changes_nothing() -> None:
    """It was too late, as its answer said."""
    world = World()
    world.ec2.lost_answers.add("stop")
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    with pytest.raises(DecisionRefused, match="too late"):
        decide(world)

    assert world.recheck(world.ref, Step.STOP).proceed
    assert not world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_a_hold_during_a_call_that_ec2_throttled_stops_the_next_one() -> None:
    """EC2 has certainly not carried it out, so nothing is waited for."""
    world = World()
    world.ec2.failures["stop"] = [Throttled("later", operation="ec2:StopInstances")]
    forget = world.state.forget_step

    def hold_first(*arguments: object) -> None:
        with ThreadPoolExecutor(1) as person, pytest.raises(DecisionRefused, match="too late"):
            person.submit(decide, world).result()
        forget(*arguments)  # type: ignore[arg-type]

    world.state.forget_step = hold_first  # type: ignore[method-assign, assignment]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)

    assert Outcome.HELD is world.recheck(world.ref, Step.STOP).outcome
    world.let_through(Step.STOP)
    with pytest.raises(Held):
        world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_a_termination_that_ec2_did_not_take_can_be_held_again() -> None:
    """Noted, failed, then delayed by a freeze: while it waits, the hold is free again, and it
    wins."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.ec2.failures["terminate"] = [Unavailable("503", operation="ec2:TerminateInstances")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.TERMINATE)
    freeze = BreakerState(world.clock.now(), "outage", turned=40)
    world.state.begin_hub_freeze(freeze)
    world.clock.moment += UNDER_WAY_FOR

    assert world.recheck(world.ref, Step.TERMINATE).wait is not None
    assert ["stop", "snapshot"] == sorted(
        episode_of(world).progress.steps_done, key=["stop", "snapshot"].index
    )
    assert decide(world).holds
    assert world.state.end_hub_freeze(freeze)
    assert Outcome.HELD is world.recheck(world.ref, Step.TERMINATE).outcome
    world.let_through(Step.TERMINATE)
    with pytest.raises(Held):
        world.put_away(world.ref, Step.TERMINATE)
    # The one that failed; none came after it.
    assert ["stop", "terminate"] == world.writes()
    assert "stopped" == world.ec2.instances[world.ref.instance_id].state


def test_a_note_is_not_taken_back_after_a_newer_recheck() -> None:
    """Another recheck let the call through meanwhile: it may be under way."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    before = episode_of(world)
    noted_at = world.clock.now()
    world.state.note_step(world.ref, Step.TERMINATE.value, noted_at)
    world.clock.moment += timedelta(minutes=30)
    world.let_through(Step.TERMINATE)
    assert not world.state.forget_step(before, Step.TERMINATE.value, noted_at)
    assert Step.TERMINATE.value in episode_of(world).progress.steps_done
