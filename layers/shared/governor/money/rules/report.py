"""The report of a month, or of any other time: idle cost and savings.

The console, the mail, the command line and the copy in S3 all show these figures: none of them may
compute figures of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.core.units import Usd, UtcDatetime
from governor.episode.model.episode import Outcome
from governor.fleet.model import AMOUNTS, Share
from governor.fleet.rules.kept import NOTHING_KEPT, KeptList
from governor.money.model.found import NOTHING_FOUND, FoundWaste
from governor.money.model.ledger import LedgerEntry, Saved
from governor.money.rules import jobs
from governor.money.rules.cost import month_of
from governor.money.rules.jobs import CountedCost, ProjectJobs, costs_by_job
from governor.money.rules.ledger import is_provisional, sum_saved

# The groups by which a report sums up, each with the member that an entry belongs to.
GROUPS: Mapping[str, Callable[[LedgerEntry], str]] = {
    "owner": lambda entry: entry.owner,
    "project": lambda entry: entry.project,
    "type": lambda entry: entry.instance_type,
    "account": lambda entry: entry.episode.account,
}
COLUMNS = (
    "SubAccountId",
    "RegionId",
    "ResourceId",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ResourceName",
    "x_Outcome",
    "x_InstanceType",
    "x_Owner",
    "x_Project",
    "x_PriceSource",
    "x_BookedAt",
    "x_EndedAt",
    "x_FalseStop",
    "x_Ours",
    "x_CostBeforePerHourUsd",
    "x_CostAfterPerHourUsd",
    "x_NetSavedUsd",
    "x_Episode",
    "x_CashLowSavedUsd",
    "x_CashHighSavedUsd",
    "x_SavedByMorningUsd",
    "x_IdleBeforeUsd",
    "x_Ending",
    "x_ReplacedBy",
    "x_CashSource",
    "x_FirstBookedAt",
)
"""Columns of a row. Dimensions have their names of FOCUS 1.2; measures and facts that FOCUS does
not have begin with `x_`. A saving is no charge, so no cost column of FOCUS holds one."""
_WITHOUT_ACTION = {
    Outcome.KEPT: "kept by choice",
    Outcome.EXEMPTED: "exempted",
    Outcome.EXPIRED: "not answered",
    Outcome.OBSERVED: "only observed",
    Outcome.TOLD: "only reported",
}


class Line(NamedTuple):
    """The end of a question, and what it saved in the time of the report."""

    entry: LedgerEntry
    saved: Saved

    @property
    def net_usd(self) -> Usd | None:
        """Return the net saving of this question in the time of the report; `None` if the entry is
        ours and the price is not known."""
        if self.entry.ours and self.entry.saved_usd_per_hour is None:
            return None
        return self.saved.net_usd

    @property
    def what(self) -> str:
        """Return how the question ended, in words: `stopped`, `stopped by others`, or `not
        answered` and the like for an outcome without an action. A saving that goes on after a start
        that fell back is `stopped again after a start`."""
        outcome = self.entry.outcome
        if outcome in _WITHOUT_ACTION:
            return _WITHOUT_ACTION[outcome]
        words = outcome.value.replace("-", " ")
        if self.entry.is_continuation:
            return f"{words} again after a start"
        return words if self.entry.ours else f"{words} by others"


class GroupSum(NamedTuple):
    """One member of a group, such as the owner `alice@example.com`, and its net saving."""

    name: str
    net_usd: Usd


class Step(NamedTuple):
    """One bar of the waterfall: its text, its amount, the kind by which it is colored, and the two
    amounts between which it is drawn."""

    text: str
    usd: Usd
    kind: str
    start: Usd
    end: Usd


@dataclass(frozen=True, slots=True)
class Report:
    """Costs and savings of the time from `start` to `end`."""

    start: UtcDatetime
    end: UtcDatetime
    counts_for: timedelta
    saved: Saved
    lines: tuple[Line, ...]
    """Newest first."""
    costs: Share
    provisional: bool
    """Bills of this time may still change."""
    kept: KeptList = NOTHING_KEPT
    """The list of instances that are left alone now, whatever the time of the report is."""
    ungoverned: FoundWaste = NOTHING_FOUND
    """The last scans of what is not governed. No other amount of the report includes theirs."""
    projects: tuple[ProjectJobs, ...] = ()
    """The costs by project and job, the most expensive project first."""

    @property
    def steps(self) -> list[Step]:
        """Return the bars of the waterfall: the idle cost that was found, what is taken off, and
        the net saving, in this order."""
        costs = self.costs
        saved = self.saved
        idle_cost = costs.idle + costs.kept + saved.avoided_usd
        steps = [Step("Idle cost found", idle_cost, "idle", Decimal(0), idle_cost)]
        level = idle_cost
        # Each amount that is taken off begins where the one before it ended.
        for text, amount, kind in (
            ("Kept by choice", costs.kept, "kept"),
            ("While nobody had answered", costs.idle, "idle"),
            ("Undone", saved.undone_usd, "not-measured"),
            ("Storage of what was stopped", saved.storage_usd, "not-measured"),
        ):
            steps.append(Step(text, -amount, kind, level - amount, level))
            level -= amount
        net = saved.net_usd
        steps.append(Step("Net savings", net, "net", Decimal(0), max(net, Decimal(0))))
        return steps

    def by(self, group: str) -> list[GroupSum]:
        """Return the net saving of each member of a group, such as each owner, the highest first.

        `group` is a key of `GROUPS`. Members without an action are left out; empty if there is
        none.
        """
        member_of = GROUPS[group]
        amounts_by_member: dict[str, list[Usd]] = defaultdict(list)
        for entry, saved in self.lines:
            if entry.acted:
                amounts_by_member[member_of(entry)].append(saved.net_usd)
        sums = []
        for member, amounts in amounts_by_member.items():
            sums.append(GroupSum(member, sum(amounts, Decimal(0))))
        sums.sort(key=lambda member_sum: (-member_sum.net_usd, member_sum.name))
        return sums

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        """Return a row with the values of `COLUMNS` for each ended question, the newest first;
        empty if there are none. A value that is not known is `None`."""
        return tuple(self._row(line) for line in self.lines)

    @property
    def job_rows(self) -> tuple[tuple[object, ...], ...]:
        """Return a row with the values of `jobs.COLUMNS` for each job of each project, the most
        expensive project first; empty without costs."""
        return jobs.rows_of(self.projects, self.start, self.end)

    @property
    def document(self) -> dict[str, object]:
        """Return the report as a document of records and amounts, ready to be written as JSON: its
        net saving, its steps, the sums by each group of `GROUPS`, what is kept now, the costs of
        its `projects` by job, the sums of what is not governed, and its `entries` by column."""
        document: dict[str, object] = {
            "is_provisional": self.provisional,
            "net_usd": self.saved.net_usd,
            "saved": self.saved,
            "steps": [{"step": step.text, "usd": step.usd} for step in self.steps],
        }
        for group in GROUPS:
            sums = [{group: member.name, "net_usd": member.net_usd} for member in self.by(group)]
            document[f"by_{group}"] = sums
        document["kept"] = self.kept.document
        document["projects"] = [project.document for project in self.projects]
        document["ungoverned"] = self.ungoverned.summary
        document["entries"] = [dict(zip(COLUMNS, row, strict=True)) for row in self.rows]
        return document

    def _row(self, line: Line) -> tuple[object, ...]:
        """Return the values of a line in the order of `COLUMNS`; `None` for one that is not
        known."""
        entry = line.entry
        saved = line.saved
        ref = entry.episode
        saves_from, saves_until = entry.saving_span(self.start, self.end, self.counts_for)
        ending = entry.ended.value if entry.ended else None
        return (
            ref.account,
            ref.region,
            ref.instance_id,
            saves_from,
            max(saves_from, saves_until),
            entry.resource_name,
            entry.outcome.value,
            entry.instance_type,
            entry.owner,
            entry.project,
            entry.price_source,
            entry.booked_at,
            entry.ended_at,
            entry.false_stop,
            entry.ours,
            entry.cost_before_usd_per_hour,
            entry.cost_after_usd_per_hour,
            line.net_usd,
            ref.execution_name,
            saved.cash_low_usd,
            saved.cash_high_usd,
            saved.by_morning_usd,
            entry.idle_usd,
            ending,
            entry.replaced_by or None,
            entry.cash_source or None,
            entry.first_booked_at,
        )


def report(
    entries: Sequence[LedgerEntry],
    counted: Sequence[CountedCost],
    start: UtcDatetime,
    end: UtcDatetime,
    now: UtcDatetime,
    counts_for: timedelta,
    kept: KeptList = NOTHING_KEPT,
    ungoverned: FoundWaste = NOTHING_FOUND,
) -> Report:
    """Return the report of the time from `start` to before `end`: a month, or any other time.

    Its lines are those of the `entries` that were booked before `end` and still counted at `start`.
    `counted` are the costs of that time. An action's saving counts for `counts_for` after it. The
    report is provisional while costs of its last month may still change at `now`. `kept` is what
    stays because of something now, and `ungoverned` what the last scans found that is not governed.
    """
    counting = []
    for entry in entries:
        counts_until = min(entry.ended_at or end, entry.counts_until(counts_for))
        if entry.booked_at < end and counts_until >= start:
            counting.append(entry)
    counting.sort(key=lambda entry: entry.booked_at, reverse=True)
    lines = [Line(entry, sum_saved([entry], start, end, counts_for)) for entry in counting]
    last_month = month_of(end - timedelta(microseconds=1))
    return Report(
        start=start,
        end=end,
        counts_for=counts_for,
        saved=sum_saved(entries, start, end, counts_for),
        lines=tuple(lines),
        costs=_total(counted),
        provisional=is_provisional(last_month, now),
        kept=kept,
        ungoverned=ungoverned,
        projects=costs_by_job(counted),
    )


def _total(counted: Iterable[CountedCost]) -> Share:
    """Return the sum of these costs by part; all zero if there are none. They are added part by
    part, which is fast: there may be tens of thousands."""
    amounts_of_costs = [AMOUNTS(cost.share) for cost in counted]
    sums = [sum(amounts, Decimal(0)) for amounts in zip(*amounts_of_costs, strict=True)]
    return Share(*sums)
