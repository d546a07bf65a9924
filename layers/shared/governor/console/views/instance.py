"""The page of one instance: its state now, the last six weeks, its known episodes, and what its
stops saved.

Everything of an earlier time is shown only to callers who may see whose the instance was then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from governor.approvals.decide import Decide
from governor.approvals.messages.sentences import start_button_text, start_cost_text
from governor.approvals.model.approval import Approval
from governor.approvals.model.terms import Rank
from governor.approvals.rules.after_stop import can_be_started
from governor.approvals.rules.answers import hold_hash
from governor.approvals.rules.terms import may_undo
from governor.console.current_fleet import Row
from governor.console.page import Page, Table, ViewRequest
from governor.console.views import addresses, charts, figures, instance_strip
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.errors import InputError, NotFound
from governor.core.instance import Target
from governor.core.units import Usd, UtcDatetime, daily_cost, people
from governor.episode.model.episode import Episode, InstanceRecord
from governor.evidence.rules.profiles import part_word_of_type
from governor.evidence.rules.series import gpu_rows
from governor.fleet.model import FleetPage, FleetRow
from governor.health.messages import advice_on_kind
from governor.health.rules import sent_findings
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.closed import is_terminated, price_while_running
from governor.money.rules.ledger import ENDED_WITHOUT_ACTION, saved_in
from governor.policy.ports import policy_or_base
from governor.table import keys
from governor.verdict.model import EXEMPT_BY_DECISION, Hold

_WEEKS = timedelta(weeks=6)
_PLACE: Callable[[Mapping[str, str]], tuple[str, str, str]] = itemgetter(
    "account", "region", "instance_id"
)
_COLUMNS = (
    "episode",
    "outcome",
    "booked_at",
    "ended_at",
    "false_stop",
    "saved_usd_per_hour",
    "saved_usd",
    "first_booked_at",
)
Stop = tuple[LedgerEntry, Usd | None]
"""A booked action, and what it has saved so far; `None` where the price is not known."""


class _CostsBefore(NamedTuple):
    """The costs of a day while an instance ran that is stopped or terminated now."""

    instance_usd_per_day: Usd
    storage_usd_per_day: Usd
    """Zero if it is not known apart from the instance."""


class _Present(NamedTuple):
    """An instance as the last sweep saw it; all empty if the caller does not see it now."""

    line: figures.Line | None
    row: FleetRow | None
    health: Sequence[Mapping[str, object]]
    hours: charts.Chart | None


def instance(request: ViewRequest) -> Page:
    """Return the page of the instance that the query names: one that runs, is stopped, or has a
    stored record. Raises: NotFound if the caller sees none of these; InputError for an `episode`
    that cannot be; CloudError."""
    account, region, instance_id = _PLACE(request.query)
    target = Target(account, region)
    reader = request.reader
    current_row = _find_row(request)
    stops = _stops(request)
    closed_row = _find_closed(request, stops) if current_row is None else None
    is_known = current_row is not None or closed_row is not None or bool(stops)
    if not is_known and not _is_recorded(request):
        raise NotFound(f"there is no instance {instance_id}")
    # If the caller no longer sees the instance, its hold belongs to others.
    record = InstanceRecord(target, instance_id)
    if current_row is not None:
        record = reader.instance_store.record(target, instance_id)
    shown_row = current_row or closed_row
    episodes = list(_episodes(request, shown_row, stops, record))
    approval = reader.approval_store.approval(episodes[0].approval_id) if episodes else None
    present = _present(request, current_row)
    table = Table("stops", _COLUMNS, tuple(map(_cells, stops)))
    name = _name(shown_row, episodes, instance_id)
    episodes_with_gpus = []
    for episode in episodes:
        word = part_word_of_type(episode.instance.instance_type)
        episodes_with_gpus.append((episode, word, gpu_rows(episode.measurement.evidence, word)))
    episode_documents = [_episode_document(episode, approval) for episode in episodes]
    last_stop = stops[0][0] if stops else None
    decision = approval.decision if approval else None
    booked = [entry for entry, _ in stops]
    spans = instance_strip.spans(request, current_row, booked, episodes)
    startable = _startable(request, episodes, current_row)
    closed_line = None if closed_row is None else figures.line(request, *closed_row)
    return Page(
        title=name,
        template="instance.html",
        values={
            "line": present.line,
            "last": last_stop,
            "costs_before": None if last_stop is None else _costs_before(last_stop),
            "closed": closed_line,
            "is_starting_shown": bool(request.query.get("start")),
            "start_cost": "" if startable is None else start_cost_text(startable),
            "start_button": "" if startable is None else start_button_text(startable),
            "kept_for": _kept_for(request, startable),
            "target": target,
            "instance_id": instance_id,
            "health": present.health,
            "count": record.episodes,
            **_hold_values(request, current_row, record.hold),
            "strip": charts.strip(spans, request.now - _WEEKS, request.now),
            "kinds": instance_strip.KINDS,
            "hours": present.hours,
            "stops": stops,
            "counts_for": request.counts_for,
            "episodes": episodes_with_gpus,
            "decision": decision,
            "stopped": startable,
        },
        document={
            "instance": _row_document(request, shown_row),
            "health": present.health,
            "kept_until": record.hold.snoozed_until,
            "exempt": record.hold.exempt_reason is not None,
            "stops": table.documents,
            "episodes": episode_documents,
        },
        tables=(table,),
    )


def _row_document(request: ViewRequest, row_and_page: Row | None) -> dict[str, object] | None:
    """Return the instance as JSON gives it; `None` if the caller sees it neither running nor
    stopped."""
    if row_and_page is None:
        return None
    row, _ = row_and_page
    return figures.document(request, row)


def _find_closed(request: ViewRequest, stops: Sequence[Stop]) -> Row | None:
    """Return the instance of the page if it is stopped or terminated: as the last sweep and the
    ledger say, or by the last of its `stops`. Return `None` if it is neither, as far as is known.
    Raises: CloudError."""
    for row, page in (*request.stopped, *request.current_fleet.terminated_lately):
        if _is_at(request, row):
            return row, page
    if stops:
        newest, _ = stops[0]
        if is_terminated(newest):
            return request.current_fleet.row_of(newest)
    return None


def _is_recorded(request: ViewRequest) -> bool:
    """Return whether the query names a stored episode of the page's instance that the caller may
    see. Raises: InputError if the query's is no name of an episode; CloudError."""
    name = addresses.text_of(request, "episode")
    if not name:
        return False
    ref = _ref_of(name)
    if not _is_at(request, ref):
        return False
    episode = request.reader.episode_store.episode(ref)
    return episode is not None and request.scope.sees(ref.account, episode.project, episode.owner)


