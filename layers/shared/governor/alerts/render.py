"""Renders the templates of messages in `words/` with Jinja2.

This is the only module of the alerts that loads Jinja2, which takes a quarter of the time of a
whole cold start. So it is imported when the first message is worded:
`governor.alerts.templates` does that, and nothing else may import it.

`words/README.md` says how a template is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from governor.alerts.model import AlertKind, LineForm, Severity, Words
from governor.core import units

FOLDER = Path(__file__).parent / "words"
_BORDER = "\ufdd0"
_BREAK = "\ufdd1"
"""Two characters that Unicode reserves for programs. While a template is rendered, `_BORDER` stands
before and after each value, and `_BREAK` for a line break in a value. So a value can neither begin
a line nor pass for a heading or an item, whatever its text is."""
_IN_VALUES = str.maketrans({_BORDER: None, "\n": _BREAK})
_IN_TEXTS = str.maketrans({_BORDER: None, _BREAK: "\n"})
_CONTINUED = re.compile(r"\\\n *")
_HEADINGS = ("## ", "### ")
_ITEM = "- "
_ZONE = "time_zone_of_reader"
_NOW = "time_of_message"


def rendered(template: str, values: Mapping[str, Any], zone: str, now: datetime | None) -> Words:
    """Return the words of a template, such as `pause ended` (`pause-ended.txt`), with times in this
    zone, relative to `now`. A template that sets no `alert_kind` gives no kind and no severity. If
    `now` is `None`, each time is relative to itself.

    Raises: jinja2.UndefinedError if the template names a value that is missing;
    jinja2.TemplateNotFound if there is no such template.
    """
    file_name = f"{template.replace(' ', '-')}.txt"
    all_values = {**values, _ZONE: zone, _NOW: now}
    # A module has the text, and the variables that the template sets.
    module = environment().get_template(file_name).make_module(all_values)
    words = _words_of(_lines(str(module)))
    exported = vars(module)
    if "alert_kind" not in exported:
        return words
    kind = AlertKind(exported["alert_kind"])
    return replace(words, kind=kind, severity=Severity(exported["alert_severity"]))


@cache
def environment() -> Environment:
    """Return the environment of all templates. A template is read when it is first used."""
    folders = sorted(folder for folder in FOLDER.iterdir() if folder.is_dir())
    environment = Environment(  # noqa: S701 - plain text, which every channel escapes by itself
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        finalize=_bordered,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        capital=units.capitalized,
        clock=_time_filter(units.clock),
        day=_time_filter(units.day_and_time),
        deadline=_time_filter(units.deadline),
        full_stop=units.full_stop,
        named_time=_time_filter(units.time_with_zone),
        people=units.people,
        sentence=units.sentence,
        times=_text_filter,
        usd=units.usd,
    )
    return environment


def _time_filter(in_words: Callable[[datetime, str, datetime], str]) -> Callable[..., str]:
    """Return a filter for templates that words a time by `in_words`, in the reader's zone and
    relative to the message's time."""

    @pass_context
    def filtered(context: Context, moment: datetime) -> str:
        """Return `moment` in words. Without a time of the message, it is relative to itself."""
        now = context[_NOW] or moment
        return in_words(moment, context[_ZONE], now)

    return filtered


@pass_context
def _text_filter(context: Context, text: str) -> str:
    """Return a recorded text with its times in the reader's zone. Without a time of the message it
    stays as it is."""
    now = context[_NOW]
    return text if now is None else units.times_in_zone(text, context[_ZONE], now)


def _bordered(value: object) -> str:
    """Return the text of a value on one line, between two borders. Borders inside the text are
    removed, and `_BREAK` stands for its line breaks."""
    text = str(value).translate(_IN_VALUES)
    return f"{_BORDER}{text}{_BORDER}"


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a rendered template, with the borders of their values. A line that ends
    with a backslash goes on in the next one.

    A line that its values leave empty is left out.
    """
    for indented_line in _CONTINUED.sub("", text).split("\n"):
        line = indented_line.lstrip(" ")
        if line.replace(_BORDER, ""):
            yield line


def _words_of(rendered_lines: Iterable[str]) -> Words:
    """Return the first line as the title, and the others as the body. A heading is left out if no
    line follows it. Without lines the title is empty."""
    title = ""
    lines: list[str] = []
    forms: list[LineForm] = []
    heading_mark = ""
    heading = ""
    for rendered_line in rendered_lines:
        text = _text(rendered_line)
        if rendered_line.startswith(_HEADINGS):
            heading_mark, _, heading = text.partition(" ")
            continue
        if heading:
            # The heading is written now that a line follows it. `##` has an empty line before it.
            if heading_mark == "##":
                lines.append("")
                forms.append(LineForm.EMPTY)
            lines.append(f"{heading}:")
            forms.append(LineForm.HEADING)
            heading = ""
        if not title and not lines:
            title = text
            continue
        lines.append(text)
        forms.append(LineForm.ITEM if rendered_line.startswith(_ITEM) else LineForm.TEXT)
    return Words(title, tuple(lines), tuple(forms))


def _text(line: str) -> str:
    """Return a rendered line as people read it: values without their borders, and with their line
    breaks."""
    return line.translate(_IN_TEXTS)
