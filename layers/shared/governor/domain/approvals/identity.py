"""Somebody who has signed in: who it is, and what the role allows.

This module must not know how a sign-in is done or remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from governor.domain.approvals.approval import Answer
from governor.domain.policy.contacts import Ownership, is_address
from governor.errors import NotAllowed, SignInRefused

_SUBJECT_CHARACTERS = 255
"""OpenID Connect Core 1.0, section 2, `sub`: ASCII, no longer than this."""


class Role(StrEnum):
    """What a group makes of somebody. The terms of a question may allow less, never more."""

    APPROVER = "approver"
    """May give every answer."""
    VIEWER = "viewer"
    """May look, and keep."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An identity that the issuer has proven. `email` only where the issuer says that it is verified."""

    subject: str
    email: str | None
    role: Role

    @property
    def identity(self) -> str:
        """As the policy's `identities` name it."""
        return f"oidc:{self.subject}"

    @property
    def by(self) -> str:
        """For the record: what people recognise."""
        return f"oidc:{self.email or self.subject}"


def signed_in(claims: Mapping[str, object], groups_claim: str, approver_group: str) -> SignedIn:
    """Who the claims of a verified ID token are about.

    With an empty `approver_group` everybody who can sign in is an approver; else everybody with that group
    among those of `groups_claim`, a list of texts or one text. A claim that is missing makes no approver.

    Raises:
        SignInRefused: the claims name nobody.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_CHARACTERS:
        raise SignInRefused("the issuer did not say who you are")
    if not (subject.isascii() and subject.isprintable()):
        raise SignInRefused("the issuer names you by characters that no subject may have")
    email = claims.get("email")
    # Some issuers write the truth value as a text.
    verified = claims.get("email_verified") in (True, "true")
    known = isinstance(email, str) and verified and is_address(email)
    role = Role.APPROVER
    if approver_group and approver_group not in _groups(claims.get(groups_claim)):
        role = Role.VIEWER
    return SignedIn(subject, str(email).lower() if known else None, role)


def person_of(directory: Ownership, who: SignedIn) -> str:
    """The address of the contact that this is, by subject, else by verified address; else the identity."""
    by_email = directory.person(who.email) if who.email else None
    return directory.person(who.identity) or by_email or who.identity


def permits(role: Role, answer: Answer) -> bool:
    """Whether a role may give an answer at all."""
    return role is Role.APPROVER or answer is Answer.KEEP


def check_role(role: Role, answer: Answer, status: str) -> None:
    """Lets an answer through, or says who may give it.

    Raises:
        NotAllowed: the role may not give it. `status` is the question's, for the error.
    """
    if not permits(role, answer):
        raise NotAllowed(
            f"you are signed in, but not in the group that may {answer.value}: you may keep it, or ask "
            "somebody of that group",
            status=status,
        )


def _groups(claim: object) -> frozenset[str]:
    if isinstance(claim, str):
        return frozenset({claim})
    if isinstance(claim, list):
        return frozenset(group for group in claim if isinstance(group, str))
    return frozenset()
