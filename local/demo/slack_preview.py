"""How a message of Block Kit looks, near enough for a picture of it. It must not know what it is
about.

Knows the blocks and the few marks of text that the receivers' checks let through; what it does not
know, it refuses, so that no picture leaves anything out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>A message in Slack</title>
<style>
body { margin: 0; background: #fff; color: #1d1c1d;
       font: 15px/1.47 "Liberation Sans", Arial, sans-serif; }
article { display: flex; gap: .6rem; padding: 1rem; max-width: 44rem; }
.face { flex: none; width: 36px; height: 36px; border-radius: 6px; background: #0a58ca; }
.who { font-weight: 700; }
.app { background: #eee; color: #616061; font-size: 10px; padding: 1px 4px; }
h1 { font-size: 18px; margin: .4rem 0; } p { margin: .4rem 0; white-space: pre-line; }
.fields { display: grid; grid-template-columns: 1fr 1fr; gap: .2rem 1rem; }
.fields p { margin: .2rem 0; }
pre { border: 1px solid #ddd; background: #f8f8f8; border-radius: 4px; padding: 8px;
      font-size: 12px; }
pre { margin: .3rem 0; }
label { display: block; font-weight: 700; margin-top: .6rem; } .soft { color: #616061; }
.input { border: 1px solid #868686; border-radius: 4px; padding: 8px 12px; color: #616061; }
.input { margin: .3rem 0 .6rem; } .context { font-size: 12px; color: #616061; }
.button { display: inline-block; border: 1px solid #bbb; border-radius: 4px; padding: 4px 12px; }
.button { margin: .2rem .4rem .2rem 0; font-weight: 700; }
a.button { color: inherit; text-decoration: none; }
.danger { background: #e01e5a; border-color: #e01e5a; color: #fff; }
</style>
</head>
<body><article><div class="face"></div><div>
<div><span class="who">GPU Governor</span> <span class="app">APP</span></div>
{% for part in parts %}{{ part }}
{% endfor %}
</div></article></body>
</html>
"""
_BOLD = re.compile(r"(?<!\w)\*([^*\n]+)\*(?!\w)")


class UnknownBlockError(ValueError):
    """A block or element that the preview cannot show; names its type."""


def slack_page(blocks: Sequence[Mapping[str, Any]]) -> str:
    """A page with one message.

    Raises:
        UnknownBlockError: something in it is of a type that is not known here.
    """
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(parts=[_shown(_BLOCKS, block) for block in blocks])


def _shown(known: Mapping[str, Callable[[Any], Markup]], node: Mapping[str, Any]) -> Markup:
    show = known.get(node["type"])
    if show is None:
        raise UnknownBlockError(
            f"the preview knows no {node['type']}: teach it in local/demo/slack_preview.py"
        )
    return show(node)


def _text(node: Mapping[str, Any]) -> Markup:
    if node["type"] == "plain_text":
        return escape(node["text"])
    # Slack's own escapes (&amp;, &lt;, &gt;) are those of HTML.
    safe = str(escape(unescape(node["text"])))
    return Markup(_BOLD.sub(r"<strong>\1</strong>", safe))  # noqa: S704 - escaped in the line before


def _section(block: Mapping[str, Any]) -> Markup:
    text = Markup("<p>{}</p>").format(_text(block["text"])) if "text" in block else Markup()
    fields = Markup().join(
        Markup("<p>{}</p>").format(_text(field)) for field in block.get("fields", ())
    )
    return text + (Markup('<div class="fields">{}</div>').format(fields) if fields else Markup())


def _rich_text(block: Mapping[str, Any]) -> Markup:
    return Markup().join(_shown(_RICH, part) for part in block["elements"])


def _runs(part: Mapping[str, Any]) -> Markup:
    bold = Markup("<strong>{}</strong>")
    return Markup().join(
        bold.format(run["text"]) if run.get("style", {}).get("bold") else escape(run["text"])
        for run in part["elements"]
    )


def _input(block: Mapping[str, Any]) -> Markup:
    optional = (
        Markup(' <span class="soft">(optional)</span>') if block.get("optional") else Markup()
    )
    hint = _text(block["element"]["placeholder"])
    return Markup('<label>{}{}</label><div class="input">{}</div>').format(
        _text(block["label"]), optional, hint
    )


def _button(element: Mapping[str, Any]) -> Markup:
    style = " danger" if element.get("style") == "danger" else ""
    if "url" in element:
        return Markup('<a class="button{}" href="{}">{}</a>').format(
            style, element["url"], _text(element["text"])
        )
    return Markup('<span class="button{}">{}</span>').format(style, _text(element["text"]))


_BLOCKS: Mapping[str, Callable[[Any], Markup]] = {
    "header": lambda block: Markup("<h1>{}</h1>").format(_text(block["text"])),
    "section": _section,
    "rich_text": _rich_text,
    "input": _input,
    "actions": lambda block: Markup().join(
        _shown({"button": _button}, element) for element in block["elements"]
    ),
    "context": lambda block: Markup('<p class="context">{}</p>').format(
        Markup(" ").join(_text(element) for element in block["elements"])
    ),
}
_RICH: Mapping[str, Callable[[Any], Markup]] = {
    "rich_text_section": lambda part: Markup("<p>{}</p>").format(_runs(part)),
    "rich_text_preformatted": lambda part: Markup("<pre>{}</pre>").format(_runs(part)),
}
