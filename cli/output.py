"""The output of a command: lines for people as they come, or with `--json` one document at the
end."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Self


class Output:
    """Every line goes with the facts that it says; `--json` prints those and none of the lines.

    Nothing is printed as JSON where the command ends with an error.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._as_json = bool(arguments.json)
        self._document: dict[str, object] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._as_json and kind is None:
            print(json.dumps(self._document, indent=2, default=str))

    def say(self, text: str, **facts: object) -> None:
        """One fact each of its own name."""
        self._document |= facts
        self._print(text)

    def list(self, text: str, name: str, fact: Mapping[str, object]) -> None:
        """One of several facts of a name."""
        found = self._document.setdefault(name, [])
        assert isinstance(found, list)
        found.append(dict(fact))
        self._print(text)

    def _print(self, text: str) -> None:
        if text and not self._as_json:
            print(text)
