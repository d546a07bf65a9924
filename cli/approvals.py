"""`governor approvals list|show|approve|keep|exempt|hold|end-keep`: questions, and answers to them.

The commands call the stack's API, signed with the caller's AWS credentials. IAM decides who may
call it (`execute-api:Invoke`), and the record names the ARN that AWS has authenticated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from cli.api import Api, api_of
from cli.errors import CommandError
from cli.tables import Column, print_table
from cli.times import since, until
from governor.core.units import people, printable

_CELL_CHARACTERS = 40
"""Longest cell of a table; a tag may have 256, and an id of ours has 32."""
_ANSWERED = {"approve": "Approved", "keep": "Kept", "exempt": "Exempted"}
_STEPS = "The plan: "
"""Beginning of the line of a plan that has its steps."""
_COLUMNS = (
    Column("ID", longest=_CELL_CHARACTERS),
    Column("INSTANCE", longest=_CELL_CHARACTERS),
    Column("TYPE", longest=_CELL_CHARACTERS),
    Column("PLACE", longest=_CELL_CHARACTERS),
    Column("USD A DAY", is_number=True, longest=_CELL_CHARACTERS),
    Column("ACTION", longest=_CELL_CHARACTERS),
    Column("OPEN UNTIL", longest=_CELL_CHARACTERS, wraps=True),
    Column("NAME", longest=_CELL_CHARACTERS, wraps=True),
)


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands and their options."""
    commands = areas.add_parser("approvals").add_subparsers(dest="command", required=True)

    def command(
        name: str, run: Callable[[Api, argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text)
        made.set_defaults(run=lambda given: run(api_of(given), given))
        if name != "list":
            made.add_argument("id", help="the id that list prints")
        return made

    command("list", _list, "the open questions and what can be held, the most expensive first")
    command("show", _show, "one question, or its record")
    approve = command("approve", _approve, "carry out the plan")
    approve.add_argument("--instance-id", help="must name the instance when the plan terminates it")
    approve.add_argument(
        "--accept-losses", action="store_true", help="what is on local disks may be lost"
    )
    keep = command("keep", _keep, "ask again later")
    keep.add_argument(
        "--until",
        type=_until,
        help="4h, 7d, or a time like 2026-12-01T09:00Z; else the owner's next working morning",
    )
    exempt = command("exempt", _exempt, "never ask about it again")
    exempt.add_argument("--reason", required=True, help="why; people read it")
    command(
        "hold",
        _hold,
        "hold a plan that will be carried out; after EC2 was asked, it counts only if EC2 does "
        "not carry out the call",
    )
    command("end-keep", _end_keep, "end a keep before its date: your own, or as an approver any")


def _list(api: Api, arguments: argparse.Namespace) -> None:
    questions = api.call("GET", "/api/approvals")["questions"]
    if arguments.json:
        print(json.dumps(questions, indent=2))
        return
    if not questions:
        print("no question waits for an answer")
        return
    print_table(_COLUMNS, [_row(question) for question in questions])


def _row(question: Mapping[str, Any]) -> Sequence[str]:
    usd_per_day = question["usd_per_day"]
    return (
        question["id"],
        question["instance_id"],
        question["instance_type"],
        f"{question['account']}/{question['region']}",
        "unknown" if usd_per_day is None else f"{Decimal(usd_per_day):,.2f}",
        question["action"],
        _open_until(question),
        question["instance_name"],
    )


def _open_until(question: Mapping[str, Any]) -> str:
    if question.get("can_hold"):
        return "can be held"
    if question.get("can_hold_late"):
        return "EC2 was asked"
    return until(question["expires_at"])


def _show(api: Api, arguments: argparse.Namespace) -> None:
    _print_question(api.call("GET", _path(arguments.id)), as_json=arguments.json)


def _answer(api: Api, arguments: argparse.Namespace, document: dict[str, Any]) -> None:
    try:
        question = api.call("POST", _path(arguments.id), document)
    except CommandError as error:
        raise CommandError(f"{error}{_earlier_decision(api, arguments.id)}") from None
    _print_question(question, as_json=arguments.json)
    if arguments.json:
        return
    next_step = _next_step(question, str(document["answer"]))
    if next_step:
        print(f"  next: {next_step}")


def _earlier_decision(api: Api, approval_id: str) -> str:
    """Return who decided a question whose answer is refused, and when.

    Return an empty text if it is open or cannot be read.
    """
    try:
        question = api.call("GET", _path(approval_id))
    except CommandError:
        return ""
    return f". {_decided(question)}" if question.get("decision") else ""


def _next_step(question: Mapping[str, Any], answer: str) -> str:
    """Return what happens after a yes; an empty text if nothing does."""
    is_over = question["outcome"] or question["void_reason"] or question.get("held")
    if answer != "approve" or is_over:
        return ""
    if question.get("needs_another"):
        silence = _silence(question)
        end = until(question["expires_at"])
        return f"a second person must approve, too; without that {silence}. It ends {end}"
    if not question.get("can_hold", True):
        return (
            "EC2 was already asked to; see what came of it: governor approvals show "
            f"{question['id']}"
        )
    return (
        "the instance is checked again, and nothing happens if its GPUs are at work. Else: "
        f"{printable(_steps(question))}\n  until EC2 is called, this holds it: governor approvals "
        f"hold {question['id']}"
    )


def _steps(question: Mapping[str, Any]) -> str:
    """Return the steps of the plan; an empty text if no line has them."""
    for line in question["plan"]:
        if line.startswith(_STEPS):
            return str(line).removeprefix(_STEPS)
    return ""


def _approve(api: Api, arguments: argparse.Namespace) -> None:
    document: dict[str, Any] = {"answer": "approve"}
    if arguments.instance_id:
        document["instance_id"] = arguments.instance_id
    if arguments.accept_losses:
        document["losses_accepted"] = True
    _answer(api, arguments, document)


def _keep(api: Api, arguments: argparse.Namespace) -> None:
    _answer(api, arguments, {"answer": "keep", "keep_until": arguments.until})


def _exempt(api: Api, arguments: argparse.Namespace) -> None:
    _answer(api, arguments, {"answer": "exempt", "reason": arguments.reason})


def _hold(api: Api, arguments: argparse.Namespace) -> None:
    _answer(api, arguments, {"answer": "hold"})


def _end_keep(api: Api, arguments: argparse.Namespace) -> None:
    _answer(api, arguments, {"answer": "end-keep"})
    print("the keep is over; the next sweep judges the instance again", file=sys.stderr)


def _path(approval_id: str) -> str:
    return f"/api/approvals/{quote(approval_id, safe='')}"


def _print_question(question: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(question, indent=2))
        return
    name = printable(question["instance_name"])
    print(f"{name} ({question['instance_id']}, {question['instance_type']})")
    owner = printable(question["owner"])
    print(f"  {question['account']}/{question['region']}, owner {owner}")
    print(f"  {question['reason']}")
    for line in (*question["cost"], *question["plan"]):
        print(f"  {printable(line)}")
    if question["decision"]:
        print(f"  {_decided(question)}")
    elif question["first_yes_by"]:
        first = printable(people(question["first_yes_by"]))
        print(f"  Approved by {first}; a second person must approve, too")
    if question.get("held"):
        print(f"  {printable(question['held'])}; nothing more is done")
    if question["void_reason"]:
        print(f"  {question['status'].lower()}: {printable(question['void_reason'])}")
    print(_state_line(question))


def _state_line(question: Mapping[str, Any]) -> str:
    """Return how it ended, or what can still be done and until when."""
    question_id = question["id"]
    if question["outcome"]:
        return f"  {question['outcome']}: {printable(question['outcome_reason'] or '')}"
    if question.get("can_hold"):
        return f"  can be held, kept or exempted until EC2 is called; id {question_id}"
    if question.get("can_hold_late"):
        return (
            "  EC2 was asked; a hold counts only if EC2 does not carry out that call; "
            f"id {question_id}"
        )
    if question["can_decide"]:
        silence = f"if nobody answers, {_silence(question)}"
        return f"  open: it ends {until(question['expires_at'])}; {silence}; id {question_id}"
    return f"  nothing more can be decided; id {question_id}"


def _silence(question: Mapping[str, Any]) -> str:
    """Return what happens without an answer. A stack of the previous release does not say."""
    acts = question.get("acts_on_silence")
    if acts is None:
        return "the policy says what happens (approval.on_expiry)"
    return "the plan is carried out" if acts else "nothing happens"


def _decided(question: Mapping[str, Any]) -> str:
    """Return `Kept by alice@example.com (mail link), 2 h ago (...); the keep ends in 6 days (...)`.

    A stack of the previous release has no time of the decision.
    """
    decided = f"{_ANSWERED[question['decision']]} by {printable(people(question['decided_by']))}"
    if question.get("decided_at"):
        decided += f", {since(question['decided_at'])}"
    if question.get("kept_until"):
        decided += f"; the keep ends {until(question['kept_until'])}"
    return decided


def _until(text: str) -> str:
    """Read `4h`, `7d` or a time. Return it in UTC.

    Raises:
        argparse.ArgumentTypeError: none of these.
    """
    try:
        if text[-1:] == "h":
            moment = datetime.now(tz=UTC) + timedelta(hours=float(text[:-1]))
        elif text[-1:] == "d":
            moment = datetime.now(tz=UTC) + timedelta(days=float(text[:-1]))
        else:
            moment = datetime.fromisoformat(text)
            if not moment.tzinfo:
                moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither like 4h or 7d nor a time") from None
