"""One sweep over one target: list, read, judge, and repair whatever differs from the wanted state.

Level-triggered: everything is computed anew from EC2, CloudWatch and the state table, so a sweep that was
missed or ran twice loses nothing. Effects are tried one by one; what fails is counted, logged by the caller
and repaired by the next sweep. This module must not act on an instance beyond its tags.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from governor.domain.breaker import (
    Change,
    acts_unasked,
    assess,
    count_turned,
    is_freeze_over,
    is_outage,
    remember,
)
from governor.domain.breaker_messages import breaker_alert, breaker_release, breaker_reminder
from governor.domain.cost import Rate
from governor.domain.episode import (
    BreakerState,
    EpisodeRef,
    InstanceRecord,
    Observation,
    Outcome,
    Phase,
)
from governor.domain.evidence import MetricSource
from governor.domain.idle_messages import idle_event
from governor.domain.instance import Instance, Target, managed_by
from governor.domain.judging import (
    Memory,
    after_reading,
    before_reading,
    judge_question,
    remembered,
    wants_memory,
    window_to_prove,
)
from governor.domain.managed import IdleMember
from governor.domain.owner import Owner, by_owner, owner_of
from governor.domain.policy import AppliedPolicy, Breaker, Mode, Policy
from governor.domain.silence_messages import silent_alert
from governor.domain.tags import LOW_UTILIZATION_TAG, MARKS, REVIEW_TAG
from governor.domain.units import UtcDatetime, iso, parse_iso
from governor.domain.verdict import LEFT_ALONE, UNREAD, WORKING, Verdict, VerdictKind, freeze, known_kind
from governor.errors import GovernorError, PolicyError
from governor.ports import Announcer, Catalogue, Clock, InstanceReader, InstanceTagger, Policies, Workflow
from governor.stores import Episodes, Instances, Ledger, Sweeps
from governor.usecases.close_dead import CloseDead
from governor.usecases.count_costs import CountCosts
from governor.usecases.deliver_decision import DeliverDecision
from governor.usecases.gather_evidence import EvidenceRequest, Gathered, GatherEvidence
from governor.usecases.notify_dates import RemindNotices
from governor.usecases.notify_managed import Candidate, NotifyManaged
from governor.usecases.settle_ledger import settle_restart
from governor.usecases.void_episode import VoidEpisode

_SPREAD_OVER = 1000
"""From so many instances with several GPUs on, their looks are spread over the whole interval."""
_MOST_EVENTS = 200
"""Idle events of one sweep; the next sweeps publish the others."""
_REPAIR_AFTER = timedelta(hours=1)
"""An episode that has stood still for so long is checked for a workflow that died."""
_SETTLE_WITHIN = timedelta(days=3)
"""How long after a start its ledger is looked at: longer than any policy lets a stop wait to be booked."""


@dataclass(slots=True)
class SweepSummary:
    """What a sweep saw and did. `verdicts` counts by kind; `problems` are effects that failed."""

    target: Target
    at: UtcDatetime
    instances: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    episodes_started: int = 0
    marked: int = 0
    unmarked: int = 0
    frozen: bool = False
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Case:
    """One instance in this sweep."""

    instance: Instance
    applied: AppliedPolicy
    record: InstanceRecord
    before: Observation | None
    memory: Memory | None = None
    verdict: Verdict | None = None
    proof: Verdict | None = None
    """The verdict over the longer window that a question needs, where it was worth reading."""
    gathered: Gathered | None = None
    was_read: bool = False
    checked_gpus: bool = False
    unknown: str | None = None
    """Why nothing can be said about it, whatever its metrics show."""
    told_silent: bool = False
    managed_told_at: UtcDatetime | None = None
    idle_told_at: UtcDatetime | None = None
    first_gpu_check_at: UtcDatetime | None = None

    @property
    def policy(self) -> Policy:
        return self.applied.policy

    @property
    def settled(self) -> Verdict:
        if self.verdict is None:
            raise AssertionError(f"{self.instance.instance_id} was not judged")
        return self.verdict


class _State(Sweeps, Instances, Episodes, Ledger, Protocol):
    """The stores that are used here."""


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """The sweep of one target."""

    clock: Clock
    policies: Policies
    instances: InstanceReader
    gather: GatherEvidence
    catalogue: Catalogue
    state: _State
    tagger: InstanceTagger
    workflow: Workflow
    announcer: Announcer
    void: VoidEpisode
    deliver: DeliverDecision
    close_dead: CloseDead
    remind: RemindNotices
    costs: CountCosts
    notify_managed: NotifyManaged

    def __call__(self, target: Target) -> SweepSummary:
        """Sweeps the target.

        Raises:
            CloudError: the instances or the state table could not be read; nothing was changed.
        """
        now = self.clock.now()
        base = self.policies.base().policy
        before = self.state.observations(target)
        cases, records = self._cases(target, base, before)
        self._judge_all(target, cases, now)
        summary = SweepSummary(target, now, instances=len(cases))
        just_froze = self._breaker(target, cases, base, now, summary)
        summary.verdicts.update(case.settled.kind.value for case in cases)
        summary.problems += [f"{_id(case)}: {why}" for case in cases if (why := _problem(case)) is not None]
        self._apply_marks(target, cases, now, summary)
        self._follow_up(cases, records, now, summary)
        self._announce_idle(cases, now, summary)
        if not just_froze:
            self._announce_silent(target, cases, base, now, summary)
        summary.problems += self.remind(target, [case.instance for case in cases], base, now)
        rates = self._count_costs(target, cases, before, now, summary)
        self._tell_of_managed(target, cases, rates, base, now, summary)
        seen = {c.instance.instance_id: _observation(c, rates[c.instance.instance_id], now) for c in cases}
        self.state.remember(target, seen, now)
        counts = {**summary.verdicts, "instances": summary.instances, "problems": len(summary.problems)}
        self.state.save_sweep(target, now, counts)
        return summary

    # reading and judging

    def _cases(
        self, target: Target, base: Policy, observations: Mapping[str, Observation]
    ) -> tuple[list[_Case], Mapping[str, InstanceRecord]]:
        instances = self.instances.list_selected(target, base.selector)
        records = self.state.records(target)
        cases = []
        for instance in instances:
            before = observations.get(instance.instance_id)
            if before is not None and before.launch_time != instance.launch_time:
                before = None
            record = records.get(instance.instance_id) or InstanceRecord(target, instance.instance_id)
            cases.append(self._case(instance, record, before))
        return cases, records

    def _case(self, instance: Instance, record: InstanceRecord, before: Observation | None) -> _Case:
        """One instance that cannot be judged never sinks the others; its own sweep ends in no data."""
        told = before is not None and before.told_silent
        try:
            applied = self.policies.applied_to(instance)
        except PolicyError as error:
            return _Case(instance, self.policies.base(), record, before, unknown=str(error), told_silent=told)
        memory = None if before is None else _memory(before, applied.version)
        return _Case(instance, applied, record, before, memory, unknown=record.problem, told_silent=told)

    def _judge_all(self, target: Target, cases: Sequence[_Case], now: datetime) -> None:
        to_read = []
        self._spread_gpu_checks(cases, now)
        for case in cases:
            if case.unknown is not None:
                case.verdict = Verdict(VerdictKind.NO_DATA, case.unknown)
                continue
            hold = case.record.hold
            case.verdict = before_reading(case.instance, hold, case.memory, case.policy, now)
            if case.verdict is None:
                to_read.append(case)
        gathered = self.gather(target, [self._request(case, now) for case in to_read], now)
        for case in to_read:
            case.was_read = True
            case.gathered = gathered[_id(case)]
            case.verdict = after_reading(
                case.instance,
                case.record.hold,
                case.memory,
                case.gathered.evidence,
                case.policy,
                now,
                told=_is_told(case, now),
            )
        self._prove(target, [case for case in to_read if not _is_told(case, now)], now)

    def _prove(self, target: Target, cases: Sequence[_Case], now: datetime) -> None:
        """Reads the longer window of those about which a question may start, and of nobody else."""
        windows: dict[str, timedelta] = {}
        requests = []
        for case in cases:
            window = window_to_prove(case.instance, case.memory, case.settled, case.policy)
            if window is not None and case.gathered is not None:
                windows[_id(case)] = window
                requests.append(_longer(case, case.gathered, window))
        if not requests:
            return
        found = self.gather(target, requests, now)
        for case in cases:
            if _id(case) in windows:
                window, evidence = windows[_id(case)], found[_id(case)].evidence
                hold = case.record.hold
                case.proof = judge_question(case.instance, hold, evidence, case.policy, window, now)

    def _spread_gpu_checks(self, cases: Sequence[_Case], now: datetime) -> None:
        """When instances new to the sweep are first looked at GPU by GPU: a small fleet soon, a large one
        spread over the whole interval by a hash of the id, so that no sweep reads them all."""
        several = [case for case in cases if _has_several_gpus(self.catalogue, case.instance)]
        share = min(1.0, len(several) / _SPREAD_OVER)
        for case in several:
            every = timedelta(minutes=case.policy.advice.right_size_check_every_minutes)
            case.first_gpu_check_at = now + every * share * _hash_fraction(case.instance.instance_id)

    def _request(self, case: _Case, now: datetime) -> EvidenceRequest:
        before = case.before
        searched = before.searched_at if before else None
        again = timedelta(minutes=case.policy.metrics.rediscover_after_minutes)
        case.checked_gpus = before is not None and _gpu_check_is_due(before, now)
        return EvidenceRequest(
            instance=case.instance,
            policy=case.policy,
            dimensions=before.dimensions if before else None,
            source=before.source if before else None,
            search=searched is None or now - searched >= again,
            per_gpu=case.checked_gpus,
            # Told idleness is watched by utilization alone: whatever acts reads everything again.
            figures=frozenset() if _is_told(case, now) else _figures(case, now),
        )

    # the breaker

    def _breaker(
        self, target: Target, cases: Sequence[_Case], base: Policy, now: datetime, summary: SweepSummary
    ) -> bool:
        """Freezes and releases. True while a freeze is so young that its alert is all there is to say."""
        turned = count_turned([_change(case) for case in cases])
        history = self.state.sweep_days(target)
        why = assess(turned, base.breaker, [day for day in history if day.day < now.date()])
        learnt = remember(history, now.date(), turned, base.breaker)
        if learnt != tuple(history):
            self._attempt(summary, "sweep history", lambda: self.state.set_sweep_days(target, learnt))
        tripped = self.state.breaker(target)
        hold = timedelta(minutes=base.breaker.hold_minutes)
        just_froze = why is not None or (tripped is not None and now - tripped.tripped_at < hold)
        held = _without_work(cases, tripped)
        if why is not None:
            # Frozen first, told then; until people are told, every sweep tries again.
            held |= turned.who
            told = tripped.told_at if tripped else None
            state = BreakerState(now, why, told, turned=len(held), held=held)
            self.state.set_breaker(target, state)
            self._tell_frozen(target, state, len(held), base.breaker, now, summary)
        elif tripped is not None:
            state = replace(tripped, held=held)
            if state != tripped:
                self.state.set_breaker(target, state)
            left = [case for case in cases if _id(case) in held and case.settled.kind not in LEFT_ALONE]
            self._tell_frozen(target, state, len(left), base.breaker, now, summary)
            # A policy that cannot be read does not say that it asks.
            unasked = any(case.unknown is not None or acts_unasked(case.policy) for case in left)
            frozen_for = now - tripped.tripped_at
            if is_freeze_over(frozen_for, tripped.turned, len(left), base.breaker, unasked=unasked):
                # Told first: a freeze that nobody knows has ended would be told by nobody ever after.
                tell = partial(self.announcer.announce, breaker_release(target, now))
                if self._attempt(summary, "breaker alert", tell):
                    self.state.set_breaker(target, None)
            else:
                why = tripped.why
        if why is None:
            return just_froze
        summary.frozen = True
        for case in cases:
            if case.settled.kind is VerdictKind.IDLE and case.record.open_episode is None:
                case.verdict = freeze(case.settled, why)
        return just_froze

    def _tell_frozen(
        self,
        target: Target,
        state: BreakerState,
        left: int,
        rule: Breaker,
        now: UtcDatetime,
        summary: SweepSummary,
    ) -> None:
        """Once, and again while it lasts: a freeze that was forgotten keeps every idle instance running."""
        if state.told_at is None:
            alert = breaker_alert(target, state)
        elif now - state.told_at >= timedelta(hours=rule.remind_after_hours):
            alert = breaker_reminder(target, state, left, now)
        else:
            return
        if self._attempt(summary, "breaker alert", lambda: self.announcer.announce(alert)):
            self.state.set_breaker(target, replace(state, told_at=now))

    # effects

    def _apply_marks(
        self, target: Target, cases: Sequence[_Case], now: UtcDatetime, summary: SweepSummary
    ) -> None:
        to_mark: dict[bool, list[_Case]] = defaultdict(list)
        to_unmark: dict[bool, list[_Case]] = defaultdict(list)
        for case in cases:
            dry_run = case.policy.mode is Mode.OBSERVE
            tagged = all(tag in case.instance.tags for tag in MARKS)
            # A dry run leaves no tag behind; the state table remembers that it was tried.
            marked = case.record.marked_at is not None if dry_run else tagged
            outdated = _has_outdated_marks(case)
            kind = case.settled.kind
            if kind is VerdictKind.IDLE and (outdated or not marked):
                to_mark[dry_run].append(case)
            elif outdated or (kind in (*WORKING, *LEFT_ALONE) and _has_marks(case)):
                to_unmark[dry_run].append(case)
        tags = {LOW_UTILIZATION_TAG: iso(now), REVIEW_TAG: "true"}
        for dry_run, group in to_mark.items():
            failures = self.tagger.set_tags(target, _ids(group), tags, dry_run=dry_run)
            summary.marked += self._note_marks(target, group, failures, now, summary)
        for dry_run, group in to_unmark.items():
            failures = self.tagger.remove_tags(target, _ids(group), MARKS, dry_run=dry_run)
            summary.unmarked += self._note_marks(target, group, failures, None, summary)

    def _note_marks(
        self,
        target: Target,
        group: Sequence[_Case],
        failures: Mapping[str, str],
        at: datetime | None,
        summary: SweepSummary,
    ) -> int:
        summary.problems += [f"tags of {instance_id}: {why}" for instance_id, why in failures.items()]
        done = [case for case in group if case.instance.instance_id not in failures]
        for case in done:
            instance_id = case.instance.instance_id
            self._attempt(
                summary,
                f"note of the tags of {instance_id}",
                lambda instance_id=instance_id: self.state.set_marked(target, instance_id, at),  # type: ignore[misc]
            )
        return len(done)

    def _follow_up(
        self,
        cases: Sequence[_Case],
        records: Mapping[str, InstanceRecord],
        now: UtcDatetime,
        summary: SweepSummary,
    ) -> None:
        for case in cases:
            label = case.instance.instance_id
            self._attempt(summary, label, lambda case=case: self._follow_up_one(case, now, summary))  # type: ignore[misc]
            if (
                case.record.last_outcome is Outcome.STOPPED
                and now - case.instance.launch_time < _SETTLE_WITHIN
            ):
                self._attempt(summary, label, lambda case=case: self._settle(case))  # type: ignore[misc]
        seen = {case.instance.instance_id for case in cases}
        for instance_id, record in records.items():
            if instance_id not in seen and record.open_episode is not None:
                ref = record.open_episode
                self._attempt(summary, instance_id, lambda ref=ref: self._unlisted(ref, now))  # type: ignore[misc]
            elif record.holds_an_old_warning_alone(now):
                drop = partial(self.state.drop_warning, record.target, instance_id, now)
                self._attempt(summary, instance_id, drop)

    def _follow_up_one(self, case: _Case, now: UtcDatetime, summary: SweepSummary) -> None:
        record, verdict = case.record, case.settled
        if record.open_episode is not None:
            self._watch_open(case, record.open_episode, now)
            return
        if verdict.kind in WORKING and record.quiet_until is not None:
            self.state.clear_quiet(case.instance.target, case.instance.instance_id)
        if record.is_warned(now):
            return  # its work is being saved, and soon there is nothing to ask about
        proved = case.proof is not None and case.proof.kind is VerdictKind.IDLE
        if verdict.kind is VerdictKind.IDLE and proved and not _is_quiet(record, case.instance, now):
            self._start_episode(case, now)
            summary.episodes_started += 1

    def _settle(self, case: _Case) -> None:
        """It runs again, so it saves nothing: the event may be lost, or have come before the booking."""
        instance = case.instance
        within = timedelta(minutes=self.policies.base().policy.ledger.false_stop_within_minutes)
        entries = self.state.open_entries(instance.target, instance.instance_id)
        settle_restart(self.state, entries, instance.launch_time, within)

    def _start_episode(self, case: _Case, now: UtcDatetime) -> None:
        instance = case.instance
        ref = EpisodeRef(
            account=instance.target.account,
            region=instance.target.region,
            instance_id=instance.instance_id,
            launch_time=instance.launch_time,
            number=case.record.episodes + 1,
        )
        if self.workflow.start(ref):
            return
        # An execution of this name has ended without opening its episode; names cannot be used again for
        # 90 days, so the number is used up and the next sweep starts the next one.
        if self.state.take_lock(ref):
            why = "its execution had ended before the episode was opened"
            self.state.close_episode(ref, Outcome.FAILED, why, now, quiet_until=None, ledger=None)

    def _watch_open(self, case: _Case, ref: EpisodeRef, now: UtcDatetime) -> None:
        """Closes the question when the answer is no longer needed, and repairs a flow that has died."""
        verdict = case.settled
        if case.instance.launch_time != ref.launch_time:
            self.void(ref, "the instance was started anew", Outcome.VOID)
        elif verdict.kind in WORKING:
            self.void(ref, f"work resumed: {verdict.reason}", Outcome.WOKE_UP)
        elif verdict.kind in LEFT_ALONE:
            self.void(ref, verdict.reason, Outcome.VOID)
        self._repair(ref, now)

    def _unlisted(self, ref: EpisodeRef, now: UtcDatetime) -> None:
        """The instance is no longer running or selected; the workflow's own stop is not news."""
        episode = self.state.episode(ref)
        if episode is not None and episode.phase is Phase.ASKING:
            self.void(ref, "the instance no longer runs, or has lost its tag", Outcome.VOID)
        self._repair(ref, now)

    def _repair(self, ref: EpisodeRef, now: UtcDatetime) -> None:
        """Closes an episode whose workflow is gone, and delivers a decision that was not taken."""
        episode = self.state.episode(ref)
        since = None if episode is None else episode.phase_since or episode.opened_at
        if self._is_dead(ref, since, now):
            self.close_dead(
                ref, "its workflow ended without a result; nothing more is done for this episode", now
            )
        elif episode is not None and episode.phase is Phase.ASKING:
            self.deliver(episode.approval_id)

    def _is_dead(self, ref: EpisodeRef, since: UtcDatetime | None, now: UtcDatetime) -> bool:
        if since is None:
            # Locked and not opened: only an end that is known counts, its start may be moments ago.
            return self.workflow.is_running(ref) is False
        return now - since >= _REPAIR_AFTER and not self.workflow.is_running(ref)

    def _announce_idle(self, cases: Sequence[_Case], now: UtcDatetime, summary: SweepSummary) -> None:
        """Publishes one event per idle stretch, for machines; so many a sweep that it ends in time."""
        left = _MOST_EVENTS
        for case in cases:
            before = case.before
            if before is not None and case.settled.kind not in WORKING:
                case.idle_told_at = before.idle_told_at
            since = _idle_since(case, now)
            if case.settled.kind is not VerdictKind.IDLE or case.idle_told_at or since is None or not left:
                continue
            left -= 1
            owner = owner_of(case.instance, case.policy.ownership)
            event = idle_event(case.instance, case.settled, since, owner, now)
            if self._attempt(summary, "idle event", partial(self.announcer.announce, event)):
                case.idle_told_at = now

    def _announce_silent(
        self, target: Target, cases: Sequence[_Case], base: Policy, now: UtcDatetime, summary: SweepSummary
    ) -> None:
        """Tells each owner of theirs; of an outage, whoever stands for what nobody owns, of them all."""
        silent = {case.instance.instance_id: case for case in cases if _fell_silent(case)}
        # Of all that could be heard, also of those whose work is known from before and need no read now.
        heard = sum(case.settled.kind not in UNREAD for case in cases)
        outage = is_outage(len(silent), heard, base.breaker)
        instances = [case.instance for case in silent.values()]
        nobody = Owner(base.ownership.default_owner)
        groups = {nobody: instances} if outage else by_owner(instances, base.ownership)
        for owner, theirs in groups.items():
            reasons = [(one, silent[one.instance_id].settled.reason) for one in theirs]
            alert = silent_alert(target, reasons, owner, now, outage=outage)
            if self._attempt(summary, "silence alert", partial(self.announcer.announce, alert)):
                for one in theirs:
                    silent[one.instance_id].told_silent = True

    def _tell_of_managed(
        self,
        target: Target,
        cases: Sequence[_Case],
        rates: Mapping[str, Rate],
        base: Policy,
        now: UtcDatetime,
        summary: SweepSummary,
    ) -> None:
        """Of what was told before the freeze nothing new is said while it lasts."""
        for case in cases:
            case.managed_told_at = case.before.managed_told_at if case.before and _idles(case) else None
        if summary.frozen:
            return
        told = self.notify_managed(
            target,
            [one for case in cases if (one := _candidate(case, rates, now)) is not None],
            [(c.instance, m) for c in cases if (m := managed_by(c.instance)) is not None],
            base.ownership,
            timedelta(hours=base.managed.tell_again_after_hours),
            now,
        )
        summary.problems += told.problems
        for case in cases:
            if case.instance.instance_id in told.instance_ids:
                case.managed_told_at = now

    def _count_costs(
        self,
        target: Target,
        cases: Sequence[_Case],
        before: Mapping[str, Observation],
        now: UtcDatetime,
        summary: SweepSummary,
    ) -> Mapping[str, Rate]:
        instances = [case.instance for case in cases]
        rates = self.costs.rates([(case.instance, case.policy) for case in cases])
        self._attempt(summary, "costs", lambda: self.costs(target, instances, rates, before, now))
        return rates

    def _attempt(self, summary: SweepSummary, label: str, effect: Callable[[], object]) -> bool:
        """Tries one effect. A failure is written down and repaired by the next sweep, which computes anew."""
        try:
            effect()
        except GovernorError as error:
            summary.problems.append(f"{label}: {type(error).__name__}: {error}")
            return False
        return True


