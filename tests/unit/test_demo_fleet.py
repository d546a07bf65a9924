"""The demo's table: reasons that fit their line, groups with their cost, and nobody left out."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli import demo
from cli.cloud import go_on
from cli.demo_fleet import WIDTH, Row, _group_and_reason, short, table
from governor.episode.model.episode import Observation
from governor.verdict.model import IdleParts
from local.engine.cloud import LocalCloudError
from tests.builders import NOW, make_instance


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("Idle for 3 h 25 min (every GPU under 5%).", "idle for 3 h 25 min"),
        (
            "stop protection (disableApiStop) is on, so it is not stopped",
            "stop protection is on, so it is not stopped",
        ),
        (
            "it runs in a Capacity Block, which is paid in advance: stopping saves nothing",
            "runs in a Capacity Block, which is paid in advance",
        ),
        (
            "it is a one-time Spot instance, which cannot be stopped; the policy then "
            "says terminate",
            "one-time Spot instance, which cannot be stopped",
        ),
        (
            "utilization reached 96.9% in the last 60 min, last at 2026-11-22T18:50:00Z",
            "utilization reached 96.9% in the last 60 min",
        ),
        (
            "the instance published nothing in the newest 35 min",
            "published nothing in the newest 35 min",
        ),
        (
            "started 10 min ago; judged from 2026-11-22T19:41:22Z on (grace 30 min)",
            "started 10 min ago",
        ),
        (
            "kept by decision until 2020-03-01T18:54:22Z",
            "kept by decision until Sun Mar 1, 18:54 UTC",
        ),
    ],
)
def test_a_reason_is_one_short_clause(reason: str, shown: str) -> None:
    """Without brackets and consequences, and with times as people write them."""
    assert shown == short(reason)


def test_a_partly_idle_instance_says_how_many_gpus_are_idle() -> None:
    """Also if the sweep after the first one has not read its metrics."""
    instance = make_instance()
    seen = Observation(instance.launch_time, "partly-idle", NOW, reason="worked until 12:00")
    counted = replace(seen, idle_parts=IdleParts(7, 8, "GPU"))

    known = _group_and_reason(instance, counted, None)
    assert ("at work", "partly idle: 7 of 8 GPUs") == known
    assert ("at work", "partly idle") == _group_and_reason(instance, seen, None)


def test_the_count_adds_up_and_each_group_has_its_cost() -> None:
    """Empty groups are left out; what has no price is in no sum."""
    rows = [
        Row("i-1", "a", "team", Decimal("1.20"), "asked", "idle for 3 h"),
        Row("i-2", "b", "team", Decimal("2"), "asked", "idle for 4 h"),
        Row("i-3", "c", "unassigned", None, "not governed", "lacks the tag, so nobody is asked"),
        Row("i-4", "d", "team", Decimal(0), "notified", "a Capacity Block", is_prepaid=True),
    ]
    lines = table(rows).splitlines()

    assert "  4 launched: 2 asked, 1 notified, 1 not governed" == lines[0]
    (asked,) = (line for line in lines if line.startswith("  Idle: "))
    assert asked.endswith("  2 instances, $3.20 an hour")
    assert WIDTH == len(asked)
    at = lines.index(
        "    c                      unassigned   unpriced  lacks the tag, so nobody is"
    )
    assert f"{'':50}asked" == lines[at + 1]
    assert 80 == WIDTH >= max(map(len, lines))
    assert "    d                      team          prepaid  a Capacity Block" in lines


@pytest.mark.parametrize("print_it", [demo.say, demo.note], ids=lambda one: one.__name__)
def test_what_people_read_fits_a_terminal(
    print_it: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """But for a link, which is whole, on a line of its own."""
    link = f"http://127.0.0.1:1/{'x' * 90}"
    print_it(f"{'a sentence about it, ' * 9}{link} and more")
    lines = capsys.readouterr().out.splitlines()

    assert link in [line.strip() for line in lines]
    assert 80 >= max(len(line) for line in lines if link not in line)


def test_a_long_step_goes_on_below_itself(capsys: pytest.CaptureFixture[str]) -> None:
    demo.print_step(
        "notebook", "failed: could not take a snapshot of its volume; nothing was deleted"
    )
    assert [
        "  notebook               failed: could not take a snapshot of its volume;",
        "                         nothing was deleted",
    ] == capsys.readouterr().out.splitlines()


def test_another_terminal_reads_the_environment_while_the_demo_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the line that the demo prints; afterwards the file is gone."""
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    monkeypatch.setattr(demo, "ENVIRONMENT", tmp_path / "build" / "demo.env")
    with demo.environment_file("export GOVERNOR_API_URL='http://127.0.0.1:1/$default'") as path:
        line = f". {path}; echo $GOVERNOR_API_URL"
        said = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert "http://127.0.0.1:1/$default\n" == said.stdout
    assert not (tmp_path / path).exists()


def test_the_last_line_sums_the_story_up() -> None:
    """From what was read back of the cloud."""
    actions = [{"state": "stopped"}, {"state": "stopped"}, {"state": "terminated"}]
    summary = {"actions": actions, "usd_per_hour_saved": "1,024.2174"}
    assert "4 asked, 2 stopped, 1 terminated, $1,024.22 an hour saved" == demo.closing(4, summary)


def test_the_first_failed_workflow_ends_the_wait_for_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others wait for answers, which may take hours; its cause was told only after the last of
    them."""

    def nothing_happened() -> SimpleNamespace:
        raise AssertionError("it went on waiting")

    scene: Any = SimpleNamespace(
        executions=lambda: {
            "i-1": {"status": "FAILED", "executionArn": "arn:1", "name": "one"},
            "i-2": {"status": "RUNNING", "executionArn": "arn:2", "name": "two"},
        },
        failure=lambda _: "the workflow of train-a ended FAILED: AccessDenied",
        errors=lambda: ["stop: AccessDenied"],
    )
    one = demo.Demo.__new__(demo.Demo)
    one.scene, one._before, one._printed = scene, set(), {}
    one._instance_store = cast("Any", SimpleNamespace(records=lambda _: {}))
    monkeypatch.setattr(time, "sleep", lambda _: nothing_happened())

    with pytest.raises(
        LocalCloudError, match=r"train-a ended FAILED: AccessDenied\n.*stop: AccessDenied"
    ):
        one.follow(patiently=True)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_sweep_that_ends_with_its_stack_is_no_failure(
    is_there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last step of docs/operate.md deletes the stack while it is swept."""

    def beat(_: object) -> bool:
        raise LocalCloudError("the sweep ended FAILED")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    account: Any = SimpleNamespace(beat=beat, deployed=lambda: {"ApiUrl": "x"} if is_there else {})
    with pytest.raises(KeyboardInterrupt):
        go_on(account, "build/cloud.env")
    assert is_there == ("the sweep ended FAILED" in capsys.readouterr().err)
