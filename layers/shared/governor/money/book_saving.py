"""Books the saving of an ended episode in the ledger, and ends it when the instance is restarted or
another instance takes its place.

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
from governor.episode.model.episode import Episode, Outcome, Restart
from governor.episode.model.plan import Price, Saving, Step
from governor.episode.rules.plan import main_of
from governor.episode.rules.plan_effects import saving_of
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.money.model.ledger import Cash, Ending, LedgerEntry
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

_STOPPED = ("stopping", "stopped")


@dataclass(frozen=True, slots=True)
class BookSaving:
    """Makes the ledger entry of an episode, and writes nothing: the entry is stored with the end of
    the episode."""

    policies: Policies
    accounts: Accounts
    instances: InstanceReader

    def __call__(self, episode: Episode, outcome: Outcome, now: UtcDatetime) -> LedgerEntry | None:
        """Return the entry of an episode that ends with this outcome. Return `None` if there is
        nothing to book: the instance runs on, or others terminated it after this episode only
        asked EC2 for a stop.

        The entry is not `ours` if nothing was done, or if others or EC2 stopped or terminated the
        instance. Raises: ConfigurationError without a role in its account; CloudError if EC2 cannot
        be read; SafetyError if the workflow says stopped, but the instance runs on.
        """
        # The stop by an earlier episode is booked already, so a termination now saves only storage.
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
        """Return an entry that saves zero, and has ended, if others or EC2 stopped or terminated
        the instance. Return `None` if the instance runs on.

        Call it only for an episode that made no call to EC2. Raises: ConfigurationError without a
        role in its account; CloudError if EC2 cannot be read.
        """
        instance = self._described(episode)
        if instance is None or instance.is_gone:
            return self._entry_without_saving(episode, outcome, (Step.TERMINATE,), now)
        if outcome is Outcome.INTERRUPTED or instance.state in _STOPPED:
            return self._entry_without_saving(episode, outcome, (Step.STOP,), now)
        return None

    def _entry_without_saving(
        self, episode: Episode, outcome: Outcome, done: tuple[Step, ...], now: UtcDatetime
    ) -> LedgerEntry:
        """Return an entry that is not ours, saves zero and has ended `now`. It shows the costs an
        hour before and after the steps `done`, which others took."""
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
        """Return what this episode did to the instance, as EC2 shows it now: `STOPPED` or
        `TERMINATED`.

        Return `None` if it did neither: no call was made or had an effect, or others terminated the
        instance. Raises: ConfigurationError without a role in its account; CloudError if EC2 cannot
        be read; SafetyError if `outcome` is `STOPPED`, but the instance runs on and nobody has
        undone the stop.
        """
        steps_done = episode.progress.steps_done
        if episode.mode is Mode.OBSERVE or not _was_call_made(episode):
            return None
        instance = self._described(episode)
        if instance is None or instance.is_gone:
            # If this episode did not ask EC2 for the termination, others did.
            return Outcome.TERMINATED if Step.TERMINATE.value in steps_done else None
        if Step.STOP.value not in steps_done:
            return None
        if not _runs_on(instance, episode):
            return Outcome.STOPPED
        if outcome is not Outcome.STOPPED:
            return None
        if not (episode.is_undone or episode.is_starting):
            raise SafetyError("the workflow says stopped, but EC2 shows that the instance runs on")
        return Outcome.STOPPED

    def _described(self, episode: Episode) -> Instance | None:
        """Return the instance as EC2 shows it now; `None` if EC2 no longer knows it. Raises:
        ConfigurationError without a role in its account; CloudError."""
        ref = episode.ref
        target = self.accounts.target(ref.account, ref.region)
        return self.instances.describe(target, ref.instance_id)


def _runs_on(instance: Instance, episode: Episode) -> bool:
    """Return whether the instance still runs, since the same start as when the episode was opened:
    EC2 has refused the stop, which is noted before EC2 is asked.

    Return false if the instance was started again: it was stopped in between.
    """
    return instance.state == "running" and instance.launch_time == episode.ref.launch_time


def _entry(
    episode: Episode, outcome: Outcome, booked_at: UtcDatetime, saving: Saving, now: UtcDatetime
) -> LedgerEntry:
    """Return an open entry of an episode with this saving an hour, at list prices and in cash.

    `booked_at` is when the saving begins, and `now` when the entry is written. Amounts are `None`
    if the price is not known.
    """
    instance = episode.instance
    price = episode.price
    saved_usd_per_hour = saving.saved_usd_per_hour
    cash = _cash_saved(instance, price, saved_usd_per_hour)
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
        cash_low_usd_per_hour=None if cash is None else cash.low,
        cash_high_usd_per_hour=None if cash is None else cash.high,
        storage_usd_per_hour=storage_usd_per_hour,
        saves_from=billed_until(instance, booked_at),
        morning=working_morning(episode, booked_at),
        idle_usd=_idle_usd(episode, booked_at),
        recorded_at=now,
    )


def _cash_saved(
    instance: Instance, price: Price, saved_usd_per_hour: UsdPerHour | None
) -> Cash | None:
    """Return the least and the most cash that an hour saves, storage included; `None` if the price
    is not known."""
    cash = cash_of(instance, price, is_committed=price.may_be_committed)
    if cash is None or saved_usd_per_hour is None or price.usd_per_hour is None:
        return None
    # Storage costs the same in cash as at list prices. This is below zero if storage is kept.
    saved_by_storage = saved_usd_per_hour - price.usd_per_hour
    return Cash(saved_by_storage + cash.low, saved_by_storage + cash.high)


def _at_list_price(usd_per_hour: UsdPerHour | None, price: Price) -> UsdPerHour | None:
    """Return an amount per hour of the instance with the policy's discount on an hour added again,
    so that it is at AWS's list price; `None` if it is not known."""
    if usd_per_hour is None:
        return None
    discount = (price.undiscounted or Decimal(0)) - (price.usd_per_hour or Decimal(0))
    return usd_per_hour + discount


