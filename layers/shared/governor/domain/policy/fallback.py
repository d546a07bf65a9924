"""The policy for an instance whose overrides contradict each other."""

from __future__ import annotations

from typing import Protocol

from governor.domain.instance import Instance
from governor.domain.policy.policy import AppliedPolicy, Policy
from governor.errors import PolicyError


class _Book(Protocol):
    def base(self) -> AppliedPolicy: ...

    def applied_to(self, instance: Instance) -> AppliedPolicy: ...


def policy_or_base(policies: _Book, instance: Instance | None) -> Policy:
    """Return the instance's policy; the base where its overrides contradict each other, or it is not known.

    For what must go on all the same: an episode ends, a fault is reported. The sweep reports the overrides.
    """
    try:
        return (policies.applied_to(instance) if instance else policies.base()).policy
    except PolicyError:
        return policies.base().policy
