"""The record of a lasting problem (standing state) of an account, Region or instance, such as a
missing role.

Standing states are no failures of GPU Governor: no later sweep repairs them. People are notified
when one begins and when it is over; meanwhile the console, `governor status` and `governor doctor`
show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from governor.core.instance import Target
from governor.core.units import UtcDatetime


class StateKind(StrEnum):
    """The kind of a standing state. The values are stored."""

    NOT_ENABLED = "not-enabled"
    """The account has not enabled the Region."""
    ROLE_MISSING = "role-missing"
    """The role of the member stack cannot be assumed."""
    DENIED = "denied"
    """The role may not list instances there: an organization's policy denies it, or it lacks the
    permission."""
    CANNOT_TAG = "cannot-tag"
    """EC2 refuses the tags of an instance, as of one that has 50, or all tags in the target."""


@dataclass(frozen=True, slots=True)
class StandingState:
    """A state of a target, or of one instance of it."""

    target: Target
    kind: StateKind
    reason: str
    """The answer of AWS."""
    since: UtcDatetime
    seen_at: UtcDatetime
    """The time of the last sweep that met the state."""
    instance_id: str = ""
    """Set for an instance that takes no tag, such as one that has 50; empty for a state of the
    target."""
    told_at: UtcDatetime | None = None
    """When people were notified that it began; `None` if they were not yet."""

    @property
    def is_of_target(self) -> bool:
        """Return whether nothing of the target can be swept."""
        return self.kind is not StateKind.CANNOT_TAG

    @property
    def place(self) -> str:
        """Return where the state stands: `111122223333/us-east-1`, with the instance if it is a
        state of one: `i-0abc in 111122223333/us-east-1`."""
        if self.instance_id:
            return f"{self.instance_id} in {self.target}"
        return str(self.target)
