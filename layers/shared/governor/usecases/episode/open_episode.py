"""Opens an idle episode: takes the lock, proves idleness once more, draws the plan, freezes it
all."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from governor.domain.alerts.alert import owner_of
from governor.domain.approvals.sealing import SealMaker, ended_unsealed, opening_text, sealed
from governor.domain.approvals.terms import terms_of
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase, quiet_until
from governor.domain.episode.plan import Step, about_stopped, acts_on_silence, mode_of
from governor.domain.evidence import Evidence, evidence_hash
from governor.domain.history import History, idle_span
from governor.domain.instance import Instance
from governor.domain.policy.changes import asked_under
from governor.domain.policy.contacts import Contact
from governor.domain.policy.policy import BY_BUDGET, Action, AppliedPolicy, Mode, Policy
from governor.domain.policy.schedule import schedule
from governor.domain.sweep.judging import asked_because
from governor.domain.sweep.verdict import WORKING, Verdict, VerdictKind, judge_unread
from governor.domain.units import UtcDatetime, in_utc
from governor.errors import MetricsLate
from governor.ports import Clock, Policies
from governor.stores import StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.brakes import frozen
from governor.usecases.evidence.inspect_instance import InspectInstance

_ASKED_AGAIN = (
    " You are asked again: GPU Governor was updated, and an answer to its "
    "last question would not count."
)
_STOPPED_AGAIN_AFTER = timedelta(days=1)
"""Until the next look at a stopped instance that nobody may be asked about."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The result. `episode` is `None` when there is nothing to do, and `reason` says why."""

    episode: Episode | None
    reason: str


