"""What a view may read, and each of it once a request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from governor.domain.fleet.rows import FleetPage
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.stores import StateTable
from governor.stores.fleet import Fleet
from governor.usecases.approvals.show_approval import ShowApproval


@dataclass(frozen=True)
class Reader:
    """The stores of one request. `environment` is the stack's name; `targets` are those of the policy."""

    fleet: Fleet
    state: StateTable
    show: ShowApproval
    policy: Policy
    targets: tuple[Target, ...]
    environment: str

    @cached_property
    def pages(self) -> tuple[FleetPage, ...]:
        """What the last sweeps saw, of every target: one query."""
        return self.fleet.pages(self.targets)
