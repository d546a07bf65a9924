"""Run SAM CLI: a summary of its change set goes to the terminal, and all that it says to a log."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from governor.core.units import listed, plural

_CHANGE_SET = "CloudFormation stack changeset"
_CHANGE_TITLES = ("Operation", "LogicalResourceId", "ResourceType", "Replacement")
_EVENT_TITLES = ("ResourceStatus", "ResourceType", "LogicalResourceId", "ResourceStatusReason")
_QUESTION = "Deploy this changeset? [y/N]: "
_NO_CHANGES = "No changes to deploy."
_RULES_OF_A_TABLE = 3
"""Lines of hyphens: above and below the titles, and at the end."""
_OPERATIONS = {"- Delete": "delete", "* Modify": "change", "+ Add": "add"}
_REPLACEMENTS = {"True": "replace", "Conditional": "may replace"}
_VERBS = ("delete", "replace", "may replace", "change", "add")
"""The words for changes, in the order in which these are shown."""
_HARMLESS = ("change", "add")
"""Changes of which only some resources of each type are named."""
_MOST_NAMED = 3
_WIDTH = 80
_INDENT = " " * 15
_FAILED = "_FAILED"
_MOST_FAILURES = 20
_LAST = 15
"""Lines of a failed command that are shown where none names a failure."""


class Shown:
    """Picks what a person sees of the output of `sam deploy`: a summary of the change set, and the
    question below it, which ends without a new line."""

    def __init__(self) -> None:
        self._line = ""
        self._is_asked = False
        self._table: list[str] | None = None
        """The lines of the change set so far; `None` outside of it."""

    def feed(self, text: str) -> str:
        """Return what is shown because of the next text; empty if nothing is."""
        shown = ""
        for piece in text.splitlines(keepends=True):
            self._line += piece
            # The answer to the question ends its line on the terminal, not here.
            if self._line.startswith(_QUESTION) and not self._is_asked:
                self._is_asked = True
                shown += _QUESTION
            if piece.endswith("\n"):
                shown += self._end_line(self._line.rstrip())
                self._line = ""
        return shown

    def _end_line(self, line: str) -> str:
        """Take a whole line. Return what is shown because of it; empty if nothing is."""
        if line.startswith(_NO_CHANGES):
            return f"{line}\n"
        if line.startswith(_CHANGE_SET):
            self._table = []
            return ""
        if self._table is None:
            return ""
        self._table.append(line)
        rules = [row for row in self._table if _is_rule(row)]
        if len(rules) < _RULES_OF_A_TABLE:
            return ""
        changes = _rows(self._table, _CHANGE_TITLES)
        self._table = None
        return "".join(f"{text}\n" for text in [*_summary(changes), ""])


def _is_rule(line: str) -> bool:
    """Return whether a line is one of hyphens alone."""
    return set(line) == {"-"}


def _rows(lines: Sequence[str], titles: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a table of SAM CLI by its titles; empty if there is none.

    SAM CLI cuts a long cell into several lines. Only those of a sentence are parted by a space.
    """
    heads = [number for number, line in enumerate(lines) if line.split() == list(titles)]
    if not heads:
        return []
    head = lines[heads[0]]
    starts = [head.index(title) for title in titles]
    ends = [*starts[1:], None]
    rows: list[dict[str, str]] = []
    rules = 0
    for line in lines[heads[0] + 1 :]:
        if _is_rule(line):
            rules += 1
            if rules == _RULES_OF_A_TABLE - 1:
                break
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        row = dict(zip(titles, cells, strict=True))
        if cells[0]:
            rows.append(row)
        elif rows:
            _continue_row(rows[-1], row)
    return rows


def _continue_row(row: dict[str, str], more: Mapping[str, str]) -> None:
    """Add the next line of its cells to a row."""
    for title, text in more.items():
        is_sentence = title == "ResourceStatusReason"
        gap = " " if is_sentence and text else ""
        row[title] = f"{row[title]}{gap}{text}"


def _summary(changes: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what a change set does, by the type of its resources. Whatever is deleted or may be
    replaced is named."""
    names: dict[tuple[str, str], list[str]] = {}
    count = 0
    for change in changes:
        operation = _OPERATIONS.get(change["Operation"])
        if operation is None:
            continue  # a change set without a resource has a row of hyphens
        count += 1
        verb = operation
        if operation == "change":
            verb = _REPLACEMENTS.get(change["Replacement"], operation)
        names.setdefault((verb, change["ResourceType"]), []).append(change["LogicalResourceId"])
    if not count:
        return ["The change set changes no resource."]
    lines = [f"Change set of {plural(count, 'resource')}, in full in the log:"]
    for verb, resource_type in sorted(names, key=lambda key: (_VERBS.index(key[0]), key[1])):
        of_type = names[verb, resource_type]
        most = _MOST_NAMED if verb in _HARMLESS else len(of_type)
        text = f"  {verb:<11}  {resource_type}: {listed(of_type, most)}"
        lines += _wrapped(text, _INDENT)
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    """Return a text in lines of a terminal, those after the first indented. No name is cut."""
    return textwrap.wrap(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def run_logged(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    shows_change_set: bool = True,
) -> int:
    """Run a command in the folder of the project, and append its output to the log.

    Show the change set of a deploy, unless it is only for the log. Where the command fails, show
    the lines that say why. Return its exit status, or 127 if there is no such command.
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
            if shows_change_set:
                sys.stdout.write(shown.feed(chunk.decode("utf-8", errors="replace")))
                sys.stdout.flush()
    status = process.wait()
    if status != 0:
        print("\n".join(why_failed(lines.decode("utf-8", errors="replace"))), file=sys.stderr)
    return status


def why_failed(output: str) -> list[str]:
    """Return the lines about resources that failed; where there is none, the last ones."""
    lines = output.splitlines()
    failures: list[str] = []
    for event in _rows(lines, _EVENT_TITLES):
        if _FAILED in event["ResourceStatus"]:
            resource = f"{event['LogicalResourceId']} ({event['ResourceType']})"
            text = f"{event['ResourceStatus']} {resource}: {event['ResourceStatusReason']}"
            failures.append("\n".join(_wrapped(text, "  ")))
    failure_lines = "\n".join(failures[:_MOST_FAILURES]).splitlines()
    return failure_lines or [line.rstrip() for line in lines[-_LAST:]]
