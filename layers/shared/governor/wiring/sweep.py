"""Use cases that look at all instances of a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from governor.adapters.batch import AwsBatch
from governor.ports import BatchReader
from governor.usecases.accounts import Accounts
from governor.usecases.count_costs import CountCosts
from governor.usecases.notify_dates import RemindNotices
from governor.usecases.notify_managed import NotifyManaged
from governor.usecases.read_health import ReadHealth
from governor.wiring.instances import InstanceParts
from governor.wiring.parts import Ready, UseCase
from governor.wiring.policies import use_case


class SweepParts(InstanceParts):
    """As `InstanceParts`."""

    @cached_property
    def batch(self) -> BatchReader:
        return AwsBatch(self.clients)

    @cached_property
    def remind(self) -> RemindNotices:
        return self.fill(RemindNotices)

    @cached_property
    def costs(self) -> CountCosts:
        return self.fill(CountCosts)

    @cached_property
    def notify_managed(self) -> NotifyManaged:
        return self.fill(NotifyManaged)

    @cached_property
    def read(self) -> ReadHealth:
        return self.fill(ReadHealth)


@dataclass(frozen=True, slots=True)
class ByTarget(Generic[UseCase]):
    """A use case, and what makes the targets it takes."""

    accounts: Accounts
    ready: Ready[UseCase]


def by_target(parts: SweepParts, kind: Callable[..., UseCase]) -> ByTarget[UseCase]:
    """Return the use case of one target, made of these parts."""
    return ByTarget(parts.accounts, use_case(parts, kind))
