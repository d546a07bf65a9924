"""Every command of every page can be typed: it parses, and what a reader must replace is marked.

Nothing runs here. Lines of `governor` go to its own parser, those of `make` to what checks them
before a target begins, and those of `aws` to the models of the services. The commands of
docs/operate.md also run, in tests/integration/test_operate.py, and those of the other pages in
tests/integration/test_pages.py, which lists what is only parsed, and why.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from cli import governor
from local.engine.templates import load_template
from scripts import make_arguments
from tests.shell_blocks import PLACEHOLDER, ROOT, Typed, commands_of, parsed
from tests.unit.test_docs import PAGES

_UNMARKED = re.compile(r"\.\.\.|path/to|(?<![\w<\"{-])[A-Z]{3,}(?![\w>#=\"-])")
_COPY = "COPY"
"""A name that readers choose: it works as it stands."""
_WORDS_OF_AWS = {"SELF"}
_FILES_OF_READERS = {"policy.yaml", "many.yaml"}
"""Files that a page tells a reader to write."""
_FILE = re.compile(r"(?<![\w/.-])[\w-]+\.(?:yaml|json)\b")
_STARTS = ("governor", "bin/governor")
_OTHER_PROGRAMS = {
    "cp", "echo", "git", "journalctl", "pipx", "python3", "systemctl", "uvx",
    "/opt/gpu-metrics-publisher/bin/gpu-metrics-publisher",
    "/opt/gpu-metrics-publisher/bin/pip",
    ".tools/sam/bin/sam",
}  # fmt: skip
"""Programs whose lines are only split into words; paths of the repository in them must exist."""
_CLI_ONLY = {
    ("cloudformation", "deploy"): {
        "--stack-name", "--template-file", "--capabilities", "--parameter-overrides", "--region",
    },
    ("s3", "cp"): {"--recursive", "--exclude", "--include"},
}  # fmt: skip
"""Commands of the AWS CLI that are no operation of an API, and those of their options that pages
use."""
_OF_EVERY_OPERATION = {"--region", "--cli-input-json", "--profile", "--query"}


def commands() -> list[Typed]:
    """Return the commands in all `sh` blocks of all pages."""
    return [command for page in PAGES for command in commands_of(page)]


COMMANDS = commands()
IDS = [f"{command.page}:{command.line}" for command in COMMANDS]


def test_pages_have_commands() -> None:
    """Else the tests below would see none."""
    assert len(COMMANDS) > 80
    assert len({command.page for command in COMMANDS}) > 15


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_a_command_can_be_typed(command: Typed) -> None:
    """Its program, its subcommand and each of its options exist."""
    check(command.text)


@pytest.mark.parametrize(
    "text",
    [
        "governor polcy put policy.yaml",
        "governor policy put --now policy.yaml",
        "governor approvals keep",
        "make depoly",
        "make deploy REGOIN=us-east-1",
        "make deploy MODE=banana",
        "aws sqs purge-queues --queue-url <EventFailuresUrl>",
        "aws sqs purge-queue --queue <EventFailuresUrl>",
        "aws sqs purge-queue",
        "aws ssm send-command --cli-input-json file://stacks/samples/none.json",
        "aws cloudformation deploy --template-file stacks/member.yaml --parameter-overrides A=1",
        "uvx --from git+<URL> governor scna",
        "cp agent/none /etc",
        "curl example.com",
    ],
)
def test_a_command_with_a_slip_is_found(text: str) -> None:
    """A slip in a line of each program that has a check."""
    with pytest.raises((AssertionError, SystemExit, make_arguments.WrongCall)):
        check(text)


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_what_a_reader_replaces_is_in_angle_brackets(command: Typed) -> None:
    """docs/index.md says so. A word that is named like an output of the stack is one."""
    page = (ROOT / command.page).read_text(encoding="utf-8")
    written = set(re.findall(r"> ?([\w-]+\.\w+)$", page, re.MULTILINE))
    outputs = load_template(ROOT / "template.yaml")["Outputs"]
    named = [name for name in PLACEHOLDER.findall(command.text) if not name.isupper()]

    assert set() == unmarked(command.text) - written
    assert [] == [name for name in named if name not in outputs]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("governor policy accept VERSION", {"VERSION"}),
        ("aws s3 cp policy.yaml s3://BUCKET/policy.yaml", {"BUCKET"}),
        ("governor simulate --traces path/to/traces", {"path/to"}),
        ("governor simulate --policy a.yaml", {"a.yaml"}),
        ("uvx --from git+URL governor scan", {"URL"}),
        ('aws sqs purge-queue --queue-url "https://..."', {"..."}),
        ("governor policy accept <VERSION>  # as ALICE", set()),
    ],
)
def test_a_placeholder_without_brackets_is_found(text: str, found: set[str]) -> None:
    """As they stood on the pages before."""
    assert found == unmarked(text)


def unmarked(text: str) -> set[str]:
    """Return what a reader must replace in a command although it has no brackets."""
    bare = PLACEHOLDER.sub("", " ".join(shlex.split(text, comments=True)))
    words = {*_UNMARKED.findall(bare), *_FILE.findall(bare)}
    return words - _WORDS_OF_AWS - _FILES_OF_READERS - {_COPY}


def check(text: str) -> None:
    """Fail if this line, of one or more commands, has a program, subcommand or option that does not
    exist."""
    for command in parsed(PLACEHOLDER.sub(r"PLACEHOLDER_\1", text)):
        program, *words = command.words
        if program in _STARTS:
            _check_governor(words)
        elif program == "make":
            _check_make(words)
        elif program == "aws":
            _check_aws(words)
        else:
            assert program in _OTHER_PROGRAMS, f"say in this test how {program} is checked"
            _check_others(words)


def _check_governor(words: list[str]) -> None:
    """Fail if the command line would refuse these words; it ends the program then."""
    if words != ["--version"]:
        governor.parsed(words)


def _check_make(words: list[str]) -> None:
    """Fail if a target does not exist, or does not take these variables."""
    goals = [word for word in words if "=" not in word]
    values = dict(word.split("=", 1) for word in words if "=" in word)
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(goals) <= set(" ".join(phony).split())
    make_arguments._check_names(goals, f" -- {' '.join(f'{name}=x' for name in values)}")
    make_arguments._check_values(goals, values)


def _check_aws(words: list[str]) -> None:
    """Fail if the service, the operation or an option does not exist, or a file that it reads."""
    service, operation, *rest = words
    given = [word.partition("=")[0] for word in rest if word.startswith("--")]
    known, required = _CLI_ONLY.get((service, operation), set()), set[str]()
    if not known:
        if operation == "wait":
            operation = _operation_of_waiter(service, rest[0])
        known, required = _options(service, operation)
    assert [] == [option for option in given if option not in known]
    stated = {option.replace("--no-", "--", 1) for option in given}
    assert required <= stated or "--cli-input-json" in given
    for word in rest:
        if word.startswith("file://"):
            assert (ROOT / word.removeprefix("file://")).is_file(), word
    if operation == "deploy":
        _check_parameters(rest)


def _operation_of_waiter(service: str, name: str) -> str:
    """Return the operation that a waiter calls again and again."""
    waiters: Any = botocore.session.get_session().get_waiter_model(service)
    by_name = {xform_name(waiter, "-"): waiter for waiter in waiters.waiter_names}
    return xform_name(waiters.get_waiter(by_name[name]).operation, "-")


def _check_parameters(words: list[str]) -> None:
    """Fail if the template of an `aws cloudformation deploy` lacks one of the parameters."""
    file = words[words.index("--template-file") + 1]
    after = words[words.index("--parameter-overrides") + 1 :]
    parameters = load_template(ROOT / file)["Parameters"]
    for word in after:
        if word.startswith("--"):
            break
        assert word.partition("=")[0] in parameters, word


@cache
def _options(service: str, operation: str) -> tuple[set[str], set[str]]:
    """Return the options of an operation, and those that it needs, by the models that botocore
    ships."""
    model: Any = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in names, f"aws {service} {operation}"
    shape = model.operation_model(names[operation]).input_shape
    options = {f"--{xform_name(name, '-')}" for name in shape.members}
    required = {f"--{xform_name(name, '-')}" for name in shape.required_members}
    refused = {option.replace("--", "--no-", 1) for option in options}
    return options | refused | _OF_EVERY_OPERATION, required


def _check_others(words: list[str]) -> None:
    """Fail if a path of the repository in these words does not exist. Check the command line that
    `uvx` and `pipx run` start."""
    if "governor" in words:
        _check_governor(words[words.index("governor") + 1 :])
        return
    for word in words:
        if re.match(r"(\./)?(agent|events|stacks|docs)\b", word):
            assert (ROOT / word).exists(), word
