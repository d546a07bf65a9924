"""Who sees and does what in the console: grants of the policy, and what people own themselves.

This module must not know how an identity is proven.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Rank(IntEnum):
    """What somebody may do; each includes those before it."""

    VIEWER = 1
    """Looks, and changes nothing."""
    APPROVER = 2
    """Answers questions."""
    ADMIN = 3
    """Ends holds and exemptions, and releases the breaker."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The instances that somebody sees: everything, or those of an account, a project or an owner."""

    everything: bool = False
    accounts: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()

    def sees(self, account: str, project: str, owner: str) -> bool:
        return (
            self.everything
            or account in self.accounts
            or project in self.projects
            or owner.lower() in self.owners
        )

    def __or__(self, other: Scope) -> Scope:
        return Scope(
            self.everything or other.everything,
            self.accounts | other.accounts,
            self.projects | other.projects,
            self.owners | other.owners,
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """A rank, and the instances it is for."""

    rank: Rank
    scope: Scope


def rank_for(grants: Iterable[Grant], account: str, project: str, owner: str) -> Rank | None:
    """Return the highest rank that covers an instance; `None` where no grant does."""
    ranks = [one.rank for one in grants if one.scope.sees(account, project, owner)]
    return max(ranks, default=None)
