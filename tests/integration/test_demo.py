"""`make demo APPROVE=auto` to its end, in a process of its own, as a newcomer runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.demo import Demo
from cli.demo_fleet import WIDTH
from governor.verdict.model import VerdictKind
from local.demo.fleet import demo_fleet
from local.engine import patience
from local.engine.cloud import LocalCloudError
from tests.integration.stage import Stage

ROOT = Path(__file__).parents[2]


def test_the_demo_runs_to_its_end_and_reports_what_happened() -> None:
    """Asked by mail, answered through the page, stopped and terminated; the last line is read from
    the cloud."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.demo", "--approve", "auto"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'layers/shared'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    assert "; bin/governor approvals list\n" in done.stdout
    assert "asked to save its work after" in done.stdout
    *story, last = done.stdout.splitlines()
    summary = json.loads(last)

    # A link is whole, on a line of its own.
    assert [] == [line for line in story if len(line) > WIDTH and len(line.split()) > 1]
    text = " ".join(" ".join(story).split())
    found = re.search(r"16 launched: .+? not governed", text)
    assert found is not None
    count = found[0]
    became = [int(number) for number in re.findall(r"\d+", count)]
    assert (
        "16 launched: 5 asked, 2 notified, 2 managed, 2 at work, 2 left alone, 2 not judged, 1 "
        "not governed" == count
    )
    assert became[0] == sum(became[1:])
    table = "\n".join(line for line in story if re.search(r"  (\$[\d.]+|prepaid)  ", line))
    assert [1] * 16 == [
        len(re.findall(f"^    {one.name} ", table, re.MULTILINE)) for one in demo_fleet()
    ]
    saved = f"${float(summary['usd_per_hour_saved']):.2f} an hour saved"
    assert f"* 5 asked, 3 stopped, 2 terminated, {saved}; the demo took" in text
    states = [action["state"] for action in summary["actions"]]
    assert 15 == summary["instances"]  # the sixteenth does not carry the tag
    assert {kind.value for kind in VerdictKind} - {"frozen"} == set(summary["verdicts"])
    assert len(summary["approved"]) == len(states)
    assert {"stopped", "terminated"} == set(states)


def test_the_first_workflow_that_fails_ends_the_wait_with_its_cause(stage: Stage) -> None:
    """Nobody waits for a question that will not come."""
    demo = Demo(stage.scene)
    states = stage.scene.cloud.client("stepfunctions")
    states.start_execution(
        stateMachineArn=stage.scene.outputs["RemediationStateMachineArn"],
        input=json.dumps({"instance_id": "i-00000000000000bad"}),
    )

    with pytest.raises(
        LocalCloudError, match=r"(?s)workflow of i-0\w+bad ended FAILED: .*Payload was refused"
    ):
        demo.await_questions()


def test_a_wait_in_which_nothing_moves_ends_with_what_has_come(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And with what the functions have logged."""
    monkeypatch.setattr(stage.scene.cloud, "_quiet_rounds", 2)
    # Each look waits a second for mail.
    monkeypatch.setattr(patience, "LOOKS_PER_ROUND", 2)
    stage.ask()

    message = (
        r"no approval-requested about i-nobody; still running: \[.+ in AwaitAnswer .+"
        r"; mail so far: \[.+; errors: "
    )
    with pytest.raises(LocalCloudError, match=message):
        stage.await_mail("i-nobody", "approval-requested")
