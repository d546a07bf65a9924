"""Notifies people and subscribers of what a sweep found: new idle stretches, silence, managed instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.alerts.owner import Owner, by_owner, owner_of
from governor.domain.instance import managed_by
from governor.domain.money.cost import Rate
from governor.domain.sweep.breaker import is_outage
from governor.domain.sweep.idle_messages import idle_event
from governor.domain.sweep.managed import IdleMember
from governor.domain.sweep.silence_messages import silent_alert
from governor.domain.sweep.verdict import UNREAD
from governor.ports import Announcer
from governor.usecases.sweep.notify_managed import Candidate, NotifyManaged
from governor.usecases.sweep.sweep_case import Case, Sweep

_MOST_EVENTS = 200
"""Idle events of one sweep; the next sweeps publish the others."""


@dataclass(frozen=True, slots=True)
class SweepAlerts:
    """What is sent is noted on the case, so that the next sweep does not send it again."""

    announcer: Announcer
    managed: NotifyManaged

    def idle(self, sweep: Sweep) -> None:
        """Publish one event per idle stretch, for machines; so many a sweep that it ends in time."""
        fresh = [case for case in sweep.cases if case.is_idle and not case.before.idle_told_at]
        dated = [(case, since) for case in fresh if (since := case.idle_since) is not None]
        for case, since in dated[:_MOST_EVENTS]:
            owner = owner_of(case.instance, case.policy.ownership)
            event = idle_event(case.instance, case.verdict, since, owner, sweep.now)
            case.notified = sweep.attempt("idle event", self.announcer.announce, event)

    def silence(self, sweep: Sweep) -> None:
        """Notify each owner of theirs; in an outage the default owner of all."""
        target, base = sweep.target, sweep.base
        silent = {case.id: case for case in sweep.cases if case.fell_silent}
        # Also those whose work is known from before and need no read now.
        measurable = sum(case.verdict.kind not in UNREAD for case in sweep.cases)
        outage = is_outage(len(silent), measurable, base.breaker)
        instances = [case.instance for case in silent.values()]
        everybody = {Owner(base.ownership.default_owner): instances}
        for owner, theirs in (everybody if outage else by_owner(instances, base.ownership)).items():
            reasons = [(one, silent[one.instance_id].verdict.reason) for one in theirs]
            alert = silent_alert(target, reasons, owner, sweep.now, outage=outage)
            if sweep.attempt("silence alert", self.announcer.announce, alert):
                for one in theirs:
                    silent[one.instance_id].notified = True

    def managed_idle(self, sweep: Sweep, rates: Mapping[str, Rate]) -> None:
        """Notify the owners of environments that other services manage; nothing new during a freeze."""
        if sweep.summary.frozen:
            return
        base = sweep.base
        notified = self.managed(
            sweep.target,
            [one for case in sweep.cases if (one := _candidate(case, rates[case.id])) is not None],
            [(c.instance, m) for c in sweep.cases if (m := managed_by(c.instance)) is not None],
            base.ownership,
            timedelta(hours=base.managed.tell_again_after_hours),
            sweep.now,
        )
        sweep.summary.problems += notified.problems
        for case in sweep.cases:
            case.notified |= case.id in notified.instance_ids


def _candidate(case: Case, rate: Rate) -> Candidate | None:
    since, manager, evidence = case.idle_since, case.verdict.manager, case.verdict.evidence
    if since is None or manager is None or evidence is None:
        return None
    if evidence.window.end - since < timedelta(minutes=case.policy.managed.idle_for_minutes):
        return None
    return Candidate(IdleMember(case.instance, since, rate.usd_per_hour), manager, case.is_managed_due)
