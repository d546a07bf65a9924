"""The request that a view of the console gets, and the page that it returns.

A request reads each stored record once. Views get only the instances that their caller may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any

from markupsafe import Markup

from governor.alerts.store import Deliveries
from governor.approvals.model.approval import Answer
from governor.approvals.model.terms import Grant, Rank, Scope
from governor.approvals.rules.terms import rank_for
from governor.approvals.show_approval import ShowApproval
from governor.approvals.store.approvals import Approvals
from governor.console.current_fleet import CurrentFleet, Row
from governor.core.documents import csv_text
from governor.core.errors import SignInTooOld
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Failures, Instances
from governor.fleet.model import STOPPED, UNGOVERNED, FleetPage, FleetRow
from governor.fleet.store import Fleet
from governor.fleet.unswept import Unswept, unswept
from governor.health.store import Findings
from governor.limits.store.breaker import HUB, Breakers
from governor.limits.store.caps import ActionCaps
from governor.limits.store.pauses import PAUSE, Pauses
from governor.money.store.ledger import Ledger
from governor.policy.model.policy import Policy
from governor.policy.ports import PolicyVariants
from governor.scan.store import Scans
from governor.table import keys
from governor.table.table import Readable

FRESH = timedelta(minutes=15)
"""The longest age of a sign-in for an action that only admins may do."""
_INCOMPLETE = (
    "A stored record could not be read, so something is missing here. "
    "Ask your platform team: the log of the console names it."
)
_READ_AT_ONCE = 100
"""Items of one read. Source: DynamoDB API, BatchGetItem."""


@dataclass(frozen=True)
class Reader:
    """The stores of one request. `environment` is the stack's name, as pages show it;
    `targets` are those of the policy.

    `policy_is_whole` is false if the document is refused: `policies` then hold its people and
    defaults.
    """

    table: Readable
    clock: Clock
    policies: PolicyVariants
    targets: tuple[Target, ...]
    environment: str
    policy_is_whole: bool

    @cached_property
    def policy(self) -> Policy:
        """Return the policy without overrides."""
        return self.policies.base().policy

    @cached_property
    def episode_store(self) -> Episodes:
        """Return the store of the episodes."""
        return Episodes(self.table)

    @cached_property
    def approval_store(self) -> Approvals:
        """Return the store of the questions and their answers."""
        return Approvals(self.table)

    @cached_property
    def instance_store(self) -> Instances:
        """Return the store of the records of instances: keeps, exemptions, episodes."""
        return Instances(self.table)

    @cached_property
    def breaker_store(self) -> Breakers:
        """Return the store of the freezes."""
        return Breakers(self.table)

    @cached_property
    def pause_store(self) -> Pauses:
        """Return the store of the pause."""
        return Pauses(self.table)

    @cached_property
    def cap_store(self) -> ActionCaps:
        """Return the store of the caps and what was used of them."""
        return ActionCaps(self.table)

    @cached_property
    def ledger_store(self) -> Ledger:
        """Return the store of the booked actions and the sums of a month."""
        return Ledger(self.table)

    @cached_property
    def fleet_store(self) -> Fleet:
        """Return the store of the pages of the fleet as sweeps saw it, and the costs by day."""
        return Fleet(self.table)

    @cached_property
    def failure_store(self) -> Failures:
        """Return the store of the workflows that fail."""
        return Failures(self.table)

    @cached_property
    def unswept(self) -> Mapping[Target, Unswept]:
        """Return the last failure of each target whose sweep ever failed. Raises: CloudError."""
        return unswept(self.table)

    @cached_property
    def finding_store(self) -> Findings:
        """Return the store of the health findings that were sent."""
        return Findings(self.table)

    @cached_property
    def scan_store(self) -> Scans:
        """Return the store of the last scan of each target."""
        return Scans(self.table)

    @cached_property
    def show(self) -> ShowApproval:
        """Return the use case that reads a question with its episode and deliveries."""
        return ShowApproval(
            self.episode_store,
            self.approval_store,
            self.instance_store,
            Deliveries(self.table),
            self.ledger_store,
            self.clock,
        )

    @cached_property
    def pages(self) -> tuple[FleetPage, ...]:
        """Return the page of each target that was swept, read once for the request; empty if none
        was. Raises: CloudError."""
        return self.fleet_store.pages(self.targets)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has signed in: `by` for the record, `person` as terms know people, and their
    grants."""

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
        """Return everything that the grants let the caller see."""
        return reduce(Scope.__or__, (grant.scope for grant in self.grants), Scope())

    def rank(self, account: str, project: str, owner: str) -> Rank | None:
        """Return the caller's rank for an instance of this account, project and owner: viewer,
        approver or admin; `None` if they may not even see it."""
        return rank_for(self.grants, account, project, owner)

    def rank_for(self, episode: Episode) -> Rank | None:
        """Return the caller's rank for the instance of an episode; `None` if they may not see
        it."""
        return self.rank(episode.ref.account, episode.project, episode.owner)

    def is_approver(self, episode: Episode) -> bool:
        """Return whether the caller is an approver or admin of the instance of an episode. Its
        terms may still keep them from some answers."""
        return self.approves(episode.ref.account, episode.project, episode.owner)

    def approves(self, account: str, project: str, owner: str) -> bool:
        """Return whether the caller is an approver or admin of an instance of this account, project
        and owner."""
        rank = self.rank(account, project, owner)
        return rank is not None and rank >= Rank.APPROVER

    def require_fresh_sign_in(self, now: UtcDatetime) -> None:
        """Refuse a caller who last proved to their issuer 15 minutes ago or more who they are, or
        whose issuer does not say when. Raises: SignInTooOld."""
        if now - self.signed_in_at < FRESH:
            return
        if self.signed_in_at.timestamp() > 0:
            raise SignInTooOld(
                "your last sign-in was 15 minutes ago or more: sign in again, then repeat this"
            )
        raise SignInTooOld(
            "your sign-in does not say when it was: sign in again, then repeat this. If "
            "this page comes back, ask your platform team to have the issuer send "
            "auth_time (docs/console.md)"
        )


