"""The people who may give each answer: a stop takes one person whom the policy knows, a termination
two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from governor.approvals.model.approval import Answer, Decision
from governor.approvals.model.terms import Role
from governor.approvals.rules.terms import (
    check_terms,
    is_known,
    may,
    may_end_keep,
    may_undo,
    stricter,
    terms_of,
    why_not,
)
from governor.core.errors import NotAllowed
from governor.episode.model.episode import Terms
from governor.episode.model.plan import Plan, Price
from governor.episode.rules.plan import draw_plan
from governor.policy.model.acting import Action, ApprovalRule, PlanRule, Power
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Policy
from tests.builders import NOW, make_facts

ALICE, BOB, CAROL = "alice@example.com", "bob@example.com", "carol@example.com"
STRANGERS = {
    "list": None,
    "tag": "eve@example.com",
    "cli session": "aws:arn:aws:sts::123456789012:assumed-role/admin/alice@example.com",
    "cli user": "aws:arn:aws:iam::123456789012:user/eve",
    "sign-in": "oidc:00u1",
}
ALL: tuple[Power, ...] = get_args(Power)


def terms(
    action: Action = Action.STOP, emails: tuple[str, ...] = (ALICE, BOB), **rule: Any
) -> Terms:
    """The terms under a policy that knows these people."""
    policy, plan = asked(action, emails, **rule)
    return terms_of(policy, plan, Price(None, "list price"))


def asked(
    action: Action, emails: tuple[str, ...] = (ALICE, BOB), **rule: Any
) -> tuple[Policy, Plan]:
    """A policy and the plan that it leads to."""
    ownership = Ownership(contacts={"people": Contact(emails=emails)})
    policy = Policy(
        plan=PlanRule(action=action), approval=ApprovalRule(**rule), ownership=ownership
    )
    return policy, draw_plan(make_facts(), policy)


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
def test_somebody_the_policy_does_not_know_may_keep_and_no_more(name: str, action: Action) -> None:
    """However the link, the session or the tag came about; at any price."""
    found, (_, plan), person = terms(action), asked(action), STRANGERS[name]

    assert [Answer.KEEP, Answer.HOLD] == [
        answer for answer in Answer if may(found, plan, answer, person)
    ]
    assert not may_undo(found, person)


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("people_to_stop", [0, 1])
def test_no_setting_lets_somebody_unknown_terminate(name: str, people_to_stop: int) -> None:
    """Not even all of them together; nor stop, but the owner by tag, where it takes somebody
    known."""
    loose: dict[str, Any] = {
        "broadcast_may": ALL,
        "tag_owner_may": ALL,
        "cli_may": ALL,
        "people_to_stop": people_to_stop,
        "people_to_terminate": 1,
    }
    found, (_, plan) = terms(Action.TERMINATE, **loose), asked(Action.TERMINATE)

    assert not may(found, plan, Answer.APPROVE, STRANGERS[name])
    stop, (_, stopping) = terms(Action.STOP, **loose), asked(Action.STOP)
    may_stop = people_to_stop == 0 or name == "tag"
    assert may_stop is may(stop, stopping, Answer.APPROVE, STRANGERS[name])


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("broadcast_may", {"list", "sign-in"}),
        ("tag_owner_may", {"tag"}),
        ("cli_may", {"cli session", "cli user"}),
    ],
)
def test_each_setting_is_about_its_own_strangers(setting: str, names: set[str]) -> None:
    """Undoing as an example, which takes no approval."""
    rule: dict[str, Any] = {setting: ("undo",)}
    found = terms(**rule)
    assert names == {name for name, person in STRANGERS.items() if may_undo(found, person)}


def test_where_two_must_approve_a_stop_the_owner_by_tag_is_none_of_them() -> None:
    """He may keep it; nobody could tell him and another one apart."""
    found, (_, plan) = terms(tag_owner_may=ALL, people_to_stop=2), asked(Action.STOP)
    assert not may(found, plan, Answer.APPROVE, STRANGERS["tag"])
    assert may(found, plan, Answer.KEEP, STRANGERS["tag"])
    assert may(found, plan, Answer.APPROVE, BOB)


def test_one_known_person_stops_and_two_terminate_by_default() -> None:
    """At any price."""
    assert (1, 2) == (terms().people_needed, terms(Action.TERMINATE).people_needed)
    assert 1 == terms(Action.TERMINATE, people_to_terminate=1).people_needed
    assert 2 == terms(people_to_stop=2).people_needed
    _, plan = asked(Action.STOP)
    assert may(terms(), plan, Answer.APPROVE, ALICE)


@pytest.mark.parametrize(
    ("action", "answer", "person", "by", "channel", "why"),
    [
        (
            Action.STOP,
            Answer.APPROVE,
            None,
            "link:broadcast",
            "page",
            "went to a list.*nobody stop it by it",
        ),
        (
            Action.STOP,
            Answer.APPROVE,
            None,
            "slack:U1",
            "slack",
            "does not know slack:U1,.* may stop it",
        ),
        (
            Action.STOP,
            Answer.APPROVE,
            "oidc:u",
            "oidc:u",
            "page",
            "does not know oidc:u,.* may stop it",
        ),
        (
            Action.STOP,
            Answer.APPROVE,
            CAROL,
            "link:c",
            "page",
            f"no contact has the address {CAROL},.* may stop it",
        ),
        (
            Action.TERMINATE,
            Answer.EXEMPT,
            CAROL,
            "link:c",
            "page",
            f"no contact has the address {CAROL},.* exempt it",
        ),
        (
            Action.TERMINATE,
            Answer.APPROVE,
            CAROL,
            "link:c",
            "page",
            "^2 people.* sign in as one of them",
        ),
        (
            Action.TERMINATE,
            Answer.APPROVE,
            CAROL,
            "aws:c",
            "cli",
            "^2 people.* have somebody map aws:c",
        ),
    ],
)
def test_a_refusal_says_why_and_what_to_do_instead(
    action: Action, answer: Answer, person: str | None, by: str, channel: str, why: str
) -> None:
    """By what names the person, and by how many people it takes."""
    found, (_, plan) = terms(action), asked(action)
    with pytest.raises(NotAllowed, match=why):
        check_terms(found, plan, Decision(answer, by, channel, NOW, person=person))
    assert "may start it again" in why_not(CAROL, by, "undo")


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
    loose: dict[str, Any] = {"broadcast_may": ALL, "tag_owner_may": ALL, "cli_may": ALL}
    before, now = terms(emails=(ALICE, BOB)), terms(emails=(BOB, CAROL), people_to_stop=0, **loose)
    both = stricter(before, now)

    assert [BOB] == [one for one in (ALICE, BOB, CAROL) if is_known(both, one)]
    assert {frozenset({"keep"})} == {both.broadcast_may, both.tag_owner_may, both.cli_may}
    nobody = replace(before, known_people=frozenset())
    assert not is_known(stricter(nobody, now), BOB)
    assert not is_known(stricter(Terms(known_people=frozenset({ALICE})), now), BOB)
    assert (
        2
        == stricter(
            terms(Action.TERMINATE), terms(Action.TERMINATE, people_to_terminate=1)
        ).people_needed
    )
    assert (
        2
        == stricter(
            terms(Action.TERMINATE, people_to_terminate=1), terms(Action.TERMINATE)
        ).people_needed
    )


@pytest.mark.parametrize(
    ("by", "role", "person", "may_end"),
    [
        (ALICE, Role.VIEWER, ALICE, True),
        (STRANGERS["tag"], Role.VIEWER, STRANGERS["tag"], True),
        (ALICE, Role.APPROVER, BOB, True),
        (ALICE, Role.VIEWER, BOB, False),
        (ALICE, Role.APPROVER, STRANGERS["tag"], False),
        (ALICE, Role.APPROVER, None, False),
        (None, Role.APPROVER, None, False),
    ],
)
def test_a_keep_is_ended_by_whose_it_is_and_by_approvers(
    by: str | None, role: Role, person: str | None, may_end: bool
) -> None:
    """Whom the policy knows. A link that went to a list ends none, not even one given by such a
    link."""
    kept = Decision(Answer.KEEP, "somebody", "page", NOW, person=by)

    assert may_end is may_end_keep(terms(), role, kept, person)
