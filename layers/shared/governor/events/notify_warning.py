"""Sends owners the message about a warning of AWS, such as a Spot interruption. The first few in a
zone or group are sent one by one, then all together (`events.mass_interruption_told_singly`).

Advice on where to start a new instance comes last; nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from governor.alerts.model import NOBODY, Owner
from governor.alerts.ports import Announcer
from governor.core.catalog import types_with_same_gpus
from governor.core.errors import CloudError, ConflictError, GovernorError
from governor.core.instance import AUTO_SCALING_TAG, Instance, Lifecycle
from governor.core.ports import Clock
from governor.events.messages import elsewhere_alert, mass_alert, warning_alert
from governor.events.model.interruption import (
    BURST_WINDOW,
    Checkpoint,
    HookAnswer,
    HookState,
    Warned,
)
from governor.events.store.bursts import Burst, Bursts
from governor.evidence.ports import InstanceReader
from governor.policy.model.policy import Policy
from governor.policy.rules.owners import by_owner
from governor.table.once import Once, joined, run_all

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import Target
    from governor.events.model.interruption import SpotPrice


class SpotPrices(NamedTuple):
    """Spot prices, cheapest first. `problems` gives the reason for each Region that could not be
    read."""

    prices: tuple[SpotPrice, ...]
    problems: Mapping[str, str]


class SpotMarket(Protocol):
    """Spot prices and placement scores of Regions, in the target's account, read only."""

    def prices(
        self, target: Target, regions: Sequence[str], instance_type: str, platform: str
    ) -> SpotPrices:
        """Return the prices of these Regions. Never raises: a Region that could not be read is in
        `problems`."""

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        """Return by Region how likely a request for one of these types succeeds, from 1 to 10.
        `regions` may be at most ten. Raises: GovernorError."""


_TAKEN_BACK = (Lifecycle.SPOT, Lifecycle.INTERRUPTIBLE_RESERVATION)
_FEWEST_TYPES = 3
"""Fewest types to ask scores for: EC2 gives a low score to fewer, whatever capacity there is.
Source: EC2 user guide, Spot placement score."""
Result = TypeVar("Result")


class Notified(StrEnum):
    """How owners were notified of a warning. The words are part of what handlers answer."""

    SINGLY = "singly"
    AS_A_MASS = "as a mass"
    """By the message about many warnings, which this call sent."""
    COUNTED = "counted"
    """By the message about many warnings, which another call sent."""


