"""A question, its stages, and the answers to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from governor.core.episode_ref import EpisodeRef
from governor.core.units import UtcDatetime

_RECORD_SHOWN = timedelta(days=30)


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
        """Return the reason of an outcome, if the answer holds an episode that would act."""
        done = {Answer.KEEP: "kept", Answer.EXEMPT: "exempted"}.get(self.answer, "held")
        text = f"{done} by {self.by}"
        return f"{text}: {self.reason}" if self.reason else text


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
    """The answer that holds it. It stays for good: a held episode ends, and the next one asks
    again."""
    late_hold: Decision | None = None
    """A hold given while a call to EC2 was under way: it counts if that call had no effect."""
    keep_ended_at: UtcDatetime | None = None
    keep_ended_by: str | None = None
    expired_at: UtcDatetime | None = None
    expiry_seal: str | None = None
    """Made by `conclude_approval`, with the time at which it found no answer."""

    @property
    def link_ends(self) -> UtcDatetime:
        """Return when its links end: some time after the last answer or the expiry.

        Until then, its page is the record.
        """
        last = max(self.created_at, self.expires_at)
        for decision in (self.first_yes, self.decision, self.brake):
            if decision is not None:
                last = max(last, decision.at)
        return last + _RECORD_SHOWN

    @property
    def counted_hold(self) -> Decision | None:
        """Return the hold, also one that came during a call, which counts if the call had no
        effect."""
        return self.brake or self.late_hold

    @property
    def kept(self) -> Decision | None:
        """Return the answer that keeps it; `None` if no answer does."""
        decision = self.brake or self.decision
        if decision is None or decision.answer is not Answer.KEEP:
            return None
        return decision

    def lasting_keep(self, now: UtcDatetime) -> Decision | None:
        """Return the answer that keeps it still; `None` if there is none, or its time is over."""
        kept = self.kept
        if kept is None or kept.keep_until is None:
            return None
        if self.keep_ended_at is not None or kept.keep_until <= now:
            return None
        return kept

    @property
    def approvers(self) -> str:
        """Return the people who said yes, each by their address if it is known, with commas."""
        yeses = [yes for yes in (self.first_yes, self.decision) if yes is not None]
        return ",".join(yes.person or yes.by for yes in yeses) or "nobody"


@dataclass(frozen=True, slots=True)
class SealedExpiry:
    """The end of a question without an answer, as `conclude_approval` found and sealed it."""

    expires_at: UtcDatetime
    expired_at: UtcDatetime
    seal: str
