"""Add the commands of `governor policy` and their options."""

from __future__ import annotations

import argparse

from cli import policy, policy_versions


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands and their options."""
    area = areas.add_parser("policy")
    commands = area.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check", help="mistakes with line and path, and dangerous combinations"
    )
    check.add_argument("file", help="a YAML file, or - for standard input")
    check.add_argument(
        "--production", action="store_true", help="also what must be set before it acts"
    )
    check.set_defaults(run=policy.check)
    explain = commands.add_parser(
        "explain", help="which overrides apply to an instance, and what they set"
    )
    explain.add_argument("instance", help="its id")
    explain.add_argument("--file", help="a YAML file; else the document of the stack")
    explain.set_defaults(run=policy.explain)
    schema = commands.add_parser("schema", help="the JSON Schema, for editors")
    schema.set_defaults(run=policy.schema)
    policy_versions.add(commands)
