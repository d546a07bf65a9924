"""Promises of the hook before an interruption: it starts what is safe to start, at once, and
once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.stacks.hosts import SCRIPTS, Host, commands

HOOK = "/etc/gpu-governor/on-interruption"
LOG = "/var/log/gpu-governor/on-interruption.log"


def warn(
    host: Host,
    when_no_hook: str = "nothing",
    seconds_left: str = "20",
    owner: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs what the document runs for a Spot warning."""
    parameters = {
        "Reason": "spot-interruption",
        "WhenNoHook": when_no_hook,
        "SecondsLeft": seconds_left,
    }
    return host.run(commands("OnInterruptionDocument", **parameters), owner=owner)


def hook(host: Host, body: str, mode: int = 0o755) -> Path:
    """A hook on the host."""
    host.binary("on-interruption", body, at=HOOK)
    path = host.path(HOOK)
    path.parent.chmod(0o755)
    path.chmod(mode)
    return path


def eventually(condition: Callable[[], bool], seconds: float = 300) -> bool:
    """Return whether it becomes true in that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def on_the_gpu(
    host: Host, processes: list[subprocess.Popen[bytes]], name: str
) -> subprocess.Popen[bytes]:
    """A process of that name that nvidia-smi lists. It ends by SIGTERM."""
    program = host.root / name
    program.write_text("#!/bin/sh\nexec 3<&0\nread -r line <&3\n", encoding="utf-8")
    program.chmod(0o755)
    process = subprocess.Popen([str(program)], stdin=subprocess.PIPE)
    processes.append(process)
    assert eventually(lambda: Path(f"/proc/{process.pid}/comm").read_text().strip() == name[:15])
    pids = "\\n".join(str(process.pid) for process in processes)
    host.binary("nvidia-smi", f'[ "$1" = --query-compute-apps=pid ] && printf "{pids}\\n"')
    return process


def test_a_hook_is_told_why_and_for_how_long(host: Host) -> None:
    """In its environment; its output is kept."""
    hook(host, 'echo "$GPU_GOVERNOR_REASON $GPU_GOVERNOR_SECONDS_LEFT"')

    done = warn(host, seconds_left="20")

    assert (0, "") == (done.returncode, done.stderr)
    log = host.path(LOG)
    assert eventually(lambda: log.exists() and log.read_text() == "spot-interruption 20\n")


def test_nobody_waits_for_the_hook(host: Host) -> None:
    """The command is over while the hook runs on, and outlives it."""
    marks, go = host.path("/marks"), host.path("/go")
    hook(
        host,
        f"echo begun >>{marks}; while [ ! -e {go} ]; do sleep 0.05; done; echo ended >>{marks}",
    )

    done = warn(host)

    assert 0 == done.returncode
    go.touch()
    assert eventually(lambda: marks.exists() and marks.read_text() == "begun\nended\n")


def test_a_hook_that_takes_too_long_is_ended(host: Host) -> None:
    """By SIGTERM, so that it can still say where it was."""
    marks = host.path("/marks")
    hook(
        host,
        f"trap 'echo ended >>{marks}; exit 1' TERM; echo begun >>{marks}; while :; do "
        "sleep 0.1; done",
    )

    assert 0 == warn(host, seconds_left="3").returncode

    assert eventually(lambda: marks.exists() and marks.read_text() == "begun\nended\n")


def test_two_warnings_start_one_hook(host: Host) -> None:
    """Events come at least once."""
    marks, go = host.path("/marks"), host.path("/go")
    hook(host, f"echo begun >>{marks}; while [ ! -e {go} ]; do sleep 0.05; done")
    first = warn(host)
    assert eventually(marks.exists)

    second = warn(host)

    assert (0, 0) == (first.returncode, second.returncode)
    assert "running already" in second.stdout
    time.sleep(0.2)
    assert "begun\n" == marks.read_text()
    go.touch()


@pytest.mark.parametrize("mode", [0o757, 0o775, 0o777, 0o702])
def test_a_hook_that_others_can_write_is_refused(host: Host, mode: int) -> None:
    """It would run as root what anybody wrote."""
    marks = host.path("/marks")
    hook(host, f"echo begun >>{marks}", mode=mode)

    done = warn(host)

    assert 3 == done.returncode
    assert "can be written by others than root" in done.stderr
    time.sleep(0.2)
    assert not marks.exists()


def test_a_hook_in_a_folder_that_others_can_write_is_refused(host: Host) -> None:
    """Anybody could put another one in its place."""
    hook(host, "exit 0").parent.chmod(0o777)

    done = warn(host)

    assert (3, True) == (done.returncode, "can be written by others than root" in done.stderr)


def test_a_hook_of_somebody_else_is_refused(host: Host) -> None:
    """Only root decides what runs as root."""
    hook(host, "exit 0")

    done = warn(host, owner=os.getuid() + 1)

    assert (3, True) == (done.returncode, "does not belong to root" in done.stderr)


def test_root_is_whom_a_hook_must_belong_to() -> None:
    """Tests put somebody else in that place; the deployed script does not."""
    assert 1 == commands("OnInterruptionDocument", Reason="", WhenNoHook="", SecondsLeft="").count(
        "\nowner=0\n"
    )


def test_a_symbolic_link_is_refused(host: Host) -> None:
    """Its target can be anybody's."""
    real = hook(host, "exit 0")
    other = real.rename(real.with_name("other"))
    real.symlink_to(other)

    done = warn(host)

    assert (3, True) == (done.returncode, "is a symbolic link" in done.stderr)


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_hook_that_is_not_executable_is_told(host: Host, mode: int) -> None:
    """Somebody meant it to run."""
    hook(host, "exit 0", mode=mode)

    done = warn(host)

    assert (3, True) == (done.returncode, "is not executable" in done.stderr)


