"""The package of the command line: whole by itself, with the versions that are tested, and no
more."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from cli.governor import COMMANDS
from governor import __version__
from tests.unit.test_repository import imports, within

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def packaged() -> Iterator[tuple[Path, Path]]:
    """The files that go into the wheel, and their places there."""
    for folder in WHEEL["packages"]:
        for path in sorted((ROOT / folder).rglob("*")):
            excluded = any(fnmatch(str(path.relative_to(ROOT)), one) for one in WHEEL["exclude"])
            if path.is_file() and "__pycache__" not in path.parts and not excluded:
                yield path, Path(folder).name / path.relative_to(ROOT / folder)


def test_it_depends_on_what_the_layer_ships_on_boto3_and_on_rich() -> None:
    """Each pin of the requirements and its later patches: one list made from the other."""
    layer = (
        (ROOT / "layers" / "shared" / "requirements.in").read_text(encoding="utf-8").splitlines()
    )
    mine = (ROOT / "requirements" / "project.in").read_text(encoding="utf-8").splitlines()
    own = [line for line in mine if line.startswith(("boto3==", "rich=="))]
    pins = [line.strip() for line in (*layer, *own)]

    assert sorted(pin.replace("==", "~=") for pin in pins if pin and pin[0] != "#") == sorted(
        PROJECT["project"]["dependencies"]
    )


def test_its_version_is_the_product_s() -> None:
    assert __version__ == PROJECT["project"]["version"]
    assert f"  GPU Governor {__version__}: " in (ROOT / "template.yaml").read_text(encoding="utf-8")


def test_nothing_in_it_needs_what_is_not() -> None:
    """A command that reached for a module of the clone alone would fail where the package is
    installed."""
    absent = {name.removesuffix(".py").replace("/", ".") for name in WHEEL["exclude"]}
    absent |= {path.name for path in ROOT.iterdir() if path.is_dir()} - set(WHEEL["packages"])
    for path, _ in packaged():
        if path.suffix == ".py":
            assert set() == within(imports(path.read_text(encoding="utf-8")), *absent), path


def test_what_it_leaves_out_exists() -> None:
    """A renamed module would be shipped without a word."""
    assert [] == [name for name in WHEEL["exclude"] if not (ROOT / name).is_file()]


_ALL_HELP = """
import sys
from cli import governor
for line in [["--version"], *([name, "--help"] for name in governor.COMMANDS)]:
    try:
        governor.main(line)
    except SystemExit as ended:
        assert not ended.code, line
"""


def test_every_command_is_there_without_the_clone(tmp_path: Path) -> None:
    """In a folder with the files of the wheel and nothing else of this repository."""
    for path, place in packaged():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", _ALL_HELP],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    assert done.stdout.startswith(f"gpu-governor {__version__}\n")
    assert [] == [name for name in COMMANDS if f"usage: governor {name}" not in done.stdout]
