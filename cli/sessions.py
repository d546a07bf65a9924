"""`governor sessions list|end`: who is signed in to the console, and the end of a session.

Works on the state table itself, so what somebody may do is said in IAM: `dynamodb:Scan` to list,
and `dynamodb:UpdateItem` to end. Every page reads the session at each request, so an end counts at
once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass
from cli.api import described
from cli.errors import CommandError
from cli.output import Output
from governor.adapters.clients import Clients
from governor.adapters.table.dynamodb import DynamoTable, unpacked
from governor.domain.approvals.terms import SignIn
from governor.domain.units import UtcDatetime, iso, printable
from governor.errors import GovernorError
from governor.stores.table import Key, Table, absent, present, update

_AUDIT_KEPT = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class _Found:
    key: Key
    who: SignIn

    @property
    def names(self) -> set[str]:
        return {self.who.identity, self.who.by, (self.who.email or "").lower()} - {""}


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands and their options."""
    commands = areas.add_parser("sessions").add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="the sessions that hold")
    end = commands.add_parser("end", help="end the sessions of one person, or all")
    which = end.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "who", nargs="?", help="an address, oidc:<subject> or aws:<ARN>, as list prints it"
    )
    which.add_argument("--all", action="store_true")
    for one in (listed, end):
        one.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the sessions that hold, or end those of one person, or all; 1 when there was none to
    end."""
    session, now = aws.session(), datetime.now(tz=UTC)
    name = described(arguments.stack_name, session)[0].get("StateTableName", "")
    if not name:
        raise CommandError(f"the stack {arguments.stack_name!r} has no output StateTableName")
    table = DynamoTable(Clients(), name)
    try:
        found = [one for one in _sessions(session, table, name) if one.who.ends_at > now]
        if arguments.command == "list":
            _print(found, as_json=arguments.json)
            return 0
        wanted = {arguments.who or "", (arguments.who or "").lower()}
        ended = [one for one in found if arguments.all or one.names & wanted]
        by = session.client("sts").get_caller_identity()["Arn"] if ended else ""
        for one in ended:
            _end(table, one, f"aws:{by}", now)
    except (ClientError, BotoCoreError, GovernorError) as error:
        why = break_glass.reason(error, session, arguments.stack_name)
        raise CommandError(f"the sessions in {name} could not be read or ended: {why}") from None
    with Output(arguments) as out:
        out.say("", ended=[])
        for one in ended:
            fact = {"who": one.who.by, "since": iso(one.who.at)}
            out.list(
                f"ended: {printable(one.who.by)}, signed in at {iso(one.who.at)}", "ended", fact
            )
        if not ended:
            out.say(
                "nobody is signed in"
                if arguments.all
                else f"{arguments.who} has no session: see list"
            )
    return int(not ended)


def _sessions(session: boto3.Session, table: Table, name: str) -> Iterator[_Found]:
    pages = (
        session.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=name,
            FilterExpression="begins_with(pk, :sessions)",
            ExpressionAttributeValues={":sessions": {"S": "SESSION#"}},
            ConsistentRead=True,
        )
    )
    for page in pages:
        for item in map(unpacked, page["Items"]):
            for who in table.records(SignIn, [item]):
                yield _Found((item["pk"], item["sk"]), who)


def _end(table: Table, one: _Found, by: str, now: UtcDatetime) -> None:
    """Both or neither: what is ended is in the audit, which follows `ENDED#`."""
    audit = {"what": "session ended", "by": by, "identity": one.who.identity, "since": one.who.at}
    key = "ENDED#sessions", f"{one.key[0]}#{now.isoformat()}"
    table.transact(
        update(one.key, {"ends_at": now}, present()),
        update(key, audit, absent(), until=now + _AUDIT_KEPT),
    )


def _print(found: list[_Found], *, as_json: bool) -> None:
    rows = [
        {"who": one.who.by, "since": iso(one.who.at), "until": iso(one.who.ends_at)}
        for one in found
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{printable(row['who'])}, since {row['since']}, until {row['until']}")
    if not rows:
        print("nobody is signed in")
