"""Who sees and does what in the console: grants of the policy, and what people own themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from governor.domain.approvals.terms import Role, person_of
from governor.domain.policy.contacts import ConsoleScope, Contact, Ownership
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime


class Rank(IntEnum):
    """What somebody may do; each includes those before it."""

    VIEWER = 1
    """Looks, and changes nothing."""
    APPROVER = 2
    """Answers questions."""
    ADMIN = 3
    """Ends keeps, exemptions and freezes."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The instances that somebody sees: everything, or those of an account, a project or an owner."""

    everything: bool = False
    accounts: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    """Names of contacts, and addresses in lower case."""

    def sees(self, account: str, project: str, owner: str) -> bool:
        return (
            self.everything
            or account in self.accounts
            or project in self.projects
            or owner in self.owners
            or ("@" in owner and owner.lower() in self.owners)
        )

    def __or__(self, other: Scope) -> Scope:
        return Scope(
            self.everything or other.everything,
            self.accounts | other.accounts,
            self.projects | other.projects,
            self.owners | other.owners,
        )


@dataclass(frozen=True, slots=True)
class Grant:
    rank: Rank
    scope: Scope


def rank_for(grants: Iterable[Grant], account: str, project: str, owner: str) -> Rank | None:
    ranks = [one.rank for one in grants if one.scope.sees(account, project, owner)]
    return max(ranks, default=None)


@dataclass(frozen=True, slots=True)
class SignIn:
    """Somebody's sign-in as it is stored: who, by what proof, and when. `groups` are the issuer's."""

    identity: str
    """`oidc:<subject>` or `aws:<ARN>`, as the policy names them."""
    by: str
    """For the record: what people recognise."""
    at: UtcDatetime
    ends_at: UtcDatetime
    email: str | None = None
    """Only where the issuer says that it is verified."""
    groups: tuple[str, ...] = ()
    role: Role = Role.VIEWER
    """What the issuer's approver group makes of them."""


@dataclass(frozen=True, slots=True)
class Code:
    """What opens one session for an IAM caller, as it is stored: never the secret itself."""

    arn: str
    ends_at: UtcDatetime
    used_at: UtcDatetime | None = None


def contacts_of(people: Ownership, who: SignIn) -> Mapping[str, Contact]:
    """Return by name the contacts with the address of this identity, else with this verified address."""
    person = person_of(people, who.identity, who.email)
    return {name: one for name, one in people.contacts.items() if person in map(str.lower, one.emails)}


def grants_of(policy: Policy, who: SignIn) -> tuple[Grant, ...]:
    """Return what the policy lets somebody see and do: by groups or ARN, and what they own as a contact."""
    found = [
        Grant(Rank[one.role.upper()], Scope(one.everything, frozenset(one.accounts), frozenset(one.projects)))
        for one in policy.console.scopes.values()
        if _names(one, who)
    ]
    people = policy.ownership
    if own := contacts_of(people, who):
        addresses = {address.lower() for one in own.values() for address in (*one.emails, *one.lists)}
        projects = {project for project, name in people.project_owners.items() if name in own}
        rank = Rank.APPROVER if who.role is Role.APPROVER else Rank.VIEWER
        found.append(
            Grant(rank, Scope(projects=frozenset(projects), owners=frozenset(addresses | own.keys())))
        )
    return tuple(found)


def _names(one: ConsoleScope, who: SignIn) -> bool:
    kind, _, name = who.identity.partition(":")
    if kind == "aws":
        return any(_is(pattern, name) for pattern in one.identities)
    return not set(one.groups).isdisjoint(who.groups)


def _is(pattern: str, arn: str) -> bool:
    """Compare an ARN; `*` stands for the name of a session, whoever chose it."""
    role, star, _ = pattern.rpartition("*")
    return arn.rpartition("/")[0] + "/" == role if star else arn == pattern
