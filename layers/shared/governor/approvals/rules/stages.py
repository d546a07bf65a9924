"""The stages of a question and their times, the notice period of mode `auto`, and when silence
counts.

The answers are in `approval.py`. Nothing here reads or writes a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Approval, Stage
from governor.core.episode_ref import EpisodeRef
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode
from governor.policy.model.contacts import Contact
from governor.policy.rules.schedule import Schedule, next_working

ON_TIME = timedelta(minutes=15)
"""A stage that begins at most so late is on time, and changes no deadline. Silence counts with the
same tolerance (`RETRIES_OF_A_STAGE`)."""
RETRIES_OF_A_STAGE = timedelta(minutes=15)
"""The longest time by which retries delay a stage: its clock starts with its task, and its expiry
is written after retries of that task."""
_LONGEST_RUN = timedelta(minutes=15)
"""The longest run of a Lambda function: one run writes a message and delivers it. Source: AWS
Lambda, quotas."""


def stage_id(stage: str, ref: EpisodeRef) -> str:
    """Return the id of an episode's message, as in `ask-<execution name>`. `stage` is the value of
    a stage, or of an outcome."""
    return f"{stage}-{ref.execution_name}"


def stage_in(message_id: str, subject: str) -> str:
    """Return the stage, or the outcome, that `stage_id` has put into the id of a message. `subject`
    is the execution name of its episode. Return the whole id if the message is about no
    episode."""
    return message_id.removesuffix(f"-{subject}")


def times_of(episode: Episode, approval: Approval) -> Schedule | None:
    """Return the times of the question by which its workflow waits: as computed when it was asked
    late, else as planned; `None` if the episode asks nobody."""
    return approval.moved_schedule or episode.asking.schedule


def asked_at(
    planned: Schedule, approval: Approval | None, delivery_limit: timedelta
) -> UtcDatetime:
    """Return when a question was asked that no channel has delivered yet. `approval` is the
    question; `None` if none is stored.

    That is when its message was sent. A question of an earlier release does not say that, nor one
    for which it could not be noted. A freeze or a pause may have delayed these. If their times were
    not moved, the expiry shows by how much: until the delivery, it is the time of asking plus
    `delivery_limit` plus the time to answer. Return the planned time of asking if the question was
    not asked yet, or a later stage has begun.
    """
    if approval is None or approval.stage != Stage.ASK:
        return planned.ask_at
    if approval.question_sent_at is not None:
        return approval.question_sent_at
    if approval.moved_schedule is not None:
        return approval.moved_schedule.ask_at
    time_to_answer = planned.expire_at - planned.ask_at
    return max(planned.ask_at, approval.expires_at - delivery_limit - time_to_answer)


def deadline_given(approval: Approval, until: UtcDatetime, now: UtcDatetime) -> UtcDatetime:
    """Return the deadline to give people for a question whose stage begins now and that takes
    answers until `until`.

    The wait for an answer begins only after the message was delivered, minutes after it was
    written. So `until` moves a little with each stage. The deadline that people were given stays,
    unless the stage is late by more than 15 minutes or a twentieth of the time that is left.
    """
    given = approval.answer_by
    if given is None:
        return until
    allowed_delay = min(ON_TIME, (until - now) / 20)
    is_on_time = given <= until <= given + allowed_delay
    return given if is_on_time else until


def notice_until(
    episode: Episode, deliveries: Iterable[Delivery], minutes: float = 0.0
) -> UtcDatetime | None:
    """Return when the notice period of mode auto is over; `None` if its message was delivered to
    nobody yet.

    The period begins with the first delivery. `minutes` is the period of today's policy, 0 if that
    does not matter: it may lengthen the recorded period and never shorten it.
    """
    delivered_at = _delivered_at(episode, Stage.TELL, deliveries)
    if delivered_at is None:
        return None
    return delivered_at + max(episode.asking.notice_length, timedelta(minutes=minutes))


def stated_notice_end(episode: Episode, deliveries: Iterable[Delivery]) -> UtcDatetime | None:
    """Return the end of the notice period of mode auto as people were given it; `None` if its
    message was delivered to nobody yet.

    The first message that reached people gives it. A channel accepts a message somewhat later than
    it was written, so the period ends up to minutes later; nothing happens before that.

    The stated end is not under the seal of the delivery, but its time is. So no later end than that
    of the sealed period is returned, and a stated end that no message can have given is ignored.
    """
    first = _first_delivery(episode, Stage.TELL, deliveries)
    if first is None:
        return None
    sealed_end = first.at + episode.asking.notice_length
    if first.stated_until is None or first.stated_until < sealed_end - _LONGEST_RUN:
        return sealed_end
    return min(first.stated_until, sealed_end)


def silence_from(
    episode: Episode,
    deliveries: Iterable[Delivery],
    contacts: Sequence[Contact],
    expires_at: UtcDatetime,
) -> UtcDatetime | None:
    """Return when silence begins to count as an answer: once the people who are asked have had the
    question and its escalation for as long as planned, less the longest time of retries, and all of
    them are at work. The planned time is in their working hours, but that of a late message may not
    be.

    The planned times do not apply to a late question, whose times are computed again. It counts
    until `expires_at`, when it expired, and people must have had both messages for as long as the
    policy gave them when the episode was opened. A question of an earlier release, which does not
    say how long that is, keeps the planned distances.

    The working hours are those of `contacts`, which today's policy names, and those that the
    episode has recorded: whichever come later. Return `None` if the question or its escalation was
    delivered to nobody, or nobody is asked.
    """
    planned = episode.asking.schedule
    all_deliveries = list(deliveries)
    asked_at = _delivered_at(episode, Stage.ASK, all_deliveries)
    escalated_at = _delivered_at(episode, Stage.ESCALATE, all_deliveries)
    if planned is None or asked_at is None or escalated_at is None:
        return None
    question_delay = asked_at - planned.ask_at
    escalation_delay = escalated_at - planned.escalate_at
    had_it_until = planned.expire_at + max(question_delay, escalation_delay)
    asked_under = episode.asking.asked_under
    if question_delay > ON_TIME and asked_under is not None:
        rule = asked_under.approval
        had_question_until = asked_at + rule.time_to_answer
        had_escalation_until = escalated_at + timedelta(minutes=rule.expire_after_minutes)
        had_it_until = max(had_question_until, had_escalation_until, expires_at)
    earliest = had_it_until - RETRIES_OF_A_STAGE
    at_work_by_then = next_working(earliest, episode.asking.contact_hours)
    at_work_today = next_working(earliest, contacts)
    return max(at_work_by_then, at_work_today)


def question_delivered_at(episode: Episode, deliveries: Iterable[Delivery]) -> UtcDatetime | None:
    """Return when people first got the question; `None` if nobody has it."""
    return _delivered_at(episode, Stage.ASK, deliveries)


def _delivered_at(
    episode: Episode, stage: Stage, deliveries: Iterable[Delivery]
) -> UtcDatetime | None:
    """Return when people first got the message of this stage; `None` if nobody has it. Deliveries
    of other messages do not count."""
    first = _first_delivery(episode, stage, deliveries)
    return None if first is None else first.at


def _first_delivery(
    episode: Episode, stage: Stage, deliveries: Iterable[Delivery]
) -> Delivery | None:
    """Return the first delivery by which people got the message of this stage; `None` if nobody has
    it. Deliveries of other messages do not count."""
    message = stage_id(stage, episode.ref)
    reached: list[Delivery] = []
    for delivery in deliveries:
        if delivery.message == message and delivery.reached_people:
            reached.append(delivery)
    return min(reached, key=_time_of, default=None)


def _time_of(delivery: Delivery) -> UtcDatetime:
    """Return the time of a delivery, to sort by."""
    return delivery.at
