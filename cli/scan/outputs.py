"""Print a report as the command line asks for it, and write its files."""

from __future__ import annotations

import argparse
import json
import sys
from io import TextIOWrapper
from pathlib import Path

from cli.errors import CommandError
from cli.notes import print_note
from cli.scan.tags import tag_commands
from governor.core.documents import plain
from governor.policy.model.policy import Policy
from governor.scan.documents import report_document, rows_csv
from governor.scan.model import Report

_STANDARD_OUTPUT = "-"


def print_report(report: Report, arguments: argparse.Namespace) -> None:
    """Print the report on standard output: JSON, CSV, commands that tag, or else the table. Where
    it is not the table, what limits the report goes to standard error.

    Raises: CommandError if standard output cannot be written; BrokenPipeError if nobody reads it.
    """
    _allow_all_characters()
    try:
        _print(report, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"the report could not be written: {error.strerror}") from None


def _allow_all_characters() -> None:
    """Print a character that the encoding of a terminal lacks by its number: names hold any."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print(report: Report, arguments: argparse.Namespace) -> None:
    """Print the report, and what limits it."""
    if arguments.json:
        print(json.dumps(report_document(report), indent=2, default=plain))
        return
    if arguments.csv == _STANDARD_OUTPUT:
        sys.stdout.write(rows_csv(report))
    elif arguments.tag:
        print("\n".join(tag_commands(report, Policy().selector)))
    else:
        from cli.scan.table import report_text

        print(report_text(report))
        return
    _warn(report)


def write_files(report: Report, arguments: argparse.Namespace) -> None:
    """Write the files that were asked for. Raises: CommandError if one cannot be written."""
    if arguments.csv is not None and arguments.csv != _STANDARD_OUTPUT:
        _write(Path(arguments.csv), rows_csv(report))
    if arguments.html is not None:
        from cli.scan.page import page_html

        _write(Path(arguments.html), page_html(report))


def _write(path: Path, text: str) -> None:
    """Write a file, and say so on standard error. Raises: CommandError."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise CommandError(f"{path} could not be written: {error.strerror}") from None
    print_note(f"written: {path}")


def _warn(report: Report) -> None:
    """Print on standard error what limits a report that is read by a program."""
    from governor.scan.rules import refusals_of
    from governor.scan.words import headline, refusal_text

    print_note(headline(report))
    for refusal in refusals_of(report.unread):
        print_note(f"not read: {refusal_text(refusal)}")
