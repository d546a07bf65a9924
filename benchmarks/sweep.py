"""Sweeps over fleets of several sizes: calls, processor time, memory, table units and wall time.

The real parts of the function in front of the stub of the wire: real clients, signing, parsers and
table.
"""

from __future__ import annotations

import cProfile
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.fleet import ACCOUNT, REGION, Fleet, Style, reads
from benchmarks.table import StubTable
from benchmarks.timeline import SimulatedThreads, Timeline
from benchmarks.wire import Answered, Asked, Service, Wire, as_json, as_xml, megabytes
from cli.own_cost import usd_of
from governor.core.environment import parse_settings
from governor.core.episode_ref import episode_from_execution_name
from governor.fleet.model import part_of
from governor.policy.model.policy import Policy
from governor.verdict.model import VerdictKind
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.health import check_health
from governor.wiring.sweeping import sweep_target
from local.engine.templates import expand_template
from tests.console_world import make_episode, make_row
from tests.twins.services import FakeClock

SIZES = (1_000, 5_000, 10_000, 50_000)
WORK = (5_000, 10_000)
"""The sizes whose functions are counted; larger ones take minutes."""
SPREAD_OVER = (200, 2_000)
SPREAD = 10_000, 50_000
"""So many instances, over so many targets."""
JUDGED = 10_000
"""The size that the goals are for, in one target."""
STYLES: dict[Style, int | None] = {"aggregate": None, "per-gpu": 8}
"""GPUs of an instance; `None`: every fifth has eight, the others one."""
MEMORY = 512
"""MB of the functions that read a target, unless the template's parameter says otherwise."""
LAMBDA_SHARE = MEMORY / 1769
"""Share of a processor. Lambda gives a whole one to 1,769 MB."""
_SAMPLED = 20
"""Targets of a spread fleet that are swept here; all are alike."""
_REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1")
_RESOURCES = expand_template(Path(__file__).parents[1] / "template.yaml")["Resources"]
TIMEOUT = int(_RESOURCES["SweepTargetFunction"]["Properties"]["Timeout"])
_ALARMS = [
    one["Properties"] for one in _RESOURCES.values() if one["Type"] == "AWS::CloudWatch::Alarm"
]
ALARMS = sum(
    sum("MetricStat" in metric for metric in one.get("Metrics", ())) or 1 for one in _ALARMS
)
"""As they are billed: an alarm over two metrics counts twice."""
KEYS = sum(resource["Type"] == "AWS::KMS::Key" for resource in _RESOURCES.values())
POLLED = sum(
    event["Type"] == "SQS"
    for one in _RESOURCES.values()
    for event in one.get("Properties", {}).get("Events", {}).values()
)
"""Queues that Lambda polls, empty or not."""
_POLLS_AN_HOUR = 5 * 60 * 60 // 20
"""Five readers, which wait 20 s each. Source: Lambda, Using Lambda with Amazon SQS."""
_A_MILLION_POLLS = Decimal("0.40")
SECRETS = sum(resource["Type"] == "AWS::SecretsManager::Secret" for resource in _RESOURCES.values())
OWN_METRICS = 4 + len({part_of(kind) for kind in VerdictKind}) + 4
"""Those that are written all the time: problems, and metrics read, of sweeps and of health,
instances by state; cost, used budget, savings, false stops."""
START = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
EVERY = timedelta(minutes=5)
SWEEPS_AN_HOUR, LOOKS_AN_HOUR = 12, 4
HEALTH_HOURS = int(Policy().health.check_every / timedelta(hours=1))
FREE = {
    "metrics": 10,
    "alarms": 10,
    "transitions": 4_000,
    "gb_seconds": 400_000,
    "requests": 1_000_000,
    "log_gb": 5,
    "traces": 100_000,
    "key_requests": 20_000,
}
"""A month in every account, for good."""
_A_LOG_GB, _A_MILLION_TRACES, _A_MILLION_KEY_REQUESTS = Decimal("0.50"), Decimal(5), Decimal(3)
_INVOKED = 3
"""Functions, at most, of a sweep and of a look at health."""
_LOGGED = Decimal("4e-6")
"""GB that an invocation writes at most; so does a state of a machine, in five events."""
_KEY_REQUESTS = 2
"""Most of an invocation: for the key of the table, which DynamoDB holds for 5 minutes, and for
another."""
_FUNCTIONS = [
    one["Properties"] for one in _RESOURCES.values() if one["Type"] == "AWS::Serverless::Function"
]
_A_MONTH = {"rate(1 hour)": 730, "cron(20 2 * * ? *)": 31, "cron(40 3 * * ? *)": 31}
SCHEDULED = [
    (_A_MONTH[event["Properties"]["Schedule"]], one["Timeout"], one["MemorySize"])
    for one in _FUNCTIONS
    for event in one.get("Events", {}).values()
    if event["Type"] == "Schedule"
]
"""Runs a month, seconds and MB of the hourly and daily functions, as their properties name them."""
_A_METRIC = Decimal("0.30")
AGENT_METRICS = {"full": 7, "lean": 3}
"""Measurements of the agent by the parameter `AgentMetrics` of `stacks/telemetry.yaml`."""
_SETTINGS = {
    "AWS_REGION": REGION,
    "HUB_ACCOUNT_ID": ACCOUNT,
    "MEMBER_ROLE_NAME": "governor-member-sweeper",
    "TABLE_NAME": "state",
    "POLICY_PARAMETER": "policy",
    "POLICY_BUCKET": "policies",
    "ALERT_TOPIC_ARN": f"arn:aws:sns:{REGION}:{ACCOUNT}:alerts",
    "ALERT_KEY_ARN": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1",
    "REMEDIATION_STATE_MACHINE_ARN": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:remediation",
    "POWERTOOLS_METRICS_NAMESPACE": "governor",
}


