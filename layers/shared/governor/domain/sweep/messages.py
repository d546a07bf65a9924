"""The words of what a sweep finds: idle instances, silent ones, and a freeze of all plans.

Pure wording. This module must not know channels, nor how often something is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of, ids, named, only
from governor.domain.alerts.owner import Owner
from governor.domain.evidence import last_reading_end
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import TagMatch
from governor.domain.sweep.breaker import BreakerState
from governor.domain.sweep.verdict import Verdict
from governor.domain.units import UtcDatetime, iso
from governor.domain.wording import bullets, clock, sentence

_NAMED = 50
"""Instances named in the text; the facts hold all."""


def idle_event(
    instance: Instance, verdict: Verdict, idle_since: UtcDatetime, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return the event, sent once per idle stretch, long before any person is asked. For machines alone."""
    kind, severity = AlertKind.INSTANCE_IDLE, Severity.INFO
    subject = f"Idle: {instance.name} ({instance.instance_type})"
    lines = (f"{instance.name} ({instance.instance_id}): {verdict.reason}", "Nobody was asked yet.")
    dedup_id = f"instance-idle-{instance.instance_id}-{iso(idle_since)}"
    facts = {"idle_since": idle_since, "reason": verdict.reason}
    return alert_of(kind, severity, instance, subject, lines, dedup_id, now, owner=owner, facts=facts)


def silent_alert(
    target: Target,
    silent: Sequence[tuple[Instance, Verdict]],
    owner: Owner,
    now: UtcDatetime,
    *,
    outage: bool,
) -> Alert:
    """Return one message about instances without data; those of one owner, or with `outage` those of all.

    Raises:
        ValueError: there is none.
    """
    if not silent:
        raise ValueError("there is nothing to report")
    instances = [one for one, _ in silent]
    one = only(instances)
    which = one.name if one else f"{len(instances)} GPU instances"
    kind, severity, subject = AlertKind.TELEMETRY_SILENT, Severity.WARNING, f"No metrics: {which} in {target}"
    lines = [
        f"{which} published no usable GPU metrics. What is not measured is never judged idle, however much "
        "it costs.",
        "So many at once have one cause, so their owners are not notified one by one." if outage else None,
        "Next step: `governor doctor` names what is wrong with each one and how to repair it.",
        "The instances:",
        *bullets(
            [f"{named(one)}: {_since(found, owner, now)}{found.reason}" for one, found in silent], _NAMED
        ),
    ]
    dedup_id = f"silent-{target}-{iso(now)}-{owner.key}"
    facts = {"instance_ids": ids(instances), "outage": outage}
    about = one or target
    return alert_of(kind, severity, about, subject, lines, dedup_id, now, owner=owner, facts=facts)


def _since(verdict: Verdict, owner: Owner, now: UtcDatetime) -> str:
    """Return since when not all GPUs are measured; nothing where readings come, but too few."""
    if (found := verdict.evidence) is None:
        return ""
    window = found.window
    since = min((last_reading_end(gpu.utilization, window) for gpu in found.gpus), default=window.start)
    if since >= window.end:
        return ""
    return f"since {clock(since, owner.time_zone, now)}{' or earlier' if since <= window.start else ''}, "


