"""Writes `docs/http-api.md` from `docs/openapi.yaml`: page and document cannot differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs/openapi.yaml"
PAGE = ROOT / "docs/http-api.md"
METHODS = ("get", "head", "post")
_LEAD = """\
# HTTP API

This page lists every path of the stack's HTTP API. `make fix` generates it from
[openapi.yaml](openapi.yaml), which other programs can read. The guides are
[Approvals](approvals.md) and [The console](console.md), and the [glossary](index.md#glossary)
explains words such as question and record.
"""
_CHAPTERS = {
    "api": "API of the command line",
    "page": "Pages of questions",
    "console": "Console",
    "slack": "Slack",
}
"""Title of each tag of the document, in the order of the page."""

Node = Mapping[str, Any]


def page(document: Node) -> str:
    """Return the text of the page.

    Raises:
        KeyError: an operation has a tag that is no chapter.
    """
    about = {tag["name"]: tag["description"] for tag in document["tags"]}
    operations: dict[str, list[str]] = {tag: [] for tag in _CHAPTERS}
    for path, entry in document["paths"].items():
        for method in METHODS:
            if method in entry:
                (tag,) = entry[method]["tags"]
                operations[tag].append(_operation(path, method, entry, document))
    parts = [_LEAD]
    for tag, title in _CHAPTERS.items():
        lead = "\n".join(wrap(about[tag], 100))
        parts += [f"## {title}\n\n{lead}\n", *operations[tag]]
    parts += ["## Documents\n", *_documents(document)]
    return "\n".join(parts)


def _operation(path: str, method: str, entry: Node, document: Node) -> str:
    """Return the section of one operation."""
    operation = entry[method]
    lines = [f"### `{method.upper()} {path}`", "", *wrap(operation["summary"], 100)]
    if "description" in operation:
        lines += ["", *wrap(operation["description"], 100)]
    given = [*entry.get("parameters", ()), *operation.get("parameters", ())]
    rows = [_parameter_row(_resolved(one, document)) for one in given]
    if rows:
        lines += ["", "| parameter | in | meaning |", "|---|---|---|", *rows]
    body = operation.get("requestBody")
    if body is not None:
        lines += ["", f"Body: {_contents(body['content'])}."]
    lines += ["", "| status | meaning | body |", "|---|---|---|"]
    for status, answer in operation["responses"].items():
        resolved = _resolved(answer, document)
        content = _contents(resolved.get("content", {}))
        lines.append(f"| {status} | {_cell(resolved['description'])} | {content} |")
    return "\n".join([*lines, ""])


def _parameter_row(parameter: Node) -> str:
    """Return the row of one parameter."""
    meaning = _cell(parameter.get("description", ""))
    return f"| `{parameter['name']}` | {parameter['in']} | {meaning} |"


def _contents(content: Node) -> str:
    """Return the kinds of a body, with the documents that they hold."""
    kinds = []
    for kind, media in content.items():
        schema = media.get("schema")
        kinds.append(f"`{kind}`" if schema is None else f"`{kind}`: {_kind(schema)}")
    return "; ".join(kinds)


def _documents(document: Node) -> Iterator[str]:
    """Yield a section for each document that has fields, by name."""
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines = [f"### {name}", ""]
        if "description" in schema:
            lines += [*wrap(schema["description"], 100), ""]
        if "properties" in schema:
            lines += _field_table(schema, document)
        else:
            lines.append(f"{_kind(schema)}.")
        yield "\n".join([*lines, ""])


def _field_table(schema: Node, document: Node) -> list[str]:
    """Return the table of the fields of a document. A field without a meaning of its own has that
    of the document that it refers to."""
    lines = ["| field | kind | always there | meaning |", "|---|---|---|---|"]
    required = schema.get("required", ())
    for field, inner in schema["properties"].items():
        is_required = "yes" if field in required else "no"
        described = inner if "description" in inner else _resolved(inner, document)
        meaning = _cell(described.get("description", ""))
        lines.append(f"| `{field}` | {_kind(inner)} | {is_required} | {meaning} |")
    return lines


def _kind(schema: Node) -> str:
    """Return in words which values fit a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word, joined in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if word in schema:
            return joined.join(_kind(one) for one in schema[word])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    kinds = schema.get("type", "any value")
    if isinstance(kinds, list):
        return " or ".join(_kind({**schema, "type": one}) for one in kinds)
    if kinds == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kinds == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object by name: {_kind(schema['additionalProperties'])}"
    if kinds == "object" and schema.get("properties"):
        fields = ", ".join(f"`{field}`" for field in schema["properties"])
        return f"object with {fields}"
    return str(kinds)


def _resolved(node: Node, document: Node) -> Node:
    """Return what a reference of the document leads to."""
    reference = node.get("$ref")
    if reference is None:
        return node
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    resolved: Node = found
    return resolved


def _cell(text: str) -> str:
    """Return a text as the cell of a table takes it."""
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write the page."""
    document = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))
    PAGE.write_text(page(document), encoding="utf-8")


if __name__ == "__main__":
    main()
