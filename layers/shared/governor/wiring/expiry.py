"""Wiring of the one function that deletes snapshots."""

from __future__ import annotations

from governor.policy.document import PolicyBook
from governor.remediation.expire_snapshots import ExpireSnapshots
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import present, ready


def expire_snapshots(parts: Ec2Parts) -> Ready[ExpireSnapshots]:
    """Return a function that makes the use case of `expire_snapshots` for each invocation, under
    the policy in force then. The function raises PolicyError if that is refused, CloudError if it
    cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> ExpireSnapshots:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return ExpireSnapshots(
            clock=parts.clock,
            policies=policies,
            accounts=parts.accounts,
            episode_store=parts.episode_store,
            instance_store=parts.instance_store,
            breaker_store=parts.breaker_store,
            pause_store=parts.pause_store,
            ledger_store=parts.ledger_store,
            delivery_store=parts.delivery_store,
            expiry_store=parts.expiry_store,
            instances=parts.instances,
            remover=parts.remover,
            announcer=parts.announcer,
        )

    return ready(present(parts), make)
