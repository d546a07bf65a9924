"""The common ground of `make bench-peer`: one fleet, one stub, one record of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from benchmarks.fleet import Fleet
from benchmarks.hard_cases import HARD_CASES
from benchmarks.wire import Wire, megabytes

ACCOUNT_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": "us-east-1",
}
HARD = len(HARD_CASES) * 2
"""Instances of the fleet of hard cases: as many ordinary ones beside them."""


@dataclass(frozen=True)
class Ran:
    """One sweep. `marked`: numbers of the instances that it would stop or asks about, among hard
    cases."""

    calls: dict[str, float]
    metrics: float
    processor: float
    wall: float
    megabytes: float
    marked: list[int]
    units: tuple[float, float] = (0, 0)
    """Units of the table: read and written."""

    @property
    def metric_calls(self) -> float:
        """Calls of CloudWatch."""
        return sum(count for name, count in self.calls.items() if name.startswith("monitoring:"))


def fleet_of(size: int) -> Fleet:
    """That many instances; of `HARD` the first ones are the hard cases."""
    # Custodian looks at the real clock.
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    hosts = HARD_CASES if size == HARD else ()
    return Fleet(size, "aggregate", now, hosts=hosts, idle_share=0.5 if hosts else 0.05)


class Contest:
    """The stub for a program that keeps its marks in tags."""

    def __init__(self, size: int) -> None:
        self.fleet = fleet_of(size)
        self.wire = Wire(self.fleet.services())

    def measured(
        self, sweep: Callable[[], object], is_mark: Callable[[Mapping[str, str]], bool]
    ) -> Ran:
        """One sweep."""
        self.wire.calls.clear()
        self.fleet.queries = 0
        with self.wire.carrying() as timeline:
            sweep()
        marked = [number for (_, number), tags in self.fleet.tags.items() if is_mark(tags)]
        return Ran(
            {**self.wire.calls},
            self.fleet.queries,
            timeline.processor_seconds,
            timeline.wall_seconds(),
            megabytes(),
            sorted(marked) if self.fleet.size == HARD else [],
        )

    def print(self, ran: Sequence[Ran]) -> None:
        """For the process that started this one."""
        print(json.dumps([asdict(one) for one in ran]))


def contest_of(arguments: Sequence[str]) -> Contest:
    """By the size that a command line names."""
    return Contest(int(arguments[1]))


def wrong(fleet: Fleet, marked: Sequence[int]) -> tuple[list[str], list[str]]:
    """Names of those marked that are at work or nobody's business, and of the idle ones that were
    missed."""
    idle = {number for number, host in enumerate(fleet.hosts) if host.is_idle}
    idle |= {number for number in range(len(fleet.hosts), fleet.size) if fleet.is_idle(number)}
    names = {number: host.name for number, host in enumerate(fleet.hosts)}
    wrongly, missed = {*marked} - idle, idle - {*marked}
    return tuple(
        [names.get(one, f"node-{one}") for one in sorted(those)] for those in (wrongly, missed)
    )  # type: ignore[return-value]
