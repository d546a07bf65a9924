"""The root of the command line: what may stand anywhere, what is said where something lacks, its
cost."""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from cli import aws, governor, uninstall
from cli.api import described
from cli.errors import CommandError
from cli.options import values
from cli.options.uninstall import REMOVABLE
from governor.policy.model.policy import Mode
from simulation.fetch import LONGEST_DAYS
from tests.unit.aws.fakes import client_error

ROOT = Path(__file__).parents[2]
HEAVY = (
    "boto3",
    "botocore",
    "pydantic",
    "yaml",
    "jinja2",
    "jwt",
    "governor.core",
    "governor.policy",
    "simulation",
)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_cost_next_to_nothing(option: str) -> None:
    """Under 0.3 s of processor time, by loading nothing that takes time."""
    code = (
        "import sys\nfrom cli.governor import main\n"
        f"try: main([{option!r}])\nexcept SystemExit: pass\n"
        f"print([one for one in {HEAVY!r} if one in sys.modules])"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'layers' / 'shared'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert done.stdout.endswith("\n[]\n")
    assert 0.3 > after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WRONG_LINES = [
    ["mode", "banana"],
    ["approvals", "keep", "notebook-7", "--until", "banana"],
    ["simulate", "--days", "900"],
    ["scan", "--fail-over", "banana"],
    ["advice", "--limit-usd", "banana"],
    ["polcy"],
    *[[name, "--banana"] for name in governor.COMMANDS],
]


@pytest.mark.parametrize("line", WRONG_LINES, ids=" ".join)
def test_a_wrong_line_loads_nothing_that_takes_time(line: list[str]) -> None:
    """`mode banana` took 1.5 s of processor time, as it loaded its command first."""
    code = (
        "import sys\nfrom cli.governor import main\n"
        f"try: main({line!r})\nexcept SystemExit as ended: assert ended.code == 2\n"
        f"print([one for one in {HEAVY!r} if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'layers' / 'shared'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "error: " in done.stderr
    assert "[]\n" == done.stdout


def test_values_of_options_are_those_of_the_modules_that_take_long_to_load() -> None:
    assert values.LONGEST_DAYS == LONGEST_DAYS
    assert values.MODES == tuple(mode.value for mode in Mode)
    removable = [kind for kind in uninstall._KINDS if kind not in uninstall._NEVER]
    by_name = [kind for kind in removable if kind not in uninstall._BY_FLAG]
    assert ["workflows", *by_name] == [*REMOVABLE]


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of all commands below."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from one._actions
                yield from actions(one)


@pytest.mark.parametrize("name", governor.COMMANDS)
def test_no_command_has_an_option_of_its_own_that_may_stand_anywhere(name: str) -> None:
    """Its default would hide what was given before the command's name."""
    common = {"profile", "region", "stack_name", "json"}
    found = [one for one in actions(governor.parser(name)) if one.dest in common]

    assert not found


@pytest.mark.parametrize("name", governor.COMMANDS)
def test_every_command_answers_for_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what it is about, as the list of all says."""
    with pytest.raises(SystemExit) as ended:
        governor.main([name, "--help"])
    assert 0 == ended.value.code
    said = " ".join(capsys.readouterr().out.split())
    assert governor.COMMANDS[name].help in said
    assert "--profile, --region, --stack-name and --json can be anywhere on the line" in said


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Return the parsers of a command and of those below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


@pytest.mark.parametrize("name", governor.COMMANDS)
def test_every_command_has_an_example_that_can_be_typed(name: str) -> None:
    """Those below it, too, each of itself."""
    (areas,) = [
        one for one in governor.parser(name)._actions if isinstance(one, argparse._SubParsersAction)
    ]
    for parser in parsers(areas.choices[name]):
        example = str(parser.epilog).partition("example: ")[2].partition("\n")[0]
        words = shlex.split(example)
        assert parser.prog.split() == words[: len(parser.prog.split())]
        assert name == governor.parsed(words[1:]).area


@pytest.mark.parametrize("name", governor.COMMANDS)
def test_help_and_usage_fit_a_terminal_of_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the commands below it, too. A wrong line prints the usage."""
    monkeypatch.setenv("COLUMNS", "80")
    for parser in parsers(governor.parser(name)):
        lines = [*parser.format_usage().splitlines(), *parser.format_help().splitlines()]
        assert [] == [line for line in lines if len(line) > 80]


def test_the_help_has_every_command_in_a_group_with_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        governor.main(["--help"])
    lines = capsys.readouterr().out.splitlines()

    assert 80 >= max(map(len, lines))
    for title, commands in governor.GROUPS.items():
        assert f"{title}:" in lines
        for name, command in commands.items():
            assert any(line.startswith(f"  {name} ") for line in lines)
            assert f"              $ governor {command.example}" in lines


@pytest.mark.parametrize("line", [[], ["help"], ["--json", "help"]], ids=" ".join)
def test_a_line_without_a_command_prints_the_help(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One without any word fails, since a script may have lost what it wanted to run."""
    with pytest.raises(SystemExit) as ended:
        governor.main(line)
    out, err = capsys.readouterr()
    code, shown = (0, out) if line else (2, err)
    assert code == ended.value.code
    assert all(f"{title}:" in shown for title in governor.GROUPS)


def test_help_takes_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["help", "policy", "check"], ["policy", "check", "--help"]):
        with pytest.raises(SystemExit) as ended:
            governor.main(line)
        assert 0 == ended.value.code
        assert "usage: governor policy check" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        governor.main(["help", "polcy"])
    assert "did you mean policy?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "--stack-name other --region eu-west-1 --profile p --json approvals show x",
        "approvals --stack-name=other show --region eu-west-1 x --profile p --json",
        "approvals show x --json --profile=p --region=eu-west-1 --stack-name other",
    ],
)
def test_common_options_stand_anywhere(line: str) -> None:
    given = governor.parsed(line.split())

    assert ("other", ["eu-west-1"], "p", True) == (
        given.stack_name,
        given.region,
        given.profile,
        given.json,
    )
    assert ("approvals", "show", "x") == (given.area, given.command, given.id)


_PARSER_MADE_ONCE = cache(governor.parser)
"""A parser keeps nothing of the lines that it has read."""


def leaves(parser: argparse.ArgumentParser, line: tuple[str, ...]) -> Iterator[list[list[str]]]:
    """Each command that can be run below, as parts of a line: an option with its value."""
    parts = [[one] for one in line]
    below: dict[str, argparse.ArgumentParser] = {}
    either = [one._group_actions[0] for one in parser._mutually_exclusive_groups if one.required]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
        elif action.required or action in either:
            value = str(next(iter(action.choices))) if action.choices else "x"
            is_flag = action.nargs == 0
            parts.append([*action.option_strings[:1], *([] if is_flag else [value])])
    if not below:
        yield parts
    for name, one in below.items():
        yield from leaves(one, (*line, name))


def every_line() -> Iterator[Any]:
    """Return the lines of every command and subcommand, by its name."""
    for name in governor.COMMANDS:
        top = governor.parser(name)
        (areas,) = [one for one in top._actions if isinstance(one, argparse._SubParsersAction)]
        for parts in leaves(areas.choices[name], (name,)):
            yield pytest.param(parts, id="-".join(word for part in parts for word in part))


@pytest.mark.parametrize("parts", [*every_line()])
@pytest.mark.parametrize(
    "option",
    [
        ["--profile", "p"],
        ["--profile=p"],
        ["--region", "eu-west-1"],
        ["--stack-name", "other"],
        ["--stack-name=other"],
        ["--json"],
    ],
)
def test_every_command_takes_each_common_option_at_each_place(
    parts: list[list[str]], option: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, between and after its words; and the rest of the line means what it meant."""
    monkeypatch.setattr(governor, "parser", _PARSER_MADE_ONCE)
    name, value = (
        option[0].strip("-").partition("=")[0].replace("-", "_"),
        option[-1].rpartition("=")[2],
    )
    wanted: object = {"region": [value], "json": True}.get(name, value)
    without = vars(governor.parsed([word for part in parts for word in part]))
    without = {key: one for key, one in without.items() if key != "run"}

    for place in range(len(parts) + 1):
        line = [*parts[:place], option, *parts[place:]]
        given = vars(governor.parsed([word for part in line for word in part]))
        found = {key: one for key, one in given.items() if key != "run"}
        assert {**without, name: wanted} == found


def test_what_follows_two_hyphens_is_no_option() -> None:
    given = governor.parsed(["approvals", "show", "--", "--json"])
    assert (False, "--json") == (given.json, given.id)


def test_one_region_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """But for commands over many."""
    line = ["--region", "us-east-1", "doctor", "--region", "eu-west-1"]
    assert ["us-east-1", "eu-west-1"] == governor.parsed(line).region
    with pytest.raises(SystemExit):
        governor.parsed(["--region", "us-east-1", "freezes", "--region", "eu-west-1"])
    assert "give --region once" in capsys.readouterr().err


def test_a_command_runs_with_its_profile_and_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the AWS CLI: keys in the environment are not the profile's; and nothing of it stays."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_DEFAULT_PROFILE", "other")
    names = (
        *("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"),
        "AWS_ACCESS_KEY_ID",
    )
    seen: list[list[str | None]] = []
    monkeypatch.setattr("cli.freezes.api_of", lambda _: seen.append([*map(os.environ.get, names)]))
    monkeypatch.setattr("cli.freezes._freezes", lambda *_: None)
    monkeypatch.setattr(governor, "check_first", lambda *_: None)
    before = dict(os.environ)

    assert 0 == governor.main(["freezes", "--region", "eu-west-1", "--profile", "p"])
    assert 0 == governor.main(["freezes"])

    assert ["p", None, "eu-west-1", "eu-west-1", None] == seen[0]
    assert [None, "other", "eu-north-1", "eu-north-1", "key"] == seen[1]
    assert before == dict(os.environ)


@pytest.mark.parametrize(
    ("line", "meant"),
    [("polcy check x", "policy"), ("policy chek x", "check"), ("approvals aprove x", "approve")],
)
def test_a_command_that_does_not_exist_is_guessed(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        governor.main(line.split())
    assert 2 == ended.value.code
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("approvals keep x --untill 7d", "there is no option --untill; did you mean --until?"),
        ("mode ask --dry-rn=1", "there is no option --dry-rn; did you mean --dry-run?"),
        ("status --jsn", "there is no option --jsn; did you mean --json?"),
        ("--stack=gpu freezes", "there is no option --stack; did you mean --stack-name?"),
        ("--stack gpu freezes", "there is no option --stack; did you mean --stack-name?"),
        ("--days 2 simulate", "there is no option --days before the command\n"),
        ("approvals list --whatever-this-is", "there is no option --whatever-this-is\n"),
        ("approvals list much", "unrecognized arguments: much"),
    ],
)
def test_an_option_that_does_not_exist_is_guessed(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of the command, or those that may stand anywhere."""
    with pytest.raises(SystemExit) as ended:
        governor.main(line.split())
    assert 2 == ended.value.code
    assert said in capsys.readouterr().err


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shell that knows nothing of AWS."""
    for name in [*os.environ]:
        if name.startswith("AWS_") or name == "GOVERNOR_API_URL":
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("nothing_set")
def test_an_error_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Credentials, the Region, the profile: one after the other."""

    def said(*more: str) -> str:
        assert 1 == governor.main(["freezes", *more])
        return capsys.readouterr().err

    assert "no credentials: sign in to AWS, then set AWS_PROFILE or pass --profile" in said()
    assert "(p) could not be found: pass --profile, or set AWS_PROFILE" in said("--profile", "p")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert "no Region: set AWS_REGION or pass --region" in said()


def test_a_stack_that_is_missing_is_said_with_its_region() -> None:
    refused = client_error("ValidationError", "Stack with id other does not exist")
    describe = mock.Mock(side_effect=refused)
    session: Any = SimpleNamespace(
        region_name="eu-west-1", client=lambda _: SimpleNamespace(describe_stacks=describe)
    )
    with pytest.raises(
        CommandError, match=r"no stack 'other' in eu-west-1 .*--stack-name, --region"
    ):
        described("other", session)


def test_the_first_of_many_regions_counts_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stack is in the Region of the shell; the instances are where the line says."""
    assert "us-east-1" == aws.session(["eu-west-1"]).region_name
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert "eu-west-1" == aws.session(["eu-west-1"]).region_name


PAGES = ("README.md", "docs/command-line.md", "docs/develop.md")


def test_the_docs_name_every_command() -> None:
    """Whoever adds one says what it does."""
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    assert [] == [name for name in governor.COMMANDS if f"governor {name}" not in "".join(pages)]
