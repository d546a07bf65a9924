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
    "one person alone added that address to the policy. Two people from the previous "
    "version must accept "
    "this version first. If that version had fewer than two people who can accept, an "
    "operator deletes "
    "the item VERSION#in-force with the break-glass role (docs/policy-versions.md)"
)


class PolicyInForce(Protocol):
    """The text of the policy in force."""

    def read(self) -> str:
        """Return the text of the version in force, else of the SSM parameter. Raises:
        CloudError."""


class ParsedConsents(Parsed, Protocol):
    """A document that says which of its overrides people must accept."""

    says_two_people: bool
    """True if the document itself sets `two_people_for_policy`."""

    @property
    def needs_consent(self) -> bool:
        """Return whether any override counts only once people have accepted it."""

    @property
    def terms(self) -> str:
        """Return the hash of what people accept with this document."""

    def apply_acceptances(self, acceptances: Acceptances) -> object:
        """Change the document: the overrides that these people have accepted count from now on, in
        place of earlier acceptances."""

    def unaccepted(self) -> tuple[Unaccepted, ...]:
        """Return the overrides that count as `ask`; empty if every acceptance was given."""


def consents_now(
    policy_store: PolicyVersions, standing: StandingVersion, document: ParsedConsents
) -> Consented:
    """Return whose acceptances of the version in force (`standing`) count now, by the people who
    have accepted it. Nothing is written.

    `document` is the parsed text of that version. Raises: CloudError.
    """
    accepted_at = policy_store.accepted_at(standing.version)
    identities = list(accepted_at)
    if standing.before is None:
        # A first version brings its own people. They count once everybody was notified of it.
        identities = [identity for identity, at in accepted_at.items() if at >= standing.at]
    people_of_document = known_people(document.base().policy.ownership)
    return count_acceptances(
        document.terms,
        people_of_document,
        identities,
        policy_store.writer(standing.version),
        before=standing.people or people_of_document,
        carried=standing.acceptances,
    )


def consents_of_new(
    policy_store: PolicyVersions,
    version: str,
    document: ParsedConsents,
    standing: StandingVersion | None,
    people_in_force: KnownPeople,
) -> Consented:
    """Return whose acceptances count when `version` comes into force in place of the `standing`
    one. Nothing is written.

    `document` is the parsed text of `version`. If `standing` is `None`, this is the first version,
    and no acceptance counts yet. Acceptances of the standing version carry over if the terms are
    the same. `people_in_force`, those of the document in force, are used if the standing version
    has none recorded, as after an earlier release. Raises: CloudError.
    """
    people_of_document = known_people(document.base().policy.ownership)
    if standing is None:
        return Consented(Acceptances(document.terms), people_of_document)
    return count_acceptances(
        document.terms,
        people_of_document,
        policy_store.accepted(version),
        policy_store.writer(version),
        before=standing.people or people_in_force,
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
    """Parses the document in force. It raises nothing: of a document that is refused, only the
    people are read."""

    def __call__(self) -> None:
        """Store whose acceptances of the version in force count now, and notify each person, once,
        whose acceptance is missing. Do nothing if no override needs consent.

        Without a version in force the document is the SSM parameter: people are notified, and
        nothing is stored. Raises: CloudError; fewer acceptances count then, never more.
        """
        standing = self.policy_store.standing_version()
        document = self.parse_accepted(self.policy_text.read())
        if not document.needs_consent:
            return
        if standing is None:
            people_of_document = known_people(document.base().policy.ownership)
            self._notify(None, document, people_of_document)
            return
        document.apply_acceptances(standing.acceptances)
        if not document.unaccepted():
            return
        consented = consents_now(self.policy_store, standing, document)
        stored = Consented(standing.acceptances, standing.people or KnownPeople())
        if consented != stored:
            self._store(standing.version, consented)
        document.apply_acceptances(consented.acceptances)
        self._notify(standing.version, document, consented.people)

    def _store(self, version: str, consented: Consented) -> None:
        """Store whose acceptances count. Store nothing if another version is in force by now.
        Raises: CloudError."""
        # The review that put the other version in force counts the acceptances of that version.
        with suppress(ConflictError):
            self.policy_store.store_acceptances(version, consented)

    def _notify(self, version: str | None, document: ParsedConsents, people: KnownPeople) -> None:
        """Notify each person, once for each version, of the overrides that wait for their
        acceptance. The message says why, if they cannot accept now.

        `version` is `None` if the document is the SSM parameter: then once for the same terms.
        `people` are those whose acceptances count. Raises: CloudError; then some people may not be
        notified yet.
        """
        people_of_document = known_people(document.base().policy.ownership)
        for person, overrides in _by_person(document.unaccepted()).items():
            alert = consent_alert(
                self.hub,
                version,
                document.terms,
                person,
                overrides,
                self.clock.now(),
                cannot_accept=_why_not_counted(person, people_of_document, people),
            )
            self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=_NOTIFIED_FOR)


def _why_not_counted(
    person: str, people_of_document: KnownPeople, counting_people: KnownPeople
) -> str:
    """Return why the acceptance of the person with this address would not count; an empty text if
    it would. `counting_people` are those whose acceptances count under the version in force."""
    if person not in people_of_document.everybody:
        return _NOT_MAPPED
    if person not in counting_people.named_by(people_of_document).everybody:
        return _NOT_COUNTED
    return ""


def _by_person(unaccepted_overrides: Sequence[Unaccepted]) -> dict[str, list[str]]:
    """Return the names of the overrides that wait for each person, by the person's address; empty
    if none waits for anybody."""
    names_by_person: dict[str, list[str]] = {}
    for override in unaccepted_overrides:
        for person in override.missing:
            names_by_person.setdefault(person, []).append(override.name)
    return names_by_person
