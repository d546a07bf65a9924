"""Looks whether it has got there: stopped, snapshots completed, terminated, heard. Reads only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.alerts.alert import NOWHERE, Delivery
from governor.domain.approvals.approval import (
    Approval,
    ApprovalStatus,
    Stage,
    notice_until,
    stage_id,
)
from governor.domain.episode.episode import Episode, EpisodeRef
from governor.domain.episode.plan import Step, Until
from governor.domain.instance import Target
from governor.domain.units import minutes
from governor.errors import NobodyListens, SafetyError, SnapshotFailed, StepTimedOut, WrongState
from governor.ports import Clock, InstanceReader, Policies
from governor.stores import StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.episode.guards import Guards

NOTICE_PAUSE_SECONDS = 300
"""Between two looks at a notice: a hold is recorded after so long at the latest."""
_LONGEST_PAUSE_SECONDS = 300
_LONGEST_PAUSE_OF_DAYS_SECONDS = 900
"""Between two looks at what may take days: snapshots, and a delivery."""
_EC2_SETTLES = timedelta(minutes=5)
"""How long what was just made may be missing from a list; EC2 becomes consistent in the end."""
_STEP: Mapping[Until, Step] = {
    Until.STOPPED: Step.STOP,
    Until.SNAPSHOTS_COMPLETED: Step.SNAPSHOT,
    Until.TERMINATED: Step.TERMINATE,
}


@dataclass(frozen=True, slots=True)
class CheckProgress:
    clock: Clock
    policies: Policies
    accounts: Accounts
    guards: Guards
    state: StateTable
    instances: InstanceReader

    def __call__(self, ref: EpisodeRef, until: Until) -> int:
        """Return after how many seconds to look again at what the last step leads to; 0 when it is
        there. Raises: SnapshotFailed; StepTimedOut; NobodyListens when every channel has refused
        the message, or none has taken it in time; WrongState; SafetyError when the episode is over,
        or the step was never asked for."""
        episode = self.guards.open_episode(ref)
        if until is Until.HEARD:
            return self._heard(episode)
        if until is Until.SNAPSHOTS_COMPLETED:
            approval = self.state.approval(episode.approval_id)
            if approval is not None and approval.brake is not None:
                # Nothing waits for them any more: the recheck after this ends the episode.
                return 0
        if episode.undone_at is not None:
            return 0  # It runs again: what is left is to record it.
        step = _STEP[until]
        since = episode.steps_done.get(step.value)
        if since is None:
            raise SafetyError(f"{step.value} was never asked of EC2 in this episode")
        elapsed = self.clock.now() - since
        if self._is_done(episode, step, elapsed):
            return 0
        rule = self.policies.applied_to(episode.instance).policy.plan
        most = rule.snapshot_limit_minutes if step is Step.SNAPSHOT else rule.stop_limit_minutes
        limit = timedelta(minutes=most)
        if elapsed > limit:
            raise StepTimedOut(
                f"not {until.value} after {minutes(elapsed)} min (limit {minutes(limit)} min)"
            )
        return pause_seconds(elapsed, until)

    def _is_done(self, episode: Episode, step: Step, elapsed: timedelta) -> bool:
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

    def _heard(self, episode: Episode) -> int:
        name = episode.ref.execution_name
        approval = self.state.approval(episode.approval_id)
        asks = episode.schedule is not None
        if asks and approval is not None and approval.status is not ApprovalStatus.PENDING:
            return 0
        stage = Stage.ASK if asks else Stage.TELL
        message = stage_id(stage, episode.ref)
        found = [
            delivery for delivery in self.state.deliveries(name) if delivery.message == message
        ]
        if any(delivery.reached_people for delivery in found):
            return self._notice(episode, approval, found)
        reasons = "; ".join(d.refused for d in found if d.refused)
        since = episode.schedule.ask_at if episode.schedule else episode.opened_at
        elapsed = self.clock.now() - since
        rule = self.policies.applied_to(episode.instance).policy.approval
        nowhere = any(delivery.channel == NOWHERE for delivery in found)
        if nowhere or elapsed > timedelta(minutes=rule.delivery_limit_minutes):
            why = reasons or f"none has answered for {minutes(elapsed)} min"
            raise NobodyListens(f"no channel has delivered the message: {why}", operation="deliver")
        return pause_seconds(elapsed, Until.HEARD)

    def _notice(
        self, episode: Episode, approval: Approval | None, found: Sequence[Delivery]
    ) -> int:
        """Return how long the notice of mode auto still lasts; a hold ends the wait at once."""
        rule = self.policies.applied_to(episode.instance).policy.approval
        over = notice_until(episode, found, rule.notice_minutes)
        is_held = approval is not None and approval.brake is not None
        if not episode.gives_notice or over is None or is_held or self.clock.now() >= over:
            return 0
        rest = math.ceil((over - self.clock.now()).total_seconds())
        return min(NOTICE_PAUSE_SECONDS, rest)

    def _has_snapshots(self, episode: Episode, target: Target, elapsed: timedelta) -> bool:
        found = self.guards.own_snapshots(episode, target)
        failed = sorted(s.snapshot_id for s in found if s.state not in ("pending", "completed"))
        if failed:
            raise SnapshotFailed(f"snapshots failed: {', '.join(failed)}; nothing is destroyed")
        known = {snapshot.snapshot_id for snapshot in found}
        missing = sorted(set(episode.snapshot_ids) - known)
        if missing and elapsed < _EC2_SETTLES:
            return False
        if missing or not episode.snapshot_ids:
            raise SnapshotFailed(
                "snapshots are missing, or were begun before the stop: "
                f"{', '.join(missing) or 'all'}; "
                "nothing is destroyed"
            )
        return all(snapshot.state == "completed" for snapshot in found)


def pause_seconds(elapsed: timedelta, until: Until) -> int:
    """Return after how many seconds to look again: a quarter of the time that has gone by, within
    bounds.

    The history of an execution may have 25,000 events (`tests/unit/template/test_history.py`).
    """
    is_quick = until in (Until.STOPPED, Until.TERMINATED)
    longest = _LONGEST_PAUSE_SECONDS if is_quick else _LONGEST_PAUSE_OF_DAYS_SECONDS
    return max(5, min(longest, int(elapsed.total_seconds() / 4)))
