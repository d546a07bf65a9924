"""What an instance's own past was at a moment of its recording, for the question that the sweep asks of it.

Histories grow with the time that passes, and forget what a policy no longer looks back to; they hold what
`usecases.ask_the_past` would make of the metrics read at that moment. What was stopped publishes nothing.
This module must not know how a past is judged.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from governor.domain.detection.history import BIN_SECONDS, IDLE_BELOW_PERCENT, Bin, History
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime
from governor.usecases.ask_the_past import Proved, past_window
from simulation.recording import PERIOD, highest
from simulation.track import Track

_BINS = (Bin((None,)), Bin((0.0,)), Bin((100.0,)))
"""One for each state; a history asks a bin for nothing else."""
_UNKNOWN, _IDLE, _BUSY, _UNMEASURED = range(4)
"""Of a GPU in a bin; the last is a reading that measures nothing, as some publishers write for N/A."""
_IS_BUSY, _IS_IDLE = (bytes(state == wanted for state in range(256)) for wanted in (_BUSY, _IDLE))
_IS_PUBLISHED = bytes(state != _UNKNOWN for state in range(256))


class RecordedPast:
    """The source of pasts for the use case: recordings, up to the moment that is asked about."""

    def __init__(self, tracks: Iterable[Track]) -> None:
        self._pasts = {track.recording.instance.instance_id: _Past(track) for track in tracks}

    def __call__(
        self,
        target: Target,  # noqa: ARG002
        asked: Sequence[Proved],
        now: UtcDatetime,
    ) -> Mapping[str, History | str]:
        """As `ask_the_past.Past` says."""
        return {one.instance.instance_id: self._pasts[one.instance.instance_id].at(now) for one in asked}


@dataclass(slots=True)
class _Past:
    """One instance's, as far as it was asked about."""

    track: Track
    gpus: tuple[bytes, ...] = ()
    """The state of each GPU by bin."""
    published: tuple[bytes, ...] = ()
    """1 where there is a reading of it."""
    seen: tuple[int, ...] = ()
    """The GPUs that published anything in the window. A sweep does not know of others."""
    states: bytearray = field(default_factory=bytearray)
    """Of the whole instance by bin, as far as it was not stopped."""
    history: History = field(default_factory=lambda: History(0))
    stops: int = 0
    """So many are left out of `states`."""

    def at(self, now: UtcDatetime) -> History:
        """The history that the sweep would read at this moment. Asked about later moments only."""
        track = self.track
        window = past_window(track.policy, now)
        start = track.recording.span.start
        first, end = (max(0, (moment - start) // PERIOD) for moment in (window.start, window.end))
        end = min(end, track.recording.span.bins)
        if not self.gpus:
            self._look_at_gpus()
        seen = tuple(gpu for gpu, alive in enumerate(self.published) if alive.find(1, first, end) >= 0)
        if seen != self.seen:
            self._begin_anew(seen)
        for stopped, until in track.stops[self.stops :]:
            # Later than all that was asked about, so the history needs no mending.
            self.states[stopped:until] = bytes(until - stopped)
        self.stops = len(track.stops)
        history = self.history
        for state, run in groupby(self.states[len(history.bins) : end]):
            history.append(_BINS[state], len(list(run)))
        history.forget_before(history.first_bin + first)
        return history

    def _begin_anew(self, seen: tuple[int, ...]) -> None:
        """A GPU that appears was not measured before."""
        self.seen, self.stops = seen, 0
        self.states = _together([self.gpus[gpu] for gpu in seen])
        self.history = History(int(self.track.recording.span.start.timestamp()) // BIN_SECONDS)

    def _look_at_gpus(self) -> None:
        recording, metric = self.track.recording, self.track.policy.metrics.utilization
        by_gpu: dict[str, list[array[float]]] = {}
        for dimensions in recording.sets:
            values = recording.series.get((metric, dimensions, "Maximum"))
            if values is not None:
                by_gpu.setdefault(dict(dimensions).get("index", "all"), []).append(values)
        self.gpus = tuple(
            _states(found[0] if len(found) == 1 else highest(found, recording.span.bins))
            for found in by_gpu.values()
        )
        self.published = tuple(states.translate(_IS_PUBLISHED) for states in self.gpus)


def _states(values: array[float]) -> bytes:
    return bytes(
        [
            _BUSY
            if value >= IDLE_BELOW_PERCENT
            else _IDLE
            if value >= 0
            else _UNMEASURED
            if value == value
            else _UNKNOWN
            for value in values
        ]
    )


def _together(gpus: Sequence[bytes]) -> bytearray:
    """Busy when any GPU is, idle when every GPU is. All bins at once, as one large number of a byte a bin."""
    busy, idle = 0, -1
    for states in gpus:
        busy |= int.from_bytes(states.translate(_IS_BUSY))
        idle &= int.from_bytes(states.translate(_IS_IDLE))
    return bytearray((_BUSY * busy + _IDLE * idle).to_bytes(len(gpus[0])))
