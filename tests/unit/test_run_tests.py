"""`make test` fails when any of its parts does, and shows what all have said."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import run_tests

ROOT = Path(__file__).parents[2]
NOR = "Nor do those that deploy with SAM CLI: `make check` runs them.\n"


def program(text: str, status: int) -> list[str]:
    """Prints a text and ends with a status."""
    return [sys.executable, "-c", f"print({text!r}); raise SystemExit({status})"]


@pytest.mark.parametrize("statuses", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 0, 2), (1, 1, 1)])
def test_a_part_that_fails_is_a_suite_that_fails(
    statuses: tuple[int, int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever it is."""
    cloud, apart, rules = map(program, ("cloud", "apart", "rules"), statuses)
    status = run_tests.side_by_side(cloud, [apart], [program("checks", 0), rules])
    failed = sum(one != 0 for one in statuses)
    assert bool(failed) == bool(status)
    said = f"cloud\napart\nchecks\nrules\n0 passed, {failed} failed, 0 skipped\n"
    assert said == capfd.readouterr().out


def test_a_part_that_is_killed_is_a_suite_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """With the program that runs its row, too, as whoever ends processes by name ends both."""
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"]
    assert 1 == run_tests.side_by_side(program("cloud", 0), [killed])
    assert capfd.readouterr().out.endswith("0 passed, 1 failed, 0 skipped\n")


def test_what_comes_after_a_check_that_fails_runs_all_the_same(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One run tells everything that is wrong."""
    row = [program("checks", 1), program("3 passed in 1s", 0)]
    assert 1 == run_tests.side_by_side(program("cloud", 0), row)
    assert capfd.readouterr().out.endswith("3 passed in 1s\n3 passed, 1 failed, 0 skipped\n")


def test_the_last_line_sums_up_all_parts() -> None:
    """As pytest closes: with and without a frame, skips and errors among them."""
    said = (
        "tests/a.py::x 3 passed in words\n== 1 failed, 20 passed, 2 skipped in 1.23s ==\n"
        "100 passed, 1 error in 75.01s (0:01:15)\n"
    )
    assert {"failed": 1, "passed": 120, "skipped": 2, "error": 1} == run_tests.closing_counts(said)


@pytest.mark.parametrize("marks", [(), ("remediation",), ("apart",), ("apart", "deploys")])
def test_every_test_of_the_cloud_runs_in_one_part(
    marks: tuple[str, ...], pytestconfig: pytest.Config
) -> None:
    """The suite leaves out the same as pytest by itself, and no part runs what another does."""
    known = {name: name in marks for name in ("apart", "remediation", "deploys", "browser", "fuzz")}
    cloud = [marked for marked, *where in run_tests.PARTS if where[:2] == [*run_tests.CLOUD]]
    running = [eval(marked, {}, known) for marked in (*cloud, run_tests.DEPLOYS[0])]
    assert 1 == sum(running)
    assert f"-m '{run_tests.WHOLE}'" in (ROOT / "pyproject.toml").read_text()
    assert pytestconfig.getini("testpaths") == ["tests", "agent/tests"]


def test_each_test_on_an_engine_of_its_own_runs_in_one_part() -> None:
    """One part runs what it names, and the other what is left."""
    (first, *named), (mark, *where) = (
        part for part in run_tests.PARTS if part[0].startswith("apart")
    )

    assert (first, list(run_tests.ENGINES)) == (mark, named)
    assert where == [*run_tests.CLOUD, *(f"--ignore={path}" for path in named)]
    assert all((ROOT / path).exists() for path in named)


def test_every_other_test_runs_in_one_part() -> None:
    """Two parts run what they name, and the last what no other one names."""
    (*_, (_, *first), (_, *second), (_, *left_out)) = run_tests.PARTS
    named = (*first, *second)
    assert len(named) == len(set(named))
    assert left_out == [f"--ignore={path}" for path in (*run_tests.CLOUD, *named)]
    assert all((ROOT / path).exists() for path in (*run_tests.CLOUD, *named))


@pytest.mark.parametrize(
    ("arguments", "chromium", "says"),
    [
        (["--checks"], "/usr/bin/chromium", ""),
        (
            ["--checks"],
            None,
            "The tests in a browser do not run here: Chromium is not installed.\n",
        ),
        (
            [],
            "/usr/bin/chromium",
            f"The tests in a browser do not run here: `make check` runs them.\n{NOR}",
        ),
        ([], None, f"The tests in a browser do not run here: Chromium is not installed.\n{NOR}"),
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
    rows: list[Sequence[run_tests.Command]] = []

    def side_by_side(_: run_tests.Command, *beside: Sequence[run_tests.Command]) -> int:
        rows.extend(beside)
        return 0

    monkeypatch.setattr("shutil.which", {"chromium": chromium}.get)
    monkeypatch.setattr(run_tests, "side_by_side", side_by_side)

    assert 0 == run_tests.main(arguments)
    assert says == capfd.readouterr().out
    assert (says == "") == ([run_tests.IN_A_BROWSER] in rows)
    assert ("--checks" in arguments) == any(run_tests.CHECKS in row for row in rows)
    assert ("--checks" in arguments) == any("deploys" in command for row in rows for command in row)


def test_every_test_in_a_browser_runs_in_one_part() -> None:
    """One part runs what it names, and the other what is left."""
    (mark, where, *left_out), (same, *named) = run_tests.PARTS_IN_A_BROWSER
    assert mark == same
    assert "tests/browser" == where
    assert left_out == [f"--ignore={path}" for path in named]
    assert all((ROOT / path).exists() for path in named)


def test_continuous_integration_runs_every_check() -> None:
    """And nothing after it: the suite's own line is the last."""
    script = ROOT / ".ci" / "run"

    assert "exec make check" == script.read_text().splitlines()[-1]
    assert script.stat().st_mode & 0o111
