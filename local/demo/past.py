"""Six weeks before the demo: what its fleet cost, which nights it was stopped, and by whose answer.

Written through the product's own stores, as its functions would have left it. Everything follows
from the names and the dates, so that the same day shows the same past.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby

from governor.alerts.model import UNASSIGNED
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.store.approvals import Approvals
from governor.core.catalog import list_price, shape_of
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Instance, Target
from governor.episode.model.episode import Episode, Measurement, Outcome, Phase
from governor.episode.model.plan import Plan, Price, Saving, Step
from governor.episode.store.episodes import Episodes
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Window
from governor.evidence.rules.history import History
from governor.evidence.rules.series import evidence_hash
from governor.fleet.model import (
    HOURS,
    NOT_MEASURED,
    UNGOVERNED,
    DayCosts,
    FleetPage,
    FleetRow,
    JobKey,
    Share,
)
from governor.fleet.store import Fleet
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.rules.cost import UNTAGGED, Meter, cost_between, month_end, month_of
from governor.money.store.ledger import Ledger, booking
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Weekday
from governor.policy.model.policy import Mode
from governor.policy.rules.schedule import next_morning
from governor.remediation.store import Calls
from governor.table.table import Table
from local.demo.fleet import Member, busy, idle, noise, one_of_eight, past_of
from local.engine.simulation import Points

WEEKS = timedelta(weeks=6)
HOUR, MISTAKE = timedelta(hours=1), timedelta(minutes=35)
IDLE_FOR = timedelta(hours=7)
"""Since when the idle members of the demo have been idle."""
STORAGE = Decimal("0.011")
"""USD an hour of a stopped instance's volumes."""
_MONEY = Decimal("1E-9")
_STOPPED = "stopped"
_EPISODES_KEPT = 6
"""Episodes kept of each instance; earlier stops are in the ledger alone."""


@dataclass(frozen=True)
class Night:
    """A time for which an instance was stopped."""

    start: datetime
    end: datetime


def write_past(
    table: Table, target: Target, members: Mapping[str, Member], now: datetime, person: str
) -> int:
    """Write it, for members by their ids; `person` gave the answers. Return how many stops are
    booked."""
    first = _hour(now - WEEKS)
    spent: dict[date, dict[JobKey, Share]] = defaultdict(dict)
    stops = 0
    for instance_id, member in members.items():
        if not member.selected:
            continue
        lived = [(at, part_of(member, at, now)) for at in _hours(first, now)]
        for at, part in lived:
            if part is not None and part != _STOPPED:
                usd = cost_between(_price(member), at, min(at + HOUR, now)).quantize(_MONEY)
                shares = spent[at.date()]
                key = JobKey(*_whose(member), job_of(member))
                shares[key] = shares.get(key, Share()) + Share(**{part: usd})
        nights = list(_nights(lived, now - timedelta(minutes=member.launched_minutes_ago)))
        _book(table, target, instance_id, member, nights, person, now)
        stops += len(nights)
    _count(Ledger(table), target, spent, now)
    rows = (_row(target, i, one, now) for i, one in members.items())
    Fleet(table).keep_page(
        FleetPage(target.account, target.region, now, Mode.ASK.value, None, tuple(rows))
    )
    return stops


def past_metrics(members: Mapping[str, Member], now: datetime) -> Iterator[Points]:
    """Yield what their agents and EC2 published in those weeks."""
    first = _hour(now - WEEKS)
    hours = list(_hours(first, now))
    for instance_id, member in members.items():
        parts = [part_of(member, at, now) for at in hours]
        loads = [
            None if part in (None, _STOPPED) else _load(member, at, part)
            for at, part in zip(hours, parts, strict=True)
        ]
        yield from past_of(member, instance_id, now, loads, first)


def part_of(member: Member, at: datetime, now: datetime) -> str | None:
    """The part of a day's costs that this hour belongs to; `stopped`, or `None` where it did not
    run yet."""
    launched = now - timedelta(minutes=member.launched_minutes_ago)
    evening = _evening(at)
    asleep = at.weekday() > 4 or not 8 <= at.hour < 18
    if member.expected == "too-young":
        return "unmeasured" if at >= launched else None
    if member.expected == "exempt":
        return "kept"
    if member.load in (busy, one_of_eight):
        return "idle" if at.hour in (4, 5) and noise(member.name, at.date()) < 0.4 else "used"
    if at >= launched:
        return "used" if at < now - IDLE_FOR else "idle"
    if not asleep:
        return "used"
    if at < datetime.combine(evening, datetime.min.time(), at.tzinfo) + 21 * HOUR:
        return "idle"
    answer = noise(member.name, evening)
    if is_stopped_at_night(member) and answer < 0.5:
        return _STOPPED
    return "kept" if answer > 0.85 else "idle"


