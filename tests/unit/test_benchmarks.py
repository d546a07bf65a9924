"""The benchmarks time what they say: each small one runs once, so that a new rule cannot empty
it."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import boto3
import pytest

from benchmarks import console, judge, parsing, peer, plain, sweep
from benchmarks.contest import ACCOUNT_SETTINGS, HARD, Contest, wrong
from benchmarks.fleet import UTILIZATION, Style, instance_id
from benchmarks.table import StubTable
from benchmarks.timeline import Pool, SimulatedThreads
from benchmarks.wire import LATENCY, Wire, as_json
from governor.aws.clients import Clients, at_once
from governor.aws.dynamodb import DynamoTable
from governor.table.table import absent, check, delete, insert, present, put, update, where
from tests.twins.table import MemoryTable


@pytest.mark.parametrize("idle_share", [0.0, 0.5, 1.0])
def test_as_many_are_judged_idle_as_are_timed(idle_share: float) -> None:
    """It raises where others are; what is timed is then another rule's work."""
    assert judge.measure(idle_share, instances=20) > 0


def test_the_pages_of_the_console_take_at_most_ten_reads() -> None:
    """Reads of the table, with the session and the version of the policy, however many instances
    there are."""
    for one in console.measure(instances=40, runs=1):
        assert one.reads <= 10, one
        assert one.milliseconds > 0


def test_every_protocol_of_cloudwatch_is_read_by_our_own_parser_of_times() -> None:
    """Whichever the client speaks, its points arrive; botocore's parser takes several times as
    long."""
    readings = parsing.measure(series=40, runs=3)

    assert {"smithy-rpc-v2-cbor", "json", "query"} == {one.protocol for one in readings}
    assert all(one.unmended > one.microseconds for one in readings), readings


def test_instances_are_read_by_what_came() -> None:
    """The real parser of the clients; botocore's takes about twice as long."""
    ours, theirs = parsing.measure_instances(instances=100, runs=5)

    assert 0 < ours < theirs


def test_calls_made_at_once_wait_at_once_and_compute_one_after_the_other() -> None:
    """Eight threads, twenty tasks: three rounds of waiting, unless the processor is what is
    short."""
    waiting, computing = Pool(8, [[(0.0, 0.05)]] * 20), Pool(8, [[(0.01, 0.05)]] * 20)

    assert waiting.seconds(1.0) == pytest.approx(0.15)
    assert computing.seconds(0.1) == pytest.approx(20 * 0.01 / 0.1 + 0.05)


def test_the_simulated_clock_goes_as_threads_that_wait() -> None:
    """Calls noted in one thread take as long as the same in eight."""

    def calls() -> None:
        with wire.carrying():
            client = Clients("us-east-1").client("ssm")
            at_once(lambda _: client.get_parameter(Name="policy"), range(20))

    answer = as_json({"Parameter": {"Name": "policy", "Value": ""}})
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with patch.dict(os.environ, keys):
        wire = Wire({"ssm": lambda _: answer}, sleeps=True)
        began = time.perf_counter()
        calls()
        slept = time.perf_counter() - began
        wire.sleeps = False
        with patch("governor.aws.clients.ThreadPoolExecutor", SimulatedThreads):
            calls()
    simulated = SimulatedThreads.timeline.wall_seconds()

    assert wire.calls == {"ssm:GetParameter": 40}
    assert simulated > 3 * LATENCY
    assert simulated < slept + LATENCY


@pytest.mark.parametrize("style", sweep.STYLES)
def test_a_sweep_through_the_wire_asks_once_and_then_reads_less(style: Style) -> None:
    """The real sweep behind the stub: its questions stay open, and its memory spares it most
    reads."""
    bench = sweep.Bench(style, 40)

    first, second = bench.sweep(), bench.sweep()

    assert first.started == sum(map(bench.fleet.is_idle, range(40)))
    assert second.started == 0
    # Idle ones are read in every third sweep.
    assert 0 < second.metrics + bench.sweep().metrics + bench.sweep().metrics < first.metrics / 2
    assert first.calls["states:StartExecution"] == first.started
    assert 0 < first.wall < first.wall_on_lambda


