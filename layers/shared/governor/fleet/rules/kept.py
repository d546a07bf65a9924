"""The list of instances that are left alone although they may be idle: reasons, words and sums.

`KeepReason` is the one registry. A new way to keep an instance is a reason here, with its words in
`WORDS`, and a finder in `sweep.kept_because`. Console, mail, report and command line show this
list, and none of them may count one of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from governor.core.units import HOURS_PER_MONTH, Usd, UtcDatetime, daily_cost
from governor.fleet.model import FleetPage, FleetRow


class KeepReason(StrEnum):
    """The reasons for which an instance is not asked about, by the names that are stored.

    This room only names them for people. What keeps an instance is decided in `verdict/rules`,
    `limits` and, where somebody is logged in, `remediation/inspect_instance.py`.
    """

    EXEMPTION_TAG = "exemption-tag"
    EXEMPTION = "exemption"
    UNDO = "undo"
    KEEP = "keep"
    MANAGER = "manager"
    FREEZE = "freeze"
    SESSION = "session"
    RESTARTS = "restarts"
    HOLD = "hold"
    UNANSWERED = "unanswered"
    REFUSAL = "refusal"
    FAILURE = "failure"
    REPORT_ONLY = "report-only"
    OVERRIDE = "override"


WORDS: Mapping[KeepReason, str] = {
    KeepReason.EXEMPTION_TAG: "exempt by a tag",
    KeepReason.EXEMPTION: "exempt by an answer",
    KeepReason.UNDO: "started again by a person",
    KeepReason.KEEP: "kept by an answer",
    KeepReason.MANAGER: "another service runs it",
    KeepReason.FREEZE: "plans are frozen",
    KeepReason.SESSION: "somebody is logged in by Session Manager",
    KeepReason.RESTARTS: "others start it again after each stop",
    KeepReason.HOLD: "somebody held the action",
    KeepReason.UNANSWERED: "nobody answered the question",
    KeepReason.REFUSAL: "a protection refused the action",
    KeepReason.FAILURE: "the action failed",
    KeepReason.REPORT_ONLY: (
        "only reported: the policy says so, it cannot be stopped, or a stop saves nothing"
    ),
    KeepReason.OVERRIDE: "an override waits longer",
}
"""Words of each reason, for people."""
_PAGE_COUNTS_FOR = timedelta(days=1)
"""An older page says nothing about now: its target is no longer swept."""
_CENT = Decimal("0.01")
_IS_IDLE = "idle"
_NOT_MEASURED = "not measured"
COLUMNS = (
    "instance_id",
    "name",
    "account",
    "region",
    "instance_type",
    "owner",
    "project",
    "reason",
    "kept_by",
    "until",
    "measured",
    "idle_since",
    "usd_per_month",
)
"""Columns of a row of the list."""


def is_hold(reason: str | None) -> bool:
    """Return whether a stored reason is that somebody held the action."""
    return reason == KeepReason.HOLD


class KeptInstance(NamedTuple):
    """One instance of the list, as the last sweep of its target saw it."""

    row: FleetRow

    @property
    def reason(self) -> str:
        """Return the stored name of the reason. Only rows with a reason are listed, so it is never
        empty."""
        # It is never `None`; `str` says so to the type checker.
        return str(self.row.kept_because)

    @property
    def words(self) -> str:
        """Return the words for the reason, as people read them."""
        return words_of(self.reason)

    @property
    def is_idle(self) -> bool:
        """Return whether the sweep measured that it is idle. The metrics of an exempt or kept
        instance are not read, so it is never called idle; nor is one whose override waits for a
        longer window after its last work."""
        return self.row.is_idle

    @property
    def measured(self) -> str:
        """Return in words what the sweep measured: `idle`, or else `not measured`."""
        return _IS_IDLE if self.is_idle else _NOT_MEASURED

    @property
    def usd_per_month(self) -> Usd | None:
        """Return the price of 730 hours, in whole cents, so that sums equal their rows in every
        format; `None` if the price is not known."""
        if self.row.usd_per_hour is None:
            return None
        return (self.row.usd_per_hour * HOURS_PER_MONTH).quantize(_CENT)

    @property
    def usd_per_day(self) -> Usd | None:
        """Return the price of a day; `None` if the price is not known."""
        if self.usd_per_month is None:
            return None
        return _per_day(self.usd_per_month)

    @property
    def is_prepaid(self) -> bool:
        """Return whether it adds nothing to the bill: its price is known, and zero."""
        return self.usd_per_month is not None and not self.usd_per_month


class KeptSum(NamedTuple):
    """The sum of the instances with one reason. `usd_per_month` leaves out the `unpriced`."""

    reason: str
    words: str
    measured: str
    instances: int
    usd_per_month: Usd
    unpriced: int

    @property
    def usd_per_day(self) -> Usd:
        """Return what a day of these instances costs, without unknown prices."""
        return _per_day(self.usd_per_month)

    @property
    def is_prepaid(self) -> bool:
        """Return whether they add nothing to the bill: their prices are known, and zero."""
        return not self.unpriced and not self.usd_per_month


@dataclass(frozen=True, slots=True)
class KeptList:
    """Instances that nothing is done about, each for one reason, the most expensive first."""

    instances: tuple[KeptInstance, ...] = ()

    @property
    def idle_usd_per_month(self) -> Usd:
        """Return what a month of the measured idle instances costs, without unknown prices."""
        return _sum(kept for kept in self.instances if kept.is_idle)

    @property
    def not_measured_usd_per_month(self) -> Usd:
        """Return what a month of the other instances costs, such as exempt ones, without unknown
        prices. They are not measured, so they may be in use."""
        return _sum(kept for kept in self.instances if not kept.is_idle)

    @property
    def usd_per_month(self) -> Usd:
        """Return the sum of all rows, without unknown prices."""
        return _sum(self.instances)

    @property
    def idle_usd_per_day(self) -> Usd:
        """Return `idle_usd_per_month` for a day."""
        return _per_day(self.idle_usd_per_month)

    @property
    def not_measured_usd_per_day(self) -> Usd:
        """Return `not_measured_usd_per_month` for a day."""
        return _per_day(self.not_measured_usd_per_month)

    @property
    def usd_per_day(self) -> Usd:
        """Return `usd_per_month` for a day."""
        return _per_day(self.usd_per_month)

    @property
    def unpriced(self) -> int:
        """Return how many instances have no known price."""
        return sum(kept.usd_per_month is None for kept in self.instances)

    @property
    def sums(self) -> list[KeptSum]:
        """Return the sum of each reason, the most expensive first; empty without instances."""
        groups: dict[str, list[KeptInstance]] = defaultdict(list)
        for kept in self.instances:
            groups[kept.reason].append(kept)
        sums = []
        for reason, members in groups.items():
            unpriced = sum(kept.usd_per_month is None for kept in members)
            measured = members[0].measured
            usd = _sum(members)
            sums.append(KeptSum(reason, words_of(reason), measured, len(members), usd, unpriced))
        sums.sort(key=lambda kept_sum: (-kept_sum.usd_per_month, kept_sum.reason))
        return sums

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        """Return a row with the values of `COLUMNS` for each instance; empty without instances."""
        return tuple(_cells(kept) for kept in self.instances)

    @property
    def document(self) -> dict[str, object]:
        """Return the list as a document, ready to be written as JSON."""
        return {
            "usd_per_month": self.usd_per_month,
            "idle_usd_per_month": self.idle_usd_per_month,
            "not_measured_usd_per_month": self.not_measured_usd_per_month,
            "unpriced": self.unpriced,
            "by_reason": [kept_sum._asdict() for kept_sum in self.sums],
            "instances": [dict(zip(COLUMNS, row, strict=True)) for row in self.rows],
        }


NOTHING_KEPT = KeptList()


def words_of(reason: str) -> str:
    """Return the words of a stored reason; the stored name itself if a later release wrote it."""
    if reason not in WORDS:
        return reason
    return WORDS[KeepReason(reason)]


def kept_list(
    pages: Iterable[FleetPage], now: UtcDatetime, is_seen: Callable[[FleetRow], bool]
) -> KeptList:
    """Return the list of the rows of these pages that `is_seen` accepts, the most expensive first,
    unknown prices last. Pages of sweeps more than a day ago are left out."""
    kept_instances = []
    for page in pages:
        if now - page.swept_at > _PAGE_COUNTS_FOR:
            continue
        for row in page.rows:
            if _is_listed(row, now) and is_seen(row):
                kept_instances.append(KeptInstance(row))
    return KeptList(tuple(sorted(kept_instances, key=_by_price_and_id)))


def _is_listed(row: FleetRow, now: UtcDatetime) -> bool:
    """Return whether something keeps the instance, as the last sweep saw it, and the time of the
    reason is not over."""
    if row.kept_because is None:
        return False
    return row.stays_until is None or row.stays_until > now


def _by_price_and_id(kept: KeptInstance) -> tuple[Decimal, str]:
    """Return a sort key: the most expensive first, unknown prices last, then by instance id."""
    usd = kept.usd_per_month
    return (Decimal(1) if usd is None else -usd), kept.row.instance_id


def _per_day(usd_per_month: Usd) -> Usd:
    """Return what a day costs of which 730 hours cost that."""
    return daily_cost(usd_per_month / HOURS_PER_MONTH)


def _sum(kept_instances: Iterable[KeptInstance]) -> Usd:
    """Return what a month of these instances costs, without unknown prices."""
    total = Decimal(0)
    for kept in kept_instances:
        total += kept.usd_per_month or Decimal(0)
    return total


def _cells(kept: KeptInstance) -> tuple[object, ...]:
    """Return the values of an instance in the order of `COLUMNS`."""
    row = kept.row
    return (
        row.instance_id,
        row.name,
        row.account,
        row.region,
        row.instance_type,
        row.owner,
        row.project,
        kept.reason,
        row.kept_by,
        row.stays_until,
        kept.measured,
        row.idle_since,
        kept.usd_per_month,
    )
