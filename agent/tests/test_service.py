"""The loop and the sender: intervals, outages, drivers that come and go, and a clean end."""

from __future__ import annotations

import threading
import time

import pytest
from agent.tests.fake_nvml import FakeNvml, fixture
from agent.tests.test_metrics import datums

from gpu_metrics_publisher.buffer import Buffer
from gpu_metrics_publisher.errors import RefusedError, UndeliveredError, UnforeseenError
from gpu_metrics_publisher.metrics import Call, Host
from gpu_metrics_publisher.nvml import NvmlSource
from gpu_metrics_publisher.service import Pace, Publisher, Sender

HOST = Host("i-0123456789abcdef0", "g5.xlarge")
START = 1_800_000_000  # the beginning of a minute


class Sink:
    """CloudWatch as a list; `answer` is raised instead of taking a call."""

    def __init__(self) -> None:
        self.taken: list[Call] = []
        self.answer: Exception | None = None
        self.tries = 0

    def send(self, call: Call) -> None:
        self.tries += 1
        if self.answer is not None:
            raise self.answer
        self.taken.append(call)


def publisher(name: str = "a10g") -> tuple[Publisher, FakeNvml, Buffer]:
    nvml, buffer = FakeNvml(fixture(name)), Buffer()
    return Publisher(NvmlSource(nvml), buffer, HOST, ("agent",)), nvml, buffer


def drained(buffer: Buffer) -> list[Call]:
    sink = Sink()
    Sender(buffer, sink).drain()
    return sink.taken


def test_one_interval_one_timestamp() -> None:
    """Samples every 10 s become one call a minute, stamped with the beginning of the minute."""
    loop, _, buffer = publisher()
    for second in range(5, 125, 10):
        loop.tick(START + second)
    calls = drained(buffer)
    assert [START] == [
        datums([call], "nvidia_smi_utilization_gpu")[0]["Timestamp"] for call in calls
    ]
    loop.tick(START + 125)
    (second_call,) = drained(buffer)
    utilization = datums([second_call], "nvidia_smi_utilization_gpu")[0]
    assert (START + 60, 1.0) == (
        utilization["Timestamp"],
        utilization["StatisticValues"]["SampleCount"],
    )


def test_every_sample_counts() -> None:
    """A burst of ten seconds is seen in the maximum of its minute."""
    loop, nvml, buffer = publisher("l4")
    for second in range(0, 60, 10):
        nvml.gpus[0]["utilization"]["gpu"] = 73 if second == 30 else 0
        loop.tick(START + second)
    loop.flush()
    (call,) = drained(buffer)
    assert 73.0 == datums([call], "nvidia_smi_utilization_gpu")[0]["StatisticValues"]["Maximum"]


def test_outage_loses_nothing() -> None:
    """While CloudWatch is away every minute is kept with its own time; all of them arrive
    afterwards, the newest first, each once."""
    loop, _, buffer = publisher()
    sink = Sink()
    sender = Sender(buffer, sink)
    sink.answer = UndeliveredError("network is unreachable")
    for minute in range(300):
        loop.tick(START + 60 * minute)
        sender.drain()
    assert [] == sink.taken
    loop.flush()
    sink.answer = None
    sender.drain()
    stamps = [call.datums[0]["Timestamp"] for call in sink.taken]
    assert [START + 60 * minute for minute in reversed(range(300))] == stamps
    assert 0 == len(buffer)


def test_outage_is_tried_once_a_minute_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A backlog is not hammered against a closed door, nor is the journal flooded."""
    loop, _, buffer = publisher()
    sink = Sink()
    sender = Sender(buffer, sink)
    sink.answer = UndeliveredError("throttled")
    for minute in range(10):
        loop.tick(START + 60 * minute)
        sender.drain()
    assert 9 == sink.tries
    assert 1 == caplog.text.count("not sent, kept")


def test_refused_call_blocks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A call that will never be taken is dropped with a reason; the next goes out."""
    loop, _, buffer = publisher()
    sink = Sink()
    sender = Sender(buffer, sink)
    sink.answer = RefusedError("InvalidParameterValue")
    loop.tick(START)
    loop.flush()
    sender.drain()
    assert 0 == len(buffer)
    assert "for good" in caplog.text
    sink.answer = None
    loop.tick(START + 60)
    loop.flush()
    sender.drain()
    assert 1 == len(sink.taken)


class Poisoned(Sink):
    """Answers the calls of some moments with an error that is not known."""

    def __init__(self, *moments: int) -> None:
        super().__init__()
        self.moments = moments
        self.refused = 0

    def send(self, call: Call) -> None:
        if call.datums[0]["Timestamp"] in self.moments:
            self.refused += 1
            raise UnforeseenError("MalformedQueryString")
        super().send(call)


