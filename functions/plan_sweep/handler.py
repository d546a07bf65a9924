"""Reviews the newest version of the policy, and lists the targets of a sweep: every account of the
policy in force, those of its organizational units included, in every Region of it. Sends messages
about a pause first that could not be sent before: whatever the policy says, or where it is
refused. Ends the freeze of all targets, or reminds people of it, before a target is swept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from governor.core.errors import ConfigurationError
from governor.core.parsing import parse
from governor.events.contract import policy_writer, require_account
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import PlanPayload
from governor.wiring.planning import SweepPlan, sweep_plan

_MOST_TARGETS = 3_000
"""A state holds the list and the outcomes, 80 bytes each of 262,144. Source: Step Functions
quotas."""
PARTS = Parts()
HUB = PARTS.hub.account


@observed(sweep_plan(PARTS))
def handler(event: dict[str, Any], context: Any, plan: SweepPlan) -> dict[str, Any]:
    """`{"check": "sweep"}`, `"health"` or `"scan"` to `{"check", "targets": [{"account",
    "region"}], "target_count"}`; an event of S3 about the policy to `{}`. Raises: InputError for
    any other event; ConfigurationError if the policy has too many targets for one stack;
    CloudError."""
    if event.get("source") == "aws.s3":
        require_account(HUB, event)
        plan.review(policy_writer(event))
        plan.places()
        return {}
    check = parse(PlanPayload, event).check
    if check == "sweep":
        plan.record_schema()
        _attempt(plan.send_pause_messages, "messages about a pause were not sent")
        _attempt(plan.review, "the policy was not reviewed: the version before stays in force")
        # After the review: a version that lifts the freeze counts at once.
        _attempt(plan.follow_hub_freeze, "the freeze of all targets was not followed: it stands")
    targets = [{"account": place.account, "region": place.region} for place in plan.places()]
    if len(targets) > _MOST_TARGETS:
        most = f"one stack sweeps at most {_MOST_TARGETS:,}; deploy a second one for part of them"
        raise ConfigurationError(
            f"the policy has {len(targets):,} targets (accounts x Regions): {most}"
        )
    return {"check": check, "targets": targets, "target_count": len(targets)}


def _attempt(step: Callable[[], object], what_failed: str) -> None:
    """Take a step. If it fails, log `what_failed` and the reason: the sweep goes on all the same,
    and the next one takes the step again."""
    try:
        step()
    except Exception:  # noqa: BLE001 - logged, with the reason
        logger.exception(what_failed)
