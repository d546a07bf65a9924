"""Prevents line breaks in pages and mails inside times, dates, lengths and counts, such as `Sat
04:02 Berlin` and `2 instances`, and inside IDs, Regions and ISO dates, which browsers would break
after a hyphen.

Pages and mails are rendered with plain text. As they leave the program, spaces inside times become
spaces that do not break, and each id gets a tag. Its text stays as it is, so that a copied id is
the id.
"""

from __future__ import annotations

import re

_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
_ZONE = r"[A-Z]\w+(?: [A-Z]\w+)*"
_TIME = rf"(?:[A-Z][a-z]{{2}} )?(?:[A-Z][a-z]{{2}} \d{{1,2}}, )?\d\d:\d\d(?: {_ZONE})?"
_TIMES = (
    rf"{_TIME}"  # Sat Dec 5, 04:02 Berlin
    r"|\b\d+ (?:h|min|days?)\b(?: \d+ min\b)?"  # 6 h 40 min
    r"|\b[A-Z][a-z]{2} \d{1,2}\b"  # Dec 5
    r"|\b\d[\d,]{0,12} instances?\b"
)
_REGION = r"[a-z]{2,4}(?:-[a-z]+)?-(?:north|south|east|west|central)(?:east|west)?-\d{1,2}"
_ID = r"[a-z]{1,9}-[0-9a-f]{8}(?:[0-9a-f]{9})?"
_IDS = (
    r"(?<![\w-])(?:"
    rf"\d{{12}}-{_REGION}-{_ID}-\w+-\d+"  # the name of an episode
    rf"|{_ID}"  # i-0123456789abcdef0
    rf"|(?:\d{{12}}/)?{_REGION}(?:-[a-z]{{3}}-\d)?[a-z]?"  # 111122223333/us-east-1, us-east-1a
    r"|\d{4}-\d\d(?:-\d\d)?"  # 2026-11-20
    r")(?![\w-])"
)
_QUOTE = "&#3[49];"
"""A quotation mark, as pages escape it."""
_MARKED_ID = rf"(?:[(\[]|{_QUOTE}){{0,3}}(?P<id>{_IDS})(?:[)\],.;:]|{_QUOTE}){{0,3}}"
"""An id with the marks around it, which would otherwise stand alone at the end of a line. More than
three are not looked at: somebody's tag may hold nothing but brackets."""
_KEPT = r"<(?P<raw>style|script|title|textarea|code)\b.*?</(?P=raw)>|<[^>]*>"
"""Tags, and elements that hold no text of the page, or text that people copy as it is."""
_ARN = r"\barn:aws[\w-]*:[\w:/.@+=-]*\w"
"""It may be longer than a line, and a browser finds it on a page only as one text."""
_UNTAGGED = r"<(?P<outer>svg|option)\b.*?</(?P=outer)>"
"""Elements in which a tag of HTML is not allowed."""
_TIMES_ONLY = re.compile(rf"(?P<kept>{_KEPT})|{_TIMES}", re.DOTALL)
_IN_PAGE = re.compile(
    rf"(?P<untagged>{_UNTAGGED})|(?P<kept>{_KEPT}|{_ARN})|{_MARKED_ID}|{_TIMES}", re.DOTALL
)
ID_TAG = '<span class="id">'
"""Begins an id on a page, whose style sheet keeps its class on one line."""


def steady_page(html: str, id_tag: str = ID_TAG) -> str:
    """Return a page or a mail whose times, lengths and counts do not break, and in which each id
    stands between `id_tag` and the end of a span, with the marks around it. ARNs, tags, styles,
    scripts, the title, code and what people type stay as they are. No attribute may hold a `>` that
    is not escaped."""

    def replaced(found: re.Match[str]) -> str:
        """Return a tag or an ARN as it is, an id in its tag, and a time without breaks."""
        if found["untagged"]:
            return _TIMES_ONLY.sub(_without_breaks, found[0])
        if found["id"]:
            return f"{id_tag}{found[0]}</span>"
        return _without_breaks(found)

    return _IN_PAGE.sub(replaced, html)


def _without_breaks(found: re.Match[str]) -> str:
    """Return what is kept as it is, and a time with spaces that do not break."""
    return found["kept"] or found[0].replace(" ", _NO_BREAK_SPACE)