def test_another_instance_costs_a_large_fleet_no_more_than_a_small_one() -> None:
    """Counted in calls of functions, so that it holds beside other programs. Two calls more for
    each pair of instances would break it."""
    hundred, two, four = (size * sweep.work("aggregate", size) for size in (100, 200, 400))

    assert 0 < (four - two) / 200 <= (two - hundred) / 100
    assert (
        sweep.spread_of_work({("aggregate", 1): 2.0, ("aggregate", 2): 3.0, ("per-gpu", 1): 1.0})
        == 1.5
    )


def test_the_tables_stub_keeps_what_a_table_keeps() -> None:
    """Conditions, updates and transactions, as the memory of the tests has them."""
    key = ("pk", "a")
    writes = [
        insert(key, {"name": "one", "count": 1, "map": {"x": 1}}),
        insert(key, {"name": "two"}),
        update(key, {"name": "three"}, where("count", "<=", 1), remove=["gone"], add={"count": 2}),
        update(key, {"name": "four"}, where("count", "<", 3) | where("name", "=", "one")),
        update(key, {}, present() & where("name", "<>", "one"), first=("map", "y", "new")),
        update(key, {}, present("map.x"), first=("map", "x", 5)),
        put(("pk", "b"), {"bytes": b"12", "list": ["x", None, True]}),
        check(("pk", "b"), absent("bytes")),
        delete(("pk", "b"), where("list", "=", [])),
    ]
    memory = MemoryTable()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    stub = StubTable()
    with patch.dict(os.environ, keys), Wire({"dynamodb": stub}).carrying():
        table = DynamoTable(Clients("us-east-1"), "state")
        for one in writes:
            assert table.try_transaction(one) == memory.try_transaction(one), one
            assert [*table.query("pk")] == [*memory.query("pk")], one
        assert table.get(key) == memory.get(key)
        assert [*table.query("pk", "b", after="a")] == [*memory.query("pk", "b", after="a")]
        assert table.get_all([key, ("pk", "c")]) == memory.get_all([key, ("pk", "c")])
    assert stub.read_units > 0
    assert stub.write_units > 0


def test_the_hard_cases_are_judged_right_and_hard() -> None:
    """All of them by us; a plain average over three hours is wrong about most."""
    contest = Contest(HARD)
    [ours] = peer.ours(HARD)
    by_average = plain.run(contest)[0]

    assert ([], []) == wrong(contest.fleet, ours.marked)
    wrongly, missed = wrong(contest.fleet, by_average.marked)
    assert len(contest.fleet.hosts) == 20
    assert len(wrongly) > 10
    assert missed == [host.name for host in contest.fleet.hosts if host.is_idle]


def test_both_ways_to_read_a_metric_give_the_same_readings() -> None:
    """GetMetricStatistics and GetMetricData of the stub, of a host and of one of the others."""
    contest = Contest(HARD)
    until = contest.fleet.now
    since = until - timedelta(hours=1)
    with patch.dict(os.environ, ACCOUNT_SETTINGS), contest.wire.carrying():
        client: Any = boto3.client("cloudwatch")
        for number in (0, HARD - 1):
            dimensions = [{"Name": "InstanceId", "Value": instance_id(number)}]
            metric = {"Namespace": "GPU/EC2", "MetricName": UTILIZATION, "Dimensions": dimensions}
            asked = {"Id": "a", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Maximum"}}
            [data] = client.get_metric_data(
                MetricDataQueries=[asked], StartTime=since, EndTime=until
            )["MetricDataResults"]
            points = client.get_metric_statistics(
                **metric, StartTime=since, EndTime=until, Period=300, Statistics=["Maximum"]
            )["Datapoints"]

            assert len(points) == 12
            assert data["Values"] == [one["Maximum"] for one in points]
            assert data["Timestamps"] == [one["Timestamp"] for one in points]
