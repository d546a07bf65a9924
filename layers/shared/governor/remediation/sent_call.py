"""Finds out in EC2 what became of a stop or a termination that an episode has sent.

This module only reads, and must not send the call again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.episode.rules.sent_call import Effect, effect_of
from governor.policy.accounts import Accounts
from governor.remediation.inspect_instance import InspectInstance


@dataclass(frozen=True, slots=True)
class SentCalls:
    """Reads the effect of calls whose answers may be lost."""

    accounts: Accounts
    inspect: InspectInstance

    def effect(self, episode: Episode, step: Step, now: datetime) -> Effect | None:
        """Return the effect of the noted stop or termination, as EC2 shows it now; `None` if none
        was noted. Do not call it for snapshots.

        Raises: ConfigurationError without a role in its account; CloudError if the instance cannot
        be read.
        """
        sent_at = episode.progress.steps_done.get(step.value)
        if sent_at is None:
            return None
        ref = episode.ref
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        # Another launch time means that somebody has started the instance since.
        if instance is not None and instance.launch_time != ref.launch_time:
            return Effect.CHANGED_BY_OTHERS
        return effect_of(step, sent_at, instance, now)
