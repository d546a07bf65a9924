"""Wiring of the ends of episodes: recorded, closed after a failure, or voided by what happened."""

from __future__ import annotations

from governor.money.book_saving import BookSaving
from governor.policy.document import PolicyBook
from governor.policy.ports import Policies
from governor.remediation.announce_end import AnnounceEnd
from governor.remediation.close_dead import CloseDead
from governor.remediation.record_outcome import RecordOutcome
from governor.remediation.void_episode import VoidEpisode
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.parts import Parts
from governor.wiring.policies import or_defaults, ready


def record_outcome(parts: Ec2Parts) -> Ready[RecordOutcome]:
    """Return a function that makes the use case of `record_outcome` for each invocation, under
    the policy in force then. If the policy is refused, its people count, and defaults for all
    else. The function raises CloudError if the policy cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> RecordOutcome:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return RecordOutcome(
            clock=parts.clock,
            policies=policies,
            accounts=parts.accounts,
            episode_store=parts.episode_store,
            approval_store=parts.approval_store,
            instance_store=parts.instance_store,
            delivery_store=parts.delivery_store,
            tagger=parts.tagger,
            announce=_announce_end(parts, policies),
            signer=parts.signer,
            book=_book_saving(parts, policies),
        )

    return ready(or_defaults(parts), make)


def handle_execution_end(parts: Ec2Parts) -> Ready[CloseDead]:
    """Return a function that makes the use case of `handle_execution_end` for each invocation,
    under the policy in force then. If the policy is refused, its people count, and defaults for all
    else. The function raises CloudError if the policy cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> CloseDead:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return close_dead(parts, policies)

    return ready(or_defaults(parts), make)


def close_dead(parts: Ec2Parts, policies: Policies) -> CloseDead:
    """Return the use case that closes episodes whose workflow died, under these policies."""
    return CloseDead(
        clock=parts.clock,
        policies=policies,
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        instance_store=parts.instance_store,
        announce=_announce_end(parts, policies),
        book=_book_saving(parts, policies),
    )


def void_episode(parts: Parts) -> VoidEpisode:
    """Return the use case that ends a question which has no reason any more."""
    return VoidEpisode(
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        workflow=parts.workflow,
    )


def _announce_end(parts: Parts, policies: Policies) -> AnnounceEnd:
    """Return the use case that notifies people of the end of an episode."""
    return AnnounceEnd(
        clock=parts.clock,
        policies=policies,
        announcer=parts.announcer,
        claim_store=parts.claim_store,
        failure_store=parts.failure_store,
    )


def _book_saving(parts: Ec2Parts, policies: Policies) -> BookSaving:
    """Return the use case that books what an action saves."""
    return BookSaving(policies=policies, accounts=parts.accounts, instances=parts.instances)