def is_stopped_at_night(member: Member) -> bool:
    """Those about which somebody is asked, and which can be stopped and started again."""
    asked = member.expected == "idle" and member.load is idle and member.lifecycle == "on-demand"
    return asked and not member.stop_protection


def _evening(at: datetime) -> date:
    """The working day whose evening a night, or a weekend, belongs to."""
    day = (at - 8 * HOUR).date()
    return day - timedelta(days=max(0, day.weekday() - 4))


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _hours(first: datetime, now: datetime) -> Iterator[datetime]:
    while first < now:
        yield first
        first += HOUR


def _price(member: Member) -> Decimal:
    """Return what an hour adds to the bill: a Capacity Block is paid in advance, Spot costs a
    third."""
    price = list_price(member.instance_type) or Decimal(0)
    return {"capacity-block": Decimal(0), "spot": price / 3}.get(member.lifecycle, price)


def _whose(member: Member) -> tuple[str, str]:
    return member.tags.get("Owner", UNASSIGNED), member.tags.get("Project", UNASSIGNED)


def job_of(member: Member) -> str | None:
    """Return the job that the tag of a member names; `None` if it has none."""
    return member.tags.get("Job")


def _nights(lived: list[tuple[datetime, str | None]], launched: datetime) -> Iterator[Night]:
    """The stops, each answered some minutes after its hour began. Every ninth was a mistake, soon
    undone."""
    runs = (
        ([at for at, _ in hours], part) for part, hours in groupby(lived, key=lambda one: one[1])
    )
    stopped = [times for times, part in runs if part == _STOPPED]
    for number, times in enumerate(stopped):
        start = times[0] + timedelta(minutes=5 + round(40 * noise("answered", times[0])))
        end = start + MISTAKE if number % 9 == 4 else times[-1] + HOUR
        if start < min(end, launched):
            yield Night(start, min(end, launched))


def _book(
    table: Table,
    target: Target,
    instance_id: str,
    member: Member,
    nights: list[Night],
    person: str,
    now: datetime,
) -> None:
    price = _price(member)
    starts = [night.end for night in nights]
    for number, night in enumerate(nights, 1):
        started = starts[number - 2] if number > 1 else night.start - timedelta(days=9)
        ref = EpisodeRef(
            target.account, target.region, instance_id, started.replace(microsecond=0), number
        )
        entry = LedgerEntry(
            episode=ref,
            outcome=Outcome.STOPPED,
            instance_type=member.instance_type,
            owner=_whose(member)[0],
            project=_whose(member)[1],
            price_source="list price",
            booked_at=night.start,
            cost_before_usd_per_hour=price + STORAGE,
            cost_after_usd_per_hour=STORAGE,
            saved_usd_per_hour=price,
            resource_name=member.name,
            # A Savings Plan may pay for what is no Spot instance.
            cash_low_usd_per_hour=price if member.lifecycle == "spot" else Decimal(0),
            cash_high_usd_per_hour=price,
            saves_from=night.start,
            morning=next_morning(night.start, "UTC", tuple(Weekday)[:5], "09:00"),
            recorded_at=night.start,
        )
        if number > len(nights) - _EPISODES_KEPT:
            _decide(table, ref, member, entry, person, now)
        else:
            table.transact(*booking(entry))
        why = Ending.UNDONE if night.end - night.start <= MISTAKE else Ending.STARTED
        Ledger(table).settle_entry(entry, night.end, why, night.end)


