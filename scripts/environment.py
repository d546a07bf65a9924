"""Creates or refreshes one of the project's virtual environments: `environment.py NAME`.

Standard library only, because it runs before anything is installed. An environment is rebuilt when its pins
or the interpreter change, and left alone otherwise. uv installs where it can, because it takes seconds; plain
pip does where uv cannot (a machine whose pip knows a mirror that uv does not).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
ENVIRONMENTS = {
    "project": (ROOT / ".venv", "requirements/project.txt"),
    "cloud": (TOOLS / "cloud", "requirements/cloud.txt"),
    "sam": (TOOLS / "sam", "requirements/sam.txt"),
    "checkov": (TOOLS / "checkov", "requirements/checkov.txt"),
    "uv": (TOOLS / "uv", "requirements/uv.txt"),
}
LOWEST = (3, 11)


def main(names: list[str]) -> int:
    """Makes each named environment ready; returns the exit status."""
    if sys.version_info < LOWEST:
        print("Python 3.11 or newer is needed: set PYTHON to one", file=sys.stderr)
        return 2
    for name in names:
        if name not in ENVIRONMENTS:
            print(f"unknown environment {name!r}; one of {', '.join(ENVIRONMENTS)}", file=sys.stderr)
            return 2
        ensure(name)
    return 0


def ensure(name: str) -> None:
    """Makes one environment ready. Two at once wait for each other."""
    folder, pins = ENVIRONMENTS[name]
    TOOLS.mkdir(exist_ok=True)
    stamp, wanted = folder / ".pins", _fingerprint(ROOT / pins)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    with (TOOLS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        print(f"installing the environment {name} ...", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _install(name, folder, ROOT / pins)
        stamp.write_text(wanted)


def _fingerprint(pins: Path) -> str:
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    return f"{digest} {sys.version} {sys.executable}"


def _install(name: str, folder: Path, pins: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if name != "uv" and _install_with_uv(folder, pins):
        return
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
    subprocess.run(
        [*command, "--disable-pip-version-check", "--no-input", "-r", str(pins)], check=True, cwd=ROOT
    )


def _install_with_uv(folder: Path, pins: Path) -> bool:
    """Whether uv has installed the pins; pip is told nothing when it has not."""
    uv_folder, _ = ENVIRONMENTS["uv"]
    try:
        ensure("uv")
    except subprocess.CalledProcessError:
        return False
    environment = dict(os.environ)
    mirror = _pip_setting("global.index-url")
    if mirror:
        environment.setdefault("UV_DEFAULT_INDEX", mirror)
    certificates = os.environ.get("PIP_CERT") or _pip_setting("global.cert")
    if certificates:
        environment.setdefault("SSL_CERT_FILE", certificates)
    python = str(folder / "bin" / "python")
    command = [str(uv_folder / "bin" / "uv"), "pip", "install", "--quiet", "--require-hashes"]
    done = subprocess.run(
        [*command, "--python", python, "-r", str(pins)], check=False, env=environment, cwd=ROOT
    )
    return done.returncode == 0


def _pip_setting(name: str) -> str:
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", name], check=False, capture_output=True, text=True
    )
    return asked.stdout.strip() if asked.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
