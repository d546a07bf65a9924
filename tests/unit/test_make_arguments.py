"""A mistake in a call of make costs less than a second: nothing is installed or started before."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from governor.core.regions import known_regions
from scripts import environment, make_arguments
from scripts.make_arguments import VARIABLES, main, names_in

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LISTED = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split()
TARGETS = [name for name in LISTED if name not in ("help", "clean") and not name.startswith("env-")]


NO_AWS = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
AWS = {**NO_AWS, "AWS_ACCESS_KEY_ID": "key"}


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environments are ready, the runtime is there, and the commit can be released."""
    monkeypatch.setattr(environment, "is_ready", lambda _: True)
    monkeypatch.setattr(make_arguments, "_check_runtime", lambda: None)
    monkeypatch.setattr(make_arguments, "_check_release", lambda _: None)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_checks_its_call_first(target: str) -> None:
    """Before its first environment is made."""
    (needs,) = re.findall(rf"^{target}: (?!export)(.*?)(?: ##|$)", MAKEFILE, re.MULTILINE)
    assert "arguments" == needs.split()[0]


def test_every_target_that_takes_a_variable_says_so() -> None:
    """The table names each variable that its recipe reads."""
    recipes = dict(re.findall(r"^([a-z-]+): (?!export)(.*\n(?:\t.*\n)*)", MAKEFILE, re.MULTILINE))
    known = {"VENV", "PYTHON", "BROWSER", "DOCS", "RELEASE", "SAM", "STACKS", "SOURCES"}
    found = {}
    for target in TARGETS:
        lines = "".join(recipes[target].splitlines(keepends=True)[1:])
        read = set(re.findall(r"(?:\$\(|if \$\(|or \$\()([A-Z]{3,})\)", lines)) - known
        if read:
            found[target] = read
    # The recipe of deploy hands on the environment.
    expected = {name: set(taken) for name, taken in VARIABLES.items() if name != "deploy"}
    assert expected == found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("demo APROVE=auto", "no variable APROVE; did you mean APPROVE? Known: PYTHON, APPROVE"),
        ("demo APPROVE=yes", "APPROVE=yes: leave it out, or set APPROVE=auto"),
        ("up APPROVE=auto", "no variable APPROVE. Known: PYTHON"),
        ("soak SAMPLE=0", "SAMPLE=0: set a number from 1 on"),
        ("evaluate TRACES=nowhere", "TRACES=nowhere: there is no such file"),
        ("deploy MODE=banana", "MODE=banana: set one of observe, ask, auto"),
        ("deploy REGION=virginia", "REGION=virginia: set one like us-east-1"),
        ("deploy REGION=us-esat-1", "REGION=us-esat-1: set one like us-east-1"),
        ("deploy STACK=gpu_governor", "'gpu_governor' cannot be the stack's name: letters,"),
        ("deploy ALERT_EMAIL=ops", "ALERT_EMAIL=ops: set an address like ops@example.com"),
        ("deploy PROFILE=wrok YES=1", "PROFILE=wrok: there is no such profile"),
        ("deploy YES=1", "there are no AWS credentials: set PROFILE=, or sign in"),
        ("deploy POLICY=nowhere.yaml", "POLICY=nowhere.yaml: there is no such file"),
        ("deploy REGOIN=us-east-1 YES=1", "no variable REGOIN; did you mean REGION?"),
        ("deploy ALERT_MAIL=x", "no variable ALERT_MAIL; did you mean ALERT_EMAIL?"),
        ("deploy region=us-east-1", "no variable region. Known: PYTHON, REGION"),
        ("invoke", "FUNCTION is missing: make invoke FUNCTION="),
        ("invoke FUNCTION=put_awy EVENT=x", "no such function; did you mean put_away?"),
        ("invoke FUNCTION=serve_api EVENT=x", "EVENT=x: there is no such file"),
    ],
)
def test_a_wrong_call_is_refused_with_what_would_be_right(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    goal, *assignments = line.split()
    values = dict(one.split("=") for one in assignments)

    assert 2 == main([goal], {**NO_AWS, **values, "MAKEFLAGS": f" -- {' '.join(assignments)}"})
    printed = capsys.readouterr()
    assert f"make {goal}: " in printed.err
    assert said in printed.err
    assert "" == printed.out


@pytest.mark.parametrize(
    "line",
    [
        "demo APPROVE=auto",
        "demo",
        "check RECORD=1",
        "soak SAMPLE=1",
        "mutants FILES=guards",
        "release TAG=v0.1.0",
        "deploy REGION=us-east-1 MODE=ask YES=1 PARAMETERS=A=b",
        "invoke FUNCTION=serve_api EVENT=events/serve_api/list.json",
        "lint PYTHON=python3.12",
    ],
)
def test_a_right_call_goes_on(line: str) -> None:
    goal, *assignments = line.split()
    values = dict(one.split("=", 1) for one in assignments)

    assert 0 == main([goal], {**AWS, **values, "MAKEFLAGS": f"s -- {' '.join(assignments)}"})


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("", []),
        ("-j4", []),
        (r"kw -- YES=1 POLICY=a\ b.yaml ALERT_MAIL=x", ["YES", "POLICY", "ALERT_MAIL"]),
        ("-j4 -- X=1", ["X"]),
    ],
)
def test_flags_of_make_are_no_variables(flags: str, names: list[str]) -> None:
    """A space in a value has a backslash before it."""
    assert names == names_in(flags)


