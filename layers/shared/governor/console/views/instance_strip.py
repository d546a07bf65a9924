"""The strip of an instance's page: what is known of its last six weeks, as spans of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from governor.console.current_fleet import Row
from governor.console.page import ViewRequest
from governor.core.episode_ref import EpisodeRef
from governor.core.units import Percent, UtcDatetime
from governor.episode.model.episode import Episode
from governor.evidence.rules.series import busiest
from governor.fleet.model import FleetPage, FleetRow
from governor.limits.rules.breaker import HOUR, hour_of
from governor.money.model.ledger import LedgerEntry
from governor.verdict.model import IDLE

KINDS = ("used", "idle", "asked", "stopped", "running", "no data")
STOPS_DRAWN = 42
"""The most stops whose day before is drawn: one a night."""
Span = tuple[str, UtcDatetime, UtcDatetime]
"""A kind of `KINDS`, from one moment to another."""


def spans(
    request: ViewRequest,
    current_row: Row | None,
    stops: Sequence[LedgerEntry],
    episodes: Sequence[Episode],
) -> Iterator[Span]:
    """Yield spans of time with what is known of the instance in each, for the strip of six weeks.
    Later ones are drawn over those before: runs, the days before questions that the caller may see,
    stops (until now while they last), and what the last sweep saw.

    `stops` are booked actions, the newest first; `current_row` is `None` if the caller does not see
    the instance now. Raises: CloudError.
    """
    for entry in stops:
        yield "running", entry.episode.launch_time, entry.stopped_at
    refs_of_stops = [entry.episode for entry in stops[:STOPS_DRAWN]]
    questions = request.reader.approval_store.open_questions(refs_of_stops)
    episode_by_ref = {episode.ref: episode for episode in episodes}
    for episode, _ in questions.values():
        episode_by_ref[episode.ref] = episode
    for episode in episode_by_ref.values():
        if request.scope.sees(episode.ref.account, episode.project, episode.owner):
            yield from _day_before(episode)
    for entry in stops:
        yield "stopped", entry.stopped_at, entry.ended_at or request.now
    yield from _runs_that_fell_back(stops)
    if current_row is not None:
        row, page = current_row
        yield from _spans_now(row, page, request.now)


def _runs_that_fell_back(stops: Sequence[LedgerEntry]) -> Iterator[Span]:
    """Yield the minutes for which an instance ran after a start that fell back, if both entries
    around them are among `stops`, the newest first."""
    later_by_episode: dict[EpisodeRef, LedgerEntry] = {}
    for entry in stops:
        later = later_by_episode.get(entry.episode)
        if later is not None and entry.ended_at is not None:
            yield "running", entry.ended_at, later.booked_at
        later_by_episode[entry.episode] = entry


def _spans_now(row: FleetRow, page: FleetPage, now: UtcDatetime) -> Iterator[Span]:
    """Yield the spans since the launch of an instance that the last sweep saw running: measured
    hours, then its idle time, then its open question."""
    yield "running", row.launched_at, now
    last_hour = hour_of(page.swept_at)
    # The oldest hour first: a strip widens what is too thin to be seen, over what was before.
    for number, percent in enumerate(row.hours):
        start = last_hour - HOUR * (len(row.hours) - 1 - number)
        if percent is None and start == last_hour:
            # It has just begun: its first readings come some minutes later.
            continue
        kind = "no data" if percent is None else "used"
        first = max(row.launched_at, start)
        if row.idle_since is None or first < row.idle_since:
            yield kind, first, max(first, min(start + HOUR, now))
    if row.idle_since is not None and row.verdict in IDLE:
        yield "idle", row.idle_since, now
    if row.asked_at is not None:
        yield "asked", row.asked_at, now


def _day_before(episode: Episode) -> Iterator[Span]:
    """Yield the span in which the question of an episode was open, then those of what was measured
    on the day before it; none of these if the history could not be read."""
    ended_at = episode.opened_at if episode.ending is None else episode.ending.at
    yield "asked", episode.opened_at, ended_at
    history = episode.measurement.history
    if history is None:
        return
    below = episode.measurement.idle_below_percent
    window = history.window
    highest = busiest(history.gpus, window, below)
    kinds = [_kind_of(percent, below) for percent in highest]
    # One span for each run of bins of the same kind.
    for kind, run in groupby(enumerate(kinds), key=itemgetter(1)):
        ends = [window.bin_end(index) for index, _ in run]
        start = max(ends[0] - window.period, episode.ref.launch_time)
        yield kind, start, max(start, ends[-1])


def _kind_of(percent: Percent | None, below: Percent) -> str:
    """Return the kind of span for a reading: `no data` for `None`, `idle` below the threshold, else
    `used`."""
    if percent is None:
        return "no data"
    return "used" if percent >= below else "idle"
