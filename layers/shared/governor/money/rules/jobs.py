"""The cost of each project by job, in whole cents that add up to the cost of the project.

The mail, the command line, the copy in S3 and the console all show these amounts: none of them may
round or add up amounts of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import NamedTuple

from governor.core.units import Usd, money, plural
from governor.fleet.model import OTHER_JOBS, DayCosts, JobKey, Share

_CENT = Decimal("0.01")
_TENTH = Decimal("0.1")
_NO_TAG = "no tag of money.job_tag_keys names a job"
_BEFORE_JOBS = "from days before jobs were counted"


class JobKind(StrEnum):
    """The kind of a row. A tag may have the words of a sum as its value, so the words alone do not
    say whether a row is one job."""

    NAMED = "job"
    MORE = "more-jobs"
    """The sum of jobs that a short list does not name."""
    OTHERS = "other-jobs"
    """The sum of jobs that were too many to be stored one by one."""
    NONE = "no-job-named"


_SUMS = {JobKind.OTHERS: "other jobs", JobKind.NONE: "no job named"}
_NOTES = {JobKind.OTHERS: "the least expensive jobs of days with too many to store each"}


class CountedCost(NamedTuple):
    """One stored amount of a project."""

    project: str
    job: str | None
    """`OTHER_JOBS` for several; `None` if no job is named."""
    share: Share
    is_before_jobs: bool = False
    """True if it was stored without jobs, whatever the tags said."""


def counted_costs(costs: DayCosts) -> Iterator[tuple[JobKey, CountedCost]]:
    """Yield the costs of a day by owner, project and job. What was counted before costs had jobs is
    a cost of its own. Together they are the costs of the day."""
    for key, share in costs.by_job():
        before_jobs = Share()
        if key.job is None:
            before_jobs = costs.counted_before_jobs(key.payer)
        yield key, CountedCost(key.project, key.job, share - before_jobs)
        if before_jobs.total:
            yield key, CountedCost(key.project, None, before_jobs, is_before_jobs=True)


class JobCost(NamedTuple):
    """The cost of one job of a project, or a sum of several."""

    kind: JobKind
    name: str
    usd: Usd
    """In whole cents, as `idle_usd`."""
    idle_usd: Usd
    note: str = ""
    """Why the costs have no job of their own; empty for one job."""

    @property
    def idle_percent(self) -> Decimal | None:
        """Return the idle share, in percent with one decimal; `None` if there is no cost."""
        if not self.usd:
            return None
        return (100 * self.idle_usd / self.usd).quantize(_TENTH, ROUND_HALF_UP)

    @property
    def document(self) -> dict[str, object]:
        """Return the row as a document for JSON."""
        return {
            "job": self.name,
            "kind": self.kind.value,
            "usd": self.usd,
            "idle_usd": self.idle_usd,
            "idle_percent": self.idle_percent,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class ProjectJobs:
    """The cost of one project, in whole cents, and of its jobs, which add up to it.

    Jobs come first, the most expensive before the others; then `other jobs`, then `no job named`.
    """

    project: str
    usd: Usd
    idle_usd: Usd
    jobs: tuple[JobCost, ...]

    @property
    def names_a_job(self) -> bool:
        """Return whether any of the cost belongs to a job."""
        return any(job.kind is not JobKind.NONE for job in self.jobs)

    @property
    def document(self) -> dict[str, object]:
        """Return the project with its jobs as a document for JSON."""
        return {
            "project": self.project,
            "usd": self.usd,
            "idle_usd": self.idle_usd,
            "jobs": [job.document for job in self.jobs],
        }

    def shortened(self, most: int) -> tuple[JobCost, ...]:
        """Return the first `most` jobs, the sum of the jobs after them as one row, and the sums
        that have no job. They still add up to the project."""
        named = [job for job in self.jobs if job.kind is JobKind.NAMED]
        sums = [job for job in self.jobs if job.kind is not JobKind.NAMED]
        left_out = named[most:]
        if not left_out:
            return self.jobs
        rest = JobCost(
            JobKind.MORE,
            plural(len(left_out), "more job"),
            sum((job.usd for job in left_out), Decimal(0)),
            sum((job.idle_usd for job in left_out), Decimal(0)),
        )
        return (*named[:most], rest, *sums)


COLUMNS = (
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "x_Project",
    "x_Job",
    "x_JobKind",
    "x_CostUsd",
    "x_IdleUsd",
    "x_IdlePercent",
    "x_Note",
)
"""Columns of a row for CSV, named as those of the report."""


def rows_of(
    projects: Iterable[ProjectJobs], start: object, end: object
) -> tuple[tuple[object, ...], ...]:
    """Return a row with the values of `COLUMNS` for each job of these projects in the time from
    `start` to `end`; empty if there are none. The job is `None` for a sum that is no job."""
    rows = []
    for project in projects:
        for job in project.jobs:
            name = job.name if job.kind is JobKind.NAMED else None
            rows.append(
                (
                    start,
                    end,
                    project.project,
                    name,
                    job.kind.value,
                    job.usd,
                    job.idle_usd,
                    job.idle_percent,
                    job.note or None,
                )
            )
    return tuple(rows)


def costs_by_job(costs: Iterable[CountedCost]) -> tuple[ProjectJobs, ...]:
    """Return the cost of each project with its jobs, the most expensive project first; empty
    without costs."""
    by_project: dict[str, dict[str | None, Share]] = defaultdict(lambda: defaultdict(Share))
    before_jobs: dict[str, Usd] = defaultdict(Decimal)
    for cost in costs:
        by_project[cost.project][cost.job] += cost.share
        if cost.is_before_jobs:
            before_jobs[cost.project] += cost.share.total
    projects = []
    for project, shares in by_project.items():
        projects.append(_project_jobs(project, shares, before_jobs[project]))
    projects.sort(key=lambda one: (-one.usd, one.project))
    return tuple(projects)


def _project_jobs(
    project: str, shares: Mapping[str | None, Share], before_jobs_usd: Usd
) -> ProjectJobs:
    """Return the cost of a project by job. `shares` are its exact costs by job, and
    `before_jobs_usd` is how much of them was stored without jobs."""
    keys = sorted(shares, key=lambda job: _order_of(job, shares[job]))
    idle = [shares[job].idle for job in keys]
    not_idle = [shares[job].total - shares[job].idle for job in keys]
    idle_usd = _rounded(sum(idle, Decimal(0)))
    usd = _rounded(sum(idle, Decimal(0)) + sum(not_idle, Decimal(0)))
    # Idle and not idle are rounded apart, so that no job has more idle cost than cost.
    idle_cents = in_cents(idle, idle_usd)
    not_idle_cents = in_cents(not_idle, usd - idle_usd)
    jobs = []
    for job, job_idle, job_not_idle in zip(keys, idle_cents, not_idle_cents, strict=True):
        kind = _kind_of(job)
        job_usd = job_idle + job_not_idle
        if kind is JobKind.NONE and len(keys) > 1 and not job_usd:
            continue
        note = _NOTES.get(kind, "")
        if kind is JobKind.NONE:
            note = _why_no_job(job_usd, _rounded(before_jobs_usd))
        jobs.append(JobCost(kind, _SUMS.get(kind, job or ""), job_usd, job_idle, note))
    return ProjectJobs(project, usd, idle_usd, tuple(jobs))


def _kind_of(job: str | None) -> JobKind:
    """Return the kind of the row of a stored job."""
    if job is None:
        return JobKind.NONE
    return JobKind.OTHERS if job == OTHER_JOBS else JobKind.NAMED


def _order_of(job: str | None, share: Share) -> tuple[int, Usd, str]:
    """Return a sort key: jobs before sums, the most expensive first, then by name."""
    place = list(JobKind).index(_kind_of(job))
    return place, -share.total, job or ""


def _why_no_job(usd: Usd, before_jobs_usd: Usd) -> str:
    """Return why so many USD have no job, `before_jobs_usd` of which were stored without jobs."""
    if before_jobs_usd <= 0:
        return _NO_TAG
    if before_jobs_usd >= usd:
        return _BEFORE_JOBS
    return f"{_NO_TAG}; ${money(before_jobs_usd)} of it is {_BEFORE_JOBS}"


def in_cents(amounts: Sequence[Usd], total: Usd) -> list[Usd]:
    """Return the amounts in whole cents, so that they add up to `total`, their sum in whole cents,
    rounded in any way. Each is rounded down or up by less than a cent: the largest remainders are
    rounded up, and of equal ones the first."""
    rounded_down = [amount.quantize(_CENT, ROUND_FLOOR) for amount in amounts]
    remainders = [amount - lower for amount, lower in zip(amounts, rounded_down, strict=True)]
    cents_left = int((total - sum(rounded_down, Decimal(0))) / _CENT)
    places = sorted(range(len(amounts)), key=lambda place: -remainders[place])
    cents = list(rounded_down)
    for place in places[:cents_left]:
        cents[place] += _CENT
    return cents


def _rounded(amount: Usd) -> Usd:
    """Return an amount in whole cents, rounded half up."""
    return amount.quantize(_CENT, ROUND_HALF_UP)
