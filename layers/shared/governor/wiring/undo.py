"""Wiring of the one function that starts instances again."""

from __future__ import annotations

from dataclasses import dataclass

from governor.policy.document import PolicyBook
from governor.remediation.look_at_start import LookAtStart
from governor.remediation.undo_episode import UndoEpisode
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.following import follow_start
from governor.wiring.policies import or_defaults, ready


@dataclass(frozen=True, slots=True)
class StartingAgain:
    """The two use cases of `undo_episode`. Only `undo` can start an instance."""

    undo: Ready[UndoEpisode]
    look: LookAtStart


def starting_again(parts: Ec2Parts) -> StartingAgain:
    """Return the use cases of `undo_episode`: the start, which a person asks for, and the look,
    for EC2's events. Raises: ConfigurationError if a setting is missing."""
    look = LookAtStart(
        accounts=parts.accounts,
        instances=parts.instances,
        episode_store=parts.episode_store,
        instance_store=parts.instance_store,
        follow=follow_start(parts),
    )
    return StartingAgain(undo=_undo_episode(parts), look=look)


def _undo_episode(parts: Ec2Parts) -> Ready[UndoEpisode]:
    """Return a function that makes the use case of `undo_episode` for each invocation, under
    the policy in force then. If the policy is refused, its people count, and defaults for all
    else. The function raises CloudError if the policy cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> UndoEpisode:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return UndoEpisode(
            clock=parts.clock,
            policies=policies,
            accounts=parts.accounts,
            instances=parts.instances,
            starter=parts.starter,
            episode_store=parts.episode_store,
            approval_store=parts.approval_store,
            hold_store=parts.hold_store,
            instance_store=parts.instance_store,
            follow=follow_start(parts),
        )

    return ready(or_defaults(parts), make)
