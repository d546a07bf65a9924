"""Starts an instance again that an episode has stopped. The only use case that can start one.

This module must not start an instance that somebody else started or stopped since.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from governor.alerts.ports import Announcer
from governor.approvals.messages.questions import undo_alert
from governor.approvals.model.approval import Approval
from governor.approvals.rules.approval import why_too_late
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConflictError,
    NoCapacity,
    Unsupported,
    WrongState,
)
from governor.core.instance import Instance, Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_utc
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.episode.model.plan import Step
from governor.episode.ports import InstanceStarter, UndoAnswer
from governor.episode.store.episodes import Episodes
from governor.episode.store.holds import Holds
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.policy.accounts import Accounts
from governor.policy.ports import Policies, policy_or_base
from governor.verdict.model import Hold

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UndoEpisode:
    """Undoes a stop. Safe to repeat: an instance that runs is left as it is."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    starter: InstanceStarter
    episode_store: Episodes
    approval_store: Approvals
    hold_store: Holds
    instance_store: Instances
    announcer: Announcer

    def __call__(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Start the instance, or answer why it was not started and what to do instead.

        `by` is the person who asked, `channel` the way they asked. Raises: CloudError; nothing was
        started, unless EC2's answer was lost. Trying again then finds the instance running.
        """
        refusal = self._start(ref, by, channel)
        now = self.clock.now()
        if refusal is None:
            return UndoAnswer(
                done=True,
                text="EC2 has been asked to start it; it usually runs within a minute or two",
            )
        if self.episode_store.episode(ref) is None:
            self.accounts.require_governed(self.policies.base().policy, ref.account, ref.region)
        self.episode_store.journal(
            ref, "refused", now, step="start", reason=refusal, by=by, channel=channel
        )
        return UndoAnswer(done=False, text=refusal)

    def _start(self, ref: EpisodeRef, by: str, channel: str) -> str | None:
        """Start the instance, and return `None`; or return why it was not started. Raises:
        CloudError."""
        episode = self.episode_store.episode(ref)
        if episode is None:
            return "there is no such episode"
        approval = self.approval_store.approval(episode.approval_id)
        refusal = _refusal(episode, approval, self.clock.now())
        if refusal is not None:
            return refusal
        target = self.accounts.target(ref.account, ref.region, (ref.execution_name, by))
        instance = self.instances.describe(target, ref.instance_id)
        if instance is None or instance.state in ("shutting-down", "terminated"):
            return "the instance no longer exists"
        refusal = _not_startable(instance, episode)
        if refusal is not None:
            return refusal
        return self._start_stopped(episode, target, instance, by, channel)

    def _start_stopped(
        self, episode: Episode, target: Target, instance: Instance, by: str, channel: str
    ) -> str | None:
        """Keep the stopped instance for a while, start it, and return `None`; or return why it was
        not started. Raises: CloudError."""
        ref = episode.ref
        # The keep is stored before the start: if the table is busy, the instance stays stopped.
        # Otherwise it would run without the keep, and people would be asked about it again.
        keep = self._keep(episode)
        try:
            self.hold_store.store_hold(target, ref.instance_id, keep)
        except ConflictError:
            return "others changed its keep at this moment: press once more"
        if self._is_being_terminated(ref):
            return (
                "EC2 has been asked to terminate it for a later question: it is too "
                "late to start it"
            )
        try:
            request_id = self.starter.start(target, ref.instance_id)
        except NoCapacity as error:
            return _no_capacity(instance, error)
        except (AccessDenied, WrongState, Unsupported) as error:
            return f"EC2 refused to start it: {error}"
        now = self.clock.now()
        self.episode_store.journal(ref, "done", now, step="start", request_ids=[request_id], by=by)
        self._note(episode, by, channel, keep.snoozed_until)
        return None

    def _keep(self, episode: Episode) -> Hold:
        """Return the keep that follows an undo."""
        hours = policy_or_base(self.policies, episode.instance).approval.keep_after_undo_hours
        until = self.clock.now() + timedelta(hours=hours)
        return Hold(snoozed_until=until, kept_in=episode.project)

    def _is_being_terminated(self, ref: EpisodeRef) -> bool:
        """Return whether a later episode has noted its call to terminate the instance.

        An episode that notes the call after this look sees the keep, which is stored by now, before
        it calls EC2.
        """
        later = self.instance_store.record(ref.target, ref.instance_id).open_episode
        if later is None or later == ref:
            return False
        episode = self.episode_store.episode(later)
        return episode is not None and Step.TERMINATE.value in episode.progress.steps_done

    def _note(self, episode: Episode, by: str, channel: str, until: UtcDatetime | None) -> None:
        """Record the undo, and notify people once. A CloudError is only logged, because the person
        must learn in any case that EC2 was asked."""
        now = self.clock.now()
        is_first = True
        try:
            is_first = self.episode_store.note_undo(episode.ref, by, now)
        except CloudError:
            _log.exception("an undo could not be recorded")
        try:
            if is_first:
                self.announcer.announce(undo_alert(episode, by, channel, now, until))
        except CloudError:
            _log.exception("nobody could be notified of an undo")


def _refusal(episode: Episode, approval: Approval | None, now: UtcDatetime) -> str | None:
    """Return why the record of the episode allows no start; `None` if it allows one."""
    if episode.can_be_started:
        return None
    if episode.outcome is Outcome.TERMINATED:
        return (
            "a terminated instance cannot be started; the record says what is needed to rebuild it"
        )
    undo = episode.undo
    if undo is not None:
        return f"{undo.by} has already had it started, on {in_utc(undo.at)}"
    is_acting = episode.phase is not Phase.CLOSED and Step.STOP in episode.progress.steps_done
    if is_acting and episode.plan.destroys:
        if approval is not None and approval.hold is not None:
            return "it is on hold, and its record is being closed: try again in 15 minutes"
        return (
            why_too_late(episode, now)
            or "its plan is still being carried out: hold it first, then try again"
        )
    return "this episode did not stop the instance, so there is nothing to undo"


def _not_startable(instance: Instance, episode: Episode) -> str | None:
    """Return why the instance cannot be started in its state; `None` if it can."""
    if instance.state in ("pending", "running"):
        return "it runs already"
    if instance.launch_time != episode.ref.launch_time:
        return (
            "it has been started and stopped by others since; start it in the console "
            "if it is still yours"
        )
    if instance.state != "stopped":
        return f"it is still {instance.state}; try again in a minute"
    return None


def _no_capacity(instance: Instance, error: NoCapacity) -> str:
    """Return the answer that EC2 has no free capacity, and what to do instead."""
    where = instance.availability_zone or "its zone"
    return (
        f"EC2 has no free capacity for {instance.instance_type} in {where} at this moment "
        f"({error.code}). Nothing was lost: try again later, change its type "
        "while it is stopped, or "
        "launch another from its snapshots in another zone"
    )
