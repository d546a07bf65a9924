"""Waits end by what is seen or when nothing moves; no clock decides."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from local.engine import patience
from local.engine.patience import LOOKS_PER_ROUND, wait_for, work_in_group


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0)


def never() -> None:
    """Nothing to see."""


def test_what_is_seen_ends_the_wait() -> None:
    """At once."""
    looks = iter([None, None, "there"])

    assert "there" == wait_for(lambda: next(looks), lambda: 0, lambda: "no", quiet_rounds=1)


def test_false_is_something_to_see() -> None:
    """Only `None` is not."""
    assert False is wait_for(lambda: False, lambda: 0, lambda: "no", quiet_rounds=1)


def test_a_wait_in_which_nothing_moves_is_given_up() -> None:
    """With what was waited for, and what there was instead."""
    with pytest.raises(TimeoutError, match=r"no mail \(nothing has moved for 20 looks\)"):
        wait_for(never, lambda: 0, lambda: "no mail", quiet_rounds=2)


def test_a_wait_goes_on_as_long_as_anything_moves() -> None:
    """However slow: it is quiet rounds in a row that count."""
    movement = iter([0, 0, 1, 1, 2, 2, 3, 3, 3])
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    with pytest.raises(TimeoutError):
        wait_for(look, lambda: next(movement), lambda: "no", quiet_rounds=2)
    assert 9 * LOOKS_PER_ROUND == looks
    assert [] == list(movement)


@pytest.fixture
def group() -> Iterator[subprocess.Popen[str]]:
    """The leader of a process group with one other process, which works whenever a line comes."""
    child = (
        "import sys\nfor line in sys.stdin: sum(range(3_000_000)); print(line, end='', flush=True)"
    )
    leader = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", leader],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("by_ps", [False, True])
def test_work_is_seen_by_the_processor_time_of_a_group(
    group: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, by_ps: bool
) -> None:
    """Processes of all but its leader, with or without a /proc."""
    if by_ps:
        if not os.path.exists("/bin/ps"):  # noqa: PTH110
            pytest.skip("no ps")
        monkeypatch.setattr(patience, "PROC", patience.PROC / "not here")
    assert group.stdin is not None
    assert group.stdout is not None
    seen = set()
    for _ in range(60):
        group.stdin.write("work\n")
        group.stdin.flush()
        group.stdout.readline()
        seen.add(work_in_group(group.pid))
        if len(seen) > 1:
            break

    assert len(seen) > 1
    assert 1 == len(seen.pop())
    assert 2 == len(work_in_group(group.pid, leader=True))
