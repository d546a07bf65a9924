"""The trade-off between saving and undone stops: other waits replayed, and the picture of all of
them.

Each point is a policy, or one policy with another wait before a question. The picture has only
attributes and classes, no styles and no scripts; the names of policies are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import floor, log10
from operator import itemgetter

from markupsafe import Markup

from governor.core.units import printable, span
from governor.policy.ports import Policies
from simulation.outcome import Replay
from simulation.recommend import AskAfter
from simulation.recording import Recording
from simulation.replay import replay
from simulation.report import Summary, saved_text, summarize

_WAITS = (60, 120, 180, 240, 360, 480, 720)
"""Minutes of idleness before a question."""
_LEFT = 58
_TOP = 12
_WIDE = 286
_TALL = 180
_LABEL_WIDE = 48
_LABEL_TALL = 13
_MOST_NAME = 16
_ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Round amounts, in units of a power of ten."""


@dataclass(frozen=True, slots=True)
class Point:
    """One policy, or one wait; `given` if somebody asked about it."""

    name: str
    summary: Summary
    given: bool

    @property
    def percent(self) -> float:
        """Return the share of stops that hit work within an hour."""
        return 100 * self.summary.hit_within_an_hour / max(1, self.summary.stops)

    @property
    def soon(self) -> str:
        """Return that share in words, as in the table below the picture."""
        return f"{self.summary.hit_within_an_hour} of {self.summary.stops} ({self.percent:.1f}%)"

    @property
    def saved(self) -> str:
        """Return what it saves, in words."""
        return saved_text(self.summary)


def points(given: Sequence[Replay], with_other_waits: Sequence[Replay]) -> list[Point]:
    """Return a point for each replay that somebody asked for, then for those with other waits."""
    shown = []
    for replayed in given:
        shown.append(Point(printable(replayed.name), summarize(replayed), given=True))
    for replayed in with_other_waits:
        shown.append(Point(replayed.name, summarize(replayed), given=False))
    return shown


def other_waits(
    policies: Policies,
    recordings: Sequence[Recording],
    *,
    approval_delay: timedelta,
    progress: Callable[[str, int, int], None],
) -> list[Replay]:
    """Replay the same policy with other waits before a question, for all instances, overrides or
    not.

    Raises:
        ReplayError: the policy cannot be replayed.
    """
    rule = policies.base().policy
    present = rule.approval.ask_after_minutes
    shortest = rule.idle.window_minutes
    waits = [minutes for minutes in _WAITS if minutes >= shortest and minutes != present]
    replays = []
    for number, minutes in enumerate(waits):
        progress("other waits", number, len(waits))
        name = span(timedelta(minutes=minutes))
        changed = AskAfter(policies, minutes)
        replays.append(replay(name, changed, recordings, approval_delay=approval_delay))
    progress("other waits", len(waits), len(waits))
    return replays


def chart(shown: Sequence[Point]) -> Markup:
    """Draw the points: higher saves more, further right hits more work. The picture is 360 wide, so
    that text stays readable on a phone."""
    in_usd = any(point.summary.usd_saved for point in shown)
    amounts = [_amount(point, in_usd=in_usd) for point in shown]
    most = _nice(max([1.0, *amounts]))
    percents = [point.percent for point in shown]
    widest = _nice(max([5.0, *percents]))
    places = []
    for percent, amount in zip(percents, amounts, strict=True):
        x = _LEFT + _WIDE * percent / widest
        y = _TOP + _TALL * (1 - max(0.0, amount) / most)
        places.append((x, y))
    unit = "Hours"
    sign = ""
    if in_usd:
        unit = "USD"
        sign = "$"
    title = f"{unit} saved, by the share of stops that hit work within an hour"
    parts = [
        Markup('<svg class="tradeoff" viewBox="0 0 360 240" role="img"><title>{}</title>').format(
            title
        ),
        *_axes(most, widest, sign),
    ]
    if not _are_all_given(shown):
        parts.append(_curve(places))
    parts += _dots_and_labels(shown, places)
    return Markup("").join([*parts, Markup("</svg>")])


def _are_all_given(shown: Sequence[Point]) -> bool:
    return all(point.given for point in shown)


def _dots_and_labels(
    shown: Sequence[Point], places: Sequence[tuple[float, float]]
) -> Iterator[Markup]:
    """Yield a dot for each point, and its label where it has room."""
    labeled: list[tuple[float, float]] = []
    for point, (x, y) in zip(shown, places, strict=True):
        yield _dot(point, x, y)
        if _has_room(x, y, labeled):
            labeled.append((x, y))
            yield _label(point, x, y)


def _amount(point: Point, *, in_usd: bool) -> float:
    return float(point.summary.usd_saved if in_usd else point.summary.hours_saved)


def _curve(places: Sequence[tuple[float, float]]) -> Markup:
    """Connect the waits of one policy: a longer wait saves less."""
    from_the_top = sorted(places, key=itemgetter(1))
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in from_the_top)
    return Markup('<polyline class="curve" points="{}"/>').format(line)


def _dot(point: Point, x: float, y: float) -> Markup:
    kind = "point"
    radius = 4
    if point.given:
        kind = "point given"
        radius = 6
    title = f"{point.name}: saves {point.saved}, hits {point.soon}"
    circle = Markup('<circle class="{}" cx="{:.0f}" cy="{:.0f}" r="{}"><title>{}</title></circle>')
    return circle.format(kind, x, y, radius, title)


def _has_room(x: float, y: float, labeled: Sequence[tuple[float, float]]) -> bool:
    """Return whether no point with a label is so near that two labels would overlap."""
    for other_x, other_y in labeled:
        if abs(x - other_x) < _LABEL_WIDE and abs(y - other_y) < _LABEL_TALL:
            return False
    return True


def _label(point: Point, x: float, y: float) -> Markup:
    """Write the name beside its point, left of it near the right edge."""
    name = point.name
    if len(name) > _MOST_NAME:
        name = name[: _MOST_NAME - 1] + "…"
    if x < _LEFT + _WIDE * 0.7:
        kind = "axis"
        left = x + 9
    else:
        kind = "axis end"
        left = x - 9
    text = Markup('<text class="{}" x="{:.0f}" y="{:.0f}">{}</text>')
    return text.format(kind, left, y + 4, name)


def _axes(most: float, widest: float, unit: str) -> list[Markup]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        x = _LEFT + _WIDE * share
        y = _TOP + _TALL * (1 - share)
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
    """Return the next round amount."""
    power = 10.0 ** floor(log10(value))
    return next(power * step for step in _ROUND if power * step >= value)


def caption(shown: Sequence[Point]) -> str:
    """Return what the points are."""
    if not _are_all_given(shown):
        return (
            "The large point is the policy; the others are the same policy with other "
            "waits before it acts."
        )
    return "Each point is a policy. Give one policy alone to see it with other waits."


def is_worth_showing(shown: Sequence[Point]) -> bool:
    """Return whether there is a choice: two points or more, and one of them stops something."""
    return len(shown) > 1 and any(point.summary.stops for point in shown)
