"""The report of a scan as a table of 80 columns."""

from __future__ import annotations

from cli.tables import Column, print_table
from governor.core.units import money
from governor.scan.model import Report, Row

_COLUMNS = (
    Column("USD A MONTH", is_number=True),
    Column("FINDING"),
    Column("EVIDENCE"),
    Column("WHAT"),
    Column("PLACE"),
)


def print_report(report: Report) -> None:
    """Print the rows, the sums, and what could not be read."""
    if report.rows:
        print_table(_COLUMNS, [_cells(row) for row in report.rows])
    print(f"waste: ${money(report.waste_usd_per_month)} a month")
    for line in report.unread:
        print(f"not read: {line.topic} in {line.place}: {line.reason}")


def _cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""
    price = "?" if row.usd_per_month is None else money(row.usd_per_month)
    resource = row.resource
    return (
        price,
        row.judgment.finding,
        row.judgment.strength,
        f"{resource.name or resource.resource_id} {resource.what}",
        str(resource.target),
    )
