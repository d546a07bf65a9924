"""Ends the question when its last stage has passed: expired, unless an answer came in the last instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from governor.domain.episode.episode import EpisodeRef
from governor.errors import ConflictError, SafetyError
from governor.stores import Episodes
from governor.usecases.approvals.deliver_decision import answer_document


@dataclass(frozen=True, slots=True)
class ConcludeApproval:
    """Safe to repeat: the first status that is not PENDING stands."""

    state: Episodes

    def __call__(self, ref: EpisodeRef) -> Mapping[str, object]:
        """The answer document; its `decision` is `expired` when nobody answered.

        Raises:
            SafetyError: the episode or its approval does not exist.
        """
        episode = self.state.episode(ref)
        if episode is None:
            raise SafetyError("the episode does not exist")
        try:
            approval = self.state.void(episode.approval_id, "nobody answered in time", expired=True)
        except ConflictError:
            stored = self.state.approval(episode.approval_id)
            if stored is None:
                raise SafetyError("there is no approval for this episode") from None
            approval = stored
        return answer_document(approval)
