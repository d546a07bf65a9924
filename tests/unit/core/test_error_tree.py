"""The tree at the head of `governor.core.errors` names every error of the project, at its place."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import cli
import evaluation
import governor
import simulation
from governor.core import errors

_LINE = re.compile(r"^    (?P<lead>[│├└─ ]*)(?P<name>\w+)(?: {2,}\S.*)?$")


def drawn() -> dict[str, str | None]:
    """Name to parent, as the docstring says."""
    found: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        depth = len(match["lead"]) // 4
        found[match["name"]] = above[depth - 1] if depth else None
        above[depth:] = [match["name"]]
    return found


def modules() -> Iterator[ModuleType]:
    """Every module of the layer and of the tools."""
    for package in (governor, cli, simulation, evaluation):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def defined() -> dict[str, str]:
    """Name to parent of every error class that a module defines for others."""
    found = {}
    for module in modules():
        for name, one in vars(module).items():
            is_error = (
                isinstance(one, type) and issubclass(one, Exception) and not name.startswith("_")
            )
            if is_error and one.__module__ == module.__name__:
                found[name] = one.__base__.__name__
    return found


def test_the_tree_is_whole() -> None:
    """No error is missing, none is left that has gone, and each stands under its parent."""
    tree = drawn()
    roots = {name for name, parent in tree.items() if parent is None}

    assert {"GovernorError", "ValueError", "Exception"} == roots
    expected = {name: parent for name, parent in tree.items() if parent is not None}
    assert len(expected) > 30
    assert expected | {"GovernorError": "Exception"} == defined()
