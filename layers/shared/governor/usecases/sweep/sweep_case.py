"""One sweep and its cases: what is known of each instance, what was found, and what the next sweep
needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ParamSpec

from governor.domain.approvals.approval import Approval
from governor.domain.episode.episode import Episode, InstanceRecord, Observation
from governor.domain.evidence import MetricSource
from governor.domain.instance import Instance, Target
from governor.domain.money.cost import Rate
from governor.domain.policy.policy import AppliedPolicy, Policy
from governor.domain.sweep.breaker import Change
from governor.domain.sweep.judging import Memory, Subject, is_due
from governor.domain.sweep.verdict import LEFT_ALONE, WORKING, Verdict, VerdictKind, known_kind
from governor.domain.units import UtcDatetime
from governor.errors import GovernorError
from governor.ports import Spread
from governor.usecases.evidence.gather_evidence import Gathered

Arguments = ParamSpec("Arguments")

SETTLED_AFTER = timedelta(days=3)
"""How long after a start the ledger is checked: longer than any policy lets a stop wait to be
booked."""
GPU_CHECK_EVERY = timedelta(days=1)
"""How often a busy instance known by its aggregate is read GPU by GPU, which costs reads, for
advice."""


@dataclass(slots=True)
class SweepSummary:
    """Result of a sweep. `verdicts` counts by kind; `problems` are effects that failed."""

    target: Target
    at: UtcDatetime
    instances: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    episodes_started: int = 0
    frozen: bool = False
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Case:
    instance: Instance
    applied: AppliedPolicy
    record: InstanceRecord
    before: Observation
    """Observation of the sweep before; without a verdict where that did not see this run of the
    instance."""
    now: UtcDatetime
    unknown: str | None = None
    """Why nothing can be said about it, whatever its metrics show."""
    verdict: Verdict = field(init=False)
    proof: Verdict | None = None
    """The verdict over the longer window that a question needs, where it was worth reading."""
    gathered: Gathered | None = None
    """Evidence; `None` where the verdict needed no metrics."""
    next_gpu_check_at: UtcDatetime | None = None
    notified: bool = False
    """People or subscribers were notified of its verdict in this sweep."""
    episode: Episode | None = None
    """Its open episode, as this sweep has read it; `question` is its approval while it asks."""
    question: Approval | None = None

    @property
    def id(self) -> str:
        return self.instance.instance_id

    @property
    def policy(self) -> Policy:
        return self.applied.policy

    @property
    def subject(self) -> Subject:
        hold, know = self.record.hold, self.people_know
        return Subject(self.instance, self.policy, self.now, hold, self._memory, know)

    @property
    def _memory(self) -> Memory | None:
        """The observation as far as it holds under this version of the policy."""
        before, kind = self.before, known_kind(self.before.verdict)
        if kind is None:
            return None
        if before.policy_version != self.applied.version:
            return Memory(before.at, kind)
        known = before.last_busy, before.advice, before.idle_since, before.late_since, before.reason
        return Memory(before.at, kind, *known)

    @property
    def unread_verdict(self) -> Verdict | None:
        """The verdict that needs no metrics; `None` where they must be read."""
        if self.unknown is not None:
            return Verdict(VerdictKind.NO_DATA, self.unknown)
        return self.subject.before_reading()

    @property
    def checks_gpus(self) -> bool:
        """Return whether a busy instance known by its aggregate is read GPU by GPU in this
        sweep."""
        due = self.before.next_gpu_check_at
        by_aggregate = self.before.source == MetricSource.AGGREGATE
        return (
            self.before.verdict in WORKING and by_aggregate and due is not None and self.now >= due
        )

    @property
    def is_idle(self) -> bool:
        """Return whether it is idle, and nothing but an answer stands between it and its plan."""
        return self.verdict.kind is VerdictKind.IDLE

    @property
    def is_proved(self) -> bool:
        return self.proof is not None and self.proof.kind is VerdictKind.IDLE

    @property
    def is_quiet(self) -> bool:
        """Return whether an answer, or the lack of one, keeps this idleness from being asked about
        again."""
        return self.record.is_quiet(self.instance.launch_time, self.now)

    @property
    def is_managed_due(self) -> bool:
        """Return whether the owner of its environment got no message about it for long enough."""
        at = self.before.managed_told_at
        return at is None or self.now - at >= timedelta(
            hours=self.policy.managed.tell_again_after_hours
        )

    @property
    def managed_idle_since(self) -> UtcDatetime | None:
        """From when on an instance that another service runs is idle, where that is long enough to
        say so."""
        since, evidence = self.idle_since if self.verdict.manager else None, self.verdict.evidence
        enough = timedelta(minutes=self.policy.managed.idle_for_minutes)
        if since is None or evidence is None:
            return None
        return since if evidence.window.end - since >= enough else None

    @property
    def people_know(self) -> bool:
        """Return whether people know of its idleness: then only whether work resumed is worth a
        read."""
        return self.record.open_episode is not None or self.is_quiet or not self.is_managed_due

    @property
    def idle_since(self) -> UtcDatetime | None:
        return self._remembered.idle_since

    @property
    def _remembered(self) -> Memory:
        return self.subject.remembered(self.verdict, self.proof)

    @property
    def was_heard(self) -> bool:
        """Return whether its metrics were read, so that their absence is silence and lasts."""
        read = self.gathered is not None and self.gathered.evidence.read_problem is None
        return read and not self.verdict.is_late

    @property
    def fell_silent(self) -> bool:
        """Return whether it is silent, and nobody was notified of that."""
        silent = self.verdict.kind is VerdictKind.NO_DATA and self.was_heard
        return silent and not self.before.told_silent

    @property
    def change(self) -> Change:
        before = self.before
        last_known = known_kind(before.last_known) if before.last_known else None
        return Change(
            self.id,
            # Silence is counted when it has lasted: until then the last sweep with readings is
            # compared.
            before=last_known if before.is_late else known_kind(before.verdict),
            last_known=last_known,
            after=self.verdict.kind,
            was_read=self.was_heard,
        )

    @property
    def goes_on_working(self) -> bool:
        """Return whether only time has passed since the sweep before, so that nothing follows from
        this one: it worked and works, or started long ago and was never seen."""
        was_seen, started = self.before.verdict, self.now - self.instance.launch_time
        worked = was_seen in WORKING or (not was_seen and started >= SETTLED_AFTER)
        return worked and self.verdict.kind in WORKING

    def observation(self, rate: Rate | None = None) -> Observation:
        """Return what the next sweep needs to know of this one; without a rate, hours count as
        before."""
        before, gathered, verdict, now = self.before, self.gathered, self.verdict, self.now
        kind, notified_at, known = verdict.kind, now if self.notified else None, self._remembered
        idle_notified_at = notified_at if self.is_idle else None
        source, dimensions, searched = before.source, before.dimensions, before.searched_at
        due = self.next_gpu_check_at or before.next_gpu_check_at
        if gathered is not None:
            found, dimensions = gathered.evidence.source, gathered.dimensions
            source = source if found is MetricSource.NONE else found.value
            searched = now if gathered.searched else searched
            if self.checks_gpus:
                # The aggregate stays the cheap way to watch it; its GPUs were read once.
                due, source = now + GPU_CHECK_EVERY, MetricSource.AGGREGATE.value
        return Observation(
            launch_time=self.instance.launch_time,
            verdict=kind.value,
            at=now,
            reason=verdict.reason,
            policy_version=self.applied.version,
            last_busy=verdict.last_busy,
            source=source,
            dimensions=dimensions,
            searched_at=searched,
            next_gpu_check_at=due,
            told_silent=kind is VerdictKind.NO_DATA and (before.told_silent or self.notified),
            advice=verdict.advice,
            idle_since=known.idle_since,
            late_since=known.late_since,
            idle_told_at=None if kind in WORKING else before.idle_told_at or idle_notified_at,
            managed_told_at=(notified_at or before.managed_told_at)
            if self.verdict.manager
            else None,
            last_known=before.last_known
            if kind in (VerdictKind.NO_DATA, *LEFT_ALONE)
            else kind.value,
            is_late=verdict.is_late,
            project=rate.project if rate else before.project,
            usd_per_hour=rate.usd_per_hour if rate else before.usd_per_hour,
            counted_for=rate.owner if rate else before.counted_for,
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """All running instances of a target at one moment."""

    target: Target
    base: Policy
    now: UtcDatetime
    cases: Sequence[Case]
    records: Mapping[str, InstanceRecord]
    """Records of every instance that ever was idle or decided about, running or not."""
    summary: SweepSummary
    swept_before: UtcDatetime | None
    """Time of the last sweep that ended."""
    spread: Spread

    def is_hourly(self, key: str) -> bool:
        """Return whether what is looked at once an hour is due, each at a minute of its own."""
        return self.swept_before is None or is_due(
            key, timedelta(hours=1), self.swept_before, self.now
        )

    def attempt_each(self, effects: Iterable[tuple[str, Callable[[], object]]]) -> list[bool]:
        """Try effects that do not concern each other, some at a time; return which succeeded."""
        return list(self.spread(lambda one: self.attempt(*one), list(effects)))

    def attempt(
        self,
        label: str,
        effect: Callable[Arguments, object],
        *args: Arguments.args,
        **more: Arguments.kwargs,
    ) -> bool:
        """Try one effect. A failure is noted and repaired by the next sweep, which computes
        anew."""
        try:
            effect(*args, **more)
        except GovernorError as error:
            self.summary.problems.append(f"{label}: {type(error).__name__}: {error}")
            return False
        return True
