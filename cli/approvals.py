"""`governor approvals list|show|approve|keep|exempt|hold|end-keep`: questions, and answers to them.

The commands call the stack's API, signed with the caller's AWS credentials. IAM decides who may
call it (`execute-api:Invoke`), and the record names the ARN that AWS has authenticated.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from cli import times
from cli.api import Api, api_of
from cli.errors import CommandError
from cli.notes import print_note
from cli.references import Candidate, find, short_ids, suggestion
from cli.tables import Column, print_table, print_text
from cli.times import in_or_ago, since, until
from governor.approvals.messages.failures import readable_clause
from governor.core.errors import PolicyError
from governor.core.units import people, printable, span
from governor.policy.document import parse_policy
from governor.policy.model.policy import Mode

_WHOLE_ID = re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 40
"""Longest name in a table; a tag may have 256 characters."""
_ANSWERED = {"approve": "Approved", "keep": "Kept", "exempt": "Exempted"}
_NOT_DECIDED = {"VOID": "canceled", "EXPIRED": "not answered"}
"""States of questions that nobody decided, as people read them."""
_STEPS = "The plan: "
"""Beginning of the line of a plan that has its steps."""
_COLUMNS = (
    Column("NAME", longest=_LONGEST_NAME, gives_way=True),
    Column("ACTION", is_colored=True, longest=12),
    Column("USD A DAY", is_number=True, longest=12),
    Column("ENDS", is_colored=True, longest=24),
    Column("OWNER", longest=_LONGEST_NAME, gives_way=True),
    Column("ID", longest=32),
    Column("TYPE", longest=20, is_spare=True),
    Column("INSTANCE", longest=20, is_spare=True),
    Column("PLACE", longest=32, is_spare=True),
)


def run(arguments: argparse.Namespace) -> None:
    """Run the command that the line names."""
    commands = {
        "list": _list,
        "show": _show,
        "approve": _approve,
        "keep": _keep,
        "exempt": _exempt,
        "hold": _hold,
        "end-keep": _end_keep,
    }
    commands[arguments.command](api_of(arguments), arguments)


def _list(api: Api, arguments: argparse.Namespace) -> None:
    questions: Sequence[Mapping[str, Any]] = api.call("GET", "/api/approvals")["questions"]
    if arguments.json:
        print(json.dumps(questions, indent=2))
        return
    if not questions:
        print_text(_why_none(api))
        return
    shorts = short_ids([question["id"] for question in questions])
    print_table(_COLUMNS, [_row(question, shorts[question["id"]]) for question in questions])


def _why_none(api: Api) -> str:
    """Return that no question waits, and when people are asked by the policy in force, with its
    overrides. Whether questions were answered is not known here."""
    text = "no question waits for an answer"
    see_status = "`governor status` says when the last sweep was"
    try:
        policies = parse_policy(api.call("GET", "/api/policy")["document"]).variants
    except (CommandError, PolicyError):
        return f"{text}; {see_status}"
    waits: set[timedelta] = set()
    for policy in policies:
        if policy.mode is Mode.ASK:
            waits |= {policy.released_window, policy.ask_window}
    if waits:
        return f"{text}: {_when_people_are_asked(waits)}; {see_status}"
    if any(policy.mode is Mode.AUTO for policy in policies):
        return f"{text}: mode auto asks nobody before it acts; {see_status}"
    return f"{text}: mode observe asks nobody (`governor mode ask` changes that)"


def _when_people_are_asked(waits: Collection[timedelta]) -> str:
    """Return after how much idle time people are asked. `waits` are the times of all policies that
    ask, at least one."""
    shortest = span(min(waits))
    longest = span(max(waits))
    if shortest == longest:
        return f"people are asked once an instance has been idle for {shortest}"
    return (
        "people are asked once an instance has been idle for as long as its policy says, "
        f"{shortest} to {longest}"
    )


def _row(question: Mapping[str, Any], short_id: str) -> Sequence[str]:
    usd_per_day = question["usd_per_day"]
    return (
        question["instance_name"],
        question["action"],
        _price(usd_per_day),
        _end(question),
        question["owner"],
        short_id,
        question["instance_type"],
        question["instance_id"],
        f"{question['account']}/{question['region']}",
    )


def _price(usd_per_day: str | None) -> str:
    """Return the cost of a question's instance a day; `prepaid` if an hour more costs nothing."""
    if usd_per_day is None:
        return "unknown"
    amount = Decimal(usd_per_day)
    return f"{amount:,.2f}" if amount else "prepaid"


