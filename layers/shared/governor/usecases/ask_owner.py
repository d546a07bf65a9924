"""Tells or asks about an episode, and binds the waiting task to the approval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from governor.domain.approval import ApprovalStatus
from governor.domain.episode import Episode, EpisodeRef
from governor.domain.messages import Stage, stage_alert
from governor.domain.policy import ApprovalRule, Mode
from governor.domain.terms import BROADCAST
from governor.domain.units import UtcDatetime
from governor.errors import InputError, SafetyError
from governor.ports import Announcer, Clock, LinkSigner, Policies, StateTable, Workflow
from governor.usecases.deliver_decision import answer_document


@dataclass(frozen=True, slots=True)
class AskOwner:
    """One stage of the question. Returns when a channel has taken the message: then time starts."""

    clock: Clock
    policies: Policies
    state: StateTable
    workflow: Workflow
    announcer: Announcer
    signer: LinkSigner

    def __call__(self, ref: EpisodeRef, stage: Stage, task_token: str | None) -> None:
        """Sends the message of the stage.

        Raises:
            SafetyError: the episode does not exist.
            InputError: a stage that waits came without a task token.
            NobodyListens: no person would get the message, so no clock may run and nothing may be done.
            CloudError: no channel has taken the message; a retry sends it again.
        """
        episode = self.state.episode(ref)
        if episode is None:
            raise SafetyError("the episode does not exist")
        if episode.mode is not Mode.OBSERVE:
            self.announcer.must_be_heard()
        now = self.clock.now()
        if stage is Stage.TELL:
            self.announcer.announce(
                stage_alert(episode, stage, now, self._link(episode, now + timedelta(days=30)))
            )
            return
        if not task_token:
            raise InputError(f"task_token: stage {stage.value} waits for an answer and needs one")
        expires_at = self._expiry(episode, stage, now)
        approval = self.state.await_answer(episode.approval_id, task_token, stage.value, expires_at)
        if approval.status is not ApprovalStatus.PENDING:
            # Decided between two stages: the earlier token no longer waits, this one does.
            self.workflow.answer(task_token, answer_document(approval))
            return
        self.announcer.announce(stage_alert(episode, stage, now, self._link(episode, expires_at)))

    def _expiry(self, episode: Episode, stage: Stage, now: UtcDatetime) -> UtcDatetime:
        rule = self.policies.applied_to(episode.instance).policy.approval
        return now + timedelta(minutes=_minutes_left(rule, stage))

    def _link(self, episode: Episode, expires_at: UtcDatetime) -> str:
        return self.signer.link(episode.approval_id, BROADCAST, expires_at)


def _minutes_left(rule: ApprovalRule, stage: Stage) -> float:
    match stage:
        case Stage.ASK:
            return rule.remind_after_minutes + rule.escalate_after_minutes + rule.expire_after_minutes
        case Stage.REMIND:
            return rule.escalate_after_minutes + rule.expire_after_minutes
        case Stage.ESCALATE:
            return rule.expire_after_minutes
        case Stage.TELL:
            raise InputError("stage tell waits for nothing")
        case _:
            assert_never(stage)
