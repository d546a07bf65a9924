"""The state table in DynamoDB: string keys `pk` and `sk`, TTL attribute `expires_at_epoch`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any

from governor.adapters.clients import Adapter, Clients
from governor.adapters.table import codec
from governor.domain.units import in_parts
from governor.errors import Throttled
from governor.stores.table import Condition, Document, Key, Table, Write, epoch

_BATCH = 100
"""Items of one read. Source: DynamoDB API, BatchGetItem."""
_ATTEMPTS = 6
"""Attempts of a transaction that met another one on the same item, and of a read that left out
items."""


class DynamoTable(Adapter, Table):
    """One table in DynamoDB. Safe to use from several threads and processes; no state of its
    own."""

    document, records = staticmethod(codec.written), staticmethod(codec.read_all)

    def __init__(
        self, clients: Clients, name: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(clients, name)
        self._sleep = sleep

    def hasty(self) -> Table:
        table = copy(self)
        table._patient = False
        return table

    def get(self, key: Key) -> Document | None:
        asked = {"TableName": self._resource, "Key": _packed_key(key), "ConsistentRead": True}
        item = self._ask("GetItem", asked).get("Item")
        return unpacked(item) if item else None

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Raises also: Throttled, when the table left out some of them for all attempts."""
        found: list[Document] = []
        for part in in_parts(keys, _BATCH):
            left: dict[str, Any] = {"Keys": [*map(_packed_key, part)], "ConsistentRead": True}
            for attempt in range(_ATTEMPTS):
                answer = self._ask("BatchGetItem", {"RequestItems": {self._resource: left}})
                found += map(unpacked, answer["Responses"].get(self._resource, ()))
                left = answer.get("UnprocessedKeys", {}).get(self._resource)
                if not left:
                    break
                self._sleep(0.05 * 2**attempt)
            else:
                raise Throttled(f"the table left out {len(left['Keys'])} of {len(part)} items")
        return found

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        values = {":pk": pk} | ({":prefix": prefix} if prefix else {})
        parameters: dict[str, Any] = {
            "TableName": self._resource,
            "KeyConditionExpression": "pk = :pk"
            + (" AND begins_with(sk, :prefix)" if prefix else ""),
            "ExpressionAttributeValues": packed(values),
            "ConsistentRead": True,
        }
        following = None if after is None else _packed_key((pk, after))
        while True:
            page = self._ask(
                "Query", parameters | ({"ExclusiveStartKey": following} if following else {})
            )
            yield from map(unpacked, page["Items"])
            following = page.get("LastEvaluatedKey")
            if not following:
                return

    def write(self, one: Write) -> Document:
        parameters = _parameters(self._resource, one)
        if one.returns_item:
            parameters["ReturnValues"] = "ALL_NEW"
        answer = self._ask(f"{one.kind}Item", parameters)
        return unpacked(answer.get("Attributes") or {})

    def transact(self, *writes: Write) -> None:
        """Raises also: Throttled, when others held the items. botocore gives each call a token."""
        actions = [{one.kind: _parameters(self._resource, one)} for one in writes]
        attempts = _ATTEMPTS if self._patient else 1
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
        return self._call(f"dynamodb:{operation}", repeat=self._patient, **parameters)


class _Expression:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: Document = {}

    def name(self, attribute: str) -> str:
        path = {f"#{part.replace('-', '_')}": part for part in attribute.split(".")}
        self.names |= path
        return ".".join(path)

    def value(self, value: object) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def condition(self, one: Condition) -> str:
        if isinstance(one.left, Condition):
            return f"({self.condition(one.left)}) {one.operator} ({self.condition(one.right)})"
        name = self.name(one.left)
        match one.operator:
            case "attribute_exists" | "attribute_not_exists":
                return f"{one.operator}({name})"
            case _:
                return f"{name} {one.operator} {self.value(one.right)}"

    def changes(self, one: Write) -> str:
        sets = [
            f"{self.name(name)} = {self.value(value)}" for name, value in attributes(one).items()
        ]
        if one.first is not None:
            path = f"{self.name(one.first[0])}.{self.name(one.first[1])}"
            sets.append(f"{path} = if_not_exists({path}, {self.value(one.first[2])})")
        adds = [f"{self.name(name)} {self.value(number)}" for name, number in one.add.items()]
        parts = {"SET": sets, "REMOVE": [self.name(name) for name in one.remove], "ADD": adds}
        return " ".join(f"{word} {', '.join(part)}" for word, part in parts.items() if part)


def _parameters(table: str, one: Write) -> dict[str, Any]:
    expression, key = _Expression(), _packed_key(one.key)
    is_put, is_update = one.kind == "Put", one.kind == "Update"
    parameters = {
        "TableName": table,
        "Key": None if is_put else key,
        "Item": packed(attributes(one)) | key if is_put else None,
        "UpdateExpression": expression.changes(one) if is_update else None,
        "ConditionExpression": None
        if one.condition is None
        else expression.condition(one.condition),
        "ExpressionAttributeNames": expression.names,
        "ExpressionAttributeValues": packed(expression.values),
    }
    return {name: value for name, value in parameters.items() if value}


def attributes(one: Write) -> Document:
    document = codec.written(one.document) if is_dataclass(one.document) else one.document
    until = {} if one.until is None else {"expires_at_epoch": epoch(one.until)}
    return {**document, **until}


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as DynamoDB writes it. Raises: TypeError."""
    return {name: _pack(value) for name, value in document.items()}


def unpacked(item: Mapping[str, Any]) -> Document:
    return {name: _unpack(value) for name, value in item.items()}


def _packed_key(key: Key) -> dict[str, Any]:
    return packed({"pk": key[0], "sk": key[1]})


def _pack(value: object) -> dict[str, Any]:
    if is_dataclass(value):
        return {"M": packed(codec.written(value))}
    for letter, kind, pack, _ in _FORMS:
        if isinstance(value, kind):
            return {letter: pack(value)}
    raise TypeError(f"{type(value).__name__} is not written to the state table")


def _unpack(value: Mapping[str, Any]) -> Any:
    [(letter, inner)] = value.items()
    # A set is written by nobody.
    return _UNPACK.get(letter, list)(inner)


def _whole(number: str) -> int | str:
    """A fraction is written by nobody, too: as text it harms its own record, not all that a query
    returns."""
    try:
        return int(number)
    except ValueError:
        return number


_FORMS: tuple[tuple[str, Any, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("NULL", NoneType, lambda _: True, lambda _: None),
    ("BOOL", bool, bool, bool),
    ("S", datetime, codec.moment, str),
    ("S", str, str, str),
    ("N", int, str, _whole),
    ("B", bytes, bytes, bytes),
    ("L", (list, tuple), lambda parts: [*map(_pack, parts)], lambda parts: [*map(_unpack, parts)]),
    ("M", dict, packed, unpacked),
)
"""DynamoDB's letter, the type, the way there and back. No floats: readings are packed, amounts are
text."""
_UNPACK = {letter: unpack for letter, _, _, unpack in _FORMS}
