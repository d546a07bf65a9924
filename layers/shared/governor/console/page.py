"""Input of a view, each of it read once a request, and the page that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, reduce
from typing import Any

from governor.domain.approvals.terms import Grant, Rank, Scope, rank_for
from governor.domain.documents import csv_text
from governor.domain.fleet.rows import UNGOVERNED, FleetPage, FleetRow
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import SignInTooOld
from governor.ports import Clock
from governor.stores import StateTable, keys
from governor.stores.brakes import HUB
from governor.stores.pauses import PAUSE
from governor.stores.table import Readable
from governor.usecases.approvals.show_approval import ShowApproval

Row = tuple[FleetRow, FleetPage]
"""An instance, and the page of its target."""
FRESH = timedelta(minutes=15)
"""How young a sign-in must be for what only admins may do."""
_INCOMPLETE = (
    "A stored record could not be read, so something is missing here. Ask your platform "
    "team: the log of the "
    "console names it."
)
_READ_AT_ONCE = 100
"""Items of one read. Source: DynamoDB API, BatchGetItem."""


@dataclass(frozen=True)
class Reader:
    """The stores of one request. `environment` is the stack's name; `targets` are those of the
    policy.

    `policy_is_whole` is false where the document is refused: `policy` then holds its people and
    defaults.
    """

    table: Readable
    clock: Clock
    policy: Policy
    targets: tuple[Target, ...]
    environment: str
    policy_is_whole: bool

    @cached_property
    def state(self) -> StateTable:
        return StateTable(self.table)

    @cached_property
    def show(self) -> ShowApproval:
        return ShowApproval(self.state, self.clock)

    @cached_property
    def pages(self) -> tuple[FleetPage, ...]:
        return self.state.pages(self.targets)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has signed in: `by` for the record, `person` as terms know people, and what is
    theirs."""

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
        return reduce(Scope.__or__, (grant.scope for grant in self.grants), Scope())

    def rank(self, account: str, project: str, owner: str) -> Rank | None:
        """Return what they may do with one instance; `None` when they may not even see it."""
        return rank_for(self.grants, account, project, owner)

    def check_fresh(self, now: UtcDatetime) -> None:
        """Raises: SignInTooOld."""
        if now - self.signed_in_at < FRESH:
            return
        if self.signed_in_at.timestamp() > 0:
            raise SignInTooOld(
                "you proved who you are 15 minutes ago or more: sign in again, then do it"
            )
        raise SignInTooOld(
            "your sign-in does not say when you last proved who you are: sign in again, "
            "then do it. If this "
            "page comes back, ask your platform team to have the issuer send auth_time "
            "(docs/sign-in.md)"
        )


@dataclass(frozen=True)
class Asked:
    """A request for a view: by whom and when; its query holds the path's parameters. CSV tables are
    whole."""

    reader: Reader
    caller: Caller
    query: Mapping[str, str]
    now: UtcDatetime
    wants_csv: bool = False

    @cached_property
    def scope(self) -> Scope:
        return self.caller.scope

    @cached_property
    def _rows(self) -> list[Row]:
        sees = self.scope.sees
        rows = ((row, page) for page in self.reader.pages for row in page.rows)
        return [one for one in rows if sees(one[0].account, one[0].project, one[0].owner)]

    @cached_property
    def seen(self) -> list[Row]:
        """The governed instances that the caller may see, with their pages, and no questions of
        others."""
        rows = [one for one in self._rows if one[0].verdict != UNGOVERNED]
        some = {
            str(row.approval_id): str(row.episode)
            for row, _ in rows
            if row.approval_id and row.episode and not self.scope.sees(row.account, "", "")
        }
        found = [view.episode for view in self.reader.show.several(some)] if some else []
        sees = self.scope.sees
        gone = {
            one.approval_id for one in found if not sees(one.ref.account, one.project, one.owner)
        }
        return [
            (replace(row, episode=None, approval_id=None, asked_at=None, expires_at=None), page)
            if row.approval_id in gone
            else (row, page)
            for row, page in rows
        ]

    @cached_property
    def ungoverned(self) -> list[Row]:
        return [one for one in self._rows if one[0].verdict == UNGOVERNED]

    @cached_property
    def asked(self) -> list[Row]:
        rows = [(row, page) for row, page in self.seen if row.approval_id and row.episode]
        return [one for one in rows if one[0].expires_at is None or one[0].expires_at > self.now]

    @cached_property
    def answered(self) -> set[str]:
        """Questions answered since the sweep: of the most expensive, as many as one read takes."""
        rows = sorted(self.asked, key=lambda one: -(one[0].usd_per_hour or 0))
        ids = [str(row.approval_id) for row, _ in rows[: _READ_AT_ONCE - 2]]
        # Pages ask for the freeze and the pause, too.
        self.reader.table.read_ahead([HUB, PAUSE, *map(keys.approval, ids)])
        return self.reader.state.answered(ids)

    @property
    def what_is_missing(self) -> str:
        """Return what the page says of records that cannot be read; empty where none is the
        caller's."""
        return _INCOMPLETE if self.is_incomplete else ""

    @property
    def is_incomplete(self) -> bool:
        """Return whether a record that cannot be read is the caller's, as far as its key says whose
        it is."""
        whose = {
            name for row, _ in self.seen for name in (row.instance_id, row.approval_id, row.episode)
        }
        whose |= self.scope.accounts
        unread = self.reader.table.unread
        return any(
            self.scope.everything or any(name in one for name in whose if name) for one in unread
        )

    @property
    def counts_for(self) -> timedelta:
        return timedelta(days=self.reader.policy.ledger.saving_counts_days)


Cell = str | int | float | datetime | None | Any
"""A cell of a table: text, numbers, times, amounts (`Decimal`), or nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a page, as `.csv` gives it."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def csv(self) -> str:
        return csv_text(self.columns, self.rows)

    @property
    def documents(self) -> list[dict[str, Cell]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Page:
    """The output of a view. Its CSV is the first of `tables`, or the one that `?table=` names."""

    title: str
    template: str
    values: Mapping[str, object]
    document: Mapping[str, object]
    tables: tuple[Table, ...] = field(default=())
    whole: Callable[[str], str] | None = None
    """Makes it, of its form's token, as the page of a link: then no template of the console shows
    it."""
