"""Checks the arguments of a command before the command is loaded, which takes a second or more.

The options of a command declare it with `set_defaults`:

- `reads`: the names of the arguments that name files to read.
- `reads_folders`: the names of those that may name folders, too.
- `writes`: the names of those that name files to write. What is written comes last, after work that
  may take minutes and cost money.
- `offline`: the names of the options with which, all given, the command needs no AWS credentials
  and no Region. An empty tuple: it never needs any. Without it, the command always does.
- `any_region`: true if the command chooses a Region for its calls where nothing names one.

Standard library only.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from cli.credentials import check_credentials, check_region
from cli.errors import CommandError

_STANDARD_STREAM = "-"


def check_first(given: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Check the files that a line names, and that there may be credentials and a Region.

    Raises:
        CommandError: a file cannot be read or written, or there are no credentials, or no Region.
    """
    for name in getattr(given, "reads", ()):
        for path in _paths(given, name):
            _check_file(path)
    for name in getattr(given, "reads_folders", ()):
        for path in _paths(given, name):
            if not path.is_dir():
                _check_file(path)
    for name in getattr(given, "writes", ()):
        for path in _paths(given, name):
            _check_can_write(path)
    if not _needs_aws(given):
        return
    check_credentials(environment)
    if not given.region and not getattr(given, "any_region", False):
        check_region(environment)


def _paths(given: argparse.Namespace, name: str) -> list[Path]:
    """Return the paths that an argument names; none for standard input or output."""
    value = getattr(given, name)
    values = value if isinstance(value, list) else [value]
    return [Path(path) for path in values if path is not None and str(path) != _STANDARD_STREAM]


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


def _check_can_write(path: Path) -> None:
    """Check that a file can be written, without making it: it may be a file of an earlier run,
    which stays as it is if the command fails.

    Raises:
        CommandError: it cannot be written, or is a folder.
    """
    if path.is_dir():
        raise CommandError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise CommandError(f"{path} could not be written: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CommandError(f"{path} could not be written: you lack permission to write there")


def _needs_aws(given: argparse.Namespace) -> bool:
    offline = getattr(given, "offline", None)
    if offline is None:
        return True
    return not all(getattr(given, name) for name in offline)
