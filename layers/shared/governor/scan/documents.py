"""The report of a scan as JSON and as CSV. Names of fields and columns are stable: programs read
them."""

from __future__ import annotations

from typing import Any

from governor.core.documents import csv_text
from governor.scan.model import Report, Row
from governor.verdict.model import PART_COLUMNS, part_values

COLUMNS = (
    "waste_usd_per_month",
    "usd_per_month",
    "usd_per_hour",
    "finding",
    "evidence_strength",
    "kind",
    "what",
    "name",
    "id",
    "account",
    "region",
    "owner",
    "creator",
    "manager",
    "is_governed",
    "since",
    "idle_since",
    "evidence",
    "command",
    "is_prepaid",
    *PART_COLUMNS,
)
"""Fields of a row in JSON, and columns of the CSV."""


def row_document(row: Row) -> dict[str, Any]:
    """Return a row by the names of `COLUMNS`; a field is `None` where the fact is not known."""
    resource = row.resource
    judgment = row.judgment
    values = (
        row.waste_usd_per_month,
        row.usd_per_month,
        row.usd_per_hour,
        judgment.finding,
        judgment.strength,
        row.kind,
        resource.what,
        resource.name or None,
        resource.resource_id,
        resource.target.account,
        resource.target.region,
        row.owner,
        resource.creator,
        resource.manager,
        resource.is_governed,
        resource.since,
        judgment.idle_since,
        judgment.evidence,
        row.command or None,
        resource.is_prepaid,
        *part_values(judgment.idle_parts),
    )
    return dict(zip(COLUMNS, values, strict=True))


def report_document(report: Report) -> dict[str, Any]:
    """Return the whole report for JSON. Amounts are exact (Decimal)."""
    return {
        "scanned_at": report.scanned_at,
        "is_complete": report.is_complete,
        "waste_usd_per_month": report.waste_usd_per_month,
        "weak_waste_usd_per_month": report.weak_waste_usd_per_month,
        "unpriced_waste": report.unpriced_waste,
        "rows": [row_document(row) for row in report.rows],
        "not_read": [
            {
                "place": line.place,
                "topic": line.topic,
                "operation": line.operation or None,
                "reason": line.reason,
                "is_missing_right": line.is_missing_right,
                "last_read_at": line.last_read_at,
            }
            for line in report.unread
        ],
        "places": [{"account": place.account, "region": place.region} for place in report.places],
        "calls": dict(sorted(report.calls.items())),
        "scan_usd": report.usd_spent,
    }


def rows_of(report: Report) -> tuple[tuple[Any, ...], ...]:
    """Return the values of all rows, in the order of `COLUMNS`."""
    return tuple(tuple(row_document(row).values()) for row in report.rows)


def rows_csv(report: Report) -> str:
    """Return all rows as CSV, with a line of titles."""
    return csv_text(COLUMNS, rows_of(report))
