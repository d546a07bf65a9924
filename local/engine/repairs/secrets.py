"""`Ref` of a secret.

- AWS: its ARN. Engine: its name, so that a statement of IAM about it would name nothing.
"""

from __future__ import annotations

from typing import Any


def repair() -> None:
    """Wraps the engine's functions, which know secrets by name; it looks them up at every
    resource."""
    from ministack.services import secretsmanager
    from ministack.services.cloudformation import provisioners

    own = provisioners._RESOURCE_HANDLERS["AWS::SecretsManager::Secret"]
    create, update, delete = own["create"], own["update"], own["delete"]

    def name(physical_id: str) -> str:
        found, _ = secretsmanager._resolve(physical_id)
        return str(found or physical_id)

    def created(*given: Any, **more: Any) -> Any:
        _, attributes = create(*given, **more)
        return attributes["Arn"], attributes

    def updated(physical_id: str, *given: Any, **more: Any) -> Any:
        _, attributes = update(name(physical_id), *given, **more)
        return attributes["Arn"], attributes

    def deleted(physical_id: str, *given: Any, **more: Any) -> Any:
        return delete(name(physical_id), *given, **more)

    own.update(create=created, update=updated, delete=deleted)
