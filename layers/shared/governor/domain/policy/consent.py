"""Consent to an override: `approved_by` names people, and counts once they themselves have
accepted.

`under_consent` is the one place where a missing acceptance changes what an instance's policy is. A
policy book calls it for every instance, so the sweep, `open_episode` and the guards read the same
mode. This module must not trust what a document says about its own people: whose acceptances count
is found by `usecases/policy_consent.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from governor.domain.policy.changes import PEOPLE_NEEDED, people_behind
from governor.domain.policy.contacts import Ownership, is_own_identity
from governor.domain.policy.policy import Action, Mode, Override, Policy
from governor.domain.units import UtcDatetime

NOT_ACCEPTED = "approved_by (not accepted)"
"""Recorded beside the names of the overrides of an instance that is asked about for want of
acceptances."""

_NO_TERMS = ("mode", "ledger", "health", "advice")
"""Settings of the document that change nothing about what an override does. An override that needs
consent sets its own mode; the others are for reports and advice."""


@dataclass(frozen=True, slots=True)
class Acceptances:
    """People whose acceptances count, and the terms that they have accepted
    (`terms_of_consent`)."""

    terms: str = ""
    people: frozenset[str] = frozenset()


NOBODY_ACCEPTED = Acceptances()


@dataclass(frozen=True, slots=True)
class KnownPeople:
    """People whose acceptances count: their addresses in lower case, by their AWS identities
    (`aws:ARN`)."""

    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def everybody(self) -> frozenset[str]:
        return frozenset(self.addresses.values())

    def person(self, identity: str) -> str | None:
        """Return the address of the person with this identity; `None` if it is nobody's."""
        return self.addresses.get(identity.strip())

    def persons(self, identities: Collection[str]) -> frozenset[str]:
        found = (self.person(identity) for identity in identities)
        return frozenset(person for person in found if person is not None)

    def named_by(self, other: KnownPeople) -> KnownPeople:
        """Return those of these people whom the other names by the same identity."""
        same = {one: who for one, who in self.addresses.items() if other.person(one) == who}
        return KnownPeople(same)


@dataclass(frozen=True, slots=True)
class StandingVersion:
    """The version in force.

    `before` is the version that it has replaced: `None` for the first one. `people` are those whose
    acceptances count: `None` where a release before this one has put the version in force.
    """

    version: str
    at: UtcDatetime
    before: str | None = None
    acceptances: Acceptances = NOBODY_ACCEPTED
    people: KnownPeople | None = None


@dataclass(frozen=True, slots=True)
class Consented:
    """Acceptances that count, and the people whose acceptances count from now on."""

    acceptances: Acceptances
    people: KnownPeople


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """An override that counts as `ask`, and the people who have not accepted, by address."""

    name: str
    missing: tuple[str, ...]


def needs_consent(override: Override) -> bool:
    """Return whether the override acts unasked in the name of people, or terminates unasked."""
    if override.set.get("mode") != Mode.AUTO:
        return False
    return bool(override.approved_by) or _terminates(override)


def consenters(override: Override) -> frozenset[str]:
    """Return the addresses of the people who must accept, in lower case."""
    return frozenset(address.strip().lower() for address in override.approved_by)


def asked_people(overrides: Sequence[Override]) -> frozenset[str]:
    """Return everybody who must accept one of the overrides, by address."""
    return frozenset[str]().union(*(consenters(one) for one in overrides if needs_consent(one)))


def has_consent(override: Override, people: Collection[str]) -> bool:
    """Return whether everybody whom the override names is among these people, and they are at least
    two."""
    named = consenters(override)
    return len(named) >= PEOPLE_NEEDED and named <= frozenset(people)


def unaccepted(overrides: Sequence[Override], people: Collection[str]) -> tuple[Unaccepted, ...]:
    """Return the overrides that count as `ask`. Return an empty tuple if every consent was
    given."""
    found = []
    for override in overrides:
        if needs_consent(override) and not has_consent(override, people):
            missing = consenters(override) - frozenset(people)
            found.append(Unaccepted(override.name, tuple(sorted(missing))))
    return tuple(found)


def under_consent(policy: Policy, chosen: Sequence[Override], people: Collection[str]) -> Policy:
    """Return the policy of an instance under the chosen overrides, with mode `ask` if a consent is
    missing.

    Return the policy itself if every consent was given, or none is needed.
    """
    needing = [override for override in chosen if needs_consent(override)]
    is_unclaimed = not needing and policy.mode is Mode.AUTO and terminates(policy)
    if not is_unclaimed and not unaccepted(needing, people):
        return policy
    approval = replace(policy.approval, on_expiry="no-action")
    mode = Mode.ASK if policy.mode is Mode.AUTO else policy.mode
    return replace(policy, mode=mode, approval=approval)


def terms_of_consent(settings: Mapping[str, Any], overrides: Sequence[Override]) -> str:
    """Return the hash of all that decides what an override does: who accepts, accepts this.

    It is of the document as written, so a default that a release changes asks nobody again.
    """
    relevant = {name: value for name, value in settings.items() if name not in _NO_TERMS}
    document = {"settings": relevant, "overrides": [asdict(override) for override in overrides]}
    canonical = json.dumps(document, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def terminates(policy: Policy) -> bool:
    """Return whether the plan of an idle instance may end with its termination."""
    return Action.TERMINATE in (policy.plan.action, policy.plan.when_stop_is_unsupported)


def may_terminate(policy: Policy) -> bool:
    """Return whether anything in the policy leads to a termination, questions about stopped
    instances included."""
    return terminates(policy) or policy.approval.ask_about_stopped_after_days is not None


def known_people(ownership: Ownership) -> KnownPeople:
    """Return the people who can accept a version: those with an AWS identity that nobody else can
    take."""
    found: dict[str, str] = {}
    for contact in ownership.contacts.values():
        for identity, address in contact.identities.items():
            if is_own_identity(identity):
                found.setdefault(identity, address.lower())
    return KnownPeople(found)


def people_after(before: KnownPeople, own: KnownPeople, behind: Collection[str]) -> KnownPeople:
    """Return the people whose acceptances count under a version that names its `own`.

    A writer alone brings nobody and removes nobody: the people of a version count once two of those
    who counted before stand behind it. Where fewer than two counted before, nobody new ever does:
    only a version that has none before it brings its own people.
    """
    has_two_behind = len(behind) >= PEOPLE_NEEDED
    return own if has_two_behind else before


def count_acceptances(
    terms: str,
    own: KnownPeople,
    identities: Collection[str],
    writer: str,
    *,
    before: KnownPeople,
    carried: Acceptances = NOBODY_ACCEPTED,
) -> Consented:
    """Return whose acceptances of a version count.

    `own` are the people that the version names, `before` those who counted until now. `writer` is
    an ARN that CloudTrail has seen, or empty. `carried` are acceptances that count already: those
    of the same terms stay.
    """
    behind = people_behind(writer, identities, before)
    people = people_after(before, own, behind)
    kept = carried.people if carried.terms == terms else frozenset()
    counting = people.named_by(own)
    counted = counting.persons(identities) | (kept & counting.everybody)
    return Consented(Acceptances(terms, counted), people)


def _terminates(override: Override) -> bool:
    plan = override.set.get("plan", {})
    return "terminate" in (plan.get("action"), plan.get("when_stop_is_unsupported"))