@dataclass(slots=True)
class Reaction:
    """Effects of one event. `notes` are failures that did not hold up any step. `voided`: its open
    question was canceled. `advised`: the owner got prices elsewhere. `completed`: the lifecycle
    hook was completed."""

    ours: bool = True
    """False if the instance is not governed."""
    notified: Notified | None = None
    """`None` if an earlier call notified the owner, or if the instance is not governed."""
    checkpoint_sent: bool = False
    snapshots: tuple[str, ...] = ()
    voided: bool = False
    advised: bool = False
    completed: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """The response to one warning: its effects, and the errors of steps that failed."""

    warned: Warned
    reaction: Reaction = field(default_factory=Reaction)
    failed: list[Exception] = field(default_factory=list)

    def run(self, *steps: Callable[[], object]) -> None:
        """Run every step, even if one before it fails. If any failed, add one error to `failed`:
        the first, with the others as its notes. Raise nothing."""
        try:
            run_all(steps)
        except Exception as error:  # noqa: BLE001 - the other warnings have their turn
            self.failed.append(error)

    def get(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of the step. If it fails, add the error to `failed` and return
        `None`."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the other warnings have their turn
            self.failed.append(error)
            return None

    def result(self) -> Reaction | Exception:
        """Return the effects if no step has failed, else the first error, with the others as its
        notes. The error is returned, not raised."""
        return joined(self.failed) if self.failed else self.reaction


@dataclass(slots=True, kw_only=True)
class Case(Attempt):
    """A warning of a governed instance, under its own `policy`. `checkpoint` is `None` if the stack
    has no checkpoint hook."""

    instance: Instance
    policy: Policy
    owner: Owner
    checkpoint: Checkpoint | None
    hook: HookAnswer = HookAnswer(HookState.NEXT)
    hook_error: CloudError | None = None
    """Why the hook was not sent, or could not be noted as sent."""

    @property
    def gets_hook(self) -> bool:
        """Return whether the decision is to send the hook to the instance. It is false in a stack
        without a hook."""
        return self.checkpoint is not None and self.checkpoint.send

    @property
    def is_hook_unsent(self) -> bool:
        """Return whether sending the hook failed, or perhaps failed. It is false if the hook was
        sent, only its note failed, or no hook was to be sent."""
        return self.hook_error is not None and not self.hook.was_sent


@dataclass(frozen=True, slots=True)
class NotifyWarning:
    """Counts a warning, then notifies. If the count cannot be written, the warning is sent all the
    same."""

    clock: Clock
    instances: InstanceReader
    burst_store: Bursts
    once: Once
    announcer: Announcer

    def __call__(self, case: Case, base: Policy, without_hook: Collection[str] = ()) -> None:
        """Notify the owner of a warning, unless an earlier call did so for this event, and set in
        the reaction how.

        `base`, the policy without overrides, decides how many warnings are sent one by one.
        `without_hook` are the ids of instances whose hooks were not sent. Raises: CloudError if the
        message was not accepted, or not noted as sent: then a repeated event sends it again.
        """
        notify = partial(self._notify, case, base, without_hook)
        self.once(f"{case.warned.event_id}#told", notify)

    def _notify(self, case: Case, base: Policy, without_hook: Collection[str]) -> None:
        """Count the warning and send it: alone while few came, else in one message about all. If
        another call has sent that one, send nothing. Set in the reaction how the owner is notified.

        Raises: CloudError if the message was not accepted.
        """
        burst = self._count_warning(case)
        if burst is None or burst.number <= base.events.mass_interruption_told_singly:
            alert = warning_alert(
                case.instance,
                case.warned,
                case.checkpoint,
                case.owner,
                self.clock.now(),
                case.hook,
            )
            self.announcer.announce(alert)
            case.reaction.notified = Notified.SINGLY
        elif self._notify_of_mass(case, base, burst, without_hook):
            case.reaction.notified = Notified.AS_A_MASS
        else:
            case.reaction.notified = Notified.COUNTED

    def _count_warning(self, case: Case) -> Burst | None:
        """Add the warning to the count of its group or zone, and return its place there; `None`,
        and a note in the reaction, if the count cannot be written."""
        place = case.warned.group or case.instance.availability_zone or "unknown-zone"
        name = f"{case.warned.kind}#{place}"
        try:
            return self.burst_store.count_one_more(
                case.instance.target, name, self.clock.now(), BURST_WINDOW
            )
        except (CloudError, ConflictError) as error:
            # The caller then sends a single message: one message too many is safe.
            case.reaction.notes.append(f"not counted: {error}")
            return None

    def _notify_of_mass(
        self, case: Case, base: Policy, burst: Burst, without_hook: Collection[str]
    ) -> bool:
        """Send one message about all warnings in a group or zone, once for each burst of warnings.
        Return true if this call sent it, false if another one did. Raises: CloudError if a message
        was not accepted."""
        kind = case.warned.kind
        place = case.warned.group or case.instance.availability_zone
        started = int(burst.started_at.timestamp())
        key = f"mass#{kind}#{case.instance.target}#{place}#{started}"
        return self.once(key, partial(self._announce_mass, case, base, burst, without_hook))

    def _announce_mass(
        self, case: Case, base: Policy, burst: Burst, without_hook: Collection[str]
    ) -> None:
        """Send each owner one message about their endangered instances; send `NOBODY` one if there
        are none, or they cannot be listed. Raises: the first error, after all were tried."""
        endangered = self._endangered(case, base)
        now = self.clock.now()
        announcements = []
        for owner, instances in endangered.items():
            alert = mass_alert(
                case.instance,
                case.warned,
                instances,
                base,
                burst.started_at,
                now,
                owner=owner,
                without_hook=without_hook,
            )
            announcements.append(partial(self.announcer.announce, alert))
        run_all(announcements)

    def _endangered(self, case: Case, base: Policy) -> Mapping[Owner, Sequence[Instance] | None]:
        """Return the governed instances that may be taken back with this one, by owner.

        Return `NOBODY` with an empty sequence if there are none, and with `None`, and a note in the
        reaction, if they cannot be listed.
        """
        try:
            listed = self.instances.list_selected(case.instance.target, base.selector)
        except CloudError as error:
            case.reaction.notes.append(f"the zone was not listed: {error}")
            return {NOBODY: None}
        endangered = [instance for instance in listed if _is_endangered(instance, case)]
        return by_owner(endangered, base.ownership) or {NOBODY: ()}


def _is_endangered(instance: Instance, case: Case) -> bool:
    """Return whether the instance may be taken back with the warned one: it is in the same group
    or, for a warning that no group sent, in the same zone and of a kind that EC2 takes back."""
    if case.warned.group is not None:
        return instance.tags.get(AUTO_SCALING_TAG) == case.warned.group
    is_in_zone = instance.availability_zone == case.instance.availability_zone
    return is_in_zone and instance.lifecycle in _TAKEN_BACK


@dataclass(frozen=True, slots=True)
class AdviseElsewhere:
    """Compares Spot prices in the policy's Regions and names the cheapest zones, with placement
    scores if the policy asks for them."""

    clock: Clock
    market: SpotMarket
    once: Once
    announcer: Announcer

    def __call__(self, case: Case) -> None:
        """Send the owner of a Spot instance prices elsewhere, once in ten minutes for its type and
        zone. An error becomes a note of the reaction, and raises nothing.

        Do nothing if the policy does not ask for it, or another call has notified the owner.
        """
        instance = case.instance
        events = case.policy.events
        is_wanted = events.compare_spot_prices and instance.lifecycle is Lifecycle.SPOT
        was_notified = case.reaction.notified in (Notified.SINGLY, Notified.AS_A_MASS)
        if not is_wanted or not was_notified:
            return
        key = f"advice#{instance.target}#{instance.availability_zone}#{instance.instance_type}"
        try:
            self.once(key, partial(self._advise, case), keep=BURST_WINDOW)
        except GovernorError as error:
            case.reaction.notes.append(f"no advice: {error}")

    def _advise(self, case: Case) -> None:
        """Read the prices elsewhere and send them, and set `advised` in the reaction; send nothing
        if none is known. Regions that cannot be read are noted. Raises: CloudError."""
        instance = case.instance
        reaction = case.reaction
        regions = (instance.target.region, *case.policy.events.spot_price_regions)
        answer = self.market.prices(
            instance.target, regions, instance.instance_type, instance.platform
        )
        for region, why in answer.problems.items():
            reaction.notes.append(f"no Spot prices of {region}: {why}")
        scores = self._scores(case, regions)
        alert = elsewhere_alert(instance, answer.prices, scores, case.owner, self.clock.now())
        if alert is not None:
            self.announcer.announce(alert)
            reaction.advised = True

    def _scores(self, case: Case, regions: Sequence[str]) -> Mapping[str, int]:
        """Return the placement scores by Region, from 1 to 10. Return an empty mapping if the
        policy does not ask for them; or, with a note in the reaction, if EC2 gives none, or too few
        types carry the same GPUs for it to give any. Raises nothing."""
        if not case.policy.events.placement_scores:
            return {}
        types = types_with_same_gpus(case.instance.instance_type)
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