def _idle_usd(episode: Episode, booked_at: UtcDatetime) -> Usd | None:
    """Return the cost of the instance from the start of its idleness, or if that is not known from
    the start of the judged window, to `booked_at`; `None` if its price is not known."""
    if episode.price.usd_per_hour is None:
        return None
    idle = episode.idle
    idle_since = episode.measurement.evidence.window.start if idle is None else idle.since
    return cost_between(episode.price.usd_per_hour, idle_since, booked_at)


def _was_call_made(episode: Episode) -> bool:
    """Return whether this episode noted that it asks EC2 to stop or terminate the instance.
    Snapshots do not count."""
    return (
        Step.STOP.value in episode.progress.steps_done
        or Step.TERMINATE.value in episode.progress.steps_done
    )


def _saving(episode: Episode, outcome: Outcome, policy: Policy) -> Saving:
    """Return the saving an hour of the steps of the plan that EC2 has carried out. `outcome` is
    what the episode did to the instance, `STOPPED` or `TERMINATED`."""
    plan = episode.plan
    # A termination is noted before EC2 is asked, so the note alone proves nothing.
    is_done = {
        Step.STOP: Step.STOP.value in episode.progress.steps_done,
        Step.SNAPSHOT: bool(episode.progress.snapshots),
        Step.TERMINATE: outcome is Outcome.TERMINATED,
    }
    steps_carried_out: list[Step] = []
    for step in plan.steps:
        # A companion was carried out with its main step.
        if is_done[main_of(plan.steps, step)]:
            steps_carried_out.append(step)
    done = tuple(steps_carried_out)
    if done == plan.steps:
        # The amount that people were shown.
        return plan.saving
    return saving_of(episode.instance, episode.price, done, policy)


