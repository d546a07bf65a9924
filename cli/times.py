"""Times as people in a terminal read them: how far off, and by the clock of this machine's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from governor.domain.units import left, parse_iso, span

_DAYS_BY_NAME = timedelta(days=6)
_JUST_SET = timedelta(minutes=1)
"""So that 7 days, set a moment ago, read as 7 days."""


def now() -> datetime:
    """This moment. One function, so that tests can say what time it is."""
    return datetime.now(tz=UTC)


def ago(moment: datetime, at: datetime) -> str:
    """`4 min ago (Mon 09:10 CET)`."""
    return f"{span(at - moment)} ago ({_clock(moment, at)})"


def until(text: str) -> str:
    """`in 23 h (Tue 09:00 CET)`, of a time of the API; `ago` where it is over."""
    moment, at = parse_iso(text), now()
    return (
        f"in {left(moment - at + _JUST_SET)} ({_clock(moment, at)})"
        if moment > at
        else ago(moment, at)
    )


def since(text: str) -> str:
    """`ago`, of a time of the API."""
    return ago(parse_iso(text), now())


def _clock(moment: datetime, at: datetime) -> str:
    far = abs(moment - at) > _DAYS_BY_NAME
    return f"{moment.astimezone():{'%Y-%m-%d' if far else '%a'} %H:%M %Z}"
