"""The stages of an instance within one sweep (listed, judged, with its open episode), and the
record of the sweep.

A `Listing` holds each instance before its metrics are read (`ListedInstance`). A judged instance
is a `Case`; a `Sweep` holds all of them. `FollowUp` then reads what is still open (`OpenEpisode`).
An instance that EC2 does not describe is an `UndescribedInstance` in the listing and in the sweep.
Nothing in this module may read from or write to AWS: the steps of the sweep do.

A step of the sweep that fails with a GovernorError becomes a *problem of the sweep*: a text in its
summary. The other steps go on, and the next sweep tries again. Any other error ends the sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, ParamSpec, TypeVar

from governor.approvals.model.approval import Approval
from governor.core.errors import GovernorError
from governor.core.instance import Instance, Target
from governor.core.ports import Spread
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, InstanceRecord, Observation
from governor.episode.model.standing import StateKind
from governor.evidence.model import MetricSource
from governor.evidence.request import Gathered
from governor.limits.model.breaker import Change
from governor.policy.model.policy import AppliedPolicy, Policy
from governor.verdict.model import WORKING, Verdict, VerdictKind, known_kind
from governor.verdict.rules.judging import Memory, Subject, is_due

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

SETTLED_AFTER = timedelta(days=3)
"""How long after a start the ledger is checked: longer than any policy lets a stop wait to be
booked."""
GPU_CHECK_EVERY = timedelta(days=1)
"""How often a busy instance that is watched by an aggregate of its GPUs is read GPU by GPU. Those
reads cost more, and serve only advice."""


@dataclass(slots=True)
class SweepSummary:
    """Result of a sweep. `verdicts` counts instances by kind; `problems` are texts about steps that
    failed."""

    target: Target
    at: UtcDatetime
    instances: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    episodes_started: int = 0
    frozen: bool = False
    problems: list[str] = field(default_factory=list)
    state: StateKind | None = None
    """Why nothing of the target can be swept until a person changes that; `None` if it was
    swept."""


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """A running instance of the target, as EC2 described it, before its metrics are read."""

    instance: Instance
    applied: AppliedPolicy
    record: InstanceRecord
    previous: Observation
    """Observation of the previous sweep. Its verdict is empty if that sweep did not see this run of
    the instance."""
    now: UtcDatetime
    problem: str | None = None
    """Why the instance cannot be judged, whatever its metrics show."""

    @property
    def id(self) -> str:
        """Return the id of the instance."""
        return self.instance.instance_id

    @property
    def policy(self) -> Policy:
        """Return the policy of the instance, with its overrides."""
        return self.applied.policy

    @property
    def is_first_sight(self) -> bool:
        """Return whether the previous sweep did not see this run of the instance."""
        return not self.previous.verdict

    @property
    def subject(self) -> Subject:
        """Return everything by which the instance is judged, besides its metrics: the instance, its
        policy, people's decisions about it, and the memory of the previous sweep."""
        return Subject(
            self.instance,
            self.policy,
            self.now,
            self.record.hold,
            self._memory,
            self.people_know,
        )

    @property
    def _memory(self) -> Memory | None:
        """Return what the previous sweep found out about this run of the instance. Under another
        version of the policy, only its verdict and time count.

        Return `None` if that sweep did not see this run, or its verdict is unknown to this release.
        """
        previous = self.previous
        kind = known_kind(previous.verdict)
        if kind is None:
            return None
        if previous.policy_version != self.applied.version:
            return Memory(previous.at, kind)
        return Memory(
            at=previous.at,
            verdict=kind,
            last_busy=previous.last_busy,
            advice=previous.advice,
            idle_since=previous.idle_since,
            late_since=previous.late_since,
            reason=previous.reason,
            idle_parts=previous.idle_parts,
        )

    @property
    def verdict_without_metrics(self) -> Verdict | None:
        """Return the verdict that needs no metrics, such as `exempt`, or `no-data` for an instance
        with a `problem`; `None` if its metrics must be read."""
        if self.problem is not None:
            return Verdict(VerdictKind.NO_DATA, self.problem)
        return self.subject.before_reading()

    @property
    def is_gpu_check_due(self) -> bool:
        """Return whether the daily read GPU by GPU is due: only for an instance that works and
        is watched by an aggregate of its GPUs; return false for any other."""
        previous = self.previous
        if previous.verdict not in WORKING or previous.source != MetricSource.AGGREGATE:
            return False
        check_at = previous.next_gpu_check_at
        return check_at is not None and self.now >= check_at

    @property
    def is_quiet(self) -> bool:
        """Return whether nobody is asked yet about this run of the instance, because of an earlier
        answer, expiry or failure."""
        return self.record.is_quiet(self.instance.launch_time, self.now)

    @property
    def is_managed_due(self) -> bool:
        """Return whether the owner of its environment may be notified of its idleness now: they
        never were in this run, or `managed.tell_again_after_hours` ago."""
        told_at = self.previous.managed_told_at
        if told_at is None:
            return True
        again_after = timedelta(hours=self.policy.managed.tell_again_after_hours)
        return self.now - told_at >= again_after

    @property
    def people_know(self) -> bool:
        """Return whether people know of the idleness of the instance, if it is idle: an episode is
        open, nobody is asked yet, or the owner of its environment was notified lately. Then only
        metrics that show resumed work need to be read."""
        return self.record.open_episode is not None or self.is_quiet or not self.is_managed_due


