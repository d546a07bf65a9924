"""`make test` runs every test once, fails if any of its units does, and shows what each printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scripts import durations, run_tests
from scripts.work_queue import Finished, Unit

ROOT = Path(__file__).parents[2]
FILES = run_tests.files_of_tests()
GROUPS = run_tests.groups(FILES)
NO_CHROMIUM = "The tests in a browser do not run here: Chromium is not installed.\n"
IN_MAKE_CHECK = "The tests in a browser do not run here: `make check` runs them.\n"
JOURNEYS_ELSEWHERE = (
    "Journeys do not run here (deployments by SAM CLI, the docs typed, `make up`): "
    "`make check-all` runs them.\n"
)


def ended(name: str, status: int, text: str = "") -> Finished:
    """A unit that has ended."""
    return Finished(Unit(name, (), 1.0), status, text.encode(), 7.4)


def planned(*arguments: str) -> list[Unit]:
    """Return what a command line runs."""
    return run_tests.planned_units(run_tests.parse(arguments))


def files_in(units: list[Unit]) -> list[str]:
    """Return the files that the units name, those of each once."""
    return [word for unit in units for word in unit.command if word.endswith(".py")]


@pytest.mark.parametrize("statuses", [(0, 0, 0), (1, 0, 0), (0, -9, 0), (1, 0, 2), (1, 1, 1)])
def test_a_unit_that_fails_is_a_suite_that_fails(
    statuses: tuple[int, int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever it is, and if a signal ended it. Nothing needs to have counted a test."""
    status = run_tests.sum_up([ended("unit", one) for one in statuses])

    failed = sum(one != 0 for one in statuses)
    assert (1 if failed else 0) == status
    assert f"0 passed, {failed} failed, 0 skipped\n" == capfd.readouterr().out


def test_the_last_line_sums_up_all_units(capfd: pytest.CaptureFixture[str]) -> None:
    """Errors count as failures, and a unit that counted failed tests counts no second time."""
    units = [
        ended("a", 0, "20 passed, 2 skipped in 1.23s\n"),
        ended("b", 1, "== 1 failed, 3 passed, 2 errors in 0.5s ==\n"),
    ]

    assert 1 == run_tests.sum_up(units)
    assert "23 passed, 3 failed, 2 skipped\n" == capfd.readouterr().out


def test_each_unit_s_output_stands_below_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    """As they end; whoever reads the log of a failed run knows which unit it was."""
    shown = run_tests.show(iter([ended("lint", 0, "fine\n"), ended("types", 2, "bad\n")]), 2)

    assert ["lint", "types"] == [one.unit.name for one in shown]
    assert (
        "[1/2] lint: passed, 7 s\nfine\n[2/2] types: failed (exit status 2), 7 s\nbad\n"
        == capfd.readouterr().out
    )


