"""One instance: what it is now, six weeks of it, and the episodes that are known, with what they
saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter

from governor.console.page import Asked, Page, Row, Table
from governor.console.views import charts, figures
from governor.domain.alerts.templates import said
from governor.domain.approvals.approval import Approval
from governor.domain.approvals.terms import Rank, may_undo
from governor.domain.episode.episode import (
    Episode,
    EpisodeRef,
    InstanceRecord,
    episode_from_execution_name,
)
from governor.domain.evidence import busiest, gpu_rows
from governor.domain.fleet.rows import FleetRow
from governor.domain.health.health import sent_findings
from governor.domain.instance import Target
from governor.domain.money.ledger import ENDED_WITHOUT_ACTION, LedgerEntry, saved_in
from governor.domain.sweep.verdict import EXEMPT_BY_DECISION, IDLE, Hold
from governor.domain.units import Usd, UtcDatetime, people
from governor.errors import InputError, NotFound
from governor.stores import EventLog, keys
from governor.usecases.approvals.decide import Decide, key_of

_WEEKS = timedelta(weeks=6)
_KINDS = ("work", "idle", "asked", "stopped", "running", "no data")
_PLACE: Callable[[Mapping[str, str]], tuple[str, str, str]] = itemgetter(
    "account", "region", "instance_id"
)
_HOUR = timedelta(hours=1)
_DRAWN = 42
"""Stops whose day before is drawn: one a night."""
_COLUMNS = (
    "episode",
    "outcome",
    "booked_at",
    "ended_at",
    "false_stop",
    "saved_usd_per_hour",
    "saved_usd",
)


Stop = tuple[LedgerEntry, Usd | None]
"""A booked action, and what it has saved so far; `None` where the price is not known."""


def instance(ask: Asked) -> Page:
    """Raises: NotFound where the caller may not see it, InputError for an episode that cannot
    be."""
    account, region, instance_id = _PLACE(ask.query)
    target, found, reader, now = Target(account, region), _found(ask), ask.reader, ask.now
    stops = _stops(ask)
    if found is None and not stops:
        raise NotFound(f"there is no instance {instance_id}")
    # Of an instance that others have by now, what holds it is theirs.
    record = (
        reader.state.record(target, instance_id) if found else InstanceRecord(target, instance_id)
    )
    episodes = list(_episodes(ask, found, stops, record))
    approval = reader.state.approval(episodes[0].approval_id) if episodes else None
    over = {entry.episode for entry, _ in stops if entry.ended_at}  # it ran again since
    line = figures.line(ask, *found) if found else None
    table = Table("stops", _COLUMNS, tuple(map(_cells, stops)))
    below = reader.policy.idle.utilization_below_percent
    name = line.row.name if line else episodes[0].instance.name if episodes else instance_id
    sent = EventLog(reader.table).told(target, now) if found else ()
    faults = sent_findings(sent, instance_id, found[0].launched_at) if found else {}
    health = [
        {"kind": kind, "gpus": gpus, "advice": "".join(said("health advice", {"kind": kind}))}
        for kind, gpus in faults.items()
    ]
    return Page(
        title=name,
        template="instance.html",
        values={
            "line": line,
            "last": stops[0][0] if stops else None,
            "target": target,
            "instance_id": instance_id,
            "hold": record.hold,
            "exempt_reason": found and _shown_reason(ask, found[0], record.hold),
            "health": health,
            "count": record.episodes,
            "key": key_of(record.hold),
            "ended": found and not record.hold.stands(now) and _was_held(found[0], now),
            "may_end": found and record.hold.stands(now) and _may_end(ask, found[0], record.hold),
            "strip": charts.strip(_spans(ask, found, stops, episodes), now - _WEEKS, now),
            "kinds": _KINDS,
            "hours": found
            and charts.hourly(found[0].hours, found[1].swept_at, ask.caller.zone, below),
            "stops": stops,
            "counts_for": ask.counts_for,
            "episodes": [(one, gpu_rows(one.evidence)) for one in episodes],
            "decision": approval.decision if approval else None,
            "stopped": next(
                (one for one in episodes if one.ref not in over and _may_start(ask, one, found)),
                None,
            ),
        },
        document={
            "instance": line and line.row,
            "health": health,
            "kept_until": record.hold.snoozed_until,
            "exempt": record.hold.exempt_reason is not None,
            "stops": table.documents,
            "episodes": [_episode_document(one, approval) for one in episodes],
        },
        tables=(table,),
    )


def end_hold(decide: Decide, ask: Asked) -> str:
    """End a keep or an exemption, as only admins may; return where to go on. Raises: InputError,
    NotFound, NotAllowed, DecisionRefused."""
    account, region, instance_id = _PLACE(ask.query)
    found, caller = _found(ask), ask.caller
    if found is None:
        raise NotFound(f"there is no instance {instance_id}")
    caller.check_fresh(ask.now)
    if ask.query.get("answer") != "end-hold":
        raise InputError("choose the button of the page")
    may = partial(_may_end, ask, found[0])
    decide.end_hold(Target(account, region), instance_id, caller.by, ask.query.get("hold", ""), may)
    return f"/instances/{account}/{region}/{instance_id}"


def _found(ask: Asked) -> Row | None:
    return next((one for one in ask.seen if _is_at(ask, one[0])), None)


def _may_end(ask: Asked, row: FleetRow, hold: Hold) -> bool:
    """Return whether the caller is an admin of the instance as it is, and as it was when somebody
    held it: by a tag, whoever may tag moves an instance into another project."""
    was = {hold.exempt_in} if hold.exempt_reason is not None else set()
    was |= (
        {hold.kept_in} if hold.snoozed_until is not None and hold.snoozed_until > ask.now else set()
    )
    projects = {row.project, *(one or "" for one in was)}
    return all(ask.caller.rank(row.account, one, "") is Rank.ADMIN for one in projects)


def _was_held(row: FleetRow, now: UtcDatetime) -> bool:
    """Return whether the last sweep saw it held by a decision."""
    return (row.kept_until is not None and row.kept_until > now) or row.reason == EXEMPT_BY_DECISION


def _shown_reason(ask: Asked, row: FleetRow, hold: Hold) -> str | None:
    """Why it is exempt, for whoever sees the project that it was exempted in: a tag moves it to
    another."""
    was = hold.exempt_in
    is_theirs = was == row.project or ask.scope.sees(row.account, was or "", "")
    return (
        hold.exempt_reason
        if is_theirs or hold.exempt_reason is None
        else "by somebody of another project"
    )


def _may_start(ask: Asked, episode: Episode, found: Row | None) -> bool:
    """Return whether the caller may start what the episode has stopped, and nobody has since."""
    is_back = found is not None and found[0].launched_at > episode.ref.launch_time
    rank = ask.caller.rank(episode.ref.account, episode.project, episode.owner)
    may = rank is not None and rank >= Rank.APPROVER and may_undo(episode.terms, ask.caller.person)
    return episode.can_be_started and may and not is_back


def _stops(ask: Asked) -> list[Stop]:
    """Return by what it was put away in these weeks, the newest first."""
    booked = figures.ledger_in(ask, ask.now - _WEEKS + ask.counts_for, ask.now)
    mine = [
        one
        for one in booked
        if _is_at(ask, one.episode) and one.outcome not in ENDED_WITHOUT_ACTION
    ]
    return [(one, saved_in(one, one.booked_at, ask.now, ask.counts_for)) for one in reversed(mine)]


def _is_at(ask: Asked, one: FleetRow | EpisodeRef) -> bool:
    return (one.account, one.region, one.instance_id) == _PLACE(ask.query)


def _episodes(
    ask: Asked, found: Row | None, stops: list[Stop], record: InstanceRecord
) -> Iterator[Episode]:
    """Read up to two: the one that is asked for, the open one, the last since its start, the last
    stop."""
    names = [figures.text_of(ask, "episode")]
    row = found[0] if found else None
    if row is not None:
        names.append(row.episode or "")
        names.append(record.last_episode(row.launched_at).execution_name if record.episodes else "")
    names += [entry.episode.execution_name for entry, _ in stops[:1]]
    try:
        refs = [
            episode_from_execution_name(name)
            for name in list(dict.fromkeys(filter(None, names)))[:2]
        ]
    except ValueError:
        raise InputError("episode is not the name of one: follow a link of this page") from None
    ask.reader.table.read_ahead(
        [*map(keys.episode, {*refs, *(e.episode for e, _ in stops[:_DRAWN])})]
    )
    for ref in refs:
        stored = ask.reader.state.episode(ref) if _is_at(ask, ref) else None
        if stored is not None and ask.scope.sees(ref.account, stored.project, stored.owner):
            yield stored


def _spans(
    ask: Asked, found: Row | None, stops: Sequence[Stop], episodes: Sequence[Episode]
) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield times with what is known of them; later ones are drawn over those before."""
    now, refs = ask.now, [entry.episode for entry, _ in stops]
    for entry, _ in stops:
        yield "running", entry.episode.launch_time, entry.booked_at
    known = (episode for episode, _ in ask.reader.state.open_questions(refs[:_DRAWN]).values())
    for episode in {one.ref: one for one in (*episodes, *known)}.values():
        if ask.scope.sees(episode.ref.account, episode.project, episode.owner):
            yield from _day_before(episode)
    for entry, _ in stops:
        yield "stopped", entry.booked_at, entry.ended_at or now
    if found is None:
        return
    row, page = found
    yield "running", row.launched_at, now
    for back, percent in enumerate(reversed(row.hours)):
        start = max(row.launched_at, page.swept_at - _HOUR * (back + 1))
        kind = "no data" if percent is None else "work"
        if row.idle_since is None or start < row.idle_since:
            yield kind, start, max(start, page.swept_at - _HOUR * back)
    if row.idle_since is not None and row.verdict in IDLE:
        yield "idle", row.idle_since, now
    if row.asked_at is not None:
        yield "asked", row.asked_at, now


