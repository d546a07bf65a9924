"""Packs gpu-metrics-publisher for hosts that ask no index: `bundle_publisher.py FOLDER`.

The bundle holds the wheel of `agent/`, the wheels that `requirements/publisher.txt` pins, for every
Python that hosts may have, and the systemd unit. Prints its path and its checksum, which is all
that a host has to trust. The same sources give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGENT = ROOT / "agent"
PINS = ROOT / "requirements" / "publisher.txt"
_PIN = re.compile(
    r"^(?P<pin>[\w.-]+==[\w.]+)(?: ; (?P<marker>[^\\]+?))? \\\n(?P<hashes>(?:    .*\n)+)",
    re.MULTILINE,
)
_OLD, _NEW = "3.9", "3.13"
_EPOCH = 315_532_800
"""1980-01-01, the first day that a zip file, and so a wheel, can name."""


def pins(text: str) -> list[tuple[str, str]]:
    """Each pin of a requirements file as pip takes it, without its marker, and the Python to fetch
    it for.

    Raises:
        ValueError: a marker that is not about Python 3.10, below which the pins differ.
    """
    found = []
    for match in _PIN.finditer(text):
        marker = match["marker"] or ""
        if marker and not re.fullmatch(r"python_full_version (<|>=) '3\.10'", marker):
            raise ValueError(f"{match['pin']} is for {marker}; the bundle knows Python 3.10 alone")
        found.append((f"{match['pin']} \\\n{match['hashes']}", _OLD if "<" in marker else _NEW))
    return found


def packed(files: Mapping[str, bytes]) -> bytes:
    """A compressed archive of these files by name; the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, _EPOCH
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def wheels(folder: Path) -> None:
    """Puts all wheels into the folder. Raises: CalledProcessError."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(_EPOCH)}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    with tempfile.TemporaryDirectory() as copy:
        # Of a copy, since setuptools leaves its workings beside the sources.
        sources = shutil.copytree(AGENT, Path(copy) / "agent")
        own = [
            *pip,
            "wheel",
            "--no-deps",
            "--no-cache-dir",
            "--wheel-dir",
            str(folder),
            str(sources),
        ]
        subprocess.run(own, check=True, env=environment)
    for pin, python in pins(PINS.read_text(encoding="utf-8")):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as requirement:
            requirement.write(pin)
            requirement.flush()
            only = [
                "--no-deps",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "--python-version",
                python,
            ]
            fetch = [*pip, "download", *only, "--dest", str(folder), "-r", requirement.name]
            subprocess.run(fetch, check=True)


def main(arguments: list[str]) -> int:
    """Exit status: 0 made, 1 a wheel could not be had, 2 the call was wrong."""
    if len(arguments) != 1:
        print("usage: bundle_publisher.py FOLDER", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            wheels(Path(folder))
        except subprocess.CalledProcessError as error:
            print(f"a wheel could not be had: {error}", file=sys.stderr)
            return 1
        files = {f"wheels/{path.name}": path.read_bytes() for path in Path(folder).glob("*.whl")}
    for path in (AGENT / "systemd" / "gpu-metrics-publisher.service", AGENT / "README.md"):
        files[path.name] = path.read_bytes()
    (version,) = (
        name.split("-")[1] for name in files if name.startswith("wheels/gpu_metrics_publisher-")
    )
    content = packed(files)
    target = Path(arguments[0]) / f"gpu-metrics-publisher-{version}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    print(f"{target}\n{hashlib.sha256(content).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
