"""Waiting without a clock: as long as anything moves, what is awaited may still come.

A busy machine makes everything slow, and nothing wrong. So a wait is given up only when, look after
look, neither what is looked at nor the processors' work on it has moved.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Seen = TypeVar("Seen")
LOOKS_PER_ROUND = 10
QUIET_ROUNDS = 60
"""Rounds in a row in which nothing has moved: longer than any pause of a workflow in a scaled
cloud, except the hours that people have to answer. Nobody waits for those to pass."""
PAUSE_SECONDS = 0.05
"""Before the second look. Each pause is longer than the one before, as every look is work for the
engine."""
LONGER = 1.15
LONGEST_PAUSE_SECONDS = 0.3
PROC = Path("/proc")


def wait_for(
    look: Callable[[], Seen | None],
    moved: Callable[[], object],
    otherwise: Callable[[], str],
    *,
    quiet_rounds: int = QUIET_ROUNDS,
) -> Seen:
    """Looks until there is something to see. `moved` is another value whenever anything has moved;
    it is first asked after a round of looks, as most waits are over by then.

    Raises:
        TimeoutError: nothing has moved for that many rounds of looks; with what `otherwise` says.
    """
    quiet, before, pause = 0, object(), PAUSE_SECONDS
    while quiet < quiet_rounds:
        for _ in range(LOOKS_PER_ROUND):
            if (found := look()) is not None:
                return found
            time.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, pause * LONGER)
        now = moved()
        quiet = quiet + 1 if now == before else 0
        before = now
    raise TimeoutError(
        f"{otherwise()} (nothing has moved for {quiet_rounds * LOOKS_PER_ROUND} looks)"
    )


def work_in_group(group: int, *, leader: bool = False) -> frozenset[tuple[int, str]]:
    """Which processes of a process group there are, and the processor time of each.

    Its leader counts on demand only: an engine works for whoever looks.
    """
    if not (PROC / "self" / "stat").exists():
        return _work_by_ps(group, leader=leader)
    found = set()
    for path in PROC.glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything; after it come state, parent, group, ...,
            # times.
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(path.parent.name)
        if int(fields[2]) == group and (leader or pid != group):
            found.add((pid, f"{fields[11]}+{fields[12]}"))
    return frozenset(found)


def _work_by_ps(group: int, *, leader: bool) -> frozenset[tuple[int, str]]:
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pgid=,pid=,time="], capture_output=True, text=True, check=False
    )
    rows = (line.split(None, 2) for line in listed.stdout.splitlines())
    return frozenset(
        (int(pid), spent)
        for of, pid, spent in rows
        if int(of) == group and (leader or int(pid) != group)
    )
