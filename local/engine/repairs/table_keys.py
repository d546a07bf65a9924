"""Partition keys and attributes that a request to DynamoDB names, for IAM.

- AWS: a request has the condition key `dynamodb:LeadingKeys`; each write of a transaction has its
  own. Engine: no such key, so a statement that refuses its absence (`"Null": "false"`) would refuse
  everything.
- AWS: `dynamodb:Attributes` has the first part of every attribute that a request reads, writes or
  compares, the keys included. Engine: those of a projection alone.

The partition key of every table here is `pk`, and text.
"""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from typing import Any

_KEY = "dynamodb:LeadingKeys"
_ATTRIBUTES = "dynamodb:Attributes"
_EXPRESSIONS = (
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)
_OF_AN_EXPRESSION = re.compile(r"(?<![\w.:#])([#A-Za-z_][\w-]*)(?!\w*\()")
"""The first part of each path; a value begins with a colon."""
_WORDS = frozenset({"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "BETWEEN", "IN"})
_WRITES = ("ConditionCheck", "Put", "Update", "Delete", "Get")
"""In the order in which the engine checks the members of an item."""
_of_writes: ContextVar[list[dict[str, list[str]]]] = ContextVar("of_writes")


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every request."""
    from ministack.core import iam_actions, iam_evaluator

    context, checks = iam_actions.dynamodb_service_context, iam_actions.dynamodb_transaction_checks
    enforce = iam_evaluator.enforce

    def with_keys(body: bytes) -> dict[str, Any]:
        return {**context(body), **_named(parsed(body))}

    def noting_keys(action: str, body: bytes, *more: Any) -> Any:
        items = parsed(body).get("TransactItems") or []
        _of_writes.set([_named(item[one]) for item in items for one in _WRITES if one in item])
        return checks(action, body, *more)

    def enforced(access_key: Any, action: str, service: str, *more: Any, **named: Any) -> Any:
        given = named.get("service_context") or {}
        if service == "dynamodb" and "dynamodb:EnclosingOperation" in given:
            named["service_context"] = {**given, **_of_writes.get().pop(0)}
        return enforce(access_key, action, service, *more, **named)

    iam_actions.dynamodb_service_context = with_keys
    iam_actions.dynamodb_transaction_checks = noting_keys
    iam_evaluator.enforce = enforced


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a request; empty where it is none."""
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _named(request: dict[str, Any]) -> dict[str, list[str]]:
    """Return both condition keys of one request or write, each where it has one."""
    parts = [request, *_batched(request)]
    keys = [key for part in parts for key in _keys(part)]
    attributes = {name for part in parts for name in _attributes(part)}
    found = {_KEY: keys, _ATTRIBUTES: sorted(attributes)}
    return {name: values for name, values in found.items() if values}


def _batched(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a batch, each as a request of its own."""
    parts: list[dict[str, Any]] = []
    for asked in (request.get("RequestItems") or {}).values():
        if isinstance(asked, list):
            parts += [write for one in asked for write in one.values()]
        else:
            parts += [{**asked, "Key": key} for key in asked.get("Keys") or ()]
    return parts


def _attributes(request: dict[str, Any]) -> list[str]:
    placeholders = request.get("ExpressionAttributeNames") or {}
    found = {
        *(request.get("Item") or ()),
        *(request.get("Key") or ()),
        *(request.get("AttributesToGet") or ()),
    }
    for kind in _EXPRESSIONS:
        for name in _OF_AN_EXPRESSION.findall(request.get(kind) or ""):
            if name.upper() not in _WORDS:
                found.add(placeholders.get(name, name))
    return sorted(found)


def _keys(request: dict[str, Any]) -> list[str]:
    """Return the keys of one request or write; a scan has none."""
    values = request.get("ExpressionAttributeValues") or {}
    named = request.get("Key") or request.get("Item") or {}
    key = named.get("pk") or (values.get(":pk") if "KeyConditionExpression" in request else None)
    return [key["S"]] if key else []
