"""Sweeps one target: reads, judges, tags, starts workflows. Touches nothing but tags."""

from __future__ import annotations

from typing import Any

from governor.contracts.parsing import parse
from governor.contracts.payloads import TargetPayload
from governor.observability import count, logger, observed
from governor.usecases.sweep.sweep_target import SweepTarget
from governor.wiring.policies import ByTarget, by_target
from governor.wiring.sweep import SweepParts


@observed(by_target(SweepParts(), SweepTarget))
def handler(event: dict[str, Any], context: Any, wired: ByTarget[SweepTarget]) -> dict[str, Any]:
    """One target to counts by verdict; what could not be done is logged and left to the next sweep."""
    payload = parse(TargetPayload, event)
    target = wired.accounts.target(payload.account, payload.region)
    summary = wired.ready()(target)
    for problem in summary.problems:
        logger.warning("left to the next sweep", extra={"target": str(target), "problem": problem})
    count("SweepProblems", len(summary.problems))
    count("EpisodesStarted", summary.episodes_started)
    for kind, number in summary.verdicts.items():
        count("Instances", number, Verdict=kind)
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
