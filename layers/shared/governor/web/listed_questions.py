"""Groups open questions for a list in which a reader answers several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from governor.approvals.model.approval import Answer
from governor.approvals.show_approval import ApprovalView


@dataclass(frozen=True, slots=True)
class ListedQuestions:
    """Open questions, by the place where their reader answers them."""

    together: Sequence[ApprovalView]
    """Questions that one form answers together. The reader may give each answer of the form to each
    of them."""
    may_stop: bool
    """True if the form offers to stop the instances; otherwise it offers only to keep them."""
    others: Sequence[ApprovalView]
    """Questions that are answered on their own pages, which show the answers that the reader may
    give."""
    terminations: Sequence[ApprovalView]
    """Questions about terminations. Each is answered on its own page."""

    @property
    def every(self) -> Sequence[ApprovalView]:
        """Return all of these questions; empty if there are none."""
        return [*self.together, *self.others, *self.terminations]


def listed_questions(
    views: Sequence[ApprovalView],
    person: str | None,
    may: Callable[[ApprovalView, Answer], bool],
) -> ListedQuestions:
    """Return these questions, grouped for a list whose buttons answer several at once: those that
    the reader may stop and keep or, without any such, those that they may keep.

    `may` returns whether the reader may give an answer. `person` is the reader; `None` if they are
    not proven.
    """
    stoppable: list[ApprovalView] = []
    not_stoppable: list[ApprovalView] = []
    terminations: list[ApprovalView] = []
    for view in views:
        first = view.approval.first_yes
        has_said_yes = first is not None and first.person == person
        may_stop = may(view, Answer.APPROVE) and not has_said_yes
        if view.episode.plan.destroys:
            terminations.append(view)
        elif may_stop and _is_keepable(view, may):
            stoppable.append(view)
        else:
            not_stoppable.append(view)
    if stoppable:
        return ListedQuestions(
            together=stoppable, may_stop=True, others=not_stoppable, terminations=terminations
        )
    keepable = [view for view in not_stoppable if _is_keepable(view, may)]
    others = [view for view in not_stoppable if not _is_keepable(view, may)]
    return ListedQuestions(
        together=keepable, may_stop=False, others=others, terminations=terminations
    )


def _is_keepable(view: ApprovalView, may: Callable[[ApprovalView, Answer], bool]) -> bool:
    """Return whether the question is open and the reader may answer it with a keep."""
    return view.can_decide and may(view, Answer.KEEP)
