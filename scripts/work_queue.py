"""A queue of commands, the longest first, and the workers that run them side by side.

It knows nothing of tests: `scripts/run_tests.py` says what the commands are.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Lock
from typing import IO


@dataclass(frozen=True)
class Unit:
    """A command that one worker runs from beginning to end."""

    name: str
    command: tuple[str, ...]
    seconds: float
    """How long it is expected to take. A wrong figure costs time and nothing else."""


@dataclass(frozen=True)
class Finished:
    """A unit that has ended."""

    unit: Unit
    status: int
    """The exit status of its command; below zero if a signal ended it."""
    output: bytes
    """Everything that it printed, errors included."""
    seconds: float

    @property
    def has_failed(self) -> bool:
        """Return whether the command did not succeed."""
        return self.status != 0


class _Stopped(Exception):
    """A unit was to start after the queue was stopped."""


class _Processes:
    """The processes that run now. After `stop`, none starts any more."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def start(self, command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a command that prints to a file. Raises: _Stopped."""
        with self._lock:
            if self._is_stopped:
                raise _Stopped
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            self._running.add(process)
            return process

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Note that a process has ended."""
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        """Kill what runs, and start nothing more."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.kill()


def run_units(units: Sequence[Unit], workers: int) -> Generator[Finished, None, None]:
    """Run every unit, at most `workers` of them at once; yield each when it has ended.

    A unit that fails stops no other one: one run tells everything that is wrong. If the caller
    stops reading, what still runs is killed.
    """
    longest_first = sorted(units, key=lambda unit: unit.seconds, reverse=True)
    processes = _Processes()
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_run, unit, processes) for unit in longest_first]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.stop()


def _run(unit: Unit, processes: _Processes) -> Finished:
    """Run one unit to its end."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = processes.start(unit.command, output)
        status = process.wait()
        processes.forget(process)
        output.seek(0)
        printed = output.read()
    return Finished(unit, status, printed, time.monotonic() - began)
