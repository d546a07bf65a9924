"""How environments are made: when again, and what uv is told of pip's configuration."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import environment
from scripts.environment import fingerprint, matches, uv_settings

FOLDER = Path("place/.venv")
ROOT = Path(__file__).parents[2]


def _copied_to(folder: Path) -> Path:
    """Copy the parts of a fresh clone that `make` needs, and return their folder."""
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("scripts", "requirements", "cli"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return the parts of a fresh clone that `make` needs; nothing is installed in it."""
    return _copied_to(tmp_path)


@pytest.fixture(scope="module")
def unchanged_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone for tests whose targets fail before they change anything."""
    return _copied_to(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def clone_on_bare_debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return such a clone that finds a Python without ensurepip.

    The Makefile sets PYTHONPATH itself, so the stub is where this clone's own modules are looked
    for.
    """
    folder = _copied_to(tmp_path_factory.mktemp("clone"))
    _write_stub_of_ensurepip(folder / "layers" / "shared")
    return folder


def _write_stub_of_ensurepip(folder: Path) -> None:
    """Write a module without which no environment can be made, as Debian leaves it out."""
    (folder / "ensurepip").mkdir(parents=True)
    (folder / "ensurepip" / "__init__.py").write_text(
        "raise ImportError('No module named ensurepip')"
    )


def say_first(clone: Path, target: str, python: str = sys.executable, **environment: str) -> str:
    """The first line of a target that fails, with the Python that runs this test."""
    done = subprocess.run(
        ["make", "--silent", target, f"PYTHON={python}"],
        cwd=clone,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    return (done.stdout + done.stderr).splitlines()[0]


@pytest.fixture
def bare_debian(tmp_path: Path) -> dict[str, str]:
    """A Python without ensurepip, and apt-get."""
    _write_stub_of_ensurepip(tmp_path / "stub")
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text("#!/bin/sh\n")
    apt.chmod(0o755)
    return {"PATH": f"{apt.parent}:{os.environ['PATH']}", "STUB": str(tmp_path / "stub")}


MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = sorted(
    set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split()) - {"help", "clean"}
)
"""Whatever needs Python."""
TARGETS_OF_EACH_KIND = ("lint", "build", "env-docs")
"""`arguments` checks the machine for all targets but those of environments, which have one rule.
Each run of make starts Python twice."""


def test_every_target_checks_the_machine_first() -> None:
    """Or it would fail somewhere else, with a message of its own."""
    environments = [target for target in TARGETS if target.startswith("env-")]
    (rule,) = re.findall(r"^(env-.*): env-%:$", MAKEFILE, re.MULTILINE)
    assert sorted(rule.split()) == environments
    for target in set(TARGETS).difference(environments):
        first = re.findall(rf"^{target}: (?!export )([\w-]+)", MAKEFILE, re.MULTILINE)
        assert ["arguments"] == first, target


@pytest.mark.parametrize("target", TARGETS_OF_EACH_KIND)
def test_a_python_that_makes_no_environments_is_told_in_the_first_line(
    clone_on_bare_debian: Path, bare_debian: dict[str, str], target: str
) -> None:
    """Debian and Ubuntu split it off: the package and the command that installs it, nothing of
    pip."""
    said = say_first(clone_on_bare_debian, target, PATH=bare_debian["PATH"])

    name = Path(sys.executable).name
    package = f"{name if name.startswith('python3') else 'python3'}-venv"
    assert f"{package} is missing: this Python can make no environment." in said
    assert said.endswith(f"Run `sudo apt-get install {package}`")
    assert not (clone_on_bare_debian / ".venv").exists()


