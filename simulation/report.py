"""The effects of each policy in figures: as a table for people, as JSON for machines.

Hours are of instances. This module must not know how a replay comes about.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from governor.domain.units import Usd, iso, money, plural, printable, usd
from simulation.outcome import Ending, Event, InstanceResult, Replay, Stop


@dataclass(frozen=True, slots=True)
class Summary:
    """One policy. A stop that hits no work ends because others put the instance away, or the record
    ends."""

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
    """Stops whose saving is not known, and so not in `usd_saved`."""
    hit_within_an_hour: int
    hit_later: int
    idle_hours: Decimal
    idle_hours_left: Decimal
    no_data_hours: Decimal
    freezes: int


def summarise(replay: Replay) -> Summary:
    """The figures of one replay."""
    events = [event for result in replay.results for event in result.events]
    stops = [event.stop for event in events if event.stop is not None]
    hits = [stop for stop in stops if stop.hit_work]
    within = sum(stop.is_hit_soon for stop in hits)
    by_owner: Counter[str] = Counter()
    for result in replay.results:
        by_owner[result.owner] += _asks(result)
    return Summary(
        name=replay.name,
        version=replay.version,
        mode=replay.mode.value,
        instances=len(replay.results),
        instances_asked=sum(_asks(result) > 0 for result in replay.results),
        asks=sum(by_owner.values()),
        asks_by_owner={owner: count for owner, count in by_owner.most_common() if count},
        answered_by_work=sum(
            event.sent_at is not None and event.ending is Ending.WOKE_UP for event in events
        ),
        told_only=sum(event.ending is Ending.TOLD for event in events),
        acted_unasked=sum(event.sent_at is None and event.stop is not None for event in events),
        stops=len(stops),
        hours_saved=sum((hours(stop.length) for stop in stops), Decimal(0)),
        usd_saved=sum((stop.usd for stop in stops if stop.usd is not None), Decimal(0)),
        unpriced_stops=sum(stop.usd is None for stop in stops),
        hit_within_an_hour=within,
        hit_later=len(hits) - within,
        idle_hours=sum((hours(result.idle) for result in replay.results), Decimal(0)),
        idle_hours_left=sum((hours(result.idle_left) for result in replay.results), Decimal(0)),
        no_data_hours=sum((hours(result.no_data) for result in replay.results), Decimal(0)),
        freezes=replay.freezes,
    )


def hours(length: timedelta) -> Decimal:
    """Hours, exact to the second."""
    return Decimal(length // timedelta(seconds=1)) / 3600


def usd_text(one: Summary) -> str:
    """The amount; what is not in it is said."""
    if not one.unpriced_stops:
        return money(one.usd_saved)
    if one.unpriced_stops == one.stops:
        return "unpriced"
    return f"{money(one.usd_saved)} ({one.unpriced_stops} unpriced)"


def saved_text(one: Summary) -> str:
    """`$68,344`, or hours where no stop has a price."""
    if one.stops and one.unpriced_stops == one.stops:
        return f"{money(one.hours_saved, 0)} h"
    return usd(one.usd_saved)


def sentence(one: Summary) -> str:
    """The policy in one sentence: what it would have saved, and at whose cost."""
    name = printable(one.name)
    if not one.stops:
        return f"{name} would have stopped nothing."
    hits = f"{one.hit_within_an_hour:,} of {plural(one.stops, 'stop')}"
    return (
        f"{name} would have saved {saved_text(one)}; {hits} hit work that resumed within an hour."
    )


def by_saving(summaries: Sequence[Summary]) -> list[Summary]:
    """Return what saves most comes first."""
    return sorted(summaries, key=lambda one: (-one.usd_saved, -one.hours_saved))


ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("instances", lambda one: str(one.instances)),
    ("instances asked about", lambda one: str(one.instances_asked)),
    ("questions", lambda one: str(one.asks)),
    ("  of them ended by work before the act", lambda one: str(one.answered_by_work)),
    ("notified only, no plan possible", lambda one: str(one.told_only)),
    ("stops", lambda one: str(one.stops)),
    ("  of them without asking (auto)", lambda one: str(one.acted_unasked)),
    ("  hit work within 1 h of the stop", lambda one: str(one.hit_within_an_hour)),
    ("  hit work later", lambda one: str(one.hit_later)),
    ("hours saved", lambda one: money(one.hours_saved, 1)),
    ("USD saved, net of storage", usd_text),
    ("idle hours (stretches of 1 h and more)", lambda one: money(one.idle_hours, 1)),
    ("idle hours not used", lambda one: money(one.idle_hours_left, 1)),
    ("hours without data", lambda one: money(one.no_data_hours, 1)),
    ("times the breaker froze all plans", lambda one: str(one.freezes)),
)


def table(summaries: Sequence[Summary]) -> str:
    """A column a policy; then questions by owner, where there are any."""
    lines = [["", *(printable(one.name) for one in summaries)]]
    lines += [[label, *(figure(one) for one in summaries)] for label, figure in ROWS]
    if owners := by_owner(summaries):
        lines += [["", *("" for _ in summaries)], ["questions by owner", *("" for _ in summaries)]]
        lines += [[f"  {printable(owner)}", *counts] for owner, counts in owners]
    widths = [max(len(row[column]) for row in lines) for column in range(len(summaries) + 1)]
    text = []
    for row in lines:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        text.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(text)


def by_owner(summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    """Questions by owner, one count a policy; who is asked most comes first."""
    totals: Counter[str] = Counter()
    for one in summaries:
        totals.update(one.asks_by_owner)
    return [
        (owner, [str(one.asks_by_owner.get(owner, 0)) for one in summaries])
        for owner, _ in totals.most_common()
    ]


def document(replays: Sequence[Replay], notes: Sequence[str]) -> str:
    """Everything as JSON: figures by policy, and every event of every instance. Amounts are
    strings."""
    return json.dumps(
        {
            "notes": list(notes),
            "policies": [
                {
                    **_figures(summarise(replay)),
                    "instances": [_instance(one) for one in replay.results],
                }
                for replay in replays
            ],
        },
        indent=2,
    )


def _figures(one: Summary) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version,
        "mode": one.mode,
        "instance_count": one.instances,
        "instances_asked": one.instances_asked,
        "questions": one.asks,
        "questions_by_owner": dict(one.asks_by_owner),
        "questions_ended_by_work": one.answered_by_work,
        "told_only": one.told_only,
        "stops": one.stops,
        "stops_unasked": one.acted_unasked,
        "stops_hit_within_an_hour": one.hit_within_an_hour,
        "stops_hit_later": one.hit_later,
        "stops_unpriced": one.unpriced_stops,
        "hours_saved": money(one.hours_saved, 2).replace(",", ""),
        "usd_saved": money(one.usd_saved).replace(",", ""),
        "idle_hours": money(one.idle_hours, 2).replace(",", ""),
        "idle_hours_left": money(one.idle_hours_left, 2).replace(",", ""),
        "no_data_hours": money(one.no_data_hours, 2).replace(",", ""),
        "freezes": one.freezes,
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
    return {
        "found_at": iso(event.found_at),
        "asked_at": None if event.sent_at is None else iso(event.sent_at),
        "ended_at": iso(event.ended_at),
        "ending": event.ending.value,
        "reason": event.reason,
        "stop": None if event.stop is None else _stop(event.stop),
    }


def _stop(stop: Stop) -> dict[str, Any]:
    return {
        "at": iso(stop.at),
        "until": iso(stop.until),
        "hit_work": stop.hit_work,
        "usd": None if stop.usd is None else money(stop.usd).replace(",", ""),
    }


def _asks(result: InstanceResult) -> int:
    return sum(event.sent_at is not None for event in result.events)
