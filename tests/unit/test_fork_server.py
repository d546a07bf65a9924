"""Modules that the fork server loads before it forks must not depend on the environment: forks have
another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys, traceback
from collections.abc import MutableMapping
from local.engine.workers import fork_server

class Watched(MutableMapping):
    def __init__(self, real): self.real = real
    def _look(self, key):
        frames = [f.filename for f in traceback.extract_stack() if "/governor/" in f.filename]
        if frames and not key.startswith("PYDANTIC_"): print(key, "is read by", frames[-1])
    def __getitem__(self, key): self._look(key); return self.real[key]
    def __iter__(self): self._look("(all)"); return iter(self.real)
    def __len__(self): self._look("(all)"); return len(self.real)
    def __setitem__(self, key, value): self.real[key] = value
    def __delitem__(self, key): del self.real[key]

for library in fork_server.LIBRARIES:
    __import__(library)
os.environ = Watched(os.environ)
fork_server._import_below("governor")
print(len([name for name in sys.modules if name.startswith("governor.")]), "loaded")
print([name for name in sys.modules if name.split(".")[1:2] and name.split(".")[0] == "governor"
       and name.split(".")[1] in fork_server.READS_THE_ENVIRONMENT])
"""


def test_no_module_that_is_loaded_ahead_reads_the_environment() -> None:
    """Those that do, or import one that does, are left to the function processes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'layers/shared'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded, skipped = done.stdout.splitlines()[-2:]
    assert "" == done.stderr
    assert 2 == len(done.stdout.splitlines()), done.stdout
    assert int(loaded.split()[0]) > 50
    assert "[]" == skipped
