"""Answers: which are taken and until when, what acts without one, and what stands after them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from governor.approvals.decide import Decided
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.approvals.rules.approval import (
    acts_by_itself,
    can_hold,
    check_decision,
    check_hold,
    hold_of,
    keep_end,
    keep_text,
)
from governor.approvals.rules.terms import was_rightly_approved
from governor.core.errors import DecisionRefused, NotAllowed
from governor.core.units import time_with_zone
from governor.episode.model.episode import Episode, Phase, Terms
from governor.episode.model.plan import Price
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode
from governor.verdict.model import Hold
from tests.builders import NOW
from tests.episodes import changed
from tests.unit.worlds.builders import decider
from tests.unit.worlds.world import ALICE, APPROVAL_ID, World

BOB, SECOND = "bob@example.com", timedelta(seconds=1)
MONTH = timedelta(days=30)


def asked(**changes: Any) -> tuple[Episode, Approval]:
    """An episode, so changed, and its question, which is open for an hour."""
    world = World(decide=False)
    episode, approval = world.state.episode(world.ref), world.state.approval(APPROVAL_ID)
    assert episode is not None
    assert approval is not None
    return changed(episode, **changes), approval


def said(answer: Answer, person: str = ALICE, **more: Any) -> Decision:
    return Decision(answer, f"link:{person}", "page", NOW, person=person, **more)


@pytest.mark.parametrize(
    ("answer", "more", "why"),
    [
        (Answer.APPROVE, {}, None),
        (
            Answer.APPROVE,
            {"reason": "two\nlines, café \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}"},
            None,
        ),
        *[
            (Answer.APPROVE, {"reason": f"a{mark}b"}, "control characters")
            for mark in ("\x07", "\ud800", "\u2028", "\u2029", "\u202e")
        ],
        (Answer.KEEP, {}, "say until when"),
        (Answer.KEEP, {"keep_until": NOW}, "in the past"),
        (Answer.KEEP, {"keep_until": NOW + SECOND}, None),
        (Answer.KEEP, {"keep_until": NOW + MONTH}, None),
        (Answer.KEEP, {"keep_until": NOW + MONTH + SECOND}, "at most 30 days"),
        (Answer.EXEMPT, {"reason": "demo"}, None),
        (Answer.EXEMPT, {}, "needs a reason"),
        (Answer.EXEMPT, {"reason": " "}, "needs a reason"),
    ],
)
def test_an_answer_must_say_all_that_belongs_to_it(
    answer: Answer, more: dict[str, Any], why: str | None
) -> None:
    """As an answer to an open question, and where it holds what acts by itself."""
    episode, approval = asked()
    settled = replace(approval, status=ApprovalStatus.APPROVED)
    decision = said(answer, **more)
    if why is None:
        check_decision(approval, decision, NOW)
        check_hold(episode, settled, decision, NOW)
        return
    with pytest.raises(DecisionRefused, match=why) as refused:
        check_decision(approval, decision, NOW)
    with pytest.raises(DecisionRefused, match=why) as not_held:
        check_hold(episode, settled, decision, NOW)
    # It may be corrected and sent again.
    assert ["PENDING", "PENDING"] == [refused.value.status, not_held.value.status]


RIGHT = "i-0123456789abcdef0"


@pytest.mark.parametrize(
    ("action", "answer", "typed", "accepted", "why"),
    [
        (Action.STOP, Answer.APPROVE, None, False, "check the box that says so"),
        (Action.STOP, Answer.APPROVE, None, True, None),
        (Action.STOP, Answer.APPROVE, RIGHT, True, None),
        (Action.STOP, Answer.APPROVE, "i-0fedcba9876543210", True, "not about the instance ID"),
        (Action.TERMINATE, Answer.APPROVE, None, True, "type its ID into the field"),
        (Action.TERMINATE, Answer.APPROVE, "i-0", True, "type its ID into the field"),
        (Action.TERMINATE, Answer.APPROVE, RIGHT, False, "check the box that says so"),
        (Action.TERMINATE, Answer.APPROVE, f" {RIGHT} ", True, None),
        (Action.TERMINATE, Answer.KEEP, None, False, None),
        (Action.STOP, Answer.KEEP, None, True, "at most 30 days"),
    ],
)
def test_a_yes_names_what_it_ends_and_accepts_what_is_lost(
    action: Action, answer: Answer, typed: str | None, accepted: bool, why: str | None
) -> None:
    """Some scanners press buttons. What is refused leaves the question open."""
    world = World(action=action, decide=False)
    assert RIGHT == world.ref.instance_id
    until = None if answer is Answer.APPROVE else NOW + MONTH + (SECOND if accepted else -SECOND)
    decide = decider(world)
    answered = partial(decide, APPROVAL_ID, said(answer, keep_until=until))
    if why is not None:
        with pytest.raises(DecisionRefused, match=why):
            answered(typed_instance_id=typed, losses_accepted=accepted)
    else:
        answered(typed_instance_id=typed, losses_accepted=accepted)
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert (why is not None) is (approval.status is ApprovalStatus.PENDING)


KEEP = said(Answer.KEEP, keep_until=NOW)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, None),
        ({"decision": KEEP}, KEEP),
        ({"decision": said(Answer.APPROVE), "hold": KEEP}, KEEP),
        ({"decision": said(Answer.APPROVE)}, None),
        ({"decision": KEEP, "hold": said(Answer.HOLD)}, None),
    ],
)
def test_a_keep_lasts_until_its_date(changes: dict[str, Any], kept: Decision | None) -> None:
    """And no moment longer; nor after somebody has ended it, nor without a date."""
    approval = replace(asked()[1], **changes)
    ended = replace(approval, keep_ended_at=NOW - SECOND)
    undated = replace(approval, decision=said(Answer.KEEP), hold=None)

    assert (kept, kept, kept) == (approval.kept, ended.kept, approval.lasting_keep(NOW - SECOND))
    assert [None] * 3 == [one.lasting_keep(NOW) for one in (approval, ended, undated)]
    assert ended.lasting_keep(NOW - SECOND) is None


@pytest.mark.parametrize(
    ("answer", "holds", "confirmation"),
    [
        (
            Answer.APPROVE,
            False,
            "Recorded: approved. Until EC2 is called, you can still put it on hold.",
        ),
        (Answer.KEEP, False, "Recorded: kept until Sat 12:02 UTC."),
        (Answer.EXEMPT, False, "Recorded: exempt from now on."),
        (Answer.HOLD, True, "On hold: nothing more is done to it."),
        (Answer.KEEP, True, "On hold: nothing more is done to it. It is kept until Sat 12:02 UTC."),
        (Answer.EXEMPT, True, "On hold: nothing more is done to it. It is exempt from now on."),
    ],
)
def test_each_answer_is_confirmed_for_what_it_does(
    answer: Answer, holds: bool, confirmation: str
) -> None:
    """Only a keep has an end."""
    episode, approval = asked()
    until = NOW + timedelta(days=1) if answer is Answer.KEEP else None
    decided = Decided(approval, delivered=True, holds=holds)
    text = decided.confirmation(said(answer, keep_until=until), episode, NOW)
    assert confirmation == text


@pytest.mark.parametrize("answer", ["first_yes", "decision", "hold"])
def test_links_end_a_month_after_the_last_answer(answer: str) -> None:
    """Or after the expiry, where nobody answers; the page is the record until then."""
    approval = replace(asked()[1], created_at=NOW, expires_at=NOW + SECOND)
    later: dict[str, Any] = {answer: replace(said(Answer.APPROVE), at=NOW + 2 * SECOND)}
    answered = replace(approval, **later)

    assert NOW + SECOND + MONTH == approval.link_ends
    assert NOW + 2 * SECOND + MONTH == answered.link_ends


@pytest.mark.parametrize(("usd", "cost"), [(Decimal(100), " ($200)"), (None, "")])
def test_a_button_says_what_a_keep_costs(usd: Decimal | None, cost: str) -> None:
    """Until its end, which the policy's longest keep may bring forward; nothing where no price is
    known."""
    episode, _ = asked(keep_at_most=timedelta(hours=2), price=Price(usd, "list price"))

    assert NOW + timedelta(hours=2) == keep_end(episode, NOW)
    assert f"Keep until {time_with_zone(NOW + timedelta(hours=2), 'UTC', NOW)}{cost}" == keep_text(
        episode, NOW
    )


def test_a_keep_without_a_date_lasts_until_the_next_working_morning() -> None:
    """As every button says; the answer holds the date from then on."""
    world = World(decide=False)
    decide = decider(world)
    episode = world.state.episode(world.ref)
    assert episode is not None

    kept = decide(APPROVAL_ID, said(Answer.KEEP)).approval

    assert ApprovalStatus.KEPT is kept.status
    assert kept.decision == said(Answer.KEEP, keep_until=keep_end(episode, NOW))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"expires_at": NOW + SECOND}, None),
        ({"expires_at": NOW}, "the time to decide is over"),
        ({"status": ApprovalStatus.EXPIRED}, "the time to decide is over"),
        ({"status": ApprovalStatus.VOID}, r"canceled \(the instance changed\)"),
        ({"status": ApprovalStatus.VOID, "void_reason": "it works"}, r"canceled \(it works\)"),
        ({"status": ApprovalStatus.KEPT}, "already decided by somebody: kept"),
        (
            {"status": ApprovalStatus.APPROVED, "decision": said(Answer.APPROVE, BOB)},
            f"already decided by {BOB}.*: approved",
        ),
    ],
)
def test_a_question_is_answered_once_and_in_time(changes: dict[str, Any], why: str | None) -> None:
    """Whoever comes later reads what became of it."""
    approval = replace(asked()[1], **changes)
    if why is None:
        check_decision(approval, said(Answer.APPROVE), NOW)
        return
    with pytest.raises(DecisionRefused, match=why):
        check_decision(approval, said(Answer.APPROVE), NOW)


SILENT = {"acts_on_silence": True}
YES = {"status": ApprovalStatus.APPROVED}


@pytest.mark.parametrize(
    ("episode", "approval", "acts"),
    [
        ({}, {}, False),
        ({}, YES, True),
        ({"mode": Mode.AUTO}, {}, True),
        ({"phase": Phase.CLOSED}, YES, False),
        ({"mode": Mode.OBSERVE}, YES, False),
        ({"plan": ()}, YES, False),
        (SILENT, {}, False),
        (SILENT, {"expires_at": NOW}, True),
        (SILENT, {"expires_at": NOW, "stage": None}, False),
        (SILENT, {"expires_at": NOW, "status": ApprovalStatus.KEPT}, False),
        (SILENT, {"status": ApprovalStatus.EXPIRED}, True),
        ({}, {"status": ApprovalStatus.EXPIRED}, False),
        ({}, {"expires_at": NOW}, False),
    ],
)
def test_what_acts_unless_it_is_held_can_be_held(
    episode: dict[str, Any], approval: dict[str, Any], acts: bool
) -> None:
    """After a yes, in the notice of mode auto, where silence counts: until it is held, or EC2 is
    asked."""
    asked_episode, question = asked(
        **{name: value for name, value in episode.items() if name != "plan"}
    )
    if "plan" in episode:
        asked_episode = replace(asked_episode, plan=replace(asked_episode.plan, steps=()))
    question = replace(question, **approval)

    assert (
        acts
        is acts_by_itself(asked_episode, question, NOW)
        is can_hold(asked_episode, question, NOW)
    )
    hold = said(Answer.HOLD)
    assert not can_hold(asked_episode, replace(question, hold=hold), NOW)
    begun = replace(
        asked_episode,
        progress=replace(asked_episode.progress, steps_done={asked_episode.final_step.value: NOW}),
    )
    assert not can_hold(begun, question, NOW)


@pytest.mark.parametrize(
    ("decision", "stands"),
    [
        (said(Answer.APPROVE), Hold()),
        (said(Answer.HOLD), Hold()),
        (said(Answer.KEEP, keep_until=NOW + MONTH), Hold(snoozed_until=NOW + MONTH)),
        (said(Answer.KEEP), None),
        (
            said(Answer.EXEMPT, reason=" demo "),
            Hold(exempt_reason=f"demo (link:{ALICE})", exempt_by=f"link:{ALICE}"),
        ),
        (said(Answer.EXEMPT), None),
    ],
)
def test_an_answer_says_its_own_part_of_what_stands(
    decision: Decision, stands: Hold | None
) -> None:
    """Without its date or its reason it would hold nothing, so it is refused."""
    if stands is None:
        with pytest.raises(DecisionRefused):
            hold_of(decision)
    else:
        assert stands == hold_of(decision)


ONE, TWO = (Terms(people_needed=needed, known_people=frozenset({ALICE, BOB})) for needed in (1, 2))


@pytest.mark.parametrize(
    ("terms", "first", "last", "counts"),
    [
        (ONE, None, said(Answer.APPROVE), True),
        (ONE, None, None, False),
        (ONE, None, said(Answer.KEEP), False),
        (
            replace(ONE, tag_owner_may=frozenset()),
            None,
            said(Answer.APPROVE, "eve@example.com"),
            False,
        ),
        (TWO, None, said(Answer.APPROVE), False),
        (TWO, said(Answer.APPROVE), said(Answer.APPROVE), False),
        (TWO, said(Answer.APPROVE, "eve@example.com"), said(Answer.APPROVE), False),
        (TWO, said(Answer.APPROVE), said(Answer.APPROVE, "eve@example.com"), False),
        (TWO, said(Answer.APPROVE, BOB), said(Answer.APPROVE), True),
    ],
)
def test_a_yes_counts_when_those_gave_it_who_may(
    terms: Terms, first: Decision | None, last: Decision | None, counts: bool
) -> None:
    """Asked again before anything is done: two who are known and not the same, where two are
    needed."""
    episode, approval = asked()
    approval = replace(approval, first_yes=first, decision=last)
    assert counts is was_rightly_approved(terms, episode.plan, approval)


def test_those_who_approved_are_named_by_their_address_where_it_is_known() -> None:
    """CloudTrail shows it in the name of the session."""
    approval, unknown = asked()[1], replace(said(Answer.APPROVE), person=None)
    both = replace(approval, first_yes=said(Answer.APPROVE, BOB), decision=unknown)
    assert ("nobody", f"{BOB},link:{ALICE}") == (approval.approvers, both.approvers)


@pytest.mark.parametrize("answer", [Answer.APPROVE, Answer.EXEMPT])
def test_who_has_left_the_policy_decides_nothing_that_outlives_the_question(answer: Answer) -> None:
    """An exemption stands for good, so today's policy counts; an approval is checked at each
    step."""
    world = World(decide=False)
    people = Ownership(contacts={"people": Contact(emails=(BOB,))}, default_contacts=("people",))
    world.policies.policy = replace(world.policies.policy, ownership=people)
    decide = decider(world)
    take = partial(decide, APPROVAL_ID, losses_accepted=True)

    if answer is Answer.APPROVE:
        assert ApprovalStatus.APPROVED is take(decision=said(answer)).approval.status
    else:
        with pytest.raises(NotAllowed, match=ALICE):
            take(decision=said(answer, reason="demo"))
        assert (
            ApprovalStatus.EXEMPTED
            is take(decision=said(answer, BOB, reason="demo")).approval.status
        )
