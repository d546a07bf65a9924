"""Loads questions as pages and the command line show them: one, those of one message, all that are
open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.alerts.alert import Delivery
from governor.domain.approvals.approval import Approval, ApprovalStatus, can_hold, can_hold_late
from governor.domain.approvals.messages import idle_text
from governor.domain.episode.episode import Episode
from governor.domain.episode.plan import Step
from governor.domain.history import measured_time
from governor.domain.instance import Target
from governor.domain.money.cost import cost_between
from governor.domain.policy.policy import Action, Mode
from governor.domain.units import Usd, UtcDatetime
from governor.errors import NotFound
from governor.ports import Clock
from governor.stores import StateTable


@dataclass(frozen=True, slots=True)
class IdleCost:
    """USD for the time that was measured idle, and for the time since that nobody measured."""

    measured_usd: Usd
    unmeasured_usd: Usd
    unmeasured: timedelta


@dataclass(frozen=True, slots=True)
class ApprovalView:
    approval: Approval
    episode: Episode
    now: UtcDatetime
    deliveries: Sequence[Delivery] = ()
    """Its messages, as the channels took them."""

    @property
    def can_decide(self) -> bool:
        return (
            self.approval.status is ApprovalStatus.PENDING and self.now < self.approval.expires_at
        )

    @property
    def can_hold(self) -> bool:
        return can_hold(self.episode, self.approval, self.now)

    @property
    def can_hold_late(self) -> bool:
        """Return whether EC2 was asked, and a hold counts if it does not carry out the call."""
        return can_hold_late(self.episode, self.approval, self.now)

    @property
    def takes_hold(self) -> bool:
        """Return whether there is something to hold, for certain or perhaps."""
        return self.can_hold or self.can_hold_late

    @property
    def usd_per_day(self) -> Usd | None:
        """Cost while it runs; of what is stopped, of its storage. `None`: not known."""
        price, saving = self.episode.price.usd_per_hour, self.episode.plan.saving
        hourly = price if self.episode.stopped_in is None else saving.cost_before_usd_per_hour
        return None if hourly is None else hourly * 24

    @property
    def is_question(self) -> bool:
        return self.episode.mode is Mode.ASK and self.episode.plan.action is not Action.NOTIFY_ONLY

    @property
    def idle_text(self) -> tuple[str, str]:
        """Return for how long it was measured idle: as a title says it, and as a sentence."""
        return idle_text(self.episode, self.now, is_open=self.can_decide or self.can_hold)

    @property
    def idle_cost(self) -> IdleCost | None:
        """Return what it has cost since it went idle: until it was stopped, or until now; `None`:
        not known. Holes, and the time after the question was opened, are counted apart."""
        idle, price, history = (
            self.episode.idle,
            self.episode.price.usd_per_hour,
            self.episode.history,
        )
        if idle is None or price is None or history is None:
            return None
        done = self.episode.steps_done if self.episode.mode is not Mode.OBSERVE else {}
        ends = [done[step] for step in (Step.STOP.value, Step.TERMINATE.value) if step in done]
        whole = max(timedelta(0), min([*ends, self.episode.closed_at or self.now]) - idle.since)
        measured = min(measured_time(history, idle.since), whole)
        rest = whole - measured
        at = idle.since
        return IdleCost(
            cost_between(price, at, at + measured), cost_between(price, at, at + rest), rest
        )


@dataclass(frozen=True, slots=True)
class ShowApproval:
    state: StateTable
    clock: Clock

    def __call__(self, approval_id: str) -> ApprovalView:
        """Return one question, with what became of its messages. Raises: NotFound."""
        approval = self.state.existing(approval_id)
        episode = self.state.episode(approval.episode)
        if episode is None:
            raise NotFound(f"approval {approval_id} does not exist")
        deliveries = self.state.deliveries(episode.ref.execution_name)
        return ApprovalView(approval, episode, self.clock.now(), tuple(deliveries))

    def digest(self, digest_id: str) -> list[ApprovalView]:
        """Return the questions that were asked in one message, in its order. Raises: NotFound."""
        approval_ids = self.state.digest(digest_id)
        if not approval_ids:
            raise NotFound(f"digest {digest_id} does not exist")
        return [self(approval_id) for approval_id in approval_ids]

    def several(self, asked: Mapping[str, str]) -> list[ApprovalView]:
        """Return the open ones of these (execution names by question ids), the most expensive
        first."""
        now = self.clock.now()
        views = [ApprovalView(*one, now) for one in self.state.questions(asked)]
        return by_price(
            view for view in views if view.takes_hold or (view.is_question and view.can_decide)
        )

    def open_in(self, targets: Sequence[Target]) -> list[ApprovalView]:
        """Return the open questions, and what can still be held, the most expensive first, unknown
        prices last. It reads locks and their questions: as many as there are idle instances."""
        now, found = self.clock.now(), []
        for target in targets:
            for record in self.state.records(target).values():
                episode = self.state.episode(record.open_episode) if record.open_episode else None
                approval = self.state.approval(episode.approval_id) if episode else None
                if episode is None or approval is None:
                    continue
                view = ApprovalView(approval, episode, now)
                if view.takes_hold or (
                    view.is_question and approval.status is ApprovalStatus.PENDING
                ):
                    found.append(view)
        return by_price(found)


def by_price(views: Iterable[ApprovalView]) -> list[ApprovalView]:
    return sorted(views, key=lambda view: -(view.episode.price.usd_per_hour or 0))
