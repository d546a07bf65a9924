"""Somebody who has signed in: who it is, what the group makes of it, and as whom the policy knows
it."""

from __future__ import annotations

from typing import Any

import pytest

from governor.approvals.model.approval import Answer
from governor.approvals.model.terms import Role, SignedIn
from governor.approvals.rules.terms import (
    check_role,
    groups_of,
    is_known,
    permits,
    person_of,
    signed_in,
)
from governor.core.errors import NotAllowed, SignInRefused
from governor.episode.model.episode import Terms
from governor.policy.model.contacts import Contact, Ownership

ALICE = {"sub": "u-1", "email": "Alice@Example.com", "email_verified": True}


def directory(**identities: str) -> Ownership:
    """One contact, Alice, with other identities."""
    contact = Contact(emails=("alice@example.com",), identities=identities)
    return Ownership(contacts={"team": contact})


@pytest.mark.parametrize(
    ("claims", "email"),
    [
        ({}, "alice@example.com"),
        ({"email_verified": "true"}, "alice@example.com"),
        ({"email_verified": False}, None),
        ({"email_verified": "false"}, None),
        ({"email_verified": None}, None),
        ({"email": "not an address"}, None),
        ({"email": ["alice@example.com"]}, None),
        ({"email": None}, None),
    ],
)
def test_an_address_counts_only_when_the_issuer_has_verified_it(
    claims: dict[str, object], email: str | None
) -> None:
    """Anybody can claim an address."""
    who = signed_in({**ALICE, **claims}, "groups", "")

    assert (email, f"oidc:{email or 'u-1'}") == (who.email, who.by)


@pytest.mark.parametrize("subject", [None, "", 7, "x" * 256, "ü", "a\nb", ["u-1"]])
def test_claims_that_name_nobody_are_refused(subject: Any) -> None:
    """The subject is the identity; there is no other."""
    with pytest.raises(SignInRefused):
        signed_in({**ALICE, "sub": subject}, "groups", "")


@pytest.mark.parametrize("subject", ["u", "u" * 255])
def test_a_subject_is_one_to_255_characters(subject: str) -> None:
    """OpenID Connect Core 1.0, section 2."""
    assert f"oidc:{subject}" == signed_in({**ALICE, "sub": subject}, "groups", "").identity


@pytest.mark.parametrize(
    ("groups", "group", "role"),
    [
        (["gpu", "gpu-approvers"], "gpu-approvers", Role.APPROVER),
        ("gpu-approvers", "gpu-approvers", Role.APPROVER),
        (["GPU-Approvers"], "gpu-approvers", Role.VIEWER),
        ("gpu-approvers-of-nothing", "gpu-approvers", Role.VIEWER),
        ([["gpu-approvers"]], "gpu-approvers", Role.VIEWER),
        ({"gpu-approvers": True}, "gpu-approvers", Role.VIEWER),
        ([], "gpu-approvers", Role.VIEWER),
        (None, "gpu-approvers", Role.VIEWER),
        (None, "", Role.VIEWER),
        (["gpu", ""], "", Role.VIEWER),
    ],
)
def test_the_group_makes_the_role(groups: Any, group: str, role: Role) -> None:
    """To the letter; whatever cannot be read makes no approver."""
    assert role is signed_in({**ALICE, "cognito:groups": groups}, "cognito:groups", group).role


def test_groups_are_texts() -> None:
    """Anything else that an issuer puts into the claim is no group."""
    assert ("a", "b") == groups_of({"groups": ["a", 5, None, ["c"], "b"]}, "groups")


def test_who_is_not_in_the_group_may_keep_and_no_more() -> None:
    """The refusal says what else to do."""
    assert [Answer.KEEP, Answer.HOLD] == [
        answer for answer in Answer if permits(Role.VIEWER, answer)
    ]
    assert all(permits(Role.APPROVER, answer) for answer in Answer)

    check_role(Role.VIEWER, Answer.KEEP)
    with pytest.raises(NotAllowed, match="you may keep it"):
        check_role(Role.VIEWER, Answer.EXEMPT)


def test_the_policy_knows_people_by_subject_or_by_verified_address() -> None:
    """Whom it does not know is the identity itself, which no two-person rule takes for a known
    person."""
    by_subject = SignedIn("u-1", None, Role.APPROVER)
    by_email = SignedIn("u-2", "alice@example.com", Role.APPROVER)
    stranger = SignedIn("eve@example.com", "eve@example.com", Role.APPROVER)
    known = directory(**{"oidc:u-1": "alice@example.com"})

    assert "alice@example.com" == person_of(known, by_subject.identity, by_subject.email)
    assert "alice@example.com" == person_of(known, by_email.identity, by_email.email)
    assert "oidc:eve@example.com" == person_of(known, stranger.identity, stranger.email)
    terms = Terms(known_people=frozenset({"alice@example.com", "eve@example.com"}))
    assert not is_known(terms, person_of(known, stranger.identity, stranger.email))
