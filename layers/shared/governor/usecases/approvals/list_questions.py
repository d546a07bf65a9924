"""Lists the questions that wait for an answer, in every account and Region that is swept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from governor.domain.approvals.approval import ApprovalStatus
from governor.domain.instance import Target
from governor.ports import Clock
from governor.stores import StateTable
from governor.usecases.approvals.show_approval import ApprovalView


@dataclass(frozen=True, slots=True)
class ListQuestions:
    """Reads locks and their questions; there are as many as idle instances, not as there are instances."""

    state: StateTable
    clock: Clock
    targets: Sequence[Target]

    def __call__(self) -> list[ApprovalView]:
        """Return the open questions, the most expensive first; those of unknown price at the end.

        Raises:
            CloudError: the state table could not be read.
        """
        now = self.clock.now()
        found = []
        for target in self.targets:
            for record in self.state.records(target).values():
                episode = self.state.episode(record.open_episode) if record.open_episode else None
                approval = self.state.approval(episode.approval_id) if episode else None
                if episode is None or approval is None or approval.status is not ApprovalStatus.PENDING:
                    continue
                view = ApprovalView(approval, episode, now)
                if view.is_question:
                    found.append(view)
        return sorted(found, key=lambda view: -(view.episode.price.usd_per_hour or 0))
