"""Loads a command when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module


def later(module: str, function: str) -> Callable[[argparse.Namespace], int | None]:
    """Return a function that loads the module, and calls this function of it."""

    def run(arguments: argparse.Namespace) -> int | None:
        status: int | None = getattr(import_module(module), function)(arguments)
        return status

    return run