def wanted_figures(policy: Policy) -> frozenset[str]:
    """The figures a policy lets veto, or requires."""
    figures = ("power", "memory", "cpu", "network")
    return frozenset(f for f in figures if policy.vetoes.limit(f) is not None)


def _figures(case: _Case, now: datetime) -> frozenset[str]:
    wanted = wanted_figures(case.policy)
    return wanted | {"memory"} if wants_memory(case.memory, case.policy, now) else wanted


def _longer(case: _Case, gathered: Gathered, window: timedelta) -> EvidenceRequest:
    """The same series over the window of a question, with everything that may speak against it."""
    return EvidenceRequest(
        instance=case.instance,
        policy=case.policy,
        dimensions=gathered.dimensions,
        source=gathered.source,
        search=False,
        figures=wanted_figures(case.policy) | {"memory"},
        length=window,
    )


def _memory(before: Observation, version: str) -> Memory | None:
    """The observation as far as it holds under this version of the policy."""
    kind = known_kind(before.verdict)
    if kind is None:
        return None
    if before.policy_version != version:
        return Memory(before.at, kind)
    return Memory(before.at, kind, before.last_busy, before.advice, before.idle_since)


def _gpu_check_is_due(before: Observation, now: datetime) -> bool:
    """Whether a busy instance known by its aggregate is looked at GPU by GPU in this sweep."""
    busy = before.verdict in WORKING
    by_aggregate = before.source == MetricSource.AGGREGATE
    due = before.next_gpu_check_at
    return busy and by_aggregate and due is not None and now >= due


