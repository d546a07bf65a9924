"""Tables and sentences of the command line: drawn on a terminal, aligned plain text in a pipe or a
file.

Rich lays them out. It is imported when something is drawn: help and JSON need none.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING

from governor.core.units import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ANY_WIDTH = 100_000
"""In characters: wider than every table."""
WIDTH = 80
"""The room for spare columns in a pipe or a file, in characters. No cell is cut there."""
_GAP = 2
_NARROWEST = 8
"""Characters that a column of names keeps where it gives way to others."""
_NARROWEST_SENTENCES = 12
"""Characters that a column of sentences keeps: its words may be longer, and go over two lines."""
_WORD = re.compile(r" *(?:`[^`]+`|[^ ])+")
"""A word with the spaces before it. Words between backticks are a command, so they are one word."""
_COPIED = re.compile(r"\barn:|://|`[^`]+`")
"""Found in a word that people copy: an ARN, a link or a command."""
_SHELL_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
"""A word of a command, with its quotes."""
STYLES = {
    "ok": "green",
    "confirmed": "green",
    "sound": "green",
    "in force": "green",
    "LOOK": "bold yellow",
    "unknown": "yellow",
    "warning": "yellow",
    "stop": "yellow",
    "can be held": "yellow",
    "stopped soon": "bold red",
    "begins soon": "bold red",
    "critical": "bold red",
    "refuted": "bold red",
    "terminate": "bold red",
    "EC2 was asked": "bold red",
}
"""The style of a cell with this text in a column that `is_colored`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    On a terminal, a cell that is wider than `longest` is cut. Only a column that `wraps`
    or `gives_way` goes over several lines where the terminal is narrow: an id on two lines could
    not be copied. A column that `wraps` holds sentences. One that `is_spare` is left out where
    there is no room for it. In one that `is_indented`, spaces at the start of a cell stay. In a
    pipe, each cell is whole, on one line.
    """

    title: str = ""
    is_number: bool = False
    wraps: bool = False
    longest: int | None = None
    gives_way: bool = False
    is_spare: bool = False
    is_colored: bool = False
    is_indented: bool = False
    narrowest: int = _NARROWEST
    """Characters that it keeps where it gives way: those of its longest word, if it is a date."""

    def cell(self, text: str) -> str:
        """Return the text of a cell as a terminal shows it."""
        shown = self.whole_cell(text)
        if self.longest is None:
            return shown
        return _cut(shown, self.longest)

    def whole_cell(self, text: str) -> str:
        """Return the text of a cell as a pipe gets it."""
        shown = printable(text)
        if not self.is_indented:
            return shown
        indent = len(text) - len(text.lstrip(" "))
        return f"{' ' * indent}{shown}"


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns that are shown, with their cells."""

    columns: Sequence[Column]
    cells: Sequence[Sequence[str]]
    styles: Mapping[str, str] = field(default_factory=dict)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print the table of a command: the rows, below the titles of the columns if they have any."""
    print(table_text(columns, rows))


def table_text(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return the table as standard output shows it: on a terminal with styles, else without."""
    if not sys.stdout.isatty():
        return plain_text(columns, rows)
    cells = []
    for row in rows:
        cells.append([column.cell(text) for column, text in zip(columns, row, strict=True)])
    return _drawn(columns, cells)


def print_text(text: str) -> None:
    """Print a sentence, as `shown_text` returns it."""
    print(shown_text(text))


def shown_text(text: str) -> str:
    """Return sentences as standard output shows them.

    A terminal gets them in lines of its width, indented like the first. In a pipe each stays one
    line.
    """
    if not sys.stdout.isatty():
        return text
    return in_lines(text)


def in_lines(text: str) -> str:
    """Return sentences in lines of the width of the terminal, each indented like its first."""
    width = terminal().width
    lines: list[str] = []
    for line in text.split("\n"):
        lines += wrapped(line, width)
    return "\n".join(lines)


def wrapped(line: str, width: int, hanging: str = "  ") -> list[str]:
    """Return a line in lines of the width, in cells: an emoji takes two.

    Lines after the first are indented by `hanging` more. A word that is longer goes over several,
    but an ARN, a link and a command between backticks stay whole: people copy them.
    """
    from rich.cells import cell_len, chop_cells

    indent = line[: len(line) - len(line.lstrip())]
    lines: list[str] = []
    current = ""
    for word in _WORD.findall(line):
        if cell_len(current + word) <= width:
            current += word
            continue
        if current:
            lines.append(current)
        start = f"{indent}{hanging}" if lines else indent
        current = start + word.lstrip(" ")
        if _COPIED.search(word) is None:
            *whole_lines, current = chop_cells(current, width)
            lines += whole_lines
    return [*lines, current]


def print_command(command: str, indent: str) -> None:
    """Print a command that somebody may copy, as `shown_command` returns it."""
    print(shown_command(command, indent))


