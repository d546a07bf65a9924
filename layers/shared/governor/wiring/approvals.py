"""Wiring of the messages of a question. How a question ends is in `conclusion.py`."""

from __future__ import annotations

from governor.approvals.ask_owner import AskOwner
from governor.policy.document import PolicyBook
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import present, ready


def ask_owner(parts: Parts) -> Ready[AskOwner]:
    """Return a function that makes the use case of `ask_owner` for each invocation, under the
    policy in force then. The function raises PolicyError if that is refused, CloudError if it
    cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> AskOwner:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return AskOwner(
            clock=parts.clock,
            policies=policies,
            episode_store=parts.episode_store,
            approval_store=parts.approval_store,
            breaker_store=parts.breaker_store,
            pause_store=parts.pause_store,
            workflow=parts.workflow,
            announcer=parts.announcer,
            signer=parts.signer,
        )

    return ready(present(parts), make)
