"""Notifies or asks about an episode, and binds the waiting task to the approval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.domain.approvals.approval import ApprovalStatus, Stage
from governor.domain.approvals.links import EVERYBODY, LinkSigner
from governor.domain.approvals.messages import stage_alert, waiting_alert
from governor.domain.episode.episode import Episode, EpisodeRef, Phase
from governor.domain.policy.contacts import addresses, list_addresses
from governor.domain.policy.policy import ApprovalRule, Mode
from governor.domain.units import UtcDatetime
from governor.errors import InputError, MustWait, SafetyError
from governor.ports import Announcer, Clock, Policies, Workflow
from governor.stores import StateTable
from governor.usecases.approvals.deliver_decision import answer_document, asked_about
from governor.usecases.brakes import frozen


@dataclass(frozen=True, slots=True)
class Asked:
    """`heard`: those who are asked have the message. `settled`: there is nothing to ask any
    more."""

    heard: bool
    settled: bool = False


@dataclass(frozen=True, slots=True)
class AskOwner:
    clock: Clock
    policies: Policies
    state: StateTable
    workflow: Workflow
    announcer: Announcer
    signer: LinkSigner

    def __call__(
        self, ref: EpisodeRef, stage: Stage, task_token: str | None, reason: str = ""
    ) -> Asked:
        """Send the message of the stage, if it has one, and bind the task that waits.

        Raises: MustWait while plans are frozen; SafetyError for no such episode, one that is over,
        or waited too long for a freeze; InputError for the wrong kind of task token; NobodyListens:
        no clock may run; CloudError: the message was not taken.
        """
        if (task_token is None) != (stage in (Stage.TELL, Stage.ASK, Stage.WAIT)):
            needs = "needs one" if task_token is None else "takes none"
            raise InputError(f"task_token: stage {stage.value} {needs}")
        episode = asked_about(self.state, ref)
        if episode.phase is Phase.CLOSED:
            raise SafetyError("the episode is over: nobody is asked about it")
        if stage is Stage.WAIT:
            return self._notify_waiting(episode, reason)
        is_heard = episode.mode is Mode.OBSERVE or self._is_theirs(episode)
        # A notice counts from a delivery that is on record, and ends when check_progress says so.
        is_heard = is_heard and not episode.gives_notice
        now = self.clock.now()
        if stage is Stage.TELL:
            self.announcer.announce(stage_alert(episode, stage, now, self._link(episode)))
            return Asked(heard=is_heard)
        if stage is Stage.ASK:
            self._must_not_be_frozen(episode, now)
        until = expires_at = self._expiry(episode, stage, now)
        if stage is Stage.ASK:
            # The time to answer begins when a channel has the message; until then it may be
            # answered, too.
            expires_at += timedelta(minutes=self._rule(episode).delivery_limit_minutes)
        approval = self.state.await_answer(episode.approval_id, task_token, stage.value, expires_at)
        if approval.status is not ApprovalStatus.PENDING:
            if task_token is not None:
                # Decided between two stages: the earlier token no longer waits, this one does.
                self.workflow.answer(task_token, answer_document(approval))
            return Asked(heard=True, settled=True)
        urges = stage not in (Stage.ASK, Stage.AWAIT)
        # Nobody is urged to answer a question about what an outage may show as idle.
        if stage is not Stage.AWAIT and not (urges and self._why_frozen(episode, now)):
            self.announcer.announce(stage_alert(episode, stage, now, self._link(episode), until))
        return Asked(heard=is_heard)

    def _is_theirs(self, episode: Episode) -> bool:
        """Return whether the topic mails it to one who is asked. Raises: NobodyListens."""
        asked = self.policies.base().policy.ownership.asked(episode.owner, episode.project)
        return self.announcer.reaches({*addresses(asked), *list_addresses(asked)})

    def _must_not_be_frozen(self, episode: Episode, now: UtcDatetime) -> None:
        """A question about what an outage shows as idle is not asked, and not answered in good
        faith."""
        planned, approval = episode.schedule, self.state.approval(episode.approval_id)
        if approval is None or approval.status is not ApprovalStatus.PENDING:
            return
        why = self._why_frozen(episode, now)
        if why is None:
            return
        hours = self._rule(episode).wait_at_most_hours
        if now - (planned.ask_at if planned else episode.opened_at) < timedelta(hours=hours):
            raise MustWait(why)
        raise SafetyError(f"{why}; the question waited for {hours} h (approval.wait_at_most_hours)")

    def _why_frozen(self, episode: Episode, now: UtcDatetime) -> str | None:
        return frozen(self.state, episode.ref.target, self.policies.base().policy.breaker, now)

    def _notify_waiting(self, episode: Episode, reason: str) -> Asked:
        approval, now = self.state.approval(episode.approval_id), self.clock.now()
        if approval is not None and approval.waits_told_at is None:
            hours = self._rule(episode).wait_at_most_hours
            link = self._link(episode)
            self.announcer.announce(waiting_alert(episode, approval, reason, hours, now, link))
            self.state.note_waits_told(approval.approval_id, now)
        return Asked(heard=True)

    def _expiry(self, episode: Episode, stage: Stage, now: UtcDatetime) -> UtcDatetime:
        planned = episode.schedule
        if planned is None:
            raise SafetyError("nobody is asked about this episode")
        begins = {Stage.REMIND: planned.remind_at, Stage.ESCALATE: planned.escalate_at}
        return now + (planned.expire_at - begins.get(stage, planned.ask_at))

    def _rule(self, episode: Episode) -> ApprovalRule:
        return self.policies.applied_to(episode.instance).policy.approval

    def _link(self, episode: Episode) -> str:
        return self.signer.link(episode.approval_id, EVERYBODY)
