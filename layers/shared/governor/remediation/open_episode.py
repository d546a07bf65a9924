"""Opens an episode: takes the lock, proves idleness once more, draws the plan, and stores it all.

What is stored here is what people are asked about, so it is sealed and never changed later. This
module must not notify anybody, nor act on the instance.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.approvals.rules.sealing import SealMaker, ended_unsealed, opening_text, sealed
from governor.approvals.rules.terms import terms_of
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import MetricsLate
from governor.core.instance import Instance, Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_utc
from governor.episode.model.episode import Asking, Episode, Measurement, Outcome, Phase, quiet_until
from governor.episode.model.plan import Plan, Step
from governor.episode.ports import KeyReader
from governor.episode.rules.plan import (
    about_stopped,
    acts_on_silence,
    mode_of,
    only_people_decide,
)
from governor.episode.rules.restart_doubts import doubts_of, keys_of
from governor.episode.rules.restarts import restarts_to_ask_about
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.model import Evidence
from governor.evidence.rules.history import History, idle_span
from governor.evidence.rules.series import evidence_hash
from governor.limits.freezes import why_paused_or_frozen
from governor.limits.store.breaker import Breakers
from governor.limits.store.pauses import Pauses
from governor.money.store.ledger import Ledger
from governor.policy.accounts import Accounts
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, WorkingHours, working_hours
from governor.policy.model.policy import BY_BUDGET, AppliedPolicy, Mode, Policy
from governor.policy.ports import Policies
from governor.policy.rules.changes import asked_under
from governor.policy.rules.owners import owner_of
from governor.policy.rules.schedule import schedule
from governor.remediation.inspect_instance import InspectInstance
from governor.verdict.model import WORKING, Verdict, VerdictKind
from governor.verdict.rules.judge import judge_without_metrics
from governor.verdict.rules.judging import asked_because
from governor.verdict.rules.second_figure import why_not_unasked

_ASKED_AGAIN = (
    " You are asked again: GPU Governor was updated, and an answer to its "
    "last question would not count."
)
_STOPPED_AGAIN_AFTER = timedelta(days=1)
"""The time to the next look at a stopped instance that nobody may be asked about."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The result. `episode` is `None` if there is nothing to do, and `reason` says why."""

    episode: Episode | None
    reason: str


