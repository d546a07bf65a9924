"""`governor restore`: puts back into the state table what a copy of it holds and the table lacks.

An old state must do no harm: everything is frozen before the first item is put back, nothing that
is there is overwritten, and what would act, or let somebody in, by itself is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass
from cli.errors import CommandError
from cli.output import Output
from cli.progress import Progress
from cli.status import Stack, check
from governor.adapters.clients import Clients
from governor.adapters.table.dynamodb import DynamoTable
from governor.domain.sweep.breaker import BreakerState
from governor.domain.units import iso, plural, printable
from governor.errors import GovernorError
from governor.stores import StateTable
from governor.stores.policy import SCHEMA, SCHEMA_KEY
from governor.stores.table import update

_LEFT_OUT: Mapping[str, str] = {
    "SESSION#": "sign-ins: one that was ended since would be valid again",
    "CODE#": "codes of governor open",
    "OUTBOX#": "messages on their way: they would be sent again",
    "DIGEST#": "messages on their way: they would be sent again",
    "LEASE#": "messages on their way: they would be sent again",
    "FLEET": "what the last sweep saw: the next one sees it anew",
    "OBSERVATIONS#": "what the last sweep saw: the next one sees it anew",
}
"""By the beginning of the partition key, or of the sort key."""
_HUB = ("BREAKER#hub", "HUB")
Item = dict[str, Any]
_Key = tuple[str, str]


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command."""
    made = areas.add_parser("restore")
    made.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="TABLE",
        help="a table that was restored to a time",
    )
    made.add_argument(
        "--dry-run", action="store_true", help="show what would be put back; write nothing"
    )
    made.add_argument(
        "--confirm", metavar="STACK", help="the stack's name; else you are asked to type it"
    )
    made.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Put back what is lacking."""
    stack = Stack(arguments.stack_name, aws.session())
    check(stack)
    try:
        with Output(arguments) as out:
            _restore(stack, arguments, out)
    except (BotoCoreError, ClientError, GovernorError) as error:
        raise CommandError(break_glass.reason(error, stack.session, stack.name)) from None
    return 0


def _restore(stack: Stack, arguments: argparse.Namespace, out: Output) -> None:
    dynamodb: Any = stack.session.client("dynamodb")
    source, table = arguments.source, stack.outputs["StateTableName"]
    at = _check(dynamodb, source, table)
    with Progress("comparing the tables"):
        there = {_key(item) for item in _items(dynamodb, table, keys_only=True)}
        lacking: list[Item] = []
        left_out: Counter[str] = Counter()
        for item in _items(dynamodb, source):
            if _key(item) in there or _key(item) == _HUB or _is_expired(item, stack):
                continue
            if why := _why_left_out(*_key(item)):
                left_out[why] += 1
            else:
                lacking.append(item)
    kinds = Counter(pk.partition("#")[0] for pk, _ in map(_key, lacking))
    of_them = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    since = f", as it was at {at}" if at else ""
    text = f"{table} lacks {plural(len(lacking), 'item')} of {source}{since}: {of_them or 'none'}"
    out.say(text, lacking=dict(kinds), source_as_of=at)
    for why, number in left_out.items():
        out.list(f"left out: {number}, {why}", "left_out", {"why": why, "items": number})
    if arguments.dry_run or not lacking:
        out.say("Nothing was written.", written=0)
        return
    _confirm(stack.name, arguments.confirm)
    _freeze(stack, source)
    with Progress("putting items back") as progress:
        written = 0
        for item in lacking:
            progress.show(f"putting items back: {written} of {len(lacking)}")
            written += _put(dynamodb, table, item)
    out.say(
        f"Put {plural(written, 'item')} back. Everything is frozen: nothing is asked, "
        "stopped or terminated "
        "for two days, or until an admin ends the freeze in the console.\n"
        f"The copy lacks what people answered after {at or 'its time'}. Before you end "
        "the freeze, look in "
        "the audit for keeps and exemptions (docs/lifecycle.md)",
        written=written,
        frozen=True,
    )


def _check(dynamodb: Any, source: str, table: str) -> str | None:
    """Return the time that the copy shows, where DynamoDB says so. Raises: CommandError."""
    if source == table:
        raise CommandError(
            f"{table} is the state table itself: restore it to a table of another name first"
        )
    try:
        found = dynamodb.describe_table(TableName=source)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        raise CommandError(
            f"there is no table {printable(source)} in this account and Region"
        ) from None
    keys = [(one["AttributeName"], one["KeyType"]) for one in found["KeySchema"]]
    if keys != [("pk", "HASH"), ("sk", "RANGE")]:
        raise CommandError(f"{printable(source)} is no state table: its keys are not pk and sk")
    if found["TableStatus"] != "ACTIVE":
        raise CommandError(
            f"{printable(source)} is {found['TableStatus']}: wait until it is ACTIVE"
        )
    key = dict(zip(("pk", "sk"), ({"S": part} for part in SCHEMA_KEY), strict=True))
    schema = (
        dynamodb.get_item(TableName=source, Key=key).get("Item", {}).get("number", {"N": "1"})["N"]
    )
    if int(schema) > SCHEMA:
        raise CommandError(
            f"{printable(source)} has items of schema {schema}, and this release reads up "
            f"to {SCHEMA}: "
            "restore it with the release that wrote it"
        )
    at = found.get("RestoreSummary", {}).get("RestoreDateTime")
    return iso(at) if at else None


def _items(dynamodb: Any, table: str, *, keys_only: bool = False) -> Iterator[Item]:
    asked = {"ProjectionExpression": "pk, sk"} if keys_only else {}
    for page in dynamodb.get_paginator("scan").paginate(
        TableName=table, ConsistentRead=True, **asked
    ):
        yield from page["Items"]


def _key(item: Item) -> _Key:
    return item["pk"]["S"], item["sk"]["S"]


def _is_expired(item: Item, stack: Stack) -> bool:
    until = item.get("expires_at_epoch", {}).get("N")
    return until is not None and int(until) <= stack.now.timestamp()


def _why_left_out(pk: str, sk: str) -> str | None:
    return next(
        (why for begin, why in _LEFT_OUT.items() if pk.startswith(begin) or sk.startswith(begin)),
        None,
    )


def _confirm(name: str, given: str | None) -> None:
    if given is None and sys.stdin.isatty():
        given = input(f"Type the name of the stack to put them back into {name}: ").strip()
    if given != name:
        raise CommandError(f"nothing was written: confirm with --confirm {name}")


def _freeze(stack: Stack, source: str) -> None:
    """Freeze everything, as the breaker over all targets does.

    `first`, the hour of its first count, becomes now: so the freeze ends by itself after two days
    at the earliest, and not with the next sweep.
    """
    table = DynamoTable(Clients(), stack.outputs["StateTableName"])
    before = StateTable(table).hub().freeze
    why = f"the state table was restored from {source}"
    why += f"; before that: {before.why}" if before else ""
    table.write(
        update(_HUB, {"freeze": BreakerState(stack.now, why), "first": f"{stack.now:%Y%m%d%H}"})
    )


def _put(dynamodb: Any, table: str, item: Item) -> bool:
    """True where it was lacking still."""
    try:
        dynamodb.put_item(
            TableName=table, Item=item, ConditionExpression="attribute_not_exists(pk)"
        )
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return False
    return True
