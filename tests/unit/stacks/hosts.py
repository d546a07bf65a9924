"""A host made of a folder: what is deployed runs in it, with fake binaries on a PATH of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.unit.template.machines import ROOT, template

SCRIPTS = ROOT / "stacks" / "scripts"
TELEMETRY = template("stacks/telemetry.yaml")
FLEET = template("stacks/gpu_fleet.yaml")
# What the scripts may take for granted on every Linux host.
_TOOLS = (
    *(
        "awk",
        "bash",
        "cat",
        "cksum",
        "cmp",
        "cp",
        "cut",
        "date",
        "flock",
        "grep",
        "gzip",
        "ln",
        "mkdir",
        "mv",
        "readlink",
        "rm",
        "sed",
        "setsid",
        "sh",
        "sha256sum",
    ),
    *("sleep", "sort", "stat", "tar", "timeout", "tr", "true", "uname", "wc"),
)
_SYSTEM_PATHS = re.compile(
    r"(?<![\w.])(?=/etc/gpu-|/etc/os-release|/etc/systemd|/opt/[ag]|/run/gpu|/usr/bin/nvidia|/var/l)"
)


def content(document: str) -> dict[str, Any]:
    """A document of the telemetry stack."""
    found: dict[str, Any] = TELEMETRY["Resources"][document]["Properties"]["Content"]
    return found


def commands(document: str, **parameters: str) -> str:
    """Return what Systems Manager runs for this document, with its parameters put in as Systems
    Manager does."""
    (step,) = content(document)["mainSteps"]
    text = "\n".join(step["inputs"]["runCommand"])
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: parameters[match[1]], text)


class Host:
    """Folders and binaries of one host. Of the machine that tests run on it has basic tools
    only."""

    def __init__(self, root: Path, shell: str = "sh") -> None:
        self.root = root
        self.shell = shell
        self.bin = root / "bin"
        self.bin.mkdir()
        for tool in _TOOLS:
            found = shutil.which(tool)
            assert found, f"{tool} is missing on this machine"
            (self.bin / tool).symlink_to(found)

    def path(self, absolute: str) -> Path:
        """Return where a path of the host is, its folder made."""
        found = self.root / absolute.lstrip("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def binary(self, name: str, body: str, at: str | None = None) -> None:
        """A fake binary: a shell script, on the PATH or at an absolute path."""
        path = self.bin / name if at is None else self.path(at)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def without(self, name: str) -> None:
        """Takes a binary away."""
        (self.bin / name).unlink()

    def run(
        self, text: str, *arguments: str, owner: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a script. `owner` is whom the hook must belong to instead of root: tests run as
        anybody."""
        text = _SYSTEM_PATHS.sub(str(self.root), text)
        text = text.replace("\nowner=0\n", f"\nowner={os.getuid() if owner is None else owner}\n")
        script = self.root / "script"
        script.write_text(text, encoding="utf-8")
        return subprocess.run(
            [str(self.bin / self.shell), str(script), *arguments],
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
