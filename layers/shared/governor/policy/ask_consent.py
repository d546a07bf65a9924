"""Counts who has accepted the version in force, and notifies once the people who have not.

`serve_api` writes an acceptance for a caller whom IAM has identified. This module must not count a
person whom only the writer of the version added: `policy/rules/consent.py` says who counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from governor.alerts.ports import Announcer
from governor.core.errors import ConflictError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.policy.messages import consent_alert
from governor.policy.rules.changes import Parsed
from governor.policy.rules.consent import (
    Acceptances,
    Consented,
    KnownPeople,
    StandingVersion,
    Unaccepted,
    count_acceptances,
    known_people,
)
from governor.policy.store import PolicyVersions
from governor.table.once import Once

_NOTIFIED_FOR = timedelta(days=365)
_NOT_MAPPED = (
    "no aws: identity in ownership.contacts is mapped to that address. Map one, store "
    "the policy as a "
    "new version, and accept that"
)
_NOT_COUNTED = (
    "one person alone added that address to the policy. Two people of the version before "
    "must accept "
    "this version first. If that version had fewer than two people who can accept, an "
    "operator deletes "
    "the item VERSION#in-force with the break-glass role (docs/policy-versions.md)"
)


class PolicyInForce(Protocol):
    """The text of the policy in force."""

    def read(self) -> str: ...


class ParsedConsents(Parsed, Protocol):
    """A document that says which of its overrides people must accept."""

    says_two_people: bool

    @property
    def needs_consent(self) -> bool: ...
    @property
    def terms(self) -> str: ...
    def accepted_by(self, acceptances: Acceptances) -> object: ...
    def unaccepted(self) -> tuple[Unaccepted, ...]: ...


def consents_now(
    policy_store: PolicyVersions, standing: StandingVersion, book: ParsedConsents
) -> Consented:
    """Return whose acceptances of the version in force count now. Raises: CloudError."""
    accepted_at = policy_store.accepted_at(standing.version)
    identities = list(accepted_at)
    if standing.before is None:
        # The people of a first version come with it. They count once everybody was notified of it.
        identities = [identity for identity, at in accepted_at.items() if at >= standing.at]
    own = known_people(book.base().policy.ownership)
    return count_acceptances(
        book.terms,
        own,
        identities,
        policy_store.writer(standing.version),
        before=standing.people or own,
        carried=standing.acceptances,
    )


def consents_of_new(
    policy_store: PolicyVersions,
    version: str,
    book: ParsedConsents,
    standing: StandingVersion | None,
    before: KnownPeople,
) -> Consented:
    """Return whose acceptances count when the version comes into force instead of the standing one.

    `before` are the people of the document in force. They count if an earlier release put it in
    force. Nobody has accepted anything of a first version yet. Raises: CloudError.
    """
    own = known_people(book.base().policy.ownership)
    if standing is None:
        return Consented(Acceptances(book.terms), own)
    return count_acceptances(
        book.terms,
        own,
        policy_store.accepted(version),
        policy_store.writer(version),
        before=standing.people or before,
        carried=standing.acceptances,
    )


@dataclass(frozen=True, slots=True)
class CountAcceptances:
    """Counts acceptances. Only the function that decides which version is in force uses it."""

    clock: Clock
    policy_text: PolicyInForce
    policy_store: PolicyVersions
    once: Once
    announcer: Announcer
    hub: Target
    parse_accepted: Callable[[str], ParsedConsents]

    def __call__(self) -> None:
        """Count the acceptances of the version in force.

        Raises: CloudError; fewer acceptances count then, never more.
        """
        standing = self.policy_store.standing_version()
        book = self.parse_accepted(self.policy_text.read())
        if not book.needs_consent:
            return
        if standing is None:
            self._notify(None, book, known_people(book.base().policy.ownership))
            return
        book.accepted_by(standing.acceptances)
        if not book.unaccepted():
            return
        consented = consents_now(self.policy_store, standing, book)
        if consented != Consented(standing.acceptances, standing.people or KnownPeople()):
            self._store(standing.version, consented)
        book.accepted_by(consented.acceptances)
        self._notify(standing.version, book, consented.people)

    def _store(self, version: str, consented: Consented) -> None:
        """Store whose acceptances count, unless another version is in force by now."""
        # The review that put it in force counts its acceptances.
        with suppress(ConflictError):
            self.policy_store.count_acceptances(version, consented)

    def _notify(self, version: str | None, book: ParsedConsents, people: KnownPeople) -> None:
        """Notify each person once of the overrides that wait for them, even if they cannot accept
        them yet."""
        own = known_people(book.base().policy.ownership)
        for person, overrides in _by_person(book.unaccepted()).items():
            alert = consent_alert(
                self.hub,
                version,
                book.terms,
                person,
                overrides,
                self.clock.now(),
                cannot_accept=_why_not(person, own, people),
            )
            self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=_NOTIFIED_FOR)


def _why_not(person: str, own: KnownPeople, people: KnownPeople) -> str:
    """Return why the person's acceptance would not count; an empty text if it would."""
    if person not in own.everybody:
        return _NOT_MAPPED
    if person not in people.named_by(own).everybody:
        return _NOT_COUNTED
    return ""


def _by_person(waiting: Sequence[Unaccepted]) -> dict[str, list[str]]:
    """Return the names of the overrides that wait for each person."""
    overrides: dict[str, list[str]] = {}
    for override in waiting:
        for person in override.missing:
            overrides.setdefault(person, []).append(override.name)
    return overrides