def _costs_before(entry: LedgerEntry) -> _CostsBefore | None:
    """Return what a day cost before the action of this entry: the instance at the price that all
    pages give, and its storage beside it. Return `None` if the price is not known."""
    price = price_while_running(entry)
    whole = entry.cost_before_usd_per_hour
    if price is None or whole is None:
        return None
    return _CostsBefore(daily_cost(price), daily_cost(whole - price))


def _kept_for(request: ViewRequest, startable: Episode | None) -> timedelta:
    """Return for how long nobody is asked about the stopped instance once it is started again, by
    its policy; by the policy without overrides if there is none."""
    instance = None if startable is None else startable.instance
    policy = policy_or_base(request.reader.policies, instance)
    return timedelta(hours=policy.approval.keep_after_undo_hours)


def _present(request: ViewRequest, current_row: Row | None) -> _Present:
    """Return what the last sweep saw of the instance, and its health findings; empty if the caller
    does not see the instance now (`None`). Raises: CloudError."""
    if current_row is None:
        return _Present(None, None, [], None)
    row, page = current_row
    line = figures.line(request, row, page)
    health = _health(request, row, page)
    return _Present(line, line.row, health, _hours_chart(request, row, page))


def _name(current_row: Row | None, episodes: Sequence[Episode], instance_id: str) -> str:
    """Return the instance's name, or its id if no record holds a name."""
    if current_row is not None:
        row, _ = current_row
        return row.name
    if episodes:
        return episodes[0].instance.name
    return instance_id


def _health(request: ViewRequest, row: FleetRow, page: FleetPage) -> list[dict[str, object]]:
    """Return the health findings that people were notified of since the instance was launched: the
    kind, the GPUs and the advice of each; empty if there are none. Raises: CloudError."""
    sent_alerts = request.reader.finding_store.known_keys(page.target, request.now)
    gpus_by_kind = sent_findings(sent_alerts, row.instance_id, row.launched_at)
    findings: list[dict[str, object]] = []
    for kind, gpus in gpus_by_kind.items():
        findings.append({"kind": kind, "gpus": gpus, "advice": advice_on_kind(kind)})
    return findings


