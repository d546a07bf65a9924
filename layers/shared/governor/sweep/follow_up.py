"""Starts, watches and repairs the episodes (workflows) of a sweep's instances.

Each instance is followed up by an attempt of its own: what fails for one never holds up the others.
This module must not stop or terminate anything; only the workflow does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple, assert_never

from governor.approvals.deliver_decision import hand_over
from governor.approvals.model.approval import Approval
from governor.approvals.rules.sealing import ASKED_BEFORE, ended_unsealed, is_opening_sealed
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, InstanceRecord, Outcome, Phase
from governor.episode.ports import Workflow
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.limits.rules.breaker import turned_in_sweep
from governor.money.book_saving import ContinueSaving, SettleRestart, settle_replaced
from governor.money.model.ledger import LedgerEntry
from governor.money.store.ledger import Ledger
from governor.policy.ports import PolicyVariants, policy_or_base
from governor.policy.rules.owners import owner_of
from governor.remediation.close_dead import CloseDead
from governor.remediation.follow_start import FollowStart
from governor.remediation.void_episode import VoidEpisode
from governor.sweep.sweep_case import SETTLED_AFTER, Case, OpenEpisode, Sweep
from governor.verdict.model import WORKING, Family

_REPAIR_AFTER = timedelta(hours=1)
"""An episode whose phase is this old is checked for a workflow that died."""
_NOTIFY_LATE_AFTER = timedelta(minutes=10)
"""If nobody was notified of an outcome this long after its episode was closed, the workflow no
longer tries: the sweep notifies instead."""
_UNANSWERED = (Outcome.VOID, Outcome.FAILED)
"""Outcomes of questions that ended without an answer. Among them are questions that an update of
GPU Governor ended: those are asked again."""

_Step = tuple[str, Callable[[], object]]
"""An instance id, and an effect for this instance."""


class _Stored(NamedTuple):
    """An episode as the state table has it, with its question: `None` if the episode asks nobody,
    or its question cannot be read."""

    episode: Episode
    question: Approval | None


class _Ending(NamedTuple):
    """Why an open question needs no answer any more, and the outcome of its episode."""

    reason: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Episodes:
    """The open episodes of one sweep."""

    stored: Mapping[EpisodeRef, _Stored]
    """The episodes that one batch of reads found, with their questions. An episode missing here is
    read alone."""
    still_open: dict[str, OpenEpisode] = field(default_factory=dict)
    """The episodes of listed instances that go on after this sweep, by instance id."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Starts, ends and repairs episodes. A step that fails becomes a problem of the sweep."""

    policies: PolicyVariants
    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    ledger_store: Ledger
    workflow: Workflow
    void: VoidEpisode
    close_dead: CloseDead
    instances: InstanceReader
    follow_start: FollowStart

    def __call__(self, sweep: Sweep) -> Mapping[str, OpenEpisode]:
        """End, repair and start the episodes of all instances, listed in this sweep or not.

        Return the episodes of listed instances that stay open, by instance id, without those that
        this sweep starts; empty if there are none. A step that fails becomes a problem of the
        sweep.
        """
        open_refs = []
        for record in sweep.records.values():
            if record.open_episode is not None:
                open_refs.append(record.open_episode)
        read_open = partial(self._read_open, open_refs)
        episodes = _Episodes(sweep.attempt_read("open episodes", read_open) or {})

        steps_for_listed = self._steps_for_listed(sweep, episodes)
        steps_for_records = self._steps_for_records(sweep, episodes)
        sweep.attempt_each([*steps_for_listed, *steps_for_records])
        sweep.attempt("savings that others replace", self._settle_replaced, sweep)
        self._start_questions(sweep)
        return episodes.still_open

    def _read_open(self, refs: Sequence[EpisodeRef]) -> dict[EpisodeRef, _Stored]:
        """Return the episodes that can be read, with their questions. Raises: CloudError."""
        stored = {}
        for ref, (episode, question) in self.approval_store.open_questions(refs).items():
            stored[ref] = _Stored(episode, question)
        return stored

    def _start_questions(self, sweep: Sweep) -> None:
        """Start the workflow of an episode for each idle or stopped instance about which a question
        is due, and count them in the summary. A failure becomes a problem of the sweep."""
        refs = []
        for case in sweep.cases:
            if _must_ask(case):
                refs.append(_next_question(case.record, case.instance.launch_time))
        read_stopped = partial(self._questions_about_stopped, sweep)
        refs += sweep.attempt_read("instances that stay stopped", read_stopped) or []
        starts = [(ref.instance_id, partial(self._start_episode, ref, sweep.now)) for ref in refs]
        sweep.summary.episodes_started += sum(sweep.attempt_each(starts))

    def _steps_for_listed(self, sweep: Sweep, episodes: _Episodes) -> Iterator[_Step]:
        """Yield the steps for instances that this sweep lists, except the start of questions.

        An open episode is ended or repaired; an instance that works again may be asked about again;
        and savings of an earlier stop are ended. Yield nothing where none of that is due. An
        instance that EC2 does not describe may work or be idle, so its question stays open.
        """
        for case in sweep.cases:
            record = case.record
            works_again = case.verdict.kind in WORKING and record.quiet_until is not None
            ref = record.open_episode
            if ref is not None:
                ending = _ending_of(case, ref, episodes.stored.get(ref))
                yield case.id, partial(self._void_or_repair, sweep, ref, ending, episodes)
            elif works_again:
                clear = partial(self.instance_store.clear_quiet, case.instance.target, case.id)
                yield case.id, clear
            if self._is_ledger_check_due(sweep, case):
                yield case.id, partial(self._settle_restart, sweep, case)
        for undescribed in sweep.undescribed:
            ref = undescribed.record.open_episode
            if ref is not None:
                ending = _ending_without_seal(episodes.stored.get(ref))
                yield undescribed.id, partial(self._void_or_repair, sweep, ref, ending, episodes)

    def _steps_for_records(self, sweep: Sweep, episodes: _Episodes) -> Iterator[_Step]:
        """Yield the steps that the records of instances, listed by this sweep or not, call for: a
        late notification, the end of a question about an instance that is not listed, and the
        deletion of an old warning. Yield nothing where none of that is due."""
        running_ids = sweep.running_ids
        for instance_id, record in sweep.records.items():
            if record.untold is not None:
                yield instance_id, partial(self._notify_late, record.untold, sweep.now)
            if record.starting is not None:
                yield instance_id, partial(self._follow_start, sweep, record.starting)
            if instance_id not in running_ids and record.open_episode is not None:
                end = partial(self._end_unlisted, sweep, record.open_episode, episodes)
                yield instance_id, end
            elif record.holds_an_old_warning_alone(sweep.now):
                drop = partial(
                    self.instance_store.drop_warning, record.target, instance_id, sweep.now
                )
                yield instance_id, drop

    def _is_ledger_check_due(self, sweep: Sweep, case: Case) -> bool:
        """Return whether to look for open savings of an earlier stop, as the instance runs again.
        Return false if no earlier episode of it has ended.

        The check is due when a sweep first sees this run of the instance, and then once an hour for
        three days after the start.
        """
        was_started_lately = sweep.now - case.instance.launch_time < SETTLED_AFTER
        # Any earlier outcome counts: a stop may have come before it.
        if case.record.last_outcome is None or not was_started_lately:
            return False
        return case.listed.is_first_sight or sweep.is_hourly_check_due(case.id)

    @property
    def _settle(self) -> SettleRestart:
        """Return what ends the open savings of an instance that was started."""
        return SettleRestart(self.ledger_store, self.episode_store, self.instance_store)

    def _settle_restart(self, sweep: Sweep, case: Case) -> None:
        """End the open savings of an instance that runs again; do nothing if it has none.

        The event of its start should have done so. That event may be lost, or may have come before
        the saving was booked. Raises: CloudError.
        """
        instance = case.instance
        false_within = timedelta(minutes=sweep.base.ledger.false_stop_within_minutes)
        entries = self.ledger_store.open_entries(instance.target, instance.instance_id)
        self._settle(entries, instance.launch_time, false_within, sweep.now)

    def _settle_replaced(self, sweep: Sweep) -> None:
        """End the saving of a stopped instance for each instance that is new in this sweep and may
        replace it: one of the same owner, project and type, in any Region of the policy.

        Do nothing if no instance is new. Raises: CloudError.
        """
        started = []
        for case in sweep.cases:
            is_new = case.listed.is_first_sight and case.record.last_outcome is None
            if is_new and sweep.now - case.instance.launch_time < SETTLED_AFTER:
                owner = owner_of(case.instance, case.policy.ownership)
                started.append((case.instance, owner))
        if started:
            regions = dict.fromkeys((sweep.target.region, *sweep.base.targets.regions))
            targets = [replace(sweep.target, region=region) for region in regions]
            settle_replaced(self.ledger_store, targets, started, sweep.now)

    def _questions_about_stopped(self, sweep: Sweep) -> list[EpisodeRef]:
        """Return the next episode of each instance that an earlier episode stopped, if a question
        whether to terminate it is due.

        Return an empty list if none is due, during a freeze, and between two hourly checks. Raises:
        CloudError.
        """
        running_ids = sweep.running_ids
        if sweep.summary.frozen or not self._may_ask_about_stopped(sweep, running_ids):
            return []
        if not sweep.is_hourly_check_due("stopped"):
            return []
        savings = {entry.episode: entry for entry in self.ledger_store.open_of(sweep.target)}
        records = _askable_records(sweep, savings, running_ids)
        questions = []
        for ref, (episode, _) in self.approval_store.open_questions([*records]).items():
            record = records[ref]
            stopped_for = sweep.now - savings[ref].booked_at
            if self._is_question_due(episode, stopped_for) or _must_repeat(record, episode):
                questions.append(_next_question(record, ref.launch_time))
        return questions

    def _may_ask_about_stopped(self, sweep: Sweep, running_ids: Collection[str]) -> bool:
        """Return whether a question about a stopped instance is possible at all, before anything is
        read.

        It is if the policy asks about stopped instances. It also is if a question about an unlisted
        instance may have ended because it had no seal: that one is asked again in any case.
        """
        if any(policy.approval.ask_about_stopped_after_days for policy in self.policies.variants):
            return True
        for instance_id, record in sweep.records.items():
            if instance_id not in running_ids and record.last_outcome in _UNANSWERED:
                return True
        return False

    def _is_question_due(self, episode: Episode, stopped_for: timedelta) -> bool:
        """Return whether the instance has been stopped for as long as its policy waits before it
        asks about termination. Return false if the policy never asks that."""
        policy = policy_or_base(self.policies, episode.instance)
        days = policy.approval.ask_about_stopped_after_days
        return days is not None and stopped_for >= timedelta(days=days)

    def _start_episode(self, ref: EpisodeRef, now: UtcDatetime) -> None:
        """Start the workflow of an episode. If its name is used up, close the episode as failed.

        Raises: ConflictError if an episode to close keeps changing; CloudError.
        """
        if self.workflow.start(ref):
            return
        # An execution of this name has ended without opening its episode. Step Functions refuses
        # the name for 90 days, so this episode is closed: the next sweep starts the next number.
        if self.episode_store.take_lock(ref):
            why = "its execution had ended before the episode was opened"
            self.episode_store.close_episode(ref, Outcome.FAILED, why, now, quiet_until=None)

    def _void_or_repair(
        self, sweep: Sweep, ref: EpisodeRef, ending: _Ending | None, episodes: _Episodes
    ) -> None:
        """Void the question about a listed instance if it needs no answer any more: `ending` says
        why, and is `None` if it stays open. Then close the episode if its workflow died, or hand
        its workflow the answer.

        Add the episode to `episodes.still_open` if it stays open. Raises: ConflictError;
        ConfigurationError; CloudError.
        """
        stored = episodes.stored.get(ref)
        if ending is not None and self.void(ref, ending.reason, ending.outcome):
            # The episode has changed: `_repair` must read it again.
            stored = None
        still_open = self._repair(sweep, ref, stored)
        if still_open is not None:
            episodes.still_open[ref.instance_id] = still_open

    def _end_unlisted(self, sweep: Sweep, ref: EpisodeRef, episodes: _Episodes) -> None:
        """Void the question about an instance that no longer runs or has lost the tag of the
        selector. Then close the episode if its workflow died, or hand its workflow the answer.

        A question about an instance that an earlier episode stopped stays open, unless a release
        without seals asked it. An episode that acts already is not voided. Raises: ConflictError;
        ConfigurationError; CloudError.
        """
        stored = episodes.stored.get(ref)
        episode = self.episode_store.episode(ref) if stored is None else stored.episode
        why: str | None = "the instance no longer runs, or has lost its tag"
        if episode is not None and episode.stopped_by_episode is not None:
            why = ASKED_BEFORE if _was_asked_before_seals(stored) else None
        if why is not None and self.void(ref, why, Outcome.VOID):
            # The episode has changed: `_repair` must read it again.
            stored = None
        self._repair(sweep, ref, stored)

    def _notify_late(self, ref: EpisodeRef, now: UtcDatetime) -> None:
        """Notify people of the outcome of a closed episode that its workflow could not send. An
        episode without a recorded end is closed as failed first.

        Do nothing while the workflow may still try, or if people were notified. Raises:
        ConflictError; ConfigurationError; CloudError.
        """
        episode = self.episode_store.episode(ref)
        ending = None if episode is None else episode.ending
        if ending is None or now - ending.at >= _NOTIFY_LATE_AFTER:
            self.close_dead(ref, "nobody was notified of its outcome")

    def _follow_start(self, sweep: Sweep, ref: EpisodeRef) -> None:
        """Record what became of a start that EC2 was asked for. If the instance ran and is stopped
        again, continue the saving of its stop once that is booked. Then follow the start no longer.

        Only record it while the start is open, the instance is still `stopping` or the stop is not
        booked: the next sweep looks again. If the episode does not exist, only stop following.
        Raises: ConflictError if the instance runs, but the stop of the episode was not noted;
        CloudError.
        """
        episode = self.episode_store.episode(ref)
        if episode is None:
            self.episode_store.end_following(ref)
            return
        instance = self.instances.describe(sweep.target, ref.instance_id)
        start_try = self.follow_start(episode, instance)
        if start_try is None or not start_try.ran_and_fell_back:
            return
        is_stopping = instance is not None and instance.state == "stopping"
        # An episode books its stop when it is closed. Only then the saving can end and go on.
        is_booked = episode.ending is not None
        if is_stopping or not is_booked:
            return  # The next sweep looks again.
        if instance is not None and instance.state == "stopped":
            go_on = ContinueSaving(self.ledger_store, self._settle)
            false_within = timedelta(minutes=sweep.base.ledger.false_stop_within_minutes)
            go_on(replace(episode, start_try=start_try), instance, false_within, sweep.now)
        # Somebody may have asked for a further start meanwhile: the next sweep looks at that.
        self.episode_store.end_following_try(ref, start_try)

    def _repair(self, sweep: Sweep, ref: EpisodeRef, stored: _Stored | None) -> OpenEpisode | None:
        """Close an episode whose workflow has died as failed, and notify people of that. If it asks
        and was answered, hand its workflow the answer.

        `stored` is the episode as it was read; if `None`, it is read here. Return the episode if it
        stays open, with its question if it asks; `None` if it was closed here, or is not saved yet.
        Raises: ConflictError if the episode keeps changing while it is closed; ConfigurationError
        without a role in its account; CloudError.
        """
        episode, question = stored or (self.episode_store.episode(ref), None)
        if self._is_dead(sweep, ref, episode):
            self.close_dead(
                ref, "its workflow ended without a result; nothing more is done for this episode"
            )
            return None
        if episode is None:
            return None
        if episode.phase is not Phase.ASKING:
            return OpenEpisode(episode, None)
        question = question or self.approval_store.approval(episode.approval_id)
        hand_over(self.episode_store, self.workflow, question)
        return OpenEpisode(episode, question)

    def _is_dead(self, sweep: Sweep, ref: EpisodeRef, episode: Episode | None) -> bool:
        """Return whether the workflow of an open episode has ended without closing it.

        An `episode` of `None` was locked, but is not saved yet. A saved episode is dead, too, if
        Step Functions does not know its execution. Return false if it changed within the last
        hour, or its hourly check is not due. Raises: CloudError.
        """
        if episode is None:
            # Its execution may have started moments ago, so an unknown one (`None`) is not dead.
            return self.workflow.is_running(ref) is False
        unchanged_for = sweep.now - (episode.phase_since or episode.opened_at)
        is_due = unchanged_for >= _REPAIR_AFTER and sweep.is_hourly_check_due(ref.execution_name)
        return is_due and not self.workflow.is_running(ref)


