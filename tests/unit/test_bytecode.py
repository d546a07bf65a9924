"""Modules of layers are compiled once for all engines, by their text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from local.engine.workers.bytecode import keep_by_text

folder, kept, may_compile = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "yes"
if not may_compile:
    def refuse(*_): raise AssertionError("it is compiled again")
    SourceFileLoader.source_to_code = refuse
keep_by_text(folder, kept)
sys.path.insert(0, str(folder))
import package.module
print(package.module.which(), package.module.which.__code__.co_filename)
"""


def imported(folder: Path, kept: Path, *, may_compile: bool, text: str = "'it'") -> str:
    """Import a module in a process of its own, as an engine does; return what it says."""
    package = folder / "package"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(f"def which():\n    return {text}\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(kept), "yes" if may_compile else "no"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    return done.stdout.strip()


def test_a_module_is_compiled_once_wherever_it_lies(tmp_path: Path) -> None:
    """Tracebacks name the file that was imported. Nothing is written beside it."""
    first, second, kept = tmp_path / "first", tmp_path / "second", tmp_path / "kept"

    imported(first, kept, may_compile=True)
    said = imported(second, kept, may_compile=False)

    assert f"it {second / 'package' / 'module.py'}" == said
    assert [] == list(tmp_path.rglob("__pycache__"))


def test_another_text_is_another_module(tmp_path: Path) -> None:
    """At the same place, too."""
    folder, kept = tmp_path / "folder", tmp_path / "kept"

    imported(folder, kept, may_compile=True)

    assert imported(folder, kept, may_compile=True, text="'more'").startswith("more ")


def test_what_was_kept_and_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    """A disk that was full, for example."""
    folder, kept = tmp_path / "folder", tmp_path / "kept"
    imported(folder, kept, may_compile=True)
    for one in kept.iterdir():
        one.write_bytes(one.read_bytes()[:7])

    assert imported(folder, kept, may_compile=True).startswith("it ")
    assert imported(folder, kept, may_compile=False).startswith("it ")