@dataclass(frozen=True)
class ViewRequest:
    """A request for a view: by whom and when.

    Its query also holds the parameters of the path, and the fields of a form. A table that is asked
    for as CSV has every row.
    """

    reader: Reader
    caller: Caller
    query: Mapping[str, str]
    now: UtcDatetime
    wants_csv: bool = False

    @cached_property
    def scope(self) -> Scope:
        """Return everything that the caller may see."""
        return self.caller.scope

    @cached_property
    def _rows(self) -> list[Row]:
        """Return all instances that the caller may see, governed or not, with their pages; empty if
        there are none. Raises: CloudError."""
        sees = self.scope.sees
        rows: list[Row] = []
        for page in self.reader.pages:
            for row in page.rows:
                if sees(row.account, row.project, row.owner):
                    rows.append((row, page))
        return rows

    @cached_property
    def governed(self) -> list[Row]:
        """Return the governed instances that ran at the last sweep and that the caller may see,
        with their pages. A question that the caller may not see is taken out of its row. Raises:
        CloudError."""
        rows = [(row, page) for row, page in self._rows if row.is_swept]
        hidden_questions = self._hidden_questions(rows)
        shown_rows: list[Row] = []
        for row, page in rows:
            if row.approval_id in hidden_questions:
                shown_rows.append((replace(row.without_question(), episode=None), page))
            else:
                shown_rows.append((row, page))
        return shown_rows

    def _hidden_questions(self, rows: Sequence[Row]) -> set[str]:
        """Return the ids of the open questions of these rows whose own project and owner are out of
        scope: tags may have moved the instance since. Questions of accounts that the caller sees as
        a whole are not read. Return an empty set if there are none. Raises: CloudError."""
        sees = self.scope.sees
        episode_by_approval: dict[str, str] = {}
        for row, _ in rows:
            if row.approval_id and row.episode and not sees(row.account, "", ""):
                episode_by_approval[str(row.approval_id)] = str(row.episode)
        if not episode_by_approval:
            return set()
        hidden_questions = set()
        for view in self.reader.show.several(episode_by_approval):
            episode = view.episode
            if not sees(episode.ref.account, episode.project, episode.owner):
                hidden_questions.add(episode.approval_id)
        return hidden_questions

    @cached_property
    def ungoverned(self) -> list[Row]:
        """Return the ungoverned instances that the caller may see; empty if there are none. Raises:
        CloudError."""
        return [(row, page) for row, page in self._rows if row.verdict == UNGOVERNED]

    @cached_property
    def current_fleet(self) -> CurrentFleet:
        """Return which instances run, are stopped and are terminated now, of what the caller may
        see: by the last sweeps, and by the ledger since. Raises: CloudError."""
        return CurrentFleet(
            self.reader.ledger_store,
            self.reader.approval_store,
            self.scope,
            self.reader.pages,
            self.governed,
            [(row, page) for row, page in self._rows if row.verdict == STOPPED],
            self.now,
        )

    @property
    def running(self) -> list[Row]:
        """Return the governed instances that run now, of what the caller may see. Raises:
        CloudError."""
        return self.current_fleet.running

    @property
    def stopped(self) -> list[Row]:
        """Return the instances that GPU Governor stopped and nobody has started since, of what the
        caller may see; empty if there are none. Raises: CloudError."""
        return self.current_fleet.stopped

    @cached_property
    def open_questions(self) -> list[Row]:
        """Return the instances with a question whose time to answer is not over, or whose plan is
        carried out because nobody answered, as the last sweep saw them: some may be answered since.
        Empty if there are none. Raises: CloudError."""
        return [(row, page) for row, page in self.governed if _has_open_question(row, self.now)]

    @cached_property
    def answers(self) -> dict[str, Answer | None]:
        """Return the answers to the open questions since the sweep, by the question's id, and
        `None` for a question that was canceled. Only the most expensive 98 are looked at, which
        one read takes. Raises: CloudError."""
        most_expensive_first = sorted(self.open_questions, key=_negative_price)
        ids = [str(row.approval_id) for row, _ in most_expensive_first[: _READ_AT_ONCE - 2]]
        # Pages ask for the freeze and the pause, too.
        self.reader.table.read_ahead([HUB, PAUSE, *map(keys.approval, ids)])
        return self.reader.approval_store.answers(ids)

    @property
    def what_is_missing(self) -> str:
        """Return the sentence by which a page says that something is missing; empty if no record of
        the caller's failed to be read so far. Raises: CloudError."""
        return _INCOMPLETE if self.is_incomplete else ""

    @property
    def is_incomplete(self) -> bool:
        """Return whether a record that could not be read so far belongs to the caller, as far as
        its key says: it names an account, or an instance, question or episode, that they see. For a
        caller who sees everything, any such record counts. Raises: CloudError."""
        names = set(self.scope.accounts)
        for row, _ in self.governed:
            names.update((row.instance_id, row.approval_id or "", row.episode or ""))
        names.discard("")
        unread_keys = self.reader.table.unread
        if self.scope.everything:
            return bool(unread_keys)
        return any(_names_one_of(key, names) for key in unread_keys)

    @property
    def counts_for(self) -> timedelta:
        """Return how long the saving of an action counts after it was booked, by the policy."""
        return timedelta(days=self.reader.policy.ledger.saving_counts_days)


