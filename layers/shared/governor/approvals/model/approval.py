"""The record of a question (an approval request), its stages, the answers to it, and when its links
expire.

Records only: `approvals.rules` decides who may answer, and what an answer leads to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from governor.core.episode_ref import EpisodeRef
from governor.core.units import UtcDatetime, not_none, people
from governor.policy.rules.schedule import Schedule

_LINK_WORKS_FOR = timedelta(days=30)
"""How long the links to a question work after its last answer, or after its time to answer."""


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
    """The answers that a person can give."""

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
        """Return who kept, exempted or held the instance, and the reason if there is one, as in
        `kept by alice@example.com: long job`. It is the reason of the outcome of an episode that
        this answer holds. Call it for no approval."""
        return self._done_by(self.by)

    @property
    def words(self) -> str:
        """Return the same as `why` for people to read, as in `kept by alice@example.com (mail
        link): long job`. The reason stays as the person wrote it. Call it for no approval."""
        return self._done_by(people(self.by))

    def _done_by(self, name: str) -> str:
        """Return that the person of this name kept, exempted or held the instance, and the reason
        if there is one."""
        done = {Answer.KEEP: "kept", Answer.EXEMPT: "exempted"}.get(self.answer, "held")
        text = f"{done} by {name}"
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
    """Time of the notification that an approved step waits, which is sent once an episode; `None`
    before it."""
    void_reason: str | None = None
    void_outcome: str | None = None
    """The episode's outcome when the question is void: `woke-up`, `void` or `interrupted`."""
    hold: Decision | None = None
    """The decision that holds the episode; `None` if nobody holds it. It stays for good: a held
    episode ends, and the next one asks again. Stored as `brake`."""
    late_hold: Decision | None = None
    """A hold given while a call to EC2 was under way: it counts if that call had no effect."""
    keep_ended_at: UtcDatetime | None = None
    keep_ended_by: str | None = None
    expired_at: UtcDatetime | None = None
    expiry_seal: str | None = None
    """Made by `conclude_approval`, with the time at which it found no answer."""
    answer_by: UtcDatetime | None = None
    """The deadline that its messages give. `None` before the first message, and for a question of
    an earlier release."""
    moved_schedule: Schedule | None = None
    """The times of a question that was asked late, computed when it was asked. `None` if it was
    asked on time, or its workflow waits as it was planned."""
    quiet_wait: timedelta | None = None
    """How long the late question waits for working hours, until `quiet_wait_until`, without the
    time for which a freeze or a pause held it back; `None` if it never waited for them."""
    quiet_wait_until: UtcDatetime | None = None
    """The end of the last wait for working hours. A repeated invocation, which finds it in the
    future, does not count the same wait twice."""
    question_sent_at: UtcDatetime | None = None
    """When the message of the question was sent, whoever has it by now. `None` before that, and for
    a question of an earlier release."""

    @property
    def deadline(self) -> UtcDatetime:
        """Return the deadline that messages, pages and the command line give.

        The question takes answers until `expires_at`, which may be minutes later: its workflow
        begins to wait only after the message was delivered.
        """
        return self.answer_by or self.expires_at

    def is_open(self, now: UtcDatetime) -> bool:
        """Return whether the question is undecided, and not past its time to answer."""
        return self.status is ApprovalStatus.PENDING and now < self.expires_at

    @property
    def was_delivered(self) -> bool:
        """Return whether a channel has delivered the question. Only then does a task begin to wait
        for the answer, and bind its token to the question."""
        return self.task_token is not None

    @property
    def link_ends(self) -> UtcDatetime:
        """Return when the links to the question expire: 30 days after the last answer, or after the
        time to answer if that is later.

        Until then, the page of the question is the record.
        """
        last = max(self.created_at, self.expires_at)
        for decision in (self.first_yes, self.decision, self.hold):
            if decision is not None:
                last = max(last, decision.at)
        return last + _LINK_WORKS_FOR

    @property
    def counted_hold(self) -> Decision | None:
        """Return the decision that holds the episode, or would hold it if the call during which it
        came had no effect; `None` if there is neither."""
        return self.hold or self.late_hold

    @property
    def kept(self) -> Decision | None:
        """Return the answer that keeps the instance, be it over or not: the hold or, without one,
        the decision. Return `None` if that keeps nothing."""
        decision = self.hold or self.decision
        if decision is None or decision.answer is not Answer.KEEP:
            return None
        return decision

    def lasting_keep(self, now: UtcDatetime) -> Decision | None:
        """Return the answer that keeps the instance at `now`; `None` if no answer keeps it, its
        time is over, or somebody ended it."""
        kept = self.kept
        if kept is None or kept.keep_until is None:
            return None
        if self.keep_ended_at is not None or kept.keep_until <= now:
            return None
        return kept

    @property
    def approvers(self) -> str:
        """Return the people who approved, each by their address if it is known, with commas between
        them, as in `alice@example.com,bob@example.com`; `nobody` if nobody answered. Call it only
        if the decision is an approval, or there is none."""
        yeses = not_none((self.first_yes, self.decision))
        return ",".join(yes.person or yes.by for yes in yeses) or "nobody"


@dataclass(frozen=True, slots=True)
class SealedExpiry:
    """The end of a question without an answer, as `conclude_approval` found and sealed it."""

    expires_at: UtcDatetime
    expired_at: UtcDatetime
    seal: str
