"""Decides whether an answer is refused because the question is decided or over, how long a keep
lasts and what its button says, and when it is too late to hold the plan.

An answer is taken once. This module says which answer still counts; who may give it is in
`terms.py`, the times of its stages are in `stages.py`, and nothing here reads or writes a record.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta

from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.core.errors import DecisionRefused, TooLate
from governor.core.units import (
    UtcDatetime,
    as_utc,
    city_of,
    clock,
    day_and_time,
    minutes,
    people,
    usd,
)
from governor.episode.model.episode import Episode, Phase
from governor.episode.model.plan import Step
from governor.policy.model.policy import Mode
from governor.policy.rules.schedule import next_morning
from governor.verdict.model import NO_HOLD, Hold

_KEEP_NEEDS_A_DATE = "say until when to keep the instance"
_EXEMPTION_NEEDS_A_REASON = "an exemption needs a reason"
_TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks of direction. Other invisible marks are part of names and emoji."""
_REFUSED_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's controls, surrogates, and line and paragraph separators."""
LATE_HOLD_COUNTS = "If EC2 does not carry out that call, your answer counts"
STATUS_AFTER: Mapping[Answer, ApprovalStatus] = {
    Answer.APPROVE: ApprovalStatus.APPROVED,
    Answer.KEEP: ApprovalStatus.KEPT,
    Answer.EXEMPT: ApprovalStatus.EXEMPTED,
}


def first_approval(episode: Episode) -> Approval:
    """Return the question of a new episode. It is pending, and nobody can answer it until
    `await_answer` sets its end."""
    return Approval(
        approval_id=episode.approval_id,
        episode=episode.ref,
        evidence_hash=episode.measurement.evidence_hash,
        status=ApprovalStatus.PENDING,
        created_at=episode.opened_at,
        expires_at=episode.opened_at,
        keep_at_most=episode.asking.keep_at_most,
    )


def keep_end(episode: Episode, now: UtcDatetime) -> UtcDatetime:
    """Return when a keep without a date ends: on the next working morning of the people who are
    asked, or at the longest keep that the policy allows if that is sooner."""
    morning = next_morning(
        now, episode.asking.time_zone, episode.asking.working_days, episode.asking.working_from
    )
    return min(morning, now + episode.asking.keep_at_most)


def keep_text(episode: Episode, now: UtcDatetime) -> str:
    """Return the label of the keep button on one line: `Keep until Mon 09:00 Berlin ($408)`."""
    return " ".join(keep_label(episode, now))


def keep_label(episode: Episode, now: UtcDatetime) -> tuple[str, str]:
    """Return the label of the keep button in two parts, for a button of two lines: `Keep until Mon
    09:00`, and its time zone with the cost until then, `Berlin ($408)`. There is no cost if the
    price is zero or not known."""
    end = keep_end(episode, now)
    zone = episode.asking.time_zone
    answer = f"Keep until {day_and_time(end, zone, now)}"
    city = city_of(zone)
    price = episode.price.usd_per_hour
    if not price:
        return answer, city
    return answer, f"{city} ({usd(price * minutes(end - now) / 60)})"


