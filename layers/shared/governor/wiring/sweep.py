"""What comes before a sweep. Apart: no other function starts with the review of the policy."""

from __future__ import annotations

import logging
from typing import NamedTuple

from governor.contracts.policy import PolicyBook, parse_policy
from governor.domain.instance import Target
from governor.usecases.accounts import swept
from governor.usecases.policy_versions import ReviewPolicy
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import accepted, present, ready

_log = logging.getLogger(__name__)


class SweepPlan(NamedTuple):
    review: ReviewPolicy
    places: Ready[tuple[Target, ...]]


def sweep_plan(parts: Parts) -> SweepPlan:
    """For `plan_sweep`: the review of the policy; account and Region of every target of the one in force."""
    hub = parts.hub
    parts.clients.client("s3", patient=False)

    def places(policies: PolicyBook) -> tuple[Target, ...]:
        for problem in policies.retired:
            _log.warning("the policy: %s", problem)
        return swept(policies.base().policy, hub)

    # The sweep goes on under the version before, and the next one tries again.
    hasty = parts.hasty_announcer
    review = parts.fill(ReviewPolicy, announcer=hasty, parse=parse_policy, parse_accepted=accepted)
    return SweepPlan(review, ready(present(parts), places))
