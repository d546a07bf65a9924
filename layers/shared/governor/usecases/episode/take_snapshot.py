"""Keeps what a termination would lose, once: user data, and one crash-consistent set of
snapshots."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import EpisodeRef
from governor.domain.episode.plan import Step
from governor.domain.instance import EPISODE_TAG, UserData
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, SafetyError, SnapshotFailed, SnapshotUnderWay, Unavailable
from governor.ports import Clock, Snapshotter, Vault
from governor.stores import Episodes
from governor.usecases.episode.guards import Cleared, Guards, must_be_rechecked

RESERVED = timedelta(minutes=3)
"""How long a try that was not heard of again keeps others from making a second set: longer than any
runs."""
_CLOCKS_DIFFER = timedelta(seconds=2)
"""Between the note that the instance was seen stopped and the call: EC2 counts by its own clock,
perhaps in whole seconds, and only snapshots that it began after the note count."""


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    clock: Clock
    guards: Guards
    snapshots: Snapshotter
    vault: Vault
    state: Episodes
    pause: Callable[[float], object] = time.sleep

    def __call__(self, ref: EpisodeRef) -> tuple[tuple[str, ...], bool]:
        """Return snapshot ids, and whether it was a dry run. Raises: SafetyError; SnapshotFailed
        when the set lacks a volume; CloudError; to repeat: Throttled, Unavailable,
        SnapshotUnderWay."""
        with self.guards.journaled(ref, Step.SNAPSHOT):
            cleared = self.guards.clear(ref, Step.SNAPSHOT)
            after_stop = Step.STOP in cleared.episode.plan.steps
            must_be_rechecked(cleared, (Step.STOP,) if after_stop else (Step.SNAPSHOT,))
            stops_first = after_stop and not cleared.dry_run
            wanted = "stopped" if stops_first else "running"
            if cleared.instance.state != wanted:
                raise SafetyError(f"the instance is {cleared.instance.state}, not {wanted}")
            if (
                cleared.episode.plan.destroys
                and cleared.episode.user_data is None
                and not cleared.dry_run
            ):
                self._keep_user_data(cleared)
            recorded = cleared.episode.snapshots
            if not recorded:
                found = self._of_earlier_try(cleared) or self._create(cleared)
                if cleared.dry_run:
                    return (), True
                recorded = self.state.set_snapshots(ref, found)
            return tuple(sorted(recorded)), False

    def _keep_user_data(self, cleared: Cleared) -> None:
        """Keep a copy for whoever rebuilds it. A stop keeps it anyway; without the note nothing is
        ended."""
        ref = cleared.episode.ref
        found = self.snapshots.user_data(cleared.instance.target, ref.instance_id)
        self.state.note_user_data(ref, self.vault.keep(ref, found) if found else UserData())

    def _create(self, cleared: Cleared) -> Mapping[str, str]:
        ref, instance, now = cleared.episode.ref, cleared.instance, self.clock.now()
        target = instance.target
        until = now + timedelta(days=cleared.applied.policy.plan.snapshot_retention_days)
        tags = instance.snapshot_tags("before put-away", until, {EPISODE_TAG: ref.execution_name})
        if cleared.dry_run:
            self.state.note_step(ref, Step.SNAPSHOT.value, now)
            self.snapshots.create(target, ref.instance_id, tags, dry_run=True)
            return {}
        if not self.state.reserve_snapshots(ref, Step.SNAPSHOT.value, now, now - RESERVED):
            raise SnapshotUnderWay("another try may be making the snapshots at this moment")
        self.pause(_CLOCKS_DIFFER.total_seconds())
        try:
            made = self.snapshots.create(target, ref.instance_id, tags, dry_run=False)
        except Unavailable:
            # EC2 may have begun them: the next try looks, and makes others only when this one is
            # long over.
            raise
        except CloudError:
            self.state.release_snapshots(ref, now)
            raise
        found = {snapshot.snapshot_id: snapshot.volume_id for snapshot in made}
        if missing := sorted(instance.volume_ids - set(found.values())):
            raise SnapshotFailed(f"the set of snapshots lacks {', '.join(missing)}")
        return found

    def _of_earlier_try(self, cleared: Cleared) -> Mapping[str, str]:
        """Return the set of all volumes that EC2 began for an earlier try without an answer, if
        any, after it was seen stopped or, running, approved. A tag proves nothing."""
        ref, volumes = cleared.episode.ref, cleared.instance.volume_ids
        since = cleared.episode.steps_done.get(Step.SNAPSHOT.value)
        if since is None or cleared.dry_run:
            return {}
        sets: dict[UtcDatetime | None, dict[str, str]] = defaultdict(dict)
        for one in self.snapshots.find(cleared.instance.target, {EPISODE_TAG: ref.execution_name}):
            if one.state in ("pending", "completed") and one.counts(ref.account, since):
                sets[one.start_time][one.snapshot_id] = one.volume_id
        whole = (found for found in sets.values() if volumes == set(found.values()))
        return next(whole, {})
