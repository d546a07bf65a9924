"""Cancels (voids) the open question of an episode. The workflow records the outcome.

An episode that already acts is not voided here: it checks EC2 and warnings before each call.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.approvals.deliver_decision import hand_over
from governor.approvals.store.approvals import Approvals
from governor.core import errors
from governor.core.episode_ref import EpisodeRef
from governor.episode.model.episode import (
    Episode,
    Outcome,
    Phase,
)
from governor.episode.ports import Workflow
from governor.episode.store.episodes import Episodes


@dataclass(frozen=True, slots=True)
class VoidEpisode:
    """Voids the open question of an episode. The workflow then records the outcome and notifies
    people."""

    episode_store: Episodes
    approval_store: Approvals
    workflow: Workflow

    def __call__(self, ref: EpisodeRef, reason: str, outcome: Outcome) -> bool:
        """Void the question, hand that to the waiting workflow, and return true.

        Return false, with nothing changed, if the episode does not ask people now, or its question
        was answered, expired or void before. Raises: CloudError; then repeat it.
        """
        episode = self.episode_store.episode(ref)
        if episode is None or episode.phase is not Phase.ASKING:
            return False
        # The question is void before the workflow continues. An episode that acts already is not
        # voided here: before each call it checks EC2 and the warnings that were noted.
        if not void_question(self.approval_store, episode, reason, outcome):
            return False
        hand_over(
            self.episode_store, self.workflow, self.approval_store.approval(episode.approval_id)
        )
        return True


def void_question(
    approval_store: Approvals, episode: Episode, why: str, outcome: Outcome = Outcome.VOID
) -> bool:
    """Void the question in the table, for the reason `why`, and return true; the workflow is not
    informed. `outcome` is the one that the episode will end with. Return false, and change nothing,
    if the question was answered, expired or void before. Raises: CloudError."""
    try:
        approval_store.void(episode.approval_id, why, expired=False, outcome=outcome.value)
    except errors.ConflictError:
        return False
    return True
