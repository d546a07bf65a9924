"""The options of the commands of `governor policy`."""

from __future__ import annotations

import argparse

from cli.options.later import later

_FILE = "a YAML file, or - for standard input"
_VERSION = "as history prints it; its first characters are enough"


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands and their options."""
    commands = areas.add_parser("policy").add_subparsers(
        dest="command", metavar="COMMAND", required=True
    )
    _add_checks(commands)
    _add_versions(commands)


def _add_checks(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that read one document."""
    check = commands.add_parser(
        "check",
        help="list mistakes with line and path, and dangerous combinations",
        example="policy check policy.yaml",
    )
    check.add_argument("file", help=_FILE)
    check.add_argument(
        "--production", action="store_true", help="also list what must be set before it may act"
    )
    check.set_defaults(run=later("cli.policy", "check"), reads=("file",), offline=())
    explain = commands.add_parser(
        "explain",
        help="show which overrides apply to an instance, and what they set",
        example="policy explain i-0123456789abcdef0",
    )
    explain.add_argument("instance", help="its ID")
    explain.add_argument("--file", help="use this YAML file instead of the stack's policy")
    explain.set_defaults(run=later("cli.policy", "explain"), reads=("file",))
    schema = commands.add_parser(
        "schema", help="print the JSON Schema, for editors", example="policy schema"
    )
    schema.set_defaults(run=later("cli.policy", "schema"), offline=())


def _add_versions(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands about stored versions."""
    get = commands.add_parser(
        "get",
        aliases=["show"],
        help="print the policy in force, or another version",
        example="policy get",
    )
    get.add_argument("version", nargs="?", help=_VERSION)
    get.set_defaults(run=later("cli.policy_versions", "get"))
    diff = commands.add_parser(
        "diff",
        help="compare a document with the policy in force, and name risky changes",
        example="policy diff policy.yaml",
    )
    diff.add_argument("file", help=_FILE)
    diff.set_defaults(run=later("cli.policy_versions", "diff"), reads=("file",))
    put = commands.add_parser(
        "put",
        help="check a policy, and store it as the newest version",
        example="policy put policy.yaml",
    )
    put.add_argument("file", help=_FILE)
    put.add_argument("--empty", action="store_true", help="also accept a document without settings")
    put.set_defaults(run=later("cli.policy_versions", "put"), reads=("file",))
    history = commands.add_parser(
        "history",
        help="list the newest versions, who stored them, and which is in force",
        example="policy history",
    )
    history.set_defaults(run=later("cli.policy_versions", "history"))
    rollback = commands.add_parser(
        "rollback",
        help="check an earlier version, and store it as the newest one",
        example="policy rollback 3sL4kqtJlcpX",
    )
    rollback.add_argument("version", help=_VERSION)
    rollback.set_defaults(run=later("cli.policy_versions", "rollback"))
    accept = commands.add_parser(
        "accept",
        help="accept a version that waits for a second person, or an override that names you",
        example="policy accept 3sL4kqtJlcpXroDTDmJ.rmSpXd3dIbrHY",
    )
    accept.add_argument("version", help="as the message or history names it")
    accept.set_defaults(run=later("cli.policy_versions", "accept"))
