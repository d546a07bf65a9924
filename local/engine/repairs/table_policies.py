"""Resource policies of tables.

- AWS: a denial in the policy of a table holds whatever the caller's own policies allow. Engine:
  stores such a policy, and never looks at it.
- AWS: a stack may give a table its policy. Engine: forgets it.
"""

from __future__ import annotations

import json
from typing import Any

_KIND = "AWS::DynamoDB::Table"


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every request and resource."""
    from ministack.core import iam_evaluator
    from ministack.core.responses import get_account_id
    from ministack.services import dynamodb
    from ministack.services.cloudformation import provisioners

    look_up = iam_evaluator._resource_policy
    own = provisioners._RESOURCE_HANDLERS[_KIND]
    create = own["create"]
    update = own["update"]
    delete = own["delete"]

    def policy_of(service: str, resource_arn: str) -> tuple[Any, Any] | None:
        if service != "dynamodb":
            found: tuple[Any, Any] | None = look_up(service, resource_arn)
            return found
        kept = dynamodb._resource_policies.get(table_arn(resource_arn))
        return None if kept is None else (kept["Policy"], get_account_id())

    def created(logical_id: str, properties: Any, *given: Any, **more: Any) -> Any:
        name, attributes = create(logical_id, properties, *given, **more)
        keep(attributes["Arn"], properties)
        return name, attributes

    def updated(physical_id: str, before: Any, after: Any, *given: Any, **more: Any) -> Any:
        name, attributes = update(physical_id, before, after, *given, **more)
        keep(attributes["Arn"], after)
        return name, attributes

    def deleted(physical_id: str, properties: Any, *given: Any, **more: Any) -> Any:
        table = dynamodb._tables.get(physical_id)
        if table is not None:
            dynamodb._resource_policies.pop(table["TableArn"], None)
        return delete(physical_id, properties, *given, **more)

    def keep(arn: str, properties: Any) -> None:
        document = (properties.get("ResourcePolicy") or {}).get("PolicyDocument")
        if document is None:
            dynamodb._resource_policies.pop(arn, None)
            return
        asked = {"ResourceArn": arn, "Policy": json.dumps(document)}
        status, _, answer = dynamodb._put_resource_policy(asked)
        if status >= 400:
            raise ValueError(f"{_KIND} ResourcePolicy failed: {answer!r}")

    iam_evaluator._resource_policy = policy_of
    own.update(create=created, update=updated, delete=deleted)


def table_arn(resource_arn: str) -> str:
    """Return the ARN of the table of which this is the table itself or an index."""
    return resource_arn.partition("/index/")[0]
