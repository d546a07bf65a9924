"""Checks whether the workflow can go on: message delivered, instance stopped, snapshots completed,
instance terminated.

This module only reads. It must not repeat a call that takes too long: it raises then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.alerts.delivery import NOWHERE, Delivery
from governor.alerts.store import Deliveries
from governor.approvals.model.approval import Approval, ApprovalStatus, Stage
from governor.approvals.rules.stages import asked_at, notice_until, stage_id
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    NobodyListens,
    SafetyError,
    SnapshotFailed,
    StepTimedOut,
    WrongState,
)
from governor.core.instance import Snapshot, Target
from governor.core.ports import Clock
from governor.core.units import minutes
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step, Until
from governor.episode.ports import Snapshotter
from governor.episode.store.episodes import Episodes
from governor.evidence.ports import InstanceReader
from governor.policy.accounts import Accounts
from governor.policy.ports import Policies
from governor.remediation.underway import episode_underway, own_snapshots

NOTICE_PAUSE_SECONDS = 300
"""The pause between two checks of a notice, and so the longest until a hold ends the wait."""
_LONGEST_PAUSE_SECONDS = 300
_LONGEST_PAUSE_OF_DAYS_SECONDS = 900
"""The longest pause of a wait that may take days: for snapshots, and for a delivery."""
_EC2_SETTLES = timedelta(minutes=5)
"""How long a new snapshot may be missing from a list, because EC2 is eventually consistent."""
_STEP: Mapping[Until, Step] = {
    Until.STOPPED: Step.STOP,
    Until.SNAPSHOTS_COMPLETED: Step.SNAPSHOT,
    Until.TERMINATED: Step.TERMINATE,
}


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """Says how long a workflow still waits for the result of its last step."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    episode_store: Episodes
    approval_store: Approvals
    delivery_store: Deliveries
    instances: InstanceReader
    snapshots: Snapshotter

    def __call__(self, ref: EpisodeRef, until: Until) -> int:
        """Return the seconds to the next check; 0 once the state `until` is reached, or nothing
        waits for it any more because somebody held or undid the episode.

        Raises: SnapshotFailed; StepTimedOut after the limit of the policy; NobodyListens if every
        channel refused the message, or none has delivered it in time; WrongState if an instance
        that is to stop was terminated; SafetyError if the episode is over, or the step was never
        noted; PolicyError; ConfigurationError without a role in its account; CloudError.
        """
        episode = episode_underway(self.episode_store, ref)
        if until is Until.HEARD:
            return self._until_delivered(episode)
        if until is Until.SNAPSHOTS_COMPLETED:
            approval = self.approval_store.approval(episode.approval_id)
            if approval is not None and approval.hold is not None:
                # Nothing waits for the snapshots any more: the recheck after this ends the episode.
                return 0
        if episode.is_undone or episode.is_starting:
            return 0  # The instance starts or runs again, so only its outcome is left to record.
        step = _STEP[until]
        since = episode.progress.steps_done.get(step.value)
        if since is None:
            raise SafetyError(f"{step.value} was never asked of EC2 in this episode")
        elapsed = self.clock.now() - since
        if self._is_done(episode, step, elapsed):
            return 0
        limit = self._limit_of(step, episode)
        if elapsed > limit:
            raise StepTimedOut(
                f"not {until.value} after {minutes(elapsed)} min (limit {minutes(limit)} min)"
            )
        return pause_seconds(elapsed, until)

    def _limit_of(self, step: Step, episode: Episode) -> timedelta:
        """Return how long the step may take by the policy: a termination as long as a stop.

        Raises: PolicyError; CloudError.
        """
        rule = self.policies.applied_to(episode.instance).policy.plan
        if step is Step.SNAPSHOT:
            return timedelta(minutes=rule.snapshot_limit_minutes)
        return timedelta(minutes=rule.stop_limit_minutes)

    def _is_done(self, episode: Episode, step: Step, elapsed: timedelta) -> bool:
        """Return whether EC2 shows the effect of the step, which was noted `elapsed` ago. An
        instance that EC2 no longer shows is terminated.

        Raises: SnapshotFailed; WrongState if an instance that is to stop has another state than
        `running`, `stopping` or `stopped`; ConfigurationError without a role in its account;
        CloudError.
        """
        target = self.accounts.target(episode.ref.account, episode.ref.region)
        if step is Step.SNAPSHOT:
            return self._has_snapshots(episode, target, elapsed)
        instance = self.instances.describe(target, episode.ref.instance_id)
        state = None if instance is None else instance.state
        if step is Step.TERMINATE:
            return state in (None, "terminated")
        if state not in ("running", "stopping", "stopped"):
            raise WrongState(f"the instance is {state or 'gone'} instead of stopped")
        return state == "stopped"

    def _until_delivered(self, episode: Episode) -> int:
        """Return the seconds to the next check of a message: first for its delivery, then for the
        end of a notice of mode `auto`. Return 0 once neither is awaited, or the question has ended.

        Raises: NobodyListens if no channel is left, or the delivery takes too long; PolicyError;
        CloudError.
        """
        approval = self.approval_store.approval(episode.approval_id)
        is_question = episode.asking.schedule is not None
        is_answered = approval is not None and approval.status is not ApprovalStatus.PENDING
        if is_question and is_answered:
            return 0
        stage = Stage.ASK if is_question else Stage.TELL
        message = stage_id(stage, episode.ref)
        stored = self.delivery_store.deliveries(episode.ref.execution_name)
        deliveries = [delivery for delivery in stored if delivery.message == message]
        if any(delivery.reached_people for delivery in deliveries):
            return self._until_notice_ends(episode, approval, deliveries)
        undelivered_for = self._time_undelivered(episode, approval, deliveries)
        return pause_seconds(undelivered_for, Until.HEARD)

    def _time_undelivered(
        self, episode: Episode, approval: Approval | None, deliveries: Sequence[Delivery]
    ) -> timedelta:
        """Return how long the message, which no channel has delivered, has waited for that.

        Call it only if no delivery reached people. Raises: NobodyListens, with the reasons of the
        channels, if every channel refused it, or it has waited longer than the policy's
        `approval.delivery_limit_minutes`; PolicyError.
        """
        rule = self.policies.applied_to(episode.instance).policy.approval
        limit = timedelta(minutes=rule.delivery_limit_minutes)
        since = episode.opened_at
        if episode.asking.schedule is not None:
            since = asked_at(episode.asking.schedule, approval, limit)
        elapsed = self.clock.now() - since
        goes_nowhere = any(delivery.channel == NOWHERE for delivery in deliveries)
        if not goes_nowhere and elapsed <= limit:
            return elapsed
        reasons = []
        for delivery in deliveries:
            if delivery.refused:
                reasons.append(delivery.refused)
        refusals = "; ".join(reasons)
        why = refusals or f"none has answered for {minutes(elapsed)} min"
        raise NobodyListens(f"no channel has delivered the message: {why}", operation="deliver")

    def _until_notice_ends(
        self, episode: Episode, approval: Approval | None, deliveries: Sequence[Delivery]
    ) -> int:
        """Return the seconds to the next check of the notice of mode `auto`, at most five minutes;
        0 once the notice is over or somebody holds the plan, and for an episode without a notice.
        Raises: PolicyError."""
        rule = self.policies.applied_to(episode.instance).policy.approval
        ends_at = notice_until(episode, deliveries, rule.notice_minutes)
        if not episode.gives_notice or ends_at is None:
            return 0
        is_held = approval is not None and approval.hold is not None
        if is_held or self.clock.now() >= ends_at:
            return 0
        seconds_left = math.ceil((ends_at - self.clock.now()).total_seconds())
        return min(NOTICE_PAUSE_SECONDS, seconds_left)

    def _has_snapshots(self, episode: Episode, target: Target, elapsed: timedelta) -> bool:
        """Return whether every recorded snapshot is completed. Return false also while EC2 may not
        list new snapshots yet: for five minutes after the step, which was noted `elapsed` ago.

        Raises: SnapshotFailed if one failed, or is missing after those minutes, or none is
        recorded; CloudError.
        """
        snapshots = own_snapshots(self.snapshots, episode, target)
        _must_not_have_failed(snapshots)
        listed_ids = {snapshot.snapshot_id for snapshot in snapshots}
        missing = sorted(set(episode.progress.snapshot_ids) - listed_ids)
        if missing and elapsed < _EC2_SETTLES:
            return False
        if missing or not episode.progress.snapshot_ids:
            raise SnapshotFailed(
                "snapshots are missing, or were begun before the stop: "
                f"{', '.join(missing) or 'all'}; "
                "nothing is destroyed"
            )
        return all(snapshot.state == "completed" for snapshot in snapshots)


def _must_not_have_failed(snapshots: Iterable[Snapshot]) -> None:
    """Require that no snapshot has failed. Raises: SnapshotFailed, which names those that have."""
    failed = []
    for snapshot in snapshots:
        if snapshot.state not in ("pending", "completed"):
            failed.append(snapshot.snapshot_id)
    if failed:
        raise SnapshotFailed(f"snapshots failed: {', '.join(sorted(failed))}; nothing is destroyed")


def pause_seconds(elapsed: timedelta, until: Until) -> int:
    """Return the seconds until the next check: a quarter of the time that has gone by, at least 5,
    and at most 300 for a stop or a termination, else 900.

    The waits grow, because the history of an execution may have 25,000 events
    (`tests/unit/template/test_history.py`).
    """
    is_quick = until in (Until.STOPPED, Until.TERMINATED)
    longest = _LONGEST_PAUSE_SECONDS if is_quick else _LONGEST_PAUSE_OF_DAYS_SECONDS
    return max(5, min(longest, int(elapsed.total_seconds() / 4)))
