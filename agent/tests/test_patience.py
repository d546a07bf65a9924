"""A driver that hangs: told, published, and no hindrance to a stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.tests.fake_nvml import FakeNvml, fixture
from agent.tests.test_metrics import datums
from agent.tests.test_service import Sink

from gpu_metrics_publisher.buffer import Buffer
from gpu_metrics_publisher.cli import once, parse, serve
from gpu_metrics_publisher.errors import DriverUnavailableError
from gpu_metrics_publisher.metrics import GROUPS, Host
from gpu_metrics_publisher.nvml import NvmlSource
from gpu_metrics_publisher.patience import LIMIT_SECONDS, PatientSource
from gpu_metrics_publisher.readings import Figure, Sample
from gpu_metrics_publisher.service import Publisher, Sender

HOST = Host("i-0123456789abcdef0", "p5.48xlarge")
START = 1_800_000_000


class Driver:
    """Two GPUs behind a driver that hangs while `free` is not set, in the calls named by
    `hangs_in`."""

    def __init__(self, hangs_in: str = "read") -> None:
        self.nvml = FakeNvml(fixture("gpu_lost"))
        self._source = NvmlSource(self.nvml)
        self._hangs_in = hangs_in
        self.free = threading.Event()
        self.free.set()
        self.calls: list[str] = []
        self.hangs_at_call: int | None = None
        self.seconds = 0.0

    def clock(self) -> float:
        """Time that passes only while it hangs: no test depends on how fast this machine is."""
        if not self.free.is_set():
            self.seconds += 100
        return self.seconds

    def open(self) -> None:
        self._pass("open")
        self._source.open()

    def read(self, *, thorough: bool) -> list[Sample]:
        self._pass("read")
        return self._source.read(thorough=thorough)

    def close(self) -> None:
        self._pass("close")
        self._source.close()

    def _pass(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.hangs_at_call:
            self.free.clear()
        if name in self._hangs_in:
            self.free.wait()


@pytest.fixture
def driver() -> Iterator[Driver]:
    """One that hangs in `read`; no thread is left waiting for it."""
    made = Driver()
    yield made
    made.free.set()


def patient(
    driver: Driver, stop: threading.Event | None = None, limit: float = LIMIT_SECONDS
) -> PatientSource:
    return PatientSource(driver, stop or threading.Event(), limit, driver.clock)


def lost(samples: list[Sample]) -> list[float | None]:
    return [sample.figures.get(Figure.LOST) for sample in samples]


def until_answered(source: PatientSource) -> list[Sample]:
    """The first reading that is no longer that of a driver that hangs."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if lost(samples := source.read(thorough=False)) != [1.0, 1.0]:
            return samples
        time.sleep(0.001)
    raise AssertionError("it never answered")


def test_passes_on_what_the_source_gives(driver: Driver) -> None:
    """A driver that answers is read as without it; its errors come through."""
    source = patient(driver)
    source.open()
    assert [0.0, 0.0] == lost(source.read(thorough=True))
    driver.nvml.init_error = "LIB_RM_VERSION_MISMATCH"
    with pytest.raises(DriverUnavailableError, match="nvidia-smi"):
        source.read(thorough=True)
    driver.nvml.init_error = None
    source.close()
    assert 0 == driver.nvml.sessions


