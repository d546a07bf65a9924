"""Messages about what a sweep finds: idle instances, silent ones, and a freeze of all plans."""

from __future__ import annotations

from collections.abc import Sequence

from governor.domain.alerts.alert import Alert, Owner, Severity, counted, ids, named, only
from governor.domain.alerts.templates import written
from governor.domain.evidence import last_reading_end
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import TagMatch
from governor.domain.sweep.breaker import BreakerState
from governor.domain.sweep.pause import Pause, PauseMessage
from governor.domain.sweep.verdict import Verdict
from governor.domain.units import UtcDatetime, clock, iso, some_of

_NAMED = 50
"""Instances named in the text; the facts hold all."""


def idle_event(
    instance: Instance, verdict: Verdict, idle_since: UtcDatetime, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return the event, sent once per idle stretch, long before any person is asked. For machines
    alone."""
    facts = {"idle_since": idle_since, "reason": verdict.reason}
    dedup_id = f"instance-idle-{instance.instance_id}-{iso(idle_since)}"
    return written("idle", instance, dedup_id, now, facts, owner=owner)


def silent_alert(
    target: Target,
    silent: Sequence[tuple[Instance, Verdict]],
    owner: Owner,
    now: UtcDatetime,
    *,
    outage: bool,
) -> Alert:
    """Return one message about instances without data: those of one owner, in an `outage` all."""
    instances = [instance for instance, _ in silent]
    lines = []
    for instance, verdict in silent:
        since = _since(verdict, owner, now)
        lines.append(f"{named(instance)}: {since}{verdict.reason}")
    facts = {"instance_ids": ids(instances), "outage": outage}
    words = {"which": counted(instances), "listed": some_of(lines, _NAMED)}
    dedup_id = f"silent-{target}-{iso(now)}-{owner.key}"
    return written("silent", only(instances) or target, dedup_id, now, facts, words, owner=owner)


def _since(verdict: Verdict, owner: Owner, now: UtcDatetime) -> str:
    """Return since when not all GPUs are measured; an empty text if readings come, but too few."""
    evidence = verdict.evidence
    if evidence is None:
        return ""
    window = evidence.window
    ends = [last_reading_end(gpu.utilization, window) for gpu in evidence.gpus]
    since = min(ends, default=window.start)
    if since >= window.end:
        return ""
    earlier = " or earlier" if since <= window.start else ""
    return f"since {clock(since, owner.time_zone, now)}{earlier}, "


def exemption_alert(
    target: Target,
    kept: Sequence[tuple[Instance, str]],
    exemption: TagMatch,
    owner: Owner,
    now: UtcDatetime,
) -> Alert:
    """Return one message about instances of an owner, each with the oddly spelled tag that keeps
    it."""
    instances = [instance for instance, _ in kept]
    lines = some_of([f"{named(instance)}: {tag}" for instance, tag in kept], _NAMED)
    words = {"which": counted(instances), "listed": lines, "exemption": exemption}
    facts = {"instance_ids": ids(instances)}
    dedup_id = f"exemption-{target}-{iso(now)}-{owner.key}"
    return written("exemption", only(instances) or target, dedup_id, now, facts, words, owner=owner)


def pause_alert(
    message: PauseMessage, hub: Target, now: UtcDatetime, standing: Pause | None = None
) -> Alert:
    """Return the alert that everything is paused, or that the pause has ended, and who did it.

    A sweep that sends it later says which pause is `standing` by then. Its id stays the same, so
    nobody gets it twice.
    """
    pause = message.pause
    is_history = message.is_history(standing, now)
    facts = {"by": message.by, "since": pause.at, "reason": pause.reason}
    words = {
        "pressed_at": message.at,
        "is_history": is_history,
        "paused_again": standing.at if is_history and standing is not None else None,
    }
    dedup_id = f"{message.event.replace(' ', '-')}-{iso(pause.at)}"
    return written(message.event, hub, dedup_id, now, facts, words)


def breaker_alert(
    template: str,
    about: Target,
    state: BreakerState,
    now: UtcDatetime,
    *,
    left: int = 0,
    again: int = 0,
    by: str | None = None,
) -> Alert:
    """Return that plans are `frozen` or `released` in a target, or `all frozen` or `all released`,
    by whom in the console. `again` counts the reminders; `left` of the instances that turned still
    are so."""
    place = "all" if template.startswith("all") else about
    facts = {
        "why": state.why,
        "turned": state.turned,
        "left": left,
        "incident": f"breaker-{place}-{iso(state.tripped_at)}",
    }
    words = {"since": state.tripped_at, "again": again, "by": by}
    dedup_id = f"breaker-{template.replace(' ', '-')}-{about}-{iso(state.tripped_at)}-{again}"
    severity = Severity.WARNING if again else None
    return written(template, about, dedup_id, now, facts, words, severity=severity)
