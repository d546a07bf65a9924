"""DynamoDB behind the wire: one table in memory, conditions included, and the units that its calls
cost."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from benchmarks.wire import Answered, Asked, as_json, failed

Item = dict[str, Any]
_PAGE_BYTES = 1_000_000
"""DynamoDB ends a page of a query at 1 MB."""
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD) ")
_SET = re.compile(r"(\S+) = (?:if_not_exists\([^,]+, (:\w+)\)|(:\w+))")


class StubTable:
    """Speaks the part of DynamoDB's language that `DynamoTable` writes; another expression is an
    error."""

    def __init__(self) -> None:
        self.read_units = self.write_units = 0
        self._items: defaultdict[str, dict[str, Item]] = defaultdict(dict)

    def __call__(self, asked: Asked) -> Answered:
        """One call."""
        values = asked.values
        match asked.operation:
            case "GetItem":
                found = self._read([values["Key"]])
                return as_json({"Item": found[0]} if found else {})
            case "BatchGetItem":
                [(table, wanted)] = values["RequestItems"].items()
                return as_json(
                    {"Responses": {table: self._read(wanted["Keys"])}, "UnprocessedKeys": {}}
                )
            case "Query":
                return self._query(values)
            case "PutItem" | "UpdateItem" | "DeleteItem":
                kind = asked.operation.removesuffix("Item")
                if not self._may(values):
                    return failed(
                        "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
                    )
                item = self._write(kind, values, 1)
                return as_json({"Attributes": item} if kind == "Update" else {})
        assert asked.operation == "TransactWriteItems", asked.operation
        writes = [one for action in values["TransactItems"] for one in action.items()]
        allowed = [self._may(parameters) for _, parameters in writes]
        if not all(allowed):
            reasons = [{"Code": "None" if one else "ConditionalCheckFailed"} for one in allowed]
            canceled = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"}
            return Answered(as_json({**canceled, "CancellationReasons": reasons}).body, 400)
        for kind, parameters in writes:
            self._write(kind, parameters, 2)
        return as_json({})

    def forget(self, prefix: str) -> None:
        """Delete all items whose sort key begins so."""
        for partition in self._items.values():
            for sk in [sk for sk in partition if sk.startswith(prefix)]:
                del partition[sk]

    def _item(self, parameters: Mapping[str, Any]) -> Item | None:
        key = parameters.get("Key") or parameters["Item"]
        return self._items[key["pk"]["S"]].get(key["sk"]["S"])

    def _read(self, keys: list[Item]) -> list[Item]:
        found = [one for key in keys if (one := self._items[key["pk"]["S"]].get(key["sk"]["S"]))]
        self.read_units += (
            len(keys) - len(found) + sum(math.ceil(_size(one) / 4096) for one in found)
        )
        return found

    def _query(self, values: Mapping[str, Any]) -> Answered:
        named = {name: one["S"] for name, one in values["ExpressionAttributeValues"].items()}
        prefix, after = (
            named.get(":prefix", ""),
            values.get("ExclusiveStartKey", {"sk": {"S": ""}})["sk"]["S"],
        )
        partition = self._items[named[":pk"]]
        page: list[Item] = []
        size, answer = 0, {"Items": page}
        for sk in sorted(sk for sk in partition if sk.startswith(prefix) and sk > after):
            if size >= _PAGE_BYTES:
                answer["LastEvaluatedKey"] = {"pk": page[-1]["pk"], "sk": page[-1]["sk"]}  # type: ignore[assignment]
                break
            page.append(partition[sk])
            size += _size(partition[sk])
        self.read_units += max(1, math.ceil(size / 4096))
        return as_json(answer)

    def _may(self, parameters: Mapping[str, Any]) -> bool:
        condition = parameters.get("ConditionExpression")
        return condition is None or _holds(condition, parameters, self._item(parameters) or {})

    def _write(self, kind: str, parameters: Mapping[str, Any], units: int) -> Item:
        """Carry it out; return the item as it is then."""
        before = self._item(parameters)
        key = parameters.get("Key") or parameters["Item"]
        pk, sk = key["pk"]["S"], key["sk"]["S"]
        item = {**(before or {}), **key} if kind == "Update" else {**parameters.get("Item", {})}
        if kind == "Update":
            _change(item, parameters)
        size = max(_size(before or {}), _size(item), 1)
        self.write_units += units * math.ceil(size / 1024)
        if kind == "Delete":
            self._items[pk].pop(sk, None)
        elif kind != "ConditionCheck":
            self._items[pk][sk] = item
        return item


def _size(value: Any) -> int:
    """Bytes, about as DynamoDB counts them: names and values, without the letters of the types."""
    return sum(len(name) + _size_of(one) for name, one in value.items())


def _size_of(value: Mapping[str, Any]) -> int:
    [(letter, inner)] = value.items()
    if letter == "S":
        return len(inner)
    if letter == "B":
        return len(inner) * 3 // 4
    if letter == "N":
        return len(inner) // 2 + 1
    if letter == "M":
        return 3 + len(inner) + _size(inner)
    return 3 + sum(1 + _size_of(one) for one in inner) if letter == "L" else 1


def _holds(condition: str, parameters: Mapping[str, Any], item: Item) -> bool:
    if condition.startswith("("):
        depths = accumulate((letter == "(") - (letter == ")") for letter in condition)
        end = next(end for end, depth in enumerate(depths) if depth == 0)
        operator, _, right = condition[end + 2 :].partition(" ")
        both = (_holds(one[1:-1], parameters, item) for one in (condition[: end + 1], right))
        return all(both) if operator == "AND" else any(both)
    call = re.fullmatch(r"(attribute_\w+)\((\S+)\)", condition)
    if call:
        is_there = _at(item, call[2], parameters) is not None
        return is_there == (call[1] == "attribute_exists")
    path, compared, value = condition.split(" ")
    known, wanted = _at(item, path, parameters), parameters["ExpressionAttributeValues"][value]
    if compared in ("=", "<>"):
        return bool((known == wanted) == (compared == "="))
    if known is None or known.keys() != wanted.keys():
        return False
    [left, than] = [int(one["N"]) if "N" in one else one["S"] for one in (known, wanted)]
    return bool(
        left < than if compared == "<" else left <= than if compared == "<=" else left > than
    )


def _at(item: Item, path: str, parameters: Mapping[str, Any]) -> Any:
    found: Any = {"M": item}
    for name in path.split("."):
        found = (found or {}).get("M", {}).get(parameters["ExpressionAttributeNames"][name])
    return found


def _change(item: Item, parameters: Mapping[str, Any]) -> None:
    names, values = (
        parameters["ExpressionAttributeNames"],
        parameters.get("ExpressionAttributeValues", {}),
    )
    parts = _CLAUSE.split(parameters.get("UpdateExpression", ""))
    for word, clause in zip(parts[1::2], parts[2::2], strict=True):
        if word == "SET":
            for path, default, value in _SET.findall(clause):
                outer, _, inner = path.partition(".")
                if not inner:
                    item[names[outer]] = values[value]
                    continue
                of_map = dict(item[names[outer]]["M"])
                of_map.setdefault(names[inner], values[default])
                item[names[outer]] = {"M": of_map}
            continue
        for one in clause.strip().split(", "):
            name, _, value = one.partition(" ")
            if word == "REMOVE":
                item.pop(names[name], None)
            else:
                known = int(item.get(names[name], {"N": "0"})["N"])
                item[names[name]] = {"N": str(known + int(values[value]["N"]))}