def test_a_machine_without_git_is_told(clone: Path, tmp_path: Path) -> None:
    """Tests ask it for the files of the project."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "make", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))

    assert say_first(clone, "lint", PATH=str(tools)).startswith("git is missing: run `")


def test_whatever_is_missing_is_named_at_once(
    clone: Path, bare_debian: dict[str, str], tmp_path: Path
) -> None:
    """Not one package at a time."""
    shutil.copytree(
        Path(bare_debian["STUB"]) / "ensurepip", clone / "layers" / "shared" / "ensurepip"
    )
    tools = tmp_path / "bin"
    for name in ("bash", "make", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))

    said = say_first(clone, "lint", PATH=str(tools))
    assert said.startswith("git and python3")
    assert re.fullmatch(r"git and (\S+-venv) are missing: run `sudo apt-get install git \1`", said)


@pytest.mark.parametrize("target", TARGETS_OF_EACH_KIND)
def test_a_machine_without_python_is_told(unchanged_clone: Path, target: str) -> None:
    """By make itself. The shell said of two targets that there is no such file."""
    said = say_first(unchanged_clone, target, python="python3-nowhere")
    assert said.startswith("python3-nowhere is missing: install")


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way to a newer one."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")

    with pytest.raises(environment.Missing) as missing:
        environment.check_machine((3, 10))
    assert "Python 3.11 or newer is missing" in str(missing.value)
    assert "sudo apt-get install python3.11 python3.11-venv" in str(missing.value)
    assert "PYTHON=python3.11" in str(missing.value)


def test_an_environment_of_the_same_pins_and_place_is_left_alone() -> None:
    """Otherwise every `make` would install. The stamps of the release before count, too."""
    earlier = f"{hashlib.sha256(b'a==1').hexdigest()} 3.11.7 (main) [GCC] /old/python3 {FOLDER}"

    assert matches(fingerprint(b"a==1", FOLDER), b"a==1", FOLDER)
    assert matches(earlier, b"a==1", FOLDER)


def test_other_pins_or_another_place_make_it_anew() -> None:
    """A moved folder's scripts name an interpreter that is no longer there."""
    made_of = fingerprint(b"a==1", FOLDER)

    assert not matches(made_of, b"a==2", FOLDER)
    assert not matches(made_of, b"a==1", Path("elsewhere/.venv"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an environment that is ready, made with the interpreter of this test."""
    folder = tmp_path / ".venv"
    (tmp_path / "requirements").mkdir()
    pins = tmp_path / "requirements" / "project.txt"
    pins.write_text("a==1\nb==2\n")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "TOOLS", tmp_path / ".tools")
    monkeypatch.setattr(
        environment, "ENVIRONMENTS", {"project": (folder, "requirements/project.txt")}
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (folder / ".pins").write_text(fingerprint(pins.read_bytes(), folder))
    return folder


def installations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the interpreters with which environments are made from now on."""
    made_with: list[str] = []

    def install(_: str, folder: Path, __: Path, interpreter: str) -> None:
        made_with.append(interpreter)
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(environment, "_install", install)
    monkeypatch.setattr(environment, "fingerprint", lambda *_: "made")
    return made_with


def test_another_python_on_path_rebuilds_nothing(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack that runs from it would lose its libraries."""
    made_with = installations(monkeypatch)
    for name, value in (("executable", "/usr/bin/python3.9"), ("version", "3.9.2 (main)")):
        monkeypatch.setattr(sys, name, value)

    assert 0 == environment.main(["project"])
    assert [] == made_with
    assert (made / "bin" / "python").exists()


def test_an_environment_is_made_again_with_its_own_interpreter(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its pins are others."""
    made_with = installations(monkeypatch)
    (made.parent / "requirements" / "project.txt").write_text("a==2\n")
    own = environment.interpreter_of(made)
    monkeypatch.setattr(sys, "executable", "/usr/bin/another-python3")

    assert 0 == environment.main(["project"])
    assert [own] == made_with
    assert Path(own).resolve() == Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


@pytest.mark.parametrize("lacks", ["its interpreter", "its version"])
def test_an_environment_whose_interpreter_is_gone_is_made_again(
    made: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """As after an upgrade of the system: with the Python that is there."""
    made_with = installations(monkeypatch)
    if lacks == "its interpreter":
        (made / "bin" / "python").unlink()
        (made / "pyvenv.cfg").write_text("executable = /gone/python3.11\nversion = 3.11.7\n")
    else:
        text = (made / ".pins").read_text()
        (made / ".pins").write_text(text.replace(sys.version, "3.10.1 (main)"))
        (made / "pyvenv.cfg").write_text("executable = /bin/sh\nversion = 3.10.1\n")

    assert 0 == environment.main(["project"])
    assert [sys.executable] == made_with


def test_an_installation_says_how_much_and_how_long(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Minutes of silence look like a hang."""
    installations(monkeypatch)
    (made / ".pins").unlink()

    assert 0 == environment.main(["project"])
    first, last = capsys.readouterr().err.splitlines()
    assert "installing the environment project: 2 packages ..." == first
    assert re.fullmatch(r"installed the environment project in \d+ s", last)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_installers_show_their_progress_on_a_terminal(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: is_terminal))
    environment._install("project", FOLDER, Path("pins.txt"))
    monkeypatch.setattr(environment, "_install_with_uv", lambda *_: False)
    environment._install("project", FOLDER, Path("pins.txt"))

    quiet = ["--quiet" in command for command in commands if "install" in command]
    assert [not is_terminal] * 2 == quiet


def test_uv_is_told_nothing_when_pip_knows_nothing() -> None:
    """uv's own defaults hold."""
    assert {} == uv_settings("", {})


def test_uv_learns_the_mirror_that_pip_uses() -> None:
    """Both from pip's file and from its variables; the variables win, as they do for pip."""
    config = (
        ":env:.index-url='https://b.invalid/simple'\nglobal.index-url='https://a.invalid/simple'\n"
    )
    assert {"UV_DEFAULT_INDEX": "https://b.invalid/simple"} == uv_settings(config, {})


def test_several_indexes_are_all_searched() -> None:
    """pip takes the best of all indexes: uv must not stop at the first that knows a name."""
    config = "global.extra-index-url='\\nfile:///a\\nfile:///b'\nglobal.find-links='/c /d'\n"
    expected = {
        "UV_INDEX": "file:///a file:///b",
        "UV_FIND_LINKS": "/c,/d",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert expected == uv_settings(config, {})


def test_what_is_set_for_uv_is_left_alone() -> None:
    """Somebody meant it."""
    config = "global.index-url='https://a.invalid/simple'\nglobal.cert='/c.pem'\n"
    assert {"UV_DEFAULT_INDEX": "https://a.invalid/simple"} == uv_settings(
        config, {"SSL_CERT_FILE": "/x"}
    )


def test_settings_that_are_not_about_where_packages_are_stay_with_pip() -> None:
    """A time-out or another command's index means nothing to `uv pip install`."""
    assert {} == uv_settings("global.timeout='60'\ndownload.index-url='https://a.invalid'\n", {})


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that an installation starts; each does nothing."""
    started: list[list[str]] = []

    def start(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(list(command))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(environment, "ensure", lambda _: None)
    monkeypatch.setattr(subprocess, "run", start)
    return started


@pytest.mark.parametrize(("name", "has_pip"), [("cloud", False), ("project", True), ("sam", True)])
def test_an_environment_that_never_calls_pip_gets_none_where_uv_installs(
    commands: list[list[str]], name: str, has_pip: bool
) -> None:
    """To install pip took more processor time than to install all pins."""
    environment._install(name, FOLDER, Path("pins.txt"))

    made, *_, installed = commands
    assert ("--without-pip" in made) is not has_pip
    assert ["pip", "install"] == installed[1:3]
    assert installed[0].endswith("uv")
    assert not any("ensurepip" in command for command in commands)


@pytest.mark.parametrize(("name", "has_pip"), [("cloud", False), ("project", True)])
def test_where_uv_cannot_install_pip_does(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, name: str, has_pip: bool
) -> None:
    """It is installed first if the environment has none."""
    monkeypatch.setattr(environment, "_install_with_uv", lambda *_: False)

    environment._install(name, FOLDER, Path("pins.txt"))

    assert has_pip is not any("ensurepip" in command for command in commands)
    assert ["-m", "pip"] == commands[-1][1:3]
    assert ["-r", "pins.txt"] == commands[-1][-2:]


@pytest.mark.parametrize("linked", [".venv", ".tools"])
def test_what_a_link_points_to_is_never_emptied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, linked: str
) -> None:
    """It is somebody else's: `venv --clear` would take the environment of another checkout."""
    checkout, other = tmp_path / "checkout", tmp_path / "other"
    for folder in (checkout / "requirements", other / "bin"):
        folder.mkdir(parents=True)
    (checkout / "requirements" / "project.txt").write_text("")
    (other / "bin" / "python").write_text("theirs")
    (checkout / linked).symlink_to(other)
    monkeypatch.setattr(environment, "ROOT", checkout)
    monkeypatch.setattr(environment, "TOOLS", checkout / ".tools")
    monkeypatch.setattr(
        environment, "ENVIRONMENTS", {"project": (checkout / ".venv", "requirements/project.txt")}
    )
    monkeypatch.setattr(environment, "_install", lambda *_: pytest.fail("it installs"))

    assert 1 == environment.main(["project"])
    said = capsys.readouterr().err
    assert f"{checkout / linked} is a link to {other}" in said
    assert "remove the link" in said
    assert ["bin"] == [path.name for path in other.iterdir()]
    assert {"requirements", linked} == {path.name for path in checkout.iterdir()}