def shown_command(command: str, indent: str) -> str:
    """Return a command as standard output shows it.

    A terminal gets it in lines of its width, each but the last with a backslash at its end. Only an
    option that is longer with its values makes a longer line. In a pipe the command is one line.
    """
    if not sys.stdout.isatty():
        return f"{indent}{command}"
    return "\n".join(command_lines(command, indent, terminal().width))


def command_lines(command: str, indent: str, width: int) -> list[str]:
    """Return a command in lines of the width, which a shell reads as one.

    A line ends only before an option, so each option is beside its values.
    """
    from rich.cells import cell_len

    end = " \\"
    first, *options = _command_parts(command)
    lines: list[str] = []
    current = indent + first
    for option in options:
        longer = f"{current} {option}"
        if cell_len(longer + end) > width:
            lines.append(current + end)
            current = f"{indent}  {option}"
        else:
            current = longer
    return [*lines, current]


def _command_parts(command: str) -> list[str]:
    """Return the words before the first option, and each option with its values."""
    parts: list[list[str]] = [[]]
    for word in _SHELL_WORD.findall(command):
        if word.startswith("-"):
            parts.append([])
        parts[-1].append(word)
    return [" ".join(part) for part in parts]


def terminal() -> Console:
    """Return the terminal of standard output. With NO_COLOR set, it has no styles at all."""
    from rich.console import Console

    return Console(color_system=None if os.environ.get("NO_COLOR") else "auto")


def plain_text(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return the table without styles or lines, with whole cells and two spaces between columns."""
    from rich.console import Console

    cells = []
    for row in rows:
        cells.append([one.whole_cell(text) for one, text in zip(columns, row, strict=True)])
    layout = _with_room_for(columns, cells, WIDTH)
    console = Console(file=StringIO(), width=_ANY_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(_table(layout, _widths(layout), is_drawn=False))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _drawn(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> str:
    """Return the table in the width of the terminal, or as wide as it must be."""
    from rich.console import Console

    screen = terminal()
    shown = _with_room_for(columns, cells, screen.width)
    layout = _Layout(shown.columns, shown.cells, STYLES)
    widths = _allotted(layout, screen.width)
    console = Console(
        width=max(screen.width, _needed(layout, widths)),
        color_system="auto" if screen.color_system else None,
    )
    with console.capture() as captured:
        console.print(_table(layout, widths, is_drawn=True))
    return captured.get().rstrip("\n")


def _needed(layout: _Layout, widths: Sequence[int]) -> int:
    """Return the least width of the table with columns of these widths."""
    needed = _GAP * (len(widths) - 1)
    for column, width in zip(layout.columns, widths, strict=True):
        needed += min(width, _NARROWEST_SENTENCES) if column.wraps else width
    return needed


def _with_room_for(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int
) -> _Layout:
    """Return the table without the spare columns for which this width has no room."""
    widths = _widths(_Layout(columns, cells))
    left = width + _GAP
    for column, needed in zip(columns, widths, strict=True):
        if not column.is_spare:
            left -= needed + _GAP
    shown = []
    for index, column in enumerate(columns):
        if column.is_spare:
            left -= widths[index] + _GAP
        if not column.is_spare or left >= 0:
            shown.append(index)
    shown_cells = []
    for row in cells:
        shown_cells.append([row[index] for index in shown])
    return _Layout([columns[index] for index in shown], shown_cells)


def _allotted(layout: _Layout, width: int) -> list[int]:
    """Return the width of each column in a table of that width. Columns that give way do so as far
    as they can, the widest first; if that is not enough, the table is wider."""
    widths = _widths(layout)
    givers = [index for index, column in enumerate(layout.columns) if column.gives_way]
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        wide = [index for index in givers if widths[index] > layout.columns[index].narrowest]
        if not wide:
            break
        widest = max(wide, key=lambda index: widths[index])
        widths[widest] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    """Return the text in at most that width; a character may be two cells wide."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, width - 1).rstrip()}…"


def _widths(layout: _Layout) -> list[int]:
    """Return the width of each column: that of its longest cell, or of its title."""
    from rich.cells import cell_len

    widths = []
    for index, column in enumerate(layout.columns):
        cells = [cell_len(row[index]) for row in layout.cells]
        widths.append(max([cell_len(column.title), *cells]))
    return widths


def _table(layout: _Layout, widths: Sequence[int], *, is_drawn: bool) -> Table:
    """Return the table with columns of these widths; one that wraps takes the room that is left."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    has_titles = any(column.title for column in layout.columns)
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
    for column, width in zip(layout.columns, widths, strict=True):
        table.add_column(
            Text(column.title),
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=not (column.wraps or column.gives_way),
            min_width=None if column.wraps else width,
            max_width=width if column.gives_way else None,
        )
    for row in layout.cells:
        texts = []
        for column, cell in zip(layout.columns, row, strict=True):
            style = layout.styles.get(cell, "") if column.is_colored else ""
            texts.append(Text(cell, style=style))
        table.add_row(*texts)
    return table
