"""Keys of KMS in memory: one of each duty, and the check for all of them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field, replace
from functools import partial

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import (
    Answer,
    Approval,
    ApprovalStatus,
    Decision,
    SealedExpiry,
)
from governor.approvals.rules.sealing import (
    Duty,
    SealMaker,
    answer_text,
    counts_for_silence,
    delivery_text,
    expiry_text,
    opening_text,
    sealed,
)
from governor.core.errors import CloudError
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, InstanceRecord
from tests.twins.table import MemoryStateTable, MemoryTable


@dataclass
class MemorySeals:
    """Makes and checks seals; `failure` is raised by every call, and `checked` keeps the duties
    asked for."""

    failure: CloudError | None = None
    checked: list[Duty] = field(default_factory=list)

    def maker(self, duty: Duty) -> SealMaker:
        """The key of one duty, as its function may use it."""
        return partial(self._sign, duty)

    @property
    def openings(self) -> SealMaker:
        return self.maker(Duty.OPENING)

    @property
    def answers(self) -> SealMaker:
        return self.maker(Duty.ANSWER)

    @property
    def deliveries(self) -> SealMaker:
        return self.maker(Duty.DELIVERY)

    @property
    def expiries(self) -> SealMaker:
        return self.maker(Duty.EXPIRY)

    def __call__(self, duty: Duty, text: bytes, signature: str) -> bool:
        """As the port `SealCheck`."""
        self.checked.append(duty)
        return hmac.compare_digest(self._sign(duty, text), signature)

    def _sign(self, duty: Duty, text: bytes) -> str:
        if self.failure is not None:
            raise self.failure
        mac = hmac.new(f"key of {duty.value}".encode(), text, hashlib.sha256).digest()
        return base64.b64encode(mac).decode()


class SealedStateTable(MemoryStateTable):
    """Stores what a test writes by itself as the functions of each duty would have sealed it.

    What is written behind its back, by `items` or a plain `MemoryStateTable` over its `memory`, has
    no seal.
    """

    def __init__(self, memory: MemoryTable | None = None, seals: MemorySeals | None = None) -> None:
        super().__init__(memory)
        self.seals = seals or MemorySeals()

    def save_opened(self, episode: Episode) -> Episode:
        return super().save_opened(self._opened(episode))

    def put(self, *records: Episode | Approval | InstanceRecord) -> None:
        """Stores the records as they are, but for seals: each is of what it says now."""
        super().put(*map(self._resealed, records))

    def _resealed(
        self, record: Episode | Approval | InstanceRecord
    ) -> Episode | Approval | InstanceRecord:
        if isinstance(record, Episode):
            return self._opened(record)
        episode = self.episode(record.episode) if isinstance(record, Approval) else None
        if not isinstance(record, Approval) or episode is None:
            return record
        first_yes = record.first_yes and self._answered(episode, record.first_yes)
        decision = record.decision and self._answered(episode, record.decision)
        record = replace(record, first_yes=first_yes, decision=decision)
        if record.status is not ApprovalStatus.EXPIRED:
            return record
        at = record.expired_at or record.expires_at
        return replace(record, expired_at=at, expiry_seal=self._expiry_seal(episode, record, at))

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        return super().note_first_yes(approval_id, self._taken(approval_id, decision))

    def settle(self, approval_id: str, decision: Decision, project: str | None = None) -> Approval:
        return super().settle(approval_id, self._taken(approval_id, decision), project)

    def note_delivery(self, delivery: Delivery) -> None:
        if delivery.seal is None and counts_for_silence(delivery):
            delivery = replace(
                delivery, seal=sealed(self.seals.deliveries, delivery_text(delivery))
            )
        super().note_delivery(delivery)

    def void(
        self,
        approval_id: str,
        reason: str,
        *,
        expired: bool,
        outcome: str = "void",
        expiry: SealedExpiry | None = None,
    ) -> Approval:
        approval = self.existing(approval_id)
        episode = self.episode(approval.episode)
        if expired and episode is not None and expiry is None:
            at = approval.expires_at
            expiry = SealedExpiry(at, at, self._expiry_seal(episode, approval, at))
        return super().void(approval_id, reason, expired=expired, outcome=outcome, expiry=expiry)

    def _expiry_seal(self, episode: Episode, approval: Approval, at: UtcDatetime) -> str:
        return sealed(self.seals.expiries, expiry_text(episode, approval.expires_at, at))

    def _opened(self, episode: Episode) -> Episode:
        return replace(episode, opening_seal=sealed(self.seals.openings, opening_text(episode)))

    def _taken(self, approval_id: str, decision: Decision) -> Decision:
        episode = self.episode(self.existing(approval_id).episode)
        if decision.seal is not None or episode is None:
            return decision
        return self._answered(episode, decision)

    def _answered(self, episode: Episode, decision: Decision) -> Decision:
        if decision.answer is not Answer.APPROVE:
            return decision
        return replace(decision, seal=sealed(self.seals.answers, answer_text(episode, decision)))
