"""Payloads that Slack, Teams and PagerDuty accept, as JSON Schemas of the parts that the product
uses.

Written from their documentation, not from the product's renderers, and closed: a field or an
element that is not listed here is refused. Sources: docs.slack.dev "Blocks"; adaptivecards.io,
schema 1.4; learn.microsoft.com "Create incoming webhooks"; developer.pagerduty.com "Send an alert
event".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

TEAMS_BYTES = 28 * 1024
PAGERDUTY_BYTES = 512 * 1024


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    properties = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _text(limit: int, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": limit}


def _list(items: Schema, least: int, most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _plain(limit: int) -> Schema:
    return _object(
        {"type": {"const": "plain_text"}, "text": _text(limit)}, {"emoji": {"type": "boolean"}}
    )


def _mrkdwn(limit: int) -> Schema:
    return _object(
        {"type": {"const": "mrkdwn"}, "text": _text(limit)}, {"verbatim": {"type": "boolean"}}
    )


def _either(limit: int) -> Schema:
    return {"oneOf": [_plain(limit), _mrkdwn(limit)]}


_WEB = {"type": "string", "pattern": r"^https?://[^\s]+$", "maxLength": 3000}
_STYLE = {"enum": ["primary", "danger"]}
_BLOCK_ID = {"block_id": _text(255)}
_CONFIRM = _object(
    {"title": _plain(100), "text": _plain(300), "confirm": _plain(30), "deny": _plain(30)},
    {"style": _STYLE},
)
_BUTTON = _object(
    {"type": {"const": "button"}, "text": _plain(75), "action_id": _text(255)},
    {"url": _WEB, "value": _text(2000), "style": _STYLE, "confirm": _CONFIRM},
)
_INPUT_TEXT = _object(
    {"type": {"const": "plain_text_input"}, "action_id": _text(255)},
    {"placeholder": _plain(150), "max_length": {"type": "integer", "minimum": 1, "maximum": 3000}},
)
_RICH_TEXT = _object(
    {"type": {"const": "text"}, "text": _text(3000)},
    {"style": {"type": "object", "additionalProperties": {"type": "boolean"}}},
)
_RICH_PART = _object(
    {
        "type": {"enum": ["rich_text_section", "rich_text_preformatted"]},
        "elements": _list(_RICH_TEXT, 1, 50),
    }
)
_BLOCKS: Schema = {
    "header": _object({"type": {}, "text": _plain(150)}, _BLOCK_ID),
    "section": {
        **_object(
            {"type": {}},
            {"text": _either(3000), "fields": _list(_either(2000), 1, 10), **_BLOCK_ID},
        ),
        "anyOf": [{"required": ["text"]}, {"required": ["fields"]}],
    },
    "actions": _object({"type": {}, "elements": _list(_BUTTON, 1, 25)}, _BLOCK_ID),
    "context": _object({"type": {}, "elements": _list(_either(2000), 1, 10)}, _BLOCK_ID),
    "input": _object(
        {"type": {}, "label": _plain(2000), "element": _INPUT_TEXT},
        {"optional": {"type": "boolean"}, **_BLOCK_ID},
    ),
    "rich_text": _object({"type": {}, "elements": _list(_RICH_PART, 1, 50)}, _BLOCK_ID),
}

_RUN = _object(
    {"type": {"const": "TextRun"}, "text": _text(5000)},
    {
        "size": {"enum": ["Default", "Small", "Medium", "Large", "ExtraLarge"]},
        "weight": {"enum": ["Default", "Lighter", "Bolder"]},
        "color": {"enum": ["Default", "Dark", "Light", "Accent", "Good", "Warning", "Attention"]},
        "isSubtle": {"type": "boolean"},
    },
)
_PLACE = {
    "spacing": {"enum": ["Default", "None", "Small", "Medium", "Large", "ExtraLarge", "Padding"]},
    "separator": {"type": "boolean"},
}
_RICH_BLOCK = _object({"type": {"const": "RichTextBlock"}, "inlines": _list(_RUN, 1, 100)}, _PLACE)
_COLUMN = _object(
    {"type": {"const": "Column"}, "items": _list(_RICH_BLOCK, 1, 20)},
    {"width": {"enum": ["auto", "stretch"]}},
)
_COLUMNS = _object({"type": {"const": "ColumnSet"}, "columns": _list(_COLUMN, 1, 20)}, _PLACE)
_OPEN = _object({"type": {"const": "Action.OpenUrl"}, "title": _text(200), "url": _WEB})
_TOGGLE = _object(
    {
        "type": {"const": "Action.ToggleVisibility"},
        "title": _text(200),
        "targetElements": _list(_text(200), 1, 20),
    }
)
_ELEMENT = {"oneOf": [_RICH_BLOCK, _COLUMNS]}
_CONTAINER = _object(
    {"type": {"const": "Container"}, "items": _list(_ELEMENT, 1, 500)},
    {"id": _text(200), "isVisible": {"type": "boolean"}},
)
_CARD = _object(
    {
        "type": {"const": "AdaptiveCard"},
        "version": {"const": "1.4"},
        "body": _list({"oneOf": [*_ELEMENT["oneOf"], _CONTAINER]}, 1, 500),
    },
    {
        "$schema": {"const": "http://adaptivecards.io/schemas/adaptive-card.json"},
        "actions": _list({"oneOf": [_OPEN, _TOGGLE]}, 1, 6),
        "fallbackText": _text(5000),
        "msteams": _object({}, {"width": {"const": "Full"}}),
    },
)
_ATTACHMENT = _object(
    {
        "contentType": {"const": "application/vnd.microsoft.card.adaptive"},
        "contentUrl": {"type": "null"},
        "content": _CARD,
    }
)
_TEAMS = _object({"type": {"const": "message"}, "attachments": _list(_ATTACHMENT, 1, 1)})

_KEY = {"routing_key": {"type": "string", "pattern": "^[0-9A-Za-z]{32}$"}}
_TRIGGER = _object(
    {
        **_KEY,
        "event_action": {"const": "trigger"},
        "payload": _object(
            {
                "summary": _text(1024),
                "source": _text(1024),
                "severity": {"enum": ["critical", "error", "warning", "info"]},
            },
            {
                "timestamp": {
                    "type": "string",
                    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$",
                },
                "component": _text(1024),
                "group": _text(1024),
                "class": _text(1024),
                "custom_details": {"type": "object"},
            },
        ),
    },
    {
        "dedup_key": _text(255),
        "client": _text(255),
        "client_url": _WEB,
        "links": _list(_object({"href": _WEB}, {"text": _text(1024)}), 1, 20),
    },
)
_RESOLVE = _object({**_KEY, "event_action": {"const": "resolve"}, "dedup_key": _text(255)})

_OPTIONAL_TEXT = {"type": ["string", "null"]}
_TABLE = _object(
    {
        "caption": {"type": "string"},
        "columns": _list({"type": "string"}, 1, 50),
        "rows": {"type": "array", "items": _list({"type": "string"}, 1, 50)},
    }
)
_SECTION = _object(
    {"heading": {"type": "string"}, "lines": {"type": "array", "items": {"type": "string"}}}
)
_WEBHOOK = _object(
    {
        "version": {"const": 1},
        "delivery": _text(500),
        "kind": _text(50),
        "severity": {"enum": ["info", "warning", "critical"]},
        "title": {"type": "string"},
        "at": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
        "episode": _text(500),
        "stage": _text(100),
        "is_outcome": {"type": "boolean"},
        **dict.fromkeys(("account", "region", "owner", "project"), _text(1000)),
        **dict.fromkeys(("instance_id", "instance_name", "instance_type"), _OPTIONAL_TEXT),
        "usd_per_day": {"type": ["string", "null"], "pattern": r"^\d+(\.\d+)?$"},
        **{key: {"type": "string"} for key in ("happens", "why")},
        "lead": {"type": "array", "items": {"type": "string"}},
        "acts": {"type": "boolean"},
        **{key: {"type": "array", "items": _SECTION} for key in ("sections", "details")},
        "facts": {"type": "object"},
        "evidence": {"anyOf": [_TABLE, {"type": "null"}]},
        "link": {"anyOf": [_WEB, {"type": "null"}]},
    }
)


def slack_problems(blocks: object) -> list[str]:
    """Return what Slack would call `invalid_blocks`."""
    if not isinstance(blocks, list) or not 1 <= len(blocks) <= 50:
        return ["blocks: 1 to 50 are allowed"]
    problems, ids = [], []
    for number, block in enumerate(blocks):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in _BLOCKS:
            problems.append(f"blocks/{number}: unsupported type {kind!r}")
            continue
        problems += _problems(f"slack.{kind}", block, f"blocks/{number}")
        ids += [block["block_id"]] if "block_id" in block else []
    if len(ids) != len(set(ids)):
        problems.append("blocks: a block_id is there twice")
    return problems


def teams_problems(envelope: object) -> list[str]:
    """Return what a workflow could not post."""
    return _problems("teams", envelope, "message")


def pagerduty_problems(event: object) -> list[str]:
    """Return what the Events API calls an invalid event."""
    action = event.get("event_action") if isinstance(event, dict) else None
    if action not in ("trigger", "resolve"):
        return ["'event_action' is missing or unknown"]
    return _problems(f"pagerduty.{action}", event, "event")


def webhook_problems(document: object) -> list[str]:
    """Return where a document is not what version 1 promises."""
    return _problems("webhook", document, "document")


@cache
def _validator(name: str) -> Draft202012Validator:
    schemas = {
        **{f"slack.{kind}": schema for kind, schema in _BLOCKS.items()},
        "teams": _TEAMS,
        "pagerduty.trigger": _TRIGGER,
        "pagerduty.resolve": _RESOLVE,
        "webhook": _WEBHOOK,
    }
    return Draft202012Validator(schemas[name])


def _problems(name: str, document: object, path: str) -> list[str]:
    return [
        "/".join([path, *(str(part) for part in error.absolute_path)]) + f": {error.message[:200]}"
        for error in _validator(name).iter_errors(document)
    ]


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON document, however deep, in the order of the document."""
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from nodes(child)
    elif isinstance(value, list):
        for child in value:
            yield from nodes(child)
