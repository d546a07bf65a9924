"""Checks that people had their time to answer a question, or to hold a plan of mode `auto`, before
silence counts.

Silence counts only once that time is over, its messages were delivered, and nothing refused
answers. This module only reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.refused_answers import RefusedAnswers, UnusedAnswerTime
from governor.approvals.rules.stages import notice_until, question_delivered_at, silence_from
from governor.core.errors import SafetyError
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_utc
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.schedule import Schedule
from governor.remediation.seals import CheckSeals, only_copies_what_is_stopped


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
        `approval` is the question; `None` if there is none. `policy` is today's policy of the
        instance.

        Return `None` if nobody is asked (mode `observe`), or the question did not end unanswered.
        Return it, too, once a step was noted, because an episode that has begun goes on: of a
        question only if silence counts by now, or if the step only makes snapshots of what was
        stopped. Raises: SafetyError while a notice is not over or nobody got it; CloudError.
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
        self, episode: Episode, unused_time: UnusedAnswerTime, now: UtcDatetime
    ) -> str | None:
        """Return why silence does not count yet: a message of a question was late or not delivered,
        or refused requests, in mode `auto`, begin the notice period again. Return `None` if silence
        counts.

        Raises: SafetyError if requests were refused since a question was delivered; MetricsLate
        while it is not known whether answers were refused; CloudError.
        """
        if episode.mode is Mode.ASK:
            why_too_early = _why_too_early(unused_time, now)
            if why_too_early is not None:
                return why_too_early
        return self.refused_answers(unused_time, now)

    def _unused_question(
        self,
        episode: Episode,
        approval: Approval,
        schedule: Schedule,
        policy: Policy,
        step: Step,
    ) -> UnusedAnswerTime | None:
        """Return the time to answer of a question that has expired; `None` once a step was noted
        and silence counts, or if the step only makes snapshots of what was stopped.

        Several roles can write the note of a step, so it shortens nobody's time: before silence
        counts, the step waits as if nothing was noted. Raises: CloudError.
        """
        if only_copies_what_is_stopped(episode, step):
            return None
        now = self.clock.now()
        deliveries = self.seals.deliveries(episode, step)
        contacts = policy.ownership.asked_and_escalated(episode.owner, episode.project)
        counts_from = silence_from(episode, deliveries, contacts, approval.expires_at)
        has_begun = bool(episode.progress.steps_done)
        if has_begun and counts_from is not None and counts_from <= now:
            return None
        asked_at = question_delivered_at(episode, deliveries) or schedule.ask_at
        return UnusedAnswerTime(
            what="nobody answered",
            length=now - asked_at,
            planned_end=approval.expires_at,
            counts_from=counts_from,
            starts_again=False,
        )

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
        return UnusedAnswerTime(
            what="nobody held it",
            length=length,
            planned_end=ends_at,
            counts_from=ends_at,
            starts_again=True,
        )


def _why_too_early(unused_time: UnusedAnswerTime, now: UtcDatetime) -> str | None:
    """Return why people did not have both messages of a question for long enough; `None` if they
    had."""
    counts_from = unused_time.counts_from
    if counts_from is None:
        return (
            "nobody answered, but the question or the escalation was not delivered to "
            "the people who are asked"
        )
    if now < counts_from:
        return (
            "nobody answered, but a message was late: there is time to answer "
            f"until {in_utc(counts_from)}"
        )
    return None