def _ending_of(case: Case, ref: EpisodeRef, stored: _Stored | None) -> _Ending | None:
    """Return why the open question of this episode needs no answer any more, and its outcome;
    `None` if the question stays open. `stored` is the episode with its question; `None` if they
    could not be read."""
    if case.instance.launch_time != ref.launch_time:
        return _Ending("the instance was restarted", Outcome.VOID)
    without_seal = _ending_without_seal(stored)
    if without_seal is not None:
        return without_seal
    family = case.verdict.kind.family
    match family:
        case Family.WORKING:
            return _Ending(f"work resumed: {case.verdict.reason}", Outcome.WOKE_UP)
        case Family.LEFT_ALONE:
            return _Ending(case.verdict.reason, Outcome.VOID)
        case Family.IDLE | Family.YOUNG | Family.UNKNOWN:
            return None
        case _:
            assert_never(family)


def _ending_without_seal(stored: _Stored | None) -> _Ending | None:
    """Return the end of an open question that an earlier release asked without a seal, whatever
    becomes of its instance; `None` if the question has a seal, or could not be read (`stored` is
    `None`)."""
    if _was_asked_before_seals(stored):
        return _Ending(ASKED_BEFORE, Outcome.VOID)
    return None


def _was_asked_before_seals(stored: _Stored | None) -> bool:
    """Return whether an earlier release, without seals, asked the open question: no answer to it
    would count. Return false if `stored` is `None`, as nothing was read then."""
    if stored is None:
        return False
    episode = stored.episode
    return episode.phase is Phase.ASKING and not is_opening_sealed(episode)


