"""Wiring of the daily scan for accelerators."""

from __future__ import annotations

from collections.abc import Callable

from governor.policy.document import PolicyBook
from governor.scan.model import RefusedScan, Snapshot
from governor.scan.registry import KINDS
from governor.scan.rights import kinds_of_the_stack
from governor.scan.scan_target import ScanTarget
from governor.wiring.parts import Parts
from governor.wiring.policies import by_target, present


def scan_accelerators(parts: Parts) -> Callable[[str, str], Snapshot | RefusedScan]:
    """Return the function that takes an account and a Region, and scans it under the policy in
    force then.

    It raises SafetyError for a place that is no target, PolicyError if the policy is refused, and
    CloudError. Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> ScanTarget:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return ScanTarget(
            clock=parts.clock,
            policies=policies,
            places=parts.scan_places,
            scan_store=parts.scan_store,
            kinds=kinds_of_the_stack(KINDS),
        )

    return by_target(parts.accounts, present(parts), make)
