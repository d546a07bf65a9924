"""The people who may pause everything, and those who may end the pause."""

from __future__ import annotations

from collections.abc import Collection

from governor.approvals.model.terms import Grant, Rank
from governor.policy.model.policy import Policy


def may_pause(grants: Collection[Grant], person: str, policy: Policy) -> bool:
    """Return whether somebody may pause everything: any admin, and anybody whom a contact names."""
    is_admin = any(grant.rank is Rank.ADMIN for grant in grants)
    return is_admin or _is_named(person, policy)


def may_end_pause(
    grants: Collection[Grant], person: str, policy: Policy, *, policy_is_whole: bool
) -> bool:
    """Return whether somebody may end the pause: an admin of everything.

    Where the policy names no such admin, anybody whom a contact names may: somebody must be able
    to. A refused document shows its contacts alone. It may name an admin, so nobody may end the
    pause by it. Nothing acts under such a document either, so the pause that stays costs nothing.
    """
    if not policy_is_whole:
        return False
    if any(grant.rank is Rank.ADMIN and grant.scope.everything for grant in grants):
        return True
    scopes = policy.console.scopes.values()
    has_admin = any(scope.role == "admin" and scope.everything for scope in scopes)
    return not has_admin and _is_named(person, policy)


def _is_named(person: str, policy: Policy) -> bool:
    return policy.ownership.person(person) is not None
