"""Approvals: each is decided once, and a keep or an exemption holds from that moment."""

from __future__ import annotations

from datetime import datetime

from governor.adapters.table import keys
from governor.adapters.table.client import Document, Store, Write, absent, update, where
from governor.adapters.table.codec import moment, read_item, written
from governor.domain.approvals.approval import Approval, ApprovalStatus, Decision, hold_after, status_after
from governor.domain.sweep.verdict import NO_HOLD
from governor.errors import ConflictError, NotFound

_PENDING = where("status", "=", ApprovalStatus.PENDING.value)


class ApprovalStore(Store):
    """The port `Approvals`."""

    def approval(self, approval_id: str) -> Approval | None:
        item = self._table.get(keys.approval(approval_id))
        return read_item(Approval, item) if item else None

    def await_answer(
        self, approval_id: str, task_token: str | None, stage: str, expires_at: datetime
    ) -> Approval:
        asked = {"task_token": task_token, "stage": stage, "expires_at": moment(expires_at)}
        return self._noted(update(keys.approval(approval_id), asked, _PENDING), approval_id)

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        is_first = absent("first_yes") | where("first_yes", "=", None)
        noted = {"first_yes": written(decision)}
        return self._noted(update(keys.approval(approval_id), noted, _PENDING & is_first), approval_id)

    def _noted(self, note: Write, approval_id: str) -> Approval:
        try:
            return read_item(Approval, self._table.write(note))
        except ConflictError:
            return self._existing(approval_id)

    def settle(self, approval_id: str, decision: Decision, hold_until: datetime | None) -> Approval:
        approval = self._pending(approval_id)
        changes = {"status": status_after(decision.answer).value, "decision": written(decision)}
        writes = [update(keys.approval(approval_id), changes, _PENDING)]
        standing = written(hold_after(NO_HOLD, decision, hold_until))
        if holds := {name: value for name, value in standing.items() if value is not None}:
            key = keys.instance(approval.episode.target, approval.episode.instance_id)
            writes.append(update(key, holds))
        self._table.transact(*writes)
        return self._existing(approval_id)

    def void(self, approval_id: str, reason: str, *, expired: bool, outcome: str = "void") -> Approval:
        self._pending(approval_id)
        status = ApprovalStatus.EXPIRED if expired else ApprovalStatus.VOID
        changes: Document = {"status": status.value, "void_reason": reason, "void_outcome": outcome}
        self._table.transact(update(keys.approval(approval_id), changes, _PENDING))
        return self._existing(approval_id)

    def _pending(self, approval_id: str) -> Approval:
        """The approval, read before it is decided: spares a transaction that must fail."""
        approval = self._existing(approval_id)
        if approval.status is not ApprovalStatus.PENDING:
            raise ConflictError(f"approval {approval_id} is {approval.status.value} already")
        return approval

    def _existing(self, approval_id: str) -> Approval:
        approval = self.approval(approval_id)
        if approval is None:
            raise NotFound(f"there is no approval {approval_id}", operation="dynamodb:GetItem")
        return approval
