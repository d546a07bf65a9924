"""`make demo APPROVE=auto` to its end, in a process of its own, as a newcomer runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_runs_to_its_end_and_reports_what_happened() -> None:
    """Asked by mail, answered through the page, stopped and terminated; the last line is read from the
    cloud."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.demo", "--approve", "auto"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'layers/shared'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    assert "; bin/governor approvals list\n" in done.stdout
    assert "asked to save its work after" in done.stdout
    summary = json.loads(done.stdout.splitlines()[-1])

    states = [action["state"] for action in summary["actions"]]
    assert 15 == summary["instances"]  # the sixteenth does not carry the tag
    assert len(summary["approved"]) == len(states)
    assert {"stopped", "terminated"} == set(states)
