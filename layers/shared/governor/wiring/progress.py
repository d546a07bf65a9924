"""Wiring of the waits of the remediation workflow. They only read, and so have no guards."""

from __future__ import annotations

from governor.policy.document import PolicyBook
from governor.remediation.check_progress import CheckProgress
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import present, ready


def check_progress(parts: Ec2Parts) -> Ready[CheckProgress]:
    """Return a function that makes the use case of `check_progress` for each invocation, under the
    policy in force then. The function raises PolicyError if that is refused, CloudError if it
    cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> CheckProgress:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return CheckProgress(
            clock=parts.clock,
            policies=policies,
            accounts=parts.accounts,
            episode_store=parts.episode_store,
            approval_store=parts.approval_store,
            delivery_store=parts.delivery_store,
            instances=parts.instances,
            snapshots=parts.snapshots,
        )

    return ready(present(parts), make)