def _is_told(case: _Case, now: datetime) -> bool:
    return (
        case.record.open_episode is not None
        or _is_quiet(case.record, case.instance, now)
        or not _is_managed_due(case, now)
    )


def _is_managed_due(case: _Case, now: datetime) -> bool:
    """Whether the owner of its environment has not heard of it, or not for long enough."""
    before = case.before
    if before is None or before.managed_told_at is None:
        return True
    again_after = timedelta(hours=case.policy.managed.tell_again_after_hours)
    return now - before.managed_told_at >= again_after


def _idles(case: _Case) -> bool:
    """Whether it is managed and proved idle."""
    return case.settled.kind is VerdictKind.MANAGED_ELSEWHERE


def _idle_since(case: _Case, now: datetime) -> UtcDatetime | None:
    """From when on it is proved idle without a break."""
    return remembered(case.memory, case.settled, case.proof, case.policy, now).idle_since


def _candidate(case: _Case, rates: Mapping[str, Rate], now: UtcDatetime) -> Candidate | None:
    since, manager, evidence = _idle_since(case, now), case.settled.manager, case.settled.evidence
    if since is None or manager is None or evidence is None:
        return None
    if evidence.window.end - since < timedelta(minutes=case.policy.managed.idle_for_minutes):
        return None
    member = IdleMember(case.instance, since, rates[case.instance.instance_id].usd_per_hour)
    return Candidate(member, manager, _is_managed_due(case, now))


