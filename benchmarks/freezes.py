"""How often the breaker over all targets freezes a fleet that works office hours, over a simulated
month.

400 instances of 100 accounts: notebooks that people use on weekdays, and jobs that end at any hour.
Who turns idle or works again goes through the product's own counts and decisions; time is
simulated.

    python -m benchmarks.freezes [seeds]
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from governor.core.instance import Target
from governor.limits.model.breaker import Change
from governor.policy.model.policy import Policy
from governor.sweep.follow_hub_freeze import FollowHubFreeze
from governor.sweep.freeze_plans import FreezePlans
from governor.verdict.model import VerdictKind
from tests.twins import FakeClock, MemoryStateTable, RecordingAnnouncer, StaticPolicies

START = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday, in the month in which clocks change."""
HUB = Target("123456789012", "eu-west-1")
INSTANCES, JOBS = 400, 80
STEP = timedelta(minutes=30)
DAY = timedelta(days=1)
Span = tuple[datetime, datetime]


@dataclass
class Month:
    """A month's events: when everything froze, and when it was released."""

    froze: list[datetime]
    released: list[datetime]


def spans(
    number: int, days: int, chance: random.Random, holidays: Container[int]
) -> Iterator[Span]:
    """Yield when an instance works: two spans around lunch on most weekdays, or one job after the
    other.

    On `holidays`, days since the start, people do not come.
    """
    if number < JOBS:
        at = START - DAY * chance.random()
        while at < START + DAY * days:
            end = at + timedelta(hours=chance.expovariate(1 / 36) + 1)
            yield at, end
            at = end + timedelta(hours=chance.expovariate(1 / 6) + 0.5)
        return
    for day in range(days):
        midnight = START + DAY * day
        weekend = midnight.weekday() >= 5
        if chance.random() < (0.95 if weekend else 0.1) or day in holidays:
            continue
        summer = timedelta(hours=1 if midnight >= datetime(2026, 3, 29, tzinfo=UTC) else 0)
        morning, evening = chance.gauss(9, 0.7), chance.gauss(18, 1.1)
        if chance.random() < 0.3:
            yield (
                midnight + timedelta(hours=morning) - summer,
                midnight + timedelta(hours=12.2) - summer,
            )
            morning = 13.8
        yield (
            midnight + timedelta(hours=morning) - summer,
            midnight + timedelta(hours=evening) - summer,
        )


def run(
    seed: int,
    days: int = 30,
    extra: Sequence[tuple[int, Span]] = (),
    holidays: Container[int] = (),
    *,
    step: timedelta = STEP,
) -> Month:
    """One month, swept at every `step`. `extra` are instances and when their agents publish
    zeros."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    broken: dict[int, list[Span]] = defaultdict(list)
    for number, span in extra:
        broken[number].append(span)
    works = [list(spans(number, days, chance, holidays)) for number in range(INSTANCES)]
    state = MemoryStateTable()
    announcer = RecordingAnnouncer()
    clock = FakeClock(START)
    breaker = FreezePlans(state, state, state, announcer, HUB)
    follow = FollowHubFreeze(clock, lambda: StaticPolicies(Policy()), state, announcer, HUB)
    before = [False] * INSTANCES
    month = Month([], [])
    now, end, position = START, START + DAY * days, [0] * INSTANCES
    was_frozen = False
    while now < end:
        changed: list[Any] = []
        for number in range(INSTANCES):
            while (
                position[number] < len(works[number]) and works[number][position[number]][1] <= now
            ):
                position[number] += 1
            at_work = (
                position[number] < len(works[number]) and works[number][position[number]][0] <= now
            )
            if at_work and number in broken:
                at_work = not any(first <= now < last for first, last in broken[number])
            if at_work != before[number]:
                changed.append(_case(number, before[number], at_work))
                before[number] = at_work
        clock.moment = now
        follow()
        # In one call: the counts are those of all accounts, whoever adds to them.
        frozen = breaker.apply_hub_breaker(_sweep(HUB, changed, now)) is not None
        if frozen != was_frozen:
            (month.froze if frozen else month.released).append(now)
            was_frozen = frozen
        now += step
    return month


def _case(number: int, before: bool, after: bool) -> Any:
    kinds = [VerdictKind.BUSY if one else VerdictKind.IDLE for one in (before, after)]
    change = Change(f"i-{number}", kinds[0], kinds[0], kinds[1], was_read=True)
    return SimpleNamespace(
        id=change.instance_id, change=change, verdict=SimpleNamespace(kind=kinds[1])
    )


def _sweep(target: Target, cases: list[Any], now: datetime) -> Any:
    def attempt(_: str, effect: Any, *args: Any) -> bool:
        effect(*args)
        return True

    return SimpleNamespace(target=target, base=Policy(), now=now, cases=cases, attempt=attempt)


def main(seeds: int) -> None:
    """Print the freezes of each seed."""
    for seed in range(seeds):
        month = run(seed)
        print(
            f"seed {seed}: frozen {len(month.froze)} times: "
            f"{', '.join(map(str, month.froze)) or 'never'}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
