"""Sends the question about an instance, its reminder and its escalation, or a message if nobody is
asked. Binds the waiting task of the workflow to the question.

This module must not take an answer, nor decide for people who give none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.alerts.ports import Announcer
from governor.approvals.deliver_decision import answer_document, asked_about
from governor.approvals.messages.questions import stage_alert, waiting_alert
from governor.approvals.model.approval import Approval, ApprovalStatus, Stage
from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.approvals.rules.stages import ON_TIME, deadline_given, times_of
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, InputError, MustWait, SafetyError
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, Phase
from governor.episode.ports import Workflow
from governor.episode.rules.restarts import asks_escalation_contacts
from governor.episode.store.episodes import Episodes
from governor.limits.freezes import wait_before_next_check, why_paused_or_frozen
from governor.limits.store.breaker import Breakers
from governor.limits.store.pauses import Pauses
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Contact, addresses, list_addresses
from governor.policy.model.policy import Mode
from governor.policy.ports import Policies
from governor.policy.rules.schedule import Schedule, next_working, schedule

_log = logging.getLogger(__name__)
TRIES_TO_ASK_EVERY = timedelta(minutes=20)
"""A question that a freeze or a pause holds back is tried again after this, and after longer times
once it has waited for hours. A workflow that takes no wait from the answer tries again after this
at the latest: `WaitToAsk` in `statemachines/remediation.yaml`, and earlier definitions."""
QUIET_AT_MOST = timedelta(days=4)
"""The most quiet hours that are not charged to a late question. Contacts usually work at a common
time within these days. Without a limit, freezes that begin each morning could delay it for
months."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A reason not to send the question yet, and the time to the next try."""

    why: str
    wait: timedelta


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of one stage."""

    reached_people: bool
    """True if the people who are asked have the message; false if the recorded deliveries must
    show that first."""
    settled: bool = False
    """True if the question is decided, so that there is nothing to ask any more."""
    moved: Schedule | None = None
    """The times of a question that was asked late, which the workflow must wait for; `None` if it
    waits as planned."""
    delay: Delay | None = None
    """Why the question was not sent yet; `None` if it was sent, or is decided."""


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Carries out one stage of a question or a notice."""

    clock: Clock
    policies: Policies
    episode_store: Episodes
    approval_store: Approvals
    breaker_store: Breakers
    pause_store: Pauses
    workflow: Workflow
    announcer: Announcer
    signer: LinkSigner

    def __call__(
        self,
        ref: EpisodeRef,
        stage: Stage,
        task_token: str | None,
        reason: str = "",
        *,
        takes_new_times: bool = False,
        takes_waits: bool = False,
    ) -> StageResult:
        """Send the message of the stage, if it has one, and bind the task that waits to the
        question. Return whether the message has reached people, and whether the question is decided
        already: then nothing is sent, and a waiting task gets the answer.

        `task_token` is that of the waiting task; `None` for stages in which none waits. `reason`
        says why an approved step waits, for that stage alone. With `takes_new_times`, the workflow
        waits for the times that are returned for a late question; with `takes_waits`, for as long
        as a returned delay says. Raises: MustWait in place of a delay without `takes_waits`, while
        plans are frozen, or a late question would come in quiet hours; SafetyError if there is no
        such episode, it is over, or it waited too long for the end of a freeze; InputError for a
        missing task token, or one too many; NobodyListens if no time to answer may begin;
        ConfigurationError if no link can be made; PolicyError; ConflictError if a question that
        waits is gone meanwhile; CloudError if the message was not accepted, or the table failed.
        """
        _check_token(stage, task_token)
        episode = asked_about(self.episode_store, ref)
        if episode.phase is Phase.CLOSED:
            raise SafetyError("the episode is over: nobody is asked about it")
        if stage is Stage.WAIT:
            return self._notify_waiting(episode, reason)
        # In mode observe nothing follows, so nobody has to be reached.
        is_reached = episode.mode is Mode.OBSERVE or self._is_reached_by_topic(episode)
        # A notice counts from a recorded delivery, which check_progress waits for.
        has_reached_people = is_reached and not episode.gives_notice
        now = self.clock.now()

        if stage is Stage.TELL:
            self.announcer.announce(stage_alert(episode, stage, now, self._link(episode)))
            return StageResult(reached_people=has_reached_people)

        if stage is Stage.ASK:
            return self._ask(
                episode,
                now,
                has_reached_people,
                takes_new_times=takes_new_times,
                takes_waits=takes_waits,
            )
        # The question is opened before it is sent: an answer may come at once.
        approval = self._await_answer(episode, stage, task_token, None, now)
        if approval.status is not ApprovalStatus.PENDING:
            if task_token is not None:
                # Decided between two stages: the earlier task no longer waits, this one does.
                self.workflow.answer(task_token, answer_document(approval))
            return StageResult(reached_people=True, settled=True)
        if self._sends_message(episode, stage, now):
            self._send(episode, stage, approval, now)
        return StageResult(reached_people=has_reached_people)

    def _ask(
        self,
        episode: Episode,
        now: UtcDatetime,
        has_reached_people: bool,
        *,
        takes_new_times: bool,
        takes_waits: bool,
    ) -> StageResult:
        """Open the question and send it, once. An invocation that comes after the message was sent
        changes nothing: the answer of the one before was lost, and this one gives it again.

        `has_reached_people` says that the message needs no recorded delivery. Raises: MustWait;
        SafetyError; PolicyError; ConfigurationError; NotFound; CloudError.
        """
        moved = None
        question = self._open_question(episode)
        if question is not None:
            if question.question_sent_at is not None:
                return StageResult(has_reached_people, moved=question.moved_schedule)
            delay = self._delay(episode, question, now, takes_waits=takes_waits)
            if delay is not None and question.stage is not None:
                # An invocation before has opened it, and may have sent it. While it waits, its time
                # to answer must not run out.
                self._await_answer(episode, Stage.ASK, None, None, now + delay.wait)
            if delay is not None and not takes_waits:
                raise MustWait(delay.why)
            if delay is not None:
                return StageResult(reached_people=False, delay=delay)
            moved = self._moved_schedule(episode, question, now, may_move=takes_new_times)
        # The question is opened before it is sent: an answer may come at once.
        approval = self._await_answer(episode, Stage.ASK, None, moved, now)
        if approval.status is not ApprovalStatus.PENDING:
            return StageResult(reached_people=True, settled=True)
        self._send(episode, Stage.ASK, approval, now)
        self._note_question_sent(approval, now)
        return StageResult(has_reached_people, moved=moved)

    def _is_reached_by_topic(self, episode: Episode) -> bool:
        """Return whether the topic mails the message directly to somebody who is asked. Raises:
        NobodyListens if a message would reach nobody at all; CloudError."""
        contacts = self.policies.base().policy.ownership.asked(episode.owner, episode.project)
        return self.announcer.reaches({*addresses(contacts), *list_addresses(contacts)})

    def _open_question(self, episode: Episode) -> Approval | None:
        """Return the question of the episode as it is stored; `None` if it is decided or missing.
        Raises: CloudError."""
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None or approval.status is not ApprovalStatus.PENDING:
            return None
        return approval

    def _delay(
        self, episode: Episode, approval: Approval, now: UtcDatetime, *, takes_waits: bool
    ) -> Delay | None:
        """Return why an open question must not be sent yet, and how long it waits: a freeze or a
        pause stands, or the question is late and the people who are asked do not work now. Return
        `None` if it is time to ask.

        A wait in their quiet hours ends when they next work, so that it does not miss working hours
        of minutes. A workflow without `takes_waits` waits for a fixed time.
        Raises: SafetyError if the question has waited for as long as the policy allows;
        PolicyError; CloudError.
        """
        asked, _ = self._people(episode)
        to_working_hours = next_working(now, asked) - now
        are_working = to_working_hours == timedelta(0)
        why_frozen = self._why_frozen(episode, now)
        if why_frozen is not None:
            wait = self._wait_while_frozen(episode, approval, why_frozen, now)
            return Delay(why_frozen, wait if are_working else min(wait, to_working_hours))
        if are_working or not _is_late(times_of(episode, approval), now):
            return None
        wait = to_working_hours if takes_waits else TRIES_TO_ASK_EVERY
        self._note_quiet_wait(approval, now, now + wait)
        return Delay("the question is late, and the people who are asked do not work now", wait)

    def _note_quiet_wait(self, approval: Approval, now: UtcDatetime, until: UtcDatetime) -> None:
        """Note that the late question waits for working hours until then. Time that an invocation
        before has noted is not counted again. Raises: CloudError."""
        counted_until = max(now, approval.quiet_wait_until or now)
        not_counted = max(until - counted_until, timedelta(0))
        waited = (approval.quiet_wait or timedelta(0)) + not_counted
        self.approval_store.note_quiet_wait(approval.approval_id, waited, until)

    def _people(self, episode: Episode) -> tuple[tuple[Contact, ...], tuple[Contact, ...]]:
        """Return the contacts who are asked about the episode, then those whom the escalation adds;
        the second part is empty if all of them are asked from the beginning. Raises: PolicyError.
        """
        ownership = self.policies.base().policy.ownership
        if asks_escalation_contacts(episode):
            return ownership.asked_and_escalated(episode.owner, episode.project), ()
        return (
            ownership.asked(episode.owner, episode.project),
            ownership.escalated(episode.owner, episode.project),
        )

    def _moved_schedule(
        self, episode: Episode, approval: Approval, now: UtcDatetime, *, may_move: bool
    ) -> Schedule | None:
        """Return the times of a late question that is asked now, so that its later stages fall into
        working hours as planned ones do. People get as much time as the policy gave them when the
        episode was opened. If an invocation moved the question before it died, and the question is
        on time by these times, return them.

        Return `None` if the question is on time as planned, or its workflow waits as planned
        (`may_move` is false). Raises: PolicyError.
        """
        if not may_move:
            return None
        if not _is_late(times_of(episode, approval), now):
            return approval.moved_schedule
        asked_under = episode.asking.asked_under
        rule = self._rule(episode) if asked_under is None else asked_under.approval
        asked, escalated = self._people(episode)
        return schedule(now, rule, asked, escalated)

    def _wait_while_frozen(
        self, episode: Episode, approval: Approval, why_frozen: str, now: UtcDatetime
    ) -> timedelta:
        """Return how long an open question waits for its next try while a freeze or a pause stands:
        an outage may show instances as idle.

        Raises: SafetyError with `why_frozen` if freezes and pauses, since the question was due,
        have held it back for as long as the policy allows; PolicyError.
        """
        hours = self._rule(episode).wait_at_most_hours
        ask_at = episode.asking.schedule.ask_at if episode.asking.schedule else episode.opened_at
        # Working hours would have come in any case, so the wait for them is not charged.
        quiet_wait = min(approval.quiet_wait or timedelta(0), QUIET_AT_MOST)
        waited = now - ask_at - quiet_wait
        left = timedelta(hours=hours) - waited
        if left <= timedelta(0):
            raise SafetyError(
                f"{why_frozen}; the question waited for {hours} h (approval.wait_at_most_hours)"
            )
        return min(wait_before_next_check(TRIES_TO_ASK_EVERY, waited), left)

    def _why_frozen(self, episode: Episode, now: UtcDatetime) -> str | None:
        """Return why plans of the target are paused or frozen; `None` if they are not. Raises:
        CloudError."""
        return why_paused_or_frozen(
            self.breaker_store,
            self.pause_store,
            episode.ref.target,
            self.policies.base().policy.breaker,
            now,
        )

    def _await_answer(
        self,
        episode: Episode,
        stage: Stage,
        task_token: str | None,
        moved: Schedule | None,
        now: UtcDatetime,
    ) -> Approval:
        """Open the question for answers, bind the task that waits to it (`task_token`; `None` if no
        task waits), and return the question as it is stored now: it may be decided already.

        The question expires as long from now as planned, or as its moved times say: `moved` are new
        ones, `None` leaves those that are stored. In the stage `ASK`, the policy's time to deliver
        a message is added. The deadline that people were given stays, unless the stage is late.
        Raises: SafetyError if the episode has no question; NotFound; PolicyError; CloudError.
        """
        stored = self.approval_store.existing(episode.approval_id)
        times = moved or times_of(episode, stored)
        if times is None:
            raise SafetyError("nobody is asked about this episode")
        until = _expiry(times, stage, now)
        answer_by = deadline_given(stored, until, now)
        expires_at = until
        if stage is Stage.ASK:
            # The time to answer begins when a channel has the message. Until then it may be
            # answered, too.
            expires_at += timedelta(minutes=self._rule(episode).delivery_limit_minutes)
        return self.approval_store.await_answer(
            episode.approval_id, task_token, stage.value, expires_at, answer_by, moved
        )

    def _send(self, episode: Episode, stage: Stage, approval: Approval, now: UtcDatetime) -> None:
        """Send the message of a stage of the question. It says when people were asked before by
        the times of the question. Raises: ConfigurationError if no link can be made; CloudError."""
        times = times_of(episode, approval)
        as_asked = replace(episode, asking=replace(episode.asking, schedule=times))
        link = self._link(episode)
        self.announcer.announce(stage_alert(as_asked, stage, now, link, approval.deadline))

    def _note_question_sent(self, approval: Approval, now: UtcDatetime) -> None:
        """Note that the question was sent. A CloudError is only logged: without the note, a
        repeated invocation sends the question again."""
        try:
            self.approval_store.note_question_sent(approval.approval_id, now)
        except CloudError:
            _log.exception("it could not be noted that a question was sent")

    def _sends_message(self, episode: Episode, stage: Stage, now: UtcDatetime) -> bool:
        """Return whether this stage has a message, and no pause or freeze holds it back. Call it
        for later stages of a question only. Raises: CloudError."""
        if stage is Stage.AWAIT:
            return False
        # Nobody is reminded of an instance that only an outage may show as idle.
        return self._why_frozen(episode, now) is None

    def _notify_waiting(self, episode: Episode, reason: str) -> StageResult:
        """Notify people once an episode that an approved step waits; send nothing if they were
        notified, or there is no question. Return a result that says that people have the message.
        Raises: ConfigurationError if no link can be made; PolicyError; ConflictError if the
        question is gone meanwhile; CloudError."""
        approval = self.approval_store.approval(episode.approval_id)
        now = self.clock.now()
        if approval is not None and approval.waits_told_at is None:
            hours = self._rule(episode).wait_at_most_hours
            link = self._link(episode)
            self.announcer.announce(waiting_alert(episode, approval, reason, hours, now, link))
            self.approval_store.note_waits_told(approval.approval_id, now)
        return StageResult(reached_people=True)

    def _rule(self, episode: Episode) -> ApprovalRule:
        """Return the rules for approvals in the policy of the instance. Raises: PolicyError if its
        overrides contradict each other."""
        return self.policies.applied_to(episode.instance).policy.approval

    def _link(self, episode: Episode) -> str:
        """Return the link to the question for everybody, which proves no person. Raises:
        ConfigurationError if no links can be made."""
        return self.signer.link(episode.approval_id, EVERYBODY)


def _is_late(times: Schedule | None, now: UtcDatetime) -> bool:
    """Return whether a question with these times is late if it is asked now; false without
    times."""
    return times is not None and now - times.ask_at > ON_TIME


def _expiry(times: Schedule, stage: Stage, now: UtcDatetime) -> UtcDatetime:
    """Return when a question with these times expires, if this stage begins now: as long from now
    as they say."""
    begins_at = times.ask_at
    if stage is Stage.REMIND:
        begins_at = times.remind_at
    elif stage is Stage.ESCALATE:
        begins_at = times.escalate_at
    return now + (times.expire_at - begins_at)


def _check_token(stage: Stage, task_token: str | None) -> None:
    """Require a task token for a stage that waits for an answer, and none for others. Raises:
    InputError, which names the stage."""
    takes_none = stage in (Stage.TELL, Stage.ASK, Stage.WAIT)
    if task_token is None and not takes_none:
        raise InputError(f"task_token: stage {stage.value} needs one")
    if task_token is not None and takes_none:
        raise InputError(f"task_token: stage {stage.value} takes none")
