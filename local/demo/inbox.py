"""Messages of the local receivers, as a page to look at. It must not know any channel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined

from local.demo.receiver_checks import nodes

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Messages</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 1rem; }
article { border: 1px solid #8888; border-radius: .5rem; padding: .5rem 1rem; margin: 1rem 0; }
h2 { font-size: 1rem; } p { margin: .2rem 0; white-space: pre-wrap; } pre { overflow-x: auto; }
</style>
</head>
<body>
<h1>Messages</h1>
{% for one in received %}
<article>
<h2>{{ one.channel }} · {{ one.operation }} · {{ one.status }} · <time>{{ one.at }}</time></h2>
{% if one.problem %}<p><strong>{{ one.problem }}</strong></p>{% endif %}
{% for text in one.texts %}<p>{{ text }}</p>
{% endfor %}
{% for link in one.links %}<p><a href="{{ link }}" rel="noreferrer">{{ link }}</a></p>
{% endfor %}
<details><summary>As sent</summary><pre>{{ one.source }}</pre></details>
</article>
{% else %}
<p>Nothing yet.</p>
{% endfor %}
</body>
</html>
"""
_TEXT = ("summary", "title", "heading", "text", "value")
_LINK = ("url", "href", "link")


def inbox_page(document: Mapping[str, Any]) -> str:
    """The newest request first."""
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(received=[_shown(one) for one in reversed(document["received"])])


def _shown(one: Mapping[str, Any]) -> dict[str, Any]:
    found = list(nodes(one["payload"]))
    return {
        **one,
        "texts": [text for node in found for text in _texts(node)],
        "links": [node[key] for node in found for key in _LINK if _is_web(node.get(key))],
        "source": json.dumps(one["payload"], indent=2, ensure_ascii=False),
    }


def _texts(node: Mapping[str, Any]) -> list[str]:
    texts = [node[key] for key in _TEXT if isinstance(node.get(key), str)]
    return texts + [line for line in node.get("lines", ()) if isinstance(line, str)]


def _is_web(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("https://", "http://"))
