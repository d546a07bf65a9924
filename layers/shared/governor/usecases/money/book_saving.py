"""Books an ended episode in the ledger, by what EC2 shows: a flow that fails after its stop has
still stopped the instance. Ends its saving when the instance runs again, or another one in its
place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from governor.domain.alerts.alert import Owner
from governor.domain.episode.episode import Episode, Outcome
from governor.domain.episode.plan import Saving, Step, main_of, saving_of
from governor.domain.instance import Instance, Target
from governor.domain.money.cost import cost_between
from governor.domain.money.ledger import (
    ENDED_WITHOUT_ACTION,
    Ending,
    LedgerEntry,
    billed_until,
    cash_of,
    ended_by,
    is_false_stop,
    working_morning,
)
from governor.domain.policy.policy import Mode, Policy
from governor.domain.units import UtcDatetime
from governor.errors import SafetyError
from governor.ports import InstanceReader, Policies, policy_or_base
from governor.stores import Ledger
from governor.usecases.accounts import Accounts

_GONE = ("shutting-down", "terminated")
_STOPPED = ("stopping", "stopped")


@dataclass(frozen=True, slots=True)
class BookSaving:
    """Makes the ledger entry of an episode; storing it is the close's part."""

    policies: Policies
    accounts: Accounts
    instances: InstanceReader

    def __call__(self, episode: Episode, outcome: Outcome, now: UtcDatetime) -> LedgerEntry | None:
        """The entry, not ours where nothing was done, or others put it away while its owner was
        asked; `None` where neither people nor the mode have decided."""
        # A stop before is booked: what a termination adds is the storage that it saves.
        episode = replace(episode, steps_done=episode.own_steps)
        if outcome in ENDED_WITHOUT_ACTION:
            return self._nothing_saved(episode, outcome, (), now)
        if outcome in (Outcome.VOID, Outcome.INTERRUPTED) and not _put_away(episode):
            return self._not_ours(episode, outcome, now)
        became = self._became(episode, outcome)
        if became is None:
            return None
        saving = _saving(episode, became, policy_or_base(self.policies, episode.instance))
        # From the moment EC2 stopped charging as asked: the first step, not its bookkeeping.
        first = Step.STOP if Step.STOP.value in episode.steps_done else Step.TERMINATE
        return _entry(episode, became, episode.steps_done.get(first.value, now), saving, now)

    def _not_ours(self, episode: Episode, outcome: Outcome, now: UtcDatetime) -> LedgerEntry | None:
        """Return what others or EC2 did is on the bill, but no saving of ours: zero, ended at
        once."""
        instance = self._instance(episode)
        gone = instance is None or instance.state in _GONE
        if not (
            gone or outcome is Outcome.INTERRUPTED or (instance and instance.state in _STOPPED)
        ):
            return None  # void for another reason; the instance runs on
        return self._nothing_saved(episode, outcome, (Step.TERMINATE if gone else Step.STOP,), now)

    def _nothing_saved(
        self, episode: Episode, outcome: Outcome, done: tuple[Step, ...], now: UtcDatetime
    ) -> LedgerEntry:
        policy = policy_or_base(self.policies, episode.instance)
        bill = saving_of(episode.instance, episode.price, done, policy)
        zero = Decimal(0)
        return replace(
            _entry(episode, outcome, now, bill, now),
            saved_usd_per_hour=zero,
            cash_low_usd_per_hour=zero,
            cash_high_usd_per_hour=zero,
            ended_at=now,
            settled_at=now,
            ours=False,
        )

    def _became(self, episode: Episode, outcome: Outcome) -> Outcome | None:
        done = episode.steps_done
        if episode.mode is Mode.OBSERVE or not _put_away(episode):
            return None
        instance = self._instance(episode)
        if instance is None or instance.state in _GONE:
            # Gone without our asking for it is somebody else's deed, and saves nothing of ours from
            # now on.
            return Outcome.TERMINATED if Step.TERMINATE.value in done else None
        if Step.STOP.value not in done:
            return None
        # A stop is noted before it is asked for. One that was refused left the instance as it was;
        # what was started anew has another launch time, and the ledger settles that.
        left_running = (
            instance.state == "running" and instance.launch_time == episode.ref.launch_time
        )
        if left_running and outcome is Outcome.STOPPED and episode.undone_by is None:
            raise SafetyError("the workflow says stopped, but EC2 shows that the instance runs on")
        return None if left_running and outcome is not Outcome.STOPPED else Outcome.STOPPED

    def _instance(self, episode: Episode) -> Instance | None:
        ref = episode.ref
        return self.instances.describe(
            self.accounts.target(ref.account, ref.region), ref.instance_id
        )


