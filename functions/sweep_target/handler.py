"""Sweeps one target: reads, judges, tags, starts workflows. Touches nothing but tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from governor.core.parsing import parse
from governor.fleet.model import part_of
from governor.sweep.sweep_case import SweepSummary
from governor.verdict.model import VerdictKind
from governor.wiring import sweeping
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed
from governor.wiring.payloads import TargetPayload


@observed(sweeping.sweep_target(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, sweep_target: Callable[[str, str], SweepSummary]
) -> dict[str, Any]:
    """Sweep one target; return counts by verdict, or the state that keeps it from being swept. What
    could not be done is logged and left to the next sweep."""
    payload = parse(TargetPayload, event)
    summary = sweep_target(payload.account, payload.region)
    target = summary.target
    if summary.state is not None:
        # It reports no metric, so that `NoSweep` goes off if no target at all can be swept.
        logger.warning("not swept", extra={"target": str(target), "state": summary.state.value})
        return {"account": target.account, "region": target.region, "state": summary.state.value}
    for problem in summary.problems:
        logger.warning("left to the next sweep", extra={"target": str(target), "problem": problem})
    count("SweepProblems", len(summary.problems))
    instances_by_part = Counter[str]()
    for kind, number in summary.verdicts.items():
        instances_by_part[part_of(VerdictKind(kind))] += number
    for part, number in instances_by_part.items():  # each is billed
        count("Instances", number, State=part)
    logger.info("swept", extra={"target": str(target), "verdicts": dict(summary.verdicts)})
    return {
        "account": target.account,
        "region": target.region,
        "instances": summary.instances,
        "verdicts": dict(summary.verdicts),
        "episodes_started": summary.episodes_started,
        "problems": len(summary.problems),
        "frozen": summary.frozen,
    }
