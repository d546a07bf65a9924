"""The Ungoverned page: what costs money for accelerators and is not governed, by the daily scan.

Rows, sums and sentences are those of `governor scan`; this page only arranges them.
"""

from __future__ import annotations

from functools import partial

from governor.console.page import Page, Table, ViewRequest
from governor.console.parts import csv_parts
from governor.console.views import addresses, figures
from governor.core.units import listed
from governor.scan.documents import COLUMNS, report_document, rows_of
from governor.scan.model import Finding, Row, Strength, Unread
from governor.scan.rules import first_groups, groups_of, refusals_of
from governor.scan.snapshot import Ungoverned
from governor.scan.words import price_word, refusal_text, remarks, ungoverned_headline

_ROWS = 100
_GROUPS_SHOWN = 10
"""The most groups of each kind that the page shows, the most expensive waste first."""
_REFUSALS_SHOWN = 50
_LATE_SHOWN = 20
_UNREAD_COLUMNS = (
    "place",
    "topic",
    "operation",
    "reason",
    "is_missing_right",
    "last_read_at",
)
_NAMES = {
    "sagemaker": "SageMaker",
    "ec2": "EC2",
    "eks": "EKS",
    "ip": "IP",
    "auto": "Auto",
    "scaling": "Scaling",
    "batch": "Batch",
}
"""Words of kinds as AWS writes them."""
_PILLS = {Strength.STRONG: "bad", Strength.WEAK: "warn", Strength.NONE: "soft"}
"""Colors of waste, by how much its evidence proves."""


def ungoverned(request: ViewRequest) -> Page:
    """Return the page of what the caller may see of the last scans. Raises: InputError for a page
    that cannot be; CloudError."""
    found = figures.found_by_scans(request)
    report = found.report
    shown, pages = addresses.paged(request, "/ungoverned", {}, report.rows, _ROWS)
    groups = {
        "kind": groups_of(report.rows, _kind_of),
        "account": groups_of(report.rows, _account_of),
        "owner": groups_of(report.rows, _owner_of),
    }
    document = _document(found)
    limits = remarks(report)
    refusals = refusals_of(report.unread)
    if not found.is_scanned:
        # The headline says it of all places.
        limits = []
        refusals = ()
    unread = tuple(_unread_values(line) for line in report.unread)
    table = Table("ungoverned", COLUMNS, rows_of(report))
    return Page(
        title="Ungoverned",
        template="ungoverned.html",
        values={
            "headline": ungoverned_headline(report, is_scanned=found.is_scanned),
            "remarks": limits,
            "found": found,
            "report": report,
            "lines": [(row, _pill(row), price_word(row)) for row in shown],
            "pages": pages,
            "groups": {name: first_groups(sums, _GROUPS_SHOWN) for name, sums in groups.items()},
            "refusals": [refusal_text(refusal) for refusal in refusals[:_REFUSALS_SHOWN]],
            "refusals_left": len(refusals[_REFUSALS_SHOWN:]),
            "late": listed([str(place) for place in found.late], _LATE_SHOWN),
            "has_missing_right": any(line.is_missing_right for line in report.unread),
            # Called only for HTML: it takes half a second for 10,000 rows.
            "count_csv_parts": partial(_count_csv_parts, table),
            "sees_everything": request.scope.everything,
        },
        document=document,
        long_lists=("rows", "not_read"),
        tables=(
            table,
            Table("not-read", _UNREAD_COLUMNS, unread),
        ),
    )


def _count_csv_parts(table: Table) -> int:
    """Return in how many parts the CSV of a table comes."""
    return len(csv_parts(table))


def _document(found: Ungoverned) -> dict[str, object]:
    """Return the page for JSON: the fields of a scan's report, but not the calls by operation,
    which are not kept; and what the list lacks."""
    document = report_document(found.report)
    del document["calls"]
    document["is_scanned"] = found.is_scanned
    document["left_out"] = found.left_out
    document["left_out_waste_usd_per_month"] = found.left_out_waste_usd_per_month
    late = [{"account": place.account, "region": place.region} for place in found.late]
    document["late_places"] = late
    return document


def _unread_values(line: Unread) -> tuple[object, ...]:
    """Return a line about what could not be read, in the order of `_UNREAD_COLUMNS`."""
    return (
        line.place,
        line.topic,
        line.operation,
        line.reason,
        line.is_missing_right,
        line.last_read_at,
    )


def _pill(row: Row) -> str:
    """Return the color of a finding: waste by how well it is proven, what works as good."""
    if row.judgment.finding.is_waste:
        return _PILLS[row.judgment.strength]
    return "good" if row.judgment.finding is Finding.BUSY else "soft"


def _kind_of(row: Row) -> str:
    """Return the kind of a row, in words: `SageMaker endpoint`."""
    words = [_NAMES.get(word, word) for word in row.kind.split("-")]
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]}"


def _account_of(row: Row) -> str:
    """Return the account of a row."""
    return row.resource.target.account


def _owner_of(row: Row) -> str:
    """Return the owner of a row, or that no tag names one."""
    return row.owner or "no owner tag"
