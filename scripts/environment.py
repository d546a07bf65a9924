"""Creates or refreshes one of the project's virtual environments: `environment.py NAME`.

Standard library only, because it runs before anything is installed. An environment is rebuilt when
its pins, the interpreter or its place change, and left alone otherwise. uv installs where it can,
because it takes seconds; plain pip does where uv cannot (a machine whose pip knows a mirror that uv
does not).
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
ENVIRONMENTS = {
    "project": (ROOT / ".venv", "requirements/project.txt"),
    "cloud": (TOOLS / "cloud", "requirements/cloud.txt"),
    "sam": (TOOLS / "sam", "requirements/sam.txt"),
    "checkov": (TOOLS / "checkov", "requirements/checkov.txt"),
    "audit": (TOOLS / "audit", "requirements/audit.txt"),
    "custodian": (TOOLS / "custodian", "requirements/custodian.txt"),
    "browser": (TOOLS / "browser", "requirements/browser.txt"),
    "release": (TOOLS / "release", "requirements/release.txt"),
    "uv": (TOOLS / "uv", "requirements/uv.txt"),
}
WITH_PIP = frozenset({"project", "sam", "uv"})
"""Environments whose own programs call pip. The others get none where uv installs: to install pip
takes longer than all the rest."""
LOWEST = (3, 11)
# pip's setting -> uv's variable and the separator that uv wants in it.
_UV_NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}


class Missing(Exception):
    """This machine lacks something; the message names it and the command that installs it."""


class LinkedFolder(Exception):
    """An environment's place is a link: making it would empty the folder of another checkout."""


def main(names: list[str]) -> int:
    """Makes each named environment ready; returns the exit status."""
    for name in names:
        if name not in ENVIRONMENTS:
            print(
                f"unknown environment {name!r}; one of {', '.join(ENVIRONMENTS)}", file=sys.stderr
            )
            return 2
        try:
            check_machine()
            ensure(name)
        except Missing as error:
            print(error, file=sys.stderr)
            return 2
        except subprocess.CalledProcessError as error:
            print(f"the environment {name} could not be made: {error}", file=sys.stderr)
            return 1
        except LinkedFolder as error:
            print(f"the environment {name} is not made: {error}", file=sys.stderr)
            return 1
    return 0


def ensure(name: str) -> None:
    """Makes one environment ready. Two at once wait for each other.

    Raises:
        CalledProcessError: it cannot be installed.
        Missing: this machine's Python can make no environments.
        LinkedFolder: it is another checkout's. Nothing was touched.
    """
    folder, pins = ENVIRONMENTS[name]
    stamp, wanted = folder / ".pins", fingerprint((ROOT / pins).read_bytes(), folder)
    if _reads(stamp, wanted):
        return
    for place in (TOOLS, folder):
        if place.is_symlink():
            raise LinkedFolder(
                f"{place} is a link to {place.readlink()}, and would be emptied there; "
                "remove the link "
                "and run this again, or use what it points to without make"
            )
    check_python()
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _reads(stamp, wanted):
            return
        print(f"installing the environment {name} ...", file=sys.stderr, flush=True)
        stamp.unlink(missing_ok=True)
        _install(name, folder, ROOT / pins)
        stamp.write_text(wanted)


def check_machine(version: tuple[int, ...] = sys.version_info[:2]) -> None:
    """Raises: Missing, when this Python is too old or there is no git, with what else is missing
    then."""
    if version < LOWEST:
        have = f"{Path(sys.executable).name} is {'.'.join(map(str, version))}"
        raise Missing(
            f"Python 3.11 or newer is missing ({have}): "
            f"run `{_install_command('python3.11', 'python3.11-venv')}`, then make with "
            "PYTHON=python3.11"
        )
    if shutil.which("git") is None:
        # Whoever installs one package hears of the other now, not at the next call.
        lacking = ("git",) if _makes_environments() else ("git", _venv_package())
        are = "is" if len(lacking) == 1 else "are"
        raise Missing(f"{' and '.join(lacking)} {are} missing: run `{_install_command(*lacking)}`")


