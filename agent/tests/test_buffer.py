"""Nothing is lost up to the stated bound; beyond it the oldest goes, and the log says so."""

from __future__ import annotations

import random

import pytest
from agent.tests.test_metrics import calls_of

from gpu_metrics_publisher.buffer import MAX_AGE_SECONDS, MAX_BYTES, Buffer, Entry
from gpu_metrics_publisher.metrics import Call


def call(number: int, size: int = 1) -> Call:
    noise = random.Random(number)
    return Call("GPU/EC2", [{"n": number, "v": [noise.random() for _ in range(20)]}] * size)


def test_gives_back_what_was_put_in_newest_first() -> None:
    """A call comes out as it went in; the newest first."""
    buffer = Buffer()
    for number in range(3):
        buffer.put(call(number))
    out = []
    while (entry := buffer.newest()) is not None:
        out.append(entry.call())
        buffer.remove(entry)
    assert [call(2), call(1), call(0)] == out
    assert 0 == buffer.size_bytes


def test_a_day_of_eight_gpus_fits() -> None:
    """A p5.48xlarge that publishes everything loses nothing for 24 h: age and not size is its
    bound."""
    packed = 0
    for one in calls_of("h100x8", readings=6):
        for datum in one.datums:  # as noisy as a busy machine: no two values alike
            noise = random.Random(repr(datum["Dimensions"]) + datum["MetricName"])
            if datum["StatisticValues"]["Maximum"] > 1:
                low, mean, high = sorted(round(noise.uniform(0, 1000), 3) for _ in range(3))
                datum["StatisticValues"].update(Minimum=low, Sum=mean, Maximum=high)
        buffer = Buffer()
        buffer.put(one)
        packed += buffer.size_bytes
    assert MAX_BYTES > packed * 24 * 60


def test_some_may_be_passed_over() -> None:
    """The newest that is not among those passed over."""
    buffer = Buffer()
    for number in range(4):
        buffer.put(call(number))
    passed: list[Entry] = []
    for number in (3, 2, 1, 0):
        entry = buffer.newest(passed)
        assert entry is not None
        assert call(number) == entry.call()
        passed.append(entry)
    assert buffer.newest(passed) is None


def test_size_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the bytes the oldest are dropped, counted and told."""
    buffer = Buffer(max_bytes=4_000)
    for number in range(100):
        buffer.put(call(number))
        assert buffer.size_bytes <= 4_000
    newest = buffer.newest()
    assert newest is not None
    assert call(99) == newest.call()
    assert 100 == buffer.lost_datums + len(buffer)
    assert "dropped" in caplog.text


def test_age_is_bounded() -> None:
    """Calls older than a day go when something new comes."""
    clock = [0.0]
    buffer = Buffer(monotonic=lambda: clock[0])
    buffer.put(call(0))
    clock[0] = MAX_AGE_SECONDS
    buffer.put(call(1))
    assert 2 == len(buffer)
    clock[0] += 1
    buffer.put(call(2))
    assert 2 == len(buffer)
    assert 1 == buffer.lost_datums


def test_removing_what_was_dropped_is_harmless() -> None:
    """A call may be dropped for the bound while it is on its way."""
    tiny = Buffer(max_bytes=1)
    tiny.put(call(0))
    assert tiny.newest() is None
    full = Buffer()
    full.put(call(0))
    entry = full.newest()
    assert entry is not None
    full.remove(entry)
    full.remove(entry)
    assert 0 == full.size_bytes
