"""Loads an open episode, and the snapshots that count as its own. This module only reads."""

from __future__ import annotations

from governor.approvals.deliver_decision import asked_about
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import SafetyError
from governor.core.instance import EPISODE_TAG, Snapshot, Target
from governor.episode.model.episode import Episode, Phase
from governor.episode.model.plan import Step
from governor.episode.ports import Snapshotter
from governor.episode.store.episodes import Episodes


def episode_underway(episode_store: Episodes, ref: EpisodeRef) -> Episode:
    """Return the episode. Raises: SafetyError if it was never saved or is closed; CloudError."""
    episode = asked_about(episode_store, ref)
    if episode.phase is Phase.CLOSED:
        outcome = episode.outcome.value if episode.outcome else "closed"
        raise SafetyError(f"the episode is over: {outcome}")
    return episode


def own_snapshots(snapshotter: Snapshotter, episode: Episode, target: Target) -> list[Snapshot]:
    """Return the snapshots in EC2 that count as the episode's own: recorded with the same volume,
    of the instance's account, and begun after the step was noted. A tag alone proves nothing.

    Return an empty list if no snapshot counts, or the step was not noted. Raises: CloudError.
    """
    noted_at = episode.progress.steps_done.get(Step.SNAPSHOT.value)
    if noted_at is None:
        return []
    counted = []
    for snapshot in snapshotter.find(target, {EPISODE_TAG: episode.ref.execution_name}):
        is_recorded = episode.progress.snapshots.get(snapshot.snapshot_id) == snapshot.volume_id
        if is_recorded and snapshot.is_of_account_since(episode.ref.account, noted_at):
            counted.append(snapshot)
    return counted
