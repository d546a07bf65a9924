"""The guards in front of every EC2 write call of an episode, in one place.

They read everything anew and trust nothing that travelled through a state machine but the episode's
name. One that does not hold raises `SafetyError`; there is no way around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.alerts.alert import owner_of
from governor.domain.approvals.approval import (
    Approval,
    ApprovalStatus,
    Decision,
    notice_until,
    silence_from,
)
from governor.domain.approvals.sealing import ended_unsealed
from governor.domain.approvals.terms import stricter, terms_of, was_rightly_approved
from governor.domain.episode.episode import Episode, EpisodeRef, InstanceRecord, Phase
from governor.domain.episode.plan import Step, about_stopped, acts_on_silence, mode_of
from governor.domain.evidence import evidence_hash
from governor.domain.instance import EPISODE_TAG, Instance, Snapshot, Target
from governor.domain.policy.contacts import is_address
from governor.domain.policy.policy import BY_BUDGET, AppliedPolicy, Mode, Policy
from governor.domain.settings import SettingError
from governor.domain.sweep.verdict import NO_HOLD
from governor.domain.units import UtcDatetime, in_utc, minutes
from governor.errors import (
    CloudError,
    GovernorError,
    Held,
    Interrupted,
    MustWait,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.ports import Clock, Policies, Snapshotter
from governor.stores import StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.approvals.deliver_decision import asked_about
from governor.usecases.brakes import (
    RefusedAnswers,
    Unanswered,
    caps_of,
    frozen,
    frozen_by_breaker,
    paused,
)
from governor.usecases.episode.seals import CheckSeals
from governor.usecases.evidence.inspect_instance import InspectInstance

_A_RECHECK_HOLDS_FOR = timedelta(minutes=2)
"""The longest time between a recheck and the call that it lets through: two invocations with cold
starts."""
_RETRIES_OF_A_STAGE = timedelta(minutes=15)
"""A stage's clock starts with its task, and its expiry is written after retries of that, minutes at
most."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Findings of the guards. `caps` are the most actions in an hour by what is capped.
    `unanswered`: nobody has answered or held it, and no step was begun; the policy takes that for a
    yes."""

    episode: Episode
    instance: Instance
    applied: AppliedPolicy
    dry_run: bool
    unanswered: Unanswered | None
    caps: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Guards:
    clock: Clock
    policies: Policies
    accounts: Accounts
    inspect: InspectInstance
    state: StateTable
    snapshots: Snapshotter
    refused: RefusedAnswers
    seals: CheckSeals

    @contextmanager
    def journaled(self, ref: EpisodeRef, step: Step) -> Iterator[None]:
        """Keep for the audit why the step was not done: a guard, a freeze, a cap, or EC2 refused
        it."""
        try:
            yield
        except (Throttled, Unavailable):
            raise  # Nothing refused it: it is tried again.
        except GovernorError as error:
            if self.state.episode(ref) is None:
                self.accounts.must_govern(self.policies.base().policy, ref.account, ref.region)
            name = type(error).__name__
            with suppress(CloudError):
                self.state.note_no(ref, name, str(error))
            why = f"{name}: {error}"
            self.state.journal(ref, "refused", self.clock.now(), step=step.value, reason=why)
            raise

    def clear(self, ref: EpisodeRef, step: Step) -> Cleared:
        """Let the step through, with the facts it rests on. Raises: MustWait, MetricsLate, or as
        `check`."""
        cleared = self.check(ref, step)
        if (why := self.held_back(cleared, step)) is not None:
            raise MustWait(why)
        return cleared

    def held_back(self, cleared: Cleared, step: Step) -> str | None:
        """Return why the step waits: everything is paused, plans are frozen, or people had no time
        or no way to answer. Raises: MetricsLate while it is not known whether answers were
        refused."""
        now = self.clock.now()
        episode, unanswered = cleared.episode, cleared.unanswered
        why = self._frozen(cleared, step)
        if why is not None or unanswered is None:
            return why
        if episode.mode is Mode.ASK:
            counts = silence_from(episode, self.seals.deliveries(episode, step))
            if counts is None:
                return (
                    "nobody answered, but not both question and escalation were "
                    "delivered to those who are "
                    "asked"
                )
            if now < counts - _RETRIES_OF_A_STAGE:
                return (
                    "nobody answered, but a message was late: there is time to answer "
                    f"until {in_utc(counts)}"
                )
        return self.refused(unanswered, now)

    def _frozen(self, cleared: Cleared, step: Step) -> str | None:
        """Return why the step is frozen. A pause lets a copy be made of what is already stopped."""
        rule = self.policies.base().policy.breaker
        target = cleared.instance.target
        copies_what_is_stopped = step is Step.SNAPSHOT and Step.STOP in cleared.episode.plan.steps
        if copies_what_is_stopped:
            return frozen_by_breaker(self.state, target, rule, self.clock.now())
        return frozen(self.state, target, rule, self.clock.now())

    def check(self, ref: EpisodeRef, step: Step) -> Cleared:
        """Check all that time alone does not open. Raises: Held; Interrupted; SafetyError, which
        says which guard does not hold; CloudError when something could not be read."""
        episode = self.open_episode(ref)
        if step not in episode.plan.steps:
            raise SafetyError(f"{step.value} is not part of the plan that was asked about")
        approval = self._approval(episode)
        self.seals(episode, approval, step)
        who = approval.approvers if approval else f"mode {episode.mode.value}"
        target = self.accounts.target(ref.account, ref.region, (ref.execution_name, who))
        instance = self.inspect.describe(target, ref.instance_id)
        if instance is None:
            raise SafetyError("the instance no longer exists")
        if instance.launch_time != ref.launch_time:
            raise SafetyError("the instance was restarted since it was asked about")
        record = self.state.record(instance.target, instance.instance_id)
        # What keeps a copy destroys nothing.
        if step is not Step.SNAPSHOT and record.is_warned(self.clock.now()):
            raise Interrupted(
                "EC2 has announced that it takes the instance back: it may be saving its work"
            )
        if step is Step.SNAPSHOT and episode.begun_at is not None:
            # It came too late to hold the stop; what is stopped gets its copy.
            record = replace(record, hold=NO_HOLD)
        applied = self._same_rules(episode, instance, record)
        if approval is not None:
            _authorised(episode, approval, applied.policy)
        unanswered = self._unanswered(episode, approval, applied.policy, step)
        if step is not Step.SNAPSHOT:
            _same_owner(episode, instance, applied.policy)
        self._same_plan(episode, instance, applied)
        caps = caps_of(episode, self.policies.base().policy.caps)
        return Cleared(episode, instance, applied, episode.mode is Mode.OBSERVE, unanswered, caps)

    def must_still_hold(self, cleared: Cleared) -> None:
        """Look once more, after the call was noted, at what others may have stored since the guards
        read it.

        An answer that comes after the note is told that it may be too late; one that came before is
        seen here. Raises: MustWait, so that the recheck says what it means; SafetyError where the
        episode has ended, as it does when its workflow is aborted; CloudError.
        """
        now = self.clock.now()
        instance = cleared.instance
        record = self.state.record(instance.target, instance.instance_id)
        if record.open_episode != cleared.episode.ref:
            raise SafetyError("the episode has ended at this moment")
        if record.is_warned(now):
            raise MustWait("EC2 has announced that it takes the instance back")
        if record.hold.stands(now):
            raise MustWait("a keep or an exemption was stored at this moment")
        rule = self.policies.base().policy.breaker
        # The pause last: it is a person's press, and nothing else is read between it and the call.
        why = frozen_by_breaker(self.state, instance.target, rule, now) or paused(self.state)
        if why is not None:
            raise MustWait(why)

    def open_episode(self, ref: EpisodeRef) -> Episode:
        episode = asked_about(self.state, ref)
        if episode.phase is Phase.CLOSED:
            outcome = episode.outcome.value if episode.outcome else "closed"
            raise SafetyError(f"the episode is over: {outcome}")
        return episode

    def snapshots_must_be_completed(self, cleared: Cleared) -> None:
        """Each EBS volume has a completed snapshot of the episode's own. Raises: SafetyError."""
        found = self.own_snapshots(cleared.episode, cleared.instance.target)
        completed = {snapshot.volume_id for snapshot in found if snapshot.state == "completed"}
        wanted = cleared.instance.volume_ids | cleared.episode.instance.volume_ids
        missing = sorted(wanted - completed)
        if missing or not wanted:
            which = ", ".join(missing) or "any volume"
            raise SafetyError(f"no completed snapshot of {which}: nothing is destroyed")

    def user_data_must_be_kept(self, cleared: Cleared) -> None:
        """As it is now: EC2 lets it be changed while the instance is stopped. Raises:
        SafetyError."""
        kept, instance = cleared.episode.user_data, cleared.instance
        if kept is None:
            raise SafetyError("no copy of its user data was kept: nothing is destroyed")
        if not kept.is_of(self.snapshots.user_data(instance.target, instance.instance_id)):
            raise SafetyError(
                "its user data was changed since a copy was kept: nothing is destroyed"
            )

    def own_snapshots(self, episode: Episode, target: Target) -> list[Snapshot]:
        """Return the recorded snapshots of recorded volumes, in the instance's account, begun after
        the step was noted: it was seen stopped then or, where it runs on, approved. A tag counts
        for nothing."""
        since = episode.steps_done.get(Step.SNAPSHOT.value)
        return [
            snapshot
            for snapshot in self.snapshots.find(target, {EPISODE_TAG: episode.ref.execution_name})
            if since is not None
            and episode.snapshots.get(snapshot.snapshot_id) == snapshot.volume_id
            and snapshot.counts(episode.ref.account, since)
        ]

    def _approval(self, episode: Episode) -> Approval | None:
        """Return the yes that mode `ask` needs, or the expiry that is one; other modes need
        nobody."""
        if evidence_hash(episode.evidence) != episode.evidence_hash:
            raise SafetyError("the evidence of the episode was altered after it was frozen")
        approval = self.state.approval(episode.approval_id)
        held_by = None if approval is None else _held_by(approval, episode)
        if held_by is not None:
            raise Held(held_by.why)
        match episode.mode:
            case Mode.OBSERVE | Mode.AUTO:
                return None
            case Mode.ASK:
                pass
        if approval is None or approval.episode != episode.ref:
            raise SafetyError("there is no approval for this episode")
        if approval.evidence_hash != episode.evidence_hash:
            raise SafetyError("the approval was given for other evidence")
        if (
            approval.status is ApprovalStatus.EXPIRED
            and episode.acts_on_silence
            and episode.schedule
        ):
            # Silence is a yes when its time is over, however the workflow came to think so.
            if self.clock.now() < approval.expires_at - _RETRIES_OF_A_STAGE:
                raise SafetyError("nobody answered, but the time to answer is not over")
            return approval
        if approval.status is not ApprovalStatus.APPROVED:
            raise SafetyError(f"the approval is {approval.status.value}, not APPROVED")
        return approval

    def _unanswered(
        self, episode: Episode, approval: Approval | None, policy: Policy, step: Step
    ) -> Unanswered | None:
        """Return the time that nobody has used to answer, or to hold what mode auto does, once it
        is over; it counts until the first step, and what was begun is gone on with. Raises:
        SafetyError, before."""
        begun, asked, rule = bool(episode.steps_done), episode.schedule, policy.approval
        if approval is not None and asked is not None and approval.status is ApprovalStatus.EXPIRED:
            length = asked.expire_at - asked.ask_at
            if not begun:
                return Unanswered("nobody answered", length, approval.expires_at)
            self._silence_must_have_counted(episode, step)
            return None
        if episode.mode is not Mode.AUTO:
            return None
        known = self.seals.deliveries(episode, step)
        over = notice_until(episode, known, 0.0 if begun else rule.notice_minutes)
        if over is None:
            raise SafetyError("no channel has delivered the alert to those whom it is for")
        if self.clock.now() < over:
            raise SafetyError(f"the notice period is not over before {in_utc(over)}")
        if begun:
            return None
        length = max(episode.notice_length, timedelta(minutes=rule.notice_minutes))
        return Unanswered("nobody held it", length, over)

    def _silence_must_have_counted(self, episode: Episode, step: Step) -> None:
        """A note that a step was begun shortens nobody's time: several roles can write it. Raises:
        SafetyError."""
        counts = silence_from(episode, self.seals.deliveries(episode, step))
        if counts is None or self.clock.now() < counts - _RETRIES_OF_A_STAGE:
            raise SafetyError(
                "the record says that a step began before the time to answer was over"
            )

    def _same_rules(
        self, episode: Episode, instance: Instance, record: InstanceRecord
    ) -> AppliedPolicy:
        """The policy of now, and of what it was asked under whatever proves more."""
        applied, asked = self._applied(episode, instance), episode.asked_under
        if (why := self.accounts.ungoverned(self.policies.base().policy, instance)) is not None:
            raise SafetyError(why)
        if asked and asked.selector and not asked.selector.is_on(instance):
            raise SafetyError(f"the instance no longer carries {asked.selector}")
        for exemption in (applied.policy.exemption, *((asked.exemption,) if asked else ())):
            if (tag := exemption.like_it_on(instance)) is not None:
                raise SafetyError(f"the instance is exempt: {tag}")
        if record.hold.exempt_reason is not None:
            raise SafetyError("the instance was exempted by decision")
        if (until := record.hold.snoozed_until) is not None and self.clock.now() < until:
            raise SafetyError(f"the instance is snoozed until {in_utc(until)}")
        mode = mode_of(applied.policy, episode.plan)
        if mode is not episode.mode:
            raise SafetyError(
                f"the policy's mode went from {episode.mode.value} to {mode.value} meanwhile"
            )
        try:
            return replace(applied, policy=asked.stricter(applied.policy)) if asked else applied
        except SettingError as error:
            raise SafetyError(
                f"today's policy does not fit the one that it was asked under: {error}"
            ) from None

    def _applied(self, episode: Episode, instance: Instance) -> AppliedPolicy:
        """Return the policy of now. Raises: SafetyError where an episode is said to have stopped
        it, and has not, or nobody may be asked about stopped instances any more."""
        applied = self.policies.applied_to(instance)
        if episode.stopped_in is None:
            return applied
        before = self.state.episode(episode.stopped_in)
        if before is None or not before.has_stopped(episode.ref):
            raise SafetyError("no episode before has stopped it for good")
        may_ask = (
            applied.policy.approval.ask_about_stopped_after_days is not None
            or ended_unsealed(before)
        )
        if BY_BUDGET in applied.overrides or not may_ask:
            raise SafetyError("the policy no longer lets people be asked about stopped instances")
        return replace(applied, policy=about_stopped(applied.policy))

    def _same_plan(self, episode: Episode, instance: Instance, applied: AppliedPolicy) -> None:
        """Classification, lifecycle and protection flags, all at once: they must still lead to the
        plan."""
        _, plan, _ = self.inspect.plan(instance, applied.policy)
        if plan.steps != episode.plan.steps:
            now = " -> ".join(plan.steps) or "nothing"
            why = f" ({'; '.join(plan.replaced_because)})" if plan.replaced_because else ""
            raise SafetyError(f"the plan would be another now: {now}{why}")
        asked = {
            volume.volume_id: volume.delete_on_termination for volume in episode.instance.volumes
        }
        for volume in instance.volumes:
            if volume.delete_on_termination is not asked.get(
                volume.volume_id, volume.delete_on_termination
            ):
                which = volume.volume_id
                raise SafetyError(
                    f"DeleteOnTermination of {which} was changed since it was asked about"
                )
        if instance.instance_type != episode.instance.instance_type:
            raise SafetyError(
                f"its type was changed to {instance.instance_type} since it was asked about"
            )
        if added := sorted(instance.volume_ids - asked.keys()):
            raise SafetyError(f"volumes were attached since it was asked about: {', '.join(added)}")


