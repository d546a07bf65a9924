"""Takes a question back: work resumed, the instance went away, or others were faster."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.episode.episode import EpisodeRef, Outcome, Phase
from governor.errors import ConflictError
from governor.stores import Episodes
from governor.usecases.approvals.deliver_decision import DeliverDecision


@dataclass(frozen=True, slots=True)
class VoidEpisode:
    """Voids the pending approval of an episode; the workflow then records the outcome and tells people."""

    state: Episodes
    deliver: DeliverDecision

    def __call__(self, ref: EpisodeRef, reason: str, outcome: Outcome) -> bool:
        """True when the question was open and is void now; false when it was not or no longer open.

        Raises:
            CloudError: the state table or Step Functions could not be reached; repeat it.
        """
        episode = self.state.episode(ref)
        if episode is None or episode.phase is not Phase.ASKING:
            return False
        try:
            self.state.void(episode.approval_id, reason, expired=False, outcome=outcome.value)
        except ConflictError:
            # Decided first. What acts looks anew before each call: at EC2, and at warnings that are noted.
            return False
        self.deliver(episode.approval_id)
        return True
