"""The protocol of the state table under all stores: documents by key, conditional writes and
transactions. This module must not know the meaning of what is stored.

A document may hold text, whole numbers, booleans, bytes, times, frozen records, and lists and maps
of these. A record may stand in place of a document: it is stored with all its fields. DynamoDB
deletes an item some time after its `until`, so a caller to whom the time matters must check it.
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
from governor.core.units import in_parts, not_none

_log = logging.getLogger(__name__)
TRANSACTION = 100
"""The most writes in one transaction. Source: DynamoDB API, TransactWriteItems."""

_CHUNK_BYTES = 350_000
"""Bytes of one packed part: an item may have 400 KB with its names and keys."""
_SLICE_BYTES = 32_768
"""Bytes of a part that are unpacked at a time."""
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
        """Return the condition that both hold."""
        return Condition("AND", self, other)

    def __or__(self, other: Condition) -> Condition:
        """Return the condition that at least one of the two holds."""
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
    """Return the condition that the attribute compares with the value as the operator says. For an
    item without the attribute, only `<>` holds."""
    return Condition(operator, attribute, value)


def is_over(now: datetime) -> Condition:
    """Return the condition that there is no item, or that the item's `until` is past at `now`."""
    return absent() | where("expires_at_epoch", "<=", epoch(now))


