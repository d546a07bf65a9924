"""A sample organization in the local cloud, to walk docs/accounts.md in.

The page's ids are those of this organization: the hub is its management account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local.engine.cloud import LocalCloud

UNIT = "ou-abcd-11111111"
"""The unit that the page governs."""
SANDBOX = "ou-abcd-22222222"
"""A unit within it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The active accounts: one in the unit, and one in the unit within it."""

    research: str
    sandbox: str


def put_organization(cloud: LocalCloud) -> Sample:
    """Create the units and their accounts. A third account, in the first unit, is suspended.

    Raises:
        RuntimeError: the organization has units already, so these have other ids than the page.
    """
    api = cloud.client("organizations")
    root = api.list_roots()["Roots"][0]["Id"]
    _create_unit(api, root, "gpu", UNIT)
    _create_unit(api, UNIT, "sandbox", SANDBOX)
    suspended = _create_account(api, root, "suspended", UNIT)
    api.close_account(AccountId=suspended)
    return Sample(
        research=_create_account(api, root, "research", UNIT),
        sandbox=_create_account(api, root, "play", SANDBOX),
    )


def _create_unit(api: Any, parent: str, name: str, expected_id: str) -> None:
    """Create a unit. Raises: RuntimeError: it has another id than expected."""
    made = api.create_organizational_unit(ParentId=parent, Name=name)["OrganizationalUnit"]["Id"]
    if made != expected_id:
        raise RuntimeError(f"the unit {name} is {made}, and docs/accounts.md says {expected_id}")


def _create_account(api: Any, root: str, name: str, unit: str) -> str:
    """Create an account in a unit, and return its number."""
    status = api.create_account(Email=f"{name}@example.com", AccountName=name)
    account: str = status["CreateAccountStatus"]["AccountId"]
    api.move_account(AccountId=account, SourceParentId=root, DestinationParentId=unit)
    return account
