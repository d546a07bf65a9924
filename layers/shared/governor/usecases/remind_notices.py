"""Tells an announced date again before it comes. Part of the sweep, which knows what still runs.

The sweep, and no schedule for each date: it comes by every few minutes anyway, leaves nothing behind that
would have to be deleted, makes up for a run that failed, and never reminds of an instance that has gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.instance import Instance, Target
from governor.domain.notice import Notice
from governor.domain.notice_messages import notice_alert
from governor.domain.owner import by_owner
from governor.domain.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import GovernorError
from governor.ports import Announcer, EventLog
from governor.usecases.once import Once

_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class RemindNotices:
    """Reminds the owners of running instances of what is due."""

    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(
        self, target: Target, instances: Sequence[Instance], policy: Policy, now: UtcDatetime
    ) -> list[str]:
        """What could not be told, as text; the next sweep tries again."""
        try:
            notices = self.log.notices(target)
        except GovernorError as error:
            return [f"announced dates could not be read: {error}"]
        before = timedelta(hours=policy.events.remind_before_hours)
        problems: list[str] = []
        for notice in notices:
            if notice.is_due(now, before):
                problems += self._remind(notice, notice.concerns(instances), policy, now)
        return problems

    def _remind(
        self, notice: Notice, instances: Sequence[Instance], policy: Policy, now: UtcDatetime
    ) -> list[str]:
        problems = []
        for (owner, project), theirs in by_owner(instances, policy.ownership).items():
            alert = notice_alert(notice, theirs, owner, project, now, again=True)
            try:
                key = f"reminder#{notice.telling}#{owner}#{project}"
                self.once(key, partial(self.announcer.announce, alert), keep=_KEPT)
            except GovernorError as error:
                problems.append(f"{notice.key}: {owner} was not reminded: {error}")
        return problems
