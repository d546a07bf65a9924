"""Reasons to hold a step back for a while: a freeze, the caps of 60 minutes, and refused
answers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from governor.domain.approvals.approval import Approval, ApprovalStatus
from governor.domain.episode.episode import Episode
from governor.domain.evidence import window_before
from governor.domain.instance import Target
from governor.domain.policy.policy import Breaker, Caps
from governor.domain.sweep.breaker import BreakerState, Hub, why_frozen
from governor.domain.units import UtcDatetime
from governor.errors import MetricsLate
from governor.ports import Clock, MetricQuery, MetricReader, Policies
from governor.stores import StateTable

FREEZE_CHECKED = timedelta(minutes=15)
"""A step that a freeze holds back is checked again after this."""
_SHORTEST_WAIT = timedelta(minutes=1)
_LONGEST_SPACING = timedelta(hours=2)
_SPACING = 12
"""A step that has waited for hours waits at least a twelfth of that before the next check."""
_SPREAD = timedelta(minutes=10)
"""Steps that wait for the same room are spread over so many minutes."""
_PERIOD = timedelta(minutes=5)
REFUSALS_LATE = timedelta(minutes=5)
"""After which CloudWatch has what the access log says of a period; sooner, a period may read as
empty."""
_CROWDED = 300
"""Requests in a period, of all routes, from which some may have been refused unseen: API Gateway
does not log every 429 of a flood, but lets through what its limits allow, 5 a second on the
narrowest route."""


def frozen(state: StateTable, target: Target, rule: Breaker, now: datetime) -> str | None:
    """Return that everything is paused, or plans of the target are frozen, and why; else `None`."""
    return paused(state) or frozen_by_breaker(state, target, rule, now)


def paused(state: StateTable) -> str | None:
    """Return that everything is paused, by whom and why; `None` when it is not."""
    pause = state.pause()
    return None if pause is None else f"everything is {pause.why}"


def frozen_by_breaker(
    state: StateTable, target: Target, rule: Breaker, now: datetime
) -> str | None:
    """Return that a breaker freezes plans of the target, and why; `None` when none does."""
    why = why_frozen(state.breaker(target), state.hub(), now, rule)
    return None if why is None else f"plans are frozen: {why}"


def spaced(wait: timedelta, waited: timedelta) -> timedelta:
    """Return how long a step waits until the next check, when it has waited for so long already.

    The waits grow, or a week of them would pass the 25,000 events that the history of an execution
    may have (`tests/unit/template/test_history.py`).
    """
    return max(wait, _SHORTEST_WAIT, min(_LONGEST_SPACING, waited / _SPACING))


def caps_of(episode: Episode, caps: Caps) -> Mapping[str, int]:
    capped = ("ORGANIZATION", f"ACCOUNT#{episode.ref.account}", f"OWNER#{episode.owner}")
    return {what: getattr(caps, _setting(what)) for what in capped}


def _setting(what: str) -> str:
    return f"{what.partition('#')[0].lower()}_actions_per_hour"


def cap_reached(what: str, most: int) -> str:
    kind, _, name = what.partition("#")
    whose = {"ACCOUNT": f"of account {name}", "OWNER": f"of the owner {name}"}.get(
        kind, "of all accounts"
    )
    return (
        f"the cap of {most} stops and terminations in 60 minutes {whose} is reached "
        f"(caps.{_setting(what)})"
    )


def time_to_room(room_at: UtcDatetime | None, now: datetime, name: str) -> timedelta:
    """Return how long a step waits for room under a cap: until an action leaves the window, and
    some more by the name's hash. `None`: the cap is 0, so only a change of the policy makes
    room."""
    if room_at is None:
        return FREEZE_CHECKED
    spread = _SPREAD * (zlib.crc32(name.encode()) / 2**32)
    return max(room_at - now, timedelta(0)) + spread


class Unanswered(NamedTuple):
    """The time that people had to answer a question, or to hold what a notice said, and did not
    use."""

    what: str
    length: timedelta
    until: UtcDatetime


@dataclass(frozen=True, slots=True)
class RefusedAnswers:
    """Finds whether people could answer: CloudWatch's counts of API requests that were throttled or
    failed. API Gateway's limits are shared: whoever floods a route makes those silent who use
    it."""

    metrics: MetricReader
    hub: Target
    api_id: str
    namespace: str

    def __call__(self, unanswered: Unanswered, now: datetime) -> str | None:
        """Return why silence is no answer yet; `None` after as much time as people had without a
        refusal that can be read. Raises: MetricsLate while the last minutes cannot be known."""
        window = window_before(now, unanswered.length, _PERIOD, REFUSALS_LATE)
        queries = (
            MetricQuery("refused", self.namespace, "AnswersRefused", (), "Sum"),
            MetricQuery("all", "AWS/ApiGateway", "Count", (("ApiId", self.api_id),), "Sum"),
        )
        answer = self.metrics.read(self.hub, queries, window)
        if answer.problems:
            why = "; ".join(sorted(set(answer.problems.values())))
            return f"{unanswered.what}, but it cannot be read whether answers were refused: {why}"
        most = {key: max(one or 0 for one in series) for key, series in answer.series.items()}
        if most.get("refused", 0) > 0 or most.get("all", 0) >= _CROWDED:
            return (
                f"{unanswered.what}, but the API refused requests: answers may have been among them"
            )
        if window.end < unanswered.until:
            raise MetricsLate(f"{unanswered.what}; whether answers were refused is not known yet")
        return None


@dataclass(frozen=True, slots=True)
class ShowBrakes:
    state: StateTable
    policies: Policies
    clock: Clock

    def freezes(self, targets: Sequence[Target]) -> list[tuple[str, str, UtcDatetime | None]]:
        """Return what is frozen (`everything`, or account and Region), why, and since when, if
        known. A pause goes first."""
        pause = self.state.pause()
        if pause is None:
            return self._by_breakers(targets)
        return [("everything", pause.why, pause.at), *self._by_breakers(targets)]

    def _by_breakers(self, targets: Sequence[Target]) -> list[tuple[str, str, UtcDatetime | None]]:
        rule, now, hub = self.policies.base().policy.breaker, self.clock.now(), self.state.hub()
        found: list[tuple[str, BreakerState | None, Hub]] = [("everything", None, hub)]
        found += [(str(one), own, Hub()) for one, own in self.state.breakers(targets).items()]
        freezes = (
            (what, why_frozen(own, of, now, rule), own or of.freeze) for what, own, of in found
        )
        return [(what, why, one.tripped_at if one else None) for what, why, one in freezes if why]

    def caps(self) -> list[tuple[str, int, int]]:
        return used_caps(self.state, self.policies.base().policy.caps, self.clock.now())


def used_caps(state: StateTable, caps: Caps, now: datetime) -> list[tuple[str, int, int]]:
    """Return each cap with how many actions began in the last 60 minutes, and how many may; that of
    all accounts first."""
    used = {"ORGANIZATION": 0, **state.used(now)}
    in_order = sorted(used.items(), key=lambda one: (one[0] != "ORGANIZATION", one[0]))
    return [(what, taken, getattr(caps, _setting(what))) for what, taken in in_order]


def approved_at(episode: Episode, approval: Approval | None) -> UtcDatetime:
    """Return when the approval's life began: with the answer, or the expiry that passes for one."""
    if approval is not None and approval.decision is not None:
        return approval.decision.at
    if approval is not None and approval.status is ApprovalStatus.EXPIRED:
        return approval.expires_at
    return episode.opened_at
