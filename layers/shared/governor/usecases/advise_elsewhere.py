"""After a warning is out: where the same type is to be had, for how much and how likely. Best effort.

Once for a type and a zone in a while, however many of its instances are warned. Nothing waits for it, and
what fails is a note in the log. This module must not know where prices come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.event_messages import elsewhere_alert
from governor.domain.instance import Instance, Lifecycle
from governor.domain.policy import Policy
from governor.errors import GovernorError
from governor.ports import Announcer, Clock, SiblingTypes, SpotMarket
from governor.usecases.once import Once
from governor.usecases.tell_warning import Reaction, Told

_FEWEST_TYPES = 3
"""Of fewer EC2 gives a low score whatever there is. Source: EC2 user guide, Spot placement score."""


@dataclass(frozen=True, slots=True)
class AdviseElsewhere:
    """Compares Spot prices over the policy's Regions and tells the cheapest zones; scores, if it says so."""

    clock: Clock
    market: SpotMarket
    types: SiblingTypes
    once: Once
    announcer: Announcer

    def __call__(
        self, instance: Instance, policy: Policy, owner: str, project: str, reaction: Reaction
    ) -> None:
        """Advises where people were told of the warning just now; never raises for what AWS refuses."""
        told_now = reaction.told in (Told.SINGLY, Told.AS_A_MASS)
        if not (policy.events.compare_spot_prices and told_now and instance.lifecycle is Lifecycle.SPOT):
            return
        place = f"{instance.target}#{instance.availability_zone}"
        window = timedelta(minutes=policy.events.mass_interruption_window_minutes)
        try:
            self.once(
                f"advice#{place}#{instance.instance_type}",
                partial(self._advise, instance, policy, owner, project, reaction),
                keep=window,
            )
        except GovernorError as error:
            reaction.notes.append(f"no advice: {error}")

    def _advise(
        self, instance: Instance, policy: Policy, owner: str, project: str, reaction: Reaction
    ) -> None:
        regions = (instance.target.region, *policy.events.spot_price_regions)
        answer = self.market.prices(instance.target, regions, instance.instance_type, instance.platform)
        reaction.notes += [f"no Spot prices of {region}: {why}" for region, why in answer.problems.items()]
        scores = self._scores(instance, policy, regions, reaction)
        alert = elsewhere_alert(instance, answer.prices, scores, owner, project, self.clock.now())
        if alert is not None:
            self.announcer.announce(alert)
            reaction.advised = True

    def _scores(
        self, instance: Instance, policy: Policy, regions: Sequence[str], reaction: Reaction
    ) -> Mapping[str, int]:
        if not policy.events.placement_scores:
            return {}
        types = self.types.alike(instance.instance_type)
        if len(types) < _FEWEST_TYPES:
            why = f"{len(types)} types carry the same GPUs, and EC2 scores no fewer than {_FEWEST_TYPES}"
            reaction.notes.append(f"no placement scores: {why}")
            return {}
        try:
            return self.market.scores(instance.target, regions, types)
        except GovernorError as error:
            reaction.notes.append(f"no placement scores: {error}")
            return {}
