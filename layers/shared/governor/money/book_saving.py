"""Books an ended episode in the ledger, and ends its saving when the instance runs again or another
instance takes its place.

EC2's state of the instance decides, not the result of the workflow: a workflow that failed after
its stop has still stopped the instance. This module must not act on any instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from governor.alerts.model import Owner
from governor.core.errors import SafetyError
from governor.core.instance import Instance, Target
from governor.core.units import Usd, UsdPerHour, UtcDatetime
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Price, Saving, Step
from governor.episode.rules.plan import main_of, saving_of
from governor.evidence.ports import InstanceReader
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.rules.cost import cost_between
from governor.money.rules.ledger import (
    ENDED_WITHOUT_ACTION,
    billed_until,
    cash_of,
    is_false_stop,
    stops_booked_by,
    working_morning,
)
from governor.money.store.ledger import Ledger
from governor.policy.accounts import Accounts
from governor.policy.model.policy import Mode, Policy
from governor.policy.ports import Policies, policy_or_base

_GONE = ("shutting-down", "terminated")
_STOPPED = ("stopping", "stopped")


@dataclass(frozen=True, slots=True)
class BookSaving:
    """Makes the ledger entry of an episode. The caller stores it with the end of the episode."""

    policies: Policies
    accounts: Accounts
    instances: InstanceReader

    def __call__(self, episode: Episode, outcome: Outcome, now: UtcDatetime) -> LedgerEntry | None:
        """Return the entry of an ended episode; `None` if there is nothing to book, as after a
        failed episode whose instance runs on.

        The entry is not `ours` if nothing was done, or if others stopped or terminated the instance
        while its owner was asked. Raises: CloudError if EC2 cannot be read; SafetyError if the
        workflow says stopped, but the instance runs on.
        """
        # A stop by an earlier episode is booked already: a termination now adds only the storage
        # that it saves.
        episode = replace(episode, progress=replace(episode.progress, steps_done=episode.own_steps))
        if outcome in ENDED_WITHOUT_ACTION:
            return self._entry_without_saving(episode, outcome, (), now)
        if outcome in (Outcome.VOID, Outcome.INTERRUPTED) and not _was_call_made(episode):
            return self._entry_of_others(episode, outcome, now)
        final_outcome = self._final_outcome(episode, outcome)
        if final_outcome is None:
            return None
        policy = policy_or_base(self.policies, episode.instance)
        saving = _saving(episode, final_outcome, policy)
        # The saving begins with the request to EC2, not with the end of the workflow.
        first_step = Step.STOP if Step.STOP.value in episode.progress.steps_done else Step.TERMINATE
        booked_at = episode.progress.steps_done.get(first_step.value, now)
        return _entry(episode, final_outcome, booked_at, saving, now)

    def _entry_of_others(
        self, episode: Episode, outcome: Outcome, now: UtcDatetime
    ) -> LedgerEntry | None:
        """Return an entry that ends at once and saves zero, if others or EC2 stopped or terminated
        the instance. Return `None` if the question is void for another reason and the instance runs
        on. Raises: CloudError."""
        instance = self._described(episode)
        if instance is None or instance.state in _GONE:
            return self._entry_without_saving(episode, outcome, (Step.TERMINATE,), now)
        if outcome is Outcome.INTERRUPTED or instance.state in _STOPPED:
            return self._entry_without_saving(episode, outcome, (Step.STOP,), now)
        return None

    def _entry_without_saving(
        self, episode: Episode, outcome: Outcome, done: tuple[Step, ...], now: UtcDatetime
    ) -> LedgerEntry:
        """Return an entry that saves zero, with the costs before and after the steps `done`."""
        policy = policy_or_base(self.policies, episode.instance)
        saving = saving_of(episode.instance, episode.price, done, policy)
        zero = Decimal(0)
        return replace(
            _entry(episode, outcome, now, saving, now),
            saved_usd_per_hour=zero,
            cash_low_usd_per_hour=zero,
            cash_high_usd_per_hour=zero,
            ended_at=now,
            settled_at=now,
            ours=False,
        )

    def _final_outcome(self, episode: Episode, outcome: Outcome) -> Outcome | None:
        """Return how EC2 shows that this episode left the instance: stopped, terminated, or `None`
        for neither.

        Raises: CloudError; SafetyError if the workflow says stopped, but the instance runs on.
        """
        steps_done = episode.progress.steps_done
        if episode.mode is Mode.OBSERVE or not _was_call_made(episode):
            return None
        instance = self._described(episode)
        if instance is None or instance.state in _GONE:
            # If this episode did not ask for the termination, others did, and the saving is not
            # ours.
            return Outcome.TERMINATED if Step.TERMINATE.value in steps_done else None
        if Step.STOP.value not in steps_done:
            return None
        if not _runs_on(instance, episode):
            return Outcome.STOPPED
        if outcome is not Outcome.STOPPED:
            return None
        if not episode.is_undone:
            raise SafetyError("the workflow says stopped, but EC2 shows that the instance runs on")
        return Outcome.STOPPED

    def _described(self, episode: Episode) -> Instance | None:
        """Return the instance as EC2 shows it now; `None` if EC2 no longer knows it. Raises:
        CloudError."""
        ref = episode.ref
        target = self.accounts.target(ref.account, ref.region)
        return self.instances.describe(target, ref.instance_id)


def _runs_on(instance: Instance, episode: Episode) -> bool:
    """Return whether the instance still runs although its stop was noted. A stop is noted before
    EC2 is asked, and EC2 may refuse it.

    Return false if the instance was started again: then its launch time has changed, and the ledger
    settles the saving.
    """
    return instance.state == "running" and instance.launch_time == episode.ref.launch_time


def _entry(
    episode: Episode, outcome: Outcome, booked_at: UtcDatetime, saving: Saving, now: UtcDatetime
) -> LedgerEntry:
    """Return the open entry of an episode with this saving, in list prices and in cash."""
    instance = episode.instance
    price = episode.price
    saved_usd_per_hour = saving.saved_usd_per_hour
    cash_low, cash_high = _cash_saved(instance, price, saved_usd_per_hour)
    storage_usd_per_hour = None
    if saved_usd_per_hour is not None and price.usd_per_hour is not None:
        storage_usd_per_hour = price.usd_per_hour - saved_usd_per_hour
    return LedgerEntry(
        episode=episode.ref,
        outcome=outcome,
        instance_type=instance.instance_type,
        owner=episode.owner,
        project=episode.project,
        price_source=price.source,
        booked_at=booked_at,
        cost_before_usd_per_hour=_at_list_price(saving.cost_before_usd_per_hour, price),
        cost_after_usd_per_hour=saving.cost_after_usd_per_hour,
        saved_usd_per_hour=_at_list_price(saved_usd_per_hour, price),
        resource_name=instance.name,
        cash_low_usd_per_hour=cash_low,
        cash_high_usd_per_hour=cash_high,
        storage_usd_per_hour=storage_usd_per_hour,
        saves_from=billed_until(instance, booked_at),
        morning=working_morning(episode, booked_at),
        idle_usd=_idle_usd(episode, booked_at),
        recorded_at=now,
    )


def _cash_saved(
    instance: Instance, price: Price, saved_usd_per_hour: UsdPerHour | None
) -> tuple[UsdPerHour | None, UsdPerHour | None]:
    """Return the least and the most cash that an hour saves; `None` twice if the price is not
    known."""
    cash = cash_of(instance, price, is_committed=price.may_be_committed)
    if cash is None or saved_usd_per_hour is None or price.usd_per_hour is None:
        return None, None
    # Storage costs the same in cash as at list prices.
    storage_saved = saved_usd_per_hour - price.usd_per_hour
    return storage_saved + cash.low, storage_saved + cash.high


def _at_list_price(usd_per_hour: UsdPerHour | None, price: Price) -> UsdPerHour | None:
    """Return the amount without the policy's discount, as headlines are at list prices; `None` if
    it is not known."""
    if usd_per_hour is None:
        return None
    discount = (price.undiscounted or Decimal(0)) - (price.usd_per_hour or Decimal(0))
    return usd_per_hour + discount


def _idle_usd(episode: Episode, booked_at: UtcDatetime) -> Usd | None:
    """Return the cost of the instance while it was idle, or `None` if its price is not known."""
    if episode.price.usd_per_hour is None:
        return None
    idle = episode.idle
    idle_since = episode.measurement.evidence.window.start if idle is None else idle.since
    return cost_between(episode.price.usd_per_hour, idle_since, booked_at)


def _was_call_made(episode: Episode) -> bool:
    """Return whether this episode noted a call to stop or terminate the instance. Snapshots do not
    count."""
    return (
        Step.STOP.value in episode.progress.steps_done
        or Step.TERMINATE.value in episode.progress.steps_done
    )


def _saving(episode: Episode, outcome: Outcome, policy: Policy) -> Saving:
    """Return the saving of the steps that EC2 has carried out. A noted step alone proves nothing:
    it is noted before EC2 is asked."""
    plan = episode.plan
    is_done = {
        Step.STOP: Step.STOP.value in episode.progress.steps_done,
        Step.SNAPSHOT: bool(episode.progress.snapshots),
        Step.TERMINATE: outcome is Outcome.TERMINATED,
    }
    done = tuple(step for step in plan.steps if is_done[main_of(plan.steps, step)])
    if done == plan.steps:
        # The amount that people were shown.
        return plan.saving
    return saving_of(episode.instance, episode.price, done, policy)


def settle_restart(
    ledger_store: Ledger,
    entries: Sequence[LedgerEntry],
    at: UtcDatetime,
    false_within: timedelta,
    now: UtcDatetime,
) -> list[str]:
    """End the savings of an instance that was started again at `at`, if they were booked before.

    Return a text for each that this call has ended; empty if there is none. Raises: CloudError.
    """
    done = []
    for entry in stops_booked_by(entries, at):
        is_undone = is_false_stop(entry, at, false_within)
        ending = Ending.UNDONE if is_undone else Ending.STARTED
        if ledger_store.settle_entry(entry, at, ending, now):
            done.append("false stop booked" if is_undone else "saving settled")
    return done


def settle_replaced(
    ledger_store: Ledger,
    targets: Iterable[Target],
    started: Iterable[tuple[Instance, Owner]],
    now: UtcDatetime,
) -> None:
    """End one saving for each instance that `started` for the first time, if there is one.

    That is the oldest saving of the same owner, project and type in these targets, of an instance
    that was stopped or terminated before the start. Safe to repeat. Raises: CloudError.
    """
    savings: list[LedgerEntry] = []
    for target in targets:
        for entry in ledger_store.open_of(target):
            if entry.acted and not entry.is_of_storage:
                savings.append(entry)
    savings.sort(key=lambda entry: entry.booked_at)
    for instance, owner in started:
        replaced = _replaced_by(instance, owner, savings)
        if replaced is not None:
            savings.remove(replaced)
            ledger_store.settle_entry(
                replaced, instance.launch_time, Ending.REPLACED, now, by=instance.instance_id
            )


def _replaced_by(
    instance: Instance, owner: Owner, savings: Sequence[LedgerEntry]
) -> LedgerEntry | None:
    """Return the first of the savings whose instance this one may replace, or `None`."""
    wanted = (instance.instance_type, owner.name, owner.project)
    for entry in savings:
        is_alike = (entry.instance_type, entry.owner, entry.project) == wanted
        is_before = entry.booked_at < instance.launch_time
        is_same_instance = entry.episode.instance_id == instance.instance_id
        if is_alike and is_before and not is_same_instance:
            return entry
    return None
