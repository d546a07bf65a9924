"""Changes of the state table, as its stream hands them to a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from governor.contracts.parsing import Event, Moment, parse
from governor.domain.audit import Change

_Item = Mapping[str, Mapping[str, Any]]


class _Images(Event):
    keys: _Item = Field(alias="Keys")
    at: Moment = Field(alias="ApproximateCreationDateTime")
    sequence: str = Field(alias="SequenceNumber", pattern=r"^\d+$")
    before: _Item = Field(alias="OldImage", default={})
    after: _Item = Field(alias="NewImage", default={})


class _Record(Event):
    operation: str = Field(alias="eventName")
    images: _Images = Field(alias="dynamodb")
    identity: Mapping[str, Any] | None = Field(alias="userIdentity", default=None)


class _Batch(Event):
    records: tuple[_Record, ...] = Field(alias="Records")


def changes_of(event: object) -> list[Change]:
    """Return the changes of a batch. Raises: InputError."""
    return [_change(record) for record in parse(_Batch, event).records]


def _change(record: _Record) -> Change:
    images, keys = record.images, _plain(record.images.keys)
    return Change(
        pk=keys["pk"],
        sk=keys["sk"],
        operation=record.operation,
        at=images.at,
        sequence=images.sequence,
        before=_plain(images.before),
        after=_plain(images.after),
        principal=(record.identity or {}).get("principalId"),
    )


def _plain(item: _Item) -> dict[str, Any]:
    """The item as JSON has it: numbers stay text, as the stream writes them, and bytes base64."""
    return {name: _value(value) for name, value in item.items()}


def _value(value: Mapping[str, Any]) -> Any:
    [(letter, inner)] = value.items()
    match letter:
        case "M":
            return _plain(inner)
        case "L":
            return [_value(one) for one in inner]
        case "NULL":
            return None
        case _:
            return inner
