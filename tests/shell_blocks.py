"""The commands in the `sh` blocks of the documentation, as a reader types them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PLACEHOLDER = re.compile(r"<([A-Za-z0-9_]+)>")
"""A name that a reader replaces, marked as docs/index.md says."""
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


class Typed(NamedTuple):
    """A command as a reader types it."""

    page: str
    line: int
    text: str


@dataclass(slots=True)
class Command:
    """The words of one command, and the file that its output goes to, if to any."""

    words: list[str] = field(default_factory=list)
    file: str = ""


def commands_of(page: Path) -> Iterator[Typed]:
    """Yield the commands in the `sh` blocks of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    for block in _BLOCK.finditer(text):
        if block[2] == "sh":
            first_line = text[: block.start(3)].count("\n") + 1
            yield from _of_block(name, first_line, block[3].splitlines())


def blocks_of(page: Path, language: str) -> list[str]:
    """Return the text of each block of a page in one language, without the page's indentation."""
    found = []
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block[2] == language:
            found.append(re.sub(f"^{block[1]}", "", block[3], flags=re.MULTILINE))
    return found


def _of_block(page: str, first_line: int, lines: Sequence[str]) -> Iterator[Typed]:
    """Yield each command. It goes on in the next line after a backslash, and within quotes."""
    pending, begun = "", first_line
    for number, line in enumerate(lines, first_line):
        begun = begun if pending else number
        pending += line.strip() + "\n"
        if line.endswith("\\") or not _is_whole(pending):
            continue
        yield Typed(page, begun, pending.replace("\\\n", " ").strip())
        pending = ""
    assert not pending, f"{page}:{begun} never ends: {pending}"


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


def parsed(text: str) -> list[Command]:
    """Return the commands in a line, which `&&` separates, without its comment."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=">&")
    lexer.whitespace_split = True
    commands = [Command()]
    is_file = False
    for word in lexer:
        if word == "&&":
            commands.append(Command())
        elif word == ">":
            is_file = True
        elif is_file:
            commands[-1].file = word
            is_file = False
        else:
            commands[-1].words.append(word)
    return commands
