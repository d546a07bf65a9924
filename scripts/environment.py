"""Creates or refreshes one of the project's virtual environments: `environment.py NAME`.

Standard library only, because it runs before anything is installed. An environment is rebuilt when
its pins or its place change, or its interpreter is gone, and left alone otherwise: it keeps the
interpreter that it was made with, whichever `python3` calls this. uv installs where it can,
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
import time
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
    "docs": (TOOLS / "docs", "requirements/docs.txt"),
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
            if not is_ready(name):
                check_machine()
            check_git()
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


def is_ready(name: str) -> bool:
    """Return whether an environment has these pins in this place, and an interpreter that works."""
    folder, pins = ENVIRONMENTS[name]
    stamp = folder / ".pins"
    if not stamp.exists():
        return False
    made_of = stamp.read_text()
    return matches(made_of, (ROOT / pins).read_bytes(), folder) and _works(folder, made_of)


def _works(folder: Path, made_of: str) -> bool:
    """Return whether the interpreter of an environment starts, and is of the version that the
    environment was made with: an upgrade of the system may put another one in its place."""
    python = folder / "bin" / "python"
    try:
        done = subprocess.run(
            [str(python), "-E", "-S", "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0 and _version_of(made_of) == done.stdout.strip()


def _version_of(made_of: str) -> str:
    """Return the version in a fingerprint, as `3.11`."""
    _, _, after = made_of.partition(" ")
    return ".".join(after.split(" ", 1)[0].split(".")[:2])


def ensure(name: str) -> None:
    """Makes one environment ready. Two at once wait for each other.

    Raises:
        CalledProcessError: it cannot be installed.
        Missing: this machine's Python can make no environments.
        LinkedFolder: it is another checkout's. Nothing was touched.
    """
    if is_ready(name):
        return
    folder, pins = ENVIRONMENTS[name]
    for place in (TOOLS, folder):
        if place.is_symlink():
            raise LinkedFolder(
                f"{place} is a link to {place.readlink()}, and would be emptied there; "
                "remove the link "
                "and run this again, or use what it points to without make"
            )
    python = interpreter_of(folder)
    if python == sys.executable:
        check_python()
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_ready(name):
            return
        text = (ROOT / pins).read_text(encoding="utf-8")
        print(
            f"installing the environment {name}: {_count(text)} ...",
            file=sys.stderr,
            flush=True,
        )
        began = time.monotonic()
        stamp = folder / ".pins"
        stamp.unlink(missing_ok=True)
        _install(name, folder, ROOT / pins, python)
        stamp.write_text(fingerprint(text.encode(), folder, python))
        took = time.monotonic() - began
        print(f"installed the environment {name} in {took:.0f} s", file=sys.stderr, flush=True)


def interpreter_of(folder: Path) -> str:
    """Return the interpreter that an environment was made with; the one that runs this where there
    is no environment, or its interpreter is gone or too old."""
    try:
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return sys.executable
    settings = dict(line.split(" = ", 1) for line in lines if " = " in line)
    made_with = settings.get("executable", "")
    try:
        version = tuple(int(part) for part in settings.get("version", "").split(".")[:2])
    except ValueError:
        return sys.executable
    if version < LOWEST or not os.access(made_with, os.X_OK):
        return sys.executable
    return made_with


def _count(pins: str) -> str:
    """Return how many packages a file pins, as `1 package`."""
    names = [line for line in pins.splitlines() if "==" in line and line[:1].isalnum()]
    return f"{len(names)} {'package' if len(names) == 1 else 'packages'}"


def check_machine(version: tuple[int, ...] = sys.version_info[:2]) -> None:
    """Raises: Missing, when this Python is too old."""
    if version < LOWEST:
        have = f"{Path(sys.executable).name} is {'.'.join(map(str, version))}"
        raise Missing(
            f"Python 3.11 or newer is missing ({have}): "
            f"run `{_install_command('python3.11', 'python3.11-venv')}`, then make with "
            "PYTHON=python3.11"
        )


def check_git() -> None:
    """Raises: Missing, when there is no git, with what else is missing then."""
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


def fingerprint(pins: bytes, folder: Path, python: str = sys.executable) -> str:
    """Return what an environment was made of: its pins, the version and the path of its
    interpreter, and its place."""
    version = sys.version
    if python != sys.executable:
        question = "import sys; print(sys.version, end='')"
        version = subprocess.run(
            [python, "-c", question], check=True, capture_output=True, text=True
        ).stdout
    return f"{hashlib.sha256(pins).hexdigest()} {version} {python} {folder}"


def matches(made_of: str, pins: bytes, folder: Path) -> bool:
    """Return whether an environment of this fingerprint has these pins, and is in this place. Its
    place counts: the scripts in it name their interpreter's path."""
    digest = hashlib.sha256(pins).hexdigest()
    return made_of.startswith(f"{digest} ") and made_of.endswith(f" {folder}")


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


def _install(name: str, folder: Path, pins: Path, interpreter: str = sys.executable) -> None:
    """Make an environment with these pins and this interpreter. Raises: CalledProcessError."""
    has_pip = name in WITH_PIP
    options = () if has_pip else ("--without-pip",)
    subprocess.run([interpreter, "-m", "venv", "--clear", *options, str(folder)], check=True)
    python = str(folder / "bin" / "python")
    if name != "uv" and _install_with_uv(python, pins):
        return
    if not has_pip:
        subprocess.run(
            [python, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL
        )
    # On a terminal pip and uv draw their progress; elsewhere that would be lines and lines.
    quiet = () if sys.stderr.isatty() else ("--quiet",)
    command = [*_pip(python), "install", *quiet, "--require-hashes", "--no-input"]
    subprocess.run([*command, "-r", str(pins)], check=True, cwd=ROOT)


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
    command = [str(uv_folder / "bin" / "uv"), "pip", "install", "--require-hashes"]
    shows_progress = sys.stderr.isatty()
    if not shows_progress:
        command.append("--quiet")
    done = subprocess.run(
        [*command, "--python", python, "-r", str(pins)],
        check=False,
        env={**os.environ, **uv_settings(config.stdout, os.environ)},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=None if shows_progress else subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        reason = ((done.stderr or "").strip().splitlines() or ["see above"])[0]
        print(
            f"uv could not install ({reason}); pip does it, which takes longer",
            file=sys.stderr,
            flush=True,
        )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
