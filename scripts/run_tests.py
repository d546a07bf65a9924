"""`make test` and `make check`: the suite, its parts side by side, since the local cloud mostly
waits.

Integration tests that share a deployed stack are two parts of about the same length, each with a
stack of its own; those on engines of their own are two others. What needs no cloud are three, so
that two cores have work to the end. What the first says is seen at once, what the others say after
it. The last line sums all up. `--checks` runs the checks that are no tests, too, after the second,
and what needs a browser beside them all where Chromium is installed. `--in-a-browser` runs that
alone, two parts again, each with a stack of its own. All other arguments go to every part.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO

Command = Sequence[str]
WHOLE = "not browser and not fuzz"
CLOUD = ("tests/integration", "tests/local_cloud")
USE_CASES = (
    *(f"tests/unit/{name}" for name in ("channels", "console", "functions", "usecases", "web")),
    "tests/unit/template/test_rights.py",
    "tests/soak",
)
"""Tests that use the table as roles of functions may, the one that every right is used, and whole
loops."""
PURE = tuple(
    f"tests/unit/{name}" for name in ("adapters", "domain", "evaluation", "simulation", "stacks")
)
ENGINES = tuple(
    f"tests/integration/test_{name}.py" for name in ("demo", "samples_are_safe", "update", "up")
)
"""The longest of those with engines of their own, which mostly wait."""
PARTS = (
    (f"not apart and not remediation and {WHOLE}", *CLOUD),
    (f"not apart and remediation and {WHOLE}", *CLOUD),
    (f"apart and not deploys and {WHOLE}", *ENGINES),
    (f"apart and not deploys and {WHOLE}", *CLOUD, *(f"--ignore={path}" for path in ENGINES)),
    (WHOLE, *USE_CASES),
    (WHOLE, *PURE),
    (WHOLE, *(f"--ignore={path}" for path in (*CLOUD, *USE_CASES, *PURE))),
)
"""The marks of each, and where its tests are: a process that read them all would take ten seconds
longer."""
DEPLOYS = ("deploys", "tests/integration")
"""Tests that SAM CLI deploys for: with the checks, which need it, too."""
QUESTIONS = tuple(f"tests/browser/test_{name}.py" for name in ("question", "record", "refusals"))
PARTS_IN_A_BROWSER = (
    ("browser or fuzz", "tests/browser", *(f"--ignore={path}" for path in QUESTIONS)),
    ("browser or fuzz", *QUESTIONS),
)
CHECKS = (
    "make",
    "--no-print-directory",
    "--keep-going",
    "lint",
    "types",
    "imports",
    "template",
    "workflows",
)
IN_A_BROWSER = ("make", "--no-print-directory", "test-browser")
_ONE_AFTER_ANOTHER = """
import json, subprocess, sys
commands = json.loads(sys.argv[1])
sys.exit(sum(subprocess.run(one, stderr=subprocess.STDOUT).returncode != 0 for one in commands))
"""
_CLOSING = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s", re.MULTILINE)


def side_by_side(shown: Command, *beside: Sequence[Command]) -> int:
    """Runs the first command beside rows of others; prints what these have printed at the end.

    0 when all have succeeded. The last line says how many tests have passed and failed.
    """
    with ExitStack() as rows:
        outputs = [rows.enter_context(tempfile.TemporaryFile()) for _ in beside]
        running = [_row(row, output) for row, output in zip(beside, outputs, strict=True)]
        for one in running:
            rows.callback(one.kill)
        with subprocess.Popen(shown, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as first:
            assert first.stdout is not None
            said = _passed_on(first.stdout)
        failed = first.returncode != 0
        for one, output in zip(running, outputs, strict=True):
            status = one.wait()
            failed += status if status >= 0 else 1  # a signal has ended it
            output.seek(0)
            said += _passed_on(output)
    counts = closing_counts(said.decode(errors="replace"))
    bad = counts["failed"] + counts["error"] + counts["errors"]
    # A command that has failed without counting a test is a failure all the same.
    print(
        f"{counts['passed']} passed, {max(bad, failed)} failed, {counts['skipped']} skipped",
        flush=True,
    )
    return int(failed > 0)


def _row(commands: Sequence[Command], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts commands that run one after another; its status is how many have failed."""
    listed = json.dumps([list(command) for command in commands])
    return subprocess.Popen([sys.executable, "-c", _ONE_AFTER_ANOTHER, listed], stdout=output)


def _before(part: Command) -> Command:
    """Return what needs no cloud works while the local cloud waits, which is what the suite is as
    long as."""
    return ("nice",) if part[0] == WHOLE else ()


def closing_counts(said: str) -> Counter[str]:
    """Return what the closing lines of pytest count, over all of them: "3 failed, 20 passed in
    1.2s"."""
    counts: Counter[str] = Counter()
    for line in _CLOSING.findall(said):
        for number, what in re.findall(r"(\d+) ([a-z]+)", line):
            counts[what] += int(number)
    return counts


def _passed_on(source: IO[bytes]) -> bytes:
    """Shows what comes, as it comes; returns it."""
    found = b""
    sys.stdout.flush()
    while piece := os.read(source.fileno(), 1 << 16):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        found += piece
    return found


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 1 when anything has failed."""
    flags = {"--checks", "--in-a-browser"}.intersection(arguments)
    rest = [one for one in arguments if one not in flags]
    parts = PARTS_IN_A_BROWSER if "--in-a-browser" in flags else PARTS
    first, *others = (
        [*_before(part), sys.executable, "-m", "pytest", "-m", *part, *rest] for part in parts
    )
    rows: list[list[Command]] = [[part] for part in others]
    if "--in-a-browser" in flags:
        return side_by_side(first, *rows)
    with_checks, has_browser = "--checks" in flags, shutil.which("chromium") is not None
    if with_checks:
        rows[0].append(CHECKS)
        rows[1].append([sys.executable, "-m", "pytest", "-m", *DEPLOYS, *rest])
    if with_checks and has_browser:
        rows.append([IN_A_BROWSER])
    else:
        why = "`make check` runs them" if has_browser else "Chromium is not installed"
        print(f"The tests in a browser do not run here: {why}.", flush=True)
    if not with_checks:
        print("Nor do those that deploy with SAM CLI: `make check` runs them.", flush=True)
    return side_by_side(first, *rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
