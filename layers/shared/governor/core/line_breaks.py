"""Where lines may not break: inside times, dates and lengths, such as `Sat 04:02 Berlin`.

Pages and mails are rendered with plain spaces, and those inside times are replaced as they leave
the program.
"""

from __future__ import annotations

import re

_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
_ZONE = r"[A-Z]\w+(?: [A-Z]\w+)*"
_TIME = rf"(?:[A-Z][a-z]{{2}} )?(?:[A-Z][a-z]{{2}} \d{{1,2}}, )?\d\d:\d\d(?: {_ZONE})?"
_WHOLE = (
    rf"{_TIME}"  # Sat Dec 5, 04:02 Berlin
    r"|\b\d+ (?:h|min|days?)\b(?: \d+ min\b)?"  # 6 h 40 min
    r"|\b[A-Z][a-z]{2} \d{1,2}\b"  # Dec 5
)
_IN_TEXT = re.compile(_WHOLE)
_NO_TEXT = r"<(?P<raw>style|script|title)\b.*?</(?P=raw)>|<[^>]*>"
_IN_PAGE = re.compile(rf"(?P<kept>{_NO_TEXT})|{_WHOLE}", re.DOTALL)


def steady(text: str) -> str:
    """Return the text with spaces that do not break in its times, dates and lengths."""
    return _IN_TEXT.sub(_without_breaks, text)


def steady_page(html: str) -> str:
    """Return a page or a mail, whose times, dates and lengths then do not break. Its tags, styles,
    scripts and title stay as they are."""

    def replaced(found: re.Match[str]) -> str:
        """Return a tag as it is, and a time without breaks."""
        return found["kept"] or _without_breaks(found)

    return _IN_PAGE.sub(replaced, html)


def _without_breaks(found: re.Match[str]) -> str:
    """Return what was found, with spaces that do not break."""
    return found[0].replace(" ", _NO_BREAK_SPACE)
