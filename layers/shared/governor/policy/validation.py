"""Validate settings against a dataclass of the policy, and word each mistake for a person.

This module knows no rule of the policy: those are in the dataclasses.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from governor.core.settings import Mistake, SettingError
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Override, Policy
from governor.policy.yaml_document import shown

Made = TypeVar("Made", Policy, Override, Ownership)


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
    reader: TypeAdapter[Made] = _reader(cast(Any, kind))
    try:
        # Read as JSON: a list may be a tuple there, and text may be a choice, but no text is a
        # number or a flag.
        section = reader.validate_json(json.dumps(settings), strict=True)
        return replace(section, **given), []
    except ValidationError as error:
        return None, _mistakes(error)
    except SettingError as error:
        return None, list(error.mistakes)


def _mistakes(error: ValidationError) -> list[Mistake]:
    """Return the mistakes that the validator has found, each with its path. The path of a
    mistake that a section found itself goes on from the section to the setting."""
    mistakes: list[Mistake] = []
    for details in error.errors(include_url=False):
        path = tuple(str(part) for part in details["loc"])
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, SettingError):
            mistakes += [((*path, *inner_path), reason) for inner_path, reason in cause.mistakes]
        else:
            mistakes.append((path, _reason(details)))
    return mistakes


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
        return "unknown setting"
    if kind == "missing":
        return "is missing"
    if kind not in _WANTED:
        return details["msg"].removeprefix("Value error, ")
    wanted = _WANTED[kind].format(**details.get("ctx", {}))
    # The validator shows members of an enum as Python writes them: <Action.STOP: 'stop'>.
    wanted = re.sub(r"<[^:>]*: ([^>]*)>", r"\1", wanted)
    return f"is {shown(details.get('input'))}; it must be {wanted}"
