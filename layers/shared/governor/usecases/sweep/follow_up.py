"""Starts, watches and repairs the episodes of a sweep's instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import assert_never

from governor.domain.alerts.alert import owner_of
from governor.domain.approvals.approval import Approval
from governor.domain.approvals.sealing import ASKED_BEFORE, ended_unsealed, is_opening_sealed
from governor.domain.episode.episode import Episode, EpisodeRef, InstanceRecord, Outcome, Phase
from governor.domain.sweep.breaker import count_turned
from governor.domain.sweep.verdict import WORKING, Family
from governor.domain.units import UtcDatetime
from governor.ports import PolicyVariants, Workflow, policy_or_base
from governor.stores import StateTable
from governor.usecases.approvals.deliver_decision import hand_over
from governor.usecases.episode.end_episode import CloseDead, VoidEpisode
from governor.usecases.money.book_saving import settle_replaced, settle_restart
from governor.usecases.sweep.sweep_case import SETTLED_AFTER, Case, Sweep

_REPAIR_AFTER = timedelta(hours=1)
"""An episode that has stood still for so long is checked for a workflow that died."""
_TELL_AFTER = timedelta(minutes=10)
"""An outcome that was not announced by then will not be: the last try of its workflow is over."""


_UNANSWERED = (Outcome.VOID, Outcome.FAILED)
"""Nobody has decided: what an update has ended is asked again until somebody has, or the time is
over."""


_Known = Mapping[EpisodeRef, tuple[Episode, Approval | None]]
"""Open episodes with their questions, as one batch of reads found them."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """One attempt per instance: what fails for one never holds up the others."""

    policies: PolicyVariants
    state: StateTable
    workflow: Workflow
    void: VoidEpisode
    close_dead: CloseDead

    def __call__(self, sweep: Sweep) -> None:
        """Follow up every instance, and every open episode of those that are no longer listed."""
        known: dict[EpisodeRef, tuple[Episode, Approval | None]] = {}
        open_ones = [
            one.open_episode for one in sweep.records.values() if one.open_episode is not None
        ]
        # Whatever is missing here is read by itself.
        sweep.attempt("open episodes", lambda: known.update(self.state.open_questions(open_ones)))
        sweep.attempt_each(self._steps(sweep, known))
        sweep.attempt("savings that others replace", self._replaced, sweep)
        refs = [
            _question_about(case.record, case.instance.launch_time)
            for case in sweep.cases
            if _asks(case)
        ]
        sweep.attempt("instances that stay stopped", lambda: refs.extend(self._long_stopped(sweep)))
        starts = [(ref.instance_id, partial(self._start_episode, ref, sweep.now)) for ref in refs]
        sweep.summary.episodes_started += sum(sweep.attempt_each(starts))

    def _steps(self, sweep: Sweep, known: _Known) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield what there is to do beside starts, each by itself."""
        for case in sweep.cases:
            record, instance = case.record, case.instance
            if record.open_episode is not None:
                yield case.id, partial(self._watch_open, sweep, case, record.open_episode, known)
            elif case.verdict.kind in WORKING and record.quiet_until is not None:
                yield case.id, partial(self.state.clear_quiet, instance.target, case.id)
            fresh = sweep.now - instance.launch_time < SETTLED_AFTER
            is_due = not case.before.verdict or sweep.is_hourly(case.id)
            if (
                record.last_outcome is not None and fresh and is_due
            ):  # a stop may have come before any outcome
                yield case.id, partial(self._settle, sweep, case)
        listed = {case.id for case in sweep.cases}
        for instance_id, record in sweep.records.items():
            if record.untold is not None:
                yield instance_id, partial(self._tell_late, record.untold, sweep.now)
            if instance_id not in listed and record.open_episode is not None:
                yield instance_id, partial(self._unlisted, sweep, record.open_episode, known)
            elif record.holds_an_old_warning_alone(sweep.now):
                yield (
                    instance_id,
                    partial(self.state.drop_warning, record.target, instance_id, sweep.now),
                )

    def _settle(self, sweep: Sweep, case: Case) -> None:
        """It runs again, so it saves nothing: the event may be lost, or have come before the
        booking."""
        instance = case.instance
        within = timedelta(minutes=sweep.base.ledger.false_stop_within_minutes)
        entries = self.state.open_entries(instance.target, instance.instance_id)
        settle_restart(self.state, entries, instance.launch_time, within, sweep.now)

    def _replaced(self, sweep: Sweep) -> None:
        """End savings of instances whose place an instance that started for the first time may
        take."""
        started = [
            (case.instance, owner_of(case.instance, case.policy.ownership))
            for case in sweep.cases
            if not case.before.verdict and case.record.last_outcome is None
            if sweep.now - case.instance.launch_time < SETTLED_AFTER
        ]
        if started:
            regions = dict.fromkeys((sweep.target.region, *sweep.base.targets.regions))
            targets = [replace(sweep.target, region=region) for region in regions]
            settle_replaced(self.state, targets, started, sweep.now)

    def _long_stopped(self, sweep: Sweep) -> Iterator[EpisodeRef]:
        """Yield questions about instances that stay stopped after an earlier one: looked for once
        an hour."""
        asks = any(one.approval.ask_about_stopped_after_days for one in self.policies.variants)
        listed = {case.id for case in sweep.cases}
        # Its last question may have ended for want of a seal: that is asked again whatever the
        # policy says.
        unanswered = {
            one for one, record in sweep.records.items() if record.last_outcome in _UNANSWERED
        }
        may_be_asked = asks or bool(unanswered - listed)
        if sweep.summary.frozen or not may_be_asked or not sweep.is_hourly("stopped"):
            return
        away = {one.episode: one for one in self.state.open_of(sweep.target)}
        # What was terminated in the end saves on.
        over = {ref.instance_id for ref, one in away.items() if one.outcome is Outcome.TERMINATED}
        over |= listed
        may = {
            ref: record
            for ref, one in away.items()
            if one.is_away and ref.instance_id not in over
            if (record := sweep.records.get(ref.instance_id)) is not None
            if not record.is_quiet(ref.launch_time, sweep.now) and _may_be_asked(record, sweep.now)
        }
        for ref, (episode, _) in self.state.open_questions([*may]).items():
            days = policy_or_base(
                self.policies, episode.instance
            ).approval.ask_about_stopped_after_days
            is_due = days is not None and sweep.now - away[ref].booked_at >= timedelta(days=days)
            is_unanswered = may[ref].last_outcome in _UNANSWERED
            was_unsealed = is_unanswered and ended_unsealed(episode) and episode.plan.destroys
            if is_due or was_unsealed:
                yield _question_about(may[ref], ref.launch_time)

    def _start_episode(self, ref: EpisodeRef, now: UtcDatetime) -> None:
        if self.workflow.start(ref):
            return
        # An execution of this name has ended without opening its episode; names cannot be used
        # again for 90 days, so the number is used up and the next sweep starts the next one.
        if self.state.take_lock(ref):
            why = "its execution had ended before the episode was opened"
            self.state.close_episode(ref, Outcome.FAILED, why, now, quiet_until=None, ledger=None)

    def _watch_open(self, sweep: Sweep, case: Case, ref: EpisodeRef, known: _Known) -> None:
        """Close the question when the answer is no longer needed, and repair a flow that has
        died."""
        kind, why = case.verdict.kind.family, None
        if case.instance.launch_time != ref.launch_time:
            why = "the instance was restarted", Outcome.VOID
        elif _was_asked_before_seals(known.get(ref)):
            why = ASKED_BEFORE, Outcome.VOID
        else:
            match kind:
                case Family.WORKING:
                    why = f"work resumed: {case.verdict.reason}", Outcome.WOKE_UP
                case Family.LEFT_ALONE:
                    why = case.verdict.reason, Outcome.VOID
                case Family.IDLE | Family.YOUNG | Family.UNKNOWN:
                    pass
                case _:
                    assert_never(kind)
        is_void = why is not None and self.void(ref, *why)
        case.episode, case.question = self._repair(sweep, ref, {} if is_void else known)

    def _unlisted(self, sweep: Sweep, ref: EpisodeRef, known: _Known) -> None:
        """The instance is no longer running or selected; the workflow's own stop is not news, nor
        is one that was asked about as stopped."""
        episode = (known.get(ref) or (self.state.episode(ref), None))[0]
        is_stopped = episode is not None and episode.stopped_in is not None
        why = "the instance no longer runs, or has lost its tag"
        is_to_end = not is_stopped
        if is_stopped and _was_asked_before_seals(known.get(ref)):
            why = ASKED_BEFORE
            is_to_end = True
        is_void = is_to_end and self.void(ref, why, Outcome.VOID)
        self._repair(sweep, ref, {} if is_void else known)

    def _tell_late(self, ref: EpisodeRef, now: UtcDatetime) -> None:
        """The last step closed the episode, and could tell nobody."""
        episode = self.state.episode(ref)
        if episode is None or episode.closed_at is None or now - episode.closed_at >= _TELL_AFTER:
            self.close_dead(ref, "nobody was notified of its outcome")

    def _repair(
        self, sweep: Sweep, ref: EpisodeRef, known: _Known
    ) -> tuple[Episode | None, Approval | None]:
        """Close an episode without a workflow, deliver a decision; return what goes on, and its
        question."""
        episode, approval = known.get(ref) or (self.state.episode(ref), None)
        since = None if episode is None else episode.phase_since or episode.opened_at
        if self._is_dead(sweep, ref, since):
            self.close_dead(
                ref, "its workflow ended without a result; nothing more is done for this episode"
            )
            return None, None
        if episode is None or episode.phase is not Phase.ASKING:
            return episode, None
        approval = approval or self.state.approval(episode.approval_id)
        hand_over(self.state, self.workflow, approval)
        return episode, approval

    def _is_dead(self, sweep: Sweep, ref: EpisodeRef, since: UtcDatetime | None) -> bool:
        if since is None:
            # Locked and not opened: only an end that is known counts, its start may be moments ago.
            return self.workflow.is_running(ref) is False
        is_due = sweep.now - since >= _REPAIR_AFTER and sweep.is_hourly(ref.execution_name)
        return is_due and not self.workflow.is_running(ref)


def _was_asked_before_seals(found: tuple[Episode, Approval | None] | None) -> bool:
    """Return whether an earlier release has asked the open question: no answer to it would
    count."""
    if found is None:
        return False
    episode, _ = found
    return episode.phase is Phase.ASKING and not is_opening_sealed(episode)


def _question_about(record: InstanceRecord, launch_time: UtcDatetime) -> EpisodeRef:
    return replace(record.last_episode(launch_time), number=record.episodes + 1)


def _may_be_asked(record: InstanceRecord, now: UtcDatetime) -> bool:
    # People learn of an old outcome first: the record holds one. After a warning its work is being
    # saved, and soon there is nothing to ask about.
    return record.open_episode is None and not record.is_warned(now) and record.untold is None


def _asks(case: Case) -> bool:
    if not _may_be_asked(case.record, case.now):
        return False
    # Who turned in this sweep waits for the next one: by then those of all targets are counted.
    turned = case.id in count_turned([case.change]).counted
    return case.is_idle and case.is_proved and not case.is_quiet and not turned