def _held_by(approval: Approval, episode: Episode) -> Decision | None:
    """Return the hold that counts; one that came during a call counts once that call is
    forgotten."""
    if approval.brake is None and episode.begun_at is None:
        return approval.late_hold
    return approval.brake


def _same_owner(episode: Episode, instance: Instance, policy: Policy) -> None:
    """It is the owner's and the project's still; an address has no letter case. Raises:
    SafetyError."""
    now = owner_of(instance, policy.ownership)
    for what, was, found in (
        ("owner", episode.owner, now.name),
        ("project", episode.project, now.project),
    ):
        if found != was and not (is_address(was) and found.lower() == was.lower()):
            raise SafetyError(
                f"its {what} was changed from {was} to {found} since it was asked about"
            )


def _authorised(episode: Episode, approval: Approval, policy: Policy) -> None:
    """The answer, or the silence, is a yes by the terms of the question and by those of today's
    policy."""
    if approval.status is ApprovalStatus.EXPIRED:
        if not acts_on_silence(policy, episode.plan):
            raise SafetyError("nobody answered, and the policy no longer acts on silence")
        return
    terms = stricter(episode.terms, terms_of(policy, episode.plan, episode.price))
    if not was_rightly_approved(terms, episode.plan, approval):
        raise SafetyError("the approval was not given by those who may give it")


