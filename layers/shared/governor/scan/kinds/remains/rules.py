"""Since when an instance is stopped or a volume is unattached, and when that counts as waste.
Nothing here reads."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from governor.core.units import UtcDatetime, span
from governor.scan.model import Finding, Judgment, Strength

STOPPED_TOO_LONG = timedelta(days=30)
"""Somebody who comes back to an instance mostly does so within a month; a volume costs the same
each day until then."""
UNATTACHED_TOO_LONG = timedelta(days=14)
"""CloudWatch lists no series without readings of the last two weeks, and we look back as far. A pod
that mounts a volume each night, or each Monday, is within it."""
_CHANGED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


def stopped_since(state_transition_reason: str) -> UtcDatetime | None:
    """Return when an instance was stopped, by EC2's words: `User initiated (2026-11-27 14:00:00
    GMT)`. `None` if they name no time, or none that exists."""
    match = _CHANGED_AT.search(state_transition_reason)
    if match is None:
        return None
    try:
        return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def judge_stopped(since: UtcDatetime | None, now: UtcDatetime, rest: str) -> Judgment:
    """Return the judgment of something that costs money while an instance is stopped: unused from
    30 days on. `rest` ends the evidence."""
    if since is None:
        evidence = f"stopped, EC2 does not say since when; {rest}"
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)
    length = now - since
    evidence = f"stopped for {span(length)}; {rest}"
    if length < STOPPED_TOO_LONG:
        return Judgment(Finding.TOO_YOUNG, Strength.NONE, evidence)
    return Judgment(Finding.UNUSED, Strength.STRONG, evidence, since)
