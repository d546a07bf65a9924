"""The table under the stores: documents by key, and conditional writes. This module must not know
what is stored.

A document may hold text, whole numbers, booleans, bytes, times, records of a room's `model`, and
lists and maps of these. A record may stand in place of a document: it is stored with all its
fields. An item is deleted some time after its `until`, so it counts as gone from then on where that
matters.
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

from governor.core.errors import CloudError, ConflictError, GovernorError
from governor.core.units import in_parts

_log = logging.getLogger(__name__)
TRANSACTION = 100
"""The most writes in one transaction. Source: DynamoDB API, TransactWriteItems."""

_CHUNK_BYTES = 350_000
"""An item may have 400 KB with its names and keys."""
_SLICE_BYTES = 32_768
DAMAGED = (KeyError, ValueError, TypeError, ArithmeticError, zlib.error)
"""Errors that reading raises if packed JSON is cut short or changed."""

Document = dict[str, Any]
Key = tuple[str, str]
"""`pk` and `sk`."""
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one attribute, or two conditions joined by AND or OR. The attribute `a.b` is
    entry `b` of map `a`."""

    operator: str
    left: Any
    right: Any = None

    def __and__(self, other: Condition) -> Condition:
        return Condition("AND", self, other)

    def __or__(self, other: Condition) -> Condition:
        return Condition("OR", self, other)


def present(attribute: str = "pk") -> Condition:
    """Return the condition that the attribute exists; by default, that the item does."""
    return Condition("attribute_exists", attribute)


def absent(attribute: str = "pk") -> Condition:
    """Return the condition that the attribute is missing; by default, that the item is."""
    return Condition("attribute_not_exists", attribute)


def unset(attribute: str) -> Condition:
    """Return the condition that the attribute is missing, or stored without a value."""
    return absent(attribute) | where(attribute, "=", None)


def where(attribute: str, operator: Literal["=", "<>", "<", "<=", ">"], value: object) -> Condition:
    """Return the condition that the attribute compares so with the value."""
    return Condition(operator, attribute, value)


def is_over(now: datetime) -> Condition:
    """Return the condition that there is no item, or that its `until` is past."""
    return absent() | where("expires_at_epoch", "<=", epoch(now))


