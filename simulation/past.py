"""What an instance's own past was at a moment of its recording, for the question that the sweep asks of it.

Histories grow with the time that passes, and forget what a policy no longer looks back to; they hold what
`usecases.ask_the_past` would make of the metrics read at that moment. What was stopped publishes nothing.
This module must not know how a past is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from governor.domain.detection.history import BIN_SECONDS, Bin, History
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime
from governor.usecases.ask_the_past import Proved, past_window
from simulation.recording import BUSY, IDLE, PERIOD, UNMEASURED
from simulation.track import Track

_BINS = tuple(Bin((value,)) for value in (None, 0.0, 100.0))
"""One for each state of an instance; a history asks a bin for nothing else."""
_IS_BUSY, _IS_IDLE, _IS_PUBLISHED = (
    bytes(state in wanted for state in range(256)) for wanted in ((BUSY,), (IDLE,), (IDLE, BUSY, UNMEASURED))
)


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
            self.gpus = track.recording.states(track.policy.metrics.utilization)
            self.published = tuple(states.translate(_IS_PUBLISHED) for states in self.gpus)
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


def _together(gpus: Sequence[bytes]) -> bytearray:
    """Busy when any GPU is, idle when every GPU is. All bins at once, as one large number of a byte a bin."""
    busy, idle = 0, -1
    for states in gpus:
        busy |= int.from_bytes(states.translate(_IS_BUSY))
        idle &= int.from_bytes(states.translate(_IS_IDLE))
    return bytearray((BUSY * busy + IDLE * idle).to_bytes(len(gpus[0])))
