"""A pause: somebody holds back everything that destroys, in every target, until a named person ends it.

Neither time nor the policy ends one. Who may pause, and who may end it, is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from governor.domain.approvals.terms import Grant, Rank
from governor.domain.policy.policy import Policy
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


def may_pause(grants: Collection[Grant], person: str, policy: Policy) -> bool:
    """Return whether somebody may pause everything: any admin, and anybody whom a contact names."""
    is_admin = any(grant.rank is Rank.ADMIN for grant in grants)
    return is_admin or _is_named(person, policy)


def may_end_pause(grants: Collection[Grant], person: str, policy: Policy) -> bool:
    """Return whether somebody may end the pause: an admin of everything.

    Where the policy names no such admin, anybody whom a contact names may: somebody must be able to.
    """
    if any(grant.rank is Rank.ADMIN and grant.scope.everything for grant in grants):
        return True
    scopes = policy.console.scopes.values()
    has_admin = any(scope.role == "admin" and scope.everything for scope in scopes)
    return not has_admin and _is_named(person, policy)


def _is_named(person: str, policy: Policy) -> bool:
    return policy.ownership.person(person) is not None