@dataclass(frozen=True, slots=True)
class OpenEpisode:
    """Safe to repeat: the episode stored first is the one returned."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    inspect: InspectInstance
    state: StateTable
    opening_seal: SealMaker
    approval_id: Callable[[], str] = lambda: secrets.token_hex(16)
    """Not base64url: one id in 64 would begin with `-`, and a command line would take it for an
    option."""

    def __call__(self, ref: EpisodeRef) -> Opened:
        """Take the lock and open the episode, or say why not. Raises: CloudError; MetricsLate while
        the newest readings are missing; the lock stays with this episode and a retry goes on."""
        base = self.policies.base().policy
        governed = self.accounts.governs(base, ref.account, ref.region)
        if not (governed and self.state.take_lock(ref)):
            taken = "another episode of this instance is open, or this one is over"
            return Opened(
                None, taken if governed else f"the policy's targets do not name {ref.account}"
            )
        stored = self.state.episode(ref)
        if stored is not None:
            return Opened(stored, "already opened")
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        stopping = None if instance is None else self._stopping(ref, instance)
        if instance is None or (instance.state != "running" and stopping is None):
            away = self.state.open_entries(
                ref.target, ref.instance_id
            )  # the event of its end may be lost
            quiet = self.clock.now() + _STOPPED_AGAIN_AFTER if away else None
            return self._close(ref, base, Outcome.VOID, "the instance no longer runs", quiet)
        if instance.launch_time != ref.launch_time:
            return self._close(ref, base, Outcome.VOID, "the instance was restarted")
        applied = self.policies.applied_to(instance)
        policy = applied.policy
        if (why := self.accounts.ungoverned(base, instance)) is not None:
            return self._close(ref, policy, Outcome.VOID, why)
        now = self.clock.now()
        if (why_frozen := frozen(self.state, target, base.breaker, now)) is not None:
            return self._close(ref, policy, Outcome.VOID, why_frozen)
        if self.state.record(target, ref.instance_id).is_warned(now):
            why = "EC2 has announced that it takes the instance back"
            return self._close(ref, policy, Outcome.INTERRUPTED, why)
        ask = (
            self._ask_about_idle if stopping is None else partial(self._ask_about_stopped, stopping)
        )
        return ask(ref, instance, applied, now)

    def _ask_about_idle(
        self, ref: EpisodeRef, instance: Instance, applied: AppliedPolicy, now: UtcDatetime
    ) -> Opened:
        policy = applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        # As at every recheck: what another service runs is never asked about.
        if verdict.kind is not VerdictKind.IDLE:
            outcome = Outcome.WOKE_UP if verdict.kind in WORKING else Outcome.VOID
            found = "managed" if verdict.is_idle else "not idle"
            return self._close(
                ref, policy, outcome, f"{found} on the second look: {verdict.reason}"
            )
        history = self.inspect.history(instance, policy, now)
        reason = _reason(verdict, evidence, policy, history, instance)
        known = {"history": history, "presence": verdict.presence or None}
        return Opened(self._open(ref, instance, applied, reason, evidence, now, **known), "opened")

    def _stopping(self, ref: EpisodeRef, instance: Instance) -> Episode | None:
        """Return the closed episode that has stopped the instance, where it is stopped since: EC2
        gives every start another launch time."""
        if instance.state != "stopped":
            return None
        for entry in reversed(self.state.open_entries(ref.target, ref.instance_id)):
            found = self.state.episode(entry.episode) if entry.is_away else None
            if found is not None and found.has_stopped(ref):
                return found
        return None

    def _ask_about_stopped(
        self,
        stopping: Episode,
        ref: EpisodeRef,
        instance: Instance,
        applied: AppliedPolicy,
        now: UtcDatetime,
    ) -> Opened:
        """Ask whether an instance that a question has stopped may be terminated, or say why not."""
        policy, stopped_at = about_stopped(applied.policy), stopping.steps_done[Step.STOP.value]
        days = policy.approval.ask_about_stopped_after_days
        record = self.state.record(instance.target, ref.instance_id)
        is_due = days is not None and now - stopped_at >= timedelta(days=days)
        # Its termination was decided, and ended with the update for want of a seal.
        is_due = is_due or (ended_unsealed(stopping) and stopping.plan.destroys)
        left_alone = judge_unread(instance, record.hold, policy, now)
        _, plan, _ = self.inspect.plan(instance, policy)
        why = None
        observes = policy.mode is Mode.OBSERVE or BY_BUDGET in applied.overrides
        if observes or not is_due:
            why = "the policy does not ask about it, or not yet"
        elif left_alone is not None:
            why = left_alone.reason
        elif Step.STOP not in plan.steps or not plan.destroys:
            why = "; ".join(plan.replaced_because) or "the plan would not terminate it"
        if why is not None:
            return self._close(ref, policy, Outcome.VOID, why, now + _STOPPED_AGAIN_AFTER)
        reason = (
            f"GPU Governor stopped it on {in_utc(stopped_at)}, and nobody has started it since."
        )
        known = {
            "stopped_in": stopping.ref,
            "steps_done": {Step.STOP.value: stopped_at},
            "idle_below_percent": stopping.idle_below_percent,
            "terms": terms_of(policy, plan, stopping.price),  # by what it costs while it runs
        }
        changed = replace(applied, policy=policy)
        return Opened(
            self._open(ref, instance, changed, reason, stopping.evidence, now, **known), "opened"
        )

    def _open(
        self,
        ref: EpisodeRef,
        instance: Instance,
        applied: AppliedPolicy,
        reason: str,
        evidence: Evidence,
        now: UtcDatetime,
        **known: Any,
    ) -> Episode:
        policy = applied.policy
        sized, plan, price = self.inspect.plan(instance, policy)
        mode = mode_of(policy, plan)
        asks = mode is Mode.ASK and plan.action is not Action.NOTIFY_ONLY
        directory = policy.ownership
        owner, project, _ = owner_of(instance, directory)
        contacts = directory.asked(owner, project)
        asked = contacts[0] if contacts else Contact()
        planned = schedule(now, policy.approval, contacts, directory.escalated(owner, project))
        episode = Episode(
            ref=ref,
            phase=Phase.ASKING if asks else Phase.OPENING,
            phase_since=now,
            opened_at=now,
            approval_id=self.approval_id(),
            mode=mode,
            policy_version=applied.version,
            overrides=applied.overrides,
            instance=sized,
            reason=reason,
            evidence=evidence,
            evidence_hash=evidence_hash(evidence),
            plan=plan,
            price=price,
            owner=owner,
            project=project,
            keep_at_most=timedelta(days=policy.approval.keep_at_most_days),
            schedule=planned if asks else None,
            time_zone=asked.time_zone,
            working_days=asked.working_days,
            working_from=asked.working_from,
            notice=timedelta(minutes=policy.approval.notice_minutes),
            asked_under=asked_under(policy),
            acts_on_silence=acts_on_silence(policy, plan),
            **{
                "idle_below_percent": policy.idle.utilization_below_percent,
                "terms": terms_of(policy, plan, price),
                **known,
            },
        )
        return self._save(episode)

    def _save(self, episode: Episode) -> Episode:
        """Seal and store it; return the one stored first. Raises: CloudError, when KMS seals
        nothing, too."""
        before = self._asked_before(episode.ref)
        if before is not None and ended_unsealed(before):
            episode = replace(episode, reason=episode.reason + _ASKED_AGAIN)
        seal = sealed(self.opening_seal, opening_text(episode))
        return self.state.save_opened(replace(episode, opening_seal=seal))

    def _asked_before(self, ref: EpisodeRef) -> Episode | None:
        """Return the episode before this one, of the same run of the instance."""
        return self.state.episode(replace(ref, number=ref.number - 1)) if ref.number > 1 else None

    def _close(
        self,
        ref: EpisodeRef,
        policy: Policy,
        outcome: Outcome,
        reason: str,
        quiet: UtcDatetime | None = None,
    ) -> Opened:
        now = self.clock.now()
        # The two looks disagree: looked at again, but not at every sweep.
        quiet = quiet or quiet_until(outcome, policy.approval, now, was_opened=False)
        self.state.close_episode(ref, outcome, reason, now, quiet_until=quiet, ledger=None)
        return Opened(None, reason)


def _reason(
    verdict: Verdict,
    evidence: Evidence,
    policy: Policy,
    history: History | None,
    instance: Instance,
) -> str:
    """The reason with the whole time that the instance has been idle, as far as its last day shows
    it."""
    below = policy.idle.utilization_below_percent
    seen = idle_span(history, below, instance.launch_time) if history is not None else None
    if seen is None or seen.since >= evidence.window.start:
        return verdict.reason
    return asked_because(evidence.window.end - seen.since, evidence, policy, verdict.manager)
