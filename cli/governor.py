"""The command line: `governor open`, `approvals`, `freezes`, `sessions`, `policy`, `doctor`, `health` and
`simulate`.

Approvals speak to the stack's API, signed with the caller's AWS credentials: who may call it is said in IAM
(`execute-api:Invoke`), and the record names the ARN that AWS has authenticated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import boto3

from cli import doctor, health, policy, policy_versions, sessions, simulate
from cli.api import Api, find_api
from cli.errors import CommandError
from governor.channels.message import clip
from governor.domain.units import printable

_CELL_CHARACTERS = 40
"""Of a table; a tag may have 256, and an id of ours has 32."""


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
            "can be held" if q.get("can_hold") else q["expires_at"],
            printable(q["instance_name"]),
        )
        for q in questions
    ]
    cells = [[clip(cell, _CELL_CHARACTERS) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _open(api: Api, arguments: argparse.Namespace) -> None:
    """Open the console in a browser, or say where: a code in an address is good once, for a minute."""
    url = api.call("POST", "/api/console", {})["url"]
    if arguments.json:
        print(json.dumps({"url": url}))
    elif arguments.print or not webbrowser.open(url):
        print(f"Open this within a minute; it works once:\n{url}")
    else:
        print("The console opens in your browser. If it does not: governor open --print")


def _freezes(api: Api, arguments: argparse.Namespace) -> None:
    found = api.call("GET", "/api/freezes")
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for one in found["freezes"]:
        since = f" since {one['since']}" if one["since"] else ""
        print(f"{one['what']} is frozen{since}: {printable(one['why'])}")
    if found["freezes"]:
        print("  find the cause, then lift it: breaker.lift_freezes_before (docs/brakes.md)")
    else:
        print("nothing is frozen")
    print("stops and terminations that began in this hour (UTC):")
    for one in found["caps"]:
        kind, _, name = one["what"].partition("#")
        what = f"{kind.lower()} {printable(name)}" if name else "all accounts"
        print(f"  {what}: {one['used']} of {one['most']}")
    for one in found["waiting"]:
        place = f"{one['account']}/{one['region']}"
        print(f"waits: {printable(one['instance_name'])} ({one['instance_id']}, {place}), id {one['id']}")


def _show(api: Api, arguments: argparse.Namespace) -> None:
    _print_question(api.call("GET", _path(arguments.id)), as_json=arguments.json)


def _answer(api: Api, arguments: argparse.Namespace, document: dict[str, Any]) -> None:
    found = api.call("POST", _path(arguments.id), document)
    _print_question(found, as_json=arguments.json)
    if found.get("needs_another"):
        print("noted; a second person must approve before anything is done", file=sys.stderr)


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
        until = f" it until {found['kept_until']}" if found.get("kept_until") else ""
        print(f"  {found['decided_by']} decided to {found['decision']}{until}")
    elif found["first_yes_by"]:
        print(f"  {found['first_yes_by']} approved; a second person must approve, too")
    if found.get("held"):
        print(f"  {printable(found['held'])}; nothing more is done")
    if found["void_reason"]:
        print(f"  {found['status'].lower()}: {printable(found['void_reason'])}")
    if found["outcome"]:
        print(f"  {found['outcome']}: {printable(found['outcome_reason'] or '')}")
    elif found.get("can_hold"):
        print(f"  can be held, kept or exempted until EC2 is called; id {found['id']}")
    elif found["can_decide"]:
        print(f"  open until {found['expires_at']}; id {found['id']}")


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


def parser() -> argparse.ArgumentParser:
    """All commands."""
    top = argparse.ArgumentParser(prog="governor", description="GPU Governor")
    top.add_argument("--stack-name", default="gpu-governor", help="the deployed stack (default: %(default)s)")
    top.add_argument("--json", action="store_true", help="print JSON")
    areas = top.add_subparsers(dest="area", required=True)
    approvals = areas.add_parser("approvals", help="questions that wait for an answer")
    commands = approvals.add_subparsers(dest="command", required=True)

    def command(
        name: str, run: Callable[[Api, argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text)
        made.set_defaults(run=run)
        if name != "list":
            made.add_argument("id", help="the id that list prints")
        return made

    command("list", _list, "the open questions and what can be held, the most expensive first")
    command("show", _show, "one question, or its record")
    approve = command("approve", _approve, "carry out the plan")
    approve.add_argument("--instance-id", help="must name the instance when the plan terminates it")
    approve.add_argument("--accept-losses", action="store_true", help="what is on local disks may be lost")
    keep = command("keep", _keep, "ask again later")
    keep.add_argument(
        "--until",
        type=_until,
        help="4h, 7d, or a time like 2026-12-01T09:00Z; else the owner's next working morning",
    )
    exempt = command("exempt", _exempt, "never ask about it again")
    exempt.add_argument("--reason", required=True, help="why; people read it")
    command(
        "hold", _hold, "stop a plan that was approved, or that nobody is asked about, before EC2 is called"
    )
    command("end-keep", _end_keep, "end a keep before its date: your own, or as an approver any")
    freezes = areas.add_parser("freezes", help="what holds actions back: freezes, caps, and steps that wait")
    freezes.set_defaults(run=_freezes)
    console = areas.add_parser("open", help="open the console, where people do not sign in at an issuer")
    console.add_argument("--print", action="store_true", help="print the address instead")
    console.set_defaults(run=_open)
    _add_sessions(areas)
    _add_policy(areas)
    _add_examination(areas, "doctor", doctor.doctor, "whether the telemetry of every instance is right")
    _add_examination(areas, "health", health.health, "what is wrong with GPUs, or could be better")
    simulate.add(areas)
    return top


def _add_examination(
    areas: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
) -> None:
    made = areas.add_parser(name, help=text)
    made.add_argument("--file", help="a policy; else the one of the stack")
    made.add_argument("--region", action="append", help="may be given several times; else the policy's")
    made.set_defaults(local=run)


def _add_sessions(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands = areas.add_parser("sessions", help="who is signed in to the console").add_subparsers(
        dest="command", required=True
    )
    listed = commands.add_parser("list", help="the sessions that hold")
    end = commands.add_parser("end", help="end the sessions of one person, or all")
    which = end.add_mutually_exclusive_group(required=True)
    which.add_argument("who", nargs="?", help="an address, oidc:<subject> or aws:<ARN>, as list prints it")
    which.add_argument("--all", action="store_true")
    for one in (listed, end):
        one.set_defaults(local=sessions.run)


def _add_policy(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    area = areas.add_parser("policy", help="the policy document")
    commands = area.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="mistakes with line and path, and dangerous combinations")
    check.add_argument("file", help="a YAML file, or - for standard input")
    check.add_argument("--production", action="store_true", help="also what must be set before it acts")
    check.set_defaults(local=policy.check)
    explain = commands.add_parser("explain", help="which overrides apply to an instance, and what they set")
    explain.add_argument("instance", help="its id")
    explain.add_argument("--file", help="a YAML file; else the document of the stack")
    explain.add_argument("--region", help="where the instance is; else the session's Region")
    explain.set_defaults(local=policy.explain)
    schema = commands.add_parser("schema", help="the JSON Schema, for editors")
    schema.set_defaults(local=policy.schema)
    put = commands.add_parser("put", help="check a policy, and store it as the newest version")
    put.add_argument("file", help="a YAML file, or - for standard input")
    put.set_defaults(local=policy_versions.put)
    show = commands.add_parser("show", help="the document in force, or another version of it")
    show.add_argument("version", nargs="?", help="as history prints it")
    show.set_defaults(local=policy_versions.show)
    history = commands.add_parser("history", help="the newest versions, and which one is in force")
    history.set_defaults(local=policy_versions.history)
    accept = commands.add_parser("accept", help="accept a version that waits for a second person")
    accept.add_argument("version", help="as the message or history names it")
    accept.set_defaults(local=policy_versions.accept)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 when it was done, 1 when it was refused, 2 for a wrong command."""
    given = parser().parse_args(arguments)
    code = 0
    try:
        if "local" in given:
            code = int(given.local(given))
        else:
            session = boto3.Session()
            given.run(Api(find_api(given.stack_name, session), session), given)
        sys.stdout.flush()
    except CommandError as error:
        print(f"governor: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Who read it has seen enough, as `head`; what is left in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
