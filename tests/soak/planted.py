"""Plants a bug into the running product: a changed line of a function, or a changed state of the
workflow.

A change names the text that it replaces, so it fails loudly where the product no longer has that
text.
"""

from __future__ import annotations
import __future__

import copy
import importlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

from tests.soak.parts import ROOT


class NotPlanted(Exception):
    """The product no longer has what a bug changes."""


@dataclass(frozen=True)
class Edit:
    """Another line in a function of the product: `where` is `module:Class.function`, after
    `governor.`."""

    where: str
    old: str
    new: str

    def function(self) -> FunctionType:
        """Return the function. Raises: NotPlanted."""
        module, _, path = self.where.partition(":")
        found: Any = importlib.import_module(f"governor.{module}")
        for name in path.split("."):
            if not hasattr(found, name):
                raise NotPlanted(f"governor.{module} has no {path}")
            found = inspect.getattr_static(found, name)
        if isinstance(found, property):
            found = found.fget
        # A decorated function keeps the one that is written there.
        found = inspect.unwrap(found)
        if not isinstance(found, FunctionType):
            raise NotPlanted(f"{self.where} is no function")
        return found

    def code(self) -> CodeType:
        """Return the code with the change. Raises: NotPlanted."""
        function = self.function()
        source = _source(function)
        if source.count(self.old) != 1:
            raise NotPlanted(f"{self.where} has {source.count(self.old)} times: {self.old}")
        changed = source.replace(self.old, self.new)
        flags = __future__.annotations.compiler_flag
        module = compile(changed, f"<planted in {self.where}>", "exec", flags, dont_inherit=True)
        return _code_named(module, function.__name__)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the function run with the change."""
        function = self.function()
        source = _source(function)
        before = function.__code__
        function.__code__ = self.code()
        _CHANGED[function] = source.replace(self.old, self.new)
        try:
            yield
        finally:
            function.__code__ = before
            _CHANGED[function] = source


_CHANGED: dict[FunctionType, str] = {}
"""The text of functions that other edits have changed already."""


def _source(function: FunctionType) -> str:
    return _CHANGED.get(function) or textwrap.dedent(inspect.getsource(function))


def _code_named(module: CodeType, name: str) -> CodeType:
    for constant in module.co_consts:
        if isinstance(constant, CodeType) and constant.co_name == name:
            return constant
    raise NotPlanted(f"the changed text defines no {name}")


Definition = dict[str, Any]


@dataclass(frozen=True)
class Rewire:
    """Other states in the workflow's definition."""

    change: Callable[[Mapping[str, Any]], None]
    """Changes the states in place."""

    def definition(self) -> Definition:
        """Return the definition with the change. Raises: NotPlanted."""
        before: Definition = json.loads(
            (ROOT / "statemachines" / "remediation.asl.json").read_text()
        )
        after = copy.deepcopy(before)
        try:
            self.change(after["States"])
        except KeyError as error:
            raise NotPlanted(f"the workflow has no {error}") from None
        if before == after:
            raise NotPlanted("the workflow is as it was")
        return after

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have executions follow the changed definition."""
        changed = self.definition()
        with mock.patch("tests.soak.cloud.definition", return_value=changed):
            yield


Change = Edit | Rewire
