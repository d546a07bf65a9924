"""An approval: the question that is asked, bound to evidence and launch time, and the answer, taken once.

This module must not know HTTP, signatures or Step Functions.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from governor.domain.episode.episode import Episode, EpisodeRef
from governor.domain.sweep.verdict import Hold
from governor.domain.units import UtcDatetime, as_utc
from governor.domain.wording import people
from governor.errors import DecisionRefused

_KEEP_NEEDS_A_DATE = "say until when the instance shall be kept"
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


class Answer(StrEnum):
    """The answers a person can give."""

    APPROVE = "approve"
    KEEP = "keep"
    EXEMPT = "exempt"


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer with who gave it, through which channel, and what belongs to it.

    `keep_until` belongs to `KEEP`, `reason` to `EXEMPT` (where it is required) and may go with any answer.
    """

    answer: Answer
    by: str
    channel: str
    at: UtcDatetime
    keep_until: UtcDatetime | None = None
    reason: str | None = None
    person: str | None = None
    """The person, where that is proven: an address, or an identity like `aws:<ARN>`. `None`: somebody who had
    a link that went to a list."""


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
    """The first of two approvals, where two people are needed."""
    waits_told_at: UtcDatetime | None = None
    """When people were notified that an approved step waits; once an episode."""
    void_reason: str | None = None
    void_outcome: str | None = None
    """The episode's outcome when the question is void: `woke-up`, `void` or `interrupted`."""

    @property
    def approvers(self) -> str:
        """Those who said yes, each by their address where it is known, with commas."""
        given = [one for one in (self.first_yes, self.decision) if one is not None]
        return ",".join(one.person or one.by for one in given) or "nobody"


def first_approval(episode: Episode) -> Approval:
    """Return the question of a newly opened episode. Nobody can answer it before it was asked.

    `expires_at` is therefore the moment of opening, until `await_answer` sets the real one.
    """
    return Approval(
        approval_id=episode.approval_id,
        episode=episode.ref,
        evidence_hash=episode.evidence_hash,
        status=ApprovalStatus.PENDING,
        created_at=episode.opened_at,
        expires_at=episode.opened_at,
        keep_at_most=episode.keep_at_most,
    )


STATUS_AFTER: Mapping[Answer, ApprovalStatus] = {
    Answer.APPROVE: ApprovalStatus.APPROVED,
    Answer.KEEP: ApprovalStatus.KEPT,
    Answer.EXEMPT: ApprovalStatus.EXEMPTED,
}
"""The status an answer leads to."""


def hold_after(hold: Hold, decision: Decision, hold_until: datetime | None) -> Hold:
    """Return the standing answer about the instance after this decision.

    Raises:
        DecisionRefused: a keep without a date or an exemption without a reason, which would hold nothing.
    """
    if decision.answer is Answer.APPROVE:
        return hold
    if decision.answer is Answer.KEEP:
        until = hold_until or decision.keep_until
        if until is None:
            raise DecisionRefused(_KEEP_NEEDS_A_DATE)
        return Hold(snoozed_until=as_utc(until), exempt_reason=hold.exempt_reason)
    reason = (decision.reason or "").strip()
    if not reason:
        raise DecisionRefused(_EXEMPTION_NEEDS_A_REASON)
    return Hold(snoozed_until=hold.snoozed_until, exempt_reason=f"{reason} ({decision.by})")


def check_decision(approval: Approval, decision: Decision, now: datetime) -> None:
    """Lets a decision through, or says why the approval cannot take it.

    Raises:
        DecisionRefused: already decided, void or expired; `keep` without a date, with one in the past or
            beyond the policy's maximum; `exempt` without a reason; a reason with control characters.
    """
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
    """Return whether it holds what a record may not: control characters but line feeds, marks that turn or
    break lines (terminals, logs and pages obey them), or halves of characters (JSON can name `\\ud800`)."""
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
    return f"{who} has already decided: {approval.status.value.lower()}"
