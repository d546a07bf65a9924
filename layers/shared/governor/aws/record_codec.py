"""The stored form of records: one schema of pydantic's core for each, built on first use.

A record is stored by its own fields; `_STORED` lists what differs. Amounts are decimal text, times
ISO 8601 in UTC. Reading ignores unknown attributes and converts nothing. A missing attribute means
its field's default, unless it is `needed`: then the item cannot be read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic_core import (
    CoreSchema,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
    core_schema,
)

from governor.approvals.model.approval import Approval
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.errors import CloudError
from governor.core.instance import Instance, Target
from governor.core.units import as_utc, parse_iso
from governor.episode.model.episode import (
    Asking,
    Clearance,
    Episode,
    EpisodeEnding,
    Failing,
    InstanceRecord,
    Undo,
)
from governor.episode.model.plan import Plan
from governor.episode.model.standing import StandingState
from governor.evidence.model import Evidence, Window
from governor.evidence.rules.history import History, history_document
from governor.evidence.rules.series import evidence_document
from governor.limits.model.breaker import BreakerState
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import Meter
from governor.table.table import Document, Record

_Pair = tuple[str, str]


def read_all(kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Yield the record of this kind in each stored item, in their order.

    Raises: CloudError at the first item that cannot be read. Its text names the item and the
    fields, never values.
    """
    validator, _ = _compiled(kind)
    # Thousands of series share most of their dimensions; one object for equal pairs saves tens of
    # megabytes.
    shared_pairs: dict[_Pair, _Pair] = {}
    for item in items:
        try:
            yield validator.validate_python(item, context=shared_pairs)
            continue
        except ValidationError as error:
            problems = _problems(error)
        except (KeyError, TypeError, ArithmeticError) as error:
            problems = [repr(error)]
        name = f"the item {item.get('pk')} / {item.get('sk')}"
        raise CloudError(
            f"{name} cannot be read: {'; '.join(problems)}", operation="dynamodb:GetItem"
        )


def _problems(error: ValidationError) -> list[str]:
    """Return a text for each wrong field, such as `plan.steps: Field required`; it holds no value
    of a record."""
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        field_path = ".".join(map(str, problem["loc"]))
        problems.append(f"{field_path}: {problem['msg']}")
    return problems


def written(record: object) -> Document:
    """Return the document that stores a record of any kind that this module knows."""
    _, serializer = _compiled(type(record))
    document: Document = serializer.to_python(record, by_alias=True)
    return document


def moment(value: datetime) -> str:
    """Return a time as ISO 8601 text in UTC, to the microsecond: `units.iso` would cut it to the
    second."""
    return as_utc(value).isoformat()


_compiled_kinds: dict[type, tuple[SchemaValidator, SchemaSerializer]] = {}


def _compiled(kind: type) -> tuple[SchemaValidator, SchemaSerializer]:
    """Return the validator, which reads a kind of record, and the serializer, which writes it; both
    are made at the first call for the kind."""
    if kind not in _compiled_kinds:
        schema = _schema(kind)
        _compiled_kinds[kind] = SchemaValidator(schema), SchemaSerializer(schema)
    return _compiled_kinds[kind]


def _share(pair: _Pair, info: core_schema.ValidationInfo[dict[_Pair, _Pair]]) -> _Pair:
    """Return the first of all equal pairs that were read with this context, so that equal pairs
    share memory."""
    return info.context.setdefault(pair, pair)


def _leaf(
    stored: CoreSchema, reader: Callable[[Any], Any], writer: Callable[[Any], Any]
) -> CoreSchema:
    """Return the schema of a value that is stored in another form: `stored` is the schema of that
    form, `reader` makes the value of it, and `writer` does the reverse."""
    serialization = _written_by(writer)
    return core_schema.no_info_after_validator_function(reader, stored, serialization=serialization)


def _unpacked(data: Any) -> Any:
    """Return the document in compressed JSON. Raises: ValueError if it is no such thing."""
    try:
        # A text is read faster than bytes, whose encoding must be detected first.
        return json.loads(zlib.decompress(data).decode())
    except (TypeError, zlib.error):
        raise ValueError("packed JSON is needed") from None


def _from_seconds(seconds: int) -> timedelta:
    """Return the length of time that was stored in seconds."""
    return timedelta(seconds=seconds)


def _to_seconds(length: timedelta) -> int:
    """Return a length of time in whole seconds, as it is stored."""
    return int(length.total_seconds())


