"""Loads questions as pages and the command line show them: one, those of one message, or all open
ones. This module only reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from governor.alerts.delivery import Delivery
from governor.alerts.store import Deliveries
from governor.approvals.messages.consequence import consequence_of_question
from governor.approvals.messages.sentences import IdleText, idle_text
from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.rules.after_stop import AfterStop, after_stop, can_be_started
from governor.approvals.rules.approval import acts_soon, can_hold, can_hold_late, was_not_answered
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, NotFound
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import Usd, UtcDatetime, daily_cost
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Step
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.rules.history import measured_time
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import cost_between
from governor.money.store.ledger import Ledger
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IdleCost:
    """The cost of the time that was measured idle, and of the time that was not measured, with the
    length of the latter."""

    measured_usd: Usd
    unmeasured_usd: Usd
    unmeasured: timedelta


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """A question with its episode, and what can be done with it now."""

    approval: Approval
    episode: Episode
    now: UtcDatetime
    deliveries: Sequence[Delivery] = ()
    """The deliveries of its messages."""
    after_stop: AfterStop | None = None
    """The end of the episode's stop; `None` if the instance is still stopped, or if that end
    was not read."""

    @property
    def can_be_started(self) -> bool:
        """Return whether people may have the stopped instance started again: nobody has started or
        terminated it since."""
        return can_be_started(self.episode, self.after_stop)

    @property
    def can_decide(self) -> bool:
        """Return whether the question is open, and not past its time to answer."""
        return self.approval.is_open(self.now)

    @property
    def can_hold(self) -> bool:
        """Return whether somebody can hold the plan now: it would act, nobody holds it, and EC2 was
        not called for its final step yet."""
        return can_hold(self.episode, self.approval, self.now)

    @property
    def can_hold_late(self) -> bool:
        """Return whether somebody can hold the plan although the call to EC2 for its final step was
        sent. Such a hold counts only if EC2 does not carry out the call."""
        return can_hold_late(self.episode, self.approval, self.now)

    @property
    def takes_hold(self) -> bool:
        """Return whether a hold may still have an effect, now or because a call to EC2 may come to
        nothing."""
        return self.can_hold or self.can_hold_late

    @property
    def acts_soon(self) -> bool:
        """Return whether nobody answered in time, and the plan is carried out unless somebody holds
        it now."""
        return acts_soon(self.episode, self.approval, self.now)

    @property
    def acts_unanswered(self) -> bool:
        """Return whether the plan is carried out if nobody answers the open question, or soon
        because nobody did. `silence` says so then."""
        return self.acts_soon or (self.can_decide and self.episode.asking.acts_on_silence)

    @property
    def was_not_answered(self) -> bool:
        """Return whether the time to answer is over without an answer, or without a second
        approval."""
        return was_not_answered(self.episode, self.approval, self.now)

    @property
    def usd_per_day(self) -> Usd | None:
        """Return the cost of the running instance a day, or of its storage if an earlier episode
        has stopped it. `None` if that is not known."""
        usd_per_hour = self.episode.price.usd_per_hour
        if self.episode.stopped_by_episode is not None:
            usd_per_hour = self.episode.plan.saving.cost_before_usd_per_hour
        if usd_per_hour is None:
            return None
        return daily_cost(usd_per_hour)

    @property
    def silence(self) -> str:
        """Return what happens to the instance if nobody answers the open question, and when, as its
        messages say it; or what happens soon because nobody answered."""
        return consequence_of_question(self.episode, self.approval, self.now).sentence

    @property
    def is_question(self) -> bool:
        """Return whether people are asked, rather than only notified."""
        return self.episode.mode is Mode.ASK and self.episode.plan.action is not Action.NOTIFY_ONLY

    @property
    def idle_text(self) -> IdleText:
        """Return for how long the instance has been idle, as a title, a sentence and a predicate.
        While the question or its notice is open, it counts as idle up to now."""
        return idle_text(self.episode, self.now, is_open=self.can_decide or self.can_hold)

    @property
    def idle_cost(self) -> IdleCost | None:
        """Return the cost of the instance since it turned idle, until it was stopped or until now.

        Return `None` if the beginning, the price or the past readings are not known. Times without
        a reading, and the time after the question was opened, are counted as unmeasured.
        """
        idle = self.episode.idle
        usd_per_hour = self.episode.price.usd_per_hour
        history = self.episode.measurement.history
        if idle is None or usd_per_hour is None or history is None:
            return None
        since = idle.since
        idle_time = max(timedelta(0), self._ran_until - since)
        measured = min(measured_time(history, since), idle_time)
        unmeasured = idle_time - measured
        return IdleCost(
            measured_usd=cost_between(usd_per_hour, since, since + measured),
            unmeasured_usd=cost_between(usd_per_hour, since, since + unmeasured),
            unmeasured=unmeasured,
        )

    @property
    def _ran_until(self) -> UtcDatetime:
        """Return when the instance stopped running: the first of its stop, its termination and the
        episode's end; now if none of these came. In mode observe nothing is stopped, so only the
        end counts."""
        steps_done = self.episode.progress.steps_done
        ending = self.episode.ending
        ends = [self.now if ending is None else ending.at]
        if self.episode.mode is not Mode.OBSERVE:
            final_steps = (Step.STOP.value, Step.TERMINATE.value)
            for step in final_steps:
                if step in steps_done:
                    ends.append(steps_done[step])
        return min(ends)


@dataclass(frozen=True, slots=True)
class ShowApproval:
    """Loads questions with their episodes."""

    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    delivery_store: Deliveries
    ledger_store: Ledger
    clock: Clock

    def __call__(self, approval_id: str) -> ApprovalView:
        """Return one question, with the deliveries of its messages. Raises: NotFound if there is no
        such question; CloudError."""
        approval = self.approval_store.existing(approval_id)
        episode = self.episode_store.episode(approval.episode)
        if episode is None:
            raise NotFound(f"approval {approval_id} does not exist")
        deliveries = self.delivery_store.deliveries(episode.ref.execution_name)
        return ApprovalView(approval, episode, self.clock.now(), tuple(deliveries))

    def record(self, approval_id: str) -> ApprovalView:
        """Return one question as calling this does, with what became of the instance after a stop.
        Raises: NotFound if there is no such question; CloudError."""
        view = self(approval_id)
        return replace(view, after_stop=self.after_stop(view.episode))

    def after_stop(self, episode: Episode) -> AfterStop | None:
        """Return what ended the stop of an episode; `None` if it stopped nothing, or the instance
        is still stopped as far as is known. Raises: CloudError."""
        return after_stop(episode, self._end_of_stop(episode, self.clock.now()))

    def _end_of_stop(self, episode: Episode, now: UtcDatetime) -> LedgerEntry | None:
        """Return the ledger's entry by which the stop of a closed episode has ended. Return `None`
        if it has not, if the episode stopped nothing, or if it terminated the instance or was
        undone, which it says itself. Raises: CloudError."""
        stopped_at = episode.own_steps.get(Step.STOP.value)
        may_be_stopped = episode.became is Outcome.STOPPED and not episode.is_undone
        if stopped_at is None or not may_be_stopped:
            return None
        start_try = episode.start_try
        fell_back = None
        if start_try is not None and start_try.ran_and_fell_back:
            fell_back = start_try
        return self.ledger_store.end_of_stop(episode.ref, stopped_at, now, fell_back=fell_back)

    def digest(self, digest_id: str) -> list[ApprovalView]:
        """Return the questions that were asked in one message, in its order, each as `record`
        returns it. Raises: NotFound if there is no such message, or one of its questions is gone;
        CloudError.

        If the ledger cannot be read, the end of a stop is missing: it must not keep people from
        answering the other questions.
        """
        approval_ids = self.delivery_store.digest(digest_id)
        if not approval_ids:
            raise NotFound(f"digest {digest_id} does not exist")
        views: list[ApprovalView] = []
        for approval_id in approval_ids:
            view = self(approval_id)
            try:
                view = replace(view, after_stop=self.after_stop(view.episode))
            except CloudError:
                _log.exception("the end of the stop of %s was not read", approval_id)
            views.append(view)
        return views

    def several(self, asked: Mapping[str, str]) -> list[ApprovalView]:
        """Return those of the questions that are open, or can still be held, the most expensive
        first; empty if there are none.

        `asked` has the execution name of the episode by the id of the question. Questions that do
        not exist are left out. No deliveries are read. Raises: CloudError, also if a record is
        damaged.
        """
        now = self.clock.now()
        views: list[ApprovalView] = []
        for approval, episode in self.approval_store.questions(asked):
            view = ApprovalView(approval, episode, now)
            if view.takes_hold or (view.is_question and view.can_decide):
                views.append(view)
        return by_price(views)

    def open_in(self, targets: Sequence[Target]) -> list[ApprovalView]:
        """Return the questions of these targets that are pending, or can still be held, the most
        expensive first; empty if there are none.

        A question past its time to answer is pending until its expiry is stored. Unknown prices
        come last. One episode and one question are read for each instance with an open episode; no
        deliveries are. Raises: CloudError.
        """
        now = self.clock.now()
        views: list[ApprovalView] = []
        for target in targets:
            for record in self.instance_store.records(target).values():
                view = self._view(record.open_episode, now)
                if view is None:
                    continue
                is_pending = view.approval.status is ApprovalStatus.PENDING
                if view.takes_hold or (view.is_question and is_pending):
                    views.append(view)
        return by_price(views)

    def _view(self, ref: EpisodeRef | None, now: UtcDatetime) -> ApprovalView | None:
        """Return the question of an episode; `None` if `ref` is `None`, or either does not exist.
        Raises: CloudError."""
        episode = None if ref is None else self.episode_store.episode(ref)
        if episode is None:
            return None
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None:
            return None
        return ApprovalView(approval, episode, now)


def by_price(views: Iterable[ApprovalView]) -> list[ApprovalView]:
    """Return the questions, the most expensive first; those with unknown prices come last. Of the
    same price, the one with the least time left comes first."""
    return sorted(views, key=_price_and_deadline)


def _price_and_deadline(view: ApprovalView) -> tuple[Decimal, UtcDatetime]:
    """Return a sort key: the most expensive first, then the earliest deadline. An unknown price
    counts as 0."""
    usd_per_hour = view.episode.price.usd_per_hour or Decimal(0)
    return -usd_per_hour, view.approval.deadline
