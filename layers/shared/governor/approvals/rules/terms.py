"""Permissions: who may approve or give another answer, when two people must approve, who may undo,
and who sees and does what in the console.

The terms of a question stay as they were when it was opened. A link that went to a list proves
nothing about the person who uses it; any other proof names a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from governor.approvals.model.approval import Answer, Approval, Decision
from governor.approvals.model.terms import Grant, Rank, Role, Scope, SignedIn, SignIn
from governor.core.errors import NotAllowed, SignInRefused
from governor.episode.model.episode import Terms
from governor.episode.model.plan import Plan, Price
from governor.policy.model.acting import ApprovalRule, Power
from governor.policy.model.contacts import ConsoleScope, Contact, Ownership, addresses, is_address
from governor.policy.model.policy import Policy

BROADCAST = "broadcast"
"""The recipient of links in messages that go to a topic, not to a person."""


_MOST_GROUPS = 500
"""More than issuers put into a token: Entra ID stops at 200."""


_SUBJECT_CHARACTERS = 255
"""OpenID Connect Core 1.0, section 2, `sub`: ASCII, no longer than this."""


def signed_in(claims: Mapping[str, object], groups_claim: str, approver_group: str) -> SignedIn:
    """Return the identity that the claims of an ID token are about. Call it only for a token that
    is verified.

    A person is an approver if `approver_group` is not empty, and is among the groups in the claim
    `groups_claim`. Raises: SignInRefused if the subject (`sub`) is missing, empty, too long, or not
    printable ASCII.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_CHARACTERS:
        raise SignInRefused("the issuer did not say who you are")
    if not (subject.isascii() and subject.isprintable()):
        raise SignInRefused("the issuer names you by characters that no subject may have")
    groups = groups_of(claims, groups_claim)
    is_approver = bool(approver_group) and approver_group in groups
    role = Role.APPROVER if is_approver else Role.VIEWER
    return SignedIn(subject, _verified_email(claims), role)


def _verified_email(claims: Mapping[str, object]) -> str | None:
    """Return the address that the issuer has verified, in lower case; `None` if there is none."""
    email = claims.get("email")
    # Some issuers write the truth value as a text.
    is_verified = claims.get("email_verified") in (True, "true")
    if not is_verified or not isinstance(email, str):
        return None
    if not is_address(email):
        return None
    return email.lower()


def groups_of(claims: Mapping[str, object], groups_claim: str) -> tuple[str, ...]:
    """Return the names of groups in this claim, the first 500 of them; empty if it names none. A
    text is the name of one group; members of a list that are no texts are left out."""
    claimed = claims.get(groups_claim)
    if isinstance(claimed, str):
        return (claimed,)
    if not isinstance(claimed, list):
        return ()
    groups = [group for group in claimed if isinstance(group, str)]
    return tuple(groups[:_MOST_GROUPS])


def person_of(directory: Ownership, identity: str, email: str | None) -> str:
    """Return the address of the contact with this identity, else with this verified `email` (`None`
    if the person has none).

    Return the identity, such as `oidc:<subject>`, if no contact has either.
    """
    person = directory.person(identity)
    if not person and email:
        person = directory.person(email)
    return person or identity


def permits(role: Role, answer: Answer) -> bool:
    """Return whether this role may give this answer, as far as roles decide it: an approver any, a
    viewer a keep or a hold."""
    return role is Role.APPROVER or answer in (Answer.KEEP, Answer.HOLD)


def check_role(role: Role, answer: Answer) -> None:
    """Require that this role may give this answer. Raises: NotAllowed, which says who may."""
    if not permits(role, answer):
        raise NotAllowed(
            f"you are signed in, but not in the group that may {answer.value}: you may "
            "keep it, or ask somebody of that group"
        )


def terms_of(policy: Policy, plan: Plan, price: Price) -> Terms:
    """Return the terms of a question about this plan. An unknown price counts as above every
    limit."""
    rule = policy.approval
    # An unknown person may approve a stop only if that needs no known person, and never a
    # termination.
    never: set[Power] = {"terminate"}
    if rule.people_to_stop:
        never.add("stop")
    return Terms(
        broadcast_may=frozenset(rule.broadcast_may) - never,
        people_needed=_people_needed(rule, plan, price),
        known_people=frozenset(addresses(tuple(policy.ownership.contacts.values()))),
        tag_owner_may=frozenset(rule.tag_owner_may) - {"terminate"},
        cli_may=frozenset(rule.cli_may) - never,
    )


