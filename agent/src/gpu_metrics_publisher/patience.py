"""A driver that hangs holds up nobody but a thread of its own.

NVML has no time limit: a call into a driver that is stuck does not come back, and nothing can end
it. The GPUs behind it do not answer, which is what `Figure.LOST` says, so all of them are told as
lost meanwhile.
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
"""While an answer is awaited, how soon a stop is seen."""


class _Question:
    """One call under way in a thread of its own; what it gave or raised comes out of `answer`."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._given: Any = None
        self._error: Exception | None = None
        self.answered = threading.Event()
        self.hangs = False
        """No answer within the limit."""
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._given

    def _run(self) -> None:
        try:
            self._given = self._ask()
        except Exception as error:  # noqa: BLE001 - raised again by `answer`, in the thread that asked
            self._error = error
        self.answered.set()


class PatientSource:
    """A source that comes back in time: after the limit, and at once when `stop` is set.

    It asks one question at a time. While one hangs no other is asked.
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
        """Those of the last reading: the ones that are lost while nothing answers."""
        self._pending: _Question | None = None
        """A question that was not waited for any longer."""

    def open(self) -> None:
        """As the source.

        Raises:
            DriverUnavailableError: as the source, or no answer in time while no GPU is known yet.
        """
        if self._settled():
            self._ask(self._source.open)
        if self._hangs() and not self._gpus:
            raise DriverUnavailableError(
                f"NVML has not answered for {self._limit_seconds:.0f} s. Look into the "
                "kernel's log; if it "
                "never answers, restart the machine."
            )

    def read(self, *, thorough: bool) -> list[Sample]:
        """As the source; while it does not answer, every GPU that it had told of, lost.

        Raises:
            DriverUnavailableError: as the source.
        """
        if self._pending is not None and self._pending.answered.is_set():
            # An Xid is told once, so it counts now; figures from before the wait are of no moment.
            return [
                Sample(sample.gpu, {}, sample.xids) for sample in self._late(self._pending) or ()
            ]
        samples = None
        if self._settled():
            samples = self._ask(lambda: self._source.read(thorough=thorough))
        if samples is None:
            return [Sample(gpu, {Figure.LOST: 1.0}) for gpu in self._gpus] if self._hangs() else []
        self._gpus = [sample.gpu for sample in samples]
        return list(samples)

    def close(self) -> None:
        """As the source; a driver that hangs is left as it is."""
        if self._settled():
            self._ask(self._source.close)

    def _hangs(self) -> bool:
        return self._pending is not None and self._pending.hangs

    def _settled(self) -> bool:
        """Return whether another question can be asked."""
        if self._pending is not None and self._pending.answered.is_set():
            self._late(self._pending)
        return self._pending is None

    def _late(self, pending: _Question) -> Any:
        """Return what was given in the end."""
        self._pending = None
        if pending.hangs:
            _log.warning("NVML answers again")
        return pending.answer()

    def _ask(self, ask: Callable[[], Any]) -> Any | None:
        """The answer; `None` where there is none in time."""
        question = _Question(ask)
        until = self._monotonic() + self._limit_seconds
        while not question.answered.wait(_LOOK_SECONDS):
            question.hangs = self._monotonic() >= until
            if question.hangs or self._stop.is_set():
                self._pending = question
                if question.hangs and self._gpus:
                    _log.error(
                        "NVML has not answered for %.0f s: its %d GPUs are published as "
                        "lost until it "
                        "does. Look into the kernel's log; if it never does, restart the machine.",
                        self._limit_seconds,
                        len(self._gpus),
                    )
                return None
        return question.answer()
