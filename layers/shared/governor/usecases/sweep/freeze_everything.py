"""Counts, over all targets, who turns idle or silent, and freezes everything when far more do than usual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, count_turned
from governor.domain.sweep.hub_breaker import Hub, assess_hub, is_hub_freeze_over, left_of
from governor.domain.sweep.messages import hub_alert, hub_release
from governor.domain.sweep.verdict import WORKING
from governor.ports import Announcer
from governor.stores import Brakes
from governor.usecases.sweep.sweep_case import Sweep


@dataclass(frozen=True, slots=True)
class FreezeEverything:
    """The breaker over all targets; each sweep counts its own, and any sweep may trip or release it."""

    state: Brakes
    announcer: Announcer
    hub: Target

    def __call__(self, sweep: Sweep) -> str | None:
        """Count, freeze and release. Returns why everything is frozen."""
        hub, now, rule = self._counted(sweep), sweep.now, sweep.base.breaker
        freeze = hub.freeze
        if freeze is None:
            found = assess_hub(hub, now, rule)
            if found is None:
                return None
            freeze = BreakerState(now, found[1], turned=found[0])
            if not self.state.freeze_hub(freeze):
                freeze = self.state.hub().freeze or freeze
        elif is_hub_freeze_over(hub, freeze, now, rule):
            # Notified first: a freeze that nobody knows has ended would be reported by nobody ever after.
            alert = hub_release(self.hub, freeze, now)
            if sweep.attempt("breaker alert", self.announcer.announce, alert):
                self.state.release_hub()
            return None
        self._notify(sweep, freeze, left_of(hub, freeze, rule)[1])
        return freeze.why

    def _counted(self, sweep: Sweep) -> Hub:
        """Count whoever turned and is not counted in this stretch, and whoever works again."""
        known, hub = self.state.turned(sweep.target), self.state.hub()
        new = sorted(count_turned([case.change for case in sweep.cases]).who - known.keys())
        back = sorted(case.id for case in sweep.cases if case.id in known and case.verdict.kind in WORKING)
        if not new and not back:
            return hub
        self.state.count_turned(sweep.target, known, new, back, hub, sweep.now)
        return self.state.hub()

    def _notify(self, sweep: Sweep, freeze: BreakerState, left: int) -> None:
        """Once, and again while it lasts. Sweeps at the same time send the same message, delivered once."""
        now, remind = sweep.now, timedelta(hours=sweep.base.breaker.remind_after_hours)
        if freeze.told_at is not None and now - freeze.told_at < remind:
            return
        reminders = 0 if freeze.told_at is None else (now - freeze.tripped_at) // remind
        alert = hub_alert(self.hub, freeze, left, now, reminders)
        if sweep.attempt("breaker alert", self.announcer.announce, alert):
            self.state.keep_hub_freeze(replace(freeze, told_at=now))