def _has_open_question(row: FleetRow, now: UtcDatetime) -> bool:
    """Return whether the row has a question whose deadline is not past, or which acts if nobody
    answers; true also for one that was not sent yet, which has no deadline."""
    if not row.approval_id or not row.episode:
        return False
    return row.acts_on_silence or not row.is_time_to_answer_over(now)


def _negative_price(row_and_page: Row) -> Decimal | int:
    """Return the sort key that puts the most expensive first; an unknown price counts as 0."""
    row, _ = row_and_page
    return -(row.usd_per_hour or 0)


def _names_one_of(key: str, names: Iterable[str]) -> bool:
    """Return whether a key contains one of these names."""
    return any(name in key for name in names)


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
        """Return the table as CSV text: a line with the names of the columns, then the rows."""
        return csv_text(self.columns, self.rows)

    @property
    def documents(self) -> list[dict[str, Cell]]:
        """Return each row as an object with its cells by column; empty without rows."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Page:
    """The output of a view. Its CSV is the first of `tables`, or the table that `?table=` names."""

    title: str
    template: str
    values: Mapping[str, object]
    document: Mapping[str, object]
    tables: tuple[Table, ...] = field(default=())
    long_lists: tuple[str, ...] = ()
    """Names of lists in `document` that may be too long for one answer, and so come in parts."""
    whole: Callable[[str, Markup], str] | None = None
    """Makes the page as the link of a message shows it, from the token of its form and the
    console's header. If it is set, it makes all of the page but that header."""
