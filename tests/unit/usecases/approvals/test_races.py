"""Two answers at once: one counts, and the other is told what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from governor.domain.approvals.approval import Answer, ApprovalStatus, Decision
from governor.errors import ConflictError, DecisionRefused
from governor.usecases.approvals.decide import Decide
from tests.unit.usecases.builders import approval_id_of, asked, decision, stored_approval, token_of


class Beaten:
    """A state table in which something happens right before the answer is written."""

    def __init__(self, state: Any, first: Callable[[], object]) -> None:
        self._state, self._first = state, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def settle(self, *_: object) -> None:
        self._first()
        raise ConflictError("somebody was faster")


def raced(mine: Decision, theirs: Decision | None) -> tuple[Any, str, Callable[[], Any]]:
    """A question that is answered otherwise in the very moment."""
    world, instance_id, _ = asked()
    approval_id = approval_id_of(instance_id)

    def first() -> None:
        if theirs is not None:
            world.state.settle(approval_id, theirs, theirs.keep_until)

    state: Any = Beaten(world.state, first)
    decide = Decide(state, world.workflow, world.clock, world.announcer)
    return world, instance_id, lambda: decide(approval_id, mine, losses_accepted=True)


def test_the_slower_of_two_people_is_told_who_has_decided() -> None:
    """And the first answer stands."""
    world, instance_id, decide = raced(
        decision(by="link:alice@example.com"), decision(Answer.EXEMPT, reason="mine")
    )
    with pytest.raises(DecisionRefused, match="has already decided: exempt"):
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