@dataclass(frozen=True, slots=True)
class SettleRestart:
    """Ends the savings of an instance that was restarted, and notes who started it: others, or GPU
    Governor for a person. Safe to repeat: each start is noted once."""

    ledger_store: Ledger
    episode_store: Episodes
    instance_store: Instances

    def __call__(
        self,
        entries: Sequence[LedgerEntry],
        at: UtcDatetime,
        false_within: timedelta,
        now: UtcDatetime,
    ) -> list[str]:
        """End the savings of an instance that was started again at `at`: those of its open
        `entries` that are stops booked before. If the start was not ours, note it in the record of
        the instance.

        A stop undone within `false_within` is booked as a false stop. Return a text for each saving
        that this call has ended; empty if there is none, or another call was first. Raises:
        CloudError.
        """
        done = []
        for entry in stops_booked_by(entries, at):
            # Noted first: if only that succeeds, the saving is still open, and this is repeated.
            if not self._was_start_asked_of_us(entry, at):
                self.instance_store.note_restart(Restart(entry.episode, at))
            if is_false_stop(entry, at, false_within):
                ending = Ending.UNDONE
                text = "false stop booked"
            else:
                ending = Ending.STARTED
                text = "saving settled"
            has_ended_it = self.ledger_store.settle_entry(entry, at, ending, now)
            if has_ended_it:
                done.append(text)
        return done

    def _was_start_asked_of_us(self, entry: LedgerEntry, at: UtcDatetime) -> bool:
        """Return whether a person had GPU Governor start the instance after the stop of this entry:
        the episode was undone, or its last try explains a start at `at`. Return false if the
        episode is gone. Raises: CloudError."""
        episode = self.episode_store.episode(entry.episode)
        if episode is None:
            return False
        start_try = episode.start_try
        is_by_our_try = start_try is not None and start_try.explains_start(at)
        return episode.is_undone or is_by_our_try


@dataclass(frozen=True, slots=True)
class ContinueSaving:
    """Goes on with the saving of a stop after a start that ran and fell back: the instance stopped
    again, so the stop saves again. Safe to repeat: each such start is booked once.

    The minutes for which the instance ran save nothing, nor do those until it was seen stopped.
    """

    ledger_store: Ledger
    settle: SettleRestart

    def __call__(
        self, episode: Episode, instance: Instance, false_within: timedelta, now: UtcDatetime
    ) -> bool:
        """Book what the stop of this episode saves from when its last start fell back, and return
        true. `instance` is as EC2 shows it now, stopped.

        Return false, with nothing booked, if the start did not run and fall back, the stop saved
        nothing then, another instance has its place, or it is booked already. The newest entry of
        the episode decides: another instance may have taken the place after an earlier start.
        Raises: CloudError.
        """
        start_try = episode.start_try
        stopped_at = episode.progress.steps_done.get(Step.STOP.value)
        if start_try is None or start_try.ended_at is None or stopped_at is None:
            return False
        if not start_try.ran_and_fell_back:
            return False
        # The event of the start should have ended the saving. It may be lost, or come late.
        entries = self.ledger_store.open_entries(instance.target, instance.instance_id)
        self.settle(entries, instance.launch_time, false_within, now)
        newest = self.ledger_store.newest_of(episode.ref, stopped_at, instance.launch_time, now)
        if newest is None or newest.ended not in (Ending.STARTED, Ending.UNDONE):
            return False
        fell_back_at = start_try.ended_at
        continued = replace(
            newest,
            booked_at=fell_back_at,
            first_booked_at=newest.stopped_at,
            saves_from=billed_until(instance, fell_back_at),
            idle_usd=Decimal(0),
            recorded_at=now,
            ended_at=None,
            ended=None,
            false_stop=False,
            settled_at=None,
            # Only a correction itself has this time. The bill's figures stay.
            corrected_at=None,
        )
        return self.ledger_store.book(continued)


def settle_replaced(
    ledger_store: Ledger,
    targets: Iterable[Target],
    started: Iterable[tuple[Instance, Owner]],
    now: UtcDatetime,
) -> None:
    """End one saving for each instance that `started` for the first time, each given with its
    owner; do nothing for an instance that replaces none.

    The saving is the oldest of the same owner, project and type in these targets, of another
    instance that was stopped or terminated before the start. Safe to repeat. Raises: CloudError.
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
    """Return the first of these savings whose instance this one may replace: another instance of
    the same type, owner and project, stopped or terminated before this one's start. Return `None`
    if there is none."""
    wanted = (instance.instance_type, owner.name, owner.project)
    for entry in savings:
        is_alike = (entry.instance_type, entry.owner, entry.project) == wanted
        is_before = entry.booked_at < instance.launch_time
        is_same_instance = entry.episode.instance_id == instance.instance_id
        if is_alike and is_before and not is_same_instance:
            return entry
    return None
