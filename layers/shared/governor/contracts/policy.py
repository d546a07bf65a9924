"""The policy document: YAML text to a policy book, with every mistake named by its path and line.

The schema is the domain's own dataclasses, so document and code cannot drift apart. An override is checked as
the whole policy it leads to, not by itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from decimal import Decimal
from time import process_time
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from governor.contracts.yaml_document import Document, Path, dotted, read_document, shown
from governor.domain.instance import Instance
from governor.domain.policy import RETIRED_SETTINGS, AppliedPolicy, OverrideMatch, Policy
from governor.domain.settings import Mistake, SettingError
from governor.errors import PolicyError, PolicyProblem

SCHEMA_VERSION = 1
"""Value of the document's optional `version` key."""

_POLICY = TypeAdapter(Policy)
_MATCH = TypeAdapter(OverrideMatch)
_ONLY_IN_BASE = ("selector", "targets", "breaker", "ownership", "managed", "budget")
"""Settings of the sweep as a whole; an override for some instances could not mean anything."""
_MOST_COMBINATIONS = 1_000
"""Of overrides that can meet in one instance."""
_LONGEST_SECONDS = 2.0
"""For which they are tried; many overrides take long to be put together, too."""


@dataclass(frozen=True, slots=True)
class _Override:
    name: str
    match: OverrideMatch
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Meetings:
    """What overrides amount to where several are for the same instance.

    `policies` by the names of the overrides; `problems` where they contradict each other. `all_tried` is
    false where so many can meet that not every combination was looked at.
    """

    policies: tuple[tuple[tuple[str, ...], Policy], ...]
    problems: tuple[PolicyProblem, ...]
    all_tried: bool


class PolicyBook:
    """A parsed policy document; answers which policy an instance is under. Fulfils the port `Policies`."""

    def __init__(self, document: Document) -> None:
        """Checks all of it.

        Raises:
            PolicyError: unknown settings, values out of range or of another kind, overrides of one name.
        """
        settings, items, mistakes = _split(document.settings)
        settings, retired = _without_retired(settings)
        base, in_base = _checked(settings)
        mistakes += in_base
        overrides: list[_Override] = []
        for index, written in enumerate(items):
            item = written
            if isinstance(item, dict) and isinstance(item.get("set"), dict):
                patch, old = _without_retired(item["set"], in_base=False)
                item = {**item, "set": patch}
                retired += [("overrides", str(index), "set", *path) for path in old]
            override, in_override = _override(item, settings, frozenset(in_base))
            mistakes += [(("overrides", str(index), *path), reason) for path, reason in in_override]
            overrides += [override] if override else []
        mistakes += _named_twice(items)
        if base is None or mistakes:
            problems = [PolicyProblem(dotted(path), why, document.line(path)) for path, why in mistakes]
            raise PolicyError(sorted(problems, key=lambda problem: problem.line or 0))
        self._retired = tuple(
            PolicyProblem(
                dotted(path), "is no longer a setting and is ignored; remove it", document.line(path)
            )
            for path in retired
        )
        self._raw = settings
        self._lines = document
        self._overrides = tuple(overrides)
        # Of an accepted document: text of no bounded meaning is not worth a hash.
        text = json.dumps(document.settings, sort_keys=True)
        self._version = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._base = AppliedPolicy(base, self._version)
        # By index: what tells overrides apart is where they stand.
        self._cache: dict[tuple[int, ...], AppliedPolicy] = {(): self._base}

    def base(self) -> AppliedPolicy:
        """The document without overrides."""
        return self._base

    def retired(self) -> tuple[PolicyProblem, ...]:
        """Settings of the release before that the document still holds: ignored, with a warning."""
        return self._retired

    def policies(self) -> list[tuple[str, Policy]]:
        """The base and, each by itself on top of it, every override, with their names."""
        found = [("base", self._base.policy)]
        for index, override in enumerate(self._overrides):
            found.append((override.name, self._applied((index,)).policy))
        return found

    def meetings(self, seconds: float = _LONGEST_SECONDS) -> Meetings:
        """What the overrides amount to that can be for one instance together, few at a time first.

        It ends after `seconds` of processor time, or with the thousandth: `all_tried` says so.
        """
        ends = process_time() + seconds
        policies: list[tuple[tuple[str, ...], Policy]] = []
        problems: list[PolicyProblem] = []
        refused: list[frozenset[int]] = []
        tried = 0
        for together in self._meeting():
            if process_time() >= ends or (together and tried == _MOST_COMBINATIONS):
                return Meetings(tuple(policies), tuple(problems), all_tried=False)
            tried += bool(together)
            if not together or any(one <= set(together) for one in refused):
                continue
            names = tuple(self._overrides[index].name for index in together)
            policy, mistakes = self._joined(together)
            if policy is not None:
                policies.append((names, policy))
                continue
            refused.append(frozenset(together))
            path = ("overrides", str(together[-1]))
            quoted = ", ".join(shown(name) for name in names)
            problems += [
                PolicyProblem(dotted(path), f"where {quoted} meet: {reason}", self._lines.line(path))
                for _, reason in mistakes
            ]
        return Meetings(tuple(policies), tuple(problems), all_tried=True)

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """The policy of one instance; later overrides win.

        Raises:
            PolicyError: overrides that are fine one by one contradict each other together.
        """
        return self._applied(
            tuple(
                index
                for index, override in enumerate(self._overrides)
                if override.match.holds(
                    account=instance.target.account,
                    region=instance.target.region,
                    family=instance.family,
                    tags=instance.tags,
                )
            )
        )

    def _applied(self, indices: tuple[int, ...]) -> AppliedPolicy:
        if indices not in self._cache:
            names = tuple(self._overrides[index].name for index in indices)
            policy, mistakes = self._joined(indices)
            if policy is None:
                above = ("overrides", "+".join(names))
                raise PolicyError(PolicyProblem(dotted((*above, *path)), why) for path, why in mistakes)
            self._cache[indices] = AppliedPolicy(policy, self._version, names)
        return self._cache[indices]

    def _joined(self, indices: Iterable[int]) -> tuple[Policy | None, list[Mistake]]:
        """The policy that overrides lead to. What none can set, such as people, is not read anew for each."""
        merged: Mapping[str, Any] = self._raw
        for index in indices:
            merged = _merge(merged, self._overrides[index].patch)
        policy, mistakes = _checked(_without_base_only(merged))
        if policy is None:
            return None, mistakes
        base = self._base.policy
        try:
            return replace(policy, **{name: getattr(base, name) for name in _ONLY_IN_BASE}), []
        except SettingError as error:
            return None, list(error.mistakes)

    def _meeting(self) -> Iterator[tuple[int, ...]]:
        """Two and more overrides that are for some instance together, with no other: fewer first.

        Between them, an empty tuple for whatever led to nothing new: that takes its time, too.
        """
        matches = [override.match for override in self._overrides]
        wave: list[tuple[tuple[int, ...], OverrideMatch]] = [((), OverrideMatch())]
        seen: set[tuple[int, ...]] = set()
        while wave:
            following: list[tuple[tuple[int, ...], OverrideMatch]] = []
            for members, match in wave:
                for index, other in enumerate(matches):
                    joined = None if index in members else match.joined(other)
                    if joined is None:
                        continue
                    # Whatever is for all whom these are for is always with them.
                    together = tuple(i for i, one in enumerate(matches) if joined.joined(one) == joined)
                    if together in seen:
                        yield ()
                        continue
                    seen.add(together)
                    following.append((together, joined))
                    yield together if len(together) > 1 else ()
            wave = following


