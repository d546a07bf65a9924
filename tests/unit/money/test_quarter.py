"""A quarter of a fleet on injected time: the ledger and the meters against the simulator's own
bill.

The bill is integers: millionths of a USD an hour, times seconds. Where starts and stops are known,
the ledger agrees to the cent; of what ran, a sweep that did not see an end knows it within half the
time between sweeps.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.episode_ref import EpisodeRef
from governor.core.instance import EXEMPTION_TAG
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Price, Saving, Step
from governor.events.react_to_state_change import ReactToStateChange
from governor.money.model.ledger import Ending
from governor.money.rules.cost import month_end, months, parse_month
from governor.money.rules.ledger import sum_saved
from governor.policy.rules.owners import owner_of
from governor.remediation.void_episode import VoidEpisode
from tests.builders import TARGET
from tests.properties import examples
from tests.unit.aws.state_samples import episode
from tests.unit.worlds.builders import follow_start, recorder
from tests.unit.worlds.fleet_world import FleetWorld

FIRST, LAST = datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
MONTHS = ("2026-10", "2026-11", "2026-12")
HOUR, DAY, SWEEP = timedelta(hours=1), timedelta(days=1), timedelta(hours=6)
COUNTS_FOR = timedelta(days=30)
RISES_AT, BEFORE, AFTER = datetime(2026, 11, 17, tzinfo=UTC), 5_670_000, 6_120_000
"""The price in mid-run, in millionths of a USD an hour."""


class Quarter:
    """Four instances. In the evening one is stopped; it is started within the hour (a false stop),
    the next days, or after weeks, or its like is started in its place. A third of the events is
    lost."""

    def __init__(self, seed: int) -> None:
        self.chance, self.world = random.Random(seed), FleetWorld()
        self.bill, self.ran, self.unseen = Counter[str](), Counter[str](), Counter[str]()
        self.ended = Counter[Ending | None]()
        self.running: dict[str, datetime] = {}
        self.away: dict[str, datetime] = {}
        """Since when each saves, in the order of the stops."""
        self.queue: list[tuple[datetime, int, str]] = []
        self.launched = self.stops = 0

    def play(self) -> None:
        """Everything in the order of its time; what is left is billed at the end."""
        at = FIRST
        while at <= LAST:
            heapq.heappush(self.queue, (at, 0, ""))
            at += SWEEP
        for number in range(90):
            at = FIRST + DAY * number + self._minutes(18 * 60, 23 * 60)
            heapq.heappush(self.queue, (at, 1, ""))
        for _ in range(4):
            self._launch(FIRST)
        while self.queue:
            at, kind, one = heapq.heappop(self.queue)
            self.world.clock.moment = at
            (self._sweep, self._stop, self._start, self._launch)[kind](at, one)
        for since in self.running.values():
            self._runs(since, LAST)
        for one in list(self.away):
            self._saves(one, LAST, None)

    def _minutes(self, least: int, most: int) -> timedelta:
        """Never in the minutes before a sweep: those belong to launches."""
        return timedelta(minutes=self.chance.randint(least, most) // 10 * 10 + 3)

    def _sweep(self, at: datetime, _: str) -> None:
        self.world.prices.fixed = Price(Decimal(price(at)) / 1_000_000, "list price")
        self.world.sweep_target(TARGET)

    def _launch(self, at: datetime, _: str = "") -> None:
        self.launched += 1
        one = self.world.add(self.launched, launch_time=at)
        self.world.change(one, tags={**self.world.ec2.instances[one].tags, EXEMPTION_TAG: "exempt"})
        self.running[one] = at
        if self.away:
            self._saves(next(iter(self.away)), at, Ending.REPLACED)

    def _stop(self, at: datetime, _: str) -> None:
        old = sorted(one for one, since in self.running.items() if at - since > SWEEP)
        if not old:
            return
        one = self.chance.choice(old)
        since = self.running.pop(one)
        self._runs(since, at)
        self.unseen[f"{at:%Y-%m}"] += 1
        self._close(one, since, at)
        self.away[one] = at
        if self.chance.random() < 0.15:
            sweep = FIRST + SWEEP * ((at - FIRST) // SWEEP + self.chance.randint(2, 8))
            heapq.heappush(self.queue, (sweep - timedelta(minutes=1), 3, ""))
        else:
            soon, weeks = self._minutes(10, 50), DAY * self.chance.randint(32, 50)
            gone = self.chance.choice(
                [soon, weeks, *(self._minutes(9 * 60, 60 * 60) for _ in range(6))]
            )
            heapq.heappush(self.queue, (at + gone, 2, one))

    def _start(self, at: datetime, one: str) -> None:
        if at >= LAST:
            return
        self.world.change(one, state="running", launch_time=at)
        self.running[one] = at
        if one in self.away:
            is_false = at - self.away[one] <= HOUR
            self._saves(one, at, Ending.UNDONE if is_false else Ending.STARTED)
        if self.chance.random() < 0.66:
            void = VoidEpisode(
                episode_store=self.world.state,
                approval_store=self.world.state,
                workflow=self.world.workflow,
            )
            react = ReactToStateChange(
                lambda: self.world.policies,
                self.world.clock,
                episode_store=self.world.state,
                instance_store=self.world.state,
                ledger_store=self.world.state,
                void=void,
                follow_start=follow_start(self.world),
            )
            react(TARGET.account, TARGET.region, one, "running", at)

    def _close(self, one: str, since: datetime, at: datetime) -> None:
        self.stops += 1
        ref = EpisodeRef(TARGET.account, TARGET.region, one, since, self.stops)
        usd, state = Decimal(price(at)) / 1_000_000, self.world.state
        plain = episode(1, f"approval-{self.stops}", one)
        plan = replace(plain.plan, steps=(Step.STOP,), saving=Saving(usd, Decimal(0)))
        instance = self.world.ec2.instances[one]
        whose = owner_of(instance, self.world.policy.ownership)
        mine: Any = {
            "ref": ref,
            "instance": instance,
            "owner": whose.name,
            "project": whose.project,
        }
        assert state.take_lock(ref)
        state.save_opened(replace(plain, plan=plan, price=Price(usd, "list price"), **mine))
        state.clear_step(ref, Step.STOP.value, at)
        state.note_step(ref, Step.STOP.value, at)
        self.world.change(one, state="stopped")
        recorder(self.world)(ref, Outcome.STOPPED)

    def _saves(self, one: str, until: datetime, why: Ending | None) -> None:
        since = self.away.pop(one)
        self.ended[why] += 1
        if why is not Ending.UNDONE:
            for month, first, last in parts(since, min(until, since + COUNTS_FOR)):
                self.bill[month] += seconds(first, last) * price(since)

    def _runs(self, since: datetime, until: datetime) -> None:
        for start, end, each in (
            (since, min(until, RISES_AT), BEFORE),
            (max(since, RISES_AT), until, AFTER),
        ):
            for month, first, last in parts(start, end):
                self.ran[month] += seconds(first, last) * each


def price(at: datetime) -> int:
    return BEFORE if at < RISES_AT else AFTER


def seconds(start: datetime, end: datetime) -> int:
    return max(0, int((end - start).total_seconds()))


def usd(bill: int) -> Decimal:
    return Decimal(bill) / 3600 / 1_000_000


def parts(start: datetime, end: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    for month in months(start, end) if start < end else ():
        first = parse_month(month)
        yield month, max(start, first), min(end, month_end(first))


@pytest.mark.repeats
@pytest.mark.parametrize("seed", range(examples(2, 4)))
def test_the_books_of_a_quarter_are_the_simulators_bill(seed: int) -> None:
    """Whatever ends a saving, over ends of months, a rise of the price, and events that were
    lost."""
    quarter = Quarter(seed)
    quarter.play()
    state = quarter.world.state
    entries = [one for month in MONTHS for one in state.entries(month)]

    assert quarter.stops == len(entries) > 60
    assert quarter.ended == Counter(one.ended for one in entries)
    assert all(quarter.ended[one] for one in (Ending.UNDONE, Ending.STARTED, Ending.REPLACED))
    for month in MONTHS:
        start = parse_month(month)
        net = sum_saved(entries, start, month_end(start), COUNTS_FOR).net_usd
        assert abs(net - usd(quarter.bill[month])) < Decimal("0.01"), month
        meter = state.meter(TARGET, month)
        assert meter is not None
        # And one sweep counts the hours of four instances before the rise at the price after it.
        within = usd(seconds(FIRST, FIRST + SWEEP / 2) * AFTER) * (quarter.unseen[month] + 1)
        rise = usd(seconds(FIRST, FIRST + SWEEP) * (AFTER - BEFORE)) * 20
        assert abs(sum(meter.usd.values()) - usd(quarter.ran[month])) < within + rise, month
