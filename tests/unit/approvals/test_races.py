"""Two answers at once: one counts, and the other is told what became of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.core.errors import ConflictError, DecisionRefused, NotFound, Unavailable
from governor.episode.model.episode import Episode, Outcome, Phase, Terms
from governor.episode.model.plan import Step
from governor.verdict.model import Hold
from tests.builders import NOW
from tests.unit.worlds.builders import (
    approval_id_of,
    asked,
    decider,
    decision,
    stored_approval,
    token_of,
)
from tests.unit.worlds.world import APPROVAL_ID, World


class Beaten:
    """A state table in which something happens right before the answer is written."""

    def __init__(self, state: Any, first: Callable[[], object]) -> None:
        self._state, self._first = state, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def settle(self, *_: object, **__: object) -> None:
        self._first()
        raise ConflictError("somebody was faster")

    hold = settle


def raced(mine: Decision, theirs: Decision | None) -> tuple[Any, str, Callable[[], Any]]:
    """A question that is answered otherwise in the very moment."""
    world, instance_id, _ = asked()
    approval_id = approval_id_of(instance_id)

    def first() -> None:
        if theirs is not None:
            world.state.settle(approval_id, theirs)

    decide = decider(world, Beaten(world.state, first))
    return world, instance_id, lambda: decide(approval_id, mine, losses_accepted=True)


def test_the_slower_of_two_people_is_told_who_has_decided() -> None:
    """And the first answer stands."""
    world, instance_id, decide = raced(
        decision(by="link:alice@example.com"), decision(Answer.EXEMPT, reason="mine")
    )
    with pytest.raises(DecisionRefused, match=r"already decided by .*: exempt"):
        decide()
    assert ApprovalStatus.EXEMPTED is stored_approval(world, instance_id).status


def test_a_request_that_comes_twice_is_one_answer_and_is_handed_over() -> None:
    """The first may have been lost between the table and the workflow."""
    world, instance_id, decide = raced(decision(), decision())
    decided = decide()

    assert (True, False, False) == (decided.delivered, decided.needs_another, decided.holds)
    assert token_of(instance_id) in world.workflow.answers


def test_an_answer_that_could_not_be_written_may_be_given_again() -> None:
    """The table was busy: nothing is decided, and nobody is told otherwise."""
    world, instance_id, decide = raced(decision(), None)
    with pytest.raises(DecisionRefused, match="please try again") as refused:
        decide()
    assert ApprovalStatus.PENDING.value == refused.value.status
    assert ApprovalStatus.PENDING is stored_approval(world, instance_id).status


@pytest.mark.parametrize("is_down", [False, True])
def test_who_decides_is_told_whether_the_workflow_has_it(is_down: bool) -> None:
    """It stands either way; the same answer once more hands it over, too."""
    world, instance_id, _ = asked()
    decide = decider(world)
    world.workflow.failure = Unavailable("Step Functions is down") if is_down else None
    decided = decide(approval_id_of(instance_id), decision(), losses_accepted=True)

    assert (not is_down) is decided.delivered is (token_of(instance_id) in world.workflow.answers)
    assert ApprovalStatus.APPROVED is stored_approval(world, instance_id).status
    world.workflow.failure = None
    again = decide(approval_id_of(instance_id), decision(), losses_accepted=True)
    assert (True, False, False) == (again.delivered, again.needs_another, again.holds)
    assert token_of(instance_id) in world.workflow.answers


MINE, THEIRS = "link:bob@example.com", "link:carol@example.com"


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (MINE, None),
        (THEIRS, "already held by carol"),
        ("the call", "too late to hold it"),
        ("nobody", "please try again"),
    ],
)
def test_a_hold_that_was_beaten_says_by_what(first: str, why: str | None) -> None:
    """By itself: it holds. By another one or the call: that stands. By a busy table: nothing is
    stored."""
    world = World()

    def decide(state: Any, by: str) -> Any:
        said = Decision(Answer.HOLD, by, "page", NOW, person=by.removeprefix("link:"))
        return decider(world, state)(APPROVAL_ID, said)

    def happens() -> None:
        if first == "the call":
            world.state.note_step(world.ref, Step.STOP.value, NOW)
        elif first != "nobody":
            decide(world.state, first)

    beaten = Beaten(world.state, happens)
    if why is None:
        held = decide(beaten, MINE)
        assert (True, True) == (held.holds, held.delivered)
    else:
        with pytest.raises(DecisionRefused, match=why):
            decide(beaten, MINE)
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    brake = approval.hold
    assert (first if first.startswith("link:") else None) == (brake and brake.by)


def test_a_late_keep_that_cannot_be_stored_is_not_confirmed() -> None:
    """The call is noted, so only the keep itself would hold the next action. Whoever gave it reads
    that it must be given again, instead of that it was too late but counts."""
    world = World()
    world.state.note_step(world.ref, Step.STOP.value, NOW)

    def be_slower(*_: object) -> None:
        raise ConflictError("others were faster each time")

    world.state.store_hold = be_slower  # type: ignore[method-assign, assignment]
    keep = Decision(
        Answer.KEEP, MINE, "page", NOW, person="bob@example.com", keep_until=NOW + timedelta(days=3)
    )
    with pytest.raises(DecisionRefused, match=r"^please try again$"):
        decider(world)(APPROVAL_ID, keep)
    assert Hold() == world.state.record(world.ref.target, world.ref.instance_id).hold


class TakenBack:
    """A state table in which the call is taken back right before a late hold is noted."""

    def __init__(self, state: Any, take_back: Callable[[], object]) -> None:
        self._state = state
        self._take_back = take_back

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def note_late_hold(self, episode: Episode, hold: Decision) -> bool:
        self._take_back()
        return bool(self._state.note_late_hold(episode, hold))


def test_a_hold_is_taken_when_the_call_is_taken_back_at_that_moment() -> None:
    """EC2 has refused the call: it is no longer too late."""
    world = World()
    world.state.note_step(world.ref, Step.STOP.value, NOW)

    def take_back() -> None:
        episode = world.state.episode(world.ref)
        assert episode is not None
        assert world.state.forget_step(episode, Step.STOP.value, NOW)

    decide = decider(world, TakenBack(world.state, take_back))
    held = decide(APPROVAL_ID, Decision(Answer.HOLD, MINE, "page", NOW, person="bob@example.com"))

    assert held.holds
    assert MINE == (world.state.existing(APPROVAL_ID).hold or decision()).by


@pytest.mark.parametrize("needed", [1, 2])
def test_a_yes_to_what_is_over_is_refused_before_its_question_is_canceled(needed: int) -> None:
    """Before, it was recorded as approved, and a first one was announced, though nothing came of
    it."""
    terms = Terms(known_people=frozenset({"bob@example.com"}), people_needed=needed)
    world = World(decide=False, phase=Phase.ASKING, terms=terms)
    world.state.close_episode(world.ref, Outcome.FAILED, "died", NOW, quiet_until=None)
    yes = Decision(Answer.APPROVE, MINE, "page", NOW, person="bob@example.com")
    decide = decider(world)
    with pytest.raises(
        DecisionRefused, match=r"it is over \(failed\): there is nothing left to approve"
    ):
        decide(APPROVAL_ID, yes, losses_accepted=True)
    approval = world.state.approval(APPROVAL_ID)
    assert (ApprovalStatus.PENDING, None) == (
        approval and approval.status,
        approval and approval.first_yes,
    )
    assert [] == world.announcer.sent


@pytest.mark.parametrize("gone", ["EPISODE", "REQUEST"])
def test_a_question_or_an_episode_that_is_gone_takes_no_answer(gone: str) -> None:
    """It says which is missing."""
    world = World(decide=False)
    world.state.forget(gone)
    said = Decision(Answer.APPROVE, MINE, "page", NOW, person="bob@example.com")
    with pytest.raises(NotFound, match="does not exist"):
        decider(world)(APPROVAL_ID, said)
