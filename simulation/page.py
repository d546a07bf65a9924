"""The report as one HTML file that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from governor.domain.units import iso, money
from simulation import report
from simulation.outcome import Event, InstanceResult, Replay
from simulation.timeline import timeline

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


def page(replays: Sequence[Replay], notes: Sequence[str]) -> str:
    """The page: figures by policy, then a timeline for every instance, where most is saved first.

    Args:
        replays: of different policies over the same recordings.
        notes: what a reader must know of where the readings are from.
    """
    summaries = [report.summarise(one) for one in replays]
    cards = [
        _card(list(zip([one.name for one in replays], results, strict=True)))
        for results in zip(*(one.results for one in replays), strict=True)
    ]
    cards.sort(key=lambda card: (-card.saved, card.name))
    style = (_FOLDER / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html")
        .render(
            style=Markup(style),  # noqa: S704 - our own file
            style_source=f"'sha256-{digest}'",
            names=[one.name for one in summaries],
            rows=[(label, [figure(one) for one in summaries]) for label, figure in report.ROWS],
            owners=report.by_owner(summaries),
            notes=notes,
            cards=[card for card in cards if card.lines],
            rest=[card for card in cards if not card.lines],
        )
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
    return _Card(
        name=instance.name,
        about=f"{instance.instance_id}, {instance.instance_type} in {instance.target}, "
        f"owner {first.owner}, {cost}",
        svg=timeline(recording, [(name, one.events) for name, one in results]),
        lines=tuple(_line(name, event) for name, one in results for event in one.events),
        saved=max(sum((stop.length for stop in found), timedelta(0)) for found in stops),
    )


def _line(policy: str, event: Event) -> _Line:
    stop = event.stop
    until = saved = ""
    if stop is not None:
        until = f"{iso(stop.until)}, {'work resumed' if stop.hit_work else 'no work hit'}"
        saved = "unpriced" if stop.usd is None else money(stop.usd)
    return _Line(
        policy=policy,
        found=iso(event.found_at),
        asked="" if event.sent_at is None else iso(event.sent_at),
        ended=iso(event.ended_at),
        ending=event.ending.value,
        until=until,
        saved=saved,
    )
