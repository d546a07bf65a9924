"""Notifies owners of environments that other services manage of their idle instances.

Part of the sweep. One message for each environment and owner, at most once in the policy's time, with the
advice that fits; never any action. This module must not know how idleness was proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from governor.domain.alerts.owner import Owner, owner_of
from governor.domain.instance import Instance, Manager, Target
from governor.domain.policy.contacts import Ownership
from governor.domain.sweep.managed import (
    BatchEnvironment,
    Home,
    IdleMember,
    Kind,
    advice_for,
    group_key,
    home_of,
    managed_alert,
)
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, GovernorError
from governor.ports import Announcer, BatchReader
from governor.usecases.once import Once

_EARLIER = timedelta(minutes=10)
"""The log forgets a message so much before it is due again, or the sweep that is due would come too soon."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An idle managed instance. `is_due`: its owner got no message about it for long enough."""

    member: IdleMember
    manager: Manager
    is_due: bool


@dataclass(frozen=True, slots=True)
class Group:
    """One message: instances of one environment and owner."""

    home: Home
    owner: Owner


@dataclass(frozen=True, slots=True)
class Notified:
    """Instances whose owners know of them now, and which messages could not be sent."""

    instance_ids: frozenset[str]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotifyManaged:
    """One message a group."""

    batch: BatchReader
    once: Once
    announcer: Announcer

    def __call__(
        self,
        target: Target,
        candidates: Sequence[Candidate],
        managed: Sequence[tuple[Instance, Manager]],
        rule: Ownership,
        again_after: timedelta,
        now: UtcDatetime,
    ) -> Notified:
        """Notify every group with an instance that is due of all its idle ones.

        Args:
            target: which all are of.
            candidates: idle for long enough.
            managed: all managed instances of the target, at work or not.
            rule: who owns what.
            again_after: how long a group gets no second message.
            now: aware.
        """
        groups: dict[Group, list[Candidate]] = {}
        for candidate in candidates:
            instance = candidate.member.instance
            group = Group(home_of(instance, candidate.manager), owner_of(instance, rule))
            groups.setdefault(group, []).append(candidate)
        governed = [home_of(instance, manager) for instance, manager in managed]
        notified: set[str] = set()
        problems: list[str] = []
        for group, found in groups.items():
            if not any(candidate.is_due for candidate in found):
                continue
            idle = [candidate.member for candidate in found]
            notify = partial(self._notify, target, group, idle, governed.count(group.home), rule, now)
            key = group_key(target, group.home, group.owner)
            try:
                self.once(key, notify, keep=again_after - _EARLIER)
            except GovernorError as error:
                problems.append(f"{group.home.title}: {type(error).__name__}: {error}")
            else:
                # Those that have joined since the last message are in the next one.
                notified |= {member.instance.instance_id for member in idle}
        return Notified(frozenset(notified), tuple(problems))

    def _notify(
        self,
        target: Target,
        group: Group,
        idle: Sequence[IdleMember],
        governed: int,
        rule: Ownership,
        now: UtcDatetime,
    ) -> None:
        environment, problem = self._environment(target, group.home)
        owner = _owner_of(group, environment, idle[0].instance, rule)
        advice = (*advice_for(group.home, environment), *problem)
        self.announcer.announce(
            managed_alert(group.home, idle, governed, target, now, owner=owner, advice=advice)
        )

    def _environment(self, target: Target, home: Home) -> tuple[BatchEnvironment | None, tuple[str, ...]]:
        """What Batch says of a compute environment, or why it says nothing: the message goes out anyway."""
        if home.kind is not Kind.BATCH or not home.name:
            return None, ()
        try:
            return self.batch.environment(target, home.name), ()
        except CloudError as error:
            return None, (f"Its settings and jobs could not be read: {error}",)


def _owner_of(
    group: Group, environment: BatchEnvironment | None, instance: Instance, rule: Ownership
) -> Owner:
    """By the instances' tags; what they leave open, by those of the compute environment."""
    if environment is None:
        return group.owner
    return owner_of(replace(instance, tags={**environment.tags, **instance.tags}), rule)
