"""The command line: `governor COMMAND`. Each command is a module, imported only when it is called.

`--profile`, `--region`, `--stack-name` and `--json` may stand anywhere on the line. A command finds
them in its arguments; profile and Region are in the environment, too, while it runs: AWS clients
look there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from cli.errors import CommandError
from cli.nearest import nearest

COMMANDS = {
    "scan": (
        "cli.scan",
        "idle accelerators of every kind, tagged or not, with what they cost; reads only",
    ),
    "status": ("cli.status", "on one screen whether the stack works, and what it waits for"),
    "approvals": ("cli.approvals", "questions that wait for an answer"),
    "freezes": ("cli.freezes", "what holds actions back: freezes, caps, and steps that wait"),
    "pause": (
        "cli.pause",
        "hold back every stop, termination and deletion in all accounts, until an admin resumes",
    ),
    "resume": ("cli.resume", "show which steps continue; with --since, end the pause"),
    "open": ("cli.open", "open the console, where people do not sign in at an issuer"),
    "sessions": ("cli.sessions", "who is signed in to the console"),
    "policy": ("cli.policy_commands", "the policy document"),
    "mode": ("cli.mode", "the mode in force; or change it to observe, ask or auto"),
    "doctor": (
        "cli.doctor",
        "whether the deploy worked, and the telemetry of every instance is right",
    ),
    "health": ("cli.health", "what is wrong with GPUs, or could be better"),
    "advice": ("cli.advice", "what could cost less, by the last weeks; it never acts"),
    "spot": ("cli.spot", "what a type costs as Spot now, by Region, and how likely EC2 has it"),
    "preflight": ("cli.preflight", "whether AWS behaves here as the product needs it; reads only"),
    "env-vars": ("cli.env_vars", "the environment of the deployed functions, for sam local invoke"),
    "restore": ("cli.restore", "restore missing records from a backup"),
    "uninstall": (
        "cli.uninstall",
        "what the stack leaves behind, with what it costs; or remove some of it",
    ),
    "report": ("cli.report", "costs and savings of a month, as the mail and the console say them"),
    "reconcile": ("cli.reconcile", "what a bill (CUR 2.0 or FOCUS) says of the ledger"),
    "simulate": ("cli.simulate", "what policies would have done in the past days"),
}
"""The module of each command, whose `add(areas)` adds it, and its help.

To add a command, add its line. `add` sets `run`, which takes the arguments and returns the exit
status, or nothing for 0; and `regions=True` where `--region` may be given several times.
"""

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class _Parser(argparse.ArgumentParser):
    """Suggests the nearest command or option for one that does not exist.

    Its help names the options that may stand anywhere on the line.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        epilog = (
            "--profile, --region, --stack-name and --json may stand anywhere: see governor --help"
        )
        super().__init__(*arguments, **{"epilog": epilog, **settings})

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
        description="GPU Governor",
        epilog=None,
        parents=[_everywhere()],
        conflict_handler="resolve",
        # The command is looked for before these are read: a short form would hide it.
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"gpu-governor {_version()}")
    areas = top.add_subparsers(dest="area", required=True, metavar="COMMAND", title="commands")
    for name, (module, text) in COMMANDS.items():
        if name == command:
            import_module(module).add(areas)
            areas.choices[name].description = text
        else:
            areas.add_parser(name, help=text)
    return top


def _version() -> str:
    from governor import __version__

    return __version__


def _everywhere() -> argparse.ArgumentParser:
    """Return a parser of the options that may stand anywhere on the line."""
    made = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = made.add_argument_group("options that may stand anywhere on the line")
    group.add_argument("--profile", help="of the AWS configuration; else AWS_PROFILE")
    group.add_argument(
        "--region",
        action="append",
        help="else AWS_REGION, else the profile's. For advice, doctor, health, scan, "
        "simulate and spot: of the instances, may be given several times",
    )
    group.add_argument(
        "--stack-name", default="gpu-governor", help="the deployed stack (default: %(default)s)"
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    return made


def parsed(line: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a line.

    As argparse does, it ends the program where the line is wrong or asks for help.
    """
    end = list(line).index("--") if "--" in line else len(line)
    common, rest = _everywhere().parse_known_args(line[:end])
    rest += line[end:]
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
    """Run a command. Return 0 when it was done, 1 when it was refused, 2 for a wrong command."""
    given = parsed(sys.argv[1:] if arguments is None else arguments)
    code = 0
    try:
        with _environment(given):
            code = int(given.run(given) or 0)
        sys.stdout.flush()
    except CommandError as error:
        print(f"governor: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has seen enough, as `head`; the rest of the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
