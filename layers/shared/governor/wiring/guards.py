"""Wiring of what steps of the remediation workflow share: inspection, guards, calls sent before."""

from __future__ import annotations

from governor.approvals.refused_answers import RefusedAnswers
from governor.evidence.gather_evidence import GatherEvidence
from governor.policy.ports import Policies
from governor.remediation.answer_time import AnswerTimes
from governor.remediation.guards import Guards
from governor.remediation.inspect_instance import InspectInstance
from governor.remediation.seals import CheckSeals
from governor.remediation.sent_call import SentCalls
from governor.wiring.ec2 import Ec2Parts


def inspect_instance(parts: Ec2Parts) -> InspectInstance:
    """Return the use case that reads an instance and its evidence."""
    return InspectInstance(
        instances=parts.instances,
        gather=GatherEvidence(metrics=parts.metrics),
        prices=parts.prices,
        sessions=parts.sessions,
        instance_store=parts.instance_store,
    )


def guards(parts: Ec2Parts, policies: Policies) -> Guards:
    """Return the guards in front of every step, under this policy."""
    seals = CheckSeals(delivery_store=parts.delivery_store, seal_check=parts.seal_check)
    return Guards(
        clock=parts.clock,
        policies=policies,
        accounts=parts.accounts,
        inspect=inspect_instance(parts),
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        instance_store=parts.instance_store,
        breaker_store=parts.breaker_store,
        pause_store=parts.pause_store,
        snapshots=parts.snapshots,
        seals=seals,
        answer_times=AnswerTimes(
            clock=parts.clock, seals=seals, refused_answers=_refused_answers(parts)
        ),
    )


def sent_calls(parts: Ec2Parts) -> SentCalls:
    """Return the check of what became of calls that were sent before."""
    return SentCalls(accounts=parts.accounts, inspect=inspect_instance(parts))


def _refused_answers(parts: Ec2Parts) -> RefusedAnswers:
    """Return the count of answers that the API refused: its metrics are in the hub's account.
    Raises: ConfigurationError if a setting is missing."""
    return RefusedAnswers(
        metrics=parts.metrics,
        hub=parts.hub,
        api_id=parts.settings.need("api_id"),
        namespace=parts.settings.need("powertools_metrics_namespace"),
    )
