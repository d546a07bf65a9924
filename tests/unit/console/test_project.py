"""Projects: what is spent of the budget, when it runs out, and to whom that is shown."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.model.terms import Scope
from governor.console.page import Caller, Page
from governor.console.views.project import project, projects
from governor.core.errors import NotFound
from governor.fleet.model import DayCosts, JobKey, Share
from governor.fleet.store import replace_day_write
from governor.money.rules.cost import DAY, Meter, month_end
from governor.policy.model.money import Budget
from governor.policy.model.policy import Policy
from tests.builders import NOW
from tests.console_world import TARGETS, ConsoleWorld, asked, caller, html, make_row

OWNER = caller(Scope(owners=frozenset({"ml-team"})))


def show(world: ConsoleWorld, who: Caller | None = None, name: str = "vision") -> Page:
    return project(world.asked(who, name=name))


def world_with(spent: int, usd_per_hour: str = "10", budget: int | None = 1000) -> ConsoleWorld:
    """A project that has spent so much today, a fifth of it idle, and runs one instance."""
    world = ConsoleWorld(
        Policy(budget=Budget(monthly_usd=None if budget is None else Decimal(budget)))
    )
    share = Share(Decimal(spent) * 4 / 5, Decimal(spent) / 5)
    world.spend(NOW.date(), {("ml-team", "vision"): share})
    world.state.bring_forward(Meter(TARGETS[0], "2026-11", NOW, {"vision": Decimal(spent)}), None)
    world.keep(asked(make_row(1, usd_per_hour=Decimal(usd_per_hour))))
    return world


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (world_with(500), "runs out Nov 22"),
        (world_with(500, "0.5"), "to the end of the month if everything keeps running"),
        (world_with(1200), "$200 over"),
        (world_with(500, "0"), "to the end of the month"),
        (world_with(500, budget=None), "No budget is set that you may see"),
    ],
)
def test_the_budget_says_when_it_runs_out(world: ConsoleWorld, said: str) -> None:
    """At the rate of this moment, in the reader's zone."""
    assert said in html(project, world, name="vision")


def test_the_month_is_forecast_by_past_weeks_beside_the_flat_rate() -> None:
    """With its median error; a month's sum stays that of the month."""
    world = world_with(500)
    assert "Forecast: not known before two weeks of costs" in html(project, world, name="vision")
    assert show(world).document["forecast_usd"] is None

    for back in range(1, 43):
        world.spend(NOW.date() - DAY * back, {("ml-team", "vision"): Share(Decimal(24))})
    document: Any = show(world).document
    shown = html(project, world, name="vision")

    days, left = NOW.day - 1, (month_end(NOW) - NOW) / timedelta(hours=1)
    spent = 500 + 24 * days
    assert (spent, 0) == (document["spent_usd"], document["forecast_error_percent"])
    assert round(spent + left) == round(document["forecast_usd"])
    assert round(spent + 10 * left) == round(document["flat_forecast_usd"])
    assert "at the pace of recent weeks (median error 0%)" in shown
    assert Decimal(spent) == projects(world.asked()).tables[0].rows[0][3]


def test_what_is_metered_before_days_were_stored_counts() -> None:
    """A release that begins to store days within a month does not forget the days before."""
    world = world_with(500)
    meter = Meter(TARGETS[1], "2026-11", NOW, {"vision": Decimal(70)})
    world.state.bring_forward(meter, None)

    assert Decimal(570) == show(world).document["spent_usd"]
    shown = html(project, world, name="vision")
    earlier = shown[shown.index("earlier days") :]
    assert "not measured" in earlier[: earlier.index("</tr>")]


def test_earlier_days_that_round_to_nothing_are_no_line() -> None:
    """The month's sum may differ from that of its days by less than a cent."""
    world = world_with(500)
    meter = Meter(TARGETS[1], "2026-11", NOW, {"vision": Decimal("0.004")})
    world.state.bring_forward(meter, None)

    assert "earlier days" not in html(project, world, name="vision")


def test_who_sees_a_part_of_a_project_sees_no_budget_and_no_foreign_cost() -> None:
    """The budget is the whole project's, and so is its meter."""
    world = world_with(500)
    world.spend(NOW.date(), {("rivals", "vision"): Share(Decimal(300))}, TARGETS[1])
    world.state.bring_forward(Meter(TARGETS[1], "2026-11", NOW, {"vision": Decimal(300)}), None)
    part, whole = show(world, OWNER).document, show(world).document

    assert (Decimal(500), None) == (part["spent_usd"], part["budget_usd"])
    assert (Decimal(800), Decimal(1000)) == (whole["spent_usd"], whole["budget_usd"])


