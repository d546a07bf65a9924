"""The report of a back-test: the effects of each policy in figures, as a table for people and as
JSON for machines.

Hours are of instances. This module must not know how a replay comes about.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from governor.core.units import Usd, iso, money, plural, printable, usd
from simulation.outcome import Ending, Event, InstanceResult, Replay, Stop


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one policy. A stop that hits no work lasts until others stop the instance, or
    until the record ends."""

    name: str
    version: str
    mode: str
    instances: int
    instances_asked: int
    asks: int
    asks_by_owner: Mapping[str, int]
    answered_by_work: int
    """Questions that work ended before anything was done."""
    told_only: int
    acted_unasked: int
    stops: int
    hours_saved: Decimal
    usd_saved: Usd
    unpriced_stops: int
    """Stops whose saving is not known, so that `usd_saved` leaves them out."""
    hit_within_an_hour: int
    hit_later: int
    idle_hours: Decimal
    idle_hours_left: Decimal
    no_data_hours: Decimal
    freezes: int


def summarize(replay: Replay) -> Summary:
    """Return the figures of one replay."""
    results = replay.results
    asks_by_owner: Counter[str] = Counter()
    events: list[Event] = []
    instances_asked = 0
    for result in results:
        asks = _asks(result)
        asks_by_owner[result.owner] += asks
        instances_asked += asks > 0
        events += result.events
    stops = []
    for event in events:
        if event.stop is not None:
            stops.append(event.stop)
    amounts = []
    for stop in stops:
        if stop.usd is not None:
            amounts.append(stop.usd)
    hits = [stop for stop in stops if stop.hit_work]
    hits_soon = sum(stop.is_hit_soon for stop in hits)
    hours_saved = _total_hours(stop.length for stop in stops)
    idle_hours = _total_hours(result.idle for result in results)
    idle_hours_left = _total_hours(result.idle_left for result in results)
    no_data_hours = _total_hours(result.no_data for result in results)
    return Summary(
        name=replay.name,
        version=replay.version,
        mode=replay.mode.value,
        instances=len(results),
        instances_asked=instances_asked,
        asks=asks_by_owner.total(),
        asks_by_owner=dict((+asks_by_owner).most_common()),
        answered_by_work=sum(map(_is_answered_by_work, events)),
        told_only=sum(map(_is_told_only, events)),
        acted_unasked=sum(map(_is_unasked_stop, events)),
        stops=len(stops),
        hours_saved=hours_saved,
        usd_saved=sum(amounts, Decimal(0)),
        unpriced_stops=len(stops) - len(amounts),
        hit_within_an_hour=hits_soon,
        hit_later=len(hits) - hits_soon,
        idle_hours=idle_hours,
        idle_hours_left=idle_hours_left,
        no_data_hours=no_data_hours,
        freezes=replay.freezes,
    )


def _is_answered_by_work(event: Event) -> bool:
    return event.sent_at is not None and event.ending is Ending.WOKE_UP


def _is_told_only(event: Event) -> bool:
    return event.ending is Ending.TOLD


def _is_unasked_stop(event: Event) -> bool:
    return event.sent_at is None and event.stop is not None


def _total_hours(lengths: Iterable[timedelta]) -> Decimal:
    return sum(map(hours, lengths), Decimal(0))


