"""AWS Organizations.

- AWS: the id of an organization is known when a stack is deployed for it. Engine: makes one up at
  the first call, for each account that calls. Here it is always the same; ARNs in answers keep the
  one made up.
- AWS: IAM is asked about the unit, or the root, whose accounts or units are listed. Engine: about
  `*`.
- AWS: a unit has an id at random. Engine: too. Here ids are counted, so that the commands of
  docs/accounts.md fit: `ou-abcd-11111111`, `ou-abcd-22222222` and so on.
- AWS: an active member account can become a delegated administrator of a service, once, and the
  management account never. Engine: knows no delegated administrators.
- AWS: an account has a `State`, of which `Status` is an older form. Engine: the older form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from local.engine.repairs.resource_arns import also_name
from local.engine.repairs.table_keys import parsed

ORGANIZATION = "o-abcdefghij"


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every request."""
    from ministack.core.responses import error_response_json
    from ministack.services import organizations as engine

    ensure, public = engine._ensure_org, engine._public_account

    def ensured() -> None:
        ensure()
        engine._orgs["self"]["Id"] = ORGANIZATION

    def with_state(account: Mapping[str, Any]) -> dict[str, Any]:
        return {**public(account), "State": account["Status"]}

    create = engine._create_organizational_unit

    def created(payload: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Create a unit, and give it the next id."""
        status, headers, body = create(payload)
        if status != 200:
            return status, headers, body
        random_id = json.loads(body)["OrganizationalUnit"]["Id"]
        record = engine._ous.pop(random_id)
        unit_id = _next_id(engine._ous)
        record["Id"] = unit_id
        record["Arn"] = record["Arn"].replace(random_id, unit_id)
        engine._ous[unit_id] = record
        if random_id in engine._tags:
            engine._tags[unit_id] = engine._tags.pop(random_id)
        return status, headers, body.replace(random_id.encode(), unit_id.encode())

    administrators: set[tuple[str, str]] = set()

    def registered(payload: Mapping[str, Any]) -> Any:
        """Make an account a delegated administrator of a service."""
        engine._ensure_org()
        account_id = payload["AccountId"]
        if account_id == engine._orgs["self"]["MasterAccountId"]:
            return error_response_json(
                "ConstraintViolationException",
                "You cannot register master account/yourself as delegated administrator for your "
                "organization.",
                400,
            )
        if engine._accounts.get(account_id, {}).get("Status") != "ACTIVE":
            return error_response_json(
                "AccountNotFoundException", "You specified an account that doesn't exist.", 400
            )
        administrator = (account_id, payload["ServicePrincipal"])
        if administrator in administrators:
            return error_response_json(
                "AccountAlreadyRegisteredException",
                "The provided account is already a delegated administrator for your organization.",
                400,
            )
        administrators.add(administrator)
        return engine._json(200, {})

    engine._ensure_org, engine._public_account = ensured, with_state
    engine._DISPATCH["RegisterDelegatedAdministrator"] = registered
    engine._DISPATCH["CreateOrganizationalUnit"] = created
    also_name(_of_unit)


def _next_id(units: Mapping[str, object]) -> str:
    """Return the first id that no unit has."""
    number = 1
    while f"ou-abcd-{number * 11111111}" in units:
        number += 1
    return f"ou-abcd-{number * 11111111}"


def _of_unit(service: str, _path: str, body: bytes, _region: str, account: str) -> str:
    """Return the ARN of the unit, or the root, whose accounts or units are listed; empty for other
    calls."""
    parent = str(parsed(body).get("ParentId", "")) if service == "organizations" else ""
    if not parent:
        return ""
    kind = "root" if parent.startswith("r-") else "ou"
    return f"arn:aws:organizations::{account}:{kind}/{ORGANIZATION}/{parent}"
