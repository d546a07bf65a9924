"""Figures in a message: a chart of the history or of the savings, and the table of evidence.

This module reads nothing: it formats what the episode and the alert hold.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from governor.alerts.model import Alert
from governor.core import units
from governor.core.units import UtcDatetime, in_parts, minutes
from governor.episode.model.episode import Episode
from governor.evidence.model import Series
from governor.evidence.rules.profiles import part_word_of_type
from governor.evidence.rules.series import busiest, gpu_rows, peak
from governor.notify.message import BARS, Chart, Table

_NO_DATA = "·"


def hours_chart(episode: Episode, now: UtcDatetime) -> Chart | None:
    """Return a chart of the episode's history, with one bar an hour for the busiest GPU; `None` if
    the history could not be read. Its times are written relative to `now`."""
    history = episode.measurement.history
    if history is None:
        return None
    window = history.window
    below = episode.measurement.idle_below_percent
    periods_an_hour = max(1, timedelta(hours=1) // window.period)
    hours = in_parts(busiest(history.gpus, window, below), periods_an_hour)
    bars = "".join(_hour_bar(tuple(hour), below) for hour in hours)
    since = units.day_and_time(window.start, episode.asking.time_zone, now)
    until = units.clock(window.end, episode.asking.time_zone, now)
    legend = f"{_NO_DATA} no data" if _NO_DATA in bars else ""
    gaps = ", gap: no data" if legend else ""
    meanings = f"Lowest bar: idle (under {below:g}%){gaps}."
    word = part_word_of_type(episode.instance.instance_type)
    return Chart(
        title=f"Busiest {word} by hour, last {len(bars)} h",
        bars=bars,
        caption=f"Busiest {word} by hour, {since} to {until}. {meanings}",
        legend=legend,
    )


def _hour_bar(hour: Series, below: float) -> str:
    """Return the character for the highest reading of an hour, in percent: the lowest bar for an
    hour under the threshold `below`, a dot for an hour without readings."""
    highest = peak(hour)
    if highest is None:
        return _NO_DATA
    if highest < below:
        return BARS[0]
    # Eight bars for 0 to 100%; a busy hour never gets the bar of an idle one.
    level = int(highest / 12.5)
    return BARS[max(1, min(7, level))]


def _saved_by_day(alert: Alert) -> list[Decimal]:
    """Return the USD saved on each day, as a report's alert lists them; empty for any other
    alert."""
    amounts = alert.facts.get("saved_by_day")
    if not isinstance(amounts, list):
        return []
    return [Decimal(str(amount)) for amount in amounts]


def days_chart(alert: Alert) -> Chart | None:
    """Return a chart with one bar a day for the saved USD; `None` if no day saved anything, or the
    alert is no report."""
    days = _saved_by_day(alert)
    highest = max(days, default=Decimal(0))
    if highest <= 0:
        return None
    bars = "".join(_day_bar(amount, highest) for amount in days)
    title = f"Saved by day (UTC), up to {units.usd(highest)}"
    return Chart(title, bars, caption=title)


def _day_bar(amount: Decimal, highest: Decimal) -> str:
    """Return the character for an amount, relative to the highest one; the lowest bar for a
    loss."""
    eighths = max(Decimal(0), 8 * amount / highest)
    return BARS[min(7, int(eighths))]


def evidence_table(episode: Episode, now: UtcDatetime) -> Table:
    """Return a table with a row for each GPU and its utilization in the evidence, by which the
    instance was judged idle."""
    window = episode.measurement.evidence.window
    until = units.clock(window.end, episode.asking.time_zone, now)
    word = part_word_of_type(episode.instance.instance_type)
    return Table(
        caption=f"{word} utilization over {minutes(window.length)} min, until {until}",
        columns=(word, "highest", "average", "time measured"),
        rows=gpu_rows(episode.measurement.evidence, word),
    )
