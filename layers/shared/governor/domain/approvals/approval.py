"""An approval: the question that is asked, bound to evidence and launch time, and the answer, taken
once."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from governor.domain.alerts.alert import Delivery
from governor.domain.episode.episode import Episode, EpisodeRef, Phase
from governor.domain.episode.plan import Step
from governor.domain.policy.policy import Mode
from governor.domain.policy.schedule import next_morning
from governor.domain.sweep.verdict import NO_HOLD, Hold
from governor.domain.units import UtcDatetime, as_utc, clock, day_and_time, minutes, people, usd
from governor.errors import DecisionRefused, TooLate

_KEEP_NEEDS_A_DATE = "say until when the instance shall be kept"
_RECORD_SHOWN = timedelta(days=30)
_EXEMPTION_NEEDS_A_REASON = "an exemption needs a reason"
_TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks of direction. Other invisible marks are part of names and emoji."""


class ApprovalStatus(StrEnum):
    """`PENDING` is the only status that can change, and it changes once."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    KEPT = "KEPT"
    EXEMPTED = "EXEMPTED"
    EXPIRED = "EXPIRED"
    VOID = "VOID"


class Stage(StrEnum):
    """The messages of an episode before its end; `await` sends none."""

    TELL = "tell"
    ASK = "ask"
    AWAIT = "await"
    REMIND = "remind"
    ESCALATE = "escalate"
    WAIT = "wait"
    """After the answer: a freeze or a cap holds the step back."""


class Answer(StrEnum):
    APPROVE = "approve"
    KEEP = "keep"
    EXEMPT = "exempt"
    HOLD = "hold"
    """After a yes, or in the notice period of `auto`. Keep and exempt act as one then."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer with who gave it. `keep_until` belongs to `KEEP`; `EXEMPT` requires a `reason`."""

    answer: Answer
    by: str
    channel: str
    at: UtcDatetime
    keep_until: UtcDatetime | None = None
    reason: str | None = None
    person: str | None = None
    """An address, or an identity like `aws:<ARN>`, if proven; `None` for a link that went to a
    list."""
    seal: str | None = None
    """Made by the function that took a yes; other answers need none."""

    @property
    def why(self) -> str:
        """The reason of an outcome, where the answer holds an episode that would act."""
        done = {Answer.KEEP: "kept", Answer.EXEMPT: "exempted"}.get(self.answer, "held")
        return f"{done} by {self.by}{f': {self.reason}' if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class Approval:
    """The question. `task_token` never leaves the state table and the workflow adapter."""

    approval_id: str
    episode: EpisodeRef
    evidence_hash: str
    status: ApprovalStatus
    created_at: UtcDatetime
    expires_at: UtcDatetime
    keep_at_most: timedelta
    task_token: str | None = None
    stage: str | None = None
    decision: Decision | None = None
    first_yes: Decision | None = None
    waits_told_at: UtcDatetime | None = None
    """Time of the notification that an approved step waits; once an episode."""
    void_reason: str | None = None
    void_outcome: str | None = None
    """The episode's outcome when the question is void: `woke-up`, `void` or `interrupted`."""
    brake: Decision | None = None
    """The person who holds it. Never taken off again: a held episode ends, and the next asks
    anew."""
    late_hold: Decision | None = None
    """A hold that came while a call to EC2 was under way: it counts if that call had no effect."""
    keep_ended_at: UtcDatetime | None = None
    keep_ended_by: str | None = None
    expired_at: UtcDatetime | None = None
    expiry_seal: str | None = None
    """Made by `conclude_approval`, with the time at which it found no answer."""

    @property
    def link_ends(self) -> UtcDatetime:
        """Return when its links end: its page is the record for so long after the last answer or
        expiry."""
        answers = [one.at for one in (self.first_yes, self.decision, self.brake) if one is not None]
        return max(self.created_at, self.expires_at, *answers) + _RECORD_SHOWN

    @property
    def kept(self) -> Decision | None:
        given = self.brake or self.decision
        return given if given is not None and given.answer is Answer.KEEP else None

    def lasting_keep(self, now: UtcDatetime) -> Decision | None:
        kept = self.kept if self.keep_ended_at is None else None
        return (
            kept
            if kept is not None and kept.keep_until is not None and kept.keep_until > now
            else None
        )

    @property
    def approvers(self) -> str:
        """Those who said yes, each by their address where it is known, with commas."""
        given = [one for one in (self.first_yes, self.decision) if one is not None]
        return ",".join(one.person or one.by for one in given) or "nobody"