def test_projects_are_listed_with_the_most_expensive_on_top() -> None:
    """One without a cost, and one without an instance, too."""
    world = world_with(500)
    world.keep(make_row(2), make_row(3, project="new"))
    world.spend(NOW.date(), {("research", "llm"): Share(Decimal(900))}, TARGETS[1])
    page = projects(world.asked())

    assert ["llm", "vision", "new"] == [row[0] for row in page.tables[0].rows]
    listed: Any = projects(world.asked(OWNER)).document["projects"]
    assert ["vision", "new"] == [one["project"] for one in listed]


@pytest.mark.parametrize("name", ["x" * 300, "مثيل", "a/b?c=<script>", "\U0001f680"])
def test_a_project_of_any_name_has_a_page_and_links(name: str) -> None:
    """Its name is text wherever it stands."""
    world = ConsoleWorld()
    world.keep(replace(make_row(1), project=name))
    found = html(project, world, name=name) + html(projects, world)

    assert name == show(world, name=name).title
    assert "<script>alert" not in found
    assert "c=<script>" not in found


def test_a_project_of_which_nothing_is_seen_is_not_found() -> None:
    """As one that does not exist."""
    for who, name in ((OWNER, "llm"), (caller(), "none")):
        with pytest.raises(NotFound):
            show(world_with(5), who, name)


def jobs_world() -> ConsoleWorld:
    """A project whose cost of today is split by job, with an older day that has no jobs."""
    world = world_with(0)
    day = DayCosts(NOW.date(), TARGETS[0].account, TARGETS[0].region).plus(
        {
            JobKey("ml-team", "vision", "=1+1"): Share(Decimal("30.004"), idle=Decimal("10.003")),
            JobKey("ml-team", "vision", "<script>🚀"): Share(Decimal("20.004")),
            JobKey("rivals", "vision", "secret"): Share(Decimal(500)),
            JobKey("ml-team", "vision", None): Share(Decimal("5.004")),
            JobKey("ml-team", "llm", "other"): Share(Decimal(70)),
        }
    )
    world.table.write(replace_day_write(day))
    early = {("ml-team", "vision"): Share(Decimal("9.004"))}
    costs = DayCosts(NOW.date() - DAY, TARGETS[0].account, TARGETS[0].region, early, jobs=None)
    world.table.write(replace_day_write(costs))
    return world


def test_the_cost_of_a_project_is_shown_by_job() -> None:
    """The rows add up to what was spent, in JSON, in CSV and on the page; what has no job says
    why."""
    world = jobs_world()
    shown = html(project, world, OWNER, name="vision")
    page = show(world, OWNER)
    document: Any = page.document

    spent = sum(Decimal(str(job["usd"])) for job in document["jobs"])
    assert Decimal("74.02") == spent == document["spent_usd"].quantize(Decimal("0.01"))
    assert ["=1+1", "<script>🚀", "no job named"] == [job["job"] for job in document["jobs"]]
    rows = list(csv.DictReader(io.StringIO(page.tables[1].csv, newline="")))
    assert spent == sum(Decimal(row["x_CostUsd"]) for row in rows)
    assert "'=1+1" == rows[0]["x_Job"]
    for text in ("40.01", "20.00", "14.01", "74.02", "$9.00 of it is from days before jobs"):
        assert text in shown
    assert "<script>🚀" not in shown
    assert "secret" not in shown
    assert "vision.csv?table=jobs" in shown


def test_what_is_metered_before_days_were_stored_has_no_job() -> None:
    """So that the rows add up to the sum of the month."""
    world = jobs_world()
    meter = Meter(TARGETS[1], "2026-11", NOW, {"vision": Decimal(1000)})
    world.state.bring_forward(meter, None)
    document: Any = show(world).document

    spent = sum(Decimal(str(job["usd"])) for job in document["jobs"])
    assert Decimal(1000) == spent == document["spent_usd"]
    no_job = document["jobs"][-1]
    assert "from days before jobs were counted" in no_job["note"]


def test_many_jobs_are_shortened_to_rows_that_still_add_up() -> None:
    """The page names 25, the CSV all of them."""
    world = world_with(0)
    shares = {
        JobKey("ml-team", "vision", f"job-{number}"): Share(Decimal("1.005"))
        for number in range(30)
    }
    day = DayCosts(NOW.date(), TARGETS[0].account, TARGETS[0].region).plus(shares)
    world.table.write(replace_day_write(day))
    shown = html(project, world, name="vision")

    assert "5 more jobs" in shown
    assert 25 == shown.count("<bdi>job-")
    assert 30 == len(show(world).tables[1].rows)


def test_a_project_that_names_no_job_has_no_table_of_jobs() -> None:
    """JSON and CSV have one row."""
    world = world_with(500)
    document: Any = show(world).document

    assert "Cost by job" not in html(project, world, name="vision")
    assert ["no job named"] == [job["job"] for job in document["jobs"]]