def _end(question: Mapping[str, Any]) -> str:
    """Return when a question ends and, if the plan is carried out then, what becomes of the
    instance: `in 1 min, then stopped`. A stack of the previous release does not say the latter."""
    if question.get("acts_soon"):
        return "stopped soon" if question["action"] == "stop" else "begins soon"
    if question.get("can_hold"):
        return "can be held"
    if question.get("can_hold_late"):
        return "EC2 was asked"
    end = in_or_ago(question["expires_at"])
    if not question.get("acts_on_silence"):
        return end
    done = "terminated" if question["action"] == "terminate" else "stopped"
    return f"{end}, then {done}"


def _named(api: Api, arguments: argparse.Namespace, *, to_read: bool = False) -> str:
    """Return the whole id of the question that the command line names.

    Who only wants to read may type the first characters of a name, too.

    Raises:
        CommandError: it fits several questions, or none that is open or can be held.
    """
    text = str(arguments.id)
    question = _listed(api, text, to_read=to_read)
    return text if question is None else str(question["id"])


def _is_named_by_id(text: str, question: Mapping[str, Any]) -> bool:
    """Return whether a text is an id of the question or of its instance, and not only the name."""
    return text == question["instance_id"] or str(question["id"]).startswith(text)


def _listed(api: Api, text: str, *, to_read: bool = False) -> Mapping[str, Any] | None:
    """Return the listed question that a text names; `None` for a whole id, which needs no list.

    Raises:
        CommandError: it fits several questions, or none that is open or can be held.
    """
    if _WHOLE_ID.fullmatch(text):
        return None
    candidates = []
    questions: Sequence[Mapping[str, Any]] = api.call("GET", "/api/approvals")["questions"]
    for question in questions:
        place = f"{question['account']}/{question['region']}"
        names = (question["instance_name"], question["instance_id"])
        candidates.append(Candidate(question["id"], names, f"{names[0]} ({names[1]}) in {place}"))
    found = find(text, candidates, "questions", to_read=to_read)
    if found is None:
        raise CommandError(
            f"no question that is open or can be held is about {printable(text)!r}"
            f"{suggestion(text, candidates) or '.'} `governor approvals list` lists them. To find "
            "one that is over, give its whole ID, as in --json or the email"
        )
    return next(question for question in questions if question["id"] == found.id)


def _show(api: Api, arguments: argparse.Namespace) -> None:
    question = api.call("GET", _path(_named(api, arguments, to_read=True)))
    _print_question(question, as_json=arguments.json)


def _answer(
    api: Api, arguments: argparse.Namespace, question_id: str, document: dict[str, Any]
) -> None:
    try:
        question = api.call("POST", _path(question_id), document)
    except CommandError as error:
        raise CommandError(f"{error}{_earlier_decision(api, question_id)}") from None
    _print_question(question, as_json=arguments.json)
    if arguments.json:
        return
    next_step = _next_step(question, str(document["answer"]))
    if next_step:
        print_text(f"  next: {next_step}")


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
        return f"a second person must approve, too. Otherwise, {silence}. It ends {end}"
    if not question.get("can_hold", True):
        return f"EC2 was already asked. To see the result: governor approvals show {question['id']}"
    return (
        "the instance is checked again. If its GPUs are busy again, nothing happens. Otherwise: "
        f"{printable(_steps(question))}\n  until EC2 is called, you can hold it: "
        f"governor approvals hold {question['id']}"
    )


def _steps(question: Mapping[str, Any]) -> str:
    """Return the steps of the plan; an empty text if no line has them."""
    for line in question["plan"]:
        if line.startswith(_STEPS):
            return str(line).removeprefix(_STEPS)
    return ""