@dataclass(frozen=True, slots=True)
class SealedExpiry:
    """The end of a question without an answer, as `conclude_approval` has found and sealed it."""

    expires_at: UtcDatetime
    expired_at: UtcDatetime
    seal: str


def first_approval(episode: Episode) -> Approval:
    """Return the question of a new episode. Until `await_answer` sets its end, nobody can answer
    it."""
    return Approval(
        approval_id=episode.approval_id,
        episode=episode.ref,
        evidence_hash=episode.evidence_hash,
        status=ApprovalStatus.PENDING,
        created_at=episode.opened_at,
        expires_at=episode.opened_at,
        keep_at_most=episode.keep_at_most,
    )


LATE_HOLD_COUNTS = (
    "If EC2 does not carry out that call, your answer counts, and EC2 is not asked again"
)

STATUS_AFTER: Mapping[Answer, ApprovalStatus] = {
    Answer.APPROVE: ApprovalStatus.APPROVED,
    Answer.KEEP: ApprovalStatus.KEPT,
    Answer.EXEMPT: ApprovalStatus.EXEMPTED,
}


def keep_end(episode: Episode, now: UtcDatetime) -> UtcDatetime:
    """Return until when a keep without a date lasts: the next working morning of those who are
    asked."""
    morning = next_morning(now, episode.time_zone, episode.working_days, episode.working_from)
    return min(morning, now + episode.keep_at_most)


def keep_text(episode: Episode, now: UtcDatetime) -> str:
    """Return what every button says of it: `Keep until Mon 09:00 ($408)`."""
    end, price = keep_end(episode, now), episode.price.usd_per_hour
    cost = "" if not price else f" ({usd(price * minutes(end - now) / 60)})"
    return f"Keep until {day_and_time(end, episode.time_zone, now)}{cost}"


def acts_by_itself(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether the plan is carried out from here on unless somebody holds it."""
    if episode.phase is Phase.CLOSED or episode.mode is Mode.OBSERVE or not episode.plan.steps:
        return False
    if episode.mode is Mode.AUTO or approval.status is ApprovalStatus.APPROVED:
        return True
    was_asked = approval.stage is not None and approval.status is ApprovalStatus.PENDING
    is_expired = approval.status is ApprovalStatus.EXPIRED or (
        was_asked and now >= approval.expires_at
    )
    return episode.acts_on_silence and is_expired


def can_hold(episode: Episode, approval: Approval, now: datetime) -> bool:
    return (
        acts_by_itself(episode, approval, now)
        and approval.brake is None
        and episode.begun_at is None
    )


def can_hold_late(episode: Episode, approval: Approval, now: datetime) -> bool:
    """Return whether a hold would count only if EC2 does not carry out the call that it was
    sent."""
    if episode.begun_at is None or episode.is_past_final_step:
        return False
    is_held = approval.brake is not None or approval.late_hold is not None
    return not is_held and acts_by_itself(episode, approval, now)


def late_hold_text(episode: Episode, now: datetime) -> str:
    """Return what a hold does while EC2 may still carry out the call, in two sentences."""
    return f"{_asked_text(episode, now)}. {LATE_HOLD_COUNTS}."


def _asked_text(episode: Episode, now: datetime) -> str:
    when = (
        "" if episode.begun_at is None else f" on {clock(episode.begun_at, episode.time_zone, now)}"
    )
    return f"EC2 was asked to {episode.final_step.value} it{when}"


def too_late(episode: Episode, now: datetime) -> str | None:
    """Return why no hold comes before the final step, and what to do instead; `None` where one
    does."""
    if episode.begun_at is None:
        return None
    asked = _asked_text(episode, now)
    if episode.final_step is Step.STOP:
        return f"{asked}: once it is stopped, its record has a button to start it again"
    return (
        f"{asked}, when its snapshots were completed. If it still exists, keep it: EC2 "
        "is not asked again"
    )


def check_hold(episode: Episode, approval: Approval, decision: Decision, now: datetime) -> None:
    """Let an answer through that holds an episode. Raises: TooLate once the call has begun;
    DecisionRefused when somebody holds it, nothing is to be held, or the answer is incomplete."""
    status = episode.phase.value
    if not acts_by_itself(episode, approval, now):
        why = "there is nothing to hold: nothing happens to it without a yes"
        if episode.outcome is not None:
            why = f"it is over ({episode.outcome.value}): there is nothing left to hold"
        raise DecisionRefused(why, status=status)
    incomplete = _why_incomplete(decision, now, approval.keep_at_most)
    if incomplete is not None:
        # As for a question: the person may correct it and send it again.
        raise DecisionRefused(incomplete, status=ApprovalStatus.PENDING.value)
    if (late := too_late(episode, now)) is not None:
        is_stored = decision.answer is not Answer.HOLD
        stored = ", but your answer is stored for when it runs again" if is_stored else ""
        raise TooLate(f"too late to hold it{stored}. {late}", status=status)
    if (held := approval.brake) is not None and not _says_more(decision, held):
        why = f"it is already {people(held.why)}, so nothing more is done"
        raise DecisionRefused(why, status=status)


def hold_of(decision: Decision, project: str | None = None, approval_id: str | None = None) -> Hold:
    """Return what the answer to this question says from now on of the instance, which is of this
    project.

    Raises: DecisionRefused for a keep without a date or an exemption without a reason: it would
    hold nothing.
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
    return Hold(exempt_reason=f"{reason} ({decision.by})", exempt_in=project)


def _says_more(decision: Decision, held: Decision) -> bool:
    stands = hold_of(held)
    return held.answer is not Answer.EXEMPT and stands != stands.stricter(hold_of(decision))


def check_decision(approval: Approval, decision: Decision, now: datetime) -> None:
    """Let a decision through. Raises: DecisionRefused, which says why not."""
    status = approval.status
    if status is not ApprovalStatus.PENDING:
        raise DecisionRefused(_why_closed(approval), status=status.value)
    if now >= approval.expires_at:
        raise DecisionRefused("the time to decide is over", status=ApprovalStatus.EXPIRED.value)
    why = _why_incomplete(decision, now, approval.keep_at_most)
    if why is not None:
        raise DecisionRefused(why, status=status.value)


def _why_incomplete(decision: Decision, now: datetime, keep_at_most: timedelta) -> str | None:
    if decision.answer is Answer.KEEP:
        if decision.keep_until is None:
            return _KEEP_NEEDS_A_DATE
        if decision.keep_until <= now:
            return "the date to keep until is in the past"
        if decision.keep_until > now + keep_at_most:
            return f"the policy allows to keep for at most {keep_at_most.days} days"
    if decision.answer is Answer.EXEMPT and not (decision.reason or "").strip():
        return _EXEMPTION_NEEDS_A_REASON
    if has_controls(decision.reason or ""):
        return "the reason holds control characters: write it in plain text"
    return None


def has_controls(text: str) -> bool:
    """Return whether it holds what a record may not: control characters but line feeds, marks that
    turn or break lines (terminals, logs and pages obey them), or halves of characters (JSON can
    name `\\ud800`)."""
    return any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _TURNING
        for character in text
        if character != "\n"
    )


