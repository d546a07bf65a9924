"""The stored form of domain records: one pydantic adapter per record, built on its first use.

A record is stored by its own fields; `_STORED` names every exception. Amounts are decimal text and times ISO
8601 text in UTC, so neither passes through a float. Reading ignores unknown attributes and converts nothing:
text is not a number. A field may be missing where its default is None, or where `older` says what a release
that did not write it meant; without any other field the item is unreadable.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from governor.domain.alerts.delivery import Delivery
from governor.domain.approvals.approval import Approval
from governor.domain.episode.episode import (
    Episode,
    EpisodeRef,
    InstanceRecord,
    Observation,
    Terms,
    episode_from_execution_name,
)
from governor.domain.episode.plan import Plan
from governor.domain.evidence import Evidence, evidence_document, evidence_from_document
from governor.domain.history import History, history_document, history_from_document
from governor.domain.instance import Instance, LaunchFacts, Target
from governor.domain.money.cost import Meter
from governor.domain.money.ledger import LedgerEntry
from governor.domain.sweep.breaker import BreakerState
from governor.domain.units import as_utc, parse_iso
from governor.errors import CloudError
from governor.stores.table import Document, Record

_Pair = tuple[str, str]


def read_all(kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Return the records of stored items, one by one.

    Raises:
        CloudError: a field is missing or not of its type. The message names the item and its fields, never
            their values: some are secrets.
    """
    adapter = _adapter(kind)
    # Thousands of series share most of their dimensions; one object for equal pairs saves tens of megabytes.
    shared: dict[_Pair, _Pair] = {}
    for item in items:
        try:
            yield adapter.validate_python(item, context=shared)
            continue
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found]
        except (KeyError, TypeError, ArithmeticError) as error:
            problems = [repr(error)]
        name = f"the item {item.get('pk')} / {item.get('sk')}"
        raise CloudError(f"{name} cannot be read: {'; '.join(problems)}", operation="dynamodb:GetItem")


def written(record: object) -> Document:
    """The document of a record."""
    document: Document = _adapter(type(record)).dump_python(record, by_alias=True)
    return document


def moment(value: datetime) -> str:
    """A time without loss: `units.iso` would cut it to the second."""
    return as_utc(value).isoformat()


# fields


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text is needed")  # noqa: TRY004 - pydantic reports a ValueError by its field
    return value


def _decimal(value: object) -> Decimal:
    try:
        found = Decimal(_text(value))
    except InvalidOperation:
        raise ValueError("not an amount") from None
    if not found.is_finite():
        raise ValueError("not an amount")
    return found


def _seconds(value: object) -> timedelta:
    if type(value) is not int:
        raise ValueError("a number of seconds is needed")
    return timedelta(seconds=value)


def _unpacked(data: object) -> Any:
    if not isinstance(data, bytes):
        raise ValueError("packed JSON is needed")  # noqa: TRY004 - as above
    try:
        return json.loads(zlib.decompress(data))
    except zlib.error:
        raise ValueError("packed JSON is needed") from None


def _packed(document: Mapping[str, Any]) -> bytes:
    """Compressed: a week of eight GPUs by the minute would not fit an item otherwise."""
    return zlib.compress(_json(document))


def _share(pair: _Pair, info: ValidationInfo[dict[_Pair, _Pair]]) -> _Pair:
    return info.context.setdefault(pair, pair)


def _leaf(reader: Callable[[Any], Any], writer: Callable[[Any], Any]) -> CoreSchema:
    return core_schema.no_info_plain_validator_function(reader, serialization=_as(writer))


_as = core_schema.plain_serializer_function_ser_schema
_STR = core_schema.str_schema(strict=True)
_LEAVES: dict[Any, CoreSchema] = {
    str: _STR,
    int: core_schema.int_schema(strict=True),
    bool: core_schema.bool_schema(strict=True),
    datetime: _leaf(lambda value: parse_iso(_text(value)), moment),
    date: _leaf(lambda value: date.fromisoformat(_text(value)), date.isoformat),
    timedelta: _leaf(_seconds, lambda value: int(value.total_seconds())),
    Decimal: _leaf(_decimal, str),
    float: _leaf(lambda value: float(_decimal(value)), str),
    _Pair: core_schema.with_info_after_validator_function(_share, core_schema.tuple_schema([_STR, _STR])),
    EpisodeRef: _leaf(lambda name: episode_from_execution_name(_text(name)), lambda ref: ref.execution_name),
    # Evidence keeps its hash: the domain's own form, to the last digit.
    Evidence: _leaf(
        lambda data: evidence_from_document(_unpacked(data)), lambda one: _packed(evidence_document(one))
    ),
    History: _leaf(
        lambda data: history_from_document(_unpacked(data)), lambda one: _packed(history_document(one))
    ),
}