def test_the_whole_way_from_the_command_line_to_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Real processes, in place of those of the suite."""
    program = "print('3 passed in 0.1s'); raise SystemExit({})"
    units = [Unit("a", (sys.executable, "-c", program.format(status)), 1.0) for status in (0, 1)]
    monkeypatch.setattr(run_tests, "planned_units", lambda *_: units)

    assert 1 == run_tests.main([])
    assert capfd.readouterr().out.endswith("6 passed, 1 failed, 0 skipped\n")


def test_closing_lines_are_read_with_and_without_a_frame() -> None:
    """As pytest closes: skips and errors among them."""
    printed = (
        "tests/a.py::x 3 passed in words\n== 1 failed, 20 passed, 2 skipped in 1.23s ==\n"
        "100 passed, 1 error in 75.01s (0:01:15)\n"
    )

    assert {"failed": 1, "passed": 120, "skipped": 2, "error": 1} == run_tests.closing_counts(
        printed
    )


@pytest.mark.parametrize("is_apart", [False, True])
def test_every_test_of_the_cloud_runs_in_one_group(
    is_apart: bool, pytestconfig: pytest.Config
) -> None:
    """The suite leaves out the same as pytest by itself, and no group runs what another does."""
    known = {"apart": is_apart, "browser": False, "fuzz": False}
    file = "tests/integration/test_remediation.py"
    groups = [group for group in GROUPS.values() if file in group.files]
    running = [group.name for group in groups if eval(group.marks, {}, known)]

    assert ["apart" if is_apart else "shared"] == running
    assert f"-m '{run_tests.WHOLE}'" in (ROOT / "pyproject.toml").read_text()
    assert pytestconfig.getini("testpaths") == list(run_tests.FOLDERS)


@pytest.mark.parametrize("kind", ["browser", "fuzz"])
@pytest.mark.parametrize("is_apart", [False, True])
def test_every_test_in_a_browser_runs_in_one_group(kind: str, is_apart: bool) -> None:
    """With those that share a stack, or with those that need none."""
    known = {"browser": False, "fuzz": False, "apart": is_apart, kind: True}
    file = "tests/browser/test_question.py"
    groups = [group for group in GROUPS.values() if file in group.files]
    running = [group.name for group in groups if eval(group.marks, {}, known)]

    assert ["pages" if is_apart else "browser"] == running


def test_every_file_of_the_cloud_is_in_each_of_its_groups() -> None:
    """A file may have tests on the shared stack and tests on engines of their own."""
    cloud = {name for name in FILES if name.startswith(("tests/integration/", "tests/local_cloud"))}
    cloud -= {*run_tests.JOURNEYS}

    assert "tests/integration/test_remediation.py" in cloud
    for name in ("shared", "apart"):
        assert cloud == set(GROUPS[name].files)
    assert GROUPS["browser"].files == GROUPS["pages"].files


def test_every_other_file_is_in_one_group() -> None:
    """No file is forgotten, wherever it is, and none runs twice."""
    names = ("shared", "rights", "plain", "browser", "journeys", "tours")
    counted = Counter(name for group in names for name in GROUPS[group].files)

    assert Counter(FILES) == counted
    assert {"agent/tests/test_service.py", "tests/soak/test_model.py"} <= set(GROUPS["plain"].files)


def test_journeys_are_files_that_exist() -> None:
    """A renamed one would come back into `make check`."""
    assert {*run_tests.JOURNEYS} <= {*FILES}


def test_every_file_of_a_group_runs_in_one_of_its_units() -> None:
    """Once in `make test`, and once for each kind of tests that files of the cloud may have."""
    counted = Counter(files_in(planned()))

    chosen = ("shared", "apart", "rights", "plain")
    assert Counter(name for group in chosen for name in GROUPS[group].files) == counted


def test_a_new_file_runs_although_the_table_does_not_know_it() -> None:
    """It needs no entry anywhere."""
    new = "tests/unit/core/test_new.py"

    assert new in run_tests.groups([*FILES, new])["plain"].files


def test_the_files_that_use_rights_share_a_process() -> None:
    """Or the test that every permission is used would not run: tests/unit/conftest.py."""
    (unit,) = [unit for unit in planned() if unit.name.startswith("rights")]
    guarded = [
        conftest.parent
        for conftest in (ROOT / "tests/unit").rglob("conftest.py")
        if "only_what_the_role_allows" in conftest.read_text(encoding="utf-8")
    ]
    found = {path for folder in guarded for path in folder.rglob("test_*.py")}

    assert set(run_tests.ROOMS_OF_USE_CASES) == {folder.name for folder in guarded}
    needed = {path.relative_to(ROOT).as_posix() for path in found}
    assert {*needed, "tests/unit/template/test_rights.py"} == set(files_in([unit]))


def test_other_arguments_go_to_every_process_of_pytest() -> None:
    """As they are, flags of pytest included."""
    units = planned("--checks", "-k", "stop", "--maxfail=1", "-x")

    pytests = [unit for unit in units if "pytest" in unit.command]
    assert all(unit.command[-4:] == ("-k", "stop", "--maxfail=1", "-x") for unit in pytests)
    assert set(run_tests.CHECKS) == {unit.name for unit in units} - {one.name for one in pytests}


@pytest.mark.parametrize(
    ("arguments", "chromium", "says"),
    [
        (["--checks", "--journeys"], "/usr/bin/chromium", ""),
        (["--checks"], "/usr/bin/chromium", JOURNEYS_ELSEWHERE),
        (["--checks", "--journeys"], None, NO_CHROMIUM),
        ([], "/usr/bin/chromium", IN_MAKE_CHECK + JOURNEYS_ELSEWHERE),
        ([], None, NO_CHROMIUM + JOURNEYS_ELSEWHERE),
    ],
)
def test_tests_in_a_browser_run_with_the_checks_or_the_first_line_says_that_they_do_not(
    arguments: list[str],
    chromium: str | None,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Where Chromium is installed."""
    run: list[Unit] = []

    def run_units(units: list[Unit], workers: int) -> list[Finished]:
        run.extend(units)
        return []

    monkeypatch.setattr("shutil.which", {"chromium": chromium}.get)
    monkeypatch.setattr(run_tests, "run_units", run_units)

    assert 0 == run_tests.main(arguments)
    assert f"{says}0 passed, 0 failed, 0 skipped\n" == capfd.readouterr().out
    names = {unit.name.partition(" ")[0] for unit in run}
    in_a_browser = "--checks" in arguments and chromium is not None
    with_journeys = "--journeys" in arguments
    assert in_a_browser == ({"browser", "pages"} <= names)
    assert with_journeys == ("journeys" in names)
    assert (in_a_browser and with_journeys) == ("tours" in names)
    assert ("--checks" in arguments) == names.issuperset(run_tests.CHECKS)


def test_a_check_does_not_get_the_variables_of_the_whole_run() -> None:
    """`make check RECORD=1` failed: each check was asked for RECORD, and refused it."""
    checks = [unit for unit in planned("--checks") if unit.name in run_tests.CHECKS]

    assert len(checks) == len(run_tests.CHECKS)
    for unit in checks:
        without_flags = [*unit.command[:3], "sh", "-c", 'test -z "$MAKEFLAGS"']
        subprocess.run(without_flags, env={**os.environ, "MAKEFLAGS": " -- RECORD=1"}, check=True)
        assert ("make", unit.name) == (unit.command[3], unit.command[-1])


