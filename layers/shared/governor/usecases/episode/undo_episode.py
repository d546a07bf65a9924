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
from governor.domain.units import UtcDatetime, iso
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
        """Start the instance, or say why not and what to do instead.

        Raises: CloudError. Nothing was started, unless EC2's answer was lost: trying again finds it running.
        """
        answer, now = self._undo(ref, by, channel), self.clock.now()
        if not answer.done:
            self.state.journal(ref, "refused", now, step="start", reason=answer.text, by=by, channel=channel)
        return answer

    def _undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        episode = self.state.episode(ref)
        if episode is None:
            return UndoAnswer(False, "there is no such episode")
        approval = self.state.approval(episode.approval_id)
        if (refusal := _refusal(episode, approval, self.clock.now())) is not None:
            return UndoAnswer(False, refusal)
        target = self.accounts.target(ref.account, ref.region, (ref.execution_name, by))
        instance = self.instances.describe(target, ref.instance_id)
        if instance is None or instance.state in ("shutting-down", "terminated"):
            return UndoAnswer(False, "the instance no longer exists")
        if (refusal := _not_startable(instance, episode)) is not None:
            return UndoAnswer(False, refusal)
        hours = policy_or_base(self.policies, episode.instance).approval.keep_after_undo_hours
        # First, so that a table that is busy keeps it from starting instead of from being left alone.
        quiet = Hold(snoozed_until=self.clock.now() + timedelta(hours=hours))
        self.state.stand(target, ref.instance_id, quiet)
        try:
            request = self.starter.start(target, ref.instance_id)
        except NoCapacity as error:
            where = instance.availability_zone or "its zone"
            return UndoAnswer(
                False,
                f"EC2 has no free capacity for {instance.instance_type} in {where} at this moment "
                f"({error.code}). Nothing was lost: try again later, change its type while it is stopped, or "
                "launch another from its snapshots in another zone",
            )
        except (AccessDenied, WrongState, Unsupported) as error:
            return UndoAnswer(False, f"EC2 refused to start it: {error}")
        self.state.journal(ref, "done", self.clock.now(), step="start", request_ids=[request], by=by)
        if self._note(ref, by):
            self._tell(episode, by, channel)
        return UndoAnswer(True, "EC2 has been asked to start it; it usually runs within a minute or two")

    def _note(self, ref: EpisodeRef, by: str) -> bool:
        """EC2 has been asked: the person must hear that, whether or not it can be written down."""
        try:
            return self.state.note_undo(ref, by, self.clock.now())
        except CloudError:
            _log.exception("an undo could not be recorded")
            return True

    def _tell(self, episode: Episode, by: str, channel: str) -> None:
        """The instance starts whether or not others can be notified: a failure here is none of the undo."""
        try:
            self.announcer.announce(undo_alert(episode, by, channel, self.clock.now()))
        except CloudError:
            _log.exception("nobody could be notified of an undo")


def _refusal(episode: Episode, approval: Approval | None, now: UtcDatetime) -> str | None:
    if episode.can_be_started:
        return None
    if episode.outcome is Outcome.TERMINATED:
        return "a terminated instance cannot be started; the record says what is needed to rebuild it"
    if episode.undone_at is not None:
        return f"{episode.undone_by} has already had it started, on {iso(episode.undone_at)}"
    if episode.phase is not Phase.CLOSED and episode.plan.destroys and Step.STOP in episode.steps_done:
        if approval is not None and approval.brake is not None:
            return "it is on hold, and its record is being closed: try again in five minutes"
        return too_late(episode, now) or "its plan is still being carried out: hold it first, then try again"
    return "this episode did not stop the instance, so there is nothing to undo"


def _not_startable(instance: Instance, episode: Episode) -> str | None:
    if instance.state in ("pending", "running"):
        return "it runs already"
    if instance.launch_time != episode.ref.launch_time:
        return "it has been started and stopped by others since; start it in the console if it is still yours"
    if instance.state != "stopped":
        return f"it is still {instance.state}; try again in a minute"
    return None