@dataclass(frozen=True, slots=True)
class Write:
    """One write, or a check, of an item.

    An update sets the attributes of `document`, removes those named in `remove`, and adds the
    numbers in `add`. It sets `first`, an entry of a map (map, key, value), if that entry is unset.
    `returns_item` asks for the whole item after an update; IAM may refuse that to a role which may
    name only some attributes of an item.
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


def put(key: Key, document: object, condition: Condition | None = None, **options: Any) -> Write:
    """Return the write that replaces the whole item, or makes it; with a `condition`, only if that
    holds. `options` are other fields of `Write`, such as `until`."""
    return Write("Put", key, condition, document, **options)


def insert(key: Key, document: object, **options: Any) -> Write:
    """Return the write of a new item. Its condition fails if the item exists. `options` are other
    fields of `Write`, such as `until`."""
    return put(key, document, absent(), **options)


def update(key: Key, changes: object, condition: Condition | None = None, **options: Any) -> Write:
    """Return the write that sets these attributes and leaves the others. Without a condition, it
    makes an item that does not exist. `options` are other fields of `Write`, such as `add` or
    `remove`."""
    return Write("Update", key, condition, changes, **options)


def delete(key: Key, condition: Condition | None = None) -> Write:
    """Return the write that deletes the item. Without a condition, a missing item is no error."""
    return Write("Delete", key, condition)


def check(key: Key, condition: Condition) -> Write:
    """Return the part of a transaction that changes nothing itself. If the condition does not hold,
    the whole transaction fails."""
    return Write("ConditionCheck", key, condition)


def packed(lines: Iterable[Any]) -> list[bytes]:
    """Return the lines, each a JSON value, as compressed bytes in parts that each fit into an item.
    There is at least one part, even without lines. `unpacked` reads them."""
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
    """Yield the JSON values that `packed` has packed as lines. Raises: one of the errors in
    `DAMAGED`, while it yields, if the parts are cut short or changed."""
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


def unpacked_one(chunks: Iterable[bytes]) -> Any:
    """Return the only line that `packed` has packed. Raises: one of the errors in `DAMAGED`, also
    if there is not exactly one line."""
    [line] = unpacked(chunks)
    return line


def epoch(at: datetime) -> int:
    """Return a time in whole seconds since 1970, as `until` is stored in the attribute
    `expires_at_epoch`."""
    return int(at.timestamp())


class Table(ABC):
    """A table of items. Every read sees the newest write. Any call may raise `CloudError`."""

    @abstractmethod
    def get(self, key: Key) -> Document | None:
        """Return the item; `None` if there is none. Raises: CloudError."""

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Return the items that exist, in any order and each once; empty if none does. The table
        may read them in one call. Raises: CloudError."""
        items = [self.get(key) for key in dict.fromkeys(keys)]
        return not_none(items)

    def get_each(self, keys: Sequence[Key]) -> list[Document]:
        """Return each item in the order of the keys, with an empty document for one that does not
        exist. Each is as its newest write left it; they are not all of one moment. Raises:
        CloudError."""
        items = {(item["pk"], item["sk"]): item for item in self.get_all(keys)}
        return [items.get(key, {}) for key in keys]

    @abstractmethod
    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """Yield the items of the partition `pk` whose sort key begins with the prefix, in order of
        that key; with `after`, only those after that sort key. Raises: CloudError, while it
        yields."""

    @abstractmethod
    def write(self, change: Write) -> Document:
        """Carry out one write. Return the item after the write if the write asks for it with
        `returns_item`; an empty document otherwise. Raises: ConflictError if the condition fails;
        CloudError."""

    @abstractmethod
    def transact(self, *writes: Write) -> None:
        """Carry out up to `TRANSACTION` writes, all or nothing. Raises: ConflictError if a
        condition fails; CloudError.

        If the client retries a transaction, it gets the answer of the first try. So use one, even
        for a single write, where a retried `write` would see its own effect as a conflict.
        """

    @abstractmethod
    def with_short_timeout(self) -> Table:
        """Return the same table for calls that are useless later. It sends each request once, with
        a short timeout."""

    @abstractmethod
    def document(self, record: object) -> Document:
        """Return the stored form of a record: text, numbers, booleans and bytes, in lists and
        maps."""

    @abstractmethod
    def records(self, kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
        """Yield the record of each item; none for no items. Raises: CloudError, which names the
        item, if one is damaged."""

    def read(self, kind: type[Record], key: Key) -> Record | None:
        """Return the record under this key; `None` if there is none. Raises: CloudError, also if
        the record is damaged."""
        item = self.get(key)
        if item:
            return next(self.records(kind, [item]), None)
        return None

    def read_all(self, kind: type[Record], pk: str, prefix: str = "") -> list[Record]:
        """Return the records of the partition `pk` whose sort key begins with the prefix, in order
        of that key; empty if there are none. Raises: CloudError, also if one is damaged."""
        return list(self.records(kind, self.query(pk, prefix)))

    def log_left_out(self, what: str) -> None:
        """Log that an item, described by `what`, cannot be read, and that the caller goes on
        without it. Call it only while the error is handled, as the log shows that error."""
        _log.warning("%s cannot be read, and is left out", what, exc_info=True)

    def try_write(self, change: Write) -> bool:
        """Carry out one write, and return true. Return false, with nothing changed, if its
        condition fails. Raises: CloudError."""
        try:
            self.write(change)
        except ConflictError:
            return False
        return True

    def try_transaction(self, *writes: Write) -> bool:
        """Carry out a transaction, and return true. Return false, with nothing changed, if a
        condition fails. Raises: CloudError."""
        try:
            self.transact(*writes)
        except ConflictError:
            return False
        return True

    def write_all(self, writes: Sequence[Write]) -> None:
        """Carry out any number of writes, in transactions of up to `TRANSACTION` writes. Raises:
        ConflictError if a condition fails; CloudError. Transactions before that one stay done."""
        for part in in_parts(writes, TRANSACTION):
            self.transact(*part)


class Readable(Table):
    """A read-only view of another table that leaves out damaged items. The names of those are in
    `unread`. No action may be decided by it, as an item may be missing."""

    def __init__(self, table: Table) -> None:
        """Read through the other `table`. Nothing is read ahead yet."""
        self._whole = table
        self._known: dict[Key, Document | None] = {}
        self.unread: list[str] = []

    def read_ahead(self, keys: Sequence[Key]) -> None:
        """Read these items in one call, and keep them for later calls of `get` and its like.
        Raises: CloudError."""
        self._known |= dict.fromkeys(keys)
        for item in self._whole.get_all(keys):
            self._known[item["pk"], item["sk"]] = item

    def get(self, key: Key) -> Document | None:
        """Return the item, as it was read ahead or as it is now; `None` if there is none. Raises:
        CloudError."""
        if key in self._known:
            return self._known[key]
        return self._whole.get(key)

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Return the items that exist, in any order and each once; empty if none does. Only those
        that were not read ahead are read now, in one call. Raises: CloudError."""
        items: list[Document] = []
        unknown_keys: list[Key] = []
        for key in dict.fromkeys(keys):
            if key not in self._known:
                unknown_keys.append(key)
                continue
            item = self._known[key]
            if item:
                items.append(item)
        if unknown_keys:
            items.extend(self._whole.get_all(unknown_keys))
        return items

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """Yield the items of the partition `pk` whose sort key begins with `prefix` (by default
        all), in order of that key; with `after`, a sort key, only those behind it. Items that were
        read ahead are read again. Raises: CloudError."""
        return self._whole.query(pk, prefix, after=after)

    def records(self, kind: type[Record], items: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
        """Yield the record of each item; none for no items. A damaged item is left out with a line
        in the log, and its name is added to `unread`."""
        for item in items:
            try:
                yield from self._whole.records(kind, [item])
            except CloudError:
                self.log_left_out(f"{kind.__name__} {item.get('pk')} / {item.get('sk')}")

    def log_left_out(self, what: str) -> None:
        """Log that an item, described by `what`, cannot be read, and add the text to `unread`."""
        super().log_left_out(what)
        self.unread.append(what)

    def document(self, record: object) -> Document:
        """Return the stored form of a record, as the other table does."""
        return self._whole.document(record)

    def write(self, change: Write) -> Document:
        """Raise a TypeError: this view writes nothing."""
        raise TypeError(f"a page writes nothing, and not {change.key[0]}")

    def transact(self, *writes: Write) -> None:
        """Raise a TypeError: this view writes nothing."""
        self.write(writes[0])

    def with_short_timeout(self) -> Table:
        """Return this view itself: it has no calls that could be useless later."""
        return self


class Store:
    """A part of the table with keys and records of its own."""

    def __init__(self, table: Table) -> None:
        """Keep the records of this store in the `table`."""
        self._table = table

    def _keep_for_audit(self, entry: Write) -> None:
        """Write an entry of the audit. If that fails, only log it: the event itself has happened.
        An entry whose condition fails is not written, and that is not logged. It raises no
        GovernorError."""
        try:
            self._table.try_write(entry)
        except GovernorError:
            _log.exception("the audit lacks %s", " ".join(entry.key))


class ShortTimeoutStore(Store):
    """A store some of whose writes are useless later: `_short_timeout` is its table that sends each
    request once, with a short timeout."""

    def __init__(self, table: Table) -> None:
        """Keep the records of this store in the `table`."""
        super().__init__(table)
        self._short_timeout = table.with_short_timeout()
