"""The report of a scan as a table for a terminal, 80 columns wide.

Two lines a resource, if its type is short: a list can be looked over, and the name comes first. A
command is whole: on a terminal a backslash ends each of its lines, so a shell reads them as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.cells import cell_len, set_cell_size

from cli.tables import shown_command, wrapped
from governor.core.units import clip, money, plural, printable, usd
from governor.scan.model import Finding, Report, Row, Strength
from governor.scan.rules import groups_of, refusals_of
from governor.scan.words import headline, own_cost, price_word, refusal_text, remarks

_WIDTH = 80
_MOST_WASTED = 20
_MOST_OTHERS = 5
_MOST_COMMANDS = 10
_MOST_REFUSALS = 10
_LEFT = "{:>12}  {:<13}  {:<6}  "
_LAST_COLUMN = _WIDTH - len(_LEFT.format("", "", ""))
_BELOW = " " * 14
"""Begins the second line of a resource, below the findings: a type and its place are longer than
the last column."""
_GOVERNED = "* "
_EVERYTHING = "`--csv FILE`, `--html FILE` and `--json` have all of them"


def report_text(report: Report) -> str:
    """Return the report: sums, rows, what to do, and what could not be read."""
    blocks = [
        [*_wrapped(headline(report)), *_indented(remarks(report))],
        _table(report),
        _what_to_do(report),
        _not_read(report),
        _wrapped(own_cost(report)),
    ]
    texts = []
    for block in blocks:
        if block:
            texts.append("\n".join(block))
    return "\n\n".join(texts)


def _table(report: Report) -> list[str]:
    """Return the lines of the resources, the most expensive waste first; empty without rows."""
    if not report.rows:
        return []
    wasted = [row for row in report.rows if row.judgment.finding.is_waste]
    others = [row for row in report.rows if not row.judgment.finding.is_waste]
    lines = [_line("USD A MONTH", "FINDING", "PROOF", "NAME AND OWNER, THEN TYPE AND PLACE")]
    for row in wasted[:_MOST_WASTED]:
        lines += _row(row)
    lines += _rest(wasted[_MOST_WASTED:])
    if wasted:
        lines += [_line(money(report.waste_usd_per_month), "wasted", "", "in total"), ""]
    for row in others[:_MOST_OTHERS]:
        lines += _row(row)
    lines += _rest(others[_MOST_OTHERS:])
    if any(row.resource.is_governed for row in report.rows):
        lines.append(f"  {_GOVERNED}has the tag by which GPU Governor finds it")
    while not lines[-1]:
        lines.pop()
    return lines


def _row(row: Row) -> Iterator[str]:
    """Yield the two lines of a resource, or more if its type is long: its place is never cut. An
    owner for whom the first line has no room is behind the place. The number of idle GPUs is on the
    second line, below the finding `partly idle`."""
    resource = row.resource
    name = resource.name or resource.resource_id
    price = price_word(row) or money(row.usd_per_month or Decimal())
    mark = _GOVERNED if resource.is_governed else ""
    judgment = row.judgment
    owner = row.owner or "no owner"
    first = f"{mark}{name}, {owner}"
    second = f"{resource.what}, {resource.target}"
    if judgment.idle_parts is not None:
        second = f"{judgment.idle_parts.text} idle: {second}"
    if cell_len(printable(first)) > _LAST_COLUMN:
        first = f"{mark}{name}"
        second = f"{second}, {_cut(owner, _WIDTH - len(_BELOW))}"
    yield _line(price, judgment.finding, judgment.strength, first)
    yield from wrapped(f"{_BELOW}{printable(second)}", _WIDTH, hanging="")


def _rest(rows: Sequence[Row]) -> list[str]:
    """Return the lines about rows that are not shown: how many of each finding, with their price.
    Empty if all are shown."""
    if not rows:
        return []
    counts: list[str] = []
    for group in groups_of(rows, lambda row: row.judgment.finding):
        count = f"{group.rows} {group.name}"
        if not Finding(group.name).is_priced_elsewhere and group.usd_per_month:
            count = f"{count} ({usd(group.usd_per_month)} a month)"
        counts.append(count)
    text = f"and {len(rows)} more: {', '.join(counts)}. {_EVERYTHING}."
    return wrapped(f"  {text}", _WIDTH, hanging="")


def _line(price: str, finding: str, strength: str, text: str) -> str:
    """Return a line of the table; its last column is cut to the width."""
    return f"{_LEFT.format(price, finding, strength)}{_cut(text, _LAST_COLUMN)}".rstrip()


def _cut(text: str, width: int) -> str:
    """Return the text in at most that width; a character may be two cells wide."""
    shown = printable(text)
    if cell_len(shown) <= width:
        return shown
    return f"{set_cell_size(shown, width - 1).rstrip()}…"


def _what_to_do(report: Report) -> list[str]:
    """Return evidence and command of the most expensive waste; empty without waste."""
    wasted = [row for row in report.rows if row.judgment.finding.is_waste]
    if not wasted:
        return []
    lines = ["What to do"]
    for row in wasted[:_MOST_COMMANDS]:
        lines += _advice(row)
    if len(wasted) > _MOST_COMMANDS:
        left = plural(len(wasted) - _MOST_COMMANDS, "more command")
        lines += wrapped(f"  and {left}: {_EVERYTHING}.", _WIDTH, hanging="")
    return lines


def _advice(row: Row) -> list[str]:
    """Return the lines of one resource: its name, the evidence, and the command."""
    resource = row.resource
    name = clip(printable(resource.name or resource.resource_id), _LAST_COLUMN)
    doubt = " (weak evidence)" if row.judgment.strength is Strength.WEAK else ""
    text = f"{name} in {resource.target}{doubt}: {row.judgment.evidence}"
    lines = _indented([text])
    if row.command:
        lines.append(shown_command(printable(row.command), "    "))
    return lines


def _not_read(report: Report) -> list[str]:
    """Return the lines about what could not be read; empty if all could."""
    if report.is_complete:
        return []
    refusals = refusals_of(report.unread)
    lines = ["Not read"]
    lines += _indented([refusal_text(refusal) for refusal in refusals[:_MOST_REFUSALS]])
    if len(refusals) > _MOST_REFUSALS:
        lines.append(f"  and {len(refusals) - _MOST_REFUSALS} more: `--json` has all of them.")
    if any(refusal.is_missing_right for refusal in refusals):
        lines += _indented(["`governor scan --print-policy` prints a policy with all permissions."])
    return lines


def _indented(sentences: Sequence[str]) -> list[str]:
    """Return the sentences in lines of the width, indented, each on lines of its own."""
    lines: list[str] = []
    for sentence in sentences:
        lines += wrapped(f"  {printable(sentence)}", _WIDTH)
    return lines


def _wrapped(text: str) -> list[str]:
    """Return the text in lines of the width."""
    return wrapped(printable(text), _WIDTH, hanging="")
