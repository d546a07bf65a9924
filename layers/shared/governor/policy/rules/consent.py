"""Consent to an override: `approved_by` names people, and each must have accepted before it counts.

Only `under_consent` changes the policy of an instance for a missing acceptance. A policy book calls
it for every instance, so the sweep, `open_episode` and the guards read the same mode. This module
must not trust what a document says about its own people: `policy/ask_consent.py` finds whose
acceptances count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from governor.core.units import UtcDatetime, not_none, without
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Ownership, is_own_identity
from governor.policy.model.policy import Mode, Override, Policy
from governor.policy.rules.changes import PEOPLE_NEEDED, people_behind

NOT_ACCEPTED = "approved_by (not accepted)"
"""Recorded beside the names of an instance's overrides if people are asked about it because
acceptances are missing."""

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
        """Return the addresses of all of these people, each once; empty if there is nobody."""
        return frozenset(self.addresses.values())

    def person(self, identity: str) -> str | None:
        """Return the address of the person with this AWS identity (`aws:ARN`); `None` if none of
        these people has it."""
        return self.addresses.get(identity.strip())

    def persons(self, identities: Collection[str]) -> frozenset[str]:
        """Return the addresses of the people with these AWS identities; unknown identities are left
        out. Empty if none is known."""
        addresses = [self.person(identity) for identity in identities]
        return frozenset(not_none(addresses))

    def named_by(self, other: KnownPeople) -> KnownPeople:
        """Return those of these people whom `other` has with the same identity and address; nobody
        if there are none."""
        known_to_both = {
            identity: address
            for identity, address in self.addresses.items()
            if other.person(identity) == address
        }
        return KnownPeople(known_to_both)


@dataclass(frozen=True, slots=True)
class StandingVersion:
    """The version in force.

    `before` is the version that it has replaced; `None` for the first one. `people` are those whose
    acceptances count; `None` if an earlier release has put the version in force.
    """

    version: str
    at: UtcDatetime
    before: str | None = None
    acceptances: Acceptances = NOBODY_ACCEPTED
    people: KnownPeople | None = None


@dataclass(frozen=True, slots=True)
class Consented:
    """The acceptances that count for a version, and the people whose acceptances count from now
    on."""

    acceptances: Acceptances
    people: KnownPeople


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """An override that counts as `ask`, and the people who have not accepted, by address."""

    name: str
    missing: tuple[str, ...]


def needs_consent(override: Override) -> bool:
    """Return whether the override counts only once people have accepted it: it sets `mode: auto`,
    and names people in `approved_by` or sets an action to `terminate`."""
    if override.set.get("mode") != Mode.AUTO:
        return False
    return bool(override.approved_by) or _terminates(override)


def consenters(override: Override) -> frozenset[str]:
    """Return the addresses that the override names in `approved_by`, in lower case; empty if it
    names nobody."""
    return frozenset(address.strip().lower() for address in override.approved_by)


def asked_people(overrides: Sequence[Override]) -> frozenset[str]:
    """Return the addresses of all people who must accept one of these overrides before it counts;
    empty if nobody must. Overrides that need no consent ask nobody."""
    addresses: set[str] = set()
    for override in overrides:
        if needs_consent(override):
            addresses |= consenters(override)
    return frozenset(addresses)


def has_consent(override: Override, people: Collection[str]) -> bool:
    """Return whether the override counts as accepted: it names at least two people, and all of them
    are among `people`, the addresses of those who have accepted."""
    named_people = consenters(override)
    has_enough_people = len(named_people) >= PEOPLE_NEEDED
    return has_enough_people and named_people <= frozenset(people)


def unaccepted(overrides: Sequence[Override], people: Collection[str]) -> tuple[Unaccepted, ...]:
    """Return the overrides that count as `ask` because a consent is missing, each with the people
    who must still accept. `people` are the addresses of those who have accepted.

    Return an empty tuple if every consent was given, or none is needed.
    """
    unaccepted_overrides: list[Unaccepted] = []
    for override in overrides:
        if needs_consent(override) and not has_consent(override, people):
            missing = consenters(override) - frozenset(people)
            unaccepted_overrides.append(Unaccepted(override.name, tuple(sorted(missing))))
    return tuple(unaccepted_overrides)


def under_consent(policy: Policy, chosen: Sequence[Override], people: Collection[str]) -> Policy:
    """Return the same policy if no consent to it is missing; else a policy with mode `ask` instead
    of `auto`, and without action on silence. The `chosen` overrides have led to the policy.

    A consent is missing if `people`, the addresses of those who have accepted, lack somebody whom
    one of these overrides names; or if the policy terminates unasked, and no override that needs
    consent stands behind that.
    """
    overrides = [override for override in chosen if needs_consent(override)]
    terminates_unasked = policy.mode is Mode.AUTO and terminates(policy)
    is_nobody_responsible = terminates_unasked and not overrides
    if not is_nobody_responsible and not unaccepted(overrides, people):
        return policy
    approval = replace(policy.approval, on_expiry="no-action")
    mode = Mode.ASK if policy.mode is Mode.AUTO else policy.mode
    return replace(policy, mode=mode, approval=approval)


def terms_of_consent(settings: Mapping[str, Any], overrides: Sequence[Override]) -> str:
    """Return the hash of what people accept: all `overrides`, and the `settings` of the document
    that decide what these do, as 64 hexadecimal digits.

    Settings count as they are written, so nobody is asked again if a release changes a default.
    """
    relevant = without(settings, _NO_TERMS)
    document = {"settings": relevant, "overrides": [asdict(override) for override in overrides]}
    canonical = json.dumps(document, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def terminates(policy: Policy) -> bool:
    """Return whether this policy's plan for an idle instance may end with its termination: by its
    `action`, or by the one for instances that cannot be stopped."""
    return Action.TERMINATE in (policy.plan.action, policy.plan.when_stop_is_unsupported)


def may_terminate(policy: Policy) -> bool:
    """Return whether anything in the policy may lead to a termination: its plan, or questions about
    stopped instances."""
    return terminates(policy) or policy.approval.ask_about_stopped_after_days is not None


def known_people(ownership: Ownership) -> KnownPeople:
    """Return the people who can accept a version: those of the contacts with an AWS identity that
    nobody else can take. If two contacts have the same identity, the first counts."""
    addresses: dict[str, str] = {}
    for contact in ownership.contacts.values():
        for identity, address in contact.identities.items():
            if is_own_identity(identity):
                addresses.setdefault(identity, address.lower())
    return KnownPeople(addresses)


def people_after(before: KnownPeople, own: KnownPeople, behind: Collection[str]) -> KnownPeople:
    """Return the people whose acceptances count under a version: `own`, whom it names, if two
    people stand behind it; otherwise `before`, who counted until now.

    `behind` are the addresses of those of `before` who wrote or accepted the version. So a writer
    alone adds nobody and removes nobody. If fewer than two counted before, nobody new ever counts.
    """
    has_two_behind = len(behind) >= PEOPLE_NEEDED
    if has_two_behind:
        return own
    return before


def count_acceptances(
    terms: str,
    own: KnownPeople,
    identities: Collection[str],
    writer: str,
    *,
    before: KnownPeople,
    carried: Acceptances = NOBODY_ACCEPTED,
) -> Consented:
    """Return whose acceptances of a version count, and the people whose acceptances count from now
    on. Nothing is written.

    `own` are the people whom the version names, `before` those who counted until now. If two people
    of `before` wrote or accepted the version, `own` count from now on, else `before` still do. An
    acceptance counts only if the version names its person with the same identity. `identities` have
    accepted the version; `writer` is the ARN that wrote it, or empty. Of `carried`, acceptances
    that counted already, those of the same `terms` stay.
    """
    behind = people_behind(writer, identities, before)
    people = people_after(before, own, behind)
    kept = carried.people if carried.terms == terms else frozenset()
    counting = people.named_by(own)
    counted = counting.persons(identities) | (kept & counting.everybody)
    return Consented(Acceptances(terms, counted), people)


def _terminates(override: Override) -> bool:
    """Return whether the override itself sets an action of the plan to `terminate`."""
    plan = override.set.get("plan", {})
    return "terminate" in (plan.get("action"), plan.get("when_stop_is_unsupported"))
