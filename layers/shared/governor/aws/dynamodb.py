"""The state table in DynamoDB: string keys `pk` and `sk`, TTL attribute `expires_at_epoch`.

It turns reads and writes into DynamoDB's calls. What a record holds is the codec's matter.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, NamedTuple

from governor.aws import record_codec as codec
from governor.aws.clients import Adapter, Clients
from governor.core.errors import Throttled
from governor.core.units import in_parts
from governor.table.table import Condition, Document, Key, Table, Write, epoch

_BATCH = 100
"""The most items of one read. Source: DynamoDB API, BatchGetItem."""
_ATTEMPTS = 6
"""Attempts of a transaction that met another one on the same item, and of a read that left items
out."""


class DynamoTable(Adapter, Table):
    """One table in DynamoDB. It has no state, so that threads and processes may share it."""

    document = staticmethod(codec.written)
    records = staticmethod(codec.read_all)

    def __init__(
        self, clients: Clients, name: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Use the table of this name. `sleep` takes seconds, and pauses before a call is
        repeated."""
        super().__init__(clients, name)
        self._sleep = sleep

    def with_short_timeout(self) -> Table:
        """Return a copy of the table whose calls are sent once, with short timeouts. This table
        itself does not change."""
        table = copy(self)
        table._long_timeout = False
        return table

    def get(self, key: Key) -> Document | None:
        """Return the item as the newest write left it; `None` if there is none. Raises:
        CloudError."""
        parameters = {"TableName": self._resource, "Key": _packed_key(key), "ConsistentRead": True}
        item = self._ask("GetItem", parameters).get("Item")
        return unpacked(item) if item else None

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Return the items that exist, in any order and each once; empty if none does.

        Raises: CloudError; Throttled if the table left some of them out in all attempts.
        """
        items: list[Document] = []
        # DynamoDB refuses a call that names a key twice.
        different_keys = list(dict.fromkeys(keys))
        for part in in_parts(different_keys, _BATCH):
            keys_left: Sequence[Any] = [_packed_key(key) for key in part]
            # A busy table leaves keys out of its answer: these are asked for again, after a pause.
            for attempt in range(_ATTEMPTS):
                if attempt:
                    self._sleep(0.05 * 2 ** (attempt - 1))
                # The answer need not repeat that the read is consistent.
                wanted = {"Keys": keys_left, "ConsistentRead": True}
                answer = self._ask("BatchGetItem", {"RequestItems": {self._resource: wanted}})
                items += map(unpacked, answer["Responses"].get(self._resource, ()))
                keys_left = answer.get("UnprocessedKeys", {}).get(self._resource, {}).get("Keys")
                if not keys_left:
                    break
            else:
                raise Throttled(f"the table left out {len(keys_left)} of {len(part)} items")
        return items

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """Yield the items of the partition `pk` whose sort key begins with the prefix, in order of
        that key. With `after`, a sort key, only those behind it. Raises: CloudError."""
        condition = "pk = :pk"
        values = {":pk": pk}
        if prefix:
            condition += " AND begins_with(sk, :prefix)"
            values[":prefix"] = prefix
        parameters: dict[str, Any] = {
            "TableName": self._resource,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": packed(values),
            "ConsistentRead": True,
        }
        if after is not None:
            parameters["ExclusiveStartKey"] = _packed_key((pk, after))
        while True:
            page = self._ask("Query", parameters)
            yield from map(unpacked, page["Items"])
            last_key = page.get("LastEvaluatedKey")
            if not last_key:
                return
            parameters["ExclusiveStartKey"] = last_key

    def write(self, write: Write) -> Document:
        """Carry out one write. Return the whole item after it if `write.returns_item`; else an
        empty document. Raises: ConflictError if its condition fails; CloudError."""
        parameters = _parameters(self._resource, write)
        if write.returns_item:
            parameters["ReturnValues"] = "ALL_NEW"
        answer = self._ask(f"{write.kind}Item", parameters)
        return unpacked(answer.get("Attributes") or {})

    def transact(self, *writes: Write) -> None:
        """Carry out all writes or none. One that meets another transaction is tried again, six
        times in all, or once with a short timeout. A retry of the client counts as the same
        transaction, because botocore gives each call a token.

        Raises: ConflictError if a condition fails; Throttled if other transactions held the items
        in all attempts; CloudError.
        """
        actions = [{write.kind: _parameters(self._resource, write)} for write in writes]
        attempts = _ATTEMPTS if self._long_timeout else 1
        for attempt in range(attempts):
            try:
                self._ask("TransactWriteItems", {"TransactItems": actions})
            except Throttled as error:
                if error.code != "TransactionCanceledException" or attempt == attempts - 1:
                    raise
                self._sleep(0.05 * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            else:
                return

    def _ask(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation such as `GetItem`; return DynamoDB's answer. A table with a short
        timeout sends the call once. Raises: ConflictError, CloudError."""
        return self._call(f"dynamodb:{operation}", repeat=self._long_timeout, **parameters)


