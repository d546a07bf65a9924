"""Notifies owners of warnings: the first few in a zone, or group, one by one, then all as one message.

The rule is `events.mass_interruption_*` of the policy. This module must not know what else is done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial

from governor.domain.alerts.alert import Alert
from governor.domain.alerts.owner import Owner, by_owner
from governor.domain.events.event_messages import mass_alert, warning_alert
from governor.domain.events.interruption import Checkpoint, HookAnswer, Warned
from governor.domain.instance import Instance, Lifecycle
from governor.domain.policy.policy import Policy
from governor.domain.tags import AUTO_SCALING_TAG
from governor.errors import CloudError, ConflictError
from governor.ports import Announcer, Clock, InstanceReader
from governor.stores import Burst, EventLog
from governor.usecases.once import Once, run_all

_TAKEN_BACK = (Lifecycle.SPOT, Lifecycle.INTERRUPTIBLE_RESERVATION)


class Notified(StrEnum):
    """How owners were notified of a warning. The words are part of what handlers answer."""

    SINGLY = "singly"
    AS_A_MASS = "as a mass"
    """By the summary, which this call sent."""
    COUNTED = "counted"
    """By a summary that another call sent."""


@dataclass(slots=True)
class Reaction:
    """What was done about one event. `notes` are failures that nothing had to wait for."""

    ours: bool = True
    notified: Notified | None = None
    """`None`: notified before, or not ours."""
    checkpoint_sent: bool = False
    snapshots: tuple[str, ...] = ()
    voided: bool = False
    advised: bool = False
    completed: bool = False
    """The lifecycle hook that an Auto Scaling group waited for was completed."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Case:
    """A warning of a governed instance, and what every step of the response needs.

    `checkpoint` is `None` in a stack without a document; `policy` is the one that applies to the instance.
    """

    warned: Warned
    instance: Instance
    policy: Policy
    checkpoint: Checkpoint | None
    owner: Owner
    reaction: Reaction

    @property
    def is_hooked(self) -> bool:
        """Whether the instance is asked to save its work."""
        return self.checkpoint is not None and self.checkpoint.send


@dataclass(frozen=True, slots=True)
class NotifyWarning:
    """Counts, then notifies; a count that cannot be written never keeps a warning back."""

    clock: Clock
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(self, case: Case, base: Policy, hook: HookAnswer, unasked: Collection[str] = ()) -> None:
        """Notify the owner, unless this event was notified before.

        Args:
            case: the warning.
            base: the policy without overrides; its limits decide what a mass is.
            hook: what became of the checkpoint hook.
            unasked: instances whose hook was not sent, as far as that is known: a summary names them.

        Raises:
            CloudError: no channel has taken the message, or it could not be noted; a repeated event sends
                it again.
        """

        def notify() -> None:
            burst = self._count(case, base)
            if burst is None or burst.number <= base.events.mass_interruption_told_singly:
                self.announcer.announce(self._alert(case, hook))
                case.reaction.notified = Notified.SINGLY
            elif self._summarise(case, base, burst, unasked):
                case.reaction.notified = Notified.AS_A_MASS
            else:
                case.reaction.notified = Notified.COUNTED

        self.once(f"{case.warned.event_id}#told", notify)

    def _alert(self, case: Case, hook: HookAnswer) -> Alert:
        return warning_alert(case.instance, case.warned, case.checkpoint, case.owner, self.clock.now(), hook)

    def _count(self, case: Case, base: Policy) -> Burst | None:
        window = timedelta(minutes=base.events.mass_interruption_window_minutes)
        place = case.warned.group or case.instance.availability_zone or "unknown-zone"
        try:
            name = f"{case.warned.kind}#{place}"
            return self.log.count(case.instance.target, name, self.clock.now(), window)
        except (CloudError, ConflictError) as error:
            # Notified singly: one message too many is the safe side.
            case.reaction.notes.append(f"not counted: {error}")
            return None

    def _summarise(self, case: Case, base: Policy, burst: Burst, unasked: Collection[str]) -> bool:
        instance, warned = case.instance, case.warned
        place = f"{instance.target}#{warned.group or instance.availability_zone}"

        def notify() -> None:
            endangered = self._endangered(case, base)
            now, since = self.clock.now(), burst.started_at
            if not endangered:
                listed = None if endangered is None else ()
                self.announcer.announce(mass_alert(instance, warned, listed, base, since, now))
                return
            # One to each owner, who may be reached by nobody else's channel.
            alerts = [
                mass_alert(
                    instance,
                    warned,
                    theirs,
                    base,
                    since,
                    now,
                    owner=owner,
                    unasked=unasked,
                )
                for owner, theirs in endangered.items()
            ]
            run_all([partial(self.announcer.announce, alert) for alert in alerts])

        return self.once(f"mass#{warned.kind}#{place}#{int(burst.started_at.timestamp())}", notify)

    def _endangered(self, case: Case, base: Policy) -> Mapping[Owner, Sequence[Instance]] | None:
        """What runs in that zone on capacity that can be taken back, or in that group, by its owner."""
        group, zone = case.warned.group, case.instance.availability_zone

        def is_meant(one: Instance) -> bool:
            if group is not None:
                return one.tags.get(AUTO_SCALING_TAG) == group
            return one.availability_zone == zone and one.lifecycle in _TAKEN_BACK

        try:
            listed = self.instances.list_selected(case.instance.target, base.selector)
        except CloudError as error:
            case.reaction.notes.append(f"the zone was not listed: {error}")
            return None
        return by_owner([one for one in listed if is_meant(one)], base.ownership)
