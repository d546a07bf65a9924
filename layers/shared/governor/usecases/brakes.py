"""What holds a step back for a while: a freeze, of its target or of everything, and the caps of an hour."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from governor.domain.approvals.approval import Approval, ApprovalStatus
from governor.domain.episode.episode import Episode
from governor.domain.instance import Target
from governor.domain.policy.policy import Breaker, Caps
from governor.domain.sweep.breaker import HOUR, hour_of, why_frozen
from governor.domain.units import UtcDatetime
from governor.stores import StateTable

FREEZE_CHECKED = timedelta(minutes=15)
"""A step that a freeze holds back is checked again after this."""
_SPREAD = timedelta(minutes=10)
"""Steps that wait for the next hour are spread over its first minutes."""


def frozen(state: StateTable, target: Target, rule: Breaker, now: datetime) -> str | None:
    """Return that plans of the target are frozen, and why; `None` when they are not."""
    why = why_frozen(state.breaker(target), state.hub(), now, rule)
    return None if why is None else f"plans are frozen: {why}"


def caps_of(episode: Episode, caps: Caps) -> Mapping[str, int]:
    """Return the most actions in an hour, by the words for what is capped."""
    return {
        "ORGANIZATION": caps.organization_actions_per_hour,
        f"ACCOUNT#{episode.ref.account}": caps.account_actions_per_hour,
        f"OWNER#{episode.owner}": caps.owner_actions_per_hour,
    }


def cap_reached(what: str, most: int) -> str:
    """Return that a cap is reached, and which, as a reason."""
    kind, _, name = what.partition("#")
    whose = {"ACCOUNT": f"of account {name}", "OWNER": f"of the owner {name}"}.get(kind, "of all accounts")
    setting = f"caps.{kind.lower()}_actions_per_hour"
    return f"the {most} stops and terminations an hour {whose} are used up ({setting})"


def next_hour(now: datetime, name: str) -> timedelta:
    """Return the time to the next hour of the caps, and some more by the name's hash."""
    spread = _SPREAD * (zlib.crc32(name.encode()) / 2**32)
    return hour_of(now) + HOUR + spread - now


def approved_at(episode: Episode, approval: Approval | None) -> UtcDatetime:
    """Return when the approval's life began: with the answer, or the expiry that passes for one."""
    if approval is not None and approval.decision is not None:
        return approval.decision.at
    if approval is not None and approval.status is ApprovalStatus.EXPIRED:
        return approval.expires_at
    return episode.opened_at
