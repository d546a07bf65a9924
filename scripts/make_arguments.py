"""Check what a call of make was given, before anything is installed, built or started.

Standard library only, because it runs first: `make_arguments.py GOAL ...`. The values of variables
come in the environment, as make hands them on; `MAKEFLAGS` has those of the command line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from cli.credentials import has_none, has_profile
from scripts import environment
from scripts.invoke_arguments import WrongArgumentError, given

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = (
    "REGION",
    "PROFILE",
    "STACK",
    "MODE",
    "SELECTOR",
    "ALERT_EMAIL",
    "POLICY",
    "PARAMETERS",
    "YES",
)
"""Variables of `make deploy`."""
VARIABLES: Mapping[str, Sequence[str]] = {
    "demo": ("APPROVE",),
    "test": ("RECORD",),
    "check": ("RECORD",),
    "check-all": ("RECORD",),
    "soak": ("SAMPLE",),
    "mutants": ("FILES",),
    "deploy": DEPLOY,
    "invoke": ("FUNCTION", "EVENT"),
    "evaluate": ("TRACES",),
    "release": ("TAG",),
}
"""The variables that a target takes; the others take none but PYTHON."""
_FOR_LAMBDA = ("build", "deploy", "release")
"""Targets that compile the layer for the Lambda runtime."""
_MODES = ("observe", "ask", "auto")
_REGION = re.compile(
    "[a-z]{2,4}(-[a-z]+)*-(central|(north|south)(east|west)?|east|west)-[0-9]{1,2}"
)
"""The shape of all Regions: `governor.core.regions` has a wider one, of any words. botocore, which
lists them, may not be installed yet."""
STACK_NAME = re.compile("[A-Za-z][A-Za-z0-9-]{0,31}")
"""Names of roles contain it, and members check the same (stacks/member.yaml)."""
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
"""An email address."""
NO_CREDENTIALS = (
    "there are no AWS credentials: set PROFILE=, or sign in (aws sso login, aws configure)"
)
NO_TERMINAL = (
    "there is no terminal to confirm the change set at: set YES=1 to carry it out without asking"
)
NO_STACK_NAME = "cannot be the stack's name: letters, digits and hyphens, at most 32; set STACK="


class WrongCall(Exception):
    """The problem, and what to type."""


def main(goals: Sequence[str], values: Mapping[str, str]) -> int:
    """Check a call of make. Return 0 if it can begin, and 2, with the reason, if not."""
    name = f"make {' '.join(goals)}".rstrip()
    try:
        if not environment.is_ready("project"):
            environment.check_machine()
            environment.check_git()
            environment.check_python()
        _check_names(goals, values.get("MAKEFLAGS", ""))
        _check_values(goals, values)
        if "deploy" in goals:
            _check_confirmation(values)
        if not set(goals).isdisjoint(_FOR_LAMBDA):
            _check_runtime()
        if "deploy" in goals:
            _check_credentials(values)
        if "release" in goals:
            _check_release(values.get("TAG", ""))
    except environment.Missing as error:
        print(error, file=sys.stderr)
        return 2
    except (WrongCall, WrongArgumentError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return 0


def _check_names(goals: Sequence[str], flags: str) -> None:
    """Check that each variable on the command line is one that these targets read.

    Raises:
        WrongCall: it would be ignored, as a slip of the keyboard is.
    """
    known = ["PYTHON"]
    for goal in goals:
        known += VARIABLES.get(goal, ())
    for name in names_in(flags):
        if name in known:
            continue
        near = get_close_matches(name, known, n=1)
        question = f"; did you mean {near[0]}?" if near else "."
        raise WrongCall(f"there is no variable {name}{question} Known: {', '.join(known)}")


def names_in(flags: str) -> list[str]:
    """Return the names of the variables on the command line, by the flags that make hands on."""
    _, _, line = f" {flags}".partition(" -- ")
    names = []
    for word in re.split(r"(?<!\\)\s+", line):
        name = re.split(r"\W", word)[0]
        if name:
            names.append(name)
    return names


def _check_values(goals: Sequence[str], values: Mapping[str, str]) -> None:
    """Check the values of the variables that these targets read.

    Raises:
        WrongCall, WrongArgumentError: one cannot be; it names what can.
    """
    for goal in goals:
        for name in VARIABLES.get(goal, ()):
            value = values.get(name, "")
            check = _CHECKS.get(name)
            if value and check is not None:
                check(value)
    if "invoke" in goals:
        given(values.get("FUNCTION", ""), values.get("EVENT", ""))


def _is_auto(value: str) -> None:
    if value != "auto":
        raise WrongCall(f"APPROVE={value}: leave it out, or set APPROVE=auto")


def _is_one(name: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value != "1":
            raise WrongCall(f"{name}={value}: leave it out, or set {name}=1")

    return check


def _is_positive(value: str) -> None:
    if not value.isdecimal() or int(value) < 1:
        raise WrongCall(f"SAMPLE={value}: set a number from 1 on; 1 tries every crash point")


def _is_there(name: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if not (ROOT / value).exists():
            raise WrongCall(f"{name}={value}: there is no such file or folder")

    return check


def _is_mode(value: str) -> None:
    if value not in _MODES:
        raise WrongCall(f"MODE={value}: set one of {', '.join(_MODES)}")


def _is_region(value: str) -> None:
    if not _REGION.fullmatch(value):
        raise WrongCall(f"REGION={value}: set one like us-east-1")


def _is_stack_name(value: str) -> None:
    if not STACK_NAME.fullmatch(value):
        raise WrongCall(f"{value!r} {NO_STACK_NAME}")


def _is_address(value: str) -> None:
    if not ADDRESS.fullmatch(value):
        raise WrongCall(f"ALERT_EMAIL={value}: set an address like ops@example.com")


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "APPROVE": _is_auto,
    "RECORD": _is_one("RECORD"),
    "SAMPLE": _is_positive,
    "TRACES": _is_there("TRACES"),
    "POLICY": _is_there("POLICY"),
    "YES": _is_one("YES"),
    "MODE": _is_mode,
    "REGION": _is_region,
    "STACK": _is_stack_name,
    "ALERT_EMAIL": _is_address,
}


def at_terminal() -> bool:
    """Return whether somebody sits at a terminal, who can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _check_confirmation(values: Mapping[str, str]) -> None:
    """Check that somebody can confirm a deploy, or need not.

    Raises:
        WrongCall: nobody can.
    """
    if not values.get("YES") and not at_terminal():
        raise WrongCall(NO_TERMINAL)


