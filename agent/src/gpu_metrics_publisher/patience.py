"""Reads GPUs in a thread of its own, so that a driver that hangs delays nothing else.

NVML has no time limit: a call into a driver that is stuck does not come back, and nothing can end
it. The GPUs behind it do not answer, which is what `Figure.LOST` means, so all of them are
published as lost meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable

from gpu_metrics_publisher.errors import DriverUnavailableError
from gpu_metrics_publisher.readings import Figure, Gpu, Sample
from gpu_metrics_publisher.service import GpuSource

_log = logging.getLogger(__name__)

LIMIT_SECONDS = 60.0
"""Waking eight GPUs that nothing keeps awake can take half a minute."""
_LOOK_SECONDS = 0.2
"""How often a stop is looked for while an answer is awaited."""


class _Question:
    """One call under way in a thread of its own."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._answer: Any = None
        self._error: Exception | None = None
        self.answered = threading.Event()
        self.hangs = False
        """True once there was no answer within the limit."""
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    def answer(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:  # noqa: BLE001 - `answer` raises it again for the asker
            self._error = error
        self.answered.set()


class PatientSource:
    """A source that returns after the limit, and at once when `stop` is set.

    It asks one question at a time. While one hangs, no other is asked.
    """

    def __init__(
        self,
        source: GpuSource,
        stop: threading.Event,
        limit_seconds: float = LIMIT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._stop = stop
        self._limit_seconds = limit_seconds
        self._monotonic = monotonic
        self._gpus: list[Gpu] = []
        """The GPUs of the last reading, which are lost while the driver does not answer."""
        self._pending: _Question | None = None
        """The question that got no answer in time, if there is one."""

    def open(self) -> None:
        """Open the source.

        Raises:
            DriverUnavailableError: as the source, or no answer in time while no GPU is known yet.
        """
        if self._settled():
            self._ask(self._source.open)
        if self._hangs() and not self._gpus:
            raise DriverUnavailableError(
                f"NVML has not answered for {self._limit_seconds:.0f} s. Look into the kernel's "
                "log; if it never answers, restart the machine."
            )

    def read(self, *, thorough: bool) -> list[Sample]:
        """Read the source. While it does not answer, return every GPU of the last reading as lost.

        Raises:
            DriverUnavailableError: as the source.
        """
        if self._pending is not None and self._pending.answered.is_set():
            # An Xid is reported once, so it counts now. The figures are from before the wait.
            late_samples: list[Sample] = self._late(self._pending) or []
            return [Sample(sample.gpu, {}, sample.xids) for sample in late_samples]
        samples = None
        if self._settled():
            samples = self._ask(lambda: self._source.read(thorough=thorough))
        if samples is not None:
            self._gpus = [sample.gpu for sample in samples]
            return list(samples)
        if self._hangs():
            return [Sample(gpu, {Figure.LOST: 1.0}) for gpu in self._gpus]
        return []

    def close(self) -> None:
        """Close the source; a driver that hangs is left as it is."""
        if self._settled():
            self._ask(self._source.close)

    def _hangs(self) -> bool:
        return self._pending is not None and self._pending.hangs

    def _settled(self) -> bool:
        """Take a late answer if there is one. Return whether another question can be asked."""
        if self._pending is not None and self._pending.answered.is_set():
            self._late(self._pending)
        return self._pending is None

    def _late(self, pending: _Question) -> Any:
        """Return the answer that came late."""
        self._pending = None
        if pending.hangs:
            _log.warning("NVML answers again")
        return pending.answer()

    def _ask(self, ask: Callable[[], Any]) -> Any | None:
        """Return the answer, or `None` if there is none in time."""
        question = _Question(ask)
        deadline = self._monotonic() + self._limit_seconds
        while not question.answered.wait(_LOOK_SECONDS):
            question.hangs = self._monotonic() >= deadline
            if not question.hangs and not self._stop.is_set():
                continue
            self._pending = question
            if question.hangs and self._gpus:
                _log.error(
                    "NVML has not answered for %.0f s: its %d GPUs are published as lost until it "
                    "does. Look into the kernel's log; if it never does, restart the machine.",
                    self._limit_seconds,
                    len(self._gpus),
                )
            return None
        return question.answer()