@dataclass(frozen=True, slots=True)
class Write:
    """One write, or a check, of an item. An update sets `document`, removes the attributes
    `remove`, and adds the numbers `add`. It sets `first` (map, key, value) if that entry is unset.

    `returns_item` asks for the whole item after an update. If a role may name only some attributes
    of an item, IAM may refuse that.
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
    """Return the lines as JSON, compressed, in parts that fit an item each."""
    # Compressed as a stream, so that only one line is held as text.
    packer = zlib.compressobj(level=3)
    compressed: list[bytes] = []
    for line in lines:
        text = json.dumps(line, separators=(",", ":"))
        compressed.append(packer.compress(text.encode() + b"\n"))
    compressed.append(packer.flush())
    data = b"".join(compressed)
    return [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]


def unpacked(chunks: Iterable[bytes]) -> Iterator[Any]:
    """Yield the lines that were packed. Raises: as `DAMAGED`."""
    unpacker = zlib.decompressobj()
    rest = b""
    for chunk in chunks:
        # In slices: packed observations grow thirtyfold, and a whole chunk would be held three
        # times over.
        for start in range(0, len(chunk), _SLICE_BYTES):
            text = rest + unpacker.decompress(chunk[start : start + _SLICE_BYTES])
            *whole_lines, rest = text.split(b"\n")
            yield from map(json.loads, whole_lines)
    if not unpacker.eof:
        raise ValueError("the packed JSON is cut short")
    if rest:
        # The only line of an earlier release ends without a line break.
        yield json.loads(rest)


def epoch(at: datetime) -> int:
    """Return an `until` as it is stored, in seconds: the attribute `expires_at_epoch`."""
    return int(at.timestamp())


class Table(ABC):
    """Every read sees what was last written. Any call may raise `CloudError`."""

    @abstractmethod
    def get(self, key: Key) -> Document | None:
        """Return the item; `None` if there is none."""

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Return the items that exist, in any order, and read at once if the table can. No key may
        be given twice."""
        items = [self.get(key) for key in keys]
        return [item for item in items if item is not None]

    def get_each(self, keys: Sequence[Key]) -> list[Document]:
        """Return each item in the order of the keys; an empty one if it does not exist."""
        return [self.get(key) or {} for key in keys]

    @abstractmethod
    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """Return the items whose sort key begins with the prefix, in order; with `after`, those
        behind that key."""

    @abstractmethod
    def write(self, change: Write) -> Document:
        """Carry out one write; return the item after an update that asks for it. Raises:
        ConflictError."""

    @abstractmethod
    def transact(self, *writes: Write) -> None:
        """Carry out up to `TRANSACTION` writes, all or nothing. Raises: ConflictError.

        A retry of a transaction gets the answer of the first try. Use it where a retry would see
        its own write as a conflict.
        """

    @abstractmethod
    def hasty(self) -> Table:
        """Return the same table with short timeouts, for writes that are worth nothing later: each
        is sent once."""

    @abstractmethod
    def document(self, record: object) -> Document:
        """Return the stored form of a record: text, numbers, booleans and bytes alone."""

    @abstractmethod
    def records(self, kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
        """Yield the record of each item. Raises: CloudError, which names the item."""

    def read(self, kind: type[Record], key: Key) -> Record | None:
        """Return the record under this key; `None` if there is none. Raises: CloudError."""
        item = self.get(key)
        return next(self.records(kind, [item]), None) if item else None

    def read_all(self, kind: type[Record], pk: str, prefix: str = "") -> list[Record]:
        """Return the records that `query` finds, in order. Raises: CloudError."""
        return list(self.records(kind, self.query(pk, prefix)))

    def leave_out(self, what: str) -> None:
        """Log an item that cannot be read. The caller goes on without it."""
        _log.warning("%s cannot be read, and is left out", what, exc_info=True)

    def holds(self, change: Write) -> bool:
        """Carry out one write; return false if its condition fails."""
        try:
            self.write(change)
        except ConflictError:
            return False
        return True

    def wins(self, *writes: Write) -> bool:
        """Carry out a transaction; return false, and change nothing, if a condition fails."""
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
    """The readable part of another table; `unread` names the rest. It writes nothing, and no action
    may rest on it."""

    def __init__(self, table: Table) -> None:
        self._whole = table
        self._known: dict[Key, Document | None] = {}
        self.unread: list[str] = []

    def read_ahead(self, keys: Sequence[Key]) -> None:
        """Read items at once that are asked for one by one later."""
        self._known |= dict.fromkeys(keys)
        for item in self._whole.get_all(keys):
            self._known[item["pk"], item["sk"]] = item

    def get(self, key: Key) -> Document | None:
        if key in self._known:
            return self._known[key]
        return self._whole.get(key)

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        items: list[Document] = []
        unknown_keys: list[Key] = []
        for key in keys:
            if key not in self._known:
                unknown_keys.append(key)
                continue
            item = self._known[key]
            if item:
                items.append(item)
        if unknown_keys:
            items.extend(self._whole.get_all(unknown_keys))
        return items

    def get_each(self, keys: Sequence[Key]) -> list[Document]:
        items = {(item["pk"], item["sk"]): item for item in self.get_all(keys)}
        return [items.get(key, {}) for key in keys]

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

    def write(self, change: Write) -> Document:
        raise TypeError(f"a page writes nothing, and not {change.key[0]}")

    def transact(self, *writes: Write) -> None:
        self.write(writes[0])

    def hasty(self) -> Table:
        return self


class Store:
    def __init__(self, table: Table) -> None:
        self._table = table

    def _keep_for_audit(self, entry: Write) -> None:
        """Write this entry, or log that it is lost: the event itself has happened either way."""
        try:
            self._table.holds(entry)
        except GovernorError:
            _log.exception("the audit lacks %s", " ".join(entry.key))


class HastyStore(Store):
    """A store whose writes are sent once, with a short timeout: they are worth nothing later."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._hasty = table.hasty()
