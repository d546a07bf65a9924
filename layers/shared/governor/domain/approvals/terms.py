"""Rights: who may give which answer, and who sees and does what in the console. The terms of a
question are frozen when it is opened. A list's link proves nothing about who presses; any other
proof names a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from governor.domain.approvals.approval import Answer, Approval, Decision
from governor.domain.episode.episode import Terms
from governor.domain.episode.plan import Plan, Price
from governor.domain.policy.contacts import ConsoleScope, Contact, Ownership, addresses, is_address
from governor.domain.policy.policy import Policy, Power
from governor.domain.units import UtcDatetime
from governor.errors import NotAllowed, SignInRefused

BROADCAST = "broadcast"
"""The recipient of links in messages that go to a topic, not to a person."""
_MOST_GROUPS = 500
"""More than issuers put into a token: Entra ID stops at 200."""
_SUBJECT_CHARACTERS = 255
"""OpenID Connect Core 1.0, section 2, `sub`: ASCII, no longer than this."""


class Role(StrEnum):
    """The part that a group gives somebody. The terms of a question may allow less, never more."""

    APPROVER = "approver"
    """May give every answer."""
    VIEWER = "viewer"
    """May look, and keep."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An identity that the issuer has proven. `email` only where the issuer says that it is
    verified."""

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
    """Return who the claims of a verified ID token are about. Everybody with the `approver_group`,
    if one is set, among the `groups_claim` is an approver. Raises: SignInRefused where the claims
    name nobody."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_CHARACTERS:
        raise SignInRefused("the issuer did not say who you are")
    if not (subject.isascii() and subject.isprintable()):
        raise SignInRefused("the issuer names you by characters that no subject may have")
    email = claims.get("email")
    # Some issuers write the truth value as a text.
    verified = claims.get("email_verified") in (True, "true")
    known = isinstance(email, str) and verified and is_address(email)
    held = groups_of(claims, groups_claim)
    role = Role.APPROVER if approver_group and approver_group in held else Role.VIEWER
    return SignedIn(subject, str(email).lower() if known else None, role)


def groups_of(claims: Mapping[str, object], groups_claim: str) -> tuple[str, ...]:
    found = claims.get(groups_claim)
    held = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return tuple(one for one in held if isinstance(one, str))[:_MOST_GROUPS]


def person_of(directory: Ownership, identity: str, email: str | None) -> str:
    """Return the address of the contact, by identity, else by verified address; else the
    identity."""
    by_email = directory.person(email) if email else None
    return directory.person(identity) or by_email or identity


def permits(role: Role, answer: Answer) -> bool:
    return role is Role.APPROVER or answer in (Answer.KEEP, Answer.HOLD)


def check_role(role: Role, answer: Answer) -> None:
    """Let an answer through. Raises: NotAllowed, which says who may give it."""
    if not permits(role, answer):
        raise NotAllowed(
            f"you are signed in, but not in the group that may {answer.value}: you may "
            "keep it, or ask "
            "somebody of that group"
        )


def terms_of(policy: Policy, plan: Plan, price: Price) -> Terms:
    """Return the terms of a question about this plan. An unknown price counts as above every
    limit."""
    rule, usd = policy.approval, price.undiscounted
    limit = rule.two_people_above_usd_per_hour
    dear = limit is not None and (usd is None or usd > limit)
    needed = max(rule.people_to_terminate, 2 * dear) if plan.destroys else rule.people_to_stop
    # Somebody who is not known may stop where that takes nobody known, and terminate nowhere.
    never: set[Power] = {"stop", "terminate"} if rule.people_to_stop else {"terminate"}
    return Terms(
        broadcast_may=frozenset(rule.broadcast_may) - never,
        people_needed=max(1, needed),
        known_people=frozenset(addresses(tuple(policy.ownership.contacts.values()))),
        tag_owner_may=frozenset(rule.tag_owner_may) - {"terminate"},
        cli_may=frozenset(rule.cli_may) - never,
    )


def stricter(asked: Terms, now: Terms) -> Terms:
    """Return what both terms allow: those that a question was asked under, and those of today's
    policy."""
    people, before = now.known_people, asked.tag_owner_may is None
    return Terms(
        broadcast_may=asked.broadcast_may & now.broadcast_may,
        people_needed=max(asked.people_needed, now.people_needed),
        # Questions of the first releases named nobody.
        known_people=people if before and not asked.known_people else asked.known_people & people,
        tag_owner_may=_both(asked.tag_owner_may, now.tag_owner_may),
        cli_may=_both(asked.cli_may, now.cli_may),
    )


def _both(asked: frozenset[Power] | None, now: frozenset[Power] | None) -> frozenset[Power] | None:
    return now if asked is None else asked & (now or frozenset())


def may(terms: Terms, plan: Plan, answer: Answer, person: str | None) -> bool:
    """Return whether this answer may come from this person; `None` is somebody unknown."""
    if answer is Answer.APPROVE and terms.people_needed > 1:
        return is_known(terms, person)
    return _has(terms, person, power(answer, plan))


def may_undo(terms: Terms, person: str | None) -> bool:
    """Return whether this person may have a stopped instance started again, which costs money
    again."""
    return _has(terms, person, "undo")


