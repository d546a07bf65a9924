"""Generated parts of the stacks agree with their sources, and the sources with those who know."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import moto
import pytest

from governor.core.catalog import shape_of
from scripts.embed import node_shapes, wanted, with_scripts
from tests.unit.stacks.hosts import Host, commands


def test_no_copy_is_stale() -> None:
    """Else: `python scripts/embed.py`."""
    stale = [
        path.name for path, text in wanted().items() if path.read_text(encoding="utf-8") != text
    ]

    assert [] == stale


def test_every_script_of_the_hosts_is_in_a_stack() -> None:
    """Nothing is tested and not deployed."""
    scripts = sorted((Path(__file__).parents[3] / "stacks" / "scripts").glob("*.sh"))
    stacks = "".join(text for path, text in wanted().items() if path.suffix == ".yaml")

    assert [] == [path.name for path in scripts if f"# BEGIN {path.name}\n" not in stacks]


def test_a_script_is_put_in_as_it_stands() -> None:
    """Indented as its place is, without blanks at the ends of lines; the rest is left alone."""
    stack = "a:\n  - |\n    # BEGIN x.sh\n    old\n    # END x.sh\nb: 1\n"

    filled = with_scripts(stack, lambda name: f"echo {name}\n\nif\n  true\n")

    assert (
        "a:\n  - |\n    # BEGIN x.sh\n    echo x.sh\n\n    if\n      true\n    # END x.sh\nb: 1\n"
        == filled
    )
    assert filled == with_scripts(filled, lambda name: f"echo {name}\n\nif\n  true\n")


def test_the_node_check_knows_every_nvidia_type_of_the_catalog(host: Host) -> None:
    """With its number of GPUs, asked of the deployed script itself."""
    script = commands("VerifyNodeDocument", Efa="skip")
    table = script[script.index("shape() {") : script.index("instance_type() {")]
    questions = "".join(f'printf "%s " {name}; shape {name}\n' for name in sorted(node_shapes()))

    done = host.run(f"{table}\n{questions}")

    answers = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert {
        name: [str(gpus), efa, nvlink] for name, (gpus, efa, nvlink) in node_shapes().items()
    } == answers


def test_efa_is_what_ec2_says_of_the_types() -> None:
    """In the dump of DescribeInstanceTypes that moto ships; types that have left it have no EFA."""
    dump = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    types = json.loads(gzip.decompress(dump.read_bytes()))

    told = {
        name: "yes" if types.get(name, {}).get("NetworkInfo", {}).get("EfaSupported") else "no"
        for name in node_shapes()
    }
    assert told == {name: efa for name, (_, efa, _) in node_shapes().items()}


def test_the_number_of_gpus_is_the_governors_own() -> None:
    """Sweep and node check never disagree, for every type."""
    for name, (gpus, _, _) in node_shapes().items():
        shape = shape_of(name)
        assert shape is not None
        assert shape.accelerator_count == gpus


@pytest.mark.parametrize(
    ("nvlink", "is_so"),
    [
        (
            "all",
            lambda name: (
                name.split(".")[0] in {"p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300"}
            ),
        ),
        ("some", lambda name: name.split(".")[0] in {"p3", "p3dn"}),
    ],
)
def test_nvlink_is_between_gpus_of_training_machines(
    nvlink: str, is_so: Callable[[str], bool]
) -> None:
    """NVSwitch since the A100, a mesh of V100s before; never where there is but one GPU."""
    shapes = node_shapes()
    wanted_types = {name for name, (gpus, _, _) in shapes.items() if gpus > 1 and is_so(name)}

    assert wanted_types == {name for name, shape in shapes.items() if shape[2] == nvlink}