def _askable_records(
    sweep: Sweep, savings: Mapping[EpisodeRef, LedgerEntry], running_ids: Collection[str]
) -> dict[EpisodeRef, InstanceRecord]:
    """Return the records of stopped instances about which a question may start, by the episode that
    stopped them; empty if there are none. An instance that ran since its stop, and fell back, is
    left out.

    `savings` are the open ledger entries of the target, by their episode. `running_ids` are the
    instances that run.
    """
    # Nothing is asked about a terminated instance. Its saving stays open all the same.
    terminated_ids = set()
    for ref, entry in savings.items():
        if entry.outcome is Outcome.TERMINATED:
            terminated_ids.add(ref.instance_id)
    records = {}
    for ref, entry in savings.items():
        is_gone_or_runs = ref.instance_id in terminated_ids or ref.instance_id in running_ids
        record = sweep.records.get(ref.instance_id)
        if record is None or is_gone_or_runs or not entry.may_still_be_stopped:
            continue
        if entry.is_continuation:
            # A question belongs to the run that was stopped, and EC2 shows a newer one.
            continue
        if _may_be_asked(record, sweep.now) and not record.is_quiet(ref.launch_time, sweep.now):
            records[ref] = record
    return records


def _must_repeat(record: InstanceRecord, episode: Episode) -> bool:
    """Return whether to ask again, because the episode planned a termination and its question ended
    unanswered for lack of a seal. `record` is that of its instance."""
    if record.last_outcome not in _UNANSWERED:
        return False
    return ended_unsealed(episode) and episode.plan.destroys


