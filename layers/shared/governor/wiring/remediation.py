"""Wiring of the remediation workflow, but for the step that stops or terminates (`acting.py`),
its waits (`progress.py`) and the end of an episode (`endings.py`)."""

from __future__ import annotations

from governor.policy.document import PolicyBook
from governor.remediation.open_episode import OpenEpisode
from governor.remediation.recheck_episode import RecheckEpisode
from governor.remediation.take_snapshot import TakeSnapshot
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.guards import guards, inspect_instance, sent_calls
from governor.wiring.policies import asking, ready


def open_episode(parts: Ec2Parts) -> Ready[OpenEpisode]:
    """Return a function that makes the use case of `open_episode` for each invocation, under the
    policy in force then, with the projects over budget if it asks about those. The function raises
    PolicyError if that is refused, CloudError if it cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> OpenEpisode:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return OpenEpisode(
            clock=parts.clock,
            policies=policies,
            accounts=parts.accounts,
            inspect=inspect_instance(parts),
            episode_store=parts.episode_store,
            approval_store=parts.approval_store,
            instance_store=parts.instance_store,
            breaker_store=parts.breaker_store,
            pause_store=parts.pause_store,
            ledger_store=parts.ledger_store,
            keys=parts.volume_keys,
            opening_seal=parts.opening_seal,
        )

    return ready(asking(parts), make)


def recheck_episode(parts: Ec2Parts) -> Ready[RecheckEpisode]:
    """Return a function that makes the use case of `recheck_episode` for each invocation, under the
    policy in force then, with the projects over budget if it asks about those. The function raises
    PolicyError if that is refused, CloudError if it cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> RecheckEpisode:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return RecheckEpisode(
            clock=parts.clock,
            accounts=parts.accounts,
            guards=guards(parts, policies),
            inspect=inspect_instance(parts),
            episode_store=parts.episode_store,
            approval_store=parts.approval_store,
            cap_store=parts.cap_store,
            sent_calls=sent_calls(parts),
        )

    return ready(asking(parts), make)


def take_snapshot(parts: Ec2Parts) -> Ready[TakeSnapshot]:
    """Return a function that makes the use case of `take_snapshot` for each invocation, under the
    policy in force then, with the projects over budget if it asks about those. The function raises
    PolicyError if that is refused, CloudError if it cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> TakeSnapshot:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return TakeSnapshot(
            clock=parts.clock,
            guards=guards(parts, policies),
            snapshots=parts.snapshots,
            vault=parts.vault,
            episode_store=parts.episode_store,
            call_store=parts.call_store,
        )

    return ready(asking(parts), make)
