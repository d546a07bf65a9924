"""Under the rule of two people everybody hears of the first yes: else nobody knows that theirs is
missing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.approvals.decide import Decided
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.core.errors import ConflictError, NotAllowed, Throttled
from governor.episode.model.episode import Terms
from governor.policy.model.acting import Action
from tests.builders import NOW
from tests.unit.worlds.builders import decider
from tests.unit.worlds.world import ALICE, APPROVAL_ID, World

BOB = "bob@example.com"
TWO = Terms(people_needed=2, known_people=frozenset({ALICE, BOB}))


def dear() -> World:
    """A termination that two people must approve."""
    return World(decide=False, action=Action.TERMINATE, terms=TWO)


def approve(world: World, person: str | None, answer: Answer = Answer.APPROVE) -> Decided:
    """Somebody's answer on the page."""
    until = NOW + timedelta(hours=4) if answer is Answer.KEEP else None
    said = Decision(
        answer, f"link:{person}", "page", world.clock.now(), keep_until=until, person=person
    )
    decide = decider(world)
    return decide(APPROVAL_ID, said, typed_instance_id=world.ref.instance_id, losses_accepted=True)


def test_the_first_of_two_is_told_once() -> None:
    """With who it was, what is missing, and until when; pressing again is no news, nor is the
    second yes."""
    world = dear()
    first = approve(world, ALICE)
    world.clock.moment = NOW + timedelta(minutes=1)
    again, second = approve(world, ALICE), approve(world, BOB)

    assert [True, True, False] == [one.needs_another for one in (first, again, second)]
    assert (True, ApprovalStatus.APPROVED) == (first.delivered, second.approval.status)
    (told,) = world.announcer.sent
    assert (AlertKind.APPROVAL_FIRST_YES, Severity.WARNING) == (told.kind, told.severity)
    assert f"first-yes-{world.ref.execution_name}" == told.dedup_id
    text = "\n".join((told.subject, *told.lines))
    assert "keeps running unless a second person approves by Fri 13:02 UTC" in told.subject
    assert (
        f"{ALICE} approved. A second person whose email address is in the policy must also approve"
        in text
    )
    assert "If no second person approves by Fri 13:02 UTC (in 1 h), nothing happens." in text
    assert ("ml", "vision", world.ref.execution_name) == (
        told.owner,
        told.project,
        told.facts["episode"],
    )


def test_where_one_is_enough_there_is_no_first() -> None:
    """Nor is a keep one, whoever must approve."""
    one, two = World(decide=False), dear()
    approve(one, ALICE)
    approve(two, ALICE, Answer.KEEP)

    assert ([], []) == (one.announcer.sent, two.announcer.sent)


def test_a_yes_that_does_not_count_is_not_told() -> None:
    """Somebody whom the policy does not name."""
    world = dear()
    with pytest.raises(NotAllowed):
        approve(world, "eve@example.com")

    assert [] == world.announcer.sent


def test_a_yes_stands_when_it_cannot_be_told() -> None:
    """The reminder comes all the same."""
    world = dear()
    world.announcer.failure = Throttled("SNS is busy")
    approve(world, ALICE)
    approval = world.state.approval(APPROVAL_ID)

    assert approval is not None
    assert approval.first_yes is not None
    assert ALICE == approval.first_yes.person


def test_two_at_the_same_moment_are_told_as_one() -> None:
    """Whoever was second settles it; there is nothing left to ask for."""
    world = dear()
    real = world.state.note_first_yes
    first = Decision(Answer.APPROVE, f"link:{BOB}", "page", NOW, person=BOB)

    def after_bob(approval_id: str, decision: Decision) -> Approval:
        real(approval_id, first)
        return real(approval_id, decision)

    world.state.note_first_yes = after_bob  # type: ignore[method-assign]
    approve(world, ALICE)

    assert [] == world.announcer.sent
    with pytest.raises(ConflictError):
        world.state.void(APPROVAL_ID, "late", expired=False)
