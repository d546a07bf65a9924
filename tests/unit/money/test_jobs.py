"""The cost of a project by job: whatever is shown adds up to the project, to the cent."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.report import shown_jobs
from governor.alerts.model import UNASSIGNED, Owner
from governor.core.documents import csv_text, plain
from governor.fleet.model import OTHER_JOBS, DayCosts, JobKey, Share
from governor.fleet.store import MOST_JOBS, Fleet, replace_day_write
from governor.money.messages import report_alert
from governor.money.report_savings import Books, ReportFilter
from governor.money.rules.jobs import (
    COLUMNS,
    CountedCost,
    JobCost,
    JobKind,
    ProjectJobs,
    costs_by_job,
)
from governor.money.rules.report import Report, report
from governor.money.store.ledger import Ledger
from governor.notify.compose import message_of
from governor.notify.email import fitting
from governor.scan.for_reports import FoundByScans
from governor.scan.store import Scans
from governor.table.table import Table
from tests.builders import NOW, TARGET
from tests.unit.worlds.fleet_world import FleetWorld

MONTH = datetime(2026, 11, 1, tzinfo=UTC)
COUNTS_FOR = timedelta(days=30)
AMOUNTS = st.decimals("0", "5000", places=9, allow_nan=False)
SHARES = st.builds(Share, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
NAMES = st.sampled_from(
    ["train", "eval", "=1+1", "+a", "-b", "@c", "a, b", 'say "x"', "🚀", "no job named", "<b>"]
)
COSTS = st.lists(
    st.builds(
        CountedCost,
        st.sampled_from(["vision", "llm", UNASSIGNED]),
        NAMES | st.none() | st.just(OTHER_JOBS),
        SHARES,
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


def books_of(table: Table) -> Books:
    """Return the books over a table, in which no scan was stored."""
    fleet_store = Fleet(table)
    found = FoundByScans(Scans(table), fleet_store, [TARGET])
    return Books(Ledger(table), fleet_store, COUNTS_FOR, found)


def report_of(costs: Sequence[CountedCost]) -> Report:
    """The report of a month with these costs, and nothing else."""
    return report([], costs, MONTH, NOW, NOW, COUNTS_FOR)


def in_cents(amount: Decimal) -> Decimal:
    """Rounded as everywhere."""
    return amount.quantize(Decimal("0.01"), ROUND_HALF_UP)


def exact(costs: Iterable[CountedCost]) -> dict[str, tuple[Decimal, Decimal]]:
    """Cost and idle cost of each project, rounded once."""
    sums: dict[str, Share] = {}
    for cost in costs:
        sums[cost.project] = sums.get(cost.project, Share()) + cost.share
    return {name: (in_cents(share.total), in_cents(share.idle)) for name, share in sums.items()}


def sums_of(rows: Iterable[tuple[str, Decimal, Decimal]]) -> dict[str, tuple[Decimal, Decimal]]:
    """The sums of these rows of project, USD and idle USD."""
    sums: dict[str, tuple[Decimal, Decimal]] = {}
    for project, usd, idle_usd in rows:
        before, idle_before = sums.get(project, (Decimal(0), Decimal(0)))
        sums[project] = (before + usd, idle_before + idle_usd)
    return sums


def amounts(job: Mapping[str, Any], usd: str, idle_usd: str) -> tuple[Decimal, Decimal]:
    """The amounts of a row that was read from a text."""
    return Decimal(job[usd]), Decimal(job[idle_usd])


@given(COSTS)
def test_the_jobs_add_up_to_their_project_in_every_format(costs: list[CountedCost]) -> None:
    """Figures, CSV, JSON, the table and the text of the mail; cost and idle cost, to the cent."""
    whole = report_of(costs)
    expected = exact(costs)

    assert expected == {one.project: (one.usd, one.idle_usd) for one in whole.projects}
    for most in (0, 1, 100):
        assert expected == sums_of(
            (one.project, job.usd, job.idle_usd)
            for one in whole.projects
            for job in one.shortened(most)
        )
    rows = csv.DictReader(io.StringIO(csv_text(COLUMNS, whole.job_rows), newline=""))
    assert expected == sums_of(
        (row["x_Project"], *amounts(row, "x_CostUsd", "x_IdleUsd")) for row in rows
    )
    document = json.loads(json.dumps(whole.document, default=plain))
    assert expected == sums_of(
        (one["project"], *amounts(job, "usd", "idle_usd"))
        for one in document["projects"]
        for job in one["jobs"]
    )
    for job in [job for one in whole.projects for job in one.jobs]:
        assert 0 <= job.idle_usd <= job.usd


@given(COSTS)
def test_the_amounts_of_the_mail_add_up_too(costs: list[CountedCost]) -> None:
    """Five jobs are named, the others are one sum. A project without a job has no line."""
    whole = report_of(costs)
    alert = report_alert(
        whole, "month-2026-11", TARGET, NOW, Owner("x", UNASSIGNED), is_everything=True
    )

    expected = exact(costs)
    lines = [line for line in alert.lines if line.startswith("Cost by job in ")]
    assert sum(one.names_a_job for one in whole.projects) == len(lines)
    for line in lines:
        name, rest = line.removeprefix("Cost by job in ").split(" ($", 1)
        project = name.removeprefix("project ").replace("instances without a project", UNASSIGNED)
        usd = [
            Decimal(text.replace(",", "")) for text in re.findall(r"\$([\d,]+\.\d\d)", f"${rest}")
        ]
        assert [expected[project][0]] == usd[:1] == [sum(usd[1:], Decimal(0))]


def test_thirds_of_a_cent_add_up() -> None:
    """Three jobs of a third of a dollar each are 0.34, 0.33 and 0.33."""
    third = Share(Decimal("0.333333333"))
    costs = [CountedCost("vision", name, third) for name in ("a", "b", "c")]

    [vision] = costs_by_job(costs)

    assert (Decimal("1.00"), Decimal("0.00")) == (vision.usd, vision.idle_usd)
    assert ["0.34", "0.33", "0.33"] == [str(job.usd) for job in vision.jobs]


def test_jobs_come_first_the_most_expensive_on_top_then_the_sums() -> None:
    """A tag that has the words of a sum is still a job, and says so."""
    costs = [
        CountedCost("vision", None, Share(Decimal(900))),
        CountedCost("vision", OTHER_JOBS, Share(Decimal(700))),
        CountedCost("vision", "no job named", Share(Decimal(1))),
        CountedCost("vision", "train", Share(Decimal(6), idle=Decimal(2))),
        CountedCost("llm", None, Share(Decimal(5000))),
    ]

    llm, vision = costs_by_job(costs)

    assert [
        (JobKind.NAMED, "train", Decimal(8), Decimal("25.0")),
        (JobKind.NAMED, "no job named", Decimal(1), Decimal("0.0")),
        (JobKind.OTHERS, "other jobs", Decimal(700), Decimal("0.0")),
        (JobKind.NONE, "no job named", Decimal(900), Decimal("0.0")),
    ] == [(job.kind, job.name, job.usd, job.idle_percent) for job in vision.jobs]
    assert (True, False) == (vision.names_a_job, llm.names_a_job)
    assert ["train", "1 more job", "other jobs", "no job named"] == [
        job.name for job in vision.shortened(1)
    ]


@pytest.mark.parametrize(
    ("before_jobs", "since", "note"),
    [
        (0, 5, "no tag of money.job_tag_keys names a job"),
        (5, 0, "from days before jobs were counted"),
        (
            2,
            3,
            "no tag of money.job_tag_keys names a job; $2.00 of it is from days before jobs "
            "were counted",
        ),
    ],
)
def test_costs_without_a_job_say_why(before_jobs: int, since: int, note: str) -> None:
    """Days that an earlier release stored have no jobs, whatever the tags said."""
    costs = [
        CountedCost("vision", None, Share(Decimal(before_jobs)), is_before_jobs=True),
        CountedCost("vision", None, Share(Decimal(since))),
    ]

    [vision] = costs_by_job(costs)

    assert (JobCost(JobKind.NONE, "no job named", Decimal(5), Decimal(0), note),) == vision.jobs


HOSTILE = ("=HYPERLINK(1)", "+1", "-1", "@sum", "a, b; c", "🚀 run", "<script>x</script>")


def test_no_name_of_a_job_is_run_or_read_as_anything_else() -> None:
    """A formula in a spreadsheet, a column of its own, or a tag in HTML."""
    costs = [CountedCost("vision", name, Share(Decimal(1))) for name in HOSTILE]
    whole = report_of(costs)
    rows = list(csv.DictReader(io.StringIO(csv_text(COLUMNS, whole.job_rows), newline="")))
    alert = report_alert(
        whole, "month-2026-11", TARGET, NOW, Owner("x", "vision"), is_everything=False
    )
    _, page = fitting(message_of(alert, None, link=None))

    assert {"'=HYPERLINK(1)", "'+1", "'-1", "'@sum"} <= {row["x_Job"] for row in rows}
    assert {"a, b; c", "🚀 run", "<script>x</script>"} <= {row["x_Job"] for row in rows}
    assert ["1.00"] * len(HOSTILE) == [row["x_CostUsd"] for row in rows]
    assert "<script>x" not in page
    assert "🚀 run" in shown_jobs(whole, "table")


TAGS = {"Purpose": "GPU-Workload", "Project": "vision"}


def by_job(projects: Iterable[ProjectJobs]) -> dict[tuple[str, str], tuple[str, str]]:
    """Cost and idle cost by project and row."""
    return {
        (one.project, job.name): (str(job.usd), str(job.idle_usd))
        for one in projects
        for job in one.jobs
    }


def test_from_the_sweep_to_the_report() -> None:
    """Instances are swept, the day is stored, and the report and its files name the jobs; a day
    that an earlier release stored has none, and its cost is in the sum."""
    world = FleetWorld()
    started = NOW - timedelta(hours=2)
    for number, (tags, load) in enumerate(
        [
            ({**TAGS, "Job": "finetune"}, 90.0),
            ({**TAGS, "Job": "finetune"}, 0.0),
            ({**TAGS, "job": "=cmd, 🚀"}, 90.0),
            (TAGS, 90.0),
            ({"Purpose": "GPU-Workload", "Job": "nightly"}, 90.0),
        ],
        1,
    ):
        world.add(number, [load] * 12, tags=tags, launch_time=started)
    world.sweep()
    early = DayCosts(
        date(2026, 11, 3),
        TARGET.account,
        TARGET.region,
        {(UNASSIGNED, "vision"): Share(idle=Decimal(7))},
        jobs=None,
    )
    table = world.state._table
    table.transact(replace_day_write(early))
    assert early == Fleet(table).days("2026-11")[0]

    books = books_of(table)
    whole = books.report(MONTH, NOW, NOW, ReportFilter())

    assert {
        ("vision", "finetune"): ("4.03", "2.01"),
        ("vision", "=cmd, 🚀"): ("2.01", "0.00"),
        ("vision", "no job named"): ("9.01", "7.00"),
        (UNASSIGNED, "nightly"): ("2.01", "0.00"),
    } == by_job(whole.projects)
    assert in_cents(whole.costs.total) == sum(one.usd for one in whole.projects)
    assert "$7.00 of it is from days before jobs were counted" in shown_jobs(whole, "csv")
    assert "(no job named)" in shown_jobs(whole, "table")
    only = books.report(MONTH, NOW, NOW, ReportFilter(project=UNASSIGNED))
    assert {(UNASSIGNED, "nightly"): ("2.01", "0.00")} == by_job(only.projects)


def test_the_day_of_the_update_says_what_it_counted_before_jobs() -> None:
    """Its first hours have no jobs, whatever the tags said, and its last ones have."""
    state = FleetWorld().state
    early = DayCosts(
        date(2026, 11, 1),
        TARGET.account,
        TARGET.region,
        {("alice", "vision"): Share(Decimal(7))},
        jobs=None,
    )
    added = {
        JobKey("alice", "vision", "train"): Share(Decimal(5)),
        JobKey("alice", "vision", None): Share(Decimal(2)),
    }
    state._table.transact(replace_day_write(early.plus(added)))

    [vision] = books_of(state._table).report(MONTH, NOW, NOW, ReportFilter()).projects

    assert [Decimal(5), Decimal(9)] == [job.usd for job in vision.jobs]
    assert "$7.00 of it is from days before jobs were counted" in vision.jobs[-1].note


def test_names_of_tags_control_no_terminal() -> None:
    """Anyone who tags an instance names its project and its job."""
    costs = [
        CountedCost("\x1b[2Jvision", "\x1b[31meval", Share(Decimal(1))),
        CountedCost("\x1b[2Jvision", None, Share(Decimal(2))),
    ]
    text = shown_jobs(report_of(costs), "table")

    assert "eval" in text
    assert "vision, no job named: " in text
    assert "\x1b" not in text


def test_more_jobs_than_a_day_names_are_summed_up_in_the_report() -> None:
    """And the row says so."""
    state = FleetWorld().state
    shares = {
        JobKey("alice", "vision", f"job-{number}"): Share(Decimal(number + 1))
        for number in range(MOST_JOBS + 5)
    }
    day = DayCosts(date(2026, 11, 3), TARGET.account, TARGET.region).plus(shares)
    state._table.transact(replace_day_write(day))

    whole = books_of(state._table).report(MONTH, NOW, NOW, ReportFilter())

    [vision] = whole.projects
    others = vision.jobs[-1]
    assert (JobKind.OTHERS, Decimal(15)) == (others.kind, others.usd)
    assert "too many" in others.note
    assert MOST_JOBS + 1 == len(vision.jobs)
    assert sum(share.total for share in shares.values()) == vision.usd
