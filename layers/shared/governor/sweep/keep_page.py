"""Stores the results of a sweep as the rows of its target in the console.

The page is a read model: no decision may use it, and a sweep goes on if the page cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.rules.approval import acts_soon
from governor.approvals.rules.stages import times_of
from governor.approvals.store.approvals import Approvals
from governor.core.instance import Instance
from governor.core.managers import managed_by
from governor.core.units import UtcDatetime, clip, in_utc, not_none, plural, printable, sentence
from governor.episode.model.episode import Episode, Outcome
from governor.episode.rules.plan import why_left_alone
from governor.fleet.model import (
    HOURS,
    NOT_MEASURED,
    REASON_CHARACTERS,
    STOPPED,
    UNGOVERNED,
    FleetPage,
    FleetRow,
    Hours,
    hours_of,
)
from governor.fleet.store import Fleet
from governor.limits.rules.breaker import HOUR, hour_of
from governor.money.rules.closed import stopped_rows
from governor.money.rules.cost import Rate
from governor.money.store.ledger import Ledger
from governor.policy.model.acting import Action
from governor.policy.model.policy import Policy
from governor.sweep.kept_because import Keep, SweptInstance, why_kept, why_kept_by_people
from governor.sweep.sweep_case import Case, OpenEpisode, RunningInstance, Sweep
from governor.sweep.undescribed import row_of_undescribed
from governor.verdict.model import Hold

_CREATORS = 10
"""Creators looked up in an hour, first for the most expensive instances."""
_KEPT_BY_CHARACTERS = 80


def keep_page(
    approval_store: Approvals,
    fleet_store: Fleet,
    ledger_store: Ledger,
    sweep: Sweep,
    open_episodes: Mapping[str, OpenEpisode],
    rates: Mapping[str, Rate],
    list_ungoverned: Callable[[], Sequence[tuple[Instance, Rate]]],
    find_creator: Callable[[str], str | None],
) -> None:
    """Store the page of the target in the console, in place of the previous one. Nothing is stored
    if a later sweep was first.

    Earlier hours of utilization and the ungoverned instances are carried over from the previous
    page; the latter are listed again once an hour, and not by the very first sweep. Instances that
    GPU Governor stopped are listed by the ledger. `open_episodes` and `rates` are by instance id.
    Raises: CloudError if the page cannot be read or written.
    """
    page = FleetPage(sweep.target.account, sweep.target.region, sweep.now, sweep.base.mode.value)
    previous_page = fleet_store.page(sweep.target) or page
    ungoverned = _Ungoverned(sweep, _ungoverned_rows(previous_page), list_ungoverned, find_creator)
    if _hours_passed(previous_page, sweep.now) > 0:
        ungoverned.refresh()
    rows = _governed_rows(approval_store, sweep, open_episodes, rates, previous_page)
    for row in ungoverned.rows:
        # An instance listed in an earlier hour may carry the selector's tag by now.
        is_governed_now = row.instance_id in rates
        if not is_governed_now:
            rows.append(row)
    rows += _stopped_rows(ledger_store, sweep, previous_page)
    problem = None
    failed_count = len(sweep.summary.problems)
    if failed_count:
        steps = plural(failed_count, "step")
        problem = f"{steps} of the last sweep failed; the next sweep tries again."
    fleet_store.keep_page(replace(page, problem=problem, rows=tuple(rows)))


def _ungoverned_rows(page: FleetPage) -> list[FleetRow]:
    """Return the rows of instances that the policy's selector leaves out; empty if there are
    none."""
    return [row for row in page.rows if row.verdict == UNGOVERNED]


def _stopped_rows(ledger_store: Ledger, sweep: Sweep, previous_page: FleetPage) -> list[FleetRow]:
    """Return a row for each instance of the target that GPU Governor stopped and nobody has started
    since; empty if there is none.

    The ledger is read only if it may have such an instance. If it cannot be read, that becomes a
    problem of the sweep (see `sweep_case`), and the rows of the previous page are returned.
    """
    running_ids = sweep.running_ids
    if not _may_have_stopped_any(sweep, running_ids):
        return []
    read_open = partial(ledger_store.open_of, sweep.target)
    entries = sweep.attempt_read("instances that are stopped", read_open)
    if entries is not None:
        return stopped_rows(entries, running_ids)
    known_rows = []
    for row in previous_page.rows:
        if row.verdict == STOPPED and row.instance_id not in running_ids:
            known_rows.append(row)
    return known_rows


def _may_have_stopped_any(sweep: Sweep, running_ids: Collection[str]) -> bool:
    """Return whether an episode of an instance that does not run has ended."""
    for instance_id, record in sweep.records.items():
        if instance_id not in running_ids and record.last_outcome is not None:
            return True
    return False


def _hours_passed(previous_page: FleetPage, now: UtcDatetime) -> int:
    """Return how many hours (UTC) have begun since the previous page: 0 within one hour, and at
    most 24, as many as a page shows."""
    passed = (hour_of(now) - hour_of(previous_page.swept_at)) // HOUR
    return max(0, min(passed, HOURS))


@dataclass(slots=True)
class _Ungoverned:
    """The rows of instances that the policy's selector leaves out. They are only shown. A refresh
    changes `rows`."""

    sweep: Sweep
    rows: list[FleetRow]
    list_instances: Callable[[], Sequence[tuple[Instance, Rate]]]
    find_creator: Callable[[str], str | None]

    def refresh(self) -> None:
        """Replace the rows by those of the instances that run now, and look up who created some of
        them. A failure becomes a problem of the sweep; if the listing fails, the rows stay."""
        is_listed = self.sweep.attempt("what is not governed", self._list_again)
        if is_listed:
            self.sweep.attempt("who created what is not governed", self._look_up_creators)

    def _list_again(self) -> None:
        """Replace the rows, the most expensive first. Known creators are kept.

        Raises: CloudError if the instances cannot be listed.
        """
        sweep = self.sweep
        reason = f"Set the tag {sweep.base.selector} to have it governed."
        creators = {row.instance_id: row.created_by for row in self.rows}
        rows = []
        for instance, rate in self.list_instances():
            row = _basic_row(instance, sweep.base, rate, UNGOVERNED, reason)
            rows.append(replace(row, created_by=creators.get(row.instance_id)))
        self.rows = sorted(rows, key=_by_price)

    def _look_up_creators(self) -> None:
        """Ask CloudTrail for the creators of the first `_CREATORS` rows that have none, and note
        them in the rows; an empty text if CloudTrail does not know the creator.

        Only a few, because CloudTrail allows two requests a second. Instances younger than an hour
        wait, as CloudTrail may show a launch 15 minutes late. Raises: CloudError; the creators
        found before stay.
        """
        looked_up = 0
        for position, row in enumerate(self.rows):
            is_new = self.sweep.now - row.launched_at <= HOUR
            if row.created_by is not None or is_new:
                continue
            if looked_up == _CREATORS:
                return
            creator = self.find_creator(row.instance_id)
            self.rows[position] = replace(row, created_by=creator or "")
            looked_up += 1


def _governed_rows(
    approval_store: Approvals,
    sweep: Sweep,
    open_episodes: Mapping[str, OpenEpisode],
    rates: Mapping[str, Rate],
    previous_page: FleetPage,
) -> list[FleetRow]:
    """Return a row for each instance of the sweep, in its order; those that EC2 does not describe
    come last.

    Episodes that ended since the previous sweep, and new answers that keep an instance, are read
    first. If that fails, it becomes a problem of the sweep, and the rows may show a later start of
    the idleness, or not the person.
    """
    previous_rows = {row.instance_id: row for row in previous_page.rows}
    read_ended = partial(
        _read_ended_episodes, approval_store, sweep.cases, open_episodes, previous_rows
    )
    ended_episodes = sweep.attempt_read("episodes that are over", read_ended) or {}
    read_keepers = partial(_keepers, approval_store, sweep.running, rates, previous_rows)
    keepers = sweep.attempt_read("who keeps instances", read_keepers) or {}
    hours_passed = _hours_passed(previous_page, sweep.now)
    rows = []
    for case in sweep.cases:
        previous_row = previous_rows.get(case.id)
        open_episode = open_episodes.get(case.id)
        episode = ended_episodes.get(case.id) if open_episode is None else open_episode.episode
        row = replace(
            _governed_row(case, open_episode, rates[case.id]),
            hours=_hours(case, previous_row, hours_passed),
            idle_since=_idle_since(case, episode, previous_row, previous_page.swept_at),
        )
        swept = SweptInstance(case, row, sweep.base, keepers.get(case.id, ""))
        rows.append(_with_reason(row, why_kept(swept)))
    for undescribed in sweep.undescribed:
        rate = rates[undescribed.id]
        previous_row = previous_rows.get(undescribed.id)
        row = row_of_undescribed(undescribed, rate, previous_row, hours_passed)
        row = _with_record(row, undescribed, open_episodes.get(undescribed.id))
        keep_by = keepers.get(undescribed.id, "")
        rows.append(_with_reason(row, why_kept_by_people(undescribed.record.hold, row, keep_by)))
    return rows


def _with_reason(row: FleetRow, keep: Keep | None) -> FleetRow:
    """Return the row with the reason why the instance stays, if there is one."""
    if keep is None:
        return row
    return replace(
        row,
        kept_because=keep.reason.value,
        kept_by=printable(clip(keep.by, _KEPT_BY_CHARACTERS)),
        stays_until=keep.until,
    )


def _keepers(
    approval_store: Approvals,
    instances: Sequence[RunningInstance],
    rates: Mapping[str, Rate],
    previous_rows: Mapping[str, FleetRow],
) -> dict[str, str]:
    """Return, by instance id, the person whose answer keeps the instance. Left out are instances
    that nobody keeps, or whose person is not known; and keeps of another project, because only
    people who could see the instance there may read who kept it.

    Each answer is read once, by one read for all new ones, and then carried over from row to row.
    Raises: CloudError.
    """
    keepers: dict[str, str] = {}
    question_by_instance: dict[str, str] = {}
    for instance in instances:
        hold = instance.record.hold
        if _kept_until(instance) is None:
            continue
        if hold.kept_in != rates[instance.id].key.project:
            continue
        known_keeper = hold.own_keeper or _keeper_before(hold, previous_rows.get(instance.id))
        if known_keeper:
            keepers[instance.id] = known_keeper
        elif hold.kept_by is not None:
            question_by_instance[instance.id] = hold.kept_by
    people = approval_store.keepers([*question_by_instance.values()])
    for instance_id, approval_id in question_by_instance.items():
        if approval_id in people:
            keepers[instance_id] = people[approval_id]
    return keepers


def _keeper_before(hold: Hold, previous_row: FleetRow | None) -> str:
    """Return the person who keeps the instance by the previous row; empty if there is no such row,
    or it has another keep, or none, or does not know the person."""
    if previous_row is None or previous_row.stays_until != hold.snoozed_until:
        return ""
    return previous_row.kept_by


def _governed_row(case: Case, open_episode: OpenEpisode | None, rate: Rate) -> FleetRow:
    """Return the row of an instance, without its `hours` and `idle_since`, for which the previous
    page is needed. `open_episode` is `None` if the instance has none."""
    row = replace(
        _basic_row(case.instance, case.policy, rate, case.verdict.kind.value, _reason(case)),
        exempt=case.policy.exemption.similar_tag_on(case.instance) is not None,
        is_reported=_is_reported(case, open_episode),
        advice=case.verdict.advice,
        idle_parts=case.verdict.idle_parts,
    )
    return _with_record(row, case.listed, open_episode)


def _with_record(
    row: FleetRow, instance: RunningInstance, open_episode: OpenEpisode | None
) -> FleetRow:
    """Return the row with what the state table has of the instance: its exemption, keep, quiet
    times and open episode, which is `None` if it has none."""
    row = replace(
        row,
        kept_until=_kept_until(instance),
        exempt=row.exempt or instance.record.hold.exempt_reason is not None,
        quiet_until=_quiet_until(instance),
        restarts_quiet_until=_restarts_quiet_until(instance),
    )
    if open_episode is None:
        return row
    return _with_open_episode(row, open_episode, instance.now)


def _by_price(row: FleetRow) -> Decimal:
    """Return the key by which rows are sorted: the most expensive an hour first, those without a
    known price last."""
    return -(row.usd_per_hour or Decimal(0))


def _read_ended_episodes(
    approval_store: Approvals,
    cases: Sequence[Case],
    open_episodes: Mapping[str, OpenEpisode],
    previous_rows: Mapping[str, FleetRow],
) -> dict[str, Episode]:
    """Read the episodes that began and ended between two sweeps, as all do in mode `observe`, and
    return them by instance id; empty if there are none.

    Each is read once, by the first sweep after its end. Raises: CloudError.
    """
    # After such an episode the instance is quiet, and was not in its previous row.
    refs = []
    for case in cases:
        previous_row = previous_rows.get(case.id)
        was_quiet = previous_row is not None and previous_row.quiet_until is not None
        if case.listed.is_quiet and case.id not in open_episodes and not was_quiet:
            refs.append(case.record.last_episode(case.instance.launch_time))
    if not refs:
        return {}
    episode_by_id: dict[str, Episode] = {}
    for ref, (episode, _) in approval_store.open_questions(refs).items():
        episode_by_id[ref.instance_id] = episode
    return episode_by_id


def _basic_row(
    instance: Instance, policy: Policy, rate: Rate, verdict: str, reason: str
) -> FleetRow:
    """Return the row of an instance with what EC2, its `rate` and its verdict say; the other fields
    have their defaults. `verdict` is the value of a `VerdictKind`, or `UNGOVERNED`. A long `reason`
    is cut."""
    owner, project = rate.whose
    manager = managed_by(instance, policy.managed.tag_keys)
    return FleetRow(
        instance_id=instance.instance_id,
        name=instance.name,
        account=instance.target.account,
        region=instance.target.region,
        instance_type=instance.instance_type,
        owner=owner,
        project=project,
        verdict=verdict,
        reason=clip(reason, REASON_CHARACTERS),
        usd_per_hour=rate.usd_per_hour,
        launched_at=instance.launch_time,
        managed_by=None if manager is None else manager.service,
    )


def _with_open_episode(row: FleetRow, open_episode: OpenEpisode, now: UtcDatetime) -> FleetRow:
    """Return the row with the name and the action of its open episode; with the id of its question
    while that is pending, or can be held because nobody answered, and what silence does; and, once
    the question was sent, with its time and with the deadline that people were given."""
    episode = open_episode.episode
    verb = episode.final_step.value if episode.plan.steps else None
    row = replace(row, episode=episode.ref.execution_name, verb=verb)
    question = open_episode.question
    if question is None:
        return row
    is_pending = question.status is ApprovalStatus.PENDING
    if not is_pending and not acts_soon(episode, question, now):
        return row
    row = replace(
        row,
        approval_id=question.approval_id,
        acts_on_silence=episode.asking.acts_on_silence,
    )
    is_sent = question.stage is not None
    if not is_sent:
        return row
    times = times_of(episode, question)
    asked_at = None if times is None else times.ask_at
    return replace(row, asked_at=asked_at, expires_at=question.deadline)


def _reason(case: Case) -> str:
    """Return the reason of the verdict. Of an exemption, the text that somebody wrote is left out:
    only people who could see the instance then may read it.

    For an idle instance that others start again after each stop, a sentence comes first that says
    until when nobody is asked.
    """
    quiet_until = _restarts_quiet_until(case.listed)
    if case.is_idle and quiet_until is not None:
        quiet = (
            "Others started it again after GPU Governor's stops, so nobody is asked about it until "
            f"{in_utc(quiet_until)}."
        )
        return f"{quiet} {sentence(case.verdict.reason)}"
    return case.verdict.public_reason


def _quiet_until(instance: RunningInstance) -> UtcDatetime | None:
    """Return until when nobody is asked about the instance, because of an earlier answer, expiry or
    failure, or because others start it again; `None` if people may be asked now."""
    if not instance.is_quiet:
        return None
    times = (_restarts_quiet_until(instance), instance.record.quiet_until)
    return max(not_none(times), default=None)


def _restarts_quiet_until(instance: RunningInstance) -> UtcDatetime | None:
    """Return until when nobody is asked because others start the instance again after each stop;
    `None` if that is not the case now."""
    if not instance.record.is_quiet_after_restarts(instance.now):
        return None
    return instance.record.restarts_quiet_until


def _kept_until(instance: RunningInstance) -> UtcDatetime | None:
    """Return until when an answer keeps the instance from questions and actions; `None` if no
    answer does now."""
    snoozed_until = instance.record.hold.snoozed_until
    if snoozed_until is None or snoozed_until <= instance.now:
        return None
    return snoozed_until


def _is_reported(case: Case, open_episode: OpenEpisode | None) -> bool:
    """Return whether the idleness of the instance is only reported, so that no action follows.

    The plan of its open episode decides. Without one: whether the last episode only reported and
    nobody is asked again yet, the policy only notifies, another service runs the instance, or a
    stop saves nothing.
    """
    if open_episode is not None:
        return not open_episode.episode.plan.steps
    if case.listed.is_quiet and case.record.last_outcome is Outcome.TOLD:
        return True
    policy = case.policy
    if policy.plan.action is Action.NOTIFY_ONLY:
        return True
    return why_left_alone(case.instance, policy.managed.tag_keys) is not None


def _hours(case: Case, previous_row: FleetRow | None, hours_passed: int) -> Hours:
    """Return the highest utilization in each of the last 24 hours: that of the previous row (`None`
    if the instance had none), moved on by `hours_passed`, with this sweep's readings. An hour
    without a reading is `None`."""
    evidence = []
    if case.gathered is not None:
        evidence.append(case.gathered.evidence)
    if case.proof is not None and case.proof.evidence is not None:
        evidence.append(case.proof.evidence)
    hours = NOT_MEASURED if previous_row is None else previous_row.hours
    return hours_of(hours, hours_passed, evidence, case.listed.now)


def _idle_since(
    case: Case,
    episode: Episode | None,
    previous_row: FleetRow | None,
    swept_at: UtcDatetime,
) -> UtcDatetime | None:
    """Return since when the instance is idle; `None` if it is not, or that is not known.

    `episode` is its open episode, or one that ended since the previous sweep. It covers a longer
    window than a sweep, so it may know an earlier start, which the rows of later sweeps keep.
    `swept_at` is the time of the previous page.
    """
    since = case.idle_since
    if since is None:
        return None
    earliest = since
    if episode is not None and since <= episode.opened_at:
        idle_span = episode.idle
        if idle_span is not None:
            earliest = min(earliest, idle_span.since)
    row_since = None if previous_row is None else previous_row.idle_since
    if row_since is not None and _is_same_idleness(case, since, swept_at):
        earliest = min(earliest, row_since)
    return earliest


def _is_same_idleness(case: Case, since: UtcDatetime, swept_at: UtcDatetime) -> bool:
    """Return whether the idleness that began at `since` by this sweep is the one that the previous
    sweep (`swept_at`) saw, without a break between the two."""
    idle_before = case.previous.idle_since
    evidence = case.verdict.evidence
    if evidence is not None and case.proof is None and since == evidence.window.start:
        # After a change of the policy, a sweep knows only its own window.
        idle_before = swept_at - case.policy.lag - case.policy.period
    return idle_before is not None and since <= idle_before