def _hold_values(request: ViewRequest, current_row: Row | None, hold: Hold) -> dict[str, object]:
    """Return the template's values about a keep or an exemption: the reason that may be shown,
    whether it has `ended` since the last sweep, and whether the caller may end it (`may_end`). For
    callers who do not see the instance now (`current_row` is `None`) these are `None`."""
    values: dict[str, object] = {"hold": hold, "key": hold_hash(hold)}
    if current_row is None:
        return {**values, "exempt_reason": None, "ended": None, "may_end": None}
    row, _ = current_row
    stands = hold.stands(request.now)
    values["exempt_reason"] = _shown_reason(request, row, hold)
    values["ended"] = not stands and _was_held(row, request.now)
    values["may_end"] = stands and _may_end(request, row, hold)
    return values


def _hours_chart(request: ViewRequest, row: FleetRow, page: FleetPage) -> charts.Chart:
    """Return the chart of the utilization in each of the 24 hours before the last sweep, with the
    policy's threshold of idleness, in the caller's time zone."""
    idle_below = request.reader.policy.idle.utilization_below_percent
    return charts.hourly(row.hours, page.swept_at, request.caller.zone, idle_below)


def _startable(
    request: ViewRequest, episodes: Sequence[Episode], current_row: Row | None
) -> Episode | None:
    """Return the first of these episodes whose instance is still stopped, as far as is known, and
    which the caller may start again; `None` if there is none. The last sweep may have seen a later
    launch (`current_row`) that the ledger does not have yet. Raises: CloudError."""
    for episode in episodes:
        if not _may_start(request, episode) or _was_launched_since(episode, current_row):
            continue
        after = request.reader.show.after_stop(episode)
        if can_be_started(episode, after):
            return episode
    return None


def _was_launched_since(episode: Episode, current_row: Row | None) -> bool:
    """Return whether the instance runs by the last sweep, by a later launch than that of the
    episode."""
    if current_row is None:
        return False
    row, _ = current_row
    return row.launched_at > episode.ref.launch_time


def end_hold(decide: Decide, request: ViewRequest) -> str:
    """End the keep or exemption that the page showed, as only admins may; return the path of the
    instance's page. Raises: InputError for another button; NotFound if the caller does not see the
    instance; NotAllowed if they are no admin of it; SignInTooOld; DecisionRefused if none stands,
    or another hold by now; CloudError."""
    account, region, instance_id = _PLACE(request.query)
    caller = request.caller
    current_row = _find_row(request)
    if current_row is None:
        raise NotFound(f"there is no instance {instance_id}")
    caller.require_fresh_sign_in(request.now)
    if request.query.get("answer") != "end-hold":
        raise InputError("choose the button of the page")
    row, _ = current_row
    may_end = partial(_may_end, request, row)
    shown_hold = request.query.get("hold", "")
    decide.end_hold(Target(account, region), instance_id, caller.by, shown_hold, may_end)
    return f"/instances/{account}/{region}/{instance_id}"


def _find_row(request: ViewRequest) -> Row | None:
    """Return the instance as it runs now; `None` if it does not, or the caller does not see it.
    Raises: CloudError."""
    for row, page in request.running:
        if _is_at(request, row):
            return row, page
    return None


def _may_end(request: ViewRequest, row: FleetRow, hold: Hold) -> bool:
    """Return whether the caller may end this hold: they are an admin of the instance's project now,
    and of its project when it was kept or exempted. Both count, because anybody who may set tags
    can move an instance to another project."""
    projects = {row.project}
    if hold.exempt_reason is not None:
        projects.add(hold.exempt_in or "")
    if hold.snoozed_until is not None and hold.snoozed_until > request.now:
        projects.add(hold.kept_in or "")
    return all(request.caller.rank(row.account, project, "") is Rank.ADMIN for project in projects)


def _was_held(row: FleetRow, now: UtcDatetime) -> bool:
    """Return whether the last sweep saw the instance kept, and its keep is not over, or exempted by
    somebody's decision."""
    was_kept = row.kept_until is not None and row.kept_until > now
    return was_kept or row.reason == EXEMPT_BY_DECISION


def _shown_reason(request: ViewRequest, row: FleetRow, hold: Hold) -> str | None:
    """Return the reason of the instance's exemption. Callers who do not see the project that it was
    exempted in get a sentence without the reason: a tag may have moved it since. Return `None` if
    it is not exempt."""
    if hold.exempt_reason is None:
        return None
    project = hold.exempt_in
    if project == row.project or request.scope.sees(row.account, project or "", ""):
        return hold.exemption_words
    return "by somebody of another project"