_written_by = core_schema.plain_serializer_function_ser_schema
_STR = core_schema.str_schema(strict=True)
_INT = core_schema.int_schema(strict=True)
_FINITE = core_schema.float_schema(allow_inf_nan=False)
_LEAVES: dict[Any, CoreSchema] = {
    str: _STR,
    int: _INT,
    bool: core_schema.bool_schema(strict=True),
    datetime: _leaf(_STR, parse_iso, moment),
    timedelta: _leaf(_INT, _from_seconds, _to_seconds),
    Decimal: core_schema.chain_schema(
        [_STR, core_schema.decimal_schema()], serialization=_written_by(str)
    ),
    float: core_schema.union_schema(
        # A number of packed JSON stays as it is, so that evidence keeps its hash.
        [_INT, core_schema.float_schema(strict=True), core_schema.chain_schema([_STR, _FINITE])],
        mode="left_to_right",
        custom_error_type="number",
        custom_error_message="a number is needed",
        serialization=_written_by(str),
    ),
    _Pair: core_schema.with_info_after_validator_function(
        _share, core_schema.tuple_schema([_STR, _STR])
    ),
    EpisodeRef: _leaf(_STR, episode_from_execution_name, attrgetter("execution_name")),
}


def _schema(hint: Any) -> CoreSchema:
    """Return the schema that reads and writes the values of a type, given as the annotation of a
    field: a leaf, a generic type, a dataclass, or else an enum."""
    if hint in _LEAVES:
        return _LEAVES[hint]
    origin = get_origin(hint)
    if origin is not None:
        return _generic_schema(origin, get_args(hint))
    if is_dataclass(hint):
        form = _STORED.get(cast("type", hint), _Form())
        return form.schema(hint)
    return core_schema.enum_schema(hint, list(hint), serialization=_written_by(attrgetter("value")))