def test_gpus_of_a_driver_that_hangs_are_lost(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """All that it told of, at once after the first time and without another call into it; the log
    says it."""
    source = patient(driver)
    source.open()
    source.read(thorough=False)
    driver.free.clear()
    assert [{Figure.LOST: 1.0}] * 2 == [sample.figures for sample in source.read(thorough=False)]
    asked = len(driver.calls)
    source._limit_seconds = 3_600  # nobody would see the end of a second wait
    for _ in range(20):
        source.open()
        assert [1.0, 1.0] == lost(source.read(thorough=True))
        source.close()
    assert asked == len(driver.calls)
    assert 1 == caplog.text.count("has not answered")


def test_driver_that_answers_late(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    """Its late answer is stale but for Xids, which it tells only once; after it the GPUs are read
    again."""
    source = patient(driver)
    source.open()
    source.read(thorough=False)
    driver.free.clear()
    driver.nvml.gpus[1]["xids"] = [79]
    source.read(thorough=False)
    driver.free.set()
    late = until_answered(source)
    assert [({}, ()), ({}, (79,))] == [(sample.figures, sample.xids) for sample in late]
    assert [0.0, 0.0] == lost(source.read(thorough=False))
    assert 1 == caplog.text.count("answers again")


def test_limit_is_as_documented() -> None:
    """Time enough to wake eight GPUs, and what the README says."""
    assert 30 <= LIMIT_SECONDS
    assert f"for {LIMIT_SECONDS:.0f} s" in " ".join(
        (Path(__file__).parents[1] / "README.md").read_text().split()
    )


def test_late_error_is_told(driver: Driver) -> None:
    """A driver that goes away after it hung is a driver that is gone."""
    source = patient(driver)
    source.open()
    source.read(thorough=False)
    driver.free.clear()
    source.read(thorough=False)
    driver.nvml.init_error = "DRIVER_NOT_LOADED"
    driver.free.set()
    with pytest.raises(DriverUnavailableError):
        until_answered(source)


def test_driver_that_hangs_from_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """No GPU is known: the driver is unavailable, until it answers, and none is said to be
    published."""
    driver = Driver(hangs_in="open")
    driver.free.clear()
    source = patient(driver)
    for _ in range(3):
        with pytest.raises(DriverUnavailableError, match="has not answered"):
            source.open()
        source.close()
    assert ["open"] == driver.calls
    assert "published as lost" not in caplog.text
    driver.free.set()
    while driver.nvml.sessions == 0:
        time.sleep(0.001)
    time.sleep(0.1)  # from the session to the answer
    source.open()
    assert [0.0, 0.0] == lost(source.read(thorough=False))


def test_once_ends_without_an_answer() -> None:
    """Exit code 3, as without a driver."""
    driver = Driver(hangs_in="open")
    driver.free.clear()
    assert 3 == once(patient(driver), HOST, GROUPS, Sink())
    driver.free.set()


def test_publishes_while_the_driver_hangs(driver: Driver) -> None:
    """Minute by minute every GPU as lost and no other figure; when the driver answers, figures
    again."""
    buffer, sink = Buffer(), Sink()
    sender = Sender(buffer, sink)
    loop = Publisher(patient(driver), buffer, HOST, GROUPS)
    loop.tick(START)
    driver.free.clear()
    for minute in range(1, 4):
        loop.tick(START + 60 * minute)
    sender.drain()
    assert [0.0, 1.0, 1.0] == sums(sink)
    assert 1 == len([call for call in sink.taken if call.namespace == "GPU/EC2"])
    driver.free.set()
    deadline = time.monotonic() + 300
    while sums(sink)[-1] != 0.0 and time.monotonic() < deadline:
        minute += 1
        loop.tick(START + 60 * minute)
        loop.tick(START + 60 * minute + 10)
        loop.flush()
        sender.drain()
    assert 0.0 == sums(sink)[-1]


def sums(sink: Sink) -> list[float]:
    """GPULost of the first GPU, minute by minute."""
    found = {
        d["Timestamp"]: d["StatisticValues"]["Sum"] for d in datums(sink.taken, "GPULost")[::3]
    }
    return [found[moment] for moment in sorted(found)]


@pytest.mark.parametrize("told", [True, False], ids=["told", "not yet told"])
def test_sigterm_while_the_driver_hangs(
    driver: Driver, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The interval begun is sent and the process ends at once, not by force; where the driver may
    still answer, no GPU is called lost for the stop."""
    stop, sink = threading.Event(), Sink()
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    options = parse(["--sample-seconds", "1"])

    driver.hangs_at_call = 3  # open, read, read

    def stop_when_it_hangs() -> None:
        while driver.free.is_set() or (told and "has not answered" not in caplog.text):
            time.sleep(0.001)
        time.sleep(0.5)  # to be awaited by then
        ended.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    ended: list[float] = []
    killer = threading.Thread(target=stop_when_it_hangs)
    killer.start()
    try:
        serve(patient(driver, stop, LIMIT_SECONDS if told else 1e9), HOST, sink, options, stop)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    killer.join()
    assert time.monotonic() - ended[0] < 90  # when systemd ends it by force
    assert datums(sink.taken, "nvidia_smi_utilization_gpu")
    assert told == any(
        datum["StatisticValues"]["Maximum"] for datum in datums(sink.taken, "GPULost")
    )
    assert told == ("has not answered" in caplog.text)