def _schema(hint: Any) -> CoreSchema:
    """The stored form of a field's type."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _LEAVES:
        return _LEAVES[hint]
    if origin is Literal:
        return core_schema.literal_schema(list(parts))
    if origin is None and is_dataclass(hint):
        return _STORED.get(cast("type", hint), _Form()).schema(hint)
    if origin is None:
        return core_schema.enum_schema(hint, list(hint), serialization=_as(lambda one: one.value))
    inner = [_schema(part) for part in parts if part not in (None.__class__, ...)]
    if origin is Mapping:
        return core_schema.dict_schema(*inner)
    if origin is frozenset:
        return core_schema.frozenset_schema(*inner, serialization=_as(sorted))
    if origin is tuple:
        return core_schema.tuple_schema(inner, variadic_item_index=0 if ... in parts else None)
    return core_schema.nullable_schema(*inner)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """How the document of a dataclass differs from its fields."""

    flat: tuple[str, ...] = ()
    """Fields whose own fields stand in the document itself."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Attributes that are not called like their field."""
    older: Mapping[str, Any] = field(default_factory=dict)
    """What a missing attribute means."""
    omitted: tuple[str, ...] = ()
    """Fields that are not stored."""

    def __get_pydantic_core_schema__(self, kind: Any, _: object) -> CoreSchema:
        return self.schema(kind)

    def schema(self, kind: Any) -> CoreSchema:
        """The core schema of the dataclass."""
        hints = get_type_hints(kind)
        parts = []
        for one in fields(kind):
            schema = _schema(hints[one.name])
            if one.name in self.older or one.default is None:
                schema = core_schema.with_default_schema(schema, default=self.older.get(one.name))
            name, omitted = self.names.get(one.name), one.name in self.omitted
            part = core_schema.dataclass_field(
                one.name,
                schema,
                init=not omitted,
                validation_alias=name,
                serialization_alias=name,
                serialization_exclude=omitted,
            )
            parts.append(part)
        names = [one["name"] for one in parts]
        arguments = core_schema.dataclass_args_schema(kind.__name__, parts)
        whole = core_schema.dataclass_schema(kind, arguments, names, slots=True)
        if not self.flat:
            return whole
        return core_schema.no_info_before_validator_function(
            self._deepened,
            whole,
            serialization=core_schema.wrap_serializer_function_ser_schema(self._flattened, schema=whole),
        )

    def _deepened(self, document: Document) -> Document:
        return {**document, **dict.fromkeys(self.flat, document)}

    def _flattened(self, record: Any, write: Callable[[Any], Document]) -> Document:
        document = write(record)
        for name in self.flat:
            document |= document.pop(name)
        return document


_STORED: dict[type, _Form] = {
    Episode: _Form(
        flat=("terms",),
        names={"ref": "execution_name", "keep_at_most": "keep_at_most_seconds"},
        older={
            "idle_below_percent": 5.0,
            "time_zone": "UTC",
            "acts_on_silence": False,
            "snapshots": {},
            "steps_done": {},
        },
    ),
    Terms: _Form(
        older={
            "broadcast_may": frozenset({"keep", "stop", "undo"}),
            "people_needed": 1,
            "known_people": frozenset(),
        }
    ),
    Instance: _Form(flat=("target",), older={"availability_zone": ""}),
    Target: _Form(omitted=("role_arn",)),
    LaunchFacts: _Form(older={"security_group_ids": (), "ebs_optimized": False}),
    # An episode without this note may lose local disks, so that nothing is lost unasked.
    Plan: _Form(flat=("saving",), older={"loses_local_disks": True}),
    Approval: _Form(names={"keep_at_most": "keep_at_most_seconds"}),
    InstanceRecord: _Form(flat=("target", "hold"), older={"episodes": 0}, omitted=("problem",)),
    BreakerState: _Form(older={"turned": 0, "held": frozenset()}),
    LedgerEntry: _Form(names={"episode": "execution_name"}, older={"false_stop": False, "ours": True}),
    Meter: _Form(flat=("target",)),
    Delivery: _Form(older={"given_up": False}),
    Observation: _Form(
        older={"reason": "", "policy_version": "", "told_silent": False, "advice": (), "is_late": False}
    ),
}


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    if kind not in _adapters:
        stored: Any = Annotated[kind, _STORED.get(kind, _Form())]
        _adapters[kind] = TypeAdapter(stored)
    return _adapters[kind]
