"""Sends the message about the end of an episode, and notes which steps fail for which cause.

This module decides no outcome.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.alerts.model import REPEATS, Alert, AlertKind
from governor.alerts.ports import Announcer
from governor.approvals.messages.failures import cause_of
from governor.core import errors
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import (
    Failing,
    Outcome,
)
from governor.episode.store.instances import Failures
from governor.policy.ports import Policies
from governor.table.claims import Claims
from governor.table.once import LEASE

_SAME_CAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AnnounceEnd:
    """Sends how an episode ended.

    Subscribers of the topic get failures of one cause once an hour, or every one if the policy
    names nobody whom a channel reaches.
    """

    clock: Clock
    policies: Policies
    announcer: Announcer
    claim_store: Claims
    failure_store: Failures

    def __call__(self, alert: Alert) -> None:
        """Send the alert about an end, and note its failure or the steps that worked.

        A failure is marked as a repeat if subscribers of the topic had one of the same cause within
        the hour. Raises: CloudError if the alert was not accepted; a failure is then the first of
        its cause again.
        """
        # Without this note, an incident only stays open for longer.
        with suppress(errors.CloudError):
            self._note_incident(alert)
        if alert.kind is not AlertKind.FAILURE:
            self.announcer.announce(alert)
            return
        key = f"failure#{cause_of(str(alert.facts['outcome_reason']))}"
        now = self.clock.now()
        is_first = self._claim_cause(alert, key, now)
        if not is_first:
            alert = replace(alert, facts={**alert.facts, REPEATS: True})
        try:
            self.announcer.announce(alert)
        except errors.CloudError:
            if is_first:
                # It is over at once, so that the next try may claim the cause.
                self.claim_store.done(key, now, timedelta())
            raise
        if is_first:
            with suppress(errors.CloudError):
                self.claim_store.done(key, now, _SAME_CAUSE)

    def _claim_cause(self, alert: Alert, key: str, now: UtcDatetime) -> bool:
        """Claim the cause that `key` names, for one failure an hour, and return true if subscribers
        of the topic must get this failure. Return false if another failure holds the claim.

        Return true without a claim if no channel of a person gets it, or the claim is not possible:
        two messages are better than none.
        """
        try:
            contacts = self.policies.base().policy.ownership.asked(alert.owner, alert.project)
            if not any(contact.has_own_channel for contact in contacts):
                return True
            return self.claim_store.claim(key, now, LEASE)
        except (errors.CloudError, errors.PolicyError):
            return True

    def _note_incident(self, alert: Alert) -> None:
        """Store a failure with its cause; for any other end, store that the steps which the episode
        took worked in its target at that time, asking among them unless it was refused. The sweep
        finds from both which incidents are over. Raises: CloudError."""
        facts = alert.facts
        target = Target(alert.account, alert.region)
        if alert.kind is AlertKind.FAILURE:
            reason = str(facts["outcome_reason"])
            failing = Failing(
                target=target,
                instance_id=str(alert.instance_id),
                name=str(facts.get("instance_name", alert.instance_id)),
                cause=cause_of(reason),
                reason=reason,
                step=str(facts["failed_step"]),
                at=alert.at,
                owner=alert.owner,
                project=alert.project,
            )
            self.failure_store.note_failing(failing)
            return
        # `ask` is the step before the first one of the plan.
        worked_steps: list[str] = []
        if facts["outcome"] != Outcome.REFUSED:
            worked_steps.append("ask")
        steps_done = facts.get("steps_done")
        if isinstance(steps_done, list):
            worked_steps += steps_done
        self.failure_store.note_worked(target, tuple(worked_steps), alert.at)
