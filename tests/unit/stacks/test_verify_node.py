"""Promises of the check of a node: it passes what is whole, names what is missing, and never
guesses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.embed import node_shapes
from tests.unit.stacks.hosts import Host, commands

RECORD = "/var/lib/gpu-governor/verify-node.json"
SHAPES = node_shapes()
ONE_OF_EACH_SHAPE = sorted({shape: name for name, shape in sorted(SHAPES.items())}.values())
# V100: each GPU has links to four others of the eight, as in NVIDIA's hybrid cube mesh.
CUBE_MESH = {
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 4),
    (1, 2),
    (1, 3),
    (1, 5),
    (2, 3),
    (2, 6),
    (3, 7),
    (4, 5),
    (4, 6),
}
CUBE_MESH |= {(4, 7), (5, 6), (5, 7), (6, 7)}


def matrix(gpus: int, links: str, missing: frozenset[tuple[int, int]] = frozenset()) -> str:
    """Return what `nvidia-smi topo -m` prints: tabs, an underlined header, rows of network cards, a
    legend."""

    def cell(a: int, b: int) -> str:
        pair = (min(a, b), max(a, b))
        if a == b:
            return " X "
        if (
            pair in missing
            or links == "none"
            or (links == "some" and gpus == 8 and pair not in CUBE_MESH)
        ):
            return "SYS"
        return "NV2" if links == "some" else "NV18"

    names = [f"GPU{index}" for index in range(gpus)]
    header = "\t" + "\t".join(f"\033[4m{name}\033[0m" for name in [*names, "NIC0", "CPU Affinity"])
    rows = [
        "\t".join([name, *(cell(a, b) for b in range(gpus)), "PXB", "0-47"])
        for a, name in enumerate(names)
    ]
    return "\n".join(
        [header, *rows, "NIC0\t" + "PXB\t" * gpus + " X ", "", "Legend:", "", "  X    = Self", ""]
    )


def smi(host: Host, gpus: int, topology: str, driver: str = "580.95.05") -> None:
    """The driver's tool."""
    host.path("/topology").write_text(topology, encoding="utf-8")
    listing = "".join(f"{index}, {driver}\\n" for index in range(gpus))
    host.binary(
        "nvidia-smi",
        f"""case "$*" in
  "--query-gpu=index,driver_version --format=csv,noheader") printf '{listing}' ;;
  "topo -m") cat {host.path("/topology")} ;;
  *) exit 2 ;;
esac""",
    )


def imds(host: Host, instance_type: str) -> None:
    """The metadata service, which wants its token."""
    host.binary(
        "curl",
        f"""case "$*" in
  *"-X PUT"*/api/token) echo secret ;;
  *"X-aws-ec2-metadata-token: secret"*/meta-data/instance-type) printf %s '{instance_type}' ;;
  *) echo 'curl: (22) The requested URL returned error: 401' >&2; exit 22 ;;
esac""",
    )


def efa(host: Host, domains: int) -> None:
    """libfabric's tool where EFA's installer puts it."""
    blocks = "".join(
        f"provider: efa\\n    fabric: efa\\n    domain: rdmap{n}s6-rdm\\n" for n in range(domains)
    )
    host.binary(
        "fi_info",
        f"[ \"$*\" = '-p efa' ] && printf '{blocks * 2}'",
        at="/opt/amazon/efa/bin/fi_info",
    )


def healthy(host: Host, instance_type: str) -> None:
    """A node of that type with all it should have."""
    gpus, has_efa, nvlink = SHAPES[instance_type]
    imds(host, instance_type)
    smi(host, gpus, matrix(gpus, nvlink))
    host.binary("systemctl", '[ "$*" = "is-active nvidia-fabricmanager" ] && echo active')
    if has_efa == "yes":
        efa(host, 2)


def verify(
    host: Host, wanted: str = "when-supported"
) -> tuple[int, dict[str, Any], dict[str, dict[str, str]]]:
    """Exit status, the whole record, and its checks by name. Record and output are the same."""
    done = host.run(commands("VerifyNodeDocument", Efa=wanted))
    record = json.loads(done.stdout)
    assert record == json.loads(host.path(RECORD).read_text(encoding="utf-8"))
    return done.returncode, record, {check["name"]: check for check in record["checks"]}


@pytest.mark.parametrize("instance_type", ONE_OF_EACH_SHAPE)
def test_a_whole_node_passes(host: Host, instance_type: str) -> None:
    """Nodes of every shape that AWS sells with NVIDIA GPUs."""
    healthy(host, instance_type)

    status, record, checks = verify(host)

    assert (0, "pass", instance_type) == (status, record["verdict"], record["instance_type"])
    gpus, has_efa, nvlink = SHAPES[instance_type]
    assert ("pass", str(gpus)) == (checks["gpu-count"]["result"], checks["gpu-count"]["detail"])
    assert ("pass" if has_efa == "yes" else "skip") == checks["efa"]["result"]
    assert ("skip" if nvlink == "none" else "pass") == checks["nvlink"]["result"]
    assert (nvlink == "all") == ("fabric-manager" in checks)
    assert ("pass", "580.95.05") == (checks["driver"]["result"], checks["driver"]["detail"])


def test_a_lost_gpu_fails(host: Host) -> None:
    """Seven of eight are paid for as eight."""
    healthy(host, "p5.48xlarge")
    smi(host, 7, matrix(7, "all"))

    status, record, checks = verify(host)

    assert (1, "fail") == (status, record["verdict"])
    assert "7 of 8 GPUs" in checks["gpu-count"]["detail"]
    assert "(7 of 8 GPUs in the matrix)" in checks["nvlink"]["detail"]


