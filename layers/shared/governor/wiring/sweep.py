"""Use cases that look at all instances of a target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Generic

from governor.adapters.batch import AwsBatch
from governor.contracts.policy import PolicyBook
from governor.ports import BatchReader
from governor.usecases.accounts import Accounts
from governor.usecases.check_health import CheckHealth
from governor.usecases.count_costs import CountCosts
from governor.usecases.notify_dates import RemindNotices
from governor.usecases.notify_managed import NotifyManaged
from governor.usecases.read_health import ReadHealth
from governor.usecases.sum_up_month import SumUpMonth
from governor.usecases.sweep_target import SweepTarget
from governor.wiring.instances import InstanceParts
from governor.wiring.parts import Parts, Ready, UseCase
from governor.wiring.policies import present, ready


class SweepParts(InstanceParts):
    """As `InstanceParts`."""

    @cached_property
    def batch(self) -> BatchReader:
        return AwsBatch(self.clients)

    @cached_property
    def read(self) -> ReadHealth:
        return self.fill(ReadHealth)


@dataclass(frozen=True, slots=True)
class ByTarget(Generic[UseCase]):
    """A use case, and what makes the targets it takes."""

    accounts: Accounts
    ready: Ready[UseCase]


def sweep_target(parts: SweepParts) -> ByTarget[SweepTarget]:
    """For `sweep_target`."""
    remind, costs, managed = parts.fill(RemindNotices), parts.fill(CountCosts), parts.fill(NotifyManaged)

    def make(policies: PolicyBook) -> SweepTarget:
        close_dead = parts.close_dead(policies)
        return parts.fill(
            SweepTarget, policies, close_dead=close_dead, remind=remind, costs=costs, notify_managed=managed
        )

    return ByTarget(parts.accounts, ready(present(parts), make))


def sum_up_month(parts: Parts) -> Ready[SumUpMonth]:
    """For `sum_up_month`."""
    return ready(present(parts), partial(parts.fill, SumUpMonth))


def check_health(parts: SweepParts) -> ByTarget[CheckHealth]:
    """For `check_health`."""
    return ByTarget(parts.accounts, ready(present(parts), partial(parts.fill, CheckHealth)))
