"""Point-in-time recovery and encryption of tables.

- AWS: a table has it where the stack says so; only then it can be restored, to a moment of the past
  and no later than now, into a table with neither stream, time to live, protection nor recovery of
  its own, but encrypted as its source; its description says of what and of when it is a copy.
  Engine: forgets what the stack says and the encryption, copies what the table holds now, and says
  nothing of it.

What a table held is found from its stream: so only one with a stream of both images goes back in
time.
"""

from __future__ import annotations

import json
import time
from typing import Any

_BOTH = "NEW_AND_OLD_IMAGES"


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every request and resource."""
    from ministack.core.responses import error_response_json
    from ministack.services import dynamodb
    from ministack.services.cloudformation import provisioners

    own = provisioners._RESOURCE_HANDLERS["AWS::DynamoDB::Table"]
    create, restore = own["create"], dynamodb._restore_table_to_point_in_time
    describe = dynamodb._table_description

    def created(logical_id: str, properties: Any, *given: Any, **more: Any) -> Any:
        name, attributes = create(logical_id, properties, *given, **more)
        wanted = properties.get("PointInTimeRecoverySpecification") or {}
        if encryption := properties.get("SSESpecification"):
            # A request says Enabled where a template says SSEEnabled.
            spec = {**encryption, "Enabled": str(encryption.get("SSEEnabled")).lower() == "true"}
            dynamodb._tables[name]["SSEDescription"] = dynamodb._sse_description_from_spec(spec)
        dynamodb._pitr_settings[name] = (
            str(wanted.get("PointInTimeRecoveryEnabled")).lower() == "true"
        )
        return name, attributes

    def restored(asked: dict[str, Any]) -> Any:
        source = asked.get("SourceTableName") or ""
        if source in dynamodb._tables and not dynamodb._pitr_settings.get(source):
            return error_response_json(
                "PointInTimeRecoveryUnavailableException",
                f"Point in time recovery is not enabled for table '{source}'",
                400,
            )
        moment = (
            time.time() if asked.get("UseLatestRestorableTime") else asked.get("RestoreDateTime")
        )
        if moment is None or float(moment) > time.time():
            return error_response_json(
                "InvalidRestoreTimeException", "the time cannot be restored", 400
            )
        answer = restore(asked)
        if answer[0] == 200:
            table = dynamodb._tables[asked["TargetTableName"]]
            table["SSEDescription"] = dynamodb._tables[source].get("SSEDescription")
            for record in reversed(dynamodb.stream_live_records(source)):
                if _milliseconds(record) > float(moment) * 1000:
                    _undo(table, record["dynamodb"])
            dynamodb._items_replaced(table)
            table.pop("StreamSpecification", None)
            table["RestoreSummary"] = {
                "SourceTableArn": dynamodb._tables[source]["TableArn"],
                "RestoreDateTime": float(moment),
                "RestoreInProgress": False,
            }
        return answer

    def described(name: str) -> Any:
        summary = dynamodb._tables[name].get("RestoreSummary")
        return describe(name) | ({"RestoreSummary": summary} if summary else {})

    own.update(create=created)
    dynamodb._table_description = described
    dynamodb._restore_table_to_point_in_time = restored


def _milliseconds(record: dict[str, Any]) -> int:
    """Return when it was written; the record's own time is cut to the second."""
    return int(record["dynamodb"]["SequenceNumber"][:20])


def _undo(table: dict[str, Any], change: dict[str, Any]) -> None:
    """Puts one item back as it was before one change. Raises: ValueError without its images."""
    if change["StreamViewType"] != _BOTH:
        raise ValueError("a stream without both images does not say what a table held")
    first, second = (
        json.loads(json.dumps(change["Keys"][table[one]])) for one in ("pk_name", "sk_name")
    )
    pk, sk = (next(iter(one.values())) for one in (first, second))
    if "OldImage" in change:
        table["items"][pk][sk] = change["OldImage"]
    else:
        table["items"][pk].pop(sk, None)
