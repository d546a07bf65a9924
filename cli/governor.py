"""The command line `governor COMMAND`: all commands, their groups, help and examples. A command is
loaded only when its line was right.

`--profile`, `--region`, `--stack-name` and `--json` may stand anywhere on the line. A command finds
them in its arguments; profile and Region are in the environment, too, while it runs: AWS clients
look there.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from cli.errors import CommandError
from cli.first_checks import check_first
from cli.nearest import nearest
from cli.notes import noted, print_note


@dataclass(frozen=True, slots=True)
class Command:
    """A command: a sentence about it, and an example of a line, without the program's name."""

    help: str
    example: str


GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Find waste, before anything is deployed": {
        "scan": Command(
            "list idle accelerators of every kind, tagged or not, and their cost; it only reads",
            "scan --region us-east-1",
        ),
        "preflight": Command(
            "check that AWS behaves in this account as GPU Governor needs; it only reads",
            "preflight",
        ),
        "simulate": Command(
            "show what policies would have done on past days", "simulate --policy policy.yaml"
        ),
    },
    "Every day": {
        "status": Command(
            "show on one screen whether the stack works and what it waits for", "status"
        ),
        "approvals": Command("list and answer the open questions", "approvals list"),
        "open": Command("open the console with your AWS credentials", "open"),
        "doctor": Command(
            "check that the deploy worked and that every instance is measured", "doctor"
        ),
        "health": Command("list lost, faulty, hot, slow and poorly used GPUs", "health"),
    },
    "Hold everything back": {
        "freezes": Command(
            "show what holds actions back: freezes, rate limits and waiting steps", "freezes"
        ),
        "pause": Command(
            "hold back every stop, termination and deletion in all accounts until the pause ends",
            "pause --all --reason 'metrics are wrong'",
        ),
        "resume": Command(
            "show which steps would continue; with --since, end the pause", "resume --all"
        ),
    },
    "Decide what it does": {
        "mode": Command("show the mode, or change it to observe, ask or auto", "mode ask"),
        "policy": Command(
            "check, store and compare versions of the policy", "policy check policy.yaml"
        ),
    },
    "Money": {
        "report": Command(
            "print the costs and savings of a month",
            "report --month 2026-11",
        ),
        "advice": Command(
            "list what could cost less, based on the last weeks; it never acts", "advice"
        ),
        "spot": Command(
            "print Spot prices of a type by Region, and how likely EC2 is to have capacity",
            "spot g5.12xlarge",
        ),
        "reconcile": Command(
            "compare the recorded savings with a bill (CUR 2.0 or FOCUS)", "reconcile bill.csv.gz"
        ),
    },
    "Run the stack": {
        "sessions": Command(
            "list who is signed in to the console, or end their sessions", "sessions list"
        ),
        "env-vars": Command(
            "print the environment of the deployed functions for sam local invoke", "env-vars"
        ),
        "restore": Command(
            "restore missing records from a backup", "restore --from COPY --dry-run"
        ),
        "uninstall": Command(
            "list what the stack leaves behind and its cost, or remove it", "uninstall"
        ),
    },
}
"""The commands by what people want to do.

To add a command, add its line, `cli/options/NAME.py` and `cli/NAME.py`. The first has `add(areas)`,
which adds its options and sets `run` with `later`, `regions=True` where `--region` may be given
several times, and what `cli.first_checks` reads. The second has the function that takes the
arguments and returns the exit status, or nothing for 0.
"""
COMMANDS: Mapping[str, Command] = {
    name: command for group in GROUPS.values() for name, command in group.items()
}

