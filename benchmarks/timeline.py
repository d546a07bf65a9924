"""A simulated clock: nothing is slept, and calls that a program makes at once still wait at once.

A program is run in one thread. What it computes and what it would wait for is noted in order, by
worker where it has a pool of threads; afterwards the notes are played with any share of a
processor. Python's lock lets one thread compute at a time, so that waiting overlaps and computing
does not.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

Answer = TypeVar("Answer")


@dataclass
class Pool:
    """The work of a pool, by task."""

    workers: int
    tasks: list[list[tuple[float, float]]] = field(default_factory=list)

    def seconds(self, share: float) -> float:
        """Wall time: a free worker takes the next task, and one worker computes at a time."""
        waiting = [iter([*task, (0.0, 0.0)]) for task in reversed(self.tasks)]
        ready = [(0.0, number, waiting.pop()) for number in range(min(self.workers, len(waiting)))]
        processor_free = end = 0.0
        while ready:
            at, number, task = heapq.heappop(ready)
            step = next(task, None)
            if step is None:
                end = max(end, at)
                if waiting:
                    heapq.heappush(ready, (at, number, waiting.pop()))
                continue
            if step[0]:
                at = processor_free = max(at, processor_free) + step[0] / share
            heapq.heappush(ready, (at + step[1], number, task))
        return end


@dataclass
class Timeline:
    """Steps in order: seconds of computing and of waiting after it, or a pool."""

    steps: list[tuple[float, float] | Pool] = field(default_factory=list)
    _task: list[tuple[float, float]] | None = None
    _since: float = field(default_factory=time.thread_time)

    def wait(self, seconds: float, answer: Callable[[], Answer]) -> Answer:
        """Note a call. Making the answer takes no time of anybody's."""
        self._note(seconds)
        try:
            return answer()
        finally:
            self._since = time.thread_time()

    def close(self) -> Timeline:
        """Note what was computed since the last call."""
        self._note(0.0)
        return self

    def _note(self, waited: float) -> None:
        now = time.thread_time()
        step = now - self._since, waited
        self._since = now
        (self.steps if self._task is None else self._task).append(step)  # type: ignore[arg-type]

    @contextmanager
    def task(self, pool: Pool) -> Iterator[None]:
        """Note what is done meanwhile as one task of the pool; within another task as a part of
        that."""
        if self._task is not None:
            yield
            return
        self._note(0.0)
        self._task = []
        try:
            yield
        finally:
            self._note(0.0)
            pool.tasks.append(self._task)
            self._task = None

    def pool(self, pool: Pool) -> None:
        """Its tasks end here: who made it waits for them."""
        if pool.tasks:
            self._note(0.0)
            self.steps.append(pool)

    @property
    def processor_seconds(self) -> float:
        """Everything that was computed."""
        return sum(one[0] for step in self.steps for one in _parts(step))

    def wall_seconds(self, share: float = 1.0) -> float:
        """From the first step to the last, on this share of a processor."""
        return sum(
            step.seconds(share) if isinstance(step, Pool) else step[0] / share + step[1]
            for step in self.steps
        )


def _parts(step: tuple[float, float] | Pool) -> Iterator[tuple[float, float]]:
    if isinstance(step, Pool):
        for task in step.tasks:
            yield from task
    else:
        yield step


class SimulatedThreads(Executor):
    """Takes the place of `ThreadPoolExecutor`: runs each task when it is submitted, and notes
    it."""

    timeline = Timeline()
    """The timeline of the run that is measured."""

    def __init__(self, max_workers: int | None = None, *_: object, **__: object) -> None:
        self._pool = Pool(max_workers or 8)

    def submit(self, fn: Callable[..., Answer], /, *args: Any, **more: Any) -> Future[Answer]:
        """As of any executor."""
        future: Future[Answer] = Future()
        with self.timeline.task(self._pool):
            try:
                future.set_result(fn(*args, **more))
            except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
                future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor."""
        self.timeline.pool(self._pool)
        self._pool = Pool(self._pool.workers)
