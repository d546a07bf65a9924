"""The one question all detectors answer: is this instance idle now, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from governor.domain.detection.history import History


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether somebody should be asked about the instance now, and one sentence that says why."""

    is_idle: bool
    reason: str
    lacks_bins: int | None = None
    """How much longer it must stay idle at least; `None` where that is not what it lacks."""


class Detector(Protocol):
    """Judges one instance from its own past. Deterministic, and without a memory of its own."""

    @property
    def name(self) -> str:
        """Short, as it stands in reports and in the policy."""
        ...

    def judge(self, history: History) -> Answer:
        """The answer at the end of the history's newest bin."""
        ...
