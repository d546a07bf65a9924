"""Records of an alert on its way to its recipients, and counts of deliveries accepted, refused and
left for later.

This module sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from governor.alerts.delivery import Delivery
from governor.alerts.model import Alert, AlertKind
from governor.approvals.rules.stages import stated_notice_end
from governor.core.units import UtcDatetime, not_none
from governor.episode.model.episode import Episode
from governor.notify.registry import Route


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Counts of deliveries taken and refused in this run, and left for later.

    `retry_after_seconds` is the shortest wait of those left, or `None` if one names no time.
    """

    taken: int
    refused: int
    left: int = 0
    retry_after_seconds: int | None = None

    def plus(self, addend: Dispatched) -> Dispatched:
        """Return the sum of both counts. Its wait is the shortest of those left; `None` if nothing
        is left, or one of them names no time."""
        waits = []
        for count in (self, addend):
            if count.left:
                waits.append(count.retry_after_seconds)
        return Dispatched(
            self.taken + addend.taken,
            self.refused + addend.refused,
            self.left + addend.left,
            _soonest(waits),
        )


def _soonest(waits: Sequence[int | None]) -> int | None:
    """Return the shortest of these waits in seconds. Return `None` if nothing waits, or if one
    names no time (`None`): then the queue's own pause counts for all, and those that come back too
    early wait again."""
    known_waits = not_none(waits)
    if len(known_waits) < len(waits):
        return None
    return min(known_waits, default=None)


@dataclass(slots=True, eq=False)
class Item:
    """One alert on its way: its episode, and the deliveries so far."""

    sent: Alert
    """The alert as it came, with its seal."""
    alert: Alert
    episode: Episode | None
    expires_at: UtcDatetime | None
    known: Sequence[Delivery]
    """All records of its episode."""
    own: dict[tuple[str, str], Delivery]
    """The recorded deliveries of the alert itself, by the key of their route."""
    has_own: bool = False
    """The policy names a channel of their own for its recipients."""
    left: list[int | None] = field(default_factory=list)
    """The seconds to wait of each delivery that is left, `None` where no time is known."""
    news: list[Delivery] = field(default_factory=list)
    """The deliveries that were settled now."""
    given_up: list[tuple[Route, str]] = field(default_factory=list)
    """The routes that were given up, with the reasons of their channels."""
    unnoted: list[Delivery] = field(default_factory=list)
    """Settled deliveries that the table does not hold yet."""
    stated_until: UtcDatetime | None = None
    """The end of the notice of mode auto as its messages of this run give it; `None` if none gives
    it."""


def counted(items: Iterable[Item]) -> Dispatched:
    """Return the counts of deliveries taken, refused and left in this run, of all items; all zero
    without items."""
    taken = 0
    refused = 0
    waits: list[int | None] = []
    for item in items:
        taken_of_item = sum(delivery.was_delivered for delivery in item.news)
        taken += taken_of_item
        refused += len(item.news) - taken_of_item
        waits += item.left
    return Dispatched(taken, refused, len(waits), _soonest(waits))


def nowhere_state(settled: Sequence[Delivery]) -> str:
    """Return why these deliveries reached no person, by a word of the template: `shared` if only a
    channel for everybody took it, `refused`, `machines` if only machines got it, or `none` if there
    was no delivery. Call it only if none reached people."""
    if any(delivery.shared and delivery.was_delivered for delivery in settled):
        return "shared"
    if not all(delivery.was_delivered for delivery in settled):
        return "refused"
    if settled:
        return "machines"
    return "none"


def deadline_of(item: Item) -> UtcDatetime | None:
    """Return when the question of the item expires; for a notice of mode auto, until when the plan
    can be held, as its first message gives it. `None` if there is no such time, or none yet."""
    if item.episode is None or item.alert.kind is not AlertKind.IDLE_FOUND:
        return item.expires_at
    stated = stated_notice_end(item.episode, [*item.known, *item.news])
    return stated or item.stated_until


def state_notice_end(item: Item, now: UtcDatetime) -> None:
    """Note in the item until when its notice of mode auto can be held, if its message is written
    now and none gives a time yet. Do nothing for any other item."""
    episode = item.episode
    if episode is None or item.alert.kind is not AlertKind.IDLE_FOUND:
        return
    if episode.gives_notice and deadline_of(item) is None:
        item.stated_until = now + episode.asking.notice_length


def thread_of(route: Route, known: Sequence[Delivery]) -> str | None:
    """Return the thread that the channel named for the earliest of the `known` deliveries by this
    route that have one; `None` if none has."""
    first: Delivery | None = None
    for delivery in known:
        if delivery.key != route.key or delivery.thread is None:
            continue
        if first is None or delivery.at < first.at:
            first = delivery
    return None if first is None else first.thread