def check_python() -> None:
    """Raises: Missing, when this Python came without what makes environments, as on Debian and
    Ubuntu."""
    if not _makes_environments():
        package = _venv_package()
        raise Missing(
            f"{package} is missing: this Python can make no environment. Run "
            f"`{_install_command(package)}`"
        )


def _makes_environments() -> bool:
    try:
        importlib.import_module("ensurepip")
        importlib.import_module("venv")
    except ImportError:
        return False
    return True


def _venv_package() -> str:
    name = Path(sys.executable).name
    return f"{name if name.startswith('python3') else 'python3'}-venv"


def _install_command(*packages: str) -> str:
    """As this machine installs packages. Only Debian's Python comes without venv."""
    if shutil.which("apt-get"):
        return f"sudo apt-get install {' '.join(packages)}"
    names = [name for name in packages if not name.endswith("-venv")] or ["python3"]
    return f"{'brew' if shutil.which('brew') else 'sudo dnf'} install {' '.join(names)}"


def fingerprint(pins: bytes, folder: Path) -> str:
    """Return what an environment was made of. Its place counts: the scripts in it name their
    interpreter's path."""
    return f"{hashlib.sha256(pins).hexdigest()} {sys.version} {sys.executable} {folder}"


def uv_settings(pip_config: str, given: Mapping[str, str]) -> dict[str, str]:
    """uv's environment variables for what `pip config list` says, beside those that are given
    already.

    A variable that somebody has set for uv is left alone. Of pip's sections the later wins, as for
    pip: global, install, then its own environment variables.
    """
    found: dict[str, str] = {}
    for section in ("global", "install", ":env:"):
        for line in pip_config.splitlines():
            name, _, value = line.partition("=")
            where, _, key = name.strip().rpartition(".")
            if where == section and key in _UV_NAMES:
                variable, separator = _UV_NAMES[key]
                found[variable] = separator.join(str(ast.literal_eval(value)).split())
    if {"UV_INDEX", "UV_FIND_LINKS"} & found.keys():
        # pip looks at all indexes for each package. The hashes make that safe.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in found.items() if value and name not in given}


def _reads(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text() == wanted


def _install(name: str, folder: Path, pins: Path) -> None:
    """Make an environment with these pins. Raises: CalledProcessError."""
    has_pip = name in WITH_PIP
    options = () if has_pip else ("--without-pip",)
    subprocess.run([sys.executable, "-m", "venv", "--clear", *options, str(folder)], check=True)
    python = str(folder / "bin" / "python")
    if name != "uv" and _install_with_uv(python, pins):
        return
    if not has_pip:
        subprocess.run(
            [python, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL
        )
    subprocess.run(
        [*_pip(python), "install", "--quiet", "--require-hashes", "--no-input", "-r", str(pins)],
        check=True,
        cwd=ROOT,
    )


def _pip(python: str) -> tuple[str, ...]:
    """Return the command that starts pip in the environment of this interpreter."""
    return (python, "-m", "pip", "--disable-pip-version-check")


def _install_with_uv(python: str, pins: Path) -> bool:
    """Install the pins for this interpreter with uv, and return true. Return false if uv cannot:
    then pip has to do it."""
    uv_folder, _ = ENVIRONMENTS["uv"]
    try:
        ensure("uv")
    except (subprocess.CalledProcessError, LinkedFolder):
        print(
            "uv cannot be installed here; pip does it, which takes longer",
            file=sys.stderr,
            flush=True,
        )
        return False
    # pip reads the same configuration in every environment, and this one has pip.
    config = subprocess.run(
        [*_pip(str(uv_folder / "bin" / "python")), "config", "list"],
        check=True,
        capture_output=True,
        text=True,
    )
    command = [str(uv_folder / "bin" / "uv"), "pip", "install", "--quiet", "--require-hashes"]
    done = subprocess.run(
        [*command, "--python", python, "-r", str(pins)],
        check=False,
        env={**os.environ, **uv_settings(config.stdout, os.environ)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[0]
        print(
            f"uv could not install ({reason}); pip does it, which takes longer",
            file=sys.stderr,
            flush=True,
        )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
