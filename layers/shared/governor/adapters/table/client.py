"""The DynamoDB table: string keys `pk` and `sk`, TTL attribute `expires_at_epoch`, and conditional writes.

Where a lost response would make a retry see its own write as a conflict, use a transaction: AWS answers its
repetition as it answered the first. This module must not know what is stored.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.domain.parts import in_parts
from governor.errors import ConflictError, Throttled

TRANSACTION = 100
"""Actions in one. Source: DynamoDB API, TransactWriteItems."""
_ATTEMPTS = 6
"""Of a transaction that met another one on the same item."""

Document = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the stored item: a comparison of one attribute, or two conditions with AND or OR."""

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


def is_text(attribute: str) -> Condition:
    """The attribute is there and is text."""
    return Condition("attribute_type", attribute, "S")


@dataclass(frozen=True, slots=True)
class Write:
    """One write, or a check, of an item: by itself, or as a part of a transaction.

    An update sets the attributes of `document`, removes those in `remove`, adds to the numbers in `add`, and
    sets `first` (a map, a key in it, a value) unless the map holds that key.
    """

    kind: Literal["Put", "Update", "Delete", "ConditionCheck"]
    key: Key
    condition: Condition | None = None
    document: Document = field(default_factory=dict)
    remove: Sequence[str] = ()
    add: Mapping[str, int] = field(default_factory=dict)
    first: tuple[str, str, Any] | None = None


def put(key: Key, document: Document, condition: Condition | None = None) -> Write:
    """Stores the item, in place of what is there."""
    return Write("Put", key, condition, document)


def insert(key: Key, document: Document) -> Write:
    """Stores the item where there is none."""
    return put(key, document, absent())


def update(key: Key, changes: Document, condition: Condition | None = None, **more: Any) -> Write:
    """Changes attributes of the item."""
    return Write("Update", key, condition, changes, **more)


def delete(key: Key, condition: Condition | None = None) -> Write:
    """Deletes the item."""
    return Write("Delete", key, condition)


def check(key: Key, condition: Condition) -> Write:
    """Lets a transaction fail unless the condition holds."""
    return Write("ConditionCheck", key, condition)


