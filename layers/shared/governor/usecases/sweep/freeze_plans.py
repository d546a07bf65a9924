"""Freezes plans when too many instances turn idle or silent, and releases them: those of one target
by what turned in one sweep, everything by what turned over all targets in some hours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.alerts.alert import Alert
from governor.domain.instance import Target
from governor.domain.sweep import breaker
from governor.domain.sweep.breaker import BreakerState, Hub
from governor.domain.sweep.messages import breaker_alert
from governor.domain.sweep.verdict import LEFT_ALONE, WORKING, freeze
from governor.ports import Announcer
from governor.stores import StateTable
from governor.usecases.brakes import paused
from governor.usecases.sweep.sweep_case import Sweep

_REMIND = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class FreezePlans:
    """The breaker of one target, and that over all: any sweep may trip or release it."""

    state: StateTable
    announcer: Announcer
    hub: Target

    def __call__(self, sweep: Sweep) -> bool:
        """Freeze and release. True while a freeze is so young that its alert is all there is to
        say."""
        target, now, rule = sweep.target, sweep.now, sweep.base.breaker
        turned = breaker.count_turned([case.change for case in sweep.cases])
        history = self.state.sweep_days(target)
        why = breaker.assess(turned, rule, [day for day in history if day.day < now.date()])
        learnt = breaker.remember(history, now.date(), turned)
        if learnt != tuple(history):
            sweep.attempt("sweep history", self.state.set_sweep_days, target, learnt)
        tripped = self.state.breaker(target)
        hold = timedelta(minutes=rule.hold_minutes)
        just_froze = why is not None or (tripped is not None and now - tripped.tripped_at < hold)
        # Those that froze the plans, and were neither seen at work since nor started anew. One that
        # this sweep does not see stays in it, for it may come back as it was.
        held = frozenset() if tripped is None else tripped.held
        held -= {
            case.id
            for case in sweep.cases
            if case.verdict.kind in WORKING
            or (tripped and case.instance.launch_time > tripped.tripped_at)
        }
        if why is not None:
            # Frozen first, notified then; until people are notified, every sweep tries again.
            held |= turned.who
            state = BreakerState(
                now, why, tripped.told_at if tripped else None, turned=len(held), held=held
            )
            self.state.set_breaker(target, state)
            self._notify(sweep, state, len(held))
        elif tripped is not None:
            state = replace(tripped, held=held)
            if state != tripped:
                self.state.set_breaker(target, state)
            why = self._hold_or_release(sweep, state)
        everything = self.everything(sweep)
        why = paused(self.state) or why or everything
        if why is not None:
            sweep.summary.frozen = True
            for case in sweep.cases:
                if case.is_idle and case.record.open_episode is None:
                    case.verdict = freeze(case.verdict, why)
        return just_froze

    def everything(self, sweep: Sweep) -> str | None:
        """Count what turned, over all targets; return why everything is frozen."""
        hub, now, rule = self._counted(sweep), sweep.now, sweep.base.breaker
        state = hub.freeze
        if state is None:
            found = breaker.assess_hub(hub, now, rule)
            if found is None:
                return None
            state = BreakerState(now, found[1], turned=found[0])
            if not self.state.freeze_hub(state):
                state = self.state.hub().freeze or state
        by = self.state.freeze_ended_by(None, state)
        if hub.freeze is not None and (by or breaker.is_hub_freeze_over(hub, state, now, rule)):
            # What was no habit must not pass for one in the two weeks to come; what an operator
            # lifts may.
            learns = (
                by or breaker.is_lifted(state, rule, now) or breaker.is_new(hub, state.tripped_at)
            )
            forget = [] if learns else breaker.hours_around(hub, state)
            settle = breaker.still_counted(hub, now) if by else {}
            if self._announce(sweep, breaker_alert("all released", self.hub, state, now, by=by)):
                self.state.release_hub(state, forget, settle)
            return None
        # Sweeps at the same time send the same message, which is delivered once.
        self._notify(sweep, state, breaker.left_of(hub, state)[1], everything=True)
        return state.why

    def _counted(self, sweep: Sweep) -> Hub:
        """Count whoever turned and is not counted in this stretch, and whoever works again. A start
        begins a new stretch: without work since, it is counted again."""
        turned = breaker.count_turned([case.change for case in sweep.cases])
        for is_last in (False, False, True):
            known, hub = self.state.turned(sweep.target), self.state.hub()
            counted = {
                case.id
                for case in sweep.cases
                if case.id in turned.unused & known.keys()
                and known[case.id] > breaker.hour_of(case.instance.launch_time)
            }
            new = sorted(turned.unused - counted | turned.who - known.keys())
            back = sorted(c.id for c in sweep.cases if c.id in known and c.verdict.kind in WORKING)
            if not new and not back:
                return hub
            # Another sweep may count at the same time: then it is counted what is left.
            if self.state.count_turned(
                sweep.target, known, new, back, hub, sweep.now, anyway=is_last
            ):
                break
        return self.state.hub()

    def _hold_or_release(self, sweep: Sweep, state: BreakerState) -> str | None:
        """Why plans stay frozen; `None` when they are released."""
        target, now, rule = sweep.target, sweep.now, sweep.base.breaker
        left = [
            case
            for case in sweep.cases
            if case.id in state.held and case.verdict.kind not in LEFT_ALONE
        ]
        self._notify(sweep, state, len(left))
        # A policy that cannot be read does not say that it asks.
        unasked = any(
            case.unknown is not None or breaker.acts_unasked(case.policy) for case in left
        )
        frozen_for = now - state.tripped_at
        over = breaker.is_freeze_over(frozen_for, state.turned, len(left), rule, unasked=unasked)
        by = self.state.freeze_ended_by(target, state)
        if not over and not by and not breaker.is_lifted(state, rule, now):
            return state.why
        # Notified first: a freeze that nobody knows has ended would be reported by nobody ever
        # after.
        if self._announce(sweep, breaker_alert("released", target, state, now, by=by)):
            self.state.release_breaker(target, state)
        return None

    def _notify(
        self, sweep: Sweep, state: BreakerState, left: int, *, everything: bool = False
    ) -> None:
        """Once, and again while it lasts: a freeze that was forgotten keeps every idle instance
        running."""
        again = 0
        if state.told_at is not None:
            if sweep.now - state.told_at < _REMIND:
                return
            again = max(1, (sweep.now - state.tripped_at) // _REMIND)
        template, about = ("all frozen", self.hub) if everything else ("frozen", sweep.target)
        alert = breaker_alert(template, about, state, sweep.now, left=left, again=again)
        if self._announce(sweep, alert):
            told = replace(state, told_at=sweep.now)
            if everything:
                self.state.keep_hub_freeze(told)
            else:
                self.state.set_breaker(sweep.target, told)

    def _announce(self, sweep: Sweep, alert: Alert) -> bool:
        return sweep.attempt("breaker alert", self.announcer.announce, alert)