def _people_needed(rule: ApprovalRule, plan: Plan, price: Price) -> int:
    """Return how many different people must approve the plan: at least one; at least two for a
    termination of an instance whose price before discounts is above the rule's limit, or not
    known."""
    if not plan.destroys:
        return max(1, rule.people_to_stop)
    limit = rule.two_people_above_usd_per_hour
    if limit is not None:
        usd = price.undiscounted
        if usd is None or usd > limit:
            return max(2, rule.people_to_terminate)
    return max(1, rule.people_to_terminate)


def stricter(asked: Terms, now: Terms) -> Terms:
    """Return the terms that allow only what both allow: those of the question when it was asked,
    and those of today's policy (`now`)."""
    known_people = asked.known_people & now.known_people
    if asked.tag_owner_may is None and not asked.known_people:
        # Questions of the first releases named nobody.
        known_people = now.known_people
    return Terms(
        broadcast_may=asked.broadcast_may & now.broadcast_may,
        people_needed=max(asked.people_needed, now.people_needed),
        known_people=known_people,
        tag_owner_may=_powers_of_both(asked.tag_owner_may, now.tag_owner_may),
        cli_may=_powers_of_both(asked.cli_may, now.cli_may),
    )


def _powers_of_both(
    asked: frozenset[Power] | None, now: frozenset[Power] | None
) -> frozenset[Power] | None:
    """Return the powers that both terms allow. `None` in the terms of the question, as in those of
    earlier releases, allows all, so today's powers count; those are not `None`."""
    if asked is None:
        return now
    return asked & (now or frozenset())


def may(terms: Terms, plan: Plan, answer: Answer, person: str | None) -> bool:
    """Return whether these terms let this person give this answer; `None` is somebody unknown. If
    two people must approve, only people whom the policy names by address may."""
    if answer is Answer.APPROVE and terms.people_needed > 1:
        return is_known(terms, person)
    return _has_power(terms, person, power_needed(answer, plan))


def may_undo(terms: Terms, person: str | None) -> bool:
    """Return whether this person may have a stopped instance started again, after which it costs
    money. `None` is somebody unknown."""
    return _has_power(terms, person, "undo")


def may_end_keep(terms: Terms, role: Role, kept: Decision, person: str | None) -> bool:
    """Return whether this person may end that keep before its date: their own, or any as an
    approver whom the policy names by address.

    A link that went to a list ends none: it does not prove whose keep it was (`person` is `None`).
    """
    if person is None:
        return False
    if person == kept.person:
        return True
    return role is Role.APPROVER and is_known(terms, person)


def _has_power(terms: Terms, person: str | None, wanted: Power) -> bool:
    """Return whether the terms give this person the `wanted` power; `None` is somebody unknown.

    People whom the policy names by address have every power. Another address, which only a tag
    names, has those of `tag_owner_may`; an identity of AWS those of `cli_may`; anybody else those
    of a link to a list, `broadcast_may`.
    """
    if is_known(terms, person):
        return True
    if person is None:
        return wanted in terms.broadcast_may
    if terms.tag_owner_may is None:
        # An earlier release asked the question, and any proven person could answer it. No answer
        # is judged by these terms alone: `stricter` adds those of today.
        return True
    if person.startswith("aws:"):
        return wanted in (terms.cli_may or ())
    if is_address(person):
        return wanted in terms.tag_owner_may
    # An identity of Slack or of the issuer that no contact has: no more than a link to a list.
    return wanted in terms.broadcast_may


def power_needed(answer: Answer, plan: Plan) -> Power:
    """Return the power that it takes to give this answer about this plan: `stop`, `terminate`,
    `exempt` or `keep`. A hold takes the power to keep."""
    if answer is Answer.APPROVE:
        return "terminate" if plan.destroys else "stop"
    return "exempt" if answer is Answer.EXEMPT else "keep"


def is_known(terms: Terms, person: str | None) -> bool:
    """Return whether the policy names this person by address, so that two people differ for sure.

    An identity of AWS is not known in this sense, nor is an address that only a tag names: others
    can choose both.
    """
    return person is not None and person in terms.known_people


def check_terms(terms: Terms, plan: Plan, decision: Decision) -> None:
    """Require that the terms let the decision's person give this answer. Raises: NotAllowed, which
    says who may."""
    if may(terms, plan, decision.answer, decision.person):
        return
    by = decision.by
    if decision.answer is Answer.APPROVE and terms.people_needed > 1:
        other_way = f"have somebody map {by} to your address in ownership.contacts"
        if decision.channel == "page":
            other_way = "sign in as one of them"
        raise NotAllowed(
            f"{terms.people_needed} people known to the policy by their address must "
            f"approve this one: use the link in your own email, or {other_way}"
        )
    raise NotAllowed(why_not(decision.person, by, power_needed(decision.answer, plan)))


