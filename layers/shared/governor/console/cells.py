"""Texts in the cells of the console's tables, which break lines between words alone.

A cell is one line unless its column is of words. In such a column, dates, times and lengths stay
whole. Names that people give may take two lines.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_SHORT = 14
"""Names of so few characters do not break."""
_LONGEST_PIECE = 20
"""Longer pieces of a name, between its marks, break anywhere: no column can be as wide."""
_SPLIT = re.compile(r"[\s\-_./@:=]+")
_MARK = re.compile(r"(?<=[_./@:=])(?=[^_./@:=])")
"""The place after a mark at which browsers do not break by themselves."""
_DATE = re.compile(r"\b([A-Z][a-z]{2}) ([A-Z][a-z]{2}) (\d{1,2},) (?=\d\d:\d\d\b)")
"""The date before a time, such as `Sun Nov 29, `."""


def name_html(name: str) -> Markup:
    """Return a name as HTML, in which it keeps its own direction of writing. A short name
    does not break, and others break after their marks, such as hyphens. One with a piece that no
    column can hold breaks anywhere."""
    if len(name) <= _SHORT:
        return Markup("<bdi>{}</bdi>").format(name)
    if any(len(piece) > _LONGEST_PIECE for piece in _SPLIT.split(name)):
        return Markup('<bdi class="long">{}</bdi>').format(name)
    parts = Markup("<wbr>").join(_MARK.split(name))
    return Markup('<bdi class="name">{}</bdi>').format(parts)


def state_html(words: str) -> Markup:
    """Return the words of a state as HTML. They are one line, but for two kinds:
    `stopped by GPU Governor` may break before "by", and `partly idle: 7 of 8 GPUs` after the colon
    and before the last word."""
    state, colon, number = words.partition(": ")
    if not colon:
        return Markup(" <wbr>by ").join(words.split(" by "))
    amount, _, name = number.rpartition(" ")
    return Markup("{}: <wbr>{} <wbr>{}").format(state, amount, name)


def next_html(words: str) -> Markup:
    """Return the words of a next step as HTML, in which `Sun Nov 29, 16:02 Berlin` may break
    between the date and the time. The last column of a screen of 1,024 points cannot hold both."""
    # Other passes join a date to the time that follows it, but not across a tag.
    safe_words = str(escape(words))
    return Markup(_DATE.sub(r"\1&nbsp;\2&nbsp;\3 <wbr>", safe_words))  # noqa: S704 - escaped
