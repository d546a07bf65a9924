"""Promises of installing the publisher: what was pinned, nothing else, and never beside the
agent."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from scripts.bundle_publisher import packed
from tests.unit.stacks.hosts import Host, commands

PLACE = "/opt/gpu-metrics-publisher"
UNIT = "/etc/systemd/system/gpu-metrics-publisher.service"
OPTIONS = "/etc/gpu-metrics-publisher.env"
AGENT = "/opt/aws/amazon-cloudwatch-agent/etc"


def bundle(version: str) -> bytes:
    """As `scripts/bundle_publisher.py` packs it, with a wheel that is none."""
    return packed(
        {
            "gpu-metrics-publisher.service": f"# {version}".encode(),
            f"wheels/gpu_metrics_publisher-{version}-py3-none-any.whl": b"wheel",
        }
    )


def checksum(version: str = "1") -> str:
    """Return the checksum of that bundle."""
    return hashlib.sha256(bundle(version)).hexdigest()


def image(host: Host, version: str = "1") -> None:
    """A host with the CLI, Python and systemd, and the bundle in its bucket. All calls are
    noted."""
    calls, running, enabled = host.path("/calls"), host.path("/running"), host.path("/enabled")
    host.path("/bucket/bundle").write_bytes(bundle(version))
    host.binary(
        "aws",
        f"""echo "aws $*" >>{calls}
[ "$4" = s3://bucket/bundle ] && cat {host.path("/bucket/bundle")} >"$5\"""",
    )
    host.binary(
        "python3",
        f"""[ "$1" = -c ] && exit 0
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "pip $*" >>{calls}; [ ! -e {host.path("/broken")} ] || exit 1\\n' \\
    >"$3/bin/python"
chmod 755 "$3/bin/python\"""",
    )
    host.binary("chmod", 'exec /bin/chmod "$@"')
    host.binary(
        "systemctl",
        f"""[ "$1" = is-active ] || echo "systemctl $*" >>{calls}
case $1 in
  is-active) [ -e {running} ] && echo active || {{ echo inactive; exit 3; }} ;;
  enable) : >{enabled} ;;
  restart) [ ! -e {host.path("/dies")} ] && : >{running} ;;
esac
exit 0""",
    )
    host.path(UNIT)
    host.path(PLACE)


def install(
    host: Host, sha256: str | None = None, where: str = "bucket/bundle"
) -> subprocess.CompletedProcess[str]:
    """Runs what the document runs."""
    return host.run(commands("InstallPublisherDocument", Bundle=where, Sha256=sha256 or checksum()))


def calls(host: Host) -> list[str]:
    """Return what was fetched, installed and started since the last look: the first two words of
    each."""
    path = host.path("/calls")
    found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [" ".join(call.split()[:2]) for call in found]


STARTED = ["systemctl daemon-reload", "systemctl enable", "systemctl restart"]


def test_it_is_installed_from_the_bundle_alone_and_started(host: Host) -> None:
    """Without an index; the unit's path leads to it; the cheapest group is published."""
    image(host)

    done = install(host)

    assert 0 == done.returncode, done.stderr
    text = host.path("/calls").read_text()
    assert "pip install -q --no-index" in text.replace("-m ", "")
    assert ["aws s3", "pip -m", *STARTED] == calls(host)
    place = host.path(PLACE)
    assert f"{PLACE.rsplit('/', 1)[1]}-{checksum()}" == place.resolve().name
    assert ("# 1", "OPTIONS=--metrics agent\n") == (
        host.path(UNIT).read_text(),
        host.path(OPTIONS).read_text(),
    )
    assert {"bin", "complete", "gpu-metrics-publisher.service"} == {p.name for p in place.iterdir()}


def test_what_is_well_is_not_touched(host: Host) -> None:
    """It runs every half hour: no bytes are fetched, nothing is restarted, options of the owner's
    stay."""
    image(host)
    assert 0 == install(host).returncode
    host.path(OPTIONS).write_text("OPTIONS=--metrics agent,health\n")
    calls(host)

    done = install(host)

    assert (0, True, []) == (done.returncode, "nothing was changed" in done.stdout, calls(host))
    assert "OPTIONS=--metrics agent,health\n" == host.path(OPTIONS).read_text()


