"""Changes of the state table, as its stream hands them to a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AliasPath, Field

from governor.contracts.parsing import Event, Moment, parse
from governor.domain.audit import Change

_Item = Mapping[str, Mapping[str, Any]]


def _stream(*path: str, **more: Any) -> Any:
    return Field(validation_alias=AliasPath("dynamodb", *path), **more)


class _Record(Event):
    operation: str = Field(alias="eventName")
    keys: _Item = _stream("Keys")
    at: Moment = _stream("ApproximateCreationDateTime")
    sequence: str = _stream("SequenceNumber", pattern=r"^\d+$")
    before: _Item = _stream("OldImage", default={})
    after: _Item = _stream("NewImage", default={})
    principal: str | None = Field(validation_alias=AliasPath("userIdentity", "principalId"), default=None)

    def to_domain(self) -> Change:
        before, after = _plain(self.before), _plain(self.after)
        return Change(
            **_plain(self.keys),
            **self.model_dump(exclude={"keys", "before", "after"}),
            before=before,
            after=after,
        )


class _Batch(Event):
    records: tuple[_Record, ...] = Field(alias="Records")


def changes_of(event: object) -> list[Change]:
    """Return the changes of a batch. Raises: InputError."""
    return [record.to_domain() for record in parse(_Batch, event).records]


def _plain(item: _Item) -> dict[str, Any]:
    """The item as JSON has it: numbers stay text, as the stream writes them, and bytes base64."""
    return {name: _value(value) for name, value in item.items()}


def _value(value: Mapping[str, Any]) -> Any:
    [(letter, inner)] = value.items()
    if letter in ("M", "L"):
        return _plain(inner) if letter == "M" else [_value(one) for one in inner]
    return None if letter == "NULL" else inner
