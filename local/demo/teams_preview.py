"""How a card looks in Teams, near enough for a picture of it. It must not know what it is about.

What it does not know it refuses, so that no picture leaves anything out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>A card in Teams</title>
<style>
:root { color-scheme: light dark; }
body { margin: 0; padding: 1rem; background: #f5f5f5; color: #242424;
       font: 14px/1.4 "Segoe UI", sans-serif; }
article { background: #fff; border: 1px solid #ddd; border-radius: 4px; padding: 12px 16px; }
p { margin: 8px 0 0; overflow-wrap: anywhere; }
.small { font-size: 12px; } .large { font-size: 20px; }
.near { margin-top: 2px; } .line { border-top: 1px solid #ddd; padding-top: 8px; }
.columns { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 8px; }
.warning { color: #8a5a00; } .attention { color: #c4314b; }
.button, summary { display: inline-block; border: 1px solid #ccc; border-radius: 4px;
                   padding: 5px 12px; }
.button, summary { margin: 12px 4px 0 0; font-weight: 600; }
a.button { color: inherit; text-decoration: none; }
@media (prefers-color-scheme: dark) {
  body { background: #1f1f1f; color: #fff; } article { background: #292929; border-color: #444; }
  .warning { color: #ffd583; } .attention { color: #ff8a9b; } .line { border-color: #444; }
}
</style>
</head>
<body><article>{{ body }}<div>{{ actions }}</div></article></body>
</html>
"""


class UnknownElementError(ValueError):
    """An element that the preview cannot show; names its type."""


def teams_page(envelope: Mapping[str, Any]) -> str:
    """A page with one card. Raises: UnknownElementError."""
    card = envelope["attachments"][0]["content"]
    body = Markup().join(_element(one) for one in card["body"])
    actions = Markup().join(_action(one) for one in card.get("actions", ()))
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(body=body, actions=actions)


def _element(one: Mapping[str, Any]) -> Markup:
    match one["type"]:
        case "RichTextBlock":
            near = one.get("spacing") in ("Small", "None")
            kind = f"{'near' if near else ''} {'line' if one.get('separator') else ''}"
            return Markup('<p class="{}">{}</p>').format(
                kind, Markup().join(map(_run, one["inlines"]))
            )
        case "ColumnSet":
            cells = (_element(item) for column in one["columns"] for item in column["items"])
            return Markup('<div class="columns">{}</div>').format(Markup().join(cells))
        case "Container":
            inside = Markup().join(map(_element, one["items"]))
            return inside if one.get("isVisible", True) else Markup("<!-- folded -->")
    raise UnknownElementError(
        f"the preview knows no {one['type']}: teach it in local/demo/teams_preview.py"
    )


def _run(one: Mapping[str, Any]) -> Markup:
    kinds = f"{one.get('size', '')} {one.get('color', '')}".lower()
    text = Markup('<span class="{}">{}</span>').format(kinds, one["text"])
    return Markup("<b>{}</b>").format(text) if one.get("weight") == "Bolder" else text


def _action(one: Mapping[str, Any]) -> Markup:
    if one["type"] not in ("Action.OpenUrl", "Action.ToggleVisibility"):
        raise UnknownElementError(
            f"the preview knows no {one['type']}: teach it in local/demo/teams_preview.py"
        )
    if "url" in one:
        return Markup('<a class="button" href="{}">{}</a>').format(one["url"], one["title"])
    return Markup('<span class="button">{}</span>').format(one["title"])
