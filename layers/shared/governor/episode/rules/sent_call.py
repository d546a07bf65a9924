"""Finds out whether a stop or a termination took effect when its answer may be lost.

EC2 gives these calls no token, so a repeated call is a second call. No call is sent again before
this module says that the first one has had no effect. It judges only what EC2 shows.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from governor.core.instance import Instance
from governor.core.units import UtcDatetime
from governor.episode.model.plan import Step

UNDER_WAY_FOR = timedelta(minutes=7)
"""How long a call may still take effect after it was noted. The function sends it within 90
seconds, and EC2 accepts a signed request for five minutes. Source: Signature Version 4, "requests
must arrive within five minutes of the time stamp"."""
_CLOCKS_DIFFER = timedelta(minutes=1)
"""The largest difference between our clock and EC2's that is taken for the same moment."""
_STATES_AFTER = {
    Step.STOP: ("stopping", "stopped"),
    Step.TERMINATE: ("shutting-down", "terminated"),
}
_STATES_BEFORE = {
    Step.STOP: ("running",),
    Step.TERMINATE: ("running", "stopping", "stopped"),
}
_REASON_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


class Effect(StrEnum):
    """The effect of a call, as EC2 shows it."""

    DONE = "done"
    UNDER_WAY = "under way"
    """Nothing is seen of it, and EC2 may still carry it out."""
    NOTHING = "nothing"
    CHANGED_BY_OTHERS = "changed by others"
    """The instance is in a state that this call did not bring about."""


def effect_of(step: Step, sent_at: UtcDatetime, instance: Instance | None, now: datetime) -> Effect:
    """Return the effect of a stop or a termination that was sent at `sent_at`, by the instance as
    EC2 shows it now. `instance` is `None` if EC2 no longer shows it. `step` is `STOP` or
    `TERMINATE`.

    While the state is as before the call, the call counts as under way for 7 minutes, then as
    without effect. Others changed the instance if its state is neither before nor after the call,
    or EC2 dates the state before the call.
    """
    if instance is None:
        # EC2 lists a terminated instance for about an hour.
        return Effect.DONE if step is Step.TERMINATE else Effect.CHANGED_BY_OTHERS
    if instance.state in _STATES_AFTER[step]:
        changed_at = _changed_at(instance)
        was_before_the_call = changed_at is not None and changed_at < sent_at - _CLOCKS_DIFFER
        return Effect.CHANGED_BY_OTHERS if was_before_the_call else Effect.DONE
    if instance.state not in _STATES_BEFORE[step]:
        return Effect.CHANGED_BY_OTHERS
    return Effect.UNDER_WAY if now - sent_at < UNDER_WAY_FOR else Effect.NOTHING


def _changed_at(instance: Instance) -> UtcDatetime | None:
    """Return when somebody asked EC2 for the state that the instance is in; `None` if EC2's reason
    for the state names no time."""
    match = _REASON_TIME.search(instance.state_transition_reason)
    if match is None:
        return None
    return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