def _next_question(record: InstanceRecord, launch_time: UtcDatetime) -> EpisodeRef:
    """Return the reference of the next episode of the instance, in the run that began at
    `launch_time`: the number of its last episode plus one."""
    return replace(record.last_episode(launch_time), number=record.episodes + 1)


def _may_be_asked(record: InstanceRecord, now: UtcDatetime) -> bool:
    """Return whether the record of the instance allows a new question: it has no open episode, EC2
    is not about to take it back, and people were notified of its last outcome."""
    if record.open_episode is not None:
        return False
    if record.is_warned(now):
        # EC2 is about to take the instance back, and its work is being saved.
        return False
    # People are notified of the last outcome first: the record has room for one.
    return record.untold is None


def _must_ask(case: Case) -> bool:
    """Return whether a question about this instance starts in this sweep: its record allows one, it
    is proved idle, no earlier outcome keeps it quiet (`quiet_until`), and it did not turn idle only
    now."""
    if not _may_be_asked(case.record, case.listed.now):
        return False
    if not case.is_idle or not case.is_proved or case.listed.is_quiet:
        return False
    # An instance that turned idle in this sweep waits for the next sweep. By then the breaker has
    # counted the instances of all targets that turned idle.
    return case.id not in turned_in_sweep([case.change]).counted_ids
