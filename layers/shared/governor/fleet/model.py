"""Rows of the Fleet, one for each instance that a sweep saw, and the costs of each day.

These records must stay small: every page of the console reads all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from decimal import Decimal
from operator import attrgetter
from typing import NamedTuple

from governor.core.instance import Target
from governor.core.units import Usd, UsdPerHour, UtcDatetime
from governor.evidence.model import Evidence
from governor.evidence.rules.series import peak
from governor.limits.rules.breaker import HOUR, hour_of
from governor.verdict.model import KEPT, Family, IdleParts, VerdictKind, known_kind

Hours = tuple[int | None, ...]
"""The highest utilization in percent by hour (UTC), oldest first; `None` for an hour without a
reading."""
HOURS = 24
NOT_MEASURED: Hours = (None,) * HOURS
REASON_CHARACTERS = 120
MOST_UNGOVERNED = 500
UNGOVERNED = "ungoverned"
"""In place of a verdict: the instance does not have the policy's selector tag. It is only shown."""
STOPPED = "stopped"
"""In place of a verdict: GPU Governor stopped the instance, and nobody has started it since."""
TERMINATED = "terminated"
"""In place of a verdict: the instance is gone, and a record of it is stored. Pages of sweeps have
no such row: the console makes them from the ledger."""
_NOT_RUNNING_GOVERNED = (UNGOVERNED, STOPPED, TERMINATED)


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One instance as the last sweep of its target saw it; an `UNGOVERNED` one as a sweep in the
    hour before saw it."""

    instance_id: str
    name: str
    account: str
    region: str
    instance_type: str
    owner: str
    project: str
    verdict: str
    """The value of a `VerdictKind`, or `UNGOVERNED`, `STOPPED` or `TERMINATED`."""
    reason: str
    """The sentence of the verdict, shortened to `REASON_CHARACTERS`."""
    usd_per_hour: UsdPerHour | None
    launched_at: UtcDatetime
    idle_since: UtcDatetime | None = None
    managed_by: str | None = None
    kept_until: UtcDatetime | None = None
    exempt: bool = False
    episode: str | None = None
    approval_id: str | None = None
    """Set while a question is open, or its plan can be held because nobody answered."""
    asked_at: UtcDatetime | None = None
    """Set once the question is sent, as is `expires_at`."""
    expires_at: UtcDatetime | None = None
    """The deadline that messages give. The question may take answers for some minutes more."""
    verb: str | None = None
    """The action of the open episode: `stop` or `terminate`; `None` if it plans neither."""
    is_reported: bool = False
    """True if, as far as is known, its idleness is only reported, and nobody is asked about it."""
    quiet_until: UtcDatetime | None = None
    restarts_quiet_until: UtcDatetime | None = None
    """Set while nobody is asked because others start it again after each stop."""
    hours: Hours = NOT_MEASURED
    """The last hour is the one in which the sweep ran."""
    advice: tuple[str, ...] = ()
    created_by: str | None = None
    """Creator of an `UNGOVERNED` instance: empty if CloudTrail does not know it, `None` until
    CloudTrail is asked."""
    kept_because: str | None = None
    """The value of the `KeepReason` for which it stays although it may be idle; `None` if nothing
    keeps it, and in rows of earlier releases."""
    kept_by: str = ""
    """The person, service, tag or override that keeps it; empty if that is not known."""
    stays_until: UtcDatetime | None = None
    """The end of that reason; `None` if it has none."""
    stopped_at: UtcDatetime | None = None
    """Time at which EC2 was asked to stop or terminate a `STOPPED` or `TERMINATED` instance. Its
    `episode` is then the one that did, and `usd_per_hour` the price while it ran."""
    acts_on_silence: bool = False
    """True if the action of the question follows, or followed, because nobody answers it in time;
    false without a question."""
    idle_parts: IdleParts | None = None
    """The idle GPUs of a partly idle instance; `None` for other verdicts, if their number is not
    known, and in rows of earlier releases."""

    @property
    def done_by_silence(self) -> str | None:
        """Return what becomes of the instance if nobody answers its open question: `stopped` or
        `terminated`; `None` if nothing does."""
        if not self.acts_on_silence:
            return None
        return TERMINATED if self.verb == "terminate" else STOPPED

    def is_time_to_answer_over(self, now: UtcDatetime) -> bool:
        """Return whether the time to answer its question is over; false if no question was sent."""
        return self.expires_at is not None and self.expires_at <= now

    def without_question(self) -> FleetRow:
        """Return the row without its open question; the episode stays."""
        return replace(
            self, approval_id=None, asked_at=None, expires_at=None, acts_on_silence=False
        )

    @property
    def is_idle(self) -> bool:
        """Return whether the measurements of the instance say that it is idle, even if another
        service runs it, plans are frozen or somebody held the action."""
        kind = known_kind(self.verdict)
        return kind is not None and kind.family is Family.IDLE

    @property
    def is_swept(self) -> bool:
        """Return whether the last sweep judged the instance as a governed one that runs."""
        return self.verdict not in _NOT_RUNNING_GOVERNED


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The rows of one target by its last sweep. `problem` says why the page is incomplete, and
    names no instance."""

    account: str
    region: str
    swept_at: UtcDatetime
    mode: str
    problem: str | None = None
    rows: tuple[FleetRow, ...] = ()

    @property
    def target(self) -> Target:
        """Return the account and Region of the page."""
        return Target(self.account, self.region)