def may_end_keep(terms: Terms, role: Role, kept: Decision, person: str | None) -> bool:
    """Return whether this person may end that keep before its date: their own, and as an approver
    any. A link that went to a list ends none: it does not prove whose keep it was."""
    if person is None:
        return False
    return person == kept.person or (role is Role.APPROVER and is_known(terms, person))


def _has(terms: Terms, person: str | None, wanted: Power) -> bool:
    if is_known(terms, person):
        return True
    if person is not None and terms.tag_owner_may is None:
        return True  # as it was asked, by an earlier release
    allowed: frozenset[Power] | None = terms.broadcast_may
    if person is not None and person.startswith("aws:"):
        allowed = terms.cli_may
    elif person is not None and is_address(person):
        allowed = terms.tag_owner_may
    return wanted in (allowed or ())


def power(answer: Answer, plan: Plan) -> Power:
    if answer is Answer.APPROVE:
        return "terminate" if plan.destroys else "stop"
    return "exempt" if answer is Answer.EXEMPT else "keep"


def is_known(terms: Terms, person: str | None) -> bool:
    """Return whether the policy names this person by address, so that two can be told apart: not so
    an identity of AWS, nor an address that only a tag names, which others can choose."""
    return person is not None and person in terms.known_people


def check_terms(terms: Terms, plan: Plan, decision: Decision) -> None:
    """Let an answer through. Raises: NotAllowed, which says who may give it."""
    if may(terms, plan, decision.answer, decision.person):
        return
    by = decision.by
    if decision.answer is Answer.APPROVE and terms.people_needed > 1:
        else_do = f"have somebody map {by} to your address in ownership.contacts"
        if decision.channel == "page":
            else_do = "sign in as one of them"
        raise NotAllowed(
            f"{terms.people_needed} people known to the policy by their address must "
            "approve this one: use "
            f"the link of your own mail, or {else_do}"
        )
    raise NotAllowed(why_not(decision.person, by, power(decision.answer, plan)))


def why_not(person: str | None, by: str, wanted: Power) -> str:
    """Return why somebody whom the policy does not know may not do this, and what to do instead."""
    doing = "start it again" if wanted == "undo" else f"{wanted} it"
    if person is None and not by.startswith("slack:"):
        why = f"this link went to a list, and the policy lets nobody {doing} by it"
        return f"{why}: use the link of your own mail"
    who, or_else = f"the policy does not know {by}", ", or have it map you to one (identities)"
    if person is not None and is_address(person):
        who, or_else = f"no contact has the address {person}", ""
    return (
        f"{who}, and only people of ownership.contacts may {doing}: keep it, or ask "
        f"one of them{or_else}"
    )


def was_rightly_approved(terms: Terms, plan: Plan, approval: Approval) -> bool:
    """Return whether those who may gave the approval that stands: asked again before anything is
    done."""
    decision = approval.decision
    if decision is None or decision.answer is not Answer.APPROVE:
        return False
    if not may(terms, plan, Answer.APPROVE, decision.person):
        return False
    if terms.people_needed == 1:
        return True
    first = approval.first_yes
    return first is not None and is_known(terms, first.person) and first.person != decision.person


class Rank(IntEnum):
    """Rank of a person; each includes those before it."""

    VIEWER = 1
    """Looks, and changes nothing."""
    APPROVER = 2
    """Answers questions."""
    ADMIN = 3
    """Ends keeps, exemptions and freezes."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The instances that somebody sees: everything, or those of an account, a project or an
    owner."""

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
    """Somebody's sign-in as it is stored: who, by what proof, and when. `groups` are the
    issuer's."""

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
    """The rank that the issuer's approver group gives."""


@dataclass(frozen=True, slots=True)
class Code:
    """A code that opens one session for an IAM caller, as it is stored: never the secret itself."""

    arn: str
    ends_at: UtcDatetime
    used_at: UtcDatetime | None = None


def contacts_of(people: Ownership, who: SignIn) -> Mapping[str, Contact]:
    """Return by name the contacts with the address of this identity, else with this verified
    address."""
    person = person_of(people, who.identity, who.email)
    return {
        name: one for name, one in people.contacts.items() if person in map(str.lower, one.emails)
    }


def grants_of(policy: Policy, who: SignIn) -> tuple[Grant, ...]:
    """Return what the policy lets somebody see and do: by groups or ARN, and what they own as a
    contact."""
    found = [
        Grant(
            Rank[one.role.upper()],
            Scope(one.everything, frozenset(one.accounts), frozenset(one.projects)),
        )
        for one in policy.console.scopes.values()
        if _names(one, who)
    ]
    people = policy.ownership
    if own := contacts_of(people, who):
        addresses = {
            address.lower() for one in own.values() for address in (*one.emails, *one.lists)
        }
        projects = {project for project, name in people.project_owners.items() if name in own}
        rank = Rank.APPROVER if who.role is Role.APPROVER else Rank.VIEWER
        found.append(
            Grant(
                rank, Scope(projects=frozenset(projects), owners=frozenset(addresses | own.keys()))
            )
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