def acts_by_itself(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether the plan is carried out from now on unless somebody holds it: it is approved,
    nobody is asked, or nobody answered where silence approves. Return false for an episode that is
    closed or in mode observe, and for a plan without steps."""
    if episode.phase is Phase.CLOSED:
        return False
    if episode.mode is Mode.OBSERVE or not episode.plan.steps:
        return False
    if episode.mode is Mode.AUTO or approval.status is ApprovalStatus.APPROVED:
        return True
    return episode.asking.acts_on_silence and _is_expired(approval, now)


def _is_expired(approval: Approval, now: datetime) -> bool:
    """Return whether the question has expired, or its time to answer is over and nobody answered.
    It is false for a question that was not asked yet, or is decided otherwise."""
    if approval.status is ApprovalStatus.EXPIRED:
        return True
    was_asked = approval.stage is not None and approval.status is ApprovalStatus.PENDING
    return was_asked and now >= approval.expires_at


def can_hold(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether somebody can still hold the episode: it would act, nobody holds it, and EC2
    was not called for the final step yet."""
    if approval.hold is not None or episode.begun_at is not None:
        return False
    return acts_by_itself(episode, approval, now)


def acts_soon(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether nobody answered in time and the policy lets silence approve, so that the plan
    is carried out unless somebody holds it, as is still possible."""
    is_unanswered = episode.mode is Mode.ASK and approval.decision is None
    return is_unanswered and can_hold(episode, approval, now)


def was_not_answered(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether the time to answer the question is over and nobody answered it, or no second
    person approved."""
    is_unanswered = episode.mode is Mode.ASK and approval.decision is None
    return is_unanswered and _is_expired(approval, now)


def can_hold_late(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether a hold would count only if EC2 does not carry out the call that was sent. It
    is false before that call, and if somebody holds the episode already."""
    if episode.begun_at is None or episode.is_past_final_step:
        return False
    return approval.counted_hold is None and acts_by_itself(episode, approval, now)


def late_hold_text(episode: Episode, now: datetime) -> str:
    """Return what a hold does while EC2 may still carry out the call, in two sentences."""
    return f"{_asked_text(episode, now)}. {LATE_HOLD_COUNTS}."


def _asked_text(episode: Episode, now: datetime) -> str:
    """Return that EC2 was asked for the final step, as in `EC2 was asked to stop it Fri 09:00`;
    without the time if that is not known."""
    text = f"EC2 was asked to {episode.final_step.value} it"
    if episode.begun_at is None:
        return text
    return f"{text} {clock(episode.begun_at, episode.asking.time_zone, now)}"


def why_too_late(episode: Episode, now: datetime) -> str | None:
    """Return why it is too late to hold the final step, and what to do instead; `None` if EC2 was
    not asked for that step yet."""
    if episode.begun_at is None:
        return None
    asked = _asked_text(episode, now)
    if episode.final_step is Step.STOP:
        return f"{asked}. Once it is stopped, you can start it again from its record"
    return (
        f"{asked}, after its snapshots were complete. If it still exists, keep it: then EC2 "
        "is not asked again"
    )


def check_hold(episode: Episode, approval: Approval, decision: Decision, now: datetime) -> None:
    """Require that an answer can hold the episode.

    Raises: TooLate once the call to EC2 was noted; DecisionRefused if a decision that is as strict
    holds the episode already, there is nothing to hold, or the answer is incomplete.
    """
    status = episode.phase.value
    if not acts_by_itself(episode, approval, now):
        why = "there is nothing to hold: nothing happens to it without an approval"
        if episode.outcome is not None:
            why = f"it is over ({episode.outcome.value}): there is nothing left to hold"
        raise DecisionRefused(why, status=status)
    incomplete = _why_incomplete(decision, now, approval.keep_at_most)
    if incomplete is not None:
        # As for a question: the person may correct it and send it again.
        raise DecisionRefused(incomplete, status=ApprovalStatus.PENDING.value)
    why_late = why_too_late(episode, now)
    if why_late is not None:
        is_stored = decision.answer is not Answer.HOLD
        stored = ", but your answer is stored for when it runs again" if is_stored else ""
        raise TooLate(f"too late to hold it{stored}. {why_late}", status=status)
    earlier_hold = approval.hold
    if earlier_hold is not None and not _is_stricter(decision, earlier_hold):
        why = f"it is already {earlier_hold.words}, so nothing more is done"
        raise DecisionRefused(why, status=status)


def hold_of(decision: Decision, project: str | None = None, approval_id: str | None = None) -> Hold:
    """Return the keep or the exemption that this answer gives the instance, which belongs to
    `project`. It stores nothing.

    Return `NO_HOLD` for an approval, and for an answer that only holds the episode. `approval_id`
    is the question; `None` without one. Raises: DecisionRefused for a keep without a date or an
    exemption without a reason.
    """
    if decision.answer in (Answer.APPROVE, Answer.HOLD):
        return NO_HOLD
    if decision.answer is Answer.KEEP:
        if decision.keep_until is None:
            raise DecisionRefused(_KEEP_NEEDS_A_DATE)
        until = as_utc(decision.keep_until)
        return Hold(snoozed_until=until, kept_in=project, kept_by=approval_id)
    reason = (decision.reason or "").strip()
    if not reason:
        raise DecisionRefused(_EXEMPTION_NEEDS_A_REASON)
    exempt_reason = f"{reason} ({decision.by})"
    return Hold(exempt_reason=exempt_reason, exempt_in=project, exempt_by=decision.by)


def _is_stricter(decision: Decision, earlier_hold: Decision) -> bool:
    """Return whether the new answer keeps the instance for longer than the decision that holds the
    episode: by a later date, or by an exemption. Nothing is stricter than an exemption. Raises:
    DecisionRefused for an incomplete answer."""
    standing = hold_of(earlier_hold)
    if earlier_hold.answer is Answer.EXEMPT:
        return False
    return standing != standing.stricter(hold_of(decision))


def check_decision(approval: Approval, decision: Decision, now: datetime) -> None:
    """Require that the question is open and the answer is complete. Raises: DecisionRefused, which
    says why the answer is refused; its `status` is that of the question."""
    status = approval.status
    if status is not ApprovalStatus.PENDING:
        raise DecisionRefused(_why_closed(approval), status=status.value)
    if now >= approval.expires_at:
        raise DecisionRefused("the time to decide is over", status=ApprovalStatus.EXPIRED.value)
    why = _why_incomplete(decision, now, approval.keep_at_most)
    if why is not None:
        raise DecisionRefused(why, status=status.value)


def _why_incomplete(decision: Decision, now: datetime, keep_at_most: timedelta) -> str | None:
    """Return what a person must correct in their answer; `None` if it is complete. A keep needs a
    date ahead, within `keep_at_most`; an exemption needs a reason; no reason may hold control
    characters."""
    reason = decision.reason or ""
    if decision.answer is Answer.KEEP:
        if decision.keep_until is None:
            return _KEEP_NEEDS_A_DATE
        if decision.keep_until <= now:
            return "the date to keep until is in the past"
        if decision.keep_until > now + keep_at_most:
            return f"the policy allows a keep of at most {keep_at_most.days} days"
    if decision.answer is Answer.EXEMPT and not reason.strip():
        return _EXEMPTION_NEEDS_A_REASON
    if has_controls(reason):
        return "the reason holds control characters: write it in plain text"
    return None


def has_controls(text: str) -> bool:
    """Return whether a text holds characters that no record may hold.

    These are control characters other than line feeds, marks that turn or break lines (terminals,
    logs and pages obey them), and halves of characters (JSON can name `\\ud800`).
    """
    for character in text:
        if character == "\n":
            continue
        if character in _TURNING or unicodedata.category(character) in _REFUSED_CATEGORIES:
            return True
    return False


def _why_closed(approval: Approval) -> str:
    """Return why a question takes no answer. Call it only for one that is no longer pending."""
    if approval.status is ApprovalStatus.VOID:
        why = approval.void_reason or "the instance changed"
        return f"the question was canceled ({why}); nothing was changed"
    if approval.status is ApprovalStatus.EXPIRED:
        return "the time to decide is over"
    who = people(approval.decision.by) if approval.decision else "somebody"
    return f"already decided by {who}: {approval.status.value.lower()}"


def approved_at(episode: Episode, approval: Approval | None) -> UtcDatetime:
    """Return when the approval began to count: with the answer, or with an expiry that counts as
    one. Return when the episode was opened if there is neither, as in mode auto. Call it only for
    an episode whose plan may act."""
    if approval is not None and approval.decision is not None:
        return approval.decision.at
    if approval is not None and approval.status is ApprovalStatus.EXPIRED:
        return approval.expires_at
    return episode.opened_at
