"""Starts an instance again that an episode has stopped. The only use case that can start one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from governor import ports
from governor.domain.approvals.approval import Approval, too_late
from governor.domain.approvals.messages import undo_alert
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase
from governor.domain.episode.plan import Step
from governor.domain.instance import Instance
from governor.domain.sweep.verdict import Hold
from governor.domain.units import UtcDatetime, in_utc
from governor.errors import AccessDenied, CloudError, NoCapacity, Unsupported, WrongState
from governor.ports import UndoAnswer, policy_or_base
from governor.stores import StateTable
from governor.usecases.accounts import Accounts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UndoEpisode:
    """Undoes a stop. Safe to repeat: an instance that runs is left as it is."""

    clock: ports.Clock
    policies: ports.Policies
    accounts: Accounts
    instances: ports.InstanceReader
    starter: ports.InstanceStarter
    state: StateTable
    announcer: ports.Announcer

    def __call__(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Start the instance, or say why not and what to do instead. Raises: CloudError; nothing
        was started, unless EC2's answer was lost: trying again finds it running."""
        why, now = self._why_not(ref, by, channel), self.clock.now()
        if why is None:
            return UndoAnswer(
                True, "EC2 has been asked to start it; it usually runs within a minute or two"
            )
        if self.state.episode(ref) is None:
            self.accounts.must_govern(self.policies.base().policy, ref.account, ref.region)
        self.state.journal(ref, "refused", now, step="start", reason=why, by=by, channel=channel)
        return UndoAnswer(False, why)

    def _why_not(self, ref: EpisodeRef, by: str, channel: str) -> str | None:
        """Start it and return `None`, or why it was not started."""
        episode = self.state.episode(ref)
        if episode is None:
            return "there is no such episode"
        approval = self.state.approval(episode.approval_id)
        if (refusal := _refusal(episode, approval, self.clock.now())) is not None:
            return refusal
        target = self.accounts.target(ref.account, ref.region, (ref.execution_name, by))
        instance = self.instances.describe(target, ref.instance_id)
        if instance is None or instance.state in ("shutting-down", "terminated"):
            return "the instance no longer exists"
        if (refusal := _not_startable(instance, episode)) is not None:
            return refusal
        hours = policy_or_base(self.policies, episode.instance).approval.keep_after_undo_hours
        # First, so that a table that is busy keeps it from starting instead of from being left
        # alone.
        quiet = Hold(
            snoozed_until=self.clock.now() + timedelta(hours=hours), kept_in=episode.project
        )
        self.state.stand(target, ref.instance_id, quiet)
        if self._is_being_terminated(ref):
            return (
                "EC2 has been asked to terminate it for a later question: it is too "
                "late to start it"
            )
        try:
            request = self.starter.start(target, ref.instance_id)
        except NoCapacity as error:
            where = instance.availability_zone or "its zone"
            return (
                f"EC2 has no free capacity for {instance.instance_type} in {where} at this moment "
                f"({error.code}). Nothing was lost: try again later, change its type "
                "while it is stopped, or "
                "launch another from its snapshots in another zone"
            )
        except (AccessDenied, WrongState, Unsupported) as error:
            return f"EC2 refused to start it: {error}"
        self.state.journal(
            ref, "done", self.clock.now(), step="start", request_ids=[request], by=by
        )
        self._note(episode, by, channel, quiet.snoozed_until)
        return None

    def _is_being_terminated(self, ref: EpisodeRef) -> bool:
        """Return whether a later episode has noted the call. It reads the keep above after its
        note."""
        later = self.state.record(ref.target, ref.instance_id).open_episode
        if later is None or later == ref:
            return False
        episode = self.state.episode(later)
        return episode is not None and Step.TERMINATE.value in episode.steps_done

    def _note(self, episode: Episode, by: str, channel: str, until: UtcDatetime | None) -> None:
        """Note it where that can be written: the person must hear that EC2 has been asked in any
        case."""
        now, is_first = self.clock.now(), True
        try:
            is_first = self.state.note_undo(episode.ref, by, now)
        except CloudError:
            _log.exception("an undo could not be recorded")
        try:
            if is_first:
                self.announcer.announce(undo_alert(episode, by, channel, now, until))
        except CloudError:
            _log.exception("nobody could be notified of an undo")


def _refusal(episode: Episode, approval: Approval | None, now: UtcDatetime) -> str | None:
    if episode.can_be_started:
        return None
    if episode.outcome is Outcome.TERMINATED:
        return (
            "a terminated instance cannot be started; the record says what is needed to rebuild it"
        )
    if episode.undone_at is not None:
        return f"{episode.undone_by} has already had it started, on {in_utc(episode.undone_at)}"
    if (
        episode.phase is not Phase.CLOSED
        and episode.plan.destroys
        and Step.STOP in episode.steps_done
    ):
        if approval is not None and approval.brake is not None:
            return "it is on hold, and its record is being closed: try again in 15 minutes"
        return (
            too_late(episode, now)
            or "its plan is still being carried out: hold it first, then try again"
        )
    return "this episode did not stop the instance, so there is nothing to undo"


def _not_startable(instance: Instance, episode: Episode) -> str | None:
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
