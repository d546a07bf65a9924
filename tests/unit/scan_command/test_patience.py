"""A scan whose calls are throttled, get no answer, or are interrupted: it ends soon, with a partial
report.

Time is simulated: what botocore would sleep between its tries is added up.
"""

from __future__ import annotations

import _thread
import json
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from governor.scan.registry import KINDS
from tests.unit.scan.cloud_twin import Asked, CloudTwin, Refused
from tests.unit.scan_command.conftest import Run
from tests.unit.scan_command.test_places import CallingKind

_UNTHROTTLED = ("sts:GetCallerIdentity", "ec2:DescribeRegions")
REGION = "eu-west-1"


class Sleeps:
    """A clock that runs only while somebody sleeps."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.seconds = 0.0
        self._lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        with self._lock:
            self.seconds += seconds

    def monotonic(self) -> float:
        """Return the time."""
        return self.seconds


@pytest.fixture
def sleeps(cloud: CloudTwin, monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    """Return the clock of a scan whose calls botocore repeats."""
    cloud.is_retried = True
    clock = Sleeps()
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr("governor.aws.patience.monotonic", clock.monotonic)
    monkeypatch.setattr("governor.aws.read_only.monotonic", clock.monotonic)
    # The longest waits, so that no chance decides.
    longest = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(longest, lambda _, context: 2 ** (context.attempt_number - 1))
    return clock


def throttled(cloud: CloudTwin, *services: str) -> None:
    """Throttle every call of these services, or of all if none is named."""

    def answer(asked: Asked) -> Any:
        """Refuse a call."""
        if asked.operation in _UNTHROTTLED:
            return usual(asked)
        if services and asked.operation.partition(":")[0] not in services:
            return usual(asked)
        code = (
            "RequestLimitExceeded" if asked.operation.startswith("ec2:") else "ThrottlingException"
        )
        raise Refused(code, "Rate exceeded", 400)

    usual = cloud._usual
    cloud._usual = answer  # type: ignore[method-assign]


@pytest.mark.parametrize("services", [(), ("ec2",), ("ec2", "sagemaker", "autoscaling", "batch")])
def test_a_region_that_throttles_is_given_up_in_half_a_minute(
    cloud: CloudTwin, run: Run, sleeps: Sleeps, services: tuple[str, ...]
) -> None:
    """The report has what was read, says what was throttled, and is incomplete."""
    throttled(cloud, *services)
    ended = run(KINDS, "--json", "--region", REGION)
    report = json.loads(ended.out)
    assert 4 == ended.status
    reasons = {line["reason"] for line in report["not_read"]}
    assert any("given up" in reason for reason in reasons), reasons
    assert sleeps.seconds <= 30


def test_calls_that_are_throttled_now_and_then_are_repeated(
    cloud: CloudTwin, run: Run, sleeps: Sleeps
) -> None:
    """Every second try of every call fails: nothing is given up, however long it takes."""
    usual = cloud._usual
    tries: list[Asked] = []

    def answer(asked: Asked) -> Any:
        """Refuse every second try."""
        tries.append(asked)
        if len(tries) % 2:
            raise Refused("ThrottlingException", "Rate exceeded", 400)
        return usual(asked)

    cloud._usual = answer  # type: ignore[method-assign]
    ended = run(KINDS, "--json", "--region", REGION)
    assert 0 == ended.status, ended.out[-2000:]
    assert sleeps.seconds > 10


def test_services_that_do_not_answer_are_given_up_too(
    cloud: CloudTwin, run: Run, sleeps: Sleeps
) -> None:
    """Each try of an outage waits as long as a throttled one."""
    usual = cloud._usual

    def answer(asked: Asked) -> Any:
        """Fail a call."""
        if asked.operation in _UNTHROTTLED:
            return usual(asked)
        raise Refused("InternalError", "try later", 500)

    cloud._usual = answer  # type: ignore[method-assign]
    ended = run(KINDS, "--json", "--region", REGION)
    assert 4 == ended.status
    assert sleeps.seconds <= 30


def hanging(cloud: CloudTwin, sleeps: Sleeps, *services: str) -> None:
    """Let every call of these services, or of all if none is named, wait for its timeout."""

    def answer(asked: Asked) -> Any:
        """Wait for an answer that does not come."""
        if asked.operation in _UNTHROTTLED:
            return usual(asked)
        if services and asked.operation.partition(":")[0] not in services:
            return usual(asked)
        sleeps.sleep(asked.read_timeout_seconds)
        raise ReadTimeoutError(endpoint_url=asked.region)

    usual = cloud._usual
    cloud._usual = answer  # type: ignore[method-assign]


def test_a_region_whose_services_hang_is_given_up_in_half_a_minute(
    cloud: CloudTwin, run: Run, sleeps: Sleeps
) -> None:
    """The time counts from when a call is sent. Once it is spent, no other service is called, and
    the report says so of each."""
    hanging(cloud, sleeps)
    ended = run(KINDS, "--json", "--region", REGION)
    report = json.loads(ended.out)
    assert 4 == ended.status
    assert sleeps.seconds <= 25
    reason_by_operation = {line["operation"]: line["reason"] for line in report["not_read"]}
    assert "did not answer" in reason_by_operation["ec2:DescribeInstances"]
    assert "was not called" in reason_by_operation["bedrock:ListProvisionedModelThroughputs"]


def test_one_service_that_hangs_costs_only_its_own_rows(
    cloud: CloudTwin, run: Run, sleeps: Sleeps
) -> None:
    """It is given up after 10 seconds, and every other one is read."""
    hanging(cloud, sleeps, "sagemaker")
    ended = run(KINDS, "--json", "--region", REGION)
    not_read = json.loads(ended.out)["not_read"]
    assert {"sagemaker"} == {line["operation"].partition(":")[0] for line in not_read}
    assert sleeps.seconds <= 12


@dataclass
class Stuck:
    """A place whose calls get no answer until the test ends. Its first call presses Ctrl-C."""

    ended: threading.Event = field(default_factory=threading.Event)
    pressed: list[float] = field(default_factory=list)

    def __call__(self, _: Asked) -> Any:
        """Press Ctrl-C a moment later, and wait."""
        if not self.pressed:
            self.pressed.append(time.monotonic())
            threading.Timer(0.05, _thread.interrupt_main).start()
        self.ended.wait(20)
        raise Refused("InternalError", "the test ended", 500)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """Return calls that hang, and let them go at the end. Ctrl-C works meanwhile, also if the tests
    run in the background of a shell, which ignores it there."""
    calls = Stuck()
    handler_before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield calls
    signal.signal(signal.SIGINT, handler_before)
    calls.ended.set()


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the statuses with which the process was left, though calls still hang."""
    statuses: list[int] = []
    monkeypatch.setattr("cli.scan.interruption.leave", statuses.append)
    return statuses


