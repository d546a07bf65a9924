"""Reacts when an instance changes its state. Events come at least once and in any order: each
reaction is a conditional write, and the sweep repairs what a lost event leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import Episode, InstanceRecord, Outcome
from governor.domain.instance import Target
from governor.domain.money.ledger import Ending, ended_by
from governor.domain.units import UtcDatetime
from governor.ports import Clock, Policies
from governor.stores import StateTable
from governor.usecases.episode.end_episode import VoidEpisode
from governor.usecases.money.book_saving import settle_restart

_NOTHING = "nothing to do"
_ENDING = ("stopping", "stopped", "shutting-down", "terminated")


@dataclass(frozen=True, slots=True)
class ReactToStateChange:
    """Takes a change by us or by others. Events carry no tags, so those of every instance come
    here: one that is not known costs one read. `policies` is asked only where a saving ends."""

    policies: Callable[[], Policies]
    clock: Clock
    state: StateTable
    void: VoidEpisode

    def __call__(
        self, account: str, region: str, instance_id: str, ec2_state: str, at: UtcDatetime
    ) -> str:
        """Close a question that others answered by deed, settle the ledger, and return what was
        done."""
        target = Target(account, region)
        done = []
        record = self.state.record(target, instance_id)
        # Whatever was opened, marked or booked has left a record.
        if record == InstanceRecord(target, instance_id):
            return _NOTHING
        # An event of an earlier run of the instance, delivered late, says nothing about this one.
        if (
            record.open_episode is not None
            and ec2_state in _ENDING
            and at >= record.open_episode.launch_time
        ):
            # Only a question can be voided: in the acting phase the change is the workflow's own.
            reason = f"the instance is {ec2_state} by others"
            done += ["question voided"] * self.void(record.open_episode, reason, Outcome.VOID)
        asked = record.open_episode if ec2_state in ("running", "terminated") else None
        episode = self.state.episode(asked) if asked is not None else None
        if episode and ec2_state == "running" and at > episode.opened_at:
            done += ["question voided"] * self.void(
                episode.ref, "the instance was started again", Outcome.VOID
            )
        if ec2_state == "terminated" and (
            record.last_outcome is Outcome.TERMINATED or _terminates(episode)
        ):
            return ", ".join(done) or _NOTHING  # Its stop goes on saving: it is still away.
        if ec2_state in ("running", "terminated"):
            done += self._settle(target, instance_id, ec2_state, at)
        return ", ".join(done) or _NOTHING

    def _settle(
        self, target: Target, instance_id: str, ec2_state: str, at: UtcDatetime
    ) -> list[str]:
        ended = ended_by(self.state.open_entries(target, instance_id), at)
        if not ended:
            return []
        if ec2_state == "running":
            within = timedelta(
                minutes=self.policies().base().policy.ledger.false_stop_within_minutes
            )
            return settle_restart(self.state, ended, at, within, self.clock.now())
        return [
            "saving settled: terminated by others"
            for entry in ended
            if self.state.settle_entry(entry, at, Ending.TERMINATED, self.clock.now())
        ]


def _terminates(episode: Episode | None) -> bool:
    """Return whether the open episode has asked EC2 to terminate the instance."""
    return episode is not None and episode.plan.destroys and episode.begun_at is not None
