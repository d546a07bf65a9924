"""Provisioned throughputs of Bedrock.

- AWS: a list holds only those of the status that is asked for. Engine: all.
- AWS: each names its foundation model, and the end of its commitment. Engine: neither.
- AWS: a throughput may have been there for weeks. Engine: it begins now. `set_created` puts it
  back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

_DAYS = {"OneMonth": 30, "SixMonths": 180}


def repair() -> None:
    """Replaces the engine's list, which it looks up by name at every request."""
    from ministack.services import bedrock as engine

    def listed(query: Mapping[str, Any]) -> Any:
        asked = query.get("statusEquals")
        wanted = asked[0] if isinstance(asked, list) else asked
        summaries = [
            _summary(record)
            for record in engine._provisioned_throughputs.values()
            if wanted in (None, record["Status"])
        ]
        return engine._json({"ProvisionedModelSummaries": summaries})

    engine._list_provisioned = listed


def set_created(account: str, region: str, name: str, created: str) -> None:
    """Put the creation of a throughput back. Raises: LookupError for one that is not there."""
    from ministack.core.responses import request_scope
    from ministack.services import bedrock as engine

    with request_scope(account, region):
        for record in engine._provisioned_throughputs.values():
            if record["ProvisionedModelName"] == name:
                record["CreationTime"] = created
                record["LastModifiedTime"] = created
                return
    raise LookupError(f"no provisioned throughput is named {name}")


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the fields that it lacks."""
    summary = {**record, "FoundationModelArn": record["ModelArn"]}
    days = _DAYS.get(record.get("CommitmentDuration"))
    if days is not None:
        created = datetime.fromisoformat(record["CreationTime"].replace("Z", "+00:00"))
        summary["CommitmentExpirationTime"] = (created + timedelta(days=days)).isoformat()
    return summary