def parse_policy(text: str) -> PolicyBook:
    """The policy book of a YAML document; empty text means all defaults.

    Raises:
        PolicyError: not YAML, repeated or unknown keys, values out of range; each with its path and line.
    """
    return PolicyBook(read_document(text))


class _Schema(GenerateJsonSchema):
    """Writes the defaults of amounts as documents do: as numbers."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, Decimal):
            return int(dft) if dft == int(dft) else float(dft)
        return super().encode_default(dft)


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of the document, for editors."""
    schema = _POLICY.json_schema(schema_generator=_Schema)
    match = _MATCH.json_schema(ref_template="#/$defs/{model}")
    definitions = schema.setdefault("$defs", {})
    definitions.update(match.pop("$defs", {}))
    definitions["OverrideMatch"] = match
    definitions["OverrideSet"] = _partial_schema(schema)
    schema["properties"]["version"] = {"const": SCHEMA_VERSION, "description": "Version of this schema."}
    schema["properties"]["overrides"] = {
        "type": "array",
        "description": "Settings for some instances; later ones win.",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "match", "set"],
            "properties": {
                "name": {
                    "type": "string",
                    "pattern": r"^\S(.*\S)?$",
                    "description": "Its own: no other has it.",
                },
                "match": {"$ref": "#/$defs/OverrideMatch"},
                "set": {"$ref": "#/$defs/OverrideSet"},
            },
        },
    }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "GPU Governor policy"
    return schema


