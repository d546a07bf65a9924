"""Reads SageMaker's answers about many resources at a time. One that is gone stops no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from governor.core.errors import CloudError, NotFound
from governor.scan.kind import Place

LIST_TAGS = "sagemaker:ListTags"
SERVICE = "sagemaker"
"""The name of the service in botocore."""
_GONE = "Could not find"
"""The first words of SageMaker's answer about a resource that was deleted."""


def described(
    place: Place, topic: str, operation: str, parameters: Sequence[Mapping[str, Any]]
) -> Iterator[Any]:
    """Yield an operation's answer for each of these parameters, in their order; `None` for a
    resource that is gone, or that could not be read, which is reported under the `topic`."""
    for answer in place.call_each(operation, parameters):
        if not isinstance(answer, CloudError):
            yield answer
            continue
        if not is_gone(answer):
            place.could_not_read(topic, answer)
        yield None


def is_gone(error: CloudError) -> bool:
    """Return whether an error says that a resource was deleted."""
    return isinstance(error, NotFound) or error.words.startswith(_GONE)


def tags_of(place: Place, topic: str, arns: Sequence[str]) -> list[Mapping[str, str]]:
    """Return the tags of each resource, by its ARN; none for one whose tags cannot be read, which
    is reported."""
    parameters = [{"ResourceArn": arn} for arn in arns]
    tags: list[Mapping[str, str]] = []
    for answer in described(place, topic, LIST_TAGS, parameters):
        records = answer["Tags"] if answer else ()
        tags.append({record["Key"]: record.get("Value", "") for record in records})
    return tags