@dataclass(frozen=True, slots=True)
class OpenEpisode:
    """Opens one episode. Safe to repeat: the episode stored first is the one returned."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    inspect: InspectInstance
    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    breaker_store: Breakers
    pause_store: Pauses
    ledger_store: Ledger
    keys: KeyReader
    opening_seal: SealMaker
    approval_id: Callable[[], str] = lambda: secrets.token_hex(16)
    """Not base64url: one id in 64 would begin with `-`, and a command line would take it for an
    option."""

    def __call__(self, ref: EpisodeRef) -> Opened:
        """Take the lock of the instance and open the episode, or return why not. Return the stored
        episode if an earlier call has opened it.

        Raises: MetricsLate while the newest readings are missing; PolicyError; ConfigurationError
        without a role in its account; ConflictError if the episode lost the lock, or keeps changing
        while it is closed; CloudError. The lock otherwise stays with this episode, and a retry
        continues.
        """
        base = self.policies.base().policy
        if not self.accounts.governs(base, ref.account, ref.region):
            return Opened(episode=None, reason=f"the policy's targets do not name {ref.account}")
        if not self.episode_store.take_lock(ref):
            return Opened(
                episode=None, reason="another episode of this instance is open, or this one is over"
            )
        stored = self.episode_store.episode(ref)
        if stored is not None:
            return Opened(stored, reason="already opened")
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        if instance is None:
            return self._close_not_running(ref, base)
        stopping = self._episode_that_stopped_it(ref, instance)
        if instance.state != "running" and stopping is None:
            return self._close_not_running(ref, base)
        if instance.launch_time != ref.launch_time:
            return self._close(ref, base, Outcome.VOID, "the instance was restarted")
        return self._ask_unless_held_back(ref, target, instance, stopping, base)

    def _ask_unless_held_back(
        self,
        ref: EpisodeRef,
        target: Target,
        instance: Instance,
        stopping: Episode | None,
        base: Policy,
    ) -> Opened:
        """Open the episode unless the policy, a freeze or a warning of EC2 forbids it; else close
        it, and return why.

        `stopping` is the earlier episode that stopped the instance; `None` if the instance runs.
        Raises: MetricsLate while the newest readings are missing; PolicyError; ConflictError if the
        episode lost the lock, or keeps changing while it is closed; CloudError.
        """
        applied = self.policies.applied_to(instance)
        policy = applied.policy
        why_ungoverned = self.accounts.why_ungoverned(base, instance)
        if why_ungoverned is not None:
            return self._close(ref, policy, Outcome.VOID, why_ungoverned)
        now = self.clock.now()
        why_frozen = why_paused_or_frozen(
            self.breaker_store, self.pause_store, target, base.breaker, now
        )
        if why_frozen is not None:
            return self._close(ref, policy, Outcome.VOID, why_frozen)
        record = self.instance_store.record(target, ref.instance_id)
        if record.is_warned(now):
            why = "EC2 has announced that it will reclaim the instance"
            return self._close(ref, policy, Outcome.INTERRUPTED, why)
        if stopping is None:
            restarts = restarts_to_ask_about(record, now)
            return self._ask_about_idle(ref, instance, applied, restarts, now)
        return self._ask_about_stopped(stopping, ref, instance, applied, now)

    def _ask_about_idle(
        self,
        ref: EpisodeRef,
        instance: Instance,
        applied: AppliedPolicy,
        restarts: tuple[UtcDatetime, ...],
        now: UtcDatetime,
    ) -> Opened:
        """Judge the running instance and open its episode if it is idle; else close it, and
        return why. `restarts` are the starts by others because of which the escalation contacts are
        asked, too; empty if there are none. Raises: MetricsLate while the newest readings are
        missing; ConflictError if the episode lost the lock, or keeps changing while it is closed;
        CloudError."""
        policy = applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        # An idle instance that another service runs is of another kind, so nobody is asked about
        # it.
        if verdict.kind is not VerdictKind.IDLE:
            outcome = Outcome.WOKE_UP if verdict.kind in WORKING else Outcome.VOID
            finding = "managed" if verdict.is_idle else "not idle"
            why = f"{finding} on the second look: {verdict.reason}"
            return self._close(ref, policy, outcome, why, logged_in=verdict.logged_in)
        history = self.inspect.history(instance, policy, now)
        idle_for = _idle_for(evidence, policy, history, instance)
        reason = verdict.reason
        if idle_for > evidence.window.length:
            reason = asked_because(idle_for, instance, evidence, policy)
        is_unconfirmed = why_not_unasked(instance.instance_type, evidence, policy) is not None
        # Whatever acts unasked would stop it, and others would start it, again and again.
        if is_unconfirmed or restarts:
            applied = replace(applied, policy=only_people_decide(policy))
        draft = self._draft(ref, instance, applied, reason, evidence, now)
        episode = replace(
            draft,
            measurement=replace(draft.measurement, history=history, idle_for=idle_for),
            asking=replace(
                draft.asking,
                presence=verdict.presence or None,
                launched_by=self.inspect.launch(instance, now),
            ),
        )
        if restarts:
            episode = _asking_everybody(episode, applied.policy, restarts)
        return Opened(self._save(episode), reason="opened")

    def _episode_that_stopped_it(self, ref: EpisodeRef, instance: Instance) -> Episode | None:
        """Return the closed episode that stopped the instance, which is stopped still.

        Return `None` if the instance is in another state, no episode stopped it, or it was started
        since: EC2 gives every start another launch time. Raises: CloudError.
        """
        if instance.state != "stopped":
            return None
        for entry in reversed(self.ledger_store.open_entries(ref.target, ref.instance_id)):
            if not entry.may_still_be_stopped:
                continue
            earlier = self.episode_store.episode(entry.episode)
            if earlier is not None and earlier.has_stopped(ref):
                return earlier
        return None

    def _ask_about_stopped(
        self,
        stopping: Episode,
        ref: EpisodeRef,
        instance: Instance,
        applied: AppliedPolicy,
        now: UtcDatetime,
    ) -> Opened:
        """Open an episode that asks whether the stopped instance may be terminated, or close it and
        return why nobody is asked.

        `stopping` is the episode that stopped the instance. Raises: ConflictError if the new
        episode lost the lock, or keeps changing while it is closed; CloudError.
        """
        policy = about_stopped(applied.policy)
        applied_to_stopped = replace(applied, policy=policy)
        stopped_at = stopping.progress.steps_done[Step.STOP.value]
        record = self.instance_store.record(instance.target, ref.instance_id)
        # The verdicts that need no metrics: exempt, kept or too young.
        left_alone = judge_without_metrics(instance, record.hold, policy, now)
        plan = self.inspect.plan(instance, policy).plan
        why_not = _why_not_asked(stopping, applied_to_stopped, left_alone, plan, now)
        if why_not is not None:
            return self._close(ref, policy, Outcome.VOID, why_not, now + _STOPPED_AGAIN_AFTER)
        reason = (
            f"GPU Governor stopped it on {in_utc(stopped_at)}, and nobody has started it since."
        )
        draft = self._draft(
            ref, instance, applied_to_stopped, reason, stopping.measurement.evidence, now
        )
        episode = replace(
            draft,
            stopped_by_episode=stopping.ref,
            progress=replace(draft.progress, steps_done={Step.STOP.value: stopped_at}),
            asking=replace(draft.asking, launched_by=stopping.asking.launched_by),
            measurement=replace(
                draft.measurement, idle_below_percent=stopping.measurement.idle_below_percent
            ),
            # Who must approve depends on what the instance costs while it runs.
            terms=terms_of(policy, plan, stopping.price),
        )
        return Opened(self._save(episode), reason="opened")

    def _draft(
        self,
        ref: EpisodeRef,
        instance: Instance,
        applied: AppliedPolicy,
        reason: str,
        evidence: Evidence,
        now: UtcDatetime,
    ) -> Episode:
        """Return the episode with everything that is known now, not yet sealed and not yet stored.
        It has a schedule, which asks people, only in mode `ask` and if the plan acts.

        Raises: CloudError.
        """
        policy = applied.policy
        planned = self.inspect.plan(instance, policy)
        doubts = self._restart_doubts(planned.instance, planned.plan)
        plan = replace(planned.plan, restart_doubts=doubts)
        mode = mode_of(policy, plan)
        is_question = mode is Mode.ASK and plan.action is not Action.NOTIFY_ONLY
        ownership = policy.ownership
        owner, project, _ = owner_of(instance, ownership)
        contacts = ownership.asked(owner, project)
        owner_note = ownership.why_others_are_asked(owner, project, is_question=is_question)
        first_contact = contacts[0] if contacts else Contact()
        escalated = ownership.escalated(owner, project)
        phase = Phase.OPENING
        planned_schedule = None
        contact_hours: tuple[WorkingHours, ...] = ()
        if is_question:
            phase = Phase.ASKING
            planned_schedule = schedule(now, policy.approval, contacts, escalated)
            contact_hours = working_hours((*contacts, *escalated))
        return Episode(
            ref=ref,
            phase=phase,
            phase_since=now,
            opened_at=now,
            approval_id=self.approval_id(),
            mode=mode,
            policy_version=applied.version,
            overrides=applied.overrides,
            instance=planned.instance,
            reason=reason,
            measurement=Measurement(
                evidence=evidence,
                evidence_hash=evidence_hash(evidence),
                idle_below_percent=policy.idle.utilization_below_percent,
            ),
            plan=plan,
            price=planned.price,
            owner=owner,
            project=project,
            asking=Asking(
                keep_at_most=timedelta(days=policy.approval.keep_at_most_days),
                schedule=planned_schedule,
                time_zone=first_contact.time_zone,
                working_days=first_contact.working_days,
                working_from=first_contact.working_from,
                contact_hours=contact_hours,
                notice=timedelta(minutes=policy.approval.notice_minutes),
                asked_under=asked_under(policy),
                acts_on_silence=acts_on_silence(policy, plan),
                owner_note=owner_note or None,
            ),
            terms=terms_of(policy, plan, planned.price),
        )

    def _restart_doubts(self, instance: Instance, plan: Plan) -> tuple[str, ...]:
        """Return what may prevent the next start, a sentence each; empty if the plan stops nothing,
        or nothing is doubtful."""
        if Step.STOP not in plan.steps:
            return ()
        keys = [self.keys.describe(instance.target, key_id) for key_id in keys_of(instance)]
        return doubts_of(instance, keys)

    def _save(self, episode: Episode) -> Episode:
        """Seal and store the episode, and return it; return the stored one instead if another call
        was first. If the episode before it ended for want of a seal, its reason says that people
        are asked again.

        Raises: ConflictError if the episode does not hold the lock, and none was stored;
        CloudError, also if KMS could not seal the episode; nothing was stored then.
        """
        previous = self._previous_episode(episode.ref)
        if previous is not None and ended_unsealed(previous):
            episode = replace(episode, reason=episode.reason + _ASKED_AGAIN)
        seal = sealed(self.opening_seal, opening_text(episode))
        return self.approval_store.save_opened(replace(episode, opening_seal=seal))

    def _previous_episode(self, ref: EpisodeRef) -> Episode | None:
        """Return the episode before this one, of the same run of the instance; `None` if there is
        none. Raises: CloudError."""
        if ref.number <= 1:
            return None
        return self.episode_store.episode(replace(ref, number=ref.number - 1))

    def _close_not_running(self, ref: EpisodeRef, base: Policy) -> Opened:
        """Close the episode of an instance that neither runs nor was stopped by an episode, and
        return that as the reason. Raises: ConflictError if the episode keeps changing; CloudError.
        """
        until = None
        if self.ledger_store.open_entries(ref.target, ref.instance_id):
            # The ledger still counts the instance as stopped: the event of its termination may be
            # lost.
            until = self.clock.now() + _STOPPED_AGAIN_AFTER
        return self._close(ref, base, Outcome.VOID, "the instance no longer runs", until)

    def _close(
        self,
        ref: EpisodeRef,
        policy: Policy,
        outcome: Outcome,
        reason: str,
        until: UtcDatetime | None = None,
        *,
        logged_in: str = "",
    ) -> Opened:
        """Close the episode before anybody was asked, free the lock, and return the reason.

        Sweeps leave the instance alone until `until`; `None` leaves the time to the outcome, so
        that a sweep and this second look do not disagree every few minutes. `logged_in` is the
        person whose open session is the reason; empty if none is. Raises: ConflictError if the
        episode keeps changing; CloudError.
        """
        now = self.clock.now()
        quiet = until or quiet_until(outcome, policy.approval, now, was_opened=False)
        self.episode_store.close_episode(
            ref, outcome, reason, now, quiet_until=quiet, logged_in=logged_in
        )
        return Opened(episode=None, reason=reason)


def _asking_everybody(
    episode: Episode, policy: Policy, restarts: tuple[UtcDatetime, ...]
) -> Episode:
    """Return the episode with a question to the escalation contacts from its beginning, too, in
    hours in which all of them work; if there are none beside the owner, that is noted. An episode
    without a question stays as it is."""
    if episode.asking.schedule is None:
        return episode
    ownership = policy.ownership
    contacts = ownership.asked_and_escalated(episode.owner, episode.project)
    times = schedule(episode.opened_at, policy.approval, contacts, ())
    has_others = ownership.has_others_to_ask(episode.owner, episode.project)
    asking = replace(
        episode.asking,
        schedule=times,
        others_started_at=restarts,
        is_owner_alone=not has_others,
    )
    return replace(episode, asking=asking)


def _why_not_asked(
    stopping: Episode,
    applied: AppliedPolicy,
    left_alone: Verdict | None,
    plan: Plan,
    now: UtcDatetime,
) -> str | None:
    """Return why nobody is asked whether the stopped instance may be terminated; `None` if people
    may be asked.

    `applied` and `plan` are those for stopped instances. `left_alone` is the verdict that keeps the
    instance whatever it does; `None` if there is none.
    """
    policy = applied.policy
    is_observed = policy.mode is Mode.OBSERVE or BY_BUDGET in applied.overrides
    if is_observed or not _is_due(stopping, policy, now):
        return "the policy does not ask about it, or not yet"
    if left_alone is not None:
        return left_alone.reason
    if Step.STOP not in plan.steps or not plan.destroys:
        return "; ".join(plan.replaced_because) or "the plan would not terminate it"
    return None


def _is_due(stopping: Episode, policy: Policy, now: UtcDatetime) -> bool:
    """Return whether it is time to ask whether the instance that the episode `stopping` stopped may
    be terminated. Return false if the policy never asks that."""
    if ended_unsealed(stopping) and stopping.plan.destroys:
        # People had decided to terminate it, and an update made their answer invalid.
        return True
    days = policy.approval.ask_about_stopped_after_days
    if days is None:
        return False
    return now - stopping.progress.steps_done[Step.STOP.value] >= timedelta(days=days)


def _idle_for(
    evidence: Evidence, policy: Policy, history: History | None, instance: Instance
) -> timedelta:
    """Return for how long the instance has been idle, as far back as the `history` of its last day
    shows it.

    Return the length of the measured window if the history is not known, or shows no idleness
    before that window.
    """
    window = evidence.window
    if history is None:
        return window.length
    below = policy.idle.utilization_below_percent
    idle_time = idle_span(history, below, instance.launch_time)
    if idle_time is None or idle_time.since >= window.start:
        return window.length
    return window.end - idle_time.since
