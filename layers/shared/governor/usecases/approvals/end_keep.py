"""Ends what keeps an instance from being asked about, before its time: a keep, or an exemption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from governor.domain.alerts.alert import short_hash
from governor.domain.approvals.terms import Role, may_end_keep
from governor.domain.instance import Target
from governor.domain.sweep.verdict import Hold
from governor.errors import ConflictError, DecisionRefused, NotAllowed
from governor.ports import Clock
from governor.stores import StateTable
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ApprovalView


@dataclass(frozen=True, slots=True)
class EndKeep:
    """One's own keep, and as an approver whom the policy knows any."""

    decide: Decide

    def __call__(self, view: ApprovalView, by: str, person: str | None, role: Role) -> None:
        """End the keep of this record.

        Raises:
            NotAllowed: it is somebody else's, and this person is no approver.
            DecisionRefused: it is over, or another keep stands by now.
        """
        approval, now = view.approval, self.decide.clock.now()
        kept = approval.lasting_keep(now)
        if kept is None:
            raise DecisionRefused("there is no keep to end: it is over", status=approval.status.value)
        if not may_end_keep(self.decide.terms_now(view.episode), role, kept, person):
            raise NotAllowed("only the person who kept it, or an approver by their own link, may end that")
        try:
            self.decide.state.end_keep(approval, kept, by, now)
        except ConflictError:
            why = "somebody has kept it for longer, or has ended this keep, meanwhile"
            raise DecisionRefused(why, status=approval.status.value) from None


@dataclass(frozen=True, slots=True)
class EndHold:
    """An instance's keep and exemption in one write, with who did it. A tag that exempts stays."""

    state: StateTable
    clock: Clock

    def __call__(
        self, target: Target, instance_id: str, by: str, shown: str, may: Callable[[Hold], bool]
    ) -> None:
        """End the hold that `key_of` named so. Raises: DecisionRefused where none stands, or another one."""
        now, hold = self.clock.now(), self.state.record(target, instance_id).hold
        if not hold.stands(now):
            raise DecisionRefused("nothing holds this instance: no keep and no exemption is stored")
        if not may(hold):
            raise NotAllowed("only an admin of it may end a keep or an exemption (console.scopes)")
        try:
            if key_of(hold) != shown:
                raise ConflictError("another hold than the page showed")
            self.state.end_hold(target, instance_id, hold, by, now)
        except ConflictError:
            why = "somebody has held it anew since this page was made: open the instance again"
            raise DecisionRefused(why) from None


def key_of(hold: Hold) -> str:
    """Name a hold, so that a page ends the one that it showed, and none that came later."""
    return short_hash(str(hold.snoozed_until), str(hold.exempt_reason))
