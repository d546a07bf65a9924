"""Ends a sweep for the hub, after all targets were swept: notifies people of lasting problems
(standing states) that began or are over and of failures that ended, and closes incidents.

A message that cannot be sent is tried again by the next sweep. This module must not change an
instance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from governor.alerts.ports import Announcer
from governor.approvals.messages.ends import over_alert
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.store.instances import Failures
from governor.fleet.store import Fleet
from governor.health.store import Findings
from governor.policy.accounts import swept_targets
from governor.policy.ports import Policies
from governor.sweep.end_failures import EndFailures
from governor.sweep.known_failures import FindKnownFailures
from governor.sweep.messages import standing_alert, standing_over_alert
from governor.sweep.sweep_case import attempt
from governor.table.once import Once


@dataclass(slots=True)
class ClosedSweep:
    """Result of the hub's part of a sweep. `problems` are texts about steps that failed."""

    newly_unswept: tuple[StandingState, ...] = ()
    """States of whole targets of which no sweep of the last day has notified people."""
    known_failures: frozenset[Target] = frozenset()
    """Targets whose sweep failed again for a reason for which earlier sweeps have failed; empty if
    the failure of one of them is new."""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CloseSweep:
    """The hub's part of a sweep."""

    clock: Clock
    policies: Policies
    failure_store: Failures
    finding_store: Findings
    fleet_store: Fleet
    end_failures: EndFailures
    find_known_failures: FindKnownFailures
    once: Once
    announcer: Announcer
    hub: Target

    def __call__(self, *, has_failures: bool = False) -> ClosedSweep:
        """Notify people of standing states that began or are over, and of causes of failures that
        are gone. Close incidents that are over.

        Return what `ClosedSweep` holds. Known failures are looked for only if the sweep
        `has_failures`. It raises nothing: a step that fails becomes a problem, and the next steps
        go on.
        """
        closed = ClosedSweep()
        attempt(closed.problems, "standing states", self._follow_states, closed)
        if has_failures:
            attempt(closed.problems, "known failures", self._find_known_failures, closed)
        attempt(closed.problems, "recovered", self.end_failures)
        attempt(closed.problems, "incidents over", self._close_incidents)
        return closed

    def _follow_states(self, closed: ClosedSweep) -> None:
        """Notify people of standing states that began or are over, add targets to `newly_unswept`,
        and delete states that a later one replaces. Do nothing without states.

        A message that cannot be sent becomes a problem. Raises: CloudError if the table cannot be
        read or written.
        """
        now = self.clock.now()
        states = self.failure_store.standing_states()
        if not states:
            return
        ended = self._ended(states)
        began = [state for state in states if state.told_at is None and state not in ended]
        for kind, members in _by_kind(began).items():
            notify = partial(self._notify_of_begun, kind, members, now, closed)
            attempt(closed.problems, f"message: {kind.value}", notify)
        for kind, members in _by_kind(ended).items():
            notify = partial(self._notify_of_end, kind, members, now)
            attempt(closed.problems, f"message: {kind.value} is over", notify)
        replaced = [state for state in states if _is_replaced(state, states)]
        self.failure_store.drop_standing(replaced)

    def _find_known_failures(self, closed: ClosedSweep) -> None:
        """Set `known_failures`. Raises: CloudError; then no failure is known."""
        closed.known_failures = self.find_known_failures()

    def _ended(self, states: Sequence[StandingState]) -> list[StandingState]:
        """Return the states that are over: a later sweep of the target ended without meeting the
        state, or the policy does not name the target any more. Raises: CloudError."""
        targets = swept_targets(self.policies.base().policy, self.hub)
        swept_at: dict[Target, UtcDatetime] = {}
        for target in {state.target for state in states}:
            page = self.fleet_store.page(target)
            if page is not None:
                swept_at[target] = page.swept_at
        ended = []
        for state in states:
            last_swept_at = swept_at.get(state.target)
            was_swept_since = last_swept_at is not None and last_swept_at > state.seen_at
            if was_swept_since or state.target not in targets:
                ended.append(state)
        return ended

    def _notify_of_begun(
        self,
        kind: StateKind,
        states: Sequence[StandingState],
        now: UtcDatetime,
        closed: ClosedSweep,
    ) -> None:
        """Send one message about those of these states that nobody was notified of within a day,
        and add those of whole targets to `newly_unswept`: a place that is in a state at every
        second sweep is reported once a day. Raises: CloudError."""
        state_by_key = {f"standing#{state.kind.value}#{state.place}": state for state in states}
        notify = partial(self._notify_of_due, kind, state_by_key, now, closed)
        for error in self.once.of_many([*state_by_key], notify).values():
            if error is not None:
                raise error

    def _notify_of_due(
        self,
        kind: StateKind,
        state_by_key: Mapping[str, StandingState],
        now: UtcDatetime,
        closed: ClosedSweep,
        keys: Sequence[str],
    ) -> dict[str, CloudError | None]:
        """Send one message about the states of these keys, note that, and return `None` for each
        key. States of whole targets are in `newly_unswept` even if the message cannot be sent.

        Raises: CloudError; a message that was sent and could not be noted is sent again under the
        same id.
        """
        due = [state_by_key[key] for key in keys]
        unswept = [state for state in due if state.is_of_target]
        closed.newly_unswept = (*closed.newly_unswept, *unswept)
        self.announcer.announce(standing_alert(kind, due, self.hub, now))
        self.failure_store.note_standing_told(due, now)
        return dict.fromkeys(keys)

    def _notify_of_end(
        self, kind: StateKind, states: Sequence[StandingState], now: UtcDatetime
    ) -> None:
        """Send one message that these states are over, and delete them. States that nobody was
        notified of are only deleted. Raises: CloudError."""
        known_states = [state for state in states if state.told_at is not None]
        if known_states:
            self.announcer.announce(standing_over_alert(kind, known_states, self.hub, now))
        self.failure_store.drop_standing(states)

    def _close_incidents(self) -> None:
        """Send the alert that an incident is over, by which incident tools close it, and delete
        the incident: once its time has passed, and no finding keeps it open.

        Incidents of all targets are closed. Raises: CloudError; the next sweep tries again.
        """
        now = self.clock.now()
        for incident in self.failure_store.incidents():
            if incident.ends_at > now:
                continue
            findings = self.finding_store.known_keys(incident.target, now)
            if not findings.isdisjoint(incident.lasts_with):
                continue
            alert = over_alert(incident, now)
            self.once(alert.dedup_id, partial(self.announcer.announce, alert))
            self.failure_store.drop_incident(incident)


def _by_kind(states: Sequence[StandingState]) -> dict[StateKind, list[StandingState]]:
    """Return the states by their kind; empty if there are none."""
    by_kind: dict[StateKind, list[StandingState]] = defaultdict(list)
    for state in states:
        by_kind[state.kind].append(state)
    return by_kind


def _is_replaced(state: StandingState, states: Sequence[StandingState]) -> bool:
    """Return whether a later sweep met another state of the same whole target: the Region was not
    enabled before, and now the role is missing. People get a message about the later one. It is
    false for a state of an instance."""
    if not state.is_of_target:
        return False
    for other in states:
        is_later = other.seen_at > state.seen_at
        if other.target == state.target and other.is_of_target and is_later:
            return True
    return False
