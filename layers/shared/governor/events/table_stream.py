"""The changes of the state table, as its DynamoDB stream hands them to a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AliasPath, Field

from governor.core.parsing import Event, Moment, parse
from governor.episode.rules.audit import Change

_Item = Mapping[str, Mapping[str, Any]]


def _stream(*path: str, **more: Any) -> Any:
    """Return a model field that is read from this path in a record's `dynamodb` part."""
    return Field(validation_alias=AliasPath("dynamodb", *path), **more)


class _ChangeRecord(Event):
    """One change of an item, as the stream of a table describes it."""

    operation: str = Field(alias="eventName")
    keys: _Item = _stream("Keys")
    at: Moment = _stream("ApproximateCreationDateTime")
    sequence: str = _stream("SequenceNumber", pattern=r"^\d+$")
    before: _Item = _stream("OldImage", default={})
    after: _Item = _stream("NewImage", default={})
    principal: str | None = Field(
        validation_alias=AliasPath("userIdentity", "principalId"), default=None
    )

    def to_domain(self) -> Change:
        """Return the change with its items as plain JSON."""
        fields = self.model_dump(exclude={"keys", "before", "after"})
        return Change(
            **_plain(self.keys), **fields, before=_plain(self.before), after=_plain(self.after)
        )


class _ChangeBatch(Event):
    """Changes of items, as Lambda hands them to a function."""

    records: tuple[_ChangeRecord, ...] = Field(alias="Records")


def changes_of(event: object) -> list[Change]:
    """Return the changes of the state table in an event of its stream, in their order. Raises:
    InputError if the event has another shape."""
    return [record.to_domain() for record in parse(_ChangeBatch, event).records]


def _plain(item: _Item) -> dict[str, Any]:
    """Return a DynamoDB item as plain JSON. Numbers stay text, as the stream writes them, and bytes
    stay base64."""
    return {name: _value(value) for name, value in item.items()}


def _value(value: Mapping[str, Any]) -> Any:
    """Return an attribute value of DynamoDB, such as `{"N": "7"}`, as plain JSON, here `"7"`. NULL
    becomes `None`. Raises: ValueError unless it names exactly one type."""
    [(letter, inner)] = value.items()
    if letter == "M":
        return _plain(inner)
    if letter == "L":
        return [_value(item) for item in inner]
    return None if letter == "NULL" else inner