class _Expression:
    """The expressions of one write, with placeholders for its names and values."""

    def __init__(self) -> None:
        """Begin without names and values."""
        self.names: dict[str, str] = {}
        self.values: Document = {}

    def name(self, attribute: str) -> str:
        """Keep the name of an attribute; return its placeholder: `#a` for `a`, and `#a.#b` for
        `a.b`, entry `b` of map `a`."""
        name_by_placeholder = {f"#{part.replace('-', '_')}": part for part in attribute.split(".")}
        self.names |= name_by_placeholder
        return ".".join(name_by_placeholder)

    def value(self, value: object) -> str:
        """Keep a value; return its placeholder, such as `:0`."""
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def condition(self, condition: Condition) -> str:
        """Return the text of a condition, such as `#status = :0`, and keep its names and values."""
        operator = condition.operator
        if isinstance(condition.left, Condition):
            left = self.condition(condition.left)
            right = self.condition(condition.right)
            return f"({left}) {operator} ({right})"
        name = self.name(condition.left)
        if operator in ("attribute_exists", "attribute_not_exists"):
            return f"{operator}({name})"
        return f"{name} {operator} {self.value(condition.right)}"

    def changes(self, write: Write) -> str:
        """Return the text of an update, such as `SET #a = :0 REMOVE #b`, and keep its names and
        values; an empty text if the write changes no attribute."""
        sets = []
        for attribute, value in attributes(write).items():
            sets.append(f"{self.name(attribute)} = {self.value(value)}")
        if write.first is not None:
            map_name, entry, value = write.first
            path = f"{self.name(map_name)}.{self.name(entry)}"
            sets.append(f"{path} = if_not_exists({path}, {self.value(value)})")
        adds = []
        for attribute, number in write.add.items():
            adds.append(f"{self.name(attribute)} {self.value(number)}")
        removes = [self.name(attribute) for attribute in write.remove]
        clauses = []
        for word, parts in (("SET", sets), ("REMOVE", removes), ("ADD", adds)):
            if parts:
                clauses.append(f"{word} {', '.join(parts)}")
        return " ".join(clauses)


def _parameters(table: str, write: Write) -> dict[str, Any]:
    """Return the parameters of DynamoDB's call for a write in this table, without those that would
    be empty: DynamoDB refuses empty ones."""
    expression = _Expression()
    key = _packed_key(write.key)
    parameters: dict[str, Any] = {"TableName": table}
    if write.kind == "Put":
        parameters["Item"] = packed(attributes(write)) | key
    else:
        parameters["Key"] = key
    if write.kind == "Update":
        changes = expression.changes(write)
        if changes:
            parameters["UpdateExpression"] = changes
    if write.condition is not None:
        parameters["ConditionExpression"] = expression.condition(write.condition)
    if expression.names:
        parameters["ExpressionAttributeNames"] = expression.names
    if expression.values:
        parameters["ExpressionAttributeValues"] = packed(expression.values)
    return parameters


def attributes(write: Write) -> Document:
    """Return the attributes that the write stores beside its key: those of its document, which may
    be a record to encode, and `expires_at_epoch` if the item expires."""
    document = write.document
    if is_dataclass(document):
        document = codec.written(document)
    if write.until is None:
        return {**document}
    return {**document, "expires_at_epoch": epoch(write.until)}


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as DynamoDB takes it: `{"a": 5}` becomes `{"a": {"N": "5"}}`. Raises:
    TypeError for a type that is never stored."""
    return {name: _pack(value) for name, value in document.items()}


def unpacked(item: Mapping[str, Any]) -> Document:
    """Return an item of DynamoDB as a document of plain values, the reverse of `packed`."""
    return {name: _unpack(value) for name, value in item.items()}


def _packed_key(key: Key) -> dict[str, Any]:
    """Return a key as DynamoDB takes it."""
    pk, sk = key
    return packed({"pk": pk, "sk": sk})


def _pack(value: object) -> dict[str, Any]:
    """Return a value as DynamoDB takes it, such as `{"N": "5"}` for 5. Raises: TypeError for a type
    that is never stored."""
    python_type: type = type(value)
    form = _form_of(python_type)
    if form is not None:
        return {form.letter: form.pack(value)}
    if is_dataclass(value):
        return {"M": packed(codec.written(value))}
    raise TypeError(f"{type(value).__name__} is not written to the state table")


@cache
def _form_of(python_type: type) -> _Form | None:
    """Return the form in which values of this type are written; `None` if they have none. Cached:
    it is asked for every value that is written."""
    for form in _FORMS:
        if issubclass(python_type, form.python_type):
            return form
    return None


def _unpack(value: Mapping[str, Any]) -> Any:
    """Return the plain value of an attribute, such as 5 for `{"N": "5"}`."""
    [(letter, inner)] = value.items()
    # A set becomes a list; we never write one.
    unpack = _UNPACK_BY_LETTER.get(letter, list)
    return unpack(inner)


def _pack_all(values: Sequence[object]) -> list[dict[str, Any]]:
    """Return the values of a list as DynamoDB takes them. Raises: TypeError for a type that is
    never stored."""
    return [_pack(value) for value in values]


def _unpack_all(values: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the plain values of the attributes in a list."""
    return [_unpack(value) for value in values]


def _whole(number: str) -> int | str:
    """Return the whole number in a text such as `5`. Return the text itself if it holds another
    number, such as `1.5`: we never write one, and as text it makes only its own record unreadable,
    not the others that a query returns."""
    try:
        return int(number)
    except ValueError:
        return number


class _Form(NamedTuple):
    """How values of a type are written to DynamoDB, under its letter for them, and read again."""

    letter: str
    python_type: Any
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


_FORMS = (
    _Form("NULL", NoneType, pack=lambda _: True, unpack=lambda _: None),
    # A `bool` is an `int`, too: its form must come first.
    _Form("BOOL", bool, pack=bool, unpack=bool),
    _Form("S", datetime, pack=codec.moment, unpack=str),
    _Form("S", str, pack=str, unpack=str),
    _Form("N", int, pack=str, unpack=_whole),
    _Form("B", bytes, pack=bytes, unpack=bytes),
    _Form("L", (list, tuple), pack=_pack_all, unpack=_unpack_all),
    _Form("M", dict, pack=packed, unpack=unpacked),
)
"""There are no floats: readings are packed, and amounts are text."""
_UNPACK_BY_LETTER = {form.letter: form.unpack for form in _FORMS}
