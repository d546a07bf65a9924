"""Stacks over the same instances: in one account and Region, for the same value of the tag
`Purpose`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

EMPTY = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE")
"""States of a stack in which it has no resources."""
_MARK = frozenset({"Mode", "SelectorTagValue", "SweepRateMinutes"})
"""Parameters by which a stack of the template is known, of every release."""


def is_ours(stack: Mapping[str, Any]) -> bool:
    """Return whether a stack, as CloudFormation describes it, is one of GPU Governor."""
    return parameters_of(stack).keys() >= _MARK


def parameters_of(stack: Mapping[str, Any]) -> dict[str, str]:
    """Its parameters by name."""
    return {one["ParameterKey"]: one["ParameterValue"] for one in stack.get("Parameters", ())}


def twins(stacks: Iterable[Mapping[str, Any]], name: str, selector: str) -> list[str]:
    """Return the names of the other stacks that govern what `selector` is on."""
    return [
        str(one["StackName"])
        for one in stacks
        if one["StackName"] != name
        and one["StackStatus"] not in EMPTY
        and is_ours(one)
        and parameters_of(one)["SelectorTagValue"] == selector
    ]