def _partial_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Of what an override may set: any part of the document, except the sweep's own.

    What a section of the document must hold may stand there and not here. No default is told: what an
    override leaves out is as the document says.
    """
    properties = {
        name: deepcopy(setting) for name, setting in schema["properties"].items() if name not in _ONLY_IN_BASE
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


def _split(document: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[Any], list[Mistake]]:
    """The settings, the overrides, and what is wrong with the frame they stand in."""
    settings = dict(document)
    mistakes: list[Mistake] = []
    version = settings.pop("version", SCHEMA_VERSION)
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        reason = f"is {shown(version)}; this release reads version {SCHEMA_VERSION}"
        mistakes.append((("version",), reason))
    overrides = settings.pop("overrides", None)
    if overrides is not None and not isinstance(overrides, list):
        mistakes.append((("overrides",), "must be a list"))
        overrides = None
    return settings, overrides or (), mistakes


def _without_retired(
    settings: Mapping[str, Any], *, in_base: bool = True
) -> tuple[dict[str, Any], list[Path]]:
    """The settings without those of the release before, and the paths of these."""
    left, found = dict(settings), []
    for path in sorted(RETIRED_SETTINGS):
        section = left.get(path[0])
        if path[0] not in left or (not in_base and path[0] in _ONLY_IN_BASE):
            continue
        if len(path) == 1:
            del left[path[0]]
        elif isinstance(section, dict) and path[1] in section:
            left[path[0]] = {name: value for name, value in section.items() if name != path[1]}
        else:
            continue
        found.append(path)
    # A section of which nothing is left is none.
    if left.get("survival") == {}:
        del left["survival"]
    return left, found


def _override(
    item: object, base: Mapping[str, Any], in_base: frozenset[Mistake]
) -> tuple[_Override | None, list[Mistake]]:
    """An override, or `None`, and its mistakes by paths within it; the base's own are not told again."""
    if not isinstance(item, dict):
        return None, [((), "must be a mapping with name, match and set")]
    mistakes: list[Mistake] = [((key,), "unknown setting") for key in item if key not in _OF_OVERRIDE]
    mistakes += [((key,), "is missing") for key in _OF_OVERRIDE if key not in item]
    name, patch, match = item.get("name"), item.get("set"), OverrideMatch()
    if "name" in item and not (isinstance(name, str) and name.strip()):
        mistakes.append((("name",), f"is {shown(name)}; it must be text"))
    elif isinstance(name, str) and name != name.strip():
        mistakes.append((("name",), f"is {shown(name)}; it has no space before or after it"))
    if "match" in item:
        try:
            match = _MATCH.validate_json(json.dumps(item["match"]), strict=True)
        except ValidationError as error:
            mistakes += [(("match", *path), reason) for path, reason in _mistakes(error)]
    if isinstance(patch, dict):
        reason = "is a setting of the whole sweep and cannot be overridden"
        mistakes += [(("set", key), reason) for key in patch if key in _ONLY_IN_BASE]
        allowed = {key: value for key, value in patch.items() if key not in _ONLY_IN_BASE}
        _, found = _checked(_without_base_only(_merge(base, allowed)))
        mistakes += [
            (("set", *path), reason)
            for path, reason in found
            if (path, reason) not in in_base or _holds(allowed, path)
        ]
    elif "set" in item:
        mistakes.append((("set",), "must be a mapping of settings"))
    if mistakes or not isinstance(patch, dict):
        return None, mistakes
    return _Override(str(name), match, patch), []


_OF_OVERRIDE = ("name", "match", "set")


def _named_twice(items: Sequence[Any]) -> list[Mistake]:
    """Episodes record overrides by name, and messages tell them by it."""
    mistakes: list[Mistake] = []
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            reason = f"is the name of overrides.{first[name]}, too; give each its own"
            mistakes.append((("overrides", str(index), "name"), reason))
    return mistakes


def _holds(settings: object, path: Path) -> bool:
    """Whether a setting is written there."""
    for part in path:
        if not isinstance(settings, dict) or part not in settings:
            return isinstance(settings, list)
        settings = settings[part]
    return True


def _without_base_only(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _ONLY_IN_BASE}


def _checked(settings: Mapping[str, Any]) -> tuple[Policy | None, list[Mistake]]:
    try:
        # As JSON, in which a list may be a tuple and a text a choice, but no text is a number or a flag.
        return _POLICY.validate_json(json.dumps(settings), strict=True), []
    except ValidationError as error:
        return None, _mistakes(error)


def _mistakes(error: ValidationError) -> list[Mistake]:
    found: list[Mistake] = []
    for item in error.errors(include_url=False):
        path = tuple(str(part) for part in item["loc"])
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, SettingError):
            found += [((*path, *inner), reason) for inner, reason in cause.mistakes]
        else:
            found.append((path, _reason(item)))
    return found


_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text; put it in quotes",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping of settings",
    "dataclass_exact_type": "a mapping of settings",
}
"""What is wanted, by the validator's name for that something else stands there."""

_BOUNDS = {"ge": "at least", "le": "at most"}


def _reason(item: ErrorDetails) -> str:
    kind, context, value = item["type"], item.get("ctx", {}), shown(item.get("input"))
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return "unknown setting"
    if kind == "missing":
        return "is missing"
    if kind in _KINDS:
        return f"is {value}; it must be {_KINDS[kind]}"
    if "expected" in context:
        # The validator shows members of an enum as Python writes them: <Action.STOP: 'stop'>.
        expected = re.sub(r"<[^:>]*: ([^>]*)>", r"\1", context["expected"])
        return f"is {value}; it must be {expected}"
    for bound, said in _BOUNDS.items():
        if bound in context:
            return f"is {value}; it must be {said} {float(context[bound]):.15g}"
    return item["msg"].removeprefix("Value error, ")


def _merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the patch on top; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in patch.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
