"""`make test`, `make check` and `make check-all`: a queue of units of work, and one worker more
than cores.

A unit is a process of pytest over some files, or a check that is no test. The longest unit is
started first (`scripts/work_queue.py`), and files are packed into units of about the same length
(`scripts/durations.py`), so all cores have work to the end. A unit's output is printed when it has
ended. The last line sums up all tests; the exit status is 1 if anything failed.

    --checks        also the checks that are no tests, and the tests in a browser where Chromium is
                    installed
    --journeys      also the tests that do from end to end what people do (JOURNEYS)
    --in-a-browser  only the tests in a browser, journeys included
    --workers N     so many units at once
    --record        write the measured seconds to tests/seconds.json

All other arguments go to every process of pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts import durations
from scripts.durations import Part, Table
from scripts.work_queue import Finished, Unit, run_units

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tests", "agent/tests")
WHOLE = "not browser and not fuzz"
CLOUD = ("tests/integration", "tests/local_cloud")
"""Tests of the local cloud. Those that need no deployed stack or one of their own are `apart`."""
ROOMS_OF_USE_CASES = (
    "approvals",
    "console",
    "events",
    "evidence",
    "functions",
    "health",
    "limits",
    "money",
    "notify",
    "policy",
    "remediation",
    "scan",
    "sweep",
    "web",
)
"""Folders of tests/unit whose tests run use cases."""
RIGHTS = (
    *(f"tests/unit/{room}" for room in ROOMS_OF_USE_CASES),
    "tests/unit/template/test_rights.py",
)
"""The test that every permission is used needs all use cases in its own process
(tests/rights.py)."""
BROWSER = "tests/browser"
"""Tests in a browser. Those that need no deployed stack or start one of their own are `apart`."""
IN_A_BROWSER = "(browser or fuzz)"
BROWSER_GROUPS = ("browser", "pages", "tours")
BROWSER_PYTHON = ROOT / ".tools" / "browser" / "bin" / "python"
JOURNEYS = (
    "tests/browser/test_back_test.py",
    "tests/browser/test_docs_search.py",
    "tests/browser/test_make_up.py",
    "tests/integration/test_demo.py",
    "tests/integration/test_deploy.py",
    "tests/integration/test_first_create.py",
    "tests/integration/test_operate.py",
    "tests/integration/test_package.py",
    "tests/integration/test_pages.py",
    "tests/integration/test_restore.py",
    "tests/integration/test_samples_are_safe.py",
    "tests/integration/test_uninstall.py",
    "tests/integration/test_update_of_5cd4e086.py",
)
"""Tests that do from end to end what people do: each command of the docs, deployments by SAM CLI,
`make up` and `make demo`, a restore, an uninstallation. Most files take 20 to 150 s, and together
they take more than a quarter of all time."""
CHECKS = ("lint", "types", "imports", "template", "workflows", "docs")
"""Checks that are no tests, by their names in the Makefile."""
CHECKS_GROUP = "checks"
_CLOSING = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s", re.MULTILINE)


@dataclass(frozen=True)
class Group:
    """Tests that may share a process: where they are, and which of them."""

    name: str
    marks: str
    files: tuple[str, ...]
    parts: int
    start_seconds: float
    """How long a process takes before its first test: imports, an engine, a stack."""


@dataclass(frozen=True)
class Choice:
    """Options of the command line."""

    with_checks: bool
    with_journeys: bool
    only_in_a_browser: bool
    records: bool
    workers: int
    passed_on: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for. Return the exit status: 1 if anything failed."""
    choice = parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        recordings = Path(folder)
        units = planned_units(choice, recordings if choice.records else None)
        _say_what_does_not_run(choice)
        finished = show(run_units(units, choice.workers), len(units))
        if choice.records:
            durations.write_table(recorded_table(finished, recordings))
    return sum_up(finished)


