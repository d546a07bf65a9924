"""Who may give which answer: a stop takes one person whom the policy knows, a termination two."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from governor.domain.approvals.approval import Answer
from governor.domain.approvals.terms import is_known, may, may_undo, stricter, terms_of
from governor.domain.episode.episode import Terms
from governor.domain.episode.plan import Plan, Price, draw_plan
from governor.domain.policy.contacts import Contact, Ownership
from governor.domain.policy.policy import Action, ApprovalRule, PlanRule, Policy, Power
from tests.builders import make_facts

ALICE, BOB, CAROL = "alice@example.com", "bob@example.com", "carol@example.com"
STRANGERS = {
    "list": None,
    "tag": "eve@example.com",
    "cli session": "aws:arn:aws:sts::123456789012:assumed-role/admin/alice@example.com",
    "cli user": "aws:arn:aws:iam::123456789012:user/eve",
    "sign-in": "oidc:00u1",
}
ALL: tuple[Power, ...] = get_args(Power)


def terms(action: Action = Action.STOP, emails: tuple[str, ...] = (ALICE, BOB), **rule: Any) -> Terms:
    """The terms under a policy that knows these people."""
    policy, plan = asked(action, emails, **rule)
    return terms_of(policy, plan, Price(None, "list price"))


def asked(action: Action, emails: tuple[str, ...] = (ALICE, BOB), **rule: Any) -> tuple[Policy, Plan]:
    """A policy and the plan that it leads to."""
    ownership = Ownership(contacts={"people": Contact(emails=emails)})
    policy = Policy(plan=PlanRule(action=action), approval=ApprovalRule(**rule), ownership=ownership)
    return policy, draw_plan(make_facts(), policy)


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
def test_somebody_the_policy_does_not_know_may_keep_and_no_more(name: str, action: Action) -> None:
    """However the link, the session or the tag came about; at any price."""
    found, (_, plan), person = terms(action), asked(action), STRANGERS[name]

    assert [Answer.KEEP, Answer.HOLD] == [answer for answer in Answer if may(found, plan, answer, person)]
    assert not may_undo(found, person)


@pytest.mark.parametrize("name", STRANGERS)
def test_no_setting_lets_somebody_unknown_terminate(name: str) -> None:
    """Not even all of them together."""
    loose: dict[str, Any] = {
        "broadcast_may": ALL,
        "tag_owner_may": ALL,
        "cli_may": ALL,
        "people_to_stop": 0,
        "people_to_terminate": 1,
    }
    found, (_, plan) = terms(Action.TERMINATE, **loose), asked(Action.TERMINATE)

    assert not may(found, plan, Answer.APPROVE, STRANGERS[name])
    stop, (_, stopping) = terms(Action.STOP, **loose), asked(Action.STOP)
    assert may(stop, stopping, Answer.APPROVE, STRANGERS[name])


def test_the_owner_by_tag_may_stop_where_the_policy_says_so() -> None:
    """The one stranger who counts where one person must approve; a list never does."""
    found = terms(tag_owner_may=("keep", "stop"), broadcast_may=ALL, cli_may=ALL)
    _, plan = asked(Action.STOP)

    can = {name for name, person in STRANGERS.items() if may(found, plan, Answer.APPROVE, person)}
    assert {"tag"} == can


def test_one_known_person_stops_and_two_terminate_by_default() -> None:
    """At any price."""
    assert (1, 2) == (terms().people_needed, terms(Action.TERMINATE).people_needed)
    assert 1 == terms(Action.TERMINATE, people_to_terminate=1).people_needed
    assert 2 == terms(people_to_stop=2).people_needed
    _, plan = asked(Action.STOP)
    assert may(terms(), plan, Answer.APPROVE, ALICE)


def test_a_question_of_an_earlier_release_keeps_its_terms_unless_todays_are_stricter() -> None:
    """Any person could stop by them: at the moment of acting it takes one who is known today."""
    old, (_, plan) = Terms(), asked(Action.STOP)
    assert may(old, plan, Answer.APPROVE, "eve@example.com")
    assert may(old, plan, Answer.APPROVE, None)

    both = stricter(old, terms())
    assert may(both, plan, Answer.APPROVE, ALICE)
    assert not any(may(both, plan, Answer.APPROVE, person) for person in STRANGERS.values())


def test_people_and_powers_that_came_later_count_for_nothing() -> None:
    """Nor do those who have gone since."""
    before, now = terms(emails=(ALICE, BOB)), terms(emails=(BOB, CAROL), broadcast_may=ALL, people_to_stop=0)
    both = stricter(before, now)

    assert [BOB] == [one for one in (ALICE, BOB, CAROL) if is_known(both, one)]
    assert frozenset({"keep"}) == both.broadcast_may
    assert (
        2 == stricter(terms(Action.TERMINATE), terms(Action.TERMINATE, people_to_terminate=1)).people_needed
    )
    assert (
        2 == stricter(terms(Action.TERMINATE, people_to_terminate=1), terms(Action.TERMINATE)).people_needed
    )