def must_be_rechecked(cleared: Cleared, steps: Collection[Step]) -> None:
    """The last recheck was for one of these steps. Raises: SafetyError."""
    episode = cleared.episode
    if episode.phase is not Phase.ACTING or episode.cleared_step is None:
        raise SafetyError(
            f"the episode is {episode.phase.value}: it was not rechecked before acting"
        )
    if episode.cleared_step not in steps:
        wanted = " or ".join(step.value for step in steps)
        raise SafetyError(f"the last recheck let {episode.cleared_step} through, not {wanted}")


def must_be_fresh(cleared: Cleared, step: Step, now: UtcDatetime) -> UtcDatetime:
    """Return when the step was rechecked: each call needs a recheck of its own, just before it.

    Raises: MustWait.
    """
    episode = cleared.episode
    cleared_at = episode.cleared_at
    sent_at = episode.steps_done.get(step.value)
    if cleared_at is None:
        raise MustWait("there was no recheck yet: everything is checked first")
    # The release before this one noted a call, and not that it used up the recheck.
    was_sent_since = sent_at is not None and sent_at >= cleared_at
    if episode.is_clearance_used or was_sent_since:
        raise MustWait(
            "EC2 was asked after the last recheck: everything is checked again before the next call"
        )
    if now - cleared_at > _A_RECHECK_HOLDS_FOR:
        raise MustWait(
            f"the last recheck was {minutes(now - cleared_at)} min ago: everything is checked again"
        )
    return cleared_at
