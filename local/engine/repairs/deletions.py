"""Resources that CloudFormation cannot delete.

- AWS: a table with deletion protection, and a bucket that holds anything, be it a version or a
  delete marker. The resource is DELETE_FAILED, and with it the delete of the stack, or the rollback
  of its create. Engine: deletes both, with all that is in them.
"""

from __future__ import annotations

from typing import Any


def repair() -> None:
    """Asks before the engine's own functions; it looks them up at every resource."""
    from ministack.services import dynamodb, s3
    from ministack.services.cloudformation import provisioners

    def protected(name: str) -> str | None:
        # As the template spells it: the engine keeps the text that a parameter holds.
        is_on = (
            str(dynamodb._tables.get(name, {}).get("DeletionProtectionEnabled")).lower() == "true"
        )
        return f"Table {name} is protected against deletion." if is_on else None

    def filled(name: str) -> str | None:
        bucket = s3._buckets.get(name) or {}
        is_filled = bucket.get("objects") or s3._bucket_has_versions(name)
        return (
            f"The bucket {name} is not empty. You must delete all versions in the bucket."
            if is_filled
            else None
        )

    for kind, refusal in (("AWS::DynamoDB::Table", protected), ("AWS::S3::Bucket", filled)):
        own = provisioners._RESOURCE_HANDLERS[kind]

        def delete(
            name: str, *given: Any, refusal: Any = refusal, deleted: Any = own["delete"]
        ) -> Any:
            said = refusal(name)
            if said is not None:
                raise ValueError(said)
            return deleted(name, *given)

        own.update(delete=delete)
