"""The options of `governor approvals`."""

from __future__ import annotations

import argparse

from cli.options.later import later
from cli.options.values import read_end

_OVER = "a question that is over needs its whole ID"
_QUESTION = f"the instance's name or ID, or the first characters of the question's ID; {_OVER}"
_QUESTION_TO_READ = (
    "the instance's name or ID, or the first characters of one of them or of the question's ID; "
    f"{_OVER}"
)


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands and their options."""
    commands = areas.add_parser("approvals").add_subparsers(
        dest="command", metavar="COMMAND", required=True
    )

    def command(name: str, text: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, example=example)
        made.set_defaults(run=later("cli.approvals", "run"))
        if name != "list":
            made.add_argument(
                "id",
                metavar="QUESTION",
                help=_QUESTION_TO_READ if name == "show" else _QUESTION,
            )
        return made

    command(
        "list",
        "list open questions and plans that can be held, the most expensive first",
        "approvals list",
    )
    command("show", "show one question, or its record", "approvals show notebook-7")
    approve = command("approve", "carry out the plan", "approvals approve 3f2a9c11 --accept-losses")
    approve.add_argument(
        "--instance-id",
        metavar="ID",
        help="the instance's ID, required to terminate it, or if QUESTION is its name",
    )
    approve.add_argument(
        "--accept-losses", action="store_true", help="accept that data on local disks may be lost"
    )
    keep = command("keep", "ask again later", "approvals keep notebook-7 --until 7d")
    keep.add_argument(
        "--until",
        type=read_end,
        metavar="TIME",
        help="4h, 7d, or a time like 2026-12-01T09:00Z (default: the next working morning of "
        "those who are asked)",
    )
    exempt = command(
        "exempt",
        "never ask about it again",
        "approvals exempt license-server --reason 'hands out licenses'",
    )
    exempt.add_argument("--reason", required=True, help="the reason, which people will read")
    command(
        "hold",
        "hold an approved plan; after the call to EC2, a hold counts only if the call "
        "has no effect",
        "approvals hold notebook-7",
    )
    command(
        "end-keep",
        "end your own keep before its date; an approver can end any",
        "approvals end-keep 3f2a9c11d04be5a7718f6021c4e99b30",
    )