def _may_start(request: ViewRequest, episode: Episode) -> bool:
    """Return whether the caller may start the instance of an episode again: they are an approver of
    it, and its terms let them undo."""
    caller = request.caller
    return caller.is_approver(episode) and may_undo(episode.terms, caller.person)


def _stops(request: ViewRequest) -> list[Stop]:
    """Return the booked actions on the instance of the page since six weeks ago, or somewhat
    earlier, that the caller may see, the newest first. Entries of episodes that ended without an
    action are left out. Raises: CloudError."""
    entries = figures.ledger_in(request, request.now - _WEEKS + request.counts_for, request.now)
    stops: list[Stop] = []
    for entry in reversed(entries):
        if _is_at(request, entry.episode) and entry.outcome not in ENDED_WITHOUT_ACTION:
            saved_usd = saved_in(entry, entry.booked_at, request.now, request.counts_for)
            stops.append((entry, saved_usd))
    return stops


def _is_at(request: ViewRequest, place: FleetRow | EpisodeRef) -> bool:
    """Return whether the row or episode belongs to the instance of the page: same account, Region
    and id. The route of the page puts all three into the query."""
    return (place.account, place.region, place.instance_id) == _PLACE(request.query)


def _episodes(
    request: ViewRequest, current_row: Row | None, stops: Sequence[Stop], record: InstanceRecord
) -> Iterator[Episode]:
    """Yield up to two stored episodes of the page's instance that the caller may see. It also reads
    ahead those of the stops. Raises: InputError; CloudError."""
    refs = _episode_refs(request, current_row, stops, record)
    refs_of_stops = [entry.episode for entry, _ in stops[: instance_strip.STOPS_DRAWN]]
    request.reader.table.read_ahead([*map(keys.episode, {*refs, *refs_of_stops})])
    for ref in refs:
        if not _is_at(request, ref):
            continue
        episode = request.reader.episode_store.episode(ref)
        if episode is not None and request.scope.sees(ref.account, episode.project, episode.owner):
            yield episode


def _episode_refs(
    request: ViewRequest, current_row: Row | None, stops: Sequence[Stop], record: InstanceRecord
) -> list[EpisodeRef]:
    """Return the names of at most two episodes for the page, the first two of: the one that the
    query names, the open one, the last one since the launch, and that of the last stop. Raises:
    InputError if the query's is no name of an episode."""
    names = [addresses.text_of(request, "episode")]
    if current_row is not None:
        row, _ = current_row
        names.append(row.episode or "")
        if record.episodes:
            names.append(record.last_episode(row.launched_at).execution_name)
    if stops:
        newest, _ = stops[0]
        names.append(newest.episode.execution_name)
    distinct_names = list(dict.fromkeys(name for name in names if name))
    return [_ref_of(name) for name in distinct_names[:2]]


def _ref_of(name: str) -> EpisodeRef:
    """Return the episode with this name. Raises: InputError if it is no name of one."""
    try:
        return episode_from_execution_name(name)
    except ValueError:
        raise InputError("episode is not the name of one: follow a link of this page") from None


def _cells(stop: Stop) -> tuple[object, ...]:
    """Return the cells of one stop, in the order of `_COLUMNS`; `None` for a cell that is not
    known."""
    entry, saved_usd = stop
    return (
        entry.episode.execution_name,
        entry.outcome.value,
        entry.booked_at,
        entry.ended_at,
        entry.false_stop,
        entry.saved_usd_per_hour,
        saved_usd,
        entry.first_booked_at,
    )


def _episode_document(episode: Episode, approval: Approval | None) -> Mapping[str, object]:
    """Return an episode as JSON, with who answered and what if `approval` is that of this episode;
    else `None` in these fields."""
    answer = None
    answered_by = None
    is_its_answer = approval is not None and approval.episode == episode.ref
    if approval is not None and is_its_answer and approval.decision is not None:
        answer = approval.decision.answer.value
        answered_by = people(approval.decision.by)
    return {
        "episode": episode.ref.execution_name,
        "opened_at": episode.opened_at,
        "reason": episode.reason,
        "outcome": episode.outcome.value if episode.outcome else None,
        "closed_at": None if episode.ending is None else episode.ending.at,
        "answer": answer,
        "by": answered_by,
        "steps_done": dict(episode.progress.steps_done),
    }
