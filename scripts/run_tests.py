"""`make test` and `make check`: the suite, its two halves side by side, since the local cloud mostly waits.

What the integration tests say is seen at once, what all others say after it. The last line sums both up.
`--checks` runs the checks that are no tests, too, before the tests that are quick. All other arguments go to
both halves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import IO

Command = Sequence[str]
WHOLE = "not browser and not fuzz"
INTEGRATION, OTHERS = f"integration and {WHOLE}", f"not integration and {WHOLE}"
CHECKS = ("make", "--no-print-directory", "--keep-going", "lint", "types", "imports", "template")
_ONE_AFTER_ANOTHER = """
import json, subprocess, sys
commands = json.loads(sys.argv[1])
sys.exit(sum(subprocess.run(one, stderr=subprocess.STDOUT).returncode != 0 for one in commands))
"""
_CLOSING = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s", re.MULTILINE)


def side_by_side(shown: Command, *kept: Command) -> int:
    """Runs the first command beside all others, one after another; prints what these have printed at the end.

    0 when all have succeeded. The last line says how many tests have passed and failed.
    """
    with tempfile.TemporaryFile() as output:
        commands = json.dumps([list(command) for command in kept])
        beside = subprocess.Popen([sys.executable, "-c", _ONE_AFTER_ANOTHER, commands], stdout=output)
        try:
            with subprocess.Popen(shown, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as first:
                assert first.stdout is not None
                said = _passed_on(first.stdout)
            failed = (first.returncode != 0) + beside.wait()
        finally:
            beside.kill()
        output.seek(0)
        said += _passed_on(output)
    counts = closing_counts(said.decode(errors="replace"))
    bad = counts["failed"] + counts["error"] + counts["errors"]
    # A command that has failed without counting a test is a failure all the same.
    print(f"{counts['passed']} passed, {max(bad, failed)} failed, {counts['skipped']} skipped", flush=True)
    return int(failed > 0)


def closing_counts(said: str) -> Counter[str]:
    """What the closing lines of pytest count, over all of them: "3 failed, 20 passed in 1.2s"."""
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
    rest = [one for one in arguments if one != "--checks"]
    halves = [[sys.executable, "-m", "pytest", "-m", marked, *rest] for marked in (INTEGRATION, OTHERS)]
    return side_by_side(halves[0], *([CHECKS] if "--checks" in arguments else []), halves[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