def parse(arguments: Sequence[str]) -> Choice:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="run_tests", description=__doc__, allow_abbrev=False)
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--journeys", action="store_true")
    parser.add_argument("--in-a-browser", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--workers", type=int, default=default_workers())
    asked, passed_on = parser.parse_known_args(arguments)
    return Choice(
        with_checks=asked.checks,
        with_journeys=asked.journeys,
        only_in_a_browser=asked.in_a_browser,
        records=asked.record,
        workers=asked.workers,
        passed_on=tuple(passed_on),
    )


def default_workers() -> int:
    """Return one more than there are cores: a walk through the local cloud waits for a fourth of
    its time, and another unit works meanwhile."""
    return (os.cpu_count() or 1) + 1


def groups(files: Sequence[str]) -> dict[str, Group]:
    """Return the groups by name. A file is in every group that may have tests of it."""
    journeys = _below(files, JOURNEYS)
    others = sorted(set(files).difference(journeys))
    cloud = _below(others, CLOUD)
    rights = _below(others, RIGHTS)
    browser = _below(others, (BROWSER,))
    plain = tuple(sorted(set(others).difference(cloud, rights, browser)))
    tours = _below(journeys, (BROWSER,))
    journeys_of_commands = tuple(sorted(set(journeys).difference(tours)))
    found = (
        Group("shared", f"not apart and {WHOLE}", cloud, 2, 10.0),
        Group("apart", f"apart and {WHOLE}", cloud, 1, 5.0),
        Group("rights", WHOLE, rights, 1, 5.0),
        Group("plain", WHOLE, plain, 3, 5.0),
        Group("journeys", WHOLE, journeys_of_commands, 3, 5.0),
        Group("browser", f"{IN_A_BROWSER} and not apart", browser, 1, 15.0),
        Group("pages", f"{IN_A_BROWSER} and apart", browser, 1, 5.0),
        Group("tours", IN_A_BROWSER, tours, 1, 5.0),
    )
    return {group.name: group for group in found}


def files_of_tests(root: Path = ROOT) -> list[str]:
    """Return every file of tests, as pytest finds them."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("test_*.py")]
    return sorted(path.relative_to(root).as_posix() for path in paths)


def planned_units(choice: Choice, recordings: Path | None = None) -> list[Unit]:
    """Return what is to run. Each process leaves its seconds in a folder for recordings, if any."""
    table = durations.read_table()
    by_name = groups(files_of_tests())
    units = []
    for name in _chosen_groups(choice):
        group = by_name[name]
        units += _units_of(group, table.get(name, {}), choice.passed_on, recordings)
    if choice.with_checks:
        known = table.get(CHECKS_GROUP, {})
        for name in CHECKS:
            # The flags hold RECORD, which these targets refuse.
            command = ("env", "-u", "MAKEFLAGS", "make", "--no-print-directory", name)
            units.append(Unit(name, command, durations.seconds_of(name, known)))
    return units


def _chosen_groups(choice: Choice) -> tuple[str, ...]:
    """Return the names of the groups that a choice runs."""
    if choice.only_in_a_browser:
        return BROWSER_GROUPS
    chosen = ["shared", "apart", "rights", "plain"]
    if choice.with_journeys:
        chosen.append("journeys")
    if choice.with_checks and has_chromium():
        chosen += ["browser", "pages"]
        if choice.with_journeys:
            chosen.append("tours")
    return tuple(chosen)


def has_chromium() -> bool:
    """Return whether the tests in a browser can run here."""
    return shutil.which("chromium") is not None


def show(finished: Iterable[Finished], total: int) -> list[Finished]:
    """Print what each unit printed, as they end, below a line with its name and its time."""
    ended: list[Finished] = []
    for unit in finished:
        ended.append(unit)
        verdict = f"failed (exit status {unit.status})" if unit.has_failed else "passed"
        heading = f"[{len(ended)}/{total}] {unit.unit.name}: {verdict}, {unit.seconds:.0f} s\n"
        sys.stdout.buffer.write(heading.encode())
        sys.stdout.buffer.write(unit.output)
        sys.stdout.buffer.flush()
    return ended


def sum_up(finished: Sequence[Finished]) -> int:
    """Print the last line. Return 1 if anything failed, a check or a process included."""
    counts: Counter[str] = Counter()
    for unit in finished:
        counts += closing_counts(unit.output.decode(errors="replace"))
    failed_units = sum(unit.has_failed for unit in finished)
    failed_tests = counts["failed"] + counts["error"] + counts["errors"]
    # A unit that failed without counting a test is a failure all the same.
    failed = max(failed_tests, failed_units)
    print(f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped", flush=True)
    return 1 if failed_units else 0


def closing_counts(printed: str) -> Counter[str]:
    """Return the counts of pytest's closing lines, summed up: "3 failed, 20 passed in 1.2s"."""
    counts: Counter[str] = Counter()
    for line in _CLOSING.findall(printed):
        for number, what in re.findall(r"(\d+) ([a-z]+)", line):
            counts[what] += int(number)
    return counts


def recorded_table(finished: Sequence[Finished], recordings: Path) -> Table:
    """Return the seconds that this run measured, by group."""
    table: dict[str, dict[str, float]] = {}
    for path in recordings.glob("*.json"):
        group = path.stem.partition(" ")[0]
        table.setdefault(group, {}).update(json.loads(path.read_text(encoding="utf-8")))
    checks = {unit.unit.name: unit.seconds for unit in finished if unit.unit.name in CHECKS}
    if checks:
        table[CHECKS_GROUP] = checks
    return table


def _below(files: Sequence[str], places: Sequence[str]) -> tuple[str, ...]:
    """Return the files that are one of these places or in one of these folders."""
    folders = tuple(f"{place}/" for place in places)
    return tuple(name for name in files if name in places or name.startswith(folders))


def _units_of(
    group: Group, known: Mapping[str, float], passed_on: Sequence[str], recordings: Path | None
) -> list[Unit]:
    """Return one unit for each part of a group."""
    parts = durations.packed(group.files, known, group.parts)
    units = []
    for number, part in enumerate(parts, start=1):
        name = f"{group.name} {number} of {len(parts)}"
        recording = None if recordings is None else recordings / f"{name}.json"
        command = _pytest(group, part, passed_on, recording)
        units.append(Unit(name, command, group.start_seconds + part.seconds))
    return units


def _pytest(
    group: Group, part: Part, passed_on: Sequence[str], recording: Path | None
) -> tuple[str, ...]:
    """Return the command that tests the files of a part."""
    python = str(BROWSER_PYTHON) if group.name in BROWSER_GROUPS else sys.executable
    pytest = (python, "-m", "pytest", "-m", group.marks, *part.files, *passed_on)
    if recording is None:
        return pytest
    variable = f"{durations.VARIABLE}={recording}"
    return ("env", variable, *pytest, "-p", "scripts.durations")


def _say_what_does_not_run(choice: Choice) -> None:
    """Say which tests this run leaves out, and why."""
    if choice.only_in_a_browser:
        return
    if not has_chromium():
        print("The tests in a browser do not run here: Chromium is not installed.", flush=True)
    elif not choice.with_checks:
        print("The tests in a browser do not run here: `make check` runs them.", flush=True)
    if not choice.with_journeys:
        print(
            "Journeys do not run here (deployments by SAM CLI, the docs typed, `make up`): "
            "`make check-all` runs them.",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
