"""How long the same idleness is not told again after an episode. Work that resumes ends it at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from governor.domain.episode.episode import Outcome
from governor.domain.policy.policy import ApprovalRule
from governor.domain.units import UtcDatetime, as_utc


def quiet_until(
    outcome: Outcome, rule: ApprovalRule, now: datetime, *, was_opened: bool
) -> UtcDatetime | None:
    """Until when to be quiet; `None` when the outcome itself says what comes next.

    `was_opened` is false for a workflow that failed before people could be told anything.
    """
    if not was_opened:
        return as_utc(now) + timedelta(minutes=rule.retry_unopened_after_minutes)
    match outcome:
        case Outcome.TOLD | Outcome.OBSERVED | Outcome.EXPIRED | Outcome.REFUSED | Outcome.FAILED:
            return as_utc(now) + timedelta(hours=rule.ask_again_after_hours)
        case (
            Outcome.STOPPED
            | Outcome.TERMINATED
            | Outcome.KEPT
            | Outcome.EXEMPTED
            | Outcome.WOKE_UP
            | Outcome.VOID
            | Outcome.INTERRUPTED
        ):
            return None
        case _:
            assert_never(outcome)