@pytest.mark.parametrize(
    ("goal", "more", "said"),
    [
        ("invoke", ["FUNCTION=put_awy", "EVENT=x"], "did you mean put_away?"),
        ("build", [], "make build: python3.13 with pip is missing"),
        ("release", [], "make release: python3.13 with pip is missing"),
        ("deploy", ["YES=1"], "make deploy: python3.13 with pip is missing"),
        ("demo", ["APPROVE=yes"], "set APPROVE=auto"),
        (
            "deploy",
            ["REGION=us-east-1"],
            "there is no terminal to confirm the change set at: set YES=1",
        ),
        ("deploy", ["STACK=gpu_governor"], "cannot be the stack's name"),
    ],
)
def test_nothing_is_installed_for_a_wrong_call(
    tmp_path: Path, goal: str, more: list[str], said: str
) -> None:
    """In a fresh clone: `make invoke` with a slip took 129 s, `make build` without Python 3.13
    took 138 s."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("scripts", "requirements", "cli"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "functions" / "put_away").mkdir(parents=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "make", "git"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        ["make", goal, f"PYTHON={sys.executable}", *more],
        cwd=tmp_path,
        env={"PATH": str(tools), "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 2 == done.returncode
    assert said in done.stderr
    assert not (tmp_path / ".venv").exists()
    assert [] == [path.name for path in tmp_path.glob(".tools/*") if path.name != "bytecode"]


def test_every_region_that_botocore_lists_may_be_deployed_to() -> None:
    """And those that are not listed yet, by their shape."""
    for region in (*known_regions(), "eu-isoe-west-1", "us-southwest-12"):
        make_arguments._is_region(region)


def test_a_named_profile_wins_over_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile that names a program may have credentials; one with a Region alone has none."""
    config = tmp_path / "config"
    values = {**AWS, "AWS_CONFIG_FILE": str(config), "PROFILE": "work", "YES": "1"}
    config.write_text("[profile work]\nregion = eu-west-1\n")
    assert 2 == main(["deploy"], values)
    assert "there are no AWS credentials" in capsys.readouterr().err
    config.write_text("[profile work]\ncredential_process = tool\n")
    assert 0 == main(["deploy"], values)


@pytest.mark.parametrize("target", ["build", "env-project"])
def test_an_interpreter_that_does_not_start_is_named(tmp_path: Path, target: str) -> None:
    """A version manager's shim stands for a version that is not installed."""
    shim = tmp_path / "python3.9"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.9: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    done = subprocess.run(
        ["make", target, f"PYTHON={shim}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 2 == done.returncode
    assert f"{shim} is missing: install Python 3.11 or newer" in done.stdout
    assert "pyenv" not in done.stdout + done.stderr