def _check_runtime() -> None:
    """Check for the Python of the Lambda runtime, with pip, which fetches the layer's libraries. A
    version manager's shim may stand for nothing.

    Raises:
        WrongCall: it is missing.
    """
    try:
        done = subprocess.run(
            [
                "python3.13",
                "-c",
                "import importlib.util, sys; sys.exit(not importlib.util.find_spec('pip'))",
            ],
            capture_output=True,
            check=False,
        )
        is_there = done.returncode == 0
    except OSError:
        is_there = False
    if not is_there:
        raise WrongCall(
            "python3.13 with pip is missing: the layer is compiled for that Lambda runtime. "
            "docs/lifecycle.md says how to get it"
        )


def _check_credentials(values: Mapping[str, str]) -> None:
    """Check that there may be AWS credentials. Only boto3, which is not installed yet, finds out
    what a profile's program or sign-in gives.

    Raises:
        WrongCall: there is no such profile, or there are certainly none.
    """
    found = dict(values)
    profile = values.get("PROFILE")
    if profile:
        if not has_profile(profile, values):
            raise WrongCall(f"PROFILE={profile}: there is no such profile in ~/.aws/config")
        # As in the AWS CLI, a profile that is named wins over keys in the environment.
        found.pop("AWS_ACCESS_KEY_ID", None)
    if has_none(found):
        raise WrongCall(NO_CREDENTIALS)


def _check_release(tag: str) -> None:
    """Check that this commit can be released.

    Raises:
        WrongCall: it cannot.
    """
    from scripts.release import NotReadyError, checked

    try:
        checked(tag)
    except NotReadyError as error:
        raise WrongCall(str(error)) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
