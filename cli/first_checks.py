"""Check what a line names before its command is loaded, which takes a second or more.

The options of a command declare it with `set_defaults`:

- `reads`: the names of the arguments that name files to read.
- `reads_folders`: the names of those that may name folders, too.
- `offline`: the names of the options with which, all given, the command needs no AWS credentials.
  An empty tuple: it never needs any. Without it, the command always does.

Standard library only.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from cli.credentials import check_credentials
from cli.errors import CommandError

_STANDARD_INPUT = "-"


def check_first(given: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Check the files that a line names, and that there may be credentials.

    Raises:
        CommandError: a file cannot be read, or there are no credentials.
    """
    for name in getattr(given, "reads", ()):
        for path in _paths(given, name):
            _check_file(path)
    for name in getattr(given, "reads_folders", ()):
        for path in _paths(given, name):
            if not path.is_dir():
                _check_file(path)
    if _needs_credentials(given):
        check_credentials(environment)


def _paths(given: argparse.Namespace, name: str) -> list[Path]:
    """Return the paths that an argument names; none for standard input."""
    value = getattr(given, name)
    values = value if isinstance(value, list) else [value]
    return [Path(path) for path in values if path is not None and str(path) != _STANDARD_INPUT]


def _check_file(path: Path) -> None:
    """Check that a file can be read. A pipe is not opened: that would take what is in it.

    Raises:
        CommandError: it cannot be read, or is a folder.
    """
    try:
        is_pipe_or_device = path.exists() and not path.is_file() and not path.is_dir()
        if not is_pipe_or_device:
            path.open("rb").close()
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandError(f"{path} could not be read: {why}") from None


def _needs_credentials(given: argparse.Namespace) -> bool:
    offline = getattr(given, "offline", None)
    if offline is None:
        return True
    return not all(getattr(given, name) for name in offline)
