"""Notifies owners of warnings: the first few in a zone, or group, one by one, then all as one
message (`events.mass_interruption_*`). Advice comes after, and nothing waits for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial

from governor.domain.alerts.alert import NOBODY, Owner, by_owner
from governor.domain.catalogue import alike
from governor.domain.events.interruption import Checkpoint, HookAnswer, HookState, Warned
from governor.domain.events.messages import elsewhere_alert, mass_alert, warning_alert
from governor.domain.instance import AUTO_SCALING_TAG, Instance, Lifecycle
from governor.domain.policy.policy import Policy
from governor.errors import CloudError, ConflictError, GovernorError
from governor.ports import Announcer, Clock, InstanceReader, SpotMarket
from governor.stores import Burst, EventLog
from governor.usecases.once import Once, joined, run_all

_TAKEN_BACK = (Lifecycle.SPOT, Lifecycle.INTERRUPTIBLE_RESERVATION)
_FEWEST_TYPES = 3
"""Fewest types: EC2 gives a low score to fewer, whatever there is. Source: EC2 user guide, Spot
placement score."""


class Notified(StrEnum):
    """How owners were notified of a warning. The words are part of what handlers answer."""

    SINGLY = "singly"
    AS_A_MASS = "as a mass"
    """By the summary, which this call sent."""
    COUNTED = "counted"
    """By a summary that another call sent."""


@dataclass(slots=True)
class Reaction:
    """Effects of one event. `notes` are failures that nothing had to wait for."""

    ours: bool = True
    notified: Notified | None = None
    """`None`: notified before, or not ours."""
    checkpoint_sent: bool = False
    snapshots: tuple[str, ...] = ()
    voided: bool = False
    advised: bool = False
    completed: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Attempt:
    warned: Warned
    reaction: Reaction = field(default_factory=Reaction)
    failed: list[Exception] = field(default_factory=list)

    def run(self, *steps: Callable[[], object]) -> None:
        """Try every step, whatever becomes of those before it."""
        try:
            run_all(steps)
        except Exception as error:  # noqa: BLE001 - it is this warning's result; the others have their turn
            self.failed.append(error)

    def result(self) -> Reaction | Exception:
        return joined(self.failed) if self.failed else self.reaction


@dataclass(slots=True, kw_only=True)
class Case(Attempt):
    """A warning of a governed instance, under its own `policy`; without a document `checkpoint` is
    `None`."""

    instance: Instance
    policy: Policy
    owner: Owner
    checkpoint: Checkpoint | None
    hook: HookAnswer = HookAnswer(HookState.NEXT)
    hook_error: CloudError | None = None
    """Why the hook was not sent, or could not be noted as sent."""

    @property
    def is_hooked(self) -> bool:
        return self.checkpoint is not None and self.checkpoint.send

    @property
    def is_unasked(self) -> bool:
        """Return whether its hook was not sent, as far as that is known."""
        return self.hook_error is not None and not self.hook.was_sent


@dataclass(frozen=True, slots=True)
class NotifyWarning:
    """Counts, then notifies; a count that cannot be written never keeps a warning back."""

    clock: Clock
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(self, case: Case, base: Policy, unasked: Collection[str] = ()) -> None:
        """Notify the owner, unless this event was notified before. `base`, which has no overrides,
        decides what a mass is. Raises: CloudError when it was not taken, or not noted: sent
        again."""

        def notify() -> None:
            burst = self._count(case, base)
            if burst is None or burst.number <= base.events.mass_interruption_told_singly:
                now, owner = self.clock.now(), case.owner
                alert = warning_alert(
                    case.instance, case.warned, case.checkpoint, owner, now, case.hook
                )
                self.announcer.announce(alert)
                case.reaction.notified = Notified.SINGLY
            elif self._summarise(case, base, burst, unasked):
                case.reaction.notified = Notified.AS_A_MASS
            else:
                case.reaction.notified = Notified.COUNTED

        self.once(f"{case.warned.event_id}#told", notify)

    def _count(self, case: Case, base: Policy) -> Burst | None:
        window = timedelta(minutes=base.events.mass_interruption_window_minutes)
        place = case.warned.group or case.instance.availability_zone or "unknown-zone"
        try:
            name = f"{case.warned.response.kind}#{place}"
            return self.log.count(case.instance.target, name, self.clock.now(), window)
        except (CloudError, ConflictError) as error:
            # Notified singly: one message too many is the safe side.
            case.reaction.notes.append(f"not counted: {error}")
            return None

    def _summarise(self, case: Case, base: Policy, burst: Burst, unasked: Collection[str]) -> bool:
        instance, warned, since = case.instance, case.warned, burst.started_at
        place = (
            f"{warned.response.kind}#{instance.target}#{warned.group or instance.availability_zone}"
        )

        def notify() -> None:
            endangered, now = self._endangered(case, base), self.clock.now()
            # One to each owner, who may be reached by nobody else's channel.
            alerts = [
                mass_alert(instance, warned, theirs, base, since, now, owner=owner, unasked=unasked)
                for owner, theirs in endangered.items()
            ]
            run_all([partial(self.announcer.announce, alert) for alert in alerts])

        return self.once(f"mass#{place}#{int(since.timestamp())}", notify)

    def _endangered(self, case: Case, base: Policy) -> Mapping[Owner, Sequence[Instance] | None]:
        """Return what may be taken back there, by owner; `None` where that is not known."""
        group, zone = case.warned.group, case.instance.availability_zone

        def is_meant(one: Instance) -> bool:
            if group is not None:
                return one.tags.get(AUTO_SCALING_TAG) == group
            return one.availability_zone == zone and one.lifecycle in _TAKEN_BACK

        try:
            listed = self.instances.list_selected(case.instance.target, base.selector)
        except CloudError as error:
            case.reaction.notes.append(f"the zone was not listed: {error}")
            return {NOBODY: None}
        return by_owner([one for one in listed if is_meant(one)], base.ownership) or {NOBODY: ()}


@dataclass(frozen=True, slots=True)
class AdviseElsewhere:
    """Compares Spot prices over the policy's Regions and names the cheapest zones; scores, if it
    says so."""

    clock: Clock
    market: SpotMarket
    once: Once
    announcer: Announcer

    def __call__(self, case: Case) -> None:
        """Advise where owners were notified of the warning just now; raises nothing that AWS
        refuses."""
        instance, events = case.instance, case.policy.events
        was_notified = case.reaction.notified in (Notified.SINGLY, Notified.AS_A_MASS)
        if not (
            events.compare_spot_prices and was_notified and instance.lifecycle is Lifecycle.SPOT
        ):
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
        answer = self.market.prices(
            instance.target, regions, instance.instance_type, instance.platform
        )
        reaction.notes += [
            f"no Spot prices of {region}: {why}" for region, why in answer.problems.items()
        ]
        scores = self._scores(case, regions)
        alert = elsewhere_alert(instance, answer.prices, scores, case.owner, self.clock.now())
        if alert is not None:
            self.announcer.announce(alert)
            reaction.advised = True

    def _scores(self, case: Case, regions: Sequence[str]) -> Mapping[str, int]:
        if not case.policy.events.placement_scores:
            return {}
        types = alike(case.instance.instance_type)
        if len(types) < _FEWEST_TYPES:
            why = (
                f"{len(types)} types carry the same GPUs, and EC2 scores no fewer than "
                f"{_FEWEST_TYPES}"
            )
            case.reaction.notes.append(f"no placement scores: {why}")
            return {}
        try:
            return self.market.scores(case.instance.target, regions, types)
        except GovernorError as error:
            case.reaction.notes.append(f"no placement scores: {error}")
            return {}
