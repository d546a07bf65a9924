"""The guards: all checks right before a write call to EC2, such as a stop or a snapshot, which in
mode `observe` is a dry run.

Of what a state machine passes on, they trust only the name of the episode, and read the rest again.
A guard that does not hold raises `SafetyError`; there is no way around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.rules.sealing import ended_unsealed
from governor.approvals.rules.stages import RETRIES_OF_A_STAGE
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    CloudError,
    GovernorError,
    Held,
    Interrupted,
    MustWait,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.core.instance import Instance
from governor.core.ports import Clock
from governor.core.settings import SettingError
from governor.core.units import in_utc
from governor.episode.model.episode import Episode, InstanceRecord
from governor.episode.model.plan import Step
from governor.episode.ports import Snapshotter
from governor.episode.rules.plan import about_stopped, mode_of, only_people_decide
from governor.episode.rules.restarts import is_about_restarts
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.rules.series import evidence_hash
from governor.limits.freezes import caps_of, why_frozen_by_breaker, why_paused, why_paused_or_frozen
from governor.limits.store.breaker import Breakers
from governor.limits.store.pauses import Pauses
from governor.policy.accounts import Accounts
from governor.policy.model.policy import BY_BUDGET, AppliedPolicy, Mode
from governor.policy.ports import Policies
from governor.policy.rules.changes import AskedUnder
from governor.remediation.answer_time import AnswerTimes
from governor.remediation.clearance import Cleared
from governor.remediation.inspect_instance import InspectInstance
from governor.remediation.rules.same_as_asked import (
    hold_of,
    must_be_authorized,
    must_be_same_machine,
    must_have_same_owner,
    must_not_carry_exemption,
)
from governor.remediation.seals import CheckSeals
from governor.remediation.underway import episode_underway, own_snapshots
from governor.verdict.model import NO_HOLD


@dataclass(frozen=True, slots=True)
class Guards:
    """Checks the episode, its instance and the policy before a step. A method `..._must_...` raises
    and returns nothing."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    inspect: InspectInstance
    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    breaker_store: Breakers
    pause_store: Pauses
    snapshots: Snapshotter
    seals: CheckSeals
    answer_times: AnswerTimes

    @contextmanager
    def journaled(self, ref: EpisodeRef, step: Step) -> Iterator[None]:
        """Run the body of a step. If a guard, a freeze, a cap or EC2 refuses it, store the reason
        on the episode and in its journal, and let the error through.

        Throttled and Unavailable are let through unrecorded: nothing refused the step, and it is
        tried again. Raises: what the body raises; SafetyError instead if the episode was never
        saved and the policy does not name its account; CloudError if the episode cannot be read.
        """
        try:
            yield
        except (Throttled, Unavailable):
            raise
        except GovernorError as error:
            if self.episode_store.episode(ref) is None:
                # An episode that was never saved has a journal only in a governed account.
                self.accounts.require_governed(self.policies.base().policy, ref.account, ref.region)
            name = type(error).__name__
            with suppress(CloudError):
                self.episode_store.note_refusal(ref, name, str(error))
            why = f"{name}: {error}"
            self.episode_store.journal(
                ref, "refused", self.clock.now(), step=step.value, reason=why
            )
            raise

    def clear(self, ref: EpisodeRef, step: Step) -> Cleared:
        """Return the findings of all guards if the step may be done now. Nothing is written.

        Raises: MustWait while a pause, a freeze or unused time to answer holds the step back;
        SafetyError, also Held, Interrupted and Unsealed, if a guard does not hold; MetricsLate
        while it is not known whether answers were refused; PolicyError; ConfigurationError without
        a role in its account; CloudError.
        """
        cleared = self.check(ref, step)
        why = self.why_held_back(cleared, step)
        if why is not None:
            raise MustWait(why)
        return cleared

    def why_held_back(self, cleared: Cleared, step: Step) -> str | None:
        """Return why the step waits: everything is paused, plans are frozen, or people had no time
        or no way to answer. Return `None` if nothing holds the step back.

        Raises: SafetyError if requests were refused in the time to answer; MetricsLate while it is
        not known whether answers were refused; CloudError.
        """
        why_frozen = self._why_frozen(cleared, step)
        if why_frozen is not None:
            return why_frozen
        unused_time = cleared.unused_answer_time
        if unused_time is None:
            return None
        now = self.clock.now()
        return self.answer_times.why_silence_must_wait(cleared.episode, unused_time, now)

    def _why_frozen(self, cleared: Cleared, step: Step) -> str | None:
        """Return the pause or the freeze that holds the step back; `None` if there is neither. A
        pause still lets snapshots be made of an instance whose plan stops it first.

        Raises: CloudError.
        """
        rule = self.policies.base().policy.breaker
        target = cleared.instance.target
        now = self.clock.now()
        copies_what_is_stopped = step is Step.SNAPSHOT and Step.STOP in cleared.episode.plan.steps
        if copies_what_is_stopped:
            return why_frozen_by_breaker(self.breaker_store, target, rule, now)
        return why_paused_or_frozen(self.breaker_store, self.pause_store, target, rule, now)

    def check(self, ref: EpisodeRef, step: Step) -> Cleared:
        """Read everything again, and return it if the step may be done, now or after a wait.

        Raises: Held if somebody holds the episode; Interrupted while EC2 takes the instance back;
        Unsealed if a record lacks its seal; SafetyError, which names the guard that does not hold;
        PolicyError if the overrides of the instance contradict each other; ConfigurationError
        without a role in its account; CloudError if something cannot be read.
        """
        episode = episode_underway(self.episode_store, ref)
        if step not in episode.plan.steps:
            raise SafetyError(f"{step.value} is not part of the plan in the question")
        approval = self._checked_approval(episode)
        self.seals.must_be_sealed(episode, approval, step)
        instance = self._same_instance(episode, approval)
        record = self._record_without_warning(episode, instance, step)
        applied = self._same_rules(episode, instance, record)
        if approval is not None:
            must_be_authorized(episode, approval, applied.policy)
        unused_time = self.answer_times.unused(episode, approval, applied.policy, step)
        if step is not Step.SNAPSHOT:
            must_have_same_owner(episode, instance, applied.policy)
        self._must_have_same_plan(episode, instance, applied)
        caps = caps_of(episode.ref.account, episode.owner, self.policies.base().policy.caps)
        return Cleared(
            episode=episode,
            instance=instance,
            applied=applied,
            dry_run=episode.mode is Mode.OBSERVE,
            unused_answer_time=unused_time,
            caps=caps,
        )

    def _same_instance(self, episode: Episode, approval: Approval | None) -> Instance:
        """Return the instance as EC2 shows it now, with the role that a call to it needs. The
        session of the role is named after the episode, and after the people who approved or, if
        nobody is asked, after the mode.

        Raises: SafetyError if it is gone, or was restarted since the question; ConfigurationError
        without a role in its account; CloudError.
        """
        ref = episode.ref
        # CloudTrail shows for whom the call is made.
        on_behalf_of = approval.approvers if approval else f"mode {episode.mode.value}"
        session = (ref.execution_name, on_behalf_of)
        target = self.accounts.target(ref.account, ref.region, session)
        instance = self.inspect.describe(target, ref.instance_id)
        if instance is None:
            raise SafetyError("the instance no longer exists")
        if instance.launch_time != ref.launch_time:
            raise SafetyError("the instance was restarted since the question")
        return instance

    def _record_without_warning(
        self, episode: Episode, instance: Instance, step: Step
    ) -> InstanceRecord:
        """Refuse an action while a warning of EC2 stands; else return the stored record of the
        instance. For snapshots it has no keep and no exemption once EC2 was asked for the final
        step of the plan: they came too late to prevent the stop.

        Raises: Interrupted if EC2 has announced that it will reclaim the instance, except for
        snapshots; CloudError.
        """
        record = self.instance_store.record(instance.target, instance.instance_id)
        # A snapshot destroys nothing, so a warning does not prevent it.
        if step is not Step.SNAPSHOT and record.is_warned(self.clock.now()):
            raise Interrupted(
                "EC2 has announced that it will reclaim the instance, which may be saving its work"
            )
        if step is Step.SNAPSHOT and episode.begun_at is not None:
            # A keep came too late for the stop; the stopped instance gets its snapshots.
            return replace(record, hold=NO_HOLD)
        return record

    def must_still_be_allowed(self, cleared: Cleared) -> None:
        """Check once more, right before the call, what others may have stored since `check`.

        Call it only after the call was noted: a person who answers after the note learns that it
        may be too late, and an answer before the note is found here.

        Raises: SafetyError if the episode has ended, as it does when its workflow is aborted;
        MustWait for a warning of EC2, a keep, an exemption, a freeze or a pause: the next recheck
        says what it means; CloudError.
        """
        now = self.clock.now()
        instance = cleared.instance
        record = self.instance_store.record(instance.target, instance.instance_id)
        if record.open_episode != cleared.episode.ref:
            raise SafetyError("the episode has ended, or another episode is open")
        if record.is_warned(now):
            raise MustWait("EC2 has announced that it will reclaim the instance")
        if record.hold.stands(now):
            raise MustWait("a keep or an exemption was stored at this moment")
        rule = self.policies.base().policy.breaker
        why = why_frozen_by_breaker(self.breaker_store, instance.target, rule, now)
        if why is None:
            # The pause is read last: a person begins it, and nothing is read between it and the
            # call.
            why = why_paused(self.pause_store)
        if why is not None:
            raise MustWait(why)

    def snapshots_must_be_completed(self, cleared: Cleared) -> None:
        """Require, before a termination, that the episode has a completed snapshot of each EBS
        volume: of those at the time of the question, and of those attached now. Raises:
        SafetyError; CloudError."""
        snapshots = own_snapshots(self.snapshots, cleared.episode, cleared.instance.target)
        completed = set()
        for snapshot in snapshots:
            if snapshot.state == "completed":
                completed.add(snapshot.volume_id)
        wanted = cleared.instance.volume_ids | cleared.episode.instance.volume_ids
        missing = sorted(wanted - completed)
        if missing or not wanted:
            which = ", ".join(missing) or "any volume"
            raise SafetyError(f"no completed snapshot of {which}: nothing is destroyed")

    def user_data_must_be_kept(self, cleared: Cleared) -> None:
        """Require that today's user data was kept: EC2 lets it be changed while the instance is
        stopped. Raises: SafetyError; CloudError."""
        kept = cleared.episode.progress.user_data
        instance = cleared.instance
        if kept is None:
            raise SafetyError("no copy of its user data was kept: nothing is destroyed")
        current = self.snapshots.user_data(instance.target, instance.instance_id)
        if not kept.is_of(current):
            raise SafetyError(
                "its user data was changed since a copy was kept: nothing is destroyed"
            )

    def _checked_approval(self, episode: Episode) -> Approval | None:
        """Check the evidence, holds and the answer, and return the approval that mode `ask` needs,
        or the expiry that counts as one. Return `None` in the other modes, which need nobody.

        Raises: Held if somebody holds the episode; SafetyError; CloudError.
        """
        if evidence_hash(episode.measurement.evidence) != episode.measurement.evidence_hash:
            raise SafetyError("the evidence of the episode was altered after it was frozen")
        approval = self.approval_store.approval(episode.approval_id)
        held_by = None if approval is None else hold_of(approval, episode)
        if held_by is not None:
            raise Held(held_by.why)
        match episode.mode:
            case Mode.OBSERVE | Mode.AUTO:
                return None
            case Mode.ASK:
                pass
        if approval is None or approval.episode != episode.ref:
            raise SafetyError("there is no approval for this episode")
        if approval.evidence_hash != episode.measurement.evidence_hash:
            raise SafetyError("the approval was given for other evidence")
        self._must_be_a_yes(episode, approval)
        return approval

    def _must_be_a_yes(self, episode: Episode, approval: Approval) -> None:
        """Require that people approved, or that nobody answered in time and the episode acts on
        silence. Raises: SafetyError."""
        is_expired = approval.status is ApprovalStatus.EXPIRED
        if is_expired and episode.asking.acts_on_silence and episode.asking.schedule is not None:
            # Whatever the workflow says, silence counts only after the time to answer.
            if self.clock.now() < approval.expires_at - RETRIES_OF_A_STAGE:
                raise SafetyError("nobody answered, but the time to answer is not over")
            return
        if approval.status is not ApprovalStatus.APPROVED:
            raise SafetyError(f"the approval is {approval.status.value}, not APPROVED")

    def _same_rules(
        self, episode: Episode, instance: Instance, record: InstanceRecord
    ) -> AppliedPolicy:
        """Return today's policy, each compared setting as strict as it was when people were asked.

        Raises: SafetyError if the policy no longer governs the instance, an exemption or a keep is
        on it, its mode is another, or the settings of then and today do not fit together;
        PolicyError; CloudError.
        """
        applied = self._todays_policy(episode, instance)
        asked_under = episode.asking.asked_under
        self._must_be_governed(instance, asked_under)
        must_not_carry_exemption(instance, applied.policy, asked_under)
        self._must_not_be_kept(record)
        mode = mode_of(applied.policy, episode.plan)
        if mode is not episode.mode:
            raise SafetyError(
                f"the policy's mode has changed from {episode.mode.value} to {mode.value}"
            )
        if asked_under is None:
            return applied
        try:
            stricter_policy = asked_under.stricter(applied.policy)
            return replace(applied, policy=stricter_policy)
        except SettingError as error:
            raise SafetyError(
                f"today's policy does not fit the policy of the question: {error}"
            ) from None

    def _must_be_governed(self, instance: Instance, asked_under: AskedUnder | None) -> None:
        """Require that today's policy governs the instance, and that the selector of the question
        still selects it, if `asked_under` has recorded one. Raises: SafetyError."""
        why = self.accounts.why_ungoverned(self.policies.base().policy, instance)
        if why is not None:
            raise SafetyError(why)
        selector = None if asked_under is None else asked_under.selector
        if selector is not None and not selector.is_on(instance):
            raise SafetyError(f"the instance no longer carries {selector}")

    def _must_not_be_kept(self, record: InstanceRecord) -> None:
        """Require that nobody has exempted or snoozed the instance by an answer. Raises:
        SafetyError."""
        if record.hold.exempt_reason is not None:
            raise SafetyError("the instance was exempted by decision")
        snoozed_until = record.hold.snoozed_until
        if snoozed_until is not None and self.clock.now() < snoozed_until:
            raise SafetyError(f"the instance is snoozed until {in_utc(snoozed_until)}")

    def _todays_policy(self, episode: Episode, instance: Instance) -> AppliedPolicy:
        """Return today's policy of the instance; for an episode about a stopped instance, or one
        that others started again, with the rules for those: only people decide, never silence and
        never mode `auto`.

        Raises: SafetyError if the earlier episode has not stopped the instance, or nobody may be
        asked about stopped instances any more; PolicyError; CloudError.
        """
        applied = self.policies.applied_to(instance)
        if episode.stopped_by_episode is None:
            if is_about_restarts(episode):
                return replace(applied, policy=only_people_decide(applied.policy))
            return applied
        earlier_episode = self.episode_store.episode(episode.stopped_by_episode)
        if earlier_episode is None or not earlier_episode.has_stopped(episode.ref):
            raise SafetyError("no earlier question has stopped it")
        asks_about_stopped = applied.policy.approval.ask_about_stopped_after_days is not None
        may_ask = asks_about_stopped or ended_unsealed(earlier_episode)
        if BY_BUDGET in applied.overrides or not may_ask:
            raise SafetyError("the policy no longer asks about stopped instances")
        return replace(applied, policy=about_stopped(applied.policy))

    def _must_have_same_plan(
        self, episode: Episode, instance: Instance, applied: AppliedPolicy
    ) -> None:
        """Require that a plan drawn now has the same steps, on a machine with the same type and no
        other volumes. Raises: SafetyError; CloudError."""
        plan = self.inspect.plan(instance, applied.policy).plan
        if plan.steps != episode.plan.steps:
            steps = " -> ".join(plan.steps) or "nothing"
            why = f" ({'; '.join(plan.replaced_because)})" if plan.replaced_because else ""
            raise SafetyError(f"the plan would now be different: {steps}{why}")
        must_be_same_machine(episode, instance)
