"""`governor restore`: put missing records of a backup back into the state table.

An old state must do no harm. Everything is frozen before the first item is put back, nothing that
is there is overwritten, and items that would act, or let somebody in, by themselves are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass
from cli.errors import CommandError
from cli.output import Output
from cli.progress import Progress
from cli.record_names import counted_records
from cli.status import Stack, check
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.errors import GovernorError
from governor.core.units import in_utc, iso, parse_iso, plural, printable
from governor.limits.model.breaker import BreakerState
from governor.limits.store.breaker import Breakers
from governor.policy.store import SCHEMA, SCHEMA_KEY
from governor.table.table import update

_LEFT_OUT: Mapping[str, str] = {
    "SESSION#": "sign-ins: some that have ended since would be valid again",
    "CODE#": "codes of governor open",
    "OUTBOX#": "messages on their way: they would be sent twice",
    "DIGEST#": "messages on their way: they would be sent twice",
    "LEASE#": "messages on their way: they would be sent twice",
    "FLEET": "results of the last sweep: the next one has new ones",
    "SCAN": "results of the last daily scan: the next one has new ones",
    "OBSERVATIONS#": "results of the last sweep: the next one has new ones",
}
"""By the beginning of the partition key, or of the sort key."""
_HUB = ("BREAKER#hub", "HUB")
Item = dict[str, Any]
_Key = tuple[str, str]


def run(arguments: argparse.Namespace) -> int:
    """Put the missing items back.

    Raises:
        CommandError: a check refuses it, or an item could not be read or written.
    """
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
    source = arguments.source
    table = stack.outputs["StateTableName"]
    source_as_of = _check(dynamodb, source, table)
    lacking, left_out = _compare(dynamodb, stack, source)
    kinds = Counter(pk.partition("#")[0] for pk, _ in map(_key, lacking))
    numbers = counted_records(map(_key, lacking))
    as_of = in_utc(parse_iso(source_as_of)) if source_as_of else ""
    since = f", as it was on {as_of}" if as_of else ""
    out.say(
        f"{table} lacks {plural(len(lacking), 'item')} of {source}{since}: {numbers or 'none'}",
        lacking=dict(kinds),
        source_as_of=source_as_of,
    )
    for why, number in left_out.items():
        out.list(f"  {number} left out, {why}", "left_out", {"why": why, "items": number})
    if arguments.dry_run or not lacking:
        out.say("Nothing was written.", written=0)
        return
    _confirm(stack.name, arguments.confirm)
    _freeze(stack, source)
    written = _put_all(dynamodb, table, lacking)
    out.say(
        f"Restored {plural(written, 'item')}. Everything is frozen: nobody is asked, and nothing "
        "is stopped or terminated, for two days or until an admin ends the freeze in the "
        f"console.\nThe copy has no answers from after {as_of or 'its time'}. Before you end the "
        "freeze, look for later keeps and exemptions in the audit (docs/lifecycle.md).",
        written=written,
        frozen=True,
    )


def _compare(dynamodb: Any, stack: Stack, source: str) -> tuple[list[Item], Counter[str]]:
    """Return the items to put back, and how many are left out for each reason."""
    with Progress("comparing the tables"):
        table = stack.outputs["StateTableName"]
        present_keys = {_key(item) for item in _items(dynamodb, table, keys_only=True)}
        lacking: list[Item] = []
        left_out: Counter[str] = Counter()
        for item in _items(dynamodb, source):
            key = _key(item)
            if key in present_keys or key == _HUB or _is_expired(item, stack):
                continue
            why = _why_left_out(*key)
            if why is None:
                lacking.append(item)
            else:
                left_out[why] += 1
    return lacking, left_out


def _put_all(dynamodb: Any, table: str, lacking: Sequence[Item]) -> int:
    """Put the items back that are lacking still. Return how many were."""
    written = 0
    with Progress("restoring items") as progress:
        for item in lacking:
            progress.show(f"restoring items: {written} of {len(lacking)}")
            written += _put(dynamodb, table, item)
    return written


def _check(dynamodb: Any, source: str, table: str) -> str | None:
    """Check that the source is a copy of a state table that can be read.

    Return the time that the copy shows; `None` where DynamoDB does not say.

    Raises:
        CommandError: it is none, or not yet.
    """
    if source == table:
        raise CommandError(
            f"{table} is the state table itself: first restore a backup to a table of another name"
        )
    try:
        described = dynamodb.describe_table(TableName=source)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        raise CommandError(
            f"there is no table {printable(source)} in this account and Region"
        ) from None
    keys = [(key["AttributeName"], key["KeyType"]) for key in described["KeySchema"]]
    if keys != [("pk", "HASH"), ("sk", "RANGE")]:
        raise CommandError(f"{printable(source)} is not a state table: its keys are not pk and sk")
    status = described["TableStatus"]
    if status != "ACTIVE":
        raise CommandError(f"{printable(source)} is {status}: wait until it is ACTIVE")
    schema = _schema(dynamodb, source)
    if schema > SCHEMA:
        raise CommandError(
            f"{printable(source)} has items of schema {schema}, and this release reads up "
            f"to {SCHEMA}: use the release that wrote them"
        )
    restored_to = described.get("RestoreSummary", {}).get("RestoreDateTime")
    return iso(restored_to) if restored_to else None


def _schema(dynamodb: Any, table: str) -> int:
    """Return the schema of a table's items; 1 where the table does not say."""
    pk, sk = SCHEMA_KEY
    answer = dynamodb.get_item(TableName=table, Key={"pk": {"S": pk}, "sk": {"S": sk}})
    number = answer.get("Item", {}).get("number", {"N": "1"})
    return int(number["N"])


