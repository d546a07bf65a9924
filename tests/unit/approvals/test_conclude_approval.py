"""The end of a question: expired, unless an answer came in the last instant."""

from __future__ import annotations

from datetime import timedelta

import pytest

from governor.approvals.deliver_decision import ConcludeApproval
from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.core.errors import SafetyError
from tests.builders import NOW
from tests.unit.worlds.world import APPROVAL_ID, World


def test_nobody_answered() -> None:
    """Expired; said again it stays so."""
    world = World(decide=False)
    for _ in range(2):
        answer = ConcludeApproval(
            episode_store=world.state,
            approval_store=world.state,
            clock=world.clock,
            expiry_seal=world.seals.expiries,
        )(world.ref)
        assert ("expired", "nobody answered in time") == (answer["decision"], answer["reason"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [(Answer.APPROVE, "approve"), (Answer.KEEP, "keep"), (Answer.EXEMPT, "exempt")],
)
def test_an_answer_of_the_last_instant_counts(answer: Answer, said: str) -> None:
    """It stands in the table; the expiry comes too late."""
    world = World(decide=False)
    decision = Decision(
        answer,
        "link:a@example.com",
        "page",
        NOW,
        NOW + timedelta(days=1),
        "license server",
        "a@example.com",
    )
    world.state.settle(APPROVAL_ID, decision)

    assert (
        said
        == ConcludeApproval(
            episode_store=world.state,
            approval_store=world.state,
            clock=world.clock,
            expiry_seal=world.seals.expiries,
        )(world.ref)["decision"]
    )
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert approval.status is not ApprovalStatus.EXPIRED


def test_a_task_that_ended_without_an_answer_expires_nothing() -> None:
    """Its token was used by somebody else: the question stays as it was, and nothing is done."""
    world = World(decide=False)
    with pytest.raises(SafetyError, match="nobody has given one"):
        ConcludeApproval(
            episode_store=world.state,
            approval_store=world.state,
            clock=world.clock,
            expiry_seal=world.seals.expiries,
        )(world.ref, answered=True)
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.PENDING is approval.status


def test_a_question_that_was_taken_back_stays_void() -> None:
    """The GPU woke up in the last instant."""
    world = World(decide=False)
    world.state.void(APPROVAL_ID, "it works again", expired=False, outcome="woke-up")

    answer = ConcludeApproval(
        episode_store=world.state,
        approval_store=world.state,
        clock=world.clock,
        expiry_seal=world.seals.expiries,
    )(world.ref)
    assert ("void", "woke-up") == (answer["decision"], answer["outcome"])


def test_an_episode_that_does_not_exist_is_refused() -> None:
    """Whoever starts an execution by hand names nothing."""
    world = World(decide=False)
    world.state.forget("EPISODE")
    with pytest.raises(SafetyError, match="does not exist"):
        ConcludeApproval(
            episode_store=world.state,
            approval_store=world.state,
            clock=world.clock,
            expiry_seal=world.seals.expiries,
        )(world.ref)
