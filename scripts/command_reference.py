"""Writes the commands and their options into `docs/command-line.md`, from the parsers themselves.

The section "Commands" is generated, and is the last one. The text above it is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from cli import governor

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

PAGE = Path(__file__).parents[1] / "docs/command-line.md"
TITLE = "## Commands\n"
_LEAD = """
`make fix` generates this section from the commands themselves; `governor COMMAND --help` says the
same. The [options of every command](#options-of-every-command) are left out.
"""
_WIDTH = 100


def with_commands(text: str) -> str:
    """Return the text of the page with the section of the commands renewed.

    Raises:
        ValueError: the page has no such section.
    """
    above, title, _ = text.partition(TITLE)
    if not title:
        raise ValueError(f"{PAGE.name} has no section {TITLE.strip()!r}")
    return above + title + section()


def section() -> str:
    """Return the section below its title."""
    parts = [_LEAD]
    for group, commands in governor.GROUPS.items():
        parts.append(f"### {group}\n")
        for name, command in commands.items():
            parts += _command(name, command)
    return "\n".join(parts)


def _command(name: str, command: governor.Command) -> Iterator[str]:
    """Yield the paragraphs of one command."""
    parser = _subparsers(governor.parser(name)).choices[name]
    yield f"#### governor {name}\n"
    yield "\n".join(wrap(f"{_sentence(command.help)}.", _WIDTH))
    yield f"\nExample: `governor {command.example}`\n"
    commands = _commands_of(parser)
    if commands is not None:
        yield _table_of_commands(name, commands)
        return
    rows = _option_rows(parser)
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows, ""])


def _table_of_commands(area: str, commands: _Commands) -> str:
    """Return the table of the commands of an area, such as `approvals`, with their options."""
    lines = ["| command | meaning | options |", "|---|---|---|"]
    for shown in commands._choices_actions:
        name = shown.dest
        parser = commands.choices[name]
        required = [_written(option) for option in _options(parser) if not option.option_strings]
        optional = []
        for option in _options(parser):
            if option.option_strings:
                meaning = _meaning(parser, option)
                optional.append(f"`{_written(option)}`: {meaning}" if meaning else _code(option))
        line = " ".join([f"governor {area} {name}", *required])
        meaning = _sentence(_cell(shown.help or ""))
        lines.append(f"| `{line}` | {meaning} | {'<br>'.join(optional)} |")
    return "\n".join([*lines, ""])


def _option_rows(parser: argparse.ArgumentParser) -> list[str]:
    """Return the row of each option and value of a command."""
    return [f"| {_code(option)} | {_meaning(parser, option)} |" for option in _options(parser)]


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options and values of a command, without those that it hides."""
    return [
        option
        for option in parser._actions
        if option.help != argparse.SUPPRESS and not isinstance(option, argparse._HelpAction)
    ]


def _code(option: argparse.Action) -> str:
    """Return an option as code."""
    return f"`{_written(option)}`"


def _written(option: argparse.Action) -> str:
    """Return how an option is written on the line, as `--until TIME`."""
    names = ", ".join(option.option_strings)
    value = _value(option)
    words = [word for word in (names, value) if word]
    return _cell(" ".join(words))


def _value(option: argparse.Action) -> str:
    """Return the value of an option: its name, or the values it may have. Empty for a switch."""
    if option.nargs == 0:
        return ""
    if isinstance(option.metavar, str):
        name = option.metavar
    elif option.choices is not None:
        name = "|".join(map(str, option.choices))
    else:
        name = option.dest.upper()
    if option.nargs in ("+", "*"):
        return f"{name} ..."
    return f"[{name}]" if option.nargs == "?" else name


def _meaning(parser: argparse.ArgumentParser, option: argparse.Action) -> str:
    """Return the help of an option, with its default where the help names one."""
    if option.help is None:
        return ""
    formatter = parser._get_formatter()
    return _cell(formatter._expand_help(option))


def _commands_of(parser: argparse.ArgumentParser) -> _Commands | None:
    """Return the commands of an area. Return None for a command that has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action
    return None


def _subparsers(parser: argparse.ArgumentParser) -> _Commands:
    """Return the commands of a parser that has some."""
    commands = _commands_of(parser)
    assert commands is not None
    return commands


def _sentence(text: str) -> str:
    """Return a text with a capital letter first."""
    return text[:1].upper() + text[1:]


def _cell(text: str) -> str:
    """Return a text as the cell of a table takes it."""
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Renew the page."""
    PAGE.write_text(with_commands(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
