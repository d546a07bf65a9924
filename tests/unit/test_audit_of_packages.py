"""`make audit` proves nothing it has not looked up; the security linter has no exception without a
reason."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNKNOWN = "ERROR:pip_audit._cli:uv: Dependency not found on PyPI and could not be audited: uv (1)"
FOUND = "Found 1 known vulnerability in 1 package"


@pytest.mark.parametrize(
    ("says", "status", "last"),
    [
        ("exit 0", 0, "requirements/uv.txt: no known vulnerabilities"),
        (
            f"echo '{FOUND}'; exit 1",
            1,
            "Raise the packages named above: make lock, then make check.",
        ),
        (f"echo '{UNKNOWN}'; exit 1", 2, "Not everything was audited, so nothing is proved."),
        (
            "echo 'requests.exceptions.ConnectionError: no route'; exit 1",
            2,
            "Not everything was audited",
        ),
    ],
)
def test_an_audit_is_green_only_where_everything_was_looked_up(
    tmp_path: Path, says: str, status: int, last: str
) -> None:
    """Behind a mirror that PyPI's answers do not pass, pip-audit alone says that nothing is
    known."""
    tool = tmp_path / "pip-audit"
    tool.write_text(f'#!/bin/sh\ncase "$*" in *--strict*) ;; *) exit 9 ;; esac\n{says}\n')
    tool.chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts" / "audit.sh"],
        env={"PATH": os.environ["PATH"], "AUDIT": str(tool)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert status == done.returncode
    assert done.stdout.splitlines()[-1].startswith(last)
    pins = [*ROOT.glob("requirements/*.txt"), ROOT / "layers/shared/requirements.txt"]
    assert all(f"{one.relative_to(ROOT)}: " in done.stdout for one in pins)


def test_no_exception_of_the_security_linter_is_without_a_reason() -> None:
    """In everything that runs outside of tests."""
    folders = (
        "layers",
        "functions",
        "agent/src",
        "cli",
        "local",
        "benchmarks",
        "simulation",
        "scripts",
    )
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"# noqa: [A-Z0-9, ]*S\d{3}", line) and not re.search(r"S\d{3} - \w", line)
    ]
    assert [] == lines
