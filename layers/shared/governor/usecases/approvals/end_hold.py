"""Ends what keeps an instance from being asked about, before its time: a keep, or an exemption."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.approvals.approval import ApprovalStatus
from governor.domain.instance import Target
from governor.errors import ConflictError, DecisionRefused
from governor.ports import Clock
from governor.stores import StateTable


@dataclass(frozen=True, slots=True)
class EndHold:
    """Takes a keep and an exemption off in one write, with who did it. A tag that exempts stays."""

    state: StateTable
    clock: Clock

    def __call__(self, target: Target, instance_id: str, by: str) -> None:
        """Raises: DecisionRefused where nothing holds it, or somebody has just held it for longer."""
        now, hold = self.clock.now(), self.state.record(target, instance_id).hold
        is_kept = hold.snoozed_until is not None and hold.snoozed_until > now
        if not is_kept and hold.exempt_reason is None:
            raise DecisionRefused("nothing holds this instance: no keep and no exemption is stored")
        try:
            self.state.end_hold(target, instance_id, hold, by, now)
        except ConflictError:
            why = "somebody has held it anew this moment: look at it again"
            raise DecisionRefused(why, status=ApprovalStatus.PENDING.value) from None
