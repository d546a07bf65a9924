"""Reviews each version of the policy: notifies people of it, puts it in force, and takes people's
acceptances.

A risky version waits for two people. This module must not put a version in force that was not
announced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from governor.alerts.ports import Announcer
from governor.core.errors import (
    ConflictError,
    DecisionRefused,
    NotAllowed,
    PolicyError,
    PolicyProblem,
)
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import printable
from governor.policy.ask_consent import (
    CountAcceptances,
    ParsedConsents,
    PolicyInForce,
    consents_now,
    consents_of_new,
)
from governor.policy.messages import (
    Difference,
    State,
    consent_line,
    difference,
    version_alert,
    writer_text,
)
from governor.policy.model.contacts import Ownership
from governor.policy.rules.changes import PEOPLE_NEEDED, Parsed, people_behind, risky_changes
from governor.policy.rules.consent import (
    Consented,
    StandingVersion,
    Unaccepted,
    asked_people,
    known_people,
)
from governor.policy.store import PolicyVersions
from governor.table.once import Once


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A version of the policy document. The version "null" means that there is none. `author` is
    the writer's own statement, and may be empty."""

    version: str
    text: str
    author: str = ""


class PolicyDocuments(Protocol):
    """The stored versions of the policy document. Raises: CloudError."""

    def newest(self) -> StoredPolicy | None:
        """Return the newest version of the document; `None` if none is stored. Raises:
        CloudError."""

    def read(self, version: str, *, long_timeout: bool = True) -> str:
        """Return the text of a version. Without `long_timeout`, give up within seconds. Raises:
        NotFound if there is no such version; CloudError."""


