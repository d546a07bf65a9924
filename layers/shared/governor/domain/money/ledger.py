"""What each action really saved, in Decimal USD: booked when it happened, settled when it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from governor.domain.episode.episode import EpisodeRef, Outcome
from governor.domain.units import Usd, UsdPerHour, UtcDatetime

# Whole numbers: seconds as a float would carry binary dust into the money.
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One booked action. Open (`ended_at` is `None`) as long as the instance stays away.

    `saved_usd_per_hour` is `None` for unpriced types: unknown is never booked as zero.
    """

    episode: EpisodeRef
    outcome: Outcome
    instance_type: str
    owner: str
    project: str
    price_source: str
    booked_at: UtcDatetime
    cost_before_usd_per_hour: UsdPerHour | None
    cost_after_usd_per_hour: UsdPerHour | None
    saved_usd_per_hour: UsdPerHour | None
    ended_at: UtcDatetime | None = None
    false_stop: bool = False
    ours: bool = True
    """False where others, or EC2, put the instance away while its owner was asked: not our saving."""


def saved_in(entry: LedgerEntry, start: datetime, end: datetime, counts_for: timedelta) -> Usd | None:
    """USD saved in this time, as long as a saving counts; `None` where the price is not known."""
    if entry.saved_usd_per_hour is None:
        return None
    over = min(end, entry.ended_at or end, entry.booked_at + counts_for)
    return cost_between(entry.saved_usd_per_hour, max(start, entry.booked_at), over)


def cost_between(usd_per_hour: UsdPerHour, start: datetime, end: datetime) -> Usd:
    """The amount for the time from `start` to `end`; zero when that is no time at all."""
    passed = max(timedelta(0), end - start)
    return usd_per_hour * (passed // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def is_false_stop(entry: LedgerEntry, restarted_at: datetime, within: timedelta) -> bool:
    """Whether a restart came so soon that the stop must count as false."""
    return entry.outcome is Outcome.STOPPED and restarted_at - entry.booked_at <= within


def ended_by(entries: Sequence[LedgerEntry], at: UtcDatetime) -> list[LedgerEntry]:
    """The stops among them that were booked by then: what happens to the instance then ends their savings."""
    return [one for one in entries if one.booked_at <= at and one.outcome is Outcome.STOPPED]
