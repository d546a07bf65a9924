"""AWS Organizations.

- AWS: the id of an organization is known when a stack is deployed for it. Engine: makes one up at
  the first call, for each account that calls. Here it is always the same; ARNs in answers keep the
  one made up.
- AWS: IAM is asked about the unit, or the root, whose accounts or units are listed. Engine: about
  `*`.
- AWS: an account has a `State`, of which `Status` is an older form. Engine: the older form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local.engine.repairs.resource_arns import also_name
from local.engine.repairs.table_keys import parsed

ORGANIZATION = "o-localcloud"


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every request."""
    from ministack.services import organizations as engine

    ensure, public = engine._ensure_org, engine._public_account

    def ensured() -> None:
        ensure()
        engine._orgs["self"]["Id"] = ORGANIZATION

    def with_state(account: Mapping[str, Any]) -> dict[str, Any]:
        return {**public(account), "State": account["Status"]}

    engine._ensure_org, engine._public_account = ensured, with_state
    also_name(_of_unit)


def _of_unit(service: str, _path: str, body: bytes, _region: str, account: str) -> str:
    """Return the ARN of the unit, or the root, whose accounts or units are listed; empty for other
    calls."""
    parent = str(parsed(body).get("ParentId", "")) if service == "organizations" else ""
    if not parent:
        return ""
    kind = "root" if parent.startswith("r-") else "ou"
    return f"arn:aws:organizations::{account}:{kind}/{ORGANIZATION}/{parent}"