def hours(length: timedelta) -> Decimal:
    """Return a length in hours, exact to the second."""
    return Decimal(length // timedelta(seconds=1)) / 3600


def usd_text(summary: Summary) -> str:
    """Return the saved amount, and how many stops it leaves out."""
    if not summary.unpriced_stops:
        return money(summary.usd_saved)
    if summary.unpriced_stops == summary.stops:
        return "unpriced"
    return f"{money(summary.usd_saved)} ({summary.unpriced_stops} unpriced)"


def saved_text(summary: Summary) -> str:
    """Return the saving as `$68,344`, or in hours if no stop has a price."""
    if summary.stops and summary.unpriced_stops == summary.stops:
        return f"{money(summary.hours_saved, 0)} h"
    return usd(summary.usd_saved)


def sentence(summary: Summary) -> str:
    """Return the policy in one sentence: what it would have saved, and at what cost."""
    name = printable(summary.name)
    if not summary.stops:
        return f"{name} would have stopped nothing."
    hits = f"{summary.hit_within_an_hour:,} of {plural(summary.stops, 'stop')}"
    saved = saved_text(summary)
    return f"{name} would have saved {saved}; {hits} hit work that resumed within an hour."


def by_saving(summaries: Sequence[Summary]) -> list[Summary]:
    """Return the summaries with the highest saving first."""
    return sorted(summaries, key=lambda summary: (-summary.usd_saved, -summary.hours_saved))


def _figures_of(summary: Summary) -> Sequence[tuple[str, str]]:
    """Return the figures of one policy, each with its label, in the order of the table."""
    return (
        ("instances", str(summary.instances)),
        ("instances asked about", str(summary.instances_asked)),
        ("questions", str(summary.asks)),
        ("  of them ended because work resumed", str(summary.answered_by_work)),
        ("notified only, no plan possible", str(summary.told_only)),
        ("stops", str(summary.stops)),
        ("  of them without asking (auto)", str(summary.acted_unasked)),
        ("  hit work within 1 h of the stop", str(summary.hit_within_an_hour)),
        ("  hit work later", str(summary.hit_later)),
        ("hours saved", money(summary.hours_saved, 1)),
        ("USD saved, net of storage", usd_text(summary)),
        ("idle hours (stretches of 1 h and more)", money(summary.idle_hours, 1)),
        ("idle hours not saved", money(summary.idle_hours_left, 1)),
        ("hours without data", money(summary.no_data_hours, 1)),
        ("times the breaker froze all plans", str(summary.freezes)),
    )


def figure_rows(summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    """Return the label of each figure, with its text for every policy."""
    texts_by_label: dict[str, list[str]] = {}
    for summary in summaries:
        for label, text in _figures_of(summary):
            texts_by_label.setdefault(label, []).append(text)
    return list(texts_by_label.items())


def table(summaries: Sequence[Summary]) -> str:
    """Return a table with a column for each policy, then questions by owner if there are any."""
    rows = table_rows(summaries)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for label, *figures in rows:
        cells = [label.ljust(widths[0])]
        cells += map(str.rjust, figures, widths[1:])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def table_rows(summaries: Sequence[Summary]) -> list[list[str]]:
    """Return the rows of the table, below the names of the policies."""
    no_figures = ["" for _ in summaries]
    rows = [["", *(printable(summary.name) for summary in summaries)]]
    for label, texts in figure_rows(summaries):
        rows.append([label, *texts])
    counts_by_owner = by_owner(summaries)
    if counts_by_owner:
        rows.append(["", *no_figures])
        rows.append(["questions by owner", *no_figures])
        rows += [[f"  {printable(owner)}", *counts] for owner, counts in counts_by_owner]
    return rows


def by_owner(summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    """Return the questions by owner, a count for each policy, the most questions first."""
    totals: Counter[str] = Counter()
    for summary in summaries:
        totals.update(summary.asks_by_owner)
    counts_by_owner = []
    for owner, _ in totals.most_common():
        counts = [str(summary.asks_by_owner.get(owner, 0)) for summary in summaries]
        counts_by_owner.append((owner, counts))
    return counts_by_owner


def document(replays: Sequence[Replay], notes: Sequence[str]) -> str:
    """Return everything as JSON: figures by policy, and every event of every instance. Amounts are
    strings."""
    policies = [_policy(replay) for replay in replays]
    return json.dumps({"notes": list(notes), "policies": policies}, indent=2)


def _policy(replay: Replay) -> dict[str, Any]:
    instances = [_instance(result) for result in replay.results]
    return {**_figures(summarize(replay)), "instances": instances}


def _figures(summary: Summary) -> dict[str, Any]:
    return {
        "name": summary.name,
        "version": summary.version,
        "mode": summary.mode,
        "instance_count": summary.instances,
        "instances_asked": summary.instances_asked,
        "questions": summary.asks,
        "questions_by_owner": dict(summary.asks_by_owner),
        "questions_ended_by_work": summary.answered_by_work,
        "told_only": summary.told_only,
        "stops": summary.stops,
        "stops_unasked": summary.acted_unasked,
        "stops_hit_within_an_hour": summary.hit_within_an_hour,
        "stops_hit_later": summary.hit_later,
        "stops_unpriced": summary.unpriced_stops,
        "hours_saved": _plain(summary.hours_saved, 2),
        "usd_saved": _plain(summary.usd_saved),
        "idle_hours": _plain(summary.idle_hours, 2),
        "idle_hours_left": _plain(summary.idle_hours_left, 2),
        "no_data_hours": _plain(summary.no_data_hours, 2),
        "freezes": summary.freezes,
    }


def _instance(result: InstanceResult) -> dict[str, Any]:
    instance = result.recording.instance
    return {
        "instance_id": instance.instance_id,
        "name": instance.name,
        "instance_type": instance.instance_type,
        "account": instance.target.account,
        "region": instance.target.region,
        "owner": result.owner,
        "price": result.recording.price.source,
        "events": [_event(event) for event in result.events],
    }


def _event(event: Event) -> dict[str, Any]:
    asked_at = None
    if event.sent_at is not None:
        asked_at = iso(event.sent_at)
    stop = None
    if event.stop is not None:
        stop = _stop(event.stop)
    return {
        "found_at": iso(event.found_at),
        "asked_at": asked_at,
        "ended_at": iso(event.ended_at),
        "ending": event.ending.value,
        "reason": event.reason,
        "stop": stop,
    }


def _stop(stop: Stop) -> dict[str, Any]:
    saved_usd = None
    if stop.usd is not None:
        saved_usd = _plain(stop.usd)
    return {
        "at": iso(stop.at),
        "until": iso(stop.until),
        "hit_work": stop.hit_work,
        "usd": saved_usd,
    }


def _plain(amount: Decimal, places: int = 2) -> str:
    """Return an amount without separators of thousands, as machines read it."""
    return money(amount, places).replace(",", "")


def _asks(result: InstanceResult) -> int:
    return sum(event.sent_at is not None for event in result.events)