def _entry(
    episode: Episode, outcome: Outcome, booked_at: UtcDatetime, saving: Saving, now: UtcDatetime
) -> LedgerEntry:
    instance, price, saved = episode.instance, episode.price, saving.saved_usd_per_hour
    cash = cash_of(instance, price, is_committed=price.may_be_committed)
    # What the storage costs is the same in cash as at list prices.
    low, high = (
        (None, None)
        if saved is None or cash is None or price.usd_per_hour is None
        else (saved - price.usd_per_hour + cash.low, saved - price.usd_per_hour + cash.high)
    )
    idle, hourly, before = episode.idle, price.usd_per_hour, saving.cost_before_usd_per_hour
    # The headline is at list prices, whatever discount the policy takes off.
    discount = (price.undiscounted or Decimal(0)) - (hourly or Decimal(0))
    since = idle.since if idle else episode.evidence.window.start
    return LedgerEntry(
        episode=episode.ref,
        outcome=outcome,
        instance_type=instance.instance_type,
        owner=episode.owner,
        project=episode.project,
        price_source=price.source,
        booked_at=booked_at,
        cost_before_usd_per_hour=None if before is None else before + discount,
        cost_after_usd_per_hour=saving.cost_after_usd_per_hour,
        saved_usd_per_hour=None if saved is None else saved + discount,
        resource_name=instance.name,
        cash_low_usd_per_hour=low,
        cash_high_usd_per_hour=high,
        storage_usd_per_hour=None if saved is None or hourly is None else hourly - saved,
        saves_from=billed_until(instance, booked_at),
        morning=working_morning(episode, booked_at),
        idle_usd=None if hourly is None else cost_between(hourly, since, booked_at),
        recorded_at=now,
    )


def _put_away(episode: Episode) -> bool:
    """Return whether EC2 was asked to stop or terminate it; a snapshot alone changes nothing."""
    return bool({Step.STOP.value, Step.TERMINATE.value} & episode.steps_done.keys())


def _saving(episode: Episode, became: Outcome, policy: Policy) -> Saving:
    """By what became of the instance: a step is noted before it is asked for, and EC2 may have
    refused it."""
    plan = episode.plan
    is_done = {
        Step.STOP: Step.STOP.value in episode.steps_done,
        Step.SNAPSHOT: bool(episode.snapshots),
        Step.TERMINATE: became is Outcome.TERMINATED,
    }
    done = tuple(step for step in plan.steps if is_done[main_of(plan.steps, step)])
    if done == plan.steps:
        return plan.saving  # what people were shown
    return saving_of(episode.instance, episode.price, done, policy)


def settle_restart(
    state: Ledger,
    entries: Sequence[LedgerEntry],
    at: UtcDatetime,
    false_within: timedelta,
    now: UtcDatetime,
) -> list[str]:
    """Ends the savings of an instance that runs again, booked before it did; says what was done."""
    done = []
    for entry in ended_by(entries, at):
        why = Ending.UNDONE if is_false_stop(entry, at, false_within) else Ending.STARTED
        if state.settle_entry(entry, at, why, now):
            done.append("false stop booked" if why is Ending.UNDONE else "saving settled")
    return done


def settle_replaced(
    state: Ledger,
    targets: Iterable[Target],
    started: Iterable[tuple[Instance, Owner]],
    now: UtcDatetime,
) -> None:
    """End a saving for each instance that was `started` for the first time, with whose it is, in
    the same account: the oldest of the same owner, project and type that was put away before. Safe
    to repeat."""
    entries = [
        one
        for target in targets
        for one in state.open_of(target)
        if one.acted and not one.is_of_storage
    ]
    left = sorted(entries, key=lambda one: one.booked_at)
    for instance, owner in started:
        wanted = instance.instance_type, owner.name, owner.project
        for entry in left:
            its = entry.instance_type, entry.owner, entry.project
            is_before = entry.booked_at < instance.launch_time
            if its == wanted and is_before and entry.episode.instance_id != instance.instance_id:
                left.remove(entry)
                at, by = instance.launch_time, instance.instance_id
                state.settle_entry(entry, at, Ending.REPLACED, now, by=by)
                break
