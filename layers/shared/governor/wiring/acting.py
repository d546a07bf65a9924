"""Wiring of `put_away`, the one function that stops and terminates."""

from __future__ import annotations

from governor.policy.document import PolicyBook
from governor.remediation.put_away import PutAway
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.guards import guards, sent_calls
from governor.wiring.policies import asking, ready


def acting(parts: Ec2Parts) -> Ready[PutAway]:
    """Return a function that makes the use case of `put_away` for each invocation, under the policy
    in force then, with the projects over budget if it asks about those. The function raises
    PolicyError if that is refused, CloudError if it cannot be read.

    The use case reads members with credentials that change nothing: each call that stops or
    terminates takes credentials of its own. Raises: ConfigurationError now, at cold start, if a
    setting is missing.
    """
    parts.clients.only_read_members()

    def make(policies: PolicyBook) -> PutAway:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return PutAway(
            clock=parts.clock,
            guards=guards(parts, policies),
            controller=parts.controller,
            episode_store=parts.episode_store,
            call_store=parts.call_store,
            cap_store=parts.cap_store,
            sent_calls=sent_calls(parts),
        )

    return ready(asking(parts), make)