class Table:
    """One table in DynamoDB. Safe to use from several threads and processes; no state of its own."""

    def __init__(self, clients: Clients, name: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clients = clients
        self._name = name
        self._sleep = sleep
        self._hasty = False

    def hasty(self) -> Table:
        """The same table for what is worth nothing later: writes are sent once and give up within seconds."""
        table = copy(self)
        table._hasty = True
        return table

    def get(self, key: Key) -> Document | None:
        """The item, as last written."""
        with aws_errors("dynamodb:GetItem"):
            answer = self._client.get_item(TableName=self._name, Key=_packed_key(key), ConsistentRead=True)
        item = answer.get("Item")
        return unpacked(item) if item else None

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """All items of a partition whose sort key begins with the prefix, in order; `after` starts later."""
        values = {":pk": pk} | ({":prefix": prefix} if prefix else {})
        parameters: dict[str, Any] = {
            "TableName": self._name,
            "KeyConditionExpression": "pk = :pk" + (" AND begins_with(sk, :prefix)" if prefix else ""),
            "ExpressionAttributeValues": packed(values),
            "ConsistentRead": True,
        }
        if after is not None:
            parameters["ExclusiveStartKey"] = _packed_key((pk, after))
        while True:
            with aws_errors("dynamodb:Query"):
                page = self._client.query(**parameters)
            yield from map(unpacked, page["Items"])
            if not page.get("LastEvaluatedKey"):
                return
            parameters["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def write(self, one: Write) -> Document:
        """Carries out one write; returns the item after an update.

        Raises:
            ConflictError: its condition does not hold.
        """
        parameters = _parameters(self._name, one)
        with aws_errors(f"dynamodb:{one.kind}Item"):
            match one.kind:
                case "Put":
                    self._client.put_item(**parameters)
                case "Delete":
                    self._client.delete_item(**parameters)
                case _:
                    answer = self._client.update_item(**parameters, ReturnValues="ALL_NEW")
                    return unpacked(answer.get("Attributes") or {})
        return {}

    def holds(self, one: Write) -> bool:
        """Carry out one write; return whether its condition held."""
        try:
            self.write(one)
        except ConflictError:
            return False
        return True

    def wins(self, *writes: Write) -> bool:
        """Whether the conditions of this transaction held."""
        try:
            self.transact(*writes)
        except ConflictError:
            return False
        return True

    def transact(self, *writes: Write) -> None:
        """All or nothing. botocore gives each call a token, so that its own retries count once.

        Raises:
            ConflictError: a condition did not hold.
            Throttled: other transactions held the items for all attempts.
        """
        actions = [{one.kind: _parameters(self._name, one)} for one in writes]
        attempts = 1 if self._hasty else _ATTEMPTS
        for attempt in range(attempts):
            try:
                with aws_errors("dynamodb:TransactWriteItems"):
                    self._client.transact_write_items(TransactItems=actions)
            except Throttled as error:
                if error.code != "TransactionCanceledException" or attempt == attempts - 1:
                    raise
                self._sleep(0.05 * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            else:
                return

    def write_all(self, writes: Sequence[Write]) -> None:
        """Carries out any number of writes, a transaction's worth at a time."""
        for part in in_parts(writes, TRANSACTION):
            self.transact(*part)

    @property
    def _client(self) -> Any:
        if self._hasty:
            return self._clients.client("dynamodb", repeat=False, patient=False)
        return self._clients.client("dynamodb")


class Store:
    """The items of one aggregate. Its port in `governor.stores` documents the methods."""

    def __init__(self, table: Table) -> None:
        self._table = table


def epoch(at: datetime) -> int:
    """A time to live, in the seconds that DynamoDB compares."""
    return int(at.timestamp())


# expressions


class _Expression:
    """Collects the names and values that an expression stands for."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: Document = {}

    def name(self, attribute: str) -> str:
        placeholder = f"#{attribute.replace('-', '_')}"
        self.names[placeholder] = attribute
        return placeholder

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
            case "attribute_type":
                return f"attribute_type({name}, {self.value(one.right)})"
            case _:
                return f"{name} {one.operator} {self.value(one.right)}"

    def changes(self, one: Write) -> str:
        sets = [f"{self.name(name)} = {self.value(value)}" for name, value in one.document.items()]
        if one.first is not None:
            path = f"{self.name(one.first[0])}.{self.name(one.first[1])}"
            sets.append(f"{path} = if_not_exists({path}, {self.value(one.first[2])})")
        adds = [f"{self.name(name)} {self.value(number)}" for name, number in one.add.items()]
        parts = {"SET": sets, "REMOVE": [self.name(name) for name in one.remove], "ADD": adds}
        return " ".join(f"{word} {', '.join(part)}" for word, part in parts.items() if part)


def _parameters(table: str, one: Write) -> dict[str, Any]:
    expression = _Expression()
    parameters: dict[str, Any] = {"TableName": table}
    if one.kind == "Put":
        parameters["Item"] = packed({**one.document, "pk": one.key[0], "sk": one.key[1]})
    else:
        parameters["Key"] = _packed_key(one.key)
    if one.kind == "Update":
        parameters["UpdateExpression"] = expression.changes(one)
    if one.condition is not None:
        parameters["ConditionExpression"] = expression.condition(one.condition)
    if expression.names:
        parameters["ExpressionAttributeNames"] = expression.names
    if expression.values:
        parameters["ExpressionAttributeValues"] = packed(expression.values)
    return parameters


# values


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as DynamoDB writes it. Raises: TypeError."""
    return {name: _pack(value) for name, value in document.items()}


def unpacked(item: Mapping[str, Any]) -> Document:
    """The inverse of `packed`."""
    return {name: _unpack(value) for name, value in item.items()}


def _packed_key(key: Key) -> dict[str, Any]:
    return packed({"pk": key[0], "sk": key[1]})


def _pack(value: object) -> dict[str, Any]:
    """A value as DynamoDB writes it. Floats are refused: what is measured is packed, what is paid is text."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case list() | tuple():
            return {"L": [_pack(part) for part in value]}
        case dict():
            return {"M": packed(value)}
        case _:
            raise TypeError(f"{type(value).__name__} is not written to the state table")


def _unpack(value: Mapping[str, Any]) -> Any:
    (kind, inner), *_ = value.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return int(inner)
        case "L":
            return [_unpack(part) for part in inner]
        case "M":
            return unpacked(inner)
        case "B":
            return bytes(inner)
        case _:
            return inner