def why_not(person: str | None, by: str, wanted: Power) -> str:
    """Return why a person may not use the `wanted` power, and what to do instead. Call it only for
    a person who has not that power.

    `person` is who is proven, `None` for somebody unknown; `by` is their name in the record, such
    as `slack:U0123` for somebody who answered in Slack.
    """
    doing = "start it again" if wanted == "undo" else f"{wanted} it"
    if person is None and not by.startswith("slack:"):
        why = f"this link went to a list, and the policy lets nobody {doing} by it"
        return f"{why}: use the link in your own email"
    rule = f"only people of ownership.contacts may {doing}: keep it, or ask one of them"
    if person is not None and is_address(person):
        return f"no contact has the address {person}, and {rule}"
    return f"the policy does not know {by}, and {rule}, or have it map you to one (identities)"


def was_rightly_approved(terms: Terms, plan: Plan, approval: Approval) -> bool:
    """Return whether the question was approved by as many people as these terms need, each of whom
    may approve. This is checked again before each action."""
    decision = approval.decision
    if decision is None or decision.answer is not Answer.APPROVE:
        return False
    if not may(terms, plan, Answer.APPROVE, decision.person):
        return False
    if terms.people_needed == 1:
        return True
    first = approval.first_yes
    return first is not None and is_known(terms, first.person) and first.person != decision.person


def rank_for(grants: Iterable[Grant], account: str, project: str, owner: str) -> Rank | None:
    """Return the highest rank that the grants give for an instance of this account, project and
    owner; `None` if no grant covers it."""
    ranks = []
    for grant in grants:
        if grant.scope.sees(account, project, owner):
            ranks.append(grant.rank)
    return max(ranks, default=None)


def contacts_of(people: Ownership, who: SignIn) -> Mapping[str, Contact]:
    """Return the contacts that name the person who signed in, by the name of the contact; empty if
    none does. A contact names a person by an address."""
    person = person_of(people, who.identity, who.email)
    contacts: dict[str, Contact] = {}
    for name, contact in people.contacts.items():
        emails = [email.lower() for email in contact.emails]
        if person in emails:
            contacts[name] = contact
    return contacts


def grants_of(policy: Policy, who: SignIn) -> tuple[Grant, ...]:
    """Return the roles in the console of the person who signed in, as grants: by groups or ARN, and
    for the instances that the person owns as a contact. Return an empty tuple if there are none."""
    grants: list[Grant] = []
    for console_scope in policy.console.scopes.values():
        if _covers(console_scope, who):
            accounts = frozenset(console_scope.accounts)
            projects = frozenset(console_scope.projects)
            scope = Scope(console_scope.everything, accounts, projects)
            grants.append(Grant(Rank[console_scope.role.upper()], scope))
    contacts = contacts_of(policy.ownership, who)
    if contacts:
        rank = Rank.APPROVER if who.role is Role.APPROVER else Rank.VIEWER
        grants.append(Grant(rank, _owned_by(policy.ownership, contacts)))
    return tuple(grants)


def _owned_by(people: Ownership, contacts: Mapping[str, Contact]) -> Scope:
    """Return the projects and owners that these contacts stand for."""
    owners = set(contacts)
    for contact in contacts.values():
        owners.update(address.lower() for address in (*contact.emails, *contact.lists))
    projects = {project for project, owner in people.project_owners.items() if owner in contacts}
    return Scope(projects=frozenset(projects), owners=frozenset(owners))


def _covers(console_scope: ConsoleScope, who: SignIn) -> bool:
    """Return whether the policy gives this scope to this person: by ARN, or by group."""
    kind, _, name = who.identity.partition(":")
    if kind == "aws":
        return any(_is_arn_like(pattern, name) for pattern in console_scope.identities)
    return not set(console_scope.groups).isdisjoint(who.groups)


def _is_arn_like(pattern: str, arn: str) -> bool:
    """Return whether the pattern is this ARN. A `*` at the end of the pattern stands for any
    session name, because a caller chooses that name, as in
    `arn:aws:sts::123456789012:assumed-role/Admin/*`."""
    role, star, _ = pattern.rpartition("*")
    if not star:
        return arn == pattern
    return arn.rpartition("/")[0] + "/" == role