def test_one_that_died_is_started_without_being_fetched(host: Host) -> None:
    """And a unit that somebody changed is put back."""
    image(host)
    install(host)
    host.path("/running").unlink()
    calls(host)
    assert (0, STARTED) == (install(host).returncode, calls(host))

    host.path(UNIT).write_text("# mine")
    assert (0, STARTED) == (install(host).returncode, calls(host))
    assert "# 1" == host.path(UNIT).read_text()


def test_a_new_checksum_replaces_what_ran(host: Host) -> None:
    """And the old one is cleared away only then; what has another name stays."""
    image(host)
    install(host)
    mine = host.path(f"{PLACE}-notes/file")
    mine.touch()
    image(host, "2")

    assert 0 == install(host, checksum("2")).returncode

    names = sorted(path.name for path in host.path(PLACE).parent.iterdir())
    base = PLACE.rsplit("/", 1)[1]
    assert [base, f"{base}-{checksum('2')}", f"{base}-notes"] == [
        n for n in names if n.startswith(base)
    ]
    assert "# 2" == host.path(UNIT).read_text()


@pytest.mark.parametrize("broken", ["checksum", "bucket", "pip"])
def test_what_cannot_be_installed_leaves_the_old_one_running(host: Host, broken: str) -> None:
    """Another bundle than the pinned one is never unpacked; half an installation is begun anew."""
    image(host)
    install(host)
    image(host, "2")
    if broken == "bucket":
        host.path("/bucket/bundle").unlink()
    if broken == "checksum":
        host.path("/bucket/bundle").write_bytes(bundle("3"))
    if broken == "pip":
        host.path("/broken").touch()
    calls(host)

    done = install(host, checksum("2"))

    assert (6 if broken == "pip" else 4) == done.returncode
    assert checksum() in host.path(PLACE).resolve().name
    assert [] == [call for call in calls(host) if call.startswith("systemctl")]
    assert broken == "pip" or not list(host.path(PLACE).parent.glob(f"*-{checksum('2')}/wheels"))
    host.path("/broken").unlink(missing_ok=True)
    image(host, "2")
    assert 0 == install(host, checksum("2")).returncode


@pytest.mark.parametrize(
    "name", ["amazon-cloudwatch-agent.d/ssm_mine", "amazon-cloudwatch-agent.json"]
)
def test_it_is_not_installed_beside_an_agent_that_publishes_gpus(host: Host, name: str) -> None:
    """Each GPU would be counted twice; whoever chose both has to choose."""
    image(host)
    host.path(f"{AGENT}/{name}").write_text(
        '{"metrics": {"metrics_collected": {"nvidia_gpu": {}}}}'
    )

    done = install(host)

    assert (5, [], True) == (done.returncode, calls(host), "take nvidia_gpu out" in done.stderr)
    host.path(f"{AGENT}/{name}").write_text('{"metrics": {"metrics_collected": {"mem": {}}}}')
    assert 0 == install(host).returncode


def test_one_that_was_installed_by_hand_is_left_alone(host: Host) -> None:
    """As agent/README.md shows it."""
    image(host)
    host.path(f"{PLACE}/bin/python").touch()

    assert (5, []) == (install(host).returncode, calls(host))


@pytest.mark.parametrize("tool", ["aws", "python3", "systemctl"])
def test_what_is_missing_is_named(host: Host, tool: str) -> None:
    """Before anything is done."""
    image(host)
    host.without(tool)

    done = install(host)

    assert (3, f"install-publisher: {tool} is missing\n") == (done.returncode, done.stderr)


def test_a_python_that_is_too_old_is_told(host: Host) -> None:
    """The answer is Python's own."""
    image(host)
    host.binary("python3", "exit 1")

    assert (3, True) == ((done := install(host)).returncode, "older than 3.9" in done.stderr)


def test_a_service_that_does_not_stay_is_told(host: Host) -> None:
    """The next run tries again."""
    image(host)
    host.path("/dies").touch()
    assert 7 == install(host).returncode
    host.path("/dies").unlink()
    calls(host)

    assert (0, STARTED) == (install(host).returncode, calls(host))


@pytest.mark.parametrize(("where", "sha256"), [("", checksum()), ("bucket/bundle", "abc")])
def test_wrong_arguments_are_refused(host: Host, where: str, sha256: str) -> None:
    """Nothing is fetched that is not pinned."""
    image(host)

    assert (2, []) == (install(host, sha256, where).returncode, calls(host))