@dataclass(frozen=True)
class Swept:
    """One sweep of every sampled target. Wall time is that of the slowest target, at 50 ms a
    call."""

    calls: dict[str, int]
    metrics: int
    floor: int
    processor: float
    wall: float
    wall_on_lambda: float
    read_units: int
    write_units: int
    started: int

    @property
    def over_floor(self) -> float:
        """Reading calls over the least that is possible."""
        return reads(Counter(self.calls)) / self.floor


class Bench:
    """A fleet of `size` in each of some targets, with the real sweep in front of it. With `sleeps`
    its calls and threads are real, and wait for real."""

    def __init__(
        self,
        style: Style,
        size: int,
        *,
        accounts: int = 0,
        sleeps: bool = False,
        remembers: bool = True,
        fleet: Fleet | None = None,
    ) -> None:
        known = [f"{200_000_000_000 + number}" for number in range(accounts)]
        places = f"targets: {{accounts: {json.dumps(known)}, regions: {json.dumps(_REGIONS)}}}"
        policy = f"mode: ask\n{places if accounts else ''}"
        self.fleet = fleet or Fleet(size, style, START, gpus_each=STYLES[style])
        self.table = StubTable()
        self._started: list[str] = []
        self.asked: set[str] = set()
        """Instances about which a question was opened."""
        services: dict[str, Service] = {
            **self.fleet.services(),
            "dynamodb": self.table,
            "states": self._states,
            "ssm": lambda _: as_json({"Parameter": {"Name": "policy", "Value": policy}}),
            "kms": lambda _: as_json({"Mac": "AAAA", "KeyId": "1", "MacAlgorithm": "HMAC_SHA_256"}),
            "sns": lambda asked: as_xml(asked.operation, "<MessageId>1</MessageId>"),
            "sts": _assumed,
        }
        self.wire = Wire(services, sleeps)
        self.clock = FakeClock(self.fleet.now)
        self._remembers = remembers
        spread = [(account, region) for account in known for region in _REGIONS]
        self.targets = spread[:_SAMPLED] or [(ACCOUNT, REGION)]
        with self.wired():
            self.parts = Ec2Parts(parse_settings(_SETTINGS), clock=self.clock)
            self._sweep_target = sweep_target(self.parts)

    def sweep(self) -> Swept:
        """One sweep of every target; afterwards the workflows that it started have asked."""
        self.wire.calls.clear()
        self.fleet.queries = 0
        units = self.table.read_units, self.table.write_units
        processor, walls, slow = 0.0, [], []
        for place in self.targets:
            with self.wired() as timeline:
                began = time.perf_counter()
                summary = self._sweep_target(*place)
                slept = time.perf_counter() - began
            assert not summary.problems, summary.problems[:3]
            processor += timeline.processor_seconds
            walls.append(slept if self.wire.sleeps else timeline.wall_seconds())
            slow.append(timeline.wall_seconds(LAMBDA_SHARE))
        swept = Swept(
            dict(self.wire.calls),
            self.fleet.queries,
            self.fleet.floor() * len(self.targets),
            processor,
            max(walls),
            max(slow),
            self.table.read_units - units[0],
            self.table.write_units - units[1],
            len(self._started),
        )
        self._ask()
        if not self._remembers:
            self.table.forget("OBSERVATIONS#")
        self.clock.moment += EVERY
        return swept

    def check_health(self) -> None:
        """One look at the health of the GPUs."""
        with self.wired():
            check_health(self.parts)(*self.targets[0])

    @contextmanager
    def wired(self) -> Iterator[Timeline]:
        pool = ThreadPoolExecutor if self.wire.sleeps else SimulatedThreads
        with (
            patch.dict(os.environ, AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench"),  # noqa: S106 - no secret: the wire is replaced
            patch("governor.aws.clients.ThreadPoolExecutor", pool),
            self.wire.carrying() as timeline,
        ):
            yield timeline

    def _states(self, asked: Asked) -> Answered:
        if asked.operation == "DescribeExecution":
            return as_json({"status": "RUNNING"})
        assert asked.operation == "StartExecution", asked.operation
        self._started.append(asked.values["name"])
        arn = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:remediation:{asked.values['name']}"
        return as_json({"executionArn": arn, "startDate": START.timestamp()})

    def _ask(self) -> None:
        """Write what the workflows of these episodes write until a question is open."""
        now = self.clock.now()
        with self.wired(), patch.object(self.wire, "sleeps", new=False):
            for name in self._started:
                ref = episode_from_execution_name(name)
                self.asked.add(ref.instance_id)
                opened = make_episode(make_row(1), ref=ref, approval_id=name, opened_at=now)
                opened = replace(opened, opening_seal="1.of the bench")
                self.parts.episode_store.take_lock(ref)
                self.parts.approval_store.save_opened(opened)
                self.parts.approval_store.await_answer(
                    name, "token", "ask", now + timedelta(days=1)
                )
        self._started.clear()


def _assumed(asked: Asked) -> Answered:
    until = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    # Each account has a key of its own, so that the stub tells them apart.
    key = asked.values["RoleArn"].split(":")[4]
    keys = f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>bench</SecretAccessKey>"
    return as_xml(
        "AssumeRole",
        f"<Credentials>{keys}<SessionToken>t</SessionToken><Expiration>{until}</Expiration></Credentials>",
    )


@dataclass(frozen=True)
class Hour:
    """The cost of twelve sweeps in a row, or of the looks at health beside them."""

    calls: Counter[str]
    metrics: int
    read_units: int
    write_units: int


@cache
def hour(style: Style, size: int, *, remembers: bool = True) -> Hour:
    """The hour that follows a first sweep."""
    bench = Bench(style, size, remembers=remembers)
    bench.sweep()
    swept = [bench.sweep() for _ in range(SWEEPS_AN_HOUR)]
    calls = sum((Counter(one.calls) for one in swept), Counter[str]())
    metrics, reads, writes = (
        sum(getattr(one, name) for one in swept)
        for name in ("metrics", "read_units", "write_units")
    )
    return Hour(calls, metrics, reads, writes)


@cache
def looks_at_health(style: Style, size: int) -> Hour:
    """`HEALTH_HOURS` between two weekly looks for advice: one check."""
    bench = Bench(style, size)
    bench.check_health()
    bench.wire.calls.clear()
    bench.fleet.queries, before = 0, (bench.table.read_units, bench.table.write_units)
    for _ in range(HEALTH_HOURS * LOOKS_AN_HOUR):
        bench.clock.moment += timedelta(hours=1) / LOOKS_AN_HOUR
        bench.check_health()
    units = bench.table.read_units - before[0], bench.table.write_units - before[1]
    return Hour(bench.wire.calls, bench.fleet.queries, *units)


def steady_reads_over_unskipped(style: Style, size: int) -> float:
    """Metric reads of the hour after a first sweep, over those of sweeps that skip nothing."""
    return hour(style, size).metrics / hour(style, size, remembers=False).metrics


@dataclass(frozen=True)
class Scale:
    """A fleet of one size. `megabytes`: the most that the whole process held at once."""

    style: Style
    size: int
    targets: int
    first: Swept
    steady: Swept | None
    megabytes: float

    @property
    def swept(self) -> int:
        """Instances that were swept here; of a spread fleet some targets are enough."""
        return self.size // self.targets * min(self.targets, _SAMPLED)

    def micros(self, swept: Swept) -> float:
        """Processor time for an instance."""
        return 1e6 * swept.processor / self.swept


def scale(style: Style, size: int, targets: int = 1) -> Scale:
    """A first sweep; up to 10,000 instances in a target also one of the second hour, with a
    question open about each idle instance."""
    bench = Bench(style, size // targets, accounts=targets // len(_REGIONS))
    first, steady = bench.sweep(), None
    if bench.fleet.size <= JUDGED:
        bench.sweep()
        bench.clock.moment += timedelta(hours=1)
        bench.sweep()
        steady = bench.sweep()
    return Scale(style, size, targets, first, steady, megabytes())


def work(style: Style, size: int) -> float:
    """Return how many functions a first sweep calls for an instance, the stub's included. Unlike
    time, it is the same beside other programs: what grows with the fleet grows here."""
    bench, profile = Bench(style, size), cProfile.Profile()
    with profile:
        bench.sweep()
    return sum(one.callcount for one in profile.getstats()) / size


def slept(style: Style, size: int) -> Scale:
    """A first sweep whose threads and waits are real: it checks the simulated clock, and the
    memory."""
    first = Bench(style, size, sleeps=True).sweep()
    return Scale(style, size, 1, first, None, megabytes())


Job = tuple[Callable[..., Any], *tuple[Any, ...]]
"""A function and what it is called with."""


def apart(jobs: Sequence[Job]) -> list[Any]:
    """Return what they return. Each runs in a process of its own, so that its memory is its own;
    two at a time."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        futures = [pool.submit(function, *given) for function, *given in jobs]
        return [one.result() for one in futures]


def scale_jobs() -> list[Job]:
    """Every size of both styles, the longest first."""
    wanted = [(style, size, 1) for style in STYLES for size in SIZES]
    wanted += [
        (style, size, targets) for style in STYLES for size in SPREAD for targets in SPREAD_OVER
    ]
    return [
        (scale, *one)
        for one in sorted(wanted, key=lambda one: (-one[1], one[2], one[0] == "aggregate"))
    ]


HEADING = (
    "  fleet        size targets  reads  floor  calls  us each   units r/w  at 50 "
    "ms  on 512 MB    MB"
)


def text_of(one: Scale) -> str:
    """Two lines: the first sweep, and the steady one. Reads, calls and units are those of all
    targets."""
    lines = []
    for swept in filter(None, (one.first, one.steady)):
        calls, times = Counter(swept.calls), one.size / one.swept
        units = f"{swept.read_units * times:.0f}/{swept.write_units * times:.0f}"
        which = (
            f"{one.style:<10} {one.size:>6} {one.targets:>7}"
            if swept is one.first
            else f"{'steady':>25}"
        )
        counts = (reads(calls), swept.floor, calls.total())
        lines.append(
            f"  {which} {' '.join(f'{count * times:>6.0f}' for count in counts)} "
            f"{one.micros(swept):>8.0f} "
            f"{units:>11} {swept.wall:>7.1f} s {swept.wall_on_lambda:>8.1f} s {one.megabytes:>5.0f}"
        )
    return "\n".join(lines)


def spread_of_costs(found: Sequence[Scale]) -> float:
    """The dearest instance over the cheapest in first sweeps of one target from 5,000 on, the worse
    style."""
    worst = 0.0
    for style in STYLES:
        theirs = [
            one for one in found if one.style == style and one.size >= 5_000 and one.targets == 1
        ]
        costs = [one.micros(one.first) for one in theirs]
        worst = max(worst, max(costs) / min(costs))
    return worst


def monthly_usd(size: int, style: Style = "aggregate", *, free: bool = True) -> dict[str, Decimal]:
    """Return what the governor costs a month in AWS charges, by item, at list prices in us-east-1.
    Without `free` as if something else had used up what AWS gives every account for nothing.

    Calls come from the bench; logs, traces, requests of keys, and the hourly and daily functions,
    which are taken to run for half of their time-outs, are at most. Not in it: the agent's own
    metrics, which are paid for with or without the governor, and what a question costs, which stays
    within cents.
    """
    hours = Decimal(730)
    sweeping, health = hour(style, size), looks_at_health(style, size)
    name = "monitoring:ListMetrics"
    listed = (sweeping.calls[name] + Decimal(health.calls[name]) / HEALTH_HOURS) * hours
    sweeps = SWEEPS_AN_HOUR * hours
    looks = LOOKS_AN_HOUR * hours
    # A sweep and its sum of the month, and a look at health.
    seconds = sweeps * (Decimal("3.2") + Decimal(size) / 1000) + looks
    gb_seconds = (
        sum((times * Decimal(most) / 2 * mb for times, most, mb in SCHEDULED), seconds * MEMORY)
        / 1024
    )
    # States of the machine that one target passes: in a sweep, and at a look at health.
    transitions = 5 * sweeps + 4 * looks
    scheduled = sum(times for times, _, _ in SCHEDULED)
    invoked = _INVOKED * (sweeps + looks) + scheduled
    written = (sweeping.write_units + Decimal(health.write_units) / HEALTH_HOURS) * hours
    read = (sweeping.read_units + Decimal(health.read_units) / HEALTH_HOURS) * hours
    polls = POLLED * _POLLS_AN_HOUR * hours

    def billed(amount: Decimal | int, which: str) -> Decimal:
        return max(Decimal(0), amount - Decimal(FREE[which] if free else 0))

    return {
        "CloudWatch GetMetricData for sweeps": usd_of("metrics", sweeping.metrics * hours),
        "CloudWatch GetMetricData for health": usd_of(
            "metrics", health.metrics * hours / HEALTH_HOURS
        ),
        "CloudWatch ListMetrics": usd_of("listings", billed(listed, "requests")),
        "Step Functions": usd_of("transitions", billed(transitions, "transitions")),
        "Lambda": usd_of("gb_seconds", billed(gb_seconds, "gb_seconds")),
        "DynamoDB writes": usd_of("writes", written),
        "DynamoDB reads": usd_of("reads", read),
        f"SQS, polled by Lambda ({POLLED})": billed(polls, "requests")
        * _A_MILLION_POLLS
        / 1_000_000,
        "CloudWatch Logs, at most": billed((invoked + transitions) * _LOGGED, "log_gb") * _A_LOG_GB,
        "X-Ray": billed(sweeps + looks + scheduled, "traces") * _A_MILLION_TRACES / 1_000_000,
        "KMS requests, at most": billed(invoked * _KEY_REQUESTS, "key_requests")
        * _A_MILLION_KEY_REQUESTS
        / 1_000_000,
        f"KMS keys ({KEYS})": usd_of("keys", KEYS),
        f"Secrets Manager ({SECRETS})": usd_of("secrets", SECRETS),
        f"CloudWatch alarms ({ALARMS})": usd_of("alarms", billed(ALARMS, "alarms")),
        f"CloudWatch metrics of its own ({OWN_METRICS})": usd_of(
            "own_metrics", billed(OWN_METRICS, "metrics")
        ),
    }


def telemetry_metrics(size: int, style: Style, published: str = "full") -> int:
    """Return how many metrics the agents of such a fleet publish."""
    series = Fleet(size, style, START, gpus_each=STYLES[style]).series
    return len(series) * AGENT_METRICS[published]


def telemetry_usd(size: int, style: Style, published: str = "full") -> Decimal:
    """Return what the agent's metrics of such a fleet cost a month in one account: 0.30 USD each,
    0.10 from the 10,001st on. `published` is `full` or `lean`."""
    metrics = telemetry_metrics(size, style, published)
    dear = max(0, min(metrics, 10_000) - FREE["metrics"])
    return dear * _A_METRIC + max(0, metrics - 10_000) * Decimal("0.10")


def spread_of_work(found: Mapping[tuple[Style, int], float]) -> float:
    """Return what `spread_of_costs` does, of the functions that are called."""
    by_style = [[calls for (style, _), calls in found.items() if style == one] for one in STYLES]
    return max(max(calls) / min(calls) for calls in by_style)


def print_scales(found: Sequence[Scale]) -> None:
    """The table of them, and their calls."""
    print(
        "Sweeps: the first one, and one of a steady hour with a question open about each "
        "idle instance"
    )
    print(HEADING)
    rows = sorted(found, key=lambda one: (one.style, one.targets, one.size))
    for one in rows:
        print(text_of(one))
    print("\nCalls of the swept targets, the first sweep and the steady one")
    for one in rows:
        for swept in filter(None, (one.first, one.steady)):
            calls = ", ".join(f"{name} {count}" for name, count in sorted(swept.calls.items()))
            print(f"  {one.style} {one.size}, {one.targets}: {calls}")


if __name__ == "__main__":
    of_all_sizes = apart(scale_jobs())
    print_scales(of_all_sizes)
    print(json.dumps({"sweep_cost_spread_from_5000": round(spread_of_costs(of_all_sizes), 3)}))
