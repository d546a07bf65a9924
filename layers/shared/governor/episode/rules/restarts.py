"""Decides what follows if an instance is started again by others after GPU Governor's stops, such
as by a schedule: who is asked, and for how long nobody is asked again.

Stopping such an instance again and again helps nobody: the escalation contacts are asked once, and
then nobody for 30 days. If the policy names nobody beside the owner, people are asked as usual.
"""

from __future__ import annotations

from datetime import timedelta

from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, InstanceRecord

_ESCALATED_FROM = 2
"""One start may be somebody who needs the instance; the second one shows a habit or a tool."""
_COUNTED_FOR = timedelta(days=30)
_QUIET_FOR = _COUNTED_FOR
"""As long as restarts count, so those that led to a question of the escalation contacts never lead
to another one. A question that only the owner is asked begins no quiet time: the same restarts may
lead to further questions."""


def restarts_to_ask_about(record: InstanceRecord, now: UtcDatetime) -> tuple[UtcDatetime, ...]:
    """Return when others started the instance again in the last 30 days, if that was at least
    twice: the escalation contacts are asked then. Return an empty tuple otherwise."""
    times = []
    for restart in record.restarts:
        if now - restart.at <= _COUNTED_FOR:
            times.append(restart.at)
    return tuple(times) if len(times) >= _ESCALATED_FROM else ()


def is_about_restarts(episode: Episode) -> bool:
    """Return whether the question is asked because others started the instance again after our
    stops. Such a question never acts without a yes."""
    return bool(episode.asking.others_started_at)


def asks_escalation_contacts(episode: Episode) -> bool:
    """Return whether such a question goes to the escalation contacts from the beginning, because
    the policy names some beside the owner."""
    return is_about_restarts(episode) and not episode.asking.is_owner_alone


def quiet_after_restarts_until(episode: Episode) -> UtcDatetime | None:
    """Return until when nobody is asked about the instance again after the question of this
    episode: 30 days from its opening. Return `None` for an episode that is not about restarts by
    others, or whose owner alone is asked."""
    if not asks_escalation_contacts(episode):
        return None
    return episode.opened_at + _QUIET_FOR
