"""`make bench-peer`: Cloud Custodian, a plain Lambda and us, before the same stub in the same run.

Each runs in a process of its own, one after the other. Prints tables, and as its last line one JSON
object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from benchmarks.contest import HARD, Ran, fleet_of, wrong
from benchmarks.fleet import instance_id, number_of
from benchmarks.sweep import SWEEPS_AN_HOUR, Bench, Swept
from benchmarks.wire import megabytes
from governor.table import keys
from governor.table.table import update

ROOT = Path(__file__).parents[1]
SIZES = (200, 2_000, 10_000)
JUDGED = 2_000
"""The size that the goals are for."""
_SWEEPS_A_MONTH = 730 * SWEEPS_AN_HOUR
_FREE = 1_000_000
"""Requests a month. GetMetricData has none."""
CONTENDERS: Mapping[str, tuple[str, str]] = {
    "ours": (sys.executable, "benchmarks.peer"),
    "custodian": (str(ROOT / ".tools" / "custodian" / "bin" / "python"), "benchmarks.custodian"),
    "plain": (sys.executable, "benchmarks.plain"),
}


def ours(size: int) -> list[Ran]:
    """A first sweep, and the mean of those of the hour after it."""
    fleet = fleet_of(size)
    bench = Bench("aggregate", size, fleet=fleet)
    for number, host in enumerate(fleet.hosts):
        if "keep-until" in host.tags:
            place = keys.holds(bench.parts.accounts.target(*bench.targets[0]), instance_id(number))[
                0
            ]
            with bench.wired():
                bench.parts.table.write(
                    update(place, {"snoozed_until": fleet.now + timedelta(days=7)})
                )
    first = _ran(bench.sweep())
    if fleet.hosts:
        return [replace(first, marked=sorted(map(number_of, bench.asked)))]
    return [first, _mean([_ran(bench.sweep()) for _ in range(SWEEPS_AN_HOUR)])]


def _ran(swept: Swept) -> Ran:
    units = swept.read_units, swept.write_units
    return Ran({**swept.calls}, swept.metrics, swept.processor, swept.wall, megabytes(), [], units)


def _mean(found: Sequence[Ran]) -> Ran:
    count = len(found)
    names = {name for one in found for name in one.calls}
    reads, writes = (sum(one.units[which] for one in found) / count for which in (0, 1))
    return Ran(
        {name: sum(one.calls.get(name, 0) for one in found) / count for name in names},
        sum(one.metrics for one in found) / count,
        sum(one.processor for one in found) / count,
        sum(one.wall for one in found) / count,
        max(one.megabytes for one in found),
        [],
        (reads, writes),
    )


def usd_a_month(ran: Ran) -> Decimal:
    """List prices in us-east-1, at a sweep every five minutes: CloudWatch's reads, Lambda with 512
    MB for as long as the sweep takes, and the table. What else a stack costs is the same for all or
    within cents."""
    listed = ("monitoring:GetMetricStatistics", "monitoring:ListMetrics")
    requests = sum(ran.calls.get(name, 0) for name in listed) * _SWEEPS_A_MONTH
    reads, writes = ran.units
    by_sweep = (
        ran.metrics / 1000 * 0.01
        + ran.wall * 0.5 * 0.0000133334
        + (writes * 0.625 + reads * 0.125) / 1_000_000
    )
    return Decimal(by_sweep * _SWEEPS_A_MONTH + max(0, requests - _FREE) / 1000 * 0.01).quantize(
        Decimal("0.01")
    )


def run(contender: str, size: int) -> list[Ran]:
    """In a process of its own."""
    python, module = CONTENDERS[contender]
    path = os.environ.get("PYTHONPATH", "") if contender == "ours" else str(ROOT)
    done = subprocess.run(
        [python, "-m", module, str(size)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    return [Ran(**{**one, "units": tuple(one["units"])}) for one in json.loads(done.stdout)]


def main() -> None:
    """Measures and prints everything."""
    print(
        "Sweeps of the same fleet, 5 % idle, one in five with eight GPUs: the first one, "
        "and a steady one"
    )
    print(
        "  instances  contender  sweep   metric calls  all calls   at 50 ms       CPU   "
        "memory  USD a month"
    )
    found: dict[tuple[str, int], list[Ran]] = {}
    for size in SIZES:
        for contender in CONTENDERS:
            found[contender, size] = run(contender, size)
            for name, one in zip(("first", "steady"), found[contender, size], strict=True):
                usd = f"{usd_a_month(one):>12}" if name == "steady" else ""
                print(
                    f"  {size:>9}  {contender:<9}  {name:<6}  {one.metric_calls:>12.1f} "
                    f"{sum(one.calls.values()):>10.1f} {one.wall:>8.1f} s {one.processor:>7.2f} s "
                    f"{one.megabytes:>5.0f} MB {usd}"
                )
    verdicts = {}
    print(f"\nVerdicts on twenty hard cases and {HARD // 2} ordinary instances")
    for contender in CONTENDERS:
        wrongly, missed = wrong(fleet_of(HARD), run(contender, HARD)[0].marked)
        verdicts[contender] = len(wrongly) + len(missed)
        print(f"  {contender}: {len(wrongly)} marked wrongly, {len(missed)} idle ones missed")
        for what, names in (("wrong", wrongly), ("missed", missed)):
            for name in names:
                print(f"    {what}: {name}")
    print(json.dumps(_figures(found, verdicts)))


def _figures(
    found: Mapping[tuple[str, int], Sequence[Ran]], verdicts: Mapping[str, int]
) -> dict[str, float]:
    """The worse of first and steady."""

    def over(contender: str, figure: str, size: int = JUDGED) -> list[float]:
        both = zip(found[contender, size], found["ours", size], strict=True)
        return [round(getattr(theirs, figure) / getattr(own, figure), 1) for theirs, own in both]

    return {
        "metric_calls_custodian_over_ours": min(over("custodian", "metric_calls")),
        "wall_custodian_over_ours": min(over("custodian", "wall")),
        "metric_calls_naive_over_ours": min(over("plain", "metric_calls")),
        "wall_naive_over_ours": min(over("plain", "wall")),
        "wrong_verdicts": verdicts["ours"],
        "wrong_verdicts_custodian": verdicts["custodian"],
        "wrong_verdicts_naive": verdicts["plain"],
        "wall_custodian_over_ours_steady_10000": over("custodian", "wall", 10_000)[1],
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from dataclasses import asdict

        print(json.dumps([asdict(one) for one in ours(int(sys.argv[1]))]))
    else:
        main()