def _is_quiet(record: InstanceRecord, instance: Instance, now: datetime) -> bool:
    return (
        record.quiet_until is not None
        and now < record.quiet_until
        and record.quiet_launch_time == instance.launch_time
    )


def _has_marks(case: _Case) -> bool:
    return case.record.marked_at is not None or any(tag in case.instance.tags for tag in MARKS)


def _has_outdated_marks(case: _Case) -> bool:
    """Whether it was marked before it was last started: another run, about which they say nothing.

    The tag says when, where the note of it was lost; in mode `observe` tags of ours are none of a dry run's.
    """
    at = case.record.marked_at
    if at is None and case.policy.mode is not Mode.OBSERVE:
        at = _moment(case.instance.tags.get(LOW_UTILIZATION_TAG, ""))
    return at is not None and at < case.instance.launch_time


def _moment(text: str) -> UtcDatetime | None:
    """What a tag says, which anybody may have written."""
    try:
        return parse_iso(text)
    except ValueError:
        return None


def _has_several_gpus(catalogue: Catalogue, instance: Instance) -> bool:
    shape = catalogue.shape(instance.instance_type)
    return shape is not None and (shape.accelerator_count or 0) > 1


def _fell_silent(case: _Case) -> bool:
    """Silence that was seen, and that people were not told of: a read that failed is neither."""
    was_seen = case.gathered is not None and case.gathered.evidence.read_problem is None
    was_seen = was_seen and not case.settled.is_late
    return case.settled.kind is VerdictKind.NO_DATA and was_seen and not case.told_silent


