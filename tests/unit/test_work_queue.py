"""The queue of `make test`: longest first, so many at once, and nothing is left running."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts.work_queue import Finished, Unit, run_units


def unit(name: str, program: str, seconds: float = 1.0) -> Unit:
    """Return a unit that runs a program of Python."""
    return Unit(name, (sys.executable, "-S", "-c", program), seconds)


def names(finished: list[Finished]) -> list[str]:
    """Return the names of units in the order in which they ended."""
    return [one.unit.name for one in finished]


def test_the_longest_unit_is_started_first() -> None:
    """Or the last one could be the longest, and every other worker would wait for it."""
    units = [unit("short", "", 1), unit("long", "", 3), unit("middle", "", 2)]

    assert ["long", "middle", "short"] == names(list(run_units(units, workers=1)))


def test_units_of_the_same_length_are_started_in_the_order_given() -> None:
    """So that two runs do the same."""
    units = [unit(str(number), "") for number in range(3)]

    assert ["0", "1", "2"] == names(list(run_units(units, workers=1)))


def test_each_worker_takes_the_next_unit_when_it_is_free(tmp_path: Path) -> None:
    """The long unit ends only after both others, which one other worker has run meanwhile."""
    wait_for = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)"
    done = tmp_path / "done"
    long = unit("long", wait_for.format(str(done)), 3)
    first = unit("first", "", 2)
    second = unit("second", f"open({str(done)!r}, 'w')", 1)

    finished = list(run_units([long, first, second], workers=2))

    assert "first" == names(finished)[0]
    assert {"long", "second"} == set(names(finished)[1:])


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_units_run_at_once_than_there_are_workers(workers: int, tmp_path: Path) -> None:
    """Each unit counts the marks of those that run beside it, its own included."""
    count_marks = (
        "import os, pathlib, time\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "mark = folder / str(os.getpid())\n"
        "mark.touch()\n"
        "time.sleep(0.1)\n"
        "print(len(list(folder.iterdir())))\n"
        "mark.unlink()\n"
    )
    finished = list(run_units([unit(str(n), count_marks) for n in range(5)], workers))

    assert max(int(one.output) for one in finished) <= workers


def test_a_unit_that_fails_stops_no_other_one() -> None:
    """One run tells everything that is wrong, in the words of each unit."""
    failing = unit("failing", "import sys; print('out'); sys.exit('err')", 2)
    working = unit("working", "print('fine')")

    finished = list(run_units([failing, working], workers=1))

    assert [(1, True), (0, False)] == [(one.status, one.has_failed) for one in finished]
    assert {b"out", b"err"} == set(finished[0].output.split())
    assert b"fine\n" == finished[1].output


def test_a_unit_that_a_signal_ends_has_failed() -> None:
    """Whoever ends processes by name may end one of ours."""
    killed = unit("killed", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    (finished,) = run_units([killed], workers=1)

    assert finished.has_failed


def test_a_command_that_does_not_exist_fails_the_run() -> None:
    """It must not look like a unit that had nothing to do."""
    missing = Unit("missing", ("no-such-command-of-tests",), 1.0)

    with pytest.raises(FileNotFoundError):
        list(run_units([missing], workers=1))


def test_nothing_goes_on_when_the_caller_stops_reading(tmp_path: Path) -> None:
    """Ctrl-C ends what runs, and what waits is never started."""
    started = tmp_path / "started"
    endless = unit("endless", "import time\nwhile True: time.sleep(1)", 2)
    waiting = unit("waiting", f"open({str(started)!r}, 'w')", 0.5)
    quick = unit("quick", "", 3)
    finished = run_units([quick, endless, waiting, endless], workers=2)

    assert "quick" == next(finished).unit.name
    finished.close()  # it would not come back while an endless unit runs

    assert not started.exists()