def _day_before(episode: Episode) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield what was measured on the day before a question, and until when it was open."""
    yield "asked", episode.opened_at, episode.closed_at or episode.opened_at
    if episode.history is None:
        return
    below, window = episode.idle_below_percent, episode.history.window
    kinds = (
        "no data" if one is None else "work" if one >= below else "idle"
        for one in busiest(episode.history.gpus, window, below)
    )
    for kind, run in groupby(enumerate(kinds), key=itemgetter(1)):
        ends = [window.bin_end(index) for index, _ in run]
        start = max(ends[0] - window.period, episode.ref.launch_time)
        yield kind, start, max(start, ends[-1])


def _cells(stop: Stop) -> tuple[object, ...]:
    entry, saved = stop
    ended, rate = (entry.ended_at, entry.false_stop), entry.saved_usd_per_hour
    return entry.episode.execution_name, entry.outcome.value, entry.booked_at, *ended, rate, saved


def _episode_document(episode: Episode, approval: Approval | None) -> Mapping[str, object]:
    is_its = approval is not None and approval.episode == episode.ref
    decision = approval.decision if approval and is_its else None
    return {
        "episode": episode.ref.execution_name,
        "opened_at": episode.opened_at,
        "reason": episode.reason,
        "outcome": episode.outcome and episode.outcome.value,
        "closed_at": episode.closed_at,
        "answer": decision and decision.answer.value,
        "by": decision and people(decision.by),
        "steps_done": dict(episode.steps_done),
    }
