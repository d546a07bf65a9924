"""The options of `governor sessions`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands and their options."""
    commands = areas.add_parser("sessions").add_subparsers(
        dest="command", metavar="COMMAND", required=True
    )
    listed = commands.add_parser("list", help="list the open sessions", example="sessions list")
    end = commands.add_parser(
        "end",
        help="end the sessions of one person, or all",
        example="sessions end alice@example.com",
    )
    which = end.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "who", nargs="?", help="an address, oidc:<subject> or aws:<ARN>, as list prints it"
    )
    which.add_argument("--all", action="store_true", help="end all sessions")
    for command in (listed, end):
        command.set_defaults(run=later("cli.sessions", "run"))
