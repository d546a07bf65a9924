"""Reacts to EC2's event that an instance has stopped, started or ended: closes open questions and
ends savings.

Events come at least once and in any order. Each reaction is a conditional write, and the sweep
repairs what a lost event leaves behind. This module must not act on any instance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, InstanceRecord, Outcome
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.money.book_saving import SettleRestart
from governor.money.model.ledger import Ending
from governor.money.rules.ledger import stops_booked_by
from governor.money.store.ledger import Ledger
from governor.policy.ports import Policies
from governor.remediation.follow_start import FollowStart
from governor.remediation.void_episode import VoidEpisode

_NOTHING = "nothing to do"
_STOPPING = ("stopping", "stopped")
_ENDING = (*_STOPPING, "shutting-down", "terminated")
_SETTLING = ("running", "terminated")
"""States that end a saving."""


@dataclass(frozen=True, slots=True)
class ReactToStateChange:
    """Handles a change of state that GPU Governor or somebody else made.

    Events carry no tags, so the events of all instances come here; an instance without a record
    costs one read. `policies` is called only if a saving ends.
    """

    policies: Callable[[], Policies]
    clock: Clock
    episode_store: Episodes
    instance_store: Instances
    ledger_store: Ledger
    void: VoidEpisode
    follow_start: FollowStart

    def __call__(
        self, account: str, region: str, instance_id: str, ec2_state: str, at: UtcDatetime
    ) -> str:
        """Void a question that the change has made needless, and settle the ledger. Return the
        effects as text, such as `question voided, saving settled: terminated by others`; `nothing
        to do` without effects.

        `ec2_state` is the new state, such as `stopping`; `at` is when it began. Raises:
        ConflictError if a start is followed of an episode that is gone, or whose stop was not
        noted; CloudError.
        """
        target = Target(account, region)
        record = self.instance_store.record(target, instance_id)
        # Any earlier episode, mark or saving of this instance would have left a record.
        if record == InstanceRecord(target, instance_id):
            return _NOTHING
        done = []
        if self._void_ended(record, ec2_state, at):
            done.append("question voided")
        if ec2_state in _SETTLING:
            done += self._settle_change(record, ec2_state, at)
        # Last, as it sends a message: a channel that is down must not keep the ledger waiting.
        if ec2_state == "running" and record.starting is not None:
            done += self._note_running(record.starting, at)
        return ", ".join(done) or _NOTHING

    def _note_running(self, ref: EpisodeRef, at: UtcDatetime) -> list[str]:
        """Note that an instance which EC2 was asked to start runs. Return that as text; empty if no
        start was followed. Raises: ConflictError if the episode is gone meanwhile, or its stop was
        not noted; CloudError.

        The sweep sees a start that fell back: an event does not give EC2's reason.
        """
        episode = self.episode_store.episode(ref)
        if episode is None or self.follow_start.seen_running(episode, at) is None:
            return []
        return ["started again"]

    def _void_ended(self, record: InstanceRecord, ec2_state: str, at: UtcDatetime) -> bool:
        """Void the open question about an instance that stops or is terminated, and return true.

        Return false, with nothing changed, for another state, without an open question, once the
        workflow acts, or if the event is about an earlier run, or about the stop by an earlier
        episode. Raises: CloudError.
        """
        ref = record.open_episode
        if ref is None or ec2_state not in _ENDING:
            return False
        if at < ref.launch_time:
            # A late event of an earlier run of the instance says nothing about this one.
            return False
        if ec2_state in _STOPPING and self._is_of_earlier_stop(ref, at):
            # An event of our own stop may come again days later, as when a person redrives it.
            return False
        # `void` changes nothing once the workflow acts: then the change is the workflow's own.
        return self.void(ref, f"the instance is {ec2_state} by others", Outcome.VOID)

    def _is_of_earlier_stop(self, ref: EpisodeRef, at: UtcDatetime) -> bool:
        """Return whether the episode is about an instance that an earlier one has stopped, and the
        event of `at` is older than its question. Raises: CloudError."""
        episode = self.episode_store.episode(ref)
        if episode is None or episode.stopped_by_episode is None:
            return False
        return at <= episode.opened_at

    def _settle_change(self, record: InstanceRecord, ec2_state: str, at: UtcDatetime) -> list[str]:
        """Void a question about a stopped instance that runs again, and end its savings. Return a
        text for each effect; empty if there is none, as after a termination by GPU Governor. An
        event before the open question was asked voids nothing.

        Call it only for the states of `_SETTLING`. Raises: CloudError.
        """
        episode = None
        if record.open_episode is not None:
            episode = self.episode_store.episode(record.open_episode)
        if ec2_state == "terminated":
            is_own_termination = record.last_outcome is Outcome.TERMINATED or _terminates(episode)
            if is_own_termination:
                return []  # The saving of its stop goes on.
            return self._settle(record, ec2_state, at)

        done: list[str] = []
        if episode is not None and at > episode.opened_at:
            reason = "the instance was started again"
            if self.void(episode.ref, reason, Outcome.VOID):
                done.append("question voided")
        return done + self._settle(record, ec2_state, at)

    def _settle(self, record: InstanceRecord, ec2_state: str, at: UtcDatetime) -> list[str]:
        """End the savings that were booked before the change, and return a text for each that this
        call ended; empty if there is none, or others ended it first. `ec2_state` is `running` or
        `terminated`. Raises: CloudError."""
        entries = self.ledger_store.open_entries(record.target, record.instance_id)
        ended = stops_booked_by(entries, at)
        if not ended:
            return []
        if ec2_state == "running":
            minutes = self.policies().base().policy.ledger.false_stop_within_minutes
            false_within = timedelta(minutes=minutes)
            settle = SettleRestart(self.ledger_store, self.episode_store, self.instance_store)
            return settle(ended, at, false_within, self.clock.now())
        done: list[str] = []
        for entry in ended:
            if self.ledger_store.settle_entry(entry, at, Ending.TERMINATED, self.clock.now()):
                done.append("saving settled: terminated by others")
        return done


def _terminates(episode: Episode | None) -> bool:
    """Return whether this episode has asked EC2 to terminate the instance. `None`, for no episode,
    has not."""
    return episode is not None and episode.plan.destroys and episode.begun_at is not None