def _problem(case: _Case) -> str | None:
    """Why its verdict is none."""
    return case.unknown


def _without_work(cases: Sequence[_Case], tripped: BreakerState | None) -> frozenset[str]:
    """Those that froze the plans, and were neither seen at work since nor started anew.

    One that this sweep does not see stays in it, for it may come back as it was.
    """
    if tripped is None:
        return frozenset()
    return tripped.held - {
        _id(case)
        for case in cases
        if case.settled.kind in WORKING or case.instance.launch_time > tripped.tripped_at
    }


def _last_known(kind: VerdictKind, before: Observation | None) -> str | None:
    if kind is not VerdictKind.NO_DATA:
        return kind.value
    return before.last_known if before else None


def _change(case: _Case) -> Change:
    read_failed = case.gathered is not None and case.gathered.evidence.read_problem is not None
    before = case.before
    last_known = known_kind(before.last_known) if before and before.last_known else None
    # Silence is counted when it has lasted: until then the sweep before is the last one that heard it.
    verdict = known_kind(before.verdict) if before else None
    return Change(
        _id(case),
        before=last_known if before and before.is_late else verdict,
        last_known=last_known,
        after=case.settled.kind,
        was_read=case.was_read and not read_failed and not case.settled.is_late,
    )


def _observation(case: _Case, rate: Rate, now: UtcDatetime) -> Observation:
    before, gathered, verdict = case.before, case.gathered, case.settled
    advice = verdict.advice
    last_busy = verdict.last_busy
    if gathered is None:
        source, dimensions, searched = (
            (before.source, before.dimensions, before.searched_at) if before else (None, None, None)
        )
    else:
        source = gathered.source or (before.source if before else None)
        dimensions = gathered.dimensions
        searched = now if gathered.searched else (before.searched_at if before else None)
    due = before.next_gpu_check_at if before else case.first_gpu_check_at
    if case.checked_gpus:
        # The aggregate stays the cheap way to watch it; the GPUs were looked at once.
        every = timedelta(minutes=case.policy.advice.right_size_check_every_minutes)
        due, source = now + every, MetricSource.AGGREGATE.value
    return Observation(
        launch_time=case.instance.launch_time,
        verdict=verdict.kind.value,
        at=now,
        reason=verdict.reason,
        policy_version=case.applied.version,
        last_busy=last_busy,
        source=source,
        dimensions=dimensions,
        searched_at=searched,
        next_gpu_check_at=due,
        told_silent=case.told_silent and verdict.kind is VerdictKind.NO_DATA,
        advice=advice,
        idle_since=_idle_since(case, now),
        idle_told_at=case.idle_told_at,
        managed_told_at=case.managed_told_at,
        last_known=_last_known(verdict.kind, before),
        is_late=verdict.is_late,
        project=rate.project,
        usd_per_hour=rate.usd_per_hour,
    )


def _ids(cases: Iterable[_Case]) -> list[str]:
    return [_id(case) for case in cases]


def _id(case: _Case) -> str:
    return case.instance.instance_id


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


def _hash_fraction(text: str) -> float:
    return _hash(text) / 2**32
