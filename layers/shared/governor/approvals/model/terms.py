"""The terms of a question: the people who may answer it, and the answers that each may give.

The rules that apply these terms are in `approvals.rules.terms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from governor.core.units import UtcDatetime


class Role(StrEnum):
    """The role that a group gives somebody. The terms of a question may allow less, never more."""

    APPROVER = "approver"
    """May give every answer."""
    VIEWER = "viewer"
    """May look, and keep."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An identity that the issuer has proven. `email` is set only if the issuer has verified
    it."""

    subject: str
    email: str | None
    role: Role

    @property
    def identity(self) -> str:
        """Return the identity as the policy's `identities` name it: `oidc:<subject>`."""
        return f"oidc:{self.subject}"

    @property
    def by(self) -> str:
        """Return the name for the record, as people know it: `oidc:` and the address, or the
        subject if no address is verified."""
        return f"oidc:{self.email or self.subject}"


class Rank(IntEnum):
    """Rank of a person in the console; each includes the permissions of those before it."""

    VIEWER = 1
    """Looks, and changes nothing."""
    APPROVER = 2
    """Answers questions."""
    ADMIN = 3
    """Ends keeps, exemptions and freezes."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The instances that somebody sees: all of them, or those of some accounts, projects and
    owners."""

    everything: bool = False
    accounts: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    """Names of contacts, and addresses in lower case."""

    def sees(self, account: str, project: str, owner: str) -> bool:
        """Return whether an instance of this account, project and owner is in scope. An owner is a
        contact's name, or an address in any case."""
        if self.everything or account in self.accounts or project in self.projects:
            return True
        if owner in self.owners:
            return True
        return "@" in owner and owner.lower() in self.owners

    def __or__(self, scope: Scope) -> Scope:
        """Return the scope that sees what either of the two sees."""
        return Scope(
            self.everything or scope.everything,
            self.accounts | scope.accounts,
            self.projects | scope.projects,
            self.owners | scope.owners,
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """A rank, and the instances for which it counts."""

    rank: Rank
    scope: Scope


@dataclass(frozen=True, slots=True)
class SignIn:
    """Somebody's sign-in as it is stored: who, by what proof, and when. `groups` are the
    issuer's."""

    identity: str
    """`oidc:<subject>` or `aws:<ARN>`, as the policy names them."""
    by: str
    """The name in the record, as people know it."""
    at: UtcDatetime
    ends_at: UtcDatetime
    email: str | None = None
    """Set only if the issuer has verified it."""
    groups: tuple[str, ...] = ()
    role: Role = Role.VIEWER
    """The rank that the issuer's approver group gives."""


@dataclass(frozen=True, slots=True)
class Code:
    """A code that opens one session for an IAM caller, as it is stored: never the secret itself."""

    arn: str
    ends_at: UtcDatetime
    used_at: UtcDatetime | None = None
