"""Checks that people had their time: to answer a question, or to hold a plan of mode `auto`.

Silence counts only once that time is over, its messages were delivered, and nothing refused
answers. This module only reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.refused_answers import RefusedAnswers, UnusedAnswerTime
from governor.approvals.rules.approval import notice_until, silence_from
from governor.core.errors import SafetyError
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_utc
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.schedule import Schedule
from governor.remediation.seals import CheckSeals

RETRIES_OF_A_STAGE = timedelta(minutes=15)
"""The longest time by which retries delay a stage: its clock starts with its task, and its expiry
is written after retries of that task."""


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Finds the time that people had and did not use, and says why it does not count yet."""

    clock: Clock
    seals: CheckSeals
    refused_answers: RefusedAnswers

    def unused(
        self, episode: Episode, approval: Approval | None, policy: Policy, step: Step
    ) -> UnusedAnswerTime | None:
        """Return the time in which nobody answered the question, or held the plan of mode `auto`.
        `approval` is the question; `None` if there is none.

        Return `None` if the question did not end unanswered, nobody is asked (mode `observe`), or a
        step was noted already: an episode that has begun goes on. Raises: SafetyError while a
        notice is not over or nobody got it, or if a step was noted before silence counted;
        CloudError.
        """
        if episode.mode is Mode.AUTO:
            return self._unused_notice(episode, policy, step)
        schedule = episode.asking.schedule
        if approval is None or schedule is None:
            return None
        if approval.status is not ApprovalStatus.EXPIRED:
            return None
        return self._unused_question(episode, approval, schedule, policy, step)

    def why_silence_must_wait(
        self,
        episode: Episode,
        policy: Policy,
        step: Step,
        unused_time: UnusedAnswerTime,
        now: UtcDatetime,
    ) -> str | None:
        """Return why silence does not count yet: a message of a question was late or not delivered,
        or the API refused requests. Return `None` if silence counts. In mode `auto`, only refused
        requests are looked at here. `policy` is today's policy of the instance.

        Raises: MetricsLate while it is not known whether answers were refused; CloudError.
        """
        if episode.mode is Mode.ASK:
            why_too_early = self._why_too_early(episode, policy, step, unused_time.until, now)
            if why_too_early is not None:
                return why_too_early
        return self.refused_answers(unused_time, now)

    def _counts_from(
        self, episode: Episode, policy: Policy, step: Step, expires_at: UtcDatetime
    ) -> UtcDatetime | None:
        """Return when silence begins to count, by the deliveries whose seals fit and the end of the
        question (`expires_at`); `None` if the question or its escalation was not delivered. Raises:
        CloudError."""
        contacts = policy.ownership.asked_and_escalated(episode.owner, episode.project)
        return silence_from(episode, self.seals.deliveries(episode, step), contacts, expires_at)

    def _why_too_early(
        self,
        episode: Episode,
        policy: Policy,
        step: Step,
        expires_at: UtcDatetime,
        now: UtcDatetime,
    ) -> str | None:
        """Return why people did not have both messages for long enough; `None` if they had.

        Raises: CloudError.
        """
        counts_from = self._counts_from(episode, policy, step, expires_at)
        if counts_from is None:
            return (
                "nobody answered, but the question or the escalation was not delivered to "
                "the people who are asked"
            )
        if now < counts_from - RETRIES_OF_A_STAGE:
            return (
                "nobody answered, but a message was late: there is time to answer "
                f"until {in_utc(counts_from)}"
            )
        return None

    def _unused_question(
        self,
        episode: Episode,
        approval: Approval,
        schedule: Schedule,
        policy: Policy,
        step: Step,
    ) -> UnusedAnswerTime | None:
        """Return the time to answer of a question that has expired; `None` once a step was noted.

        Raises: SafetyError if a step was noted before silence counted; CloudError.
        """
        if episode.progress.steps_done:
            self._silence_must_have_counted(episode, policy, step, approval.expires_at)
            return None
        length = schedule.expire_at - schedule.ask_at
        return UnusedAnswerTime(what="nobody answered", length=length, until=approval.expires_at)

    def _unused_notice(
        self, episode: Episode, policy: Policy, step: Step
    ) -> UnusedAnswerTime | None:
        """Return the notice period of mode `auto`, which is over; `None` once a step was noted.
        Until then today's policy may lengthen the period that was recorded.

        Raises: SafetyError while the period is not over, or nobody has got the alert; CloudError.
        """
        has_begun = bool(episode.progress.steps_done)
        deliveries = self.seals.deliveries(episode, step)
        # Today's policy lengthens the notice only until the first step.
        notice_minutes = 0.0 if has_begun else policy.approval.notice_minutes
        ends_at = notice_until(episode, deliveries, notice_minutes)
        if ends_at is None:
            raise SafetyError("no channel has delivered the alert to the people it is for")
        if self.clock.now() < ends_at:
            raise SafetyError(f"the notice period is not over before {in_utc(ends_at)}")
        if has_begun:
            return None
        length = max(
            episode.asking.notice_length, timedelta(minutes=policy.approval.notice_minutes)
        )
        return UnusedAnswerTime(what="nobody held it", length=length, until=ends_at)

    def _silence_must_have_counted(
        self, episode: Episode, policy: Policy, step: Step, expires_at: UtcDatetime
    ) -> None:
        """Require that question and escalation were delivered and the time to answer is over,
        although the record says that a step has begun.

        Several roles can write that record, so it shortens nobody's time. Raises: SafetyError;
        CloudError.
        """
        counts_from = self._counts_from(episode, policy, step, expires_at)
        if counts_from is None or self.clock.now() < counts_from - RETRIES_OF_A_STAGE:
            raise SafetyError(
                "the record says that a step began before the time to answer was over"
            )