@dataclass(frozen=True, slots=True)
class UndescribedInstance:
    """An instance of the target whose record from EC2 cannot be read. It counts as running.

    It is no `Case`, so nothing judges, tags or asks about it. It keeps what earlier sweeps knew:
    `follow_up.py` keeps its question open, `undescribed.py` has its costs, its observation and its
    row.
    """

    record: InstanceRecord
    previous: Observation
    """The last observation of the instance. If there is none, its verdict is empty, and its launch
    time is that of the open episode, or `now`."""
    now: UtcDatetime
    problem: str
    """Why its record cannot be read."""
    is_named: bool
    """True if EC2's list names it. If not, a record without an id may be its own, and nobody knows
    whether it runs."""

    @property
    def id(self) -> str:
        """Return the id of the instance."""
        return self.record.instance_id

    @property
    def verdict(self) -> Verdict:
        """Return the verdict `no-data` with the problem."""
        return Verdict(VerdictKind.NO_DATA, self.problem)

    @property
    def is_quiet(self) -> bool:
        """Return whether nobody is asked yet about the last known run of the instance, because of
        an earlier answer, expiry or failure."""
        return self.record.is_quiet(self.previous.launch_time, self.now)


RunningInstance = ListedInstance | UndescribedInstance
"""A running instance, with what the state table has of it."""


@dataclass(slots=True)
class Case:
    """An instance that this sweep has judged."""

    listed: ListedInstance
    verdict: Verdict
    gathered: Gathered | None = None
    """Its evidence, and how it was found; `None` if the verdict needed no metrics."""
    proof: Verdict | None = None
    """The verdict over the longer window that a question needs; `None` if that was not read."""
    first_gpu_check_at: UtcDatetime | None = None
    """When its GPUs are first read one by one; `None` unless the instance is new to the sweep."""
    notified: bool = False
    """True if people or subscribers were notified of its verdict in this sweep."""

    @property
    def id(self) -> str:
        """Return the id of the instance."""
        return self.listed.id

    @property
    def instance(self) -> Instance:
        """Return the instance, as EC2 described it to this sweep."""
        return self.listed.instance

    @property
    def policy(self) -> Policy:
        """Return the policy of the instance, with its overrides."""
        return self.listed.policy

    @property
    def record(self) -> InstanceRecord:
        """Return what the table keeps of the instance, as this sweep read it."""
        return self.listed.record

    @property
    def previous(self) -> Observation:
        """Return the observation of the previous sweep; its verdict is empty if that sweep did not
        see this run of the instance."""
        return self.listed.previous

    @property
    def is_idle(self) -> bool:
        """Return whether the verdict on the instance is `idle`: no hold or freeze keeps a question
        from starting."""
        return self.verdict.kind is VerdictKind.IDLE

    @property
    def is_proved(self) -> bool:
        """Return whether the instance was idle over the whole window that a question needs."""
        return self.proof is not None and self.proof.kind is VerdictKind.IDLE

    @property
    def idle_since(self) -> UtcDatetime | None:
        """Return since when the instance is proved idle without a break; `None` if it is not idle,
        or that is not known."""
        return self.new_memory.idle_since

    @property
    def new_memory(self) -> Memory:
        """Return the memory by which the next sweep judges the instance, besides its metrics."""
        return self.listed.subject.remembered(self.verdict, self.proof)

    @property
    def managed_idle_since(self) -> UtcDatetime | None:
        """Return since when an instance that another service runs is idle. Return `None` if no
        other service runs it, this sweep did not read it, it is not known to be idle, or the time
        is shorter than the policy's `managed.idle_for_minutes`."""
        evidence = self.verdict.evidence
        if self.verdict.manager is None or evidence is None:
            return None
        idle_since = self.idle_since
        if idle_since is None:
            return None
        is_long_enough = evidence.window.end - idle_since >= timedelta(
            minutes=self.policy.managed.idle_for_minutes
        )
        return idle_since if is_long_enough else None

    @property
    def was_read(self) -> bool:
        """Return whether the metrics of the instance were read and are not late, so that missing
        readings mean silence."""
        if self.gathered is None or self.gathered.evidence.read_problem is not None:
            return False
        return not self.verdict.is_late

    @property
    def has_no_data(self) -> bool:
        """Return whether the sweep had no usable readings of the instance."""
        return self.verdict.kind is VerdictKind.NO_DATA

    @property
    def fell_silent(self) -> bool:
        """Return whether the instance is silent, and no earlier sweep has notified people of
        that."""
        is_silent = self.has_no_data and self.was_read
        return is_silent and not self.previous.told_silent

    @property
    def change(self) -> Change:
        """Return the change of its verdict since the previous sweep, as the breakers count it. The
        verdict before is `None` at the first sweep, and if this release does not know its name."""
        previous = self.previous
        last_known = known_kind(previous.last_known) if previous.last_known else None
        # If the previous readings were only late, compare with the last sweep that had readings:
        # silence counts once it lasts.
        before = last_known if previous.is_late else known_kind(previous.verdict)
        return Change(
            self.id,
            before=before,
            last_known=last_known,
            after=self.verdict.kind,
            was_read=self.was_read,
        )

    @property
    def goes_on_working(self) -> bool:
        """Return whether the instance works and nothing has to be done about that: it worked at the
        previous sweep, too, or this is the first sweep that sees it, and it started at least
        `SETTLED_AFTER` ago."""
        if self.verdict.kind not in WORKING:
            return False
        running_for = self.listed.now - self.instance.launch_time
        is_old_and_new_here = self.listed.is_first_sight and running_for >= SETTLED_AFTER
        return is_old_and_new_here or self.previous.verdict in WORKING


