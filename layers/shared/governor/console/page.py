"""What a view is given, each of it read once a request, and what it returns: `app` answers a page as HTML,
JSON or CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, reduce
from typing import Any

from governor.domain.approvals.scope import Grant, Rank, Scope, rank_for
from governor.domain.fleet.rows import FleetPage
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.stores import StateTable
from governor.usecases.approvals.show_approval import ShowApproval

FRESH = timedelta(minutes=15)
"""How young a sign-in must be for what only admins may do."""


@dataclass(frozen=True)
class Reader:
    """The stores of one request. `environment` is the stack's name; `targets` are those of the policy."""

    state: StateTable
    show: ShowApproval
    policy: Policy
    targets: tuple[Target, ...]
    environment: str

    @cached_property
    def pages(self) -> tuple[FleetPage, ...]:
        """What the last sweeps saw, of every target: one query."""
        return self.state.pages(self.targets)

    @property
    def counts_for(self) -> timedelta:
        """For how long a stop saves."""
        return timedelta(days=self.policy.ledger.saving_counts_days)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has signed in: `by` for the record, `person` as terms know people, and what is theirs."""

    by: str
    person: str
    grants: tuple[Grant, ...]
    signed_in_at: UtcDatetime
    session_id: str
    ends_at: UtcDatetime
    zone: str = "UTC"
    """Their time zone, by its name in the IANA database."""

    @property
    def scope(self) -> Scope:
        """What they see, by any of their grants."""
        return reduce(Scope.__or__, (grant.scope for grant in self.grants), Scope())

    def rank(self, account: str, project: str, owner: str) -> Rank | None:
        """Return what they may do with one instance; `None` when they may not even see it."""
        return rank_for(self.grants, account, project, owner)

    def is_fresh(self, now: UtcDatetime) -> bool:
        return now - self.signed_in_at < FRESH


Cell = str | int | float | datetime | None | Any
"""Of a table: text, numbers, times, amounts (`Decimal`), or nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a page, as `.csv` gives it."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def documents(self) -> list[dict[str, Cell]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Page:
    """What a view shows: `values` fill the template, `document` is the same as JSON.

    The first of `tables` is the page's CSV; `?table=` names another one.
    """

    title: str
    template: str
    values: Mapping[str, object]
    document: Mapping[str, object]
    tables: tuple[Table, ...] = field(default=())