def test_more_gpus_than_the_type_has_fail(host: Host) -> None:
    """Then the table is wrong, and somebody should know."""
    healthy(host, "g5.xlarge")
    smi(host, 2, matrix(2, "none"))

    assert (1, "fail") == (verify(host)[0], verify(host)[2]["gpu-count"]["result"])


def test_a_pair_without_nvlink_fails_behind_nvswitch(host: Host) -> None:
    """And is named."""
    healthy(host, "p4d.24xlarge")
    smi(host, 8, matrix(8, "all", frozenset({(2, 5)})))

    status, _, checks = verify(host)

    assert (1, "fail") == (status, checks["nvlink"]["result"])
    assert "GPU2-GPU5=SYS GPU5-GPU2=SYS" in checks["nvlink"]["detail"]


def test_a_gpu_without_any_nvlink_fails_in_a_cube_mesh(host: Host) -> None:
    """Pairs without one are normal there."""
    healthy(host, "p3.16xlarge")
    smi(host, 8, matrix(8, "some", frozenset(pair for pair in CUBE_MESH if 4 in pair)))

    status, _, checks = verify(host)

    assert (1, "fail") == (status, checks["nvlink"]["result"])
    assert "no NVLink: GPU4 ;" in checks["nvlink"]["detail"]


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_nvswitch_without_fabric_manager_fails(host: Host, state: str) -> None:
    """CUDA does not start without it."""
    healthy(host, "p5en.48xlarge")
    host.binary("systemctl", f"echo {state}; exit 3")

    status, _, checks = verify(host)

    assert (1, True) == (status, f"is {state};" in checks["fabric-manager"]["detail"])


def test_a_type_with_efa_fails_without_its_software(host: Host) -> None:
    """And says what to install."""
    healthy(host, "p5.48xlarge")
    host.path("/opt/amazon/efa/bin/fi_info").unlink()

    status, _, checks = verify(host)

    assert (1, "fail") == (status, checks["efa"]["result"])
    assert "install the EFA software" in checks["efa"]["detail"]


def test_a_type_with_efa_fails_without_its_interface(host: Host) -> None:
    """libfabric's own words are kept."""
    healthy(host, "p5.48xlarge")
    host.binary(
        "fi_info",
        "echo 'fi_getinfo: -61 (No data available)' >&2; exit 61",
        at="/opt/amazon/efa/bin/fi_info",
    )

    status, _, checks = verify(host)

    assert (1, True) == (status, "-61 (No data available)" in checks["efa"]["detail"])


def test_efa_can_be_left_out(host: Host) -> None:
    """For nodes that go without by choice; nothing else is left out with it."""
    healthy(host, "g5.12xlarge")
    host.path("/opt/amazon/efa/bin/fi_info").unlink()

    status, _, checks = verify(host, "skip")

    assert (0, "skip", "pass") == (status, checks["efa"]["result"], checks["gpu-count"]["result"])


def test_a_node_without_driver_fails(host: Host) -> None:
    """However many GPUs it has."""
    healthy(host, "g5.xlarge")
    host.without("nvidia-smi")

    status, record, checks = verify(host)

    assert (1, "fail", "fail") == (status, record["verdict"], checks["driver"]["result"])
    assert "gpu-count" not in checks


def test_a_driver_that_fails_says_why(host: Host) -> None:
    """In its own words, made safe for the record."""
    healthy(host, "g5.xlarge")
    host.binary(
        "nvidia-smi", """echo 'NVIDIA-SMI has "failed", driver\\library mismatch'; exit 18"""
    )

    status, _, checks = verify(host)

    assert 1 == status
    assert (
        "nvidia-smi failed: NVIDIA-SMI has failed, driverlibrary mismatch"
        == checks["driver"]["detail"]
    )


@pytest.mark.parametrize(
    "instance_type", ["p9.48xlarge", "m7i.large", "trn1.2xlarge", "g4ad.xlarge"]
)
def test_a_type_that_is_not_known_is_unknown(host: Host, instance_type: str) -> None:
    """Not whole, and not broken."""
    healthy(host, "g5.xlarge")
    imds(host, instance_type)

    status, record, checks = verify(host)

    assert (2, "unknown") == (status, record["verdict"])
    assert f"{instance_type} is not in the table" in checks["instance-type"]["detail"]


def test_without_metadata_the_node_is_unknown(host: Host) -> None:
    """A host whose metadata service is off cannot be compared with anything."""
    healthy(host, "g5.xlarge")
    host.binary("curl", "echo 'curl: (28) timed out' >&2; exit 28")

    status, record, checks = verify(host)

    assert (2, "unknown", "unknown") == (status, record["verdict"], record["instance_type"])
    assert "IMDSv2 did not answer: curl: (28) timed out" == checks["instance-type"]["detail"]


def test_a_failure_outweighs_what_is_unknown(host: Host) -> None:
    """Both at once are a failure."""
    imds(host, "p9.48xlarge")

    assert (1, "fail") == (verify(host)[0], verify(host)[1]["verdict"])


def test_a_record_that_cannot_be_written_is_told(host: Host) -> None:
    """The verdict is still printed."""
    healthy(host, "g5.xlarge")
    host.path(RECORD).mkdir()
    (host.path(RECORD) / "in-the-way").touch()
    host.path(RECORD + ".new").mkdir()

    done = host.run(commands("VerifyNodeDocument", Efa="when-supported"))

    assert (3, "pass") == (done.returncode, json.loads(done.stdout)["verdict"])


def test_wrong_arguments_are_refused(host: Host) -> None:
    """Before anything is looked at."""
    done = host.run(commands("VerifyNodeDocument", Efa="maybe"))

    assert (2, True) == (done.returncode, "usage" in done.stderr)
    assert not host.path(RECORD).exists()
