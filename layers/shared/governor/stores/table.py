"""The table under the stores: documents by key, and conditional writes. This module must not know
what is stored.

A document may hold text, whole numbers, booleans, bytes, times, records of the domain, and lists
and maps of these; in place of a document, a record stands for all its fields. An item is deleted
some time after its `until`, so one past it counts as gone wherever that matters.
"""

from __future__ import annotations

import json
import logging
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from governor.domain.units import in_parts
from governor.errors import CloudError, ConflictError, GovernorError

_log = logging.getLogger(__name__)
TRANSACTION = 100
"""Writes in one. Source: DynamoDB API, TransactWriteItems."""

_CHUNK_BYTES = 350_000
"""An item may have 400 KB with its names and keys."""
_SLICE_BYTES = 32_768
DAMAGED = (KeyError, ValueError, TypeError, ArithmeticError, zlib.error)
"""Errors of packed JSON that is cut short, or not as it was written."""

Document = dict[str, Any]
Key = tuple[str, str]
"""`pk` and `sk`."""
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one attribute (`a.b`: entry `b` of map `a`), or two conditions with AND or
    OR."""

    operator: str
    left: Any
    right: Any = None

    def __and__(self, other: Condition) -> Condition:
        return Condition("AND", self, other)

    def __or__(self, other: Condition) -> Condition:
        return Condition("OR", self, other)


def present(attribute: str = "pk") -> Condition:
    """The attribute is there; by default: the item."""
    return Condition("attribute_exists", attribute)


def absent(attribute: str = "pk") -> Condition:
    """The attribute is not there; by default: the item."""
    return Condition("attribute_not_exists", attribute)


def where(attribute: str, operator: Literal["=", "<>", "<", "<=", ">"], value: object) -> Condition:
    """The attribute compares so with the value."""
    return Condition(operator, attribute, value)


def is_over(now: datetime) -> Condition:
    """There is no item, or its `until` is past."""
    return absent() | where("expires_at_epoch", "<=", epoch(now))


@dataclass(frozen=True, slots=True)
class Write:
    """One write, or a check, of an item. An update sets `document`, removes the attributes
    `remove`, adds the numbers `add`, and sets `first` (map, key, value) where unset.

    `returns_item` asks for the whole item after an update. Where a role may name only some
    attributes of an item, IAM may refuse it.
    """

    kind: Literal["Put", "Update", "Delete", "ConditionCheck"]
    key: Key
    condition: Condition | None = None
    document: Any = field(default_factory=dict)
    until: datetime | None = None
    remove: Sequence[str] = ()
    add: Mapping[str, int] = field(default_factory=dict)
    first: tuple[str, str, Any] | None = None
    returns_item: bool = False


def put(key: Key, document: object, condition: Condition | None = None, **more: Any) -> Write:
    return Write("Put", key, condition, document, **more)


def insert(key: Key, document: object, **more: Any) -> Write:
    return put(key, document, absent(), **more)


def update(key: Key, changes: object, condition: Condition | None = None, **more: Any) -> Write:
    return Write("Update", key, condition, changes, **more)


def delete(key: Key, condition: Condition | None = None) -> Write:
    return Write("Delete", key, condition)


def check(key: Key, condition: Condition) -> Write:
    """Let a transaction fail unless the condition holds."""
    return Write("ConditionCheck", key, condition)


def packed(lines: Iterable[Any]) -> list[bytes]:
    """JSON, compressed as a stream, so that only one line is held as text; in parts that fit an
    item each."""
    packer = zlib.compressobj(level=3)
    parts = [
        packer.compress(json.dumps(line, separators=(",", ":")).encode() + b"\n") for line in lines
    ]
    data = b"".join((*parts, packer.flush()))
    return [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]


def unpacked(chunks: Iterable[bytes]) -> Iterator[Any]:
    """Return the lines of what was packed. Raises: as `DAMAGED`."""
    unpacker, rest = zlib.decompressobj(), b""
    for chunk in chunks:
        # In slices: packed observations grow thirtyfold, and a chunk at once would be held three
        # times over.
        for start in range(0, len(chunk), _SLICE_BYTES):
            text = rest + unpacker.decompress(chunk[start : start + _SLICE_BYTES])
            *whole, rest = text.split(b"\n")
            yield from map(json.loads, whole)
    if not unpacker.eof:
        raise ValueError("the packed JSON is cut short")
    # A single line of an earlier release ends without a break.
    yield from map(json.loads, filter(None, [rest]))


def epoch(at: datetime) -> int:
    """An `until` as it is stored: the attribute `expires_at_epoch`, in seconds."""
    return int(at.timestamp())


class Table(ABC):
    """Every read sees what was last written. Any call may raise `CloudError`."""

    @abstractmethod
    def get(self, key: Key) -> Document | None:
        """Return the item."""

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Return those of the items that exist, in any order: at once, where the table can. No key
        twice."""
        return [item for key in keys if (item := self.get(key)) is not None]

    def get_each(self, keys: Sequence[Key]) -> list[Document]:
        """Return each of the items in this order, an empty one where there is none."""
        return [self.get(key) or {} for key in keys]

    @abstractmethod
    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """Return the items whose sort key begins with the prefix, in order; with `after` those
        behind it."""

    @abstractmethod
    def write(self, one: Write) -> Document:
        """Carry out one write; return the item after an update that asks for it. Raises:
        ConflictError."""

    @abstractmethod
    def transact(self, *writes: Write) -> None:
        """Carry out up to `TRANSACTION` writes, all or nothing. Raises: ConflictError. A
        transaction that is repeated is answered as the first time: use it where a retry would see
        its own write as a conflict."""

    @abstractmethod
    def hasty(self) -> Table:
        """The same table for what is worth nothing later: writes are sent once and give up within
        seconds."""

    @abstractmethod
    def document(self, record: object) -> Document:
        """Return the stored form of a record, of text, numbers, booleans and bytes alone."""

    @abstractmethod
    def records(self, kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
        """Return the records of items, one by one. Raises: CloudError; it names the item."""

    def read(self, kind: type[Record], key: Key) -> Record | None:
        item = self.get(key)
        return next(self.records(kind, [item]), None) if item else None

    def read_all(self, kind: type[Record], pk: str, prefix: str = "") -> list[Record]:
        return list(self.records(kind, self.query(pk, prefix)))

    def leave_out(self, what: str) -> None:
        """Note an item that cannot be read, and that something goes on without."""
        _log.warning("%s cannot be read, and is left out", what, exc_info=True)

    def holds(self, one: Write) -> bool:
        try:
            self.write(one)
        except ConflictError:
            return False
        return True

    def wins(self, *writes: Write) -> bool:
        try:
            self.transact(*writes)
        except ConflictError:
            return False
        return True

    def write_all(self, writes: Sequence[Write]) -> None:
        """Carry out any number of writes, a transaction's worth at a time."""
        for part in in_parts(writes, TRANSACTION):
            self.transact(*part)


class Readable(Table):
    """The readable part of another table; `unread` names the rest. No action rests on what is
    missing."""

    def __init__(self, table: Table) -> None:
        self._whole = table
        self._known: dict[Key, Document | None] = {}
        self.unread: list[str] = []

    def read_ahead(self, keys: Sequence[Key]) -> None:
        """Read items at once that are asked for one by one later."""
        self._known |= dict.fromkeys(keys)
        self._known |= {(one["pk"], one["sk"]): one for one in self._whole.get_all(keys)}

    def get(self, key: Key) -> Document | None:
        return self._known[key] if key in self._known else self._whole.get(key)

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        left = [key for key in keys if key not in self._known]
        known = (self._known[key] for key in keys if key in self._known)
        return [*filter(None, known), *(self._whole.get_all(left) if left else ())]

    def get_each(self, keys: Sequence[Key]) -> list[Document]:
        found = {(one["pk"], one["sk"]): one for one in self.get_all(keys)}
        return [found.get(key, {}) for key in keys]

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        return self._whole.query(pk, prefix, after=after)

    def records(self, kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
        for item in items:
            try:
                yield from self._whole.records(kind, [item])
            except CloudError:
                self.leave_out(f"{kind.__name__} {item.get('pk')} / {item.get('sk')}")

    def leave_out(self, what: str) -> None:
        super().leave_out(what)
        self.unread.append(what)

    def document(self, record: object) -> Document:
        return self._whole.document(record)

    def write(self, one: Write) -> Document:
        raise TypeError(f"a page writes nothing, and not {one.key[0]}")

    def transact(self, *writes: Write) -> None:
        self.write(writes[0])

    def hasty(self) -> Table:
        return self


class Store:
    def __init__(self, table: Table) -> None:
        self._table = table

    def _keep_for_audit(self, entry: Write) -> None:
        """Write it, or log that it is lost: what it is about has happened either way."""
        try:
            self._table.holds(entry)
        except GovernorError:
            _log.exception("the audit lacks %s", " ".join(entry.key))