def test_unforeseen_answer_blocks_nothing_older(caplog: pytest.LogCaptureFixture) -> None:
    """A call that always gets an answer nobody foresaw is passed over: what is older goes out at
    once. Passed over five times while others were taken, it is dropped; the log says both, once."""
    loop, _, buffer = publisher()
    sink = Poisoned(START + 60)
    sender = Sender(buffer, sink)
    for minute in range(3):
        loop.tick(START + 60 * minute)
    loop.flush()
    sender.drain()
    assert [START + 120, START] == [call.datums[0]["Timestamp"] for call in sink.taken]
    assert 1 == len(buffer)
    for minute in range(3, 7):
        assert (minute - 2, 1) == (sink.refused, len(buffer))
        loop.tick(START + 60 * minute)
        loop.flush()
        sender.drain()
    assert (5, 0) == (sink.refused, len(buffer))
    assert 6 == len(sink.taken)
    told = [record.getMessage() for record in caplog.records]
    assert 1 == sum("passed over" in text for text in told)
    assert 1 == sum("dropped 18 datums" in text and "MalformedQueryString" in text for text in told)
    assert 2 == len(told)


def test_unforeseen_answer_to_all_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A sink that takes nothing is at fault, not one call: all are kept, few are tried, it is told
    once."""
    loop, _, buffer = publisher()
    sink = Sink()
    sender = Sender(buffer, sink)
    sink.answer = UnforeseenError("OptInRequired")
    for minute in range(60):
        loop.tick(START + 60 * minute)
        sender.drain()
    assert 59 == len(buffer)
    before = sink.tries
    sender.drain()
    assert 10 == sink.tries - before
    assert 1 == caplog.text.count("not sent, kept")
    sink.answer = None
    sender.drain()
    assert 59 == len(sink.taken)
    assert 1 == caplog.text.count("takes data again")


def test_many_unforeseen_answers() -> None:
    """Ten of them are passed over at a time; once they are dropped, the next ten are."""
    loop, _, buffer = publisher()
    bad = range(START + 60, START + 60 * 26, 60)
    sink = Poisoned(*bad)
    sender = Sender(buffer, sink)
    for minute in range(26):
        loop.tick(START + 60 * minute)
    loop.flush()
    taken_by = []
    for minute in range(26, 41):
        loop.tick(START + 60 * minute)
        loop.flush()
        sender.drain()
        taken_by.append(START in [call.datums[0]["Timestamp"] for call in sink.taken])
    assert [False] * 10 + [True] * 5 == taken_by
    assert (0, 16) == (len(buffer), len(sink.taken))


def test_clock_that_jumps_ahead_costs_one_interval() -> None:
    """One sample stamped two days ahead drops nothing of the hours that wait."""
    loop, _, buffer = publisher()
    for minute in range(300):
        loop.tick(START + 60 * minute)
    loop.tick(START + 2 * 86_400)
    for minute in range(301, 303):
        loop.tick(START + 60 * minute)
    loop.flush()
    stamps = {call.datums[0]["Timestamp"] for call in drained(buffer)}
    assert {START + 60 * minute for minute in range(303) if minute != 300} <= stamps - {
        START + 300 * 60
    }
    assert 0 == buffer.lost_datums


@pytest.mark.parametrize("back_seconds", [1, 30, 90, 600, 7000])
def test_clock_set_back_publishes_no_interval_twice(back_seconds: int) -> None:
    """Each minute counts each GPU once, or a reader would take twice the GPUs for it. What is read
    before the clock has caught up counts in the minute that is open: its maximum is not lost."""
    loop, nvml, buffer = publisher()
    utilization = nvml.gpus[0]["utilization"]
    utilization["gpu"] = 10
    for second in range(0, 7200 + 20, 10):
        loop.tick(START + second)
    for second in range(7200 + 20, 3 * 7200, 10):
        utilization["gpu"] = 73 if second == 7230 else 10
        loop.tick(START + second - back_seconds)
    loop.flush()
    figures = datums(drained(buffer), "nvidia_smi_utilization_gpu")[::2]
    stamps = [datum["Timestamp"] for datum in figures]
    assert len(stamps) == len(set(stamps))
    assert [73.0] == [m for d in figures if (m := d["StatisticValues"]["Maximum"]) != 10.0]


def test_clock_set_right_by_days_goes_on_at_once() -> None:
    """A machine that starts days ahead publishes as soon as its clock is right."""
    loop, _, buffer = publisher()
    for second in range(0, 600, 10):
        loop.tick(START + 3 * 86_400 + second)
    for second in range(0, 130, 10):
        loop.tick(START + second)
    stamps = {call.datums[0]["Timestamp"] for call in drained(buffer)}
    assert {START, START + 60} <= stamps


def test_driver_that_comes_late(caplog: pytest.LogCaptureFixture) -> None:
    """Without a driver nothing is published, and it is told once; when it comes, figures follow."""
    loop, nvml, buffer = publisher()
    nvml.init_error = "DRIVER_NOT_LOADED"
    for second in range(0, 300, 10):
        loop.tick(START + second)
    assert 0 == len(buffer)
    assert 1 == caplog.text.count("NVML cannot be used")
    nvml.init_error = None
    for second in range(300, 370, 10):
        loop.tick(START + second)
    assert 1 == len(drained(buffer))


def test_driver_that_goes_twice_is_told_twice(caplog: pytest.LogCaptureFixture) -> None:
    """Each time that it goes, once."""
    loop, nvml, _ = publisher()
    for minute, error in enumerate((None, "DRIVER_NOT_LOADED", "DRIVER_NOT_LOADED", None) * 2):
        nvml.init_error = error
        loop.tick(START + 60 * minute)
    assert 2 == caplog.text.count("NVML cannot be used")


def test_driver_replaced_at_work() -> None:
    """Figures stop with the driver and go on with the next; what was measured before is
    published."""
    loop, nvml, buffer = publisher()
    loop.tick(START)
    nvml.init_error = "LIB_RM_VERSION_MISMATCH"
    loop.tick(START + 10)
    assert 0 == nvml.event_sets
    nvml.init_error = None
    loop.tick(START + 20)  # not before the next interval
    loop.tick(START + 60)
    (call,) = drained(buffer)
    assert [START] == [call.datums[0]["Timestamp"]]
    loop.flush()
    assert 1 == len(drained(buffer))


def test_lost_gpu_comes_back() -> None:
    """After a reset of the GPU its figures come again, without a restart of the service."""
    nvml, buffer = FakeNvml(fixture("gpu_lost")), Buffer()
    loop = Publisher(NvmlSource(nvml), buffer, HOST, ("agent", "health"))
    nvml.gpus[1]["lost"] = True
    for minute in range(2):
        loop.tick(START + 60 * minute)
    lost = datums(drained(buffer), "GPULost")
    assert [0.0, 1.0, 1.0] == [datum["StatisticValues"]["Sum"] for datum in lost]
    nvml.gpus[1]["lost"] = False
    for minute in range(2, 5):
        loop.tick(START + 60 * minute)
    newest = drained(buffer)[0:2]
    assert [0.0] * 3 == [datum["StatisticValues"]["Sum"] for datum in datums(newest, "GPULost")]


def test_stop_sends_what_is_left() -> None:
    """A stop in the middle of an interval publishes the interval begun, and lets go of the
    driver."""
    nvml, buffer, sink = FakeNvml(fixture("a10g")), Buffer(), Sink()
    sender = Sender(buffer, sink)
    loop = Publisher(NvmlSource(nvml), buffer, HOST, ("agent",), Pace(), sender.wake)
    stop = threading.Event()
    sender.start()
    runner = threading.Thread(target=loop.run, args=(stop, lambda: float(START), time.monotonic))
    runner.start()
    while not nvml.sessions:
        time.sleep(0.001)
    stop.set()
    runner.join(5)
    sender.finish(5)
    assert not runner.is_alive()
    assert 1 == len(sink.taken)
    assert (0, 0) == (nvml.sessions, nvml.event_sets)


def test_backlog_goes_out_in_parts_but_for_the_last() -> None:
    """At work 240 calls a wake, so that a returning network is not flooded; at a stop all that is
    left."""
    loop, _, buffer = publisher()
    sink = Sink()
    sender = Sender(buffer, sink)
    for minute in range(600):
        loop.tick(START + 60 * minute)
    loop.flush()
    sender.start()
    sender.wake()
    deadline = time.monotonic() + 300
    while len(sink.taken) < 240 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.1)  # for the calls that must not come
    assert 240 == len(sink.taken)
    sender.finish(300)
    assert 600 == len(sink.taken)


def test_stop_without_network_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """A last flush that fails is not silent."""
    loop, _, buffer = publisher()
    sink = Sink()
    sink.answer = UndeliveredError("unreachable")
    sender = Sender(buffer, sink)
    sender.start()
    loop.tick(START)
    loop.flush()
    sender.finish(5)
    assert "1 calls that CloudWatch has not accepted" in caplog.text


def test_defect_of_the_sender_stops_the_service() -> None:
    """An error nobody foresaw ends the process, so that systemd restarts it; it never fills the
    buffer in silence."""
    loop, _, buffer = publisher()
    sink = Sink()
    sink.answer = ZeroDivisionError("a defect")
    stop = threading.Event()
    sender = Sender(buffer, sink, stop.set)
    sender.start()
    loop.tick(START)
    loop.flush()
    sender.wake()
    assert stop.wait(300)
    with pytest.raises(ZeroDivisionError):
        sender.finish(300)


def test_slow_reading_skips_samples() -> None:
    """Samples that come too late are skipped, not made up for in a burst."""
    nvml, buffer = FakeNvml(fixture("a10g")), Buffer()
    loop = Publisher(NvmlSource(nvml), buffer, HOST, ("agent",), Pace(sample_seconds=10))
    stop, moments = threading.Event(), []

    def now() -> float:
        moments.append(clock[0])
        clock[0] += 35  # the reading takes 35 s
        if len(moments) == 3:
            stop.set()
        return START + moments[-1]

    clock = [0.0]
    loop.run(stop, now, lambda: clock[0])
    assert [0.0, 35.0, 70.0] == moments