def _generic_schema(origin: Any, parts: tuple[Any, ...]) -> CoreSchema:
    """Return the schema of a type with parts: `origin` is `tuple` and `parts` are `(str, ...)` for
    `tuple[str, ...]`. Any origin that is not known here counts as a union of one type with
    `None`."""
    if origin is Literal:
        return core_schema.literal_schema(list(parts))
    inner = []
    for part in parts:
        if part not in (NoneType, ...):
            inner.append(_schema(part))
    if origin is Mapping:
        return core_schema.dict_schema(*inner)
    if origin is frozenset:
        return core_schema.frozenset_schema(*inner, serialization=_written_by(sorted))
    if origin is tuple:
        return core_schema.tuple_schema(inner, variadic_item_index=0 if ... in parts else None)
    return core_schema.nullable_schema(*inner)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """The differences between a dataclass and its document."""

    flat: tuple[str, ...] = ()
    """Fields whose own fields are attributes of the document itself."""
    flat_if: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By flat field that may be `None`: the attributes without any of which it is."""
    names: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    """Fields whose default never stands for a missing attribute."""
    older: Mapping[str, object] = field(default_factory=dict)
    """The meaning of a missing attribute, if it is not the default of the field."""
    omitted: tuple[str, ...] = ()
    packed: Callable[[Any], Document] | None = None
    """Makes the record's own form, which is stored as compressed JSON: a week of GPUs by the minute
    fits no item otherwise."""

    def schema(self, kind: Any) -> CoreSchema:
        """Return the schema that reads and writes this dataclass. Its document may differ from its
        fields in what this form names: renamed, flat, omitted or packed fields."""
        hints = get_type_hints(kind)
        parts = [self._part(part, _schema(hints[part.name])) for part in fields(kind)]
        names = [part["name"] for part in parts]
        arguments = core_schema.dataclass_args_schema(kind.__name__, parts)
        whole = core_schema.dataclass_schema(kind, arguments, names, slots=True)
        if not (self.packed or self.flat):
            return whole
        writer: core_schema.SerSchema
        if self.packed:
            writer = _written_by(self._compressed)
        else:
            unset = {name: _unset(hints[name]) for name in self.flat_if}
            writer = core_schema.wrap_serializer_function_ser_schema(
                partial(self._flattened, unset), schema=whole
            )
        flat_fields: dict[str, str] = {}
        for name in self.flat:
            for attribute in _attributes(hints[name]):
                flat_fields[attribute] = name
        return core_schema.no_info_before_validator_function(
            partial(self._deepened, flat_fields), whole, serialization=writer
        )

    def _part(self, part: Field[Any], schema: CoreSchema) -> core_schema.DataclassField:
        """Return one field of a dataclass, read and written by `schema`, under its stored name. If
        its attribute is missing it gets its default, unless it is `needed`.

        A field that is omitted is neither stored nor read.
        """
        default = self.older.get(part.name, part.default)
        is_needed = part.name in self.needed
        if not is_needed and part.default_factory is not MISSING:
            schema = core_schema.with_default_schema(schema, default_factory=part.default_factory)
        elif not is_needed and default is not MISSING:
            schema = core_schema.with_default_schema(schema, default=default)
        stored_name = self.names.get(part.name)
        is_omitted = part.name in self.omitted
        return core_schema.dataclass_field(
            part.name,
            schema,
            init=not is_omitted,
            validation_alias=stored_name,
            serialization_alias=stored_name,
            serialization_exclude=is_omitted,
        )

    def _compressed(self, record: Any) -> bytes:
        """Return a record as compressed JSON. Call it only if `packed` is set."""
        assert self.packed is not None
        text = json.dumps(self.packed(record), separators=(",", ":"))
        return zlib.compress(text.encode())

    def _deepened(self, flat_fields: Mapping[str, str], stored: Any) -> Document:
        """Return a stored document, uncompressed, with the attributes of each flat record under
        the name of its field; that is `None` if it lacks one of its attributes in `flat_if`.

        `flat_fields` has, by attribute, the flat field whose record it belongs to.
        """
        document: Document = _unpacked(stored) if self.packed else stored
        if not self.flat:
            return document
        deepened = dict(document)
        flat_records: dict[str, Document] = {name: {} for name in self.flat}
        # A record is read faster from a document without the attributes of others.
        for attribute, flat_field in flat_fields.items():
            if attribute in deepened:
                flat_records[flat_field][attribute] = deepened.pop(attribute)
        deepened.update(flat_records)
        for name, attributes in self.flat_if.items():
            for attribute in attributes:
                if document.get(attribute) is None:
                    deepened[name] = None
        return deepened

    def _flattened(
        self,
        unset: Mapping[str, Document],
        record: Any,
        write: Callable[[Any], Document],
    ) -> Document:
        """Return the document of a record, as `write` makes it, with the fields of its flat records
        among its own, which `_deepened` takes out again.

        `unset` has, by flat field that may be `None`, the attributes that are written then.
        """
        document = write(record)
        for name in self.flat:
            attributes = document.pop(name)
            document |= unset[name] if attributes is None else attributes
        return document


def _flat_kind(hint: Any) -> type:
    """Return the dataclass of a flat record, whose field is annotated with it, or with a union of
    it and `None`."""
    [kind] = [part for part in get_args(hint) or (hint,) if part is not NoneType]
    return cast("type", kind)


def _unset(hint: Any) -> Document:
    """Return what is written of a flat record that is `None`, as its field is annotated with it.

    A release before this one reads each of its attributes by itself: as `None`, or the default.
    """
    kind = _flat_kind(hint)
    names = _STORED[kind].names
    document: Document = {}
    for part in fields(kind):
        default = None if part.default is MISSING else part.default
        document[names.get(part.name, part.name)] = default
    return document


def _attributes(hint: Any) -> list[str]:
    """Return the names of the attributes of a flat record, as its field is annotated with it."""
    kind = _flat_kind(hint)
    form = _STORED.get(kind, _Form())
    names: list[str] = []
    for part in fields(kind):
        if part.name in form.flat:
            names += _attributes(get_type_hints(kind)[part.name])
        else:
            names.append(form.names.get(part.name, part.name))
    return names


_STORED: dict[type, _Form] = {
    Episode: _Form(
        flat=("measurement", "terms", "asking", "clearance", "progress", "ending", "undo"),
        # Half of a recheck is none. Of the others, a half is an error.
        flat_if={
            "clearance": ("cleared_at", "cleared_step"),
            "ending": ("outcome",),
            "undo": ("undone_at",),
        },
        names={"ref": "execution_name", "stopped_by_episode": "stopped_in"},
    ),
    Asking: _Form(names={"keep_at_most": "keep_at_most_seconds"}, needed=("keep_at_most",)),
    Clearance: _Form(
        names={"step": "cleared_step", "at": "cleared_at", "is_used": "is_clearance_used"}
    ),
    EpisodeEnding: _Form(
        names={"reason": "outcome_reason", "at": "closed_at", "told_at": "outcome_told_at"}
    ),
    Undo: _Form(names={"by": "undone_by", "at": "undone_at"}),
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
    Approval: _Form(
        names={
            "keep_at_most": "keep_at_most_seconds",
            "hold": "brake",
            "quiet_wait": "quiet_wait_seconds",
        }
    ),
    BreakerState: _Form(names={"left_ids": "held"}),
    InstanceRecord: _Form(flat=("target", "hold"), omitted=("problem",)),
    Failing: _Form(flat=("target",)),
    StandingState: _Form(flat=("target",)),
    LedgerEntry: _Form(names={"episode": "execution_name"}),
    Meter: _Form(flat=("target",), needed=("usd", "unpriced_hours", "usd_per_hour")),
}
