"""`make bench`: prints tables, and as its last line one JSON object."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import cold_start, console, interruptions, judge, parsing, sweep, targets


def main() -> None:
    """Measures and prints everything."""
    billed = [(size, style) for style in sweep.STYLES for size in (100, 1_000)]
    counted = [(style, size) for style in sweep.STYLES for size in sweep.WORK]
    *found, slept, aggregate, per_gpu = sweep.apart(
        [
            *sweep.scale_jobs(),
            *((sweep.work, *one) for one in counted),
            *((sweep.monthly_usd, size, style) for size, style in billed),
            (sweep.slept, "per-gpu", 1_000),
            (sweep.steady_reads_over_unskipped, "aggregate", 2_000),
            (sweep.steady_reads_over_unskipped, "per-gpu", 500),
        ]
    )
    found, costs = found[: -len(billed)], found[-len(billed) :]
    scales, calls = found[: -len(counted)], dict(zip(counted, found[-len(counted) :], strict=True))
    sweep.print_scales(scales)
    print("\nFunctions that a first sweep calls for an instance")
    for fleet, count in calls.items():
        print(f"  {fleet[0]:<10} {fleet[1]:>6,} {count:>7,.0f}")
    [simulated] = [one for one in scales if (one.style, one.size) == ("per-gpu", slept.size)]
    print(
        "  The simulated clock over one that is slept by: "
        f"{simulated.first.wall / slept.first.wall:.2f}"
    )
    judging = judge.measure()
    print(
        f"\nJudging {judge.INSTANCES:,} instances of {judge.GPUS} GPUs, {judge.POINTS} "
        "readings each: "
        f"{judging:.2f} s"
    )
    print(
        "\nReading a data point of GetMetricData, by the protocol of the client, in processor time"
    )
    readings = parsing.measure()
    for reading in readings:
        print(parsing.text_of(reading))
    instance, by_botocore = parsing.measure_instances()
    print(
        f"  an instance of DescribeInstances: {instance:.0f} us; botocore's own parser "
        f"{by_botocore:.0f} us"
    )
    print("\nA steady hour: metrics read over those of sweeps that skip nothing (5 % idle)")
    steady = {"aggregate": aggregate, "per-gpu": per_gpu}
    for style, ratio in steady.items():
        print(f"  {style:<10} {ratio:.3f}")
    print("\nWhat it costs to run, USD a month")
    monthly = {}
    for (size, style), items in zip(billed, costs, strict=True):
        monthly[f"{size} {style}"] = sum(items.values())
        print(f"  {size} instances, {style}: {sum(items.values()):.2f}")
        for name, usd in items.items():
            print(f"    {usd:>8.2f}  {name}")
    print("\nCold start, milliseconds of processor time (medians of pairs)")
    rows = cold_start.measure()
    for row in rows:
        print(cold_start.text_of(row))
    over_same, over_bare = cold_start.worst(rows)
    print(f"\nThe console over {console.INSTANCES:,} instances, milliseconds of processor time")
    pages = console.measure()
    for page in pages:
        print(console.text_of(page))
    burst = interruptions.measure()
    print(
        f"\n{burst.warned} Spot warnings at once, on the local cloud: {len(burst.seconds)} hooks, "
        f"median {burst.median:.2f} s, 99th percentile {burst.percentile(0.99):.2f} s"
    )
    seconds = targets.measure()
    print(f"\nOne sweep of {targets.TARGETS} targets on the local cloud: {seconds:.0f} s")
    largest = [one for one in scales if (one.size, one.targets) == (sweep.JUDGED, 1)]
    figures = json.dumps(
        {
            "first_sweep_calls_over_floor": round(max(one.first.over_floor for one in largest), 3),
            "sweep_cost_spread_from_5000": round(sweep.spread_of_costs(scales), 3),
            "sweep_work_spread_from_5000": round(sweep.spread_of_work(calls), 3),
            "simulated_over_slept": round(simulated.first.wall / slept.first.wall, 3),
            "us_per_data_point": round(max(one.microseconds for one in readings), 2),
            "us_per_described_instance": round(instance),
            "steady_metric_reads_over_unskipped": round(max(steady.values()), 3),
            "judge_seconds_10000x8x60": round(judging, 2),
            "peak_mb_10000": round(max(one.megabytes for one in largest), 1),
            "us_per_instance": round(max(one.micros(one.first) for one in largest), 1),
            "us_per_instance_steady": round(
                max(one.micros(one.steady) for one in largest if one.steady), 1
            ),
            "seconds_10000_at_50_ms": round(max(one.first.wall for one in largest), 1),
            "seconds_10000_steady_at_50_ms": round(
                max(one.steady.wall for one in largest if one.steady), 1
            ),
            "seconds_10000_on_512_mb": round(max(one.first.wall_on_lambda for one in largest), 1),
            "cold_start_over_same_clients_max": round(over_same, 2),
            "cold_start_over_bare_client_max": round(over_bare, 2),
            "console_page_ms_5000": round(max(one.milliseconds for one in pages)),
            "console_page_reads_5000": max(one.reads for one in pages),
            "console_page_kib_5000": round(max(one.kibibytes for one in pages)),
            "spot_hook_p99_seconds_200_at_once": round(burst.percentile(0.99), 2),
            "sweep_seconds_200_targets": round(seconds),
            "usd_a_month": {name: f"{usd:.2f}" for name, usd in monthly.items()},
        }
    )
    # For `make figures`.
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "bench.json").write_text(figures, encoding="utf-8")
    print(figures)


if __name__ == "__main__":
    main()
