"""Versions of the policy: each is announced, and put in force when nothing stands against it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from governor.domain.alerts.policy_messages import (
    State,
    consent_line,
    difference,
    version_alert,
    who,
)
from governor.domain.instance import Target
from governor.domain.policy.changes import PEOPLE_NEEDED, Parsed, people_behind, risky
from governor.domain.policy.consent import StandingVersion, Unaccepted, asked_people, known_people
from governor.domain.policy.contacts import Ownership
from governor.domain.units import printable
from governor.errors import ConflictError, DecisionRefused, NotAllowed, PolicyError, PolicyProblem
from governor.ports import Announcer, Clock, PolicyDocuments
from governor.stores import StateTable
from governor.usecases.once import Once
from governor.usecases.policy_consent import (
    CountAcceptances,
    ParsedConsents,
    PolicyInForce,
    consents_now,
    consents_of_new,
)

_ANNOUNCED_FOR = timedelta(days=365)
_IN_FORCE_SOON = timedelta(minutes=1)
"""Whoever announces a version puts it in force at once; after a crash in between, the next review
does."""


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """Reviews the newest version. The one function that uses it decides which version is in
    force."""

    clock: Clock
    documents: PolicyDocuments
    policy_text: PolicyInForce
    state: StateTable
    once: Once
    announcer: Announcer
    hub: Target
    parse: Callable[[str], ParsedConsents]
    parse_accepted: Callable[[str], ParsedConsents]

    def __call__(self, written: tuple[str, str] | None = None) -> None:
        """Review the newest version, unless it is in force; it comes into force after people were
        notified. Then count who has accepted the one in force. `written`: a version, and who wrote
        it. Raises: CloudError; the one before stays in force then."""
        if written is not None:
            self.state.note_writer(*written)
        if not self._review() and written is not None:
            self._announce(*written, "writer")
        self._count_acceptances()

    def _count_acceptances(self) -> None:
        count = CountAcceptances(
            clock=self.clock,
            policy_text=self.policy_text,
            state=self.state,
            once=self.once,
            announcer=self.announcer,
            hub=self.hub,
            parse_accepted=self.parse_accepted,
        )
        count()

    def _review(self) -> bool:
        """Return whether people were notified of the newest version, with who wrote it."""
        newest = self.documents.newest()
        standing = self.state.standing_version()
        if standing is None:
            self._note_parameter()
        if newest is None or (standing is not None and newest.version == standing.version):
            return False
        text = self.policy_text.read()
        in_force = self.parse_accepted(text)
        version = newest.version
        by = who(self.state.writer(version), newest.author)
        try:
            if version == "null":
                raise PolicyError(
                    [PolicyProblem("", "has no version: turn on versioning of its bucket")]
                )
            document = self.parse(newest.text)
            paths = risky(in_force, document)
        except PolicyError as error:
            return self._announce(version, by, "refused", more=[printable(str(error))])
        people = known_people(in_force.base().policy.ownership)
        consented = consents_of_new(self.state, version, document, standing, people)
        document.accepted_by(consented.acceptances)
        about: dict[str, Any] = {
            "risky": paths,
            "consents": [consent_line(one) for one in document.unaccepted()],
            "more": difference(text, newest.text),
        }
        behind = self._behind(version, in_force)
        if paths and waits_for_two(in_force) and len(behind) < PEOPLE_NEEDED:
            return self._announce(version, by, "waits", behind=behind, **about)
        announced = self._announce(version, by, "in-force", **about)
        if announced:
            before = standing.version if standing else None
            # Another review may have been first.
            with suppress(ConflictError):
                self.state.put_in_force(version, before, self.clock.now(), consented)
        return announced

    def _behind(self, version: str, in_force: Parsed) -> frozenset[str]:
        people = in_force.base().policy.ownership
        return people_behind(self.state.writer(version), self.state.accepted(version), people)

    def _note_parameter(self) -> None:
        """Notify people of a change of the SSM parameter: it counts, unreviewed, until a version
        does."""
        text, noted, now = self.policy_text.read(), self.state.noted_parameter(), self.clock.now()
        if text == noted:
            return
        if noted is not None or self.parse_accepted(text).base().policy.two_people_for_policy:
            changes = difference(noted or "", text)
            # A change back, too, is a message of its own.
            name = f"parameter-{now:%Y%m%dT%H%M%S}"
            self.announcer.announce(
                version_alert(self.hub, name, "", "parameter", now, more=changes)
            )
        self.state.note_parameter(text, now)

    def _announce(self, version: str, by: str, state: State, **more: Any) -> bool:
        alert = version_alert(self.hub, version, by, state, self.clock.now(), **more)
        keep = _IN_FORCE_SOON if state == "in-force" else _ANNOUNCED_FOR
        return self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=keep)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The people behind a version now, and its overrides that still count as `ask`."""

    behind: frozenset[str]
    is_in_force: bool
    unaccepted: tuple[Unaccepted, ...]


