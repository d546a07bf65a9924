"""`python -m benchmarks.simulate`: how long a back-test takes once its readings are on disk.

A made-up fleet of eight-GPU instances, published GPU by GPU (the dearest to read), most of which
rest on most days, so that nearly all 5-minute data are there. The last line is one JSON object.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from benchmarks.fleet import ACCOUNT, REGION, instance_id, number_of
from governor.core.instance import Instance, Target, Volume
from governor.episode.model.plan import Price
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.policy import Policy
from simulation.fetch import Fetch, last_days
from simulation.outcome import Replay
from simulation.page import page
from simulation.recording import PERIOD
from simulation.replay import replay
from simulation.report import summarize
from simulation.store import SeriesStore
from simulation.wish import wish_of
from tests.twins import MemoryEc2, StaticPolicies, StaticPrices

TARGET = Target(ACCOUNT, REGION)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GPUS = 8
Seconds = tuple[float, float]
"""By the clock, and of this process alone: on a machine that others use, the second is what it
costs."""
_SEED = 1
_KINDS = ("training", "training", "workdays", "workdays", "rare", "gaps")
"""Long jobs with pauses; notebooks on workdays; now and then a job; an agent that falls silent."""


class MadeUpMetrics:
    """The port `MetricReader` over a made-up fleet: the same utilization on all GPUs, all else
    quiet."""

    def __init__(self, size: int, hours: Window) -> None:
        self._start = hours.start
        bins = hours.bins * int(hours.period / PERIOD)
        chance = random.Random(_SEED)  # noqa: S311 - made-up load, not a secret
        self._busy = [_past(_KINDS[number % len(_KINDS)], bins, chance) for number in range(size)]

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """As the port says."""
        found = {query.key: self._series(query, window) for query in queries}
        return MetricAnswer({key: series for key, series in found.items() if any(series)}, {})

    def _series(self, query: MetricQuery, window: Window) -> Series:
        if "utilization" not in query.metric:
            return (5.0,) * window.bins
        step = int(window.period / PERIOD)
        first = int((window.start - self._start) / PERIOD)
        past = self._busy[number_of(dict(query.dimensions)["InstanceId"])]
        choose: Callable[[list[float]], float] = min if query.statistic == "Minimum" else max
        groups = (
            past[index : index + step] for index in range(first, first + window.bins * step, step)
        )
        known = ([value for value in group if value is not None] for group in groups)
        return tuple(choose(values) if values else None for values in known)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """As the port says."""
        namespace, metric, _ = wanted
        if namespace is None or metric is None:
            return {}
        gpus = [str(gpu) for gpu in range(GPUS)]
        return {
            owner: [
                Listed(namespace, metric, (("InstanceId", owner), ("index", gpu))) for gpu in gpus
            ]
            for owner in map(_id, range(len(self._busy)))
        }


def _id(number: int) -> str:
    return instance_id(number)


def _past(kind: str, bins: int, chance: random.Random) -> list[float | None]:
    """Utilization by bin; `None` where the agent is silent."""
    busy_bins, quiet_bins = {"training": (150, 18), "rare": (12, 150), "gaps": (40, 40)}.get(
        kind, (1, 1)
    )
    past: list[float | None] = []
    while len(past) < bins:
        if kind == "workdays":
            hour, day = len(past) // 12 % 24, len(past) // 288 % 7
            works = day < 5 and 9 <= hour < 18 and chance.random() < 0.7
            past.append(chance.uniform(20, 99) if works else 0.5)
            continue
        past += [chance.uniform(40, 99) for _ in range(1 + int(chance.expovariate(1 / busy_bins)))]
        quiet = None if kind == "gaps" and chance.random() < 0.5 else 0.5
        past += [quiet] * (1 + int(chance.expovariate(1 / quiet_bins)))
    return past[:bins]


def _instance(number: int) -> Instance:
    return Instance(
        target=TARGET,
        instance_id=_id(number),
        instance_type="p4d.24xlarge",
        state="running",
        launch_time=datetime(2026, 10, 1, tzinfo=UTC),
        tags={"Purpose": "GPU-Workload", "Owner": f"team-{number % 20}"},
        volumes=(Volume(f"vol-{number:017x}", "/dev/xvda", True, 500, "gp3"),),
    )


def _clocks() -> Seconds:
    return time.perf_counter(), time.process_time()


def _since(started: Seconds) -> Seconds:
    now = _clocks()
    return now[0] - started[0], now[1] - started[1]


def measure(size: int, days: int, store: SeriesStore) -> dict[str, Seconds]:
    """Seconds of each part of a back-test of three policies, everything on disk."""
    hours = last_days(NOW, days)
    policy = Policy()
    ec2 = MemoryEc2()
    ec2.add(*map(_instance, range(size)))
    fetch = Fetch(
        metrics=MadeUpMetrics(size, hours),
        instances=ec2,
        prices=StaticPrices(Price(Decimal("21.96"), "made up")),
        store=store,
        wish=wish_of([policy]),
        progress=lambda _label, _done, _total: None,
    )
    fetch.fetch(fetch.survey(TARGET, hours))
    seconds: dict[str, Seconds] = {}
    started = _clocks()
    survey = fetch.survey(TARGET, hours)
    recordings = fetch.fetch(survey)
    seconds["load"] = _since(started)
    replays: list[Replay] = []
    for name, one in {
        "default": policy,
        "60 min": _asking_after(60),
        "360 min": _asking_after(360),
    }.items():
        started = _clocks()
        replays.append(
            replay(name, StaticPolicies(one), recordings, approval_delay=timedelta(minutes=30))
        )
        seconds[f"replay {name}"] = _since(started)
    started = _clocks()
    text = page(replays, [], NOW)
    seconds["page"] = _since(started)
    stops = [summarize(one).stops for one in replays]
    print(f"{size} instances, {days} days: stops {stops}, page {len(text) / 1e6:.1f} MB")
    return seconds


def _asking_after(minutes: int) -> Policy:
    rule = ApprovalRule(ask_after_minutes=minutes, ask_after_released_minutes=minutes)
    return Policy(approval=rule)


def main() -> None:
    """Print seconds by part, and the peak of Python memory in MB of 10^6 bytes.

    What counts is a back-test of the default policy; the others are there to compare.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = SeriesStore(Path(folder) / "series.sqlite", lambda _: "made up")
        seconds = measure(100, 14, store)
        tracemalloc.start()
        measure(20, 14, store)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        store.close()
    for part, (length, own) in seconds.items():
        print(f"  {part:<16} {length:>6.2f} s, {own:>6.2f} s of a core")

    def whole(policy: str, clock: int) -> float:
        return round(sum(seconds[part][clock] for part in ("load", f"replay {policy}", "page")), 2)

    result = {
        "backtest_100x14_seconds": whole("default", 0),
        "backtest_100x14_cpu_seconds": whole("default", 1),
        "peak_mb_20x14": round(peak, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
