"""Makes the JSON Schema of the policy document, by which editors complete, explain and check it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from textwrap import dedent
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from governor.core.units import without
from governor.policy.model.policy import Override, Policy
from governor.policy.sections import ONLY_IN_BASE, SCHEMA_VERSION


class _Schema(GenerateJsonSchema):
    """Writes the defaults of amounts as documents do: as numbers."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, Decimal):
            if dft == int(dft):
                return int(dft)
            return float(dft)
        return super().encode_default(dft)


@cache
def policy_schema() -> dict[str, Any]:
    """Return the schema, with the docstring of each setting as its description."""
    schema = TypeAdapter(Policy).json_schema(schema_generator=_Schema)
    override = TypeAdapter(Override).json_schema(ref_template="#/$defs/{model}")
    definitions = schema.setdefault("$defs", {})
    definitions.update(override.pop("$defs"))
    definitions["Override"] = override
    for kind in (Policy, Override):
        for section in (kind, *sections(kind)):
            described = schema if section is Policy else definitions[section.__name__]
            described["description"] = " ".join((inspect.getdoc(section) or "").split())
            for name, meaning in meanings(section).items():
                described["properties"][name]["description"] = meaning
    definitions["OverrideSet"] = _partial_schema(schema)
    override["properties"]["name"]["pattern"] = r"^\S(.*\S)?$"
    override["properties"]["set"] = {"$ref": "#/$defs/OverrideSet"}
    schema["properties"]["version"] = {
        "const": SCHEMA_VERSION,
        "description": "Version of this schema.",
    }
    schema["properties"]["overrides"] = {
        "type": "array",
        "description": "Settings for some instances; later ones win.",
        "items": {"$ref": "#/$defs/Override"},
    }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "GPU Governor policy"
    return schema


def _partial_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of what an override may set: all but the sweep's own settings.

    Nothing is required and no default is given: what an override leaves out is as the document
    says.
    """
    properties = {}
    for name, setting in schema["properties"].items():
        if name not in ONLY_IN_BASE:
            properties[name] = _partial_setting(schema, setting)
    return {
        "type": "object",
        "description": "Any part of this document, except the settings of the sweep itself.",
        "additionalProperties": False,
        "properties": properties,
    }


def _partial_setting(schema: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    section = schema["$defs"].get(setting.get("$ref", "").rpartition("/")[2], {})
    if "required" in section:
        return without(section, ["required"])
    partial = deepcopy(dict(setting))
    partial.pop("default", None)
    return partial


def sections(kind: type) -> Iterator[type]:
    """Yield the dataclasses that the settings of a dataclass are made of, at any depth."""
    for hint in get_type_hints(kind).values():
        for part in (hint, *get_args(hint)):
            if is_dataclass(part) and isinstance(part, type):
                yield part
                yield from sections(part)


def meanings(kind: type) -> dict[str, str]:
    """Return the docstring of each setting of a dataclass; of a section without one, its own."""
    docstrings: dict[str, str] = {}
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for setting, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(setting.target, ast.Name)
            docstrings[setting.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    hints = get_type_hints(kind)
    texts = {}
    for field in fields(kind):
        name = field.name
        if name in docstrings:
            texts[name] = docstrings[name]
        else:
            texts[name] = _first_paragraph(hints[name])
    return texts


def _first_paragraph(hint: Any) -> str:
    """Return how the docstring of a section begins; an empty text for all other types."""
    if not is_dataclass(hint):
        return ""
    return (inspect.getdoc(hint) or "").split("\n\n")[0]


def settings_at(path: Sequence[str]) -> list[str]:
    """Return the settings that may stand at this path; an empty list where none may."""
    schema = policy_schema()
    node: Mapping[str, Any] = schema
    for part in path:
        node = _resolved(schema, node)
        inner = (
            node.get("properties", {}).get(part)
            or node.get("items")
            or node.get("additionalProperties")
        )
        if not isinstance(inner, Mapping):
            return []
        node = inner
    return list(_resolved(schema, node).get("properties", {}))


def setting_paths() -> list[str]:
    """Return the dotted path of every setting of the document's sections, `idle.window_minutes`."""
    paths = []
    for section in settings_at(()):
        for name in settings_at((section,)):
            paths.append(f"{section}.{name}")
    return paths


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the node that a reference stands for, or the object among several kinds."""
    for kind in node.get("anyOf", ()):
        if "$ref" in kind or kind.get("type") in ("object", "array"):
            node = kind
    name = node.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else node