def exemption_alert(
    target: Target, kept: Sequence[tuple[Instance, str]], exemption: TagMatch, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return one message about instances of an owner, each with the oddly spelled tag that keeps it."""
    instances = [one for one, _ in kept]
    one = only(instances)
    which = one.name if one else f"{len(instances)} GPU instances"
    subject = f"Exempt by an unusual tag: {which} in {target}"
    lines = [
        f"GPU Governor leaves {which} alone, because any value of the tag {exemption.tag_key} exempts.",
        f"Next step: write the tag as {exemption} if that is meant; otherwise remove it.",
        "The instances:",
        *bullets([f"{named(one)}: {tag}" for one, tag in kept], _NAMED),
    ]
    kind, dedup_id = AlertKind.EXEMPTION_UNUSUAL, f"exemption-{target}-{iso(now)}-{owner.key}"
    facts, about = {"instance_ids": ids(instances)}, one or target
    return alert_of(kind, Severity.INFO, about, subject, lines, dedup_id, now, owner=owner, facts=facts)


def breaker_alert(target: Target, state: BreakerState) -> Alert:
    """Return that all plans of a target are frozen from now on."""
    at = state.tripped_at
    subject = f"GPU Governor froze all plans in {target}"
    lines = [
        f"No instance there is stopped or terminated from {clock(at, 'UTC', at)} until the freeze ends.",
        sentence(state.why),
        "An outage of metrics looks like this. Instances still silent after that are reported.",
        "Next step: `governor doctor` shows now which instances publish no metrics, and why.",
    ]
    kind, severity, facts = AlertKind.BREAKER_TRIPPED, Severity.CRITICAL, {"why": state.why}
    return alert_of(kind, severity, target, subject, lines, f"breaker-{target}-{iso(at)}", at, facts=facts)


def breaker_reminder(target: Target, state: BreakerState, left: int, now: UtcDatetime) -> Alert:
    """Return that they still are; `left` of the instances that turned idle or silent still are so."""
    subject = f"All plans of GPU Governor in {target} are still frozen"
    lines = [
        f"Frozen since {clock(state.tripped_at, 'UTC', now)}, so no instance there is stopped or terminated.",
        sentence(state.why),
        f"{left} of {state.turned} instances have neither worked nor been stopped since.",
        "Next step: if their metrics are wrong, repair them (`governor doctor` names which). If they are "
        "really idle, stop them, or set `mode: ask` for them: then the freeze ends and people are asked.",
    ]
    kind, dedup_id = AlertKind.BREAKER_TRIPPED, f"breaker-{target}-{iso(state.tripped_at)}-still-{iso(now)}"
    facts = {"why": state.why, "turned": state.turned, "left": left}
    return alert_of(kind, Severity.WARNING, target, subject, lines, dedup_id, now, facts=facts)


def hub_alert(hub: Target, state: BreakerState, left: int, now: UtcDatetime, reminders: int) -> Alert:
    """Return that everything is frozen; with `reminders`, that it still is."""
    at = state.tripped_at
    since = clock(at, "UTC", now)
    lines = [
        f"Since {since}, no instance of any account is stopped or terminated, and nobody is asked. "
        "Approved steps wait.",
        sentence(state.why),
        f"{left} of them have not worked since. The freeze ends when most have, or when you lift it.",
        "Next step: `governor doctor` names those whose metrics are wrong, and how to repair them. If they "
        "are really idle, set `breaker.lift_freezes_before` in the policy to the time now.",
    ]
    severity = Severity.WARNING if reminders else Severity.CRITICAL
    subject = "GPU Governor froze all plans in all accounts"
    if reminders:
        subject = "All plans of GPU Governor in all accounts are still frozen"
    kind, dedup_id = AlertKind.BREAKER_TRIPPED, f"breaker-hub-{iso(at)}-{reminders}"
    facts = {"why": state.why, "turned": state.turned, "left": left}
    return alert_of(kind, severity, hub, subject, lines, dedup_id, now, facts=facts)


def hub_release(hub: Target, state: BreakerState, now: UtcDatetime) -> Alert:
    """Return that plans of all accounts are made and carried out again."""
    lines = [
        f"The freeze ended at {clock(now, 'UTC', now)}. Approved steps go on, and people are asked again."
    ]
    kind, dedup_id = AlertKind.BREAKER_RELEASED, f"breaker-hub-released-{iso(state.tripped_at)}"
    subject = "GPU Governor works again in all accounts"
    return alert_of(kind, Severity.INFO, hub, subject, lines, dedup_id, now)


def breaker_release(target: Target, now: UtcDatetime) -> Alert:
    """Return that plans are made and carried out again."""
    subject = f"GPU Governor works again in {target}"
    lines = [f"The freeze ended at {clock(now, 'UTC', now)}. People are asked again."]
    kind, dedup_id = AlertKind.BREAKER_RELEASED, f"breaker-released-{target}-{iso(now)}"
    return alert_of(kind, Severity.INFO, target, subject, lines, dedup_id, now)
