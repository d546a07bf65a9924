"""The command line: `governor approvals ...`, `policy ...`, `doctor`, `health`, `simulate ...`.

Approvals speak to the stack's API, signed with the caller's AWS credentials: who may call it is said in IAM
(`execute-api:Invoke`), and the record names the ARN that AWS has authenticated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError

from cli import doctor, health, policy, simulate
from cli.errors import CommandError
from governor.channels.message import clip
from governor.domain.units import printable

_SECONDS = 30
_CELL_CHARACTERS = 40
"""Of a table; a tag may have 256, and an id of ours has 32."""


class Api:
    """The stack's API."""

    def __init__(self, url: str, session: boto3.Session) -> None:
        self._url = url.rstrip("/")
        self._session = session

    def call(self, method: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer's document.

        Raises:
            CommandError: it was refused, or could not be reached.
        """
        body = b"" if document is None else json.dumps(document).encode()
        signed = AWSRequest(
            method, f"{self._url}{path}", data=body, headers={"Content-Type": "application/json"}
        )
        credentials = self._session.get_credentials()
        if credentials is None:
            raise CommandError("there are no AWS credentials: sign in, or set AWS_PROFILE")
        region = self._session.region_name or "us-east-1"
        SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region).add_auth(signed)
        request = Request(
            str(signed.url), data=body or None, method=method, headers=dict(signed.headers.items())
        )
        try:
            with urlopen(request, timeout=_SECONDS) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except HTTPError as error:
            with error:
                raise CommandError(_refusal(error)) from None
        except (URLError, OSError, ValueError) as error:
            raise CommandError(f"{self._url} could not be reached: {error}") from None


def _refusal(error: HTTPError) -> str:
    """What the API said; what only API Gateway or a proxy can have said is put into words."""
    try:
        said = json.loads(error.read())
        text = said.get("error") or said.get("message")
    except (ValueError, AttributeError):
        said, text = {}, None
    if error.code in (401, 403) and "error" not in said:
        return "AWS refused the call: your identity needs execute-api:Invoke on the API of the stack"
    return printable(str(text)) if text else f"the API answered {error.code} without a reason: try again"


def find_api(stack: str, session: boto3.Session) -> str:
    """The API's address, from `GOVERNOR_API_URL` or the stack's outputs.

    Raises:
        CommandError: no such stack, or it may not be read.
    """
    known = os.environ.get("GOVERNOR_API_URL")
    if known:
        return known
    try:
        described = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    except (ClientError, BotoCoreError) as error:
        raise CommandError(
            f"the stack {stack!r} could not be read ({error}): give --stack-name, or set GOVERNOR_API_URL"
        ) from None
    outputs = {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", ())}
    if "ApiUrl" not in outputs:
        raise CommandError(f"the stack {stack!r} has no output ApiUrl: is it a stack of GPU Governor?")
    return outputs["ApiUrl"]


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
        print(f"  {found['decided_by']} decided to {found['decision']}")
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
    keep.add_argument("--until", type=_until, required=True, help="4h, 7d, or a time like 2026-12-01T09:00Z")
    exempt = command("exempt", _exempt, "never ask about it again")
    exempt.add_argument("--reason", required=True, help="why; people read it")
    command(
        "hold", _hold, "stop a plan that was approved, or that nobody is asked about, before EC2 is called"
    )
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
