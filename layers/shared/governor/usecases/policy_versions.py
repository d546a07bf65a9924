"""Versions of the policy: each is announced, and put in force when nothing stands against it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from governor.domain.alerts.policy_messages import State, difference, version_alert, who
from governor.domain.instance import Target
from governor.domain.policy.changes import PEOPLE_NEEDED, Parsed, people_behind, risky
from governor.domain.policy.contacts import Ownership
from governor.domain.units import printable
from governor.errors import ConflictError, DecisionRefused, NotAllowed, PolicyError, PolicyProblem
from governor.ports import Announcer, Clock, PolicyDocuments
from governor.stores import StateTable
from governor.usecases.once import Once

_ANNOUNCED_FOR = timedelta(days=365)
_IN_FORCE_SOON = timedelta(minutes=1)
"""Whoever announces a version puts it in force at once; after a crash in between, the next review does."""


class InForce(Protocol):
    def read(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """Reviews the newest version. The one function that uses it decides which version is in force."""

    clock: Clock
    documents: PolicyDocuments
    policy_text: InForce
    state: StateTable
    once: Once
    announcer: Announcer
    hub: Target
    parse: Callable[[str], Parsed]
    parse_accepted: Callable[[str], Parsed]

    def __call__(self, written: tuple[str, str] | None = None) -> None:
        """Review the newest version, unless it is in force; it comes into force after people were notified.
        `written`: a version, and who wrote it. Raises: CloudError; the one before stays in force then."""
        if written is not None:
            self.state.note_writer(*written)
        if not self._review() and written is not None:
            self._announce(*written, "writer")

    def _review(self) -> bool:
        """Return whether people were notified of the newest version, with who wrote it."""
        newest, before = self.documents.newest(), self.state.version_in_force()
        if before is None:
            self._note_parameter()
        if newest is None or newest.version == before:
            return False
        text, version = self.policy_text.read(), newest.version
        in_force, writer = self.parse_accepted(text), self.state.writer(version)
        by = who(writer, newest.author)
        try:
            if version == "null":
                raise PolicyError([PolicyProblem("", "has no version: turn on versioning of its bucket")])
            paths = risky(in_force, self.parse(newest.text))
        except PolicyError as error:
            return self._announce(version, by, "refused", more=[printable(str(error))])
        policy = in_force.base().policy
        behind = people_behind(writer, self.state.accepted(version), policy.ownership)
        changes = difference(text, newest.text)
        if paths and policy.two_people_for_policy and len(behind) < PEOPLE_NEEDED:
            return self._announce(version, by, "waits", risky=paths, behind=behind, more=changes)
        announced = self._announce(version, by, "in-force", risky=paths, more=changes)
        if announced:
            # Another review may have been first.
            with suppress(ConflictError):
                self.state.put_in_force(version, before, self.clock.now())
        return announced

    def _note_parameter(self) -> None:
        """Notify people of a change of the SSM parameter: it counts, unreviewed, until a version does."""
        text, noted, now = self.policy_text.read(), self.state.noted_parameter(), self.clock.now()
        if text == noted:
            return
        if noted is not None or self.parse_accepted(text).base().policy.two_people_for_policy:
            changes = difference(noted or "", text)
            # A change back, too, is a message of its own.
            name = f"parameter-{now:%Y%m%dT%H%M%S}"
            self.announcer.announce(version_alert(self.hub, name, "", "parameter", now, more=changes))
        self.state.note_parameter(text, now)

    def _announce(self, version: str, by: str, state: State, **more: Any) -> bool:
        alert = version_alert(self.hub, version, by, state, self.clock.now(), **more)
        keep = _IN_FORCE_SOON if state == "in-force" else _ANNOUNCED_FOR
        return self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=keep)


@dataclass(frozen=True, slots=True)
class AcceptPolicy:
    """Keeps that a known person accepts a version. The next review counts it."""

    clock: Clock
    state: StateTable
    documents: PolicyDocuments

    def __call__(self, version: str, identity: str, people: Ownership) -> frozenset[str]:
        """Return who stands behind the version now. Raises: DecisionRefused, CloudError."""
        # First: what is no version leaves no trace.
        self.documents.read(version)
        writer = self.state.writer(version)
        try:
            self._check(version, writer, identity, people)
        except DecisionRefused as error:
            self.state.note_acceptance_refused(version, identity, str(error))
            raise
        self.state.accept_version(version, identity, self.clock.now())
        return people_behind(writer, self.state.accepted(version), people)

    def _check(self, version: str, writer: str, identity: str, people: Ownership) -> None:
        person = people.person(identity)
        if person is None:
            raise NotAllowed(f"map {identity} to your address in ownership.contacts of the policy in force")
        if person in people_behind(writer, (), people):
            raise NotAllowed("you wrote this version: another person must accept it")
        if version == self.state.version_in_force():
            raise DecisionRefused("this version is in force already")
