"""What was done about which event, in the state table. Keys as `dynamodb` lists them.

    EVENT#...                SEEN                        done or being done, until `expires_at_epoch`
    TARGET#account#region    BURST#kind#zone             warnings counted since `started_at_epoch`
                             NOTICE#source#id            an announced date, or that it is over, with when
                                                         AWS said so; until a month after it
                             TOLD#...                    what people were told of, until `expires_at_epoch`

Claims and counts are sent once: a warning leaves two minutes, and whoever asks can do without an answer.
DynamoDB deletes late, so an item past its time counts as gone. This module must not know events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.domain.instance import Target
from governor.domain.notice import Notice
from governor.domain.parts import in_parts
from governor.domain.units import iso, parse_iso
from governor.errors import ConflictError, GovernorError
from governor.ports import Burst, EventLog

_ATTEMPTS = 3
"""Of a count that met another one beginning at the same moment."""
_TRANSACTION = 100
"""Actions in one. Source: DynamoDB API, TransactWriteItems."""
_CANCELLED = "TransactionCanceledException"
_COUNT_KEPT = timedelta(days=1)
_NOTICE_KEPT = timedelta(days=30)
"""After its date, or after the last word about it: twice as long as a dead-letter queue keeps an event."""
_UNKNOWN = "attribute_not_exists(said_at)"
_TOLD = "TOLD#"


class DynamoEventLog:
    """The port `EventLog`."""

    def __init__(self, clients: Clients, table_name: str) -> None:
        self._clients = clients
        self._table = table_name

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """As the port says."""
        try:
            self._update(
                _event_key(key),
                "SET expires_at_epoch = :until",
                "attribute_not_exists(pk) OR expires_at_epoch <= :now",
                {":until": _number(now + lease), ":now": _number(now)},
            )
        except ConflictError:
            return False
        return True

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """As the port says. A hundred in one transaction; one by one where any of them is not free."""
        claimed: set[str] = set()
        values = {":until": _number(now + lease), ":now": _number(now)}
        for part in in_parts(keys, _TRANSACTION):
            try:
                self._update_all(part, "attribute_not_exists(pk) OR expires_at_epoch <= :now", values)
            except GovernorError as error:
                # An answer that was lost says nothing about the claims; a refusal says that none was made.
                if not isinstance(error, ConflictError) and getattr(error, "code", "") != _CANCELLED:
                    raise
                claimed.update(key for key in part if self.claim(key, now, lease))
            else:
                claimed.update(part)
        return frozenset(claimed)

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        """As the port says."""
        self._update(_event_key(key), "SET expires_at_epoch = :until", None, {":until": _number(now + keep)})

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        """As the port says."""
        for part in in_parts(keys, _TRANSACTION):
            self._update_all(part, None, {":until": _number(now + keep)})

    def count(self, target: Target, name: str, now: datetime, window: timedelta) -> Burst:
        """As the port says."""
        key = _burst_key(target, name)
        for _ in range(_ATTEMPTS):
            try:
                return self._count_on(key, now, window)
            except ConflictError:
                pass  # none has begun, or it is over: begin one, unless another caller was faster
            try:
                return self._begin(key, now, window)
            except ConflictError:
                pass  # it was: count on its count
        raise ConflictError(f"the count of {name} in {target} kept beginning anew")

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """As the port says."""
        return self._move_notice(notice) or self._put_notice(
            notice,
            {**_notice_item(notice), "remind": {"BOOL": remind}},
            # What is over has no `what`: what was said at the same moment does not open it.
            f"{_UNKNOWN} OR said_at < :said OR (said_at = :said AND attribute_exists(what))",
        )

    def drop_notice(self, notice: Notice) -> None:
        """As the port says."""
        self._put_notice(notice, {}, f"{_UNKNOWN} OR said_at <= :said")

    def _move_notice(self, notice: Notice) -> bool:
        """The same date again, or none: all that is kept stays, and was said now."""
        values = {":said": {"S": iso(notice.said_at)}}
        same = "attribute_exists(#at)"
        if notice.at is not None:
            values[":at"] = {"S": iso(notice.at)}
            same = "#at = :at"
        try:
            with aws_errors("dynamodb:UpdateItem"):
                self._clients.client("dynamodb").update_item(
                    TableName=self._table,
                    Key=_notice_key(notice),
                    UpdateExpression="SET said_at = :said",
                    ConditionExpression=f"said_at <= :said AND {same}",
                    ExpressionAttributeNames={"#at": "at"},
                    ExpressionAttributeValues=values,
                )
        except ConflictError:
            return False
        return True

    def _put_notice(self, notice: Notice, document: Mapping[str, Any], condition: str) -> bool:
        said = {"S": iso(notice.said_at)}
        ends = max(notice.at or notice.said_at, notice.said_at) + _NOTICE_KEPT
        lives = {"said_at": said, "expires_at_epoch": _number(ends)}
        try:
            with aws_errors("dynamodb:PutItem"):
                self._clients.client("dynamodb").put_item(
                    TableName=self._table,
                    Item={**document, **lives, **_notice_key(notice)},
                    ConditionExpression=condition,
                    ExpressionAttributeValues={":said": said},
                )
        except ConflictError:
            return False
        return True

    def notices(self, target: Target) -> list[Notice]:
        """As the port says."""
        kept = self._query(target, "NOTICE#")
        return [_notice(target, item) for item in kept if item.get("remind", {}).get("BOOL")]

    def told(self, target: Target, now: datetime) -> frozenset[str]:
        """As the port says."""
        return frozenset(
            item["sk"]["S"].removeprefix(_TOLD)
            for item in self._query(target, _TOLD)
            if int(item["expires_at_epoch"]["N"]) > now.timestamp()
        )

    def keep_told(self, target: Target, keys: Collection[str], until: datetime) -> None:
        """As the port says."""
        for part in in_parts(sorted(set(keys)), _TRANSACTION):
            items = [{**_told_key(target, key), "expires_at_epoch": _number(until)} for key in part]
            puts = [{"Put": {"TableName": self._table, "Item": item}} for item in items]
            with aws_errors("dynamodb:TransactWriteItems"):
                self._clients.client("dynamodb").transact_write_items(TransactItems=puts)

    def _query(self, target: Target, prefix: str) -> list[dict[str, Any]]:
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :prefix)",
            "ExpressionAttributeValues": {":pk": {"S": _target_pk(target)}, ":prefix": {"S": prefix}},
        }
        found: list[dict[str, Any]] = []
        with aws_errors("dynamodb:Query"):
            for page in self._clients.client("dynamodb").get_paginator("query").paginate(**parameters):
                found += page["Items"]
        return found

    def _count_on(self, key: dict[str, Any], now: datetime, window: timedelta) -> Burst:
        found = self._update(
            key,
            "ADD warnings :one",
            "started_at_epoch > :over",
            {":one": {"N": "1"}, ":over": _number(now - window)},
        )
        started_at = datetime.fromtimestamp(int(found["started_at_epoch"]["N"]), tz=UTC)
        return Burst(int(found["warnings"]["N"]), started_at)

    def _begin(self, key: dict[str, Any], now: datetime, window: timedelta) -> Burst:
        self._update(
            key,
            "SET started_at_epoch = :now, warnings = :one, expires_at_epoch = :until",
            "attribute_not_exists(pk) OR started_at_epoch <= :over",
            {
                ":now": _number(now),
                ":one": {"N": "1"},
                ":until": _number(now + window + _COUNT_KEPT),
                ":over": _number(now - window),
            },
        )
        return Burst(1, now.replace(microsecond=0))

    def _update_all(self, keys: Sequence[str], condition: str | None, values: dict[str, Any]) -> None:
        conditional = {"ConditionExpression": condition} if condition else {}
        change = {
            "TableName": self._table,
            "UpdateExpression": "SET expires_at_epoch = :until",
            "ExpressionAttributeValues": values,
            **conditional,
        }
        actions = [{"Update": {**change, "Key": _event_key(key)}} for key in keys]
        with aws_errors("dynamodb:TransactWriteItems"):
            self._clients.client("dynamodb", repeat=False, patient=False).transact_write_items(
                TransactItems=actions
            )

    def _update(
        self, key: dict[str, Any], change: str, condition: str | None, values: dict[str, Any]
    ) -> dict[str, Any]:
        conditional = {"ConditionExpression": condition} if condition else {}
        with aws_errors("dynamodb:UpdateItem"):
            answer = self._clients.client("dynamodb", repeat=False, patient=False).update_item(
                TableName=self._table,
                Key=key,
                UpdateExpression=change,
                ExpressionAttributeValues=values,
                ReturnValues="ALL_NEW",
                **conditional,
            )
        found: dict[str, Any] = answer.get("Attributes") or {}
        return found


def _event_key(key: str) -> dict[str, Any]:
    return {"pk": {"S": f"EVENT#{key}"}, "sk": {"S": "SEEN"}}


def _target_pk(target: Target) -> str:
    return f"TARGET#{target.account}#{target.region}"


def _burst_key(target: Target, name: str) -> dict[str, Any]:
    return {"pk": {"S": _target_pk(target)}, "sk": {"S": f"BURST#{name}"}}


def _notice_key(notice: Notice) -> dict[str, Any]:
    target = Target(notice.account, notice.region)
    return {"pk": {"S": _target_pk(target)}, "sk": {"S": f"NOTICE#{notice.key}"}}


def _told_key(target: Target, key: str) -> dict[str, Any]:
    return {"pk": {"S": _target_pk(target)}, "sk": {"S": f"{_TOLD}{key}"}}


def _notice_item(notice: Notice) -> dict[str, Any]:
    document = {
        "source_id": notice.source_id,
        "what": notice.what,
        "at": None if notice.at is None else iso(notice.at),
        "instance_id": notice.instance_id,
        "reservation_id": notice.reservation_id,
    }
    return {name: {"S": value} for name, value in document.items() if value is not None}


def _notice(target: Target, item: Mapping[str, Any]) -> Notice:
    values = {name: value["S"] for name, value in item.items() if "S" in value}
    return Notice(
        account=target.account,
        region=target.region,
        source_id=values["source_id"],
        what=values["what"],
        at=parse_iso(values["at"]),
        said_at=parse_iso(values["said_at"]),
        instance_id=values.get("instance_id"),
        reservation_id=values.get("reservation_id"),
    )


def _number(moment: datetime) -> dict[str, str]:
    return {"N": str(int(moment.timestamp()))}


def _conforms(log: DynamoEventLog) -> EventLog:
    """Lets the type checker compare the class with its port."""
    return log
