"""The loop: sample, close an interval, hand it to the sender; a second thread sends.

Two threads, so that a network that hangs never costs a sample. Time, source and sink are arguments.
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
"""At most so many calls of a backlog at a time, so that a returning network is not flooded: an hour
or two of most machines a minute."""
_PASSED_PER_WAKE = 10
"""So many calls with an unforeseen answer are passed over at a time: where all get one, no more are
tried."""
_PASSES = 5
"""So often a call is passed over while others are taken; then it is dropped."""
_CLOSED_KEPT = 120
"""Two hours of minutes: a clock that was further ahead has got nothing into CloudWatch."""


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
        """Called when the thread ends for a defect: without it the buffer would fill in silence."""
        self._defect: Exception | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begins to send what the buffer holds whenever woken."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    def finish(self, timeout_seconds: float) -> None:
        """Tries once more to send everything, then ends; gives up after the timeout and says what
        is lost.

        Raises:
            Exception: whatever ended the thread before its time.
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
        """Sends the newest first until none is left, `limit` calls went out, or CloudWatch takes
        none.

        A call with an unforeseen answer is passed over. If others are taken then, the fault is its
        own: after `_PASSES` such rounds it is dropped.
        """
        sent, taken = 0, False
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
                taken = True
                if self._failing:
                    self._failing = False
                    _log.warning(
                        "CloudWatch takes data again; %d calls wait", len(self._buffer) - 1
                    )
            self._buffer.remove(entry)
            sent += 1
        for entry, answer in passed.items():
            if taken:
                self._pass_over(entry, answer)
            else:
                self._complain(answer)

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
                last = (
                    self._stopping
                )  # read before draining: what is put in later finds another turn
                self.drain(None if last else _CALLS_PER_WAKE)
                if last:
                    return
        except Exception as error:  # noqa: BLE001 - raised again by `finish`, in the thread that people see
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
        """Begins of the last intervals: none of them begins again, whatever the clock says."""
        self._available = False
        self._complained = False

    def run(
        self, stop: threading.Event, now: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        """Samples until `stop` is set, then hands over the interval begun. `now` is in seconds
        since 1970."""
        due = monotonic()
        try:
            while not stop.is_set():
                self.tick(now())
                # Late samples are skipped, never caught up: a burst would weigh one moment too
                # much.
                due = max(due + self._pace.sample_seconds, monotonic())
                stop.wait(due - monotonic())
        finally:
            self.flush()
            self._source.close()

    def tick(self, moment: float) -> None:
        """One sample at that moment (seconds since 1970); closes the interval before, if this
        begins one.

        While a clock that was set back says the time of a closed interval, samples count in the
        open one.
        """
        start = int(moment) // self._pace.publish_seconds * self._pace.publish_seconds
        begins = self._window is None or (start != self._window.start and start not in self._closed)
        if begins:
            self.flush()
            self._window = Window(start)
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
            # A GPU that was reset or came back is seen only by a fresh session with the driver.
            self._open()

    def flush(self) -> None:
        """Hands the interval begun to the buffer."""
        if self._window is None:
            return
        for call in self._window.calls(self._host, self._groups):
            self._buffer.put(call)
        self._closed.append(self._window.start)
        self._window = None
        self._wake()

    def _open(self) -> bool:
        try:
            self._source.open()
        except DriverUnavailableError as error:
            self._give_up(error)
            return False
        self._available = True
        self._complained = False
        return True

    def _give_up(self, error: DriverUnavailableError) -> None:
        """Until the next interval. Nothing is published meanwhile: missing data is the truth."""
        self._source.close()
        self._available = False
        if not self._complained:
            self._complained = True
            _log.error("%s Tried again every %d s.", error, self._pace.publish_seconds)
