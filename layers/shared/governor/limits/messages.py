"""Messages about freezes and pauses.

They only word what the rules of this room, or a person, have decided.
"""

from __future__ import annotations

from datetime import timedelta

from governor.alerts.model import EVERYWHERE, Alert, Severity
from governor.alerts.templates import alert_from_template
from governor.core.instance import Target
from governor.core.units import UtcDatetime, iso
from governor.limits.model.breaker import BreakerState, Hub
from governor.limits.model.pause import Pause, PauseMessage
from governor.limits.rules import breaker
from governor.policy.model.limits import Breaker


def pause_alert(
    message: PauseMessage, hub: Target, now: UtcDatetime, standing: Pause | None = None
) -> Alert:
    """Return the alert that everything is paused, or that the pause has ended, and who did it. It
    sends nothing.

    `hub` is the account and Region of GPU Governor. A sweep that sends the alert later passes the
    pause that is `standing` by then; `None` if nothing is paused. The id of the alert stays the
    same, so nobody gets the alert twice.
    """
    pause = message.pause
    is_history = message.is_history(standing, now)
    facts = {EVERYWHERE: True, "by": message.by, "since": pause.at, "reason": pause.reason}
    words = {
        "pressed_at": message.at,
        "is_history": is_history,
        "paused_again": standing.at if is_history and standing is not None else None,
    }
    dedup_id = f"{message.event.replace(' ', '-')}-{iso(pause.at)}"
    return alert_from_template(message.event, hub, dedup_id, now, facts, words)


def breaker_alert(
    template: str,
    about: Target,
    state: BreakerState,
    now: UtcDatetime,
    *,
    left: int = 0,
    again: int = 0,
    by: str | None = None,
    hold_minutes: int = 0,
    counts_are_new: bool = False,
) -> Alert:
    """Return the alert about a freeze. It sends nothing. A reminder is a warning, whatever severity
    the template sets.

    `template` is `frozen` or `released` for a target, `all frozen` or `all released` for
    everything. `about` is the target, or the hub. `left` is how many of the instances that turned
    idle or silent have not worked since. `again` is 0 for the first alert, then the number of the
    reminder. `by` is who ended the freeze in the console; `None` if nobody did. `hold_minutes` is
    how long the freeze lasts at least; only its first alert says it. `counts_are_new` is true if
    the counts of a freeze of everything are too young to show what is usual.
    """
    is_everywhere = template.startswith("all")
    place = "all" if is_everywhere else about
    facts: dict[str, object] = {
        "why": state.why,
        "turned": state.turned,
        "left": left,
        "incident": f"breaker-{place}-{iso(state.tripped_at)}",
    }
    if is_everywhere:
        facts[EVERYWHERE] = True
    ends_at = state.tripped_at + timedelta(minutes=hold_minutes)
    words = {
        "since": state.tripped_at,
        "again": again,
        "by": by,
        "ends_at": ends_at,
        "counts_are_new": counts_are_new,
    }
    dedup_id = f"breaker-{template.replace(' ', '-')}-{about}-{iso(state.tripped_at)}-{again}"
    severity = Severity.WARNING if again else None
    return alert_from_template(template, about, dedup_id, now, facts, words, severity=severity)


def hub_freeze_alert(
    hub: Hub, about: Target, freeze: BreakerState, now: UtcDatetime, rule: Breaker, again: int = 0
) -> Alert:
    """Return the alert that everything is frozen. It sends nothing.

    `about` is the account and Region of GPU Governor, and `hub` holds its counts. `again` is 0 for
    the first alert, then the number of the reminder.
    """
    return breaker_alert(
        "all frozen",
        about,
        freeze,
        now,
        left=breaker.turned_around(hub, freeze).left,
        again=again,
        hold_minutes=rule.hold_minutes,
        counts_are_new=breaker.are_counts_new(hub, now),
    )
