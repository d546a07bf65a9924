"""Ports for the policy in force.

A use case asks for the policy by these, and never reads the document itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from governor.core.errors import PolicyError

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import Instance
    from governor.policy.model.policy import AppliedPolicy, Policy


class Policies(Protocol):
    """The parsed policy document, the same for a whole invocation.

    `base` is the policy without overrides. Settings of the sweep as a whole, such as `targets` and
    `breaker`, are read there.
    """

    def base(self) -> AppliedPolicy:
        """Return the policy of the document without overrides."""

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """Return the policy of one instance, with its overrides. Raises: PolicyError if these
        contradict each other."""


class PolicyVariants(Policies, Protocol):
    """Policies that can also list the base and each override applied alone. Every setting of an
    instance is in one of these `variants`."""

    @property
    def variants(self) -> Sequence[Policy]:
        """Return the base first, then the policy under each override alone."""


def policy_or_base(policies: Policies, instance: Instance | None) -> Policy:
    """Return the policy of an instance, for work that must go on in any case. Raises nothing.

    Return the policy without overrides if `instance` is `None`, or if its overrides contradict each
    other, which the sweep reports.
    """
    if instance is None:
        return policies.base().policy
    try:
        return policies.applied_to(instance).policy
    except PolicyError:
        return policies.base().policy
