"""Promises of the example's user data: it installs what is missing, and touches nothing that
works."""

from __future__ import annotations

import subprocess

import pytest

from tests.unit.stacks.hosts import SCRIPTS, Host

CTL = "/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
AL2023 = 'NAME="Amazon Linux"\nVERSION_ID="2023"\nID="amzn"\n'


def boot(
    host: Host, parameter: str = "AmazonCloudWatch-gpu-governor"
) -> subprocess.CompletedProcess[str]:
    """Runs the user data."""
    return host.run((SCRIPTS / "install_gpu_host.sh").read_text(encoding="utf-8"), parameter)


def image(host: Host, *, driver: bool = True, docker: bool = True, runtime: bool = True) -> None:
    """A host of Amazon Linux 2023; each package that is installed brings its binary."""
    calls = host.path("/calls")
    host.path("/etc/os-release").write_text(AL2023, encoding="utf-8")
    runtimes = host.path("/runtimes")
    runtimes.write_text(
        "Runtimes: runc nvidia\n" if runtime else "Runtimes: runc\n", encoding="utf-8"
    )
    programs = {
        "nvidia-smi": "exit 0",
        "docker": f"cat {runtimes}",
        "nvidia-ctk": f'echo "nvidia-ctk $*" >>{calls}; echo "Runtimes: runc nvidia" >{runtimes}',
        CTL: f'echo "ctl $*" >>{calls}',
    }
    for name, body in programs.items():
        host.binary(name.rsplit("/", 1)[-1], body, at=f"/packages/{name.rsplit('/', 1)[-1]}")
    host.without("uname")
    host.binary("uname", "echo 6.12.40-64.114.amzn2023.x86_64")
    for name in ("modprobe", "systemctl"):
        host.binary(name, f'echo "{name} $*" >>{calls}')
    packages = host.path("/packages/nvidia-smi").parent
    host.path(CTL)
    cat = f"{host.bin}/cat"
    host.binary(
        "dnf",
        f"""echo "dnf $*" >>{calls}
put() {{ {cat} "{packages}/$1" >"$2"; chmod 755 "$2"; }}
for package in "$@"; do
  case $package in
    nvidia-open) put nvidia-smi {host.bin}/nvidia-smi ;;
    docker) put docker {host.bin}/docker ;;
    nvidia-container-toolkit) put nvidia-ctk {host.bin}/nvidia-ctk ;;
    amazon-cloudwatch-agent) put amazon-cloudwatch-agent-ctl {host.path(CTL)} ;;
  esac
done""",
    )
    host.binary("chmod", 'exec /bin/chmod "$@"')
    if driver:
        host.binary("nvidia-smi", "exit 0")
    if docker:
        host.binary("docker", programs["docker"])
        host.binary("nvidia-ctk", programs["nvidia-ctk"])


def calls(host: Host) -> list[str]:
    """Return what was installed, started and configured, in order."""
    return host.path("/calls").read_text(encoding="utf-8").splitlines()


def test_an_image_with_all_of_it_gets_the_configuration_only(host: Host) -> None:
    """As the default image, but for the agent."""
    image(host)

    done = boot(host)

    assert 0 == done.returncode, done.stderr
    assert [
        "systemctl enable --now docker",
        "dnf install -y amazon-cloudwatch-agent",
        "ctl -a fetch-config -m ec2 -c ssm:AmazonCloudWatch-gpu-governor -s",
    ] == calls(host)


def test_a_bare_image_gets_everything(host: Host) -> None:
    """Headers of the kernel that runs, driver, Docker, toolkit, agent."""
    image(host, driver=False, docker=False, runtime=False)

    done = boot(host)

    assert 0 == done.returncode, done.stderr
    kernel = "6.12.40-64.114.amzn2023.x86_64"
    assert [
        f"dnf install -y nvidia-release dkms kernel6.12-devel-{kernel} "
        f"kernel6.12-modules-extra-{kernel}",
        "dnf install -y nvidia-open nvidia-fabric-manager",
        "modprobe nvidia",
        "systemctl enable --now nvidia-fabricmanager",
        "dnf install -y docker",
        "systemctl enable --now docker",
        "dnf install -y nvidia-release",
        "dnf install -y nvidia-container-toolkit",
        "nvidia-ctk runtime configure --runtime=docker",
        "systemctl restart docker",
        "dnf install -y amazon-cloudwatch-agent",
        "ctl -a fetch-config -m ec2 -c ssm:AmazonCloudWatch-gpu-governor -s",
    ] == calls(host)


def test_the_first_kernel_of_the_release_has_its_packages_named_otherwise(host: Host) -> None:
    """Without the version."""
    image(host, driver=False)
    host.binary("uname", "echo 6.1.150-174.273.amzn2023.x86_64")

    assert 0 == boot(host).returncode

    assert "kernel-devel-6.1.150-174.273.amzn2023.x86_64" in calls(host)[0]


def test_a_second_boot_changes_nothing(host: Host) -> None:
    """All of it is there."""
    image(host, driver=False, docker=False, runtime=False)
    assert 0 == boot(host, "").returncode
    host.path("/calls").unlink()

    assert 0 == boot(host, "").returncode

    assert ["systemctl enable --now docker"] == calls(host)


@pytest.mark.parametrize(
    "release", ['ID=ubuntu\nVERSION_ID="24.04"\n', 'ID="amzn"\nVERSION_ID="2"\n']
)
def test_another_system_is_refused(host: Host, release: str) -> None:
    """In words, before anything is installed."""
    image(host)
    host.path("/etc/os-release").write_text(release, encoding="utf-8")

    done = boot(host)

    assert (1, True) == (done.returncode, "knows Amazon Linux 2023 only" in done.stderr)
    assert not host.path("/calls").exists()


def test_a_configuration_that_is_not_there_yet_is_no_failure(host: Host) -> None:
    """The telemetry stack may come later, and configures the agent then; all else works, and it is
    said."""
    image(host)
    body = f'echo "ctl $*" >>{host.path("/calls")}; exit 1'
    host.binary("amazon-cloudwatch-agent-ctl", body, at="/packages/amazon-cloudwatch-agent-ctl")

    done = boot(host)

    assert (0, True) == (done.returncode, "done" in done.stdout)
    assert "AmazonCloudWatch-gpu-governor" in done.stderr
    assert "stacks/telemetry.yaml" in done.stderr
    assert any("ctl -a fetch-config" in call for call in calls(host))


def test_a_driver_that_does_not_come_up_ends_it(host: Host) -> None:
    """The next steps would look as if all were well."""
    image(host, driver=False)
    host.binary("modprobe", "exit 1")

    assert 1 == boot(host).returncode

    assert not any("ctl -a" in call for call in calls(host))
