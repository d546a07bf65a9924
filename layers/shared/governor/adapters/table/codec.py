"""The stored form of domain records: one schema of pydantic's core per record, built on its first
use.

A record is stored by its own fields, but for `_STORED`; amounts as decimal text, times as ISO 8601
in UTC. Reading ignores unknown attributes and converts nothing. A missing attribute means its
field's default, unless it is `needed`: then the item is unreadable.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic_core import (
    CoreSchema,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
    core_schema,
)

from governor.domain.approvals.approval import Approval
from governor.domain.episode.episode import (
    Episode,
    EpisodeRef,
    Failing,
    InstanceRecord,
    episode_from_execution_name,
)
from governor.domain.episode.plan import Plan
from governor.domain.evidence import Evidence, Window, evidence_document
from governor.domain.history import History, history_document
from governor.domain.instance import Instance, Target
from governor.domain.money.cost import Meter
from governor.domain.money.ledger import LedgerEntry
from governor.domain.units import as_utc, parse_iso
from governor.errors import CloudError
from governor.stores.table import Document, Record

_Pair = tuple[str, str]


def read_all(kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Yield the records of stored items. Raises: CloudError, which names items and fields, never
    values."""
    validator, _ = _compiled(kind)
    # Thousands of series share most of their dimensions; one object for equal pairs saves tens of
    # megabytes.
    shared: dict[_Pair, _Pair] = {}
    for item in items:
        try:
            yield validator.validate_python(item, context=shared)
            continue
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found]
        except (KeyError, TypeError, ArithmeticError) as error:
            problems = [repr(error)]
        name = f"the item {item.get('pk')} / {item.get('sk')}"
        raise CloudError(
            f"{name} cannot be read: {'; '.join(problems)}", operation="dynamodb:GetItem"
        )


def written(record: object) -> Document:
    _, serializer = _compiled(type(record))
    document: Document = serializer.to_python(record, by_alias=True)
    return document


def moment(value: datetime) -> str:
    """A time without loss: `units.iso` would cut it to the second."""
    return as_utc(value).isoformat()


_compiled_kinds: dict[type, tuple[SchemaValidator, SchemaSerializer]] = {}


def _compiled(kind: type) -> tuple[SchemaValidator, SchemaSerializer]:
    if kind not in _compiled_kinds:
        schema = _schema(kind)
        _compiled_kinds[kind] = SchemaValidator(schema), SchemaSerializer(schema)
    return _compiled_kinds[kind]


def _share(pair: _Pair, info: core_schema.ValidationInfo[dict[_Pair, _Pair]]) -> _Pair:
    return info.context.setdefault(pair, pair)


def _leaf(
    stored: CoreSchema, reader: Callable[[Any], Any], writer: Callable[[Any], Any]
) -> CoreSchema:
    return core_schema.no_info_after_validator_function(reader, stored, serialization=_as(writer))


def _unpacked(data: Any) -> Any:
    try:
        return json.loads(zlib.decompress(data))
    except (TypeError, zlib.error):
        raise ValueError("packed JSON is needed") from None


_as = core_schema.plain_serializer_function_ser_schema
_STR = core_schema.str_schema(strict=True)
_INT = core_schema.int_schema(strict=True)
_FINITE = core_schema.float_schema(allow_inf_nan=False)
_LEAVES: dict[Any, CoreSchema] = {
    str: _STR,
    int: _INT,
    bool: core_schema.bool_schema(strict=True),
    datetime: _leaf(_STR, parse_iso, moment),
    timedelta: _leaf(
        _INT, lambda value: timedelta(seconds=value), lambda value: int(value.total_seconds())
    ),
    Decimal: core_schema.chain_schema([_STR, core_schema.decimal_schema()], serialization=_as(str)),
    float: core_schema.union_schema(
        # A number of packed JSON stays as it is, so that evidence keeps its hash.
        [_INT, core_schema.float_schema(strict=True), core_schema.chain_schema([_STR, _FINITE])],
        mode="left_to_right",
        custom_error_type="number",
        custom_error_message="a number is needed",
        serialization=_as(str),
    ),
    _Pair: core_schema.with_info_after_validator_function(
        _share, core_schema.tuple_schema([_STR, _STR])
    ),
    EpisodeRef: _leaf(_STR, episode_from_execution_name, lambda ref: ref.execution_name),
}


def _schema(hint: Any) -> CoreSchema:
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
    needed: tuple[str, ...] = ()
    """Fields that have a default and are never guessed."""
    older: Mapping[str, object] = field(default_factory=dict)
    """The meaning of a missing attribute, where it is not the default of the field."""
    omitted: tuple[str, ...] = ()
    packed: Callable[[Any], Document] | None = None
    """The domain's own form, as compressed JSON: a week of GPUs by the minute fits no item
    otherwise."""

    def schema(self, kind: Any) -> CoreSchema:
        hints = get_type_hints(kind)
        parts = []
        for one in fields(kind):
            schema = _schema(hints[one.name])
            default = self.older.get(one.name, one.default)
            if one.name in self.needed:
                pass
            elif one.default_factory is not MISSING:
                schema = core_schema.with_default_schema(
                    schema, default_factory=one.default_factory
                )
            elif default is not MISSING:
                schema = core_schema.with_default_schema(schema, default=default)
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
        if not (self.packed or self.flat):
            return whole
        flattened = core_schema.wrap_serializer_function_ser_schema(self._flattened, schema=whole)
        writer = _as(self._compressed) if self.packed else flattened
        return core_schema.no_info_before_validator_function(
            self._deepened, whole, serialization=writer
        )

    def _compressed(self, record: Any) -> bytes:
        assert self.packed is not None
        return zlib.compress(json.dumps(self.packed(record), separators=(",", ":")).encode())

    def _deepened(self, stored: Any) -> Document:
        document = _unpacked(stored) if self.packed else stored
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
        needed=("keep_at_most",),
    ),
    Instance: _Form(
        flat=("target",),
        needed=("lifecycle", "root_device_type", "tags", "volumes", "platform", "operator_managed"),
    ),
    Target: _Form(omitted=("role_arn", "session")),
    Evidence: _Form(packed=evidence_document),
    History: _Form(packed=history_document, flat=("window",)),
    Window: _Form(names={"period": "period_seconds"}),
    # An episode without this note may lose local disks, so that nothing is lost unasked.
    Plan: _Form(flat=("saving",), older={"loses_local_disks": True}),
    Approval: _Form(names={"keep_at_most": "keep_at_most_seconds"}),
    InstanceRecord: _Form(flat=("target", "hold"), omitted=("problem",)),
    Failing: _Form(flat=("target",)),
    LedgerEntry: _Form(names={"episode": "execution_name"}),
    Meter: _Form(flat=("target",), needed=("usd", "unpriced_hours", "usd_per_hour")),
}
