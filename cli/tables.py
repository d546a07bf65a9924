"""Tables for people: drawn on a terminal, aligned plain text in a pipe or a file.

Rich lays them out. It is imported when a table is made: help and JSON need none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from governor.core.units import clip, printable

if TYPE_CHECKING:
    from rich.table import Table

_ANY_WIDTH = 100_000
"""In characters: wider than every table."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    A cell of more than `longest` characters is clipped. Only a column that `wraps` goes over
    several lines where the terminal is narrow: an id on two lines could not be copied.
    """

    title: str = ""
    is_number: bool = False
    wraps: bool = False
    longest: int | None = None

    def cell(self, text: str) -> str:
        """Return the text of a cell as it is shown."""
        shown = printable(text)
        if self.longest is None:
            return shown
        return clip(shown, self.longest)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows, below the titles of the columns if they have any."""
    print(table_text(columns, rows))


def table_text(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return the table as standard output shows it: on a terminal with styles, else without."""
    cells = [[column.cell(text) for column, text in zip(columns, row, strict=True)] for row in rows]
    if sys.stdout.isatty():
        return _drawn(columns, cells)
    return plain_text(columns, cells)


def plain_text(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> str:
    """Return the table without styles or lines, two spaces between columns."""
    from rich.console import Console

    console = Console(file=StringIO(), width=_ANY_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(_table(columns, cells, is_drawn=False))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _drawn(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> str:
    """Return the table in the width of the terminal, or as wide as it must be."""
    from rich.console import Console
    from rich.measure import Measurement

    table = _table(columns, cells, is_drawn=True)
    terminal = Console()
    any_width = terminal.options.update(width=_ANY_WIDTH)
    needed = Measurement.get(terminal, any_width, table).minimum
    console = Console(width=max(terminal.width, needed))
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")


def _table(columns: Sequence[Column], cells: Sequence[Sequence[str]], *, is_drawn: bool) -> Table:
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    has_titles = any(column.title for column in columns)
    has_rule = is_drawn and has_titles
    # The box adds a space between columns: two in all, as without it.
    table = Table(
        box=box.SIMPLE_HEAD if has_rule else None,
        padding=(0, 1, 0, 0) if has_rule else (0, 1),
        pad_edge=False,
        show_edge=False,
        show_header=has_titles,
        header_style="bold" if is_drawn else "none",
    )
    for index, column in enumerate(columns):
        widths = [cell_len(row[index]) for row in cells]
        table.add_column(
            Text(column.title),
            justify="right" if column.is_number else "left",
            no_wrap=not column.wraps,
            min_width=None if column.wraps else max(widths, default=0),
        )
    for row in cells:
        table.add_row(*map(Text, row))
    return table
