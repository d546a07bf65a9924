"""The words of messages about a freeze: it began, it lasts, it has ended."""

from __future__ import annotations

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState
from governor.domain.units import UtcDatetime, iso
from governor.domain.wording import clock, sentence


def breaker_alert(target: Target, state: BreakerState) -> Alert:
    """Return that all plans of a target are frozen from now on."""
    at = state.tripped_at
    return alert_of(
        AlertKind.BREAKER_TRIPPED,
        Severity.CRITICAL,
        target,
        f"GPU Governor froze all plans in {target}",
        [
            f"No instance there is stopped or terminated from {clock(at, 'UTC', at)} until the freeze ends.",
            sentence(state.why),
            "An outage of metrics looks like this. Instances still silent after that are reported.",
            "Next step: `governor doctor` shows now which instances publish no metrics, and why.",
        ],
        f"breaker-{target}-{iso(at)}",
        at,
        facts={"why": state.why},
    )


def breaker_reminder(target: Target, state: BreakerState, left: int, now: UtcDatetime) -> Alert:
    """Return that they still are; `left` of the instances that turned idle or silent still are so."""
    at = state.tripped_at
    return alert_of(
        AlertKind.BREAKER_TRIPPED,
        Severity.WARNING,
        target,
        f"All plans of GPU Governor in {target} are still frozen",
        [
            f"Frozen since {clock(at, 'UTC', now)}, so no instance there is stopped or terminated.",
            sentence(state.why),
            f"{left} of {state.turned} instances have neither worked nor been stopped since.",
            "Next step: if their metrics are wrong, repair them (`governor doctor` names which). If they are "
            "really idle, stop them, or set `mode: ask` for them: then the freeze ends and people are asked.",
        ],
        f"breaker-{target}-{iso(at)}-still-{iso(now)}",
        now,
        facts={"why": state.why, "turned": state.turned, "left": left},
    )


def breaker_release(target: Target, now: UtcDatetime) -> Alert:
    """Return that plans are made and carried out again."""
    return alert_of(
        AlertKind.BREAKER_RELEASED,
        Severity.INFO,
        target,
        f"GPU Governor works again in {target}",
        [f"The freeze ended at {clock(now, 'UTC', now)}. People are asked again."],
        f"breaker-released-{target}-{iso(now)}",
        now,
    )
