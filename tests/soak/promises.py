"""The registry of what the soak proves: named invariants, each named in a row of `docs/trust.md`.

A check yields once for every time its promise had something to say: `HELD`, or what is wrong in
words. What it yields is counted, so a promise that nothing ever tested shows in the table of `make
soak`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

HELD = ""
"""The promise was tested and held."""
Check = Callable[..., Iterator[str]]


class When(StrEnum):
    """The moment at which a promise is checked."""

    CALL = "a call of EC2 is sent"
    PRESS = "a person has answered"
    END = "all is quiet again"


@dataclass(frozen=True, slots=True)
class Promise:
    """One invariant. `calls` are the calls of EC2 that it is about; empty for the other moments."""

    name: str
    when: When
    check: Check
    calls: frozenset[str] = frozenset()
    repeats_allowed: bool = False
    """True for a promise that a lost answer of a channel may break: messages may come twice
    then."""


PROMISES: dict[str, Promise] = {}
"""All of them, by name."""


def at_call(*calls: str) -> Callable[[Check], Check]:
    """Register a check of every such call of EC2, at the moment when it is sent."""

    def register(check: Check) -> Check:
        _add(Promise(check.__name__, When.CALL, check, frozenset(calls)))
        return check

    return register


def at_press(check: Check) -> Check:
    """Register a check of every answer of a person."""
    _add(Promise(check.__name__, When.PRESS, check))
    return check


def at_end(check: Check) -> Check:
    """Register a check of the end of a story."""
    _add(Promise(check.__name__, When.END, check))
    return check


def at_end_without_repeats(check: Check) -> Check:
    """Register a check of the end of those stories in which no message may come twice."""
    _add(Promise(check.__name__, When.END, check, repeats_allowed=True))
    return check


def _add(promise: Promise) -> None:
    if promise.name in PROMISES:
        raise ValueError(f"two invariants are named {promise.name}")
    PROMISES[promise.name] = promise


def checked(promises: Iterable[Promise], subject: Any, counts: Counter[str]) -> list[str]:
    """Return what is wrong with the subject, each after the promise's name; count what was
    checked."""
    wrong: list[str] = []
    for promise in promises:
        for found in promise.check(subject):
            counts[promise.name] += 1
            if found != HELD:
                wrong.append(f"{promise.name}: {found}")
    return wrong


def promises_of(when: When, call: str | None = None) -> list[Promise]:
    """Return the promises of this moment; of a call, those that are about it."""
    return [
        promise
        for promise in PROMISES.values()
        if promise.when is when and (call is None or call in promise.calls)
    ]


def broken_promise(violation: str) -> str | None:
    """Return the name of the promise that a violation breaks; `None` for other complaints."""
    name = violation.partition(":")[0]
    return name if name in PROMISES else None


def table(times: Mapping[str, int], violations: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of the table: promise, times checked, violations."""
    width = max(len(name) for name in PROMISES)
    yield f"{'promise'.ljust(width)} {'checked':>12} {'violations':>11}"
    for name in sorted(PROMISES):
        yield f"{name.ljust(width)} {times.get(name, 0):>12,} {violations.get(name, 0):>11,}"