def test_without_a_hook_nothing_happens(
    host: Host, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Unless it is asked for."""
    process = on_the_gpu(host, processes, "train")

    done = warn(host, "nothing")

    assert (0, True) == (done.returncode, "nothing to do" in done.stdout)
    assert process.poll() is None


def test_without_a_hook_the_processes_on_the_gpus_get_sigterm(
    host: Host, processes: list[subprocess.Popen[bytes]]
) -> None:
    """If it is asked for: all of them, and each is named."""
    both = [on_the_gpu(host, processes, "train"), on_the_gpu(host, processes, "serve")]

    done = warn(host, "sigterm")

    assert 0 == done.returncode
    assert [-15, -15] == [process.wait(timeout=300) for process in both]
    assert "SIGTERM sent to 2 processes" in done.stdout
    assert f"{both[0].pid} (train)" in done.stdout


def test_with_a_hook_no_process_gets_a_signal(
    host: Host, processes: list[subprocess.Popen[bytes]]
) -> None:
    """The hook knows better how its work is saved."""
    process = on_the_gpu(host, processes, "train")
    hook(host, "exit 0")

    assert 0 == warn(host, "sigterm").returncode

    assert process.poll() is None


def test_after_a_refused_hook_the_processes_still_get_sigterm(
    host: Host, processes: list[subprocess.Popen[bytes]]
) -> None:
    """If it is asked for: work that could be saved is. The status tells of the refusal all the
    same."""
    process = on_the_gpu(host, processes, "train")
    hook(host, "exit 0", mode=0o777)

    assert 3 == warn(host, "sigterm").returncode

    assert -15 == process.wait(timeout=300)


def test_the_drivers_own_helpers_get_no_signal(
    host: Host, processes: list[subprocess.Popen[bytes]]
) -> None:
    """When the MPS server ends, its clients die unsaved."""
    server = on_the_gpu(host, processes, "nvidia-cuda-mps-server")
    client = on_the_gpu(host, processes, "train")

    done = warn(host, "sigterm")

    assert -15 == client.wait(timeout=300)
    assert server.poll() is None
    assert "SIGTERM sent to 1 processes" in done.stdout


@pytest.mark.parametrize(
    "listing", ["", "0\\n1\\n", "[N/A]\\n[Not Found]\\n", "-1\\n", "999999999\\n"]
)
def test_what_is_no_process_gets_no_signal(host: Host, listing: str) -> None:
    """Least of all process 1, or everybody."""
    host.binary("nvidia-smi", f"printf %b '{listing}'")

    done = warn(host, "sigterm")

    assert (0, True) == (done.returncode, "SIGTERM sent to 0 processes" in done.stdout)


@pytest.mark.parametrize("body", ["exit 9", None])
def test_a_driver_that_does_not_answer_is_told(host: Host, body: str | None) -> None:
    """Broken, or not there."""
    if body:
        host.binary("nvidia-smi", body)

    done = warn(host, "sigterm")

    assert (4, True) == (done.returncode, "nothing was sent" in done.stdout)


@pytest.mark.parametrize(
    ("when_no_hook", "seconds_left"),
    [
        ("kill", "20"),
        ("", "20"),
        ("sigterm", ""),
        ("sigterm", "0"),
        ("nothing", "1x"),
        ("sigterm", "-5"),
    ],
)
def test_wrong_arguments_start_nothing(host: Host, when_no_hook: str, seconds_left: str) -> None:
    """Systems Manager refuses them before; the script does, too."""
    marks = host.path("/marks")
    hook(host, f"echo begun >>{marks}")

    done = warn(host, when_no_hook, seconds_left)

    assert (2, True) == (done.returncode, "usage" in done.stderr)
    assert not marks.exists()


def test_the_sample_hook_asks_containers_that_can_to_save(host: Host) -> None:
    """Started as any hook is."""
    asked = host.path("/asked")
    text = (SCRIPTS.parent / "samples" / "on-interruption.sh").read_text(encoding="utf-8")
    hook(host, text)
    host.binary(
        "docker",
        f"""case "$*" in
  "ps --quiet --filter label=checkpoint-on=USR1") printf 'one\\ntwo\\n' ;;
  *) echo "$*" >>{asked} ;;
esac""",
    )

    assert 0 == warn(host, seconds_left="90").returncode

    wanted = "kill --signal USR1 one\nkill --signal USR1 two\n"
    assert eventually(lambda: asked.exists() and asked.read_text() == wanted)
    assert host.path(LOG).read_text().strip().endswith(" spot-interruption: 90 s left")
