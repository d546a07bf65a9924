"""After a warning is out: where the same type is to be had, for how much and how likely. Best effort.

Once for a type and a zone in a while, however many of its instances are warned. Nothing waits for it, and
what fails is a note in the log. This module must not know where prices come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.events.event_messages import elsewhere_alert
from governor.domain.instance import Lifecycle
from governor.errors import GovernorError
from governor.ports import Announcer, Clock, SiblingTypes, SpotMarket
from governor.usecases.events.notify_warning import Case, Notified
from governor.usecases.once import Once

_FEWEST_TYPES = 3
"""Of fewer EC2 gives a low score whatever there is. Source: EC2 user guide, Spot placement score."""


@dataclass(frozen=True, slots=True)
class AdviseElsewhere:
    """Compares Spot prices over the policy's Regions and names the cheapest zones; scores, if it says so."""

    clock: Clock
    market: SpotMarket
    types: SiblingTypes
    once: Once
    announcer: Announcer

    def __call__(self, case: Case) -> None:
        """Advise where owners were notified of the warning just now; raises nothing that AWS refuses."""
        instance, events = case.instance, case.policy.events
        was_notified = case.reaction.notified in (Notified.SINGLY, Notified.AS_A_MASS)
        if not (events.compare_spot_prices and was_notified and instance.lifecycle is Lifecycle.SPOT):
            return
        key = f"advice#{instance.target}#{instance.availability_zone}#{instance.instance_type}"
        window = timedelta(minutes=events.mass_interruption_window_minutes)
        try:
            self.once(key, partial(self._advise, case), keep=window)
        except GovernorError as error:
            case.reaction.notes.append(f"no advice: {error}")

    def _advise(self, case: Case) -> None:
        instance, reaction = case.instance, case.reaction
        regions = (instance.target.region, *case.policy.events.spot_price_regions)
        answer = self.market.prices(instance.target, regions, instance.instance_type, instance.platform)
        reaction.notes += [f"no Spot prices of {region}: {why}" for region, why in answer.problems.items()]
        scores = self._scores(case, regions)
        alert = elsewhere_alert(instance, answer.prices, scores, case.owner, self.clock.now())
        if alert is not None:
            self.announcer.announce(alert)
            reaction.advised = True

    def _scores(self, case: Case, regions: Sequence[str]) -> Mapping[str, int]:
        if not case.policy.events.placement_scores:
            return {}
        types = self.types.alike(case.instance.instance_type)
        if len(types) < _FEWEST_TYPES:
            why = f"{len(types)} types carry the same GPUs, and EC2 scores no fewer than {_FEWEST_TYPES}"
            case.reaction.notes.append(f"no placement scores: {why}")
            return {}
        try:
            return self.market.scores(case.instance.target, regions, types)
        except GovernorError as error:
            case.reaction.notes.append(f"no placement scores: {error}")
            return {}
