"""Freezes plans when unusually many instances turn idle or silent at once, and ends the freeze
later.

One breaker is for a target, and counts one sweep. The hub's breaker is for all targets, and counts
some hours: the sweep of a target trips it at once, and `follow_hub_freeze.py` releases it. People
are notified before a freeze is released: if the message cannot be sent, the next
sweep tries both again, and nobody is left believing that plans are frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from governor.alerts.model import Alert
from governor.alerts.ports import Announcer
from governor.core.instance import Target
from governor.limits.freezes import why_paused
from governor.limits.messages import breaker_alert, hub_freeze_alert
from governor.limits.model.breaker import BreakerState, Hub, Turned
from governor.limits.rules import breaker
from governor.limits.store.breaker import Breakers
from governor.limits.store.pauses import Pauses
from governor.sweep.store import Sweeps
from governor.sweep.sweep_case import Case, Sweep
from governor.verdict.model import LEFT_ALONE, WORKING
from governor.verdict.rules.judge import freeze as freeze_verdict

_COUNT_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class FreezePlans:
    """The breaker of one target, and the hub's breaker, which any sweep may trip."""

    breaker_store: Breakers
    pause_store: Pauses
    sweep_store: Sweeps
    announcer: Announcer
    hub: Target

    def __call__(self, sweep: Sweep) -> bool:
        """Freeze or release plans of the target, freeze plans of all targets, and notify people of
        that.

        While plans are paused or frozen, idle verdicts of the sweep become frozen ones. Return true
        if the target was frozen by this sweep, or less than `breaker.hold_minutes` ago: then no
        alerts about silence are sent. Raises: CloudError if the table cannot be read or written.
        """
        turned = breaker.turned_in_sweep([case.change for case in sweep.cases])
        new_reason = self._assess_and_record(sweep, turned)
        standing = self.breaker_store.breaker(sweep.target)
        hold = timedelta(minutes=sweep.base.breaker.hold_minutes)
        was_just_frozen = standing is not None and sweep.now - standing.tripped_at < hold

        target_reason = new_reason
        if new_reason is not None:
            self._freeze_target(sweep, new_reason, turned, standing)
        elif standing is not None:
            target_reason = self._continue_or_release(sweep, standing)

        hub_reason = self.apply_hub_breaker(sweep)
        why = why_paused(self.pause_store) or target_reason or hub_reason
        if why is not None:
            _freeze_verdicts(sweep, why)
        return new_reason is not None or was_just_frozen

    def _assess_and_record(self, sweep: Sweep, turned: Turned) -> str | None:
        """Return why plans of the target must freeze, or `None` if they need not.

        Also store this sweep's counts (`turned`), with which the sweeps of the next days compare.
        If they cannot be stored, that becomes a problem of the sweep. Raises: CloudError if the
        counts of earlier days cannot be read.
        """
        today = sweep.now.date()
        history = self.sweep_store.sweep_days(sweep.target)
        days_before = [day for day in history if day.day < today]
        reason = breaker.why_freeze_target(turned, sweep.base.breaker, days_before)
        new_history = breaker.history_with(history, today, turned)
        if new_history != tuple(history):
            sweep.attempt(
                "sweep history", self.sweep_store.set_sweep_days, sweep.target, new_history
            )
        return reason

    def _freeze_target(
        self, sweep: Sweep, reason: str, turned: Turned, standing: BreakerState | None
    ) -> None:
        """Freeze plans of the target, then notify people.

        `standing` is the freeze that is stored already; `None` if there is none. The new freeze
        takes its place, and keeps its instances and the time of its last message. If the message
        cannot be sent, the next sweep tries again. Raises: CloudError if the freeze cannot be
        written.
        """
        left_ids = _ids_behind_freeze(sweep, standing) | turned.turned_ids
        told_at = None if standing is None else standing.told_at
        freeze = BreakerState(sweep.now, reason, told_at, turned=len(left_ids), left_ids=left_ids)
        self.breaker_store.set_breaker(sweep.target, freeze)
        self._notify(sweep, freeze, left=len(left_ids))

    def _continue_or_release(self, sweep: Sweep, standing: BreakerState) -> str | None:
        """Store which instances are still behind the freeze, and remind people of it. If it is
        over, notify people, then release it.

        Return why plans of the target stay frozen; `None` if the freeze is over, even if it is not
        released because the message could not be sent. Raises: CloudError.
        """
        freeze = replace(standing, left_ids=_ids_behind_freeze(sweep, standing))
        if freeze != standing:
            self.breaker_store.set_breaker(sweep.target, freeze)
        left_ids = set()
        may_act_unasked = False
        for case in sweep.cases:
            if case.id in freeze.left_ids and case.verdict.kind not in LEFT_ALONE:
                left_ids.add(case.id)
                may_act_unasked |= _may_act_unasked(case)
        for undescribed in sweep.undescribed:
            if undescribed.id in freeze.left_ids:
                left_ids.add(undescribed.id)
                # Nobody knows whether its policy would ask.
                may_act_unasked = True
        self._notify(sweep, freeze, left=len(left_ids))
        ended_by = self.breaker_store.freeze_end_requested_by(sweep.target, freeze)
        is_over = _is_target_freeze_over(sweep, freeze, len(left_ids), unasked=may_act_unasked)
        if not ended_by and not is_over:
            return freeze.why
        alert = breaker_alert("released", sweep.target, freeze, sweep.now, by=ended_by)
        if self._send(sweep, alert):
            self.breaker_store.reset_breaker(sweep.target, freeze)
        return None

    def apply_hub_breaker(self, sweep: Sweep) -> str | None:
        """Record which instances turned idle or silent, over all targets, and freeze plans of all
        targets if too many did. Another step releases that freeze (`follow_hub_freeze.py`).

        Return why plans of all targets are frozen; `None` if they are not, or the policy has lifted
        their freeze. Raises: CloudError if the table cannot be read or written.
        """
        hub = self._record_turned(sweep)
        rule = sweep.base.breaker
        freeze = hub.freeze
        if freeze is not None and not breaker.is_lifted_by_policy(freeze, rule, sweep.now):
            return freeze.why
        reason = breaker.why_freeze_everything(hub, sweep.now, rule)
        if reason is None:
            return None
        self._freeze_everything(sweep, hub, reason)
        return reason.why

    def _freeze_everything(self, sweep: Sweep, hub: Hub, reason: breaker.ReasonToFreeze) -> None:
        """Freeze plans of all targets, then notify people. Do nothing if such a freeze stands
        already, as another sweep began it at the same moment. Raises: CloudError.

        If the message cannot be sent, that becomes a problem of the sweep, and the next one sends
        it.
        """
        freeze = BreakerState(sweep.now, reason.why, turned=reason.turned)
        if not self.breaker_store.begin_hub_freeze(freeze):
            return
        alert = hub_freeze_alert(hub, self.hub, freeze, sweep.now, sweep.base.breaker)
        if self._send(sweep, alert):
            self.breaker_store.replace_hub_freeze(replace(freeze, told_at=sweep.now))

    def _record_turned(self, sweep: Sweep) -> Hub:
        """Record the instances that turned idle or silent and are not counted yet, and those that
        work again.

        An instance that was started again and has not worked since is counted a second time. Return
        the counts over all targets after that. Raises: CloudError.
        """
        turned = breaker.turned_in_sweep([case.change for case in sweep.cases])
        working_ids = set()
        for case in sweep.cases:
            if case.verdict.kind in WORKING:
                working_ids.add(case.id)
        for attempt_number in range(1, _COUNT_ATTEMPTS + 1):
            known = self.breaker_store.counted_hours(sweep.target)
            hub = self.breaker_store.hub()
            uncounted_unused = turned.unused_ids - _counted_since_start(sweep, turned, known)
            new_ids = sorted(uncounted_unused | (turned.turned_ids - known.keys()))
            back_ids = sorted(working_ids & known.keys())
            if not new_ids and not back_ids:
                return hub
            # Another sweep may count at the same time. Then read again, and count what is left. The
            # last attempt writes in any case: counting twice can only freeze plans.
            is_last_attempt = attempt_number == _COUNT_ATTEMPTS
            is_counted = self.breaker_store.try_count_turned(
                sweep.target, known, new_ids, back_ids, hub, sweep.now, anyway=is_last_attempt
            )
            if is_counted:
                break
        return self.breaker_store.hub()

    def _notify(self, sweep: Sweep, freeze: BreakerState, *, left: int) -> None:
        """Notify people of a new freeze of the target, and remind them of an old one once a day. Do
        nothing if they were notified within the last day.

        The time of the message is stored with the freeze. `left` is how many of its instances are
        still idle or silent. A message that cannot be sent becomes a problem of the sweep. Raises:
        CloudError if that time cannot be written.
        """
        number = breaker.due_message(freeze, sweep.now)
        if number is None:
            return
        hold_minutes = sweep.base.breaker.hold_minutes
        alert = breaker_alert(
            "frozen",
            sweep.target,
            freeze,
            sweep.now,
            left=left,
            again=number,
            hold_minutes=hold_minutes,
        )
        if self._send(sweep, alert):
            self.breaker_store.set_breaker(sweep.target, replace(freeze, told_at=sweep.now))

    def _send(self, sweep: Sweep, alert: Alert) -> bool:
        """Send the alert, and return whether it was sent. A failure becomes a problem of the
        sweep."""
        return sweep.attempt("breaker alert", self.announcer.announce, alert)


