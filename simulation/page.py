"""The report of a back-test as one HTML file that needs nothing else.

It has no script, and loads no font and no picture from elsewhere. The figures are those of
`simulation.report`; nothing is counted here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from governor.core.units import money, printable
from simulation import report, tradeoff
from simulation.outcome import Event, InstanceResult, Replay, Stop
from simulation.timeline import timeline, when

_FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class _Line:
    """One event of the table under a timeline, as text."""

    policy: str
    found: str
    asked: str
    ended: str
    ending: str
    until: str
    saved: str


@dataclass(frozen=True, slots=True)
class _Card:
    """One instance."""

    name: str
    about: str
    svg: Markup
    lines: tuple[_Line, ...]
    saved: timedelta
    owner: str
    kinds: frozenset[str]
    """The kinds of the filter: `stopped`, `soon` (a stop that hit work within an hour), `later`."""


_SHOWN = {
    "asked": "Something to ask",
    "stopped": "Stopped",
    "soon": "Hit work within 1 h",
    "later": "Hit work later",
    "all": "All",
}
"""The choices of the first filter; the second is by owner."""


def page(
    replays: Sequence[Replay],
    notes: Sequence[str],
    made_at: datetime,
    other_waits: Sequence[Replay] = (),
) -> str:
    """Return the page: the outcome as a sentence, figures, the trade-off, then a timeline for every
    instance.

    Args:
        replays: of different policies over the same recordings.
        notes: what a reader must know of where the readings are from.
        made_at: when, in UTC.
        other_waits: the same policy with other waits before a question, for the picture of the
            trade-off.
    """
    summaries = [report.summarize(replay) for replay in replays]
    lead, *other_sentences = [report.sentence(summary) for summary in report.by_saving(summaries)]
    cards = _cards(replays)
    owners = sorted({card.owner for card in cards})
    style = (_FOLDER / "report.css").read_text(encoding="utf-8") + _filters(len(owners))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    points = tradeoff.points(replays, other_waits)
    shown_points = points if tradeoff.is_worth_showing(points) else ()
    cards_with_events = [card for card in cards if card.lines]
    other_cards = [card for card in cards if not card.lines]
    template = _environment().get_template("report.html")
    return template.render(
        style=Markup(style),  # noqa: S704 - our own file, and numbers
        style_source=f"'sha256-{digest}'",
        lead=lead,
        others=other_sentences,
        period=_period_of(replays),
        made_at=f"{made_at:%b} {made_at.day}, {made_at:%Y %H:%M} UTC",
        summaries=summaries,
        names=[summary.name for summary in summaries],
        rows=report.figure_rows(summaries),
        asked=report.by_owner(summaries),
        notes=notes,
        points=shown_points,
        chart=tradeoff.chart(points),
        caption=tradeoff.caption(points),
        owners=owners,
        shown=_SHOWN,
        counts=_counts(cards),
        cards=cards_with_events,
        rest=other_cards,
    )


def _cards(replays: Sequence[Replay]) -> list[_Card]:
    """Return a card for each instance, the highest saving first."""
    names = [replay.name for replay in replays]
    results_of_instances = zip(*(replay.results for replay in replays), strict=True)
    cards = [_card(list(zip(names, results, strict=True))) for results in results_of_instances]
    return sorted(cards, key=lambda card: (-card.saved, card.name))


def _counts(cards: Sequence[_Card]) -> dict[str, int]:
    """Return how many instances each choice of the filter shows."""
    counts = {}
    for kind in _SHOWN:
        counts[kind] = sum(_is_shown(card, kind) for card in cards)
    return counts


def _period_of(replays: Sequence[Replay]) -> str:
    spans = []
    for replay in replays:
        for result in replay.results:
            spans.append(result.recording.span)
    since = min(span.start for span in spans)
    until = max(span.end for span in spans)
    return _period(since, until)


def _period(since: datetime, until: datetime) -> str:
    """Return a period as `Nov 2 to Nov 15, 2026 (UTC)`, up to the last recorded day."""
    last = until - timedelta(seconds=1)
    year = "" if since.year == last.year else f", {since.year}"
    return f"{since:%b} {since.day}{year} to {last:%b} {last.day}, {last.year} (UTC)"


def _is_shown(card: _Card, kind: str) -> bool:
    if kind == "all":
        return True
    if kind == "asked":
        return bool(card.lines)
    return kind in card.kinds


def _filters(owners: int) -> str:
    """Return style rules that hide the owners that were not chosen, so that no script is needed.
    Owners go by number."""
    rules = [
        f"main:has(#owner [value='{number}']:checked) section:not(.owner{number}){{display:none}}\n"
        for number in range(owners)
    ]
    return "".join(rules)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _card(results: Sequence[tuple[str, InstanceResult]]) -> _Card:
    """Return the card of one instance, from its result under each policy by name."""
    _, first = results[0]
    recording = first.recording
    instance = recording.instance
    price = recording.price
    cost = price.source if price.usd_per_hour is None else f"{price.usd_per_hour} USD an hour"
    lanes = [(policy, result.events) for policy, result in results]
    saved = timedelta(0)
    kinds: set[str] = set()
    for _, result in results:
        stops = _stops(result)
        saved = max(saved, sum((stop.length for stop in stops), timedelta(0)))
        kinds |= _kinds(stops)
    lines = []
    for policy, events in lanes:
        for event in events:
            lines.append(_line(policy, event))
    return _Card(
        name=instance.name,
        about=f"{instance.instance_id}, {instance.instance_type} in {instance.target}, "
        f"owner {first.owner}, {cost}",
        svg=timeline(recording, lanes),
        lines=tuple(lines),
        saved=saved,
        owner=printable(first.owner),
        kinds=frozenset(kinds),
    )


def _stops(result: InstanceResult) -> list[Stop]:
    stops = []
    for event in result.events:
        if event.stop is not None:
            stops.append(event.stop)
    return stops


def _kinds(stops: Sequence[Stop]) -> set[str]:
    """Return the choices of the filter under which an instance with these stops is shown."""
    kinds = set()
    for stop in stops:
        kinds.add("stopped")
        if stop.hit_work:
            kinds.add("soon" if stop.is_hit_soon else "later")
    return kinds


def _line(policy: str, event: Event) -> _Line:
    stop = event.stop
    until = ""
    saved = ""
    if stop is not None:
        until = f"{when(stop.until)}, {'work resumed' if stop.hit_work else 'no work hit'}"
        saved = "unpriced" if stop.usd is None else money(stop.usd)
    return _Line(
        policy=policy,
        found=when(event.found_at),
        asked="" if event.sent_at is None else when(event.sent_at),
        ended=when(event.ended_at),
        ending=event.ending.value,
        until=until,
        saved=saved,
    )