def _items(dynamodb: Any, table: str, *, keys_only: bool = False) -> Iterator[Item]:
    projection = {"ProjectionExpression": "pk, sk"} if keys_only else {}
    scan = dynamodb.get_paginator("scan")
    for page in scan.paginate(TableName=table, ConsistentRead=True, **projection):
        yield from page["Items"]


def _key(item: Item) -> _Key:
    return item["pk"]["S"], item["sk"]["S"]


def _is_expired(item: Item, stack: Stack) -> bool:
    until = item.get("expires_at_epoch", {}).get("N")
    return until is not None and int(until) <= stack.now.timestamp()


def _why_left_out(pk: str, sk: str) -> str | None:
    """Return the reason to leave an item out; `None` if it is to be put back."""
    for beginning, why in _LEFT_OUT.items():
        if pk.startswith(beginning) or sk.startswith(beginning):
            return why
    return None


def _confirm(name: str, given: str | None) -> None:
    if given is None and sys.stdin.isatty():
        given = input(f"Type the name of the stack, {name}, to restore them: ").strip()
    if given != name:
        raise CommandError(f"nothing was written: confirm with --confirm {name}")


def _freeze(stack: Stack, source: str) -> None:
    """Freeze everything, as the breaker over all targets does.

    `first`, the hour of its first count, becomes now: so the freeze ends by itself after two days
    at the earliest, and not with the next sweep.
    """
    table = DynamoTable(Clients(), stack.outputs["StateTableName"])
    before = Breakers(table).hub().freeze
    why = f"the state table was restored from {source}"
    if before:
        why += f"; before that: {before.why}"
    freeze = {"freeze": BreakerState(stack.now, why), "first": f"{stack.now:%Y%m%d%H}"}
    table.write(update(_HUB, freeze))


def _put(dynamodb: Any, table: str, item: Item) -> bool:
    """Put an item back. Return False if the table has one of its key by now."""
    try:
        dynamodb.put_item(
            TableName=table, Item=item, ConditionExpression="attribute_not_exists(pk)"
        )
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return False
    return True
