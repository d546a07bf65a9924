"""The loop of the publisher: sample the GPUs, and hand each whole interval to the sender.

The sender has a thread of its own, so that a network that hangs never costs a sample. Time, source
and sink are arguments.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, Protocol

from gpu_metrics_publisher.buffer import Buffer, Entry
from gpu_metrics_publisher.errors import (
    DriverUnavailableError,
    RefusedError,
    UndeliveredError,
    UnforeseenError,
)
from gpu_metrics_publisher.metrics import GROUPS, Call, Host, Window
from gpu_metrics_publisher.readings import Figure, Sample

_log = logging.getLogger(__name__)

_CALLS_PER_WAKE = 240
"""The most calls of a backlog at a time, so that they do not flood a network that works again. Each
minute that is an hour or two of most machines."""
_PASSED_PER_WAKE = 10
"""The most calls that are passed over at a time. If all get an unforeseen answer, it stops here."""
_PASSES = 5
"""A call is dropped after it was passed over this often while others were taken."""
_CLOSED_KEPT = 120
"""Two hours of minutes: CloudWatch takes nothing of a clock that was further ahead."""


class GpuSource(Protocol):
    """The source of figures."""

    def open(self) -> None: ...

    def read(self, *, thorough: bool) -> list[Sample]: ...

    def close(self) -> None: ...


class Sink(Protocol):
    """The destination of calls."""

    def send(self, call: Call) -> None: ...


@dataclass(frozen=True)
class Pace:
    """How often GPUs are read and figures sent, in seconds."""

    sample_seconds: int = 10
    publish_seconds: int = 60


class Sender:
    """Drains the buffer into the sink, in a thread of its own once started."""

    def __init__(
        self, buffer: Buffer, sink: Sink, broken: Callable[[], object] = lambda: None
    ) -> None:
        self._buffer = buffer
        self._sink = sink
        self._broken = broken
        """Called if a defect ends the thread: without it the buffer would fill unnoticed."""
        self._defect: Exception | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin to send what the buffer holds, each time the sender is woken."""
        self._thread.start()

    def wake(self) -> None:
        """Tell the thread that there is something to send."""
        self._wake.set()

    def finish(self, timeout_seconds: float) -> None:
        """Try once more to send everything, then end. Give up after the timeout, and log the loss.

        Raises:
            Exception: the defect that ended the thread early.
        """
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_seconds)
        if len(self._buffer):
            _log.error(
                "stopped with %d calls that CloudWatch has not accepted; they are lost",
                len(self._buffer),
            )
        if self._defect is not None:
            raise self._defect

    def drain(self, limit: int | None = None) -> None:
        """Send the newest first until none is left, `limit` calls went out, or CloudWatch takes
        none.

        A call with an unforeseen answer is passed over. If others are taken then, the fault is its
        own, and it is dropped after `_PASSES` such rounds.
        """
        sent = 0
        is_any_taken = False
        passed: dict[Entry, UnforeseenError] = {}
        while (limit is None or sent < limit) and len(passed) < _PASSED_PER_WAKE:
            entry = self._buffer.newest(passed)
            if entry is None:
                break
            try:
                self._sink.send(entry.call())
            except RefusedError as error:
                _log.error("dropped %d datums for good: %s", entry.datums, error)
            except UnforeseenError as error:
                passed[entry] = error
                continue
            except UndeliveredError as error:
                self._complain(error)
                break
            else:
                is_any_taken = True
                self._note_recovery()
            self._buffer.remove(entry)
            sent += 1
        for entry, unforeseen in passed.items():
            if is_any_taken:
                self._pass_over(entry, unforeseen)
            else:
                self._complain(unforeseen)

    def _note_recovery(self) -> None:
        if self._failing:
            self._failing = False
            _log.warning("CloudWatch takes data again; %d calls wait", len(self._buffer) - 1)

    def _complain(self, error: UndeliveredError) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("not sent, kept to be tried again: %s", error)

    def _pass_over(self, entry: Entry, error: UnforeseenError) -> None:
        entry.passed_over += 1
        if entry.passed_over == 1:
            _log.warning("%d datums passed over, others were accepted: %s", entry.datums, error)
        elif entry.passed_over == _PASSES:
            _log.error("dropped %d datums after %d tries: %s", entry.datums, _PASSES, error)
            self._buffer.remove(entry)

    def _run(self) -> None:
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                # Read before draining, so that a call put in meanwhile gets another turn.
                is_last = self._stopping
                self.drain(None if is_last else _CALLS_PER_WAKE)
                if is_last:
                    return
        except Exception as error:  # noqa: BLE001 - `finish` raises it again in the main thread
            self._defect = error
            self._broken()


class Publisher:
    """Reads all GPUs every few seconds and hands each whole interval to the buffer."""

    def __init__(
        self,
        source: GpuSource,
        buffer: Buffer,
        host: Host,
        groups: Sequence[str] = GROUPS,
        pace: Pace = Pace(),
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._buffer = buffer
        self._host = host
        self._groups = groups
        self._pace = pace
        self._wake = wake
        self._window: Window | None = None
        self._closed: deque[int] = deque(maxlen=_CLOSED_KEPT)
        """The starts of the last intervals. None is opened again, whatever the clock says."""
        self._available = False
        self._complained = False

    def run(
        self, stop: threading.Event, now: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        """Sample until `stop` is set, then hand over the open interval.

        `now` is in seconds since 1970.
        """
        due = monotonic()
        try:
            while not stop.is_set():
                self.tick(now())
                # Late samples are skipped: a burst of them would weigh one moment too much.
                due = max(due + self._pace.sample_seconds, monotonic())
                stop.wait(due - monotonic())
        finally:
            self.flush()
            self._source.close()

    def tick(self, moment: float) -> None:
        """Take one sample at that moment (seconds since 1970), in a new interval if one begins.

        If a clock that was set back names a closed interval, samples count in the open one.
        """
        begins = self._begin_interval(moment)
        if not self._available and not (begins and self._open()):
            return
        try:
            samples = self._source.read(thorough=begins)
        except DriverUnavailableError as error:
            self._give_up(error)
            return
        if self._window is not None:
            self._window.add(samples)
        if begins and any(sample.figures.get(Figure.LOST) for sample in samples):
            # Only a new session with the driver sees a GPU that was reset or came back.
            self._open()

    def _begin_interval(self, moment: float) -> bool:
        """Open the interval of this moment unless it is open or closed. Return whether it was
        opened."""
        start = int(moment) // self._pace.publish_seconds * self._pace.publish_seconds
        if self._window is not None:
            is_same = start == self._window.start
            if is_same or start in self._closed:
                return False
        self.flush()
        self._window = Window(start)
        return True

    def flush(self) -> None:
        """Hand the open interval to the buffer."""
        if self._window is None:
            return
        for call in self._window.calls(self._host, self._groups):
            self._buffer.put(call)
        self._closed.append(self._window.start)
        self._window = None
        self._wake()

    def _open(self) -> bool:
        """Open the source. Return False if it is not available."""
        try:
            self._source.open()
        except DriverUnavailableError as error:
            self._give_up(error)
            return False
        self._available = True
        self._complained = False
        return True

    def _give_up(self, error: DriverUnavailableError) -> None:
        """Close the source until the next interval.

        Nothing is published meanwhile, because nothing is known.
        """
        self._source.close()
        self._available = False
        if not self._complained:
            self._complained = True
            _log.error("%s Tried again every %d s.", error, self._pace.publish_seconds)