@dataclass(frozen=True, slots=True)
class AcceptPolicy:
    """Keeps that a known person accepts a version. The next review counts it."""

    clock: Clock
    state: StateTable
    documents: PolicyDocuments
    parse_accepted: Callable[[str], ParsedConsents]

    def __call__(self, version: str, identity: str, people: Ownership) -> Accepted:
        """Record the acceptance; `people` are those of the version in force. Raises:
        DecisionRefused, CloudError."""
        # First: what is no version leaves no trace.
        document = self.parse_accepted(self.documents.read(version))
        standing = self.state.standing_version()
        is_in_force = standing is not None and standing.version == version
        writer = self.state.writer(version)
        try:
            person = people.person(identity)
            if person is None:
                raise NotAllowed(
                    f"map {identity} to your address in ownership.contacts of the policy in force"
                )
            is_asked = document.needs_consent and (
                is_in_force or person in asked_people(document.overrides)
            )
            if not is_asked:
                self._must_wait_for(person, writer, people, is_in_force=is_in_force)
        except DecisionRefused as error:
            self.state.note_acceptance_refused(version, identity, str(error))
            raise
        self.state.accept_version(version, identity, self.clock.now())
        behind = people_behind(writer, self.state.accepted(version), people)
        return Accepted(behind, is_in_force, self._unaccepted(version, document, standing, people))

    def _must_wait_for(
        self, person: str, writer: str, people: Ownership, *, is_in_force: bool
    ) -> None:
        """Raises: DecisionRefused where a person whom no override names has nothing to accept."""
        if person in people_behind(writer, (), people):
            raise NotAllowed("you wrote this version: another person must accept it")
        if is_in_force:
            raise DecisionRefused("this version is in force already")

    def _unaccepted(
        self,
        version: str,
        document: ParsedConsents,
        standing: StandingVersion | None,
        people: Ownership,
    ) -> tuple[Unaccepted, ...]:
        """Return the overrides that would still count as `ask` if acceptances were counted now."""
        if not document.needs_consent:
            return ()
        if standing is not None and standing.version == version:
            consented = consents_now(self.state, standing, document)
        else:
            consented = consents_of_new(
                self.state, version, document, standing, known_people(people)
            )
        document.accepted_by(consented.acceptances)
        return document.unaccepted()


def waits_for_two(in_force: ParsedConsents) -> bool:
    """Return whether a risky version waits for two people of the version in force.

    Where only a default asks for two, and the version names fewer who can accept, nobody could ever
    change it: then it does not wait. `two_people_for_policy: true` in the document always does.
    """
    policy = in_force.base().policy
    if not policy.two_people_for_policy:
        return False
    can_be_two = len(known_people(policy.ownership).everybody) >= PEOPLE_NEEDED
    return in_force.says_two_people or can_be_two
