"""A pause: somebody holds back everything that destroys, in every target, until a named person ends
it.

Neither time nor the policy ends one. `domain.approvals.pausing` says who may begin and end it.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.units import UtcDatetime, people


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause that stands: since when, by whom, and why."""

    at: UtcDatetime
    by: str
    reason: str | None = None

    @property
    def why(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"paused by {people(self.by)}{reason}"
