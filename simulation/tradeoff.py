"""The price of more saving in false stops: other waits replayed, and the picture of all of them.

Each point is a policy, or one policy with another wait before a question. Only attributes and
classes, no styles and no scripts; the names of policies are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import floor, log10

from markupsafe import Markup

from governor.domain.units import printable, span
from governor.ports import Policies
from simulation.outcome import Replay
from simulation.recommend import AskAfter
from simulation.recording import Recording
from simulation.replay import replay
from simulation.report import Summary, saved_text, summarise

_WAITS = (60, 120, 180, 240, 360, 480, 720)
"""Minutes of idleness before a question."""
_LEFT, _TOP, _WIDE, _TALL = 58, 12, 286, 180
_LABEL_WIDE, _LABEL_TALL = 48, 13
_MOST_NAME = 16


@dataclass(frozen=True, slots=True)
class Point:
    """One policy, or one wait: `given` are those that somebody asked about."""

    name: str
    summary: Summary
    given: bool

    @property
    def percent(self) -> float:
        """Share of stops that hit work within an hour."""
        return 100 * self.summary.hit_within_an_hour / max(1, self.summary.stops)

    @property
    def soon(self) -> str:
        """That share, as the table below the picture has it."""
        return f"{self.summary.hit_within_an_hour} of {self.summary.stops} ({self.percent:.1f}%)"

    @property
    def saved(self) -> str:
        """Return what it saves, in words."""
        return saved_text(self.summary)


def points(given: Sequence[Replay], others: Sequence[Replay]) -> list[Point]:
    """The replays that somebody asked for, and those with other waits."""
    mine = [Point(printable(one.name), summarise(one), given=True) for one in given]
    return [*mine, *(Point(one.name, summarise(one), given=False) for one in others)]


def other_waits(
    policies: Policies,
    recordings: Sequence[Recording],
    *,
    approval_delay: timedelta,
    progress: Callable[[str, int, int], None],
) -> list[Replay]:
    """The same policy with other waits before a question, for every instance, overrides or not.

    Raises:
        ReplayError: the policy cannot be replayed.
    """
    rule = policies.base().policy
    waits = [
        m for m in _WAITS if m >= rule.idle.window_minutes and m != rule.approval.ask_after_minutes
    ]
    found = []
    for number, minutes in enumerate(waits):
        progress("other waits", number, len(waits))
        name = span(timedelta(minutes=minutes))
        found.append(
            replay(name, AskAfter(policies, minutes), recordings, approval_delay=approval_delay)
        )
    progress("other waits", len(waits), len(waits))
    return found


def chart(shown: Sequence[Point]) -> Markup:
    """Higher saves more, further right hits more work. Text stays readable on a phone: it is 360
    wide."""
    in_usd = any(point.summary.usd_saved for point in shown)
    amounts = [float(one.summary.usd_saved if in_usd else one.summary.hours_saved) for one in shown]
    most, widest = _nice(max([1.0, *amounts])), _nice(max([5.0, *(one.percent for one in shown)]))
    places = [
        (_LEFT + _WIDE * one.percent / widest, _TOP + _TALL * (1 - max(0.0, amount) / most))
        for one, amount in zip(shown, amounts, strict=True)
    ]
    title = (
        f"{'USD' if in_usd else 'Hours'} saved, by the share of stops that hit work within an hour"
    )
    parts = [
        Markup('<svg class="tradeoff" viewBox="0 0 360 240" role="img"><title>{}</title>').format(
            title
        ),
        *_axes(most, widest, "$" if in_usd else ""),
    ]
    if any(not one.given for one in shown):
        # Of one policy: a longer wait saves less.
        line = " ".join(f"{x:.0f},{y:.0f}" for x, y in sorted(places, key=lambda place: place[1]))
        parts.append(Markup('<polyline class="curve" points="{}"/>').format(line))
    taken: list[tuple[float, float]] = []
    for one, (x, y) in zip(shown, places, strict=True):
        kind = "point given" if one.given else "point"
        parts.append(
            Markup(
                '<circle class="{}" cx="{:.0f}" cy="{:.0f}" r="{}"><title>{}</title></circle>'
            ).format(
                kind, x, y, 6 if one.given else 4, f"{one.name}: saves {one.saved}, hits {one.soon}"
            )
        )
        parts += _label(one, x, y, taken)
    return Markup("").join([*parts, Markup("</svg>")])


def _label(one: Point, x: float, y: float, taken: list[tuple[float, float]]) -> list[Markup]:
    """The name beside its point, left of it near the right edge; none where another one stands."""
    if any(abs(x - a) < _LABEL_WIDE and abs(y - b) < _LABEL_TALL for a, b in taken):
        return []
    taken.append((x, y))
    is_right = x < _LEFT + _WIDE * 0.7
    name = one.name if len(one.name) <= _MOST_NAME else one.name[: _MOST_NAME - 1] + "…"
    return [
        Markup('<text class="{}" x="{:.0f}" y="{:.0f}">{}</text>').format(
            "axis" if is_right else "axis end", x + (9 if is_right else -9), y + 4, name
        )
    ]


def _axes(most: float, widest: float, unit: str) -> list[Markup]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        x, y = _LEFT + _WIDE * share, _TOP + _TALL * (1 - share)
        parts += [
            Markup('<line class="tick" x1="{0}" x2="{1}" y1="{2:.0f}" y2="{2:.0f}"/>').format(
                _LEFT, _LEFT + _WIDE, y
            ),
            Markup('<text class="axis end" x="{}" y="{:.0f}">{}{:,.0f}</text>').format(
                _LEFT - 6, y + 4, unit, most * share
            ),
            Markup('<text class="axis mid" x="{:.0f}" y="{}">{:g}%</text>').format(
                x, _TOP + _TALL + 16, widest * share
            ),
        ]
    words = "stops that hit work within an hour"
    parts.append(
        Markup('<text class="axis mid" x="{}" y="236">{}</text>').format(_LEFT + _WIDE / 2, words)
    )
    return parts


def _nice(value: float) -> float:
    """The next round amount."""
    power = 10.0 ** floor(log10(value))
    return next(
        power * step for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if power * step >= value
    )


def caption(shown: Sequence[Point]) -> str:
    """Return what the points are."""
    if any(not one.given for one in shown):
        return (
            "The large point is the policy; the others are the same policy with other "
            "waits before it acts."
        )
    return "Each point is a policy. Give one policy alone to see it with other waits."


def is_worth_showing(shown: Sequence[Point]) -> bool:
    """Return whether there is something to choose from: two points, and one that stops anything."""
    return len(shown) > 1 and any(one.summary.stops for one in shown)
