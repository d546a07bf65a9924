"""Print the output of a command: lines for people, or with `--json` one document at the end."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Self

from cli.tables import print_text


class Output:
    """Each line comes with its facts. With `--json`, only the facts are printed.

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
        """Print a line, with facts that each have their own name."""
        self._document |= facts
        self._print(text)

    def document(self, text: str, **facts: object) -> None:
        """Print a document as it is, however wide: somebody stores it. Facts are as in `say`."""
        self._document |= facts
        if not self._as_json:
            print(text)

    def list(self, text: str, name: str, fact: Mapping[str, object]) -> None:
        """Print a line, and add its fact to those of the same name."""
        facts = self._document.setdefault(name, [])
        assert isinstance(facts, list)
        facts.append(dict(fact))
        self._print(text)

    def _print(self, text: str) -> None:
        if text and not self._as_json:
            print_text(text)