def test_in_a_browser_runs_that_alone() -> None:
    """Every file once, by the Python that has Playwright."""
    units = planned("--in-a-browser")

    assert {*GROUPS["browser"].files, *GROUPS["tours"].files} == {*files_in(units)}
    assert all(unit.command[0].endswith(".tools/browser/bin/python") for unit in units)


def test_a_unit_is_expected_to_take_what_its_files_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes before its first test; a check by itself."""
    table = {"rights": dict.fromkeys(GROUPS["rights"].files, 2.0), "checks": {"types": 90.0}}
    monkeypatch.setattr(durations, "read_table", lambda: table)

    seconds = {unit.name: unit.seconds for unit in planned("--checks")}

    rights = GROUPS["rights"]
    assert rights.start_seconds + 2.0 * len(rights.files) == seconds["rights 1 of 1"]
    assert 90.0 == seconds["types"]


def test_a_record_holds_the_seconds_of_each_group(tmp_path: Path) -> None:
    """All units of a group count together, and so do the checks."""
    for name, seconds in (("plain 1 of 2", {"a": 1.0}), ("plain 2 of 2", {"b": 2.0})):
        (tmp_path / f"{name}.json").write_text(json.dumps(seconds))

    recorded = run_tests.recorded_table([ended("lint", 0), ended("plain 1 of 2", 0)], tmp_path)

    assert {"plain": {"a": 1.0, "b": 2.0}, "checks": {"lint": 7.4}} == recorded


def test_each_process_leaves_its_seconds_where_the_record_is_made(tmp_path: Path) -> None:
    """Each in a file of its own."""
    units = run_tests.planned_units(run_tests.parse([]), tmp_path)

    for unit in units:
        assert f"{durations.VARIABLE}={tmp_path / unit.name}.json" in unit.command
        assert ("-p", "scripts.durations") == unit.command[-2:]
    assert not any("scripts.durations" in unit.command for unit in planned())


def test_the_table_knows_groups_that_exist() -> None:
    """A renamed group would silently lose its seconds."""
    assert durations.read_table().keys() <= {*GROUPS, run_tests.CHECKS_GROUP}


def test_what_make_check_installs_before_it_starts_is_what_its_units_need() -> None:
    """Units side by side must not install one environment twice at once."""
    makefile = (ROOT / "Makefile").read_text()

    needs, needs_of_all = re.findall(r"^check(?:-all)?: (.*?) ##", makefile, re.MULTILINE)
    assert needs == needs_of_all
    assert {"env-project", "env-cloud", "env-sam", "env-release", "env-docs"} <= set(needs.split())
    assert "$(if $(shell command -v chromium),env-browser)" in needs


def test_the_template_is_linted_once_by_the_cfn_lint_of_the_project() -> None:
    """SAM CLI brings the same cfn-lint, so the project's own looks at the other stacks alone."""
    pins = [
        re.findall(r"^cfn-lint==(\S+)", (ROOT / f"requirements/{name}.txt").read_text(), re.M)
        for name in ("project", "sam")
    ]
    makefile = (ROOT / "Makefile").read_text()

    assert len(pins[0]) == 1
    assert pins[0] == pins[1]
    assert "$(VENV)/cfn-lint $(STACKS)" in makefile
    assert "$(SAM) validate --lint --template template.yaml" in makefile


def test_continuous_integration_runs_every_check() -> None:
    """And nothing after it: the suite's own line is the last."""
    script = ROOT / ".ci" / "run"

    assert "exec make check" == script.read_text().splitlines()[-1]
    assert script.stat().st_mode & 0o111


def test_make_soak_tries_what_the_suite_repeats_only_a_little() -> None:
    """Every property, and every test that says so; before the soak, whose last line is JSON."""
    makefile = (ROOT / "Makefile").read_text()

    (recipe,) = re.findall(r"^soak: .*\n\t(.*)$", makefile, re.MULTILINE)
    properties, _, soak = recipe.partition(" && ")
    assert "GOVERNOR_PROPERTIES=long" in properties
    assert '-m "(hypothesis or repeats) and not fuzz"' in properties
    assert soak.startswith("$(VENV)/python -m tests.soak ")


@pytest.mark.parametrize(("said", "count", "step"), [("long", 500, 1), ("", 15, 7)])
def test_a_variable_says_how_often_a_property_is_tried(said: str, count: int, step: int) -> None:
    """In a process of its own, as the variable is read once."""
    program = "from tests.properties import *; print(examples(FEW, MANY), step(7))"

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "GOVERNOR_PROPERTIES": said},
        check=True,
        capture_output=True,
        text=True,
    )

    assert f"{count} {step}\n" == done.stdout
