"""Takes and tags the snapshots after a stop or before a termination, only tries them as a dry run
before a stop, and stores the user data.

Before a stop it rehearses the snapshots: if EC2 would refuse them, nothing is stopped. This module
must not stop or terminate an instance, and must not begin a second set while another try may still
be making one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    CloudError,
    SafetyError,
    SnapshotFailed,
    SnapshotUnderWay,
    Throttled,
    Unavailable,
)
from governor.core.instance import EPISODE_TAG, UserData
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.plan import Step
from governor.episode.ports import Snapshotter, Vault
from governor.episode.store.episodes import Episodes
from governor.remediation.clearance import (
    Cleared,
    must_be_in_state,
    must_be_rechecked,
    unclear_must_wait,
)
from governor.remediation.guards import Guards
from governor.remediation.rules.snapshot_refusal import refused_snapshots_text
from governor.remediation.store import Calls
from governor.remediation.underway import episode_underway

RESERVED = timedelta(minutes=3)
"""How long a try that never ended keeps others from making a second set: longer than any try
runs."""
_CLOCKS_DIFFER = timedelta(seconds=2)
"""The pause between the note that the instance was seen stopped and the call. EC2 counts by its own
clock, perhaps in whole seconds, and only snapshots that it began after the note count."""


class SnapshotsBegun(NamedTuple):
    """The ids of an episode's snapshots in order, which EC2 has begun and may still be making.
    There are none after a dry run."""

    snapshot_ids: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Takes the snapshots of an episode. Safe to repeat: a set that was begun is used again."""

    clock: Clock
    guards: Guards
    snapshots: Snapshotter
    vault: Vault
    episode_store: Episodes
    call_store: Calls
    pause: Callable[[float], object] = time.sleep

    def __call__(self, ref: EpisodeRef) -> SnapshotsBegun:
        """Keep the user data, begin one set of snapshots or find the set of an earlier try, and
        record it; return its ids. In mode `observe`, only ask EC2 for a dry run; return no ids.

        Raises: SafetyError, also Held, MustWait, Interrupted and Unsealed, or if EC2 refuses the
        snapshots of a plan without a stop; MetricsLate; SnapshotFailed if the set lacks a volume;
        ConflictError if the episode was closed before the user data or the dry run was noted;
        SnapshotUnderWay if it was closed later, or another try may be making the set; PolicyError;
        ConfigurationError without a role in its account; CloudError. Repeat it after Throttled,
        Unavailable and SnapshotUnderWay.
        """
        with self.guards.journaled(ref, Step.SNAPSHOT):
            cleared = self.guards.clear(ref, Step.SNAPSHOT)
            _must_be_in_its_state(cleared)
            # A dry run ends here: nothing below may keep or record anything for it.
            if cleared.dry_run:
                self._ask_for_dry_run(cleared)
                return SnapshotsBegun((), dry_run=True)
            self._keep_user_data(cleared)
            recorded = cleared.episode.progress.snapshots
            if not recorded:
                # A set whose answer was lost comes first, so that no second set is made.
                snapshot_set = self._set_of_earlier_try(cleared) or self._create(cleared)
                recorded = self.episode_store.set_snapshots(ref, snapshot_set)
            return SnapshotsBegun(tuple(sorted(recorded)), dry_run=False)

    def rehearse(self, ref: EpisodeRef) -> bool:
        """Ask EC2 before a stop whether it would make the snapshots: a dry run with their tags.

        Return true if EC2 would make them. Return false, without asking, if the plan has none or
        the episode has sent its stop already. Nothing is changed, and the recheck of the stop is
        not used up.

        Raises: SafetyError if EC2 would refuse them, with its words and what to do, or a guard
        refuses the stop, also Held, Interrupted and Unsealed; MustWait if something holds the stop
        back, or AWS gives no clear answer; PolicyError; ConfigurationError without a role in its
        account; CloudError if a guard cannot read.
        """
        # The inner `unclear_must_wait` gives the journal the reason, the outer one covers failures
        # of the journal itself.
        with unclear_must_wait(), self.guards.journaled(ref, Step.SNAPSHOT), unclear_must_wait():
            episode = episode_underway(self.episode_store, ref)
            is_stop_sent = Step.STOP.value in episode.own_steps
            if is_stop_sent or Step.SNAPSHOT not in episode.plan.steps:
                return False
            cleared = self.guards.clear(ref, Step.STOP)
            must_be_rechecked(cleared, (Step.STOP,))
            _must_not_be_stopped_yet(cleared)
            self._refuse_if_ec2_would(cleared)
            return True

    def _refuse_if_ec2_would(self, cleared: Cleared) -> None:
        """Ask EC2 for a dry run of the snapshots, and refuse if EC2 does.

        Raises: SafetyError with EC2's words and what to do; Throttled and Unavailable if EC2 gave
        no clear answer.
        """
        instance = cleared.instance
        tags = _tags(cleared, self.clock.now())
        try:
            self.snapshots.create(instance.target, instance.instance_id, tags, dry_run=True)
        except (Throttled, Unavailable):
            raise
        except CloudError as error:
            raise SafetyError(refused_snapshots_text(error, tags)) from error

    def _ask_for_dry_run(self, cleared: Cleared) -> None:
        """Note the step, and ask EC2 whether it would make the snapshots. EC2 makes none. Without a
        yes, the note is taken back: the end then names this step as the one that failed.

        Raises: Held; ConflictError if the episode is closed; CloudError, also if EC2 would refuse.
        """
        ref = cleared.episode.ref
        now = self.clock.now()
        tags = _tags(cleared, now)
        self.call_store.note_step(ref, Step.SNAPSHOT.value, now)
        try:
            self.snapshots.create(cleared.instance.target, ref.instance_id, tags, dry_run=True)
        except CloudError:
            self.episode_store.forget_step(cleared.episode, Step.SNAPSHOT.value, now)
            raise

    def _keep_user_data(self, cleared: Cleared) -> None:
        """Keep a copy of the user data for the person who rebuilds the instance, and record it.

        Do nothing if the plan does not terminate the instance, or a copy is recorded already.
        Raises: ConflictError if the episode is closed; CloudError.
        """
        episode = cleared.episode
        if not episode.plan.destroys or episode.progress.user_data is not None:
            return
        ref = episode.ref
        user_data = self.snapshots.user_data(cleared.instance.target, ref.instance_id)
        # An empty record says that the instance had no user data.
        kept = self.vault.keep(ref, user_data) if user_data else UserData()
        self.episode_store.note_user_data(ref, kept)

    def _create(self, cleared: Cleared) -> Mapping[str, str]:
        """Begin a set of snapshots, and return its volume ids by snapshot id.

        Call it only if no earlier try has made a set. Raises: SnapshotUnderWay if another try may
        be making one, or the episode is closed; SnapshotFailed if the set lacks a volume;
        SafetyError if EC2 refuses and the plan has no stop, so that nothing was done yet;
        CloudError.
        """
        ref = cleared.episode.ref
        instance = cleared.instance
        now = self.clock.now()
        tags = _tags(cleared, now)
        # The reservation is also the note of the step: only snapshots that begin after it count.
        if not self.episode_store.reserve_snapshots(ref, Step.SNAPSHOT.value, now, now - RESERVED):
            raise SnapshotUnderWay("another try may be making the snapshots at this moment")
        self.pause(_CLOCKS_DIFFER.total_seconds())
        try:
            made = self.snapshots.create(instance.target, ref.instance_id, tags, dry_run=False)
        except Unavailable:
            # EC2 may have begun them. The next try looks for them, and makes others only after
            # `RESERVED`.
            raise
        except CloudError as error:
            self.episode_store.release_snapshots(ref, now)
            has_stopped_first = Step.STOP in cleared.episode.plan.steps
            if has_stopped_first or isinstance(error, Throttled):
                raise
            # Without a stop the snapshots come first: the instance runs on, as after a rehearsal.
            raise SafetyError(refused_snapshots_text(error, tags)) from error
        volume_by_snapshot = {snapshot.snapshot_id: snapshot.volume_id for snapshot in made}
        missing = sorted(instance.volume_ids - set(volume_by_snapshot.values()))
        if missing:
            raise SnapshotFailed(f"the set of snapshots lacks {', '.join(missing)}")
        return volume_by_snapshot

    def _set_of_earlier_try(self, cleared: Cleared) -> Mapping[str, str]:
        """Return the set that an earlier try began without recording it: volume ids by snapshot id.

        Return an empty mapping if there is none with all volumes. A set counts only if EC2 began it
        after the step was noted, because anybody may set the tag. Raises: CloudError.
        """
        ref = cleared.episode.ref
        since = cleared.episode.progress.steps_done.get(Step.SNAPSHOT.value)
        if since is None:
            return {}
        target = cleared.instance.target
        # EC2 gives all snapshots of one set the same start time.
        sets: dict[UtcDatetime | None, dict[str, str]] = defaultdict(dict)
        for snapshot in self.snapshots.find(target, {EPISODE_TAG: ref.execution_name}):
            is_usable = snapshot.state in ("pending", "completed")
            if is_usable and snapshot.is_of_account_since(ref.account, since):
                sets[snapshot.start_time][snapshot.snapshot_id] = snapshot.volume_id
        for volume_by_snapshot in sets.values():
            if cleared.instance.volume_ids == set(volume_by_snapshot.values()):
                return volume_by_snapshot
        return {}


