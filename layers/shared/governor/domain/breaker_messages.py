"""What people are told of a freeze: that it began, that it still lasts, that it has ended."""

from __future__ import annotations

from governor.domain.alert import Alert, AlertKind, Severity
from governor.domain.episode import BreakerState
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime, iso


def breaker_alert(target: Target, state: BreakerState) -> Alert:
    """All plans of a target are frozen from now on."""
    return Alert(
        kind=AlertKind.BREAKER_TRIPPED,
        severity=Severity.CRITICAL,
        account=target.account,
        region=target.region,
        subject=f"GPU Governor froze all plans in {target}",
        lines=(
            f"Frozen at {iso(state.tripped_at)}: {state.why}.",
            "A metrics outage looks like this. No instance is stopped until it is over.",
            "What is silent then still is told when it has ended; `governor doctor` says it now.",
        ),
        dedup_id=f"breaker-{target}-{iso(state.tripped_at)}",
        at=state.tripped_at,
        facts={"why": state.why},
    )


def breaker_reminder(target: Target, state: BreakerState, left: int, now: UtcDatetime) -> Alert:
    """They still are, for longer than anybody would remember; so many of those that turned are `left`."""
    return Alert(
        kind=AlertKind.BREAKER_TRIPPED,
        severity=Severity.WARNING,
        account=target.account,
        region=target.region,
        subject=f"All plans of GPU Governor in {target} are still frozen",
        lines=(
            f"Frozen since {iso(state.tripped_at)}: {state.why}.",
            f"{left} of {state.turned} instances have neither worked nor been put away since.",
            "If their metrics are wrong, mend them: `governor doctor` says which. If they are idle in "
            "earnest, stop them, or set `mode: ask` for them: then the freeze ends, and people are asked.",
        ),
        dedup_id=f"breaker-{target}-{iso(state.tripped_at)}-still-{iso(now)}",
        at=now,
        facts={"why": state.why, "turned": state.turned, "left": left},
    )


def breaker_release(target: Target, now: UtcDatetime) -> Alert:
    """Plans are drawn and carried out again."""
    return Alert(
        kind=AlertKind.BREAKER_RELEASED,
        severity=Severity.INFO,
        account=target.account,
        region=target.region,
        subject=f"GPU Governor works again in {target}",
        lines=(f"The freeze has ended at {iso(now)}; people are asked again.",),
        dedup_id=f"breaker-released-{target}-{iso(now)}",
        at=now,
    )
