"""The report as one HTML file that needs nothing else: no script, no font, no picture from
elsewhere."""

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

from governor.domain.units import money, printable
from simulation import report, tradeoff
from simulation.outcome import Event, InstanceResult, Replay
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
    """Kinds that the filters go by: `stopped`, `soon` (a stop that hit work within an hour),
    `later`."""


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
    """The page: the outcome as a sentence, figures, the trade-off, then a timeline for every
    instance.

    Args:
        replays: of different policies over the same recordings.
        notes: what a reader must know of where the readings are from.
        made_at: when, in UTC.
        other_waits: the same policy with other waits before a question, for the picture of the
            trade-off.
    """
    summaries = [report.summarise(one) for one in replays]
    first, *others = [report.sentence(one) for one in report.by_saving(summaries)]
    cards = [
        _card(list(zip([one.name for one in replays], results, strict=True)))
        for results in zip(*(one.results for one in replays), strict=True)
    ]
    cards.sort(key=lambda card: (-card.saved, card.name))
    owners = sorted({card.owner for card in cards})
    style = (_FOLDER / "report.css").read_text(encoding="utf-8") + _filters(len(owners))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    spans = [result.recording.span for one in replays for result in one.results]
    points = tradeoff.points(replays, other_waits)
    return (
        _environment()
        .get_template("report.html")
        .render(
            style=Markup(style),  # noqa: S704 - our own file, and numbers
            style_source=f"'sha256-{digest}'",
            lead=first,
            others=others,
            period=_period(min(span.start for span in spans), max(span.end for span in spans)),
            made_at=f"{made_at:%b} {made_at.day}, {made_at:%Y %H:%M} UTC",
            summaries=summaries,
            names=[one.name for one in summaries],
            rows=[(label, [figure(one) for one in summaries]) for label, figure in report.ROWS],
            asked=report.by_owner(summaries),
            notes=notes,
            points=points if tradeoff.is_worth_showing(points) else (),
            chart=tradeoff.chart(points),
            caption=tradeoff.caption(points),
            owners=owners,
            shown=_SHOWN,
            counts={kind: sum(_is_shown(card, kind) for card in cards) for kind in _SHOWN},
            cards=[card for card in cards if card.lines],
            rest=[card for card in cards if not card.lines],
        )
    )


def _period(since: datetime, until: datetime) -> str:
    """`Nov 2 to Nov 15, 2026 (UTC)`: the last day is the last that was recorded."""
    last = until - timedelta(seconds=1)
    year = "" if since.year == last.year else f", {since.year}"
    return f"{since:%b} {since.day}{year} to {last:%b} {last.day}, {last.year} (UTC)"


def _is_shown(card: _Card, kind: str) -> bool:
    return kind == "all" or (kind == "asked" and bool(card.lines)) or kind in card.kinds


def _filters(owners: int) -> str:
    """Style rules that hide what was not chosen, so that no script is needed. Owners go by
    number."""
    return "".join(
        f"main:has(#owner [value='{n}']:checked) section:not(.owner{n}){{display:none}}\n"
        for n in range(owners)
    )


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
    first = results[0][1]
    recording, instance = first.recording, first.recording.instance
    price = recording.price
    cost = price.source if price.usd_per_hour is None else f"{price.usd_per_hour} USD an hour"
    stops = [[event.stop for event in one.events if event.stop] for _, one in results]
    found = [stop for one in stops for stop in one]
    kinds = {"stopped" for _ in found}
    kinds |= {"soon" if stop.is_hit_soon else "later" for stop in found if stop.hit_work}
    return _Card(
        name=instance.name,
        about=f"{instance.instance_id}, {instance.instance_type} in {instance.target}, "
        f"owner {first.owner}, {cost}",
        svg=timeline(recording, [(name, one.events) for name, one in results]),
        lines=tuple(_line(name, event) for name, one in results for event in one.events),
        saved=max(sum((stop.length for stop in one), timedelta(0)) for one in stops),
        owner=printable(first.owner),
        kinds=frozenset(kinds),
    )


def _line(policy: str, event: Event) -> _Line:
    stop = event.stop
    until = saved = ""
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
