"""The people who may pause everything, and those who may end the pause.

More people may begin a pause than may end one.
"""

from __future__ import annotations

from collections.abc import Collection

from governor.approvals.model.terms import Grant, Rank
from governor.policy.model.policy import Policy


def may_pause(grants: Collection[Grant], person: str, policy: Policy) -> bool:
    """Return whether this person may pause everything: any admin may, and anybody whom a contact of
    the policy names. `person` is an address or an identity."""
    is_admin = any(grant.rank is Rank.ADMIN for grant in grants)
    return is_admin or _is_named(person, policy)


def may_end_pause(
    grants: Collection[Grant], person: str, policy: Policy, *, policy_is_whole: bool
) -> bool:
    """Return whether this person may end the pause: only an admin of everything may.

    If the policy names no such admin, anybody whom a contact names may, because somebody must be
    able to. If the document is refused (`policy_is_whole` is false), only its contacts are known,
    and it may name an admin: nobody may end the pause then. Nothing acts under such a document
    either, so the pause that stays costs nothing.
    """
    if not policy_is_whole:
        return False
    if any(grant.rank is Rank.ADMIN and grant.scope.everything for grant in grants):
        return True
    scopes = policy.console.scopes.values()
    has_admin = any(scope.role == "admin" and scope.everything for scope in scopes)
    return not has_admin and _is_named(person, policy)


def _is_named(person: str, policy: Policy) -> bool:
    """Return whether a contact of the policy has this address or identity."""
    return policy.ownership.person(person) is not None
