"""`governor approvals list|show|approve|keep|exempt|hold|end-keep`: questions, and answers to them.

They speak to the stack's API, signed with the caller's AWS credentials: who may call it is said in
IAM (`execute-api:Invoke`), and the record names the ARN that AWS has authenticated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from cli.api import Api, api_of
from cli.errors import CommandError
from cli.times import since, until
from governor.channels.message import clip
from governor.domain.units import people, printable

_CELL_CHARACTERS = 40
"""Longest cell of a table; a tag may have 256, and an id of ours has 32."""
_ANSWERED = {"approve": "Approved", "keep": "Kept", "exempt": "Exempted"}
_STEPS = "The plan: "
"""How the line of a plan with its steps begins."""


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands and their options."""
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
        "stop a plan that was approved, or that nobody is asked about, before EC2 is called",
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
    rows = [("ID", "INSTANCE", "TYPE", "PLACE", "USD A DAY", "ACTION", "OPEN UNTIL", "NAME")]
    rows += [
        (
            q["id"],
            q["instance_id"],
            q["instance_type"],
            f"{q['account']}/{q['region']}",
            "unknown" if q["usd_per_day"] is None else f"{Decimal(q['usd_per_day']):,.2f}",
            q["action"],
            _open_until(q),
            printable(q["instance_name"]),
        )
        for q in questions
    ]
    cells = [[clip(cell, _CELL_CHARACTERS) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
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
        found = api.call("POST", _path(arguments.id), document)
    except CommandError as error:
        raise CommandError(f"{error}{_who_was_first(api, arguments.id)}") from None
    _print_question(found, as_json=arguments.json)
    if not arguments.json and (text := _next(found, str(document["answer"]))):
        print(f"  next: {text}")


def _who_was_first(api: Api, approval_id: str) -> str:
    """Return who decided a question whose answer is refused, and when; nothing where it is open, or
    not known."""
    try:
        found = api.call("GET", _path(approval_id))
    except CommandError:
        return ""
    return f". {_decided(found)}" if found.get("decision") else ""


def _next(found: Mapping[str, Any], answer: str) -> str:
    """Return what happens after this answer."""
    if answer != "approve" or found["outcome"] or found["void_reason"] or found.get("held"):
        return ""
    if found.get("needs_another"):
        last, silence = until(found["expires_at"]), _silence(found)
        return f"a second person must approve, too; without that {silence}. It ends {last}"
    if not found.get("can_hold", True):
        return (
            f"EC2 was already asked to; see what came of it: governor approvals show {found['id']}"
        )
    steps = next((line for line in found["plan"] if line.startswith(_STEPS)), _STEPS).removeprefix(
        _STEPS
    )
    return (
        "the instance is checked again, and nothing happens if its GPUs are at work. Else: "
        f"{printable(steps)}\n  until EC2 is called, this holds it: governor approvals "
        f"hold {found['id']}"
    )


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


def _print_question(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"{printable(found['instance_name'])} ({found['instance_id']}, {found['instance_type']})")
    print(f"  {found['account']}/{found['region']}, owner {printable(found['owner'])}")
    print(f"  {found['reason']}")
    for line in (*found["cost"], *found["plan"]):
        print(f"  {printable(line)}")
    if found["decision"]:
        print(f"  {_decided(found)}")
    elif found["first_yes_by"]:
        print(
            f"  Approved by {printable(people(found['first_yes_by']))}; a second person "
            "must approve, too"
        )
    if found.get("held"):
        print(f"  {printable(found['held'])}; nothing more is done")
    if found["void_reason"]:
        print(f"  {found['status'].lower()}: {printable(found['void_reason'])}")
    print(_state_line(found))


def _state_line(found: Mapping[str, Any]) -> str:
    """Return how it ended, or what can still be done and until when."""
    if found["outcome"]:
        return f"  {found['outcome']}: {printable(found['outcome_reason'] or '')}"
    if found.get("can_hold"):
        return f"  can be held, kept or exempted until EC2 is called; id {found['id']}"
    if found.get("can_hold_late"):
        return (
            f"  EC2 was asked; a hold counts if EC2 does not carry out that call; id {found['id']}"
        )
    if found["can_decide"]:
        silence = f"if nobody answers, {_silence(found)}"
        return f"  open: it ends {until(found['expires_at'])}; {silence}; id {found['id']}"
    return f"  nothing more can be decided; id {found['id']}"


def _silence(found: Mapping[str, Any]) -> str:
    """Return what follows without an answer. A stack of the release before does not say."""
    acts = found.get("acts_on_silence")
    if acts is None:
        return "the policy says what happens (approval.on_expiry)"
    return "the plan is carried out" if acts else "nothing happens"


def _decided(found: Mapping[str, Any]) -> str:
    """`Kept by alice@example.com (mail link), 2 h ago (...); the keep ends in 6 days (...)`. A
    stack of the release before does not say when."""
    at = f", {since(found['decided_at'])}" if found.get("decided_at") else ""
    kept = f"; the keep ends {until(found['kept_until'])}" if found.get("kept_until") else ""
    return f"{_ANSWERED[found['decision']]} by {printable(people(found['decided_by']))}{at}{kept}"


def _until(text: str) -> str:
    """`4h`, `7d` or a time, as UTC.

    Raises:
        argparse.ArgumentTypeError: none of these.
    """
    now = datetime.now(tz=UTC)
    try:
        if text[-1:] in ("h", "d"):
            span = timedelta(hours=float(text[:-1]) * (24 if text[-1] == "d" else 1))
            return (now + span).strftime("%Y-%m-%dT%H:%M:%SZ")
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither like 4h or 7d nor a time") from None
