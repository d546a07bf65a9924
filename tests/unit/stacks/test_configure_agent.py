"""Promises of configuring the agent: it repairs, lets alone what is well, and is nobody's loss."""

from __future__ import annotations

import subprocess

import pytest

from tests.unit.stacks.hosts import Host, commands

AGENT = "/opt/aws/amazon-cloudwatch-agent"
OURS = f"{AGENT}/etc/amazon-cloudwatch-agent.d/ssm_AmazonCloudWatch-gpu-governor"


def configure(
    host: Host, parameter: str = "AmazonCloudWatch-gpu-governor"
) -> subprocess.CompletedProcess[str]:
    """Runs what the document runs."""
    return host.run(commands("ConfigureAgentDocument", Parameter=parameter))


def install(host: Host) -> None:
    """Driver, agent and systemd. The agent's tool does what the real one does with its files."""
    host.binary("nvidia-smi", '[ "$1" = -L ]', at="/usr/bin/nvidia-smi")
    host.path("/parameter").write_text('{"version": 1}', encoding="utf-8")
    state, calls, configurations = (
        host.path("/running"),
        host.path("/calls"),
        host.path(OURS).parent,
    )
    host.binary("systemctl", f"[ -e {state} ] && echo active || {{ echo inactive; exit 3; }}")
    host.binary(
        "amazon-cloudwatch-agent-ctl",
        f"""echo "$*" >>{calls}
case "$*" in
  "-a fetch-config -m ec2 -c ssm:"*)
    [ -e {host.path("/parameter")} ] || exit 1
    rm -f {configurations}/*
    cat {host.path("/parameter")} >{configurations}/ssm_${{6#ssm:}} ;;
  "-a start") : >{state} ;;
  "-a stop") rm -f {state} ;;
  *) exit 2 ;;
esac""",
        at=f"{AGENT}/bin/amazon-cloudwatch-agent-ctl",
    )


def calls(host: Host) -> list[str]:
    """Return what the agent's tool was asked to do since the last look."""
    path = host.path("/calls")
    found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [call.split()[1] for call in found]


def test_a_new_agent_is_configured_and_started(host: Host) -> None:
    """With the parameter of the stack."""
    install(host)

    done = configure(host)

    assert 0 == done.returncode, done.stderr
    assert ["fetch-config", "stop", "start"] == calls(host)
    assert host.path(OURS).exists()


def test_what_is_well_is_not_restarted(host: Host) -> None:
    """A restart is a hole in the metrics, and this runs every half hour."""
    install(host)
    assert 0 == configure(host).returncode
    calls(host)

    done = configure(host)

    assert (0, True) == (done.returncode, "nothing was changed" in done.stdout)
    assert ["fetch-config"] == calls(host)


def test_a_changed_configuration_is_taken_on(host: Host) -> None:
    """By a restart, once."""
    install(host)
    configure(host)
    host.path("/parameter").write_text('{"version": 2}', encoding="utf-8")
    calls(host)

    assert 0 == configure(host).returncode

    assert ["fetch-config", "stop", "start"] == calls(host)
    configure(host)
    assert ["fetch-config"] == calls(host)


def test_an_agent_that_died_is_started(host: Host) -> None:
    """Although its configuration is the right one."""
    install(host)
    configure(host)
    host.path("/running").unlink()
    calls(host)

    assert 0 == configure(host).returncode

    assert ["fetch-config", "stop", "start"] == calls(host)


def test_a_restart_that_failed_is_made_up_for(host: Host) -> None:
    """The next run does not take the files for what runs."""
    install(host)
    working = host.path(f"{AGENT}/bin/amazon-cloudwatch-agent-ctl")
    text = working.read_text()
    working.write_text(text.replace('"-a start")', '"-a start") exit 1;;\n  never)'))
    assert 6 == configure(host).returncode
    working.write_text(text)
    host.path("/running").touch()  # by somebody else, with what it had before
    calls(host)

    assert 0 == configure(host).returncode

    assert ["fetch-config", "stop", "start"] == calls(host)


def test_without_driver_the_agent_is_left_alone(host: Host) -> None:
    """It would not start, and take the host's other metrics with it."""
    install(host)
    host.path("/usr/bin/nvidia-smi").unlink()

    done = configure(host)

    assert (3, True) == (done.returncode, "install the NVIDIA driver" in done.stderr)
    assert [] == calls(host)


def test_with_a_broken_driver_the_agent_is_left_alone(host: Host) -> None:
    """The same."""
    install(host)
    host.binary("nvidia-smi", "exit 9", at="/usr/bin/nvidia-smi")

    assert (3, []) == (configure(host).returncode, calls(host))


def test_without_agent_the_other_association_is_waited_for(host: Host) -> None:
    """Which of them comes first is Systems Manager's business."""
    install(host)
    host.path(f"{AGENT}/bin/amazon-cloudwatch-agent-ctl").unlink()

    done = configure(host)

    assert (4, True) == (done.returncode, "not installed yet" in done.stderr)


@pytest.mark.parametrize(
    "path",
    [
        f"{AGENT}/etc/amazon-cloudwatch-agent.d/file_mine.json",
        f"{AGENT}/etc/amazon-cloudwatch-agent.d/ssm_AmazonCloudWatch-mine",
        f"{AGENT}/etc/amazon-cloudwatch-agent.json",
    ],
)
def test_a_configuration_of_the_hosts_own_is_left_alone(host: Host, path: str) -> None:
    """Fetching ours would delete it. Whose it is and what to do is told."""
    install(host)
    host.path(path).write_text("{}", encoding="utf-8")

    done = configure(host)

    assert (5, []) == (done.returncode, calls(host))
    assert path in done.stderr
    assert "AmazonCloudWatch-gpu-governor" in done.stderr
    assert "{}" == host.path(path).read_text()


def test_the_agent_is_not_configured_beside_the_publisher(host: Host) -> None:
    """Each GPU would be counted twice; whoever chose both has to choose."""
    install(host)
    host.binary("systemctl", "[ $1 = is-enabled ] && echo enabled || echo inactive")

    done = configure(host)

    assert (5, [], True) == (
        done.returncode,
        calls(host),
        "gpu-metrics-publisher runs" in done.stderr,
    )


def test_the_agents_own_default_is_replaced(host: Host) -> None:
    """Nobody wrote it: the agent makes it when it is started without a configuration."""
    install(host)
    host.path(f"{AGENT}/etc/amazon-cloudwatch-agent.d/default").write_text("{}", encoding="utf-8")

    assert 0 == configure(host).returncode


def test_a_parameter_that_cannot_be_read_is_told(host: Host) -> None:
    """A missing permission, mostly."""
    install(host)
    host.path("/parameter").unlink()

    done = configure(host)

    assert (6, True) == (done.returncode, "cannot be used" in done.stderr)
    assert ["fetch-config"] == calls(host)


@pytest.mark.parametrize("parameter", ["", "mine"])
def test_wrong_arguments_are_refused(host: Host, parameter: str) -> None:
    """The agent may read parameters with that prefix only."""
    install(host)

    assert (2, []) == (configure(host, parameter).returncode, calls(host))
