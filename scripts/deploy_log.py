"""Run SAM CLI: its change set goes to the terminal, and everything that it says to a log file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_CHANGE_SET = "CloudFormation stack changeset"
_EVENTS = "CloudFormation events from stack operations"
_FAILED = "_FAILED"
_MOST_FAILURES = 20
_LAST = 15
"""Lines of a failed command that are shown where none names a failure."""


class Shown:
    """Picks what a person sees of the output of `sam deploy`: the change set, and the question
    below it, which ends without a new line."""

    def __init__(self) -> None:
        self._line = ""
        self._is_on = False

    def feed(self, text: str) -> str:
        """Return the part of the next text that is shown."""
        shown = ""
        for piece in text.splitlines(keepends=True):
            begun = self._line
            self._line += piece
            if self._line.startswith(_CHANGE_SET):
                self._is_on = True
            # The answer to the question ends its line on the terminal, not here.
            if _EVENTS in self._line:
                self._is_on = False
            if self._is_on:
                shown += piece if begun else self._line
            if piece.endswith("\n"):
                self._line = ""
        return shown


def run_logged(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """Run a command in the folder of the project, and append its output to the log.

    Show the change set of a deploy. Where the command fails, show the lines that say why. Return
    its exit status, or 127 if there is no such command.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    shown = Shown()
    lines = b""
    try:
        process = subprocess.Popen(
            list(command),
            env=environment,
            cwd=log.parent.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except FileNotFoundError:
        return 127
    assert process.stdout is not None
    with process.stdout, log.open("ab") as file:
        while chunk := os.read(process.stdout.fileno(), 65536):
            file.write(chunk)
            file.flush()
            lines += chunk
            sys.stdout.write(shown.feed(chunk.decode("utf-8", errors="replace")))
            sys.stdout.flush()
    status = process.wait()
    if status != 0:
        print("\n".join(why_failed(lines.decode("utf-8", errors="replace"))), file=sys.stderr)
    return status


def why_failed(output: str) -> list[str]:
    """Return the lines that name a failure; where none does, the last ones."""
    lines = output.splitlines()
    failures = [line.rstrip() for line in lines if _FAILED in line]
    return failures[:_MOST_FAILURES] or [line.rstrip() for line in lines[-_LAST:]]
