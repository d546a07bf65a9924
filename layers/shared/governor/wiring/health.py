"""Wiring of the check of the health of GPUs."""

from __future__ import annotations

from collections.abc import Callable

from governor.health.check_health import CheckHealth, HealthSummary
from governor.health.read_health import ReadHealth
from governor.policy.document import PolicyBook
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import by_target, present


def check_health(parts: Ec2Parts) -> Callable[[str, str], HealthSummary]:
    """Return the function that takes an account and a Region, and checks the GPUs there under the
    policy in force then.

    It raises SafetyError for a place that is no target, PolicyError if the policy is refused, and
    CloudError. Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> CheckHealth:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return CheckHealth(
            clock=parts.clock,
            policies=policies,
            instances=parts.instances,
            read=ReadHealth(metrics=parts.metrics),
            claim_store=parts.claim_store,
            finding_store=parts.finding_store,
            failure_store=parts.failure_store,
            announcer=parts.announcer,
        )

    return by_target(parts.accounts, present(parts), make)