def _decide(
    table: Table,
    ref: EpisodeRef,
    member: Member,
    entry: LedgerEntry,
    person: str,
    now: datetime,
) -> None:
    """The episode of a stop, from its lock to its end."""
    asked_at, stopped_at = _hour(entry.booked_at), entry.booked_at
    window = Window(asked_at - 3 * HOUR, asked_at, timedelta(minutes=5))
    series = tuple(
        round(2 * noise(ref.instance_id, asked_at, number), 1) for number in range(window.bins)
    )
    shape = shape_of(member.instance_type)
    evidence = Evidence(
        window,
        MetricSource.AGGREGATE,
        (GpuReadings("all", series),),
        gpus_expected=shape.accelerator_count if shape else None,
    )
    approval_id = f"past-{ref.instance_id[2:]}-{ref.number}"
    saving = Saving(entry.cost_before_usd_per_hour, entry.cost_after_usd_per_hour)
    episode_store = Episodes(table)
    approval_store = Approvals(table)
    episode_store.take_lock(ref)
    approval_store.save_opened(
        Episode(
            ref=ref,
            phase=Phase.ASKING,
            opened_at=asked_at,
            approval_id=approval_id,
            mode=Mode.ASK,
            policy_version="an earlier version",
            overrides=(),
            instance=Instance(
                ref.target,
                ref.instance_id,
                member.instance_type,
                "running",
                ref.launch_time,
                tags=member.all_tags,
            ),
            reason="Idle for 3 h (every GPU under 5%).",
            measurement=Measurement(
                evidence=evidence,
                evidence_hash=evidence_hash(evidence),
                history=_day_before(member, asked_at, now),
            ),
            plan=Plan(Action.STOP, Action.STOP, (Step.STOP,), (), (), (), saving),
            price=Price(_price(member), entry.price_source),
            owner=entry.owner,
            project=entry.project,
            phase_since=asked_at,
        )
    )
    decision = Decision(Answer.APPROVE, f"link:{person}", "page", stopped_at, person=person)
    approval_store.settle(approval_id, decision)
    episode_store.clear_step(ref, Step.STOP.value, stopped_at)
    Calls(table).note_step(ref, Step.STOP.value, stopped_at)
    why = f"approved by link:{person}"
    episode_store.close_episode(
        ref,
        Outcome.STOPPED,
        why,
        stopped_at,
        quiet_until=None,
        became=Outcome.STOPPED,
        booking=booking(entry),
    )
    episode_store.note_told(ref, stopped_at)


def _day_before(member: Member, asked_at: datetime, now: datetime) -> History:
    day = Window(asked_at - 24 * HOUR, asked_at, HOUR)
    parts = ((at, part_of(member, at, now)) for at in _hours(day.start, day.end))
    load = tuple(
        None if part in (None, _STOPPED) else round(_load(member, at, part), 1)
        for at, part in parts
    )
    return History(day, (GpuReadings("all", load),))


def _count(
    ledger_store: Ledger,
    target: Target,
    spent: Mapping[date, Mapping[JobKey, Share]],
    now: datetime,
) -> None:
    """The meter of each month beside its days, counted up to now."""
    for month, days in groupby(sorted(spent), key=lambda day: f"{day:%Y-%m}"):
        costs = [DayCosts(day, target.account, target.region).plus(spent[day]) for day in days]
        usd: dict[str, Decimal] = defaultdict(Decimal)
        for cost in costs:
            for (_, project), share in cost.shares.items():
                usd[UNTAGGED if project == UNASSIGNED else project] += share.total
        last = (
            now
            if month == month_of(now)
            else month_end(datetime.combine(costs[-1].day, now.timetz()))
        )
        ledger_store.bring_forward(Meter(target, month, last, dict(usd)), None, costs)


def _row(target: Target, instance_id: str, member: Member, now: datetime) -> FleetRow:
    """Return what the sweep before this one has measured by hour; it judges anew."""
    owner, project = _whose(member)
    hours = [_busiest(member, _hour(now) - HOUR * back, now) for back in range(HOURS)]
    return FleetRow(
        instance_id=instance_id,
        name=member.name,
        account=target.account,
        region=target.region,
        instance_type=member.instance_type,
        owner=owner,
        project=project,
        verdict="no-data" if member.selected else UNGOVERNED,
        reason="not judged yet"
        if member.selected
        else "Set the tag Purpose=GPU-Workload to have it governed.",
        usd_per_hour=_price(member),
        launched_at=now - timedelta(minutes=member.launched_minutes_ago),
        hours=tuple(reversed(hours)) if member.selected else NOT_MEASURED,
        idle_since=_idle_since(member, now),
    )


def _idle_since(member: Member, now: datetime) -> datetime | None:
    """Return since when a governed member is idle; `None` if it is not. The sweep adds its own hour
    to that."""
    if not member.selected or part_of(member, now, now) != "idle":
        return None
    since = _hour(now)
    while part_of(member, since - HOUR, now) == "idle":
        since -= HOUR
    return since


def _busiest(member: Member, at: datetime, now: datetime) -> int | None:
    """The highest utilization of an hour, in percent."""
    part = part_of(member, at, now)
    if at + HOUR > now or part is None or member.expected in ("exempt", "too-young"):
        return None
    return round(_load(member, at, part))


def _load(member: Member, at: datetime, part: str | None) -> float:
    """The highest utilization of an hour that ran, in percent."""
    return 60 + 38 * noise(member.name, at) if part == "used" else 2 * noise(member.name, at)
