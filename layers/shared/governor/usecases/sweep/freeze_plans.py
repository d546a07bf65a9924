"""Freezes the plans of a target when too many of its instances turn idle or silent in one sweep, and
releases them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.instance import Target
from governor.domain.sweep.breaker import (
    BreakerState,
    acts_unasked,
    assess,
    count_turned,
    is_freeze_over,
    remember,
)
from governor.domain.sweep.hub_breaker import is_lifted
from governor.domain.sweep.messages import breaker_alert, breaker_release, breaker_reminder
from governor.domain.sweep.verdict import LEFT_ALONE, WORKING, freeze
from governor.ports import Announcer
from governor.stores import StateTable
from governor.usecases.sweep.freeze_everything import FreezeEverything
from governor.usecases.sweep.sweep_case import Sweep


@dataclass(frozen=True, slots=True)
class FreezePlans:
    """The breaker of one target."""

    state: StateTable
    announcer: Announcer
    hub: Target

    def __call__(self, sweep: Sweep) -> bool:
        """Freeze and release. True while a freeze is so young that its alert is all there is to say."""
        target, now, rule = sweep.target, sweep.now, sweep.base.breaker
        turned = count_turned([case.change for case in sweep.cases])
        history = self.state.sweep_days(target)
        why = assess(turned, rule, [day for day in history if day.day < now.date()])
        learnt = remember(history, now.date(), turned, rule)
        if learnt != tuple(history):
            sweep.attempt("sweep history", self.state.set_sweep_days, target, learnt)
        tripped = self.state.breaker(target)
        hold = timedelta(minutes=rule.hold_minutes)
        just_froze = why is not None or (tripped is not None and now - tripped.tripped_at < hold)
        # Those that froze the plans, and were neither seen at work since nor started anew. One that this
        # sweep does not see stays in it, for it may come back as it was.
        held = frozenset() if tripped is None else tripped.held
        held -= {
            case.id
            for case in sweep.cases
            if case.verdict.kind in WORKING or (tripped and case.instance.launch_time > tripped.tripped_at)
        }
        if why is not None:
            # Frozen first, notified then; until people are notified, every sweep tries again.
            held |= turned.who
            state = BreakerState(now, why, tripped.told_at if tripped else None, turned=len(held), held=held)
            self.state.set_breaker(target, state)
            self._notify(sweep, state, len(held))
        elif tripped is not None:
            state = replace(tripped, held=held)
            if state != tripped:
                self.state.set_breaker(target, state)
            why = self._hold_or_release(sweep, state)
        everything = FreezeEverything(self.state, self.announcer, self.hub)(sweep)
        why = why or everything
        if why is not None:
            sweep.summary.frozen = True
            for case in sweep.cases:
                if case.is_idle and case.record.open_episode is None:
                    case.verdict = freeze(case.verdict, why)
        return just_froze

    def _hold_or_release(self, sweep: Sweep, state: BreakerState) -> str | None:
        """Why plans stay frozen; `None` when they are released."""
        target, now, rule = sweep.target, sweep.now, sweep.base.breaker
        left = [case for case in sweep.cases if case.id in state.held and case.verdict.kind not in LEFT_ALONE]
        self._notify(sweep, state, len(left))
        # A policy that cannot be read does not say that it asks.
        unasked = any(case.unknown is not None or acts_unasked(case.policy) for case in left)
        lifted = is_lifted(state, rule, now)
        if not lifted and not is_freeze_over(
            now - state.tripped_at, state.turned, len(left), rule, unasked=unasked
        ):
            return state.why
        # Notified first: a freeze that nobody knows has ended would be reported by nobody ever after.
        if sweep.attempt("breaker alert", self.announcer.announce, breaker_release(target, now)):
            self.state.set_breaker(target, None)
        return None

    def _notify(self, sweep: Sweep, state: BreakerState, left: int) -> None:
        """Once, and again while it lasts: a freeze that was forgotten keeps every idle instance running."""
        target, now = sweep.target, sweep.now
        if state.told_at is None:
            alert = breaker_alert(target, state)
        elif now - state.told_at >= timedelta(hours=sweep.base.breaker.remind_after_hours):
            alert = breaker_reminder(target, state, left, now)
        else:
            return
        if sweep.attempt("breaker alert", self.announcer.announce, alert):
            self.state.set_breaker(target, replace(state, told_at=now))