def _why_closed(approval: Approval) -> str:
    if approval.status is ApprovalStatus.VOID:
        why = approval.void_reason or "the instance changed"
        return f"the question was canceled ({why}); nothing was changed"
    if approval.status is ApprovalStatus.EXPIRED:
        return "the time to decide is over"
    who = people(approval.decision.by) if approval.decision else "somebody"
    return f"already decided by {who}: {approval.status.value.lower()}"


def stage_id(stage: str, ref: EpisodeRef) -> str:
    return f"{stage}-{ref.execution_name}"


def notice_until(
    episode: Episode, deliveries: Iterable[Delivery], minutes: float = 0.0
) -> UtcDatetime | None:
    """Return when the notice of mode auto is over; `None` before those have it whom it is for. It
    counts from the first delivery to them. `minutes` are those of today's policy, which may only
    add to it."""
    told = _delivered_at(episode, Stage.TELL, deliveries)
    return told + max(episode.notice_length, timedelta(minutes=minutes)) if told else None


def silence_from(episode: Episode, deliveries: Iterable[Delivery]) -> UtcDatetime | None:
    """Return from when on silence is an answer: those who are asked have had the question and its
    escalation for as long as planned. `None` before one of the two was delivered to any of them."""
    planned, known = episode.schedule, list(deliveries)
    asked = _delivered_at(episode, Stage.ASK, known)
    escalated = _delivered_at(episode, Stage.ESCALATE, known)
    if planned is None or asked is None or escalated is None:
        return None
    return planned.expire_at + max(asked - planned.ask_at, escalated - planned.escalate_at)


def _delivered_at(
    episode: Episode, stage: Stage, deliveries: Iterable[Delivery]
) -> UtcDatetime | None:
    message = stage_id(stage, episode.ref)
    return min(
        (one.at for one in deliveries if one.message == message and one.reached_people),
        default=None,
    )