def _require_an_id(text: str, question: Mapping[str, Any], instance_id: str | None) -> None:
    """Raises: CommandError if a text names a question by its instance's name alone."""
    if _is_named_by_id(text, question) or instance_id == question["instance_id"]:
        return
    raise CommandError(
        f"several instances may be called {printable(text)!r}, so an approval needs an ID: "
        f"`governor approvals approve {question['instance_id']}`, if you mean the one in "
        f"{question['account']}/{question['region']}"
    )


def _approve(api: Api, arguments: argparse.Namespace) -> None:
    """Answer yes. A name alone approves nothing: another instance may have it, too.

    Raises:
        CommandError: the question is named by its instance's name, without the id of the instance.
    """
    text = str(arguments.id)
    question_id = text
    question = _listed(api, text)
    if question is not None:
        _require_an_id(text, question, arguments.instance_id)
        question_id = str(question["id"])
    document: dict[str, Any] = {"answer": "approve"}
    if arguments.instance_id:
        document["instance_id"] = arguments.instance_id
    if arguments.accept_losses:
        document["losses_accepted"] = True
    _answer(api, arguments, question_id, document)


def _keep(api: Api, arguments: argparse.Namespace) -> None:
    document = {"answer": "keep", "keep_until": arguments.until}
    _answer(api, arguments, _named(api, arguments), document)


def _exempt(api: Api, arguments: argparse.Namespace) -> None:
    document = {"answer": "exempt", "reason": arguments.reason}
    _answer(api, arguments, _named(api, arguments), document)


def _hold(api: Api, arguments: argparse.Namespace) -> None:
    _answer(api, arguments, _named(api, arguments), {"answer": "hold"})


def _end_keep(api: Api, arguments: argparse.Namespace) -> None:
    _answer(api, arguments, _named(api, arguments), {"answer": "end-keep"})
    print_note("the keep is over; the next sweep judges the instance again")


def _path(approval_id: str) -> str:
    return f"/api/approvals/{quote(approval_id, safe='')}"


def _print_question(question: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(question, indent=2))
        return
    name = printable(question["instance_name"])
    print_text(f"{name} ({question['instance_id']}, {question['instance_type']})")
    owner = printable(question["owner"])
    print_text(f"  {question['account']}/{question['region']}, owner {owner}")
    print_text(f"  {question['reason']}")
    for line in (*question["cost"], *question["plan"]):
        print_text(f"  {printable(line)}")
    if question["decision"]:
        print_text(f"  {_decided(question)}")
    elif question["first_yes_by"]:
        first = printable(people(question["first_yes_by"]))
        print_text(f"  Approved by {first}; a second person must approve, too")
    if question.get("held"):
        print_text(f"  {printable(question['held'])}; nothing more is done")
    if question["void_reason"] and not question.get("acts_soon"):
        state = _NOT_DECIDED.get(question["status"], question["status"].lower())
        print_text(f"  {state}: {_reason(question['void_reason'])}")
    print_text(_state_line(question))


def _reason(reason: str | None) -> str:
    """Return a recorded reason as one line, with people and times as people read them; empty
    without one."""
    return printable(readable_clause(reason or "", "UTC", times.now()))


def _state_line(question: Mapping[str, Any]) -> str:
    """Return how it ended, or what can still be done and until when."""
    question_id = question["id"]
    if question.get("after_stop"):
        return f"  {printable(question['after_stop'])}"
    if question["outcome"]:
        outcome = question["outcome"].replace("-", " ")
        return f"  {outcome}: {_reason(question['outcome_reason'])}"
    if question.get("acts_soon"):
        return f"  {printable(question['silence'])} ID {question_id}"
    if question.get("can_hold"):
        return f"  can be held, kept or exempted until EC2 is called; ID {question_id}"
    if question.get("can_hold_late"):
        return (
            "  EC2 was asked; a hold counts only if EC2 does not carry out that call; "
            f"ID {question_id}"
        )
    if question["can_decide"]:
        if question.get("silence"):
            return f"  open: {printable(question['silence'])} ID {question_id}"
        # A stack of the previous release has no such sentence.
        silence = f"if nobody answers, {_silence(question)}"
        return f"  open: it ends {until(question['expires_at'])}; {silence}; ID {question_id}"
    return f"  nothing more can be decided; ID {question_id}"


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
