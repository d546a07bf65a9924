"""Report of a month, or a part of one: idle cost and savings. The same figures for the console, the
mail, the command line and the copy in S3."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.domain.episode.episode import Outcome
from governor.domain.fleet.rows import Share
from governor.domain.money.cost import month_of
from governor.domain.money.ledger import LedgerEntry, Saved, is_provisional, sum_saved
from governor.domain.units import Usd, UtcDatetime

GROUPS: Mapping[str, Callable[[LedgerEntry], str]] = {
    "owner": lambda entry: entry.owner,
    "project": lambda entry: entry.project,
    "type": lambda entry: entry.instance_type,
    "account": lambda entry: entry.episode.account,
}
COLUMNS = (
    *("SubAccountId", "RegionId", "ResourceId", "ChargePeriodStart", "ChargePeriodEnd"),
    "ResourceName",
    *(
        "x_Outcome",
        "x_InstanceType",
        "x_Owner",
        "x_Project",
        "x_PriceSource",
        "x_BookedAt",
        "x_EndedAt",
    ),
    *("x_FalseStop", "x_Ours", "x_CostBeforePerHourUsd", "x_CostAfterPerHourUsd", "x_NetSavedUsd"),
    "x_Episode",
    *("x_CashLowSavedUsd", "x_CashHighSavedUsd", "x_SavedByMorningUsd", "x_IdleBeforeUsd"),
    *("x_Ending", "x_ReplacedBy", "x_CashSource"),
)
"""Dimensions as FOCUS 1.2 names them; measures and facts that it does not know begin with `x_`: a
saving is no charge, so no cost column of FOCUS holds one."""
_WITHOUT_ACTION = {
    Outcome.KEPT: "kept by choice",
    Outcome.EXEMPTED: "exempted",
    Outcome.EXPIRED: "not answered",
    Outcome.OBSERVED: "only observed",
    Outcome.TOLD: "only reported",
}


class Line(NamedTuple):
    """How a question ended, and what it saved in the time of the report; `None`: the price is not
    known."""

    entry: LedgerEntry
    saved: Saved

    @property
    def net_usd(self) -> Usd | None:
        is_unknown = self.entry.ours and self.entry.saved_usd_per_hour is None
        return None if is_unknown else self.saved.net_usd

    @property
    def what(self) -> str:
        if (found := _WITHOUT_ACTION.get(self.entry.outcome)) is not None:
            return found
        what = self.entry.outcome.value.replace("-", " ")
        return what if self.entry.ours else f"{what} by others"


class Step(NamedTuple):
    """One bar of the waterfall: its words, amount and class, and between which two amounts it is
    drawn."""

    text: str
    usd: Usd
    kind: str
    start: Usd
    end: Usd


@dataclass(frozen=True, slots=True)
class Report:
    start: UtcDatetime
    end: UtcDatetime
    counts_for: timedelta
    saved: Saved
    lines: tuple[Line, ...]
    """Newest first."""
    costs: Share
    provisional: bool
    """Bills of this time may still change."""

    @property
    def steps(self) -> list[Step]:
        """From the idle cost that was found to the net saving."""
        costs, saved = self.costs, self.saved
        found = costs.idle + costs.kept + saved.avoided_usd
        steps = [Step("Idle cost found", found, "idle", Decimal(0), found)]
        level = found
        for text, amount, kind in (
            ("Kept by choice", costs.kept, "kept"),
            ("Not answered, or before the answer", costs.idle, "idle"),
            ("Undone", saved.undone_usd, "not-measured"),
            ("Storage of what was stopped", saved.storage_usd, "not-measured"),
        ):
            steps.append(Step(text, -amount, kind, level - amount, level))
            level -= amount
        net = saved.net_usd
        return [*steps, Step("Net saving", net, "net", Decimal(0), max(net, Decimal(0)))]

    def by(self, name: str) -> list[tuple[str, Usd, int]]:
        """Return the net saving and number of actions of each of a group, the highest saving
        first."""
        key, sums = GROUPS[name], defaultdict[str, list[Usd]](list)
        for entry, saved in self.lines:
            if entry.acted:
                sums[key(entry)].append(saved.net_usd)
        found = ((one, sum(amounts, Decimal(0)), len(amounts)) for one, amounts in sums.items())
        return sorted(found, key=lambda one: (-one[1], one[0]))

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        """Each question as a row of `COLUMNS`."""
        return tuple(map(self._row, self.lines))

    @property
    def document(self) -> dict[str, object]:
        """The same for machines, as the console's page and the command line give it."""
        return {
            "is_provisional": self.provisional,
            "net_usd": self.saved.net_usd,
            "saved": self.saved,
            "steps": [{"step": one.text, "usd": one.usd} for one in self.steps],
            **{
                f"by_{name}": [{name: who, "net_usd": usd} for who, usd, _ in self.by(name)]
                for name in GROUPS
            },
            "entries": [dict(zip(COLUMNS, row, strict=True)) for row in self.rows],
        }

    def _row(self, line: Line) -> tuple[object, ...]:
        entry, saved = line
        ref, (first, until) = entry.episode, entry.counted(self.start, self.end, self.counts_for)
        return (
            *(
                ref.account,
                ref.region,
                ref.instance_id,
                first,
                max(first, until),
                entry.resource_name,
            ),
            *(
                entry.outcome.value,
                entry.instance_type,
                entry.owner,
                entry.project,
                entry.price_source,
            ),
            *(entry.booked_at, entry.ended_at, entry.false_stop, entry.ours),
            *(entry.cost_before_usd_per_hour, entry.cost_after_usd_per_hour, line.net_usd),
            ref.execution_name,
            *(saved.cash_low_usd, saved.cash_high_usd, saved.by_morning_usd, entry.idle_usd),
            *(
                entry.ended and entry.ended.value,
                entry.replaced_by or None,
                entry.cash_source or None,
            ),
        )


def report(
    entries: Sequence[LedgerEntry],
    shares: Iterable[Share],
    start: UtcDatetime,
    end: UtcDatetime,
    now: UtcDatetime,
    counts_for: timedelta,
) -> Report:
    """Sum up what counts from `start` to `end`, both of one month or of any other time."""
    counting = [
        one
        for one in entries
        if one.booked_at < end and min(one.ended_at or end, one.booked_at + counts_for) >= start
    ]
    counting.sort(key=lambda one: one.booked_at, reverse=True)
    return Report(
        start,
        end,
        counts_for,
        sum_saved(entries, start, end, counts_for),
        tuple(Line(one, sum_saved([one], start, end, counts_for)) for one in counting),
        sum(shares, Share()),
        is_provisional(month_of(end - timedelta(microseconds=1)), now),
    )
