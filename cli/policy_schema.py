"""The JSON Schema of the policy document, by which editors complete, explain and check it."""

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

from governor.contracts.policy import ONLY_IN_BASE, SCHEMA_VERSION
from governor.domain.policy.policy import Override, Policy


class _Schema(GenerateJsonSchema):
    """Writes the defaults of amounts as documents do: as numbers."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, Decimal):
            return int(dft) if dft == int(dft) else float(dft)
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
    """Return the schema of what an override may set: any part of the document, except the sweep's
    own.

    Nothing is required and no default is given: what an override leaves out is as the document
    says.
    """
    properties = {
        name: deepcopy(setting)
        for name, setting in schema["properties"].items()
        if name not in ONLY_IN_BASE
    }
    for name, setting in properties.items():
        setting.pop("default", None)
        section = schema["$defs"].get(setting.get("$ref", "").rpartition("/")[2], {})
        if "required" in section:
            properties[name] = {key: value for key, value in section.items() if key != "required"}
    return {
        "type": "object",
        "description": "Any part of this document, except the sweep's own.",
        "additionalProperties": False,
        "properties": properties,
    }


def sections(kind: type) -> Iterator[type]:
    """Yield the dataclasses that the settings of a dataclass are made of, at any depth."""
    for hint in get_type_hints(kind).values():
        for found in (hint, *get_args(hint)):
            if is_dataclass(found) and isinstance(found, type):
                yield found
                yield from sections(found)


def meanings(kind: type) -> dict[str, str]:
    """Return the docstring under each setting of a dataclass; a section without one says it
    itself."""
    found: dict[str, str] = {}
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for setting, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(setting.target, ast.Name)
            found[setting.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    hints = get_type_hints(kind)
    about = {name: inspect.getdoc(hint) or "" for name, hint in hints.items() if is_dataclass(hint)}
    return {
        one.name: found.get(one.name, about.get(one.name, "").split("\n\n")[0])
        for one in fields(kind)
    }


def settings_at(path: Sequence[str]) -> list[str]:
    """Return the settings that may stand where this path leads, by the schema; none where nothing
    may."""
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
    return [f"{one}.{name}" for one in settings_at(()) for name in settings_at((one,))]


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a reference, or the one of several kinds that is an object, stands for."""
    for one in node.get("anyOf", ()):
        if "$ref" in one or one.get("type") in ("object", "array"):
            node = one
    name = node.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else node