def _tags(cleared: Cleared, now: UtcDatetime) -> dict[str, str]:
    """Return the tags of snapshots that are begun now: their name, the episode that makes them, and
    the date after which they may be deleted."""
    rule = cleared.applied.policy.plan
    return cleared.instance.snapshot_tags(
        "before put-away",
        now + timedelta(days=rule.snapshot_retention_days),
        {EPISODE_TAG: cleared.episode.ref.execution_name},
        added=rule.snapshot_tags,
        copied_keys=rule.copied_tag_keys,
    )


def _must_be_in_its_state(cleared: Cleared) -> None:
    """Require a recheck, and the state that the plan has before snapshots: stopped if the plan
    stops the instance first, else running. A dry run has stopped nothing. Raises: SafetyError."""
    after_stop = Step.STOP in cleared.episode.plan.steps
    must_be_rechecked(cleared, (Step.STOP,) if after_stop else (Step.SNAPSHOT,))
    stops_first = after_stop and not cleared.dry_run
    wanted_state = "stopped" if stops_first else "running"
    must_be_in_state(cleared, wanted_state)


def _must_not_be_stopped_yet(cleared: Cleared) -> None:
    """Require the state of the instance before the stop of the plan: running; stopped if an earlier
    episode has carried out that stop. Raises: SafetyError."""
    is_stop_of_earlier_episode = Step.STOP not in cleared.episode.own_plan
    wanted_state = "stopped" if is_stop_of_earlier_episode else "running"
    must_be_in_state(cleared, wanted_state)
