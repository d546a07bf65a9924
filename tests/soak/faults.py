"""Faults at a call of a port, and the choice whether one happens."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from governor.core.errors import Throttled, Unavailable


class Died(BaseException):
    """The function was killed in the middle of its work: nothing in it can catch this."""


class Kind(StrEnum):
    """The faults that are tried at every call."""

    ERROR_BEFORE = "error before"
    ERROR_AFTER = "error after"
    """It was done, and the answer was lost."""
    DEATH_BEFORE = "death before"
    DEATH_AFTER = "death after"
    OUTAGE = "outage"
    """The service is down for a while, from this call on."""
    TWICE = "twice"
    """The same event is worked on a second time, from beginning to end, at this moment."""
    RIVALS = "rivals"
    """Everybody else acts at this moment."""


class World(Protocol):
    """The part of the simulated cloud that faults see."""

    @property
    def moment(self) -> datetime: ...
    @property
    def inside(self) -> list[tuple[str, Any]]: ...
    def again(self) -> None:
        """Work on the present event a second time."""

    @property
    def rivals(self) -> Callable[[], object]:
        """Return what everybody else does."""


def nobody(*_: object) -> None:
    """Do nothing."""


class Faults(Protocol):
    """Stands around every call of a port; `name` is `service.operation`."""

    def around(self, world: World, name: str, call: Callable[[], Any]) -> Any: ...


@dataclass
class NoFaults:
    """Everything works. `calls` keeps when each port was called, which one, and by which
    function."""

    calls: list[tuple[datetime, str, str]] = field(default_factory=list)

    def around(self, world: World, name: str, call: Callable[[], Any]) -> Any:
        function = world.inside[-1][0] if world.inside else ""
        self.calls.append((world.moment, name, function))
        return call()


OUTAGES = {"table": timedelta(minutes=10)}
"""How long a service is down, where it is not an hour."""


@dataclass
class CrashPoint:
    """One fault at the n-th call of a run."""

    number: int
    kind: Kind
    seen: int = 0
    at: str = ""
    """Which call it was."""
    down: str = ""
    until: datetime = datetime.min.replace(tzinfo=UTC)

    def is_over(self, moment: datetime) -> bool:
        """Return whether it has struck, and nothing will fail any more."""
        return bool(self.at) and (not self.down or moment >= self.until)

    def around(self, world: World, name: str, call: Callable[[], Any]) -> Any:
        self.seen += 1
        service = name.partition(".")[0]
        if self.seen == self.number:
            self.at, self.at_moment = (
                f"{world.inside[-1][0] if world.inside else 'nobody'} {name}",
                world.moment,
            )
            return self._strike(world, name, service, call)
        if self.down == service and world.moment < self.until:
            raise Unavailable(f"{name} is down", operation=name)
        return call()

    def _strike(self, world: World, name: str, service: str, call: Callable[[], Any]) -> Any:
        match self.kind:
            case Kind.ERROR_BEFORE:
                raise Throttled(f"{name}: slow down", operation=name)
            case Kind.ERROR_AFTER:
                call()
                raise Unavailable(f"{name}: the answer was lost", operation=name)
            case Kind.DEATH_BEFORE:
                raise Died
            case Kind.DEATH_AFTER:
                call()
                raise Died
            case Kind.OUTAGE:
                self.down = service
                self.until = world.moment + OUTAGES.get(service, timedelta(hours=1))
                raise Unavailable(f"{name} is down", operation=name)
            case Kind.TWICE:
                world.again()
                return call()
            case Kind.RIVALS:
                world.rivals()
                return call()


_SENT_ONCE = frozenset(
    {
        *("ec2.stop", "ec2.terminate", "ec2.prepare", "ec2.create"),
        *("ses.send", "slack.post", "lambda.undo", "ssm.send"),
    }
)
"""Calls that AWS's library does not repeat by itself, as the adapters ask."""
_ANSWERED_AS_BEFORE = frozenset({"table.transact"})
"""Calls whose repetition is recognized by a token of the library, and not carried out again."""
_ATTEMPTS = 5


@dataclass
class Storm:
    """Faults on a share of all AWS calls until `until`, each of which the library repeats as it
    does.

    `down` names services and when they are. `stubborn` is the share of calls that fail however
    often they are repeated, `deaths` of those at which the function is killed, and `rivals` of
    those at which somebody else acts first.
    """

    random: random.Random
    until: datetime
    share: float = 0.2
    stubborn: float = 0.01
    deaths: float = 0.002
    rivals: float = 0.02
    down: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Deeds that others are about to do."""
    injected: Counter[str] = field(default_factory=Counter)

    def around(self, world: World, name: str, call: Callable[[], Any]) -> Any:
        since, until = self.down.get(name.partition(".")[0], (world.moment, world.moment))
        if since <= world.moment < until:
            self._count("outage")
            raise Unavailable(f"{name} is down", operation=name)
        if world.moment >= self.until:
            return call()
        self._meet(world)
        if self.random.random() < self.deaths:
            self._count("death")
            if self.random.random() < 0.5:
                call()
            raise Died
        return self._call(name, call)

    def _call(self, name: str, call: Callable[[], Any]) -> Any:
        share = 1.0 if self.random.random() < self.stubborn else self.share
        kept: list[Any] = []
        for _ in range(1 if name in _SENT_ONCE else _ATTEMPTS):
            if self.random.random() >= share:
                return kept[0] if kept and name in _ANSWERED_AS_BEFORE else call()
            kind = self.random.choice(("throttled", "5xx", "lost answer", "time-out"))
            self._count(kind)
            is_done = kind == "lost answer" or (kind == "time-out" and self.random.random() < 0.5)
            if is_done and not (kept and name in _ANSWERED_AS_BEFORE):
                kept.append(call())
        kinds = {"throttled": Throttled}
        raise kinds.get(kind, Unavailable)(f"{name}: {kind}", operation=name)

    def _meet(self, world: World) -> None:
        """Somebody else acts at this moment, or the same event comes twice at once."""
        if len(world.inside) > 2 or self.random.random() >= self.rivals:
            return
        if self.waiting and self.random.random() < 0.7:
            self._count("rival")
            self.waiting.pop(0)()
        else:
            self._count("twice")
            world.again()

    def _count(self, kind: str) -> None:
        self.injected[kind] += 1
