"""Wiring of the check of the health of GPUs."""

from __future__ import annotations

from collections.abc import Callable

from governor.health.check_health import CheckHealth, HealthSummary
from governor.health.read_health import ReadHealth
from governor.policy.document import PolicyBook
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import by_target, present


def check_health(parts: Ec2Parts) -> Callable[[str, str], HealthSummary]:
    """Return the function that checks the GPUs of an account and a Region. It raises SafetyError
    for a place that is no target."""

    def make(policies: PolicyBook) -> CheckHealth:
        """Return the use case under this policy."""
        return CheckHealth(
            clock=parts.clock,
            policies=policies,
            instances=parts.instances,
            read=ReadHealth(metrics=parts.metrics),
            claim_store=parts.claim_store,
            finding_store=parts.finding_store,
            announcer=parts.announcer,
        )

    return by_target(parts.accounts, present(parts), make)
