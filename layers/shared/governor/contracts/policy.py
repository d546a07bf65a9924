"""The policy document: YAML text to a policy book, with every mistake named by its path.

The schema is the domain's own dataclasses, so document and code cannot drift apart. An override is checked as
the whole policy it leads to, not by itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from governor.domain.instance import Instance
from governor.domain.policy import AppliedPolicy, OverrideMatch, Policy
from governor.errors import PolicyError

SCHEMA_VERSION = 1
"""Value of the document's optional `version` key."""

_POLICY = TypeAdapter(Policy)
_MATCH = TypeAdapter(OverrideMatch)
_ONLY_IN_BASE = ("selector", "targets", "breaker", "ownership", "managed", "budget")
"""Settings of the sweep as a whole; an override for some instances could not mean anything."""


@dataclass(frozen=True, slots=True)
class _Override:
    name: str
    match: OverrideMatch
    patch: Mapping[str, Any]


class PolicyBook:
    """A parsed policy document; answers which policy an instance is under. Fulfils the port `Policies`."""

    def __init__(self, document: Mapping[str, Any], version: str) -> None:
        base, overrides = _split(document)
        self._raw = base
        self._version = version
        self._base = AppliedPolicy(_policy(base, ""), version)
        self._overrides = tuple(_override(item, index, base) for index, item in enumerate(overrides))
        self._cache: dict[tuple[str, ...], AppliedPolicy] = {(): self._base}

    def base(self) -> AppliedPolicy:
        """The document without overrides."""
        return self._base

    def policies(self) -> list[tuple[str, Policy]]:
        """The base and, each by itself on top of it, every override, with their names."""
        found = [("base", self._base.policy)]
        for override in self._overrides:
            merged = _merge(self._raw, override.patch)
            found.append((override.name, _policy(merged, f"overrides.{override.name}")))
        return found

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """The policy of one instance; later overrides win.

        Raises:
            PolicyError: overrides that are fine one by one contradict each other together.
        """
        matching = [
            override
            for override in self._overrides
            if override.match.holds(
                account=instance.target.account,
                region=instance.target.region,
                family=instance.family,
                tags=instance.tags,
            )
        ]
        names = tuple(override.name for override in matching)
        if names not in self._cache:
            merged: Mapping[str, Any] = self._raw
            for override in matching:
                merged = _merge(merged, override.patch)
            path = "overrides." + "+".join(names)
            self._cache[names] = AppliedPolicy(_policy(merged, path), self._version, names)
        return self._cache[names]


def parse_policy(text: str) -> PolicyBook:
    """The policy book of a YAML document; empty text means all defaults.

    Raises:
        PolicyError: not YAML, repeated or unknown keys, values out of range; every problem with its path.
    """
    try:
        # _StrictLoader is a SafeLoader that also refuses repeated keys.
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506
    except yaml.YAMLError as error:
        raise PolicyError((("", f"not readable as YAML: {_one_line(error)}"),)) from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise PolicyError((("", "the document must be a mapping of settings"),))
    version = hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return PolicyBook(document, version)


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of the document, for editors."""
    schema = _POLICY.json_schema(schema_generator=GenerateJsonSchema)
    match = _MATCH.json_schema(ref_template="#/$defs/{model}")
    definitions = schema.setdefault("$defs", {})
    definitions.update(match.pop("$defs", {}))
    definitions["OverrideMatch"] = match
    schema["properties"]["version"] = {"const": SCHEMA_VERSION, "description": "Version of this schema."}
    schema["properties"]["overrides"] = {
        "type": "array",
        "description": "Settings for some instances; later ones win.",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "match", "set"],
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "match": {"$ref": "#/$defs/OverrideMatch"},
                "set": {
                    "type": "object",
                    "description": "Any part of this document, except the sweep's own.",
                },
            },
        },
    }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "GPU Governor policy"
    return schema


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice: YAML would silently take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _split(document: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[Any]]:
    base = dict(document)
    version = base.pop("version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise PolicyError((("version", f"is {version!r}; this release reads version {SCHEMA_VERSION}"),))
    overrides = base.pop("overrides", None) or []
    if not isinstance(overrides, list):
        raise PolicyError((("overrides", "must be a list"),))
    return base, overrides


def _override(item: object, index: int, base: Mapping[str, Any]) -> _Override:
    path = f"overrides.{index}"
    if not isinstance(item, dict):
        raise PolicyError(((path, "must be a mapping with name, match and set"),))
    problems = [(f"{path}.{key}", "unknown setting") for key in sorted(set(item) - {"name", "match", "set"})]
    problems += [(f"{path}.{key}", "is missing") for key in ("name", "match", "set") if key not in item]
    patch = item.get("set")
    if "set" in item and not isinstance(patch, dict):
        problems.append((f"{path}.set", "must be a mapping of settings"))
    elif isinstance(patch, dict):
        reason = "is a setting of the whole sweep and cannot be overridden"
        problems += [(f"{path}.set.{key}", reason) for key in _ONLY_IN_BASE if key in patch]
    if problems:
        raise PolicyError(tuple(problems))
    try:
        match = _MATCH.validate_python(item["match"])
    except ValidationError as error:
        raise PolicyError(_problems(error, f"{path}.match")) from error
    if not isinstance(patch, dict):
        raise TypeError("checked above")
    _policy(_merge(base, patch), f"{path}.set")
    return _Override(str(item["name"]), match, patch)


def _policy(document: Mapping[str, Any], path: str) -> Policy:
    try:
        return _POLICY.validate_python(document)
    except ValidationError as error:
        raise PolicyError(_problems(error, path)) from error


def _problems(error: ValidationError, path: str) -> tuple[tuple[str, str], ...]:
    problems = []
    for item in error.errors(include_url=False):
        where = ".".join([path, *(str(part) for part in item["loc"])]).strip(".")
        unknown = item["type"] in ("unexpected_keyword_argument", "extra_forbidden")
        reason = "unknown setting" if unknown else item["msg"].removeprefix("Value error, ")
        problems.append((where, reason))
    return tuple(problems)


def _merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the patch on top; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in patch.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _one_line(error: yaml.YAMLError) -> str:
    return " ".join(str(error).split())
