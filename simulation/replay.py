"""Replays a policy over recordings (`governor simulate`) as if it had been live: swept every 5
minutes, asked, approved, rechecked.

Evidence is gathered and judged by the product's own code (`GatherEvidence`, and the rules of the
rooms `verdict`, `episode`, `policy` and `limits`); this module adds the time that passes, and
people who always say yes. As in the product, an instance that worked is not read again before its
window could be idle. It does not know where readings come from, or how results are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from heapq import heapify, heappop, heappush
from math import ceil

from governor.approvals.refused_answers import REFUSALS_LATE
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Outcome, quiet_until
from governor.episode.rules.plan import acts_on_silence, mode_of
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence, MetricSource, Window
from governor.evidence.request import EvidenceRequest, Gathered
from governor.evidence.rules.series import window_before
from governor.limits.model.breaker import Change, SweepDay
from governor.limits.rules.breaker import (
    acts_unasked,
    history_with,
    is_freeze_over,
    turned_in_sweep,
    why_freeze_target,
)
from governor.policy.model.policy import Mode, Policy
from governor.policy.ports import Policies
from governor.policy.rules.owners import owner_of
from governor.policy.rules.schedule import schedule
from governor.verdict.model import WORKING, Verdict, VerdictKind
from governor.verdict.rules.judge import is_candidate
from governor.verdict.rules.judging import Subject, sooner_window, wanted_figures
from simulation.outcome import Ending, Event, InstanceResult, Replay, Stop
from simulation.recording import PERIOD, RecordedMetrics, Recording
from simulation.track import Question, Track

_AT_REST = (VerdictKind.IDLE, VerdictKind.MANAGED_ELSEWHERE)
_A_SECOND = timedelta(seconds=1)


class ReplayError(Exception):
    """A policy cannot be replayed; the message says why and what to do."""


def replayable(policy: Policy) -> Policy:
    """Return the policy on readings of 5 minutes, whose maxima are those of the minutes in them.

    Raises:
        ReplayError: its period or window does not fit them.
    """
    if timedelta(seconds=policy.metrics.period_seconds) > PERIOD:
        raise ReplayError(
            f"metrics.period_seconds is {policy.metrics.period_seconds}: "
            "a back-test reads 5-minute data, set 300 or 60"
        )
    if policy.window % PERIOD:
        raise ReplayError(
            f"idle.window_minutes is {policy.idle.window_minutes}: "
            "a back-test reads 5-minute data, give a multiple of 5"
        )
    seconds = int(PERIOD.total_seconds())
    metrics = replace(policy.metrics, period_seconds=seconds, bound_namespaces=False)
    return replace(policy, metrics=metrics)


def replay(
    name: str, policies: Policies, recordings: Sequence[Recording], *, approval_delay: timedelta
) -> Replay:
    """Replay one policy over all recordings. The breaker sees each target's instances together.

    Args:
        name: of the policy, for the report.
        policies: the parsed document. Mode `observe` is replayed as `ask`: otherwise there is
            nothing to see.
        recordings: of any number of targets.
        approval_delay: from the sending of a question to a yes; in working hours of those asked it
            begins.

    Raises:
        ReplayError: the policy's period or window does not fit readings of 5 minutes.
    """
    base = replayable(policies.base().policy)
    tracks_by_target: dict[Target, list[Track]] = defaultdict(list)
    for recording in recordings:
        policy = replayable(policies.applied_to(recording.instance).policy)
        tracks_by_target[recording.instance.target].append(Track(recording, policy))
    freezes = 0
    results: list[InstanceResult] = []
    for tracks in tracks_by_target.values():
        sweeps = _Sweeps(tracks, base, approval_delay)
        sweeps.run()
        freezes += sweeps.freezes
        results += [track.result(base) for track in tracks]
    return Replay(
        name=name,
        version=policies.base().version,
        mode=base.mode,
        results=tuple(results),
        freezes=freezes,
    )


class _Sweeps:
    """All sweeps over one target. Bins are numbered from 1970, so that recordings may have
    different spans."""

    def __init__(self, tracks: Sequence[Track], base: Policy, delay: timedelta) -> None:
        self._tracks = tracks
        self._rule = base.breaker
        self._held: set[int] = set()
        self._turned = 0
        self._delay = delay
        metrics = RecordedMetrics(track.recording for track in tracks)
        shapes = {track.recording.instance.instance_type: track.recording.shape for track in tracks}
        self._gather = GatherEvidence(metrics, shapes.get)
        self._agenda: list[tuple[int, int]] = []
        self._working = 0
        self._tripped_at: datetime | None = None
        self._sweep_days: tuple[SweepDay, ...] = ()
        self.freezes = 0

    def run(self) -> None:
        """Sweep from the first bin to the last."""
        for number, track in enumerate(self._tracks):
            self._next_run(number, track, 0)
        heapify(self._agenda)
        while self._agenda:
            moment = self._agenda[0][0]
            due = []
            while self._agenda and self._agenda[0][0] == moment:
                due.append(heappop(self._agenda)[1])
            self._sweep(moment, due)

    def _sweep(self, moment: int, due: Sequence[int]) -> None:
        """Judge all instances that may have changed, then check the breaker, then ask."""
        running = []
        for number in due:
            track = self._tracks[number]
            index = moment - _offset(track.recording)
            if index < track.run_end:
                running.append((number, track, index))
            else:
                self._held.discard(number)
                self._end_run(number, track, index)
        if not running:
            return
        now = running[0][1].recording.time(running[0][2])
        judged = self._judge([(track, index) for _, track, index in running], now)
        self._look_at_breaker(running, [verdict for verdict, _ in judged], now)
        for (number, track, index), (verdict, proof) in zip(running, judged, strict=True):
            self._follow(number, track, index, verdict, proof, now)

    # judging

    def _judge(
        self, running: Sequence[tuple[Track, int]], now: UtcDatetime
    ) -> list[tuple[Verdict, Verdict | None]]:
        """Return each verdict, and the proof over the window of a question if it was read."""
        verdicts = _verdicts_without_reading(running, now)
        unread = []
        for track, index in running:
            if track.instance_id not in verdicts:
                unread.append((track, index))
        gathered = self._gathered([_request(track, now) for track, _ in unread], now)
        for track, index in unread:
            subject = _subject(track, now)
            evidence = gathered[track.instance_id].evidence
            verdict = subject.after_reading(evidence)
            verdicts[track.instance_id] = verdict
            _remember(track, index, verdict, evidence.window, people_know=subject.people_know)
        proofs = self._prove([track for track, _ in unread], verdicts, now)
        judged = []
        for track, _ in running:
            verdict = verdicts[track.instance_id]
            proof = proofs.get(track.instance_id)
            track.memory = _subject(track, now).remembered(verdict, proof)
            judged.append((verdict, proof))
        return judged

    def _prove(
        self, tracks: Iterable[Track], verdicts: Mapping[str, Verdict], now: UtcDatetime
    ) -> dict[str, Verdict]:
        """Return verdicts over the longer window, for the instances that may be asked about."""
        proofs = {}
        for track in tracks:
            window = _subject(track, now).window_to_prove(verdicts[track.instance_id])
            if window is not None:
                proofs[track.instance_id] = self._question(track, window, now)
        return proofs

    def _question(self, track: Track, window: timedelta, now: UtcDatetime) -> Verdict:
        evidence = self._evidence(_request(track, now, length=window), now)
        return _subject(track, now).judge_question(evidence, window)

    def _recheck(self, track: Track, now: UtcDatetime) -> Verdict:
        """Judge again before the action, as `InspectInstance` does."""
        subject = _subject(track, now)
        request = replace(_request(track, now, length=track.policy.ask_window), only_if=None)
        verdict, sooner = subject.judge_again(self._evidence(request, now))
        if sooner is None:
            return verdict
        evidence = self._evidence(replace(request, length=sooner), now)
        return subject.judge_question(evidence, sooner)

    def _evidence(self, request: EvidenceRequest, now: UtcDatetime) -> Evidence:
        return self._gathered([request], now)[request.instance.instance_id].evidence

    def _gathered(
        self, requests: Sequence[EvidenceRequest], now: UtcDatetime
    ) -> Mapping[str, Gathered]:
        if not requests:
            return {}
        return self._gather(requests[0].instance.target, requests, now)

    def _look_at_breaker(
        self,
        running: Sequence[tuple[int, Track, int]],
        verdicts: Sequence[Verdict],
        now: UtcDatetime,
    ) -> None:
        """Freeze all plans if too many instances turned idle at once; end a freeze that is over."""
        if len(self._tracks) < self._rule.minimum_instances:
            return
        changes = []
        judged_at_work = 0
        for (number, track, _), verdict in zip(running, verdicts, strict=True):
            if verdict.kind in WORKING:
                self._held.discard(number)
            judged_at_work += track.before in WORKING
            was_read = verdict.evidence is not None
            changes.append(
                Change(str(number), track.before, track.last_known, verdict.kind, was_read=was_read)
            )
        # Instances that were not read still work: they are part of the whole.
        busy = VerdictKind.BUSY
        at_work = Change("", busy, busy, busy, was_read=False)
        changes += [at_work] * (self._working - judged_at_work)
        turned = turned_in_sweep(changes)
        days_before = [day for day in self._sweep_days if day.day < now.date()]
        self._sweep_days = history_with(self._sweep_days, now.date(), turned)
        if why_freeze_target(turned, self._rule, days_before) is not None:
            self.freezes += self._tripped_at is None
            self._tripped_at = now
            self._held.update(map(int, turned.turned_ids))
            self._turned = len(self._held)
        elif self._tripped_at is not None:
            self._end_freeze_if_over(now - self._tripped_at)

    def _end_freeze_if_over(self, frozen_for: timedelta) -> None:
        held_policies = [self._tracks[number].policy for number in self._held]
        acts_without_asking = any(map(acts_unasked, held_policies))
        still_held = len(self._held)
        if is_freeze_over(
            frozen_for, self._turned, still_held, self._rule, unasked=acts_without_asking
        ):
            self._tripped_at = None
            self._held.clear()

    # what follows

    def _follow(
        self,
        number: int,
        track: Track,
        index: int,
        verdict: Verdict,
        proof: Verdict | None,
        now: UtcDatetime,
    ) -> None:
        """Do what follows from a verdict, and plan the next look unless the instance stops."""
        kind = verdict.kind
        if proof is not None and proof.kind is VerdictKind.IDLE:
            verdict = proof
        is_frozen = self._tripped_at is not None and track.question is None
        if is_frozen and kind is VerdictKind.IDLE:
            kind = VerdictKind.FROZEN
        self._note(track, kind)
        if kind is VerdictKind.NO_DATA:
            track.no_data_bins += 1
        if kind in WORKING:
            _wake_up(track, verdict, now)
        else:
            may_open = _can_open(kind, proof) and not _people_know(track, now)
            if may_open:
                self._open(track, index, verdict, now)
            is_due = track.question is not None and now >= track.question.due_at
            if is_due and self._answer(number, track, index, now):
                return
        self._push(number, track, self._next_look(track, index, verdict, proof, now))

    def _note(self, track: Track, kind: VerdictKind | None) -> None:
        self._working += (kind in WORKING) - (track.before in WORKING)
        track.before = kind
        if kind is not VerdictKind.NO_DATA:
            track.last_known = kind

    def _open(self, track: Track, index: int, verdict: Verdict, now: UtcDatetime) -> None:
        """Ask, notify, or give notice, as the policy and the plan say."""
        rule = track.policy.approval
        if _works_since(track, index, now):
            # The second look before a question sees the last minutes, too.
            track.quiet = quiet_until(Outcome.WOKE_UP, rule, now, was_opened=False)
            return
        if not track.plan.steps:
            reason = "; ".join(track.plan.replaced_because) or "the policy's plan is to notify only"
            track.events.append(Event(now, None, now, Ending.TOLD, reason))
            track.quiet = quiet_until(Outcome.TOLD, rule, now, was_opened=True)
            return
        if mode_of(track.policy, track.plan) is Mode.AUTO:
            acts_at = now + timedelta(minutes=rule.notice_minutes) + REFUSALS_LATE
            track.question = Question(
                now, None, acts_at, True, verdict.reason, _proved_from(verdict)
            )
            return
        # In mode observe, too: people want to know what would be asked.
        owner, project, _ = owner_of(track.instance, track.policy.ownership)
        directory = track.policy.ownership
        times = schedule(
            now, rule, directory.asked(owner, project), directory.escalated(owner, project)
        )
        answered_at = times.ask_at + self._delay
        is_in_time = answered_at < times.expire_at
        silence_acts = acts_on_silence(track.policy, track.plan)
        due_at = answered_at
        if not is_in_time:
            due_at = times.expire_at
            if silence_acts:
                due_at += REFUSALS_LATE
        track.question = Question(
            found_at=now,
            sent_at=times.ask_at,
            due_at=due_at,
            acts=is_in_time or silence_acts,
            reason=verdict.reason,
            proved_from=_proved_from(verdict),
        )

    def _answer(self, number: int, track: Track, index: int, now: UtcDatetime) -> bool:
        """Recheck and stop when the yes came or the time is over. Return whether it is stopped."""
        question = track.question
        rule = track.policy.approval
        assert question is not None
        if not question.acts:
            track.close(Ending.EXPIRED, now, "nobody answered in time")
            track.quiet = quiet_until(Outcome.EXPIRED, rule, now, was_opened=True)
            return False
        verdict = self._recheck(track, now)
        if verdict.is_late:
            return False  # its readings may still come
        is_older_work = verdict.last_busy is not None and verdict.last_busy <= question.proved_from
        works_again = verdict.kind in WORKING and not is_older_work
        if works_again or _works_since(track, index, now):
            track.close(Ending.WOKE_UP, now, verdict.reason)
            return False
        if verdict.kind is not VerdictKind.IDLE or self._tripped_at is not None:
            reason = "plans were frozen" if self._tripped_at is not None else verdict.reason
            track.close(Ending.REFUSED, now, reason)
            track.quiet = quiet_until(Outcome.REFUSED, rule, now, was_opened=True)
            return False
        self._stop(number, track, index, question.reason)
        return True

    def _stop(self, number: int, track: Track, index: int, reason: str) -> None:
        """Stop it until work would have resumed, when a person starts it again."""
        recording = track.recording
        resumed = track.active.find(1, index, track.run_end)
        until = track.run_end if resumed < 0 else resumed
        hourly = track.plan.saving.saved_usd_per_hour
        seconds = Decimal((until - index) * PERIOD // _A_SECOND)
        stop = Stop(
            at=recording.time(index),
            until=recording.time(until),
            hit_work=resumed >= 0,
            usd=None if hourly is None else hourly * seconds / 3600,
        )
        track.close(Ending.STOPPED, stop.at, reason, stop)
        track.stops.append((index, until))
        self._note(track, None)
        if resumed < 0:
            self._next_run(number, track, until)
            return
        end = track.run_end
        track.start(until, end)
        self._push(number, track, until + 1)

    # time

    def _next_look(
        self, track: Track, index: int, verdict: Verdict, proof: Verdict | None, now: UtcDatetime
    ) -> int:
        """Return the bin of the next look: the next sweep, or the first at which the verdict may
        change."""
        if track.question is not None:
            return index + 1
        if verdict.kind is VerdictKind.IDLE and proof is None and not _people_know(track, now):
            return max(index + 1, index + _bins_until_worth_proving(track, now))
        if verdict.not_before is None:
            return index + 1
        earliest = verdict.not_before
        if verdict.kind in WORKING:
            earliest = _first_look_after_work(track, earliest)
        return max(index + 1, ceil((earliest - track.recording.span.start) / PERIOD))

    def _push(self, number: int, track: Track, index: int) -> None:
        heappush(self._agenda, (min(index, track.run_end) + _offset(track.recording), number))

    def _end_run(self, number: int, track: Track, index: int) -> None:
        """End a run: others stopped the instance, or the record ends."""
        now = track.recording.time(index)
        if track.question is not None:
            if index >= track.recording.span.bins:
                track.close(Ending.OPEN, now, "the record ends")
            else:
                track.close(Ending.GONE, now, "stopped")
        self._note(track, None)
        self._next_run(number, track, index)

    def _next_run(self, number: int, track: Track, index: int) -> None:
        """Begin the first run from this bin on; there may be none."""
        for start, end in track.recording.runs:
            if start >= index:
                track.start(start, end)
                self._push(number, track, start + 1)
                return


def _first_look_after_work(track: Track, not_before: UtcDatetime) -> UtcDatetime:
    """Return when the first window without any work ends, with the lag of readings.

    Where work continues, the product would read and find it busy; the record already shows that.
    """
    recording = track.recording
    policy = track.policy
    length = policy.window // PERIOD
    last = ceil((not_before - policy.window - recording.span.start) / PERIOD) - 1
    while True:
        later = track.at_work.rfind(1, last + 1, min(last + 1 + length, track.run_end))
        if later < 0:
            return recording.time(last + 1 + length) + policy.lag
        last = later


def _can_open(kind: VerdictKind, proof: Verdict | None) -> bool:
    """Return whether people are notified: about an idle instance that others manage at once, about
    any other when the question is proved."""
    if kind is VerdictKind.MANAGED_ELSEWHERE:
        return True
    is_proved = proof is not None and proof.kind is VerdictKind.IDLE
    return kind is VerdictKind.IDLE and is_proved


def _proved_from(verdict: Verdict) -> UtcDatetime:
    assert verdict.evidence is not None, verdict.reason
    return verdict.evidence.window.start


def _known(track: Track, index: int, now: UtcDatetime) -> Verdict | None:
    """Return the verdict if reading and judging again would find the same, else `None`.

    Instances that people know of are judged by utilization alone, so their rest is known only as
    long as people know.
    """
    if track.known is None or index >= track.known_until:
        return None
    if track.known.kind is VerdictKind.NO_DATA or _people_know(track, now):
        return track.known
    return None


def _remember(
    track: Track, index: int, verdict: Verdict, window: Window, *, people_know: bool
) -> None:
    """Note until when the verdict stays the same, by the bins that come into its window.

    Bins that are measured and quiet take nothing from a window's coverage, so rest stays proved.
    Bins without any reading add nothing to it, so what utilization did not prove stays unproved.
    """
    track.known = None
    unchanging = _unchanging_bins(track, verdict, people_know=people_know)
    if unchanging is None:
        return
    end = (window.end - track.recording.span.start) // PERIOD
    first_change = unchanging.find(0, end)
    if first_change < 0:
        first_change = len(unchanging)
    track.known = verdict
    track.known_until = index + 1 + first_change - end


def _unchanging_bins(track: Track, verdict: Verdict, *, people_know: bool) -> bytes | None:
    """Return 1 for every bin that leaves the verdict as it is; `None` if any bin may change it."""
    if people_know and verdict.kind in _AT_REST:
        return track.at_rest
    if verdict.is_late or verdict.kind is not VerdictKind.NO_DATA:
        return None
    if people_know:
        return track.unseen
    if verdict.evidence is not None and not is_candidate(verdict.evidence, track.policy):
        return track.unseen
    return None


def _request(track: Track, now: datetime, length: timedelta | None = None) -> EvidenceRequest:
    """Return what the sweep reads; with a length, what it reads before a question."""
    policy = track.policy
    if length is None:
        figures = _subject(track, now).figures_to_read()
    else:
        figures = wanted_figures(policy) | {"memory"}
    by_gpu = track.recording.source is MetricSource.PER_GPU
    return EvidenceRequest(
        instance=track.instance,
        policy=policy,
        dimensions=track.recording.sets,
        source=MetricSource.PER_GPU.value if by_gpu else None,
        search=False,
        figures=figures,
        only_if=is_candidate,
        length=length,
    )


def _bins_until_worth_proving(track: Track, now: UtcDatetime) -> int:
    """Return after how many bins a sweep of an idle instance finds anything new: it may ask, or the
    instance no longer rests."""
    policy = track.policy
    memory = track.memory
    if memory is None or memory.idle_since is None:
        return 1
    start = track.recording.span.start
    end = (window_before(now, policy.window, policy.period, policy.lag).end - start) // PERIOD
    unsteady = track.steady.find(0, end)
    ends = [len(track.steady) if unsteady < 0 else unsteady + 1]
    ends.append(-((start - memory.idle_since - policy.ask_window) // PERIOD))
    sooner = sooner_window(policy)
    if sooner is not None:
        first = -((start - memory.idle_since - sooner) // PERIOD)
        released = track.released.find(1, max(end, first - 1))
        if released >= 0:
            ends.append(released + 1)
    return min(ends) - end


def _verdicts_without_reading(
    running: Sequence[tuple[Track, int]], now: UtcDatetime
) -> dict[str, Verdict]:
    """Return the verdicts that need no metrics, by instance. Memories are made as new as the last
    sweep before now."""
    verdicts = {}
    for track, index in running:
        if track.memory is not None:
            # Every sweep remembers; the sweeps that were skipped would have found the same.
            track.memory = replace(track.memory, at=now - PERIOD)
        verdict = _known(track, index, now) or _subject(track, now).before_reading()
        if verdict is not None:
            verdicts[track.instance_id] = verdict
    return verdicts


def _wake_up(track: Track, verdict: Verdict, now: UtcDatetime) -> None:
    """End what was open about an instance that works again."""
    track.quiet = None
    if track.question is not None:
        track.close(Ending.WOKE_UP, now, verdict.reason)


def _subject(track: Track, now: datetime) -> Subject:
    people_know = _people_know(track, now)
    return Subject(track.instance, track.policy, now, memory=track.memory, people_know=people_know)


def _people_know(track: Track, now: datetime) -> bool:
    return track.question is not None or (track.quiet is not None and now < track.quiet)


def _works_since(track: Track, index: int, now: UtcDatetime) -> bool:
    """Return whether work began between the end of the judged window and now, as the product's
    second look reads."""
    policy = track.policy
    window = window_before(now, policy.window, policy.period, policy.lag)
    end = (window.end - track.recording.span.start) // PERIOD
    return track.active.find(1, max(0, end), index) >= 0


def _offset(recording: Recording) -> int:
    return int(recording.span.start.timestamp() // PERIOD.total_seconds())
