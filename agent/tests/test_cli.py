"""The command: options, `--once --print`, exit codes."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path

import pytest
from agent.tests.fake_nvml import FakeNvml, fixture
from agent.tests.test_service import Sink

from gpu_metrics_publisher import cli
from gpu_metrics_publisher.cli import identify, once, parse
from gpu_metrics_publisher.errors import UndeliveredError
from gpu_metrics_publisher.imds import Identity
from gpu_metrics_publisher.metrics import GROUPS, Call, Host
from gpu_metrics_publisher.nvml import NvmlSource

HOST = Host("i-0123456789abcdef0")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--print"], "--once"),
        (["--publish-seconds", "30"], "multiple of 60"),
        (["--publish-seconds", "90"], "multiple of 60"),
        (["--sample-seconds", "0"], "--sample-seconds"),
        (["--sample-seconds", "61"], "--sample-seconds"),
        (["--metrics", "agent,everything"], "choose from"),
        (["--metrics", ","], "choose from"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Options that make no sense are refused with what would."""
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert 2 == caught.value.code
    assert reason in capsys.readouterr().err


def test_defaults() -> None:
    """Everything, read every 10 s, sent every 60 s."""
    options = parse([])
    assert (GROUPS, 10, 60) == (options.metrics, options.sample_seconds, options.publish_seconds)


def test_identity_by_options() -> None:
    """With both options nothing is asked."""
    options = parse(["--instance-id", "i-1", "--region", "us-west-2"])
    assert Identity("i-1", "", "us-west-2") == identify(options, {})


def test_print_shows_what_would_be_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """The very parameters of PutMetricData as JSON, without InstanceType where it is not known."""
    code = once(NvmlSource(FakeNvml(fixture("a100_mig"))), HOST, GROUPS, None)
    assert 0 == code
    calls = json.loads(capsys.readouterr().out)
    assert ["GPU/EC2", "GPU/Custom"] == [call["Namespace"] for call in calls]
    first = calls[0]["MetricData"][0]
    assert "nvidia_smi_memory_used" == first["MetricName"]
    assert ["InstanceId", "index", "name", "arch"] == [
        entry["Name"] for entry in first["Dimensions"]
    ]


def test_once_sends() -> None:
    """One sample of everything, sent; exit code 0."""
    sink = Sink()
    assert 0 == once(NvmlSource(FakeNvml(fixture("h100x8"))), HOST, GROUPS, sink)
    assert 2 == len(sink.taken)


def test_once_without_driver() -> None:
    """Exit code 3."""
    assert 3 == once(NvmlSource(FakeNvml(fixture("no_driver"))), HOST, GROUPS, Sink())


def test_once_without_cloudwatch(caplog: pytest.LogCaptureFixture) -> None:
    """Exit code 5, with the reason."""
    sink = Sink()
    sink.answer = UndeliveredError("AccessDenied: attach cloudwatch:PutMetricData")
    assert 5 == once(NvmlSource(FakeNvml(fixture("t4"))), HOST, GROUPS, sink)
    assert "AccessDenied" in caplog.text


def test_driver_is_asked_where_it_may_hang(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command calls NVML in no thread that it needs to end."""
    nvml, threads = FakeNvml(fixture("t4")), set()

    def init() -> None:
        threads.add(threading.current_thread())
        nvml.sessions += 1

    monkeypatch.setattr(nvml, "nvmlInit", init)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert 0 == cli.main(["--once", "--print", "--instance-id", "i-1", "--region", "us-east-1"])
    assert json.loads(capsys.readouterr().out)
    assert [True] == [thread.daemon for thread in threads]


class Closed:
    """CloudWatch that neither takes a call nor refuses it."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def send(self, call: Call) -> None:  # noqa: ARG002 - as a sink is asked
        self.open.wait()


def test_stop_gives_up_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A CloudWatch that hangs does not hold up a stop: it hangs until the stop is over."""
    monkeypatch.setattr(cli, "LAST_FLUSH_SECONDS", 0.2)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    nvml, sink, stop = FakeNvml(fixture("t4")), Closed(), threading.Event()
    threading.Timer(0.2, stop.set).start()
    cli.serve(NvmlSource(nvml), HOST, sink, parse([]), stop)
    sink.open.set()
    assert "they are lost" in caplog.text


def test_systemd_waits_for_the_last_flush() -> None:
    """The unit kills no sooner than the flush gives up, with time to see the stop and to end; where
    both are told, the figures are right."""
    folder = Path(__file__).parents[1]
    unit = (folder / "systemd" / "gpu-metrics-publisher.service").read_text()
    (until_killed,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert 5 <= int(until_killed) - cli.LAST_FLUSH_SECONDS <= 15
    told = f"after {cli.LAST_FLUSH_SECONDS:.0f} s"
    assert told in unit
    assert told in " ".join((folder / "README.md").read_text().split())
