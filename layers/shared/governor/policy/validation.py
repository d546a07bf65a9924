"""Validates settings against a dataclass of the policy: finds unknown settings and wrong values,
and words each mistake for a person.

This module knows no rule of the policy: those are in the dataclasses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from governor.core.settings import ContradictionError, Mistake, SettingError
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Override, Policy
from governor.policy.yaml_document import Path, shown

Made = TypeVar("Made", Policy, Override, Ownership)
_MOST_TO_READ_AGAIN = 100
"""With more mistakes than this, nobody needs those that they hide, and each reading of such a
document takes the sweep's time."""


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's validator of a dataclass."""
    # Made on first use: not every function reads a policy, nor does every policy have overrides.
    return TypeAdapter(kind)


def validated(
    kind: type[Made], settings: object, **given: Any
) -> tuple[Made | None, list[Mistake]]:
    """Return the section that these settings make, and no mistakes. If they have mistakes, return
    `None`, and each mistake with its path within the settings.

    The values in `given`, which are parsed sections by field, then replace those of the section,
    which is checked again.
    """
    try:
        return replace(_read(kind, settings), **given), []
    except ValidationError as error:
        return None, _every_mistake(kind, settings, error)
    except SettingError as error:
        return None, list(error.mistakes)


def _read(kind: type[Made], settings: object) -> Made:
    """Return the section that these settings make. Raises: ValidationError."""
    reader: TypeAdapter[Made] = _reader(cast(Any, kind))
    # Read as JSON: a list may be a tuple there, and text may be a choice, but no text is a number
    # or a flag.
    return reader.validate_json(json.dumps(settings), strict=True)


def _every_mistake(kind: type[Made], settings: object, error: ValidationError) -> list[Mistake]:
    """Return the mistakes of these settings, each with its path: those in `error`, and those that
    they hide.

    A section checks its ranges and contradictions only if it has no unknown setting and no value
    of a wrong type. So the settings are read again without unknown ones, and then without all that
    have mistakes. In that last reading, defaults stand for values of the document. They contradict
    nothing and replace nothing that is required.
    """
    mistakes = _mistakes(error)
    unknown = {path for path, reason in mistakes if reason == _UNKNOWN}
    if unknown and len(mistakes) <= _MOST_TO_READ_AGAIN:
        mistakes += _new_mistakes(kind, settings, unknown, mistakes, ignored=())
    if len(mistakes) > _MOST_TO_READ_AGAIN:
        return mistakes
    wrong = {path for path, _ in mistakes}
    return mistakes + _new_mistakes(kind, settings, wrong, mistakes, ignored=(ContradictionError,))


def _new_mistakes(
    kind: type[Made],
    settings: object,
    left_out: Collection[Path],
    known: Collection[Mistake],
    ignored: tuple[type[SettingError], ...],
) -> list[Mistake]:
    """Return the mistakes of the settings without those at the paths `left_out`, by paths within
    the whole settings. Mistakes at the paths of `known` ones, and of the types in `ignored`, are
    not among them; empty if no other is."""
    kept_indices: dict[Path, list[int]] = {}
    rest = _without(settings, left_out, kept_indices)
    try:
        _read(kind, rest)
    except ValidationError as error:
        known_paths = {path for path, _ in known}
        new_mistakes = []
        for shifted_path, reason in _mistakes(error, ignored):
            path = _path_before(kept_indices, shifted_path)
            if path not in known_paths:
                new_mistakes.append((path, reason))
        return new_mistakes
    return []


def _without(
    settings: Any,
    left_out: Collection[Path],
    kept_indices: dict[Path, list[int]],
    above: Path = (),
) -> Any:
    """Return a copy of the settings at the path `above` without those at the paths `left_out`. Add
    to `kept_indices`, by the path of each list, the indices of the items that the copy has."""
    if isinstance(settings, dict):
        kept: dict[str, Any] = {}
        for name, value in settings.items():
            path = (*above, str(name))
            if path not in left_out:
                kept[name] = _without(value, left_out, kept_indices, path)
        return kept
    if isinstance(settings, list):
        items: list[Any] = []
        indices = kept_indices[above] = []
        for index, item in enumerate(settings):
            path = (*above, str(index))
            if path not in left_out:
                items.append(_without(item, left_out, kept_indices, path))
                indices.append(index)
        return items
    return settings


def _path_before(kept_indices: Mapping[Path, Sequence[int]], shifted_path: Path) -> Path:
    """Return the path that a setting had before others were left out, which moved the later items
    of a list forward. `kept_indices` is what `_without` has filled."""
    path: Path = ()
    for part in shifted_path:
        indices = kept_indices.get(path)
        if indices is not None and part.isdecimal():
            path = (*path, str(indices[int(part)]))
        else:
            path = (*path, part)
    return path


def _mistakes(
    error: ValidationError, ignored: tuple[type[SettingError], ...] = ()
) -> list[Mistake]:
    """Return the mistakes that the validator has found, each with its path, without those that a
    section found and raised as one of the types in `ignored`. The path of a mistake that a section
    found itself goes on from the section to the setting."""
    mistakes: list[Mistake] = []
    for details in error.errors(include_url=False):
        path = tuple(str(part) for part in details["loc"])
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, ignored):
            continue
        if isinstance(cause, SettingError):
            mistakes += [((*path, *inner_path), reason) for inner_path, reason in cause.mistakes]
        else:
            mistakes.append((path, _reason(details)))
    return mistakes


_UNKNOWN = "unknown setting"
_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text; put it in quotes",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping of settings",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "greater_than": "more than {gt:.15g}",
    "greater_than_equal": "at least {ge:.15g}",
    "less_than_equal": "at most {le:.15g}",
}
"""The expected value, by the validator's name of the error."""


def _reason(details: ErrorDetails) -> str:
    """Return what is wrong with a setting, as a person reads it after its path: `is 500; it must be
    at most 100`, `unknown setting`, `is missing`. For a kind of mistake without words of ours, it
    is the validator's own message."""
    kind = details["type"]
    if kind == "unexpected_keyword_argument":
        return _UNKNOWN
    if kind == "missing":
        return "is missing"
    if kind not in _WANTED:
        return details["msg"].removeprefix("Value error, ")
    wanted = _WANTED[kind].format(**details.get("ctx", {}))
    # The validator shows members of an enum as Python writes them: <Action.STOP: 'stop'>.
    wanted = re.sub(r"<[^:>]*: ([^>]*)>", r"\1", wanted)
    return f"is {shown(details.get('input'))}; it must be {wanted}"