def _freeze_verdicts(sweep: Sweep, why: str) -> None:
    """Mark the sweep as frozen, and replace the idle verdicts of its cases by frozen ones, so that
    no question starts. An instance with an open episode keeps its verdict."""
    sweep.summary.frozen = True
    for case in sweep.cases:
        if case.is_idle and case.record.open_episode is None:
            case.verdict = freeze_verdict(case.verdict, why)


def _ids_behind_freeze(sweep: Sweep, freeze: BreakerState | None) -> frozenset[str]:
    """Return the ids of the instances that caused the freeze and have neither worked nor been
    started since; empty if there is no freeze.

    An instance that this sweep does not see stays included: it may come back still idle.
    """
    if freeze is None:
        return frozenset()
    changed_ids = set()
    for case in sweep.cases:
        was_started = case.instance.launch_time > freeze.tripped_at
        if was_started or case.verdict.kind in WORKING:
            changed_ids.add(case.id)
    return freeze.left_ids - changed_ids


def _is_target_freeze_over(sweep: Sweep, freeze: BreakerState, left: int, *, unasked: bool) -> bool:
    """Return whether the freeze of the target ends: the policy lifts it, or it has lasted long
    enough and its cause is gone.

    `left` is how many instances are still behind the freeze. If none of them may be stopped
    `unasked`, time alone ends it.
    """
    rule = sweep.base.breaker
    frozen_for = sweep.now - freeze.tripped_at
    is_over = breaker.is_freeze_over(frozen_for, freeze.turned, left, rule, unasked=unasked)
    return is_over or breaker.is_lifted_by_policy(freeze, rule, sweep.now)


def _may_act_unasked(case: Case) -> bool:
    """Return whether the policy may act on the instance without asking. Return true also if the
    instance cannot be judged, for example because its policy cannot be read."""
    return case.listed.problem is not None or breaker.acts_unasked(case.policy)


def _counted_since_start(
    sweep: Sweep, turned: Turned, counted_at: Mapping[str, datetime]
) -> set[str]:
    """Return the ids of instances that have not worked since their start and were counted after
    that start; empty if there are none. `counted_at` is the hour of each count, by instance id."""
    candidates = turned.unused_ids & counted_at.keys()
    counted_ids = set()
    for case in sweep.cases:
        if case.id in candidates:
            start_hour = breaker.hour_of(case.instance.launch_time)
            if counted_at[case.id] > start_hour:
                counted_ids.add(case.id)
    return counted_ids
