"""Calls, time and memory of sweeps over fleets of several sizes, against the counting stub."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.stub_aws import ACCOUNT, REGION, StubFleet, Style
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import Ec2Instances, Ec2Tags
from governor.adapters.managing import AwsBatch
from governor.adapters.pricing import AwsPrices
from governor.domain.episode.episode import episode_from_execution_name
from governor.domain.instance import Target
from governor.domain.sweep.verdict import VerdictKind
from governor.usecases.accounts import Accounts
from governor.usecases.episode.end_episode import AnnounceEnd, CloseDead, VoidEpisode
from governor.usecases.evidence.gather_evidence import GatherEvidence
from governor.usecases.health.check_health import CheckHealth
from governor.usecases.health.read_health import ReadHealth
from governor.usecases.money.book_saving import BookSaving
from governor.usecases.money.costs import CountCosts
from governor.usecases.once import Once
from governor.usecases.sweep.follow_up import FollowUp
from governor.usecases.sweep.freeze_plans import FreezePlans
from governor.usecases.sweep.sweep_alerts import SweepAlerts
from governor.usecases.sweep.sweep_target import SweepTarget
from local.templates import expand_template
from tests.twins import (
    FakeClock,
    MemoryEventLog,
    MemoryStateTable,
    MemoryWorkflow,
    RecordingAnnouncer,
    StaticPolicies,
)

SIZES = (200, 2_000, 10_000)
_RESOURCES = expand_template(Path(__file__).parents[1] / "template.yaml")["Resources"].values()
ALARMS = sum(resource["Type"] == "AWS::CloudWatch::Alarm" for resource in _RESOURCES)
SECRETS = sum(resource["Type"] == "AWS::SecretsManager::Secret" for resource in _RESOURCES)
PROJECTS = 5
"""Assumed: each has a metric of its own."""
OWN_METRICS = 3 + len(VerdictKind) + 3 + PROJECTS
"""Those that every sweep writes: problems of sweeps and of health, episodes started, instances by verdict;
used budget, savings, false stops, and the cost of each project."""
TARGET = Target(ACCOUNT, REGION)
START = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
SWEEPS_AN_HOUR = 12
_READS = ("ec2:DescribeInstances", "cloudwatch:GetMetricData", "cloudwatch:ListMetrics")


class _StubClients:
    """As `governor.adapters.clients.Clients`."""

    def __init__(self, fleet: StubFleet) -> None:
        self._clients = {service: fleet.client(service) for service in ("ec2", "cloudwatch")}

    def client(self, service: str, *_: object, **__: object) -> Any:
        """The stub of the service."""
        return self._clients[service]


@dataclass(frozen=True)
class FirstSweep:
    """A first sweep. `seconds` is our own time: the stub answers at once, but from this process."""

    style: Style
    size: int
    calls: dict[str, int]
    floor: int
    seconds: float

    @property
    def over_floor(self) -> float:
        """Reading calls over the least that is possible."""
        return sum(self.calls.get(name, 0) for name in _READS) / self.floor

    @property
    def seconds_at_50_ms(self) -> float:
        """Wall time on AWS, one call after the other, at 50 ms a call: an upper bound."""
        return self.seconds + 0.05 * sum(self.calls.values())


class Bench:
    """One fleet with the sweep in front of it."""

    def __init__(self, style: Style, size: int, *, remembers: bool = True) -> None:
        self.fleet = StubFleet(size=size, style=style, now=START)
        clients: Any = _StubClients(self.fleet)
        self.clock = FakeClock(START)
        self.workflow = MemoryWorkflow()
        self.state = MemoryStateTable() if remembers else _Forgetful()
        announcer, log = RecordingAnnouncer(), MemoryEventLog()
        book = BookSaving(StaticPolicies(), Accounts(ACCOUNT, REGION), Ec2Instances(clients))
        self.sweep = SweepTarget(
            clock=self.clock,
            policies=StaticPolicies(),
            instances=Ec2Instances(clients),
            gather=GatherEvidence(CloudWatchMetrics(clients)),
            state=self.state,
            tagger=Ec2Tags(clients),
            freeze=FreezePlans(self.state, announcer, TARGET),
            follow_up=FollowUp(
                self.state,
                self.workflow,
                void=VoidEpisode(self.state, self.workflow),
                close_dead=CloseDead(
                    self.clock,
                    StaticPolicies(),
                    self.state,
                    AnnounceEnd(self.clock, StaticPolicies(), announcer, log, self.state),
                    book,
                ),
            ),
            costs=CountCosts(AwsPrices(clients), self.state),
            alerts=SweepAlerts(announcer, AwsBatch(clients), Once(self.clock, log), self.state),
            spread=map,
        )
        self.check_health = CheckHealth(
            clock=self.clock,
            policies=StaticPolicies(),
            instances=Ec2Instances(clients),
            read=ReadHealth(CloudWatchMetrics(clients)),
            log=log,
            announcer=announcer,
        )

    def run(self) -> float:
        """One sweep; its seconds. Idle instances get their lock, as their workflow would take it."""
        started = time.perf_counter()
        self.sweep(TARGET)
        seconds = time.perf_counter() - started
        for name in self.workflow.executions:
            self.state.take_lock(episode_from_execution_name(name))
        return seconds


class _Forgetful(MemoryStateTable):
    """A state table without observations: every sweep is a first one, and reads everything."""

    def remember(self, *_: object, **__: object) -> None:
        """Nothing."""


def first_sweeps() -> list[FirstSweep]:
    """A first sweep of every size and style."""
    results = []
    styles: tuple[Style, ...] = ("aggregate", "per-gpu")
    for style in styles:
        for size in SIZES:
            bench = Bench(style, size)
            seconds = bench.run()
            results.append(FirstSweep(style, size, dict(bench.fleet.calls), bench.fleet.floor(), seconds))
    return results


def peak_megabytes(size: int) -> float:
    """Peak of Python memory in a first sweep of the dearer fleet, in MB of 10^6 bytes."""
    bench = Bench("per-gpu", size)
    tracemalloc.start()
    bench.run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def steady_reads_over_unskipped(style: Style, size: int) -> float:
    """Metric reads of the hour after a first sweep, over those of sweeps that skip nothing."""
    remembered = _hour(Bench(style, size))
    unskipped = _hour(Bench(style, size, remembers=False))
    return remembered / unskipped


def calls_of_an_hour(style: Style, size: int) -> tuple[dict[str, int], int]:
    """Calls by API and metrics read in a steady hour; for the running costs."""
    bench = Bench(style, size)
    reads = _hour(bench)
    return dict(bench.fleet.calls), reads


def health_of_an_hour(style: Style, size: int) -> tuple[dict[str, int], int]:
    """Calls by API and metrics read in an hour between two weekly looks for advice."""
    bench = Bench(style, size)
    bench.check_health(TARGET)
    bench.fleet.calls.clear()
    bench.fleet.queries = 0
    for _ in range(SWEEPS_AN_HOUR):
        bench.clock.moment += timedelta(minutes=5)
        bench.check_health(TARGET)
    return dict(bench.fleet.calls), bench.fleet.queries


def _hour(bench: Bench) -> int:
    """Metrics read in the hour that follows a first sweep."""
    bench.run()
    bench.fleet.calls.clear()
    bench.fleet.queries = 0
    for _ in range(SWEEPS_AN_HOUR):
        bench.clock.moment += timedelta(minutes=5)
        bench.run()
    return bench.fleet.queries


def monthly_usd(size: int) -> dict[str, Decimal]:
    """What the governor costs a month in AWS charges, by item, at list prices in us-east-1.

    Calls come from the bench. Not in it: the agent's own metrics, which are paid for with or without the
    governor; logs, traces, and what an episode costs, all of which stay within cents.
    """
    hours = Decimal(730)
    calls, reads = calls_of_an_hour("aggregate", size)
    health_calls, health_reads = health_of_an_hour("aggregate", size)
    listed = calls.get("cloudwatch:ListMetrics", 0) + health_calls.get("cloudwatch:ListMetrics", 0)
    sweeps = SWEEPS_AN_HOUR * hours
    # A sweep and its sum of the month, the question whether health is due (a fifth of a second), and once an
    # hour the look itself.
    seconds = sweeps * (Decimal("3.2") + Decimal(size) / 1000) + hours * (2 + Decimal(size) / 1000)
    lambda_gb_seconds = seconds * Decimal("0.5")
    return {
        "CloudWatch GetMetricData for sweeps (0.01 USD per 1,000 metrics)": (
            reads * hours / 1000 * Decimal("0.01")
        ),
        "CloudWatch GetMetricData for health": health_reads * hours / 1000 * Decimal("0.01"),
        "CloudWatch ListMetrics (0.01 USD per 1,000 calls)": listed * hours / 1000 * Decimal("0.01"),
        "Step Functions (0.025 USD per 1,000 transitions, 6 a sweep)": sweeps * 6 / 1000 * Decimal("0.025"),
        "Lambda on arm64 (0.0000133334 USD per GB-second)": lambda_gb_seconds * Decimal("0.0000133334"),
        "DynamoDB on demand (0.625 USD per million write units)": (
            # Observations and the row of the console, in KB; the meter and its day cost twice as much.
            sweeps * (Decimal(size) * Decimal("0.12") + 6) / 1_000_000 * Decimal("0.625")
        ),
        "KMS key (1 USD)": Decimal(1),
        f"Secrets Manager (0.40 USD each, {SECRETS})": SECRETS * Decimal("0.40"),
        f"CloudWatch alarms (0.10 USD each, {ALARMS})": ALARMS * Decimal("0.10"),
        f"CloudWatch metrics of its own (0.30 USD each, {OWN_METRICS})": OWN_METRICS * Decimal("0.30"),
    }
