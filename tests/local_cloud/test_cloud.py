"""The launcher: an engine on a free loopback port that leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local.engine.cloud import ROOT, LocalCloud

pytestmark = pytest.mark.integration


def gone_in_time(pid: int) -> bool:
    """Return whether a process ends in good time."""
    until = time.monotonic() + 300
    while time.monotonic() < until and Path(f"/proc/{pid}").exists():
        time.sleep(0.1)
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_engine_ends_with_its_parent(how: signal.Signals) -> None:
    """SIGKILL leaves no chance to clean up; nothing is left all the same, the scratch directory
    included."""
    program = (
        # A shell starts what runs in its background with SIGINT ignored.
        "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from local.engine.cloud import LocalCloud\n"
        "cloud = LocalCloud().start(); print(cloud._process.pid, cloud.run_dir, "
        "flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
    ) as parent:
        assert parent.stdout is not None
        engine, scratch = parent.stdout.readline().split()
        parent.send_signal(how)
        parent.wait()

    assert gone_in_time(int(engine))
    until = time.monotonic() + 300
    while time.monotonic() < until and Path(scratch).exists():
        time.sleep(0.1)
    assert not Path(scratch).exists()


def test_it_listens_on_loopback_only(bare_cloud: LocalCloud) -> None:
    """Nobody else on the network reaches it: every listening socket of the engine is on
    127.0.0.1."""
    process = bare_cloud._process
    assert process is not None
    sockets = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for link in Path(f"/proc/{process.pid}/fd").iterdir()
        if link.is_symlink() and link.readlink().name.startswith("socket:")
    }
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and columns[9] in sockets:
                listening.append(columns[1].partition(":")[0])

    assert {"0100007F"} == set(listening)


def test_a_closed_cloud_may_be_closed_again() -> None:
    """Failures and context managers both end it."""
    cloud = LocalCloud().start()
    cloud.stop()
    cloud.stop()

    assert not cloud.run_dir.exists()


def test_a_link_of_the_stack_opens_on_this_machine(bare_cloud: LocalCloud) -> None:
    """Host to path, query kept."""
    link = "https://abc123.execute-api.us-east-1.amazonaws.com/approvals/x?s=1%2B2"

    expected = f"{bare_cloud.endpoint_url}/_aws/execute-api/abc123/$default/approvals/x?s=1%2B2"
    assert expected == bare_cloud.reachable_url(link)
