"""Looks at a start that is followed, when EC2 says that its instance is stopped.

The event is only the occasion: it gives no reason, and it may be late. The instance shows whether
EC2 took the start back. This module must not start an instance.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.core.instance import Target
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.policy.accounts import Accounts
from governor.remediation.follow_start import FollowStart


@dataclass(frozen=True, slots=True)
class LookAtStart:
    """Notifies people of a start that EC2 took back, seconds after it did.

    Safe to repeat, and beside a sweep that looks at the same time: `FollowStart` sends the message
    of one end once.
    """

    accounts: Accounts
    instances: InstanceReader
    episode_store: Episodes
    instance_store: Instances
    follow: FollowStart

    def __call__(self, account: str, region: str, instance_id: str) -> str:
        """Record what EC2 shows of the start of this instance, and return the status of the try,
        such as `fell-back`; `not followed` if no start of it is followed.

        A stopped instance without a new reason may still start: the try stays open, and the sweep
        looks again. Raises: ConfigurationError without a role in the account; ConflictError if the
        instance runs, but the stop of the episode was not noted; CloudError.
        """
        ref = self.instance_store.record(Target(account, region), instance_id).starting
        episode = None if ref is None else self.episode_store.episode(ref)
        start_try = None if episode is None else episode.start_try
        if episode is None or start_try is None:
            return "not followed"
        session = (episode.ref.execution_name, start_try.asked_by)
        target = self.accounts.target(account, region, session)
        instance = self.instances.describe(target, instance_id)
        seen = self.follow(episode, instance) or start_try
        return seen.status.value