def hours_of(
    past: Hours, hours_passed: int, readings: Iterable[Evidence], now: UtcDatetime
) -> Hours:
    """Return the highest utilization in each of the 24 hours up to `now`.

    `past` are the hours of the earlier row; they are moved on by `hours_passed`, the age of that
    row in hours. A reading counts if it is higher than what its hour has. An hour without either is
    `None`.
    """
    hours: list[float | None] = [*past[hours_passed:], *NOT_MEASURED[:hours_passed]]
    for evidence in readings:
        for hours_ago in range(HOURS):
            start = hour_of(now) - HOUR * hours_ago
            if start + HOUR <= evidence.window.start:
                break
            highest = _highest_in_hour(evidence, start)
            # The last entry is this hour.
            place = -1 - hours_ago
            known = hours[place]
            if highest is not None and (known is None or highest > known):
                hours[place] = highest
    return tuple(None if hour is None else min(100, round(hour)) for hour in hours)


def _highest_in_hour(evidence: Evidence, start: UtcDatetime) -> float | None:
    """Return the highest utilization of any GPU, in percent, in the hour from `start`; `None`
    without a reading."""
    window = evidence.window
    first = max(0, (start - window.start) // window.period)
    last = max(0, (start + HOUR - window.start) // window.period)
    highest = peak(evidence.aggregate[first:last])
    for gpu in evidence.gpus:
        gpu_peak = peak(gpu.utilization[first:last])
        if gpu_peak is not None and (highest is None or gpu_peak > highest):
            highest = gpu_peak
    return highest


@dataclass(frozen=True, slots=True)
class Share:
    """Cost of instances while used, idle, kept by an answer, and not measured."""

    used: Usd = Decimal(0)
    idle: Usd = Decimal(0)
    kept: Usd = Decimal(0)
    unmeasured: Usd = Decimal(0)

    @property
    def total(self) -> Usd:
        """Return the whole cost."""
        return self.used + self.idle + self.kept + self.unmeasured

    def __add__(self, share: Share) -> Share:
        """Return the costs of both, part by part."""
        return Share(
            self.used + share.used,
            self.idle + share.idle,
            self.kept + share.kept,
            self.unmeasured + share.unmeasured,
        )

    def __sub__(self, share: Share) -> Share:
        """Return what is left of these costs without the other ones, part by part."""
        return Share(
            self.used - share.used,
            self.idle - share.idle,
            self.kept - share.kept,
            self.unmeasured - share.unmeasured,
        )


UNMEASURED = "unmeasured"
AMOUNTS: Callable[[Share], tuple[Usd, ...]] = attrgetter(*(part.name for part in fields(Share)))
_PARTS = {Family.WORKING: "used", Family.IDLE: "idle"}


def part_of(kind: VerdictKind | None) -> str:
    """Return the part of a `Share` to which the cost of an instance with this verdict belongs:
    `used`, `idle`, `kept` or `unmeasured`. `None` stands for an instance without a verdict."""
    if kind in KEPT:
        return "kept"
    if kind is None:
        return UNMEASURED
    return _PARTS.get(kind.family, UNMEASURED)


Payer = tuple[str, str]
"""An owner and a project."""
OTHER_JOBS = ""
"""In place of a job: the jobs of an owner and project that were too many to be stored one by one.
No tag can name it."""


class JobKey(NamedTuple):
    """The owner, project and job for which costs are counted."""

    owner: str
    project: str
    job: str | None
    """`OTHER_JOBS` for several; `None` if no job is named."""

    @property
    def payer(self) -> Payer:
        """Return the owner and the project to whom the costs belong."""
        return self.owner, self.project


@dataclass(frozen=True, slots=True)
class DayCosts:
    """Cost of the governed instances of one target on a day (UTC), by owner and project."""

    day: date
    account: str
    region: str
    shares: Mapping[Payer, Share] = field(default_factory=dict)
    jobs: Mapping[JobKey, Share] | None = field(default_factory=dict)
    """The parts of `shares` that belong to named jobs, and to `OTHER_JOBS`; the rest has no job.
    `None` for a day that a release stored which did not count jobs."""
    before_jobs: Mapping[Payer, Share] = field(default_factory=dict)
    """The parts of `shares` that such a release had counted on this day before jobs were."""

    def counted_before_jobs(self, payer: Payer) -> Share:
        """Return the part of the costs of this owner and project that was counted without jobs,
        whatever the tags said; zero if there is none."""
        parts = self.shares if self.jobs is None else self.before_jobs
        return parts.get(payer, Share())

    def plus(self, added_shares: Mapping[JobKey, Share]) -> DayCosts:
        """Return the costs of the day with these shares added. It stores nothing. What an earlier
        release counted without jobs on this day stays without a job, and is known as such."""
        before_jobs = self.shares if self.jobs is None else self.before_jobs
        sums = dict(self.shares)
        jobs = dict(self.jobs or {})
        for key, share in added_shares.items():
            sums[key.payer] = sums.get(key.payer, Share()) + share
            if key.job is not None:
                jobs[key] = jobs.get(key, Share()) + share
        return replace(self, shares=sums, jobs=jobs, before_jobs=before_jobs)

    def by_job(self) -> Iterator[tuple[JobKey, Share]]:
        """Yield the costs of the day by owner, project and job. They add up to `shares`: what
        belongs to no named job comes with the job `None`, also if it is zero."""
        of_jobs: dict[Payer, Share] = defaultdict(Share)
        for key, share in (self.jobs or {}).items():
            yield key, share
            of_jobs[key.payer] += share
        for (owner, project), share in self.shares.items():
            yield JobKey(owner, project, None), share - of_jobs[owner, project]
