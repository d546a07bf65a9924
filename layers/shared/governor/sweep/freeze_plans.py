"""Freezes plans when too many instances turn idle or silent at once, and releases them later.

One breaker is for a target, and counts one sweep. The other is for everything, and counts some
hours over all targets. People are notified before a freeze is released: if that fails, the next
sweep tries both again, and nobody is left believing that plans are frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from governor.alerts.model import Alert
from governor.alerts.ports import Announcer
from governor.core.instance import Target
from governor.limits.freezes import paused
from governor.limits.messages import breaker_alert
from governor.limits.model.breaker import BreakerState, Hub, Turned
from governor.limits.rules import breaker
from governor.limits.store.breaker import Brakes
from governor.limits.store.pauses import Pauses
from governor.sweep.store import Sweeps
from governor.sweep.sweep_case import Case, Sweep
from governor.verdict.model import LEFT_ALONE, WORKING
from governor.verdict.rules.judge import freeze as freeze_verdict

_REMIND = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class FreezePlans:
    """The breaker of one target, and that of everything: any sweep may trip or release it."""

    brake_store: Brakes
    pause_store: Pauses
    sweep_store: Sweeps
    announcer: Announcer
    hub: Target

    def __call__(self, sweep: Sweep) -> bool:
        """Freeze and release. Return whether a freeze of this target is so young that its alert is
        all there is to say."""
        turned = breaker.count_turned([case.change for case in sweep.cases])
        new_reason = self._assess(sweep, turned)
        tripped = self.brake_store.breaker(sweep.target)
        hold = timedelta(minutes=sweep.base.breaker.hold_minutes)
        is_held = tripped is not None and sweep.now - tripped.tripped_at < hold
        reason = new_reason
        if new_reason is not None:
            self._trip(sweep, new_reason, turned, tripped)
        elif tripped is not None:
            reason = self._go_on_or_release(sweep, tripped)
        everything = self.everything(sweep)
        why = paused(self.pause_store) or reason or everything
        if why is not None:
            _freeze_verdicts(sweep, why)
        return new_reason is not None or is_held

    def _assess(self, sweep: Sweep, turned: Turned) -> str | None:
        """Return why plans of the target must freeze, or `None`; remember this sweep for those of
        the next days."""
        today = sweep.now.date()
        history = self.sweep_store.sweep_days(sweep.target)
        days_before = [day for day in history if day.day < today]
        reason = breaker.assess(turned, sweep.base.breaker, days_before)
        new_history = breaker.remember(history, today, turned)
        if new_history != tuple(history):
            sweep.attempt(
                "sweep history", self.sweep_store.set_sweep_days, sweep.target, new_history
            )
        return reason

    def _trip(
        self, sweep: Sweep, reason: str, turned: Turned, tripped: BreakerState | None
    ) -> None:
        """Freeze plans of the target first, then notify. Until people are notified, every sweep
        tries again."""
        held = _still_held(sweep, tripped) | turned.who
        told_at = None if tripped is None else tripped.told_at
        freeze = BreakerState(sweep.now, reason, told_at, turned=len(held), held=held)
        self.brake_store.set_breaker(sweep.target, freeze)
        self._notify(sweep, freeze, len(held))

    def _go_on_or_release(self, sweep: Sweep, tripped: BreakerState) -> str | None:
        """Return why plans of the target stay frozen, or `None` when they are released."""
        freeze = replace(tripped, held=_still_held(sweep, tripped))
        if freeze != tripped:
            self.brake_store.set_breaker(sweep.target, freeze)
        held = []
        for case in sweep.cases:
            if case.id in freeze.held and case.verdict.kind not in LEFT_ALONE:
                held.append(case)
        self._notify(sweep, freeze, len(held))
        ended_by = self.brake_store.freeze_ended_by(sweep.target, freeze)
        if not ended_by and not _is_target_freeze_over(sweep, freeze, held):
            return freeze.why
        alert = breaker_alert("released", sweep.target, freeze, sweep.now, by=ended_by)
        if self._announce(sweep, alert):
            self.brake_store.release_breaker(sweep.target, freeze)
        return None

    def everything(self, sweep: Sweep) -> str | None:
        """Count what turned, over all targets. Return why everything is frozen, or `None` if it is
        not."""
        hub = self._count_turned(sweep)
        freeze = hub.freeze or self._freeze_everything(sweep, hub)
        if freeze is None:
            return None
        if hub.freeze is not None:
            ended_by = self.brake_store.freeze_ended_by(None, freeze)
            rule = sweep.base.breaker
            if ended_by or breaker.is_hub_freeze_over(hub, freeze, sweep.now, rule):
                self._release_everything(sweep, hub, freeze, ended_by)
                return None
        # Sweeps at the same time send the same message, which is delivered once.
        _, left = breaker.left_of(hub, freeze)
        self._notify(sweep, freeze, left, everything=True)
        return freeze.why

    def _freeze_everything(self, sweep: Sweep, hub: Hub) -> BreakerState | None:
        """Freeze everything if too many turned. Return the freeze, which another sweep may have
        begun; `None` if there is no reason for one."""
        assessed = breaker.assess_hub(hub, sweep.now, sweep.base.breaker)
        if assessed is None:
            return None
        turned, reason = assessed
        freeze = BreakerState(sweep.now, reason, turned=turned)
        if self.brake_store.freeze_hub(freeze):
            return freeze
        return self.brake_store.hub().freeze or freeze

    def _release_everything(
        self, sweep: Sweep, hub: Hub, freeze: BreakerState, ended_by: str | None
    ) -> None:
        """Notify, then release.

        The counts that led to the freeze are forgotten, so that they do not pass for a habit in the
        two weeks to come. They are kept where an operator ended the freeze, or no habit is known
        yet. Of those that a new freeze would count, those an operator let go count as back at work.
        """
        keeps_counts = (
            bool(ended_by)
            or breaker.is_lifted(freeze, sweep.base.breaker, sweep.now)
            or breaker.is_new(hub, freeze.tripped_at)
        )
        forgotten_hours: list[datetime] = []
        if not keeps_counts:
            forgotten_hours = breaker.hours_around(hub, freeze)
        settled: Mapping[datetime, int] = {}
        if ended_by:
            settled = breaker.still_counted(hub, sweep.now)
        alert = breaker_alert("all released", self.hub, freeze, sweep.now, by=ended_by)
        if self._announce(sweep, alert):
            self.brake_store.release_hub(freeze, forgotten_hours, settled)

    def _count_turned(self, sweep: Sweep) -> Hub:
        """Count the instances that turned and are not counted yet, and those that work again.

        A start begins a new stretch: an instance that has not worked since is counted again."""
        turned = breaker.count_turned([case.change for case in sweep.cases])
        working_ids = {case.id for case in sweep.cases if case.verdict.kind in WORKING}
        for is_last in (False, False, True):
            known = self.brake_store.turned(sweep.target)
            hub = self.brake_store.hub()
            uncounted_unused = turned.unused - _counted_since_start(sweep, turned, known)
            new_ids = sorted(uncounted_unused | (turned.who - known.keys()))
            back_ids = sorted(working_ids & known.keys())
            if not new_ids and not back_ids:
                return hub
            # Another sweep may count at the same time: then what is left is counted.
            is_counted = self.brake_store.count_turned(
                sweep.target, known, new_ids, back_ids, hub, sweep.now, anyway=is_last
            )
            if is_counted:
                break
        return self.brake_store.hub()

    def _notify(
        self, sweep: Sweep, freeze: BreakerState, left: int, *, everything: bool = False
    ) -> None:
        """Notify once, and again while it lasts: a freeze that was forgotten keeps every idle
        instance running."""
        reminder_number = 0
        if freeze.told_at is not None:
            if sweep.now - freeze.told_at < _REMIND:
                return
            reminder_number = max(1, (sweep.now - freeze.tripped_at) // _REMIND)
        template = "all frozen" if everything else "frozen"
        about = self.hub if everything else sweep.target
        alert = breaker_alert(template, about, freeze, sweep.now, left=left, again=reminder_number)
        if self._announce(sweep, alert):
            notified_freeze = replace(freeze, told_at=sweep.now)
            if everything:
                self.brake_store.keep_hub_freeze(notified_freeze)
            else:
                self.brake_store.set_breaker(sweep.target, notified_freeze)

    def _announce(self, sweep: Sweep, alert: Alert) -> bool:
        return sweep.attempt("breaker alert", self.announcer.announce, alert)


def _freeze_verdicts(sweep: Sweep, why: str) -> None:
    """Let nothing follow from idle verdicts, unless the question is open already."""
    sweep.summary.frozen = True
    for case in sweep.cases:
        if case.is_idle and case.record.open_episode is None:
            case.verdict = freeze_verdict(case.verdict, why)


def _still_held(sweep: Sweep, tripped: BreakerState | None) -> frozenset[str]:
    """Return the instances that froze the plans, and were neither seen at work nor started since.

    One that this sweep does not see stays in it, for it may come back as it was. Empty if nothing
    is frozen."""
    if tripped is None:
        return frozenset()
    changed_ids = set()
    for case in sweep.cases:
        was_started = case.instance.launch_time > tripped.tripped_at
        if was_started or case.verdict.kind in WORKING:
            changed_ids.add(case.id)
    return tripped.held - changed_ids


def _is_target_freeze_over(sweep: Sweep, freeze: BreakerState, held: list[Case]) -> bool:
    """Return whether plans of the target may go on: by time and cause, or as the policy lifts its
    freezes."""
    rule = sweep.base.breaker
    unasked = any(_may_act_unasked(case) for case in held)
    frozen_for = sweep.now - freeze.tripped_at
    is_over = breaker.is_freeze_over(frozen_for, freeze.turned, len(held), rule, unasked=unasked)
    return is_over or breaker.is_lifted(freeze, rule, sweep.now)


def _may_act_unasked(case: Case) -> bool:
    # A policy that cannot be read does not say that it asks.
    return case.listed.problem is not None or breaker.acts_unasked(case.policy)


def _counted_since_start(
    sweep: Sweep, turned: Turned, counted_at: Mapping[str, datetime]
) -> set[str]:
    """Return the instances without work since their start that were counted after it."""
    candidates = turned.unused & counted_at.keys()
    counted_ids = set()
    for case in sweep.cases:
        if case.id in candidates:
            start_hour = breaker.hour_of(case.instance.launch_time)
            if counted_at[case.id] > start_hour:
                counted_ids.add(case.id)
    return counted_ids
