"""Tells people of warnings: the first few of a zone, or of a group, one by one, and a mass as one message.

The rule is `events.mass_interruption_*` of the policy. This module must not know what else is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial

from governor.domain.alert import Alert
from governor.domain.event_messages import mass_alert
from governor.domain.instance import Instance, Lifecycle
from governor.domain.interruption import Warned
from governor.domain.owner import owner_of
from governor.domain.policy import Policy
from governor.domain.units import iso
from governor.errors import CloudError, ConflictError
from governor.ports import Announcer, Burst, Clock, EventLog, InstanceReader
from governor.usecases.once import Once, run_all

GROUP_TAG = "aws:autoscaling:groupName"
_TAKEN_BACK = (Lifecycle.SPOT, Lifecycle.INTERRUPTIBLE_RESERVATION)


class Told(StrEnum):
    """How people heard of a warning."""

    SINGLY = "singly"
    AS_A_MASS = "as a mass"
    """By the summary, which this call sent."""
    COUNTED = "counted"
    """By a summary that another call sent."""


@dataclass(slots=True)
class Reaction:
    """What was done about one event. `notes` are failures that nothing had to wait for."""

    ours: bool = True
    told: Told | None = None
    """`None`: told before, or not ours."""
    checkpoint_sent: bool = False
    snapshots: tuple[str, ...] = ()
    voided: bool = False
    advised: bool = False
    completed: bool = False
    """The lifecycle hook that an Auto Scaling group waited for was completed."""
    notes: list[str] = field(default_factory=list)

    def too_late(self, warned: Warned) -> Reaction:
        """Nothing is done: the event is about what is over."""
        self.notes.append(
            f"the event of {iso(warned.at)} came too late: it is about an earlier run, or is over"
        )
        return self

    def elsewhere(self, account: str, region: str) -> Reaction:
        """Nothing is done: the event came from where the policy governs nothing."""
        self.ours = False
        self.notes.append(f"{account} in {region} is no target of the policy")
        return self


@dataclass(frozen=True, slots=True)
class TellWarning:
    """Counts, then tells; a count that cannot be written never keeps a warning back."""

    clock: Clock
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(
        self,
        instance: Instance,
        warned: Warned,
        policy: Policy,
        make: Callable[[], Alert],
        reaction: Reaction,
        unasked: Collection[str] = (),
    ) -> None:
        """Tells, unless the event was told before; `make` gives the message for this instance alone.

        `unasked` are instances whose hook was not sent, as far as that is known: a summary names them.

        Raises:
            CloudError: no channel has taken the message, or it could not be noted; a repeated event tells
                again.
        """

        def tell() -> None:
            burst = self._count(instance, warned, policy, reaction)
            if burst is None or burst.number <= policy.events.mass_interruption_told_singly:
                self.announcer.announce(make())
                reaction.told = Told.SINGLY
            elif self._summarise(instance, warned, policy, burst, reaction, unasked):
                reaction.told = Told.AS_A_MASS
            else:
                reaction.told = Told.COUNTED

        self.once(f"{warned.event_id}#told", tell)

    def _count(self, instance: Instance, warned: Warned, policy: Policy, reaction: Reaction) -> Burst | None:
        window = timedelta(minutes=policy.events.mass_interruption_window_minutes)
        name = f"{warned.kind}#{warned.group or instance.availability_zone or 'unknown-zone'}"
        try:
            return self.log.count(instance.target, name, self.clock.now(), window)
        except (CloudError, ConflictError) as error:
            # Told singly: one message too many is the safe side.
            reaction.notes.append(f"not counted: {error}")
            return None

    def _summarise(
        self,
        instance: Instance,
        warned: Warned,
        policy: Policy,
        burst: Burst,
        reaction: Reaction,
        unasked: Collection[str],
    ) -> bool:
        place = f"{instance.target}#{warned.group or instance.availability_zone}"

        def tell() -> None:
            endangered = self._endangered(instance, warned, policy, reaction)
            now, since = self.clock.now(), burst.started_at
            if not endangered:
                listed = None if endangered is None else ()
                alert = mass_alert(instance, warned, listed, policy, since, now)
                self.announcer.announce(alert)
                return
            # One to each owner, who may be reached by nobody else's channel.
            run_all(
                [
                    partial(
                        self.announcer.announce,
                        mass_alert(
                            instance,
                            warned,
                            theirs,
                            policy,
                            since,
                            now,
                            owner=owner,
                            project=project,
                            unasked=unasked,
                        ),
                    )
                    for (owner, project), theirs in endangered.items()
                ]
            )

        return self.once(f"mass#{warned.kind}#{place}#{int(burst.started_at.timestamp())}", tell)

    def _endangered(
        self, instance: Instance, warned: Warned, policy: Policy, reaction: Reaction
    ) -> Mapping[tuple[str, str], Sequence[tuple[Instance, str]]] | None:
        """What runs in that zone on capacity that can be taken back, or in that group, by its owner."""

        def is_meant(one: Instance) -> bool:
            if warned.group is not None:
                return one.tags.get(GROUP_TAG) == warned.group
            return one.availability_zone == instance.availability_zone and one.lifecycle in _TAKEN_BACK

        try:
            listed = self.instances.list_selected(instance.target, policy.selector)
        except CloudError as error:
            reaction.notes.append(f"the zone was not listed: {error}")
            return None
        found: dict[tuple[str, str], list[tuple[Instance, str]]] = defaultdict(list)
        for one in listed:
            if is_meant(one):
                owner, project = owner_of(one, policy.ownership)
                found[owner, project].append((one, owner))
        return found