_WIDTH = 78
_INDENT = 14
"""Columns before the text of a command in the list of all."""
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of the signal."""
_ANYWHERE = (
    "--profile, --region, --stack-name and --json can be anywhere on the line: see governor --help"
)


class _Lines(argparse.HelpFormatter):
    """Keeps the lines of a description and of what stands below the options."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = []
        for line in text.split("\n"):
            lines.append(super()._fill_text(line, width, indent) if len(line) > width else line)
        return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """Suggests the nearest command or option for one that does not exist.

    Its help names the options that may stand anywhere on the line.
    """

    def __init__(self, *arguments: Any, example: str = "", **settings: Any) -> None:
        epilog = _ANYWHERE
        if example:
            epilog = f"example: governor {example}\n{_ANYWHERE}"
        made = {"epilog": epilog, "formatter_class": _Lines, **settings}
        super().__init__(*arguments, **made)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, noted(f"{self.prog}: error: {message}") + "\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        raise argparse.ArgumentError(
            action, f"{value!r} is none of {', '.join(known)}{nearest(value, known)}"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        given, unknown = super().parse_known_args(args, namespace)
        for word in unknown:
            if word.startswith("-") and word.strip("-"):
                option = word.partition("=")[0]
                known = [*self._option_string_actions, *_everywhere()._option_string_actions]
                self.error(f"there is no option {option}{nearest(option, known)}")
        return given, unknown


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands; only `command` has its own options."""
    top = _Parser(
        prog="governor",
        description=_overview(),
        epilog="governor COMMAND --help says more about a command",
        parents=[_everywhere()],
        conflict_handler="resolve",
        # The command is looked for before these are read: a short form would hide it.
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"gpu-governor {_version()}")
    areas = top.add_subparsers(
        dest="area", required=True, metavar="COMMAND", help="one of the commands above"
    )
    for name, text in COMMANDS.items():
        if name != command:
            areas.add_parser(name)
            continue
        module = f"cli.options.{name.replace('-', '_')}"
        import_module(module).add(areas)
        made = areas.choices[name]
        made.description = text.help
        # A command may have set what else its help says, such as its exit status.
        own = f"{made.epilog}\n" if made.epilog != _ANYWHERE else ""
        made.epilog = f"example: governor {text.example}\n{own}{_ANYWHERE}"
    return top


def _overview() -> str:
    """Return the commands by group, each with an example."""
    lines = ["GPU Governor finds GPU instances that do nothing, and asks before it stops them."]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        for name, command in commands.items():
            words = textwrap.wrap(command.help, _WIDTH - _INDENT)
            lines.append(f"  {name:<{_INDENT - 3}} {words[0]}")
            lines += [" " * _INDENT + line for line in words[1:]]
            lines.append(f"{' ' * _INDENT}$ governor {command.example}")
    return "\n".join(lines)


def _version() -> str:
    from governor import __version__

    return __version__


def _everywhere() -> argparse.ArgumentParser:
    """Return a parser of the options that may stand anywhere on the line."""
    made = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = made.add_argument_group("options that can be anywhere on the line")
    group.add_argument(
        "--profile", help="a profile of the AWS configuration (default: AWS_PROFILE)"
    )
    group.add_argument(
        "--region",
        action="append",
        help="the Region of the stack (default: AWS_REGION, then the profile's). For advice, "
        "doctor, health, scan, simulate and spot: a Region of the instances; you can repeat it",
    )
    group.add_argument(
        "--stack-name", default="gpu-governor", help="the deployed stack (default: %(default)s)"
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    return made


def parsed(line: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a line.

    As argparse does, it ends the program where the line is wrong or asks for help. A line without
    any word is wrong, too, and prints the help; `help COMMAND` is `COMMAND --help`.

    Raises:
        SystemExit: the line is wrong or asks for help.
    """
    end = list(line).index("--") if "--" in line else len(line)
    common, rest = _everywhere().parse_known_args(line[:end])
    rest += line[end:]
    if not rest:
        # A script whose variable is empty must not succeed.
        parser(None).print_help(sys.stderr)
        raise SystemExit(2)
    if rest[0] == "help":
        rest = [*rest[1:], "--help"]
    command = next((word for word in rest if not word.startswith("-")), None)
    top = parser(command)
    if command:
        _check_options(top, rest[: rest.index(command)])
    given = top.parse_args(rest, namespace=common)
    takes_regions = getattr(given, "regions", False)
    if not takes_regions and len(given.region or ()) > 1:
        top.error(f"governor {given.area} is about one Region: give --region once")
    return given


def _check_options(top: argparse.ArgumentParser, before_command: Sequence[str]) -> None:
    """End the program at an option that does not exist: its value would be read as the command."""
    known = top._option_string_actions
    for word in before_command:
        option = word.partition("=")[0]
        if option not in known:
            suggestion = nearest(option, list(known)) or " before the command"
            top.error(f"there is no option {option}{suggestion}")


@contextmanager
def _environment(given: argparse.Namespace) -> Iterator[None]:
    """Set the profile and the Region in the environment, where clients of AWS look for them.

    As in the AWS CLI, a profile that is named wins over keys in the environment, and AWS_REGION,
    which boto3 does not read, over AWS_DEFAULT_REGION.
    """
    before = dict(os.environ)
    if given.profile:
        os.environ["AWS_PROFILE"] = given.profile
        # botocore would look there first.
        os.environ.pop("AWS_DEFAULT_PROFILE", None)
        for key in _KEYS:
            os.environ.pop(key, None)
    region = os.environ.get("AWS_REGION")
    if given.region and not getattr(given, "regions", False):
        (region,) = given.region
    if region:
        os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"] = region
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 when it was done, 1 when it was refused, 2 for a wrong command, 130
    after Ctrl-C."""
    given = parsed(sys.argv[1:] if arguments is None else arguments)
    code = 0
    try:
        with _environment(given):
            check_first(given, os.environ)
            code = int(given.run(given) or 0)
        sys.stdout.flush()
    except CommandError as error:
        print_note(f"governor: {error}")
        return 1
    except KeyboardInterrupt:
        print_note("governor: interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough, as `head`; the rest of the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
