"""Loads what the approval page shows. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from governor.domain.alerts.delivery import Delivery
from governor.domain.approvals.approval import Approval, ApprovalStatus
from governor.domain.episode.episode import Episode
from governor.domain.episode.plan import Step
from governor.domain.history import IdleSpan, idle_span
from governor.domain.money.ledger import cost_between
from governor.domain.policy.policy import Action, Mode
from governor.domain.units import Usd, UtcDatetime
from governor.errors import NotFound
from governor.ports import Clock
from governor.stores import StateTable


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """The question with its episode, at one moment."""

    approval: Approval
    episode: Episode
    now: UtcDatetime
    deliveries: Sequence[Delivery] = ()
    """What became of its messages on their way through channels."""

    @property
    def can_decide(self) -> bool:
        """Whether an answer would be taken now."""
        return self.approval.status is ApprovalStatus.PENDING and self.now < self.approval.expires_at

    @property
    def is_question(self) -> bool:
        """Whether this episode asks at all, or only tells what is done."""
        return self.episode.mode is Mode.ASK and self.episode.plan.action is not Action.NOTIFY_ONLY

    @property
    def is_moving(self) -> bool:
        """Whether the record may still grow, so that the page follows it."""
        return not self.can_decide and self.episode.outcome is None

    @property
    def can_undo(self) -> bool:
        """Whether the instance was stopped by this episode and nobody had it started again."""
        return self.episode.has_stopped_it and self.episode.undone_at is None

    @property
    def idle(self) -> IdleSpan | None:
        """Since when it is known to be idle."""
        episode = self.episode
        if episode.history is None:
            return None
        return idle_span(episode.history, episode.idle_below_percent, episode.instance.launch_time)

    @property
    def cost_since_idle(self) -> Usd | None:
        """What it has cost since then: until it was put away, or until now. `None` when not known."""
        idle, price = self.idle, self.episode.price.usd_per_hour
        if idle is None or price is None:
            return None
        return cost_between(price, idle.since, self._runs_until)

    @property
    def _runs_until(self) -> UtcDatetime:
        done = self.episode.steps_done if self.episode.mode is not Mode.OBSERVE else {}
        put_away = [done[step] for step in (Step.STOP.value, Step.TERMINATE.value) if step in done]
        return min([*put_away, self.episode.closed_at or self.now])


@dataclass(frozen=True, slots=True)
class ShowApproval:
    """Reads the question and its episode."""

    state: StateTable
    clock: Clock

    def __call__(self, approval_id: str) -> ApprovalView:
        """Raises: NotFound."""
        approval = self.state.approval(approval_id)
        episode = self.state.episode(approval.episode) if approval else None
        if approval is None or episode is None:
            raise NotFound(f"approval {approval_id} does not exist")
        deliveries = self.state.deliveries(episode.ref.execution_name)
        return ApprovalView(approval, episode, self.clock.now(), tuple(deliveries))