_ANNOUNCED_FOR = timedelta(days=365)
"""How long a message about a version is remembered as sent."""
_IN_FORCE_SOON = timedelta(minutes=1)
"""A version is in force right after people were notified of it. After a crash in between, the next
review notifies them again after this time."""


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """A version, and the facts about it of which people are notified. `writer` is a text about who
    wrote it."""

    version: str
    writer: str
    risky: Sequence[str] = ()
    consents: Sequence[str] = ()
    """One sentence for each override whose acceptances are missing."""
    changes: Difference = Difference()
    """Since the version in force."""
    why_refused: str = ""


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """Reviews the newest version. Only one function uses it, so that only that one decides which
    version is in force."""

    clock: Clock
    documents: PolicyDocuments
    policy_text: PolicyInForce
    policy_store: PolicyVersions
    once: Once
    announcer: Announcer
    hub: Target
    parse: Callable[[str], ParsedConsents]
    """Parses a new document. Raises: PolicyError if it is refused."""
    parse_accepted: Callable[[str], ParsedConsents]
    """Parses a document that was in force, or is accepted now. It raises nothing: only the people
    are read of a document that is refused."""

    def __call__(self, written: tuple[str, str] | None = None) -> None:
        """Review the newest version, unless it is in force: notify people of it, and put it in
        force if it need not wait. Then store whose acceptances of the version in force count.

        `written` is a version, perhaps an older one, and the ARN of its writer, which CloudTrail
        has named just now; `None` if it named none. Raises: CloudError; if the new version is not
        in force then, the previous one stays.
        """
        if written is None:
            self._review()
        else:
            version, writer = written
            self._review_with_writer(version, writer)
        self._count_acceptances()

    def _review_with_writer(self, version: str, writer: str) -> None:
        """Store who wrote the version, review the newest one, and notify people once of the writer,
        unless the review has just notified them of that version.

        `writer` is an ARN. Raises: CloudError.
        """
        self.policy_store.note_writer(version, writer)
        announced_version = self._review()
        # The message about a version that this review has announced names its writer already.
        if announced_version != version:
            self._announce(_Reviewed(version, writer), "writer")

    def _count_acceptances(self) -> None:
        """Store whose acceptances of the version in force count, and notify people whose are
        missing. Raises: CloudError."""
        count = CountAcceptances(
            clock=self.clock,
            policy_text=self.policy_text,
            policy_store=self.policy_store,
            once=self.once,
            announcer=self.announcer,
            hub=self.hub,
            parse_accepted=self.parse_accepted,
        )
        count()

    def _review(self) -> str | None:
        """Review the newest version, unless it is in force. Before the first version is in force,
        also notify people of a change of the SSM parameter.

        Return the version of which this call notified people. Return `None` if there is no newer
        version, or people were notified of it before. Raises: CloudError.
        """
        newest = self.documents.newest()
        standing = self.policy_store.standing_version()
        if standing is None:
            self._note_parameter()
        if newest is None:
            return None
        if standing is not None and newest.version == standing.version:
            return None
        is_announced = self._review_version(newest, standing)
        if not is_announced:
            return None
        return newest.version

    def _review_version(self, newest: StoredPolicy, standing: StandingVersion | None) -> bool:
        """Notify people that a version is refused, waits for two people, or comes into force; and
        put it in force in the last case.

        `standing` is the version in force; `None` before the first one. Return whether this call
        notified people. Return false, and put nothing in force, if an earlier call did or does so.
        Raises: CloudError.
        """
        text_in_force = self.policy_text.read()
        in_force = self.parse_accepted(text_in_force)
        writer = writer_text(self.policy_store.writer(newest.version), newest.author)
        try:
            document = self._parsed(newest)
            risky_settings = risky_changes(in_force, document)
        except PolicyError as error:
            refused = _Reviewed(newest.version, writer, why_refused=printable(str(error)))
            return self._announce(refused, "refused")
        people = known_people(in_force.base().policy.ownership)
        consented = consents_of_new(self.policy_store, newest.version, document, standing, people)
        document.apply_acceptances(consented.acceptances)
        reviewed = _Reviewed(
            newest.version,
            writer,
            risky=risky_settings,
            consents=[consent_line(override) for override in document.unaccepted()],
            changes=difference(text_in_force, newest.text),
        )
        supporters = self._supporters(newest.version, in_force)
        if risky_settings and waits_for_two(in_force) and len(supporters) < PEOPLE_NEEDED:
            return self._announce(reviewed, "waits", supporters)
        is_announced = self._announce(reviewed, "in-force")
        if is_announced:
            self._put_in_force(newest.version, standing, consented)
        return is_announced

    def _parsed(self, newest: StoredPolicy) -> ParsedConsents:
        """Return the parsed document of the newest version. Raises: PolicyError if it has mistakes,
        or its bucket keeps no versions."""
        # Without versioning, S3 calls every version "null".
        if newest.version == "null":
            problem = PolicyProblem("", "has no version: turn on versioning of its bucket")
            raise PolicyError([problem])
        return self.parse(newest.text)

    def _put_in_force(
        self, version: str, standing: StandingVersion | None, consented: Consented
    ) -> None:
        """Put the version in force in place of the `standing` one; `None` if it is the first. Do
        nothing if another review was first. Raises: CloudError."""
        replaced_version = standing.version if standing else None
        with suppress(ConflictError):
            self.policy_store.put_in_force(version, replaced_version, self.clock.now(), consented)

    def _supporters(self, version: str, in_force: Parsed) -> frozenset[str]:
        """Return the addresses of the people who wrote or accepted the version; empty if there are
        none.

        Only people whom the document in force names are returned, so that no version brings its
        own. Raises: CloudError.
        """
        people = in_force.base().policy.ownership
        return people_behind(
            self.policy_store.writer(version), self.policy_store.accepted(version), people
        )

    def _note_parameter(self) -> None:
        """Notify people of a change of the SSM parameter, then store its text. Do nothing if the
        text is the stored one.

        Call it only while no version is in force: the parameter then counts without a review.
        Raises: CloudError; the next review tries again.
        """
        text = self.policy_text.read()
        noted = self.policy_store.noted_parameter()
        now = self.clock.now()
        if text == noted:
            return
        # The first text that is seen is no change. People learn of it only if it asks for two
        # people, which holds for versions alone.
        if noted is not None or self.parse_accepted(text).base().policy.two_people_for_policy:
            changes = difference(noted or "", text)
            # The time is part of the name, so that a change back is a message of its own.
            name = f"parameter-{now:%Y%m%dT%H%M%S}"
            self.announcer.announce(
                version_alert(self.hub, name, "", "parameter", now, changes=changes)
            )
        self.policy_store.note_parameter(text, now)

    def _announce(
        self, reviewed: _Reviewed, state: State, supporters: Collection[str] = ()
    ) -> bool:
        """Notify people once of the version in this state; of one `in-force`, again after a minute.
        Return whether this call did so; false if an earlier call did or does so.

        `supporters` are the addresses of people who wrote or accepted it. Raises: CloudError.
        """
        alert = version_alert(
            self.hub,
            reviewed.version,
            reviewed.writer,
            state,
            self.clock.now(),
            risky=reviewed.risky,
            supporters=supporters,
            consents=reviewed.consents,
            changes=reviewed.changes,
            why_refused=reviewed.why_refused,
        )
        keep = _IN_FORCE_SOON if state == "in-force" else _ANNOUNCED_FOR
        return self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=keep)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A version after an acceptance: whether it is in force, and its overrides that still count as
    `ask`."""

    supporters: frozenset[str]
    """The addresses of the known people who wrote or accepted the version."""
    is_in_force: bool
    unaccepted: tuple[Unaccepted, ...]


@dataclass(frozen=True, slots=True)
class AcceptPolicy:
    """Records that a known person accepts a version. The next review counts it."""

    clock: Clock
    policy_store: PolicyVersions
    documents: PolicyDocuments
    parse_accepted: Callable[[str], ParsedConsents]
    """Parses a document that was in force, or is accepted now. It raises nothing: only the people
    are read of a document that is refused."""

    def __call__(self, version: str, identity: str, people: Ownership) -> Accepted:
        """Store that the person with this identity (`aws:ARN`) accepts the version. A refusal is
        stored, too, for the audit.

        `people` are those of the version in force. Raises: NotAllowed if they do not include the
        person, or the person wrote the version and no override asks them; DecisionRefused if the
        version is in force already and asks nobody; NotFound if there is no such version;
        CloudError.
        """
        # Read first, so that a version that does not exist leaves no trace.
        document = self.parse_accepted(self.documents.read(version))
        standing = self.policy_store.standing_version()
        is_in_force = standing is not None and standing.version == version
        writer = self.policy_store.writer(version)
        try:
            person = people.person(identity)
            if person is None:
                raise NotAllowed(
                    f"map {identity} to your address in ownership.contacts of the policy in force"
                )
            is_named = is_in_force or person in asked_people(document.overrides)
            is_asked = document.needs_consent and is_named
            if not is_asked:
                self._refuse_needless_acceptance(person, writer, people, is_in_force=is_in_force)
        except DecisionRefused as error:
            self.policy_store.note_acceptance_refused(version, identity, str(error))
            raise
        self.policy_store.accept_version(version, identity, self.clock.now())
        supporters = people_behind(writer, self.policy_store.accepted(version), people)
        unaccepted_overrides = self._unaccepted(version, document, standing, people)
        return Accepted(supporters, is_in_force, unaccepted_overrides)

    def _refuse_needless_acceptance(
        self, person: str, writer: str, people: Ownership, *, is_in_force: bool
    ) -> None:
        """Refuse an acceptance that no override asks for and that would change nothing. Do nothing
        if it may count as support of a version that waits.

        `writer` is the ARN that wrote the version, or empty. Raises: NotAllowed if the person wrote
        the version; DecisionRefused if it is in force.
        """
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
        """Return the overrides of the version that would still count as `ask` if acceptances were
        counted now; empty if none would. `document` is changed: those acceptances apply to it.

        `standing` is the version in force; `None` before the first one. Raises: CloudError.
        """
        if not document.needs_consent:
            return ()
        if standing is not None and standing.version == version:
            consented = consents_now(self.policy_store, standing, document)
        else:
            consented = consents_of_new(
                self.policy_store, version, document, standing, known_people(people)
            )
        document.apply_acceptances(consented.acceptances)
        return document.unaccepted()


def waits_for_two(in_force: ParsedConsents) -> bool:
    """Return whether a risky version must wait until two people of the document in force have
    written or accepted it.

    It must if that document sets `two_people_for_policy: true`. If that is only the default, and
    fewer than two people can accept, it need not: nobody could ever change the policy.
    """
    policy = in_force.base().policy
    if not policy.two_people_for_policy:
        return False
    can_be_two = len(known_people(policy.ownership).everybody) >= PEOPLE_NEEDED
    return in_force.says_two_people or can_be_two
