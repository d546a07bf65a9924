"""`governor sessions list|end`: print who is signed in to the console, or end sessions.

It works on the state table itself, so IAM decides what a caller may do: `dynamodb:Scan` to list,
and `dynamodb:UpdateItem` to end. Every page reads the session at each request, so an end counts at
once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass, times
from cli.api import described
from cli.errors import CommandError
from cli.output import Output
from cli.tables import Column, print_table, print_text
from governor.approvals.model.terms import SignIn
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable, unpacked
from governor.core.errors import GovernorError
from governor.core.units import UtcDatetime, iso, printable
from governor.table.table import Key, Table, absent, present, update

_COLUMNS = (
    Column("WHO", longest=60, gives_way=True),
    Column("SIGNED IN", longest=34),
    Column("ENDS", longest=34),
)
_AUDIT_KEPT = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class _Session:
    key: Key
    sign_in: SignIn

    @property
    def names(self) -> set[str]:
        """Return the names by which a person can be given."""
        email = (self.sign_in.email or "").lower()
        return {self.sign_in.identity, self.sign_in.by, email} - {""}


def run(arguments: argparse.Namespace) -> int:
    """Print the current sessions, or end some. Return 1 when there was none to end.

    Raises:
        CommandError: the stack or the sessions could not be read, or a session could not be ended.
    """
    session = aws.session()
    now = datetime.now(tz=UTC)
    table_name = described(arguments.stack_name, session)[0].get("StateTableName", "")
    if not table_name:
        raise CommandError(f"the stack {arguments.stack_name!r} has no output StateTableName")
    table = DynamoTable(Clients(), table_name)
    try:
        pages = _pages(session, table_name)
        sessions = sorted(_current_sessions(pages, table, now), key=_newest_first)
        if arguments.command == "list":
            _print(sessions, as_json=arguments.json)
            return 0
        ended = sessions if arguments.all else _sessions_of(arguments.who or "", sessions)
        _end_all(table, ended, session, now)
    except (ClientError, BotoCoreError, GovernorError) as error:
        why = break_glass.reason(error, session, arguments.stack_name)
        raise CommandError(
            f"the sessions in {table_name} could not be read or ended: {why}"
        ) from None
    with Output(arguments) as out:
        _say_ended(out, ended, arguments)
    return int(not ended)


def _pages(session: boto3.Session, table_name: str) -> Iterable[Mapping[str, Any]]:
    paginator = session.client("dynamodb").get_paginator("scan")
    return paginator.paginate(
        TableName=table_name,
        FilterExpression="begins_with(pk, :sessions)",
        ExpressionAttributeValues={":sessions": {"S": "SESSION#"}},
        ConsistentRead=True,
    )


def _current_sessions(
    pages: Iterable[Mapping[str, Any]], table: Table, now: UtcDatetime
) -> Iterator[_Session]:
    for page in pages:
        for item in map(unpacked, page["Items"]):
            for sign_in in table.records(SignIn, [item]):
                if sign_in.ends_at > now:
                    yield _Session((item["pk"], item["sk"]), sign_in)


def _newest_first(console_session: _Session) -> tuple[float, str]:
    """Return a sort key: the latest sign-in first, then by person."""
    sign_in = console_session.sign_in
    return -sign_in.at.timestamp(), sign_in.by


def _sessions_of(who: str, sessions: Sequence[_Session]) -> list[_Session]:
    wanted = {who, who.lower()}
    return [console_session for console_session in sessions if console_session.names & wanted]


def _end_all(
    table: Table, sessions: Sequence[_Session], session: boto3.Session, now: UtcDatetime
) -> None:
    if not sessions:
        return
    caller = session.client("sts").get_caller_identity()["Arn"]
    for console_session in sessions:
        _end(table, console_session, f"aws:{caller}", now)


def _end(table: Table, console_session: _Session, by: str, now: UtcDatetime) -> None:
    """End a session and write that into the audit, which follows `ENDED#`: both or neither."""
    audit = {
        "what": "session ended",
        "by": by,
        "identity": console_session.sign_in.identity,
        "since": console_session.sign_in.at,
    }
    audit_key = ("ENDED#sessions", f"{console_session.key[0]}#{now.isoformat()}")
    table.transact(
        update(console_session.key, {"ends_at": now}, present()),
        update(audit_key, audit, absent(), until=now + _AUDIT_KEPT),
    )


def _say_ended(out: Output, ended: Sequence[_Session], arguments: argparse.Namespace) -> None:
    out.say("", ended=[])
    for console_session in ended:
        who = console_session.sign_in.by
        since = iso(console_session.sign_in.at)
        text = f"ended: {printable(who)}, signed in at {since}"
        out.list(text, "ended", {"who": who, "since": since})
    if ended:
        return
    if arguments.all:
        out.say("nobody is signed in")
    else:
        out.say(f"{arguments.who} has no session: see list")


def _print(sessions: Sequence[_Session], *, as_json: bool) -> None:
    rows = []
    for console_session in sessions:
        sign_in = console_session.sign_in
        row = {"who": sign_in.by, "since": iso(sign_in.at), "until": iso(sign_in.ends_at)}
        rows.append(row)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print_text(
            "nobody is signed in: no session was begun, or each has ended; `governor open` begins "
            "one, and so does a sign-in on the console's page"
        )
        return
    cells = []
    for row in rows:
        cells.append((row["who"], times.since(row["since"]), times.until(row["until"])))
    print_table(_COLUMNS, cells)
