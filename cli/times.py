"""Write times as people in a terminal read them: how far off, and in this machine's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from governor.core.units import left, parse_iso, span

_DAYS_BY_NAME = timedelta(days=6)
_JUST_SET = timedelta(minutes=1)
"""Added, so that 7 days that were set a moment ago read as 7 days."""


def now() -> datetime:
    """Return the time. Tests replace this function."""
    return datetime.now(tz=UTC)


def ago(moment: datetime, at: datetime) -> str:
    """Return `4 min ago (Mon 09:10 CET)`."""
    return f"{span(at - moment)} ago ({_clock(moment, at)})"


def until(text: str) -> str:
    """Return `in 23 h (Tue 09:00 CET)`, of a time of the API; as `ago` does if it has passed."""
    moment = parse_iso(text)
    at = now()
    if moment <= at:
        return ago(moment, at)
    return f"in {left(moment - at + _JUST_SET)} ({_clock(moment, at)})"


def in_or_ago(text: str) -> str:
    """Return `in 23 h` or `2 h ago`, of a time of the API: for a table, which has no room."""
    moment = parse_iso(text)
    at = now()
    if moment <= at:
        return f"{span(at - moment)} ago"
    return f"in {left(moment - at + _JUST_SET)}"


def since(text: str) -> str:
    """Return the same as `ago`, of a time of the API."""
    return ago(parse_iso(text), now())


def _clock(moment: datetime, at: datetime) -> str:
    is_far = abs(moment - at) > _DAYS_BY_NAME
    day_format = "%Y-%m-%d" if is_far else "%a"
    return moment.astimezone().strftime(f"{day_format} %H:%M %Z")