def test_ctrl_c_ends_within_two_seconds_with_what_was_read(
    cloud: CloudTwin, run: Run, stuck: Stuck, left: list[int]
) -> None:
    """Though a call of the other Region hangs."""
    cloud.answers["ec2:DescribeInstances"] = lambda asked: (
        stuck(asked) if asked.region == "us-east-1" else {}
    )
    ended = run((CallingKind(),), "--json")
    assert time.monotonic() - stuck.pressed[0] < 2
    report = json.loads(ended.out)
    assert ["eu-west-1"] == [row["region"] for row in report["rows"]]
    (line,) = report["not_read"]
    assert ("123456789012/us-east-1", "the scan was interrupted") == (line["place"], line["reason"])
    assert "Traceback" not in ended.err
    assert [4] == left


def test_ctrl_c_while_the_regions_are_looked_for_is_one_line(
    cloud: CloudTwin, run: Run, stuck: Stuck, left: list[int]
) -> None:
    """Within two seconds, too."""
    cloud.answers["ec2:DescribeRegions"] = stuck
    ended = run((CallingKind(),), "--json")
    assert time.monotonic() - stuck.pressed[0] < 2
    assert ("", "governor: interrupted before the first Region was read\n") == (
        ended.out,
        ended.err,
    )
    assert [4] == left


def test_ctrl_c_while_the_report_is_printed_is_one_line(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everywhere else a command ends as shells expect it, without a traceback."""

    def print_report(*_: Any) -> None:
        """Be interrupted."""
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.scan.print_report", print_report)
    ended = run((CallingKind(),), "--json")
    assert (130, "governor: interrupted\n") == (ended.status, ended.err)
