"""The people who may pause everything, and those who may end the pause.

More people may begin a pause than may end one.
"""

from __future__ import annotations

from collections.abc import Collection

from governor.approvals.model.terms import Grant, Rank
from governor.policy.model.contacts import ConsoleScope
from governor.policy.model.policy import Policy


def may_pause(grants: Collection[Grant], person: str, policy: Policy) -> bool:
    """Return whether this person may pause everything: any admin may, and any person in
    `ownership.contacts` of the policy. `person` is an address or an identity."""
    is_admin = any(grant.rank is Rank.ADMIN for grant in grants)
    return is_admin or _is_named(person, policy)


def may_end_pause(
    grants: Collection[Grant], person: str, policy: Policy, *, policy_is_whole: bool
) -> bool:
    """Return whether this person may end the pause: only an admin of everything may.

    If the policy names no such admin, any person in `ownership.contacts` may, because somebody must
    be able to. If the document is refused (`policy_is_whole` is false), only its contacts are
    known, and it may name an admin: nobody may end the pause then. Nothing acts under such a
    document either, so the pause that stays costs nothing.
    """
    if not policy_is_whole:
        return False
    if any(grant.rank is Rank.ADMIN and grant.scope.everything for grant in grants):
        return True
    return not admin_scopes(policy) and _is_named(person, policy)


def admin_scopes(policy: Policy, account: str | None = None) -> list[ConsoleScope]:
    """Return the scopes of the policy that make people admins of this account, or of everything
    (`None`); empty if there are none. An admin of everything is one of each account."""
    scopes: list[ConsoleScope] = []
    for scope in policy.console.scopes.values():
        covers = scope.everything or account in scope.accounts
        if scope.role == "admin" and covers:
            scopes.append(scope)
    return scopes


def _is_named(person: str, policy: Policy) -> bool:
    """Return whether a contact of the policy has this address or identity."""
    return policy.ownership.person(person) is not None
