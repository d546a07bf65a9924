"""Books an ended episode in the ledger, by what EC2 shows: a flow that fails after its stop has still stopped
the instance. Ends its saving when the instance runs again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from governor.domain.episode.episode import Episode, Outcome
from governor.domain.episode.plan import Saving, Step, main_of, saving_of
from governor.domain.instance import Instance
from governor.domain.money.cost import LedgerEntry, ended_by, is_false_stop
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
        """The entry, not ours where others put it away while its owner was asked; `None` where it was not."""
        if outcome in (Outcome.VOID, Outcome.INTERRUPTED) and not _put_away(episode):
            return self._not_ours(episode, outcome, now)
        became = self._became(episode, outcome)
        if became is None:
            return None
        saving = _saving(episode, became, policy_or_base(self.policies, episode.instance))
        # From the moment EC2 stopped charging as asked: the first step, not its bookkeeping.
        first = Step.STOP if Step.STOP.value in episode.steps_done else Step.TERMINATE
        return _entry(episode, became, episode.steps_done.get(first.value, now), saving)

    def _not_ours(self, episode: Episode, outcome: Outcome, now: UtcDatetime) -> LedgerEntry | None:
        """What others or EC2 did is on the bill, but it is no saving of ours: zero, and ended at once."""
        instance = self._instance(episode)
        gone = instance is None or instance.state in _GONE
        if not (gone or outcome is Outcome.INTERRUPTED or (instance and instance.state in _STOPPED)):
            return None  # void for another reason; the instance runs on
        step = Step.TERMINATE if gone else Step.STOP
        policy = policy_or_base(self.policies, episode.instance)
        bill = saving_of(episode.instance, episode.price, (step,), policy)
        entry = _entry(episode, outcome, now, bill)
        return replace(entry, saved_usd_per_hour=Decimal(0), ended_at=now, ours=False)

    def _became(self, episode: Episode, outcome: Outcome) -> Outcome | None:
        done = episode.steps_done
        if episode.mode is Mode.OBSERVE or not _put_away(episode):
            return None
        instance = self._instance(episode)
        if instance is None or instance.state in _GONE:
            # Gone without our asking for it is somebody else's deed, and saves nothing of ours from now on.
            return Outcome.TERMINATED if Step.TERMINATE.value in done else None
        if Step.STOP.value not in done:
            return None
        # A stop is noted before it is asked for. One that was refused left the instance as it was; what was
        # started anew has another launch time, and the ledger settles that.
        left_running = instance.state == "running" and instance.launch_time == episode.ref.launch_time
        if left_running and outcome is Outcome.STOPPED and episode.undone_by is None:
            raise SafetyError("the workflow says stopped, but EC2 shows that the instance runs on")
        return None if left_running and outcome is not Outcome.STOPPED else Outcome.STOPPED

    def _instance(self, episode: Episode) -> Instance | None:
        ref = episode.ref
        return self.instances.describe(self.accounts.target(ref.account, ref.region), ref.instance_id)


def _entry(episode: Episode, outcome: Outcome, booked_at: UtcDatetime, saving: Saving) -> LedgerEntry:
    return LedgerEntry(
        episode=episode.ref,
        outcome=outcome,
        instance_type=episode.instance.instance_type,
        owner=episode.owner,
        project=episode.project,
        price_source=episode.price.source,
        booked_at=booked_at,
        cost_before_usd_per_hour=saving.cost_before_usd_per_hour,
        cost_after_usd_per_hour=saving.cost_after_usd_per_hour,
        saved_usd_per_hour=saving.saved_usd_per_hour,
        resource_name=episode.instance.name,
    )


def _put_away(episode: Episode) -> bool:
    """Whether EC2 was asked to stop or terminate it; a snapshot alone changes nothing."""
    return bool({Step.STOP.value, Step.TERMINATE.value} & episode.steps_done.keys())


def _saving(episode: Episode, became: Outcome, policy: Policy) -> Saving:
    """By what became of the instance: a step is noted before it is asked for, and EC2 may have refused it."""
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
    state: Ledger, entries: Sequence[LedgerEntry], at: UtcDatetime, false_within: timedelta
) -> list[str]:
    """Ends the savings of an instance that runs again, booked before it did; says what was done."""
    done = []
    for entry in ended_by(entries, at):
        false_stop = is_false_stop(entry, at, false_within)
        if state.settle_entry(entry, at, false_stop=false_stop):
            done.append("false stop booked" if false_stop else "saving settled")
    return done
