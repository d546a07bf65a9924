"""Targets that a sweep could not read, as its state machine notes them in the state table."""

from __future__ import annotations

import json
from dataclasses import dataclass

from governor.domain.instance import Target
from governor.domain.units import UtcDatetime, parse_iso
from governor.stores.table import DAMAGED, Table


@dataclass(frozen=True, slots=True)
class Unswept:
    """Why the last sweep of a target failed, as Step Functions notes it."""

    at: UtcDatetime
    error: str
    cause: str


def unswept(table: Table) -> dict[Target, Unswept]:
    """Return the last failure of each target that ever was not swept, also where it was swept
    since."""
    found = {}
    for item in table.query("UNSWEPT"):
        try:
            account, region = item["sk"].split("#")
            why = json.loads(item["why"])
            at = parse_iso(item["failed_at"])
            found[Target(account, region)] = Unswept(
                at, str(why["Error"]), str(why.get("Cause", ""))
            )
        except DAMAGED:
            table.leave_out(f"UNSWEPT / {item['sk']}")
    return found
