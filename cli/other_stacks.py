"""Find other stacks of GPU Governor that govern the same instances.

They are in one account and Region, and for one value of the tag `Purpose`.
"""

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
    """Return the parameters of a stack by name."""
    values = {}
    for parameter in stack.get("Parameters", ()):
        values[parameter["ParameterKey"]] = parameter["ParameterValue"]
    return values


def stacks_over_same_instances(
    stacks: Iterable[Mapping[str, Any]], name: str, selector: str
) -> list[str]:
    """Return the names of the other stacks that govern what `selector` is on."""
    names = []
    for stack in stacks:
        is_another = stack["StackName"] != name and stack["StackStatus"] not in EMPTY
        if not is_another or not is_ours(stack):
            continue
        if parameters_of(stack)["SelectorTagValue"] == selector:
            names.append(str(stack["StackName"]))
    return names
