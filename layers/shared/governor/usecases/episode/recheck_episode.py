"""Checks again at the moment of acting: the guards, and while the instance runs, its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import Episode, EpisodeRef, Outcome
from governor.domain.episode.plan import Step
from governor.domain.sweep.judging import is_released
from governor.domain.sweep.verdict import WORKING, Verdict, VerdictKind
from governor.domain.units import UtcDatetime, span
from governor.errors import Held, Interrupted, MetricsLate, SafetyError
from governor.ports import Clock
from governor.stores import StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.brakes import FREEZE_CHECKED, approved_at, cap_reached, next_hour
from governor.usecases.episode.guards import Cleared, Guards
from governor.usecases.evidence.inspect_instance import InspectInstance

_EC2_SETTLES = timedelta(minutes=5)
"""How long a call that was begun may take, and what it changed may not be seen."""


@dataclass(frozen=True, slots=True)
class Rechecked:
    proceed: bool
    outcome: Outcome | None
    reason: str
    wait: timedelta | None = None
    """After which to check again, where a freeze or a cap alone holds the step back."""


@dataclass(frozen=True, slots=True)
class RecheckEpisode:
    clock: Clock
    accounts: Accounts
    guards: Guards
    inspect: InspectInstance
    state: StateTable

    def __call__(self, ref: EpisodeRef, before: Step) -> Rechecked:
        """Decide whether `before` may be done now. Safe to repeat. Raises: CloudError: retry. MetricsLate,
        until the newest readings and refusals of answers are known: tried again in minutes."""
        found = self._look(ref, before)
        if found.outcome is not None and found.wait is None:
            # The end is read from there: what comes with a payload proves nothing.
            self.state.note_no(ref, found.outcome.value, found.reason)
        return found

    def _look(self, ref: EpisodeRef, before: Step) -> Rechecked:
        try:
            cleared = self.guards.check(ref, before)
        except (Held, Interrupted) as error:
            outcome = Outcome.HELD if isinstance(error, Held) else Outcome.INTERRUPTED
            return Rechecked(False, outcome, str(error))
        except SafetyError as error:
            target = self.accounts.target(ref.account, ref.region)
            found = self.inspect.describe(target, ref.instance_id)
            # One that is gone or started anew voids the episode; every other guard refuses.
            is_gone = found is None or found.launch_time != ref.launch_time
            return Rechecked(False, Outcome.VOID if is_gone else Outcome.REFUSED, str(error))
        instance, now = cleared.instance, self.clock.now()
        held_back = self._held_back(cleared, before, now)
        stopped_by_us = Step.STOP.value in cleared.episode.steps_done and not cleared.dry_run
        if stopped_by_us:
            if instance.state != "stopped":
                return Rechecked(False, Outcome.VOID, f"the instance is {instance.state}, not stopped")
        elif instance.state != "running":
            return Rechecked(False, Outcome.VOID, f"the instance is {instance.state}: somebody was faster")
        elif (ended := self._no_longer_idle(cleared, now, waits=held_back is not None)) is not None:
            return ended
        self._free_for_a_hold(cleared, now)
        if held_back is not None:
            self.state.journal(ref, "held back", now, step=before.value, reason=held_back.reason)
            return held_back
        self.state.clear_step(ref, before.value, now)
        return Rechecked(True, None, "everything is as it was asked about")

    def _free_for_a_hold(self, cleared: Cleared, now: UtcDatetime) -> None:
        """Forget a termination that EC2 has not taken, once its recheck is long over: to be held again."""
        episode, valid = cleared.episode, cleared.applied.policy.plan.recheck_valid_minutes
        under_way = timedelta(minutes=valid) + _EC2_SETTLES
        is_over = episode.cleared_at is None or now - episode.cleared_at > under_way
        if Step.TERMINATE.value in episode.steps_done and is_over:
            self.state.forget_step(episode, Step.TERMINATE.value)

    def _no_longer_idle(self, cleared: Cleared, now: UtcDatetime, *, waits: bool) -> Rechecked | None:
        """Judge the running instance again. While the step `waits`, only work ends the episode."""
        instance, episode, policy = cleared.instance, cleared.episode, cleared.applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if verdict.kind is VerdictKind.IDLE or (waits and verdict.kind not in WORKING):
            return None
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        outcome = _outcome(verdict, episode)
        why = f"{verdict.kind.value}: {verdict.reason}"
        asked_on = episode.evidence
        asked_sooner = asked_on.window.length < policy.ask_window and is_released(asked_on, policy)
        if outcome is Outcome.REFUSED and asked_sooner and not is_released(evidence, policy):
            needed = span(policy.ask_window)
            why = f"GPU memory is not released any more, so {needed} of idleness are needed; {why}"
        return Rechecked(False, outcome, why)

    def _held_back(self, cleared: Cleared, before: Step, now: UtcDatetime) -> Rechecked | None:
        """Wait for a freeze, the next hour of a cap, or silence to be an answer, while the approval lives."""
        episode, caps = cleared.episode, cleared.caps
        name, wait = episode.ref.execution_name, FREEZE_CHECKED
        why = self.guards.held_back(cleared)
        approval = self.state.approval(episode.approval_id)
        if why is None and before is not Step.SNAPSHOT and not cleared.dry_run:
            full = self.state.capped(name, before.value, caps, now)
            if full is not None:
                why, wait = cap_reached(full, caps[full]), next_hour(now, name)
        if why is None:
            return None
        hours = cleared.applied.policy.approval.wait_at_most_hours
        since = cleared.unanswered.until if cleared.unanswered else approved_at(episode, approval)
        if now - since >= timedelta(hours=hours):
            over = f"it waited for {hours} h, as long as an approval lives (approval.wait_at_most_hours)"
            return Rechecked(False, Outcome.REFUSED, f"{why}; {over}")
        return Rechecked(False, Outcome.REFUSED, why, wait)


def _outcome(verdict: Verdict, episode: Episode) -> Outcome:
    """Work that the question's evidence excluded woke it up; older work means that the proof is too short."""
    if verdict.kind not in WORKING:
        return Outcome.REFUSED
    is_news = verdict.last_busy is None or verdict.last_busy > episode.evidence.window.start
    return Outcome.WOKE_UP if is_news else Outcome.REFUSED
