"""Targets whose last sweep failed, as the state machine of the sweep writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from governor.core.instance import Target
from governor.core.units import UtcDatetime, parse_iso
from governor.table.table import DAMAGED, Table


@dataclass(frozen=True, slots=True)
class Unswept:
    """The last failure of a target's sweep, as Step Functions records it."""

    at: UtcDatetime
    error: str
    cause: str


def unswept(table: Table) -> dict[Target, Unswept]:
    """Return the last failure of each target that had one, also where it was swept since; empty if
    none had. Damaged records are left out. Raises: CloudError."""
    failures = {}
    for item in table.query("UNSWEPT"):
        try:
            account, region = item["sk"].split("#")
            why = json.loads(item["why"])
            at = parse_iso(item["failed_at"])
            failure = Unswept(at, str(why["Error"]), str(why.get("Cause", "")))
            failures[Target(account, region)] = failure
        except DAMAGED:
            table.log_left_out(f"UNSWEPT / {item['sk']}")
    return failures
