"""Takes one crash-consistent set of snapshots of all EBS volumes of an episode's instance, once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import EpisodeRef
from governor.domain.episode.plan import Step
from governor.domain.tags import DELETE_AFTER_TAG, EPISODE_TAG, INSTANCE_TAG, NAME_TAG
from governor.domain.units import iso
from governor.errors import SafetyError, SnapshotFailed
from governor.ports import Clock, Snapshotter
from governor.stores import Episodes
from governor.usecases.episode.guards import Cleared, Guards, must_be_rechecked


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Starts the snapshots, or finds those of an earlier try."""

    clock: Clock
    guards: Guards
    snapshots: Snapshotter
    state: Episodes

    def __call__(self, ref: EpisodeRef) -> tuple[tuple[str, ...], bool]:
        """Snapshot ids, and whether it was a dry run (then there are none).

        Raises:
            SafetyError: a guard does not hold, or the instance is in an unexpected state.
            SnapshotFailed: EC2 made a set that lacks a volume.
            Throttled: EC2 allows no further snapshot right now; the same call may succeed later.
        """
        cleared = self.guards.clear(ref, Step.SNAPSHOT)
        after_stop = Step.STOP in cleared.episode.plan.steps
        must_be_rechecked(cleared, (Step.STOP,) if after_stop else (Step.SNAPSHOT,))
        stops_first = after_stop and not cleared.dry_run
        wanted = "stopped" if stops_first else "running"
        if cleared.instance.state != wanted:
            raise SafetyError(f"the instance is {cleared.instance.state}, not {wanted}")
        target, now = cleared.instance.target, self.clock.now()
        found = tuple(self.snapshots.find(target, {EPISODE_TAG: ref.execution_name}))
        if not found:
            self.state.note_step(ref, Step.SNAPSHOT.value, now)
            found = tuple(
                self.snapshots.create(target, ref.instance_id, self._tags(cleared), dry_run=cleared.dry_run)
            )
        if cleared.dry_run:
            return (), True
        volumes = {volume.volume_id for volume in cleared.instance.volumes}
        if missing := sorted(volumes - {snapshot.volume_id for snapshot in found}):
            raise SnapshotFailed(f"the set of snapshots lacks {', '.join(missing)}")
        self.state.set_snapshots(ref, {snapshot.snapshot_id: snapshot.volume_id for snapshot in found})
        return tuple(sorted(snapshot.snapshot_id for snapshot in found)), False

    def _tags(self, cleared: Cleared) -> dict[str, str]:
        instance = cleared.instance
        keep = timedelta(days=cleared.applied.policy.plan.snapshot_retention_days)
        return {
            NAME_TAG: instance.snapshot_name("before put-away"),
            EPISODE_TAG: cleared.episode.ref.execution_name,
            INSTANCE_TAG: instance.instance_id,
            DELETE_AFTER_TAG: iso(self.clock.now() + keep),
        }