class OpenEpisode(NamedTuple):
    """An open episode of an instance, with its approval request if it asks."""

    episode: Episode
    question: Approval | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The running instances of a target that the policy selects, at one moment and before any is
    judged."""

    target: Target
    base: Policy
    now: UtcDatetime
    instances: Sequence[ListedInstance]
    undescribed: Sequence[UndescribedInstance]
    records: Mapping[str, InstanceRecord]
    """By instance id: records of all instances that ever were idle or decided about, running or
    not."""
    observations: Mapping[str, Observation]
    """By instance id: observations of the previous sweep, also of instances that no longer run."""
    problems: list[str]
    """Texts about steps that failed so far. The summary of the sweep goes on with this list."""

    @property
    def swept_before(self) -> UtcDatetime | None:
        """Return the time of the last sweep that ended, or `None` if there is no observation."""
        # A later sweep that was cut short may have saved newer observations, so the oldest counts.
        times = (observation.at for observation in self.observations.values())
        return min(times, default=None)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The running instances of a target that the policy selects, at one moment, each with its
    verdict; those that EC2 does not describe apart."""

    target: Target
    base: Policy
    now: UtcDatetime
    cases: Sequence[Case]
    undescribed: Sequence[UndescribedInstance]
    """Those of the running instances that EC2 does not describe. They have no case."""
    records: Mapping[str, InstanceRecord]
    """By instance id: records of all instances that ever were idle or decided about, running or
    not."""
    summary: SweepSummary
    swept_before: UtcDatetime | None
    """Time of the last sweep that ended; `None` if there was none."""
    spread: Spread

    @property
    def running(self) -> list[RunningInstance]:
        """Return all running instances, first those that EC2 describes."""
        running: list[RunningInstance] = [case.listed for case in self.cases]
        running.extend(self.undescribed)
        return running

    @property
    def running_ids(self) -> set[str]:
        """Return the ids of all running instances, described or not."""
        return {instance.id for instance in self.running}

    def is_hourly_check_due(self, key: str) -> bool:
        """Return whether the hourly check of this key, such as an instance id, is due now.

        Each key has a time of its own within the hour. At the first sweep of a target all are due.
        """
        if self.swept_before is None:
            return True
        return is_due(key, timedelta(hours=1), self.swept_before, self.now)

    def attempt_each(self, effects: Iterable[tuple[str, Callable[[], object]]]) -> list[bool]:
        """Try effects that do not depend on each other, several at a time, and return for each, in
        order, whether it succeeded.

        Each effect comes with the label of its problem, such as an instance id. A GovernorError
        becomes a problem of the sweep; any other error is raised.
        """
        return list(self.spread(lambda effect: self.attempt(*effect), list(effects)))

    def attempt(
        self,
        label: str,
        effect: Callable[Arguments, object],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> bool:
        """Call `effect` with these arguments, and return whether it succeeded. A GovernorError
        becomes a problem of the sweep, after the `label`; any other error is raised."""
        return attempt(self.summary.problems, label, effect, *args, **kwargs)

    def attempt_read(self, label: str, read: Callable[[], Answer]) -> Answer | None:
        """Call `read` and return its result. If it raises a GovernorError, add that to the problems
        of the sweep, after the `label`, and return `None`."""
        try:
            return read()
        except GovernorError as error:
            _note_failure(self.summary.problems, label, error)
            return None


def attempt(
    problems: list[str],
    label: str,
    effect: Callable[Arguments, object],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> bool:
    """Call `effect` with these arguments, and return whether it succeeded. A GovernorError is added
    to `problems`, after the `label`; any other error is raised."""
    try:
        effect(*args, **kwargs)
    except GovernorError as error:
        _note_failure(problems, label, error)
        return False
    return True


def _note_failure(problems: list[str], label: str, error: GovernorError) -> None:
    """Add the error to `problems` as a text: `i-0abc: NotFound: ...`."""
    problems.append(f"{label}: {type(error).__name__}: {error}")
